/* runtime/device/cuda/nccl_internal.h - shared by the files of the engine: nccl.c (communicators, order of positions)
 * and nccl_ask.c (one operation as calls of NCCL). */
#ifndef APC_RUNTIME_DEVICE_CUDA_NCCL_INTERNAL_H
#define APC_RUNTIME_DEVICE_CUDA_NCCL_INTERNAL_H

#include "runtime/device/cuda/library.h"
#include "runtime/device/cuda/nccl.h"

typedef struct NcclGroup {
  int n, place; /* place -1: not a member */
  int *members;
  ncclComm_t comm; /* NULL: the group has one member, or this rank is not in it */
} NcclGroup;

typedef struct NcclName {
  uint64_t key;
  CommKind kind;
} NcclName;

/* A position of the order: events for the start and the end of its operation. */
typedef struct NcclPosition {
  CUevent ready, done;
  NcclName name;
} NcclPosition;

/* The positions of a captured request, and the counts of one run of it. */
typedef struct NcclCapture {
  NcclName *names;
  uint32_t n, room;
  CommCount counts[COMM_KIND_COUNT];
} NcclCapture;

/* Words that queues write as they progress: the number of a position, from 1 in a captured request, else its ticket +
 * 1.  BEGUN: its operation could begin; the queue of computation writes this word, while it has nothing else to do. */
enum { BEGUN, DONE, N_WORDS };

typedef struct NcclComm {
  Comm base;
  CudaDevice *d;
  CudaNccl api;
  Comm *host;
  int rank, ranks;
  int room; /* size of the ring of positions */
  ncclComm_t world;
  ncclComm_t *splits; /* those that this rank is in */
  int n_splits;
  NcclGroup *groups;
  int n_groups;
  CUstream queue;
  NcclPosition *at; /* a ring by ticket */
  CommTicket next;
  CommTicket awaited; /* the queue of computation was told to wait for all before this one */
  GpuWord *words;
  uint32_t seen; /* DONE at the last look */
  bool captures;
  CUevent end;              /* end of the captured operations */
  NcclCapture *capture;     /* the one in progress; NULL if there is none */
  const NcclCapture *again; /* the words count positions of this capture, with keys `shift` higher; NULL: tickets */
  uint64_t shift;
  CommProgress *progress; /* may be NULL */
  bool broken;            /* closing waits for nothing */
  CommCount counts[COMM_KIND_COUNT];
} NcclComm;

typedef struct NcclNames {
#define CUDA_NCCL(result, symbol, member, parameters) const char *member;
#include "runtime/device/cuda/api.def"
#undef CUDA_NCCL
} NcclNames;

extern const NcclNames gpu_nccl_names; /* nccl_ask.c: the names of NCCL's functions */

/* Returns RT_OK for success and for calls in progress, else RT_FAILED. */
RtStatus gpu_nccl_judge(NcclComm *c, ncclResult_t result, const char *call, const char *purpose, RtError *error);

#define NCCL_CALL(c, member, purpose, error, ...) \
  gpu_nccl_judge(c, (c)->api.member(__VA_ARGS__), gpu_nccl_names.member, purpose, error)

/* Reports an error that NCCL found after a call. */
RtStatus gpu_nccl_async_error(NcclComm *c, ncclComm_t comm, ncclResult_t *state, const char *purpose, RtError *error);

/* Waits until the last call on a communicator is complete; fails if a rank has failed, as the host's engine reports. */
RtStatus gpu_nccl_settle(NcclComm *c, ncclComm_t comm, const char *purpose, RtError *error);

/* Checks that the operation is one of this rank's groups, on contiguous blocks. */
RtStatus gpu_nccl_check(const NcclComm *c, const CommOp *op, RtError *error);
/* Issues the operation on the queue of communication. */
RtStatus gpu_nccl_ask(NcclComm *c, const CommOp *op, RtError *error);
/* Adds the operation to `counts`: one operation, and the bytes that this rank sends. */
void gpu_nccl_count(const NcclComm *c, const CommOp *op, CommCount counts[COMM_KIND_COUNT]);

#endif
