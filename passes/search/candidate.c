/* passes/search/candidate.c - the best plan of one candidate, and a bound for it; see outer.h.
 *
 * Weights and state are limited exactly; for activations, the graph is solved again with the memory that they leave.
 */
#include <math.h>
#include <string.h>

#include "ir/schedule.h"
#include "passes/facts/zero.h"
#include "passes/search/outer.h"
#include "passes/search/report.h"
#include "passes/plan/stage.h"

enum { MAX_ROUNDS = 8, SET_CAP = 32 };

/* Beyond these sizes the search bounds instead of solving. */
static const double table_cap = 3e7, frontier_cap = 3e4, small_fan_out = 500, fan_out = 1e6, hasty_table_cap = 1e4;

/* How often shares of conversions are moved, and the work for counting the conversions that tables leave out. */
enum { SHARE_ROUNDS = 20, SPLIT_ROUNDS = 4 };
static const double whole_work = 2e7;

static const char hardly_faster[] = "hardly faster than the plan, if at all";

/* ---- the mesh */

static bool same_shares(const MeshAxis *x, const MeshAxis *y) {
  if (!x->shares || !y->shares) return x->shares == y->shares;
  return memcmp(x->shares, y->shares, sizeof *x->shares * (size_t)x->size) == 0;
}

static bool same_sizes(const Mesh *a, const Mesh *b, bool but_micro) {
  if (mesh_places(a) != mesh_places(b) || a->naxes != b->naxes) return false;
  for (int i = 0; i < a->naxes; i++) {
    const MeshAxis *x = &a->axes[i], *y = &b->axes[i];
    if (x->temporal != y->temporal || (x->size != y->size && !(but_micro && x->temporal))) return false;
    if (!same_shares(x, y)) return false;
  }
  return true;
}

static void drop_model(Search *s, int i) {
  cost_model_free(s->models[i].cost);
  memmove(&s->models[i], &s->models[i + 1], sizeof *s->models * (size_t)(--s->nmodels - i));
}

void free_models(Search *s) {
  while (s->nmodels) drop_model(s, 0);
  s->cost = s->few = NULL;
}

/* Costs of conversions are cached as long as the ranks are divided in one way; if there are many numbers of
 * micro-batches, those of the first and the last. */
static CostModel *model_of(Search *s, int loose, bool range) {
  const Mesh *mesh = &s->m->mesh;
  for (int i = 0; i < s->nmodels; i++)
    if (s->models[i].loose == loose && s->models[i].range == range && same_sizes(&s->models[i].mesh, mesh, false))
      return s->models[i].cost;
  if (s->nmodels && !same_sizes(&s->models[0].mesh, mesh, true)) free_models(s);
  if (s->nmodels == MOST_MODELS) drop_model(s, s->models[1].cost == s->few ? 2 : 1);
  CostModel *c = cost_model_beside(s->base, loose);
  if (range) cost_model_for_range(c);
  s->models[s->nmodels++] = (MeshModel){*mesh, loose, range, c};
  return c;
}

static const int *axis_shares(const Search *s, const Candidate *c, const Mesh *mesh, int axis) {
  int spatial = axis - (c->micro > 1);
  if (c->shares == SHARE_AS_GIVEN) return spatial < 0 ? NULL : c->given[spatial];
  return kinds_shares(s->arena, s->t, mesh, axis, c->shares);
}

/* Sets the mesh with `micro` micro-batches, if the candidate has micro-batches. */
static void set_mesh_of(Search *s, const Candidate *c, int micro, int loose, const char *const *names) {
  int chunks = c->stages > 1 && c->least > 1 ? c->schedule.chunks : 0;
  Mesh mesh = {.stages = c->stages, .schedule = c->schedule.order};
  if (chunks > 1) mesh.chunks = chunks, mesh.stages *= chunks;
  if (c->micro > 1)
    mesh.axes[mesh.naxes++] = (MeshAxis){.name = s->said ? s->said->time : "mb", .size = micro, .temporal = true};
  for (int i = 0; i < c->naxes; i++) {
    const char *name = names ? names[i] : arena_printf(s->arena, "a%d", i);
    mesh.axes[mesh.naxes++] = (MeshAxis){.name = name, .size = c->sizes[i]};
  }
  for (int a = 0; a < mesh.naxes && c->shares; a++) mesh.axes[a].shares = axis_shares(s, c, &mesh, a);
  module_set_mesh(s->m, &mesh);
  s->cost = model_of(s, loose, c->least < c->micro && micro > 1);
}

void search_set_mesh(Search *s, const Candidate *c, const char *const *names) { set_mesh_of(s, c, c->micro, 0, names); }

/* ---- solving */

static AxisUse axis_use(const Search *s, const Candidate *c, int axis) {
  int d = c->degree[axis];
  uint32_t labels = 0;
  for (int k = DEGREE_FIRST_AXIS; k < DEGREE_COUNT; k++)
    if (s->run.forced[k] == 0 && !search_told_apart(s, k)) labels |= 1u << degree_labels[k];
  if (d < 0) return (AxisUse){.labels = labels, .degree = -1};
  return (AxisUse){.labels = 1u << degree_labels[d],
                   .degree = d,
                   .forced = !c->loose,
                   .weights = d == DEGREE_tp && !c->loose,
                   .batch_too = d == DEGREE_ep,
                   .data = d == DEGREE_dp};
}

static bool same_use(const AxisUse *a, const AxisUse *b) {
  return a->labels == b->labels && a->forced == b->forced && a->weights == b->weights && a->batch_too == b->batch_too &&
         a->data == b->data && a->degree == b->degree;
}

GraphInput search_graph_input(Search *s, const Candidate *c) {
  GraphInput in = {.m = s->m,
                   .f = s->f,
                   .rules = s->rules,
                   .labels = s->labels,
                   .shape = s->layers_alike && s->alike ? s->alike : s->shape,
                   .cost = s->cost,
                   .memory_limit = s->limit * c->stages,
                   .table_cap = table_cap,
                   .frontier_cap = frontier_cap,
                   .fan_out_cap = fan_out,
                   .set_cap = SET_CAP,
                   .rounds = SHARE_ROUNDS,
                   .split_rounds = SPLIT_ROUNDS,
                   .whole_work = whole_work,
                   .pins = s->pins,
                   .pinned = s->pinned,
                   .said = s->said,
                   .watch = &s->watch,
                   .report = &s->report};
  int first = c->micro > 1;
  if (s->brief) in.rounds = in.split_rounds = 4, in.whole_work = 0;
  if (s->run.hasty) {
    in.table_cap = hasty_table_cap, in.fan_out_cap = small_fan_out, in.frontier_cap = 0;
    in.rounds = in.split_rounds = 0, in.whole_work = 0;
  }
  in.repeat = in.moves_repeat = repeat_of(c);
  in.moves = s->cost;
  in.before = 1. / c->stages; /* all stages do it at the same time */
  in.micro = c->least;
  in.zero = s->run.zero;
  for (int i = 0; i < c->naxes; i++) in.uses[first + i] = axis_use(s, c, i);
  return in;
}

/* Returns the number of elements of the largest factor with that label; 0 if there is none. */
int64_t largest_factor(const Search *s, Label label) {
  int64_t most = 0;
  for (size_t i = 0; i < s->f->ops.n; i++)
    for (int k = 0; k < s->rules[i]->nfactors; k++) {
      int64_t n = s->labels[i].factors[k] == label ? cost_extent(s->cost, s->rules[i]->factors[k].size) : 0;
      if (n > most) most = n;
    }
  return most;
}

/* "; most of the rest is in dot "h"": names the operation with the most arithmetic that the axis does not split so. */
static const char *most_of_the_rest(const Search *s, const Outcome *o, int axis, Label l) {
  const Op *most = NULL;
  double flops = 0;
  for (size_t i = 0; i < s->f->ops.n; i++) {
    const Op *op = &s->f->ops.items[i];
    bool split = false;
    for (int k = 0; k < o->strategies[i].n; k++)
      split |= o->strategies[i].picks[k].axis == axis && s->labels[i].factors[o->strategies[i].picks[k].factor] == l;
    double x = split ? 0 : cost_op_runs(s->cost, s->shape->loops, s->f, i, s->rules[i], &(Strategy){0}).flops;
    if (x > flops) most = op, flops = x;
  }
  return most ? arena_printf(s->arena, "; most of the rest is in %s \"%s\"", op_name(most->kind), most->name) : "";
}

/* Returns why a forced axis of that size splits too little of its arithmetic. */
static const char *splits_little(const Search *s, const Outcome *o, int axis, Degree d, double share, bool any_expert) {
  int size = o->c.sizes[axis - (o->c.micro > 1)];
  int64_t most = largest_factor(s, degree_labels[d]);
  const char *kind = label_name(degree_labels[d]),
             *begin = arena_printf(s->arena, "%s %d would only replicate work", degree_names[d],
                                   s->run.forced[d] ? s->run.forced[d] : size);
  if (d == DEGREE_ep && !any_expert)
    return arena_printf(s->arena, "%s: nothing in the model is known to run over experts", begin);
  if (most == 0) return arena_printf(s->arena, "%s: no dimension of the model is of kind %s", begin, kind);
  if (most < size)
    return arena_printf(s->arena, "%s: the largest dimension of kind %s has %lld element%s", begin, kind,
                        (long long)most, most == 1 ? "" : "s");
  return arena_printf(s->arena, "%s: the axis of size %d splits only %.0f%% of the arithmetic (factors of kind %s)%s",
                      begin, size, 100 * share, kind, most_of_the_rest(s, o, axis, degree_labels[d]));
}

/* Finds the degrees of the axes, as they are printed, and as reading the plan gives them.  A forced axis must split at
 * least half of the arithmetic of its degree. */
static bool judge_axes(Search *s, Outcome *o) {
  const double least_share = 0.5;
  Shares x = shares_of(s->cost, s->f, s->rules, s->labels, o->strategies);
  int first = o->c.micro > 1;
  for (int d = DEGREE_FIRST_AXIS; d < DEGREE_COUNT; d++) o->found[d] = 1;
  o->found[DEGREE_pp] = o->c.stages;
  for (int i = 0; i < o->c.naxes; i++) {
    int d = main_degree(&x, first + i), wanted = o->c.degree[i];
    if (d >= 0) o->found[d] *= o->c.sizes[i];
    if (d == DEGREE_dp) o->data_axes |= 1u << (first + i);
    double share = wanted < 0 ? 1 : share_of(&x, first + i, (Degree)wanted);
    if (wanted < 0 || o->c.loose || (d == wanted && share >= least_share)) continue;
    o->why_not = splits_little(s, o, first + i, (Degree)wanted, share, x.of_experts > 0);
    return false;
  }
  return true;
}

/* True if there is no price, because the model could not be cut into stages within the memory limit. */
static bool uncut(const Outcome *o) { return o->c.stages > 1 && o->price.time.total == 0 && !o->indivisible; }

/* True if a schedule could make it faster than the plans so far, with stages of equal time. */
static bool may_be_faster(const Search *s, const Outcome *o, ScheduleKind by) {
  double idle = schedule_idle(by.order, o->c.stages, by.chunks),
         best = fmin(o->feasible ? o->seconds : INFINITY, s->run.best ? s->run.best->seconds : INFINITY);
  return o->solved * (1 + idle / o->c.micro) < best;
}

/* Schedules that fill bubbles, the most promising first, if apc chooses; more stages per place seldom pay. */
static const ScheduleKind filling[] = {{SCHEDULE_zbv, 2},
                                       {SCHEDULE_zbh1, 0},
                                       {SCHEDULE_interleaved, 4},
                                       {SCHEDULE_interleaved, 3},
                                       {SCHEDULE_interleaved, 2}};

/* Ranks the information in an outcome: a plan, a price, too little memory to cut it, slower than the plan.
 */
static int worth(const Outcome *o) {
  return o->feasible ? 4 : o->price.time.total > 0 ? 3 : o->indivisible ? 0 : o->slower ? 1 : 2;
}

/* Finds the fastest of the schedules that fill bubbles; `slower`: none is faster than the best plan.  `again`: the
 * recomputed operations; NULL: as many as needed to fit. */
static bool choose_schedule(Search *s, const bool *again, Outcome *o) {
  const size_t n = s->f->ops.n;
  Outcome given = *o;
  given.c.schedule = s->schedule;
  *o = given;
  o->slower = true, o->why_not = search_slower_than_plan;
  s->known_stages = stages_known_new();
  for (size_t i = 0; i < sizeof filling / sizeof *filling; i++) {
    Outcome x = given;
    int chunks = filling[i].chunks;
    if (chunks > 1 && said_mesh(s->said)) continue; /* the file fixes the number of stages */
    if ((chunks > 1 && chunks * x.c.stages > s->most_stages) || !may_be_faster(s, o, filling[i])) continue;
    x.c.schedule = filling[i];
    x.strategies = memcpy(ARENA_ARRAY(s->arena, Strategy, n), given.strategies, sizeof *x.strategies * n);
    x.stages = ARENA_ARRAY(s->arena, int, n);
    search_set_mesh(s, &x.c, NULL);
    if (again) search_cut_and_price_with(s, again, &x);
    else search_cut_and_price(s, &x);
    bool faster = x.feasible && o->feasible && x.seconds < o->seconds;
    if (worth(&x) > worth(o) || faster) *o = x;
  }
  stages_known_free(s->known_stages);
  s->known_stages = NULL;
  search_set_mesh(s, &given.c, NULL);
  return o->feasible;
}

static bool schedule_and_price(Search *s, Outcome *o) {
  return search_fills(s, &o->c) ? choose_schedule(s, NULL, o) : search_cut_and_price(s, o);
}

Outcome *search_fill_gaps(Search *s, const Outcome *of) {
  Outcome *o = ARENA_NEW(s->arena, Outcome);
  Arena *scratch = arena_new();
  bool *again = ARENA_ARRAY(scratch, bool, s->f->ops.n + 1);
  for (size_t i = 0; i < s->f->ops.n; i++) again[i] = of->strategies[i].again;
  *o = (Outcome){.c = of->c, .strategies = of->strategies, .stages = of->stages};
  o->c.no_gaps = true;
  o->solved = of->solved * repeat_of(&o->c) / repeat_of(&of->c);
  search_set_mesh(s, &o->c, NULL);
  s->at_use = search_gathers_at_use(of);
  if (judge_axes(s, o)) choose_schedule(s, again, o);
  s->at_use = false;
  arena_free(scratch);
  return o;
}

/* Keeps the faster of two outcomes of one candidate; an infeasible one says why. */
static void keep_outcome(Outcome *best, const Outcome *o) {
  if (!best->strategies || (!best->feasible && !o->feasible) ||
      (o->feasible && (!best->feasible || o->seconds < best->seconds)))
    *best = *o;
}

/* The state of solving one candidate. */
typedef struct Solving {
  Outcome *best;
  double bound;
  bool exact, split; /* of the last solution: it is optimal; some join was too large */
} Solving;

/* Solves once within the memory that activations leave for weights and state; returns false if another round cannot
 * help. */
static bool solve_round(Search *s, SolveProblem *p, const Graph *g, Solving *x) {
  const double cut_share = 0.8;
  Outcome *best = x->best;
  Arena *scratch = arena_new();
  SolveResult r = solve(p, scratch);
  s->work += r.work;
  x->exact = r.exact, x->split = r.split;
  s->run.limited |= r.memory_weight > 0 || !r.feasible;
  search_report_add(&s->report, g, &r, s->arena);
  Outcome o = {.c = best->c,
               .strategies = ARENA_ARRAY(s->arena, Strategy, s->f->ops.n),
               .stages = ARENA_ARRAY(s->arena, int, s->f->ops.n),
               .solved = r.time};
  bool guessed = p->memory_aim > 0 && !best->strategies, again = false;
  x->bound = r.feasible || !r.exact ? fmax(x->bound, r.lower_bound) : INFINITY;
  if (r.lower_bound > p->stop_above) {
    o.why_not = search_slower_than_plan;
  } else if (!r.feasible) {
    search_no_choice(s, &o);
    if (guessed) p->memory_aim = 0, again = true;
  } else {
    graph_strategies(g, r.values, o.strategies);
    s->run.memory_weight = p->memory_weight = r.memory_weight;
    bool judged = judge_axes(s, &o), fits = judged && schedule_and_price(s, &o);
    double left = (s->limit - cost_memory_made(&o.price.memory)) * o.c.stages,
           now = p->memory_aim > 0 ? p->memory_aim : p->memory_limit;
    if (uncut(&o)) left = cut_share * now; /* the stages' shares of the memory are uneven */
    again = judged && !o.slower && left > 0 && (o.price.possible || uncut(&o)) &&
            (!fits || (guessed && r.memory_weight > 0 && left > 1.01 * now));
    s->run.limited |= !fits && !o.slower;
    p->memory_aim = fits ? left : fmin(left, 0.98 * now);
    if (fits && r.memory_weight > 0) s->run.activations = cost_memory_made(&o.price.memory);
  }
  if (r.feasible || !best->strategies) keep_outcome(best, &o);
  arena_free(scratch);
  return again;
}

/* True if the candidate could be faster than its best outcome and than the plan, by more than plans differ. */
static bool is_open(const Search *s, const Solving *x) {
  const double differ = 1e-3;
  const Outcome *o = x->best;
  double best = fmin(o->feasible ? o->seconds : INFINITY, s->run.best ? s->run.best->seconds : INFINITY);
  return !x->exact && !s->watch.expired && x->bound < best * (1 - differ);
}

/* Solves the graph, again with a tighter limit if activations leave too little for weights.  The first guess of the
 * activations is that of the candidate before; if that may have hidden something, it also solves without it.  Keeps the
 * faster outcome. */
static void solve_graph(Search *s, const GraphInput *in, Solving *x) {
  const char *why = NULL;
  Graph *g = graph_new(in, &why);
  if (!g) {
    if (why) x->best->why_not = why;
    if (why == graph_no_choice) search_no_choice(s, x->best);
    x->bound = s->watch.expired ? x->bound : INFINITY;
    x->exact = true;
    return;
  }
  SolveProblem p = *graph_problem(g);
  p.memory_weight = s->run.memory_weight;
  if (s->run.activations > 0 && s->run.activations < s->limit)
    p.memory_aim = (s->limit - s->run.activations) * x->best->c.stages;
  bool guessed = p.memory_aim > 0;
  for (int round = 0; round < MAX_ROUNDS; round++)
    if (!solve_round(s, &p, g, x)) break;
  if (guessed && is_open(s, x)) {
    const double weight = s->run.memory_weight, activations = s->run.activations; /* the next guess */
    p.memory_aim = 0;
    solve_round(s, &p, g, x);
    s->run.memory_weight = weight, s->run.activations = activations;
  }
  graph_free(g);
}

/* Returns the bound of the graph alone; above `prune_above` any larger number. */
static double bound_graph(Search *s, GraphInput in, double prune_above) {
  const char *why = NULL;
  in.prune_above = prune_above;
  Graph *g = graph_new(&in, &why);
  if (!g) return s->watch.expired ? 0 : INFINITY;
  Arena *scratch = arena_new();
  SolveResult r = solve(graph_problem(g), scratch);
  s->work += r.work;
  search_report_add(&s->report, g, &r, s->arena);
  arena_free(scratch);
  graph_free(g);
  return !r.feasible && r.exact && !s->watch.expired ? INFINITY : r.lower_bound;
}

/* True if lack of memory makes it slower than the best plan, by more than choices closer to the bound can gain. */
static bool is_slowed(const Search *s, const Outcome *o, double bound) {
  return s->run.best && s->run.limited && o->feasible && o->seconds - fmax(0, o->solved - bound) > s->run.best->seconds;
}

/* True if the rest of the candidate cannot be faster, or not by more than `differ`. */
static bool is_settled(const Search *s, const GraphInput *in, const Solving *x, double differ) {
  const double slower_by = 0.01;
  const Outcome *o = x->best;
  double best = fmin(in->prune_above, o->feasible ? o->seconds : INFINITY);
  bool cheapest = o->slower && o->solved <= x->bound * (1 + slower_by); /* the cut into stages makes it slower */
  bool reached = best < INFINITY && x->bound >= best * (1 - differ);
  return x->exact || cheapest || is_slowed(s, o, x->bound) || s->watch.expired || reached;
}

/* Returns how many of the first axes may have any order: `loose`, or more if links make no difference between them. */
static int loose_axes(const Search *s, const Candidate *c, int loose) {
  int any = search_axes_in_any_order(s, c);
  return any > loose ? any : loose;
}

/* Finds axes that can stand for each other, among those that may have any order. */
static Symmetry *symmetry_of(const Search *s, const Candidate *c, int loose, Arena *a) {
  int alike[MAX_AXES], first = c->micro > 1;
  if (said_mesh(s->said)) return NULL; /* lines name single axes */
  loose = loose_axes(s, c, loose);
  for (int i = 0; i < MAX_AXES; i++) alike[i] = -1;
  for (int i = 0; i < loose; i++) {
    AxisUse use = axis_use(s, c, i);
    int k = 0;
    for (; k < i; k++) {
      AxisUse other = axis_use(s, c, k);
      if (c->sizes[k] == c->sizes[i] && same_use(&other, &use)) break;
    }
    alike[first + i] = first + k;
  }
  return symmetry_new(a, s->m, alike);
}

/* Returns a bound for a candidate whose axes can stand for each other. */
static double bound_exchanged(Search *s, const Candidate *c, Symmetry *symmetry, double prune_above) {
  set_mesh_of(s, c, c->micro, loose_axes(s, c, 0), NULL);
  GraphInput in = search_graph_input(s, c);
  in.symmetry = symmetry;
  double bound = bound_graph(s, in, prune_above);
  search_set_mesh(s, c, NULL);
  return bound;
}

/* If axes can stand for each other, a smaller graph gives the bound: at first if it is much smaller, else if joins are
 * too large.  The full graph is solved only if the result could still improve much. */
static void solve_steps(Search *s, const GraphInput *in, Symmetry *symmetry, Solving *x) {
  const double much = 0.01;
  const int many = 6;
  bool first = symmetry && !s->run.hasty && symmetry_ways(symmetry) >= many;
  Outcome *o = x->best;
  GraphInput whole = *in;
  if (symmetry) whole.split_rounds = 0;
  if (!first) solve_graph(s, &whole, x);
  if (!first && (!symmetry || !x->split || is_settled(s, in, x, 0))) return;
  double best = o->feasible ? o->seconds : INFINITY;
  x->bound = fmax(x->bound, bound_exchanged(s, &o->c, symmetry, fmin(in->prune_above, best)));
  if (!is_settled(s, in, x, much)) {
    GraphInput again = *in;
    again.cost = again.moves = s->cost; /* the old model may be freed */
    solve_graph(s, &again, x);
  } else if (first && !s->watch.expired) {
    o->why_not = x->bound > in->prune_above ? search_slower_than_plan : hardly_faster;
  }
}

Outcome *search_solve_mesh(Search *s, const Candidate *c, double prune_above, double *bound) {
  Arena *a = arena_new();
  Solving x = {.best = ARENA_NEW(s->arena, Outcome)};
  *x.best = (Outcome){.c = *c};
  s->run.limited = false;
  search_set_mesh(s, c, NULL);
  GraphInput in = search_graph_input(s, c);
  in.prune_above = prune_above = fmin(prune_above, 1.01 * search_most_in_time(s, c));
  solve_steps(s, &in, symmetry_of(s, c, 0, a), &x);
  /* Everything that was pruned costs at least that. */
  *bound = fmax(c->bound, prune_above < INFINITY ? fmin(x.bound, prune_above) : x.bound);
  *bound = search_bound_in_time(s, c, *bound);
  arena_free(a);
  return x.best;
}

/* ---- ranges of micro-batches */

/* With m micro-batches on S stages, an operation that takes f(m) for each counts (1 + (m - 1) / S) f(m).  f falls with
 * m, and m f(m) is at least r f(r) if r divides m, as parts of a kernel or message are no faster than the whole.  So
 * for a <= m <= b it is at least r f(r) (1/S + (1 - 1/S) / b), where r divides all numbers of the range, and at least
 * (1 + (a - 1) / S) f(b): the first is the larger in a wide range, the second if all parts are small.  Work done once
 * before all micro-batches counts at least f / S (all stages do it at the same time).  The larger bound counts for
 * every operation.  For every conversion the first counts if r > 1, else the second: both would double the time.  The
 * strategies are those for a, which include all others. */
static GraphInput bounding_input(Search *s, const Candidate *c, int loose, Arena *a) {
  Symmetry *symmetry = loose == ANY_SHARES ? NULL : symmetry_of(s, c, loose, a);
  if (symmetry) loose = loose_axes(s, c, loose);
  const int few = search_divisor(s, c);
  s->few = NULL;
  if (c->least < c->micro) {
    set_mesh_of(s, c, few, loose, NULL);
    s->few = s->cost;
  }
  set_mesh_of(s, c, c->micro, loose, NULL);
  GraphInput in = search_graph_input(s, c);
  in.few = s->few;
  in.symmetry = symmetry;
  in.share = few * search_share_of_micro_batch(c);
  if (in.few && few > 1) in.moves = in.few, in.moves_repeat = in.share;
  bool brief = !in.symmetry && loose != ANY_SHARES && !s->close;
  if (brief || c->least < c->micro) in.rounds = in.split_rounds = 0, in.whole_work = 0;
  return in;
}

double bound_mesh(Search *s, const Candidate *c, int loose, double prune_above) {
  Arena *a = arena_new();
  if (c->shares == SHARE_ANYHOW && loose == 0) loose = ANY_SHARES;
  double most = fmin(prune_above, 1.01 * search_most_in_time(s, c));
  double bound = bound_graph(s, bounding_input(s, c, loose, a), most);
  arena_free(a);
  return search_bound_in_time(s, c, bound);
}

double search_least_of_operations(Search *s, const Candidate *c, int loose, double *of_layer) {
  Arena *a = arena_new();
  const GraphInput in = bounding_input(s, c, loose, a);
  double *by_layer = s->layer_of ? ARENA_ARRAY(a, double, s->nlayers + 1) : NULL;
  double least = graph_cheapest(&in, s->layer_of, by_layer);
  double layer = by_layer && s->nlayers ? by_layer[0] : 0;
  for (int i = 1; by_layer && i < s->nlayers; i++) layer = fmin(layer, by_layer[i]);
  if (of_layer) *of_layer = layer;
  arena_free(a);
  return search_bound_in_time(s, c, least);
}
