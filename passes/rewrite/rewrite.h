/* passes/rewrite/rewrite.h - builds a new function from an old one, operation by operation.
 *
 * Operations of a loop's body stay in it (ir/loops.h): a pass builds new operations at the place of the operation that
 * they replace, never between carries or leaves, and values built in a body are invisible after it. */
#ifndef APC_PASSES_REWRITE_REWRITE_H
#define APC_PASSES_REWRITE_REWRITE_H

#include "ir/ir.h"

typedef struct Rewrite {
  Module *m;
  const Func *old;
  Builder b; /* builds the new function */
  Val *map;  /* old value -> new value */
  struct {
    size_t *items;
    size_t n, cap;
  } open;                        /* new operations: loops whose body is being built */
  size_t closed_from, closed_to; /* new operations: from the loop to the repeat that was built last */
} Rewrite;

/* Starts a new function of the same level that is not yet in the module. */
Rewrite rewrite_start(Module *m, const Func *old, Diags *diags);

/* Builds the replacement of an operation of the old function; maps its results and returns the first (0 after an
 * error). */
Val rewrite_build(Rewrite *r, const Op *op, const OpSpec *spec);

/* Copies one operation of the old function with its operands mapped; maps its results and returns the first (0 after an
 * error). */
Val rewrite_copy(Rewrite *r, const Op *op);

/* Maps the results of the old operation to the new values from `first` on. */
void rewrite_map(Rewrite *r, const Op *op, Val first);

/* True if the new value is in the body that is being built; always true outside loops. */
bool rewrite_is_here(const Rewrite *r, Val v);
/* True if the new value is in the body that was built last: later operations cannot read it. */
bool rewrite_is_behind(const Rewrite *r, Val v);

/* Transposes `v`, a new value; returns `v` if the order is the same.  `name`: of the transpose; NULL: that of the old
 * operation `op`. */
Val rewrite_transpose(Rewrite *r, const Op *op, const char *name, Val v, int rank, const int64_t *perm);
/* Casts `v`, a new value.  `name`: of the cast; NULL: it takes the name and the group of the old operation `op`. */
Val rewrite_cast(Rewrite *r, const Op *op, const char *name, Val v, DType to);
/* Builds an old broadcast with the new operand `v`, whose dimension d becomes dimension to[d] of the result, of type
 * `type`.  `part`: the suffix of the name of the operand without its dimensions of extent 1. */
Val rewrite_broadcast(Rewrite *r, const Op *op, Val v, const int64_t *to, const char *part, const Type *type);

/* Notes that `v` is the old operation's result with dimension d at place at[d], if it has the operation's name. */
void rewrite_note_order(Rewrite *r, const Op *op, Val v, int rank, const int *at);

/* Counts, by value, its uses as operands and outputs. */
const int *rewrite_uses(Arena *a, const Func *f);
/* True if the function has attention and no loop. */
bool rewrite_has_heads(const Func *f);

/* Maps the outputs and replaces the old function by the new one. */
Func *rewrite_finish(Rewrite *r);

#endif
