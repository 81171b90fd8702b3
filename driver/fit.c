/* driver/fit.c - finds a plan whose Program is within the memory limit.
 *
 * In: the plan that the search chose, and others that it found on the way.  Out: a plan, and the memory of its Program.
 * The search counts memory without making Programs (memory.c): a Program takes 0.5 to 2.5 times as much, depending on
 * the plan.  If the Program of the plan exceeds the limit, Programs of other plans are made in this order, until one is
 * within the limit and hardly slower: plans that the search counted within the limit, fastest first; the plan's mesh,
 * searched with the limit scaled by the ratio of both counts; for small plans, the listed alternatives; then a full
 * search with a scaled limit and, if that finds nothing, with a limit halfway back.  The last try is ZeRO 3.  The
 * fastest plan within the limit wins, so no program takes more than is allowed.
 *
 * The search also keeps some faster plans that it counted above the limit.  If the Program of one is within it, that
 * plan is chosen (find_faster) without a further search.
 */
#include <math.h>

#include "driver/driver.h"
#include "driver/internal.h"

/* State and result of the attempts. */
typedef struct Fit {
  double limit;
  double enough; /* seconds: a plan this fast ends the attempts */
  double least;  /* bytes of the smallest Program so far */
  Plan *best;    /* the fastest plan whose Program is within the limit; NULL if none */
} Fit;

/* Makes the Program of the current plan and records its memory. */
static bool hold(Build *b, Fit *x) {
  if (!driver_measure_plan(b)) return false;
  double takes = plan_memory(b->plan)->needs;
  x->least = fmin(x->least, takes);
  if (takes <= x->limit && (!x->best || plan_seconds(b->plan) < plan_seconds(x->best))) x->best = b->plan;
  return true;
}

static bool may_go_on(const Build *b) { return !driver_is_stopped(b) && driver_has_effort(b); }

static bool is_enough(const Fit *x, double slower) {
  return x->best && plan_seconds(x->best) <= x->enough * (1 + slower);
}

/* Tries further plans that the search counted within the limit. */
static bool find_spare(Build *b, Plan *was, Fit *x) {
  for (int i = 0; i < was->nspare && !x->best && may_go_on(b); i++) {
    driver_take_plan(b, was->spare[i]);
    if (!hold(b, x)) return false;
  }
  return true;
}

/* Searches the plan's mesh with slightly less memory.  Bounds proved for all plans hold for the result too.  A plan
 * that is too slow ends the attempts, but it may still be the fastest one in the end. */
static bool find_thriftier(Build *b, Plan *was, Fit *x) {
  enum { MOST_TRIES = 3 };
  double scale = x->limit / plan_memory(was)->needs;
  if (b->options.plan.said || b->options.target->nkinds || b->replicas) return true;
  for (int i = 0; i < MOST_TRIES && !is_enough(x, 0) && may_go_on(b); i++) {
    const PlanTry thriftier = {
        .limit = was->price.memory.needs * scale, .zero = b->options.plan.zero, .same_mesh = true};
    driver_take_plan(b, was);
    if (!driver_plan_again(b, &thriftier)) break;
    if (!hold(b, x)) return false;
    if (plan_seconds(b->plan) > x->enough) break;
    scale *= x->limit / plan_memory(b->plan)->needs;
  }
  return true;
}

/* Searches with ZeRO 3, which shards all that dp can: the search may count the same memory for a lower stage. */
static bool find_cut(Build *b, Fit *x) {
  const PlanTry cut = {.limit = x->limit, .zero = 1 + 3, .alternatives = true};
  if (!b->options.model.train || b->options.plan.zero || !driver_plan_again(b, &cut)) return true;
  return hold(b, x);
}

/* Tries the alternatives that the search lists, each as forcing its degrees gives it.  One may be faster than every
 * plan that the search considered itself.  The choice does not depend on whether the list is shown. */
static bool find_listed(Build *b, Plan *was, Fit *x) {
  const PlanTry list = {.limit = x->limit, .zero = b->options.plan.zero, .listed = true};
  driver_take_plan(b, was);
  if (!may_go_on(b) || (!was->nalternatives && !driver_plan_again(b, &list))) return true;
  const Plan *lists = b->plan;
  for (int i = 0; i < lists->nalternatives && may_go_on(b); i++) {
    const PlanAlternative *alternative = &lists->alternatives[i];
    bool slower = x->best && alternative->seconds >= plan_seconds(x->best);
    if (!alternative->plan || alternative->named || slower) continue;
    driver_take_plan(b, alternative->plan);
    if (!hold(b, x)) return false;
  }
  return true;
}

/* Searches with smaller and smaller limits until a Program is within the limit. */
static bool find_smaller(Build *b, Plan *was, Fit *x) {
  enum { MOST_TRIES = 6 };
  const double close = 0.01;
  double none = 0, counted = was->price.memory.needs, next = counted * x->limit / plan_memory(was)->needs;
  bool within = false;
  driver_take_plan(b, was);
  for (int i = 0; i < MOST_TRIES && !within && counted - none > close * counted && !driver_is_stopped(b); i++) {
    const PlanTry smaller = {.limit = next, .zero = b->options.plan.zero, .alternatives = true};
    if (!driver_plan_again(b, &smaller)) {
      none = next, next = (none + counted) / 2;
      continue;
    }
    if (!hold(b, x)) return false;
    double takes = plan_memory(b->plan)->needs;
    within = takes <= x->limit;
    counted = b->plan->price.memory.needs, next = fmax(counted * x->limit / takes, (none + counted) / 2);
  }
  if (!x->best && driver_is_stopped(b))
    return diag_error(b->options.model.diags, DIAG_plan_stopped, (Loc){0},
                      "planning for %s was stopped before it found a plan within the limit", b->options.target->name);
  return x->best || find_cut(b, x);
}

/* Replaces a plan whose Program exceeds the limit. */
static bool find_within(Build *b, Plan *was, Fit *x) {
  const double little = 0.02, much = driver_is_small(b, was) ? little : 0.2;
  x->enough = plan_seconds(was) * (1 + fmax(0.005, was->gap / 10)); /* most of the gap is not attainable */
  if (!find_spare(b, was, x)) return false;
  const bool enough = is_enough(x, much);
  if (!find_thriftier(b, was, x)) return false;
  if (driver_is_small(b, was) && !find_listed(b, was, x)) return false;
  if (!enough && !is_enough(x, little) && !find_smaller(b, was, x)) return false;
  if (!x->best) return true;
  if (b->plan != x->best) driver_take_plan(b, x->best);
  if (!x->best->nalternatives) driver_plan_beside(b, was);
  return true;
}

/* Takes the first of a few faster plans whose Program is within the limit, if any. */
static bool find_faster(Build *b, Plan *was, Fit *x) {
  enum { MOST_TRIES = 4 };
  Fit faster = {.limit = x->limit, .least = INFINITY};
  for (int i = 0; i < was->nnear && i < MOST_TRIES && !faster.best && may_go_on(b); i++) {
    driver_take_plan(b, was->near[i]);
    if (!hold(b, &faster)) return false;
  }
  if (!faster.best && b->plan != was) driver_take_plan(b, was);
  if (faster.best) x->best = b->plan, driver_plan_beside(b, was);
  return true;
}

bool driver_fit_plan(Build *b, double limit, double *least) {
  Plan *first = b->plan;
  Fit x = {.limit = limit, .least = INFINITY};
  if (!hold(b, &x)) return false;
  *least = x.least;
  if (!x.best && b->kept) { /* the cached plan's Program has changed: search again without the cache */
    b->searches_anew = true;
    driver_go_back(b, DRIVER_plan);
    return driver_run(b, DRIVER_plan) && driver_fit_plan(b, limit, least);
  }
  const Diags *unfit = b->unfit;
  if (!x.best && unfit && driver_plan_away(b)) return driver_fit_plan(b, limit, least);
  if (!x.best && unfit) return !b->options.model.diags->errors && driver_refuse(b, unfit);
  if (b->options.plan_file || b->kept || !first->allocated) return true;
  /* Large programs take long to make: try others only if this plan does not fit. */
  bool above = !x.best;
  if ((above || driver_is_small(b, first)) && !find_faster(b, first, &x)) return false;
  if (above && !x.best && !find_within(b, first, &x)) return false;
  *least = x.best ? plan_memory(x.best)->needs : x.least;
  return true;
}
