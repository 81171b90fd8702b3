/* driver/objective.c - see objective.h.
 *
 * The search finds the fastest plan within a memory limit.  The least memory is therefore found by bisection over the
 * limit: a limit suffices if the fastest plan within it is fast enough.  A limit that does not suffice is a lower bound
 * if the search has proved that no plan within it is fast enough, or if weights and state alone exceed it; otherwise
 * the plan may not be the smallest.  Bytes are counted by the search.
 */
#include "driver/objective.h"

#include <math.h>
#include <stdlib.h>

#include "driver/internal.h"

/* ---- the frontier */

/* All devices of a target have the same price. */
static double money_of(const Plan *p) { return p->on->ranks * plan_seconds(p); }

/* True if x is no worse in any value and better in one; among equals, if it is the first.  Bytes counted by the search
 * are not compared with those of a Program. */
static bool beats(const PlanAlternative *x, const PlanAlternative *y, bool first) {
  const double a = money_of(x->plan), b = money_of(y->plan), same = 1e-9;
  if (x->counted != y->counted || x->bytes > y->bytes) return false;
  if (x->seconds > y->seconds * (1 + same) || a > b * (1 + same)) return false;
  return first || x->bytes < y->bytes || x->seconds < y->seconds * (1 - same) || a < b * (1 - same);
}

static int by_money(const void *x, const void *y) {
  const PlanAlternative *a = x, *b = y;
  double p = money_of(a->plan), q = money_of(b->plan);
  if (p != q) return p < q ? -1 : 1;
  return a->seconds < b->seconds ? -1 : a->seconds > b->seconds;
}

/* True if x is noticeably better in some value. */
static bool is_another(const PlanAlternative *x, const PlanAlternative *than) {
  const double much = 0.99;
  return x->seconds < much * than->seconds || x->bytes < much * than->bytes ||
         money_of(x->plan) < much * money_of(than->plan);
}

/* Of alternatives that are almost alike, keeps the cheapest. */
static int thin_out(const PlanAlternative *own, PlanAlternative *list, int n) {
  int kept = 0;
  for (int i = 0; i < n; i++) {
    bool another = is_another(&list[i], own);
    for (int k = 0; k < kept && another; k++) another = is_another(&list[i], &list[k]);
    if (another) list[kept++] = list[i];
  }
  return kept;
}

void driver_frontier(Arena *a, Plan *p, const PlanAlternative *list, int n) {
  PlanAlternative own = plan_as_alternative(a, p), *out = ARENA_ARRAY(a, PlanAlternative, n + 1);
  int kept = 0;
  own.plan = p;
  for (int i = 0; i < n; i++) {
    const PlanAlternative *x = &list[i];
    bool beaten = !x->plan || x->plan == p || isinf(x->seconds) || beats(&own, x, true);
    for (int k = 0; k < n && !beaten; k++)
      beaten = k != i && list[k].plan && !isinf(list[k].seconds) && beats(&list[k], x, k < i);
    if (!beaten) out[kept++] = *x;
  }
  if (kept) qsort(out, (size_t)kept, sizeof *out, by_money);
  p->alternatives = out, p->nalternatives = thin_out(&own, out, kept);
}

/* ---- the least memory */

/* Bytes of a rank: `plan` takes `enough`; the search found no plan within `little`; it proved that none is within
 * `proved`. */
typedef struct Least {
  Plan *plan;
  double enough, little, proved;
  struct {
    PlanAlternative *items;
    size_t n, cap;
  } found;
} Least;

static void keep_found(Arena *a, Least *x, Plan *p) {
  PlanAlternative own = plan_as_alternative(a, p);
  own.plan = p;
  ARENA_PUSH(a, &x->found, own);
  for (int i = 0; i < p->nalternatives; i++) ARENA_PUSH(a, &x->found, p->alternatives[i]);
}

/* Work limit of one search, in elementary sums; most searches end earlier. */
static const double try_work = 3e9;

static void try_limit(Build *b, double limit, double most_seconds, Least *x) {
  PlanOptions o = b->options.plan;
  o.memory_limit = limit;
  o.alternatives = false;
  o.frontier = b->options.plan.alternatives;
  PlanLack lack = {0};
  o.lack = &lack;
  if (o.effort <= 0) o.work = try_work;
  Plan *p = driver_search(b, &o, b->options.micro_batch, diags_new(b->options.model.arena));
  if (p) keep_found(b->options.model.arena, x, p);
  if (p && p->price.time.total <= most_seconds) {
    x->plan = p, x->enough = p->price.memory.total;
    return;
  }
  x->little = limit;
  bool too_large = !p && lack.resident > limit * b->options.target->ranks; /* weights and state alone exceed it */
  if (too_large || (p && p->lower_bound > most_seconds)) x->proved = fmax(x->proved, limit);
}

Plan *driver_least_memory(Build *b, Plan *fastest, double slower) {
  enum { MOST_TRIES = 10 };
  const double close = 0.01, most_seconds = fastest->price.time.total * (1 + slower);
  Least x = {.plan = fastest, .enough = fastest->price.memory.total};
  keep_found(b->options.model.arena, &x, fastest);
  PlanTraded *traded = ARENA_NEW(b->options.model.arena, PlanTraded);
  for (int i = 0;
       i < MOST_TRIES && x.enough - x.little > close * x.enough && !driver_is_stopped(b) && driver_has_effort(b); i++)
    try_limit(b, (x.little + x.enough) / 2, most_seconds, &x);
  *traded = (PlanTraded){
      .fastest = fastest->price.time.total, .slower = slower, .bytes = fastest->price.memory.total, .least = x.proved};
  x.plan->traded = traded;
  x.plan->nnear = 0; /* those are faster but take more */
  if (b->options.plan.alternatives) driver_frontier(b->options.model.arena, x.plan, x.found.items, (int)x.found.n);
  x.plan->one_device_seconds = fastest->one_device_seconds;
  x.plan->search_seconds = b->search_seconds;
  return x.plan;
}
