/* passes/cost/plan_price.c - see plan_price.h. */
#include "passes/cost/plan_price.h"

#include <math.h>
#include <string.h>

#include "ir/legal_dot.h"
#include "passes/cost/loops.h"
#include "passes/facts/zero.h"
#include "passes/facts/derived.h"
#include "passes/facts/same_weight.h"

/* What a version is, for who adds up bytes by class. */
typedef enum HeldClass { HELD_MADE, HELD_CONVERTED, HELD_GATHERED, HELD_GRADIENT, HELD_SAVED, HELD_CLASSES } HeldClass;

/* Where a version is. */
typedef enum Shown {
  SHOWN_STORED,  /* in memory of its own */
  SHOWN_VIEW,    /* in that of another one */
  SHOWN_PICTURE, /* nowhere: who reads it computes it */
} Shown;

/* A version in memory. */
typedef struct Held {
  Val value;
  const Layout *layout;
  int stage;
  size_t born, dies; /* operations */
  bool converted;
  bool in_place; /* it lies where another value lay */
  bool gradient; /* it is what is accumulated */
  Phase phase;   /* when it is made */
  bool kept;     /* it is, and some are to read it: from the beginning to the end */
  bool alone;    /* what would join it does not: a convolution that is none of the library, or behind a conversion */
  bool wanted;   /* something that is no kernel of ours reads it */
  Shown shown;
  Val of; /* what it is a view or a picture of; 0: of nothing */
} Held;

/* What the walk gets for versions inside decompositions, and numbers behind it for further results: their memory is not
 * counted. */
enum { NOT_HELD = INT32_MAX };

/* A copy of a weight that is in memory. */
typedef struct Kept {
  const Layout *layout;
  int stage;
} Kept;

typedef struct KeptList {
  Kept *items;
  size_t n, cap;
} KeptList;

/* Without micro-batches what is accumulated is what adds up to it. */
typedef struct Accumulated {
  Val part, sum;
} Accumulated;

/* A carry and the value that becomes it. */
typedef struct Carried {
  Val carry, next;
  size_t leave;
} Carried;

typedef struct Pricing {
  Walk walk; /* first: its address is that of the pricing */
  Arena *arena;
  CostModel *c;
  const Func *f;
  const LoopCosts *loops;
  struct {
    Held *items;
    size_t n, cap;
  } held; /* version v is items[v - 1] */
  struct {
    Carried *items;
    size_t n, cap;
  } carried;
  struct {
    Accumulated *items;
    size_t n, cap;
  } accumulated;
  bool trains;
  const bool *of_weights; /* by operation: trained weights, and what is moved or cast of them */
  size_t first_gradient;  /* the first operation that makes gradients; Func.ops.n: none does */
  SameWeight same;
  KeptList *kept; /* by operation: the first that reads the weight */
  bool *of_convolutions;
  size_t states;        /* that have been counted */
  StageCost *sums;      /* by stage */
  PlanTraffic *traffic; /* by kind; NULL: nobody asks */
  double repeat;        /* micro-batches */
  bool in_turns;        /* a pipeline trains several (codegen/program_bodies.c) */
  int ngaps;
  PlanGap gaps[MOST_GAPS]; /* the first conversions that do not exist */
} Pricing;

/* How often what the walk tells of now is done. */
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

/* The host issues so many kernels or messages. */
static void issue(Pricing *p, int stage, double n) {
  if (phase_each(p->walk.phase)) p->sums[stage].issued[p->walk.phase] += n;
}

static size_t index_in(const Func *f, const Op *op) { return (size_t)(op - f->ops.items); }

static const WalkScope *outermost(const WalkScope *s) {
  while (s->from) s = s->from;
  return s;
}

/* How often what is made now is made. */
static double runs_here(const Pricing *p, const WalkScope *s) { return runs_in_loop(p->loops, outermost(s)->loop); }

static void count(Pricing *p, const WalkScope *s, CommKind kind, double bytes) {
  if (!p->traffic) return;
  p->traffic[kind].messages += runs_here(p, s) * repeats(p);
  p->traffic[kind].bytes += runs_here(p, s) * repeats(p) * bytes;
}

/* ---- memory of versions */

/* Made now. */
static Val hold(Pricing *p, const WalkScope *s, Val value, const Layout *layout, int stage, bool converted) {
  if (s->from) return NOT_HELD;
  ARENA_PUSH(p->arena, &p->held,
             ((Held){.value = value,
                     .layout = layout,
                     .stage = stage,
                     .born = p->walk.now,
                     .dies = p->walk.now,
                     .converted = converted,
                     .phase = p->walk.phase}));
  return (Val)p->held.n;
}

bool cost_in_kernel(OpKind k) { return (op_is_elementwise(k) && k != OP_copy) || op_is_along(k) || k == OP_broadcast; }

/* Constants, what is spread of something in memory, and other dimensions of it take no memory of their own. */
static void find_picture(Pricing *p, const Op *op, const Val *in, Val made) {
  if (made == NOT_HELD) return;
  Held *x = &p->held.items[made - 1];
  const Held *from = op->nin && in[0] != NOT_HELD ? &p->held.items[in[0] - 1] : NULL;
  const Type *type = type_of(p->f, op->out), *of = from ? type_of(p->f, op->in[0]) : NULL;
  OpKind maker = from ? op_of(p->f, from->value)->kind : op->kind;
  bool computed =
      from && !from->converted && from->shown == SHOWN_STORED && (cost_in_kernel(maker) || maker == OP_reshape);
  bool spread = from && op->kind == OP_broadcast && (!computed || !op_spreads_rows(op, of, type));
  if (op_is_constant(op->kind) || spread) x->shown = SHOWN_PICTURE;
  else if (from && op->kind == OP_reshape && !(computed && type_same_but_for_ones(of, type))) x->shown = SHOWN_VIEW;
  if (x->shown != SHOWN_STORED && from) x->of = in[0];
}

/* It is read by something that wants it in memory. */
static void want_stored(const Pricing *p, Val v) {
  while (v && v < NOT_HELD && p->held.items[v - 1].shown == SHOWN_VIEW) v = p->held.items[v - 1].of;
  if (v && v < NOT_HELD) p->held.items[v - 1].shown = SHOWN_STORED, p->held.items[v - 1].wanted = true;
}

/* It is read in the kernel that makes it alone. */
static bool stays_inside(const Pricing *p, const Held *x) {
  return !x->wanted && !x->kept && !x->converted && x->born == x->dies && cost_in_kernel(op_of(p->f, x->value)->kind);
}

/* Where communication beside computation is asked for, what it fills is live from there: behind what makes `from`
 * (codegen/rows/row_work.c). */
static void born_early(Pricing *p, const WalkScope *s, Val value, Val from, Val made) {
  if (!cost_target(p->c)->device->asynchronous || from == NOT_HELD || made == NOT_HELD) return;
  const Held *x = &p->held.items[from - 1];
  bool source = op_is_source(op_of(p->f, x->value)->kind) && !x->converted;
  bool inside = cost_loop_of_value(&p->loops->loops, p->f, value) == outermost(s)->loop;
  if (!source && inside) p->held.items[made - 1].born = x->born;
}

static Phase body_phase(const Pricing *p, Phase phase) { return schedule_body(&p->walk.m->mesh, p->in_turns, phase); }

static void live_until(Pricing *p, Val v, size_t op) {
  for (; v && v < NOT_HELD; v = p->held.items[v - 1].of) {
    Held *x = &p->held.items[v - 1];
    if (op > x->dies) x->dies = op;
    x->kept |= body_phase(p, x->phase) != body_phase(p, p->walk.phase);
  }
}

/* Where an operation reads a value from outside of its loop, that stays to the loop's end. */
static size_t last_round(const Pricing *p, Val value, size_t op) {
  const Loops *l = &p->loops->loops;
  int entered = loops_entered(l, loops_reads_in(l, p->f, op), cost_loop_of_value(l, p->f, value));
  return entered < 0 ? op : l->items[entered].end - 1;
}

/* An initial value that nobody else reads gives its place to the carry, a carry its own to the leave (settle).  What is
 * made once more, for another stage or for gradients, reads its operands now, and so does what accumulates a part of a
 * late sum (passes/lower/walk_sums.c). */
static void use_operands(Pricing *p, size_t index, size_t kernel, const Val *in) {
  const Op *op = &p->f->ops.items[index];
  if (index < p->walk.now || op->kind == OP_accumulate) index = p->walk.now;
  if (kernel < index) index = kernel;
  for (int i = op->kind == OP_leave; i < op->nin; i++) {
    live_until(p, in[i], last_round(p, op->in[i], op->kind == OP_carry ? index - 1 : index));
    if (!cost_in_kernel(op->kind)) want_stored(p, in[i]);
  }
}

/* Where an operation is done: what is elementwise is part of the kernel that makes the last of what it reads, if
 * kernels make all of it and it is of the same size.  So what gradients need of the forward pass alone may be made
 * there; what is made again for gradients is not. */
static size_t kernel_of(const Pricing *p, const Op *op, const Val *in) {
  size_t last = 0;
  bool any = false;
  if (p->walk.again || !op_is_elementwise(op->kind) || op->kind == OP_copy) return p->walk.now;
  for (int i = 0; i < op->nin; i++) {
    if (in[i] == NOT_HELD) return p->walk.now;
    const Held *x = &p->held.items[in[i] - 1];
    if (x->shown == SHOWN_PICTURE) continue;
    bool kernel = x->shown == SHOWN_STORED && !x->converted && cost_in_kernel(op_of(p->f, x->value)->kind) &&
                  type_of(p->f, x->value)->rank == type_of(p->f, op->out)->rank;
    bool here =
        body_phase(p, x->phase) == body_phase(p, p->walk.phase) &&
        cost_loop_of_value(&p->loops->loops, p->f, x->value) == cost_loop_of_value(&p->loops->loops, p->f, op->out);
    if (!kernel || !here) return p->walk.now;
    last = x->born > last ? x->born : last, any = true;
  }
  return any ? last : p->walk.now;
}

/* A carry stays to the end of the body, and its next value is made in its place when nobody reads the carry any
 * more. */
static void settle(Pricing *p, const Carried *x) {
  Held *carry = &p->held.items[x->carry - 1], *next = &p->held.items[x->next - 1];
  next->in_place |= op_of(p->f, next->value)->kind != OP_carry && next->born > carry->born &&
                    next->born >= carry->dies && next->dies == x->leave;
  live_until(p, x->carry, x->leave - 1);
}

/* By operation, as `kept`: convolutions read it, for which a library wants room (codegen/program.c). */
static bool *weights_of_convolutions(const Pricing *p) {
  bool *of = ARENA_ARRAY(p->arena, bool, p->f->ops.n + 1);
  for (size_t i = 0; i < p->f->ops.n; i++) {
    const Op *op = &p->f->ops.items[i];
    if (op->kind != OP_conv || !cost_target(p->c)->device->blocks) continue;
    const Op *weights = op_of(p->f, op->in[1]);
    if (weights->kind == OP_param) of[p->same.first[index_in(p->f, weights)]] = true;
  }
  return of;
}

/* Reads of one weight in one layout are one copy. */
static void keep_weight(Pricing *p, Val value, const Layout *layout, int stage) {
  size_t first = p->same.first[p->f->values.items[value].op];
  KeptList *kept = &p->kept[first];
  for (size_t i = 0; i < kept->n; i++)
    if (kept->items[i].layout == layout && kept->items[i].stage == stage) return;
  ARENA_PUSH(p->arena, kept, ((Kept){layout, stage}));
  double bytes = cost_bytes(p->c, type_of(p->f, value), layout);
  p->sums[stage].params += p->of_convolutions[first] ? bytes + bytes / LEGAL_CONV_ROOM : bytes;
}

/* ---- what the walk says */

static Val price_source(Walk *w, const WalkScope *s, const Op *op, const Layout *layout, int stage, bool declares) {
  Pricing *p = (Pricing *)w;
  Val value = declares ? op->in[0] : op->out;
  if (op->kind == OP_param) keep_weight(p, value, layout, stage);
  if (w->states.n > p->states) {
    bool trained = !declares && zero_is_storage(w->m, op);
    double *kept = trained ? &p->sums[stage].params : &p->sums[stage].state;
    *kept += cost_bytes(p->c, type_of(s->f, value), layout);
  }
  p->states = w->states.n;
  if (declares) return NOT_HELD;
  Val made = hold(p, s, value, layout, stage, false);
  find_picture(p, op, NULL, made);
  return made;
}

/* The operation of the function that wants something now. */
static size_t user_now(const Pricing *p, const WalkScope *s) {
  return s->from || p->walk.now == p->f->ops.n ? p->walk.now : (size_t)(p->walk.reader - p->f->ops.items);
}

static void count_moves(Pricing *p, const WalkScope *s, Val value, const Conversion *path) {
  CommSize x;
  for (int i = 0; i < path->n; i++)
    if (cost_comm_of_move(p->c, type_of(s->f, value), &path->moves[i], &x)) count(p, s, x.kind, x.bytes);
}

static Val price_convert(Walk *w, const WalkScope *s, Val value, Val v, const Layout *from, const Layout *to,
                         int stage) {
  Pricing *p = (Pricing *)w;
  Conversion path;
  const Type *type = type_of(s->f, value);
  double seconds = cost_convert(p->c, type, from, to);
  live_until(p, v, w->now), want_stored(p, v);
  if (seconds == INFINITY) {
    PlanGap gap = {s->from ? p->f->ops.items[w->now].out : value, user_now(p, s), from, to};
    if (p->ngaps < MOST_GAPS) p->gaps[p->ngaps++] = gap;
  } else {
    spend(p, stage, seconds * runs_here(p, s), &p->sums[stage].collectives);
    issue(p, stage, seconds > 0 ? runs_here(p, s) : 0);
    if (p->traffic && cost_convert_path(p->c, type, from, to, &path)) count_moves(p, s, value, &path);
  }
  Val made = hold(p, s, value, to, stage, true);
  born_early(p, s, value, v, made);
  return made;
}

static Val price_agreement(Walk *w, const WalkScope *s, Val value, Val v, int stage) {
  Pricing *p = (Pricing *)w;
  Conversion path;
  if (!cost_agreement_path(p->c, type_of(s->f, value), &path)) return v;
  spend(p, stage, path.cost * runs_here(p, s), &p->sums[stage].collectives);
  count_moves(p, s, value, &path);
  return v;
}

static Val price_transfer(Walk *w, const WalkScope *s, Val value, Val v, const Layout *layout, int from, int to) {
  Pricing *p = (Pricing *)w;
  double bytes = cost_bytes(p->c, type_of(s->f, value), layout);
  (void)from;
  live_until(p, v, w->now), want_stored(p, v);
  spend(p, to, cost_transfer(p->c, bytes) * runs_here(p, s), &p->sums[to].transfers);
  issue(p, to, runs_here(p, s));
  count(p, s, COMM_send, bytes);
  Val made = hold(p, s, value, layout, to, true);
  born_early(p, s, value, v, made);
  return made;
}

static Val price_exchange(Walk *w, const WalkScope *s, size_t index, int operand, const WalkWindow *window, Val v,
                          int stage) {
  Pricing *p = (Pricing *)w;
  CommSize x =
      cost_comm_of_window(p->c, s->f, &s->f->ops.items[index], s->rules[index], &s->strategies[index], operand, window);
  double seconds =
      cost_window(p->c, s->f, &s->f->ops.items[index], s->rules[index], &s->strategies[index], operand, window);
  spend(p, stage, seconds * runs_here(p, s), &p->sums[stage].collectives);
  count(p, s, x.kind, x.bytes);
  return v;
}

/* The same for what joins it, which is known of a convolution by its weights, of a reshape by its operand. */
static bool stays_alone(const Pricing *p, const WalkScope *s, const Op *op, const Val *in) {
  const LegalJoin *join = cost_join(p->c, s->f, op);
  bool copied = cost_target(p->c)->device->blocks; /* weights, in the call */
  if (join->kind == JOIN_NONE && op->kind == OP_conv) return !copied && p->held.items[in[1] - 1].converted;
  const Held *x = join->kind == JOIN_VIEW ? &p->held.items[in[join->operand] - 1] : NULL;
  return x && (x->converted || x->alone);
}

/* Does it join what makes its operand, but gets that converted or from another stage? */
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
  OpCost cost = (alone ? cost_kernel : cost_joined)(p->c, s->f, op, s->rules[index], &s->strategies[index]);
  if (op->kind == OP_write) cost.seconds = cost_write(p->c, type_of(s->f, op->in[0]), p->held.items[in[0] - 1].layout);
  for (int k = 0; k < op->nin && cost.rows; k++)
    if (p->held.items[in[k] - 1].converted)
      cost.seconds += cost_outside(p->c, s->f, op, s->rules[index], &s->strategies[index], k);
  spend(p, stage, cost.seconds * runs, cost.compute_bound ? &sum->compute : &sum->memory_bound);
  if (cost.rows) issue(p, stage, cost_part(p->c, s->f, op)->launches * runs);
  else issue(p, stage, cost.seconds > 0 ? runs : 0);
  if (op->phase == PH_step && !cost.compute_bound) sum->optimizer += cost.seconds * runs;
  if (cost.rows) *(phase_each(w->phase) ? &sum->rows_each : &sum->rows_once) += cost.seconds * runs;
  sum->flops += cost.flops * runs * repeats(p);
  if (s->from) return NOT_HELD;
  size_t kernel = op->out ? kernel_of(p, op, in) : p->walk.now;
  use_operands(p, index, kernel, in);
  if (op->kind == OP_leave) ARENA_PUSH(p->arena, &p->carried, ((Carried){in[0], in[1], index}));
  bool stays = stays_alone(p, s, op, in);
  Val first = op->out ? hold(p, s, op->out, walk_produced(w, s, index, 0), stage, false) : NOT_HELD;
  for (int i = 1; i < op->nout; i++) hold(p, s, op->out + (Val)i, walk_produced(w, s, index, i), stage, false);
  if (first != NOT_HELD) {
    p->held.items[first - 1].born = p->held.items[first - 1].dies = kernel;
    find_picture(p, op, in, first);
  }
  if (stays) p->held.items[first - 1].alone = true;
  if (op->kind == OP_accumulate && p->repeat == 1) ARENA_PUSH(p->arena, &p->accumulated, ((Accumulated){in[0], first}));
  return first;
}

static void price_output(Walk *w, const WalkScope *s, const Output *o, Val v, const Layout *layout) {
  (void)s, (void)o, (void)layout;
  live_until((Pricing *)w, v, w->now), want_stored((Pricing *)w, v);
}

static Body *price_open(Walk *w, const WalkScope *s, const Op *composite) {
  return cost_body(((Pricing *)w)->c, s->f, composite);
}

static void price_enter(Walk *w, WalkScope *body, const Val *in) {
  if (!body->from->from) use_operands((Pricing *)w, index_in(body->from->f, body->composite), SIZE_MAX, in);
}

static void price_leave(Walk *w, WalkScope *body, Body *known, Val *results) {
  const WalkScope *s = body->from;
  size_t index = index_in(s->f, body->composite);
  (void)known;
  for (int i = 0; i < body->composite->nout; i++)
    results[i] =
        hold((Pricing *)w, s, body->composite->out + (Val)i, walk_produced(w, s, index, i), body->stage, false);
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

/* ---- memory: weights and state stay, everything else lives from its birth to its last use */

static void find_training(Pricing *p, Module *m) {
  size_t n = p->f->ops.n;
  p->first_gradient = n;
  for (size_t i = n; i-- > 0;) {
    const Op *op = &p->f->ops.items[i];
    if (op_makes_gradients(op)) p->first_gradient = i;
    p->trains |= op->kind == OP_accumulate && op->phase == PH_wgt;
  }
  if (p->trains) p->of_weights = zero_forms(p->arena, m, p->f);
}

static void settle_accumulated(Pricing *p, const Accumulated *x) {
  Val v = x->part;
  while (v < NOT_HELD && p->held.items[v - 1].shown == SHOWN_VIEW) v = p->held.items[v - 1].of;
  if (v >= NOT_HELD) return;
  Held *part = &p->held.items[v - 1], *sum = &p->held.items[x->sum - 1];
  part->gradient = sum->in_place = true;
  if (sum->dies > part->dies) part->dies = sum->dies;
}

static HeldClass class_of(const Pricing *p, const Held *x) {
  const Op *op = op_of(p->f, x->value);
  HeldClass plain = x->converted ? HELD_CONVERTED : HELD_MADE;
  if (!p->trains) return plain;
  if (p->of_weights[index_in(p->f, op)]) return HELD_GATHERED;
  if (x->gradient || op->kind == OP_accumulate) return HELD_GRADIENT;
  bool saved = (!x->kept || (p->in_turns && x->phase == PH_fwd)) && op->kind != OP_input &&
               x->born < p->first_gradient && x->dies >= p->first_gradient;
  return saved ? HELD_SAVED : plain;
}

static double sum_of(const double *classes) {
  double sum = 0;
  for (int k = 0; k < HELD_CLASSES; k++) sum += classes[k];
  return sum;
}

/* What is held on each stage, and how it changes at each operation: room for one stage after the other. */
typedef struct HeldStages {
  size_t *starts, *items;       /* of stage s: held.items[items[starts[s] .. starts[s + 1])] */
  size_t n;                     /* places: before and at each operation, and behind */
  double *change[HELD_CLASSES]; /* by place; nothing but 0 */
  bool *touched;                /* by place: something changes */
} HeldStages;

static HeldStages stages_of_held(const Pricing *p) {
  int stages = p->walk.m->mesh.stages;
  HeldStages h = {.n = p->f->ops.n + 2};
  h.starts = ARENA_ARRAY(p->arena, size_t, stages + 2);
  h.items = ARENA_ARRAY(p->arena, size_t, p->held.n + 1);
  for (size_t i = 0; i < p->held.n; i++) h.starts[p->held.items[i].stage + 2]++;
  for (int s = 0; s < stages; s++) h.starts[s + 2] += h.starts[s + 1];
  for (size_t i = 0; i < p->held.n; i++) h.items[h.starts[p->held.items[i].stage + 1]++] = i;
  for (int k = 0; k < HELD_CLASSES; k++) h.change[k] = ARENA_ARRAY(p->arena, double, h.n);
  h.touched = ARENA_ARRAY(p->arena, bool, h.n);
  return h;
}

/* What lives on a stage changes where it is born, and behind where it dies. */
static void find_changes(const Pricing *p, HeldStages *h, int stage, int live) {
  for (size_t i = h->starts[stage]; i < h->starts[stage + 1]; i++) {
    const Held *x = &p->held.items[h->items[i]];
    bool resident = !x->converted && op_is_resident(op_of(p->f, x->value)->kind);
    if (x->in_place || x->shown != SHOWN_STORED || stays_inside(p, x) || resident) continue;
    double bytes = cost_bytes(p->c, type_of(p->f, x->value), x->layout);
    if (x->kept && p->in_turns && phase_each(x->phase) && op_of(p->f, x->value)->kind != OP_accumulate) bytes *= live;
    HeldClass k = class_of(p, x);
    size_t from = x->kept ? 0 : x->born, to = x->kept ? h->n - 1 : x->dies + 1;
    h->change[k][from] += bytes, h->touched[from] = true;
    h->change[k][to] -= bytes, h->touched[to] = true;
  }
}

static PlanMemory stage_memory(const Pricing *p, HeldStages *h, int stage, const ScheduleTable *table) {
  double now[HELD_CLASSES] = {0}, most[HELD_CLASSES] = {0};
  const Mesh *mesh = &p->walk.m->mesh;
  int live = table ? schedule_most_live(table, stage) : mesh_micro_batches(mesh);
  if (!table && live > mesh->stages) live = mesh->stages;
  find_changes(p, h, stage, live);
  for (size_t i = 0; i < h->n; i++) {
    if (!h->touched[i]) continue;
    h->touched[i] = false;
    for (int k = 0; k < HELD_CLASSES; k++) now[k] += h->change[k][i], h->change[k][i] = 0;
    if (sum_of(now) > sum_of(most)) memcpy(most, now, sizeof most);
  }
  PlanMemory m = {.params = p->sums[stage].params,
                  .state = p->sums[stage].state,
                  .activations = most[HELD_MADE],
                  .communication = most[HELD_CONVERTED],
                  .trains = p->trains,
                  .gathered = most[HELD_GATHERED],
                  .gradients = most[HELD_GRADIENT],
                  .saved = most[HELD_SAVED]};
  m.total = m.params + m.state + cost_memory_made(&m);
  return m;
}

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

/* Several stages are on one place. */
static void add_memory(PlanMemory *sum, PlanMemory m) {
  sum->total += m.total, sum->params += m.params, sum->state += m.state;
  sum->activations += m.activations, sum->communication += m.communication;
  sum->gathered += m.gathered, sum->gradients += m.gradients, sum->saved += m.saved;
  sum->trains |= m.trains;
}

/* Whether the table of a schedule is made: for very many calls it is too long, and the rule of thumb for stages that
 * take turns does. */
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

/* Where the host takes longer to issue what a phase does than the device to do it, the device waits.  Without a
 * pipeline the host is ahead of all phases together. */
static void wait_for_host(Pricing *p, StageCost *s) {
  double issue = cost_target(p->c)->host, *phase[] = {&s->phases.fwd, &s->phases.bwd, &s->phases.wgt}, waits = 0;
  if (!(issue > 0)) return;
  for (int k = 0; k < 3; k++) {
    double more = issue * s->issued[PH_fwd + k] - *phase[k];
    if (p->in_turns) more = fmax(more, 0), *phase[k] += more;
    waits += more;
  }
  waits = fmax(waits, 0);
  s->each += waits, s->memory_bound += waits * p->repeat;
}

/* No more communication hides than there is beside it. */
static void wait_for_communication(const Pricing *p, StageCost *s) {
  double hidden = cost_target(p->c)->hidden, shown = s->collectives + s->transfers;
  double more = shown * hidden / (1 - hidden) - s->compute - s->memory_bound;
  if (more > 0) s->once += more, s->collectives += more;
}

/* What all stages of a place add up to. */
static StageCost *sums_by_place(const Pricing *p) {
  const Mesh *mesh = &p->walk.m->mesh;
  StageCost *places = ARENA_ARRAY(p->arena, StageCost, mesh_places(mesh));
  for (int s = 0; s < mesh->stages; s++) {
    StageCost *sum = &places[mesh_place_of(mesh, s)];
    const StageCost *x = &p->sums[s];
    sum->each += x->each, sum->once += x->once;
    sum->compute += x->compute, sum->memory_bound += x->memory_bound;
    sum->collectives += x->collectives, sum->transfers += x->transfers;
    sum->optimizer += x->optimizer;
  }
  return places;
}

static PlanTime pipeline_time(const Pricing *p, const ScheduleTable *table) {
  const StageCost *places = sums_by_place(p), *busiest = places;
  double sum = 0, before = 0;
  for (int i = 0; i < mesh_places(&p->walk.m->mesh); i++) {
    sum += places[i].each;
    before = fmax(before, places[i].once);
    if (places[i].each > busiest->each) busiest = &places[i];
  }
  PlanTime t = {.total = before + sum + (p->repeat - 1) * busiest->each,
                .compute = busiest->compute,
                .memory_bound = busiest->memory_bound,
                .collectives = busiest->collectives,
                .transfers = busiest->transfers,
                .optimizer = busiest->optimizer};
  if (table) t.total = before + table->seconds;
  t.idle = fmax(0, t.total - p->repeat * busiest->each - busiest->once);
  return t;
}

PlanPrice cost_plan_stages(CostModel *c, Module *m, const Func *f, const Rule *const *rules, const Strategy *strategies,
                           const int *stages, StageCost *sums, PlanTraffic *traffic) {
  Arena *a = arena_new();
  Pricing p = {.walk = {.m = m, .arena = a, .sink = &price_sink},
               .arena = a,
               .c = c,
               .f = f,
               .loops = cost_loops(a, c, f, NULL),
               .same = weight_readers(a, f),
               .kept = ARENA_ARRAY(a, KeptList, f->ops.n + 1),
               .sums = sums ? sums : ARENA_ARRAY(a, StageCost, m->mesh.stages),
               .traffic = traffic,
               .repeat = mesh_micro_batches(&m->mesh)};
  WalkScope s = {.f = f,
                 .rules = rules,
                 .strategies = strategies,
                 .stages = stages,
                 .derived = derived_ops(a, f),
                 .once = once_ops(a, f),
                 .loops = &p.loops->loops,
                 .agreed = p.loops->agreed,
                 .loop = -1};
  p.of_convolutions = weights_of_convolutions(&p);
  p.in_turns = schedule_in_turns(&m->mesh, f);
  find_training(&p, m);
  walk_function(&p.walk, &s);
  for (size_t i = 0; i < p.carried.n; i++) settle(&p, &p.carried.items[i]);
  for (size_t i = 0; i < p.accumulated.n; i++) settle_accumulated(&p, &p.accumulated.items[i]);
  for (int i = 0; i < m->mesh.stages; i++) wait_for_host(&p, &p.sums[i]), wait_for_communication(&p, &p.sums[i]);
  ScheduleTable made;
  const ScheduleTable *table = has_table(&p) ? (made = table_of(&p), &made) : NULL;
  PlanPrice out = {.possible = p.ngaps == 0, .ngaps = p.ngaps, .time = pipeline_time(&p, table)};
  memcpy(out.gaps, p.gaps, sizeof out.gaps);
  HeldStages held = stages_of_held(&p);
  for (int k = 0; k < mesh_places(&m->mesh); k++) {
    PlanMemory mem = {0};
    double flops = 0, params = 0;
    for (int stage = 0; stage < m->mesh.stages; stage++) {
      if (mesh_place_of(&m->mesh, stage) != k) continue;
      add_memory(&mem, stage_memory(&p, &held, stage, table));
      flops += p.sums[stage].flops, params += p.sums[stage].params;
    }
    if (mem.total > out.memory.total) out.memory = mem;
    out.flops = fmax(out.flops, flops);
    out.param_bytes = fmax(out.param_bytes, params);
  }
  arena_free(a);
  return out;
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
