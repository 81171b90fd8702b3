/* driver/objective.c - see objective.h.
 *
 * The search finds the fastest plan within a memory limit.  So the least memory is found by bisection over that limit:
 * a limit will do if the fastest plan within it is fast enough.  A limit that will not do is a bound where the search
 * has proved that no plan within it is fast enough, or weights and state alone exceed it; where that is open, the plan
 * may not be the smallest. Bytes are those that the search counts.
 */
#include "driver/objective.h"

#include <math.h>

#include "driver/internal.h"

/* Bytes of a rank: `plan` takes `enough`; no plan was found within `little`; there is none within `proved`. */
typedef struct Least {
  Plan *plan;
  double enough, little, proved;
} Least;

/* Of one search, in sums: most end before. */
static const double try_work = 3e9;

static void try_limit(Build *b, double limit, double most_seconds, Least *x) {
  PlanOptions o = b->options.plan;
  o.memory_limit = limit;
  o.alternatives = false;
  PlanLack lack = {0};
  o.lack = &lack;
  if (o.effort <= 0) o.work = try_work;
  Plan *p = driver_search(b, &o, b->options.micro_batch, diags_new(b->options.model.arena));
  if (p && p->price.time.total <= most_seconds) {
    x->plan = p, x->enough = p->price.memory.total;
    return;
  }
  x->little = limit;
  bool too_large = !p && lack.resident > limit * b->options.target->ranks; /* weights and state alone */
  if (too_large || (p && p->lower_bound > most_seconds)) x->proved = fmax(x->proved, limit);
}

Plan *driver_least_memory(Build *b, Plan *fastest, double slower) {
  enum { MOST_TRIES = 10 };
  const double close = 0.01, most_seconds = fastest->price.time.total * (1 + slower);
  Least x = {.plan = fastest, .enough = fastest->price.memory.total};
  PlanTraded *traded = ARENA_NEW(b->options.model.arena, PlanTraded);
  for (int i = 0;
       i < MOST_TRIES && x.enough - x.little > close * x.enough && !driver_is_stopped(b) && driver_has_effort(b); i++)
    try_limit(b, (x.little + x.enough) / 2, most_seconds, &x);
  *traded = (PlanTraded){
      .fastest = fastest->price.time.total, .slower = slower, .bytes = fastest->price.memory.total, .least = x.proved};
  x.plan->traded = traded;
  x.plan->nnear = 0; /* those are faster, and take more */
  if (x.plan != fastest) driver_list_beside(b, x.plan, fastest);
  x.plan->one_device_seconds = fastest->one_device_seconds;
  x.plan->search_seconds = b->search_seconds;
  return x.plan;
}
