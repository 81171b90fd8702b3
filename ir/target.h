/* ir/target.h - what a program is planned for: ranks, what each can compute and hold, and the links between them.
 *
 * Rates are per rank; a fact that is not known is NaN.  Ranks are numbered so that the ranks of one machine are consecutive: tier i joins
 * aligned blocks of `group` consecutive ranks.  Target files are read by frontend/target.h.
 */
#ifndef APC_IR_TARGET_H
#define APC_IR_TARGET_H

#include <stdbool.h>

#include "base/dtype.h"

enum { MAX_TIERS = 4, MAX_CPU_RANKS = 64 };

typedef struct TargetTier {
  const char *name;
  int group;        /* ranks in one block; ascending over the tiers, the last holds all ranks */
  double bandwidth; /* bytes per second, per rank and direction */
  double latency;   /* seconds until a message starts to arrive */
} TargetTier;

typedef struct Target {
  const char *name;   /* as the user wrote it */
  const char *device; /* "cpu", "gpu": what a rank is */
  const char *arch;   /* NULL when not given */
  int ranks, nodes;
  double flops[DT_COUNT];  /* operations per second of contractions in this type; a multiply-add is two */
  double memory_bytes, memory_bandwidth;
  double launch;           /* seconds to start one operation */
  int ntiers;
  TargetTier tiers[MAX_TIERS];
} Target;

/* The slowest tier that the block of `span` consecutive aligned ranks needs. */
const TargetTier *target_tier(const Target *t, int span);

/* Contraction rate of a type; a type without a figure of its own runs at the rate of f32. */
double target_flops(const Target *t, DType type);

#endif
