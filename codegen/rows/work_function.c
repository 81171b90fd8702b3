/* codegen/rows/work_function.c - facts that the stages of a function share, found once; each stage legalises its part
 * of the operations (row_work.c). */
#include "codegen/rows/row_work.h"
#include "ir/legal_comm.h"
#include "ir/legal_join.h"
#include "ir/schedule.h"

/* ---- what is needed */

/* True if a result of the operation is needed: a leave also if the body reads its carry, a repeat if any of its leaves
 * is. */
static bool is_root(const Op *op, const bool *value) {
  bool asked = op->kind == OP_write || op->kind == OP_bind;
  for (Val v = op->out; v < op_end(op); v++) asked |= value[v];
  return asked || ((op->kind == OP_leave || op->kind == OP_repeat) && value[op->in[0]]);
}

/* Goes from the last operation to the first; true if a carry was found to be needed whose leave was already passed. */
static bool mark_needed(const Work *w, const Loops *loops, bool *value, bool *needed) {
  const Func *f = w->f;
  bool again = false;
  for (size_t i = f->ops.n; i-- > 0;) {
    const Op *op = &f->ops.items[i];
    if (!is_root(op, value)) continue;
    needed[i] = true;
    for (int k = 0; k < op->nin; k++) value[work_resolve(w, op->in[k])] = true;
    if (op->kind == OP_leave) value[f->ops.items[loops->items[loops_reads_in(loops, f, i)].begin].out] = true;
    if (op->kind != OP_carry) continue;
    const Loop *l = &loops->items[loops->of[i]];
    again |= !needed[l->repeat + (i - l->begin)];
  }
  return again;
}

/* Marks the operations that outputs and writes of all stages need: the receive of a transfer needs its send. */
static const bool *find_needed(const Work *w, const Loops *loops) {
  const Func *f = w->f;
  bool *value = ARENA_ARRAY(w->arena, bool, f->values.n + 1), *needed = ARENA_ARRAY(w->arena, bool, f->ops.n + 1);
  for (size_t i = 0; i < f->outputs.n; i++) value[f->outputs.items[i].value] = true;
  while (mark_needed(w, loops, value, needed)) continue;
  return needed;
}

/* ---- the order */

/* Returns the operation after which a communication is issued: the one that makes its operand, or the last carry of its
 * loop.  Returns `comm` itself for weights and other sources, which would all be issued at the beginning, and across
 * loop boundaries. */
static size_t asked_behind(const Func *f, const Loops *loops, size_t comm) {
  size_t made = (size_t)f->values.items[f->ops.items[comm].in[0]].op;
  OpKind kind = f->ops.items[made].kind;
  if (op_is_source(kind) || kind == OP_loop || kind == OP_leave || loops->of[made] != loops->of[comm]) return comm;
  while (f->ops.items[made + 1].kind == OP_carry) made++;
  return made;
}

typedef struct Ordered {
  const Func *f;
  size_t *order, n;
  size_t *first, *next; /* per operation: the first communication after it, the next one after the same; + 1 */
} Ordered;

static void put(Ordered *o, size_t i) {
  o->order[o->n++] = i;
  for (size_t k = o->first[i]; k; k = o->next[k - 1]) put(o, k - 1);
}

/* Orders the operations, with communication directly after its producer if the device needs it early: one list for all
 * stages, so that two stages that communicate have one order (D43). */
static const size_t *order_of(Arena *a, const Func *f, const DeviceTraits *device, const Loops *loops) {
  size_t n = f->ops.n;
  Ordered o = {.f = f,
               .order = ARENA_ARRAY(a, size_t, n + 1),
               .first = ARENA_ARRAY(a, size_t, n + 1),
               .next = ARENA_ARRAY(a, size_t, n + 1)};
  bool *moved = ARENA_ARRAY(a, bool, n + 1);
  for (size_t i = n; i-- > 0;) {
    if (!legal_begins_early(device, f, &f->ops.items[i])) continue;
    size_t behind = asked_behind(f, loops, i);
    if (behind == i) continue;
    moved[i] = true, o.next[i] = o.first[behind], o.first[behind] = i + 1;
  }
  for (size_t i = 0; i < n; i++)
    if (!moved[i]) put(&o, i);
  return o.order;
}

/* Marks by operation the gradients of a weight to which other stages add.  These stages would wait for each other's
 * gradients of weights, which schedules do not order; so these gradients belong to the backward phase, which passes
 * from stage to stage anyway. */
static const bool *find_early(Arena *a, const Func *f) {
  bool *early = ARENA_ARRAY(a, bool, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++)
    early[i] = f->ops.items[i].kind == OP_transfer && f->ops.items[i].phase == PH_wgt;
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < f->ops.n; i++) {
      const Op *op = &f->ops.items[i];
      for (int k = 0; k < op->nin && op->phase == PH_wgt; k++) {
        size_t made = (size_t)f->values.items[op->in[k]].op;
        bool apart = f->ops.items[made].phase != PH_wgt || early[i] == early[made];
        if (!apart) more = early[i] = early[made] = true;
      }
    }
  }
  return early;
}

/* ---- by stage */

/* A transfer belongs to two stages: returns the second; -1 for other operations. */
static int second_stage(const Op *op) {
  int to = op->kind == OP_transfer ? (int)op_int(op, AT_to_stage, 0) : op->stage;
  return to == op->stage ? -1 : to;
}

static void count_in(WorkFunction *w, int stage) {
  if (stage >= 0) w->begin[stage + 1]++;
}

static void add_in(const WorkFunction *w, size_t *at, int stage, size_t op) {
  if (stage >= 0) w->in_stage[at[stage]++] = op;
}

static void list_by_stage(WorkFunction *w, Arena *a) {
  const Op *ops = w->f->ops.items;
  size_t n = w->f->ops.n;
  for (size_t i = 0; i < n; i++) {
    int last = second_stage(&ops[i]) > ops[i].stage ? second_stage(&ops[i]) : ops[i].stage;
    if (last >= w->nstages) w->nstages = last + 1;
  }
  w->begin = ARENA_ARRAY(a, size_t, w->nstages + 2);
  for (size_t i = 0; i < n; i++) count_in(w, ops[i].stage), count_in(w, second_stage(&ops[i]));
  for (int s = 0; s < w->nstages; s++) w->begin[s + 1] += w->begin[s];
  size_t *at = ARENA_ARRAY(a, size_t, w->nstages + 1);
  for (int s = 0; s < w->nstages; s++) at[s] = w->begin[s];
  w->in_stage = ARENA_ARRAY(a, size_t, w->begin[w->nstages] + 1);
  for (size_t k = 0; k < n; k++) {
    size_t i = w->order[k];
    add_in(w, at, ops[i].stage, i), add_in(w, at, second_stage(&ops[i]), i);
  }
}

const size_t *work_in_stage(const WorkFunction *w, int stage, size_t *n) {
  *n = stage < w->nstages ? w->begin[stage + 1] - w->begin[stage] : 0;
  return stage < w->nstages ? &w->in_stage[w->begin[stage]] : NULL;
}

/* True if it reads states and writes none, as an evaluation during training does, which casts all weights. */
static bool only_reads(const Func *f) {
  bool reads = false;
  for (size_t i = 0; i < f->ops.n; i++) {
    if (f->ops.items[i].kind == OP_write || f->ops.items[i].kind == OP_loop) return false;
    reads |= f->ops.items[i].kind == OP_read;
  }
  return reads;
}

const WorkFunction *work_function(Arena *a, Module *m, const Func *f, const DeviceTraits *device, bool join) {
  WorkFunction *w = ARENA_NEW(a, WorkFunction);
  *w = (WorkFunction){.arena = a, .m = m, .f = f, .device = device, .loops = loops_of(a, f)};
  w->in_turns = f->level == 2 && schedule_in_turns(&m->mesh, f);
  w->early = w->in_turns ? find_early(a, f) : NULL;
  w->needed = find_needed(&(Work){.m = m, .arena = a, .f = f}, &w->loops);
  w->order = order_of(a, f, device, &w->loops);
  w->place = ARENA_ARRAY(a, size_t, f->ops.n + 1);
  for (size_t k = 0; k < f->ops.n; k++) w->place[w->order[k]] = k;
  if (join) w->joins = legal_joins(a, m, device, f);
  if (join && device->bundles) work_find_update(w), w->bundles = w->update || only_reads(f);
  list_by_stage(w, a);
  return w;
}
