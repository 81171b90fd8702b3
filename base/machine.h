/* base/machine.h - facts of the machine this process runs on. */
#ifndef APC_BASE_MACHINE_H
#define APC_BASE_MACHINE_H

#include <stdint.h>

/* Bytes of memory this process may use: the machine's, or less if a control group (a container) limits it.
 * UINT64_MAX if unknown. */
uint64_t machine_memory(void);

#endif
