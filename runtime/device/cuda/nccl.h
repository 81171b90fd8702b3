/* runtime/device/cuda/nccl.h - NCCL as an engine of communication.
 *
 * Operations go to a queue of their own.  Each begins when the device has done what was asked of it before, and waiting
 * for one means that the device waits, not the host; the host waits for the device alone, and asks NCCL meanwhile
 * whether a rank has failed.  So they can be part of a captured request, on all ranks alike as NCCL wants it, once each
 * has been made without: then NCCL has connected what they need, and asks the driver from this thread.  How far the
 * queue has come is told by words that it writes (marks.c).  Communicators do not block: every call is followed until
 * it has happened, so that a rank that waits for another one sees that it has died.
 *
 * Groups that share no rank and follow each other, as those of a family do, are one split of the communicator of all.
 *
 * Floats are summed in NCCL's order.  Blocks are contiguous and reductions those that NCCL has (ir/legal_comm.h).
 */
#ifndef APC_RUNTIME_DEVICE_CUDA_NCCL_H
#define APC_RUNTIME_DEVICE_CUDA_NCCL_H

#include "runtime/device/cuda/cuda.h"

/* What all ranks agree on before, over `host`: the library is there for all of them; whether they capture requests. Its
 * handle is given over. */
RtStatus gpu_nccl_open(CudaDevice *d, const CudaNccl *api, Comm *host, int everyone, const CommOptions *options,
                       bool captures, Comm **out, RtError *error);

#endif
