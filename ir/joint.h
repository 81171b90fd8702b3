/* ir/joint.h - several entries as one function, for planning them together.
 *
 * A joint function has the operations of all its entries, under the names ENTRY/NAME.  No value passes from one entry
 * to another; weights and states are the same by their symbols.  What stands at the same place in two entries (it has
 * the same name there) stands together, so that a stage may begin before both.  It is never lowered: a plan of it is
 * taken apart into one for each entry.
 */
#ifndef APC_IR_JOINT_H
#define APC_IR_JOINT_H

#include "ir/ir.h"

typedef struct JointEntry {
  const Func *f;
  double calls;     /* how often it is called */
  double weight;    /* the same, but above 0: one that is not called counts a millionth of what is called most, so that
                     * of plans that are equal otherwise the one that is better for it is chosen */
  const size_t *at; /* by operation of f: its number in the joint function */
} JointEntry;

typedef struct Joint {
  int n;
  const JointEntry *entries;
  const int *of;        /* by operation of the joint function: its entry, */
  const size_t *number; /* and its number there */
} Joint;

/* In the module's arena, and none of its functions.  The entries may not change any more; one of them is called. */
Func *joint_func(Module *m, int n, Func *const *entries, const double *calls);

/* The value of the joint function that is value v of entry number `entry`. */
Val joint_value(const Func *joint, int entry, Val v);

/* How often operation number `op` counts: the weight of its entry; 1 in a function that is not joint. */
static inline double joint_weight(const Func *f, size_t op) {
  return f->joint ? f->joint->entries[f->joint->of[op]].weight : 1;
}

/* The name of an operation in its entry. */
static inline const char *joint_own_name(const Func *f, size_t op) {
  return f->joint ? f->joint->entries[f->joint->of[op]].f->ops.items[f->joint->number[op]].name : f->ops.items[op].name;
}

#endif
