/* driver/kept.h - plans of earlier searches, in the cache (base/cache.h).
 *
 * The same functions, target and options give the same search result, so the plan is stored as text with the results of
 * its search, and read back like a plan file.  Not stored: plans of searches with a time limit, of entries planned
 * together, of partial plan files, and of objectives other than latency.
 */
#ifndef APC_DRIVER_KEPT_H
#define APC_DRIVER_KEPT_H

#include "driver/driver.h"

/* Returns the cached plan of this build, with its alternatives if they are to be listed; NULL if none. */
Plan *driver_find_kept(Build *b);
/* Stores the plan of a build after its Program and those of its alternatives were measured. */
void driver_keep_plan(Build *b);

#endif
