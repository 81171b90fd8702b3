/* passes/lower/lower.c - SPMD lowering; see lower.h.
 *
 * Every level-1 value has versions at level 2: one per (layout, stage) somebody asked for.  The first is the one its
 * operation produced; the others are converted from it, each once.
 */
#include <string.h>

#include "base/die.h"
#include "ir/body.h"
#include "ir/local.h"
#include "passes/rewrite/agreed.h"
#include "passes/rewrite/derived.h"
#include "passes/lower/internal.h"

static const char *scoped_name(Lowering *w, const Scope *s, const char *name) {
  return s->prefix ? arena_printf(w->m->arena, "%s/%s", s->prefix, name) : name;
}

int lower_stage_of(const Scope *s, size_t op) { return s->stages ? s->stages[op] : s->stage; }

static bool lower_scope(Lowering *w, Scope *s);
static bool lower_op_in(Lowering *w, const Scope *s, size_t index, int stage);

/* ---- versions */

Val lower_find_version(const Scope *s, Val l1, const Layout *layout, int stage) {
  const Versions *v = &s->versions[l1];
  for (size_t i = 0; i < v->n; i++) {
    const Version *x = &v->items[i];
    bool visible = !s->loops || loops_within(s->loops, s->loop, x->loop);
    if (x->layout == layout && x->stage == stage && visible) return x->v;
  }
  return 0;
}

void lower_add_version(Lowering *w, const Scope *s, Val l1, const Layout *layout, int stage, int loop, Val v) {
  ARENA_PUSH(w->m->arena, &s->versions[l1], ((Version){layout, stage, loop, v}));
}

/* Made here. */
static void add_version(Lowering *w, const Scope *s, Val l1, const Layout *layout, int stage, Val v) {
  lower_add_version(w, s, l1, layout, stage, s->loop, v);
}

/* ---- sources: emitted where they are needed */

static const StatePlace *state_place(Lowering *w, const char *name, const Layout *wanted, int stage) {
  for (size_t i = 0; i < w->states.n; i++)
    if (strcmp(w->states.items[i].name, name) == 0) return &w->states.items[i];
  ARENA_PUSH(w->m->arena, &w->states, ((StatePlace){name, wanted, stage}));
  return &w->states.items[w->states.n - 1];
}

static const Layout *source_layout(Lowering *w, const Scope *s, size_t index) {
  const Op *op = &s->l1->ops.items[index];
  const Layout *l = strategy_result(w->m, rule_of(w->m, s->l1, op), &s->strategies[index]);
  return op->kind == OP_read ? state_place(w, op_str(op, AT_name), l, lower_stage_of(s, index))->layout : l;
}

Val lower_source(Lowering *w, const Scope *s, const Op *op, const Layout *layout, int stage) {
  const Type *global = type_of(s->l1, op->out);
  Attr attrs[AT_COUNT];
  OpSpec spec = op_spec_of(s->l1, op);
  spec.nattrs = op_local_attrs(&(LocalPart){w->m, s->l1, op, NULL, layout}, attrs);
  spec.attrs = attrs;
  spec.name = scoped_name(w, s, op->name);
  spec.group = s->prefix ? w->b.group : op->group;
  spec.stage = stage;
  spec.type = layout_local_type(w->m, global, layout);
  spec.layout = op_is_declared(op->kind) ? layout : NULL;
  int saved = w->b.stage;
  w->b.stage = stage;
  Val v = build_op(&w->b, &spec);
  w->b.stage = saved;
  return v;
}

/* ---- conversion of a value to (layout, stage) */

static Val convert(Lowering *w, const Type *global, Val v, const Layout *from, const Layout *to, int stage,
                   const char *what) {
  Conversion c;
  if (!convert_find(w->m, global, from, to, w->cost, w->context, &c)) {
    Text t = {.arena = w->m->arena};
    layout_print(w->m, &t, from);
    text_add(&t, " to ");
    layout_print(w->m, &t, to);
    diag_error(w->b.diags, DIAG_plan_conversion, (Loc){.node = what}, "no way to convert the layout %s", text_str(&t));
    return 0;
  }
  int saved = w->b.stage;
  w->b.stage = stage;
  v = convert_emit(&w->b, v, global, &c);
  w->b.stage = saved;
  return v;
}

/* The result of a transfer lives in the stage it moves to. */
static Val transfer(Lowering *w, Val v, int from, int to) {
  Attr a = attr_i(AT_to_stage, to);
  const char *name = arena_printf(w->m->arena, "%s.to%d", op_of(w->b.f, v)->name, to);
  int saved = w->b.stage;
  w->b.stage = from;
  v = build_op(
      &w->b, &(OpSpec){.kind = OP_transfer, .name = name, .stage = from, .nin = 1, .in = &v, .nattrs = 1, .attrs = &a});
  w->b.stage = saved;
  return v;
}

Val lower_want(Lowering *w, const Scope *s, Val l1, const Layout *layout, int stage) {
  Versions *v = &s->versions[l1];
  const Op *op = op_of(s->l1, l1);
  const Type *global = type_of(s->l1, l1);
  Val have = lower_find_version(s, l1, layout, stage);
  if (have) return have;
  if (op_is_anywhere(op) && !layout->partial_axes) {
    if ((have = lower_source(w, s, op, layout, stage))) add_version(w, s, l1, layout, stage, have);
    return have;
  }
  if (op_is_source(op->kind) && op->kind != OP_read && !s->prefix && !lower_find_version(s, l1, v->produced, stage))
    add_version(w, s, l1, v->produced, stage, lower_source(w, s, op, v->produced, stage));
  size_t index = (size_t)s->l1->values.items[l1].op;
  if (s->derived && s->derived[index] && !op_is_source(op->kind) && !lower_find_version(s, l1, v->produced, stage) &&
      !lower_op_in(w, s, index, stage))
    return 0;
  if ((have = lower_find_version(s, l1, layout, stage))) return have;
  Val here = lower_find_version(s, l1, v->produced, stage);
  if (here) {
    have = convert(w, global, here, v->produced, layout, stage, op->name);
  } else {
    /* From another stage: send whichever form is smaller; sums are resolved before they travel. */
    bool first =
        v->produced->partial_axes || layout_bytes(w->m, global, layout) <= layout_bytes(w->m, global, v->produced);
    const Layout *travel = first ? layout : v->produced;
    Val there = lower_want(w, s, l1, travel, v->stage);
    if (!there) return 0;
    have = transfer(w, there, v->stage, stage);
    if (!first) {
      add_version(w, s, l1, travel, stage, have);
      return lower_want(w, s, l1, layout, stage);
    }
  }
  if (have) add_version(w, s, l1, layout, stage, have);
  return have;
}

/* ---- operations */

/* Brings the interval a cut window needs to this rank (D10). */
static Val exchange_window(Lowering *w, const Scope *s, const Op *op, const Rule *r, const Strategy *st, int factor,
                           int operand, Val v, const Layout *result) {
  const TensorFactors *x = &r->operands[operand];
  const Type *in = type_of(s->l1, op->in[operand]), *out = type_of(s->l1, op->out);
  const Layout *have = strategy_operand(w->m, r, st, operand);
  for (int d = 0; d < x->rank; d++) {
    if (x->dims[d].f[0] != factor) continue;
    const Expr *lo, *hi, *source[2], *target[2], *dims[MAX_RANK];
    int to = 0; /* convolutions may order the result's dimensions in another way */
    while (r->result.dims[to].f[0] != factor) to++;
    layout_interval(w->m, &result->dims[to], out->dims[to], &lo, &hi);
    layout_interval(w->m, &have->dims[d], in->dims[d], &source[0], &source[1]);
    rule_halo_interval(w->m, s->l1, op, operand, d, lo, hi, &target[0], &target[1]);
    const Type *t = type_of(w->b.f, v);
    for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i];
    dims[d] = ex_sub(w->m, target[1], target[0]);
    int64_t axes[MAX_AXES];
    for (int i = 0; i < result->dims[to].n; i++) axes[i] = result->dims[to].axes[i];
    Attr attrs[] = {attr_i(AT_axis, d), attr_ints(w->m, AT_mesh_axes, result->dims[to].n, axes),
                    attr_exprs(w->m, AT_source, 2, source), attr_exprs(w->m, AT_target, 2, target)};
    v = build_op(&w->b, &(OpSpec){.kind = OP_exchange,
                                  .name = arena_printf(w->m->arena, "%s.window", op_of(w->b.f, v)->name),
                                  .stage = w->b.stage,
                                  .nin = 1,
                                  .in = &v,
                                  .nattrs = 4,
                                  .attrs = attrs,
                                  .type = type_get(w->m, t->dtype, t->rank, dims)});
  }
  return v;
}

static Val exchange_windows(Lowering *w, const Scope *s, const Op *op, const Rule *r, const Strategy *st, int operand,
                            Val v, const Layout *result) {
  for (int i = 0; i < st->n && v; i++) {
    int f = st->picks[i].factor;
    bool again = false;
    for (int j = 0; j < i; j++) again |= st->picks[j].factor == f;
    if (!again && r->factors[f].kind == FK_HALO) v = exchange_window(w, s, op, r, st, f, operand, v, result);
  }
  return v;
}

/* A composite whose body factor is cut: its decomposition is lowered in its place. */
static Val lower_body(Lowering *w, const Scope *outer, size_t index, const Rule *r, const Strategy *st, const Val *in,
                      int stage) {
  const Op *op = &outer->l1->ops.items[index];
  const Func *body = body_of(w->m, outer->l1, op);
  Strategy *strategies = ARENA_ARRAY(w->m->arena, Strategy, body->ops.n);
  body_strategies(w->m, outer->l1, op, st, body, strategies);
  Scope s = {
      .l1 = body, .strategies = strategies, .stage = stage, .prefix = scoped_name(w, outer, op->name), .loop = -1};
  s.versions = ARENA_ARRAY(w->m->arena, Versions, body->values.n);
  int operand = 0;
  for (size_t i = 0; i < body->ops.n; i++) {
    const Op *input = &body->ops.items[i];
    if (input->kind != OP_input) continue;
    Versions *v = &s.versions[input->out];
    v->produced = strategy_operand(w->m, r, st, operand);
    v->stage = stage;
    add_version(w, &s, input->out, v->produced, stage, in[operand++]);
  }
  const char *saved = w->b.group;
  w->b.group = outer->prefix ? w->b.group : op->group;
  Val result =
      lower_scope(w, &s) ? lower_want(w, &s, body->outputs.items[0].value, strategy_result(w->m, r, st), stage) : 0;
  w->b.group = saved;
  return result;
}

static bool lower_write(Lowering *w, const Scope *s, const Op *op, const Strategy *st, int stage) {
  const char *name = op_str(op, AT_name);
  const Rule *r = rule_of(w->m, s->l1, op);
  size_t known = w->states.n;
  const StatePlace *place = state_place(w, name, strategy_operand(w->m, r, st, 0), stage);
  const Layout *layout = place->layout;
  if (place->stage != stage)
    return diag_error(w->b.diags, DIAG_plan_state, (Loc){.node = op->name},
                      "state \"%s\" is read in stage %d and written in stage %d", name, place->stage, stage);
  if (w->states.n > known) { /* never read here: a read declares the layout */
    const Type *t = type_of(s->l1, op->in[0]);
    Attr a = attr_s(w->m, AT_name, name);
    if (!build_op(&w->b, &(OpSpec){.kind = OP_read,
                                   .name = name,
                                   .stage = stage,
                                   .nattrs = 1,
                                   .attrs = &a,
                                   .type = layout_local_type(w->m, t, layout),
                                   .layout = layout}))
      return false;
  }
  Val v = lower_want(w, s, op->in[0], layout, stage);
  OpSpec spec = op_spec_of(s->l1, op);
  spec.in = &v;
  spec.stage = stage;
  return v && build_op(&w->b, &spec);
}

/* The operation itself, on local operands. */
Val lower_emit(Lowering *w, const Scope *s, const Op *op, const Val *in, const Layout *const *layouts,
               const Layout *result, int stage) {
  Attr attrs[AT_COUNT];
  OpSpec spec = op_spec_of(s->l1, op);
  spec.name = scoped_name(w, s, op->name);
  spec.group = s->prefix ? w->b.group : op->group;
  spec.stage = stage;
  spec.in = in;
  spec.nattrs = op_local_attrs(&(LocalPart){w->m, s->l1, op, layouts, result}, attrs);
  spec.attrs = attrs;
  spec.type = layout_local_type(w->m, type_of(s->l1, op->out), result);
  return build_op(&w->b, &spec);
}

/* The operation in that stage: its own, or, for a derived one, any that needs it. */
static bool lower_op_in(Lowering *w, const Scope *s, size_t index, int stage) {
  const Op *op = &s->l1->ops.items[index];
  const Strategy *st = &s->strategies[index];
  const Rule *r = rule_of(w->m, s->l1, op);
  const char *why;
  if (!strategy_legal(w->m, r, st, &why)) {
    Text t = {.arena = w->m->arena};
    strategy_print(w->m, &t, r, st);
    return diag_error(w->b.diags, DIAG_plan_strategy, (Loc){.node = op->name}, "strategy %s of %s: %s", text_str(&t),
                      op_name(op->kind), why);
  }
  if (op->kind == OP_call) die("lower_spmd: calls must be inlined first");
  Val in[MAX_OPERANDS];
  const Layout *layouts[MAX_OPERANDS];
  w->b.stage = stage;
  w->b.loc = op->loc;
  if (op->kind == OP_write) return lower_write(w, s, op, st, stage);
  for (int i = 0; i < op->nin; i++) {
    layouts[i] = strategy_operand(w->m, r, st, i);
    in[i] = lower_want(w, s, op->in[i], layouts[i], stage);
    if (!in[i]) return false;
  }
  const Layout *result = strategy_result(w->m, r, st);
  w->b.stage = stage;
  w->b.loc = op->loc;
  Val v;
  if (strategy_needs_body(r, st)) {
    v = lower_body(w, s, index, r, st, in, stage);
  } else {
    for (int i = 0; i < op->nin; i++)
      if (!(in[i] = exchange_windows(w, s, op, r, st, i, in[i], result))) return false;
    v = lower_emit(w, s, op, in, layouts, result, stage);
  }
  Versions *out = &s->versions[op->out];
  if (!out->n) {
    out->produced = result;
    out->stage = stage;
  }
  /* A derived one that another stage computes for itself stands where it is asked for. */
  int loop = s->loops && stage == lower_stage_of(s, index) ? s->loops->of[index] : s->loop;
  if (v) lower_add_version(w, s, op->out, result, stage, loop, v);
  return v != 0;
}

bool lower_place_source(Lowering *w, const Scope *s, size_t index) {
  const Op *op = &s->l1->ops.items[index];
  Versions *v = &s->versions[op->out];
  if (v->produced) return true;
  v->produced = source_layout(w, s, index);
  v->stage = lower_stage_of(s, index);
  w->b.loc = op->loc;
  /* Inputs and reads exist even when nobody uses them; the rest of the sources waits for a user. */
  if (!s->prefix && !op_is_at_entry(op->kind)) return true;
  Val made = lower_source(w, s, op, v->produced, v->stage);
  add_version(w, s, op->out, v->produced, v->stage, made);
  return made != 0;
}

static bool lower_one(Lowering *w, Scope *s, size_t index) {
  OpKind kind = s->l1->ops.items[index].kind;
  if (op_is_source(kind)) return lower_place_source(w, s, index);
  if (kind == OP_loop) return lower_loop(w, s, index);
  return kind == OP_repeat ? lower_repeat(w, s, index) : lower_op_in(w, s, index, lower_stage_of(s, index));
}

static bool lower_scope(Lowering *w, Scope *s) {
  for (size_t i = 0; i < s->l1->ops.n; i++) {
    if (s->loops) s->loop = loops_reads_in(s->loops, s->l1, i);
    if (!lower_one(w, s, i)) return false;
  }
  s->loop = -1;
  return true;
}

static bool lower_output(Lowering *w, const Scope *s, const Output *o) {
  Versions *v = &s->versions[o->value];
  Layout whole = *v->produced;
  whole.partial_axes = 0;
  const Layout *layout = layout_get(w->m, &whole);
  Val val = lower_want(w, s, o->value, layout, v->stage);
  if (val) build_output(&w->b, o->name, val, layout);
  return val != 0;
}

Func *lower_spmd(Module *m, const Func *l1, const LowerPlan *plan, const char *name, Diags *diags) {
  Func *f = module_func_add(m, name, 2);
  Lowering w = {.m = m,
                .b = builder_new(m, f, diags),
                .cost = plan->cost ? plan->cost : move_cost_bytes,
                .context = plan->cost_context};
  Loops loops = loops_of(m->arena, l1);
  Scope s = {.l1 = l1,
             .strategies = plan->strategies,
             .stages = plan->stages,
             .versions = ARENA_ARRAY(m->arena, Versions, l1->values.n),
             .derived = derived_ops(m->arena, l1),
             .loops = &loops,
             .agreed = agreed_values(m->arena, l1),
             .loop = -1};
  if (!lower_scope(&w, &s)) return NULL;
  for (size_t i = 0; i < l1->outputs.n; i++)
    if (!lower_output(&w, &s, &l1->outputs.items[i])) return NULL;
  return f;
}
