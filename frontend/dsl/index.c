/* frontend/dsl/index.c - evaluates [...] and .name: types, list items, slices of tensors, shapes. */
#include <string.h>

#include "frontend/dsl/eval.h"

/* ---- f32[batch, 4] */

typedef struct Sizes {
  int n;
  const Expr *dims[MAX_RANK];
} Sizes;

/* Appends one size, or all sizes of a list; false after reporting. */
static bool add_sizes(DslEval *ev, DslNode *n, DslValue v, Sizes *s) {
  int64_t extent;
  if (v.kind == V_LIST) {
    bool ok = true;
    ev->depth++;
    for (int i = 0; ok && i < v.n; i++) ok = dsl_step(ev, n) && add_sizes(ev, n, v.u.items[i], s);
    ev->depth--;
    return ok;
  }
  if (v.kind != V_INT) dsl_fail(ev, n, DIAG_dsl_type, "a size must be an integer, not %s", dsl_value_describe(ev, v));
  else if (dsl_value_const(v, &extent) && extent < 0)
    dsl_fail(ev, n, DIAG_dsl_value, "the size %lld is negative", (long long)extent);
  else if (s->n == MAX_RANK) dsl_fail(ev, n, DIAG_dsl_value, "a tensor has at most %d dimensions", MAX_RANK);
  else {
    s->dims[s->n++] = v.u.e;
    return true;
  }
  return false;
}

static DslValue index_dtype(DslEval *ev, DslNode *n, DType dtype) {
  Sizes s = {0};
  for (DslNode *i = n->b; i; i = i->next) {
    if (i->kind == N_SLICE || i->kind == N_ELLIPSIS)
      return dsl_fail(ev, i, DIAG_dsl_type, "a type has sizes, not slices");
    DslValue v = dsl_expression(ev, i);
    if (v.kind == V_ERROR || !add_sizes(ev, i, v, &s)) return value_error();
  }
  return (DslValue){.kind = V_TYPE, .u.type = type_get(ev->m, dtype, s.n, s.dims)};
}

/* ---- list[i] */

/* Evaluates a bound of list[a:b], clipped to the list as in Python. */
static bool list_bound(DslEval *ev, DslNode *n, int count, int otherwise, int *out) {
  int64_t at = otherwise;
  if (n) {
    DslValue v = dsl_expression(ev, n);
    if (v.kind == V_ERROR) return false;
    if (!dsl_value_const(v, &at)) {
      dsl_fail(ev, n, DIAG_dsl_type, "a list is indexed by integers, not %s", dsl_value_describe(ev, v));
      return false;
    }
    if (at < 0) at += count;
  }
  *out = at < 0 ? 0 : at > count ? count : (int)at;
  return true;
}

static DslValue slice_list(DslEval *ev, DslNode *n, DslValue list) {
  int lo, hi;
  if (n->c) return dsl_fail(ev, n->c, DIAG_dsl_type, "a slice of a list has no step");
  if (!list_bound(ev, n->a, list.n, 0, &lo) || !list_bound(ev, n->b, list.n, list.n, &hi)) return value_error();
  return value_list(hi > lo ? hi - lo : 0, list.u.items + lo);
}

static DslValue index_list(DslEval *ev, DslNode *n, DslValue list) {
  DslNode *i = n->b;
  int64_t at;
  if (!i || i->next || i->kind == N_ELLIPSIS) return dsl_fail(ev, n, DIAG_dsl_type, "a list is indexed by one integer");
  if (i->kind == N_SLICE) return slice_list(ev, i, list);
  DslValue v = dsl_expression(ev, i);
  if (v.kind == V_ERROR) return v;
  if (!dsl_value_const(v, &at))
    return dsl_fail(ev, i, DIAG_dsl_type, "a list is indexed by an integer, not %s", dsl_value_describe(ev, v));
  if (at < -list.n || at >= list.n)
    return dsl_fail(ev, i, DIAG_dsl_value, "index %lld is outside a list of %d", (long long)at, list.n);
  return list.u.items[at < 0 ? at + list.n : at];
}

/* ---- x[:, 0:3, i] */

/* Evaluates one bound of a slice or one index; a negative number counts from the end. */
static bool bound_of(DslEval *ev, DslNode *n, DslValue v, const Expr *extent, const Expr **out) {
  int64_t i;
  if (v.kind == V_ERROR) return false;
  if (v.kind != V_INT) {
    bool fresh = !n->reported;
    dsl_fail(ev, n, DIAG_dsl_type, "an index must be an integer known at compile time, not %s",
             dsl_value_describe(ev, v));
    if (v.kind == V_TENSOR && fresh) diag_help(ev->diags, "to look up with a tensor write gather(x, index)");
    return false;
  }
  *out = dsl_value_const(v, &i) && i < 0 ? ex_add(ev->m, extent, v.u.e) : v.u.e;
  return true;
}

static bool bound(DslEval *ev, DslNode *n, const Expr *extent, const Expr **out) {
  return bound_of(ev, n, dsl_expression(ev, n), extent, out);
}

/* Reports a constant outside [0, extent + slack]; symbolic values are checked when they are bound. */
static bool inside(DslEval *ev, DslNode *n, const Expr *e, const Expr *extent, int slack) {
  int64_t v, room;
  bool low = ex_get_const(e, &v) && v < 0;
  bool high = ex_get_const(ex_sub(ev->m, ex_addi(ev->m, extent, slack), e), &room) && room < 0;
  if (!low && !high) return true;
  const char *at = dsl_expr_text(ev, e);
  dsl_fail(ev, n, DIAG_dsl_value, "%s is outside a dimension of size %s", at, dsl_expr_text(ev, extent));
  return false;
}

/* The part of a tensor that indices select: one slice operation. */
typedef struct Part {
  const Expr *starts[MAX_RANK], *dims[MAX_RANK];
  int64_t strides[MAX_RANK];
  bool dropped[MAX_RANK]; /* selected by a single index */
  Val picked[MAX_RANK];   /* selected by a tensor; 0 if not */
} Part;

static bool take_slice(DslEval *ev, DslNode *n, const Expr *extent, Part *p, int axis) {
  const Expr *lo = ex_const(ev->m, 0), *hi = extent;
  int64_t step = 1, length;
  if (n->a && (!bound(ev, n->a, extent, &lo) || !inside(ev, n->a, lo, extent, 0))) return false;
  if (n->b && (!bound(ev, n->b, extent, &hi) || !inside(ev, n->b, hi, extent, 0))) return false;
  if (n->c) {
    DslValue v = dsl_expression(ev, n->c);
    if (v.kind == V_ERROR) return false;
    if (!dsl_value_const(v, &step) || step < 1) {
      dsl_fail(ev, n->c, DIAG_dsl_value, "the step of a slice must be a positive integer");
      return false;
    }
  }
  const Expr *count = ex_sub(ev->m, hi, lo);
  if (ex_get_const(count, &length) && length < 0) {
    const char *from = dsl_expr_text(ev, lo);
    dsl_fail(ev, n, DIAG_dsl_value, "the slice from %s to %s ends before it starts", from, dsl_expr_text(ev, hi));
    return false;
  }
  p->starts[axis] = lo;
  p->dims[axis] = step > 1 ? ex_ceil_div(ev->m, count, ex_const(ev->m, step)) : count;
  p->strides[axis] = step;
  return true;
}

/* Indexes by a scalar integer tensor, such as the number of a loop's round, with gather. */
static bool take_item(DslEval *ev, DslNode *n, const Expr *extent, Part *p, int axis) {
  DslValue v = dsl_expression(ev, n);
  const Type *t = v.kind == V_TENSOR ? type_of(ev->b.f, v.u.t) : NULL;
  if (t && t->rank == 0 && dtype_class(t->dtype) == DTC_I) {
    p->picked[axis] = v.u.t;
    return true;
  }
  if (!bound_of(ev, n, v, extent, &p->starts[axis]) || !inside(ev, n, p->starts[axis], extent, -1)) return false;
  p->dims[axis] = ex_const(ev->m, 1);
  p->dropped[axis] = true;
  return true;
}

static int count_indices(const DslNode *list) {
  int n = 0;
  for (const DslNode *i = list; i; i = i->next) n += i->kind != N_ELLIPSIS;
  return n;
}

/* Fills the part from the indices; false after reporting. */
static bool take_part(DslEval *ev, DslNode *n, const Type *t, Part *p) {
  int axis = 0, given = count_indices(n->b);
  bool ellipsis = false;
  for (int d = 0; d < t->rank; d++) p->starts[d] = ex_const(ev->m, 0), p->dims[d] = t->dims[d], p->strides[d] = 1;
  if (given > t->rank) {
    dsl_fail(ev, n, DIAG_dsl_shape, "%d indices for %s", given, dsl_type_text(ev, t));
    return false;
  }
  for (DslNode *i = n->b; i; i = i->next) {
    if (i->kind == N_ELLIPSIS) {
      if (ellipsis) {
        dsl_fail(ev, i, DIAG_dsl_syntax, "'...' can occur only once");
        return false;
      }
      ellipsis = true;
      axis += t->rank - given;
      continue;
    }
    bool ok = i->kind == N_SLICE ? take_slice(ev, i, t->dims[axis], p, axis) : take_item(ev, i, t->dims[axis], p, axis);
    if (!ok) return false;
    axis++;
  }
  return true;
}

static DslValue index_tensor(DslEval *ev, DslNode *n, Val x) {
  const Type *t = type_of(ev->b.f, x);
  Part p = {0};
  const Expr *kept[MAX_RANK];
  int rank = 0;
  if (!take_part(ev, n, t, &p)) return value_error();
  dsl_begin(ev, n);
  const Type *part = type_get(ev->m, t->dtype, t->rank, p.dims);
  Attr attrs[] = {attr_exprs(ev->m, AT_starts, t->rank, p.starts), attr_ints(ev->m, AT_strides, t->rank, p.strides)};
  if (part != t)
    x = build_op(&ev->b, &(OpSpec){.kind = OP_slice, .nin = 1, .in = &x, .type = part, .nattrs = 2, .attrs = attrs});
  for (int d = t->rank - 1; d >= 0 && x; d--)
    if (p.picked[d]) x = build_checked_gather(&ev->b, OP_gather, x, p.picked[d], d);
  for (int d = 0; d < t->rank; d++)
    if (!p.dropped[d] && !p.picked[d]) kept[rank++] = p.dims[d];
  return dsl_built(ev, n, build_reshape(&ev->b, x, rank, kept));
}

DslValue dsl_index(DslEval *ev, DslNode *n) {
  DslValue v = dsl_expression(ev, n->a);
  switch (v.kind) {
    case V_ERROR: return v;
    case V_DTYPE: return index_dtype(ev, n, v.u.dtype);
    case V_LIST: return index_list(ev, n, v);
    case V_TENSOR: return index_tensor(ev, n, v.u.t);
    default: return dsl_fail(ev, n, DIAG_dsl_type, "%s cannot be indexed", dsl_value_describe(ev, v));
  }
}

/* ---- x.shape, x.rank, x.dtype */

DslValue dsl_field(DslEval *ev, DslNode *n) {
  DslValue v = dsl_expression(ev, n->a);
  if (v.kind == V_ERROR) return v;
  if (v.kind != V_TENSOR && v.kind != V_TYPE)
    return dsl_fail(ev, n, DIAG_dsl_name, "%s has no field '%s'", dsl_value_describe(ev, v), n->s);
  const Type *t = v.kind == V_TYPE ? v.u.type : type_of(ev->b.f, v.u.t);
  if (strcmp(n->s, "rank") == 0) return value_expr(ex_const(ev->m, t->rank));
  if (strcmp(n->s, "dtype") == 0) return (DslValue){.kind = V_DTYPE, .u.dtype = t->dtype};
  if (strcmp(n->s, "shape") == 0) {
    DslValue *items = ARENA_ARRAY(ev->arena, DslValue, t->rank);
    for (int d = 0; d < t->rank; d++) items[d] = value_expr(t->dims[d]);
    return value_list(t->rank, items);
  }
  dsl_fail(ev, n, DIAG_dsl_name, "a tensor has no field '%s'; it has shape, rank and dtype", n->s);
  return value_error();
}
