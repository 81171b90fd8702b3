/* runtime/net/signs.h - a rank's signs of progress: the rank writes them, a watchdog reads them.
 *
 * On one machine the signs lie in memory that host and ranks share; between machines they are sent (watch.h).
 */
#ifndef APC_RUNTIME_NET_SIGNS_H
#define APC_RUNTIME_NET_SIGNS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "program/status.h"

/* Signs of its communication. */
typedef struct CommProgress {
  _Atomic uint64_t moves;   /* increases whenever bytes move or an operation completes */
  _Atomic uint64_t key;     /* order key of the last position that was waited for */
  _Atomic uint32_t kind;    /* CommKind of its first incomplete operation */
  _Atomic uint32_t waiting; /* 1 inside comm_wait */
} CommProgress;

/* Its place in its work. */
typedef struct RankPlace {
  _Atomic uint64_t beats;      /* increases with every step and command */
  _Atomic uint32_t step, last; /* it is at one of the steps from `step` to `last` */
  _Atomic uint64_t round;      /* of the innermost loop around the step, from 1; 0 outside of loops */
  _Atomic uint64_t writing;    /* 0 unless a file is written beside requests: then increases with every piece of it */
} RankPlace;

/* Plain stores suffice: only the rank writes. */
static inline void rank_place_steps(RankPlace *p, uint32_t step, uint32_t last) {
  uint64_t beats = atomic_load_explicit(&p->beats, memory_order_relaxed);
  atomic_store_explicit(&p->step, step, memory_order_relaxed);
  atomic_store_explicit(&p->last, last, memory_order_relaxed);
  atomic_store_explicit(&p->beats, beats + 1, memory_order_relaxed);
}
static inline void rank_place_step(RankPlace *p, uint32_t step) { rank_place_steps(p, step, step); }

/* Sets the round of the innermost loop; 0 outside of loops. */
static inline void rank_place_round(RankPlace *p, uint64_t round) {
  atomic_store_explicit(&p->round, round, memory_order_relaxed);
}

/* All signs of a rank. */
typedef struct SessionSlot {
  _Alignas(64) CommProgress progress;
  RankPlace place;
  _Atomic uint32_t command; /* number of the last finished command */
  _Atomic uint32_t failed;  /* 1 once `failure` is complete */
  RtError failure;
} SessionSlot;

/* Writes a description of step `step` of `rank` into text[size], such as "all_reduce of h3.mlp.out over tp". */
typedef void (*SessionStepText)(void *context, int rank, uint32_t step, char *text, size_t size);

#endif
