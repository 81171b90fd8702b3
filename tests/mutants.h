/* tests/mutants.h - copies of level-2 functions for mutation, and random mutations of them.
 *
 * A mutation takes another operand of the type, moves the begin or end of a part or a window, names other mesh axes or
 * another reduction, or leaves out an operation.  Most are faults, some are harmless, some are not even valid. */
#ifndef APC_TESTS_MUTANTS_H
#define APC_TESTS_MUTANTS_H

#include <string.h>

#include "ir/ir.h"

static inline Func *copy_func(Module *m, const Func *f) {
  Func *g = ARENA_NEW(m->arena, Func);
  *g = *f;
  g->values.items = ARENA_ARRAY(m->arena, Value, f->values.n);
  memcpy(g->values.items, f->values.items, sizeof(Value) * f->values.n);
  g->ops.items = ARENA_ARRAY(m->arena, Op, f->ops.n);
  memcpy(g->ops.items, f->ops.items, sizeof(Op) * f->ops.n);
  for (size_t i = 0; i < f->ops.n; i++) {
    Op *op = &g->ops.items[i];
    Val *in = ARENA_ARRAY(m->arena, Val, op->nin);
    Attr *attrs = ARENA_ARRAY(m->arena, Attr, op->nattrs);
    if (op->nin) memcpy(in, op->in, sizeof(Val) * (size_t)op->nin);
    if (op->nattrs) memcpy(attrs, op->attrs, sizeof(Attr) * (size_t)op->nattrs);
    op->in = in;
    op->attrs = attrs;
  }
  g->outputs.items = ARENA_ARRAY(m->arena, Output, f->outputs.n);
  memcpy(g->outputs.items, f->outputs.items, sizeof(Output) * f->outputs.n);
  return g;
}

static inline void replace_uses(Func *f, Val old, Val by) {
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin; k++)
      if (f->ops.items[i].in[k] == old) ((Val *)(uintptr_t)f->ops.items[i].in)[k] = by;
  for (size_t i = 0; i < f->outputs.n; i++)
    if (f->outputs.items[i].value == old) f->outputs.items[i].value = by;
}

/* The expression of another rank: of the opposite coordinate on the first axis that it depends on. */
static inline const Expr *mirrored(Module *m, const Expr *e) {
  for (int a = 0; a < m->mesh.naxes; a++)
    if (ex_uses(e, m->mesh.axes[a].symbol))
      return ex_subst(m, e, m->mesh.axes[a].symbol,
                      ex_sub(m, ex_const(m, m->mesh.axes[a].size - 1), mesh_coordinate(m, a)));
  return e;
}

typedef int (*Below)(void *random, int n);

static inline bool mutate_operand(Func *f, Op *op, Below below, void *random) {
  if (!op->nin) return false;
  int k = below(random, op->nin);
  Val first = (Val)below(random, (int)op->in[k] + 8);
  for (Val v = first; v < first + 40 && v < f->values.n; v++) {
    if (v == 0 || v == op->in[k] || type_of(f, v) != type_of(f, op->in[k]) ||
        f->values.items[v].op >= op - f->ops.items)
      continue;
    ((Val *)(uintptr_t)op->in)[k] = v;
    return true;
  }
  return false;
}

static inline const Expr *mutate_expr(Module *m, const Expr *e, int how) {
  return how == 0 ? ex_addi(m, e, 1) : how == 1 ? ex_addi(m, e, -1) : how == 2 ? mirrored(m, e) : ex_const(m, 0);
}

static inline bool mutate_attr(Module *m, Op *op, Below below, void *random) {
  static const AttrKey several[] = {AT_starts, AT_low, AT_high, AT_source, AT_target, AT_mesh_axes};
  if (!op->nattrs) return false;
  Attr *a = (Attr *)(uintptr_t)&op->attrs[below(random, op->nattrs)], before = *a;
  int how = below(random, 4), at = a->n ? below(random, a->n) : 0;
  if (a->key == AT_start) a->u.e = mutate_expr(m, a->u.e, how);
  else if (a->key == AT_op) a->u.reduction = a->u.reduction == RED_SUM ? RED_MAX : RED_SUM;
  else if (a->key == AT_mesh_axis || a->key == AT_axis || a->key == AT_split || a->key == AT_concat)
    a->u.i = (a->u.i + 1 + how) % (a->key == AT_mesh_axis ? m->mesh.naxes : 3);
  for (size_t i = 0; i < sizeof several / sizeof *several && a->n; i++) {
    if (a->key != several[i]) continue;
    if (a->key == AT_mesh_axes) {
      int64_t axes[MAX_RANK + MAX_AXES];
      for (int k = 0; k < a->n; k++) axes[k] = a->u.ints[k];
      axes[at] = (axes[at] + 1 + how) % m->mesh.naxes;
      *a = attr_ints(m, a->key, a->n, axes);
    } else {
      const Expr *list[MAX_RANK];
      for (int k = 0; k < a->n; k++) list[k] = k == at ? mutate_expr(m, a->u.exprs[k], how) : a->u.exprs[k];
      bool same = list[at] == a->u.exprs[at];
      *a = attr_exprs(m, a->key, a->n, list);
      return !same;
    }
  }
  return memcmp(a, &before, sizeof before) != 0;
}

/* Changes one operation at random; false if nothing was changed. */
static inline bool mutate(Module *m, Func *f, Below below, void *random) {
  Op *op = &f->ops.items[below(random, (int)f->ops.n)];
  int how = below(random, 4);
  if (how == 0) return mutate_operand(f, op, below, random);
  if (how < 3) return mutate_attr(m, op, below, random);
  if (op->nin < 1 || !op->out || type_of(f, op->out) != type_of(f, op->in[0])) return false;
  replace_uses(f, op->out, op->in[0]);
  return true;
}

#endif
