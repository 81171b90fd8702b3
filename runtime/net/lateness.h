/* runtime/net/lateness.h - finds the rank that keeps the others waiting, from the ranks' signs of progress. */
#ifndef APC_RUNTIME_NET_LATENESS_H
#define APC_RUNTIME_NET_LATENESS_H

#include <stdbool.h>

#include "runtime/net/signs.h"

/* The signs of one rank at the last look. */
typedef struct RankSigns {
  bool stopped; /* its process is stopped, as far as known; set by the owner */
  bool busy;    /* it has a command to finish */
  uint64_t beats, moves;
  int64_t changed_ms; /* time of their last change, on the clock below */
} RankSigns;

typedef struct Lateness {
  int world, timeout_ms;
  int stopped_ms; /* the limit of a rank whose process is stopped; 0: the same */
  const SessionSlot *slots;
  const _Atomic uint32_t *command; /* the number of the current one */
  SessionStepText step_text;       /* may be NULL */
  void *step_context;
  int64_t clock_ms, before_ms;
  RankSigns *ranks; /* [world]; the owner's memory, zeroed */
} Lateness;

/* Begins to measure; the caller has set the fields up to step_context, and `ranks`. */
void lateness_begin(Lateness *l);

/* Looks once; RT_LATE if a rank made no progress for the time-out, with an error that names the rank that causes it. */
RtStatus lateness_find(Lateness *l, RtError *error);

/* Appends the place of a rank: " at step 17 (all_reduce of h3 over tp), waiting in all_reduce at order key 40",
 * or " at step 17 to 30 (launch of a to gemm of b)" if it is only known to be at one of these. */
void lateness_place(const Lateness *l, int rank, char *text, size_t size);

#endif
