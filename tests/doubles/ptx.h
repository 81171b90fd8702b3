/* tests/doubles/ptx.h - reads the kernels that a PTX text describes, as the driver's compiler does. */
#ifndef APC_TESTS_DOUBLES_PTX_H
#define APC_TESTS_DOUBLES_PTX_H

#include "tests/doubles/cubin.h"

/* Returns NULL, or a description of the fault, like cubin_read.  The text ends with a zero. */
const char *ptx_read(const char *text, Cubin *out);

#endif
