/* passes/rewrite/rewrite.c - see rewrite.h. */
#include "passes/rewrite/rewrite.h"

#include <string.h>

#include "base/die.h"

Rewrite rewrite_start(Module *m, const Func *old, Diags *diags) {
  Func *f = func_new(m, old->name, old->level);
  return (Rewrite){.m = m, .old = old, .b = builder_new(m, f, diags), .map = ARENA_ARRAY(f->own, Val, old->values.n)};
}

static void follow_loops(Rewrite *r, OpKind k) {
  size_t at = r->b.f->ops.n - 1;
  if (k == OP_loop) ARENA_PUSH(r->m->arena, &r->open, at);
  if (k != OP_repeat) return;
  r->closed_from = r->open.items[--r->open.n];
  r->closed_to = at;
}

void rewrite_map(Rewrite *r, const Op *op, Val first) {
  for (int i = 0; i < op->nout; i++) r->map[op->out + (Val)i] = first ? first + (Val)i : 0;
}

/* True if only the operands change, and their types do not. */
static bool is_copy(const Rewrite *r, const Op *op, const OpSpec *s) {
  const Op *ops = r->old->ops.items;
  if (op < ops || op >= ops + r->old->ops.n || s->kind != op->kind || s->nin != op->nin) return false;
  if (s->name != op->name || s->group != op->group || s->names != op->names || s->attrs != op->attrs) return false;
  if (s->nattrs != op->nattrs || s->mirror.name != op->mirror.name || s->mirror.operand != op->mirror.operand)
    return false;
  if (s->again != op->again || s->stage != op->stage || s->phase != op->phase || s->loc.file != op->loc.file ||
      s->loc.line != op->loc.line || s->loc.col != op->loc.col || s->loc.node != op->loc.node)
    return false;
  if (op->out && (s->type != type_of(r->old, op->out) || s->layout != r->old->values.items[op->out].layout))
    return false;
  return build_can_copy(&r->b, r->old, op, s->in);
}

Val rewrite_build(Rewrite *r, const Op *op, const OpSpec *spec) {
  Val v = is_copy(r, op, spec) ? build_copy(&r->b, r->old, op, spec->in) : build_op(&r->b, spec);
  rewrite_map(r, op, v);
  if (v) follow_loops(r, op->kind);
  return v;
}

Val rewrite_copy(Rewrite *r, const Op *op) {
  Val in[MAX_OPERANDS];
  OpSpec spec = op_spec_of(r->old, op);
  for (int i = 0; i < op->nin; i++) {
    in[i] = r->map[op->in[i]];
    if (!in[i]) die("rewrite of @%s: operand %d of %s is gone", r->old->name, i, op->name);
  }
  spec.in = in;
  return rewrite_build(r, op, &spec);
}

bool rewrite_is_here(const Rewrite *r, Val v) {
  return !r->open.n || (size_t)r->b.f->values.items[v].op >= r->open.items[r->open.n - 1];
}

bool rewrite_is_behind(const Rewrite *r, Val v) {
  size_t op = (size_t)r->b.f->values.items[v].op;
  return v && r->closed_to && op >= r->closed_from && op <= r->closed_to;
}

Func *rewrite_finish(Rewrite *r) {
  for (size_t i = 0; i < r->old->outputs.n; i++) {
    const Output *o = &r->old->outputs.items[i];
    build_output(&r->b, o->name, r->map[o->value], o->layout);
  }
  for (size_t i = 0; i < r->m->funcs.n; i++)
    if (r->m->funcs.items[i] == r->old) r->m->funcs.items[i] = r->b.f;
  builder_end(&r->b);
  return r->b.f;
}

bool rewrite_has_heads(const Func *f) {
  bool heads = false;
  for (size_t i = 0; i < f->ops.n; i++) {
    if (op_is_loop_part(f->ops.items[i].kind)) return false;
    heads |= f->ops.items[i].kind == OP_attention;
  }
  return heads;
}

Val rewrite_transpose(Rewrite *r, const Op *op, const char *name, Val v, int rank, const int64_t *perm) {
  bool same = true;
  for (int d = 0; d < rank; d++) same = same && perm[d] == d;
  if (same) return v;
  Attr a = attr_ints(r->m, AT_perm, rank, perm);
  return build_op(&r->b, &(OpSpec){.kind = OP_transpose,
                                   .name = name ? name : arena_printf(r->m->arena, "%s.transpose", op->name),
                                   .loc = op->loc,
                                   .nin = 1,
                                   .in = &v,
                                   .nattrs = 1,
                                   .attrs = &a});
}

Val rewrite_cast(Rewrite *r, const Op *op, const char *name, Val v, DType to) {
  Attr a = attr_dtype(AT_to, to);
  return build_op(&r->b, &(OpSpec){.kind = OP_cast,
                                   .name = name ? name : op->name,
                                   .group = name ? NULL : op->group,
                                   .loc = op->loc,
                                   .nin = 1,
                                   .in = &v,
                                   .nattrs = 1,
                                   .attrs = &a});
}

/* Reshapes the operand without dimensions of extent 1 and transposes it into ascending order. */
Val rewrite_broadcast(Rewrite *r, const Op *op, Val v, const int64_t *to, const char *part, const Type *type) {
  const Type *x = type_of(r->old, op->in[0]);
  const Expr *extents[MAX_RANK];
  int64_t at[MAX_RANK], order[MAX_RANK], map[MAX_RANK];
  int n = 0;
  for (int d = 0; d < x->rank; d++)
    if (!ex_is_const(x->dims[d], 1)) extents[n] = x->dims[d], at[n++] = to[d];
  if (n < x->rank)
    v = build_op(&r->b, &(OpSpec){.kind = OP_reshape,
                                  .name = arena_printf(r->m->arena, "%s.%s", op->name, part),
                                  .loc = op->loc,
                                  .nin = 1,
                                  .in = &v,
                                  .type = type_get(r->m, x->dtype, n, extents)});
  for (int i = 0; i < n; i++) {
    int k = i;
    for (; k > 0 && at[order[k - 1]] > at[i]; k--) order[k] = order[k - 1];
    order[k] = i;
  }
  for (int i = 0; i < n; i++) map[i] = at[order[i]];
  v = rewrite_transpose(r, op, NULL, v, n, order);
  Attr a = attr_ints(r->m, AT_dims, n, map);
  return build_op(&r->b, &(OpSpec){.kind = OP_broadcast,
                                   .name = op->name,
                                   .loc = op->loc,
                                   .nin = 1,
                                   .in = &v,
                                   .nattrs = 1,
                                   .attrs = &a,
                                   .type = type});
}

void rewrite_note_order(Rewrite *r, const Op *op, Val v, int rank, const int *at) {
  if (v && strcmp(op_of(r->b.f, v)->name, op->name) == 0) module_order_note(r->m, op->name, rank, at);
}

const int *rewrite_uses(Arena *a, const Func *f) {
  int *uses = ARENA_ARRAY(a, int, f->values.n);
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin; k++) uses[f->ops.items[i].in[k]]++;
  for (size_t i = 0; i < f->outputs.n; i++) uses[f->outputs.items[i].value]++;
  return uses;
}
