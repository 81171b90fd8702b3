/* passes/facts/fixed.h - values that only weights and constants determine: equal in every request. */
#ifndef APC_PASSES_FACTS_FIXED_H
#define APC_PASSES_FACTS_FIXED_H

#include "ir/ir.h"

typedef enum Fixed {
  FIXED_NOT,      /* depends on an input, a state, a random number or the size of a request */
  FIXED_CONSTANT, /* depends on constants alone */
  FIXED_WEIGHT,   /* a weight, at most reshaped, repeated or copied */
  FIXED_WORK      /* computed from weights */
} Fixed;

/* By value of a level-1 function; in the arena. */
const Fixed *fixed_values(Arena *a, const Func *f);

/* True if the value depends on weights. */
static inline bool fixed_by_weights(Fixed x) { return x == FIXED_WEIGHT || x == FIXED_WORK; }

#endif
