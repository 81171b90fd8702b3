/* passes/lower/internal.h - what the parts of the lowering share: lower.c (what the walk says), prepare.c. */
#ifndef APC_PASSES_LOWER_INTERNAL_H
#define APC_PASSES_LOWER_INTERNAL_H

#include "passes/lower/lower.h"
#include "passes/lower/walk.h"

typedef struct Lowering {
  Walk walk; /* first: its address is that of the lowering */
  Module *m;
  Builder b;
  MoveCost cost;
  void *context;
} Lowering;

Val lower_source(Lowering *w, const WalkScope *s, const Op *op, const Layout *layout, int stage);
/* The operation itself, on local operands; `result`: the layout of its first result. */
Val lower_emit(Lowering *w, const WalkScope *s, const Op *op, const Val *in, const Layout *const *layouts,
               const Layout *result, int stage);

#endif
