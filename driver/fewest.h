/* driver/fewest.h - how many devices of a target's kind are enough: for what is asked (`apc size`), or for a plan at
 * all, when nothing fits a target. */
#ifndef APC_DRIVER_FEWEST_H
#define APC_DRIVER_FEWEST_H

#include "driver/driver.h"

/* The name of the target with so many devices, as it would be written: "dgx-a100x8" of "dgx-a100x64"; of "gh200-x4",
 * which is a name, "gh200-x4x2". */
const char *driver_target_name(Arena *a, const Target *g, int ranks);

typedef enum FewestVerdict { FEWEST_ENOUGH, FEWEST_MORE, FEWEST_GIVE_UP } FewestVerdict;

typedef struct FewestSearch {
  Arena *arena;
  const Target *like; /* one with devices of this kind */
  double least;       /* of devices; `try` may raise it */
  int most_tries;
  FewestVerdict (*try)(struct FewestSearch *f, const Target *t); /* is it enough? */
  void *context;
} FewestSearch;

/* The target with the fewest devices that was tried and is enough; NULL: none was.  Tried are single devices up to one
 * machine, then whole machines: the first numbers one by one, then in steps that double, and between the last two of
 * these the middle, again and again. */
const Target *driver_fewest(FewestSearch *f);

/* Adds help to the last diagnostic: that less force would do, or the fewest devices of the same kind on which a plan is
 * found.  `resident` is what plan_search said weights and state take. */
void driver_help_fewest(Build *b, const PlanOptions *options, double resident);

#endif
