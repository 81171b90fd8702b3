/* ir/joint.h - several entries as one function, for planning them together.
 *
 * A joint function has the operations of all its entries, under the names ENTRY/NAME. Entries exchange no values;
 * weights and states are shared by their symbols.  Operations with the same name in two entries are adjacent, so that a
 * stage may begin before both.  A joint function is never lowered: its plan is split into one plan per entry.
 */
#ifndef APC_IR_JOINT_H
#define APC_IR_JOINT_H

#include "ir/ir.h"

typedef struct JointEntry {
  const Func *f;
  double calls;     /* number of calls */
  double weight;    /* the same, but above 0: an entry that is never called counts a millionth of the one called most,
                       so that it decides between plans that are equal otherwise */
  const size_t *at; /* by operation of f: its index in the joint function */
} JointEntry;

typedef struct Joint {
  int n;
  const JointEntry *entries;
  const int *of; /* by operation of the joint function: its entry, and its index there */
  const size_t *number;
} Joint;

/* Builds the joint function, in the module's arena; it is not in the module's list.  The entries may not change any
 * more; at least one of them is called. */
Func *joint_func(Module *m, int n, Func *const *entries, const double *calls);

/* Value v of entry number `entry`, in the joint function. */
Val joint_value(const Func *joint, int entry, Val v);

/* Weight of operation number `op`: that of its entry; 1 in a function that is not joint. */
static inline double joint_weight(const Func *f, size_t op) {
  return f->joint ? f->joint->entries[f->joint->of[op]].weight : 1;
}

/* The name of an operation in its entry. */
static inline const char *joint_own_name(const Func *f, size_t op) {
  return f->joint ? f->joint->entries[f->joint->of[op]].f->ops.items[f->joint->number[op]].name : f->ops.items[op].name;
}

#endif
