/* passes/lower/loop.c - loops in the lowering: what enters a body is made before it, what a body hands on at its end.
 *
 * When the lowering reaches a loop, it asks for every value from outside that the region reads, in each layout that is
 * read, so that conversions of what does not change happen once and everything behind the loop may share them.
 * Constants, sizes and iotas are made where they are used.  A loop within finds there what it needs from outside both.
 * Count and `again` are replicated; where ranks could differ (agreed.h), all take those of coordinate 0.
 */
#include "passes/rewrite/agreed.h"
#include "passes/cost/loops.h"
#include "passes/lower/internal.h"
#include "passes/search/graph.h"

static const Layout *result_layout(Lowering *w, const Scope *s, size_t op) {
  return strategy_result(w->m, rule_of(w->m, s->l1, &s->l1->ops.items[op]), &s->strategies[op]);
}

static bool check_loop(Lowering *w, const Scope *s, const Loop *l) {
  for (size_t i = l->begin; i < l->end; i++) {
    const Op *op = &s->l1->ops.items[i];
    bool outside = !op_is_source(op->kind) && lower_stage_of(s, i) != lower_stage_of(s, l->begin);
    if (outside)
      return diag_error(w->b.diags, DIAG_plan_model, (Loc){.node = op->name},
                        "a loop lies in one stage, \"%s\" in another than \"%s\"", op->name,
                        s->l1->ops.items[l->begin].name);
  }
  for (int k = 0; k < l->ncarries; k++) {
    size_t carry = l->begin + 1 + (size_t)k, leave = l->repeat + 1 + (size_t)k;
    if (result_layout(w, s, carry) == result_layout(w, s, leave)) continue;
    const char *name = s->l1->ops.items[leave].name;
    return diag_error(w->b.diags, DIAG_plan_strategy, (Loc){.node = name},
                      "\"%s\" has another layout than \"%s\", which becomes it", name, s->l1->ops.items[carry].name);
  }
  return true;
}

/* ---- what enters */

/* Whether operand k of the operation is made before the loop. */
static bool enters(const Scope *s, const Loop *l, int loop, size_t index, Val v, const Layout *layout) {
  if (loops_within(s->loops, loop_of_value(s->loops, s->l1, v), loop)) return false;
  bool first = index <= l->begin + (size_t)l->ncarries; /* nothing may stand between a loop and its carries */
  const Op *maker = op_of(s->l1, v);
  return first || !op_is_anywhere(maker) || maker->kind == OP_random || layout->partial_axes;
}

static bool enter_op(Lowering *w, const Scope *s, const Loop *l, int loop, size_t index) {
  const Op *op = &s->l1->ops.items[index];
  const Strategy *st = &s->strategies[index];
  const Rule *r = rule_of(w->m, s->l1, op);
  if (!strategy_legal(w->m, r, st, NULL)) return true; /* will be said where the operation is lowered */
  for (int k = 0; k < op->nin; k++) {
    const Layout *layout = strategy_operand(w->m, r, st, k);
    if (enters(s, l, loop, index, op->in[k], layout) && !lower_want(w, s, op->in[k], layout, lower_stage_of(s, index)))
      return false;
  }
  return true;
}

/* The scalar that decides, on every rank the same. */
static Val control(Lowering *w, const Scope *s, Val l1, int stage) {
  Conversion c;
  const Type *t = type_of(s->l1, l1);
  Val v = lower_want(w, s, l1, layout_replicated(w->m, 0), stage);
  w->b.stage = stage;
  return v && !s->agreed[l1] && agreement_find(w->m, t, w->cost, w->context, &c) ? convert_emit(&w->b, v, t, &c) : v;
}

bool lower_loop(Lowering *w, Scope *s, size_t index) {
  int loop = s->loops->of[index], stage = lower_stage_of(s, index);
  const Loop *l = &s->loops->items[loop];
  const Op *op = &s->l1->ops.items[index];
  if (!check_loop(w, s, l)) return false;
  for (size_t i = l->begin; i < l->end; i++)
    if (op_is_source(s->l1->ops.items[i].kind) && !lower_place_source(w, s, i)) return false;
  for (size_t i = l->begin; i < l->end; i++)
    if (!enter_op(w, s, l, loop, i)) return false;
  w->b.loc = op->loc;
  Val count = control(w, s, op->in[0], stage);
  if (!count) return false;
  OpSpec spec = op_spec_of(s->l1, op);
  spec.in = &count;
  spec.stage = stage;
  w->b.stage = stage;
  Val round = build_op(&w->b, &spec);
  Versions *v = &s->versions[op->out];
  v->produced = layout_replicated(w->m, 0);
  v->stage = stage;
  if (round) lower_add_version(w, s, op->out, v->produced, stage, loop, round);
  return round != 0;
}

/* ---- what is handed on */

bool lower_repeat(Lowering *w, Scope *s, size_t index) {
  int loop = s->loops->of[index], stage = lower_stage_of(s, index);
  const Loop *l = &s->loops->items[loop];
  const Op *op = &s->l1->ops.items[index];
  Val in[2];
  w->b.loc = op->loc;
  for (int k = 0; k < l->ncarries; k++) {
    const Op *leave = &s->l1->ops.items[l->repeat + 1 + (size_t)k];
    if (!lower_want(w, s, leave->in[1], result_layout(w, s, l->repeat + 1 + (size_t)k), stage)) return false;
  }
  if (!(in[0] = lower_want(w, s, op->in[0], layout_replicated(w->m, 0), stage))) return false;
  if (op->nin > 1 && !(in[1] = control(w, s, op->in[1], stage))) return false;
  OpSpec spec = op_spec_of(s->l1, op);
  spec.in = in;
  spec.stage = stage;
  w->b.stage = stage;
  return build_op(&w->b, &spec) != 0;
}
