/* passes/plan/recompute.h - which operations of the forward pass a plan has made again for gradients (D47), by policy.
 *
 * Strategy.again says so operation by operation, the walk (passes/lower/walk.h) obeys.  In: a level-1 function with
 * phases.  A policy names what is kept:
 *
 *   none       everything
 *   selective  what products, convolutions, attention, sums and pools make, sums behind them, and what leaves a layer;
 *              made again is what is made element by element, norms, softmaxes, rearrangements, random numbers
 *   full       what leaves a layer that repeats (passes/facts/blocks.h), and all that stands outside of these
 *   K layers   as full, in the first K layers: theirs are the values that would be kept the longest
 *
 * Only what gradients would read, or what that is made of, is made again.  Not done: choosing single values by what
 * they cost.
 */
#ifndef APC_PASSES_PLAN_RECOMPUTE_H
#define APC_PASSES_PLAN_RECOMPUTE_H

#include "ir/layout/rule.h"

typedef enum RecomputeKind {
  RECOMPUTE_auto, /* apc chooses */
  RECOMPUTE_none,
  RECOMPUTE_selective,
  RECOMPUTE_full,
  RECOMPUTE_layers
} RecomputeKind;

typedef struct Recompute {
  RecomputeKind kind;
  int layers; /* of RECOMPUTE_layers */
} Recompute;

/* As it is asked for: "none", "selective", "full", "3"; NULL: it is apc's to choose.  False: it is none of these. */
const char *recompute_text(Arena *a, Recompute r);
bool recompute_parse(const char *text, Recompute *out);

/* How many repeated layers the forward pass has. */
int recompute_layers(const Func *f);
/* By operation: which of the `layers` it is of; -1: of none. */
const int *recompute_layer_of(Arena *a, const Func *f, int *layers);

/* By operation: is it made again?  In the arena; of RECOMPUTE_auto as of none. */
const bool *recompute_ops(Arena *a, const Func *f, Recompute r);

/* The text of the policy that has these operations made again; "by operation": none has. */
const char *recompute_name(Arena *a, const Func *f, const Strategy *strategies);

#endif
