/* passes/cost/plan_price.c - see plan_price.h. */
#include "passes/cost/plan_price.h"

#include <math.h>
#include <string.h>

#include "passes/cost/loops.h"
#include "passes/rewrite/same_weight.h"
#include "passes/search/graph.h"

/* A value in one layout on one stage. */
typedef struct Version {
  const Layout *layout;
  int stage;
  size_t born, dies; /* operations */
  bool converted;
  bool in_place; /* it lies where another value lay */
} Version;

typedef struct Versions {
  Version *items;
  size_t n, cap;
} Versions;

/* A copy of a weight that is in memory. */
typedef struct Kept {
  const Layout *layout;
  int stage;
} Kept;

typedef struct KeptList {
  Kept *items;
  size_t n, cap;
} KeptList;

typedef struct StageSum {
  double each;                                          /* seconds per micro-batch */
  double compute, memory_bound, collectives, transfers; /* per step */
  double flops, params, state;
} StageSum;

typedef struct Pricing {
  Arena *arena;
  CostModel *c;
  Module *m;
  const Func *f;
  const Rule *const *rules;
  const LoopCosts *loops;
  const Strategy *strategies;
  const int *stages;
  Versions *versions;
  SameWeight same;
  KeptList *kept; /* by operation: the first that reads the weight */
  StageSum *sums;
  double repeat; /* micro-batches */
  bool possible;
  PlanGap gap; /* the first conversion that does not exist */
} Pricing;

static int stage_of(const Pricing *p, size_t op) { return p->stages ? p->stages[op] : 0; }

/* Adds seconds to a stage and to one of its classes.  A stage's body is called for every micro-batch, also what does
 * not depend on it. */
static void spend(Pricing *p, int stage, double seconds, double *class) {
  p->sums[stage].each += seconds;
  *class += seconds * p->repeat;
}

/* ---- versions, as in lower.c */

/* What loops do to the life of a value that operation `now` reads: where it enters one from outside, it is converted
 * before that loop and stays to its end. */
typedef struct Life {
  size_t begin, end;
} Life;

static Life life_of(const Pricing *p, Val v, size_t now) {
  const Loops *l = &p->loops->loops;
  int entered = now < p->f->ops.n ? loops_entered(l, loops_reads_in(l, p->f, now), loop_of_value(l, p->f, v)) : -1;
  return entered < 0 ? (Life){now, now} : (Life){l->items[entered].begin, l->items[entered].end - 1};
}

static Version *find_version(Pricing *p, Val v, const Layout *layout, int stage) {
  for (size_t i = 0; i < p->versions[v].n; i++) {
    Version *x = &p->versions[v].items[i];
    if (x->layout == layout && x->stage == stage) return x;
  }
  return NULL;
}

static void add_version(Pricing *p, Val v, const Layout *layout, int stage, size_t born, bool converted) {
  ARENA_PUSH(p->arena, &p->versions[v], ((Version){layout, stage, born, born, converted, false}));
}

static void live_until(Version *x, size_t op) {
  if (op > x->dies) x->dies = op;
}

static const Layout *produced(const Pricing *p, Val v) {
  int op = p->f->values.items[v].op;
  return strategy_result(p->m, p->rules[op], &p->strategies[op]);
}

static void convert(Pricing *p, Val v, const Layout *from, const Layout *to, int stage, size_t user) {
  double seconds = cost_convert(p->c, type_of(p->f, v), from, to);
  if (seconds == INFINITY && p->possible) p->gap = (PlanGap){v, user, from, to};
  if (seconds == INFINITY) p->possible = false;
  else
    spend(p, stage, seconds * runs_of_result(p->loops, p->f, (size_t)p->f->values.items[v].op),
          &p->sums[stage].collectives);
}

/* Reads of one weight in one layout are one copy. */
static void keep_weight(Pricing *p, Val v, const Layout *layout, int stage) {
  KeptList *kept = &p->kept[p->same.first[p->f->values.items[v].op]];
  for (size_t i = 0; i < kept->n; i++)
    if (kept->items[i].layout == layout && kept->items[i].stage == stage) return;
  ARENA_PUSH(p->arena, kept, ((Kept){layout, stage}));
  p->sums[stage].params += cost_bytes(p->c, type_of(p->f, v), layout);
}

static void want(Pricing *p, Val v, const Layout *layout, int stage, size_t now) {
  const Op *op = op_of(p->f, v);
  const Type *type = type_of(p->f, v);
  const Layout *from = produced(p, v);
  int home = stage_of(p, (size_t)p->f->values.items[v].op);
  Life life = life_of(p, v, now);
  Version *have = find_version(p, v, layout, stage);
  if (!have && op_is_anywhere(op) && !layout->partial_axes) {
    add_version(p, v, layout, stage, now, false);
    live_until(find_version(p, v, layout, stage), life.end);
    return;
  }
  if (!have && op_is_source(op->kind) && !find_version(p, v, from, stage)) {
    add_version(p, v, from, stage, life.begin, false);
    if (op->kind == OP_param) keep_weight(p, v, from, stage);
    have = find_version(p, v, layout, stage);
  }
  if (!have && find_version(p, v, from, stage)) {
    live_until(find_version(p, v, from, stage), life.begin);
    convert(p, v, from, layout, stage, now);
    add_version(p, v, layout, stage, life.begin, true);
  } else if (!have) {
    bool first = from->partial_axes || layout_bytes(p->m, type, layout) <= layout_bytes(p->m, type, from);
    const Layout *travel = first ? layout : from;
    want(p, v, travel, home, now);
    spend(p, stage, cost_transfer(p->c, cost_bytes(p->c, type, travel)), &p->sums[stage].transfers);
    add_version(p, v, travel, stage, life.begin, true);
    if (!first) want(p, v, layout, stage, now);
  }
  live_until(find_version(p, v, layout, stage), life.end);
}

/* ---- operations */

static void price_op(Pricing *p, size_t index) {
  const Op *op = &p->f->ops.items[index];
  const Rule *r = p->rules[index];
  const Strategy *s = &p->strategies[index];
  int stage = stage_of(p, index);
  if (op_is_source(op->kind)) {
    if (op->kind == OP_read) p->sums[stage].state += cost_bytes(p->c, type_of(p->f, op->out), produced(p, op->out));
    int around = loops_entered(&p->loops->loops, p->loops->loops.of[index], -1);
    size_t born = around < 0 ? index : p->loops->loops.items[around].begin;
    if (op_is_at_entry(op->kind)) add_version(p, op->out, produced(p, op->out), stage, born, false);
    return;
  }
  /* An initial value that nobody else reads gives its place to the carry, a carry its own to the leave
   * (settle_carry). */
  for (int i = op->kind == OP_leave; i < op->nin; i++)
    want(p, op->in[i], strategy_operand(p->m, r, s, i), stage, op->kind == OP_carry ? index - 1 : index);
  OpCost cost = cost_op_runs(p->c, p->loops, p->f, index, r, s);
  StageSum *sum = &p->sums[stage];
  spend(p, stage, cost.communication, &sum->collectives);
  spend(p, stage, cost.seconds - cost.communication, cost.compute_bound ? &sum->compute : &sum->memory_bound);
  sum->flops += cost.flops * p->repeat;
  if (op->out) add_version(p, op->out, produced(p, op->out), stage, index, false);
}

static void price_output(Pricing *p, const Output *o) {
  Layout whole = *produced(p, o->value);
  whole.partial_axes = 0;
  want(p, o->value, layout_get(p->m, &whole), stage_of(p, (size_t)p->f->values.items[o->value].op), p->f->ops.n);
}

/* ---- memory: weights and state stay, everything else lives from its birth to its last use */

/* A carry stays to the end of the body, and its next value is made in its place when nobody reads the carry any
 * more. */
static void settle_carry(Pricing *p, size_t index) {
  const Op *leave = &p->f->ops.items[index];
  int stage = stage_of(p, index);
  Version *carry = find_version(p, leave->in[0], produced(p, leave->in[0]), stage),
          *next =
              find_version(p, leave->in[1], strategy_operand(p->m, p->rules[index], &p->strategies[index], 1), stage);
  if (!carry || !next) return;
  next->in_place |= op_of(p->f, leave->in[1])->kind != OP_carry && next->born > carry->born &&
                    next->born >= carry->dies && next->dies == index;
  live_until(carry, index - 1);
}

static void settle_carries(Pricing *p) {
  for (size_t i = 0; i < p->f->ops.n; i++)
    if (p->f->ops.items[i].kind == OP_leave) settle_carry(p, i);
}

static PlanMemory stage_memory(const Pricing *p, int stage) {
  size_t n = p->f->ops.n + 2;
  double *change[2] = {ARENA_ARRAY(p->arena, double, n), ARENA_ARRAY(p->arena, double, n)}, now[2] = {0};
  PlanMemory m = {.params = p->sums[stage].params, .state = p->sums[stage].state};
  for (Val v = 1; v < p->f->values.n; v++) {
    OpKind kind = op_of(p->f, v)->kind;
    for (size_t i = 0; i < p->versions[v].n; i++) {
      const Version *x = &p->versions[v].items[i];
      if (x->stage != stage || x->in_place || (!x->converted && op_is_resident(kind))) continue;
      double bytes = cost_bytes(p->c, type_of(p->f, v), x->layout);
      change[x->converted][x->born] += bytes;
      change[x->converted][x->dies + 1] -= bytes;
    }
  }
  for (size_t i = 0; i < n; i++) {
    now[0] += change[0][i];
    now[1] += change[1][i];
    if (now[0] + now[1] > m.activations + m.communication) m.activations = now[0], m.communication = now[1];
  }
  m.total = m.params + m.state + m.activations + m.communication;
  return m;
}

static PlanTime pipeline_time(const Pricing *p, int stages) {
  double sum = 0;
  int busiest = 0;
  for (int s = 0; s < stages; s++) {
    sum += p->sums[s].each;
    if (p->sums[s].each > p->sums[busiest].each) busiest = s;
  }
  const StageSum *b = &p->sums[busiest];
  PlanTime t = {.total = sum + (p->repeat - 1) * b->each,
                .compute = b->compute,
                .memory_bound = b->memory_bound,
                .collectives = b->collectives,
                .transfers = b->transfers};
  t.idle = fmax(0, t.total - p->repeat * b->each);
  return t;
}

PlanPrice plan_price(CostModel *c, Module *m, const Func *f, const Rule *const *rules, const Strategy *strategies,
                     const int *stages) {
  int nstages = m->mesh.stages;
  Arena *a = arena_new();
  Pricing p = {.arena = a,
               .c = c,
               .m = m,
               .f = f,
               .rules = rules,
               .strategies = strategies,
               .stages = stages,
               .repeat = 1,
               .possible = true};
  p.loops = loop_costs(a, c, f);
  p.versions = ARENA_ARRAY(a, Versions, f->values.n);
  p.same = same_weight(a, f);
  p.kept = ARENA_ARRAY(a, KeptList, f->ops.n + 1);
  p.sums = ARENA_ARRAY(a, StageSum, nstages);
  for (int i = 0; i < m->mesh.naxes; i++)
    if (m->mesh.axes[i].temporal) p.repeat = m->mesh.axes[i].size;
  for (size_t i = 0; i < f->ops.n; i++) price_op(&p, i);
  for (size_t i = 0; i < f->outputs.n; i++) price_output(&p, &f->outputs.items[i]);
  settle_carries(&p);
  PlanPrice out = {.possible = p.possible, .gap = p.gap, .time = pipeline_time(&p, nstages)};
  for (int s = 0; s < nstages; s++) {
    PlanMemory mem = stage_memory(&p, s);
    if (mem.total > out.memory.total) out.memory = mem;
    out.flops = fmax(out.flops, p.sums[s].flops);
    out.param_bytes = fmax(out.param_bytes, p.sums[s].params);
  }
  arena_free(a);
  return out;
}

double plan_flops(CostModel *c, Module *m, const Func *f, const Rule *const *rules) {
  double sum = 0;
  Arena *scratch = arena_new();
  const LoopCosts *loops = loop_costs(scratch, c, f);
  (void)m;
  for (size_t i = 0; i < f->ops.n; i++) sum += cost_op_runs(c, loops, f, i, rules[i], &(Strategy){0}).flops;
  arena_free(scratch);
  return sum;
}

double plan_params(const Module *m, const Func *f) {
  double sum = 0;
  (void)f;
  for (size_t i = 0; i < m->params.n; i++) {
    int64_t dims[MAX_RANK];
    double n = 1;
    if (!m->params.items[i].trainable || !type_constant_dims(m->params.items[i].type, dims)) continue;
    for (int d = 0; d < m->params.items[i].type->rank; d++) n *= (double)dims[d];
    sum += n;
  }
  return sum;
}
