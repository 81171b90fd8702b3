/* passes/plan/stage.c - cuts pipelines into stages by dynamic programming over cut positions; see stage.h.
 *
 * A stage is a run of operations.  It pays by the rules of the walk (passes/lower/walk.h): for its operations, for each
 * conversion they want once, for values derived from constants once, and for each value sent to it once; this depends
 * only on the run.  If the walk converts before it sends, the receiving stage pays here.  The result is exact for the
 * positions considered (partition.h); their number is bounded, and positions that few values cross come first.
 *
 * In a training step the forward pass is cut; gradients and updates are paid for with the operation that they are
 * placed with (home.h).  Gradients come from later stages, so a run also pays for values that it wants from operations
 * after its end.
 */
#include "passes/plan/stage.h"

#include "ir/schedule.h"
#include "ir/states.h"
#include "passes/cost/loops.h"
#include "passes/cost/ranks.h"
#include "passes/lower/walk.h"
#include "passes/facts/same_weight.h"

#include <math.h>
#include <string.h>

#include "passes/plan/even.h"
#include "passes/plan/positions.h"
#include "solver/partition.h"

/* A cost that a stage pays once: a value in a layout, or a weight. */
typedef struct Need {
  int id, sent; /* of (value, layout), and of the value in the layout in which it is sent */
  size_t made;  /* operation that makes the value; for a state the first that reads it */
  WalkSupply supply;
  double convert, transfer, once; /* once: the part of `convert` that runs once a step */
  size_t reader;                  /* the operation that wants it; `apart`: its additional time if the value is sent */
  double apart, outside;          /* outside: the same for a kernel that otherwise makes it (cost_outside) */
  int weight;                     /* id of the weight, -1 if none */
  double weight_bytes;
} Need;

typedef struct Needs {
  Need *items;
  size_t n, cap;
} Needs;

typedef struct Cutting {
  Arena *arena;
  CostModel *c;
  Module *m;
  const Func *f;
  const Rule *const *rules;
  const Strategy *strategies;
  const LoopCosts *loops;
  CutFacts facts;
  Needs *needs;           /* by operation */
  double *own, *own_once; /* by operation: seconds, and the part of them that runs once a step */
  int nids;
  CutPositions positions;
  double scale;                     /* factor for bytes (passes/cost/ranks.h) */
  double *time, *once_time, *bytes; /* by first and last position */
} Cutting;

/* Returns the value that represents the copy of a weight which an operation reads: reads with equal layouts share a
 * copy. */
static Val copy_of_weight(const Cutting *k, const SameWeight *same, size_t op) {
  for (size_t i = same->first[op]; i < op; i++) {
    bool equal = same->first[i] == same->first[op] && strategy_result(k->m, k->rules[i], &k->strategies[i], 0) ==
                                                          strategy_result(k->m, k->rules[op], &k->strategies[op], 0);
    if (equal) return k->f->ops.items[i].out;
  }
  return k->f->ops.items[op].out;
}

/* A layout in which a value is wanted, and the number of the pair. */
typedef struct SeenLayout {
  const Layout *layout;
  int id;
} SeenLayout;

typedef struct Seen {
  SeenLayout *items;
  size_t n, cap;
} Seen;

/* A state has the layout of its first read. */
static const Layout *produced(const Cutting *k, size_t op, int result) {
  const Op *items = k->f->ops.items;
  if (items[op].kind == OP_read) op = state_first_read(&k->facts.states, k->f, op);
  return strategy_result(k->m, k->rules[op], &k->strategies[op], result);
}

/* True if the value is made in the layout once, before all micro-batches (walk.h). */
static bool is_once(const Cutting *k, size_t op, const Layout *layout) {
  if (!k->facts.once[op] || !k->f->ops.items[op].out) return false;
  bool once = cost_loop_of_value(&k->loops->loops, k->f, k->f->ops.items[op].out) < 0;
  for (int i = 0; i < k->f->ops.items[op].nout; i++) once = once && walk_layout_once(k->m, produced(k, op, i));
  return once && walk_layout_once(k->m, layout);
}

/* Returns the operation with which a result is placed: a state with its first read. */
static size_t home_of(const Cutting *k, size_t made) {
  const Op *op = &k->f->ops.items[made];
  if (k->facts.training && !k->facts.derived[made]) return k->facts.training[made];
  return op->kind == OP_read ? k->facts.first_user[op->out] : made;
}

/* True if the value is sent to that reader in each micro-batch.  False for values made before all micro-batches, for
 * readers after all micro-batches, and for sums of gradients of a weight (passes/lower/walk_sums.c). */
static bool is_sent_each(const Cutting *k, const Op *reader, size_t made, const Layout *travel) {
  bool late = reader && reader->kind == OP_add && reader->phase == PH_wgt && reader->mirror.operand == MIRROR_SUM;
  return !late && (!reader || phase_each(reader->phase)) && !is_once(k, made, travel);
}

/* True if the value is made and converted once, after all micro-batches. */
static bool is_behind(const Cutting *k, const Op *maker, const Layout *from, const Layout *to) {
  bool behind = maker->phase == PH_step || maker->kind == OP_accumulate;
  return behind && walk_layout_once(k->m, from) && walk_layout_once(k->m, to);
}

/* The share of work done once that counts for each micro-batch. */
static double part_of_once(const Cutting *k) { return 1. / mesh_micro_batches(&k->m->mesh); }

/* Needs in the order in which they are found. */
typedef struct Finding {
  Arena *scratch;
  SameWeight same;
  Seen *seen; /* by value */
  struct FoundNeed {
    size_t user;
    Need need;
  } * items;
  size_t n, cap;
} Finding;

static int id_of(Cutting *k, Finding *found, Val v, const Layout *layout) {
  Seen *seen = &found->seen[v];
  size_t e = 0;
  while (e < seen->n && seen->items[e].layout != layout) e++;
  if (e == seen->n) ARENA_PUSH(found->scratch, seen, ((SeenLayout){layout, k->nids++}));
  return seen->items[e].id;
}

/* Adds that operation `user` wants the value in the layout, for `reader`; NULL: an output. */
static Need *add_need(Cutting *k, Finding *found, size_t user, const Op *reader, Val v, const Layout *to) {
  const Func *f = k->f;
  const Op *maker = op_of(f, v);
  const Type *type = type_of(f, v);
  size_t made = (size_t)f->values.items[v].op;
  WalkSupply supply = walk_supply(maker, k->facts.derived[made], to);
  if (supply == SUPPLY_ANYWHERE) return NULL;
  const Layout *from = produced(k, made, value_index(f, v)), *travel = walk_travel(k->m, type, from, to);
  bool once = is_once(k, made, to) || is_behind(k, maker, from, to);
  Need need = {.id = id_of(k, found, v, to),
               .sent = id_of(k, found, v, travel),
               .made = home_of(k, made),
               .supply = supply,
               .convert = cost_convert(k->c, type, from, to) * runs_of_result(k->loops, f, made),
               .transfer = joint_weight(f, made) * cost_transfer(k->c, cost_bytes(k->c, type, travel)),
               .weight = -1};
  if (once) need.once = need.convert *= part_of_once(k);
  if (!is_sent_each(k, reader, made, travel)) need.transfer *= part_of_once(k);
  if (maker->kind == OP_param) need.weight = (int)copy_of_weight(k, &found->same, made);
  if (k->facts.training && (maker->kind == OP_read || maker->kind == OP_accumulate)) need.weight = (int)v;
  if (need.weight >= 0) need.weight_bytes = cost_bytes(k->c, type, from);
  ARENA_PUSH(found->scratch, found, ((struct FoundNeed){user, need}));
  return &found->items[found->n - 1].need;
}

/* Returns the layout in which an operation wants an operand; for a write, that of the state's first read. */
static const Layout *wanted_layout(const Cutting *k, size_t op, int operand) {
  const Op *read = cut_read_of(&k->facts, op);
  if (read) return produced(k, (size_t)(read - k->f->ops.items), 0);
  return strategy_operand(k->m, k->rules[op], &k->strategies[op], operand);
}

/* True if the operation joins the maker of another operand only as long as operand j is not converted. */
static bool joins_by(const Cutting *k, size_t i, int j) {
  const LegalJoin *join = cost_join(k->c, k->f, &k->f->ops.items[i]);
  return join_is_counted(join) && (join->operand == j || join->kind == JOIN_BIAS);
}

static size_t maker_of(const Cutting *k, const Op *op, int j) { return (size_t)k->f->values.items[op->in[j]].op; }

static bool is_converted(const Cutting *k, size_t i, int j) {
  const Op *op = &k->f->ops.items[i];
  return produced(k, maker_of(k, op, j), value_index(k->f, op->in[j])) != wanted_layout(k, i, j);
}

/* True if no operation can join this one: a convolution outside the library, or a reshape after a conversion. */
static bool stays_alone(const Cutting *k, size_t i) {
  const Op *op = &k->f->ops.items[i];
  const LegalJoin *join = cost_join(k->c, k->f, op);
  if (join->kind == JOIN_NONE)
    return op->kind == OP_conv && !cost_target(k->c)->device->blocks && is_converted(k, i, 1);
  return join->kind == JOIN_VIEW &&
         (is_converted(k, i, join->operand) || stays_alone(k, maker_of(k, op, join->operand)));
}

static bool comes_apart(const Cutting *k, size_t i) {
  const Op *op = &k->f->ops.items[i];
  const LegalJoin *join = cost_join(k->c, k->f, op);
  if (join_is_counted(join) && stays_alone(k, maker_of(k, op, join->operand))) return true;
  for (int j = 0; j < op->nin; j++)
    if (joins_by(k, i, j) && is_converted(k, i, j)) return true;
  return false;
}

static double apart_seconds(const Cutting *k, size_t i) {
  const Layout *result = strategy_result(k->m, k->rules[i], &k->strategies[i], 0);
  return cost_apart(k->c, k->f, &k->f->ops.items[i], result) * runs_of_op(k->loops, i);
}

static double outside_seconds(const Cutting *k, size_t i, int j) {
  return cost_outside(k->c, k->f, &k->f->ops.items[i], k->rules[i], &k->strategies[i], j) * runs_of_op(k->loops, i);
}

static bool is_each(const Cutting *k, size_t index) {
  return phase_each(k->f->ops.items[index].phase) && !is_once(k, index, produced(k, index, 0));
}

/* Returns the seconds per micro-batch; work done once counts its share. */
static double own_seconds(const Cutting *k, size_t index) {
  const Op *op = &k->f->ops.items[index];
  if (op->kind == OP_read) return part_of_once(k) * cost_away(k->c, k->f, op, produced(k, index, 0));
  if (op_is_source(op->kind)) return 0;
  double part = is_each(k, index) ? 1 : part_of_once(k);
  if (op->kind == OP_write) {
    part *= joint_weight(k->f, index);
    return part * cost_write(k->c, k->f, op, wanted_layout(k, index, 0));
  }
  double own = cost_op_runs(k->c, k->loops, k->f, index, k->rules[index], &k->strategies[index]).seconds;
  for (int j = 0; j < op->nin; j++)
    if (is_converted(k, index, j)) own += outside_seconds(k, index, j);
  return part * (comes_apart(k, index) ? own + apart_seconds(k, index) : own);
}

/* Returns the operation it is paid for with: a write is placed where its state is read, or else where the written value
 * is made (stages_place). */
static size_t paid_with(const Cutting *k, size_t index) {
  if (k->facts.training) return k->facts.training[index];
  const Op *op = &k->f->ops.items[index], *read = cut_read_of(&k->facts, index);
  if (op->kind != OP_write) return index;
  if (read && k->facts.first_user[read->out] < k->f->ops.n) return k->facts.first_user[read->out];
  size_t made = (size_t)k->f->values.items[op->in[0]].op, first = 0;
  if (stages_is_placed(k->f, k->facts.derived, made)) return made;
  while (k->facts.derived[first]) first++;
  return first;
}

/* By operation: for a derived value, the operation that it is first computed for, the one in the earliest stage that
 * wants it (stages_place); itself if only outputs want it. */
static size_t *find_homes(const Cutting *k, Arena *a) {
  const Func *f = k->f;
  size_t *home = ARENA_ARRAY(a, size_t, f->ops.n);
  for (size_t i = 0; i < f->ops.n; i++) home[i] = f->ops.n;
  for (size_t i = f->ops.n; i-- > 0;) { /* users before makers */
    size_t here = k->facts.derived[i] ? home[i] : paid_with(k, i);
    for (int j = 0; j < f->ops.items[i].nin; j++) {
      size_t made = (size_t)f->values.items[f->ops.items[i].in[j]].op;
      if (here < home[made]) home[made] = here;
    }
  }
  for (size_t i = 0; i < f->ops.n; i++)
    if (!k->facts.derived[i] || home[i] == f->ops.n) home[i] = i;
  return home;
}

/* Sorts the needs by operation, keeping the order in which they were found. */
static void sort_needs(Cutting *k, const Finding *found) {
  Need *all = ARENA_ARRAY(k->arena, Need, found->n);
  for (size_t i = 0; i < found->n; i++) k->needs[found->items[i].user].cap++;
  for (size_t i = 0; i < k->f->ops.n; i++) k->needs[i].items = all, all += k->needs[i].cap;
  for (size_t i = 0; i < found->n; i++) {
    Needs *to = &k->needs[found->items[i].user];
    to->items[to->n++] = found->items[i].need;
  }
}

static void find_needs_in(Cutting *k, Finding *found) {
  const Func *f = k->f;
  const size_t *home = find_homes(k, found->scratch);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    size_t at = paid_with(k, i);
    double own = own_seconds(k, i);
    k->own[at] += own;
    if (own > 0 && !is_each(k, i)) k->own_once[at] += own;
    for (int j = 0; j < op->nin; j++) {
      Need *need = add_need(k, found, at, op, op->in[j], wanted_layout(k, i, j));
      if (need && joins_by(k, i, j) && !comes_apart(k, i)) need->reader = i, need->apart = apart_seconds(k, i);
      if (need && !is_converted(k, i, j))
        need->outside = outside_seconds(k, i, j) * (is_each(k, i) ? 1 : part_of_once(k));
    }
  }
  for (size_t i = 0; i < f->outputs.n; i++) {
    Val v = f->outputs.items[i].value;
    size_t made = (size_t)f->values.items[v].op;
    if (op_is_source(f->ops.items[made].kind)) continue;
    add_need(k, found, home[made], NULL, v, walk_output(k->m, produced(k, made, value_index(f, v))));
  }
}

static void find_needs(Cutting *k) {
  Arena *a = arena_new();
  Finding found = {.scratch = a, .same = weight_readers(a, k->f), .seen = ARENA_ARRAY(a, Seen, k->f->values.n)};
  find_needs_in(k, &found);
  sort_needs(k, &found);
  arena_free(a);
}

/* ---- times of all runs */

/* A run of operations as a stage; entries that have the mark are paid. */
typedef struct Run {
  size_t begin;
  int mark;
  int *wanted, *sent; /* by id */
  int *derived;       /* by operation */
  int *apart;         /* by operation */
  int *weights;       /* by value */
  double time, once, bytes;
  double back; /* transfers so far of results of operations after the run */
  int *made;   /* by operation */
  double *due; /* by operation, if it has the mark: the part of `back` for its results */
} Run;

static bool is_first(int *marks, int mark) {
  bool first = *marks != mark;
  *marks = mark;
  return first;
}

static void add_back(Run *run, size_t made, double seconds) {
  if (is_first(&run->made[made], run->mark)) run->due[made] = 0;
  run->due[made] += seconds, run->back += seconds;
}

/* Pays for an operation and everything it wants. */
static void pay_op(const Cutting *k, Run *run, size_t op) {
  run->time += k->own[op], run->once += k->own_once[op];
  for (size_t j = 0; j < k->needs[op].n; j++) {
    const Need *need = &k->needs[op].items[j];
    bool sent = need->supply == SUPPLY_SENT && need->made < run->begin;
    bool back = k->facts.training && need->supply == SUPPLY_SENT && need->made > op;
    if (sent) run->time += need->outside;
    if (back && need->outside > 0) add_back(run, need->made, need->outside);
    if (sent && need->apart > 0 && is_first(&run->apart[need->reader], run->mark)) run->time += need->apart;
    if (!is_first(&run->wanted[need->id], run->mark)) continue;
    run->once += need->once;
    run->time += need->convert + (sent && is_first(&run->sent[need->sent], run->mark) ? need->transfer : 0);
    if (back && is_first(&run->sent[need->sent], run->mark)) add_back(run, need->made, need->transfer);
    if (need->supply == SUPPLY_AGAIN && is_first(&run->derived[need->made], run->mark)) pay_op(k, run, need->made);
    if (need->weight >= 0 && is_first(&run->weights[need->weight], run->mark)) run->bytes += need->weight_bytes;
  }
}

static bool has_user(const Cutting *k, size_t i) {
  const Op *op = &k->f->ops.items[i];
  bool any = false;
  for (Val v = op->out; v < op_end(op); v++) any |= k->facts.first_user[v] < k->f->ops.n;
  return any;
}

/* Ignores runs that take longer than `most`. */
static void measure_from(Cutting *k, int first, double most, Run *run) {
  bool empty = true;
  run->begin = (size_t)k->positions.at[first], run->mark = first + 1;
  run->time = run->once = run->bytes = run->back = 0;
  /* Derived values are paid for by the stages that want them; unused ones are in the first stage (stages_place). */
  for (size_t i = 0; i < k->f->ops.n && !run->begin; i++) {
    bool unused = k->facts.derived[i] && !has_user(k, i);
    if (unused && is_first(&run->derived[i], run->mark)) pay_op(k, run, i);
  }
  for (int last = 0; last < k->positions.n; last++) k->time[first * k->positions.n + last] = INFINITY;
  for (int last = first + 1; last < k->positions.n && run->time <= most; last++) {
    for (size_t i = (size_t)k->positions.at[last - 1]; i < (size_t)k->positions.at[last]; i++) {
      empty &= !stages_is_placed(k->f, k->facts.derived, i);
      if (run->made[i] == run->mark) run->back -= run->due[i];
      if (!k->facts.derived[i]) pay_op(k, run, i);
    }
    double time = run->time + run->back;
    if (!empty && time <= most) k->time[first * k->positions.n + last] = time; /* no stage is empty */
    k->bytes[first * k->positions.n + last] = run->bytes * k->scale;
    k->once_time[first * k->positions.n + last] = run->once;
  }
}

/* ---- the cut */

/* True if the runs can form that many non-empty stages: counts the shortest non-empty runs. */
static bool has_places(const Cutting *k, int stages) {
  int found = 0, first = 0;
  for (int last = 1; last < k->positions.n; last++)
    if (!isinf(k->time[first * k->positions.n + last])) found++, first = last;
  return found >= stages;
}

bool stages_is_placed(const Func *f, const bool *derived, size_t op) {
  OpKind kind = f->ops.items[op].kind;
  return !op_is_source(kind) && !derived[op] && kind != OP_write;
}

static int stage_at(int stages, const size_t *cuts, size_t i) {
  int s = stages - 1;
  while (s > 0 && cuts[s] > i) s--;
  return s;
}

static void place_all(const CutFacts *k, int stages, const size_t *cuts, int *out) {
  const Func *f = k->f;
  const size_t *home = k->training;
  for (size_t i = f->ops.n; i-- > 0;) {
    const Op *op = &f->ops.items[i];
    out[i] = op_is_source(op->kind) || k->derived[i] ? stages : stage_at(stages, cuts, home ? home[i] : i);
  }
  for (size_t i = 0; i < f->ops.n; i++) /* a write is where its value is made, so it delays no read */
    if (f->ops.items[i].kind == OP_write && !home) out[i] = out[f->values.items[f->ops.items[i].in[0]].op];
  for (size_t i = f->ops.n; i-- > 0;) /* users before makers */
    for (int j = 0; j < f->ops.items[i].nin; j++) {
      int made = f->values.items[f->ops.items[i].in[j]].op;
      bool placed = home && stages_is_placed(f, k->derived, (size_t)made); /* gradients go back to earlier stages */
      if (out[made] > out[i] && !placed) out[made] = out[i];
    }
  for (size_t i = 0; i < f->ops.n; i++)
    if (out[i] == stages) out[i] = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *read = cut_read_of(k, i);
    if (home) continue;
    if (read && k->first_user[read->out] < f->ops.n) out[i] = out[f->values.items[read->out].op];
    else if (read) out[f->values.items[read->out].op] = out[i];
  }
}

void stages_place(const Func *f, int stages, const size_t *cuts, int *out) {
  Arena *a = arena_new();
  const CutFacts k = cut_facts(a, f);
  place_all(&k, stages, cuts, out);
  arena_free(a);
}

static Cutting cutting_of(Arena *a, const CutFacts *facts, CostModel *c, Module *m, const Rule *const *rules,
                          const Strategy *strategies) {
  const Func *f = facts->f;
  Cutting k = {
      .arena = a, .c = c, .m = m, .f = f, .rules = rules, .strategies = strategies, .facts = *facts, .scale = 1};
  k.needs = ARENA_ARRAY(a, Needs, f->ops.n);
  k.own = ARENA_ARRAY(a, double, f->ops.n);
  k.own_once = ARENA_ARRAY(a, double, f->ops.n);
  bool *again = ARENA_ARRAY(a, bool, f->ops.n);
  for (size_t i = 0; i < f->ops.n; i++) again[i] = strategies[i].again;
  k.loops = cost_loops(a, c, f, again);
  find_needs(&k);
  return k;
}

/* On places of one kind; bytes are scaled to the limit of the rank with the most memory. */
static Cutting cutting_on(Arena *a, const CutFacts *facts, CostModel *c, int kind, Module *m, const Rule *const *rules,
                          const Strategy *strategies) {
  int place = 0;
  while (cost_kind_of_place(c, place) != kind) place++;
  Cutting k = cutting_of(a, facts, cost_model_on(c, place), m, rules, strategies);
  k.scale = kinds_memory_scale(cost_target(c), &m->mesh, place);
  return k;
}

/* Measures runs up to `most`, and all runs from the first position. */
static void measure(Cutting *k, double most) {
  Arena *scratch = arena_new();
  Run run = {.wanted = ARENA_ARRAY(scratch, int, k->nids),
             .sent = ARENA_ARRAY(scratch, int, k->nids),
             .derived = ARENA_ARRAY(scratch, int, k->f->ops.n),
             .apart = ARENA_ARRAY(scratch, int, k->f->ops.n),
             .weights = ARENA_ARRAY(scratch, int, k->f->values.n),
             .made = ARENA_ARRAY(scratch, int, k->f->ops.n + 1),
             .due = ARENA_ARRAY(scratch, double, k->f->ops.n + 1)};
  if (!k->time) {
    k->time = ARENA_ARRAY(k->arena, double, k->positions.n * k->positions.n);
    k->bytes = ARENA_ARRAY(k->arena, double, k->positions.n * k->positions.n);
    k->once_time = ARENA_ARRAY(k->arena, double, k->positions.n * k->positions.n);
  }
  for (int i = 0; i + 1 < k->positions.n; i++) measure_from(k, i, i ? most : INFINITY, &run);
  arena_free(scratch);
}

/* Cuttings of the kinds of places, with one set of positions. */
typedef struct Places {
  Cutting *kinds;
  int n;
  const int *kind; /* by stage; NULL if there is only one kind */
} Places;

static size_t pairs(const Places *x) {
  size_t n = (size_t)x->kinds->positions.n;
  return n * n;
}

static const Cutting *cutting_at(const Places *x, int stage) { return &x->kinds[x->kind ? x->kind[stage] : 0]; }

/* Returns the arrays of all kinds in one; for one kind its own array. */
static const double *joined(Arena *a, const Places *x, const double *(*of)(const Cutting *)) {
  if (x->n == 1) return of(x->kinds);
  double *all = ARENA_ARRAY(a, double, pairs(x) * (size_t)x->n);
  for (int i = 0; i < x->n; i++) memcpy(all + pairs(x) * (size_t)i, of(&x->kinds[i]), sizeof *all * pairs(x));
  return all;
}

static const double *times_of(const Cutting *k) { return k->time; }
static const double *bytes_of(const Cutting *k) { return k->bytes; }

static void measure_places(Arena *a, Places *x, double most, Partition *p) {
  for (int i = 0; i < x->n; i++) measure(&x->kinds[i], most);
  p->time = joined(a, x, times_of), p->bytes = joined(a, x, bytes_of);
}

/* Most runs need not be measured: only up to a length at which longer ones are certainly slower. */
static bool run_program(Places *x, int stages, double repeat, double memory_limit, int *cuts) {
  const int n = x->kinds->positions.n;
  Arena *a = arena_new();
  Partition p = {.n = n, .nkinds = x->n, .kind = x->kind, .repeat = repeat, .memory_limit = memory_limit};
  measure_places(a, x, 0, &p);
  double whole = INFINITY; /* on the fastest place; parts on several kinds may take less */
  for (int i = 0; i < x->n; i++) whole = fmin(whole, x->kinds[i].time[n - 1]);
  p.least = x->n == 1 ? whole : 0;
  double needed = 2 * whole / stages;
  bool found = false;
  for (;;) {
    p.most = found || needed < whole ? needed : INFINITY;
    measure_places(a, x, p.most, &p);
    found = partition_find(&p, stages, cuts, &needed);
    if (isinf(p.most) || (found && needed <= p.most)) break;
    if (!found) needed = 4 * p.most;
  }
  arena_free(a);
  return found;
}

/* The times of runs include a micro-batch's share of work done once. */
static StagesTime time_of(const Places *x, int stages, const int *places) {
  StagesTime t = {0};
  const Mesh *mesh = &x->kinds->m->mesh;
  Arena *a = x->kinds->arena;
  double *each = ARENA_ARRAY(a, double, stages), *once = ARENA_ARRAY(a, double, stages);
  for (int s = 0; s < stages; s++) {
    const Cutting *k = cutting_at(x, s);
    int run = places[s] * k->positions.n + (s + 1 < stages ? places[s + 1] : k->positions.n - 1);
    int place = mesh_place_of(mesh, s);
    each[place] += k->time[run] - k->once_time[run];
    once[place] += k->once_time[run] / part_of_once(k);
  }
  for (int p = 0; p < mesh_places(mesh); p++) {
    t.sum += each[p];
    t.slowest = fmax(t.slowest, each[p]);
    t.once = fmax(t.once, once[p]);
    t.busiest = fmax(t.busiest, each[p] / part_of_once(x->kinds) + once[p]);
  }
  return t;
}

/* Here work done once is not part of a micro-batch, because all places do it at the same time. */
static void balance(const Places *x, int stages, double memory_limit, int *cuts) {
  const Mesh *mesh = &x->kinds->m->mesh;
  Arena *a = arena_new();
  size_t all = pairs(x) * (size_t)x->n;
  double *each = arena_alloc(a, sizeof *each * all), *once = arena_alloc(a, sizeof *once * all);
  int *place = ARENA_ARRAY(a, int, stages), places = mesh_places(mesh);
  for (size_t i = 0; i < all; i++) {
    const Cutting *k = &x->kinds[i / pairs(x)];
    size_t at = i % pairs(x);
    bool known = !isinf(k->time[at]);
    each[i] = known ? k->time[at] - k->once_time[at] : INFINITY;
    once[i] = known ? k->once_time[at] / part_of_once(k) : 0;
  }
  for (int s = 0; s < stages; s++) place[s] = mesh_place_of(mesh, s);
  double idle = schedule_idle(mesh->schedule, places, mesh->chunks > 1 ? mesh->chunks : 1);
  stages_even((Balance){.n = x->kinds->positions.n,
                        .kind = x->kind,
                        .time = each,
                        .once = once,
                        .bytes = joined(a, x, bytes_of),
                        .parts = stages,
                        .places = places,
                        .place = place,
                        .repeat = mesh_micro_batches(mesh),
                        .ramp = idle / (places - 1),
                        .memory_limit = memory_limit},
              mesh, cuts);
  arena_free(a);
}

/* ---- results shared by several cuts */

/* A cut into that many stages. */
typedef struct KnownCut {
  int stages;
  double memory_limit, steady;
  StagesCut how;
  int *places;
  Places at;
} KnownCut;

/* The needs of stages, for one choice of strategies. */
typedef struct KnownNeeds {
  const CostModel *c;
  const Func *f;
  Mesh mesh;
  const Strategy *strategies;
  Cutting *kinds; /* by kind of places */
  int nkinds;
  struct {
    KnownCut *items;
    size_t n, cap;
  } cuts;
} KnownNeeds;

struct StagesKnown {
  Arena *arena;
  CutFacts facts; /* of the last function */
  struct {
    KnownNeeds *items;
    size_t n, cap;
  } needs;
};

StagesKnown *stages_known_new(void) {
  Arena *a = arena_new();
  StagesKnown *known = ARENA_NEW(a, StagesKnown);
  known->arena = a;
  return known;
}

void stages_known_free(StagesKnown *known) { arena_free(known->arena); }

/* True if the meshes are equal except for stages and their schedule. */
static bool same_axes(const Mesh *a, const Mesh *b) {
  bool same = a->naxes == b->naxes && mesh_places(a) == mesh_places(b);
  for (int i = 0; i < a->naxes && same; i++)
    same = a->axes[i].size == b->axes[i].size && a->axes[i].temporal == b->axes[i].temporal;
  return same;
}

static bool same_strategies(const Strategy *a, const Strategy *b, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (a[i].n != b[i].n || a[i].again != b[i].again || a[i].gather_at_use != b[i].gather_at_use ||
        memcmp(a[i].picks, b[i].picks, sizeof *a[i].picks * (size_t)a[i].n) != 0)
      return false;
  return true;
}

static KnownNeeds *needs_of(StagesKnown *known, CostModel *c, Module *m, const Func *f, const Rule *const *rules,
                            const Strategy *strategies) {
  for (size_t i = 0; i < known->needs.n; i++) {
    KnownNeeds *x = &known->needs.items[i];
    if (x->c == c && x->f == f && same_axes(&x->mesh, &m->mesh) && same_strategies(x->strategies, strategies, f->ops.n))
      return x;
  }
  Strategy *copy = ARENA_ARRAY(known->arena, Strategy, f->ops.n + 1);
  memcpy(copy, strategies, sizeof *copy * f->ops.n);
  KnownNeeds x = {.c = c, .f = f, .mesh = m->mesh, .strategies = copy};
  if (known->facts.f != f) known->facts = cut_facts(known->arena, f);
  x.nkinds = cost_place_kinds(c);
  x.kinds = ARENA_ARRAY(known->arena, Cutting, x.nkinds);
  for (int i = 0; i < x.nkinds; i++) x.kinds[i] = cutting_on(known->arena, &known->facts, c, i, m, rules, copy);
  ARENA_PUSH(known->arena, &known->needs, x);
  return &known->needs.items[known->needs.n - 1];
}

static Places places_of(Arena *a, const KnownNeeds *needs, const Mesh *mesh) {
  Places x = {.kinds = ARENA_ARRAY(a, Cutting, needs->nkinds), .n = needs->nkinds};
  int *kind = ARENA_ARRAY(a, int, mesh->stages);
  for (int i = 0; i < x.n; i++) x.kinds[i] = needs->kinds[i];
  const CutPositions positions = cut_positions(a, &x.kinds->facts, &x.kinds->loops->loops, mesh->stages);
  for (int i = 0; i < x.n; i++) x.kinds[i].positions = positions;
  for (int s = 0; s < mesh->stages; s++) kind[s] = cost_kind_of_place(needs->c, mesh_place_of(mesh, s));
  if (x.n > 1) x.kind = kind;
  return x;
}

/* Runs the exact program for that many stages.  With one micro-batch the cut does not change the time; weighting the
 * slowest stage as if there were two still spreads work and weights, which is the purpose of a forced degree. */
static KnownCut *cut_of(Arena *a, KnownNeeds *needs, const Mesh *mesh, double memory_limit, double steady) {
  for (size_t i = 0; i < needs->cuts.n; i++) {
    KnownCut *x = &needs->cuts.items[i];
    if (x->stages == mesh->stages && x->memory_limit == memory_limit && x->steady == steady) return x;
  }
  KnownCut x = {.stages = mesh->stages, .memory_limit = memory_limit, .steady = steady};
  const double repeat = steady > 0 ? steady : fmax(2, mesh_micro_batches(mesh));
  x.at = places_of(a, needs, mesh);
  x.places = ARENA_ARRAY(a, int, x.stages);
  x.how = run_program(&x.at, x.stages, repeat, memory_limit, x.places) ? STAGES_CUT
          : has_places(x.at.kinds, x.stages)                           ? STAGES_TOO_LARGE
                                                                       : STAGES_TOO_MANY;
  ARENA_PUSH(a, &needs->cuts, x);
  return &needs->cuts.items[needs->cuts.n - 1];
}

StagesCut stages_cut(StagesKnown *given, CostModel *c, Module *m, const Func *f, const Rule *const *rules,
                     const Strategy *strategies, double memory_limit, double steady, int *stages, StagesTime *time) {
  StagesKnown *known = given ? given : stages_known_new();
  const KnownCut *x = cut_of(known->arena, needs_of(known, c, m, f, rules, strategies), &m->mesh, memory_limit, steady);
  StagesCut how = x->how;
  int n = x->stages;
  if (how == STAGES_CUT) {
    size_t *cuts = ARENA_ARRAY(known->arena, size_t, n);
    int *places = memcpy(ARENA_ARRAY(known->arena, int, n), x->places, sizeof *places * (size_t)n);
    if (steady <= 0 && mesh_places(&m->mesh) > 1 && mesh_micro_batches(&m->mesh) > 1)
      balance(&x->at, n, memory_limit, places);
    for (int s = 0; s < n; s++) cuts[s] = (size_t)x->at.kinds->positions.at[places[s]];
    place_all(&x->at.kinds->facts, n, cuts, stages);
    *time = time_of(&x->at, n, places);
  }
  if (!given) stages_known_free(known);
  return how;
}

void stages_seconds(CostModel *c, Module *m, const Func *f, const Rule *const *rules, const Strategy *strategies,
                    int stages, const size_t *cuts, double *seconds) {
  Arena *a = arena_new();
  const CutFacts facts = cut_facts(a, f);
  for (int i = 0; i < cost_place_kinds(c); i++) {
    Cutting k = cutting_on(a, &facts, c, i, m, rules, strategies);
    k.positions.at = ARENA_ARRAY(a, int, stages + 1);
    for (int s = 0; s < stages; s++) k.positions.at[k.positions.n++] = (int)cuts[s];
    k.positions.at[k.positions.n++] = (int)f->ops.n;
    measure(&k, INFINITY);
    for (int s = 0; s < stages; s++)
      if (cost_kind_of_place(c, mesh_place_of(&m->mesh, s)) == i) seconds[s] = k.time[s * k.positions.n + s + 1];
  }
  arena_free(a);
}
