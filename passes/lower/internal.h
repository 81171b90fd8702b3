/* passes/lower/internal.h - shared by the parts of the lowering: lower.c (the sink of the walk) and prepare.c. */
#ifndef APC_PASSES_LOWER_INTERNAL_H
#define APC_PASSES_LOWER_INTERNAL_H

#include "passes/lower/lower.h"
#include "passes/lower/walk.h"

typedef struct Lowering {
  Walk walk; /* first, so that a Walk pointer can be cast to Lowering */
  Module *m;
  Builder b;
  MoveCost cost;
  void *context;
  LowerSteps *steps; /* NULL if not needed */
} Lowering;

/* Emits a source in that layout and stage. */
Val lower_source(Lowering *w, const WalkScope *s, const Op *op, const Layout *layout, int stage);
/* Emits the operation itself on local operands; `result`: the layout of its first result. */
Val lower_emit(Lowering *w, const WalkScope *s, const Op *op, const Val *in, const Layout *const *layouts,
               const Layout *result, int stage);

#endif
