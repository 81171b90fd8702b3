/* runtime/device/cuda/comm.c - chooses the engine that moves bytes between GPUs: NCCL if all ranks have it; else, or on
 * demand, the host's collectives through host memory (runtime/device/staged.h). */
#include <stdlib.h>

#include "runtime/device/staged.h"
#include "runtime/device/cuda/library.h"
#include "runtime/device/cuda/nccl.h"

/* Makes a group of all ranks in the host's engine. */
static RtStatus group_all(Comm *host, int ranks, int *group, RtError *error) {
  int *members = malloc((size_t)ranks * sizeof *members);
  if (!members) return rt_error(error, RT_FAILED, "out of memory");
  for (int i = 0; i < ranks; i++) members[i] = i;
  RtStatus status = comm_group(host, members, ranks, group, error);
  free(members);
  return status;
}

/* Sets *value to the least value of all ranks. */
static RtStatus agree(Comm *host, int group, int32_t *value, RtError *error) {
  CommBlock block = comm_contiguous(0, sizeof *value);
  int32_t mine = *value;
  CommTicket ticket;
  CommOp op = {.kind = COMM_all_reduce,
               .group = group,
               .dtype = DT_i32,
               .reduction = COMM_RED_min,
               .src = &mine,
               .dst = value,
               .send = &block,
               .recv = &block};
  RtStatus status = comm_enqueue(host, 0, &op, &ticket, error);
  return status ? status : comm_wait(host, ticket, error);
}

RtStatus gpu_comm(Device *device, Comm *host, const CommOptions *options, bool staged, Comm **out, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  CudaNccl api = {0};
  int version = 0, everyone, ranks = (int)d->p->ranks;
  int32_t captures = !d->options.eager;
  RtStatus status = staged ? RT_OK : gpu_open_nccl(d->driver_version, &api, &version, error);
  int32_t has = !staged && !status;
  if (status && version == GPU_NOT_THERE) status = RT_OK; /* an installed NCCL that does not work is an error */
  if (!status) status = group_all(host, ranks, &everyone, error);
  if (!status) status = agree(host, everyone, &has, error);
  if (!status) status = agree(host, everyone, &captures, error);
  if (!status && has) return gpu_nccl_open(d, &api, host, everyone, options, captures, out, error);
  gpu_close_library(api.handle);
  return status ? status : staged_open(device, host, options, out, error);
}
