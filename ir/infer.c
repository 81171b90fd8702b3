/* ir/infer.c - the result type of every operation from its operands and attributes.
 *
 * infer_type checks operand count, attributes and shapes, and reports what is wrong as the user would say it.  The
 * functions infer_X are named by ir/ops.def.  Level 2 uses the same functions on local types.
 */
#include <stdarg.h>
#include <string.h>

#include "ir/window.h"

typedef struct Infer {
  Module *m;
  const Func *f;
  const OpSpec *spec;
  Diags *diags;
  const Type *in[MAX_OPERANDS];
} Infer;

__attribute__((format(printf, 2, 3))) static const Type *fail(const Infer *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(c->m->arena, format, args);
  va_end(args);
  Loc loc = c->spec->loc;
  if (!loc.node && !loc.file && c->spec->name) loc.node = c->spec->name;
  diag_error(c->diags, DIAG_ir_verify, loc, "%s: %s", op_name(c->spec->kind), text);
  for (int i = 0; i < c->spec->nin; i++) {
    Text t = {.arena = c->m->arena};
    if (!c->in[i]) continue;
    type_print(c->m, &t, c->in[i]);
    diag_note(c->diags, (Loc){0}, "operand %d is %s, %s", i, op_of(c->f, c->spec->in[i])->name, text_str(&t));
  }
  return NULL;
}

static const Attr *attr(const Infer *c, AttrKey key) {
  for (int i = 0; i < c->spec->nattrs; i++)
    if (c->spec->attrs[i].key == key) return &c->spec->attrs[i];
  return NULL;
}

static const char *type_text(const Infer *c, const Type *t) {
  Text text = {.arena = c->m->arena};
  type_print(c->m, &text, t);
  return text_str(&text);
}

static bool same_dims(const Type *a, const Type *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

/* An axis attribute inside the rank of operand 0 (or -1 after an error). */
static int checked_axis(const Infer *c, AttrKey key, int rank) {
  int64_t a = attr(c, key)->u.i;
  if (a < 0 || a >= rank) {
    fail(c, "%s %lld is outside a tensor of rank %d", attr_name(key), (long long)a, rank);
    return -1;
  }
  return (int)a;
}

/* The classes a row accepts: "FI" and so on. */
static bool class_accepted(const char *classes, DType t) {
  DTypeClass k = dtype_class(t);
  return strchr(classes, k == DTC_F ? 'F' : k == DTC_B ? 'B' : 'I') != NULL;
}

static const char *const classes_of[OP_COUNT] = {
#define UNARY(name, classes, linear, cost, f, i, doc) [OP_##name] = classes,
#define BINARY(name, classes, linear, cost, f, i, doc) [OP_##name] = classes,
#include "ir/ops.def"
};

static const Type *infer_unary(const Infer *c) {
  if (!class_accepted(classes_of[c->spec->kind], c->in[0]->dtype))
    return fail(c, "not defined for %s", dtype_name(c->in[0]->dtype));
  if (c->spec->kind == OP_isnan || c->spec->kind == OP_isinf) return type_with_dtype(c->m, c->in[0], DT_bool);
  return c->in[0];
}

static const Type *infer_binary(const Infer *c) {
  if (c->in[0] != c->in[1])
    return fail(c, "operands differ: %s and %s", type_text(c, c->in[0]), type_text(c, c->in[1]));
  if (!class_accepted(classes_of[c->spec->kind], c->in[0]->dtype))
    return fail(c, "not defined for %s", dtype_name(c->in[0]->dtype));
  return c->in[0];
}

static const Type *infer_compare(const Infer *c) {
  if (c->in[0] != c->in[1])
    return fail(c, "operands differ: %s and %s", type_text(c, c->in[0]), type_text(c, c->in[1]));
  return type_with_dtype(c->m, c->in[0], DT_bool);
}

static const Type *infer_select(const Infer *c) {
  if (c->in[0]->dtype != DT_bool) return fail(c, "the condition is %s, not bool", dtype_name(c->in[0]->dtype));
  if (c->in[1] != c->in[2] || !same_dims(c->in[0], c->in[1]))
    return fail(c, "operands differ: %s, %s and %s", type_text(c, c->in[0]), type_text(c, c->in[1]),
                type_text(c, c->in[2]));
  return c->in[1];
}

static const Type *infer_same(const Infer *c) {
  OpKind k = c->spec->kind;
  if (op_is_composite(k) && !dtype_is_float(c->in[0]->dtype))
    return fail(c, "not defined for %s", dtype_name(c->in[0]->dtype));
  if (k == OP_softmax && checked_axis(c, AT_axis, c->in[0]->rank) < 0) return NULL;
  if (k == OP_norm) {
    const char *kind = attr(c, AT_kind)->u.s;
    if (strcmp(kind, "layer") != 0 && strcmp(kind, "rms") != 0)
      return fail(c, "kind is \"%s\", not layer or rms", kind);
    if (c->in[0]->rank < 1) return fail(c, "needs at least one dimension");
  }
  if (k == OP_rope) {
    int64_t width;
    if (c->in[0]->rank < 3) return fail(c, "needs dimensions ... s h k");
    if (c->in[1]->rank != 1 || c->in[1]->dtype != DT_i64 || c->in[1]->dims[0] != c->in[0]->dims[c->in[0]->rank - 3])
      return fail(c, "positions must be i64 with one element per sequence position");
    if (!ex_get_const(c->in[0]->dims[c->in[0]->rank - 1], &width) || width % 2 != 0)
      return fail(c, "the last dimension must be a constant even extent");
  }
  return c->in[0];
}

static const Type *infer_cast(const Infer *c) { return type_with_dtype(c->m, c->in[0], attr(c, AT_to)->u.dtype); }

static const Type *infer_transpose(const Infer *c) {
  const Attr *perm = attr(c, AT_perm);
  const Type *x = c->in[0];
  const Expr *dims[MAX_RANK];
  unsigned seen = 0;
  if (perm->n != x->rank) return fail(c, "perm has %d entries for rank %d", perm->n, x->rank);
  for (int i = 0; i < x->rank; i++) {
    int64_t p = perm->u.ints[i];
    if (p < 0 || p >= x->rank || (seen & (1u << p))) return fail(c, "perm is not a permutation");
    seen |= 1u << p;
    dims[i] = x->dims[p];
  }
  return type_get(c->m, x->dtype, x->rank, dims);
}

static const Type *infer_pad(const Infer *c) {
  const Attr *low = attr(c, AT_low), *high = attr(c, AT_high);
  const Type *x = c->in[0];
  const Expr *dims[MAX_RANK];
  if (low->n != x->rank || high->n != x->rank) return fail(c, "low and high need one entry per dimension");
  for (int i = 0; i < x->rank; i++) {
    int64_t v;
    if ((ex_get_const(low->u.exprs[i], &v) && v < 0) || (ex_get_const(high->u.exprs[i], &v) && v < 0))
      return fail(c, "negative padding of dimension %d", i);
    dims[i] = ex_add(c->m, ex_add(c->m, low->u.exprs[i], x->dims[i]), high->u.exprs[i]);
  }
  return type_get(c->m, x->dtype, x->rank, dims);
}

static const Type *infer_concat(const Infer *c) {
  const Type *x = c->in[0];
  int axis = checked_axis(c, AT_axis, x->rank);
  if (axis < 0) return NULL;
  const Expr *dims[MAX_RANK];
  memcpy(dims, x->dims, sizeof dims);
  for (int i = 1; i < c->spec->nin; i++) {
    const Type *y = c->in[i];
    if (y->dtype != x->dtype || y->rank != x->rank) return fail(c, "operands differ in type or rank");
    for (int d = 0; d < x->rank; d++)
      if (d != axis && y->dims[d] != x->dims[d]) return fail(c, "operands differ in dimension %d", d);
    dims[axis] = ex_add(c->m, dims[axis], y->dims[axis]);
  }
  return type_get(c->m, x->dtype, x->rank, dims);
}

static const Type *infer_reduce(const Infer *c) {
  const Attr *axes = attr(c, AT_axes);
  const Type *x = c->in[0];
  const Expr *dims[MAX_RANK];
  if (!reduction_defined(attr(c, AT_op)->u.reduction, x->dtype) || attr(c, AT_op)->u.reduction == RED_ONE)
    return fail(c, "%s is not defined for %s", reduction_name(attr(c, AT_op)->u.reduction), dtype_name(x->dtype));
  int n = 0, next = 0;
  for (int d = 0; d < x->rank; d++) {
    if (next < axes->n && axes->u.ints[next] == d) next++;
    else dims[n++] = x->dims[d];
  }
  if (next != axes->n) return fail(c, "axes must be ascending dimensions of the operand");
  if (attr(c, AT_starts) && attr(c, AT_starts)->n != axes->n)
    return fail(c, "starts needs one entry for each of the %d reduced dimensions", axes->n);
  return type_get(c->m, x->dtype, n, dims);
}

/* Splits "bm,mn->bn"; false when malformed. */
static bool split_spec(const char *spec, const char *part[3], int length[3]) {
  const char *comma = strchr(spec, ','), *arrow = strstr(spec, "->");
  if (!comma || !arrow || comma > arrow || strchr(comma + 1, ',')) return false;
  part[0] = spec, length[0] = (int)(comma - spec);
  part[1] = comma + 1, length[1] = (int)(arrow - comma - 1);
  part[2] = arrow + 2, length[2] = (int)strlen(arrow + 2);
  for (int p = 0; p < 3; p++)
    for (int i = 0; i < length[p]; i++) {
      char l = part[p][i];
      if (!((l >= 'a' && l <= 'z') || (l >= 'A' && l <= 'Z'))) return false;
      if (memchr(part[p] + i + 1, l, (size_t)(length[p] - i - 1))) return false;
    }
  return true;
}

static const Type *infer_dot(const Infer *c) {
  const char *part[3];
  int length[3];
  const Expr *extent[128] = {NULL};
  const Expr *dims[MAX_RANK];
  const char *spec = attr(c, AT_spec)->u.s;
  if (!split_spec(spec, part, length)) return fail(c, "spec \"%s\" is not of the form ab,bc->ac", spec);
  if (c->in[0]->dtype != c->in[1]->dtype || c->in[0]->dtype == DT_bool)
    return fail(c, "operands are %s and %s", dtype_name(c->in[0]->dtype), dtype_name(c->in[1]->dtype));
  for (int p = 0; p < 2; p++) {
    if (length[p] != c->in[p]->rank) return fail(c, "spec \"%s\" gives operand %d %d dimensions", spec, p, length[p]);
    for (int i = 0; i < length[p]; i++) {
      const Expr **e = &extent[(int)part[p][i]];
      if (*e && *e != c->in[p]->dims[i]) return fail(c, "'%c' of \"%s\" has two extents", part[p][i], spec);
      *e = c->in[p]->dims[i];
    }
  }
  if (length[2] > MAX_RANK) return fail(c, "result of rank %d", length[2]);
  for (int i = 0; i < length[2]; i++) {
    dims[i] = extent[(int)part[2][i]];
    if (!dims[i]) return fail(c, "'%c' of \"%s\" is in no operand", part[2][i], spec);
  }
  return type_get(c->m, c->in[0]->dtype, length[2], dims);
}

static const Type *infer_gather(const Infer *c) {
  const Type *table = c->in[0], *index = c->in[1];
  int axis = checked_axis(c, AT_axis, table->rank), n = 0;
  const Expr *dims[2 * MAX_RANK];
  if (axis < 0) return NULL;
  if (dtype_class(index->dtype) != DTC_I) return fail(c, "indices are %s", dtype_name(index->dtype));
  for (int d = 0; d < axis; d++) dims[n++] = table->dims[d];
  for (int d = 0; d < index->rank; d++) dims[n++] = index->dims[d];
  for (int d = axis + 1; d < table->rank; d++) dims[n++] = table->dims[d];
  if (n > MAX_RANK) return fail(c, "result of rank %d", n);
  return type_get(c->m, table->dtype, n, dims);
}

/* Rows x[r.., k], each with the index[r..] of its group, and matrices w[v, a, b]. */
static const Type *check_grouped(const Infer *c, int w, const Expr *groups, const Expr *rows, const Expr *columns) {
  const Type *x = c->in[0], *t = c->in[w];
  if (t->rank != 3 || t->dtype != x->dtype)
    return fail(c, "operand %d must be %s[groups, rows, columns]", w, dtype_name(x->dtype));
  bool fits = (!groups || t->dims[0] == groups) && t->dims[1] == rows && (!columns || t->dims[2] == columns);
  return fits ? t : fail(c, "extents of operand %d do not fit", w);
}

static const Type *check_grouped_rows(const Infer *c) {
  const Type *x = c->in[0], *index = c->in[1];
  if (!dtype_is_float(x->dtype) || x->rank < 1) return fail(c, "rows must be floats with at least one dimension");
  if (index->dtype != DT_i64 || index->rank != x->rank - 1) return fail(c, "indices must be i64, one per row");
  for (int d = 0; d < index->rank; d++)
    if (index->dims[d] != x->dims[d]) return fail(c, "indices and rows differ in dimension %d", d);
  return x;
}

static const Type *with_last(const Infer *c, const Expr *last) {
  const Expr *dims[MAX_RANK];
  const Type *x = c->in[0];
  for (int d = 0; d < x->rank; d++) dims[d] = d < x->rank - 1 ? x->dims[d] : last;
  return type_get(c->m, x->dtype, x->rank, dims);
}

static const Type *infer_grouped_dot(const Infer *c) {
  const Type *x = check_grouped_rows(c), *w = x ? check_grouped(c, 2, NULL, x->dims[x->rank - 1], NULL) : NULL;
  return w ? with_last(c, w->dims[2]) : NULL;
}

static const Type *infer_grouped_mlp(const Infer *c) {
  const char *kind = attr(c, AT_kind)->u.s;
  if (strcmp(kind, "silu") != 0 && strcmp(kind, "relu") != 0) return fail(c, "kind is \"%s\", not silu or relu", kind);
  const Type *x = check_grouped_rows(c), *gate = x ? check_grouped(c, 2, NULL, x->dims[x->rank - 1], NULL) : NULL;
  if (!gate || !check_grouped(c, 3, gate->dims[0], gate->dims[1], gate->dims[2])) return NULL;
  const Type *down = check_grouped(c, 4, gate->dims[0], gate->dims[2], NULL);
  return down ? with_last(c, down->dims[2]) : NULL;
}

/* Element-wise indexing: equal extents apart from `axis`. */
static const Type *check_aligned(const Infer *c, const Type *x, const Type *index, int axis) {
  if (dtype_class(index->dtype) != DTC_I) return fail(c, "indices are %s", dtype_name(index->dtype));
  if (x->rank != index->rank) return fail(c, "%s and %s differ in rank", type_text(c, x), type_text(c, index));
  for (int d = 0; d < x->rank; d++)
    if (d != axis && x->dims[d] != index->dims[d])
      return fail(c, "dimension %d of %s and %s differs", d, type_text(c, x), type_text(c, index));
  return index;
}

static const Type *infer_take(const Infer *c) {
  int axis = checked_axis(c, AT_axis, c->in[0]->rank);
  if (axis < 0 || !check_aligned(c, c->in[0], c->in[1], axis)) return NULL;
  return type_with_dtype(c->m, c->in[1], c->in[0]->dtype);
}

static const Type *infer_argsort(const Infer *c) {
  if (c->in[0]->dtype == DT_bool) return fail(c, "not defined for bool");
  return checked_axis(c, AT_axis, c->in[0]->rank) < 0 ? NULL : type_with_dtype(c->m, c->in[0], DT_i64);
}

static const Type *infer_scan(const Infer *c) {
  Reduction r = attr(c, AT_op)->u.reduction;
  if (!reduction_defined(r, c->in[0]->dtype) || r == RED_ONE)
    return fail(c, "%s is not defined for %s", reduction_name(r), dtype_name(c->in[0]->dtype));
  return checked_axis(c, AT_axis, c->in[0]->rank) < 0 ? NULL : c->in[0];
}

/* scatter and put: the result's type is written. */
static const Type *check_scatter(const Infer *c) {
  const Type *x = c->in[0], *index = c->in[1], *y = c->spec->type;
  Reduction r = attr(c, AT_op)->u.reduction;
  int axis = checked_axis(c, AT_axis, y->rank);
  if (axis < 0) return NULL;
  if (x->dtype != y->dtype) return fail(c, "the result is %s", dtype_name(y->dtype));
  if (!reduction_defined(r, x->dtype) || r == RED_ONE)
    return fail(c, "%s is not defined for %s", reduction_name(r), dtype_name(x->dtype));
  if (c->spec->kind == OP_put) {
    if (!check_aligned(c, y, index, axis) || !check_aligned(c, x, index, -1)) return NULL;
    return y;
  }
  if (dtype_class(index->dtype) != DTC_I) return fail(c, "indices are %s", dtype_name(index->dtype));
  if (x->rank != y->rank + index->rank - 1)
    return fail(c, "%s does not scatter %s into %s", type_text(c, index), type_text(c, x), type_text(c, y));
  for (int d = 0; d < x->rank; d++) {
    bool indexed = d >= axis && d < axis + index->rank;
    const Expr *want = indexed ? index->dims[d - axis] : y->dims[d < axis ? d : d - index->rank + 1];
    if (x->dims[d] != want) return fail(c, "dimension %d of %s does not fit", d, type_text(c, x));
  }
  return y;
}

static const Type *infer_update(const Infer *c) {
  const Type *x = c->in[0], *u = c->in[1], *p = c->in[2];
  int axis = checked_axis(c, AT_axis, x->rank);
  if (axis < 0) return NULL;
  if (p->rank != 0 || p->dtype != DT_i64) return fail(c, "the position must be an i64 scalar");
  if (u->dtype != x->dtype || u->rank != x->rank) return fail(c, "operands differ in type or rank");
  for (int d = 0; d < x->rank; d++)
    if (d != axis && u->dims[d] != x->dims[d]) return fail(c, "operands differ in dimension %d", d);
  return x;
}

static const Type *infer_attention(const Infer *c) {
  const Type *q = c->in[0], *k = c->in[1], *v = c->in[2];
  if (q->rank != 5 || k->rank != 4 || v->rank != 4) return fail(c, "q, k, v must be [b,g,r,s,k], [b,g,t,k], [b,g,t,e]");
  if (!dtype_is_float(q->dtype) || q->dtype != k->dtype || q->dtype != v->dtype)
    return fail(c, "q, k, v must be of one float type");
  bool fits = q->dims[0] == k->dims[0] && q->dims[1] == k->dims[1] && q->dims[4] == k->dims[3] &&
              k->dims[0] == v->dims[0] && k->dims[1] == v->dims[1] && k->dims[2] == v->dims[2];
  if (!fits) return fail(c, "extents of q, k and v do not fit");
  for (int i = 3; i < 6; i++)
    if (c->in[i]->dtype != DT_i64) return fail(c, "positions and length must be i64");
  if (c->in[3]->rank != 1 || c->in[3]->dims[0] != q->dims[3] || c->in[4]->rank != 1 ||
      c->in[4]->dims[0] != k->dims[2] || c->in[5]->rank != 0)
    return fail(c, "positions must be [s] and [t], the length a scalar");
  const Expr *dims[5] = {q->dims[0], q->dims[1], q->dims[2], q->dims[3], v->dims[3]};
  return type_get(c->m, q->dtype, 5, dims);
}

static const Type *infer_cross_entropy(const Infer *c) {
  const Type *x = c->in[0], *label = c->in[1];
  if (!dtype_is_float(x->dtype) || x->rank < 1) return fail(c, "logits must be floats with at least one dimension");
  if (label->dtype != DT_i64 || label->rank != x->rank - 1) return fail(c, "labels must be i64, one per row");
  for (int d = 0; d < label->rank; d++)
    if (label->dims[d] != x->dims[d]) return fail(c, "labels and logits differ in dimension %d", d);
  return type_get(c->m, x->dtype, label->rank, label->dims);
}

static const Type *infer_write(const Infer *c) { return c->in[0]; }

static const Type *infer_call(const Infer *c) {
  const Func *callee = module_func(c->m, attr(c, AT_name)->u.s);
  if (!callee) return fail(c, "no function \"%s\"", attr(c, AT_name)->u.s);
  if (callee == c->f) return fail(c, "function \"%s\" calls itself", callee->name);
  if (!callee->outputs.n) return fail(c, "function \"%s\" has no output", callee->name);
  int n = 0;
  for (size_t i = 0; i < callee->ops.n; i++) {
    const Op *op = &callee->ops.items[i];
    if (op->kind != OP_input) continue;
    if (n < c->spec->nin && type_of(callee, op->out) != c->in[n])
      return fail(c, "operand %d does not fit input \"%s\" of \"%s\"", n, op->name, callee->name);
    n++;
  }
  if (n != c->spec->nin) return fail(c, "\"%s\" takes %d operands", callee->name, n);
  return type_of(callee, callee->outputs.items[0].value);
}

static const Type *infer_result(const Infer *c) {
  const Op *call = op_of(c->f, c->spec->in[0]);
  if (call->kind != OP_call) return fail(c, "operand 0 is not a call");
  const Func *callee = module_func(c->m, op_str(call, AT_name));
  int64_t i = attr(c, AT_index)->u.i;
  if (!callee || i < 1 || i >= (int64_t)callee->outputs.n)
    return fail(c, "\"%s\" has no output %lld", op_str(call, AT_name), (long long)i);
  return type_of(callee, callee->outputs.items[i].value);
}

static const Type *infer_loop(const Infer *c) {
  if (c->in[0]->rank != 0 || c->in[0]->dtype != DT_i64) return fail(c, "the number of rounds must be an i64 scalar");
  return c->in[0];
}

static const Type *infer_repeat(const Infer *c) {
  if (op_of(c->f, c->spec->in[0])->kind != OP_loop) return fail(c, "operand 0 is not a loop");
  if (c->spec->nin > 1 && (c->in[1]->rank != 0 || c->in[1]->dtype != DT_bool))
    return fail(c, "operand 1 must be a bool scalar");
  return c->in[0];
}

static const Type *infer_leave(const Infer *c) {
  if (op_of(c->f, c->spec->in[0])->kind != OP_carry) return fail(c, "operand 0 is not a carry");
  if (c->in[0] != c->in[1])
    return fail(c, "a carry of %s cannot become %s", type_text(c, c->in[0]), type_text(c, c->in[1]));
  return c->in[0];
}

/* ---- operations whose type is written: what can be checked is checked */

static const Type *check_broadcast(const Infer *c) {
  const Type *x = c->in[0], *y = c->spec->type;
  const Attr *dims = attr(c, AT_dims);
  if (dims->n != x->rank) return fail(c, "dims needs one entry per operand dimension");
  for (int i = 0; i < x->rank; i++) {
    int64_t d = dims->u.ints[i];
    if (d < 0 || d >= y->rank || (i && d <= dims->u.ints[i - 1]))
      return fail(c, "dims must be ascending result dimensions");
    if (x->dims[i] != y->dims[d] && !ex_is_const(x->dims[i], 1))
      return fail(c, "operand dimension %d does not stretch to %s", i, type_text(c, y));
  }
  return x->dtype == y->dtype ? y : fail(c, "result type differs");
}

static const Type *check_reshape(const Infer *c) {
  const Type *y = c->spec->type;
  if (c->f->level == 1 && type_elements(c->m, c->in[0]) != type_elements(c->m, y))
    return fail(c, "%s does not hold as many elements as %s", type_text(c, y), type_text(c, c->in[0]));
  return c->in[0]->dtype == y->dtype ? y : fail(c, "result type differs");
}

static const Type *check_slice(const Infer *c) {
  const Attr *starts = attr(c, AT_starts), *strides = attr(c, AT_strides);
  const Type *x = c->in[0], *y = c->spec->type;
  if (starts->n != x->rank || strides->n != x->rank || y->rank != x->rank || y->dtype != x->dtype)
    return fail(c, "starts, strides and result need the operand's rank and type");
  for (int d = 0; d < x->rank; d++) {
    int64_t start, extent, have, step = strides->u.ints[d];
    if (step < 1) return fail(c, "stride %lld of dimension %d", (long long)step, d);
    if (!ex_get_const(starts->u.exprs[d], &start) || !ex_get_const(y->dims[d], &extent) ||
        !ex_get_const(x->dims[d], &have))
      continue;
    if (start < 0 || extent < 0 || (extent > 0 && (start >= have || (extent - 1) > (have - 1 - start) / step)))
      return fail(c, "[%lld + %lld * %lld) leaves dimension %d of extent %lld", (long long)start, (long long)extent,
                  (long long)step, d, (long long)have);
  }
  return y;
}

static const Type *check_const(const Infer *c) {
  const Attr *value = attr(c, AT_value), *ints = attr(c, AT_ints), *floats = attr(c, AT_floats);
  int64_t n;
  if ((value != NULL) + (ints != NULL) + (floats != NULL) != 1) return fail(c, "needs one of value, ints, floats");
  if (value) return c->spec->type;
  if (!ex_get_const(type_elements(c->m, c->spec->type), &n) || n != (ints ? ints->n : floats->n))
    return fail(c, "lists %d elements for %s", ints ? ints->n : floats->n, type_text(c, c->spec->type));
  if ((floats != NULL) != dtype_is_float(c->spec->type->dtype))
    return fail(c, "floats for float types, ints for the others");
  return c->spec->type;
}

/* What is moved stays what it is. */
static const Type *check_moved(const Infer *c) {
  const Type *x = c->in[0], *y = c->spec->type;
  return x->dtype == y->dtype && x->rank == y->rank
             ? y
             : fail(c, "the result is %s, the operand %s", type_text(c, y), type_text(c, x));
}

static const Type *check_exchange(const Infer *c) {
  if (attr(c, AT_source)->n != 2 || attr(c, AT_target)->n != 2)
    return fail(c, "source and target are intervals [lo, hi]");
  return checked_axis(c, AT_axis, c->in[0]->rank) < 0 ? NULL : check_moved(c);
}

/* Windowed dimensions as in ir/window.h; the other letters as in a dot. */
static const Type *check_window_lists(const Infer *c, int n) {
  const Attr *strides = attr(c, AT_strides), *dilations = attr(c, AT_dilations);
  if (n < 1 || n > MAX_WINDOWED) return fail(c, "%d windowed dimensions", n);
  if (attr(c, AT_starts)->n != n || strides->n != n || dilations->n != n)
    return fail(c, "starts, strides and dilations need one entry for each of the %d windowed dimensions", n);
  for (int i = 0; i < n; i++)
    if (strides->u.ints[i] < 1 || dilations->u.ints[i] < 1) return fail(c, "strides and dilations are at least 1");
  return c->spec->type;
}

static const Type *check_conv(const Infer *c) {
  const char *part[3];
  int length[3], capitals[3] = {0};
  const char *spec = attr(c, AT_spec)->u.s;
  const Expr *extent[128] = {NULL};
  if (!split_spec(spec, part, length)) return fail(c, "spec \"%s\" is not of the form ncHW,ocHW->noHW", spec);
  const Type *types[3] = {c->in[0], c->in[1], c->spec->type};
  for (int p = 0; p < 3; p++) {
    if (length[p] != types[p]->rank) return fail(c, "spec \"%s\" does not fit %s", spec, type_text(c, types[p]));
    if (types[p]->dtype != types[0]->dtype || !dtype_is_float(types[p]->dtype))
      return fail(c, "operands and result must be of one float type");
    for (int i = 0; i < length[p]; i++) {
      int l = part[p][i];
      capitals[p] += l <= 'Z';
      if (l <= 'Z' && !memchr(part[0], l, (size_t)length[0]))
        return fail(c, "'%c' is not in every part of \"%s\"", l, spec);
      if (l <= 'Z') continue;
      if (extent[l] && extent[l] != types[p]->dims[i]) return fail(c, "'%c' of \"%s\" has two extents", l, spec);
      if (!extent[l] && p == 2) return fail(c, "'%c' of \"%s\" is in no operand", l, spec);
      extent[l] = types[p]->dims[i];
    }
  }
  if (capitals[0] != capitals[1] || capitals[0] != capitals[2])
    return fail(c, "every part of \"%s\" needs the same capital letters", spec);
  return check_window_lists(c, capitals[0]);
}

static const Type *check_pool(const Infer *c) {
  const Attr *axes = attr(c, AT_axes);
  const Type *x = c->in[0], *y = c->spec->type;
  if (x->rank != y->rank || x->dtype != y->dtype) return fail(c, "the result needs the operand's rank and type");
  if (!reduction_defined(attr(c, AT_op)->u.reduction, x->dtype) || attr(c, AT_op)->u.reduction == RED_ONE)
    return fail(c, "%s is not defined for %s", reduction_name(attr(c, AT_op)->u.reduction), dtype_name(x->dtype));
  if (attr(c, AT_window)->n != axes->n) return fail(c, "window needs one entry per axis");
  int next = 0;
  for (int d = 0; d < x->rank; d++) {
    if (next < axes->n && axes->u.ints[next] == d) next++;
    else if (x->dims[d] != y->dims[d]) return fail(c, "dimension %d differs and is not windowed", d);
  }
  if (next != axes->n) return fail(c, "axes must be ascending dimensions of the operand");
  return check_window_lists(c, axes->n);
}

static const Type *infer_given(const Infer *c) {
  const Type *y = c->spec->type;
  switch (c->spec->kind) {
    case OP_broadcast: return check_broadcast(c);
    case OP_reshape: return check_reshape(c);
    case OP_slice: return check_slice(c);
    case OP_const: return check_const(c);
    case OP_iota: return checked_axis(c, AT_axis, y->rank) < 0 ? NULL : y;
    case OP_param: return attr(c, AT_experts) && checked_axis(c, AT_experts, y->rank) < 0 ? NULL : y;
    case OP_random:
      if (attr(c, AT_starts)->n != y->rank || attr(c, AT_extents)->n != y->rank)
        return fail(c, "starts and extents need one entry per dimension");
      return dtype_is_float(y->dtype) ? y : fail(c, "not defined for %s", dtype_name(y->dtype));
    case OP_conv:
    case OP_conv_transpose:
    case OP_conv_filter: return check_conv(c);
    case OP_pool: return check_pool(c);
    case OP_scatter:
    case OP_put: return check_scatter(c);
    case OP_exchange: return check_exchange(c);
    case OP_all_to_all:
      return checked_axis(c, AT_split, y->rank) < 0 || checked_axis(c, AT_concat, y->rank) < 0 ? NULL : check_moved(c);
    case OP_all_gather:
    case OP_reduce_scatter:
    case OP_shard_slice: return checked_axis(c, AT_axis, y->rank) < 0 ? NULL : check_moved(c);
    default: return y;
  }
}

/* ---- entry */

static bool check_attrs(const Infer *c) {
  OpKind k = c->spec->kind;
  for (int i = 0; i < c->spec->nattrs; i++)
    if (op_attr_rule(k, c->spec->attrs[i].key) < 0)
      return fail(c, "has no attribute %s", attr_name(c->spec->attrs[i].key)) != NULL;
  for (int key = 0; key < AT_COUNT; key++)
    if (op_attr_rule(k, (AttrKey)key) == 1 && !attr(c, (AttrKey)key))
      return fail(c, "needs attribute %s", attr_name((AttrKey)key)) != NULL;
  return true;
}

const Type *infer_type(Module *m, const Func *f, const OpSpec *spec, Diags *diags) {
  static const Type *(*const functions[OP_COUNT])(const Infer *) = {
#define UNARY(name, ...) [OP_##name] = infer_unary,
#define BINARY(name, ...) [OP_##name] = infer_binary,
#define COMPARE(name, ...) [OP_##name] = infer_compare,
#define OP(name, min, max, results, traits, attrs, infer, rule, kinds, rule_fn, eval, doc) [OP_##name] = infer_##infer,
#include "ir/ops.def"
  };
  Infer c = {m, f, spec, diags, {NULL}};
  if (spec->nin < op_min_operands(spec->kind) || spec->nin > op_max_operands(spec->kind))
    return fail(&c, "%d operands", spec->nin);
  for (int i = 0; i < spec->nin; i++) c.in[i] = type_of(f, spec->in[i]);
  if (!check_attrs(&c)) return NULL;
  if (op_type_is_given(spec->kind) && !spec->type) return fail(&c, "needs a result type");
  const Type *t = functions[spec->kind](&c);
  /* At level 2 the extents of a joined or padded shard are sums of minima that no longer look like the shard's own
   * extent; the interpreter and the runtime check them. */
  bool trusted = f->level == 2 && (spec->kind == OP_pad || spec->kind == OP_concat);
  if (t && spec->type && trusted && t->rank == spec->type->rank && t->dtype == spec->type->dtype) return spec->type;
  if (t && spec->type && t != spec->type && op_results(spec->kind))
    return fail(&c, "the result is %s, written as %s", type_text(&c, t), type_text(&c, spec->type));
  return t;
}
