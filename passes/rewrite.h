/* passes/rewrite.h - building a new function from an old one, operation by operation. */
#ifndef APC_PASSES_REWRITE_H
#define APC_PASSES_REWRITE_H

#include "ir/ir.h"

typedef struct Rewrite {
  Module *m;
  const Func *old;
  Builder b;  /* builds the new function */
  Val *map;   /* old value -> new value */
} Rewrite;

/* Starts a new function of the same level that is not yet in the module. */
Rewrite rewrite_start(Module *m, const Func *old, Diags *diags);

/* Copies one operation of the old function with its operands mapped; maps and returns its result (0 after an error). */
Val rewrite_copy(Rewrite *r, const Op *op);

/* Maps the outputs and puts the new function in the old one's place. */
Func *rewrite_finish(Rewrite *r);

#endif
