/* passes/lower.c - SPMD lowering; see lower.h.
 *
 * Every level-1 value has versions at level 2: one per (layout, stage) somebody asked for.  The first is the one its
 * operation produced; the others are converted from it, each once.
 */
#include "passes/lower.h"

#include <string.h>

#include "base/die.h"
#include "ir/body.h"
#include "ir/window.h"
#include "passes/derived.h"

typedef struct Version {
  const Layout *layout;
  int stage;
  Val v;
} Version;

typedef struct Versions {
  Version *items;
  size_t n, cap;
  const Layout *produced; /* layout and stage of the original; items[0] once it exists */
  int stage;
} Versions;

/* One function being lowered: the whole one, or the body of a composite inside it. */
typedef struct Scope {
  const Func *l1;
  const Strategy *strategies;
  const int *stages;   /* NULL: `stage` for all */
  int stage;
  Versions *versions;  /* by level-1 value */
  const char *prefix;  /* of names, NULL at the top */
  const bool *derived; /* by operation, NULL in bodies: every stage computes it for itself */
} Scope;

/* Where a state is kept: as its first read says, or its write when it is never read. */
typedef struct StatePlace {
  const char *name;
  const Layout *layout;
  int stage;
} StatePlace;

typedef struct Lowering {
  Module *m;
  Builder b;
  MoveCost cost;
  void *context;
  struct { StatePlace *items; size_t n, cap; } states;
} Lowering;

static bool is_source(OpKind k) {
  return k == OP_input || k == OP_param || k == OP_read || k == OP_const || k == OP_size || k == OP_iota || k == OP_random;
}

/* Made in any layout where it is needed, without communication. */
static bool is_anywhere(const Op *op) {
  return op->kind == OP_size || op->kind == OP_iota || op->kind == OP_random || (op->kind == OP_const && op_attr(op, AT_value));
}

static const char *scoped_name(Lowering *w, const Scope *s, const char *name) {
  return s->prefix ? arena_printf(w->m->arena, "%s/%s", s->prefix, name) : name;
}

static int stage_of(const Scope *s, size_t op) { return s->stages ? s->stages[op] : s->stage; }

static bool lower_scope(Lowering *w, Scope *s);
static bool lower_op_in(Lowering *w, const Scope *s, size_t index, int stage);

/* ---- versions */

static Val find_version(const Versions *v, const Layout *layout, int stage) {
  for (size_t i = 0; i < v->n; i++)
    if (v->items[i].layout == layout && v->items[i].stage == stage) return v->items[i].v;
  return 0;
}

static void add_version(Lowering *w, Versions *v, const Layout *layout, int stage, Val val) {
  ARENA_PUSH(w->m->arena, v, ((Version){layout, stage, val}));
}

/* ---- local attributes: the places of this rank's part */

static const Expr *lower_bound(Lowering *w, const Layout *l, int dim, const Expr *extent) {
  const Expr *lo, *hi;
  layout_interval(w->m, &l->dims[dim], extent, &lo, &hi);
  return lo;
}

/* Pad of a cut dimension: what of the padding lies inside the result interval [lo, hi). */
static void local_pad(Lowering *w, const Type *x, const Op *op, const Type *y, const Layout *l, int d, const Expr **low, const Expr **high) {
  const Expr *lo, *hi, *ilo, *ihi;
  Module *m = w->m;
  layout_interval(m, &l->dims[d], y->dims[d], &lo, &hi);
  const Expr *shift = op_attr(op, AT_low)->u.exprs[d];
  ilo = ex_min(m, ex_max(m, ex_sub(m, lo, shift), ex_const(m, 0)), x->dims[d]);
  ihi = ex_min(m, ex_max(m, ex_sub(m, hi, shift), ex_const(m, 0)), x->dims[d]);
  *low = ex_max(m, ex_min(m, ex_sub(m, shift, lo), ex_sub(m, hi, lo)), ex_const(m, 0));
  *high = ex_sub(m, ex_sub(m, ex_sub(m, hi, lo), *low), ex_sub(m, ihi, ilo));
}

/* Where the first local window begins in the part of the operand that the exchange has moved here. */
static const Expr *local_window(Lowering *w, const Func *f, const Op *op, int i, const Layout *result) {
  Window g = window_of(f, op);
  bool transposed = op->kind == OP_conv_transpose;
  int role = transposed ? WINDOW_IMAGE : WINDOW_OUTPUT, dim = g.dim[role][i];
  const Expr *lo, *hi, *held, *ignored, *start = g.start[i];
  if (op->kind == OP_conv_filter || !result->dims[dim].n) return start;
  layout_interval(w->m, &result->dims[dim], g.extent[role][i], &lo, &hi);
  if (transposed) {
    window_output_of(w->m, &g, i, lo, hi, &held, &ignored);
    return ex_sub(w->m, ex_add(w->m, start, ex_muli(w->m, held, g.stride[i])), lo);
  }
  window_image_of(w->m, &g, i, lo, hi, &held, &ignored);
  return ex_sub(w->m, ex_add(w->m, start, ex_muli(w->m, lo, g.stride[i])), held);
}

/* The attributes of the operation on its local part.  `out` has room for op->nattrs. */
static void local_attrs(Lowering *w, const Func *f, const Op *op, const Layout *const *in, const Layout *result, Attr *out) {
  if (op->nattrs) memcpy(out, op->attrs, sizeof(Attr) * (size_t)op->nattrs);
  const Type *y = op->out ? type_of(f, op->out) : NULL;
  const Type *x = op->nin ? type_of(f, op->in[0]) : NULL;
  int axis = (int)op_int(op, AT_axis, 0);
  for (int i = 0; i < op->nattrs; i++) {
    const Expr *list[MAX_RANK];
    Attr *a = &out[i];
    if (a->key == AT_start) {
      bool of_result = op->kind == OP_iota || op->kind == OP_scatter || op->kind == OP_put;
      a->u.e = lower_bound(w, of_result ? result : in[0], axis, (of_result ? y : x)->dims[axis]);
    } else if (a->key == AT_starts) {
      for (int d = 0; d < a->n; d++) {
        if (op_is_windowed(op->kind)) {
          list[d] = local_window(w, f, op, d, result);
          continue;
        }
        bool cut = result->dims[d].n > 0;
        if (op->kind == OP_random) list[d] = lower_bound(w, result, d, y->dims[d]);
        else list[d] = cut ? ex_const(w->m, 0) : a->u.exprs[d]; /* slice: the exchange has moved the window here */
      }
      *a = attr_exprs(w->m, AT_starts, a->n, list);
    } else if (a->key == AT_low || a->key == AT_high) {
      for (int d = 0; d < a->n; d++) {
        const Expr *low, *high;
        list[d] = a->u.exprs[d];
        bool padded = !ex_is_const(op_attr(op, AT_low)->u.exprs[d], 0) || !ex_is_const(op_attr(op, AT_high)->u.exprs[d], 0);
        if (!result->dims[d].n || !padded) continue;
        local_pad(w, x, op, y, result, d, &low, &high);
        list[d] = a->key == AT_low ? low : high;
      }
      *a = attr_exprs(w->m, a->key, a->n, list);
    }
  }
}

/* Where the part of a float sum begins in each reduced dimension: its order is by global index (D33).  True when some dimension is cut. */
static bool reduce_starts(Lowering *w, const Func *f, const Op *op, const Layout *in, Attr *out) {
  const Type *x = type_of(f, op->in[0]);
  const Attr *axes = op_attr(op, AT_axes);
  const Expr *list[MAX_RANK];
  bool cut = false;
  if (!reduction_is_ordered(op_attr(op, AT_op)->u.reduction, x->dtype)) return false;
  for (int i = 0; i < axes->n; i++) {
    int d = (int)axes->u.ints[i];
    list[i] = lower_bound(w, in, d, x->dims[d]);
    cut |= in->dims[d].n > 0;
  }
  if (cut) *out = attr_exprs(w->m, AT_starts, axes->n, list);
  return cut;
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
  return op->kind == OP_read ? state_place(w, op_str(op, AT_name), l, stage_of(s, index))->layout : l;
}

static Val emit_source(Lowering *w, const Scope *s, const Op *op, const Layout *layout, int stage) {
  const Type *global = type_of(s->l1, op->out);
  Attr attrs[AT_COUNT];
  OpSpec spec = op_spec_of(s->l1, op);
  local_attrs(w, s->l1, op, NULL, layout, attrs);
  spec.attrs = attrs;
  spec.name = scoped_name(w, s, op->name);
  spec.group = s->prefix ? w->b.group : op->group;
  spec.stage = stage;
  spec.type = layout_local_type(w->m, global, layout);
  bool declares = op->kind == OP_input || op->kind == OP_param || op->kind == OP_read;
  spec.layout = declares ? layout : NULL;
  int saved = w->b.stage;
  w->b.stage = stage;
  Val v = build_op(&w->b, &spec);
  w->b.stage = saved;
  return v;
}

/* ---- conversion of a value to (layout, stage) */

static Val convert(Lowering *w, const Type *global, Val v, const Layout *from, const Layout *to, int stage, const char *what) {
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
  v = build_op(&w->b, &(OpSpec){.kind = OP_transfer, .name = name, .stage = from, .nin = 1, .in = &v, .nattrs = 1, .attrs = &a});
  w->b.stage = saved;
  return v;
}

static Val want(Lowering *w, const Scope *s, Val l1, const Layout *layout, int stage) {
  Versions *v = &s->versions[l1];
  const Op *op = op_of(s->l1, l1);
  const Type *global = type_of(s->l1, l1);
  Val have = find_version(v, layout, stage);
  if (have) return have;
  if (is_anywhere(op) && !layout->partial_axes) {
    if ((have = emit_source(w, s, op, layout, stage))) add_version(w, v, layout, stage, have);
    return have;
  }
  if (is_source(op->kind) && op->kind != OP_read && !s->prefix && !find_version(v, v->produced, stage))
    add_version(w, v, v->produced, stage, emit_source(w, s, op, v->produced, stage));
  size_t index = (size_t)s->l1->values.items[l1].op;
  if (s->derived && s->derived[index] && !is_source(op->kind) && !find_version(v, v->produced, stage) && !lower_op_in(w, s, index, stage)) return 0;
  if ((have = find_version(v, layout, stage))) return have;
  Val here = find_version(v, v->produced, stage);
  if (here) {
    have = convert(w, global, here, v->produced, layout, stage, op->name);
  } else {
    /* From another stage: send whichever form is smaller; sums are resolved before they travel. */
    bool first = v->produced->partial_axes || layout_bytes(w->m, global, layout) <= layout_bytes(w->m, global, v->produced);
    const Layout *travel = first ? layout : v->produced;
    Val there = want(w, s, l1, travel, v->stage);
    if (!there) return 0;
    have = transfer(w, there, v->stage, stage);
    if (!first) {
      add_version(w, v, travel, stage, have);
      return want(w, s, l1, layout, stage);
    }
  }
  if (have) add_version(w, v, layout, stage, have);
  return have;
}

/* ---- operations */

/* Brings the interval a cut window needs to this rank (D10). */
static Val exchange_window(Lowering *w, const Scope *s, const Op *op, const Rule *r, const Strategy *st, int factor, int operand, Val v,
                           const Layout *result) {
  const TensorFactors *x = &r->operands[operand];
  const Type *in = type_of(s->l1, op->in[operand]), *out = type_of(s->l1, op->out);
  const Layout *have = strategy_operand(w->m, r, st, operand);
  for (int d = 0; d < x->rank; d++) {
    if (x->dims[d].f[0] != factor) continue;
    const Expr *lo, *hi, *source[2], *target[2], *dims[MAX_RANK];
    layout_interval(w->m, &result->dims[d], out->dims[d], &lo, &hi);
    layout_interval(w->m, &have->dims[d], in->dims[d], &source[0], &source[1]);
    rule_halo_interval(w->m, s->l1, op, operand, d, lo, hi, &target[0], &target[1]);
    const Type *t = type_of(w->b.f, v);
    for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i];
    dims[d] = ex_sub(w->m, target[1], target[0]);
    int64_t axes[MAX_AXES];
    for (int i = 0; i < result->dims[d].n; i++) axes[i] = result->dims[d].axes[i];
    Attr attrs[] = {attr_i(AT_axis, d), attr_ints(w->m, AT_mesh_axes, result->dims[d].n, axes), attr_exprs(w->m, AT_source, 2, source),
                    attr_exprs(w->m, AT_target, 2, target)};
    v = build_op(&w->b, &(OpSpec){.kind = OP_exchange, .name = arena_printf(w->m->arena, "%s.window", op_of(w->b.f, v)->name), .stage = w->b.stage,
                                  .nin = 1, .in = &v, .nattrs = 4, .attrs = attrs, .type = type_get(w->m, t->dtype, t->rank, dims)});
  }
  return v;
}

static Val exchange_windows(Lowering *w, const Scope *s, const Op *op, const Rule *r, const Strategy *st, int operand, Val v, const Layout *result) {
  for (int i = 0; i < st->n && v; i++) {
    int f = st->picks[i].factor;
    bool again = false;
    for (int j = 0; j < i; j++) again |= st->picks[j].factor == f;
    if (!again && r->factors[f].kind == FK_HALO) v = exchange_window(w, s, op, r, st, f, operand, v, result);
  }
  return v;
}

/* A composite whose body factor is cut: its decomposition is lowered in its place. */
static Val lower_body(Lowering *w, const Scope *outer, size_t index, const Rule *r, const Strategy *st, const Val *in, int stage) {
  const Op *op = &outer->l1->ops.items[index];
  const Func *body = body_of(w->m, outer->l1, op);
  Strategy *strategies = ARENA_ARRAY(w->m->arena, Strategy, body->ops.n);
  body_strategies(w->m, outer->l1, op, st, body, strategies);
  Scope s = {.l1 = body, .strategies = strategies, .stage = stage, .prefix = scoped_name(w, outer, op->name)};
  s.versions = ARENA_ARRAY(w->m->arena, Versions, body->values.n);
  int operand = 0;
  for (size_t i = 0; i < body->ops.n; i++) {
    const Op *input = &body->ops.items[i];
    if (input->kind != OP_input) continue;
    Versions *v = &s.versions[input->out];
    v->produced = strategy_operand(w->m, r, st, operand);
    v->stage = stage;
    add_version(w, v, v->produced, stage, in[operand++]);
  }
  const char *saved = w->b.group;
  w->b.group = outer->prefix ? w->b.group : op->group;
  Val result = lower_scope(w, &s) ? want(w, &s, body->outputs.items[0].value, strategy_result(w->m, r, st), stage) : 0;
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
    return diag_error(w->b.diags, DIAG_plan_state, (Loc){.node = op->name}, "state \"%s\" is read in stage %d and written in stage %d", name,
                      place->stage, stage);
  if (w->states.n > known) { /* never read here: a read declares the layout */
    const Type *t = type_of(s->l1, op->in[0]);
    Attr a = attr_s(w->m, AT_name, name);
    if (!build_op(&w->b, &(OpSpec){.kind = OP_read, .name = name, .stage = stage, .nattrs = 1, .attrs = &a,
                                   .type = layout_local_type(w->m, t, layout), .layout = layout}))
      return false;
  }
  Val v = want(w, s, op->in[0], layout, stage);
  OpSpec spec = op_spec_of(s->l1, op);
  spec.in = &v;
  spec.stage = stage;
  return v && build_op(&w->b, &spec);
}

/* The operation itself, on local operands. */
static Val emit_op(Lowering *w, const Scope *s, const Op *op, const Val *in, const Layout *const *layouts, const Layout *result, int stage) {
  Attr attrs[AT_COUNT];
  local_attrs(w, s->l1, op, layouts, result, attrs);
  OpSpec spec = op_spec_of(s->l1, op);
  spec.name = scoped_name(w, s, op->name);
  spec.group = s->prefix ? w->b.group : op->group;
  spec.stage = stage;
  spec.in = in;
  spec.attrs = attrs;
  if (op->kind == OP_reduce) spec.nattrs += reduce_starts(w, s->l1, op, layouts[0], &attrs[op->nattrs]);
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
    return diag_error(w->b.diags, DIAG_plan_strategy, (Loc){.node = op->name}, "strategy %s of %s: %s", text_str(&t), op_name(op->kind), why);
  }
  if (op->kind == OP_call) die("lower_spmd: calls must be inlined first");
  Val in[MAX_OPERANDS];
  const Layout *layouts[MAX_OPERANDS];
  w->b.stage = stage;
  w->b.loc = op->loc;
  if (op->kind == OP_write) return lower_write(w, s, op, st, stage);
  for (int i = 0; i < op->nin; i++) {
    layouts[i] = strategy_operand(w->m, r, st, i);
    in[i] = want(w, s, op->in[i], layouts[i], stage);
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
    v = emit_op(w, s, op, in, layouts, result, stage);
  }
  Versions *out = &s->versions[op->out];
  if (!out->n) {
    out->produced = result;
    out->stage = stage;
  }
  if (v) add_version(w, out, result, stage, v);
  return v != 0;
}

static bool lower_scope(Lowering *w, Scope *s) {
  for (size_t i = 0; i < s->l1->ops.n; i++) {
    const Op *op = &s->l1->ops.items[i];
    if (is_source(op->kind)) {
      Versions *v = &s->versions[op->out];
      if (s->prefix && op->kind == OP_input) continue;
      v->produced = source_layout(w, s, i);
      v->stage = stage_of(s, i);
      w->b.loc = op->loc;
      /* Inputs and reads exist even when nobody uses them; the rest of the sources waits for a user. */
      if (s->prefix || op->kind == OP_input || op->kind == OP_read)
        add_version(w, v, v->produced, v->stage, emit_source(w, s, op, v->produced, v->stage));
      if (v->n && !v->items[v->n - 1].v) return false;
    } else if (!lower_op_in(w, s, i, stage_of(s, i))) {
      return false;
    }
  }
  return true;
}

static bool lower_output(Lowering *w, const Scope *s, const Output *o) {
  Versions *v = &s->versions[o->value];
  Layout whole = *v->produced;
  whole.partial_axes = 0;
  const Layout *layout = layout_get(w->m, &whole);
  Val val = want(w, s, o->value, layout, v->stage);
  if (val) build_output(&w->b, o->name, val, layout);
  return val != 0;
}

Func *lower_spmd(Module *m, const Func *l1, const LowerPlan *plan, const char *name, Diags *diags) {
  Func *f = module_func_add(m, name, 2);
  Lowering w = {.m = m, .b = builder_new(m, f, diags), .cost = plan->cost ? plan->cost : move_cost_bytes, .context = plan->cost_context};
  Scope s = {.l1 = l1, .strategies = plan->strategies, .stages = plan->stages, .versions = ARENA_ARRAY(m->arena, Versions, l1->values.n),
             .derived = derived_ops(m->arena, l1)};
  if (!lower_scope(&w, &s)) return NULL;
  for (size_t i = 0; i < l1->outputs.n; i++)
    if (!lower_output(&w, &s, &l1->outputs.items[i])) return NULL;
  return f;
}

/* ---- @prepare: a rank makes its parts of the prepared weights from whatever parts of weights they need, alone */

static bool same_cut(const DimLayout *a, const DimLayout *b) {
  return a->n == b->n && a->unit == b->unit && memcmp(a->axes, b->axes, (size_t)a->n) == 0;
}

/* Every dimension of the result is cut as in the layout, or not at all. */
static bool cuts_within(const Layout *result, const Layout *layout) {
  for (int d = 0; d < layout->rank; d++)
    if (result->dims[d].n && !same_cut(&result->dims[d], &layout->dims[d])) return false;
  return true;
}

/* Adds the picks that cut dimension d of the result as the layout does, when a parallel factor can. */
static void carry_back(Module *m, const Rule *r, const Layout *layout, int d, Strategy *st) {
  for (int k = 0; k < r->result.dims[d].n; k++) {
    uint8_t f = r->result.dims[d].f[k];
    Strategy tried = *st;
    for (int i = 0; i < layout->dims[d].n; i++) tried.picks[tried.n++] = (Pick){layout->dims[d].axes[i], f};
    if (r->factors[f].kind != FK_PARALLEL || !strategy_legal(m, r, &tried, NULL) || !cuts_within(strategy_result(m, r, &tried), layout)) continue;
    *st = tried;
    return;
  }
}

/* What remains of a value's cut after the operation made it: slices, at the layout's own intervals. */
static Val cut_rest(Lowering *w, const Type *global, Val v, const Layout *have, const Layout *want, int stage) {
  const Type *t = type_of(w->b.f, v);
  const Expr *dims[MAX_RANK], *lo, *hi;
  for (int d = 0; d < t->rank; d++) dims[d] = t->dims[d];
  for (int d = 0; d < want->rank && v; d++) {
    if (same_cut(&have->dims[d], &want->dims[d])) continue;
    layout_interval(w->m, &want->dims[d], global->dims[d], &lo, &hi);
    dims[d] = ex_sub(w->m, hi, lo);
    Attr attrs[] = {attr_i(AT_axis, d), attr_e(AT_start, lo)};
    v = build_op(&w->b, &(OpSpec){.kind = OP_shard_slice, .name = arena_printf(w->m->arena, "%s.part", op_of(w->b.f, v)->name), .stage = stage, .nin = 1,
                                  .in = &v, .nattrs = 2, .attrs = attrs, .type = type_get(w->m, t->dtype, t->rank, dims)});
  }
  return v;
}

static Val make_part(Lowering *w, const Scope *s, Val l1, const Layout *layout, int stage);

static Val make_op(Lowering *w, const Scope *s, const Op *op, const Rule *r, const Strategy *st, const Layout *result, int stage) {
  Val in[MAX_OPERANDS];
  const Layout *layouts[MAX_OPERANDS];
  for (int i = 0; i < op->nin; i++) {
    layouts[i] = strategy_operand(w->m, r, st, i);
    if (!(in[i] = make_part(w, s, op->in[i], layouts[i], stage))) return 0;
  }
  w->b.stage = stage;
  w->b.loc = op->loc;
  return op->nin ? emit_op(w, s, op, in, layouts, result, stage) : emit_source(w, s, op, result, stage);
}

/* The value of @prepare in that layout and stage. */
static Val make_part(Lowering *w, const Scope *s, Val l1, const Layout *layout, int stage) {
  Versions *known = &s->versions[l1];
  const Op *op = op_of(s->l1, l1);
  Val v = find_version(known, layout, stage);
  if (v) return v;
  const Rule *r = rule_of(w->m, s->l1, op);
  Strategy st = {0};
  for (int d = 0; d < layout->rank; d++)
    if (layout->dims[d].n) carry_back(w->m, r, layout, d, &st);
  const Layout *made = strategy_result(w->m, r, &st);
  if (made == layout) v = make_op(w, s, op, r, &st, layout, stage);
  else if ((v = make_part(w, s, l1, made, stage))) v = cut_rest(w, type_of(s->l1, l1), v, made, layout, stage);
  if (v) add_version(w, known, layout, stage, v);
  return v;
}

static bool has_output(const Func *f, const char *name, const Layout *layout, int stage) {
  for (size_t i = 0; i < f->outputs.n; i++) {
    const Output *o = &f->outputs.items[i];
    if (o->layout == layout && op_of(f, o->value)->stage == stage && strcmp(o->name, name) == 0) return true;
  }
  return false;
}

static bool make_param(Lowering *w, const Scope *s, const Op *op, const Layout *layout) {
  const char *name = op_str(op, AT_name);
  if (module_param(w->m, name)->init != INIT_PREPARED || has_output(w->b.f, name, layout, op->stage)) return true;
  for (size_t i = 0; i < s->l1->outputs.n; i++) {
    if (strcmp(s->l1->outputs.items[i].name, name) != 0) continue;
    Val v = make_part(w, s, s->l1->outputs.items[i].value, layout, op->stage);
    if (v) build_output(&w->b, name, v, layout);
    return v != 0;
  }
  die("@prepare does not make \"%s\"", name);
}

Func *lower_prepare(Module *m, const Func *l1, int nusers, Func *const *users, const char *name, Diags *diags) {
  Func *f = module_func_add(m, name, 2);
  Lowering w = {.m = m, .b = builder_new(m, f, diags)};
  Scope s = {.l1 = l1, .versions = ARENA_ARRAY(m->arena, Versions, l1->values.n)};
  for (int k = 0; k < nusers; k++)
    for (size_t i = 0; i < users[k]->ops.n; i++) {
      const Op *op = &users[k]->ops.items[i];
      if (op->kind == OP_param && !make_param(&w, &s, op, users[k]->values.items[op->out].layout)) return NULL;
    }
  return f;
}
