/* passes/lower/walk_loop.c - loops in the walk: values that enter a body are made before it, next values of carries at
 * its end; see walk.h. */
#include "passes/lower/walk_internal.h"
#include "passes/facts/agreed.h"

static bool check_stage(Walk *w, const WalkScope *s, const Loop *l) {
  for (size_t i = l->begin; i < l->end; i++) {
    const Op *op = &s->f->ops.items[i];
    bool outside = !op_is_source(op->kind) && walk_stage(s, i) != walk_stage(s, l->begin);
    if (outside)
      return diag_error(w->diags, DIAG_plan_model, (Loc){.node = op->name},
                        "a loop lies in one stage, \"%s\" in another than \"%s\"", op->name,
                        s->f->ops.items[l->begin].name);
  }
  return true;
}

static bool check_carries(Walk *w, const WalkScope *s, const Loop *l) {
  for (int k = 0; k < l->ncarries; k++) {
    size_t carry = l->begin + 1 + (size_t)k, leave = l->repeat + 1 + (size_t)k;
    if (walk_produced(w, s, carry, 0) == walk_produced(w, s, leave, 0)) continue;
    const char *name = s->f->ops.items[leave].name;
    return diag_error(w->diags, DIAG_plan_strategy, (Loc){.node = name},
                      "\"%s\" has another layout than \"%s\", which becomes it", name, s->f->ops.items[carry].name);
  }
  return true;
}

/* ---- entering values */

/* Returns the loop that makes the value anew in each round; -1 if none.  Sources are always made outside. */
static int made_in(const WalkScope *s, Val v) {
  size_t op = (size_t)s->f->values.items[v].op;
  return op_is_source(s->f->ops.items[op].kind) ? -1 : s->loops->of[op];
}

/* True if the operation's version of the value is made before the loop. */
static bool enters(const WalkScope *s, const Loop *l, int loop, size_t index, Val v, const Layout *layout) {
  if (loops_within(s->loops, made_in(s, v), loop)) return false;
  bool first = index <= l->begin + (size_t)l->ncarries; /* no operation may come between a loop and its carries */
  const Op *maker = op_of(s->f, v);
  return first || !op_is_anywhere(maker) || maker->kind == OP_random || layout->partial_axes;
}

static bool enter_op(Walk *w, const WalkScope *s, const Loop *l, int loop, size_t index) {
  const Op *op = &s->f->ops.items[index];
  /* An illegal strategy is reported when the operation is made. */
  if (w->diags && !strategy_legal(&w->m->mesh, s->rules[index], &s->strategies[index], NULL)) return true;
  w->reader = op;
  for (int k = 0; k < op->nin; k++) {
    const Layout *layout = walk_operand(w, s, index, k);
    if (enters(s, l, loop, index, op->in[k], layout) && !walk_want(w, s, op->in[k], layout, walk_stage(s, index)))
      return false;
  }
  return true;
}

/* Makes the controlling scalar, equal on every rank. */
static Val control(Walk *w, const WalkScope *s, Val value, int stage) {
  Val v = walk_want(w, s, value, layout_replicated(w->m, 0), stage);
  w->phase = PH_fwd;
  return v && !s->agreed[value] ? walk_step(w)->agree(w, s, value, v, stage) : v;
}

bool walk_loop(Walk *w, WalkScope *s, size_t index) {
  int loop = s->loops->of[index], stage = walk_stage(s, index);
  const Loop *l = &s->loops->items[loop];
  const Op *op = &s->f->ops.items[index];
  if (w->diags && !(check_stage(w, s, l) && check_carries(w, s, l))) return false;
  for (size_t i = l->begin; i < l->end; i++)
    if (op_is_source(s->f->ops.items[i].kind) && !walk_place(w, s, i)) return false;
  for (size_t i = l->begin; i < l->end; i++)
    if (!enter_op(w, s, l, loop, i)) return false;
  w->reader = op;
  Val count = control(w, s, op->in[0], stage);
  w->phase = PH_fwd;
  Val round = count ? walk_step(w)->operation(w, s, index, &count, stage) : 0;
  Versions *v = &s->versions[op->out];
  v->produced = layout_replicated(w->m, 0);
  v->stage = stage;
  if (round) walk_add(w, s, op->out, v->produced, stage, loop, round);
  return round != 0;
}

/* A bind reads its size as a loop its rounds. */
bool walk_bind(Walk *w, WalkScope *s, size_t index) {
  int stage = walk_stage(s, index);
  const Op *op = &s->f->ops.items[index];
  w->at = w->reader = op;
  Val size = control(w, s, op->in[0], stage);
  w->phase = PH_fwd;
  Val v = size ? walk_step(w)->operation(w, s, index, &size, stage) : 0;
  if (v) walk_add_result(w, s, index, 0, stage, v);
  return v != 0;
}

/* ---- carried values */

bool walk_repeat(Walk *w, WalkScope *s, size_t index) {
  int loop = s->loops->of[index], stage = walk_stage(s, index);
  const Loop *l = &s->loops->items[loop];
  const Op *op = &s->f->ops.items[index];
  Val in[2];
  w->at = op;
  for (int k = 0; k < l->ncarries; k++) {
    size_t leave = l->repeat + 1 + (size_t)k;
    if (!walk_want(w, s, s->f->ops.items[leave].in[1], walk_produced(w, s, leave, 0), stage)) return false;
  }
  if (!(in[0] = walk_want(w, s, op->in[0], layout_replicated(w->m, 0), stage))) return false;
  if (op->nin > 1 && !(in[1] = control(w, s, op->in[1], stage))) return false;
  w->phase = PH_fwd;
  return walk_step(w)->operation(w, s, index, in, stage) != 0;
}
