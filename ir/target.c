/* ir/target.c - see target.h. */
#include "ir/target.h"

#include <math.h>

#include "base/die.h"

const TargetTier *target_tier(const Target *t, int span) {
  if (t->ntiers < 1) die("target %s has no links", t->name);
  for (int i = 0; i < t->ntiers; i++)
    if (span <= t->tiers[i].group) return &t->tiers[i];
  return &t->tiers[t->ntiers - 1];
}

double target_flops(const Target *t, DType type) { return isnan(t->flops[type]) ? t->flops[DT_f32] : t->flops[type]; }
