/* driver/objective.h - plans that are the best by something else than time. */
#ifndef APC_DRIVER_OBJECTIVE_H
#define APC_DRIVER_OBJECTIVE_H

#include "driver/driver.h"

/* The plan that needs the least memory of a rank and is slower than `fastest` by no more than a part `slower`: that one
 * if there is none with less.  Sets Plan.traded. */
Plan *driver_least_memory(Build *b, Plan *fastest, double slower);

/* Makes the alternatives of a plan those of a list that nothing beats, not the plan either: in the time of a batch, in
 * the memory of a rank and in money, which is that of the devices from batch to batch.  The first are the cheapest. */
void driver_frontier(Arena *a, Plan *p, const PlanAlternative *list, int n);

#endif
