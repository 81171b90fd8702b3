/* passes/search/estimate.c - see estimate.h. */
#include "passes/search/estimate.h"

#include <math.h>
#include <string.h>

#include "ir/schedule.h"
#include "passes/plan/positions.h"
#include "passes/search/report.h"

const ScheduleKind search_usual_schedules[USUAL_SCHEDULES] = {{SCHEDULE_1f1b, 0},        {SCHEDULE_zbh1, 0},
                                                              {SCHEDULE_zbv, 2},         {SCHEDULE_interleaved, 2},
                                                              {SCHEDULE_interleaved, 3}, {SCHEDULE_interleaved, 4}};

/* If gradients of weights come later, kept converted values need about half as much again as the values themselves.
 */
static const double with_converted = 1.5;
/* Gathered weights have two bytes per element where their gradients have four. */
static const double with_gathered = 1.5;

/* Larger joins are split; the resulting choice is about as fast. */
static const double table_cap = 3e6;

/* Candidates that are slower than the best so far by more than this factor get no estimate. */
static const double of_interest = 1.15;

/* Nor do candidates whose batch exceeds the time limit by more than this factor. */
static const double hardly_late = 1.05;

enum { FWD, BWD, WGT, PHASES };

/* The positions at which that many stages may begin; operations between neighbouring positions form a unit. */
typedef struct Cut {
  int stages, n; /* number of units */
  CutCrossing crossing;
  int *unit;  /* by operation: its unit, or that of the operation it is placed with */
  int *layer; /* by unit: its repeated layer; -1 if none */
} Cut;

/* Costs of units on the current candidate, by unit. */
typedef struct Units {
  double *seconds;   /* of a micro-batch */
  double *transfer;  /* seconds of messages to it, if it is the first of a stage */
  double *gradients; /* bytes */
  /* By policy: bytes kept for gradients; further bytes kept for gradients of weights if these come later; seconds of
   * recomputation per micro-batch. */
  double *saved[MOST_POLICIES], *waiting[MOST_POLICIES], *again[MOST_POLICIES];
} Units;

struct Estimating {
  Search *s;
  Arena *arena;
  bool trains;
  CutFacts facts;
  const bool *waits; /* by operation: gradients of weights read it */
  struct {
    Cut *items;
    size_t n, cap;
  } cuts;
  /* For the current candidate, by operation: seconds; bytes of its results, and of those that are sent. */
  double *own, *bytes, *sent;
  double each, once;    /* seconds of all operations: of a micro-batch, and of work done once */
  double more;          /* factor by which conversions lengthen the operations' time */
  double phase[PHASES]; /* parts of `each`: forward, gradients, those of weights */
  double gradients;     /* bytes */
  double live;          /* peak bytes of values that are not kept for gradients */
  double best;          /* the least estimate so far */
};

/* ---- costs of operations */

/* Finds the values that gradients of weights read. */
static const bool *find_waits(Arena *a, const Func *f) {
  bool *waits = ARENA_ARRAY(a, bool, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    for (int k = 0; k < op->nin && op->phase == PH_wgt; k++) {
      size_t made = (size_t)f->values.items[op->in[k]].op;
      Phase phase = f->ops.items[made].phase;
      waits[made] = phase_each(phase) && phase != PH_wgt;
    }
  }
  return waits;
}

static int number_of_phase(Phase p) { return p == PH_wgt ? WGT : phase_backward(p) ? BWD : FWD; }

static void take_seconds(Estimating *e, const GraphInput *in) {
  const Func *f = e->s->f;
  memset(e->phase, 0, sizeof e->phase);
  e->each = e->once = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    Phase p = f->ops.items[i].phase;
    if (!phase_each(p)) {
      e->once += e->own[i] / in->before;
      continue;
    }
    e->own[i] /= in->repeat;
    e->phase[number_of_phase(p)] += e->own[i], e->each += e->own[i];
  }
  for (int k = 0; k < PHASES && e->each > 0; k++) e->phase[k] /= e->each;
}

/* Returns the peak bytes on a rank of values that are neither kept for gradients nor, in training, made once for all
 * micro-batches: those are weights in another form, which with_gathered counts. */
static double most_live(const Estimating *e) {
  const Search *s = e->s;
  const size_t n = s->f->ops.n, *last = s->policies[0].last;
  Arena *scratch = arena_new();
  double *change = ARENA_ARRAY(scratch, double, n + 2), now = 0, most = 0;
  for (size_t i = 0; i < n; i++) {
    bool other = e->trains && (s->shape->before[i] || !phase_each(s->f->ops.items[i].phase)),
         kept = s->policies[0].saved[i] || other;
    if (last[i] != SIZE_MAX && !kept) change[i] += e->bytes[i], change[last[i] + 1] -= e->bytes[i];
  }
  for (size_t i = 0; i < n; i++) now += change[i], most = fmax(most, now);
  arena_free(scratch);
  return most;
}

static void take_bytes(Estimating *e) {
  const Func *f = e->s->f;
  e->gradients = 0;
  e->live = most_live(e);
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_accumulate) e->gradients += e->bytes[i];
}

/* ---- units */

static const Cut *cut_for(Estimating *e, int stages) {
  for (size_t i = 0; i < e->cuts.n; i++)
    if (e->cuts.items[i].stages == stages) return &e->cuts.items[i];
  const Search *s = e->s;
  const size_t n = s->f->ops.n;
  const CutPositions p = cut_positions(e->arena, &e->facts, &s->shape->loops->loops, stages);
  Cut cut = {.stages = stages, .n = p.n - 1, .unit = ARENA_ARRAY(e->arena, int, n + 1)};
  cut.crossing = cut_crossing(e->arena, &e->facts, &p);
  cut.layer = ARENA_ARRAY(e->arena, int, cut.n);
  for (int u = 0; u < cut.n; u++) cut.layer[u] = -1;
  for (size_t i = 0, u = 0; i < n; i++) {
    while (i >= (size_t)p.at[u + 1]) u++;
    cut.unit[i] = (int)u;
    int layer = recompute_layer_of(s->again, i);
    if (layer > cut.layer[u]) cut.layer[u] = layer;
  }
  int *home = memcpy(ARENA_ARRAY(e->arena, int, n + 1), cut.unit, sizeof *home * n);
  for (size_t i = 0; i < n && e->facts.training; i++) cut.unit[i] = home[e->facts.training[i]];
  ARENA_PUSH(e->arena, &e->cuts, cut);
  return &e->cuts.items[e->cuts.n - 1];
}

/* Seconds of a micro-batch for the values that a stage receives if it begins with this unit.  A value that does not
 * depend on the micro-batch, such as the cast of a weight, is sent once a step. */
static double sent_to(const Estimating *e, const Cut *cut, int unit, int micro) {
  const size_t begin = cut->crossing.starts[unit];
  double seconds = 0;
  for (size_t i = begin; i < cut->crossing.starts[unit + 1] && unit; i++) {
    size_t maker = cut->crossing.makers[i];
    bool once = e->facts.once[maker] && e->s->shape->time_factor[maker] == TIME_NONE;
    if (i > begin && cut->crossing.makers[i - 1] == maker) continue; /* bytes are those of all its results */
    seconds += joint_weight(e->s->f, maker) * cost_transfer(e->s->cost, e->sent[maker]) / (once ? micro : 1);
  }
  return seconds;
}

static Units units_of(const Estimating *e, const Cut *cut, int micro, Arena *a) {
  const Search *s = e->s;
  Units x = {.seconds = ARENA_ARRAY(a, double, cut->n),
             .transfer = ARENA_ARRAY(a, double, cut->n),
             .gradients = ARENA_ARRAY(a, double, cut->n)};
  for (int k = 0; k < s->npolicies; k++) {
    x.saved[k] = ARENA_ARRAY(a, double, cut->n), x.waiting[k] = ARENA_ARRAY(a, double, cut->n);
    x.again[k] = ARENA_ARRAY(a, double, cut->n);
  }
  for (size_t i = 0; i < s->f->ops.n; i++) {
    const Op *op = &s->f->ops.items[i];
    int u = cut->unit[i];
    if (phase_each(op->phase)) x.seconds[u] += e->more * e->own[i];
    if (op->kind == OP_accumulate) x.gradients[u] += e->bytes[i];
    for (int k = 0; k < s->npolicies; k++) {
      if (s->policies[k].saved[i]) x.saved[k][u] += e->bytes[i];
      else if (e->waits[i]) x.waiting[k][u] += e->bytes[i];
      if (s->policies[k].again[i]) x.again[k][u] += e->more * e->own[i];
    }
  }
  for (int u = 0; u < cut->n; u++) x.transfer[u] = sent_to(e, cut, u, micro);
  return x;
}

/* A pipeline on the current candidate, with one of its schedules. */
typedef struct Pipeline {
  const Candidate *c;
  ScheduleKind kind;
  int chunks; /* stages per place; 1 without stages, or with one micro-batch */
  Mesh mesh;
  const Cut *cut;
  Units units;
  int *begin;   /* by stage: its first unit; after the last stage the number of units */
  double *runs; /* by stage: seconds of a micro-batch */
  int *live;    /* by stage: micro-batches kept at once */
  int *waiting; /* and those whose values wait for gradients of weights */
} Pipeline;

/* The best division of the units before each unit into the stages so far: its cost, and the beginning of its last
 * stage. */
typedef struct Division {
  double cost;
  int from;
} Division;

/* Adds one more stage that begins with unit `from`; `left` stages follow it.  Its cost is the square of the difference
 * between its time, with the messages it receives, and an equal share. */
static void divide_from(const Pipeline *p, const double *before, int from, int left, double cost, Division *next) {
  const double shortest = 0.4, longest = 2.2;
  const int units = p->cut->n;
  double share = before[units] / p->mesh.stages;
  for (int to = left ? from + 1 : units; to <= units - left; to++) {
    double run = before[to] - before[from], off = run + p->units.transfer[from] - share, sum = cost + off * off;
    bool one = before[to - 1] == before[from] || !left; /* except for units that take no time */
    if (!one && run > longest * share) break;
    if ((one || run >= shortest * share) && sum < next[to].cost) next[to] = (Division){sum, from};
  }
}

/* Divides into stages of equal time, as far as units allow. */
static void place_stages(Pipeline *p) {
  const int n = p->mesh.stages, units = p->cut->n;
  const size_t width = (size_t)units + 1;
  Arena *a = arena_new();
  double *before = ARENA_ARRAY(a, double, width);
  Division *all = ARENA_ARRAY(a, Division, (size_t)(n + 1) * width);
  for (int u = 0; u < units; u++) before[u + 1] = before[u] + p->units.seconds[u];
  for (size_t i = 1; i < (size_t)(n + 1) * width; i++) all[i].cost = INFINITY;
  for (int s = 0; s < n; s++)
    for (int u = s; u < units; u++) {
      double cost = all[(size_t)s * width + (size_t)u].cost;
      if (!isinf(cost)) divide_from(p, before, u, n - 1 - s, cost, all + (size_t)(s + 1) * width);
    }
  p->begin[n] = units;
  for (int s = n; s > 0; s--) p->begin[s - 1] = all[(size_t)s * width + (size_t)p->begin[s]].from;
  for (int s = 0; s < n; s++) p->runs[s] = before[p->begin[s + 1]] - before[p->begin[s]];
  arena_free(a);
}

/* ---- time */

static double slowest_place(const Pipeline *p, const double *runs) {
  Arena *a = arena_new();
  double *places = ARENA_ARRAY(a, double, p->c->stages), most = 0;
  for (int s = 0; s < p->mesh.stages; s++) places[mesh_place_of(&p->mesh, s)] += runs[s];
  for (int i = 0; i < p->c->stages; i++) most = fmax(most, places[i]);
  arena_free(a);
  return most;
}

/* Returns the number of micro-batches that a stage keeps at once, without the table of the schedule. */
static int usual_live(const Pipeline *p, int stage) {
  int places = p->c->stages, chunks = p->chunks, at = mesh_place_of(&p->mesh, stage), live = places - at;
  if (p->kind.order == SCHEDULE_interleaved) live = ((chunks - 1) * places + 2 * (places - 1 - at) + chunks) / chunks;
  else if (chunks > 1) live = places;
  else if (p->kind.order == SCHEDULE_gpipe) live = p->c->micro;
  return places == 1 ? 1 : live < p->c->micro ? live : p->c->micro;
}

/* After that many micro-batches each further one takes as long as the slowest place; schedules with groups of as many
 * micro-batches as places leave the last group as it is. */
static int micro_until_steady(const Pipeline *p) {
  const int groups = 3;
  int some = groups * p->c->stages + p->c->micro % p->c->stages;
  if (p->kind.order == SCHEDULE_gpipe) return p->c->micro; /* it keeps all of them */
  return some < p->c->micro ? some : p->c->micro;
}

/* Returns the seconds of the pipeline and fills in the live micro-batches of its stages.  Both come from the table of
 * the schedule if that is short.  Else the slowest place waits as long as the schedule says, and never for other
 * reasons.
 */
static double seconds_and_live(const Estimating *e, Pipeline *p) {
  const double most_calls = 1 << 16, least = 1e-12;
  const int n = p->mesh.stages, micro = p->c->micro;
  Arena *a = arena_new();
  ScheduleWork *work = ARENA_ARRAY(a, ScheduleWork, n);
  double *runs = ARENA_ARRAY(a, double, n), sum = 0;
  for (int s = 0; s < n; s++) {
    double in = p->units.transfer[p->begin[s]], out = s + 1 < n && e->trains ? p->units.transfer[p->begin[s + 1]] : 0;
    work[s] = (ScheduleWork){fmax(p->runs[s] * e->phase[FWD] + in, least),
                             fmax(p->runs[s] * e->phase[BWD] + out, least), fmax(p->runs[s] * e->phase[WGT], least)};
    sum += runs[s] = p->runs[s] + in + out;
    p->live[s] = p->waiting[s] = usual_live(p, s);
  }
  const bool apart = schedule_weights_apart(p->kind.order);
  double slowest = slowest_place(p, runs), seconds = sum + (micro - 1) * slowest;
  if (e->s->steady) seconds = seconds > hardly_late * e->s->most_seconds ? INFINITY : micro * slowest;
  if (e->trains && micro > 1 && p->c->stages > 1) {
    seconds = slowest * (micro + schedule_idle(p->kind.order, p->c->stages, p->chunks));
    const int some = micro_until_steady(p);
    if (n * (double)some <= most_calls) {
      Mesh mesh = p->mesh;
      mesh.axes[0].size = some;
      const ScheduleTable table = schedule_table(a, &mesh, work);
      seconds = table.seconds + (micro - some) * slowest;
      for (int s = 0; s < n; s++) {
        const ScheduleLive live = schedule_most_live(&table, s);
        p->live[s] = live.of[FWD][apart ? WGT : BWD], p->waiting[s] = live.of[BWD][WGT];
      }
    }
  }
  arena_free(a);
  return seconds;
}

/* ---- memory */

/* Returns the policy of a unit for an amount of recomputation (search_made_again). */
static int policy_of(const Search *s, int layer, int much) {
  if (!s->nlayers) return much;
  int whole = much > s->nlayers, some = much - whole * s->nlayers;
  return whole + (layer < some && some > 0 && (layer >= 0 || !whole));
}

/* Returns the bytes by which the fullest place exceeds the limit with that amount of recomputation.  `again` gets the
 * seconds of recomputation by stage. */
static double most_over(const Estimating *e, const Pipeline *p, double weights, int much, double *again) {
  const Search *s = e->s;
  Arena *a = arena_new();
  double *places = ARENA_ARRAY(a, double, p->c->stages), most = -INFINITY;
  bool apart = schedule_weights_apart(p->kind.order);
  for (int k = 0; k < p->mesh.stages; k++) {
    double saved = 0, waiting = 0, gradients = 0;
    again[k] = 0;
    for (int u = p->begin[k]; u < p->begin[k + 1]; u++) {
      int policy = policy_of(s, p->cut->layer[u], much);
      saved += p->units.saved[policy][u], waiting += apart ? with_converted * p->units.waiting[policy][u] : 0;
      again[k] += p->units.again[policy][u], gradients += p->units.gradients[u];
    }
    double share = e->gradients > 0 ? gradients / e->gradients : 1. / p->mesh.stages;
    places[mesh_place_of(&p->mesh, k)] +=
        p->live[k] * saved + p->waiting[k] * waiting + share * (weights + with_gathered * e->gradients);
  }
  for (int i = 0; i < p->c->stages; i++) most = fmax(most, places[i]);
  arena_free(a);
  return most + e->live - s->limit;
}

/* Returns the least amount of recomputation with which it fits; -1 if none.  `again`: its seconds by stage. */
static int made_again(const Estimating *e, const Pipeline *p, double weights, double *again) {
  const Search *s = e->s;
  int enough = s->nlayers ? s->nlayers * (s->npolicies - 1) : s->npolicies - 1, too_little = -1;
  if (most_over(e, p, weights, enough, again) > 0) return -1;
  while (enough - too_little > 1) {
    int middle = (too_little + enough) / 2;
    if (most_over(e, p, weights, middle, again) > 0) too_little = middle;
    else enough = middle;
  }
  most_over(e, p, weights, enough, again);
  return enough;
}

/* ---- estimates */

/* Returns the bytes that each further unit of recomputation frees on the place with the most. */
static double each_frees(const Estimating *e, const Pipeline *p, double weights, int much, double *again) {
  int n = e->s->nlayers;
  if (!n || e->s->npolicies < 2) return 0;
  int from = much >= n ? n : 0;
  return (most_over(e, p, weights, from, again) - most_over(e, p, weights, from + n, again)) / n;
}

/* Pipeline.chunks */
static int chunks_of(const Candidate *c, ScheduleKind kind) {
  return kind.chunks > 1 && c->stages > 1 && c->micro > 1 ? kind.chunks : 1;
}

/* Estimates with one schedule; `weights`: bytes of weights and state of all stages. */
static Estimate estimate_of(Estimating *e, const Candidate *c, ScheduleKind kind, double weights) {
  Arena *a = arena_new();
  Estimate out = {INFINITY, 0, 0};
  int chunks = chunks_of(c, kind), n = c->stages * chunks;
  Pipeline p = {.c = c, .kind = kind, .chunks = chunks, .mesh = {.stages = n, .schedule = kind.order}};
  if (chunks > 1) p.mesh.chunks = chunks;
  if (c->micro > 1) p.mesh.axes[p.mesh.naxes++] = (MeshAxis){.name = "mb", .size = c->micro, .temporal = true};
  p.cut = cut_for(e, n);
  p.begin = ARENA_ARRAY(a, int, n + 1), p.runs = ARENA_ARRAY(a, double, n), p.live = ARENA_ARRAY(a, int, n);
  p.waiting = ARENA_ARRAY(a, int, n);
  if (p.cut->n >= n) {
    double *again = ARENA_ARRAY(a, double, n), *runs = ARENA_ARRAY(a, double, n);
    p.units = units_of(e, p.cut, c->micro, a);
    place_stages(&p);
    double seconds = seconds_and_live(e, &p);
    int much = made_again(e, &p, weights, again);
    for (int s = 0; s < n; s++) runs[s] = p.runs[s] + again[s];
    if (much >= 0) {
      out.seconds = seconds * slowest_place(&p, runs) / slowest_place(&p, p.runs) + e->more * e->once / c->stages;
      out.again = much, out.freed = each_frees(e, &p, weights, much, again);
    }
  }
  arena_free(a);
  return out;
}

/* Estimates with each schedule; `solved`: seconds of the graph, with conversions. */
static void by_schedule(Estimating *e, const Candidate *c, const GraphInput *in, double solved, double weights,
                        Estimates *out) {
  const Search *s = e->s;
  bool choose = s->any_schedule && c->no_gaps;
  e->more = solved / (e->each * in->repeat + e->once * in->before);
  for (int i = 0; i < (choose ? USUAL_SCHEDULES : 1); i++) {
    ScheduleKind kind = choose ? search_usual_schedules[i] : s->schedule;
    if (chunks_of(c, kind) * c->stages > s->most_stages) continue;
    out->by[i] = estimate_of(e, c, kind, weights);
    out->least = fmin(out->least, out->by[i].seconds);
  }
}

/* Solves the graph; again with less memory for weights if live values leave them too little. */
static SolveResult solve_beside_live(Estimating *e, const Candidate *c, const Graph *g, const GraphInput *in,
                                     Arena *a) {
  enum { MOST_ROUNDS = 4 };
  const double less = 0.98;
  Search *s = e->s;
  SolveProblem p = *graph_problem(g);
  for (int round = 0;; round++) {
    SolveResult r = solve(&p, a);
    s->work += r.work;
    search_report_add(&s->report, g, &r, s->arena);
    if (!r.feasible) return r;
    graph_operations(g, r.values, e->own, e->bytes, e->sent);
    take_seconds(e, in);
    take_bytes(e);
    double left = (s->limit - e->live) * c->stages;
    if (r.memory <= left || left <= 0 || round + 1 == MOST_ROUNDS) return r;
    p.memory_limit = fmin(left, less * p.memory_limit);
  }
}

Estimates search_estimate(Estimating *e, const Candidate *c) {
  Search *s = e->s;
  const char *why = NULL;
  Estimates out = {.least = INFINITY};
  for (int i = 0; i < USUAL_SCHEDULES; i++) out.by[i] = (Estimate){INFINITY, 0, 0};
  const double most = fmin(of_interest * e->best, search_best_time(s));
  if (ideal_seconds(s, c) >= most) return out;
  search_set_mesh(s, c, NULL);
  GraphInput in = search_graph_input(s, c);
  in.rounds = in.split_rounds = 0, in.whole_work = 0;
  in.table_cap = table_cap;
  in.prune_above = most;
  Graph *g = graph_new(&in, &why);
  if (!g) return out;
  Arena *scratch = arena_new();
  SolveResult r = solve_beside_live(e, c, g, &in, scratch);
  out.limited = r.memory_weight > 0;
  if (r.feasible && e->each > 0) {
    /* If weights do not fit, layers may choose differently: the bound lies between two uniform choices. */
    by_schedule(e, c, &in, out.limited ? r.lower_bound : r.time, r.memory, &out);
  }
  e->best = fmin(e->best, out.least);
  arena_free(scratch);
  graph_free(g);
  return out;
}

Estimating *search_estimating(Search *s, Arena *a) {
  Estimating *e = ARENA_NEW(a, Estimating);
  size_t n = s->f->ops.n + 1;
  *e = (Estimating){.s = s,
                    .arena = a,
                    .trains = func_has_gradients(s->f),
                    .best = INFINITY,
                    .facts = cut_facts(a, s->f),
                    .waits = find_waits(a, s->f),
                    .own = ARENA_ARRAY(a, double, n),
                    .bytes = ARENA_ARRAY(a, double, n),
                    .sent = ARENA_ARRAY(a, double, n)};
  return e;
}
