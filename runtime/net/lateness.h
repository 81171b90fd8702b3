/* runtime/net/lateness.h - which rank keeps the others waiting: judged from the signs of progress that ranks
 * give. */
#ifndef APC_RUNTIME_NET_LATENESS_H
#define APC_RUNTIME_NET_LATENESS_H

#include <stdbool.h>

#include "runtime/net/signs.h"

/* What was seen of one rank when last looked at. */
typedef struct RankSigns {
  bool stopped; /* its process does not run, as far as known; set by the owner */
  bool busy;    /* has a command to finish */
  uint64_t beats, moves;
  int64_t changed_ms; /* on the clock below, when they changed */
} RankSigns;

typedef struct Lateness {
  int world, timeout_ms;
  const SessionSlot *slots;
  const _Atomic uint32_t *command; /* the number of the current one */
  SessionStepText step_text;       /* may be NULL */
  void *step_context;
  int64_t clock_ms, before_ms;
  RankSigns *ranks; /* [world]; the owner's memory, zeroed */
} Lateness;

/* Begins to measure: the fields up to step_context, and `ranks`, are set. */
void lateness_begin(Lateness *l);

/* Looks once; RT_LATE when a rank made no progress for the time-out, and the error names who is the cause. */
RtStatus lateness_find(Lateness *l, RtError *error);

/* Appends " at step 17 (all_reduce of h3 over tp), waiting in all_reduce at order key 40" to the text. */
void lateness_place(const Lateness *l, int rank, char *text, size_t size);

#endif
