/* driver/objective.h - plans for objectives other than time. */
#ifndef APC_DRIVER_OBJECTIVE_H
#define APC_DRIVER_OBJECTIVE_H

#include "driver/driver.h"

/* Returns the plan with the least memory per rank that is slower than `fastest` by at most the fraction `slower`;
 * `fastest` if none has less.  Sets Plan.traded. */
Plan *driver_least_memory(Build *b, Plan *fastest, double slower);

/* Sets the alternatives of `p` to the entries of `list` that neither the plan nor another entry dominates in time of a
 * batch, memory of a rank and cost (devices times seconds per batch).  Orders them by cost, cheapest first. */
void driver_frontier(Arena *a, Plan *p, const PlanAlternative *list, int n);

#endif
