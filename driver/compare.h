/* driver/compare.h - plans beside the one that was chosen: those that somebody names, and those for other hardware. */
#ifndef APC_DRIVER_COMPARE_H
#define APC_DRIVER_COMPARE_H

#include "driver/driver.h"

/* A plan that --compare names; all that it does not force is left to the search. */
struct DriverNamed {
  const char *text;    /* as it was written */
  PlanOptions forced;  /* degrees, micro_batches, zero, schedule and chunks, recompute */
  int64_t micro_batch; /* as DriverOptions.micro_batch */
};

/* Adds the plans of DriverOptions.named to the alternatives of the build's plan.  A plan that does not exist gets the
 * reason (PlanAlternative.why_not). */
void driver_compare(Build *b);

/* A figure of the target that is multiplied. */
typedef struct WhatIf {
  const char *text; /* as it was written */
  const char *figure;
  double factor;
} WhatIf;

/* The target with that figure multiplied: compute (peaks of all types), memory (its size), bandwidth (of memory),
 * launch (the time to start a kernel), network (links between machines), or links by their name.  NULL after a
 * diagnostic: the target has no such figure. */
const Target *driver_target_if(Arena *a, const Target *g, const WhatIf *x, Diags *d);
/* The best plan of the build's model on such a target; NULL: there is none, and *why_not gets the reason. */
const Plan *driver_what_if(Build *b, const Target *target, const char **why_not);

#endif
