/* passes/rewrite/rows.c - keeps the batch dimension of joined rows.
 *
 * Exporters write a linear layer over [batch, seq, d] as a product of [batch*seq, d] between two reshapes, and
 * attention over windows of an image as one over [batch*windows, ...]:
 *
 *   dot(reshape(x), w) "mk,kn->mn"   becomes   reshape(dot(x, w) "abk,kn->abn")
 *
 * A joined dimension is one factor, so its parts would be rows of neither the batch nor the sequence: no micro-batches,
 * no parts of a sequence.  A value whose first dimension joins several others is also built in a separate form, with
 * two dimensions in its place: the batch and all others.  The pass propagates this form through products, elementwise
 * operations, operations along other dimensions, and reshapes.  Readers of the joined form get a reshape, which dce
 * drops if unused.  views.c then sees the splits of a fused projection right after the product.
 *
 * In: level 1, before views.  Out: the same function.  Not supported: joins in later dimensions, products in which only
 * the second operand has the rows.
 */
#include <string.h>

#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"

typedef struct Rows {
  Rewrite r;
  Val *apart; /* by old value: the new one with two dimensions for the first; 0 if none */
} Rows;

static const Type *new_type(const Rows *w, Val v) { return type_of(w->r.b.f, v); }
static const Type *old_type(const Rows *w, Val v) { return type_of(w->r.old, v); }

/* Returns the type with two dimensions in place of the first; NULL if these are too many. */
static const Type *apart_type(const Rows *w, const Type *t, const Expr *const first[2]) {
  const Expr *dims[MAX_RANK] = {first[0], first[1]};
  if (t->rank + 1 > MAX_RANK) return NULL;
  for (int d = 1; d < t->rank; d++) dims[d + 1] = t->dims[d];
  return type_get(w->r.m, t->dtype, t->rank + 1, dims);
}

static Val reshaped(Rows *w, const Op *op, const char *part, Val v, const Type *to) {
  if (new_type(w, v) == to) return v;
  const char *name = part ? arena_printf(w->r.m->arena, "%s.%s", op->name, part) : op->name;
  return build_op(&w->r.b, &(OpSpec){.kind = OP_reshape, .name = name, .loc = op->loc, .nin = 1, .in = &v, .type = to});
}

/* Records the result in both forms. */
static bool now_apart(Rows *w, const Op *op, Val v) {
  w->apart[op->out] = v;
  w->r.map[op->out] = v ? reshaped(w, op, "rows", v, old_type(w, op->out)) : 0;
  return true;
}

/* Builds the operation on separate operands; `type` NULL: infer it. */
static bool rebuild(Rows *w, const Op *op, const Val *in, const Attr *attrs, const Type *type) {
  OpSpec s = op_spec_of(w->r.old, op);
  s.in = in, s.attrs = attrs, s.type = type;
  return now_apart(w, op, build_op(&w->r.b, &s));
}

/* ---- where rows are joined */

/* True if the first dimension of `to` joins the first ones of `from`, at least two of which are not 1. */
static bool joins(const Rows *w, const Type *from, const Type *to, const Expr *first[2]) {
  int batch = 0;
  while (batch < from->rank && ex_is_const(from->dims[batch], 1)) batch++;
  if (to->rank < 2) return false;
  for (int d = batch + 1; d < from->rank; d++) {
    if (type_product(w->r.m, from, batch, d + 1) != to->dims[0] || to->dims[0] == from->dims[batch]) continue;
    first[0] = from->dims[batch], first[1] = type_product(w->r.m, from, batch + 1, d + 1);
    return true;
  }
  return false;
}

static bool try_reshape(Rows *w, const Op *op) {
  Val apart = w->apart[op->in[0]], x = apart ? apart : w->r.map[op->in[0]];
  const Type *to = old_type(w, op->out), *whole = NULL;
  const Expr *first[2];
  if (joins(w, new_type(w, x), to, first)) whole = apart_type(w, to, first);
  if (whole) return now_apart(w, op, reshaped(w, op, "apart", x, whole));
  if (apart) w->r.map[op->out] = reshaped(w, op, NULL, x, to);
  return apart != 0;
}

/* ---- products: two letters for one */

static bool try_dot(Rows *w, const Op *op) {
  const char *spec = op_str(op, AT_spec), *comma = strchr(spec, ','), *arrow = strstr(spec, "->");
  char row = spec[0], new = 'a';
  Val in[2] = {w->apart[op->in[0]], w->r.map[op->in[1]]};
  bool both = memchr(comma, row, (size_t)(arrow - comma)) != NULL;
  if (!in[0] || arrow[2] != row || (both && comma[1] != row)) return false;
  const Type *x = new_type(w, in[0]);
  if (both) {
    in[1] = w->apart[op->in[1]];
    if (!in[1] || new_type(w, in[1])->dims[0] != x->dims[0] || new_type(w, in[1])->dims[1] != x->dims[1]) return false;
  }
  while (strchr(spec, new)) new ++;
  if (new > 'z' || old_type(w, op->out)->rank + 1 > MAX_RANK) return false;
  char text[4 * MAX_RANK + 8];
  int n = 0;
  for (const char *c = spec; *c; c++) {
    text[n++] = *c;
    if (*c == row) text[n++] = new;
  }
  text[n] = 0;
  Attr attrs[8];
  for (int i = 0; i < op->nattrs; i++)
    attrs[i] = op->attrs[i].key == AT_spec ? attr_s(w->r.m, AT_spec, arena_strdup(w->r.m->arena, text)) : op->attrs[i];
  return rebuild(w, op, in, attrs, NULL);
}

/* ---- elementwise operations */

/* Returns the dimensions of a broadcast whose operand's first dimension became `grown` dimensions. */
static Attr spread_dims(const Rows *w, const Op *op, int grown) {
  const Attr *dims = op_attr(op, AT_dims);
  int64_t list[MAX_RANK];
  int n = 0;
  for (int d = 0; d < dims->n; d++) {
    if (dims->u.ints[d] == 0) list[n++] = 0;
    if (dims->u.ints[d] != 0 || grown == 2) list[n++] = dims->u.ints[d] + 1;
  }
  return attr_ints(w->r.m, AT_dims, n, list);
}

/* True if the value is the same for all rows, so that it can be built again in another form. */
static bool same_for_rows(const Rows *w, const Op *op) {
  if (op_is_splat(op)) return true;
  if (op->kind != OP_broadcast) return false;
  const Attr *dims = op_attr(op, AT_dims);
  return dims->n == 0 || dims->u.ints[0] != 0 || ex_is_const(old_type(w, op->in[0])->dims[0], 1);
}

static Val made_anew(Rows *w, Val v, const Type *like) {
  const Op *op = op_of(w->r.old, v);
  OpSpec s = op_spec_of(w->r.old, op);
  Attr dims;
  s.group = NULL;
  s.type = apart_type(w, old_type(w, v), like->dims);
  if (op->kind == OP_broadcast) {
    dims = spread_dims(w, op, 1);
    s.attrs = &dims, s.in = &w->r.map[op->in[0]];
  }
  return build_op(&w->r.b, &s);
}

static bool try_broadcast(Rows *w, const Op *op) {
  Val x = w->apart[op->in[0]];
  const Type *to = x ? apart_type(w, old_type(w, op->out), new_type(w, x)->dims) : NULL;
  if (!to || op_attr(op, AT_dims)->u.ints[0] != 0) return false;
  Attr dims = spread_dims(w, op, 2);
  return rebuild(w, op, &x, &dims, to);
}

/* Returns the type of an operand whose form the others can take; NULL if none. */
static const Type *leading(const Rows *w, const Op *op) {
  const Type *found = NULL;
  for (int i = 0; i < op->nin; i++) {
    Val x = w->apart[op->in[i]];
    const Type *t = x ? new_type(w, x) : NULL;
    if (!t && !same_for_rows(w, op_of(w->r.old, op->in[i]))) return NULL;
    if (t && found && (t->dims[0] != found->dims[0] || t->dims[1] != found->dims[1])) return NULL;
    if (t) found = t;
  }
  return found;
}

static bool try_elementwise(Rows *w, const Op *op) {
  const Type *like = leading(w, op);
  Val in[MAX_OPERANDS];
  if (!like) return false;
  for (int i = 0; i < op->nin; i++) in[i] = w->apart[op->in[i]] ? w->apart[op->in[i]] : made_anew(w, op->in[i], like);
  return rebuild(w, op, in, op->attrs, apart_type(w, old_type(w, op->out), like->dims));
}

/* ---- operations on dimensions other than the rows */

static bool try_transpose(Rows *w, const Op *op) {
  Val x = w->apart[op->in[0]];
  const Attr *perm = op_attr(op, AT_perm);
  int64_t list[MAX_RANK] = {0, 1};
  if (!x || perm->u.ints[0] != 0) return false;
  for (int d = 1; d < perm->n; d++) list[d + 1] = perm->u.ints[d] + 1;
  Attr a = attr_ints(w->r.m, AT_perm, perm->n + 1, list);
  return rebuild(w, op, &x, &a, NULL);
}

static bool try_slice(Rows *w, const Op *op) {
  Val x = w->apart[op->in[0]];
  const Attr *starts = op_attr(op, AT_starts), *strides = op_attr(op, AT_strides);
  const Type *to = old_type(w, op->out);
  if (!x || to->dims[0] != old_type(w, op->in[0])->dims[0] || strides->u.ints[0] != 1) return false;
  const Expr *start[MAX_RANK] = {ex_const(w->r.m, 0), ex_const(w->r.m, 0)};
  int64_t stride[MAX_RANK] = {1, 1};
  for (int d = 1; d < starts->n; d++) start[d + 1] = starts->u.exprs[d], stride[d + 1] = strides->u.ints[d];
  Attr attrs[2] = {attr_exprs(w->r.m, AT_starts, starts->n + 1, start),
                   attr_ints(w->r.m, AT_strides, starts->n + 1, stride)};
  return op->nattrs == 2 && rebuild(w, op, &x, attrs, apart_type(w, to, new_type(w, x)->dims));
}

/* norm, softmax, reduce: along dimensions other than the rows. */
static bool try_along(Rows *w, const Op *op) {
  Val x = w->apart[op->in[0]];
  Attr attrs[8];
  if (!x || op->nin != 1 || old_type(w, op->out)->rank < 1) return false;
  if (op->kind == OP_norm && old_type(w, op->out)->rank < 2) return false; /* it is along the rows */
  for (int i = 0; i < op->nattrs; i++) {
    const Attr *a = &op->attrs[i];
    int64_t axes[MAX_RANK];
    attrs[i] = *a;
    if (a->key == AT_starts || (a->key == AT_axis && a->u.i == 0)) return false;
    if (a->key == AT_axis) attrs[i] = attr_i(AT_axis, a->u.i + 1);
    if (a->key != AT_axes) continue;
    for (int d = 0; d < a->n; d++) {
      if (a->u.ints[d] == 0) return false;
      axes[d] = a->u.ints[d] + 1;
    }
    attrs[i] = attr_ints(w->r.m, AT_axes, a->n, axes);
  }
  return rebuild(w, op, &x, attrs, NULL);
}

/* ---- the pass */

static bool try_op(Rows *w, const Op *op) {
  if (!op->out || !op->nin) return false;
  switch (op->kind) {
    case OP_reshape: return try_reshape(w, op);
    case OP_dot: return try_dot(w, op);
    case OP_broadcast: return try_broadcast(w, op);
    case OP_transpose: return try_transpose(w, op);
    case OP_slice: return try_slice(w, op);
    default:
      if (op_is_elementwise(op->kind)) return try_elementwise(w, op);
      return op_is_along(op->kind) && try_along(w, op);
  }
}

/* Values made in the body of a loop are invisible after it. */
static void forget(Rows *w) {
  for (size_t v = 1; v < w->r.old->values.n; v++)
    if (rewrite_is_behind(&w->r, w->apart[v])) w->apart[v] = 0;
}

static bool keep_batch(Module *m, const Func *f, Diags *diags) {
  Rows w = {rewrite_start(m, f, diags), ARENA_ARRAY(m->arena, Val, f->values.n)};
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (!try_op(&w, op) && !rewrite_copy(&w.r, op) && op->out) return false;
    if (diags->errors) return false;
    if (op->kind == OP_leave) forget(&w);
  }
  rewrite_finish(&w.r);
  return true;
}

/* True if the first operand of some product was joined earlier; else the pass gains nothing. */
static bool multiplies_rows(Module *m, const Func *f) {
  Arena *scratch = arena_new();
  bool *rows = ARENA_ARRAY(scratch, bool, f->values.n), found = false;
  const Expr *first[2];
  const Rows w = {.r = {.m = m}};
  for (size_t i = 0; i < f->ops.n && !found; i++) {
    const Op *op = &f->ops.items[i];
    if (!op->out || !op->nin) continue;
    const Type *from = type_of(f, op->in[0]), *to = type_of(f, op->out);
    rows[op->out] = rows[op->in[0]] && to->rank > 0 && to->dims[0] == from->dims[0];
    rows[op->out] |= op->kind == OP_reshape && joins(&w, from, to, first);
    found = op->kind == OP_dot && rows[op->in[0]];
  }
  arena_free(scratch);
  return found;
}

bool pass_rows(Module *m, Diags *diags) {
  for (size_t k = 0; k < m->funcs.n; k++) {
    const Func *f = m->funcs.items[k];
    if (f->level == 1 && multiplies_rows(m, f) && !keep_batch(m, f, diags)) return false;
  }
  return true;
}
