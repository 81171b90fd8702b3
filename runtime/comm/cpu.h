/* runtime/comm/cpu.h - the collectives of CPU ranks, over any transport; see cpu.c. */
#ifndef APC_RUNTIME_COMM_CPU_H
#define APC_RUNTIME_COMM_CPU_H

#include "runtime/comm/comm.h"

/* Takes over the transport: closed by comm_close, also when opening fails. */
RtStatus comm_cpu_open(Transport *transport, const CommOptions *options, Comm **out, RtError *error);

#endif
