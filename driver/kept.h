/* driver/kept.h - plans that were found before, in the cache (base/cache.h).
 *
 * A search says the same of the same functions, target and options, so its plan is kept as text with what the search
 * proved, and read as a plan file is.  Not kept: plans of searches that a clock ends, of entries planned together, of
 * files that are completed, and of other objectives than the time of a batch.
 */
#ifndef APC_DRIVER_KEPT_H
#define APC_DRIVER_KEPT_H

#include "driver/driver.h"

/* The plan that was kept of this build; NULL: none was.  It has no alternatives. */
Plan *driver_find_kept(Build *b);
/* Keeps the plan of a build whose Program is within the limit. */
void driver_keep_plan(Build *b);

#endif
