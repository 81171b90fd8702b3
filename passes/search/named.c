/* passes/search/named.c - conventional plans: stages, and one axis per degree that splits nothing else.
 *
 * There are few of them for each division of the ranks, and their graphs are small.  So each is estimated (estimate.h):
 * first some usual ones, then those that differ from the best so far in one degree by one prime factor, or in the
 * samples of a micro-batch, until the best has no better neighbour; then the best exchanges two degrees.  If memory is
 * so short that the best recomputes whole layers, plans that fit are far apart, and it begins in many places.  The best
 * are cut and priced like any outcome.  So a good plan is found early, at any scale, which the search over all axes
 * then has to beat.  Nothing here is a bound.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/schedule.h"
#include "passes/search/estimate.h"

/* Limits of the plans priced, by number and by operations.  None that is estimated to be slower than the best plan is
 * priced: estimates leave something out, and are seldom too high. */
enum { MOST_PRICED = 12, MOST_OPERATIONS = 600000 };

/* Neighbours are tried of plans that are slower than the best by less than this factor, up to a limit. */
static const double promising = 1.06;
enum { MOST_LOOKED_AT = 64 };

/* Degrees, including forced ones; dp gets the remaining ranks. */
typedef struct Named {
  int degree[DEGREE_COUNT];
  int samples; /* of a micro-batch, on each data-parallel rank */
  Candidate c;
  Estimates estimates;
  bool left;                    /* its neighbours were tried */
  bool priced[USUAL_SCHEDULES]; /* by schedule */
} Named;

/* A plan with a schedule. */
typedef struct Choice {
  Named *of;
  int by;
} Choice;

typedef struct Naming {
  Search *s;
  Arena *arena;
  const PlanOptions *options;
  Estimating *estimating;
  struct {
    Named *items;
    size_t n, cap;
  } list;
} Naming;

/* Makes the candidate.  False if ranks would be idle, or if a degree splits nothing or differs from its forced
 * value. */
static bool make_mesh(const Search *s, const PlanOptions *o, Named *x) {
  int used = 1;
  for (int d = 0; d < DEGREE_COUNT; d++) used *= d == DEGREE_dp ? 1 : x->degree[d];
  if (s->t->ranks % used || x->degree[DEGREE_pp] > s->most_stages) return false;
  x->degree[DEGREE_dp] = s->t->ranks / used;
  if (s->run.zero > 1 && x->degree[DEGREE_dp] == 1) return false; /* zero would split nothing */
  for (int d = 0; d < DEGREE_COUNT; d++) {
    bool splits = d == DEGREE_pp || s->has_degree[d] || x->degree[d] == 1;
    bool other = s->run.forced[d] && s->run.forced[d] != x->degree[d];
    if (!splits || other || (s->run.within[d] && s->run.within[d] != x->degree[d])) return false;
  }
  int each = s->most_micro / x->degree[DEGREE_dp], micro = each / x->samples;
  if (o->micro_batches) micro = o->micro_batches;
  else if (x->samples > 1 && micro < 1) return false;
  else if (micro > 1) micro = useful_up_to(s, x->degree[DEGREE_pp], micro);
  x->c = candidate_of(s, x->degree[DEGREE_pp], micro > 1 ? micro : 1, micro > 1 ? micro : 1);
  x->c.no_gaps |= s->any_schedule && x->c.stages > 1 && micro > 1;
  for (int d = DEGREE_FIRST_AXIS; d < DEGREE_COUNT; d++)
    if (x->degree[d] > 1) x->c.sizes[x->c.naxes] = x->degree[d], x->c.degree[x->c.naxes++] = d;
  return true;
}

static bool same_named(const Named *a, const Named *b) {
  return memcmp(a->degree, b->degree, sizeof a->degree) == 0 && a->c.micro == b->c.micro;
}

/* Estimates a plan and adds it to the list, unless it is already there. */
static void look_at(Naming *w, Named x) {
  if (!make_mesh(w->s, w->options, &x)) return;
  for (size_t i = 0; i < w->list.n; i++)
    if (same_named(&w->list.items[i], &x)) return;
  x.left = false;
  x.estimates = search_estimate(w->estimating, &x.c);
  ARENA_PUSH(w->arena, &w->list, x);
}

/* Returns the best plan whose neighbours were not tried; SIZE_MAX if none is promising. */
static size_t best_not_left(const Naming *w) {
  size_t next = SIZE_MAX;
  double best = INFINITY;
  for (size_t i = 0; i < w->list.n; i++) {
    const Named *x = &w->list.items[i];
    best = fmin(best, x->estimates.least);
    bool open = !x->left && !isinf(x->estimates.least);
    if (open && (next == SIZE_MAX || x->estimates.least < w->list.items[next].estimates.least)) next = i;
  }
  bool goes_on = next != SIZE_MAX && w->list.n < MOST_LOOKED_AT;
  return goes_on && w->list.items[next].estimates.least <= best * promising ? next : SIZE_MAX;
}

/* Tries plans with one degree p times larger and another p times smaller, and as many data-parallel ranks. */
static void exchange_by(Naming *w, const Named *x, int p) {
  for (int d = 0; d < DEGREE_COUNT; d++)
    for (int k = 0; k < DEGREE_COUNT; k++) {
      Named other = *x;
      if (d == k || d == DEGREE_dp || k == DEGREE_dp || x->degree[d] % p) continue;
      other.degree[d] /= p, other.degree[k] *= p;
      look_at(w, other);
    }
}

/* Tries plans with one degree p times larger or smaller. */
static void look_around_by(Naming *w, const Named *x, int p) {
  for (int d = 0; d < DEGREE_COUNT; d++) {
    Named more = *x, less = *x;
    if (d == DEGREE_dp) continue;
    more.degree[d] *= p, less.degree[d] /= p;
    if (x->degree[DEGREE_dp] % p == 0) look_at(w, more);
    if (x->degree[d] % p == 0) look_at(w, less);
  }
}

typedef void LookBy(Naming *w, const Named *x, int p);

/* Calls `look` for every prime factor of the number of ranks. */
static void look_by_primes(Naming *w, const Named *x, LookBy *look) {
  for (int p = 2, rest = w->s->t->ranks; rest > 1; p++) {
    if (rest % p == 0) look(w, x, p);
    while (rest % p == 0) rest /= p;
  }
}

/* If the number of data-parallel ranks is forced, only other degrees can be exchanged. */
static void look_around(Naming *w, size_t from) {
  w->list.items[from].left = true;
  const Named x = w->list.items[from];
  look_by_primes(w, &x, w->s->run.forced[DEGREE_dp] ? exchange_by : look_around_by);
  Named more = x, less = x;
  more.samples *= 2, less.samples /= 2;
  look_at(w, more);
  if (less.samples) look_at(w, less);
}

/* Continues until no promising plan has untried neighbours. */
static void descend(Naming *w) {
  for (size_t best; !w->s->watch.expired && (best = best_not_left(w)) != SIZE_MAX;) look_around(w, best);
}

/* Returns the best plan; SIZE_MAX if none is possible. */
static size_t best_estimate(const Naming *w) {
  size_t best = SIZE_MAX;
  for (size_t i = 0; i < w->list.n; i++) {
    double x = w->list.items[i].estimates.least;
    if (isfinite(x) && (best == SIZE_MAX || x < w->list.items[best].estimates.least)) best = i;
  }
  return best;
}

/* If a batch cannot be split further, a single step leads nowhere.  So the best plan also exchanges degrees, as long as
 * that finds better ones. */
static void descend_by_exchanges(Naming *w) {
  for (size_t best = best_estimate(w), was = SIZE_MAX; best != was && best != SIZE_MAX && !w->s->watch.expired;) {
    const Named x = w->list.items[was = best];
    look_by_primes(w, &x, exchange_by);
    descend(w);
    best = best_estimate(w);
  }
}

/* If the batch is too small for the data-parallel ranks, they split sequences instead, if there are any. */
static void cut_sequences(const Search *s, Named *x) {
  int rest = s->t->ranks / (x->degree[DEGREE_pp] * x->degree[DEGREE_tp] * x->degree[DEGREE_ep]), data = rest;
  while (data > s->most_micro) {
    int p = 2;
    while (data % p) p++;
    data /= p;
  }
  bool free = s->has_degree[DEGREE_cp] && !s->run.forced[DEGREE_cp] && !s->run.forced[DEGREE_dp];
  if (free && data > 0) x->degree[DEGREE_cp] = rest / data;
}

/* Returns the largest number of ranks inside the innermost links that can share the experts. */
static int usual_experts(const Search *s) {
  int64_t experts = largest_factor(s, LABEL_EXPERT);
  int n = s->t->tiers[0].group;
  while (n > 1 && (n > experts || s->t->ranks % n)) n--;
  return s->has_degree[DEGREE_ep] ? n : 1;
}

static void look_at_start(Naming *w, int stages, int tensor, int experts) {
  const Search *s = w->s;
  const int *forced = s->run.forced;
  Named x = {.samples = 1};
  int rest = s->t->ranks;
  for (int d = 0; d < DEGREE_COUNT; d++) x.degree[d] = forced[d] ? forced[d] : 1;
  x.degree[DEGREE_pp] = stages, x.degree[DEGREE_tp] = tensor, x.degree[DEGREE_ep] = experts;
  for (int d = 0; d < DEGREE_COUNT; d++) rest /= d == DEGREE_pp || rest % x.degree[d] ? 1 : x.degree[d];
  if (forced[DEGREE_dp] && !forced[DEGREE_pp]) x.degree[DEGREE_pp] = rest;
  cut_sequences(s, &x);
  look_at(w, x);
  /* Without stages, or if they are kept full, whole batches are best, if they fit. */
  if ((x.degree[DEGREE_pp] > 1 && !s->steady) || !make_mesh(s, w->options, &x)) return;
  x.samples = s->most_micro / x.degree[DEGREE_dp];
  if (x.samples > 1) look_at(w, x);
}

/* Starts with few and with many stages; with tensor-parallel ranks none, or all or half of those inside the innermost
 * links; with experts on one rank, or on many; and with the forced degrees. */
static void look_at_usual(Naming *w) {
  const Search *s = w->s;
  const int *forced = s->run.forced;
  const int group = s->t->tiers[0].group, one = forced[DEGREE_ep] ? forced[DEGREE_ep] : 1,
            many = forced[DEGREE_ep] ? one : usual_experts(s);
  const int stages[] = {forced[DEGREE_pp] ? forced[DEGREE_pp] : 1, 8},
            tensor[] = {forced[DEGREE_tp] ? forced[DEGREE_tp] : 1, group, (group + 1) / 2};
  enum { STAGES = sizeof stages / sizeof *stages, TENSOR = sizeof tensor / sizeof *tensor };
  for (int i = 0; i < STAGES * TENSOR; i++) {
    look_at_start(w, stages[i / TENSOR], tensor[i % TENSOR], one);
    if (many > one) look_at_start(w, stages[i / TENSOR], tensor[i % TENSOR], many);
  }
}

/* If none of the usual plans fits: tries all numbers of stages, with all ranks inside the innermost links
 * tensor-parallel.
 */
static void look_at_all_stages(Naming *w) {
  const Search *s = w->s;
  const int *forced = s->run.forced, tensor = forced[DEGREE_tp] ? forced[DEGREE_tp] : s->t->tiers[0].group,
            one = forced[DEGREE_ep] ? forced[DEGREE_ep] : 1;
  for (int stages = 2; stages <= s->most_stages && !s->watch.expired; stages++)
    if (s->t->ranks % stages == 0 && (!forced[DEGREE_pp] || forced[DEGREE_pp] == stages))
      look_at_start(w, stages, tensor, one);
}

/* True if the best plan recomputes whole layers, or none fits.  Then most neighbours do not fit. */
static bool memory_is_short(const Naming *w) {
  const size_t best = best_estimate(w);
  if (!func_has_gradients(w->s->f) || !w->s->nlayers) return false;
  for (int k = 0; k < USUAL_SCHEDULES && best != SIZE_MAX; k++) {
    const Estimate *x = &w->list.items[best].estimates.by[k];
    if (x->seconds <= w->list.items[best].estimates.least) return x->again > w->s->nlayers;
  }
  return true;
}

/* Tries a number of stages and of tensor-parallel ranks with four and with eight micro-batches a stage. */
static void look_at_small_parts(Naming *w, int stages, int tensor) {
  const Search *s = w->s;
  Named x = {.samples = 1};
  for (int d = 0; d < DEGREE_COUNT; d++) x.degree[d] = s->run.forced[d] ? s->run.forced[d] : 1;
  x.degree[DEGREE_pp] = stages, x.degree[DEGREE_tp] = tensor;
  if (!make_mesh(s, w->options, &x)) return;
  const int each = s->most_micro / x.degree[DEGREE_dp];
  for (int parts = 4; parts <= 8; parts *= 2) {
    x.samples = each / (parts * stages) > 0 ? each / (parts * stages) : 1;
    look_at(w, x);
  }
}

/* Tries all numbers of stages with all numbers of tensor-parallel ranks inside the innermost links. */
static void look_everywhere(Naming *w) {
  const Search *s = w->s;
  const int group = s->t->tiers[0].group;
  for (int stages = 2; stages <= s->most_stages && stages <= s->t->ranks; stages++)
    for (int tensor = 1; tensor <= group && s->t->ranks % stages == 0 && !s->watch.expired; tensor++)
      if (s->t->ranks / stages % tensor == 0) look_at_small_parts(w, stages, tensor);
}

static double seconds_of(const Choice *x) { return x->of->estimates.by[x->by].seconds; }

static int by_estimate(const void *x, const void *y) {
  const Choice *a = x, *b = y;
  if (seconds_of(a) != seconds_of(b)) return seconds_of(a) < seconds_of(b) ? -1 : 1;
  int order = memcmp(a->of->degree, b->of->degree, sizeof a->of->degree);
  return order ? order : a->of->samples != b->of->samples ? a->of->samples - b->of->samples : a->by - b->by;
}

/* True if a run without forced degrees has priced it. */
static bool is_known(const Search *s, const Candidate *c) {
  for (size_t i = 0; s->run.known && !s->run.zero && i < s->run.known->n; i++) {
    const Candidate *x = &s->run.known->items[i]->c;
    bool same = x->schedule.order == c->schedule.order && x->schedule.chunks == c->schedule.chunks;
    if (same && s->run.known->items[i]->feasible && search_same_candidate(x, c)) return true;
  }
  return false;
}

/* Returns the candidate with its schedule, as if that were forced. */
static Candidate with_schedule(Search *s, const Choice *x) {
  Candidate c = x->of->c;
  if (!s->any_schedule || !c.no_gaps) return c;
  s->any_schedule = false;
  s->schedule = c.schedule = search_usual_schedules[x->by];
  c.no_gaps = c.schedule.chunks > 1 || schedule_weights_apart(c.schedule.order);
  return c;
}

static void price(Naming *w, const Choice *x, double prune_above) {
  Search *s = w->s;
  const Estimate *estimate = &x->of->estimates.by[x->by];
  const bool any = s->any_schedule, alike = s->layers_alike;
  const ScheduleKind schedule = s->schedule;
  double ignored, best = search_best_time(s);
  const Candidate c = with_schedule(s, x);
  s->guess = estimate->again, s->guess_freed = estimate->freed;
  s->layers_alike = !x->of->estimates.limited;
  Outcome *o = is_known(s, &c) ? NULL : search_solve_mesh(s, &c, prune_above, &ignored);
  s->schedule = schedule, s->any_schedule = any, s->layers_alike = alike, s->guess = -1;
  if (o) search_add_if_known(s, o, best);
}

/* The same plan with data-parallel ranks on two axes, so that weights may be sharded over one of them; false if there
 * is no such axis, or it is too small. */
static bool split_data(const Candidate *c, int inner, Candidate *out) {
  int d = 0;
  while (d < c->naxes && c->degree[d] != DEGREE_dp) d++;
  if (d == c->naxes || c->naxes > MAX_SPATIAL || c->sizes[d] % inner || c->sizes[d] == inner) return false;
  *out = *c;
  for (int k = out->naxes++; k > d; k--) out->sizes[k] = out->sizes[k - 1], out->degree[k] = out->degree[k - 1];
  out->sizes[d] /= inner, out->sizes[d + 1] = inner;
  return true;
}

/* If weights do not fit, sharding them over all data-parallel ranks is expensive. */
static void price_split(Naming *w, const Choice *x) {
  Named split = *x->of;
  const Choice choice = {&split, x->by};
  for (int inner = 2; inner <= w->s->t->tiers[0].group && !w->s->watch.expired; inner *= 2)
    if (split_data(&x->of->c, inner, &split.c)) price(w, &choice, search_best_time(w->s));
}

/* The same with free axes: if memory is short, weights may also be sharded over axes of tensor-parallel ranks. */
static void price_free(Naming *w, const Choice *x) {
  Named free = *x->of;
  const Choice choice = {&free, x->by};
  if (free.c.naxes > MAX_SPATIAL) return;
  for (int d = DEGREE_FIRST_AXIS; d < DEGREE_COUNT; d++)
    if (w->s->run.forced[d]) return;
  for (int i = 0; i < free.c.naxes; i++) free.c.degree[i] = -1;
  price(w, &choice, search_best_time(w->s));
}

/* Prices a plan; false if it is estimated to be slower than the best plan. */
static bool price_promising(Naming *w, const Choice *x) {
  if (seconds_of(x) > search_best_time(w->s) || w->s->watch.expired) return false;
  x->of->priced[x->by] = true;
  price(w, x, INFINITY);
  if (x->of->estimates.limited) price_split(w, x), price_free(w, x);
  return true;
}

static int times_priced(const Named *x) {
  int n = 0;
  for (int k = 0; k < USUAL_SCHEDULES; k++) n += x->priced[k];
  return n;
}

/* Prices the same degrees with the other schedules, because estimates are less accurate for schedules than for
 * degrees. */
static void price_other_schedules(Naming *w, Named *x) {
  for (int k = 0; k < USUAL_SCHEDULES; k++)
    if (isfinite(x->estimates.by[k].seconds) && !x->priced[k]) price_promising(w, &(Choice){x, k});
}

/* Prices the best plans, with two schedules each, and one for each number of stages, because estimates of pipelines
 * leave out more than others; then the best of them with all schedules, and that of a training step with free axes,
 * which a large search may not reach. */
static void price_best(Naming *w) {
  const int most_schedules = 2;
  const Search *s = w->s;
  Choice best_of_all = {0};
  Choice *all = ARENA_ARRAY(w->arena, Choice, USUAL_SCHEDULES * w->list.n + 1);
  bool *known = ARENA_ARRAY(w->arena, bool, s->most_stages + 1);
  size_t n = 0, npriced = 0;
  for (size_t i = 0; i < w->list.n; i++)
    for (int k = 0; k < USUAL_SCHEDULES; k++)
      if (isfinite(w->list.items[i].estimates.by[k].seconds)) all[n++] = (Choice){&w->list.items[i], k};
  if (n) qsort(all, n, sizeof *all, by_estimate);
  for (size_t i = 0; i < n; i++) {
    bool *stages = &known[all[i].of->c.stages], best = npriced < MOST_PRICED && npriced * s->f->ops.n < MOST_OPERATIONS;
    const Outcome *before = s->run.best;
    if ((!best && *stages) || times_priced(all[i].of) == most_schedules || !price_promising(w, &all[i])) continue;
    *stages = true, npriced++;
    if (s->run.best != before) best_of_all = all[i];
  }
  if (!best_of_all.of) return;
  price_other_schedules(w, best_of_all.of);
  bool free = !best_of_all.of->estimates.limited; /* it was priced with free axes, too */
  if (free && func_has_gradients(s->f)) price_free(w, &best_of_all);
}

void search_try_named(Search *s, const PlanOptions *o) {
  Naming w = {.s = s, .arena = arena_new(), .options = o};
  const bool limited = s->run.limited, brief = s->brief;
  const double weight = s->run.memory_weight, activations = s->run.activations;
  w.estimating = search_estimating(s, w.arena);
  s->layers_alike = s->brief = true;
  look_at_usual(&w);
  if (best_estimate(&w) == SIZE_MAX && !s->run.best) look_at_all_stages(&w);
  descend(&w);
  descend_by_exchanges(&w);
  if (memory_is_short(&w)) look_everywhere(&w), descend(&w);
  price_best(&w);
  s->layers_alike = false;
  s->brief = brief;
  s->run.limited = limited, s->run.memory_weight = weight, s->run.activations = activations;
  arena_free(w.arena);
}
