/* passes/cost/held.c - see held.h. */
#include "passes/cost/held.h"

#include <string.h>

#include "ir/states.h"
#include "passes/facts/zero.h"

/* Returns the operation's part of a kernel of rows; NULL if it has none. */
static const KernelPart *rows_of(const HeldList *h, const Op *op) {
  const KernelPart *part = cost_part(h->c, h->f, op);
  return part->kind == PART_ROWS ? part : NULL;
}

static Phase body_phase(const HeldList *h, Phase phase) { return schedule_body(&h->walk->m->mesh, h->in_turns, phase); }

/* The version is born at the current operation. */
Val held_make(HeldList *h, const WalkScope *s, Val value, const Layout *layout, int stage, bool converted) {
  if (s->from) return NOT_HELD;
  ARENA_PUSH(h->arena, h,
             ((Held){.value = value,
                     .layout = layout,
                     .stage = stage,
                     .born = h->walk->now,
                     .dies = h->walk->now,
                     .converted = converted,
                     .again = h->walk->again,
                     .stored = !rows_of(h, op_of(h->f, value)),
                     .phase = h->walk->phase,
                     .until = body_phase(h, h->walk->phase)}));
  return (Val)h->n;
}

/* Constants, repeated values, reshapes of values in memory, and values that readers compute take no memory of their
 * own. */
void held_find_picture(HeldList *h, const Op *op, const Val *in, Val made) {
  if (made == NOT_HELD) return;
  Held *x = &h->items[made - 1];
  const Held *from = op->nin && in[0] != NOT_HELD ? &h->items[in[0] - 1] : NULL;
  const Type *type = type_of(h->f, op->out), *of = from ? type_of(h->f, op->in[0]) : NULL;
  OpKind maker = from ? op_of(h->f, from->value)->kind : op->kind;
  bool computed =
      from && !from->converted && from->shown == SHOWN_STORED && (cost_in_kernel(maker) || maker == OP_reshape);
  bool spread = from && op->kind == OP_broadcast && (!computed || !op_spreads_rows(op, of, type));
  if (op_is_constant(op->kind) || spread) x->shown = SHOWN_PICTURE;
  else if (from && op->kind == OP_reshape && !(computed && type_same_but_for_ones(of, type))) x->shown = SHOWN_VIEW;
  const KernelPart *part = cost_part(h->c, h->f, op);
  if (x->shown == SHOWN_STORED && part->copied) {
    x->shown = SHOWN_PICTURE;
    if (part->from >= 0 && in[part->from] != NOT_HELD) x->of = in[part->from];
  } else if (x->shown != SHOWN_STORED && from) {
    x->of = in[0];
  }
}

/* Some reader needs the value in memory. */
static void want_stored(const HeldList *h, Val v) {
  while (v && v < NOT_HELD && h->items[v - 1].shown == SHOWN_VIEW) v = h->items[v - 1].of;
  if (v && v < NOT_HELD) h->items[v - 1].shown = SHOWN_STORED, h->items[v - 1].wanted = true;
}

/* True if the value is read only in the kernel that makes it, or is added to a sum there. */
static bool stays_inside(const HeldList *h, const Held *x) {
  bool same = x->born == x->dies && cost_in_kernel(op_of(h->f, x->value)->kind);
  bool summed = x->summed && x->readers == 1;
  return !x->wanted && !x->kept && !x->converted && (same || summed || !x->stored);
}

/* Another kernel reads the version, so it is in memory, and so are the versions that it is a view of. */
static void read_stored(const HeldList *h, Val v) {
  for (; v && v < NOT_HELD; v = h->items[v - 1].of) h->items[v - 1].stored = true;
}

/* True if the version is made in the same pass as its current reader: both for the first time, or both recomputed. */
static bool is_beside(const HeldList *h, Val v) { return v && v < NOT_HELD && h->items[v - 1].again == h->walk->again; }

static void note_sum(const HeldList *h, Val v) {
  if (v && v < NOT_HELD) h->items[v - 1].summed = true;
}

/* Asynchronous communication begins right after `from` is made, and its destination is live from then on
 * (codegen/rows/row_work.c). */
void held_born_early(HeldList *h, const WalkScope *s, Val value, Val from, Val made) {
  if (!cost_target(h->c)->device->asynchronous || from == NOT_HELD || made == NOT_HELD) return;
  const Held *x = &h->items[from - 1];
  bool source = op_is_source(op_of(h->f, x->value)->kind) && !x->converted;
  bool inside = cost_loop_of_value(&h->loops->loops, h->f, value) == walk_outermost(s)->loop;
  if (!source && inside) h->items[made - 1].born = x->born;
}

static void live_until(HeldList *h, Val v, size_t op) {
  for (; v && v < NOT_HELD; v = h->items[v - 1].of) {
    Held *x = &h->items[v - 1];
    if (op > x->dies) x->dies = op;
    Phase made = body_phase(h, x->phase), now = body_phase(h, h->walk->phase);
    x->kept |= made != now;
    if (now > x->until && now <= PH_wgt) x->until = now;
  }
}

void held_want(HeldList *h, Val v) { live_until(h, v, h->walk->now), want_stored(h, v); }

/* A value that a loop reads from outside lives to the end of the loop: returns the last operation that needs it. */
static size_t last_round(const HeldList *h, Val value, size_t op) {
  const Loops *l = &h->loops->loops;
  int entered = loops_entered(l, loops_reads_in(l, h->f, op), cost_loop_of_value(l, h->f, value));
  return entered < 0 ? op : l->items[entered].end - 1;
}

/* A carry reuses the memory of an initial value without other readers, and a leave that of its carry (settle).  A
 * recomputed operation, for another stage or for gradients, reads its operands now; so does an operation that
 * accumulates a part of a late sum (passes/lower/walk_sums.c). */
void held_use_operands(HeldList *h, size_t index, size_t kernel, const Val *in) {
  const Op *op = &h->f->ops.items[index];
  const KernelPart *part = rows_of(h, op);
  if (index < h->walk->now || op->kind == OP_accumulate) index = h->walk->now;
  if (kernel < index) index = kernel;
  if (part && !phase_each(op->phase) && index < part->last) index = part->last;
  for (int i = op->kind == OP_leave; i < op->nin; i++) {
    live_until(h, in[i], last_round(h, op->in[i], op->kind == OP_carry ? index - 1 : index));
    if (!part || !(part->inside >> i & 1) || !is_beside(h, in[i])) read_stored(h, in[i]);
    if (op->kind == OP_accumulate && h->repeat > 1) note_sum(h, in[i]);
    else if (!cost_in_kernel(op->kind)) want_stored(h, in[i]);
    if (in[i] != NOT_HELD) h->items[in[i] - 1].readers++;
  }
}

/* Returns the place of an operation.  An elementwise operation is part of the kernel that makes the last of its
 * operands, if kernels make all of them and the size is equal.  Values that only gradients need may thus be made in the
 * forward pass; recomputed values are not. */
size_t held_kernel_of(const HeldList *h, const Op *op, const Val *in) {
  size_t last = 0;
  bool any = false;
  const KernelPart *part = rows_of(h, op);
  if (part && !phase_each(op->phase)) return part->first;
  if (h->walk->again || !op_is_elementwise(op->kind) || op->kind == OP_copy) return h->walk->now;
  for (int i = 0; i < op->nin; i++) {
    if (in[i] == NOT_HELD) return h->walk->now;
    const Held *x = &h->items[in[i] - 1];
    if (x->shown == SHOWN_PICTURE) continue;
    bool kernel = x->shown == SHOWN_STORED && !x->converted && cost_in_kernel(op_of(h->f, x->value)->kind) &&
                  type_of(h->f, x->value)->rank == type_of(h->f, op->out)->rank;
    bool here =
        body_phase(h, x->phase) == body_phase(h, h->walk->phase) &&
        cost_loop_of_value(&h->loops->loops, h->f, x->value) == cost_loop_of_value(&h->loops->loops, h->f, op->out);
    if (!kernel || !here) return h->walk->now;
    last = x->born > last ? x->born : last, any = true;
  }
  return any ? last : h->walk->now;
}

/* A carry lives to the end of the body.  Its next value is made in place if no operation reads the carry later. */
static void settle(HeldList *h, const Carried *x) {
  Held *carry = &h->items[x->carry - 1], *next = &h->items[x->next - 1];
  next->in_place |= op_of(h->f, next->value)->kind != OP_carry && next->born > carry->born &&
                    next->born >= carry->dies && next->dies == x->leave;
  live_until(h, x->carry, x->leave - 1);
}

/* Operations of one kernel. */
typedef struct KernelOps {
  size_t items[512];
  size_t n;
} KernelOps;

/* Adds an operation; false if the list is full. */
static bool add_op(KernelOps *ops, size_t i) {
  for (size_t k = 0; k < ops->n; k++)
    if (ops->items[k] == i) return true;
  if (ops->n == sizeof ops->items / sizeof *ops->items) return false;
  ops->items[ops->n++] = i;
  return true;
}

/* True if the kernel reads the named state for the result of `maker`.  Searches backwards from there, because kernels
 * that add up squares for the norm of all gradients may have operations far apart.  Returns false for huge kernels, so
 * that their memory may be overestimated. */
static bool reads_state(const HeldList *h, const KernelPart *kernel, const Op *maker, const char *name) {
  KernelOps ops = {.items = {func_op_index(h->f, maker)}, .n = 1};
  for (size_t at = 0; at < ops.n; at++) {
    const Op *op = &h->f->ops.items[ops.items[at]];
    for (int k = 0; k < op->nin; k++) {
      const Op *made = op_of(h->f, op->in[k]);
      if (made->kind == OP_read && strcmp(op_str(made, AT_name), name) == 0) return true;
      if (cost_part(h->c, h->f, made)->kernel == kernel->kernel && !add_op(&ops, func_op_index(h->f, made)))
        return false;
    }
  }
  return false;
}

/* A kernel that updates a weight or a moment overwrites the old value (codegen/rows/units.c). */
void held_write(const HeldList *h, const Op *write, Val v) {
  if (v == NOT_HELD) return;
  Held *x = &h->items[v - 1];
  const Op *maker = op_of(h->f, x->value);
  const KernelPart *kernel = rows_of(h, maker);
  bool updates = kernel && !x->converted && !phase_each(maker->phase);
  x->in_place |= updates && reads_state(h, kernel, maker, op_str(write, AT_name));
}

/* ---- totals */

void held_begin(HeldList *h) {
  size_t n = h->f->ops.n;
  h->first_gradient = n;
  for (size_t i = n; i-- > 0;) {
    const Op *op = &h->f->ops.items[i];
    if (op_makes_gradients(op)) h->first_gradient = i;
    h->trains |= op->kind == OP_accumulate && op->phase == PH_wgt;
  }
  if (h->trains) h->of_weights = zero_forms(h->arena, h->walk->m, h->f);
}

static void settle_accumulated(HeldList *h, const Accumulated *x) {
  Val v = x->part;
  while (v < NOT_HELD && h->items[v - 1].shown == SHOWN_VIEW) v = h->items[v - 1].of;
  if (v >= NOT_HELD) return;
  Held *part = &h->items[v - 1], *sum = &h->items[x->sum - 1];
  part->gradient = sum->in_place = true;
  if (sum->dies > part->dies) part->dies = sum->dies;
}

void held_settle(HeldList *h) {
  for (size_t i = 0; i < h->carried.n; i++) settle(h, &h->carried.items[i]);
  for (size_t i = 0; i < h->accumulated.n; i++) settle_accumulated(h, &h->accumulated.items[i]);
}

/* The class of memory that a version counts towards. */
static LedgerClass class_of(const HeldList *h, const Held *x) {
  const Op *op = op_of(h->f, x->value);
  LedgerClass plain = x->converted ? HELD_CONVERTED : HELD_MADE;
  if (!h->trains) return plain;
  if (h->of_weights[func_op_index(h->f, op)]) return HELD_GATHERED;
  if (x->gradient || op->kind == OP_accumulate) return HELD_GRADIENT;
  bool saved = (!x->kept || (h->in_turns && x->phase == PH_fwd)) && op->kind != OP_input &&
               x->born < h->first_gradient && x->dies >= h->first_gradient;
  return saved ? HELD_SAVED : plain;
}

static double sum_of(const double *classes) {
  double sum = 0;
  for (int k = 0; k < HELD_CLASSES; k++) sum += classes[k];
  return sum;
}

/* The versions held on each stage, and the changes at each operation; the arrays are reused for one stage after
 * another. */
struct HeldStages {
  size_t *starts, *items;       /* of stage s: HeldList.items[items[starts[s] .. starts[s + 1])] */
  size_t n;                     /* places: one at each operation, and one after the last */
  double *change[HELD_CLASSES]; /* by place; all 0 between uses */
  double *moment[2];            /* by place: the two largest recomputed values that are read at once; 0 */
  bool *touched;                /* by place: something changes there */
  PlanLedger *ledger;           /* NULL: nothing is recorded */
};

void held_record(HeldStages *by, PlanLedger *ledger) { by->ledger = ledger; }

HeldStages *held_by_stage(const HeldList *h) {
  int stages = h->walk->m->mesh.stages;
  HeldStages *by = ARENA_NEW(h->arena, HeldStages);
  by->n = h->f->ops.n + 2;
  by->starts = ARENA_ARRAY(h->arena, size_t, stages + 2);
  by->items = ARENA_ARRAY(h->arena, size_t, h->n + 1);
  for (size_t i = 0; i < h->n; i++) by->starts[h->items[i].stage + 2]++;
  for (int s = 0; s < stages; s++) by->starts[s + 2] += by->starts[s + 1];
  for (size_t i = 0; i < h->n; i++) by->items[by->starts[h->items[i].stage + 1]++] = i;
  for (int k = 0; k < HELD_CLASSES; k++) by->change[k] = ARENA_ARRAY(h->arena, double, by->n);
  for (int k = 0; k < 2; k++) by->moment[k] = ARENA_ARRAY(h->arena, double, by->n);
  by->touched = ARENA_ARRAY(h->arena, bool, by->n);
  return by;
}

/* The micro-batches for which a stage keeps values that one body makes and another reads. */
static ScheduleLive live_batches(const HeldList *h, int stage, const ScheduleTable *table) {
  const Mesh *mesh = &h->walk->m->mesh;
  ScheduleLive live;
  int most = mesh_micro_batches(mesh) < mesh->stages ? mesh_micro_batches(mesh) : mesh->stages;
  if (table) return schedule_most_live(table, stage);
  for (int i = 0; i < SCHEDULE_PHASES; i++)
    for (int k = 0; k < SCHEDULE_PHASES; k++) live.of[i][k] = most;
  return live;
}

/* The number of micro-batches for which a value is kept; values read only at the end of the step are kept of the
 * last. */
static int kept_batches(const HeldList *h, const Held *x, const ScheduleLive *live) {
  bool each = x->kept && h->in_turns && phase_each(x->phase) && op_of(h->f, x->value)->kind != OP_accumulate;
  return each ? live->of[body_phase(h, x->phase) - PH_fwd][x->until - PH_fwd] : 1;
}

/* Bytes by class: kept between bodies, and the peak of other values while a body runs. */
typedef struct HeldBytes {
  double kept[HELD_CLASSES], most[HELD_CLASSES];
} HeldBytes;

/* If a value is recomputed and read at the same place, its operand and result are live together.
 */
static void add_moment(HeldStages *by, size_t at, double bytes) {
  double *largest = &by->moment[0][at], *next = &by->moment[1][at];
  if (bytes > *largest) *next = *largest, *largest = bytes;
  else if (bytes > *next) *next = bytes;
}

static void record_held(const HeldList *h, PlanLedger *l, const Held *x, LedgerClass k, double bytes, int copies) {
  ARENA_PUSH(l->arena, &l->held,
             ((LedgerHeld){.op = (size_t)h->f->values.items[x->value].op,
                           .class = k,
                           .kept = x->kept,
                           .copies = copies,
                           .bytes = bytes,
                           .born = x->born,
                           .dies = x->dies}));
}

static void record_point(PlanLedger *l, size_t op, const double *now) {
  LedgerPoint point = {.op = op};
  memcpy(point.bytes, now, sizeof point.bytes);
  ARENA_PUSH(l->arena, &l->points, point);
}

/* Memory of a stage grows where a version is born, and shrinks after it dies. */
static void find_changes(const HeldList *h, HeldStages *by, int stage, const ScheduleLive *live, double *kept) {
  for (size_t i = by->starts[stage]; i < by->starts[stage + 1]; i++) {
    const Held *x = &h->items[by->items[i]];
    const Op *maker = op_of(h->f, x->value);
    bool resident = !x->converted && op_is_resident(maker->kind) && !state_is_away(h->walk->m, maker);
    if (x->in_place || x->shown != SHOWN_STORED || stays_inside(h, x) || resident) continue;
    double bytes = kept_batches(h, x, live) * cost_bytes(h->c, type_of(h->f, x->value), x->layout);
    LedgerClass k = class_of(h, x);
    if (by->ledger) record_held(h, by->ledger, x, k, bytes, kept_batches(h, x, live));
    if (x->kept) {
      kept[k] += bytes;
      continue;
    }
    by->touched[x->born] = true;
    if (x->again && x->born == x->dies) {
      add_moment(by, x->born, bytes);
      continue;
    }
    by->change[k][x->born] += bytes;
    by->change[k][x->dies + 1] -= bytes, by->touched[x->dies + 1] = true;
  }
}

static HeldBytes held_bytes(const HeldList *h, HeldStages *by, int stage, const ScheduleTable *table) {
  HeldBytes x = {0};
  double now[HELD_CLASSES] = {0};
  const ScheduleLive live = live_batches(h, stage, table);
  find_changes(h, by, stage, &live, x.kept);
  for (size_t i = 0; i < by->n; i++) {
    if (!by->touched[i]) continue;
    by->touched[i] = false;
    for (int k = 0; k < HELD_CLASSES; k++) now[k] += by->change[k][i], by->change[k][i] = 0;
    const double moment = by->moment[0][i] + by->moment[1][i], made = now[HELD_MADE];
    now[HELD_MADE] += moment;
    if (by->ledger) record_point(by->ledger, i, now);
    if (sum_of(now) > sum_of(x.most)) memcpy(x.most, now, sizeof now);
    now[HELD_MADE] = made, by->moment[0][i] = by->moment[1][i] = 0;
  }
  return x;
}

/* Keeps what was recorded of the stage that has the largest peak so far, else drops it. */
static void record_stage(PlanLedger *l, PlanLedger *largest, int stage, bool larger) {
  if (larger) largest->stage = stage, largest->held = l->held, largest->points = l->points;
  memset(&l->held, 0, sizeof l->held);
  memset(&l->points, 0, sizeof l->points);
}

/* The memory of all stages of a place, of which one runs at a time. */
PlanMemory held_memory(const HeldList *h, HeldStages *by, const StageCost *sums, int place,
                       const ScheduleTable *table) {
  const Mesh *mesh = &h->walk->m->mesh;
  PlanMemory m = {.trains = h->trains};
  HeldBytes all = {0};
  PlanLedger *ledger = by->ledger, recording = {.arena = h->arena}, largest = {.stage = -1};
  if (ledger) by->ledger = &recording;
  for (int stage = 0; stage < mesh->stages; stage++) {
    if (mesh_place_of(mesh, stage) != place) continue;
    const HeldBytes x = held_bytes(h, by, stage, table);
    m.params += sums[stage].params, m.state += sums[stage].state, m.away += sums[stage].away;
    for (int k = 0; k < HELD_CLASSES; k++) all.kept[k] += x.kept[k];
    const bool larger = sum_of(x.most) > sum_of(all.most);
    if (ledger) record_stage(&recording, &largest, stage, larger || largest.stage < 0);
    if (larger) memcpy(all.most, x.most, sizeof x.most);
  }
  by->ledger = ledger;
  if (ledger) {
    ledger->stage = largest.stage, ledger->held = largest.held, ledger->points = largest.points;
    memcpy(ledger->kept, all.kept, sizeof all.kept);
  }
  for (int k = 0; k < HELD_CLASSES; k++) all.kept[k] += all.most[k];
  m.activations = all.kept[HELD_MADE], m.communication = all.kept[HELD_CONVERTED];
  m.gathered = all.kept[HELD_GATHERED], m.gradients = all.kept[HELD_GRADIENT], m.saved = all.kept[HELD_SAVED];
  m.total = m.params + m.state + cost_memory_made(&m);
  if (ledger) ledger->memory = m;
  return m;
}
