/* driver/fit.c - a plan whose Program is within the memory limit.
 *
 * In: the plan that the search found, others that it found on the way.  Out: a plan, and what its Program takes.
 * The search counts memory without making Programs (memory.c): a Program takes 0.5 to 2.5 times as much, and how much
 * depends on the plan.  Where that of the plan is above the limit, these are asked, until one is within it and hardly
 * slower than the plan: what else the search found within the limit, the fastest first; the mesh of the plan alone,
 * searched for less memory by the ratio of both; what is listed beside a small plan; then everything, searched for
 * less, and, where nothing is found, for half of the way back.  The last try is ZeRO 3.  The fastest that is within the
 * limit is taken.  So no plan is given whose program takes more than is allowed.
 *
 * The search also keeps some faster plans that it counted above the limit: where the Program of one is within it, that
 * is the plan (find_faster), without a further search.
 */
#include <math.h>

#include "driver/driver.h"
#include "driver/internal.h"

/* What was found. */
typedef struct Fit {
  double limit;
  double enough; /* seconds: nothing faster is looked for */
  double least;  /* bytes that the smallest Program takes */
  Plan *best;    /* the fastest plan whose Program is within the limit; NULL: none is */
} Fit;

/* Asks the Program of the plan there is. */
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

/* What else the search found that it counts within the limit. */
static bool find_spare(Build *b, Plan *was, Fit *x) {
  for (int i = 0; i < was->nspare && !x->best && may_go_on(b); i++) {
    driver_take_plan(b, was->spare[i]);
    if (!hold(b, x)) return false;
  }
  return true;
}

/* The mesh of the plan, with a little less memory.  What was proved of all plans stays true of what is found. */
static bool find_thriftier(Build *b, Plan *was, Fit *x) {
  enum { MOST_TRIES = 3 };
  double scale = x->limit / plan_memory(was)->needs;
  if (b->options.plan.said || b->options.target->nkinds || b->replicas) return true;
  for (int i = 0; i < MOST_TRIES && !is_enough(x, 0) && may_go_on(b); i++) {
    const PlanTry thriftier = {
        .limit = was->price.memory.needs * scale, .zero = b->options.plan.zero, .same_mesh = true};
    driver_take_plan(b, was);
    if (!driver_plan_again(b, &thriftier) || plan_seconds(b->plan) > x->enough) break;
    if (!hold(b, x)) return false;
    scale *= x->limit / plan_memory(b->plan)->needs;
  }
  return true;
}

/* With all that dp can cut: where the search has found the same count with less of it. */
static bool find_cut(Build *b, Fit *x) {
  const PlanTry cut = {.limit = x->limit, .zero = 1 + 3, .alternatives = true};
  if (!b->options.model.train || b->options.plan.zero || !driver_plan_again(b, &cut)) return true;
  return hold(b, x);
}

/* What the search lists beside the plan, each as its degrees give it when they are forced.  It may be faster than all
 * that the search looked at for itself.  A program is the same whether somebody is shown the list or not. */
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

/* Plans that the search counts less and less for, until a Program is within the limit. */
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
                      "planning for %s was stopped before there was a plan within the limit", b->options.target->name);
  return x->best || find_cut(b, x);
}

/* The Program of the plan is above the limit. */
static bool find_within(Build *b, Plan *was, Fit *x) {
  const double much = driver_is_small(b, was) ? 0.02 : 0.2;
  x->enough = plan_seconds(was) * (1 + fmax(0.005, was->gap / 10)); /* what could be gained is mostly not there */
  if (!find_spare(b, was, x) || !find_thriftier(b, was, x)) return false;
  if (driver_is_small(b, was) && !find_listed(b, was, x)) return false;
  if (!is_enough(x, much) && !find_smaller(b, was, x)) return false;
  if (!x->best) return true;
  if (b->plan != x->best) driver_take_plan(b, x->best);
  if (!x->best->nalternatives) driver_plan_beside(b, was);
  return true;
}

/* The first of a few that are faster and within the limit, if there is one. */
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
  if (!x.best && b->kept) { /* the Program is another one than it was: a search that finds nothing kept */
    b->searches_anew = true;
    driver_go_back(b, DRIVER_plan);
    return driver_run(b, DRIVER_plan) && driver_fit_plan(b, limit, least);
  }
  if (!x.best && b->unfit) return driver_refuse(b, b->unfit);
  if (b->options.plan_file || b->kept || !first->allocated) return true;
  /* Large programs take long to make: of these others are asked only where the plan needs one. */
  bool above = !x.best;
  if ((above || driver_is_small(b, first)) && !find_faster(b, first, &x)) return false;
  if (above && !x.best && !find_within(b, first, &x)) return false;
  *least = x.best ? plan_memory(x.best)->needs : x.least;
  return true;
}
