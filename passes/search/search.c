/* passes/search/search.c - the outer search: pipeline stages, micro-batches and mesh shapes; for each the planner graph
 * is solved exactly.
 *
 * Every factorisation of the ranks into stages and at most three spatial axes is a candidate; forced degrees fix some
 * axes and what the others may split.  Candidates are tried best first (tries.c); the plan's lower bound is the least
 * of all.  The result is cut into stages and priced as it will be lowered.
 *
 * Pipelines of a training step are candidates twice: with 1f1b, and with schedules that fill bubbles, which have a
 * bound of their own.
 *
 * An alternative is the result of a search forced to its degrees, so that users who force them get what was printed.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "ir/schedule.h"
#include "passes/search/outer.h"
#include "passes/search/report.h"
#include "passes/cost/sizes.h"
#include "program/program.h"

/* The default limits of work, in sums: for a large search of a training step, another large search, any other. */
static const double large_step = 8e9, large_work = 1.6e10, most_work = 6e10;

/* In a large search, bubbles are filled only for pipelines that would be faster by this share without them. */
static const double worth_filling = 0.04;

/* ---- one run */

static bool anything_forced(const Search *s, const PlanOptions *o) {
  bool any = o->micro_batches || s->run.zero;
  for (int d = 0; d < DEGREE_COUNT; d++) any |= s->run.forced[d] > 0;
  return any;
}

static bool amounts_to(const Search *s, const PlanOptions *o, const Outcome *x) {
  bool same = x->feasible && (!o->micro_batches || o->micro_batches == x->c.micro) &&
              (!s->run.zero || s->run.zero - 1 == x->zero);
  for (int d = 0; d < DEGREE_COUNT; d++) same &= !s->run.forced[d] || s->run.forced[d] == x->found[d];
  return same;
}

/* Returns the time of a pipeline without its bubbles; INFINITY if it is not a pipeline, or has filled them. */
static double without_gaps(const Outcome *o) {
  bool pipeline = o->feasible && o->c.stages > 1 && o->c.micro > 1 && !o->c.no_gaps;
  return pipeline ? o->price.time.total - o->price.time.idle : INFINITY;
}

static int by_without_gaps(const void *x, const void *y) {
  const Outcome *a = *(const Outcome *const *)x, *b = *(const Outcome *const *)y;
  double s = without_gaps(a), t = without_gaps(b);
  if (s != t) return s < t ? -1 : 1;
  return a->c.stages != b->c.stages ? a->c.stages - b->c.stages : a->c.micro - b->c.micro;
}

/* Fills the bubbles of at least one pipeline, if it pays and the search ended at its limit of work; of none if the time
 * is over. */
static void fill_gaps_of_found(Search *s, const PlanOptions *o) {
  size_t n = 0, nknown = s->run.known ? s->run.known->n : 0;
  const Outcome **found = ARENA_ARRAY(s->arena, const Outcome *, s->run.outcomes.n + nknown + 1);
  for (size_t i = 0; i < s->run.outcomes.n; i++) found[n++] = s->run.outcomes.items[i];
  for (size_t i = 0; i < nknown; i++)
    if (amounts_to(s, o, s->run.known->items[i])) found[n++] = s->run.known->items[i];
  if (n) qsort(found, n, sizeof *found, by_without_gaps);
  for (size_t i = 0; i < n && without_gaps(found[i]) < search_best_time(s) * (1 - worth_filling); i++) {
    if (s->watch.expired && (i > 0 || o->effort > 0 || solve_watch_stopped(&s->watch))) break;
    search_add_if_known(s, search_fill_gaps(s, found[i]), search_best_time(s));
  }
}

/* Tries everything within the forced degrees, beginning with known outcomes that have them.  The best plan, if any, is
 * s->run.best. */
static void run(Search *s, const PlanOptions *o) {
  if (isinf(s->watch.deadline))
    s->spent += s->watch.spent, s->watch.spent = 0, s->watch.expired = solve_watch_stopped(&s->watch);
  bool free_choice = !anything_forced(s, o) && s->t->ranks > 1 && !said_mesh(s->said);
  for (size_t i = 0; s->run.known && i < s->run.known->n; i++)
    if (amounts_to(s, o, s->run.known->items[i]) && s->run.known->items[i]->seconds < search_best_time(s))
      s->run.best = s->run.known->items[i];
  make_candidates(s, o);
  search_try_all(s, o, free_choice);
  search_improve_shares(s);
  if (!s->run.best && isinf(s->below) && s->watch.expired && !solve_watch_stopped(&s->watch)) search_try_hastily(s);
  if (s->any_schedule && s->large && !(o->any && s->run.best)) fill_gaps_of_found(s, o);
}

/* ---- searches forced to degrees */

static PlanOptions options_of(const PlanOptions *base, const int found[DEGREE_COUNT], const Candidate *c) {
  PlanOptions o = *base;
  memcpy(o.degree, found, sizeof o.degree);
  o.micro_batches = c->micro;
  return o;
}

/* True if some axes split nothing: their degrees cannot be forced. */
static bool has_idle_axes(const Search *s, const Outcome *o) {
  int ranks = 1;
  for (int d = 0; d < DEGREE_COUNT; d++) ranks *= o->found[d];
  return ranks != s->t->ranks;
}

/* Returns a run forced to these degrees, which knows the outcomes found without force. */
static SearchRun forced_run(const Search *s, const int degrees[DEGREE_COUNT]) {
  SearchRun r = {.zero = s->run.zero,
                 .known = s->run.known,
                 .lower_bound = INFINITY,
                 .left_alone = INFINITY,
                 .no_gaps_bound = INFINITY};
  memcpy(r.forced, degrees, sizeof r.forced);
  return r;
}

/* Runs `r` in place of the current run, which then continues; returns it with its results. */
static SearchRun run_apart(Search *s, const SearchRun *r, const PlanOptions *o) {
  const SearchRun before = s->run;
  s->run = *r;
  run(s, o);
  const SearchRun found = s->run;
  s->run = before;
  return found;
}

/* Keeps the results of a search without forced degrees, except for some of pp and micro-batches. */
static void keep_known(Search *s, const PlanOptions *o, const SearchRun *x, const PlanOptions *of) {
  PlanKnown *k = ARENA_NEW(s->arena, PlanKnown);
  *k = (PlanKnown){.items = x->outcomes.items,
                   .n = x->outcomes.n,
                   .seconds = x->best && !s->watch.expired ? fmin(x->best->seconds, x->left_alone) : 0};
  for (size_t i = 0; i < x->bounded.n; i++)
    if (x->bounded.items[i].bound < k->seconds) ARENA_PUSH(s->arena, &k->open, x->bounded.items[i]);
  memcpy(k->degrees, x->within, sizeof k->degrees);
  k->micro = of->micro_batches;
  k->recompute = s->recompute;
  k->schedule = s->schedule, k->any_schedule = s->any_schedule, k->all_schedules = !s->large;
  s->run.known = k;
  if (o->known) *o->known = k;
}

static bool knows(const Search *s, const SearchRun *x, const PlanOptions *o) {
  const PlanKnown *k = s->run.known;
  return k && memcmp(k->degrees, x->within, sizeof k->degrees) == 0 && k->micro == o->micro_batches &&
         k->recompute.kind == s->recompute.kind && k->recompute.layers == s->recompute.layers &&
         k->any_schedule == s->any_schedule && k->schedule.order == s->schedule.order &&
         k->schedule.chunks == s->schedule.chunks;
}

/* Searches without forced degrees, for searches that are forced: some results may have the forced degrees and be faster
 * than axes that split nothing else.  A large search has no time for everything; it then takes only the forced stages
 * and micro-batches, and axes that can have the degrees, with that part of the work.  `before`: outcomes of a run that
 * it continues; NULL if none. */
static void find_known(Search *s, const PlanOptions *o, double part, const PlanKnown *before) {
  PlanOptions none = {.memory_limit = o->memory_limit, .schedule = o->schedule, .chunks = o->chunks};
  SearchRun x = forced_run(s, (const int[DEGREE_COUNT]){0});
  x.zero = 0;
  x.known = before;
  if (s->large) {
    memcpy(x.within, s->run.forced, sizeof x.within);
    none.micro_batches = o->micro_batches;
    none.degree[DEGREE_pp] = x.forced[DEGREE_pp] = s->run.forced[DEGREE_pp];
  }
  s->run.known = o->known ? *o->known : NULL;
  if (knows(s, &x, &none)) return;
  const double most = s->watch.most;
  if (s->large) s->watch.most *= part;
  x = run_apart(s, &x, &none);
  for (size_t i = 0; before && i < before->n; i++)
    if (amounts_to(s, o, before->items[i])) ARENA_PUSH(s->arena, &x.outcomes, before->items[i]);
  keep_known(s, o, &x, &none);
  s->watch.most = most;
}

/* Returns the best outcome with the degrees; if none fits, the closest; NULL if there is none at all. */
static const Outcome *forced_to(Search *s, const PlanOptions *base, const Outcome *as) {
  PlanOptions o = options_of(base, as->found, &as->c);
  SearchRun x = forced_run(s, as->found);
  bool over = s->watch.expired;
  x = run_apart(s, &x, &o);
  if (isinf(s->watch.deadline)) s->watch.expired = over || solve_watch_stopped(&s->watch);
  return x.best ? x.best : search_nearest_outcome(&x);
}

/* ---- the answer */

/* Reports that the product of the degrees exceeds the ranks, or does not divide them. */
static bool does_not_divide(const Search *s, const int degree[DEGREE_COUNT], double product, Diags *d) {
  int rest = product > s->t->ranks ? 0 : s->t->ranks % (int)product;
  const char *forced = "";
  for (int i = 0; i < DEGREE_COUNT; i++)
    if (degree[i] > 1)
      forced = arena_printf(s->arena, "%s%s%s %d", forced, *forced ? " x " : "", degree_names[i], degree[i]);
  if (!*forced) forced = "the forced degrees";
  if (product > s->t->ranks)
    diag_error(d, DIAG_plan_infeasible, (Loc){0}, "%s would need %.0f ranks, but %s has %d", forced, product,
               s->t->name, s->t->ranks);
  else
    diag_error(d, DIAG_plan_infeasible, (Loc){0}, "%s would leave %d of the %d ranks of %s idle", forced,
               rest ? rest : s->t->ranks - (int)product, s->t->ranks, s->t->name);
  diag_help(d, "tp x pp x dp x cp x ep must be %d; leave one of them to apc", s->t->ranks);
  return false;
}

static bool check_options(const Search *s, const PlanOptions *o, Diags *d) {
  const int *degree = o->degree;
  double product = 1; /* of five numbers up to 999,999 */
  bool all = true;
  for (int i = 0; i < DEGREE_COUNT; i++) {
    if (degree[i] < 0 || degree[i] > s->t->ranks)
      return diag_error(d, degree[i] < 0 ? DIAG_plan_options : DIAG_plan_infeasible, (Loc){0},
                        "%s %d is not possible on %s, which has %d rank%s", degree_names[i], degree[i], s->t->name,
                        s->t->ranks, s->t->ranks == 1 ? "" : "s");
    product *= degree[i] ? degree[i] : 1;
    all &= degree[i] > 0;
  }
  if (o->zero > 1 && (degree[DEGREE_dp] == 1 || (!degree[DEGREE_dp] && product == s->t->ranks)))
    return diag_error(d, DIAG_plan_infeasible, (Loc){0},
                      "zero %d would have no effect: there are no data-parallel ranks to shard over", o->zero - 1);
  if (func_binds(s->f) && (degree[DEGREE_pp] > 1 || o->micro_batches > 1))
    return diag_error(d, DIAG_plan_infeasible, (Loc){0},
                      "a model that computes sizes has neither pipeline stages nor micro-batches");
  if (o->micro_batches > 1 && search_looks_up_rows(s->m))
    return diag_error(d, DIAG_plan_infeasible, (Loc){0},
                      "%d micro-batches are not possible: the model looks up rows of a state that it updates, such as "
                      "a slot of a cache, and a micro-batch would have only some of them",
                      o->micro_batches);
  if (o->micro_batches < 0)
    return diag_error(d, DIAG_plan_options, (Loc){0}, "%d micro-batches are not possible", o->micro_batches);
  if (o->micro_batches > PROGRAM_MAX_MICRO_BATCHES)
    return diag_error(d, DIAG_plan_infeasible, (Loc){0}, "there are at most %d micro-batches, not %d",
                      PROGRAM_MAX_MICRO_BATCHES, o->micro_batches);
  if (product > s->t->ranks || s->t->ranks % (int)product || (all && product < s->t->ranks))
    return does_not_divide(s, degree, product, d);
  return true;
}

static void take_schedule(Search *s, const PlanOptions *o) {
  bool trains = func_has_gradients(s->f);
  s->any_schedule = trains && !o->schedule;
  if (!o->schedule) return;
  s->schedule = (ScheduleKind){(PipelineSchedule)(o->schedule - 1), o->chunks};
  s->no_gaps = trains && (s->schedule.chunks > 1 || schedule_weights_apart(s->schedule.order));
}

/* Adds the operations that lines of a file recompute. */
static const bool *with_said(const Search *s, const bool *again) {
  if (!s->said) return again;
  bool *all = ARENA_ARRAY(s->arena, bool, s->f->ops.n + 1);
  for (size_t i = 0; i < s->f->ops.n; i++) all[i] = again[i] || said_again(s->said, i);
  return all;
}

/* Chooses the policies of recomputation: the forced one, or increasing ones for when memory is short. */
static bool choose_policies(Search *s, const PlanOptions *o, Diags *d) {
  static const RecomputeKind kinds[MOST_POLICIES] = {RECOMPUTE_none, RECOMPUTE_selective, RECOMPUTE_full};
  Recompute r = o->recompute;
  bool counted = r.kind == RECOMPUTE_layers || r.kind == RECOMPUTE_full_layers;
  s->recompute = r;
  s->again = recompute_choices(s->arena, s->f);
  int layers = recompute_layers(s->again);
  if (r.kind == RECOMPUTE_full && !layers)
    return diag_error(d, DIAG_plan_infeasible, (Loc){0},
                      "no layer of the model repeats, but full recomputation works by layer");
  if (counted && r.layers > layers)
    return diag_error(d, DIAG_plan_infeasible, (Loc){0}, "cannot recompute %d layer%s: %d layers of the model repeat",
                      r.layers, r.layers == 1 ? "" : "s", layers);
  s->nlayers = r.kind == RECOMPUTE_auto ? layers : 0;
  for (int i = 0; r.kind == RECOMPUTE_auto && i < MOST_POLICIES; i++)
    if (i < 2 || layers)
      s->policies[s->npolicies++].again = with_said(s, recompute_ops(s->arena, s->again, (Recompute){kinds[i], 0}));
  if (r.kind != RECOMPUTE_auto) s->policies[s->npolicies++].again = with_said(s, recompute_ops(s->arena, s->again, r));
  return true;
}

/* Without stages, memory decides the number of micro-batches. */
static bool same_degrees(const Outcome *a, const Outcome *b) {
  return memcmp(a->found, b->found, sizeof a->found) == 0 && a->c.stages == b->c.stages &&
         (a->c.micro == b->c.micro || a->c.stages == 1);
}

static double seconds_of(const Outcome *o) { return o->feasible ? o->seconds : INFINITY; }

static int by_time(const void *x, const void *y) {
  const Outcome *a = *(const Outcome *const *)x, *b = *(const Outcome *const *)y;
  if (seconds_of(a) != seconds_of(b)) return seconds_of(a) < seconds_of(b) ? -1 : 1;
  if (a->c.stages != b->c.stages) return a->c.stages - b->c.stages;
  if (a->c.micro != b->c.micro) return a->c.micro - b->c.micro;
  return memcmp(a->found, b->found, sizeof a->found);
}

static int by_seconds(const void *x, const void *y) {
  const PlanAlternative *a = x, *b = y;
  return a->seconds < b->seconds ? -1 : a->seconds > b->seconds;
}

/* Names axes after what they split, and numbers several of one kind. */
static void name_axes(Search *s, const Outcome *o) {
  const char *names[MAX_AXES];
  int used[DEGREE_COUNT + 1] = {0}, first = o->c.micro > 1;
  Shares x = shares_of(s->cost, s->f, s->rules, s->labels, o->strategies);
  for (int i = 0; i < o->c.naxes; i++) {
    if (said_mesh(s->said) && !s->said->nameless) {
      names[i] = s->said->mesh.axes[i + s->said->timed].name;
      continue;
    }
    int d = main_degree(&x, first + i);
    const char *base = d < 0 ? "idle" : degree_names[d];
    int count = ++used[d < 0 ? DEGREE_COUNT : d];
    names[i] = count == 1 ? base : arena_printf(s->arena, "%s%d", base, count);
  }
  search_set_mesh(s, &o->c, names);
}

/* Makes the plan of an outcome, and sets the module's mesh. */
static Plan *plan_of(Search *s, const Outcome *o) {
  Plan *p = ARENA_NEW(s->arena, Plan);
  search_set_mesh(s, &o->c, NULL);
  name_axes(s, o);
  p->target = arena_strdup(s->arena, s->t->name);
  p->func = s->f->name;
  p->on = s->t;
  p->ranks = s->t->ranks;
  p->mesh = s->m->mesh;
  memcpy(p->degree, o->found, sizeof p->degree);
  p->micro_batches = o->c.micro;
  p->zero = o->zero;
  p->strategies = o->strategies;
  p->stages = o->stages;
  p->recompute = recompute_name(s->arena, s->again, o->strategies);
  p->graph = s->graph;
  p->price = cost_plan(s->cost, s->m, s->f, s->rules, o->strategies, o->stages);
  p->flops = cost_plan_flops(s->cost, s->m, s->f, s->rules);
  p->params = cost_plan_params(s->m, s->f);
  p->mirrored = s->shape->mirrors.any;
  p->layout = s->layout;
  p->steady = s->steady;
  return p;
}

/* Describes an outcome with the requested degrees. */
static PlanAlternative alternative_of(Search *s, const Outcome *asked, const Outcome *o) {
  PlanAlternative a = {.micro_batches = asked->c.micro,
                       .zero = o ? o->zero : asked->zero,
                       .seconds = INFINITY,
                       .why_not = "not possible"};
  memcpy(a.degree, asked->found, sizeof a.degree);
  ScheduleKind kind = o ? o->c.schedule : s->schedule;
  a.schedule =
      plan_name_of_schedule(s->arena, s->shape->mirrors.any, asked->c.stages, a.micro_batches, kind.order, kind.chunks);
  a.recompute = recompute_name(s->arena, s->again, o && o->strategies ? o->strategies : asked->strategies);
  if (!o) return a;
  a.seconds = o->feasible ? o->price.time.total : INFINITY;
  a.bytes = o->price.memory.total, a.counted = true;
  a.why_not = o->feasible ? NULL : o->why_not;
  if (o->feasible) a.plan = plan_of(s, o);
  return a;
}

static bool can_be_forced(const Search *s, const Outcome *o) {
  return o->strategies && o->found[DEGREE_dp] && !has_idle_axes(s, o);
}

/* If memory is short, a search forced to degrees may find better plans than one without. */
static bool list_may_be_better(const Search *s) {
  const double much = 0.02;
  bool open = s->run.lower_bound < s->run.best->seconds * (1 - much);
  return s->run.limited_flat || (s->run.limited_some && open && !s->large);
}

/* A better alternative becomes the plan, whether alternatives are listed or not. */
static void prefer_forced(Search *s, const Outcome **asked, const Outcome **forced, int n) {
  for (int i = 0; i < n; i++) {
    if (!forced[i] || seconds_of(forced[i]) >= search_best_time(s) * (1 - 1e-9)) continue;
    const Outcome *was = s->run.best;
    s->run.best = forced[i];
    asked[i] = forced[i] = was;
  }
}

typedef struct PlanAlternatives {
  PlanAlternative *items;
  int n;
} PlanAlternatives;

/* Lists the most promising combinations of degrees, without the plan's own, each as forcing it would give it: those
 * solved here, or without force. */
static void list_alternatives(Search *s, const PlanOptions *o, PlanAlternatives *out) {
  enum { MOST = 6, MOST_OF_LARGE = 3 };
  int most = s->large ? MOST_OF_LARGE : MOST, kept = 0;
  size_t nknown = s->run.known ? s->run.known->n : 0;
  const Outcome **all = ARENA_ARRAY(s->arena, const Outcome *, s->run.outcomes.n + nknown + 1);
  const Outcome *asked[MOST], *forced[MOST];
  PlanAlternative *list = ARENA_ARRAY(s->arena, PlanAlternative, MOST);
  size_t n = 0;
  for (size_t i = 0; i < s->run.outcomes.n; i++)
    if (can_be_forced(s, s->run.outcomes.items[i])) all[n++] = s->run.outcomes.items[i];
  for (size_t i = 0; i < nknown; i++)
    if (can_be_forced(s, s->run.known->items[i]) && amounts_to(s, o, s->run.known->items[i]))
      all[n++] = s->run.known->items[i];
  if (n) qsort(all, n, sizeof *all, by_time);
  for (size_t i = 0; i < n && kept < most && !s->watch.expired; i++) {
    bool known = same_degrees(all[i], s->run.best);
    for (size_t j = 0; j < i && !known; j++) known = same_degrees(all[j], all[i]);
    if (!known) asked[kept] = all[i], forced[kept++] = forced_to(s, o, all[i]);
  }
  if (list_may_be_better(s)) prefer_forced(s, asked, forced, kept);
  for (int i = 0; o->alternatives && i < kept; i++) list[i] = alternative_of(s, asked[i], forced[i]);
  if (o->alternatives && kept) qsort(list, (size_t)kept, sizeof *list, by_seconds);
  *out = (PlanAlternatives){list, o->alternatives ? kept : 0};
}

/* True if a is better in time, time from batch to batch or memory, and not worse in the others; of equals the first. */
static bool beats(const Outcome *a, const Outcome *b, bool first) {
  const PlanPrice *x = &a->price, *y = &b->price;
  bool no_worse =
      x->time.total <= y->time.total && x->time.period <= y->time.period && x->memory.total <= y->memory.total;
  return a->feasible && no_worse &&
         (x->time.total < y->time.total || x->time.period < y->time.period || x->memory.total < y->memory.total ||
          first);
}

/* Lists the outcomes that no other beats, sorted by the minimised time, without the plan itself. */
static void list_frontier(Search *s, PlanAlternatives *out) {
  enum { MOST = 8 };
  size_t n = 0;
  const Outcome **all = ARENA_ARRAY(s->arena, const Outcome *, s->run.outcomes.n + 1);
  for (size_t i = 0; i < s->run.outcomes.n; i++) {
    const Outcome *o = s->run.outcomes.items[i];
    bool beaten = !o->feasible || o == s->run.best || beats(s->run.best, o, true);
    for (size_t k = 0; k < s->run.outcomes.n && !beaten; k++)
      beaten = k != i && beats(s->run.outcomes.items[k], o, k < i);
    if (!beaten) all[n++] = o;
  }
  if (n) qsort(all, n, sizeof *all, by_time);
  out->items = ARENA_ARRAY(s->arena, PlanAlternative, MOST);
  for (size_t i = 0; i < n && out->n < MOST; i++) out->items[out->n++] = alternative_of(s, all[i], all[i]);
}

/* Returns the overhead of a request, which the search does not count; 0 for entries planned together. */
static double request_of(const Search *s) { return s->f->joint ? 0 : s->t->request; }

/* Returns the bound that no plan beats.  `near`: also for plans slightly above the limit; these may avoid the
 * recomputation that short memory forces, so bounds without it count. */
static double bound_of(const Search *s, bool near) {
  double least = fmin(s->run.lower_bound, s->run.left_alone);
  for (size_t i = 0; near && i < s->run.bounded.n; i++) least = fmin(least, s->run.bounded.items[i].bound);
  return least + request_of(s);
}

/* Returns the plan of an outcome, with the search's results.  `near`: it is counted above the limit. */
static Plan *plan_with_report(Search *s, const PlanOptions *o, const Outcome *x, bool near, bool expired,
                              double one_device) {
  bool one_batch = x->c.stages > 1 && x->c.micro == 1 && !o->micro_batches;
  const char *why_one = one_batch ? search_one_batch(s) : NULL;
  Plan *p = plan_of(s, x);
  p->cut_short = expired;
  p->one_device_seconds = one_device;
  p->one_batch = why_one;
  p->lower_bound = fmin(bound_of(s, near), plan_seconds(p));
  p->no_gaps_bound = fmin(s->run.no_gaps_bound + request_of(s), p->lower_bound);
  p->gap = plan_gap(plan_seconds(p), p->lower_bound);
  p->search_work = s->work;
  p->report = s->report;
  return p;
}

/* Lists the next best outcomes within the limit, because the Program of the best may need more memory than the search
 * counts; that depends on the plan. */
static void list_spare(Search *s, const PlanOptions *o, bool expired, Plan *p) {
  enum { MOST = 6, MOST_OF_LARGE = 2 };
  const int most = s->large ? MOST_OF_LARGE : MOST;
  const double most_over = 2.5; /* largest ratio of a Program to the count that was observed */
  const Outcome **all = ARENA_ARRAY(s->arena, const Outcome *, s->run.outcomes.n + 1);
  size_t n = 0;
  if (o->any || p->price.memory.needs * most_over < s->limit) return;
  for (size_t i = 0; i < s->run.outcomes.n; i++)
    if (s->run.outcomes.items[i]->feasible && s->run.outcomes.items[i] != s->run.best)
      all[n++] = s->run.outcomes.items[i];
  if (n) qsort(all, n, sizeof *all, by_time);
  p->spare = ARENA_ARRAY(s->arena, Plan *, most);
  for (size_t i = 0; i < n && p->nspare < most; i++) {
    bool known = same_degrees(all[i], s->run.best) && all[i]->c.micro == s->run.best->c.micro;
    for (size_t k = 0; k < i && !known; k++) known = same_degrees(all[k], all[i]) && all[k]->c.micro == all[i]->c.micro;
    if (!known) p->spare[p->nspare++] = plan_with_report(s, o, all[i], false, expired, p->one_device_seconds);
  }
}

static Plan *finish(Search *s, const PlanOptions *options, double started) {
  const double much = 1e-3;
  PlanAlternatives beside = {0};
  bool expired = s->watch.expired;
  if (options->alternatives || list_may_be_better(s)) list_alternatives(s, options, &beside);
  if (options->frontier) beside = (PlanAlternatives){0}, list_frontier(s, &beside);
  bool fits_one = s->resident <= s->limit;
  double one_device = fits_one ? plan_one_device_seconds(s->m, s->f, s->t, options->memory_limit) : INFINITY;
  Plan *p = plan_with_report(s, options, s->run.best, false, expired, one_device);
  const NearList *near = &s->run.near;
  p->alternatives = beside.items, p->nalternatives = beside.n;
  p->near = ARENA_ARRAY(s->arena, Plan *, near->n + 1);
  for (int i = 0; i < near->n; i++)
    if (near->items[i]->seconds < plan_seconds(p) * (1 - much))
      p->near[p->nnear++] = plan_with_report(s, options, near->items[i], true, expired, one_device);
  list_spare(s, options, expired, p);
  p->search_seconds = solve_watch_now() - started;
  return p;
}

/* Forcing the degrees of the plan found must give a plan as fast: that one becomes the plan, even if others are as
 * fast. */
static void settle_degrees(Search *s, const PlanOptions *o) {
  if (has_idle_axes(s, s->run.best)) return;
  const Outcome *forced = forced_to(s, o, s->run.best);
  if (forced && seconds_of(forced) <= s->run.best->seconds * (1 + 1e-12)) s->run.best = forced;
}

/* True if only one set of degrees is possible. */
static bool all_forced(const Search *s, const PlanOptions *o) {
  bool all = true;
  double product = 1;
  for (int d = 0; d < DEGREE_COUNT; d++)
    all &= s->run.forced[d] > 0, product *= s->run.forced[d] > 0 ? s->run.forced[d] : 1;
  return o->micro_batches > 0 && (all || product == s->t->ranks);
}

/* True if the options of a training step fix everything except the layouts of values.  Then one mesh with a
 * conventional layout is priced, without a search. */
static bool is_layout(const Search *s, const PlanOptions *o) {
  int product = 1;
  for (int d = 0; d < DEGREE_COUNT; d++) product *= s->run.forced[d] > 0 ? s->run.forced[d] : 1;
  bool scheduled = o->schedule || s->run.forced[DEGREE_pp] <= 1 || o->micro_batches == 1,
       cut = o->zero || s->run.forced[DEGREE_dp] <= 1;
  return func_has_gradients(s->f) && s->t->ranks > 1 && product == s->t->ranks && o->micro_batches > 0 &&
         !o->searched && !o->said && scheduled && cut && o->recompute.kind != RECOMPUTE_auto;
}

/* Returns the fastest of the known outcomes and `best`. */
static const Outcome *best_known(const PlanKnown *known, const Outcome *best) {
  for (size_t i = 0; known && i < known->n; i++)
    if (known->items[i]->feasible && known->items[i]->seconds < best->seconds) best = known->items[i];
  return best;
}

/* The work of a large search ends long before all meshes are solved.  The degrees of the best plan are then forced, as
 * a user would, who then finds nothing faster; each degree may be two axes. */
static void divide_degrees(Search *s, const PlanOptions *o) {
  const double part = 0.1; /* of the work, for the known outcomes and for the run each */
  const Outcome *best = s->run.best;
  if (solve_watch_stopped(&s->watch) || isfinite(s->watch.deadline)) return;
  if (!can_be_forced(s, best)) return;
  PlanOptions forced = options_of(o, best->found, &best->c);
  forced.known = NULL;
  const SearchRun before = s->run;
  const double most = s->watch.most;
  s->watch.most *= part;
  s->run = forced_run(s, best->found);
  find_known(s, &forced, 1, before.known);
  best = best_known(s->run.known, best);
  s->run.best = best;
  run(s, &forced);
  if (search_best_time(s) < best->seconds) best = s->run.best;
  s->run = before;
  s->run.best = best;
  s->watch.most = most, s->watch.expired = true;
}

static Plan *refuse_with_bound(Search *s, Diags *d) {
  refuse(s, d);
  if (s->lack) s->lack->bound = fmin(fmin(bound_of(s, false), s->run.no_gaps_bound), s->below);
  return NULL;
}

static Plan *find_plan(Search *s, const PlanOptions *o, double started, Diags *d) {
  if (s->resident > s->limit * s->t->ranks) return refuse_size(s, d);
  const double part = 0.1; /* of the work, if the requested mesh has no plan */
  const bool layout = is_layout(s, o);
  if ((s->layout = layout)) run(s, o);
  s->layout &= s->run.best != NULL;
  if (layout && !s->layout && s->large) s->watch.most *= part;
  if (!s->layout) {
    if (anything_forced(s, o) && !o->any && !said_mesh(s->said)) find_known(s, o, 0.5, NULL);
    run(s, o);
  }
  if (!s->run.best && solve_watch_stopped(&s->watch)) {
    diag_error(d, DIAG_plan_stopped, (Loc){0}, "planning for %s was stopped before there was a plan", s->t->name);
    return NULL;
  }
  if (!s->run.best) return refuse_with_bound(s, d);
  if (!anything_forced(s, o)) keep_known(s, o, &s->run, o);
  if (!s->layout && !all_forced(s, o) && !o->any && !said_mesh(s->said))
    (s->watch.expired ? divide_degrees : settle_degrees)(s, o);
  return finish(s, o, started);
}

/* A pinned degree must be forced, so that its axes are known. */
static bool take_pins(Search *s, const PlanOptions *o, Diags *d) {
  for (int i = 0; i < o->npins; i++) {
    const PlanPin *pin = &o->pins[i];
    if (pin->degree == PIN_NO_DEGREE || o->degree[pin->degree] > 1) continue;
    const char *name = degree_names[pin->degree];
    return diag_error(d, DIAG_usage_value, (Loc){0}, "--pin '%s' needs --%s N, with N above 1", pin->text, name);
  }
  s->pins = o->pins;
  if (o->npins) s->pinned = pins_of(s->arena, s->f, o->pins, o->npins, d);
  return !o->npins || s->pinned;
}

/* An operation that every rank computes for itself has no layout to pin. */
static bool pins_have_layouts(const Search *s, Diags *d) {
  for (size_t i = 0; i < s->f->ops.n; i++)
    for (int k = 0; s->pinned && k < MOST_PINS && s->pinned[i] >> k; k++) {
      const PlanPin *pin = &s->pins[k];
      if (!(s->pinned[i] >> k & 1) || s->shape->class[i] >= 0 || pin->degree == PIN_NO_DEGREE) continue;
      return diag_error(d, DIAG_usage_value, (Loc){0}, "--pin '%s': %s \"%s\" has no layout of its own", pin->text,
                        op_name(s->f->ops.items[i].kind), s->f->ops.items[i].name);
    }
  return true;
}

/* Returns marks of operations that the user treats differently: pins, and lines of a file. */
static const uint64_t *marks_of(const Search *s) {
  if (!s->said) return s->pinned;
  uint64_t *marks = ARENA_ARRAY(s->arena, uint64_t, s->f->ops.n + 1);
  for (size_t i = 0; i < s->f->ops.n; i++) {
    const SaidStrategy *line = s->said->strategies[i];
    const uint64_t key[] = {s->pinned ? s->pinned[i] : 0, line ? (uint64_t)line->loc.line : 0,
                            said_layouts_mark(s->said, i)};
    marks[i] = key[0] || key[1] || key[2] ? hash64(key, sizeof key, 0) : 0;
  }
  return marks;
}

/* The same for lines.  Micro-batches split an operation in one way. */
static bool lines_have_layouts(const Search *s, Diags *d) {
  for (size_t i = 0; i < s->f->ops.n && s->said; i++) {
    const SaidStrategy *line = s->said->strategies[i];
    const Op *op = &s->f->ops.items[i];
    int time = s->shape->time_factor[i], factor = SAID_NONE;
    if (s->shape->class[i] < 0 && said_has_layouts(s->said, i))
      return diag_error(d, DIAG_plan_strategy, op->loc, "%s \"%s\" has no layout of its own, which %s gives it",
                        op_name(op->kind), op->name, s->said->source);
    if (!line) continue;
    if (s->shape->class[i] < 0 && line->s.n)
      return diag_error(d, DIAG_plan_strategy, line->loc, "%s \"%s\" has no layout of its own", op_name(op->kind),
                        op->name);
    for (int k = 0; k < line->s.n && s->said->timed; k++)
      if (line->s.picks[k].axis == 0) factor = line->s.picks[k].factor;
    if (s->shape->class[i] < 0 || !s->said->timed || factor == time || (time < 0 && factor < 0)) continue;
    if (time < 0)
      return diag_error(d, DIAG_plan_strategy, line->loc, "\"%s\": micro-batches do not split it", op->name);
    if (factor < 0 && (line->more || op_is_source(op->kind))) continue;
    const char *name = s->rules[i]->factors[time].name;
    return diag_error(d, DIAG_plan_strategy, line->loc,
                      "\"%s\": micro-batches split its factor %s, so the line needs %s:%s", op->name, name, name,
                      s->said->time);
  }
  return true;
}

/* Many ranks can be divided in hundreds of ways; with fewer ranks a long training step takes long for each. */
static bool is_large(const Func *f, const Target *t) {
  const int many_ranks = 64, some_ranks = 8;
  const size_t many_operations = 500;
  return t->ranks >= many_ranks || (t->ranks >= some_ranks && func_has_gradients(f) && f->ops.n >= many_operations);
}

/* Without gradients graphs are small, so conventional plans are found early on few ranks, too. */
static bool begins_with_named(const Func *f, const Target *t) {
  const int some_ranks = 8;
  return t->ranks >= some_ranks && !func_has_gradients(f);
}

bool search_open(Search *s, Module *m, const Func *f, const Target *t, const PlanOptions *o, Diags *d) {
  *s = (Search){.m = m,
                .mesh_before = m->mesh,
                .f = f,
                .t = t,
                .arena = m->arena,
                .run = {.zero = o->zero,
                        .near = {.wanted = !o->any},
                        .lower_bound = INFINITY,
                        .left_alone = INFINITY,
                        .no_gaps_bound = INFINITY},
                .guess = -1,
                .steady = o->steady && !cost_needs_last_step(f),
                .most_seconds = o->most_seconds > 0 ? o->most_seconds : INFINITY,
                .below = o->below > 0 ? o->below : INFINITY,
                .large = is_large(f, t),
                .named = !t->nkinds && (is_large(f, t) || begins_with_named(f, t)) && !said_mesh(o->said),
                .said = o->said,
                .schedule = {.order = SCHEDULE_1f1b}}; /* gpipe takes as long, and more memory */
  memcpy(s->run.forced, o->degree, sizeof s->run.forced);
  double deadline = o->effort > 0 ? solve_watch_now() + o->effort : INFINITY, work = o->work;
  if (o->effort <= 0 && o->work <= 0) work = !s->large ? most_work : func_has_gradients(f) ? large_step : large_work;
  s->watch = (SolveWatch){.deadline = deadline,
                          .most = work,
                          .stop = o->stop,
                          .began = solve_watch_now(),
                          .show = o->show ? search_report_progress : NULL,
                          .context = s};
  s->progress = (PlanProgress){.best = INFINITY};
  s->show = o->show;
  s->show_context = o->show_context;
  s->lack = o->lack;
  s->limit = plan_memory_limit(t, o->memory_limit);
  s->fastest = kinds_fastest(t);
  if (!check_options(s, o, d) || !choose_policies(s, o, d)) return false;
  take_schedule(s, o);
  s->rules = rules_of(m, f);
  s->labels = labels_of(m, f, s->rules);
  module_set_mesh(m, &(Mesh){.stages = 1});
  s->base = cost_model_new(m, t);
  search_set_mesh(s, &(Candidate){.stages = 1, .least = 1, .micro = 1}, NULL);
  if (!cost_sizes_can_be_priced(s->cost, m, f, d) || !take_pins(s, o, d)) return search_close(s), false;
  s->shape = shape_of_marked(m, s->cost, f, s->rules, s->labels, cost_loops(s->arena, s->cost, f, s->policies[0].again),
                             marks_of(s));
  s->alike = shape_alike(m, s->cost, s->shape);
  if (!pins_have_layouts(s, d) || !lines_have_layouts(s, d)) return search_close(s), false;
  for (int k = DEGREE_FIRST_AXIS; k < DEGREE_COUNT; k++) s->has_degree[k] = largest_factor(s, degree_labels[k]) > 0;
  s->graph = plan_graph_hash(m, f);
  s->most_micro = most_micro_batches(s);
  find_useful_micro_batches(s);
  s->resident = resident_bytes(s->cost, m, f);
  measure_least(s);
  s->most_stages = most_stages(s);
  return true;
}

void search_close(Search *s) {
  free_models(s);
  cost_model_free(s->base);
  module_set_mesh(s->m, &s->mesh_before);
}

double plan_least_seconds(Module *m, const Func *f, const Target *t) {
  Search s;
  if (!search_open(&s, m, f, t, &(PlanOptions){0}, diags_new(m->arena))) return 0;
  const Candidate one = {.stages = 1, .least = 1, .micro = 1};
  double least = least_seconds(&one, &s.least);
  search_close(&s);
  return least;
}

Plan *plan_search(Module *m, const Func *f, const Target *t, const PlanOptions *o, Diags *d) {
  double start = solve_watch_now();
  Search s;
  if (!search_open(&s, m, f, t, o, d)) return NULL;
  Plan *p = find_plan(&s, o, start, d);
  if (o->spent) *o->spent += s.spent + s.watch.spent;
  search_close(&s);
  return p;
}
