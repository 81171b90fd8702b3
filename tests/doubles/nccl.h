/* tests/doubles/nccl.h - inside the double of NCCL: a communicator. */
#ifndef APC_TESTS_DOUBLES_NCCL_H
#define APC_TESTS_DOUBLES_NCCL_H

#include "tests/doubles/board.h"
#include "tests/doubles/nccl_types.h"

typedef enum CommStep {
  STEP_JOIN,  /* waits until all ranks have joined */
  STEP_SPLIT, /* of its parent: waits until all ranks of that say where they go */
  STEP_READY,
  STEP_ENDED /* finalized */
} CommStep;

typedef struct NcclWork NcclWork;

struct ncclComm {
  uint64_t id;
  Board *board;
  int rank, n, device, refs;
  bool blocking, aborted, destroyed, reported;
  CommStep step;
  ncclResult_t error;
  char said[300];
  uint64_t launched, turn; /* works that were begun on the host, that are done: they are done in this order */
  uint64_t collectives;    /* asked for by this rank */
  uint64_t sends[BOARD_RANKS], receives[BOARD_RANKS];
  uint64_t splits;
  uint32_t connected[3]; /* what was asked for without a capture: kinds of collectives; peers sent to, received from */
  /* a split that is being made of this one */
  ncclComm_t child, parent;
  uint64_t split;
  int color;
  /* what was asked for of a communicator that does not block is begun, or its end is there, after so many looks at its
   * state */
  NcclWork *pending;
  int looks;
  ncclComm_t next;
};

ncclResult_t nccl_fails(const char *name); /* the code with which a call fails on demand */
#define ENTER_NCCL(name) ENTER_OR(name, nccl_fails(#name))

ncclResult_t nccl_error(ncclComm_t c, ncclResult_t code, const char *format, ...) __attribute__((format(printf, 3, 4)));

bool nccl_exists(ncclComm_t c);
/* Is it there, and may work be asked for? */
ncclResult_t nccl_usable(ncclComm_t c);
void nccl_drop(ncclComm_t c); /* a reference */

/* Begins the works that wait for the host to look. */
ncclResult_t nccl_begin_pending(ncclComm_t c);
/* A communicator goes when no graph has calls of it any more. */
void nccl_check_graphs(ncclComm_t c, const char *call);
bool nccl_has_work(const struct ncclComm *c);
bool nccl_in_group(void);

#endif
