/* driver/fewest.h - the fewest devices of the target's kind that suffice: for `apc size`, or, if nothing fits a target,
 * for any plan at all. */
#ifndef APC_DRIVER_FEWEST_H
#define APC_DRIVER_FEWEST_H

#include "driver/driver.h"

/* Returns the name of the target with that many devices as a user writes it: "dgx-a100x8" from "dgx-a100x64";
 * "gh200-x4x2" from "gh200-x4", which is itself a name. */
const char *driver_target_name(Arena *a, const Target *g, int ranks);

typedef enum FewestVerdict { FEWEST_ENOUGH, FEWEST_MORE, FEWEST_GIVE_UP } FewestVerdict;

typedef struct FewestSearch {
  Arena *arena;
  const Target *like; /* a target with devices of this kind */
  double least;       /* fewest devices to try; `try` may raise it */
  int most_tries;
  FewestVerdict (*try)(struct FewestSearch *f, const Target *t); /* tries one target */
  void *context;
} FewestSearch;

/* Returns the smallest target tried that is enough; NULL if none is.  Tries single devices up to one machine, then
 * whole machines: the first counts one by one, then in steps that double, and then bisects between the last two. */
const Target *driver_fewest(FewestSearch *f);

/* Adds help to the last diagnostic: that fewer forced options would do, or the fewest devices of the same kind for
 * which a plan was found.  `resident`: bytes of weights and state, from plan_search. */
void driver_help_fewest(Build *b, const PlanOptions *options, double resident);

#endif
