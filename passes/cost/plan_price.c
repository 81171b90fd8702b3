/* passes/cost/plan_price.c - see plan_price.h. */
#include "passes/cost/plan_price.h"

#include <math.h>
#include <string.h>

#include "ir/joint.h"
#include "ir/legal_dot.h"
#include "ir/states.h"
#include "passes/cost/beside.h"
#include "passes/cost/held.h"
#include "passes/cost/ledger.h"
#include "passes/cost/ranks.h"
#include "passes/facts/zero.h"
#include "passes/facts/derived.h"
#include "passes/facts/same_weight.h"

/* A copy of a weight that is in memory. */
typedef struct Kept {
  const Layout *layout;
  int stage;
} Kept;

typedef struct KeptList {
  Kept *items;
  size_t n, cap;
} KeptList;

/* The memory that the entries of a joint function share. */
typedef struct EntriesKept {
  SameWeight same;
  StateOps states;
  KeptList *kept;  /* by operation: the first of its weight or state */
  StageCost *sums; /* by stage: weights and state */
} EntriesKept;

typedef struct Pricing {
  Walk walk; /* first, so that a Walk pointer can be cast to Pricing */
  Arena *arena;
  CostModel *c;
  const Func *f;
  const LoopCosts *loops;
  HeldList held;
  SameWeight same;
  KeptList *kept; /* by operation: the first that reads the weight */
  double *ready;  /* by operation: seconds of its stage when a gradient is complete */
  BesideSums beside;
  bool *of_convolutions;
  size_t states;        /* states counted so far */
  StageCost *sums;      /* by stage */
  PlanTraffic *traffic; /* by kind; NULL if not needed */
  PlanLedger *ledger;   /* NULL if not needed */
  double repeat;        /* micro-batches */
  bool in_turns;        /* a pipeline trains with several micro-batches (codegen/program_bodies.c) */
  int ngaps;
  PlanGap gaps[MOST_GAPS]; /* the first missing conversions */
  EntriesKept *together;   /* shared with the other entries of a joint function; NULL if none */
  const JointEntry *entry;
} Pricing;

/* Returns the cost model of the stage's place. */
static CostModel *model_of(const Pricing *p, int stage) {
  return cost_model_on(p->c, mesh_place_of(&p->walk.m->mesh, stage));
}

/* Returns how often the current step of the walk runs. */
static double repeats(const Pricing *p) { return phase_each(p->walk.phase) ? p->repeat : 1; }

/* Adds seconds to a stage and to one of its classes. */
static void spend(Pricing *p, int stage, double seconds, double *class) {
  StageCost *s = &p->sums[stage];
  *(phase_each(p->walk.phase) ? &s->each : &s->once) += seconds;
  if (p->walk.phase == PH_fwd) s->phases.fwd += seconds;
  if (p->walk.phase == PH_bwd) s->phases.bwd += seconds;
  if (p->walk.phase == PH_wgt) s->phases.wgt += seconds;
  *class += seconds * repeats(p);
}

/* Adds an entry of so many seconds to the ledger; it runs now. */
static void enter(Pricing *p, const WalkScope *s, LedgerEntry x) {
  if (!p->ledger || (x.seconds <= 0 && x.kind >= LEDGER_collective)) return;
  const double runs = runs_in_loop(p->loops, walk_outermost(s)->loop);
  if (s->from) x.op = p->walk.now;
  x.now = p->walk.now, x.phase = p->walk.phase, x.step = p->walk.step, x.runs = runs;
  x.seconds *= runs, x.flops *= runs, x.bytes *= runs;
  ARENA_PUSH(p->ledger->arena, &p->ledger->entries, x);
}

/* Counts n kernels or messages that the host issues. */
static void issue(Pricing *p, int stage, double n) {
  if (phase_each(p->walk.phase)) p->sums[stage].issued[p->walk.phase] += n;
}

/* Returns how often the current value is made. */
static double runs_here(const Pricing *p, const WalkScope *s) {
  return runs_in_loop(p->loops, walk_outermost(s)->loop);
}

static void count(Pricing *p, const WalkScope *s, CommKind kind, double bytes) {
  if (!p->traffic) return;
  p->traffic[kind].messages += runs_here(p, s) * repeats(p);
  p->traffic[kind].bytes += runs_here(p, s) * repeats(p) * bytes;
}

/* By operation, as `kept`: convolutions read the weight, for which a library needs memory (codegen/program.c). */
static bool *weights_of_convolutions(const Pricing *p) {
  bool *of = ARENA_ARRAY(p->arena, bool, p->f->ops.n + 1);
  for (size_t i = 0; i < p->f->ops.n; i++) {
    const Op *op = &p->f->ops.items[i];
    if (op->kind != OP_conv || !cost_target(p->c)->device->blocks) continue;
    const Op *weights = op_of(p->f, op->in[1]);
    if (weights->kind == OP_param) of[p->same.first[func_op_index(p->f, weights)]] = true;
  }
  return of;
}

static bool is_new(Arena *a, KeptList *kept, const Layout *layout, int stage) {
  for (size_t i = 0; i < kept->n; i++)
    if (kept->items[i].layout == layout && kept->items[i].stage == stage) return false;
  ARENA_PUSH(a, kept, ((Kept){layout, stage}));
  return true;
}

/* Reads of one weight in one layout share one copy. */
static void keep_weight(Pricing *p, Val value, const Layout *layout, int stage) {
  size_t op = (size_t)p->f->values.items[value].op, first = p->same.first[op];
  if (!is_new(p->arena, &p->kept[first], layout, stage)) return;
  double bytes = cost_bytes(p->c, type_of(p->f, value), layout);
  if (p->of_convolutions[first]) bytes += bytes / LEGAL_CONV_ROOM;
  p->sums[stage].params += bytes;
  EntriesKept *all = p->together;
  if (all && is_new(p->arena, &all->kept[all->same.first[p->entry->at[op]]], layout, stage))
    all->sums[stage].params += bytes;
}

static void keep_state(Pricing *p, const Op *op, double bytes, const Layout *layout, int stage) {
  EntriesKept *all = p->together;
  size_t first = all ? all->states.first[p->entry->at[func_op_index(p->f, op)]] : 0;
  if (all && is_new(p->arena, &all->kept[first], layout, stage)) all->sums[stage].state += bytes;
}

/* ---- callbacks of the walk */

static Val price_source(Walk *w, const WalkScope *s, const Op *op, const Layout *layout, int stage, bool declares) {
  Pricing *p = (Pricing *)w;
  Val value = declares ? op->in[0] : op->out;
  if (op->kind == OP_param) keep_weight(p, value, layout, stage);
  if (w->states.n > p->states) {
    bool weight = !declares && op->kind == OP_read && op_is_of_weight(w->m, op);
    double *kept = weight ? &p->sums[stage].params : &p->sums[stage].state,
           bytes = cost_bytes(p->c, type_of(s->f, value), layout);
    if (state_is_away(w->m, op)) {
      p->sums[stage].away += bytes;
      double seconds = declares ? 0 : cost_away(model_of(p, stage), s->f, op, layout);
      spend(p, stage, seconds, &p->sums[stage].memory_bound);
      if (w->phase == PH_step) p->sums[stage].optimizer += seconds;
    } else {
      *kept += bytes;
      keep_state(p, op, bytes, layout, stage);
    }
  }
  p->states = w->states.n;
  if (declares) return NOT_HELD;
  Val made = held_make(&p->held, s, value, layout, stage, false);
  held_find_picture(&p->held, op, NULL, made);
  return made;
}

/* Returns the operation of the function whose operands are being made. */
static size_t user_now(const Pricing *p, const WalkScope *s) {
  return s->from || p->walk.now == p->f->ops.n ? p->walk.now : func_op_index(p->f, p->walk.reader);
}

/* Counts a conversion of so many seconds; returns the share that is shown. */
static double count_beside(Pricing *p, const WalkScope *s, Val value, const Layout *from, const Layout *to,
                           double seconds, int stage) {
  const size_t op = (size_t)s->f->values.items[value].op;
  CostModel *c = model_of(p, stage);
  const double least = s->from ? 1 : cost_shown(c, &s->f->ops.items[op]),
               shown = beside_shown(c, type_of(s->f, value), from, to, least);
  if (shown < 1 && seconds > 0)
    ARENA_PUSH(p->arena, &p->beside, ((BesideSum){stage, p->ready[op], seconds, seconds * shown}));
  return shown;
}

/* `shown`: the share of the seconds that is not hidden. */
static void count_moves(Pricing *p, const WalkScope *s, Val value, const Conversion *path, double shown, int stage) {
  const Type *type = type_of(s->f, value);
  for (int i = 0; i < path->n; i++) {
    CommSize x = {.kind = COMM_KIND_COUNT};
    if (cost_comm_of_move(p->c, type, &path->moves[i], &x)) count(p, s, x.kind, x.bytes);
    enter(p, s,
          (LedgerEntry){.kind = LEDGER_collective,
                        .op = (size_t)s->f->values.items[value].op,
                        .stage = stage,
                        .part = (size_t)i,
                        .seconds = cost_move(model_of(p, stage), p->walk.m, type, &path->moves[i]) * shown,
                        .bytes = x.bytes,
                        .comm = x.kind,
                        .axes = x.axes});
  }
}

static Val price_convert(Walk *w, const WalkScope *s, Val value, Val v, const Layout *from, const Layout *to,
                         int stage) {
  Pricing *p = (Pricing *)w;
  Conversion path;
  const Type *type = type_of(s->f, value);
  double seconds = cost_convert(model_of(p, stage), type, from, to);
  held_want(&p->held, v);
  if (seconds == INFINITY) {
    PlanGap gap = {s->from ? p->f->ops.items[w->now].out : value, user_now(p, s), from, to};
    if (p->ngaps < MOST_GAPS) p->gaps[p->ngaps++] = gap;
  } else {
    const double shown = count_beside(p, s, value, from, to, seconds, stage);
    spend(p, stage, seconds * shown * runs_here(p, s), &p->sums[stage].collectives);
    issue(p, stage, seconds > 0 ? runs_here(p, s) : 0);
    if ((p->traffic || p->ledger) && cost_convert_path(p->c, type, from, to, &path))
      count_moves(p, s, value, &path, shown, stage);
  }
  Val made = held_make(&p->held, s, value, to, stage, true);
  held_born_early(&p->held, s, value, v, made);
  return made;
}

static Val price_agreement(Walk *w, const WalkScope *s, Val value, Val v, int stage) {
  Pricing *p = (Pricing *)w;
  Conversion path;
  if (!cost_agreement_path(p->c, type_of(s->f, value), &path)) return v;
  spend(p, stage, path.cost * runs_here(p, s), &p->sums[stage].collectives);
  count_moves(p, s, value, &path, 1, stage);
  return v;
}

static Val price_transfer(Walk *w, const WalkScope *s, Val value, Val v, const Layout *layout, int from, int to) {
  Pricing *p = (Pricing *)w;
  double bytes = cost_bytes(p->c, type_of(s->f, value), layout), seconds = cost_transfer(model_of(p, to), bytes);
  (void)from;
  held_want(&p->held, v);
  spend(p, to, seconds * runs_here(p, s), &p->sums[to].transfers);
  enter(p, s,
        (LedgerEntry){.kind = LEDGER_send,
                      .op = (size_t)s->f->values.items[value].op,
                      .stage = to,
                      .seconds = seconds,
                      .bytes = bytes,
                      .comm = COMM_send});
  issue(p, to, runs_here(p, s));
  count(p, s, COMM_send, bytes);
  Val made = held_make(&p->held, s, value, layout, to, true);
  held_born_early(&p->held, s, value, v, made);
  return made;
}

static Val price_exchange(Walk *w, const WalkScope *s, size_t index, int operand, const WalkWindow *window, Val v,
                          int stage) {
  Pricing *p = (Pricing *)w;
  CommSize x =
      cost_comm_of_window(p->c, s->f, &s->f->ops.items[index], s->rules[index], &s->strategies[index], operand, window);
  double seconds = cost_window(model_of(p, stage), s->f, &s->f->ops.items[index], s->rules[index],
                               &s->strategies[index], operand, window);
  spend(p, stage, seconds * runs_here(p, s), &p->sums[stage].collectives);
  count(p, s, x.kind, x.bytes);
  enter(p, s,
        (LedgerEntry){.kind = LEDGER_collective,
                      .op = index,
                      .stage = stage,
                      .seconds = seconds,
                      .bytes = x.bytes,
                      .comm = x.kind,
                      .axes = x.axes});
  return v;
}

/* True if no operation can join this one (Held.alone): a convolution with converted weights, or a reshape of a value
 * that is converted or cannot be joined itself. */
static bool stays_alone(const Pricing *p, const WalkScope *s, const Op *op, const Val *in) {
  const LegalJoin *join = cost_join(p->c, s->f, op);
  bool copied = cost_target(p->c)->device->blocks; /* the library call copies the weights */
  if (join->kind == JOIN_NONE && op->kind == OP_conv) return !copied && p->held.items[in[1] - 1].converted;
  const Held *x = join->kind == JOIN_VIEW ? &p->held.items[in[join->operand] - 1] : NULL;
  return x && (x->converted || x->alone);
}

/* True if the operation joins the maker of its operand, but the operand is converted or comes from another stage. */
static bool is_apart(const Pricing *p, const WalkScope *s, const Op *op, const Val *in) {
  const LegalJoin *join = cost_join(p->c, s->f, op);
  if (join_is_counted(join) && p->held.items[in[join->operand] - 1].alone) return true;
  return join_is_counted(join) && (p->held.items[in[join->operand] - 1].converted ||
                                   (join->kind == JOIN_BIAS && p->held.items[in[1 - join->operand] - 1].converted));
}

static Val price_operation(Walk *w, const WalkScope *s, size_t index, const Val *in, int stage) {
  Pricing *p = (Pricing *)w;
  const Op *op = &s->f->ops.items[index];
  StageCost *sum = &p->sums[stage];
  double runs = runs_here(p, s);
  bool alone = s->from || is_apart(p, s, op, in);
  CostModel *c = model_of(p, stage);
  OpCost cost = (alone ? cost_kernel : cost_joined)(c, s->f, op, s->rules[index], &s->strategies[index]);
  if (op->kind == OP_write) cost.seconds = cost_write(c, s->f, op, p->held.items[in[0] - 1].layout);
  for (int k = 0; k < op->nin && cost.rows; k++)
    if (p->held.items[in[k] - 1].converted)
      cost.seconds += cost_outside(c, s->f, op, s->rules[index], &s->strategies[index], k);
  spend(p, stage, cost.seconds * runs, cost.compute_bound ? &sum->compute : &sum->memory_bound);
  if (cost.rows) issue(p, stage, cost_part(p->c, s->f, op)->launches * runs);
  else issue(p, stage, cost.seconds > 0 && (alone || !cost_part(p->c, s->f, op)->follows) ? runs : 0);
  if (op->phase == PH_step && !cost.compute_bound) sum->optimizer += cost.seconds * runs;
  if (cost.rows) *(phase_each(w->phase) ? &sum->rows_each : &sum->rows_once) += cost.seconds * runs;
  sum->flops += cost.flops * runs * repeats(p);
  if (p->ledger)
    enter(p, s,
          (LedgerEntry){.kind = cost.compute_bound ? LEDGER_compute : LEDGER_memory_bound,
                        .op = index,
                        .stage = stage,
                        .seconds = cost.seconds,
                        .flops = cost.flops,
                        .bytes = cost_bytes_moved(c, s->f, op, s->rules[index], &s->strategies[index], alone)});
  if (s->from) return NOT_HELD;
  size_t kernel = op->out ? held_kernel_of(&p->held, op, in) : p->walk.now;
  held_use_operands(&p->held, index, kernel, in);
  if (op->kind == OP_write) held_write(&p->held, op, in[0]);
  if (op->kind == OP_leave) ARENA_PUSH(p->arena, &p->held.carried, ((Carried){in[0], in[1], index}));
  bool stays = stays_alone(p, s, op, in);
  Val first = op->out ? held_make(&p->held, s, op->out, walk_produced(w, s, index, 0), stage, false) : NOT_HELD;
  for (int i = 1; i < op->nout; i++)
    held_make(&p->held, s, op->out + (Val)i, walk_produced(w, s, index, i), stage, false);
  if (first != NOT_HELD) {
    p->held.items[first - 1].born = p->held.items[first - 1].dies = kernel;
    held_find_picture(&p->held, op, in, first);
  }
  if (stays) p->held.items[first - 1].alone = true;
  if (op->kind == OP_accumulate) p->ready[index] = sum->each;
  if (op->kind == OP_accumulate && p->repeat == 1)
    ARENA_PUSH(p->arena, &p->held.accumulated, ((Accumulated){in[0], first}));
  return first;
}

static void price_output(Walk *w, const WalkScope *s, const Output *o, Val v, const Layout *layout) {
  (void)s, (void)o, (void)layout;
  held_want(&((Pricing *)w)->held, v);
}

static Body *price_open(Walk *w, const WalkScope *s, const Op *composite) {
  return cost_body(((Pricing *)w)->c, s->f, composite);
}

static void price_enter(Walk *w, WalkScope *body, const Val *in) {
  if (!body->from->from)
    held_use_operands(&((Pricing *)w)->held, func_op_index(body->from->f, body->composite), SIZE_MAX, in);
}

static void price_leave(Walk *w, WalkScope *body, Body *known, Val *results) {
  const WalkScope *s = body->from;
  size_t index = func_op_index(s->f, body->composite);
  (void)known;
  for (int i = 0; i < body->composite->nout; i++)
    results[i] = held_make(&((Pricing *)w)->held, s, body->composite->out + (Val)i, walk_produced(w, s, index, i),
                           body->stage, false);
}

static const WalkSink price_sink = {.source = price_source,
                                    .convert = price_convert,
                                    .agree = price_agreement,
                                    .transfer = price_transfer,
                                    .exchange = price_exchange,
                                    .operation = price_operation,
                                    .output = price_output,
                                    .open = price_open,
                                    .enter = price_enter,
                                    .leave = price_leave};

bool cost_in_kernel(OpKind k) { return (op_is_elementwise(k) && k != OP_copy) || op_is_along(k) || k == OP_broadcast; }

int cost_memory_shares(const PlanMemory *m, MemoryShare out[MEMORY_SHARES]) {
  int n = 0;
  out[n++] = (MemoryShare){"weights", m->params + m->gathered};
  if (m->trains) out[n++] = (MemoryShare){"gradients", m->gradients};
  out[n++] = (MemoryShare){m->trains ? "optimizer" : "state", m->state};
  if (m->trains) out[n++] = (MemoryShare){"saved", m->saved};
  out[n++] = (MemoryShare){m->trains ? "transient" : "activations", m->activations};
  out[n++] = (MemoryShare){"communication", m->communication};
  return n;
}

/* True if the table of a schedule is built.  For very many calls it is too long; a formula for interleaved stages is
 * used instead. */
static bool has_table(const Pricing *p) {
  enum { MOST_CALLS = 1 << 17 };
  return p->in_turns && p->walk.m->mesh.stages * p->repeat <= MOST_CALLS;
}

static ScheduleWork *phases_of(Arena *a, const Mesh *mesh, const StageCost *sums) {
  ScheduleWork *work = ARENA_ARRAY(a, ScheduleWork, mesh->stages);
  for (int s = 0; s < mesh->stages; s++) {
    const double least = 1e-12; /* a stage may have nothing to do in a phase */
    const ScheduleWork *w = &sums[s].phases;
    work[s] = (ScheduleWork){fmax(w->fwd, least), fmax(w->bwd, least), fmax(w->wgt, least)};
  }
  return work;
}

static ScheduleTable table_of(const Pricing *p) {
  const Mesh *mesh = &p->walk.m->mesh;
  return schedule_table(p->arena, mesh, phases_of(p->arena, mesh, p->sums));
}

/* If the host takes longer to issue a phase than the device to run it, the device waits.  Without a pipeline the host
 * is ahead of all phases together. */
static void wait_for_host(Pricing *p, StageCost *s) {
  double issue = cost_target(p->c)->host, *phase[] = {&s->phases.fwd, &s->phases.bwd, &s->phases.wgt}, waits = 0;
  if (!(issue > 0)) return;
  for (int k = 0; k < 3; k++) {
    double more = issue * s->issued[PH_fwd + k] - *phase[k];
    if (p->in_turns) more = fmax(more, 0), *phase[k] += more;
    waits += more;
  }
  waits = fmax(waits, 0);
  s->each += waits, s->memory_bound += waits * p->repeat, s->waits += waits * p->repeat;
}

/* No more communication is hidden than there is computation to overlap with. */
static void wait_for_communication(const Pricing *p, StageCost *s) {
  double hidden = cost_target(p->c)->hidden, shown = s->collectives + s->transfers;
  double more = shown * hidden / (1 - hidden) - s->compute - s->memory_bound;
  if (more > 0) s->once += more, s->collectives += more;
}

static void wait_for_sums(Pricing *p, int stage) {
  StageCost *s = &p->sums[stage];
  const double more = beside_wait(&p->beside, stage);
  s->once += more, s->collectives += more;
}

/* The sums over all stages of each place. */
static StageCost *sums_by_place(const Pricing *p) {
  const Mesh *mesh = &p->walk.m->mesh;
  StageCost *places = ARENA_ARRAY(p->arena, StageCost, mesh_places(mesh));
  for (int s = 0; s < mesh->stages; s++) {
    StageCost *sum = &places[mesh_place_of(mesh, s)];
    const StageCost *x = &p->sums[s];
    sum->each += x->each, sum->once += x->once;
    sum->compute += x->compute, sum->memory_bound += x->memory_bound;
    sum->collectives += x->collectives, sum->transfers += x->transfers;
    sum->optimizer += x->optimizer, sum->waits += x->waits;
  }
  return places;
}

bool cost_needs_last_step(const Func *f) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_write) return true;
  return func_has_gradients(f);
}

static PlanTime pipeline_time(const Pricing *p, const ScheduleTable *table) {
  const StageCost *places = sums_by_place(p), *busiest = places;
  double sum = 0, before = 0, period = 0, busy = 0, communicating = 0;
  const int n = mesh_places(&p->walk.m->mesh);
  for (int i = 0; i < n; i++) {
    busy += (places[i].compute + places[i].memory_bound - places[i].waits) / n;
    communicating += (places[i].collectives + places[i].transfers) / n;
    sum += places[i].each;
    period = fmax(period, p->repeat * places[i].each + places[i].once);
    before = fmax(before, places[i].once);
    if (places[i].each > busiest->each) busiest = &places[i];
  }
  PlanTime t = {.total = before + sum + (p->repeat - 1) * busiest->each,
                .compute = busiest->compute,
                .memory_bound = busiest->memory_bound,
                .collectives = busiest->collectives,
                .transfers = busiest->transfers,
                .optimizer = busiest->optimizer,
                .busy = busy,
                .communicating = communicating};
  if (table) t.total = before + table->seconds;
  t.idle = fmax(0, t.total - p->repeat * busiest->each - busiest->once);
  const double request = cost_target(p->c)->request;
  t.total += request, t.transfers += request;
  t.period = cost_needs_last_step(p->f) ? t.total : fmin(period + request, t.total);
  return t;
}

/* The input of pricing. */
typedef struct Priced {
  CostModel *c;
  Module *m;
  const Func *f;
  const Rule *const *rules;
  const Strategy *strategies;
  const int *stages;
} Priced;

/* Walks the whole function; everything is in the arena.  `together`, `entry`: of a joint function; else NULL. */
static Pricing *walked(Arena *a, const Priced *x, StageCost *sums, PlanTraffic *traffic, PlanLedger *ledger,
                       EntriesKept *together, const JointEntry *entry) {
  Pricing *p = ARENA_NEW(a, Pricing);
  *p = (Pricing){.walk = {.m = x->m, .arena = a, .sink = &price_sink},
                 .arena = a,
                 .c = x->c,
                 .f = x->f,
                 .loops = cost_loops(a, x->c, x->f, NULL),
                 .same = weight_readers(a, x->f),
                 .kept = ARENA_ARRAY(a, KeptList, x->f->ops.n + 1),
                 .ready = ARENA_ARRAY(a, double, x->f->ops.n + 1),
                 .sums = sums,
                 .traffic = traffic,
                 .ledger = ledger,
                 .repeat = mesh_micro_batches(&x->m->mesh),
                 .together = together,
                 .entry = entry};
  WalkScope s = {.f = x->f,
                 .rules = x->rules,
                 .strategies = x->strategies,
                 .stages = x->stages,
                 .derived = derived_ops(a, x->f),
                 .once = once_ops(a, x->f),
                 .loops = &p->loops->loops,
                 .agreed = p->loops->agreed,
                 .loop = -1};
  p->of_convolutions = weights_of_convolutions(p);
  p->in_turns = schedule_in_turns(&x->m->mesh, x->f);
  p->held = (HeldList){&p->walk, a, x->c, x->f, p->loops, .repeat = p->repeat, .in_turns = p->in_turns};
  held_begin(&p->held);
  walk_function(&p->walk, &s);
  held_settle(&p->held);
  return p;
}

/* Records the schedule, and the memory of the place that needs the most. */
static void finish_ledger(const Pricing *p, HeldStages *by_stage, const ScheduleTable *table, double needs) {
  const Mesh *mesh = &p->walk.m->mesh;
  PlanLedger *l = p->ledger;
  l->work = phases_of(l->arena, mesh, p->sums), l->tabled = table != NULL;
  held_record(by_stage, l);
  for (int k = 0; k < mesh_places(mesh); k++) {
    PlanMemory mem = held_memory(&p->held, by_stage, p->sums, k, table);
    if (mem.total * kinds_memory_scale(cost_target(p->c), mesh, k) >= needs) return;
  }
}

/* Returns the price after the walk. */
static PlanPrice price_of(Pricing *p) {
  const Mesh *mesh = &p->walk.m->mesh;
  for (int i = 0; i < mesh->stages; i++)
    wait_for_host(p, &p->sums[i]), wait_for_communication(p, &p->sums[i]), wait_for_sums(p, i);
  ScheduleTable made;
  const ScheduleTable *table = has_table(p) ? (made = table_of(p), &made) : NULL;
  PlanPrice out = {.possible = p->ngaps == 0, .ngaps = p->ngaps, .time = pipeline_time(p, table)};
  memcpy(out.gaps, p->gaps, sizeof out.gaps);
  HeldStages *by_stage = held_by_stage(&p->held);
  for (int k = 0; k < mesh_places(mesh); k++) {
    PlanMemory mem = held_memory(&p->held, by_stage, p->sums, k, table);
    mem.needs = mem.total * kinds_memory_scale(cost_target(p->c), mesh, k);
    double flops = 0, params = 0;
    for (int stage = 0; stage < mesh->stages; stage++) {
      if (mesh_place_of(mesh, stage) != k) continue;
      flops += p->sums[stage].flops, params += p->sums[stage].params;
    }
    if (mem.needs > out.memory.needs) out.memory = mem;
    out.flops = fmax(out.flops, flops);
    out.param_bytes = fmax(out.param_bytes, params);
  }
  if (p->ledger) p->ledger->time = out.time, finish_ledger(p, by_stage, table, out.memory.needs);
  return out;
}

/* ---- joint functions (ir/joint.h): times add up by weight; one entry runs at a time, so memory is the largest */

/* Returns an entry's part of a choice. */
static Priced entry_of(Arena *a, const Priced *x, const JointEntry *e) {
  const size_t n = e->f->ops.n;
  const Rule **rules = ARENA_ARRAY(a, const Rule *, n + 1);
  Strategy *strategies = ARENA_ARRAY(a, Strategy, n + 1);
  int *stages = ARENA_ARRAY(a, int, n + 1);
  for (size_t i = 0; i < n; i++) {
    rules[i] = x->rules[e->at[i]], strategies[i] = x->strategies[e->at[i]];
    stages[i] = x->stages ? x->stages[e->at[i]] : 0;
  }
  return (Priced){x->c, x->m, e->f, rules, strategies, x->stages ? stages : NULL};
}

static void add_gaps(PlanPrice *sum, const PlanPrice *x, const Func *joint, int entry) {
  const JointEntry *e = &joint->joint->entries[entry];
  for (int i = 0; i < x->ngaps && sum->ngaps < MOST_GAPS; i++) {
    PlanGap gap = x->gaps[i];
    gap.value = joint_value(joint, entry, gap.value);
    gap.user = gap.user < e->f->ops.n ? e->at[gap.user] : joint->ops.n;
    sum->gaps[sum->ngaps++] = gap;
  }
}

static void add_time(PlanTime *sum, const PlanTime *x, double weight) {
  sum->total += weight * x->total, sum->idle += weight * x->idle;
  sum->compute += weight * x->compute, sum->memory_bound += weight * x->memory_bound;
  sum->collectives += weight * x->collectives, sum->transfers += weight * x->transfers;
  sum->optimizer += weight * x->optimizer;
  sum->busy += weight * x->busy, sum->communicating += weight * x->communicating;
  sum->period += weight * x->period;
}

static PlanPrice price_joint(const Priced *x, PlanPrice *each) {
  const Joint *joint = x->f->joint;
  const int stages = x->m->mesh.stages;
  Arena *a = arena_new();
  EntriesKept all = {.same = weight_readers(a, x->f),
                     .states = state_ops(a, x->f),
                     .kept = ARENA_ARRAY(a, KeptList, x->f->ops.n + 1),
                     .sums = ARENA_ARRAY(a, StageCost, stages)};
  Pricing **walks = ARENA_ARRAY(a, Pricing *, joint->n);
  for (int e = 0; e < joint->n; e++) {
    const Priced own = entry_of(a, x, &joint->entries[e]);
    walks[e] = walked(a, &own, ARENA_ARRAY(a, StageCost, stages), NULL, NULL, &all, &joint->entries[e]);
  }
  PlanPrice out = {.possible = true};
  for (int e = 0; e < joint->n; e++) {
    const double weight = joint->entries[e].weight;
    for (int s = 0; s < stages; s++)
      walks[e]->sums[s].params = all.sums[s].params, walks[e]->sums[s].state = all.sums[s].state;
    const PlanPrice own = price_of(walks[e]);
    out.possible &= own.possible;
    add_gaps(&out, &own, x->f, e);
    add_time(&out.time, &own.time, weight);
    if (own.memory.needs > out.memory.needs) out.memory = own.memory;
    out.flops += weight * own.flops;
    out.param_bytes = fmax(out.param_bytes, own.param_bytes);
    if (each) each[e] = own;
  }
  arena_free(a);
  return out;
}

void cost_plan_entries(CostModel *c, Module *m, const Func *joint, const Rule *const *rules, const Strategy *strategies,
                       const int *stages, PlanPrice *each) {
  price_joint(&(Priced){c, m, joint, rules, strategies, stages}, each);
}

PlanPrice cost_plan_stages(CostModel *c, Module *m, const Func *f, const Rule *const *rules, const Strategy *strategies,
                           const int *stages, StageCost *sums, PlanTraffic *traffic) {
  const Priced x = {c, m, f, rules, strategies, stages};
  if (f->joint) return price_joint(&x, NULL);
  Arena *a = arena_new();
  if (!sums) sums = ARENA_ARRAY(a, StageCost, m->mesh.stages);
  const PlanPrice out = price_of(walked(a, &x, sums, traffic, NULL, NULL, NULL));
  arena_free(a);
  return out;
}

PlanLedger cost_plan_ledger(Arena *a, CostModel *c, Module *m, const Func *f, const Rule *const *rules,
                            const Strategy *strategies, const int *stages) {
  const Priced x = {c, m, f, rules, strategies, stages};
  PlanLedger ledger = {.arena = a, .sums = ARENA_ARRAY(a, StageCost, m->mesh.stages)};
  price_of(walked(a, &x, ledger.sums, NULL, &ledger, NULL, NULL));
  return ledger;
}

PlanPrice cost_plan(CostModel *c, Module *m, const Func *f, const Rule *const *rules, const Strategy *strategies,
                    const int *stages) {
  return cost_plan_stages(c, m, f, rules, strategies, stages, NULL, NULL);
}

const ScheduleWork *cost_plan_phases(Arena *a, CostModel *c, Module *m, const Func *f, const Rule *const *rules,
                                     const Strategy *strategies, const int *stages) {
  StageCost *sums = ARENA_ARRAY(a, StageCost, m->mesh.stages);
  cost_plan_stages(c, m, f, rules, strategies, stages, sums, NULL);
  return phases_of(a, &m->mesh, sums);
}

double cost_plan_flops(CostModel *c, Module *m, const Func *f, const Rule *const *rules) {
  double sum = 0;
  Arena *scratch = arena_new();
  const LoopCosts *loops = cost_loops(scratch, c, f, NULL);
  (void)m;
  for (size_t i = 0; i < f->ops.n; i++) sum += cost_op_runs(c, loops, f, i, rules[i], &(Strategy){0}).flops;
  arena_free(scratch);
  return sum;
}

double cost_plan_params(const Module *m, const Func *f) {
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
