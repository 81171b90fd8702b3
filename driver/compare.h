/* driver/compare.h - plans to compare with the chosen one: named by the user, or for other hardware. */
#ifndef APC_DRIVER_COMPARE_H
#define APC_DRIVER_COMPARE_H

#include "driver/driver.h"

/* A plan that --compare names; the search chooses the options that it leaves open. */
struct DriverNamed {
  const char *text;    /* as written */
  PlanOptions forced;  /* degrees, micro_batches, zero, schedule and chunks, recompute */
  int64_t micro_batch; /* as DriverOptions.micro_batch */
};

/* Adds the plans of DriverOptions.named to the alternatives of the build's plan.  PlanAlternative.why_not gives the
 * reason for a plan that does not exist. */
void driver_compare(Build *b);

/* A figure of the target and the factor that scales it. */
typedef struct WhatIf {
  const char *text; /* as written */
  const char *figure;
  double factor;
} WhatIf;

/* Returns the target with that figure scaled: compute (peaks of all types), memory (its size), bandwidth (of memory),
 * launch (the time to start a kernel), network (links between machines), or links by name.  NULL after a diagnostic if
 * the target has no such figure. */
const Target *driver_target_if(Arena *a, const Target *g, const WhatIf *x, Diags *d);
/* Returns the best plan of the build's model on that target; NULL if there is none, with the reason in *why_not. */
const Plan *driver_what_if(Build *b, const Target *target, const char **why_not);

#endif
