/* runtime/comm/cpu.h - the collectives of CPU ranks, over any transport; see cpu.c. */
#ifndef APC_RUNTIME_COMM_CPU_H
#define APC_RUNTIME_COMM_CPU_H

#include "runtime/comm/comm.h"

/* Opens the CPU engine over a transport and takes ownership of it: comm_close closes it, and so does a failed open.
 * options may be NULL.  RT_FAILED without memory. */
RtStatus comm_cpu_open(Transport *transport, const CommOptions *options, Comm **out, RtError *error);

#endif
