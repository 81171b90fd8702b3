/* passes/plan/recompute.h - which operations of the forward pass a plan has made again for gradients (D47), by policy.
 *
 * Strategy.again says so operation by operation, the walk (passes/lower/walk.h) obeys.  In: a level-1 function with
 * phases.  A policy names what is kept:
 *
 *   none       everything
 *   K          as selective in the first K layers that repeat (passes/facts/blocks.h) and outside of these; as none in
 *              the layers after them, whose values are not kept as long
 *   selective  what products, convolutions, attention, sums and pools make, sums after them, and what leaves a layer;
 *              made again is what is made element by element, norms, softmaxes, rearrangements, random numbers
 *   full:K     of the first K layers what leaves them; elsewhere as selective
 *   full       that of all layers
 *
 * Each of them has made again what the one before has, and more.
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
  RECOMPUTE_layers,      /* K */
  RECOMPUTE_full_layers, /* full:K */
  RECOMPUTE_KINDS
} RecomputeKind;

typedef struct Recompute {
  RecomputeKind kind;
  int layers; /* K */
} Recompute;

/* As it is asked for: "none", "selective", "full", "3", "full:3"; NULL: it is apc's to choose.  False: it is none of
 * these. */
const char *recompute_text(Arena *a, Recompute r);
bool recompute_parse(const char *text, Recompute *out);

/* What policies are made from: in the arena, for the function as it is. */
typedef struct RecomputeChoices RecomputeChoices;
const RecomputeChoices *recompute_choices(Arena *a, const Func *f);

/* How many repeated layers the forward pass has. */
int recompute_layers(const RecomputeChoices *c);
/* Which of them an operation is in; -1: none. */
int recompute_layer_of(const RecomputeChoices *c, size_t op);

/* By operation: is it made again?  In the arena; of RECOMPUTE_auto as of none. */
const bool *recompute_ops(Arena *a, const RecomputeChoices *c, Recompute r);

/* The policy has these operations made again, or it is apc's to choose. */
bool recompute_agrees(const Func *f, Recompute r, const Strategy *strategies);

/* The text of the policy that has these operations made again; "by operation": none has. */
const char *recompute_name(Arena *a, const RecomputeChoices *c, const Strategy *strategies);

#endif
