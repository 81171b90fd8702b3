/* codegen/program_bodies.c - the bodies of an entry and stage, and the schedule that calls them.
 *
 * In: the units of a stage with their phases.  Out: bodies, one per phase in which something is done, and the rows of
 * the schedule.  Where a pipeline trains several micro-batches, forward and backward (and gradients of weights, if the
 * schedule has them apart) are bodies of their own, and so is each end of a transfer between stages (D42): received
 * before the body of its phase, sent behind it.  The rows stand by the times of ir/schedule.h; a message counts at the
 * end of what makes it, on both its stages, before calls that begin then (D43).  So all stages follow one list, in
 * which everything stands behind what it needs, and messages that wait for each other cannot wait for ever.
 * Elsewhere what is done in each micro-batch is one body, and micro-batches run one after the other.
 *
 * What one body hands to another lies in a buffer of the entry, live from the first call that touches it to the last.
 * Made in each micro-batch it has a slot for each of those that live at once: micro-batches ascend in every body, so
 * slot (micro-batch mod slots) is free when it is written again (D44).
 */
#include <math.h>
#include <string.h>

#include "base/die.h"
#include "codegen/program_body.h"
#include "codegen/rows/row_work.h"
#include "ir/schedule.h"

/* A body to be. */
typedef struct Part {
  Phase phase;
  const UnitList *units;
  int from;     /* a transfer: the stage that sends; -1: it computes */
  int transfer; /* and its operation */
  uint32_t body;
} Part;

typedef struct EmitParts {
  Part *items;
  size_t n, cap;
  int last; /* the last one that computes; there is one even if nothing is done */
  uint32_t micro_batches;
  ScheduleRow *rows; /* in order */
  size_t nrows;
} EmitParts;

/* ---- parts */

/* The units of a phase that compute, or one that is a transfer. */
static const UnitList *some_units(const Emitting *e, const UnitList *all, Phase phase, bool transfers, size_t only) {
  UnitList *some = ARENA_NEW(e->m->arena, UnitList);
  *some = *all;
  some->items = ARENA_ARRAY(e->m->arena, Unit, all->n + 1);
  some->n = 0;
  for (size_t i = 0; i < all->n; i++) {
    bool mine = all->items[i].phase == phase && (only == SIZE_MAX || only == i);
    if (mine && (transfers || !unit_is_transfer(&all->items[i]))) some->items[some->n++] = all->items[i];
  }
  return some;
}

static void add_transfers(Emitting *e, EmitParts *x, const UnitList *all, int stage, Phase phase, bool sends) {
  for (size_t i = 0; i < all->n; i++) {
    const Unit *u = &all->items[i];
    if (u->phase != phase || !unit_is_transfer(u) || (u->legal->stage == stage) != sends) continue;
    int to = (int)op_int(u->legal, AT_to_stage, 0), from = u->legal->stage;
    if ((phase == PH_fwd) != (to > from))
      die("%s goes from stage %d to %d in phase %s", u->legal->name, from, to, phase_name(phase));
    ARENA_PUSH(e->m->arena, x, ((Part){phase, some_units(e, all, phase, true, i), from, u->op, 0}));
  }
}

static bool has_sums(const Func *l2) {
  for (size_t i = 0; i < l2->outputs.n; i++)
    if (op_of(l2, l2->outputs.items[i].value)->kind == OP_accumulate) return true;
  return false;
}

/* Sums that are outputs are whole behind all micro-batches. */
static EmitParts parts_of(Emitting *e, const LegalBody *legal, uint32_t micro_batches) {
  EmitParts x = {.micro_batches = micro_batches};
  bool in_turns = !legal->prepare && legal->work->in_turns, sums = micro_batches > 1 && has_sums(legal->entry->l2);
  for (int i = PH_FIRST + 1; i < PH_END; i++) {
    Phase p = (Phase)i;
    bool apart = in_turns && phase_each(p);
    const UnitList *units = some_units(e, legal->units, p, !apart, SIZE_MAX);
    if (apart) add_transfers(e, &x, legal->units, legal->stage, p, false);
    if (units->n || (p == PH_step && sums)) {
      x.last = (int)x.n;
      ARENA_PUSH(e->m->arena, &x, ((Part){p, units, -1, -1, 0}));
    }
    if (apart) add_transfers(e, &x, legal->units, legal->stage, p, true);
  }
  if (!x.n)
    ARENA_PUSH(e->m->arena, &x, ((Part){PH_pre, some_units(e, legal->units, PH_pre, true, SIZE_MAX), -1, -1, 0}));
  return x;
}

/* ---- the schedule */

/* Of stages that take equally long, which is what they are cut for: what is real may differ, and only waits. */
static ScheduleTable table_of(const Emitting *e, uint32_t micro_batches) {
  const Mesh *mesh = &e->m->mesh;
  ScheduleWork *work = ARENA_ARRAY(e->m->arena, ScheduleWork, mesh->stages);
  for (int s = 0; s < mesh->stages; s++) work[s] = (ScheduleWork){1, 1, 1};
  return schedule_table(e->m->arena, mesh->schedule, mesh->stages, (int)micro_batches, work, 0);
}

static void add_rows_in_turns(EmitParts *x, const ScheduleTable *t, int stage, int part) {
  const Part *p = &x->items[part];
  for (uint32_t mb = 0; mb < x->micro_batches; mb++) {
    bool computes = p->from < 0;
    const ScheduleCall *c = schedule_call(t, computes ? stage : p->from, p->phase, (int)mb);
    x->rows[x->nrows++] =
        (ScheduleRow){computes ? c->start : c->end, computes, computes ? 0 : p->transfer, (int)mb, part};
  }
}

/* What is done once stands before or behind; bodies of one micro-batch come in their order. */
static void add_rows(Emitting *e, EmitParts *x, const LegalBody *legal) {
  bool in_turns = !legal->prepare && legal->work->in_turns;
  ScheduleTable t = in_turns ? table_of(e, x->micro_batches) : (ScheduleTable){0};
  x->rows = ARENA_ARRAY(e->m->arena, ScheduleRow, x->n * x->micro_batches + 1);
  for (size_t i = 0; i < x->n; i++) {
    Phase p = x->items[i].phase;
    bool each = phase_each(p);
    double time = p < PH_fwd ? -1 : HUGE_VAL;
    if (each && in_turns) add_rows_in_turns(x, &t, legal->stage, (int)i);
    else
      for (uint32_t mb = 0; mb < (each ? x->micro_batches : 1); mb++)
        x->rows[x->nrows++] = (ScheduleRow){each ? (double)mb : time, true, (int)i, (int)mb, (int)i};
  }
  schedule_sort(x->rows, x->nrows);
}

/* ---- buffers that bodies hand to each other */

/* The row of a part's call. */
static uint32_t row_of(const EmitParts *x, int part, uint32_t micro_batch) {
  uint32_t i = 0;
  while (x->rows[i].part != part || (uint32_t)x->rows[i].micro_batch != micro_batch) i++;
  return i;
}

static bool is_each(const EmitParts *x, int part) { return phase_each(x->items[part].phase); }

/* How many micro-batches have begun with part `first` and are not through with part `last`, at most. */
static uint32_t most_at_once(const EmitParts *x, int first, int last) {
  uint32_t begun = 0, over = 0, most = 1;
  for (size_t i = 0; i < x->nrows; i++) {
    begun += x->rows[i].part == first;
    if (begun - over > most) most = begun - over;
    over += x->rows[i].part == last;
  }
  return most;
}

static void set_lifetimes(const Emitting *e, const EmitParts *x, const EmitTouches *touches) {
  for (size_t i = 0; i < touches->n; i++) {
    const EmitTouch *t = &touches->items[i];
    ProgramBuffer *b = program_at_buffers(e->b, t->buffer);
    b->first = row_of(x, t->first, 0);
    b->last = row_of(x, t->last, is_each(x, t->last) ? x->micro_batches - 1 : 0);
    if (is_each(x, t->first) && is_each(x, t->last)) b->slots = most_at_once(x, t->first, t->last);
  }
}

/* Values that later bodies read stay where they are. */
static void find_handed(EmitBody *b, const EmitParts *x, int part, size_t n) {
  const Func *l2 = b->spec->l2;
  b->handed = ARENA_ARRAY(b->e->m->arena, bool, n);
  for (size_t i = (size_t)part + 1; i < x->n; i++)
    for (size_t k = 0; k < x->items[i].units->n; k++) {
      const Unit *u = &x->items[i].units->items[k];
      for (int j = 0; j < u->nin; j++) b->handed[b->root[u->in[j]]] = true;
    }
  for (size_t i = 0; i < l2->outputs.n && x->last != part; i++)
    if (!phase_each(op_of(l2, l2->outputs.items[i].value)->phase))
      b->handed[b->root[l2->outputs.items[i].value]] = true;
  for (size_t i = 0; i < b->units->work->sums.n; i++) {
    const WorkSum *sum = &b->units->work->sums.items[i];
    b->handed[sum->sum] = false; /* it lies in what it begins as */
    if (is_each(x, part)) b->last_use[sum->sum] = (int)b->units->n;
  }
  for (size_t v = 0; v < n; v++)
    if (b->handed[v]) b->last_use[v] = (int)b->units->n;
}

/* ---- bodies */

EmitBody emit_body_new(Emitting *e, const LegalBody *legal, uint32_t entry, uint32_t *tensors) {
  return (EmitBody){.e = e,
                    .spec = legal->entry,
                    .entry = entry,
                    .body = program_count_bodies(e->b),
                    .start = program_count_instrs(e->b),
                    .buffers = program_count_buffers(e->b),
                    .stage = legal->stage,
                    .tensor = tensors};
}

void emit_body_end(EmitBody *b, Phase phase, const char *name) {
  static const ProgramPhase phases[] = {
#define PHASE(name, each, doc) PHASE_##name,
#include "base/phase.def"
#undef PHASE
  };
  Emitting *e = b->e;
  emit_wait_all(b);
  program_add_bodies(e->b, &(ProgramBody){.name = emit_text(e, name),
                                          .entry = b->entry,
                                          .stage = (uint32_t)b->stage,
                                          .phase = phases[phase - PH_FIRST - 1],
                                          .instrs = b->start,
                                          .n = program_count_instrs(e->b) - b->start});
}

/* Sums over micro-batches that could not be made where they lie are brought there. */
static void emit_sums(EmitBody *b) {
  const Work *w = b->units->work;
  for (size_t i = 0; i < w->sums.n; i++) {
    const WorkSum *sum = &w->sums.items[i];
    uint32_t from = b->tensor[sum->sum], to = b->tensor[sum->start];
    if (from == PROGRAM_NONE || to == PROGRAM_NONE) continue;
    if (program_at_tensors(b->e->b, from)->buffer != program_at_tensors(b->e->b, to)->buffer)
      emit_copy(b, from, to, emit_body_type(b, sum->sum), name_of(b->spec->l2, sum->sum));
    emit_share_tensor(b, sum->sum, to);
  }
}

/* Outputs that are made in each micro-batch are fetched where they are made, others in the last body. */
static bool is_fetched(const EmitBody *b, const EmitParts *x, int part, Val v) {
  const Op *op = op_of(b->spec->l2, v);
  if (!phase_each(op->phase) || op->kind == OP_accumulate) return part == x->last;
  return is_each(x, part) && b->tensor[v] != PROGRAM_NONE && !b->given[v];
}

static void emit_fetches(EmitBody *b, const EmitParts *x, int part) {
  const Func *l2 = b->spec->l2;
  for (size_t i = 0; i < l2->outputs.n; i++)
    if (emit_output_stage(l2, &l2->outputs.items[i]) == b->stage && is_fetched(b, x, part, l2->outputs.items[i].value))
      emit_fetch(b, (uint32_t)i, &l2->outputs.items[i]);
}

static bool emit_part(EmitBody *b, const EmitParts *x, int part, bool prepare, size_t n) {
  Emitting *e = b->e;
  const Part *p = &x->items[part];
  b->units = p->units, b->part = part;
  b->given = ARENA_ARRAY(e->m->arena, bool, n);
  for (size_t v = 0; v < n; v++) b->given[v] = b->tensor[v] != PROGRAM_NONE;
  emit_find_uses(b);
  find_handed(b, x, part, n);
  b->level1 = loops_of(e->m->arena, b->spec->l1);
  if (b->stage == 0 && p->phase == PH_fwd && p->from < 0) emit_size_checks(b);
  if (prepare && !emit_find_targets(b, n)) return false;
  for (b->at = 0; b->at < (int)b->units->n; b->at++)
    if (!emit_unit(b)) return false;
  if (phase_each(p->phase)) emit_sums(b);
  if (prepare) emit_targets(b);
  else emit_fetches(b, x, part);
  if (prepare && !emit_panels(b)) return false;
  for (size_t i = 0; i < b->units->n; i++)
    if (b->units->items[i].kind == UNIT_WRITE && !emit_state_write(b, &b->units->items[i])) return false;
  const char *name = p->from < 0 ? b->spec->name : b->spec->l2->ops.items[p->transfer].name;
  emit_body_end(b, prepare ? PH_pre : p->phase, name);
  return true;
}

bool emit_bodies(Emitting *e, const LegalBody *legal, uint32_t entry, uint32_t micro_batches) {
  size_t n = legal->entry->l2->values.n + legal->units->ntemps;
  uint32_t *tensors = ARENA_ARRAY(e->m->arena, uint32_t, n), first = program_count_calls(e->b);
  EmitParts x = parts_of(e, legal, micro_batches);
  EmitTouches touches = {0};
  add_rows(e, &x, legal);
  for (size_t v = 0; v < n; v++) tensors[v] = PROGRAM_NONE;
  for (size_t i = 0; i < x.n; i++) {
    EmitBody b = emit_body_new(e, legal, entry, tensors);
    b.touches = &touches;
    if (!emit_part(&b, &x, (int)i, legal->prepare, n)) return false;
    x.items[i].body = b.body;
  }
  set_lifetimes(e, &x, &touches);
  for (size_t i = 0; i < x.nrows; i++)
    program_add_calls(e->b, &(ProgramCall){x.items[x.rows[i].part].body, (uint32_t)x.rows[i].micro_batch});
  program_add_schedules(e->b, &(ProgramSchedule){first, (uint32_t)x.nrows});
  return true;
}
