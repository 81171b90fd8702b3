/* passes/search/estimate.c - see estimate.h. */
#include "passes/search/estimate.h"

#include <math.h>
#include <string.h>

#include "ir/schedule.h"
#include "passes/facts/derived.h"
#include "passes/facts/home.h"
#include "passes/search/report.h"

const ScheduleKind search_usual_schedules[USUAL_SCHEDULES] = {{SCHEDULE_1f1b, 0},        {SCHEDULE_zbh1, 0},
                                                              {SCHEDULE_zbv, 2},         {SCHEDULE_interleaved, 2},
                                                              {SCHEDULE_interleaved, 3}, {SCHEDULE_interleaved, 4}};

/* Of what is kept where gradients of weights come later, what is converted is about half as much again as what is made.
 */
static const double with_converted = 1.5;
/* Weights that are put together have two bytes where their gradients have four. */
static const double with_gathered = 1.5;

/* Larger joins are split: what is chosen then is about as fast. */
static const double table_cap = 3e6;

enum { PHASES = 3 };

struct Estimating {
  Search *s;
  bool trains;
  const size_t *home; /* homes_of; NULL: no training step */
  const bool *waits;  /* by operation: gradients of weights are made of it */
  /* Of the candidate that is looked at.  By operation: seconds; those of a micro-batch with what is placed with it;
   * bytes it makes. */
  double *own, *at, *bytes;
  double each, once;    /* seconds of all operations: of a micro-batch, and of what is done once */
  double phase[PHASES]; /* parts of `each`: forward, gradients, those of weights */
  double gradients;     /* bytes */
  double live;          /* bytes at once; where nothing is kept for gradients */
  /* By policy: bytes that are kept for gradients, and for those of weights besides where these come later; seconds of a
   * micro-batch that are spent again. */
  double saved[MOST_POLICIES], waiting[MOST_POLICIES], again[MOST_POLICIES];
};

/* ---- what operations take */

/* What gradients of weights are made of. */
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

static int number_of_phase(Phase p) { return p == PH_wgt ? 2 : phase_backward(p); }

static void take_seconds(Estimating *e, const GraphInput *in) {
  const Func *f = e->s->f;
  memset(e->at, 0, sizeof *e->at * f->ops.n);
  memset(e->phase, 0, sizeof e->phase);
  e->each = e->once = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    Phase p = f->ops.items[i].phase;
    if (!phase_each(p)) {
      e->once += e->own[i] / in->before;
      continue;
    }
    e->own[i] /= in->repeat;
    e->at[e->home ? e->home[i] : i] += e->own[i];
    e->phase[number_of_phase(p)] += e->own[i], e->each += e->own[i];
  }
  for (int k = 0; k < PHASES && e->each > 0; k++) e->phase[k] /= e->each;
}

/* The most that is live at once on a rank. */
static double most_live(const Estimating *e) {
  const size_t n = e->s->f->ops.n, *last = e->s->policies[0].last;
  Arena *scratch = arena_new();
  double *change = ARENA_ARRAY(scratch, double, n + 2), now = 0, most = 0;
  for (size_t i = 0; i < n; i++)
    if (last[i] != SIZE_MAX) change[i] += e->bytes[i], change[last[i] + 1] -= e->bytes[i];
  for (size_t i = 0; i < n; i++) now += change[i], most = fmax(most, now);
  arena_free(scratch);
  return most;
}

static void take_bytes(Estimating *e) {
  const Search *s = e->s;
  e->gradients = 0;
  e->live = e->trains ? 0 : most_live(e);
  for (size_t i = 0; i < s->f->ops.n; i++)
    if (s->f->ops.items[i].kind == OP_accumulate) e->gradients += e->bytes[i];
  for (int k = 0; k < s->npolicies; k++) {
    const Policy *p = &s->policies[k];
    e->saved[k] = e->waiting[k] = e->again[k] = 0;
    for (size_t i = 0; i < s->f->ops.n; i++) {
      if (p->saved[i]) e->saved[k] += e->bytes[i];
      else if (e->waits[i]) e->waiting[k] += e->bytes[i];
      if (p->again[i]) e->again[k] += e->own[i];
    }
  }
}

/* ---- time */

/* Can the operations be cut into so many runs of at most so much?  `runs` gets what they take. */
static bool fits_runs(const Estimating *e, int n, double most, double *runs) {
  int k = 0;
  memset(runs, 0, sizeof *runs * (size_t)n);
  for (size_t i = 0; i < e->s->f->ops.n; i++) {
    if (e->at[i] == 0) continue;
    if (runs[k] > 0 && runs[k] + e->at[i] > most && ++k == n) return false;
    runs[k] += e->at[i];
  }
  return true;
}

/* As even as can be; `runs` gets what stages take. */
static void even_runs(const Estimating *e, int n, double *runs) {
  double sum = 0;
  for (size_t i = 0; i < e->s->f->ops.n; i++) sum += e->at[i];
  double low = sum / n, high = sum;
  for (int round = 0; round < 20; round++) {
    double middle = (low + high) / 2;
    if (fits_runs(e, n, middle, runs)) high = middle;
    else low = middle;
  }
  fits_runs(e, n, high, runs);
}

/* What a pipeline takes, when all of its stages take `each` in a micro-batch: by the table of its schedule if that is
 * short, else as if the slowest place never waited but where the schedule says so. */
static double pipeline_seconds(const Estimating *e, const Candidate *c, ScheduleKind kind, double each) {
  const double most_calls = 1 << 16, least = 1e-12;
  const int chunks = kind.chunks > 1 ? kind.chunks : 1;
  Arena *a = arena_new();
  Mesh mesh = {.stages = c->stages * chunks, .chunks = kind.chunks, .schedule = kind.order};
  if (c->micro > 1) mesh.axes[mesh.naxes++] = (MeshAxis){.name = "mb", .size = c->micro, .temporal = true};
  double *runs = ARENA_ARRAY(a, double, mesh.stages), *places = ARENA_ARRAY(a, double, c->stages), sum = 0, most = 0;
  even_runs(e, mesh.stages, runs);
  for (int k = 0; k < mesh.stages; k++) places[mesh_place_of(&mesh, k)] += runs[k], sum += runs[k];
  for (int p = 0; p < c->stages; p++) most = fmax(most, places[p]);
  double scale = each / sum, seconds = most * scale * (c->micro + schedule_idle(kind.order, c->stages, chunks));
  if (e->trains && c->micro > 1 && mesh.stages * (double)c->micro <= most_calls) {
    ScheduleWork *work = ARENA_ARRAY(a, ScheduleWork, mesh.stages);
    for (int k = 0; k < mesh.stages; k++) {
      double run = runs[k] * scale;
      work[k] = (ScheduleWork){fmax(run * e->phase[0], least), fmax(run * e->phase[1], least),
                               fmax(run * e->phase[2], least)};
    }
    seconds = schedule_table(a, &mesh, work).seconds;
  } else if (!e->trains) {
    seconds = scale * (sum + (c->micro - 1) * most);
  }
  arena_free(a);
  return seconds;
}

/* ---- memory */

/* How many micro-batches are live on the place with the most, of all that stages keep of one. */
static double live_share(const Candidate *c, ScheduleKind kind) {
  double more = kind.order == SCHEDULE_interleaved ? (c->stages - 1.) / kind.chunks : 0;
  return c->stages == 1 ? 1 : fmin(c->micro, c->stages + more) / c->stages;
}

static double each_frees(const Search *s, double freed) { return s->nlayers ? freed / s->nlayers : 0; }

/* As much made again as it takes to fit, between the policies as if layers could be parted; its seconds are of a
 * micro-batch on all stages. */
static Estimate made_again(const Estimating *e, const Candidate *c, ScheduleKind kind, double weights) {
  const Search *s = e->s;
  double left = s->limit - e->live - (weights + with_gathered * e->gradients) / c->stages, live = live_share(c, kind),
         need[MOST_POLICIES];
  for (int k = 0; k < s->npolicies; k++)
    need[k] = live * (e->saved[k] + (schedule_weights_apart(kind.order) ? with_converted * e->waiting[k] : 0));
  for (int k = 0; k < s->npolicies; k++) {
    double freed = k + 1 < s->npolicies ? need[k] - need[k + 1] : 0, part = (need[k] - left) / freed;
    if (need[k] <= left) return (Estimate){e->again[k], k * s->nlayers, each_frees(s, freed)};
    if (need[k] - left > freed) continue;
    double seconds = e->again[k] + part * (e->again[k + 1] - e->again[k]);
    return (Estimate){seconds, (int)ceil((k + part) * s->nlayers), each_frees(s, freed)};
  }
  return (Estimate){INFINITY, 0, 0};
}

/* ---- all of it */

/* `solved`: seconds of the graph, with conversions; `weights`: bytes of weights and state of all stages. */
static void by_schedule(const Estimating *e, const Candidate *c, const GraphInput *in, double solved, double weights,
                        Estimates *out) {
  const Search *s = e->s;
  bool choose = s->any_schedule && c->no_gaps;
  double more = solved / (e->each * in->repeat + e->once * in->before);
  for (int i = 0; i < (choose ? USUAL_SCHEDULES : 1); i++) {
    ScheduleKind kind = choose ? search_usual_schedules[i] : s->schedule;
    if (kind.chunks * c->stages > s->most_stages) continue;
    Estimate again = made_again(e, c, kind, weights);
    if (isinf(again.seconds)) continue;
    double each = more * e->each + again.seconds, once = more * e->once / c->stages;
    double seconds = c->stages > 1 ? pipeline_seconds(e, c, kind, each) : each * c->micro;
    out->by[i] = (Estimate){seconds + once, again.again, again.freed};
    out->least = fmin(out->least, out->by[i].seconds);
  }
}

/* Solves the graph; again with less memory for weights where what is live leaves them too little. */
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
    graph_operations(g, r.values, e->own, e->bytes);
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
  if (ideal_seconds(s, c) >= search_best_time(s)) return out;
  search_set_mesh(s, c, NULL);
  GraphInput in = search_graph_input(s, c);
  in.rounds = in.split_rounds = 0, in.whole_work = 0;
  in.table_cap = table_cap;
  in.prune_above = INFINITY;
  Graph *g = graph_new(&in, &why);
  if (!g) return out;
  Arena *scratch = arena_new();
  SolveResult r = solve_beside_live(e, c, g, &in, scratch);
  out.limited = r.memory_weight > 0;
  if (r.feasible && e->each > 0) {
    /* Where weights do not fit, layers may choose differently: between two choices that are alike lies the bound. */
    by_schedule(e, c, &in, out.limited ? r.lower_bound : r.time, r.memory, &out);
  }
  arena_free(scratch);
  graph_free(g);
  return out;
}

Estimating *search_estimating(Search *s, Arena *a) {
  Estimating *e = ARENA_NEW(a, Estimating);
  size_t n = s->f->ops.n + 1;
  *e = (Estimating){.s = s,
                    .trains = func_has_gradients(s->f),
                    .home = homes_of(a, s->f, derived_ops(a, s->f)),
                    .waits = find_waits(a, s->f),
                    .own = ARENA_ARRAY(a, double, n),
                    .at = ARENA_ARRAY(a, double, n),
                    .bytes = ARENA_ARRAY(a, double, n)};
  return e;
}
