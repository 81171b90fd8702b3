/* runtime/device/cuda/nccl.h - NCCL as an engine of communication.
 *
 * Operations go to a queue of their own.  Each begins when the device has done the calls before it.  Waiting for an
 * operation makes the device wait, not the host; the host waits only for the device, and meanwhile asks NCCL whether a
 * rank has failed.  So operations can be part of a captured request, on all ranks alike as NCCL requires, once each has
 * run without a capture: then NCCL has opened its connections, which takes driver calls from this thread.  Words that
 * the queue writes show its progress (marks.c).  Communicators do not block: every call is polled until it is complete,
 * so that a rank that waits for another one sees its death.
 *
 * Consecutive groups that share no rank, as those of a family do, are one split of the communicator of all ranks.
 *
 * Floats are summed in NCCL's order.  Blocks are contiguous, and reductions are those that NCCL has (ir/legal_comm.h).
 */
#ifndef APC_RUNTIME_DEVICE_CUDA_NCCL_H
#define APC_RUNTIME_DEVICE_CUDA_NCCL_H

#include "runtime/device/cuda/cuda.h"

/* Opens the engine, after all ranks have agreed over `host` that each has the library, and whether they capture
 * requests.  Takes ownership of the library's handle, even on errors. */
RtStatus gpu_nccl_open(CudaDevice *d, const CudaNccl *api, Comm *host, int everyone, const CommOptions *options,
                       bool captures, Comm **out, RtError *error);

#endif
