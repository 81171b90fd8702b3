/* passes/rewrite/recognise.c - finds composites (norm, attention) that exporters wrote as primitive operations.
 *
 * A composite has strategies that its parts do not have (attention over split keys, a norm over a split dimension in
 * one step), is one kernel, and attention never stores the matrix of scores.  In: level 1 after views, so that heads
 * are dimensions already.  Out: the same function with the last operation of each match replaced; dce drops the
 * operations that only it needed.
 *
 * A match is exact, the composite equals the operations for all inputs, with four exceptions.  A finite mask of at most
 * -3e4 counts as -inf (an f32 softmax gives 0 for it as well, unless all visible scores of a row are below -29,800);
 * such a recognised mask hides no whole row.  A bias of weights counts as finite.  A query whose products with all
 * visible keys are -inf, which takes infinite inputs or an overflow, gets 0 instead of NaN.  A query with a score of
 * NaN or +inf, which takes the same, keeps its NaN where a guard would have replaced it by 0.  A match lies in one loop
 * body or outside all loops, so that no work moves into a body.
 *
 * In a training step, a bias that depends on trained weights stays apart: attention has no derivative for it.
 *
 * Not supported: masks that depend on data and select, or are applied outside a scale; rotary embeddings, softmax or
 * GELU written as primitive operations.
 */
#include "passes/rewrite/recognise.h"

#include <math.h>

#include "passes/facts/derived.h"
#include "passes/rewrite/passes.h"

const Op *recognise_op(const Func *f, Val v, OpKind kind) {
  const Op *op = v ? op_of(f, v) : NULL;
  return op && op->kind == kind ? op : NULL;
}

bool recognise_number(const Func *f, Val v, double *out) {
  const Op *op = op_of(f, v);
  double x = 0, y = 0;
  int64_t extent;
  if (!dtype_is_float(type_of(f, v)->dtype) && op->kind != OP_const && op->kind != OP_broadcast &&
      op->kind != OP_reshape)
    return false;
  switch (op->kind) {
    case OP_const: *out = op_float(op, AT_value, 0); return op_attr(op, AT_value) != NULL;
    case OP_size:
      if (!ex_get_const(op_expr(op, AT_expr), &extent)) return false;
      *out = (double)extent;
      return true;
    case OP_broadcast:
    case OP_reshape: return recognise_number(f, op->in[0], out);
    case OP_sqrt: *out = recognise_number(f, op->in[0], &x) ? sqrt(x) : 0; return x > 0;
    case OP_pow:
      if (!recognise_number(f, op->in[0], &x) || !recognise_number(f, op->in[1], &y)) return false;
      *out = pow(x, y);
      return true;
    case OP_div:
      if (!recognise_number(f, op->in[0], &x) || !recognise_number(f, op->in[1], &y)) return false;
      *out = x / y;
      return true;
    default: return false;
  }
}

bool recognise_together(const Recognise *w, const Op *x, const Op *y) {
  const Op *ops = w->r.old->ops.items;
  return w->loops.of[x - ops] == w->loops.of[y - ops];
}

static bool made_together(const Recognise *w, const Op *op, Val v, int n, const Val *from) {
  const Op *made = op_of(w->r.old, v);
  for (int i = 0; i < n; i++)
    if (from[i] == v) return true;
  if (w->derived[made - w->r.old->ops.items]) return true;
  if (!recognise_together(w, made, op)) return false;
  for (int i = 0; i < made->nin; i++)
    if (!made_together(w, op, made->in[i], n, from)) return false;
  return true;
}

bool recognise_is_whole(const Recognise *w, const Op *op, int n, const Val *from) {
  if (!w->loops.n) return true;
  for (int i = 0; i < op->nin; i++)
    if (!made_together(w, op, op->in[i], n, from)) return false;
  return true;
}

Val recognise_build(Recognise *w, const Op *op, const char *part, OpSpec spec) {
  spec.name = part ? arena_printf(w->r.m->arena, "%s.%s", op->name, part) : op->name;
  spec.loc = op->loc;
  return build_op(&w->r.b, &spec);
}

Val recognise_reshape(Recognise *w, const Op *op, const char *part, Val x, int rank, const Expr *const *dims) {
  const Type *t = type_of(w->r.b.f, x), *to = type_get(w->r.m, t->dtype, rank, dims);
  return t == to ? x : recognise_build(w, op, part, (OpSpec){.kind = OP_reshape, .nin = 1, .in = &x, .type = to});
}

Val recognise_transpose(Recognise *w, const Op *op, const char *part, Val x, const int *perm) {
  int64_t list[MAX_RANK] = {0};
  int rank = type_of(w->r.b.f, x)->rank;
  bool same = true;
  for (int d = 0; d < rank; d++) list[d] = perm[d], same = same && perm[d] == d;
  Attr a = attr_ints(w->r.m, AT_perm, rank, list);
  return same ? x
              : recognise_build(w, op, part,
                                (OpSpec){.kind = OP_transpose, .nin = 1, .in = &x, .nattrs = 1, .attrs = &a});
}

static Val recognised(Recognise *w, const Op *op) {
  switch (op->kind) {
    case OP_div:
    case OP_mul: return recognise_norm(w, op);
    case OP_dot: return recognise_attention(w, op);
    case OP_gather:
    case OP_take: return recognise_moved(w, op);
    default: return 0;
  }
}

/* Marks operations that depend on trained weights. */
static const bool *trained_ops(Module *m, const Func *f, const bool *weights) {
  bool *trained = ARENA_ARRAY(m->arena, bool, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    const char *weight = op->kind == OP_param ? op_str(op, AT_name) : NULL;
    trained[i] = weight && weights[module_param(m, weight) - m->params.items];
    for (int k = 0; k < op->nin; k++) trained[i] |= trained[f->values.items[op->in[k]].op];
  }
  return trained;
}

static bool recognise(Module *m, const Func *f, const bool *trained, Diags *diags) {
  Recognise w = {rewrite_start(m, f, diags), rewrite_uses(m->arena, f), loops_of(m->arena, f), derived_ops(m->arena, f),
                 trained ? trained_ops(m, f, trained) : NULL};
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    Val v = recognised(&w, op);
    if (v) w.r.map[op->out] = v;
    else if (!rewrite_copy(&w.r, op) && op->out) return false;
  }
  rewrite_finish(&w.r);
  return diags->errors == 0;
}

bool pass_recognise(Module *m, const bool *trained, Diags *diags) {
  for (size_t k = 0; k < m->funcs.n; k++)
    if (m->funcs.items[k]->level == 1 && !recognise(m, m->funcs.items[k], trained, diags)) return false;
  return true;
}
