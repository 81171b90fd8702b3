/* tools/plan_fold.h - the operations of a plan in groups: layers that a plan treats alike are one group of instances.
 *
 * A block (passes/facts/blocks.h) is divided into its instances that agree in the strategy of every operation, in its
 * stage relative to the instance's first operation, and in a text of the caller (prices, say).  Operations outside
 * blocks are groups of one instance: runs of neighbours.  Blocks of fewer
 * than 10 operations do not count.  A weight that several blocks read, such as those of the
 * forward and the backward pass, belongs to the instance that reads it first.
 */
#ifndef APC_TOOLS_PLAN_FOLD_H
#define APC_TOOLS_PLAN_FOLD_H

#include "passes/plan/plan.h"

typedef struct FoldGroup {
  const char *title;   /* "layers.0-91", or the name of the first operation */
  bool outside;        /* of blocks */
  int size, count;     /* operations of an instance; instances */
  const uint32_t *ops; /* operation k of instance i: ops[i * size + k] */
} FoldGroup;

typedef struct Fold {
  FoldGroup *items; /* in the order of their first operations */
  size_t n, cap;
  int *group_of; /* by operation; -1 if it is left out */
  int *place_of; /* by operation: its place in an instance, and the instance */
  int *instance_of;
} Fold;

/* False for constants and sizes, which are many and of little interest. */
bool tool_fold_lists(const Op *op);

/* Groups the operations that are listed.  `text`: by operation, what must agree as well; NULL if nothing. */
Fold tool_fold(Arena *a, const Func *f, const Plan *p, const char *const *text);

/* Returns "0-5, 8" for 0, 1, ..., 5 and 8 in any order, of many pieces the first two and the last; texts that are no
 * numbers are listed. */
const char *tool_fold_ranges(Arena *a, int n, const char *const *labels);

#endif
