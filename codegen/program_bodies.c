/* codegen/program_bodies.c - the bodies of an entry and stage, and the schedule that calls them.
 *
 * In: the units of a stage with their phases.  Out: bodies, one per phase that has units, and the rows of the schedule.
 * If a pipeline trains several micro-batches, forward and backward (and gradients of weights, if the schedule separates
 * them) are bodies of their own, and so is each end of a transfer between stages (D42): received before the body of its
 * phase, sent after it.  The rows are ordered by the times of ir/schedule.h; a message counts at the end of its
 * producer, on both its stages, before calls that begin then (D43).  So all stages follow one list, in which everything
 * comes after the values it needs, and messages cannot wait for each other in a cycle.  Devices that send during
 * computation do not wait at the message itself (program_events.c).  Otherwise the work of a micro-batch is one body,
 * and micro-batches run one after another.
 *
 * Values that one body passes to another are in a buffer of the entry, live from the first call that touches it to the
 * last.  If they are made in each micro-batch, the buffer has a slot for each micro-batch that lives at once:
 * micro-batches ascend in every body, so slot (micro-batch mod slots) is free when it is written again (D44).
 */
#include <math.h>
#include <string.h>

#include "base/die.h"
#include "codegen/program_body.h"
#include "codegen/rows/row_work.h"
#include "ir/schedule.h"

/* A body to be written. */
typedef struct Part {
  Phase phase;
  const LegalBody *legal; /* of its units */
  const UnitList *units;
  int transfer;  /* the operation if it is a transfer; -1: it computes */
  int from, to;  /* of a transfer: its stages */
  double before; /* without interleaving: its position in the list of all stages' work */
  bool local;    /* the transfer is to another stage of the same place: no body */
  uint32_t body;
} Part;

typedef struct EmitParts {
  Part *items;
  size_t n, cap;
  uint32_t micro_batches;
  bool in_turns;
  ScheduleRow *rows; /* in order */
  size_t nrows;
} EmitParts;

/* ---- parts */

/* Returns the units [from, to) of a phase, without transfers unless `transfers`. */
static const UnitList *some_units(const Emitting *e, const UnitList *all, Phase phase, bool transfers, size_t from,
                                  size_t to) {
  UnitList *some = ARENA_NEW(e->m->arena, UnitList);
  *some = *all;
  some->items = ARENA_ARRAY(e->m->arena, Unit, to - from + 1);
  some->n = 0;
  for (size_t i = from; i < to; i++)
    if (all->items[i].phase == phase && (transfers || !unit_is_transfer(&all->items[i])))
      some->items[some->n++] = all->items[i];
  return some;
}

static void add_part(Emitting *e, EmitParts *x, Part p) { ARENA_PUSH(e->m->arena, x, p); }

static Part transfer_part(const Emitting *e, const LegalBody *legal, Phase phase, size_t unit) {
  const Unit *u = &legal->units->items[unit];
  int from = u->legal->stage, to = (int)op_int(u->legal, AT_to_stage, 0);
  return (Part){.phase = phase,
                .legal = legal,
                .units = some_units(e, legal->units, phase, true, unit, unit + 1),
                .transfer = u->op,
                .from = from,
                .to = to,
                .before = (double)legal->work->all->place[u->op],
                .local = emit_place(e, from) == emit_place(e, to)};
}

/* Adds the transfers received before a phase, or sent after it. */
static void add_transfers(Emitting *e, EmitParts *x, const LegalBody *legal, Phase phase, bool sends) {
  for (size_t i = 0; i < legal->units->n; i++) {
    const Unit *u = &legal->units->items[i];
    if (u->phase != phase || !unit_is_transfer(u) || (u->legal->stage == legal->stage) != sends) continue;
    Part p = transfer_part(e, legal, phase, i);
    if ((phase == PH_fwd) != (p.to > p.from))
      die("%s goes from stage %d to %d in phase %s", u->legal->name, p.from, p.to, phase_name(phase));
    if (!p.local || sends) add_part(e, x, p);
  }
}

/* Adds the work of a place with several stages, without interleaving.  The stages may need each other's values, so each
 * runs in parts from one transfer to the next, each after the transfer before it in the list that all stages read. */
static void add_runs(Emitting *e, EmitParts *x, const LegalBody *legal, Phase phase) {
  const UnitList *all = legal->units;
  double before = -0.5;
  for (size_t i = 0, end; i < all->n; i = end) {
    end = i + 1;
    if (all->items[i].phase != phase) continue;
    if (unit_is_transfer(&all->items[i])) {
      Part p = transfer_part(e, legal, phase, i);
      if (p.before < before) die("%s is out of order", all->items[i].legal->name);
      before = p.before + 0.5;
      if (!p.local || p.from == legal->stage) add_part(e, x, p);
      continue;
    }
    while (end < all->n && !(all->items[end].phase == phase && unit_is_transfer(&all->items[end]))) end++;
    add_part(e, x,
             (Part){.phase = phase,
                    .legal = legal,
                    .units = some_units(e, all, phase, false, i, end),
                    .transfer = -1,
                    .before = before});
  }
}

static bool has_sums(const Func *l2) {
  for (size_t i = 0; i < l2->outputs.n; i++)
    if (op_of(l2, l2->outputs.items[i].value)->kind == OP_accumulate) return true;
  return false;
}

/* Adds a phase.  Sums that are outputs are complete after all micro-batches. */
static void add_phase(Emitting *e, EmitParts *x, const LegalBody *legal, Phase phase) {
  bool apart = x->in_turns && phase_each(phase), several = e->m->mesh.chunks > 1;
  bool sums = phase == PH_step && x->micro_batches > 1 && has_sums(legal->entry->l2);
  size_t before = x->n;
  if (several && !apart) {
    add_runs(e, x, legal, phase);
    if (x->n > before || !sums) return;
  }
  const UnitList *units = some_units(e, legal->units, phase, !apart, 0, legal->units->n);
  if (apart) add_transfers(e, x, legal, phase, false);
  if (units->n || sums)
    add_part(e, x, (Part){.phase = phase, .legal = legal, .units = units, .transfer = -1, .before = HUGE_VAL});
  if (apart) add_transfers(e, x, legal, phase, true);
}

/* Sorts the parts of several stages, from number `first` on, by their first operation. */
static void sort_parts(EmitParts *x, size_t first) {
  for (size_t i = first + 1; i < x->n; i++)
    for (size_t k = i; k > first && x->items[k - 1].before > x->items[k].before; k--) {
      Part p = x->items[k];
      x->items[k] = x->items[k - 1], x->items[k - 1] = p;
    }
}

/* Lists the parts in the order in which one micro-batch runs through them: forward through the stages, backward in
 * reverse. */
static EmitParts parts_of(Emitting *e, const LegalBody *list, int place, uint32_t micro_batches) {
  int stages = e->m->mesh.stages;
  EmitParts x = {.micro_batches = micro_batches, .in_turns = !list->prepare && list[place].work->in_turns};
  for (int i = PH_FIRST + 1; i < PH_END; i++) {
    size_t first = x.n;
    for (int k = 0; k < stages; k++) {
      int stage = phase_backward((Phase)i) ? stages - 1 - k : k;
      if (emit_place(e, stage) == (uint32_t)place) add_phase(e, &x, &list[stage], (Phase)i);
    }
    if (!x.in_turns || !phase_each((Phase)i)) sort_parts(&x, first);
  }
  if (!x.n)
    add_part(e, &x,
             (Part){.phase = PH_pre,
                    .legal = &list[place],
                    .units = some_units(e, list[place].units, PH_pre, true, 0, list[place].units->n),
                    .transfer = -1});
  return x;
}

/* Returns the last computing part of a stage, which fetches the outputs; -1 if none. */
static int last_of(const EmitParts *x, int stage) {
  int last = -1;
  for (size_t i = 0; i < x->n; i++)
    if (x->items[i].legal->stage == stage && x->items[i].transfer < 0) last = (int)i;
  return last;
}

/* ---- the schedule */

/* Returns the schedule by predicted stage times; real times may differ, and then stages only wait.  All places read the
 * same schedule. */
static const ScheduleTable *turns_of(Emitting *e) {
  if (e->turns) return e->turns;
  ScheduleTable *t = ARENA_NEW(e->m->arena, ScheduleTable);
  *t = schedule_table(e->m->arena, &e->m->mesh, e->legal->source.phases);
  return e->turns = t;
}

static void add_rows_in_turns(EmitParts *x, const ScheduleTable *t, int part) {
  const Part *p = &x->items[part];
  bool computes = p->transfer < 0;
  for (int mb = 0; mb < (int)x->micro_batches; mb++) {
    const ScheduleCall *c = schedule_call(t, computes ? p->legal->stage : p->from, p->phase, mb);
    x->rows[x->nrows++] = (ScheduleRow){computes ? c->start : c->end, computes, computes ? 0 : p->transfer, mb, part};
  }
}

/* Adds the rows: bodies called once come before or after; bodies of one micro-batch come in their order. */
static void add_rows(Emitting *e, EmitParts *x) {
  enum { ONCE = 1 << 30 };
  const ScheduleTable *t = x->in_turns ? turns_of(e) : NULL;
  x->rows = ARENA_ARRAY(e->m->arena, ScheduleRow, x->n * x->micro_batches + 1);
  for (int i = 0; i < (int)x->n; i++) {
    const Part *p = &x->items[i];
    bool each = phase_each(p->phase);
    if (p->local) continue;
    if (each && x->in_turns) {
      add_rows_in_turns(x, t, i);
      continue;
    }
    for (int mb = 0; mb < (each ? (int)x->micro_batches : 1); mb++) {
      double time = each ? mb : p->phase < PH_fwd ? -HUGE_VAL : HUGE_VAL;
      if (!each && e->m->mesh.chunks > 1) time = p->phase < PH_fwd ? p->before - ONCE : p->before + ONCE;
      x->rows[x->nrows++] = (ScheduleRow){time, true, i, mb, i};
    }
  }
  schedule_sort(x->rows, x->nrows);
}

/* ---- buffers that pass values between bodies */

static bool is_each(const EmitParts *x, int part) { return phase_each(x->items[part].phase); }

/* Returns by part and micro-batch the row of the call. */
static uint32_t *find_rows(const Emitting *e, const EmitParts *x) {
  uint32_t *rows = ARENA_ARRAY(e->m->arena, uint32_t, x->n * x->micro_batches + 1);
  for (size_t i = 0; i < x->nrows; i++)
    rows[(size_t)x->rows[i].part * x->micro_batches + (size_t)x->rows[i].micro_batch] = (uint32_t)i;
  return rows;
}

typedef struct Span {
  uint32_t first, last;
} Span;

static void extend(Span *s, uint32_t row) {
  if (row < s->first) s->first = row;
  if (row > s->last) s->last = row;
}

/* Sets the lifetime from the first call that touches a buffer to the last, and the number of micro-batches that live at
 * once.  A value sent during computation is read until its wait. */
static void set_lifetime(const Emitting *e, const EmitParts *x, const EmitTouch *t, const EmitTransfers *transfers,
                         const uint32_t *rows, Span *each) {
  Span all = {UINT32_MAX, 0};
  bool once = false;
  for (uint32_t mb = 0; mb < x->micro_batches; mb++) each[mb] = (Span){UINT32_MAX, 0};
  for (int p = 0; p < (int)x->n; p++) {
    bool sent = t->parts[p] && emit_sends(transfers, t->buffer, p);
    const uint32_t *row = &rows[(size_t)p * x->micro_batches];
    for (uint32_t mb = 0; t->parts[p] && mb < (is_each(x, p) ? x->micro_batches : 1); mb++) {
      uint32_t last = !sent ? row[mb] : mb + 1 < x->micro_batches ? row[mb + 1] : (uint32_t)x->nrows - 1;
      extend(&each[mb], row[mb]);
      extend(&each[mb], last);
      extend(&all, row[mb]);
      extend(&all, last);
      once |= !is_each(x, p);
    }
  }
  ProgramBuffer *b = program_at_buffers(e->b, t->buffer);
  b->first = all.first, b->last = all.last;
  uint32_t most = 1;
  for (uint32_t mb = 0, over = 0; mb < x->micro_batches && !once; mb++) {
    while (each[over].last < each[mb].first) over++;
    if (mb + 1 - over > most) most = mb + 1 - over;
  }
  b->slots = most;
}

static void set_lifetimes(const Emitting *e, const EmitParts *x, const EmitTouches *touches,
                          const EmitTransfers *transfers) {
  const uint32_t *rows = find_rows(e, x);
  Span *each = ARENA_ARRAY(e->m->arena, Span, x->micro_batches + 1);
  for (size_t i = 0; i < touches->n; i++) set_lifetime(e, x, &touches->items[i], transfers, rows, each);
}

/* Finds the values that later bodies read, which keep their memory. */
static void find_handed(EmitBody *b, const EmitParts *x, int part, size_t n) {
  const Func *l2 = b->spec->l2;
  b->handed = ARENA_ARRAY(b->scratch, bool, n);
  for (size_t i = (size_t)part + 1; i < x->n; i++)
    for (size_t k = 0; k < x->items[i].units->n; k++) {
      const Unit *u = &x->items[i].units->items[k];
      for (int j = 0; j < u->nin && x->items[i].legal == x->items[part].legal; j++) b->handed[b->root[u->in[j]]] = true;
    }
  for (size_t i = 0; i < l2->outputs.n && last_of(x, b->stage) != part; i++)
    if (!phase_each(op_of(l2, l2->outputs.items[i].value)->phase))
      b->handed[b->root[l2->outputs.items[i].value]] = true;
  for (size_t i = 0; i < b->units->work->sums.n; i++) {
    const WorkSum *sum = &b->units->work->sums.items[i];
    b->handed[sum->sum] = false; /* it shares the memory of its initial value */
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
                                          .stage = emit_place(e, b->stage),
                                          .phase = phases[phase - PH_FIRST - 1],
                                          .instrs = b->start,
                                          .n = program_count_instrs(e->b) - b->start});
}

/* Copies sums over micro-batches that could not be computed in their final place to it. */
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

/* True if this body fetches an output: the body that computes it if every micro-batch does, else the last one. */
static bool is_fetched(const EmitBody *b, const EmitParts *x, int part, Val v) {
  const Op *op = op_of(b->spec->l2, v);
  if (!phase_each(op->phase) || op->kind == OP_accumulate) return part == last_of(x, b->stage);
  return is_each(x, part) && (b->tensor[v] != PROGRAM_NONE || emit_is_away(b, op)) && !b->given[v];
}

static void emit_fetches(EmitBody *b, const EmitParts *x, int part) {
  const Func *l2 = b->spec->l2;
  for (size_t i = 0; i < l2->outputs.n; i++)
    if (emit_output_stage(l2, &l2->outputs.items[i]) == b->stage && is_fetched(b, x, part, l2->outputs.items[i].value))
      emit_fetch(b, (uint32_t)i, &l2->outputs.items[i]);
}

static bool emit_part(EmitBody *b, const EmitParts *x, int part, bool prepare, size_t n) {
  const Part *p = &x->items[part];
  b->units = p->units, b->part = part;
  b->given = ARENA_ARRAY(b->scratch, bool, n);
  for (size_t v = 0; v < n; v++) b->given[v] = b->tensor[v] != PROGRAM_NONE;
  emit_find_uses(b);
  find_handed(b, x, part, n);
  emit_find_classes(b);
  if (!emit_find_away(b, n)) return false;
  if (b->stage == 0 && p->phase == PH_fwd && p->transfer < 0) emit_size_checks(b);
  if (prepare && !emit_find_targets(b, n)) return false;
  for (b->at = 0; b->at < (int)b->units->n; b->at++)
    if (!emit_unit(b)) return false;
  if (phase_each(p->phase)) emit_sums(b);
  if (prepare) emit_targets(b);
  else emit_fetches(b, x, part);
  if (prepare && !emit_panels(b)) return false;
  for (size_t i = 0; i < b->units->n; i++)
    if (b->units->items[i].kind == UNIT_WRITE && !emit_state_write(b, &b->units->items[i])) return false;
  const char *name = p->transfer < 0 ? b->spec->name : b->spec->l2->ops.items[p->transfer].name;
  emit_body_end(b, prepare ? PH_pre : p->phase, name);
  return true;
}

/* True for a transfer that other bodies may wait for. */
static bool is_beside(const Emitting *e, const EmitParts *x, int part) {
  const Part *p = &x->items[part];
  return e->legal->source.device->sends_beside && x->in_turns && p->transfer >= 0 && !p->local && is_each(x, part);
}

/* Takes over a value that another stage of the same place has computed. */
static void hand_over(EmitBody *b, const Part *p, uint32_t *tensors) {
  const Unit *u = &p->units->items[0];
  Val to = b->spec->l2->ops.items[p->transfer].out;
  uint32_t from = emit_body_tensor(b, u->in[0]);
  tensors[to] = emit_tensor(b->e, program_at_tensors(b->e->b, from)->buffer, program_at_tensors(b->e->b, from)->offset,
                            emit_body_type(b, u->in[0]));
}

bool emit_bodies(Emitting *e, const LegalBody *list, int place, uint32_t entry, uint32_t micro_batches) {
  int stages = e->m->mesh.stages;
  uint32_t **tensors = ARENA_ARRAY(e->m->arena, uint32_t *, stages), first = program_count_calls(e->b);
  EmitParts x = parts_of(e, list, place, micro_batches);
  EmitTouches touches = {.nparts = (int)x.n};
  EmitTransfers transfers = {0};
  for (int i = 0; i < (int)x.n; i++) transfers.events += is_beside(e, &x, i);
  add_rows(e, &x);
  for (int s = 0; s < stages; s++) {
    if (emit_place(e, s) != (uint32_t)place) continue;
    size_t n = list[s].entry->l2->values.n + list[s].units->ntemps;
    tensors[s] = ARENA_ARRAY(e->m->arena, uint32_t, n);
    memset(tensors[s], 0xff, sizeof *tensors[s] * n); /* PROGRAM_NONE */
  }
  for (size_t i = 0; i < x.n; i++) {
    Part *p = &x.items[i];
    EmitBody b = emit_body_new(e, p->legal, entry, tensors[p->legal->stage]);
    b.units = p->units, b.touches = &touches, b.transfers = &transfers;
    b.is_transfer = is_beside(e, &x, (int)i);
    b.scratch = arena_new();
    bool ok = true;
    if (p->local) hand_over(&b, p, tensors[p->to]);
    else ok = emit_part(&b, &x, (int)i, p->legal->prepare, p->legal->entry->l2->values.n + p->legal->units->ntemps);
    arena_free(b.scratch);
    if (!ok) return false;
    p->body = b.body;
  }
  set_lifetimes(e, &x, &touches, &transfers);
  for (size_t i = 0; i < x.nrows; i++)
    program_add_calls(e->b, &(ProgramCall){x.items[x.rows[i].part].body, (uint32_t)x.rows[i].micro_batch});
  program_add_schedules(e->b, &(ProgramSchedule){first, (uint32_t)x.nrows});
  return true;
}
