/* driver/replicas.c - see replicas.h.
 *
 * Each part is searched as a target of its own: first those that leave no device idle, the smallest first, as fewer
 * devices communicate less; with a latency limit the largest first, as more devices are faster.  Each search looks for
 * a plan better than the best so far and ends once its bounds are worse.  Each search has a work limit.  If that limit
 * ended the best part's search far from its bound, the part is searched once more, for as long as for any plan.  The
 * bound of a part is the one that its search proved or, without a search, the work of all operations divided by its
 * devices.
 */
#include "driver/replicas.h"

#include <math.h>
#include <stdlib.h>

#include "base/amount.h"
#include "driver/fewest.h"
#include "driver/internal.h"
#include "driver/objective.h"

static const double try_work = 6e9;     /* of one search, in elementary sums: some seconds */
static const double most_work = 1.2e10; /* of the first searches of all parts together */
static const double same = 1e-9;        /* plans whose values differ by less are equal */
static const double far = 0.03;         /* a gap that calls for another search */

/* A part of the target. */
typedef struct Part {
  int devices;
  const Target *on; /* NULL before its search */
  int replicas;     /* replicas that fit the target */
  int used;         /* devices of all replicas; 0 for cost */
  double weight;    /* the objective is this times the seconds per batch */
  double bound;     /* lower bound of the objective on this part */
  Plan *plan;       /* the best; NULL if none is better than earlier parts */
} Part;

typedef struct Parts {
  Build *b;
  const Target *whole;
  Part *items;
  size_t n, cap;
  const Part *best; /* NULL if there is no plan yet */
  double work;      /* of searches so far */
  bool cut_short;   /* that work left some parts unsearched */
  struct {
    PlanAlternative *items;
    size_t n, cap;
  } found;
} Parts;

static double value_of(const Part *x) { return x->plan ? x->weight * plan_seconds(x->plan) : INFINITY; }

static double best_value(const Parts *p) { return p->best ? value_of(p->best) : INFINITY; }

/* ---- the parts */

/* Returns the number of devices that the forced degrees need, or a divisor of it. */
static int forced_devices(const PlanOptions *o) {
  int n = 1;
  for (int d = 0; d < DEGREE_COUNT; d++) n *= o->degree[d] > 0 && n <= INT32_MAX / o->degree[d] ? o->degree[d] : 1;
  return n;
}

static void add_part(Parts *p, int devices, double least) {
  const Target *g = p->whole;
  if (devices % forced_devices(&p->b->options.plan) || devices < p->b->least_devices) return;
  Part x = {.devices = devices, .replicas = g->ranks / devices};
  bool cost = p->b->options.objective == OBJECTIVE_cost;
  x.used = cost ? 0 : x.replicas * devices;
  x.weight = cost ? target_price(g)->usd_per_hour * devices / g->ranks / 3600 : 1. / x.replicas;
  x.bound = x.weight * least / devices;
  ARENA_PUSH(p->b->options.model.arena, p, x);
}

/* Orders parts that leave no device idle first. */
static int by_devices(const void *x, const void *y) {
  const Part *a = x, *b = y;
  return a->used != b->used ? b->used - a->used : a->devices - b->devices;
}

static int most_devices_first(const void *x, const void *y) {
  const Part *a = x, *b = y;
  return a->used != b->used ? b->used - a->used : b->devices - a->devices;
}

/* `least`: seconds of all operations on one device.  Replicas do not exchange gradients, so training has one part
 * only. */
static void add_parts(Parts *p, double least) {
  const Target *g = p->whole;
  const int unit = g->ranks < g->per_machine ? g->ranks : g->per_machine;
  bool one = p->b->options.objective == OBJECTIVE_throughput && func_has_gradients(p->b->l1);
  for (int n = 1; n < unit && !one; n++)
    if (unit % n == 0) add_part(p, n, least);
  for (int n = unit; n <= g->ranks; n += unit)
    if (!one || n == g->ranks) add_part(p, n, least);
  const bool most_first = p->b->options.plan.most_seconds > 0;
  if (p->n) qsort(p->items, p->n, sizeof *p->items, most_first ? most_devices_first : by_devices);
}

/* ---- searches */

static void keep_found(Parts *p, Plan *x) {
  Arena *a = p->b->options.model.arena;
  PlanAlternative own = plan_as_alternative(a, x);
  own.plan = x;
  ARENA_PUSH(a, &p->found, own);
  for (int i = 0; i < x->nalternatives; i++) ARENA_PUSH(a, &p->found, x->alternatives[i]);
  x->alternatives = NULL, x->nalternatives = 0;
}

/* Compares by value; the time of a batch breaks ties. */
static bool is_better(const Parts *p, const Part *x) {
  double value = value_of(x), best = best_value(p);
  if (!p->best || value < best * (1 - same)) return true;
  return value <= best * (1 + same) && x->plan->price.time.total < p->best->plan->price.time.total * (1 - same);
}

/* Searches for a plan on the part that is no worse than the best; `left`: number of parts that share the remaining
 * effort. */
static void search_part(Parts *p, Part *x, double work, int left) {
  Build *b = p->b;
  PlanOptions o = b->options.plan;
  PlanLack lack = {0};
  o.alternatives = false, o.lack = &lack, o.known = NULL, o.spent = &p->work;
  o.below = p->best ? best_value(p) / x->weight * (1 + same) : 0;
  if (o.effort <= 0) o.work = work;
  else o.effort = b->search_seconds + fmax(o.effort - b->search_seconds, 0) / left;
  b->options.target = x->on;
  Plan *found = driver_search(b, &o, b->options.micro_batch, diags_new(b->options.model.arena));
  b->options.target = p->whole;
  /* With --micro-batch each data-parallel degree has a search of its own, so no bound is known. */
  if (!b->options.micro_batch) x->bound = fmax(x->bound, x->weight * (found ? found->no_gaps_bound : lack.bound));
  if (!found) return;
  keep_found(p, found);
  if (!x->plan || plan_seconds(found) < plan_seconds(x->plan)) x->plan = found;
  if (is_better(p, x)) p->best = x;
}

static const Target *target_of_part(const Parts *p, const Part *x) {
  Arena *a = p->b->options.model.arena;
  if (x->devices == p->whole->ranks) return p->whole;
  return target_part(a, p->whole, driver_target_name(a, p->whole, x->devices), x->devices);
}

static void search_all(Parts *p) {
  const ModelOptions *o = &p->b->options.model;
  for (size_t i = 0; i < p->n && !driver_is_stopped(p->b) && driver_has_effort(p->b); i++) {
    Part *x = &p->items[i];
    if (x->bound > best_value(p) * (1 - same)) continue;
    if (p->best && p->work > most_work && p->b->options.plan.effort <= 0) {
      p->cut_short = true;
      continue;
    }
    x->on = target_of_part(p, x);
    driver_watch_stage(&o->watch, o->arena, "Planning", "%s on %s", p->b->model.path, x->on->name);
    search_part(p, x, try_work, (int)(p->n - i));
  }
  Part *best = p->best ? &p->items[p->best - p->items] : NULL;
  bool open = best && best->plan->cut_short && best->bound < value_of(best) * (1 - far);
  if (open && p->b->options.plan.effort <= 0 && !driver_is_stopped(p->b)) search_part(p, best, 0, 1);
}

/* ---- the result */

static Replicas replicas_of(const Parts *p, const Part *x) {
  Replicas r = {
      .whole = p->whole, .n = x->replicas, .idle = p->whole->ranks - x->replicas * x->devices, .bound = INFINITY};
  for (size_t i = 0; i < p->n; i++) r.bound = fmin(r.bound, p->items[i].bound);
  return r;
}

/* Reports that no plan is fast enough, and the time of the fastest on all devices. */
static void refuse_late(const Parts *p) {
  Build *b = p->b;
  Arena *a = b->options.model.arena;
  PlanOptions o = b->options.plan;
  o.steady = o.alternatives = o.frontier = false;
  double most = o.most_seconds;
  o.most_seconds = 0;
  Plan *x = driver_search(b, &o, b->options.micro_batch, diags_new(a));
  if (!x) return;
  diag_error(b->options.model.diags, DIAG_plan_infeasible, (Loc){0},
             "no plan for %s takes at most %s a %s: the fastest plan found takes %s", p->whole->name,
             show_seconds(a, most), func_has_gradients(b->l1) ? "step" : "batch", show_seconds(a, x->price.time.total));
}

double driver_replicas_value(const Build *b) {
  const double seconds = plan_seconds(b->plan);
  return b->options.objective == OBJECTIVE_cost ? seconds * target_price(b->plan->on)->usd_per_hour / 3600
                                                : seconds / b->replicas->n;
}

Plan *driver_plan_replicas(Build *b) {
  const DriverOptions *o = &b->options;
  Arena *a = o->model.arena;
  const Replicas *before = b->replicas; /* their Program was too large */
  Parts parts = {.b = b, .whole = before ? before->whole : o->target};
  b->options.target = parts.whole;
  b->options.plan.steady = true;
  b->options.plan.frontier = o->plan.alternatives;
  add_parts(&parts, plan_least_seconds(b->model.m, b->l1, o->target));
  if (!parts.n) return NULL;
  search_all(&parts);
  const Part all = {.devices = parts.whole->ranks, .replicas = 1}, *best = parts.best ? parts.best : &all;
  Replicas *r = ARENA_NEW(a, Replicas);
  *r = replicas_of(&parts, best);
  if (before) r->bound = fmin(r->bound, before->bound);
  b->replicas = r;
  if (!parts.best && !before && o->plan.most_seconds > 0) refuse_late(&parts);
  if (!parts.best) return NULL;
  Plan *plan = best->plan;
  plan->search_seconds = b->search_seconds;
  plan->cut_short |= parts.cut_short;
  if (o->plan.alternatives) driver_frontier(a, plan, parts.found.items, (int)parts.found.n);
  return plan;
}
