/* driver/fewest.h - when nothing fits a target: how many of its devices would. */
#ifndef APC_DRIVER_FEWEST_H
#define APC_DRIVER_FEWEST_H

#include "driver/driver.h"

/* Adds help to the last diagnostic: that less force would do, or the fewest devices of the same kind on which a plan is
 * found.  `resident` is what plan_search said weights and state take. */
void driver_help_fewest(Build *b, const PlanOptions *options, double resident);

#endif
