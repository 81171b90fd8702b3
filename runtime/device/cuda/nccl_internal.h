/* runtime/device/cuda/nccl_internal.h - what the files of the engine share: nccl.c (the communicators, the order of
 * positions), nccl_ask.c (one operation as calls of NCCL). */
#ifndef APC_RUNTIME_DEVICE_CUDA_NCCL_INTERNAL_H
#define APC_RUNTIME_DEVICE_CUDA_NCCL_INTERNAL_H

#include "runtime/device/cuda/library.h"
#include "runtime/device/cuda/nccl.h"

typedef struct NcclGroup {
  int n, place; /* place -1: not a member */
  int *members;
  ncclComm_t comm; /* NULL: it has one member, or this rank is none */
} NcclGroup;

typedef struct NcclName {
  uint64_t key;
  CommKind kind;
} NcclName;

/* A position of the order: when its operation could begin, and when it is done. */
typedef struct NcclPosition {
  CUevent ready, done;
  NcclName name;
} NcclPosition;

/* The positions of a captured request, and what a request with them moves. */
typedef struct NcclCapture {
  NcclName *names;
  uint32_t n, room;
  CommCount counts[COMM_KIND_COUNT];
} NcclCapture;

/* What queues write when they come there: the number of a position, from 1 on in a captured request, else its ticket
 * + 1. BEGUN: its operation could begin; the queue of computation writes it, which has nothing better to do then. */
enum { BEGUN, DONE, N_WORDS };

typedef struct NcclComm {
  Comm base;
  CudaDevice *d;
  CudaNccl api;
  Comm *host;
  int rank, ranks;
  int room; /* positions that are kept */
  ncclComm_t world;
  ncclComm_t *splits; /* those that this rank is in */
  int n_splits;
  NcclGroup *groups;
  int n_groups;
  CUstream queue;
  NcclPosition *at; /* a ring by ticket */
  CommTicket next;
  CommTicket awaited; /* the queue of computation waits for all before this one */
  GpuWord *words;
  uint32_t seen; /* of DONE */
  bool captures;
  CUevent end;              /* of what is captured */
  NcclCapture *capture;     /* that is being made; NULL */
  const NcclCapture *again; /* the words are of this one, with keys `shift` further; NULL: of tickets */
  uint64_t shift;
  CommProgress *progress; /* may be NULL */
  bool broken;            /* what is closed now is not waited for */
  CommCount counts[COMM_KIND_COUNT];
} NcclComm;

typedef struct NcclNames {
#define CUDA_NCCL(result, symbol, member, parameters) const char *member;
#include "runtime/device/cuda/api.def"
#undef CUDA_NCCL
} NcclNames;

extern const NcclNames gpu_nccl_names; /* nccl_ask.c: what its functions are called */

/* What has begun and goes on is no failure. */
RtStatus gpu_nccl_judge(NcclComm *c, ncclResult_t result, const char *call, const char *purpose, RtError *error);

#define NCCL_CALL(c, member, purpose, error, ...) \
  gpu_nccl_judge(c, (c)->api.member(__VA_ARGS__), gpu_nccl_names.member, purpose, error)

/* What went wrong behind a call. */
RtStatus gpu_nccl_async_error(NcclComm *c, ncclComm_t comm, ncclResult_t *state, const char *purpose, RtError *error);

/* Until the last call on a communicator has happened; or a rank has failed, which the host's engine knows. */
RtStatus gpu_nccl_settle(NcclComm *c, ncclComm_t comm, const char *purpose, RtError *error);

/* Is it an operation of one of this rank's groups, on blocks that NCCL moves? */
RtStatus gpu_nccl_check(const NcclComm *c, const CommOp *op, RtError *error);
/* Asks for it, on the queue of communication. */
RtStatus gpu_nccl_ask(NcclComm *c, const CommOp *op, RtError *error);
void gpu_nccl_count(const NcclComm *c, const CommOp *op, CommCount counts[COMM_KIND_COUNT]);

#endif
