/* passes/rewrite/rewrite.h - building a new function from an old one, operation by operation.
 *
 * Operations of a loop's body stay in it (ir/loops.h): what a pass builds stands where the operation stands that it
 * replaces, never between carries or leaves, and a new value that is built in a body is forgotten behind it. */
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
  } open;                        /* loops whose body is being built: new operations */
  size_t closed_from, closed_to; /* new operations from the loop to the repeat that was built last */
} Rewrite;

/* Starts a new function of the same level that is not yet in the module. */
Rewrite rewrite_start(Module *m, const Func *old, Diags *diags);

/* Builds what stands in the place of one operation of the old function; maps its results and returns the first (0 after
 * an error). */
Val rewrite_build(Rewrite *r, const Op *op, const OpSpec *spec);

/* Copies one operation of the old function with its operands mapped; maps its results and returns the first (0 after an
 * error). */
Val rewrite_copy(Rewrite *r, const Op *op);

/* The results of the old operation are the new values from `first` on. */
void rewrite_map(Rewrite *r, const Op *op, Val first);

/* Is the new value of the body that is being built, not from outside of it?  Always true outside of loops. */
bool rewrite_is_here(const Rewrite *r, Val v);
/* Is the new value of the body that was built last?  Nobody behind its leaves can read it. */
bool rewrite_is_behind(const Rewrite *r, Val v);

/* `v`, of the new function, in another order, itself where that is the same; called `name`, or NULL: after the old
 * operation that it is for. */
Val rewrite_transpose(Rewrite *r, const Op *op, const char *name, Val v, int rank, const int64_t *perm);
/* An old broadcast with the new operand `v`, whose dimension d is dimension to[d] of the new result, of type `type`.
 * `part`: of the name of the operand without its dimensions of extent 1. */
Val rewrite_broadcast(Rewrite *r, const Op *op, Val v, const int64_t *to, const char *part, const Type *type);

/* By value of a function: how many operands and outputs it is. */
const int *rewrite_uses(Arena *a, const Func *f);
/* Is there attention in the function, and no loop? */
bool rewrite_has_heads(const Func *f);

/* Maps the outputs and puts the new function in the old one's place. */
Func *rewrite_finish(Rewrite *r);

#endif
