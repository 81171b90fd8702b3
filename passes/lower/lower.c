/* passes/lower/lower.c - SPMD lowering; see lower.h.
 *
 * The walk (walk.h) decides what is made, where and from which values; this file builds it on local types.
 */
#include <string.h>

#include "ir/layout/local.h"
#include "passes/lower/internal.h"
#include "passes/facts/labels.h"
#include "passes/facts/agreed.h"
#include "passes/facts/derived.h"

static const char *scoped_name(Lowering *w, const WalkScope *s, const char *name) {
  return s->prefix ? arena_printf(w->m->arena, "%s/%s", s->prefix, name) : name;
}

/* Operations built next belong to the walk's current operation. */
static void build_in(Lowering *w, int stage) {
  w->b.stage = stage;
  w->b.phase = w->walk.phase;
  w->b.loc = w->walk.at->loc;
}

/* Records the step of the operations built since the last one; `step` 0: they are sources. */
static Val built(Lowering *w, size_t step, Val v) {
  LowerSteps *all = w->steps;
  for (size_t part = 0; all && all->n < w->b.f->ops.n; part++) ARENA_PUSH(w->m->arena, all, ((LowerStep){step, part}));
  return v;
}

/* ---- sources */

Val lower_source(Lowering *w, const WalkScope *s, const Op *op, const Layout *layout, int stage) {
  const Type *global = type_of(s->f, op->out);
  Attr attrs[AT_COUNT];
  OpSpec spec = op_spec_of(s->f, op);
  spec.phase = w->b.phase;
  spec.nattrs = op_local_attrs(&(LocalPart){w->m, s->f, op, NULL, layout}, attrs);
  spec.attrs = attrs;
  spec.name = scoped_name(w, s, op->name);
  spec.group = s->prefix ? w->b.group : op->group;
  spec.stage = stage;
  spec.mirror = (Mirror){0};
  spec.type = layout_local_type(w->m, global, layout);
  spec.layout = op_is_declared(op->kind) ? layout : NULL;
  int saved = w->b.stage;
  w->b.stage = stage;
  Val v = build_op(&w->b, &spec);
  w->b.stage = saved;
  return v;
}

/* Emits the read that declares the layout of a state which is only written. */
static Val declare_state(Lowering *w, const WalkScope *s, const Op *write, const Layout *layout, int stage) {
  const char *name = op_str(write, AT_name);
  Attr a = attr_s(w->m, AT_name, name);
  return build_op(&w->b, &(OpSpec){.kind = OP_read,
                                   .name = name,
                                   .stage = stage,
                                   .nattrs = 1,
                                   .attrs = &a,
                                   .type = layout_local_type(w->m, type_of(s->f, write->in[0]), layout),
                                   .layout = layout});
}

static Val emit_source(Walk *walk, const WalkScope *s, const Op *op, const Layout *layout, int stage, bool declares) {
  Lowering *w = (Lowering *)walk;
  build_in(w, stage);
  return built(w, 0, (declares ? declare_state : lower_source)(w, s, op, layout, stage));
}

/* ---- conversion of a value to (layout, stage) */

static Val emit_convert(Walk *walk, const WalkScope *s, Val value, Val v, const Layout *from, const Layout *to,
                        int stage) {
  Lowering *w = (Lowering *)walk;
  Conversion c;
  const Type *global = type_of(s->f, value);
  build_in(w, stage);
  if (convert_find(w->m, global, from, to, w->cost, w->context, &c))
    return built(w, walk->step, convert_emit(&w->b, v, global, &c));
  Text t = {.arena = w->m->arena};
  layout_print(w->m, &t, from);
  text_add(&t, " to ");
  layout_print(w->m, &t, to);
  diag_error(w->b.diags, DIAG_plan_conversion, (Loc){.node = name_of(s->f, value)}, "no way to convert the layout %s",
             text_str(&t));
  return 0;
}

static Val emit_agreement(Walk *walk, const WalkScope *s, Val value, Val v, int stage) {
  Lowering *w = (Lowering *)walk;
  Conversion c;
  const Type *t = type_of(s->f, value);
  build_in(w, stage);
  if (!agreement_find(w->m, t, w->cost, w->context, &c)) return v;
  return built(w, walk->step, convert_emit(&w->b, v, t, &c));
}

/* The result of a transfer lives in the stage that receives it. */
static Val emit_transfer(Walk *walk, const WalkScope *s, Val value, Val v, const Layout *layout, int from, int to) {
  Lowering *w = (Lowering *)walk;
  Attr a = attr_i(AT_to_stage, to);
  const char *name = arena_printf(w->m->arena, "%s.to%d", name_of(w->b.f, v), to);
  (void)s, (void)value, (void)layout;
  build_in(w, from);
  const OpSpec spec = {.kind = OP_transfer, .name = name, .stage = from, .nin = 1, .in = &v, .nattrs = 1, .attrs = &a};
  return built(w, walk->step, build_op(&w->b, &spec));
}

/* ---- operations */

/* Brings the interval that a split window needs to this rank (D10). */
static Val emit_exchange(Walk *walk, const WalkScope *s, size_t index, int operand, const WalkWindow *window, Val v,
                         int stage) {
  Lowering *w = (Lowering *)walk;
  const Op *op = &s->f->ops.items[index];
  const Rule *r = s->rules[index];
  const Strategy *st = &s->strategies[index];
  const Type *in = type_of(s->f, op->in[operand]), *out = type_of(s->f, op->out), *t = type_of(w->b.f, v);
  const Layout *have = strategy_operand(w->m, r, st, operand), *result = strategy_result(w->m, r, st, 0);
  const Expr *lo, *hi, *source[2], *target[2], *dims[MAX_RANK];
  int d = window->dim, to = 0; /* convolutions may order the result's dimensions differently */
  while (r->results[0].dims[to].f[0] != window->factor) to++;
  build_in(w, stage);
  layout_interval(w->m, &result->dims[to], out->dims[to], &lo, &hi);
  layout_interval(w->m, &have->dims[d], in->dims[d], &source[0], &source[1]);
  rule_halo_interval(w->m, s->f, op, operand, d, lo, hi, &target[0], &target[1]);
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i];
  dims[d] = ex_sub(w->m, target[1], target[0]);
  int64_t axes[MAX_AXES];
  for (int i = 0; i < result->dims[to].n; i++) axes[i] = result->dims[to].axes[i];
  Attr attrs[] = {attr_i(AT_axis, d), attr_ints(w->m, AT_mesh_axes, result->dims[to].n, axes),
                  attr_exprs(w->m, AT_source, 2, source), attr_exprs(w->m, AT_target, 2, target)};
  const OpSpec spec = {.kind = OP_exchange,
                       .name = arena_printf(w->m->arena, "%s.window", name_of(w->b.f, v)),
                       .stage = stage,
                       .nin = 1,
                       .in = &v,
                       .nattrs = 4,
                       .attrs = attrs,
                       .type = type_get(w->m, t->dtype, t->rank, dims)};
  return built(w, walk->step, build_op(&w->b, &spec));
}

/* Emits the operation itself, on local operands. */
Val lower_emit(Lowering *w, const WalkScope *s, const Op *op, const Val *in, const Layout *const *layouts,
               const Layout *result, int stage) {
  Attr attrs[AT_COUNT];
  OpSpec spec = op_spec_of(s->f, op);
  spec.phase = w->b.phase;
  spec.name = scoped_name(w, s, op->name);
  if (s->prefix) spec.names = NULL;
  spec.again = w->walk.again;
  spec.group = s->prefix ? w->b.group : op->group;
  spec.stage = stage;
  spec.mirror = (Mirror){0};
  spec.in = in;
  spec.nattrs = op_local_attrs(&(LocalPart){w->m, s->f, op, layouts, result}, attrs);
  spec.attrs = attrs;
  if (op->out) spec.type = layout_local_type(w->m, type_of(s->f, op->out), result);
  return build_op(&w->b, &spec);
}

static Val emit_operation(Walk *walk, const WalkScope *s, size_t index, const Val *in, int stage) {
  Lowering *w = (Lowering *)walk;
  const Op *op = &s->f->ops.items[index];
  const Rule *r = s->rules[index];
  const Strategy *st = &s->strategies[index];
  const Layout *layouts[MAX_OPERANDS];
  build_in(w, stage);
  if (op->kind == OP_loop || op->kind == OP_repeat || op->kind == OP_bind || op->kind == OP_write) {
    OpSpec spec = op_spec_of(s->f, op);
    spec.phase = w->b.phase;
    spec.in = in;
    spec.stage = stage;
    spec.mirror = (Mirror){0};
    return built(w, walk->step, build_op(&w->b, &spec));
  }
  for (int i = 0; i < op->nin; i++) layouts[i] = strategy_operand(w->m, r, st, i);
  const Layout *result = op->out ? strategy_result(w->m, r, st, 0) : NULL;
  return built(w, walk->step, lower_emit(w, s, op, in, layouts, result, stage));
}

static void emit_output(Walk *walk, const WalkScope *s, const Output *o, Val v, const Layout *layout) {
  Lowering *w = (Lowering *)walk;
  (void)s;
  build_output(&w->b, o->name, v, layout);
}

/* ---- decompositions: their operations are named after the composite and belong to its group */

static Body *open_body(Walk *walk, const WalkScope *s, const Op *composite) {
  return body_open(walk->m, s->f, composite);
}

static void enter_body(Walk *walk, WalkScope *body, const Val *in) {
  Lowering *w = (Lowering *)walk;
  (void)in;
  body->prefix = scoped_name(w, body->from, body->composite->name);
  body->outer_group = w->b.group;
  w->b.group = body->from->prefix ? w->b.group : body->composite->group;
}

static void leave_body(Walk *walk, WalkScope *body, Body *known, Val *results) {
  Lowering *w = (Lowering *)walk;
  (void)results;
  w->b.group = body->outer_group;
  body_close(known);
}

static const WalkSink sink = {.source = emit_source,
                              .convert = emit_convert,
                              .agree = emit_agreement,
                              .transfer = emit_transfer,
                              .exchange = emit_exchange,
                              .operation = emit_operation,
                              .output = emit_output,
                              .open = open_body,
                              .enter = enter_body,
                              .leave = leave_body};

Func *lower_spmd(Module *m, const Func *l1, const LowerPlan *plan, const char *name, Diags *diags) {
  Func *f = module_func_add(m, name, 2);
  Lowering w = {.walk = {.m = m, .arena = m->arena, .sink = &sink, .diags = diags},
                .m = m,
                .b = builder_new(m, f, diags),
                .cost = plan->cost ? plan->cost : move_cost_bytes,
                .context = plan->cost_context,
                .steps = plan->steps};
  Loops loops = loops_of(m->arena, l1);
  WalkScope s = {.f = l1,
                 .rules = rules_of(m, l1),
                 .strategies = plan->strategies,
                 .stages = plan->stages,
                 .derived = derived_ops(m->arena, l1),
                 .once = once_ops(m->arena, l1),
                 .loops = &loops,
                 .agreed = agreed_values(m->arena, l1),
                 .loop = -1};
  return walk_function(&w.walk, &s) ? f : NULL;
}
