/* tests/emitted.h - the cost of a lowered function, added up from its operations, for comparison with the prediction
 * for its plan: seconds of every stage by class, arithmetic, bytes of weights and states, and the messages and bytes of
 * every kind of communication.
 *
 * Sizes come from local types, of the rank with the largest parts, which is the last one (as in the cost model);
 * symbols count as their hint.  Local operations are priced as level 2 has them.  Three things come from level 1, found
 * by the names of operations: the bytes that an exchange of windows moves; operations whose windows were exchanged, as
 * a prediction counts the shards before the exchange; and grouped operations, whose rows meet a part of all
 * matrices. */
#ifndef APC_TESTS_EMITTED_H
#define APC_TESTS_EMITTED_H

#include <math.h>

#include "codegen/rows/row_work.h"
#include "passes/cost/kernel.h"
#include "passes/cost/loops.h"
#include "passes/cost/lowered.h"
#include "passes/lower/lower.h"
#include "passes/facts/labels.h"
#include "tests/test.h"

enum { MOST_STAGES = 8 };

typedef struct Emitted {
  Module *m;
  const Func *f, *l2;
  const LowerPlan *plan;
  const Rule *const *rules; /* of f */
  CostModel *cost;
  Arena *arena;
  long all_to_alls[3]; /* by how they are made contiguous: parts of the first dimension, of the second, gathered */
  double times;        /* how often the costs that are added now run, in each micro-batch */
  bool once;           /* or once, before all micro-batches */
  StageCost stages[MOST_STAGES];
  PlanTraffic traffic[COMM_KIND_COUNT];
} Emitted;

static inline double emitted_bytes(const Emitted *e, Val v) {
  const Type *t = type_of(e->l2, v);
  double n = (double)dtype_bytes(t->dtype);
  for (int d = 0; d < t->rank; d++) n *= (double)cost_extent(e->cost, t->dims[d]);
  return n;
}

static inline uint32_t emitted_axes(const Op *op) {
  const Attr *axes = op_attr(op, AT_mesh_axes);
  uint32_t set = axes ? 0 : 1u << op_int(op, AT_mesh_axis, 0);
  for (int i = 0; axes && i < axes->n; i++) set |= 1u << axes->u.ints[i];
  return set;
}

/* Returns the index of the level-1 operation that `op` implements, by its name: "name", "name.1" if another stage has
 * it too, or "name/..." in its decomposition.  SIZE_MAX if there is none. */
static inline size_t emitted_from(const Emitted *e, const Op *op) {
  size_t best = SIZE_MAX, longest = 0;
  for (size_t i = 0; i < e->f->ops.n; i++) {
    const char *name = e->f->ops.items[i].name;
    size_t n = strlen(name);
    bool begins = strncmp(op->name, name, n) == 0 && (op->name[n] == 0 || op->name[n] == '.' || op->name[n] == '/');
    if (begins && n > longest) best = i, longest = n;
  }
  return best;
}

/* Finds the operation that reads an exchanged window, and as which operand; other exchanges of it may lie between. */
static inline const Op *emitted_reader(const Func *l2, Val v, int *operand) {
  for (size_t i = 0; i < l2->ops.n; i++)
    for (int k = 0; k < l2->ops.items[i].nin; k++) {
      if (l2->ops.items[i].in[k] != v) continue;
      *operand = k;
      return l2->ops.items[i].kind == OP_exchange ? emitted_reader(l2, l2->ops.items[i].out, operand)
                                                  : &l2->ops.items[i];
    }
  return NULL;
}

static inline bool emitted_window_of(const Emitted *e, const Op *op, WalkWindow *w, int *operand, size_t *from) {
  int dim = (int)op_int(op, AT_axis, 0);
  const Op *reader = emitted_reader(e->l2, op->out, operand);
  *from = reader ? emitted_from(e, reader) : SIZE_MAX;
  CHECKF(*from != SIZE_MAX, "no operation reads the window %s", op->name);
  if (*from == SIZE_MAX) return false;
  *w = (WalkWindow){.factor = e->rules[*from]->operands[*operand].dims[dim].f[0], .dim = dim, .axes = emitted_axes(op)};
  return true;
}

static inline CommSize emitted_window(const Emitted *e, const Op *op) {
  int operand;
  WalkWindow w;
  size_t from;
  if (!emitted_window_of(e, op, &w, &operand, &from)) return (CommSize){COMM_exchange, emitted_axes(op), 0};
  return cost_comm_of_window(e->cost, e->f, &e->f->ops.items[from], e->rules[from], &e->plan->strategies[from], operand,
                             &w);
}

static inline bool emitted_comm(const Emitted *e, const Op *op, CommSize *out) {
  double in = op->nin ? emitted_bytes(e, op->in[0]) : 0;
  *out = (CommSize){.axes = emitted_axes(op), .bytes = in};
  switch (op->kind) {
    case OP_all_reduce: out->kind = COMM_all_reduce; return true;
    case OP_all_gather: out->kind = COMM_all_gather, out->bytes = emitted_bytes(e, op->out); return true;
    case OP_reduce_scatter: out->kind = COMM_reduce_scatter; return true;
    case OP_all_to_all: out->kind = COMM_all_to_all; return true;
    case OP_exchange:
      out->kind = COMM_exchange, out->bytes = fmax(in, emitted_bytes(e, op->out));
      if (strstr(op->name, ".window")) *out = emitted_window(e, op);
      return true;
    default: return false;
  }
}

static inline double emitted_repeat(const Emitted *e) {
  const Mesh *mesh = &e->m->mesh;
  double repeat = 1;
  for (int i = 0; i < mesh->naxes; i++)
    if (mesh->axes[i].temporal && !e->once) repeat = mesh->axes[i].size;
  return repeat;
}

static inline void emitted_spend(Emitted *e, int stage, double each, double *class) {
  *(e->once ? &e->stages[stage].once : &e->stages[stage].each) += each * e->times;
  *class += each * e->times * emitted_repeat(e);
}

static inline void emitted_count(Emitted *e, CommKind kind, double bytes) {
  double times = e->times * emitted_repeat(e);
  e->traffic[kind].messages += times;
  e->traffic[kind].bytes += times * bytes;
}

static inline bool emitted_has_windows(const Emitted *e, size_t from) {
  WalkWindow w;
  for (int k = 0; k < e->f->ops.items[from].nin; k++) {
    int at = 0;
    if (walk_window(e->rules[from], &e->plan->strategies[from], k, &at, &w)) return true;
  }
  return false;
}

/* The kind of part that the level-1 operation of `op` is; operations of a decomposition are priced on their own. */
static inline PartKind emitted_part(const Emitted *e, const Op *op) {
  size_t from = strchr(op->name, '/') ? SIZE_MAX : emitted_from(e, op);
  return from == SIZE_MAX ? PART_OWN : cost_part(e->cost, e->f, &e->f->ops.items[from])->kind;
}

static inline OpCost emitted_kernel(const Emitted *e, const Op *op) {
  size_t from = emitted_from(e, op);
  bool at_level1 = op_is_grouped(op->kind) || (from != SIZE_MAX && emitted_has_windows(e, from));
  if (from != SIZE_MAX && !strchr(op->name, '/') && at_level1)
    return cost_kernel(e->cost, e->f, &e->f->ops.items[from], e->rules[from], &e->plan->strategies[from]);
  return cost_joined(e->cost, e->l2, op, rule_of(e->m, e->l2, op), &(Strategy){0});
}

/* Weights of one name and layout are one copy in a stage. */
static inline bool emitted_before(const Func *l2, size_t index) {
  const Op *op = &l2->ops.items[index];
  for (size_t i = 0; i < index; i++) {
    const Op *x = &l2->ops.items[i];
    if (x->kind == op->kind && x->stage == op->stage && strcmp(op_str(x, AT_name), op_str(op, AT_name)) == 0 &&
        l2->values.items[x->out].layout == l2->values.items[op->out].layout)
      return true;
  }
  return false;
}

static inline double emitted_work_bytes(const Emitted *e, const Work *w, Val v) {
  const Type *t = work_type(w, v);
  double n = (double)dtype_bytes(t->dtype);
  for (int d = 0; d < t->rank; d++) n *= (double)cost_extent(e->cost, t->dims[d]);
  return n;
}

static long emitted_reduced; /* reductions that kernels make instead of the engine */

/* Returns the seconds of the transposes, slices and reductions that a communication needs around it, or instead of it,
 * on devices with contiguous collectives; sets *x if it is another communication. */
static inline double emitted_beside(Emitted *e, size_t index, CommSize *x) {
  const Op *op = &e->l2->ops.items[index];
  const Target *t = cost_target(e->cost);
  double seconds = 0;
  if (!t->device->contiguous_collectives) return 0;
  const WorkFunction all = {.m = e->m, .f = e->l2};
  Work w = {.m = e->m, .arena = e->m->arena, .f = e->l2, .all = &all, .stage = op->stage, .device = t->device};
  work_add_comm(&w, op, (int)index);
  for (size_t i = 0; i < w.ops.n; i++) {
    const Op *k = w.ops.items[i].op;
    const Expr *offset;
    if (k->kind == OP_transpose && work_is_view(&w, k, &offset)) continue;
    if (k->kind == OP_transpose || k->kind == OP_shard_slice)
      seconds += t->launch + cost_memory_seconds(t, 2 * emitted_work_bytes(e, &w, k->out));
    if (k->kind == OP_reduce) { /* of a value that was gathered instead of reduced */
      double bytes = emitted_work_bytes(e, &w, k->in[0]) + emitted_work_bytes(e, &w, k->out);
      seconds += t->launch + cost_memory_seconds(t, bytes), emitted_reduced++;
    }
    if (op_is_comm(k->kind) && op_attr(op, AT_op) && !op_attr(k, AT_op))
      x->kind = COMM_all_gather, x->bytes = emitted_work_bytes(e, &w, k->out);
    if (op_is_comm(k->kind) && op->kind == OP_all_to_all) e->all_to_alls[op_int(k, AT_split, 2)] += k != op;
    if (k->kind == OP_all_gather && op->kind == OP_all_to_all)
      x->kind = k->kind == OP_exchange ? COMM_exchange : COMM_all_gather, x->bytes = emitted_work_bytes(e, &w, k->out);
  }
  return seconds;
}

static inline double emitted_comm_seconds(Emitted *e, size_t index, CommSize *x) {
  const Op *op = &e->l2->ops.items[index];
  if (op->kind != OP_exchange || !strstr(op->name, ".window")) {
    double beside = emitted_beside(e, index, x);
    return beside + cost_comm(e->cost, x);
  }
  int operand;
  WalkWindow w;
  size_t from;
  if (!emitted_window_of(e, op, &w, &operand, &from)) return 0;
  return cost_window(e->cost, e->f, &e->f->ops.items[from], e->rules[from], &e->plan->strategies[from], operand, &w);
}

/* Weights of convolutions have room for the library's blocks. */
static inline double emitted_kept(const Emitted *e, const Op *op) {
  double bytes = emitted_bytes(e, op->out);
  for (size_t i = 0; i < e->f->ops.n && op->kind == OP_param; i++) {
    const Op *conv = &e->f->ops.items[i], *w = conv->kind == OP_conv ? op_of(e->f, conv->in[1]) : NULL;
    if (w && w->kind == OP_param && strcmp(op_str(w, AT_name), op_str(op, AT_name)) == 0)
      return cost_target(e->cost)->device->blocks ? bytes + bytes / LEGAL_CONV_ROOM : bytes;
  }
  return bytes;
}

static inline void emitted_add(Emitted *e, size_t index) {
  const Op *op = &e->l2->ops.items[index];
  StageCost *s = &e->stages[op->stage];
  const Target *t = cost_target(e->cost);
  CommSize x;
  if (emitted_comm(e, op, &x)) {
    emitted_spend(e, op->stage, emitted_comm_seconds(e, index, &x), &s->collectives);
    emitted_count(e, x.kind, x.bytes);
  } else if (op->kind == OP_shard_slice || op->kind == OP_mask_partial) {
    double bytes = 2 * emitted_bytes(e, op->kind == OP_mask_partial ? op->in[0] : op->out);
    emitted_spend(e, op->stage, t->launch + cost_memory_seconds(t, bytes), &s->collectives);
  } else if (op->kind == OP_transfer) {
    int to = (int)op_int(op, AT_to_stage, 0);
    emitted_spend(e, to, cost_transfer(e->cost, emitted_bytes(e, op->out)), &e->stages[to].transfers);
    emitted_count(e, COMM_send, emitted_bytes(e, op->out));
  } else if (op_is_resident(op->kind)) {
    if (!emitted_before(e->l2, index)) *(op->kind == OP_param ? &s->params : &s->state) += emitted_kept(e, op);
  } else if (emitted_part(e, op) != PART_OWN) {
    s->flops += emitted_kernel(e, op).flops * e->times * emitted_repeat(e);
  } else {
    OpCost k = emitted_kernel(e, op);
    emitted_spend(e, op->stage, k.seconds, k.compute_bound ? &s->compute : &s->memory_bound);
    s->flops += k.flops * e->times * emitted_repeat(e);
  }
}

typedef struct EmittedReads {
  const Work *w;
  const WorkGroup *g;
  int n;
  Val seen[1024];
  double bytes;
  const Emitted *e;
} EmittedReads;

/* A value that the kernel reads from memory counts once, up to the number of elements to compute. */
static inline void emitted_read(EmittedReads *r, Val v, double most) {
  int def = work_def(r->w, v);
  const WorkOp *o = def < 0 ? NULL : &r->w->ops.items[def];
  if (o && o->virtual_) {
    for (int k = 0; k < o->op->nin; k++) emitted_read(r, o->op->in[k], most);
    return;
  }
  for (int i = 0; i < r->n; i++)
    if (r->seen[i] == v) return;
  for (int i = 0; o && i < r->g->n; i++)
    if (r->g->ops[i] == def) return;
  if (r->n < 1024) r->seen[r->n++] = v;
  r->bytes += fmin(emitted_work_bytes(r->e, r->w, v), most * (double)dtype_bytes(work_type(r->w, v)->dtype));
}

static inline double emitted_elements(const Emitted *e, const WorkSpace *s) {
  double n = 1;
  for (int d = 0; d < s->ndims; d++) n *= (double)cost_extent(e->cost, s->dims[d]);
  return n;
}

/* A kernel of rows of the stage: its launch, unless a bundle contains it, and every value that it reads or stores,
   once. */
static inline void emitted_rows_kernel(Emitted *e, const Work *w, const WorkGroup *g, bool launched) {
  const Target *t = cost_target(e->cost);
  const Expr *offset;
  const WorkOp *first = &w->ops.items[g->ops[0]];
  EmittedReads r = {.w = w, .g = g, .e = e};
  if (g->n == 1 && first->class == WC_MAP && work_is_view(w, first->op, &offset)) return;
  for (int i = 0; i < g->n; i++) {
    const WorkOp *o = &w->ops.items[g->ops[i]];
    if (emitted_part(e, &e->l2->ops.items[o->origin]) != PART_ROWS) return;
    for (int k = 0; k < o->op->nin; k++) emitted_read(&r, o->op->in[k], emitted_elements(e, &g->space));
    for (Val v = o->op->out; v < op_end(o->op); v++)
      if (w->stored[v]) r.bytes += emitted_work_bytes(e, w, v);
  }
  double *rows = e->once ? &e->stages[w->stage].rows_once : &e->stages[w->stage].rows_each;
  *rows += e->times * (launched ? t->launch + cost_memory_seconds(t, r.bytes)
                                : cost_memory_seconds(t, r.bytes) - cost_memory_seconds(t, 0));
}

static inline void emitted_rows(Emitted *e, const LoopCosts *loops) {
  for (int s = 0; s < e->m->mesh.stages; s++) {
    Work *w = work_new(e->m, e->l2, s, cost_target(e->cost)->device, true);
    size_t n;
    work_fuse(w);
    const int *order = work_order(w, &n);
    for (size_t i = 0; i < n; i++) {
      const WorkGroup *g = &w->groups.items[order[i]];
      int origin = w->ops.items[g->ops[0]].origin;
      if (!g->fusable) continue;
      e->times = runs_of_op(loops, (size_t)origin), e->once = !phase_each(e->l2->ops.items[origin].phase);
      bool launched = g->bundle < 0 || i == 0 || w->groups.items[order[i - 1]].bundle != g->bundle;
      emitted_rows_kernel(e, w, g, launched);
    }
  }
}

static inline void emitted_sum(Emitted *e) {
  const LoopCosts *loops = cost_loops(e->arena, e->cost, e->l2, NULL);
  for (size_t i = 0; i < e->l2->ops.n; i++) {
    e->times = runs_of_op(loops, i);
    e->once = !phase_each(e->l2->ops.items[i].phase);
    emitted_add(e, i);
  }
  emitted_rows(e, loops);
}

static inline bool emitted_equal(double predicted, double emitted) {
  return fabs(predicted - emitted) <= 1e-9 * fmax(fabs(predicted), fabs(emitted));
}

static long emitted_all_to_alls[3]; /* sum of Emitted.all_to_alls over all plans */

/* Kernels of rows, of all plans that were compared: seconds of a step. */
static double emitted_rows_seconds, predicted_rows_seconds;

typedef struct EmittedSum {
  const char *name;
  double predicted, emitted;
} EmittedSum;

/* Compares all costs except kernels of rows.  Those are compared in total, as prices say only roughly which of them a
 * plan splits (passes/cost/parts.h). */
static inline const char *emitted_stage_differs(const Emitted *e, int stage, const StageCost *p, Arena *arena) {
  const StageCost *x = &e->stages[stage];
  double repeat = mesh_micro_batches(&e->m->mesh), rows = p->rows_each * repeat + p->rows_once;
  const EmittedSum sums[] = {{"seconds of compute", p->compute, x->compute},
                             {"memory-bound seconds", p->memory_bound - rows, x->memory_bound},
                             {"seconds of collectives", p->collectives, x->collectives},
                             {"seconds of transfers", p->transfers, x->transfers},
                             {"operations", p->flops, x->flops},
                             {"bytes of weights", p->params, x->params},
                             {"bytes of states", p->state, x->state},
                             {"seconds", p->each - p->rows_each, x->each},
                             {"seconds before micro-batches", p->once - p->rows_once, x->once}};
  predicted_rows_seconds += rows, emitted_rows_seconds += x->rows_each * repeat + x->rows_once;
  for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
    if (fabs(sums[i].predicted - sums[i].emitted) > 1e-9 * fmax(fabs(sums[i].emitted), i && i < 4 ? p->each : 0))
      return arena_printf(arena, "stage %d: predicted %.12g %s, emitted %.12g", stage, sums[i].predicted, sums[i].name,
                          sums[i].emitted);
  return NULL;
}

/* Returns NULL if the ledger's entries add up to the price of each stage, and its memory to that of the plan. */
static inline const char *ledger_differs(const PlanLedger *l, const Mesh *mesh, const Target *t, const PlanPrice *p,
                                         const StageCost *stages, Arena *arena) {
  const double batches = mesh_micro_batches(mesh);
  for (int s = 0; s < mesh->stages; s++) {
    double each = stages[s].waits / batches, once = 0, peak = 0;
    for (size_t i = 0; i < l->entries.n; i++)
      if (l->entries.items[i].stage == s)
        *(phase_each(l->entries.items[i].phase) ? &each : &once) += l->entries.items[i].seconds;
    if (!emitted_equal(each, stages[s].each) || (t->hidden == 0 && !emitted_equal(once, stages[s].once)))
      return arena_printf(arena, "stage %d: entries of %.12g and %.12g s, predicted %.12g and %.12g s", s, each, once,
                          stages[s].each, stages[s].once);
    for (size_t i = 0; i < l->points.n; i++) {
      double held = 0;
      for (int k = 0; k < HELD_CLASSES; k++) held += l->points.items[i].bytes[k];
      peak = held > peak ? held : peak;
    }
    for (int k = 0; k < HELD_CLASSES; k++) peak += l->kept[k];
    if (!emitted_equal(peak, cost_memory_made(&p->memory)) || !emitted_equal(l->memory.total, p->memory.total))
      return arena_printf(arena, "at most %.12g bytes are held, predicted %.12g", peak, cost_memory_made(&p->memory));
  }
  return NULL;
}

/* Returns the price noted at all operations of one step. */
static inline double emitted_noted_in_step(const LowerSteps *steps, const double *times, size_t op) {
  double sum = 0;
  for (size_t i = 0; i < steps->n; i++) sum += steps->items[i].step == steps->items[op].step ? times[i] : 0;
  return sum;
}

/* Returns NULL if the price of every collective and product is noted at its operation (passes/cost/lowered.h), or, for
 * a collective, at least within its step: of two conversions that take as long, the other one may be priced.  Others
 * share their price with neighbours, of which only the sum is known here. */
static inline const char *emitted_times_differ(Emitted *e, const LowerSteps *steps, const double *times) {
  for (size_t i = 0; i < e->l2->ops.n; i++) {
    const Op *op = &e->l2->ops.items[i];
    CommSize x;
    double wanted;
    if (emitted_comm(e, op, &x)) wanted = emitted_comm_seconds(e, i, &x);
    else if (op->kind == OP_dot) wanted = emitted_kernel(e, op).seconds;
    else continue;
    bool moves = op->kind != OP_dot && times[i] < wanted;
    if (!emitted_equal(times[i], wanted) && !(moves && emitted_noted_in_step(steps, times, i) >= wanted * (1 - 1e-9)))
      return arena_printf(e->arena, "%s: noted as %.12g s, emitted as %.12g s", op->name, times[i], wanted);
  }
  return NULL;
}

/* Returns NULL if every prediction for the plan equals the sum of the emitted costs. */
static inline const char *emitted_differs(Module *m, const Func *f, const LowerPlan *plan, const Target *t,
                                          const Func *l2, Arena *arena) {
  StageCost stages[MOST_STAGES] = {{0}};
  PlanTraffic traffic[COMM_KIND_COUNT] = {{0}};
  const Rule *const *rules = (const Rule *const *)rules_of(m, f);
  CostModel *cost = cost_model_new(m, t);
  Emitted e = {.m = m, .f = f, .l2 = l2, .plan = plan, .rules = rules, .cost = cost, .arena = arena};
  const char *why = NULL;
  PlanPrice p = cost_plan_stages(cost, m, f, rules, plan->strategies, plan->stages, stages, traffic);
  if (!p.possible) why = "it was lowered, but has no price";
  emitted_sum(&e);
  for (int s = 0; s < m->mesh.stages && !why; s++) why = emitted_stage_differs(&e, s, &stages[s], arena);
  for (int k = 0; k < COMM_KIND_COUNT && !why; k++)
    if (!emitted_equal(traffic[k].messages, e.traffic[k].messages) ||
        !emitted_equal(traffic[k].bytes, e.traffic[k].bytes))
      why = arena_printf(arena, "%s: predicted %g of %.12g bytes, emitted %g of %.12g bytes",
                         program_comm_kind_name((CommKind)k), traffic[k].messages, traffic[k].bytes,
                         e.traffic[k].messages, e.traffic[k].bytes);
  static long plans; /* every eighth: each costs a price more */
  if (!why && plans++ % 8 == 0) {
    const PlanLedger ledger = cost_plan_ledger(arena, cost, m, f, rules, plan->strategies, plan->stages);
    why = ledger_differs(&ledger, &m->mesh, t, &p, stages, arena);
    if (!why && plan->steps) why = emitted_times_differ(&e, plan->steps, cost_of_lowered(arena, &ledger, plan->steps));
  }
  cost_model_free(cost);
  for (int i = 0; i < 3; i++) emitted_all_to_alls[i] += e.all_to_alls[i];
  return why;
}

#endif
