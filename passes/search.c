/* passes/search.c - the outer search: pipeline stages, micro-batches and mesh shapes; for each the planner graph is solved exactly.
 *
 * Every factorisation of the ranks into stages and at most three spatial axes is a candidate; forced degrees fix some axes and what the
 * others may split.  Candidates are visited best first, by the time of their matrix products cut among all ranks; one is dropped when that, or the
 * sum of its cheapest operations, exceeds the best plan so far (at first that of one kind of parallelism alone).  The graph's optimum, with
 * everything that repeats weighted as if the stages were equal, bounds a candidate from below; the plan's lower bound is the least of all
 * candidates.  Then stages are cut and the result is priced as it will be lowered.
 */
#include <math.h>
#include <stdlib.h>

#include "passes/search_outer.h"
#include "passes/sizes.h"
#include "runtime/program.h"

/* ---- which are tried */

/* What one kind of parallelism alone gives: for the list of alternatives, and, since it is found soon, as a first plan, which leaves the
 * candidates only what can be faster. */
static void try_alone(Search *s, int degree) {
  double ignored;
  Candidate c = {.stages = 1, .micro = 1, .naxes = 1, .sizes = {s->t->ranks}, .degree = {degree}};
  Outcome *o = solve_mesh(s, &c, INFINITY, &ignored);
  s->noutcomes += o->feasible;
  if (o->feasible && (!s->best || o->price.time.total < s->best->price.time.total)) s->best = s->alone = o;
}

static void try_candidate(Search *s, const Candidate *c) {
  double bound, best = s->best ? s->best->price.time.total : INFINITY;
  if (c->bound > best) return;
  if (s->watch.expired) {
    s->lower_bound = fmin(s->lower_bound, c->bound);
    return;
  }
  s->report.candidates++;
  Outcome *o = solve_mesh(s, c, best, &bound);
  bool known = o->strategies || o->why_not;
  if (!known && !s->watch.expired) return; /* its cheapest operations alone take longer */
  s->noutcomes += known;
  bool as_good = s->best == s->alone && o->price.time.total == best; /* a free axis covers what is alone */
  if (o->feasible && (o->price.time.total < best || as_good)) s->best = o;
  s->lower_bound = fmin(s->lower_bound, bound);
}

static void try_all(Search *s, bool free_choice) {
  s->outcomes = ARENA_ARRAY(s->arena, Outcome, s->ncandidates + DEGREE_COUNT);
  s->noutcomes = 0;
  for (int degree = 0; free_choice && degree < DEGREE_COUNT; degree++) try_alone(s, degree);
  for (int i = 0; i < s->ncandidates; i++) {
    double best = s->best ? s->best->price.time.total : INFINITY;
    s->watch.progress = (PlanProgress){i, s->ncandidates, best, fmin(best, fmin(s->lower_bound, s->candidates[i].bound))};
    try_candidate(s, &s->candidates[i]);
  }
}

/* The time was over before there was a plan: takes the first that is found, at first by little work on each candidate, then by as much
 * as it takes.  Nothing else is known of them than what was known without solving. */
static void try_hastily(Search *s) {
  s->watch.deadline = INFINITY;
  s->watch.expired = false;
  for (int pass = 0; pass < 2 && !s->best; pass++) {
    s->hasty = pass == 0;
    s->noutcomes = 0;
    for (int i = 0; i < s->ncandidates && !s->best; i++) try_candidate(s, &s->candidates[i]);
  }
  s->lower_bound = INFINITY;
  for (int i = 0; i < s->ncandidates; i++) s->lower_bound = fmin(s->lower_bound, s->candidates[i].bound);
  s->watch.expired = true;
}

/* ---- the answer */

static bool check_options(const Search *s, const PlanOptions *o, Diags *d) {
  static const char *const names[] = {"pp", "dp", "cp", "ep", "tp"};
  int degrees[] = {o->pp, o->dp, o->cp, o->ep, o->tp}, product = 1;
  bool all = true;
  for (size_t i = 0; i < 5; i++) {
    if (degrees[i] < 0 || degrees[i] > s->t->ranks)
      return diag_error(d, degrees[i] < 0 ? DIAG_plan_options : DIAG_plan_infeasible, (Loc){0}, "%s %d is not possible on %s, which has %d rank%s", names[i], degrees[i],
                        s->t->name, s->t->ranks, s->t->ranks == 1 ? "" : "s");
    product *= degrees[i] ? degrees[i] : 1;
    all &= degrees[i] > 0;
  }
  if (o->micro_batches < 0) return diag_error(d, DIAG_plan_options, (Loc){0}, "%d micro-batches", o->micro_batches);
  if (o->micro_batches > PROGRAM_MAX_MICRO_BATCHES)
    return diag_error(d, DIAG_plan_infeasible, (Loc){0}, "there are at most %d micro-batches, not %d", PROGRAM_MAX_MICRO_BATCHES, o->micro_batches);
  if (s->t->ranks % product || (all && product != s->t->ranks)) {
    diag_error(d, DIAG_plan_infeasible, (Loc){0}, "the forced degrees multiply to %d and would leave ranks of %s idle, which has %d", product, s->t->name, s->t->ranks);
    diag_help(d, "tp x pp x dp x cp x ep must be %d; leave one of them to apc", s->t->ranks);
    return false;
  }
  return true;
}

static void alternative_of(const Outcome *o, PlanAlternative *a) {
  const int *found = o->found;
  *a = (PlanAlternative){.tp = found[DEGREE_TP], .dp = found[DEGREE_DP], .cp = found[DEGREE_CP], .ep = found[DEGREE_EP], .pp = o->c.stages, .micro_batches = o->c.micro,
                         .seconds = o->feasible ? o->price.time.total : INFINITY, .bytes = o->price.memory.total, .why_not = o->feasible ? NULL : o->why_not};
}

static int by_time(const void *x, const void *y) {
  const PlanAlternative *a = x, *b = y;
  if (a->seconds != b->seconds) return a->seconds < b->seconds ? -1 : 1;
  if (a->pp != b->pp) return a->pp - b->pp;
  return a->tp != b->tp ? a->tp - b->tp : a->dp - b->dp;
}

static bool same_degrees(const PlanAlternative *a, const PlanAlternative *b) {
  return a->tp == b->tp && a->pp == b->pp && a->dp == b->dp && a->cp == b->cp && a->ep == b->ep && a->micro_batches == b->micro_batches;
}

/* The best of each combination of degrees, without the plan's own. */
static void list_alternatives(const Search *s, Plan *p) {
  PlanAlternative *all = ARENA_ARRAY(s->arena, PlanAlternative, s->noutcomes + 1), own;
  int n = 0, kept = 0;
  alternative_of(s->best, &own);
  for (int i = 0; i < s->noutcomes; i++)
    if (s->outcomes[i].strategies && s->outcomes[i].found[DEGREE_DP]) alternative_of(&s->outcomes[i], &all[n++]);
  qsort(all, (size_t)n, sizeof *all, by_time);
  for (int i = 0; i < n; i++) {
    bool known = same_degrees(&all[i], &own);
    for (int j = 0; j < kept && !known; j++) known = same_degrees(&all[j], &all[i]);
    if (!known) all[kept++] = all[i];
  }
  p->alternatives = all;
  p->nalternatives = kept;
}

/* Axes get the name of what they split; several of one kind are numbered. */
static void name_axes(Search *s, const Outcome *o) {
  const char *names[MAX_AXES];
  int used[DEGREE_COUNT + 1] = {0}, first = o->c.micro > 1;
  Shares x = shares_of(s->cost, s->f, s->rules, s->labels, o->strategies);
  for (int i = 0; i < o->c.naxes; i++) {
    int d = o->c.degree[i] >= 0 ? o->c.degree[i] : main_degree(&x, first + i);
    const char *base = d < 0 ? "idle" : degree_names[d];
    int count = ++used[d < 0 ? DEGREE_COUNT : d];
    names[i] = count == 1 ? base : arena_printf(s->arena, "%s%d", base, count);
  }
  set_mesh(s, &o->c, names);
}

static double one_device(Search *s) {
  Candidate alone = {.stages = 1, .micro = 1};
  set_mesh(s, &alone, NULL);
  Strategy *none = ARENA_ARRAY(s->arena, Strategy, s->f->ops.n);
  PlanPrice p = plan_price(s->cost, s->m, s->f, s->rules, none, NULL);
  return p.memory.total <= s->limit ? p.time.total : INFINITY;
}

static Plan *finish(Search *s, double started) {
  const Outcome *o = s->best;
  Plan *p = ARENA_NEW(s->arena, Plan);
  p->one_device_seconds = one_device(s);
  set_mesh(s, &o->c, NULL);
  name_axes(s, o);
  p->target = arena_strdup(s->arena, s->t->name);
  p->func = s->f->name;
  p->ranks = s->t->ranks;
  p->mesh = s->m->mesh;
  p->tp = o->found[DEGREE_TP], p->dp = o->found[DEGREE_DP], p->cp = o->found[DEGREE_CP], p->ep = o->found[DEGREE_EP], p->pp = o->c.stages;
  p->micro_batches = o->c.micro;
  p->strategies = o->strategies;
  p->stages = o->stages;
  p->graph = plan_graph_hash(s->m, s->f);
  p->price = plan_price(s->cost, s->m, s->f, s->rules, o->strategies, o->stages);
  p->flops = plan_flops(s->cost, s->m, s->f, s->rules);
  p->params = plan_params(s->m, s->f);
  p->lower_bound = fmin(s->lower_bound, p->price.time.total);
  p->gap = plan_gap(p->price.time.total, p->lower_bound);
  p->search_work = s->work;
  p->cut_short = s->watch.expired;
  p->report = s->report;
  list_alternatives(s, p);
  p->search_seconds = watch_now() - started;
  return p;
}

static Plan *find_plan(Search *s, const PlanOptions *o, double started, Diags *d) {
  if (s->resident > s->limit * s->t->ranks) return refuse_size(s, d);
  bool free_choice = !o->tp && !o->pp && !o->dp && !o->cp && !o->ep && s->t->ranks > 1;
  for (int for_memory = 0; for_memory < 2 && !s->best && (!for_memory || o->micro_batches == 0); for_memory++) {
    make_candidates(s, o, for_memory);
    try_all(s, free_choice && !for_memory);
    if (!s->best && s->watch.expired) try_hastily(s);
  }
  if (!s->best) return refuse(s, d);
  return finish(s, started);
}

Plan *plan_search(Module *m, const Func *f, const Target *t, const PlanOptions *o, Diags *d) {
  double start = watch_now();
  Search s = {.m = m, .f = f, .t = t, .arena = m->arena, .lower_bound = INFINITY,
              .forced = {[DEGREE_DP] = o->dp, [DEGREE_CP] = o->cp, [DEGREE_EP] = o->ep, [DEGREE_TP] = o->tp}};
  s.watch = (SearchWatch){.deadline = o->effort > 0 ? start + o->effort : INFINITY, .show = o->show, .context = o->show_context, .progress = {.best = INFINITY}};
  s.limit = o->memory_limit > 0 ? o->memory_limit : target_usable(t);
  if (!check_options(&s, o, d)) return NULL;
  s.rules = rules_of(m, f);
  s.labels = labels_of(m, f, s.rules);
  set_mesh(&s, &(Candidate){.stages = 1, .micro = 1}, NULL);
  if (!sizes_can_be_priced(s.cost, m, f, d)) return cost_model_free(s.cost), NULL;
  s.shape = shape_of(m, f, s.rules, s.labels, loop_costs(s.arena, s.cost, f));
  s.candidates = ARENA_ARRAY(s.arena, Candidate, MAX_CANDIDATES);
  measure_products(&s);
  s.resident = resident_bytes(s.cost, m, f);
  Plan *p = find_plan(&s, o, start, d);
  cost_model_free(s.cost);
  return p;
}
