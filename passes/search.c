/* passes/search.c - the outer search: pipeline stages, micro-batches and mesh shapes; for each the planner graph is solved exactly.
 *
 * Every factorisation of the ranks into stages and at most three spatial axes is a candidate; forced degrees fix some axes and what the
 * others may split.  Candidates are visited best first, by the time of their matrix products cut among all ranks; one is dropped when that, or the
 * sum of its cheapest operations, exceeds the best plan so far (at first that of one kind of parallelism alone).  The graph's optimum, with
 * everything that repeats weighted as if the stages were equal, bounds a candidate from below; the plan's lower bound is the least of all
 * candidates.  Then stages are cut and the result is priced as it will be lowered.
 * Weights and state are held to the memory limit exactly; activations by solving again with what they leave.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "passes/degrees.h"
#include "passes/plan.h"
#include "passes/search_graph.h"
#include "passes/search_stage.h"
#include "runtime/program.h"

enum { MAX_SPATIAL = 3, MAX_CANDIDATES = 4096, MAX_ROUNDS = 5 };

/* Beyond these the search bounds instead of solving. */
static const double table_cap = 3e7, frontier_cap = 3e4, small_fan_out = 500;

typedef struct Candidate {
  double bound;         /* seconds it cannot be faster than, known without solving it */
  int stages, micro, naxes;
  int sizes[MAX_AXES];
  int degree[MAX_AXES]; /* which forced degree the axis is of; -1: free */
} Candidate;

typedef struct Outcome {
  Candidate c;
  bool feasible;
  PlanPrice price;
  Strategy *strategies;
  int *stages;
  int found[DEGREE_COUNT]; /* degrees the strategies amount to */
  double solved;        /* what the graph said it costs */
  const char *why_not;
} Outcome;

typedef struct Search {
  Module *m;
  const Func *f;
  const Target *t;
  Arena *arena;      /* the module's */
  const Rule *const *rules;
  const OpLabels *labels;
  const Shape *shape;
  CostModel *cost;   /* of the mesh that was set last */
  int forced[DEGREE_COUNT];
  double limit;
  struct { double launches, seconds; } products;
  Candidate *candidates;
  int ncandidates;
  Outcome *outcomes;
  int noutcomes;
  double resident; /* bytes of all weights and state, each kept once */
  const Outcome *best;
  const Outcome *alone; /* the best of one kind of parallelism, while it is the best of all */
  double lower_bound;
  /* Where the last candidate met the memory limit: */
  double memory_weight; /* seconds per byte */
  double activations;   /* bytes that weights and state could not have */
  double work;
} Search;

/* ---- the mesh */

static void set_mesh(Search *s, const Candidate *c, const char *const *names) {
  Mesh mesh = {.stages = c->stages};
  if (c->micro > 1) mesh.axes[mesh.naxes++] = (MeshAxis){.name = "mb", .size = c->micro, .temporal = true};
  for (int i = 0; i < c->naxes; i++) {
    const char *name = names ? names[i] : arena_printf(s->arena, "a%d", i);
    mesh.axes[mesh.naxes++] = (MeshAxis){.name = name, .size = c->sizes[i]};
  }
  module_set_mesh(s->m, &mesh);
  if (s->cost) cost_model_renew(s->cost);
  else s->cost = cost_model_new(s->m, s->t);
}

/* ---- candidates */

static bool one_tier(const Search *s) { return s->t->ntiers == 1; }

static void add_candidate(Search *s, const Candidate *c) {
  if (s->ncandidates < MAX_CANDIDATES) s->candidates[s->ncandidates++] = *c;
}

/* Appends the forced axes, each whole or as two sub-axes. */
static void add_forced(Search *s, const Candidate *c, int degree) {
  while (degree < DEGREE_COUNT && s->forced[degree] <= 1) degree++;
  if (degree == DEGREE_COUNT) {
    add_candidate(s, c);
    return;
  }
  int n = s->forced[degree];
  for (int major = n; major >= 2; major--) {
    Candidate next = *c;
    if (n % major) continue;
    if (major < n && (c->naxes + 2 > MAX_SPATIAL || (one_tier(s) && major * major < n))) continue;
    next.degree[next.naxes] = degree;
    next.sizes[next.naxes++] = major;
    if (major < n) next.degree[next.naxes] = degree, next.sizes[next.naxes++] = n / major;
    add_forced(s, &next, degree + 1);
  }
}

/* Free axes whose sizes multiply to n; on one tier their order does not matter, so sizes fall. */
static void add_free(Search *s, const Candidate *c, int n, int largest, int room) {
  if (n == 1) {
    add_forced(s, c, 0);
    return;
  }
  if (room == 0) return;
  for (int size = n; size >= 2; size--) {
    Candidate next = *c;
    if (n % size || (one_tier(s) && size > largest)) continue;
    next.degree[next.naxes] = -1;
    next.sizes[next.naxes++] = size;
    add_free(s, &next, n / size, size, room - 1);
  }
}

static void add_stages(Search *s, int stages, int micro) {
  int spatial = s->t->ranks / stages, used = 1, nforced = 0;
  for (int d = 0; d < DEGREE_COUNT; d++) {
    used *= s->forced[d] > 0 ? s->forced[d] : 1;
    nforced += s->forced[d] > 1;
  }
  if (spatial % used) return;
  bool all = true;
  for (int d = 0; d < DEGREE_COUNT; d++) all &= s->forced[d] > 0;
  if (all && spatial != used) return;
  Candidate c = {.stages = stages, .micro = micro};
  int room = MAX_SPATIAL - nforced;
  add_free(s, &c, spatial / used, spatial, room > 1 ? room : 1);
}

/* The most promising first; among equals those with fewer axes, which are solved sooner. */
static int by_bound(const void *x, const void *y) {
  const Candidate *a = x, *b = y;
  if (a->bound != b->bound) return a->bound < b->bound ? -1 : 1;
  if (a->naxes != b->naxes) return a->naxes - b->naxes;
  if (a->stages != b->stages) return a->stages - b->stages;
  if (a->micro != b->micro) return a->micro - b->micro;
  return memcmp(a->sizes, b->sizes, sizeof a->sizes);
}

static double repeat_of(const Candidate *c) { return c->stages == 1 ? c->micro : 1 + (double)(c->micro - 1) / c->stages; }

/* Every product cut among all ranks of a stage and all micro-batches, and nothing else. */
static double ideal_seconds(const Search *s, const Candidate *c) {
  double parts = (double)(s->t->ranks / c->stages) * c->micro;
  return s->products.launches + repeat_of(c) * s->products.seconds / parts;
}

/* Seconds of the matrix products on one rank, whose mesh is set. */
static void measure_products(Search *s) {
  for (size_t i = 0; i < s->f->ops.n; i++) {
    const Op *op = &s->f->ops.items[i];
    if (op->kind != OP_dot && !op_is_grouped(op->kind)) continue;
    s->products.launches += s->t->launch * runs_of_op(s->shape->loops, i);
    s->products.seconds += cost_op_runs(s->cost, s->shape->loops, s->f, i, s->rules[i], &(Strategy){0}).flops / target_flops(s->t, type_of(s->f, op->in[0])->dtype);
  }
}

/* Micro-batches help a pipeline, or memory: without stages they are tried only when asked for, or when nothing else fits. */
static void make_candidates(Search *s, const PlanOptions *o, bool for_memory) {
  s->ncandidates = 0;
  for (int stages = 1; stages <= s->t->ranks; stages++) {
    if (s->t->ranks % stages || (o->pp > 0 && o->pp != stages)) continue;
    for (int micro = 1; micro <= 8; micro *= 2) {
      if (o->micro_batches > 0 && micro > 1) break;
      if (stages == 1 && micro > 1 && !for_memory) break;
      add_stages(s, stages, o->micro_batches > 0 ? o->micro_batches : micro);
    }
  }
  for (int i = 0; i < s->ncandidates; i++) s->candidates[i].bound = ideal_seconds(s, &s->candidates[i]);
  qsort(s->candidates, (size_t)s->ncandidates, sizeof *s->candidates, by_bound);
}

/* ---- one candidate */

static GraphInput graph_input(Search *s, const Candidate *c) {
  GraphInput in = {.m = s->m, .f = s->f, .rules = s->rules, .labels = s->labels, .shape = s->shape, .cost = s->cost, .memory_limit = s->limit * c->stages, .table_cap = table_cap, .frontier_cap = frontier_cap, .fan_out_cap = table_cap / 64};
  int first = c->micro > 1;
  uint32_t free_labels = 0;
  for (int d = 0; d < DEGREE_COUNT; d++)
    if (s->forced[d] == 0) free_labels |= 1u << degree_labels[d];
  in.repeat = repeat_of(c);
  for (int i = 0; i < c->naxes; i++) {
    int d = c->degree[i];
    in.uses[first + i] = d < 0 ? (AxisUse){.labels = free_labels}
                               : (AxisUse){.labels = 1u << degree_labels[d], .forced = true, .weights = d == DEGREE_TP, .batch_too = d == DEGREE_EP};
  }
  return in;
}

/* The most elements of a factor of that label; 0 when there is none. */
static int64_t largest_factor(const Search *s, Label label) {
  int64_t most = 0;
  for (size_t i = 0; i < s->f->ops.n; i++)
    for (int k = 0; k < s->rules[i]->nfactors; k++) {
      int64_t n = s->labels[i].factors[k] == label ? cost_extent(s->cost, s->rules[i]->factors[k].size) : 0;
      if (n > most) most = n;
    }
  return most;
}

/* Why a forced axis of that size splits too little of the arithmetic it is there for. */
static const char *splits_little(const Search *s, Degree d, int size, double share, bool any_expert) {
  int64_t most = largest_factor(s, degree_labels[d]);
  const char *kind = label_name(degree_labels[d]), *begin = arena_printf(s->arena, "%s %d would only replicate work", degree_names[d], s->forced[d]);
  if (d == DEGREE_EP && !any_expert) return arena_printf(s->arena, "%s: nothing in the model is known to run over experts", begin);
  if (most == 0) return arena_printf(s->arena, "%s: no dimension of the model is of kind %s", begin, kind);
  if (most < size) return arena_printf(s->arena, "%s: the largest dimension of kind %s has %lld element%s", begin, kind, (long long)most, most == 1 ? "" : "s");
  return arena_printf(s->arena, "%s: the axis of size %d can split %.0f%% of the arithmetic (factors of kind %s)", begin, size, 100 * share, kind);
}

/* What the axes amount to; a forced axis must split at least half of the arithmetic it is there for. */
static bool judge_axes(Search *s, Outcome *o) {
  const double least_share = 0.5;
  Shares x = shares_of(s->cost, s->f, s->rules, s->labels, o->strategies);
  int first = o->c.micro > 1;
  for (int d = 0; d < DEGREE_COUNT; d++) o->found[d] = 1;
  for (int i = 0; i < o->c.naxes; i++) {
    int d = o->c.degree[i] >= 0 ? o->c.degree[i] : main_degree(&x, first + i);
    if (d < 0) continue;
    o->found[d] *= o->c.sizes[i];
    double share = share_of(&x, first + i, (Degree)d);
    if (o->c.degree[i] < 0 || share >= least_share) continue;
    o->why_not = splits_little(s, (Degree)d, o->c.sizes[i], share, x.of_experts > 0);
    return false;
  }
  return true;
}

/* "16 GB", "8.58 KB": in powers of 1000, as memory limits are given. */
static const char *bytes_text(Arena *a, double bytes) {
  static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
  int u = 0;
  while (u < 4 && bytes >= 999.5) bytes /= 1000, u++;
  return arena_printf(a, "%.3g %s", bytes, units[u]);
}

static void price_outcome(Search *s, Outcome *o) {
  o->price = plan_price(s->cost, s->m, s->f, s->rules, o->strategies, o->stages);
  o->feasible = o->price.possible && o->price.memory.total <= s->limit;
  if (!o->feasible)
    o->why_not = arena_printf(s->arena, "needs %s on a rank, %s are allowed", bytes_text(s->arena, o->price.memory.total), bytes_text(s->arena, s->limit));
}

static bool cut_and_price(Search *s, Outcome *o) {
  StagesCut how = o->c.stages > 1 ? stages_cut(s->cost, s->m, s->f, s->rules, o->strategies, s->limit, o->stages) : STAGES_CUT;
  if (how != STAGES_CUT) {
    const char *why = how == STAGES_TOO_LARGE ? " within the memory limit" : ": it has too few places to cut it at";
    o->why_not = arena_printf(s->arena, "the model cannot be cut into %d stages%s", o->c.stages, why);
    return false;
  }
  price_outcome(s, o);
  return o->feasible;
}

/* Of all weights and state, each kept once. */
static double resident_bytes(Module *m, const Func *f) {
  double sum = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op->kind == OP_param || op->kind == OP_read) sum += layout_bytes(m, type_of(f, op->out), layout_replicated(m, type_of(f, op->out)->rank));
  }
  return sum;
}

static const char *too_large(const Search *s) {
  const char *among = s->t->ranks > 1 ? arena_printf(s->arena, ", and need more than that even cut among %d ranks", s->t->ranks) : "";
  return arena_printf(s->arena, "%s are allowed on a rank; weights and state are %s%s", bytes_text(s->arena, s->limit),
                      bytes_text(s->arena, s->resident), among);
}

/* Why no choice of strategies is possible: some conversion does not exist, or, where whole weights do not fit, the memory limit. */
static const char *no_choice(const Search *s, const Candidate *c) {
  if (s->resident > s->limit) return too_large(s);
  return arena_printf(s->arena, "what %d micro-batches compute would have to be joined again", c->micro);
}

/* Keeps the faster of two outcomes of one candidate; one that is not feasible says why. */
static void keep_outcome(Outcome *best, const Outcome *o) {
  if (!best->strategies || (!best->feasible && !o->feasible) || (o->feasible && (!best->feasible || o->price.time.total < best->price.time.total))) *best = *o;
}

/* No price: it could not be cut into stages within the memory limit. */
static bool uncut(const Outcome *o) { return o->c.stages > 1 && o->price.time.total == 0; }

/* One solution within what activations leave for weights and state; false when nothing better can be expected. */
static bool solve_round(Search *s, SolveProblem *p, const Graph *g, Outcome *best, double *bound) {
  const double cut_share = 0.8;
  Arena *scratch = arena_new();
  SolveResult r = solve(p, scratch);
  s->work += r.work;
  Outcome o = {.c = best->c, .strategies = ARENA_ARRAY(s->arena, Strategy, s->f->ops.n), .stages = ARENA_ARRAY(s->arena, int, s->f->ops.n), .solved = r.time};
  bool guessed = p->memory_aim > 0 && !best->strategies, again = false;
  *bound = r.feasible || !r.exact ? fmax(*bound, r.lower_bound) : INFINITY;
  if (r.lower_bound > p->stop_above) {
    o.why_not = "slower than the plan";
  } else if (!r.feasible) {
    o.why_not = no_choice(s, &o.c);
    if (guessed) p->memory_aim = 0, again = true;
  } else {
    graph_strategies(g, r.values, o.strategies);
    s->memory_weight = p->memory_weight = r.memory_weight;
    bool judged = judge_axes(s, &o), fits = judged && cut_and_price(s, &o);
    double left = (s->limit - o.price.memory.activations - o.price.memory.communication) * o.c.stages, now = p->memory_aim > 0 ? p->memory_aim : p->memory_limit;
    if (uncut(&o)) left = cut_share * now; /* the stages' shares of the memory are uneven */
    again = judged && left > 0 && (o.price.possible || uncut(&o)) && (!fits || (guessed && r.memory_weight > 0 && left > 1.01 * now));
    p->memory_aim = fits ? left : fmin(left, 0.98 * now);
    if (fits && r.memory_weight > 0) s->activations = o.price.memory.activations + o.price.memory.communication;
  }
  if (r.feasible || !best->strategies) keep_outcome(best, &o);
  arena_free(scratch);
  return again;
}

/* Solves; when activations leave too little for the weights, again with a tighter limit.  Returns a lower bound for the candidate. */
static double solve_candidate(Search *s, const Graph *g, Outcome *o) {
  SolveProblem p = *graph_problem(g);
  double bound = 0;
  p.memory_weight = s->memory_weight;
  if (s->activations > 0 && s->activations < s->limit) p.memory_aim = (s->limit - s->activations) * o->c.stages;
  for (int round = 0; round < MAX_ROUNDS; round++)
    if (!solve_round(s, &p, g, o, &bound)) break;
  return bound;
}

/* Solves the candidate's graph, with shared conversions relaxed or not, and keeps the better outcome; *bound gets the bound that was proved. */
static bool solve_graph(Search *s, GraphInput in, bool relax, Outcome *best, double *bound) {
  const char *why = NULL;
  Outcome o = {.c = best->c};
  in.relax = relax;
  Graph *g = graph_new(&in, &why);
  *bound = INFINITY;
  if (!g) {
    if (why) best->why_not = why;
    return true;
  }
  *bound = solve_candidate(s, g, &o);
  bool exact = graph_exact(g);
  graph_free(g);
  keep_outcome(best, &o);
  return exact;
}

/* The relaxed graph bounds the candidate, and what it chooses often costs what that graph says: then it is the optimum.  So fan-outs are first
 * relaxed when they are of any size, which is soon done (with three axes most are anyway, and when memory is short every step is a sweep);
 * then only huge ones; and last come conversions of an explicit copy.  Returns the bound; the outcome is not feasible when the candidate is
 * not worth it. */
static double solve_steps(Search *s, const GraphInput *in, Outcome *o) {
  bool small_first = o->c.naxes <= 2 && s->resident <= in->memory_limit;
  double bound = 0, found;
  for (int i = small_first ? 0 : 1; i < 2; i++) {
    GraphInput step = *in;
    if (i == 0) step.fan_out_cap = small_fan_out;
    bool exact = solve_graph(s, step, true, o, &found);
    bound = fmax(bound, found);
    if (exact || bound > in->prune_above || (o->feasible && o->price.time.total <= fmax(bound, o->solved) * (1 + 1e-9))) return bound;
  }
  solve_graph(s, *in, false, o, &found);
  return bound;
}

static Outcome *solve_mesh(Search *s, const Candidate *c, double prune_above, double *bound) {
  Outcome *o = &s->outcomes[s->noutcomes];
  *o = (Outcome){.c = *c};
  set_mesh(s, c, NULL);
  GraphInput in = graph_input(s, c);
  in.prune_above = prune_above;
  *bound = solve_steps(s, &in, o);
  return o;
}

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
  Outcome *o = solve_mesh(s, c, best, &bound);
  if (!o->strategies && !o->why_not) return; /* its cheapest operations alone take longer */
  s->noutcomes++;
  bool as_good = s->best == s->alone && o->price.time.total == best; /* a free axis covers what is alone */
  if (o->feasible && (o->price.time.total < best || as_good)) s->best = o;
  s->lower_bound = fmin(s->lower_bound, bound);
}

static void try_all(Search *s, bool free_choice) {
  s->outcomes = ARENA_ARRAY(s->arena, Outcome, s->ncandidates + DEGREE_COUNT);
  s->noutcomes = 0;
  for (int degree = 0; free_choice && degree < DEGREE_COUNT; degree++) try_alone(s, degree);
  for (int i = 0; i < s->ncandidates; i++) try_candidate(s, &s->candidates[i]);
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
  list_alternatives(s, p);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  p->search_seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - started;
  return p;
}

static Plan *refuse(const Search *s, Diags *d) {
  const Outcome *nearest = NULL;
  for (int i = 0; i < s->noutcomes; i++) {
    const Outcome *o = &s->outcomes[i];
    if (!nearest || (o->price.memory.total > 0 && (nearest->price.memory.total == 0 || o->price.memory.total < nearest->price.memory.total))) nearest = o;
  }
  diag_error(d, DIAG_plan_infeasible, (Loc){0}, "no feasible plan for %s: %s", s->t->name, nearest && nearest->why_not ? nearest->why_not : "the forced degrees do not fit its ranks");
  return NULL;
}

static Plan *refuse_size(const Search *s, Diags *d) {
  diag_error(d, DIAG_plan_infeasible, (Loc){0}, "no feasible plan for %s: %s", s->t->name, too_large(s));
  return NULL;
}

static Plan *find_plan(Search *s, const PlanOptions *o, double started, Diags *d) {
  if (s->resident > s->limit * s->t->ranks) return refuse_size(s, d);
  bool free_choice = !o->tp && !o->pp && !o->dp && !o->cp && !o->ep && s->t->ranks > 1;
  make_candidates(s, o, false);
  try_all(s, free_choice);
  if (!s->best && o->micro_batches == 0) {
    make_candidates(s, o, true);
    try_all(s, false);
  }
  if (!s->best) return refuse(s, d);
  return finish(s, started);
}

Plan *plan_search(Module *m, const Func *f, const Target *t, const PlanOptions *o, Diags *d) {
  struct timespec start;
  clock_gettime(CLOCK_MONOTONIC, &start);
  Search s = {.m = m, .f = f, .t = t, .arena = m->arena, .lower_bound = INFINITY,
              .forced = {[DEGREE_DP] = o->dp, [DEGREE_CP] = o->cp, [DEGREE_EP] = o->ep, [DEGREE_TP] = o->tp}};
  s.limit = o->memory_limit > 0 ? o->memory_limit : t->memory_bytes;
  if (!check_options(&s, o, d)) return NULL;
  s.rules = rules_of(m, f);
  s.labels = labels_of(m, f, s.rules);
  set_mesh(&s, &(Candidate){.stages = 1, .micro = 1}, NULL);
  s.shape = shape_of(m, f, s.rules, s.labels, loop_costs(s.arena, s.cost, f));
  s.candidates = ARENA_ARRAY(s.arena, Candidate, MAX_CANDIDATES);
  measure_products(&s);
  s.resident = resident_bytes(m, f);
  Plan *p = find_plan(&s, o, (double)start.tv_sec + 1e-9 * (double)start.tv_nsec, d);
  cost_model_free(s.cost);
  return p;
}
