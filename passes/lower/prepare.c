/* passes/lower/prepare.c - level 2 of @prepare: each rank makes its parts of the prepared weights alone, and reads the
 * parts of weights that it needs; see lower_prepare in lower.h. */
#include <string.h>

#include "base/die.h"
#include "passes/lower/internal.h"

static bool same_cut(const DimLayout *a, const DimLayout *b) {
  return a->n == b->n && a->unit == b->unit && memcmp(a->axes, b->axes, (size_t)a->n) == 0;
}

/* True if every dimension of the result is split as in the layout, or not at all. */
static bool cuts_within(const Layout *result, const Layout *layout) {
  for (int d = 0; d < layout->rank; d++)
    if (result->dims[d].n && !same_cut(&result->dims[d], &layout->dims[d])) return false;
  return true;
}

/* Adds the picks that split dimension d of result `which` as in the layout, if a parallel factor can. */
static void carry_back(Module *m, const Rule *r, int which, const Layout *layout, int d, Strategy *st) {
  for (int k = 0; k < r->results[which].dims[d].n; k++) {
    uint8_t f = r->results[which].dims[d].f[k];
    Strategy tried = *st;
    for (int i = 0; i < layout->dims[d].n; i++) tried.picks[tried.n++] = (Pick){layout->dims[d].axes[i], f};
    if (r->factors[f].kind != FK_PARALLEL || !strategy_legal(&m->mesh, r, &tried, NULL) ||
        !cuts_within(strategy_result(m, r, &tried, which), layout))
      continue;
    *st = tried;
    return;
  }
}

/* Slices the value where the operation did not split it, at the layout's own intervals. */
static Val cut_rest(Lowering *w, const Type *global, Val v, const Layout *have, const Layout *want, int stage) {
  const Type *t = type_of(w->b.f, v);
  const Expr *dims[MAX_RANK], *lo, *hi;
  for (int d = 0; d < t->rank; d++) dims[d] = t->dims[d];
  for (int d = 0; d < want->rank && v; d++) {
    if (same_cut(&have->dims[d], &want->dims[d])) continue;
    layout_interval(w->m, &want->dims[d], global->dims[d], &lo, &hi);
    dims[d] = ex_sub(w->m, hi, lo);
    Attr attrs[] = {attr_i(AT_axis, d), attr_e(AT_start, lo)};
    v = build_op(&w->b, &(OpSpec){.kind = OP_shard_slice,
                                  .name = arena_printf(w->m->arena, "%s.part", name_of(w->b.f, v)),
                                  .stage = stage,
                                  .nin = 1,
                                  .in = &v,
                                  .nattrs = 2,
                                  .attrs = attrs,
                                  .type = type_get(w->m, t->dtype, t->rank, dims)});
  }
  return v;
}

static Val make_part(Lowering *w, const WalkScope *s, Val l1, const Layout *layout, int stage);

/* Makes the operation and returns result number `which`. */
static Val make_op(Lowering *w, const WalkScope *s, const Op *op, const Rule *r, const Strategy *st, int which,
                   int stage) {
  Val in[MAX_OPERANDS];
  const Layout *layouts[MAX_OPERANDS];
  for (int i = 0; i < op->nin; i++) {
    layouts[i] = strategy_operand(w->m, r, st, i);
    if (!(in[i] = make_part(w, s, op->in[i], layouts[i], stage))) return 0;
  }
  w->b.stage = stage;
  w->b.loc = op->loc;
  const Layout *first = strategy_result(w->m, r, st, 0);
  Val v = op->nin ? lower_emit(w, s, op, in, layouts, first, stage) : lower_source(w, s, op, first, stage);
  return v ? v + (Val)which : 0;
}

/* Records the other results of the operation. */
static void add_others(Lowering *w, const WalkScope *s, const Op *op, const Rule *r, const Strategy *st, int which,
                       Val v, int stage) {
  for (int i = 0; i < op->nout; i++)
    if (i != which)
      walk_add(&w->walk, s, op->out + (Val)i, strategy_result(w->m, r, st, i), stage, -1, v - (Val)which + (Val)i);
}

/* Returns the value of @prepare in that layout and stage, making it if needed. */
static Val make_part(Lowering *w, const WalkScope *s, Val l1, const Layout *layout, int stage) {
  const Op *op = op_of(s->f, l1);
  Val v = walk_find(&w->walk, s, l1, layout, stage);
  if (v) return v;
  const Rule *r = rule_of(w->m, s->f, op);
  Strategy st = {0};
  int which = value_index(s->f, l1);
  for (int d = 0; d < layout->rank; d++)
    if (layout->dims[d].n) carry_back(w->m, r, which, layout, d, &st);
  const Layout *made = strategy_result(w->m, r, &st, which);
  if (made == layout) {
    v = make_op(w, s, op, r, &st, which, stage);
    if (v) add_others(w, s, op, r, &st, which, v, stage);
  } else if ((v = make_part(w, s, l1, made, stage))) v = cut_rest(w, type_of(s->f, l1), v, made, layout, stage);
  if (v) walk_add(&w->walk, s, l1, layout, stage, -1, v);
  return v;
}

static bool has_output(const Func *f, const char *name, const Layout *layout, int stage) {
  for (size_t i = 0; i < f->outputs.n; i++) {
    const Output *o = &f->outputs.items[i];
    if (o->layout == layout && op_of(f, o->value)->stage == stage && strcmp(o->name, name) == 0) return true;
  }
  return false;
}

static bool make_param(Lowering *w, const WalkScope *s, const Op *op, const Layout *layout) {
  const char *name = op_str(op, AT_name);
  if (module_param(w->m, name)->init != INIT_PREPARED || has_output(w->b.f, name, layout, op->stage)) return true;
  for (size_t i = 0; i < s->f->outputs.n; i++) {
    if (strcmp(s->f->outputs.items[i].name, name) != 0) continue;
    Val v = make_part(w, s, s->f->outputs.items[i].value, layout, op->stage);
    if (v) build_output(&w->b, name, v, layout);
    return v != 0;
  }
  die("@prepare does not make \"%s\"", name);
}

Func *lower_prepare(Module *m, const Func *l1, int nusers, Func *const *users, const char *name, Diags *diags) {
  Func *f = module_func_add(m, name, 2);
  Lowering w = {.walk = {.m = m, .arena = m->arena}, .m = m, .b = builder_new(m, f, diags)};
  WalkScope s = {.f = l1, .versions = ARENA_ARRAY(m->arena, Versions, l1->values.n), .loop = -1};
  for (int k = 0; k < nusers; k++)
    for (size_t i = 0; i < users[k]->ops.n; i++) {
      const Op *op = &users[k]->ops.items[i];
      if (op->kind == OP_param && !make_param(&w, &s, op, users[k]->values.items[op->out].layout)) return NULL;
    }
  return f;
}
