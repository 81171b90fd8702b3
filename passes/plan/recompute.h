/* passes/plan/recompute.h - the operations of the forward pass that a plan recomputes for gradients (D47), by policy.
 *
 * Strategy.again marks each operation; the walk (passes/lower/walk.h) follows it.  In: a level-1 function with phases.
 * A policy says which values are kept:
 *
 *   none       all
 *   K          like selective in the first K repeated layers (passes/facts/blocks.h) and outside layers; like none in
 *              later layers, whose values are kept for a shorter time
 *   selective  results of products, convolutions, attention, sums and pools, sums of these, and values that leave a
 *              layer; recomputed are elementwise operations, norms, softmaxes, rearrangements, random numbers
 *   full:K     in the first K layers only values that leave them; elsewhere like selective
 *   full       in all layers only values that leave them
 *
 * Each policy recomputes everything that the one before recomputes, and more.  Only values that gradients read, or that
 * are needed to recompute these, are recomputed.  Not supported: choosing single values by their cost.
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

/* Prints and parses a policy as in the option: "none", "selective", "full", "3", "full:3"; recompute_text returns NULL
 * if apc chooses, recompute_parse false for other texts. */
const char *recompute_text(Arena *a, Recompute r);
bool recompute_parse(const char *text, Recompute *out);

/* Facts for all policies, in the arena, for the function in its current form. */
typedef struct RecomputeChoices RecomputeChoices;
const RecomputeChoices *recompute_choices(Arena *a, const Func *f);

/* Returns the number of repeated layers of the forward pass. */
int recompute_layers(const RecomputeChoices *c);
/* Returns the layer of an operation; -1 if none. */
int recompute_layer_of(const RecomputeChoices *c, size_t op);

/* Returns, by operation, whether the policy recomputes it, in the arena; RECOMPUTE_auto is like none. */
const bool *recompute_ops(Arena *a, const RecomputeChoices *c, Recompute r);

/* True if the policy recomputes exactly these operations, or apc chooses. */
bool recompute_agrees(const Func *f, Recompute r, const Strategy *strategies);

/* Returns the text of the policy that recomputes exactly these operations; "by operation" if there is none. */
const char *recompute_name(Arena *a, const RecomputeChoices *c, const Strategy *strategies);

#endif
