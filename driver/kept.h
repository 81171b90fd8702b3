/* driver/kept.h - plans that were found before, in the cache (base/cache.h).
 *
 * A search says the same of the same functions, target and options, so its plan is kept as text with what the search
 * proved, and read as a plan file is.  Not kept: plans of searches that a clock ends, of entries planned together, of
 * files that are completed, and of other objectives than the time of a batch.
 */
#ifndef APC_DRIVER_KEPT_H
#define APC_DRIVER_KEPT_H

#include "driver/driver.h"

/* The plan that was kept of this build, with its alternatives where these are listed; NULL: none was. */
Plan *driver_find_kept(Build *b);
/* Keeps the plan of a build whose Program, and those of its alternatives, were asked. */
void driver_keep_plan(Build *b);

#endif
