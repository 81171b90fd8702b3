/* tests/doubles/nccl.h - inside the double of NCCL: a communicator. */
#ifndef APC_TESTS_DOUBLES_NCCL_H
#define APC_TESTS_DOUBLES_NCCL_H

#include "tests/doubles/board.h"
#include "tests/doubles/nccl_types.h"

typedef enum CommStep {
  STEP_JOIN,  /* waits until all ranks have joined */
  STEP_SPLIT, /* of its parent: waits until all ranks of the parent give their colour and key */
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
  uint64_t launched, turn; /* numbers of works begun on the host, and of the next to run: they run in this order */
  uint64_t collectives;    /* requested by this rank */
  uint64_t sends[BOARD_RANKS], receives[BOARD_RANKS];
  uint64_t splits;
  uint32_t connected[3]; /* requested without a capture: kinds of collectives; peers sent to, received from */
  /* a split of this communicator in progress */
  ncclComm_t child, parent;
  uint64_t split;
  int color;
  /* a nonblocking communicator begins requested work, or reaches its end, after so many queries of its state */
  NcclWork *pending;
  int looks;
  ncclComm_t next;
};

ncclResult_t nccl_fails(const char *name); /* the error of a call that fails on demand */
#define ENTER_NCCL(name) ENTER_OR(name, nccl_fails(#name))

ncclResult_t nccl_error(ncclComm_t c, ncclResult_t code, const char *format, ...) __attribute__((format(printf, 3, 4)));

bool nccl_exists(ncclComm_t c);
/* An error if it does not exist or cannot take work yet. */
ncclResult_t nccl_usable(ncclComm_t c);
void nccl_drop(ncclComm_t c); /* drops a reference */

/* Begins the works that wait for a query of the host. */
ncclResult_t nccl_begin_pending(ncclComm_t c);
/* Checks that no graph still has calls of the communicator when it goes. */
void nccl_check_graphs(ncclComm_t c, const char *call);
bool nccl_has_work(const struct ncclComm *c);
bool nccl_in_group(void);

#endif
