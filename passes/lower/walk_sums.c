/* passes/lower/walk_sums.c - sums over stages of values that micro-batches accumulate; see walk.h.
 *
 * Level 1 has accumulate(a + b) for the gradients that two users give to a weight.  If the users are in different
 * stages, sending a or b in every micro-batch would cost the weight's bytes each time.  Accumulation is linear:
 * accumulate(a) + accumulate(b) is equal, and is sent once, in phase `step`.
 *
 * A late sum is an addition that is read once, by its accumulation or by another late sum, and that has an operand from
 * another stage or a late sum as operand.  It adds sums over all micro-batches, in the layout of the accumulation's
 * result, with a strategy of its own.  Its other operands are accumulated where they are made, with the strategy of the
 * accumulation.  Sums within one stage are not late: one accumulator is enough for them.
 */
#include <string.h>

#include "passes/lower/walk_internal.h"

static size_t maker_of(const Func *f, Val v) { return (size_t)f->values.items[v].op; }

/* ---- finding late sums */

static const int *count_uses(const Walk *w, const Func *f) {
  int *uses = ARENA_ARRAY(w->arena, int, f->values.n);
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin; k++) uses[f->ops.items[i].in[k]]++;
  for (size_t i = 0; i < f->outputs.n; i++) uses[f->outputs.items[i].value]++;
  return uses;
}

static bool may_be_late(const Op *op, const int *uses) {
  return op->kind == OP_add && phase_backward(op->phase) && uses[op->out] == 1;
}

/* By operation: its accumulation, if nothing else reads it. */
static size_t *find_accumulators(const Walk *w, const Func *f) {
  size_t *by = ARENA_ARRAY(w->arena, size_t, f->ops.n + 1);
  const int *uses = count_uses(w, f);
  for (size_t i = 0; i < f->ops.n; i++) by[i] = f->ops.items[i].kind == OP_accumulate ? i : SIZE_MAX;
  for (size_t i = f->ops.n; i-- > 0;)
    for (int k = 0; by[i] != SIZE_MAX && k < f->ops.items[i].nin; k++) {
      size_t made = maker_of(f, f->ops.items[i].in[k]);
      if (may_be_late(&f->ops.items[made], uses)) by[made] = by[i];
    }
  return by;
}

/* Returns a strategy with the layout of the accumulation; if that layout is impossible, one without the
 * micro-batches. */
static Strategy late_strategy(const Walk *w, const WalkScope *s, size_t index, const Layout *wanted) {
  const Rule *r = s->rules[index];
  Strategy out = {0};
  for (int d = 0; d < wanted->rank; d++)
    for (int i = 0; i < wanted->dims[d].n && r->results[0].dims[d].n; i++)
      out.picks[out.n++] = (Pick){.axis = wanted->dims[d].axes[i], .factor = r->results[0].dims[d].f[0]};
  for (int k = 0; k < r->nfactors; k++)
    for (int a = 0; a < w->m->mesh.naxes && r->factors[k].kind == FK_LINEAR; a++)
      if (wanted->partial_axes >> a & 1u) out.picks[out.n++] = (Pick){.axis = (uint8_t)a, .factor = (uint8_t)k};
  if (strategy_legal(&w->m->mesh, r, &out, NULL)) return out;
  out = s->strategies[index];
  out.n = 0;
  for (int i = 0; i < s->strategies[index].n; i++)
    if (!w->m->mesh.axes[s->strategies[index].picks[i].axis].temporal)
      out.picks[out.n++] = s->strategies[index].picks[i];
  return out;
}

void walk_find_late(const Walk *w, WalkScope *s) {
  const Func *f = s->f;
  if (!s->stages || w->m->mesh.stages == 1 || mesh_micro_batches(&w->m->mesh) == 1) return;
  size_t *late = find_accumulators(w, f);
  Strategy *strategies = NULL;
  for (size_t i = 0; i < f->ops.n; i++) {
    bool over_stages = false;
    for (int k = 0; late[i] != SIZE_MAX && k < f->ops.items[i].nin; k++) {
      size_t made = maker_of(f, f->ops.items[i].in[k]);
      over_stages |= walk_stage(s, made) != walk_stage(s, i) || late[made] != SIZE_MAX;
    }
    if (!over_stages) late[i] = SIZE_MAX;
    if (!over_stages || late[i] == i) continue;
    if (!strategies) {
      strategies = ARENA_ARRAY(w->arena, Strategy, f->ops.n);
      memcpy(strategies, s->strategies, sizeof *strategies * f->ops.n);
    }
    strategies[i] = late_strategy(w, s, i, walk_produced(w, s, late[i], 0));
  }
  s->late = late;
  s->sums = ARENA_ARRAY(w->arena, Versions, f->values.n);
  if (strategies) s->strategies = strategies;
}

/* ---- making them */

/* Accumulates a part in the stage that makes it. */
static bool accumulate_part(Walk *w, const WalkScope *s, Val value, size_t accumulator) {
  Versions *sums = &s->sums[value];
  int stage = walk_stage(s, maker_of(s->f, value));
  const Op *at = w->at;
  if (sums->produced) return true;
  w->summed = false;
  Val v = walk_want(w, s, value, walk_operand(w, s, accumulator, 0), stage);
  w->at = w->reader = &s->f->ops.items[accumulator];
  if (v) v = walk_whole(w, s, accumulator, &v, stage);
  w->at = w->reader = at;
  w->summed = true;
  if (!v) return false;
  sums->produced = walk_produced(w, s, accumulator, 0), sums->stage = stage;
  walk_add(w, s, value, sums->produced, stage, -1, v);
  return true;
}

static Val make_late(Walk *w, const WalkScope *s, size_t index, int stage) {
  const Op *op = &s->f->ops.items[index];
  size_t accumulator = s->late[index];
  bool accumulates = index == accumulator;
  Val in[MAX_OPERANDS];
  for (int i = 0; i < op->nin; i++) {
    if (!accumulate_part(w, s, op->in[i], accumulator)) return 0;
    const Layout *wanted = accumulates ? walk_produced(w, s, index, 0) : walk_operand(w, s, index, i);
    if (!(in[i] = walk_want(w, s, op->in[i], wanted, stage))) return 0;
  }
  w->at = w->reader = op;
  return accumulates ? in[0] : walk_whole(w, s, index, in, stage);
}

Val walk_late(Walk *w, const WalkScope *s, size_t index, int stage) {
  w->summed = true;
  Val v = make_late(w, s, index, stage);
  if (v && index != s->late[index]) walk_add_result(w, s, index, 0, stage, v);
  w->summed = false;
  if (v && index == s->late[index]) walk_add_result(w, s, index, 0, stage, v);
  return v;
}
