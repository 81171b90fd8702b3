/* passes/facts/fixed.h - what weights and constants alone determine: the same at every request. */
#ifndef APC_PASSES_FACTS_FIXED_H
#define APC_PASSES_FACTS_FIXED_H

#include "ir/ir.h"

typedef enum Fixed {
  FIXED_NOT,      /* depends on an input, a state, a random number or the size of a request */
  FIXED_CONSTANT, /* on constants alone */
  FIXED_WEIGHT,   /* on weights, and at most moved: a weight that is reshaped, repeated or copied */
  FIXED_WORK      /* on weights, and somebody has to compute it */
} Fixed;

/* By value of a level-1 function; in the arena. */
const Fixed *fixed_values(Arena *a, const Func *f);

static inline bool fixed_by_weights(Fixed x) { return x == FIXED_WEIGHT || x == FIXED_WORK; }

#endif
