/* frontend/dsl/tensor.c - built-in sources, reductions, look-ups and the operations of neural networks. */
#include <math.h>
#include <string.h>
#include <string.h>

#include "base/hash.h"
#include "frontend/dsl/builtin.h"

static DslValue built(Args *a, Val v) { return dsl_built(a->ev, a->call, v); }

/* Builds one operation with operands and attributes; its type is inferred. */
static DslValue operation(Args *a, OpKind k, int nin, const Val *in, int nattrs, const Attr *attrs) {
  dsl_begin(a->ev, a->call);
  return built(a, build_op(&a->ev->b, &(OpSpec){.kind = k, .nin = nin, .in = in, .nattrs = nattrs, .attrs = attrs}));
}

/* ---- sources */

DslValue dsl_fn_fill(Args *a) {
  const Type *t;
  double number;
  if (!dsl_arg_type(a, 0, &t)) return value_error();
  dsl_begin(a->ev, a->call);
  if (a->v[1].kind == V_INT && t->dtype != DT_bool && !dtype_is_float(t->dtype))
    return built(a, dsl_whole_number(a->ev, a->at[1], a->v[1].u.e, t));
  if (a->v[1].kind == V_INT && !dsl_value_number(a->v[1], &number))
    return built(a, build_size(&a->ev->b, t, a->v[1].u.e));
  if (!dsl_arg_number(a, 1, 0, &number)) return value_error();
  if (!dtype_is_float(t->dtype) && number != floor(number))
    return dsl_arg_fail(a, 1, "a whole number for this type"), value_error();
  return built(a, build_splat(&a->ev->b, t, number));
}

DslValue dsl_fn_iota(Args *a) {
  const Type *t;
  int axis;
  if (a->v[0].kind == V_INT) t = type_get(a->ev->m, DT_i64, 1, &a->v[0].u.e);
  else if (!dsl_arg_type(a, 0, &t)) return value_error();
  if (t->dtype == DT_bool) return dsl_arg_fail(a, 0, "a type of numbers"), value_error();
  if (!dsl_arg_axis(a, 1, t->rank, t->rank - 1, &axis)) return value_error();
  dsl_begin(a->ev, a->call);
  return built(a, build_iota(&a->ev->b, t, axis));
}

/* ---- elementwise */

DslValue dsl_fn_cast(Args *a) {
  Val x;
  if (!dsl_arg_tensor(a, 0, &x)) return value_error();
  if (a->v[1].kind != V_DTYPE) return dsl_arg_fail(a, 1, "an element type such as f32"), value_error();
  dsl_begin(a->ev, a->call);
  return built(a, build_cast(&a->ev->b, x, a->v[1].u.dtype));
}

/* Computes the shape that three operands broadcast to, by NumPy's rules. */
static bool common_shape(Args *a, const Val x[3], int *rank, const Expr *dims[MAX_RANK]) {
  *rank = 0;
  for (int i = 0; i < 3; i++)
    if (arg_type_of(a, x[i])->rank > *rank) *rank = arg_type_of(a, x[i])->rank;
  for (int d = 0; d < *rank; d++) dims[d] = ex_const(a->ev->m, 1);
  for (int i = 0; i < 3; i++) {
    const Type *t = arg_type_of(a, x[i]);
    for (int d = 0; d < t->rank; d++) {
      const Expr **out = &dims[*rank - t->rank + d];
      if (ex_is_const(t->dims[d], 1) || t->dims[d] == *out) continue;
      if (!ex_is_const(*out, 1)) {
        dsl_fail(a->ev, a->at[i], DIAG_dsl_shape, "the shape of '%s', %s, does not fit the others", a->names[i],
                 dsl_type_text(a->ev, t));
        return false;
      }
      *out = t->dims[d];
    }
  }
  return true;
}

DslValue dsl_fn_where(Args *a) {
  Val x[3];
  int rank;
  const Expr *dims[MAX_RANK];
  if (!dsl_arg_tensor(a, 0, &x[0])) return value_error();
  if (arg_type_of(a, x[0])->dtype != DT_bool) return dsl_arg_fail(a, 0, "a tensor of bool"), value_error();
  int typed = a->v[1].kind == V_TENSOR ? 1 : 2;
  if (!dsl_arg_tensor(a, typed, &x[typed])) return value_error();
  dsl_begin(a->ev, a->call);
  x[3 - typed] = dsl_operand(a->ev, a->at[3 - typed], a->v[3 - typed], arg_type_of(a, x[typed]));
  if (!x[3 - typed]) return built(a, 0);
  if (arg_type_of(a, x[1])->dtype != arg_type_of(a, x[2])->dtype)
    return dsl_fail(a->ev, a->call, DIAG_dsl_type, "where chooses between one element type, not %s and %s",
                    dtype_name(arg_type_of(a, x[1])->dtype), dtype_name(arg_type_of(a, x[2])->dtype));
  if (!common_shape(a, x, &rank, dims)) return value_error();
  for (int i = 0; i < 3; i++) x[i] = build_bcast_to(&a->ev->b, x[i], rank, dims);
  return operation(a, OP_select, 3, x, 0, NULL);
}

/* ---- reductions */

static DslValue reduction(Args *a, Reduction r, bool mean) {
  Val x;
  int axes[MAX_RANK], n, rank = 0;
  bool keep;
  const Expr *dims[MAX_RANK];
  if (!dsl_arg_tensor(a, 0, &x) || !dsl_arg_flag(a, 2, false, &keep)) return value_error();
  const Type *t = arg_type_of(a, x);
  bool logical = r == RED_OR || r == RED_AND;
  if ((t->dtype == DT_bool) != logical || (mean && !dtype_is_float(t->dtype))) {
    dsl_arg_fail(a, 0, logical ? "a tensor of bool" : mean ? "a tensor of floats" : "a tensor of numbers");
    return value_error();
  }
  if (!dsl_arg_axes(a, 1, t->rank, &n, axes)) return value_error();
  Builder *b = &a->ev->b;
  dsl_begin(a->ev, a->call);
  Val y = n ? build_reduce(b, r, x, n, axes) : x;
  if (mean && y) {
    int64_t constant;
    const Expr *count = ex_const(a->ev->m, 1);
    for (int i = 0; i < n; i++) count = ex_mul(a->ev->m, count, t->dims[axes[i]]);
    const Type *ty = arg_type_of(a, y);
    bool known = ex_get_const(count, &constant);
    y = build_binary(b, OP_div, y, known ? build_splat(b, ty, (double)constant) : build_size(b, ty, count));
  }
  if (!keep || !y) return built(a, y);
  for (int d = 0, next = 0; d < t->rank; d++) {
    bool reduced = next < n && axes[next] == d;
    next += reduced;
    dims[rank++] = reduced ? ex_const(a->ev->m, 1) : t->dims[d];
  }
  return built(a, build_reshape(b, y, rank, dims));
}

DslValue dsl_fn_sum(Args *a) { return reduction(a, RED_SUM, false); }
DslValue dsl_fn_mean(Args *a) { return reduction(a, RED_SUM, true); }
DslValue dsl_fn_prod(Args *a) { return reduction(a, RED_PRODUCT, false); }
DslValue dsl_fn_max(Args *a) { return reduction(a, RED_MAX, false); }
DslValue dsl_fn_min(Args *a) { return reduction(a, RED_MIN, false); }
DslValue dsl_fn_any(Args *a) { return reduction(a, RED_OR, false); }
DslValue dsl_fn_all(Args *a) { return reduction(a, RED_AND, false); }

/* ---- look-ups and updates */

DslValue dsl_fn_gather(Args *a) {
  Val table, index;
  int axis;
  if (!dsl_arg_tensor(a, 0, &table) || !dsl_arg_tensor(a, 1, &index)) return value_error();
  const Type *t = arg_type_of(a, table), *i = arg_type_of(a, index);
  if (dtype_is_float(i->dtype) || i->dtype == DT_bool) return dsl_arg_fail(a, 1, "a tensor of integers"), value_error();
  if (!dsl_arg_axis(a, 2, t->rank, 0, &axis)) return value_error();
  if (t->rank - 1 + i->rank > MAX_RANK)
    return dsl_fail(a->ev, a->call, DIAG_dsl_shape, "the result has more than %d dimensions", MAX_RANK);
  dsl_begin(a->ev, a->call);
  return built(a, build_checked_gather(&a->ev->b, OP_gather, table, index, axis));
}

/* Reads a position: an i64[] tensor, or a size. */
static bool arg_position(Args *a, int i, Val *out) {
  if (a->v[i].kind == V_TENSOR) {
    *out = a->v[i].u.t;
    const Type *t = arg_type_of(a, *out);
    return (t->dtype == DT_i64 && t->rank == 0) || dsl_arg_fail(a, i, "an i64[] tensor or a size");
  }
  if (a->v[i].kind != V_INT) return dsl_arg_fail(a, i, "an i64[] tensor or a size");
  *out = dsl_operand(a->ev, a->at[i], a->v[i], type_get(a->ev->m, DT_i64, 0, NULL));
  return *out != 0;
}

/* Reads a position, length or count: as arg_position, or one per row of a dimension, an i64[rows] tensor; `rows` is
 * NULL if the operation has no rows. */
static bool arg_of_rows(Args *a, int i, const Expr *rows, Val *out) {
  const Type *t = a->v[i].kind == V_TENSOR ? arg_type_of(a, a->v[i].u.t) : NULL;
  if (!t || t->rank == 0) return arg_position(a, i, out);
  *out = a->v[i].u.t;
  if (rows && t->dtype == DT_i64 && t->rank == 1 && t->dims[0] == rows) return true;
  return dsl_arg_fail(a, i,
                      rows ? "a size, an i64[] tensor, or one of i64 with an element per row of dimension 0"
                           : "an i64[] tensor or a size");
}

/* True for the present value of a state. */
static bool is_state(const Func *f, Val v) {
  while (op_of(f, v)->kind == OP_update) v = op_of(f, v)->in[0];
  return op_of(f, v)->kind == OP_read;
}

/* Returns the count, or 0 for a negative one, after a check at run time that position + count is not beyond the end of
 * a state, where elements would be lost silently. */
static Val count_within(Args *a, Val at, Val count, const Expr *extent) {
  Builder *b = &a->ev->b;
  const Func *f = a->ev->loops ? NULL : b->f; /* a value of a loop's body is not seen after it */
  const Type *ta = arg_type_of(a, at), *tc = arg_type_of(a, count);
  if (f && a->ev->within.f == f && a->ev->within.at == at && a->ev->within.count == count &&
      a->ev->within.extent == extent)
    return a->ev->within.checked;
  const Val p = ta->rank < tc->rank ? build_bcast_to(b, at, 1, tc->dims) : at,
            n = tc->rank < ta->rank ? build_bcast_to(b, count, 1, ta->dims) : count;
  if (!p || !n) return 0;
  const Val none = build_splat(b, arg_type_of(a, n), 0), some = none ? build_binary(b, OP_max, n, none) : 0;
  if (!some) return 0;
  const Val end = build_within(b, build_binary(b, OP_add, p, some), ex_addi(a->ev->m, extent, 1), false),
            checked = end ? build_binary(b, OP_sub, end, p) : 0;
  a->ev->within.f = f, a->ev->within.at = at, a->ev->within.count = count;
  a->ev->within.extent = extent, a->ev->within.checked = checked;
  return checked;
}

DslValue dsl_fn_update(Args *a) {
  Val in[4];
  int axis;
  if (!dsl_arg_tensor(a, 0, &in[0]) || !dsl_arg_tensor(a, 1, &in[1])) return value_error();
  const Type *x = arg_type_of(a, in[0]), *u = arg_type_of(a, in[1]);
  if (!dsl_arg_axis(a, 3, x->rank, 0, &axis)) return value_error();
  bool fits = x->dtype == u->dtype && x->rank == u->rank;
  for (int d = 0; fits && d < x->rank; d++) fits = d == axis || x->dims[d] == u->dims[d];
  if (!fits) {
    const char *left = dsl_type_text(a->ev, x);
    return dsl_fail(a->ev, a->call, DIAG_dsl_shape, "%s cannot be written into %s along axis %d",
                    dsl_type_text(a->ev, u), left, axis);
  }
  dsl_begin(a->ev, a->call);
  bool counted = arg_given(a, 4);
  const Expr *rows = axis > 0 ? x->dims[0] : NULL;
  if (!arg_of_rows(a, 2, rows, &in[2]) || (counted && !arg_of_rows(a, 4, rows, &in[3]))) return value_error();
  if (counted && is_state(a->ev->b.f, in[0]) && !(in[3] = count_within(a, in[2], in[3], x->dims[axis])))
    return built(a, 0);
  Attr attrs[] = {attr_i(AT_axis, axis), attr_e(AT_start, ex_const(a->ev->m, 0))};
  return operation(a, OP_update, 3 + counted, in, 2, attrs);
}

/* ---- random numbers */

/* The seed of a random tensor without one: from the name of the result and how many were drawn before, so that no
 * two are alike. */
static int64_t own_seed(DslEval *ev) {
  const char *name = dsl_scope_join(ev, ev->frame->ops, ev->frame->hint);
  return (int64_t)(hash64(name, strlen(name), (uint64_t)ev->drawn++) >> 1);
}

/* With a key, builds another operation whose numbers differ from key to key, so that it may stand in a loop. */
static DslValue random_tensor(Args *a, const char *kind) {
  bool keyed = arg_given(a, 2);
  const Type *t;
  int64_t seed, stream;
  const Expr *zeros[MAX_RANK];
  Module *m = a->ev->m;
  Val key = 0;
  if (a->ev->loops && !keyed)
    return dsl_fail(a->ev, a->call, DIAG_dsl_structure,
                    "random numbers in a loop would be the same in every round; draw them before it, or give a key");
  if (!dsl_arg_type(a, 0, &t) || !(arg_given(a, 1) ? dsl_arg_int(a, 1, 0, &seed) : (seed = own_seed(a->ev), true)) ||
      !dsl_arg_int(a, 3, 0, &stream))
    return value_error();
  if (!dtype_is_float(t->dtype)) return dsl_arg_fail(a, 0, "a type of floats"), value_error();
  if (arg_given(a, 3) && !keyed) return dsl_arg_fail(a, 3, "given together with a key"), value_error();
  dsl_begin(a->ev, a->call);
  if (keyed && !arg_position(a, 2, &key)) return value_error();
  for (int d = 0; d < t->rank; d++) zeros[d] = ex_const(m, 0);
  Attr attrs[] = {attr_s(m, AT_kind, kind), attr_i(AT_seed, seed), attr_exprs(m, AT_starts, t->rank, zeros),
                  attr_exprs(m, AT_extents, t->rank, t->dims), attr_i(AT_stream, stream)};
  OpSpec spec = {.kind = keyed ? OP_random_keyed : OP_random, .type = t, .nattrs = 4 + keyed, .attrs = attrs};
  if (keyed) spec.nin = 1, spec.in = &key;
  return built(a, build_op(&a->ev->b, &spec));
}

DslValue dsl_fn_random_uniform(Args *a) { return random_tensor(a, "uniform"); }
DslValue dsl_fn_random_normal(Args *a) { return random_tensor(a, "normal"); }

/* ---- neural networks */

DslValue dsl_fn_softmax(Args *a) {
  Val x;
  int axis;
  if (!dsl_arg_floats(a, 0, &x)) return value_error();
  int rank = arg_type_of(a, x)->rank;
  if (!dsl_arg_axis(a, 1, rank, rank - 1, &axis)) return value_error();
  Attr attr = attr_i(AT_axis, axis);
  return operation(a, OP_softmax, 1, &x, 1, &attr);
}

static DslValue normalize(Args *a, const char *kind) {
  Val x;
  double eps;
  if (!dsl_arg_floats(a, 0, &x) || !dsl_arg_number(a, 1, 1e-5, &eps)) return value_error();
  if (!(eps >= 0 && eps < INFINITY)) return dsl_arg_fail(a, 1, "a non-negative number"), value_error();
  if (arg_type_of(a, x)->rank == 0) return dsl_arg_fail(a, 0, "a tensor with at least one dimension"), value_error();
  Attr attrs[] = {attr_s(a->ev->m, AT_kind, kind), attr_f(AT_eps, eps)};
  return operation(a, OP_norm, 1, &x, 2, attrs);
}

DslValue dsl_fn_layer_normalize(Args *a) { return normalize(a, "layer"); }
DslValue dsl_fn_rms_normalize(Args *a) { return normalize(a, "rms"); }

DslValue dsl_fn_rope(Args *a) {
  Val in[2];
  double base;
  bool interleaved;
  int64_t width;
  if (!dsl_arg_floats(a, 0, &in[0]) || !dsl_arg_tensor(a, 1, &in[1]) || !dsl_arg_number(a, 2, 10000, &base) ||
      !dsl_arg_flag(a, 3, false, &interleaved))
    return value_error();
  const Type *x = arg_type_of(a, in[0]), *p = arg_type_of(a, in[1]);
  if (!(base > 0 && base < INFINITY)) return dsl_arg_fail(a, 2, "a positive number"), value_error();
  if (x->rank < 3 || !ex_get_const(x->dims[x->rank - 1], &width) || width % 2)
    return dsl_fail(a->ev, a->at[0], DIAG_dsl_shape, "rope needs x[..., s, h, k] with k even, not %s",
                    dsl_type_text(a->ev, x));
  bool rows = p->rank == 2 && x->rank > 3 && p->dims[0] == x->dims[0];
  if (p->dtype != DT_i64 || (p->rank != 1 && !rows) || p->dims[p->rank - 1] != x->dims[x->rank - 3]) {
    const char *want = dsl_expr_text(a->ev, x->dims[x->rank - 3]);
    return dsl_fail(a->ev, a->at[1], DIAG_dsl_shape,
                    "positions must be i64[%s], or as many for each row of the first dimension, not %s", want,
                    dsl_type_text(a->ev, p));
  }
  Attr attrs[] = {attr_f(AT_base, base), attr_i(AT_interleaved, interleaved)};
  return operation(a, OP_rope, 2, in, 2, attrs);
}

/* The positions 0, 1 ... of a dimension if the argument is omitted. */
static bool positions(Args *a, int i, const Expr *batch, const Expr *extent, Val *out) {
  if (!arg_given(a, i)) {
    *out = build_iota(&a->ev->b, type_get(a->ev->m, DT_i64, 1, &extent), 0);
    return *out != 0;
  }
  if (!dsl_arg_tensor(a, i, out)) return false;
  const Type *t = arg_type_of(a, *out);
  bool fits = t->rank == 1 || (t->rank == 2 && t->dims[0] == batch);
  if (t->dtype == DT_i64 && fits && t->dims[t->rank - 1] == extent) return true;
  const char *want = dsl_expr_text(a->ev, extent), *rows = dsl_expr_text(a->ev, batch);
  dsl_fail(a->ev, a->at[i], DIAG_dsl_shape, "'%s' must be i64[%s] or i64[%s, %s], not %s", a->names[i], want, rows,
           want, dsl_type_text(a->ev, t));
  return false;
}

static bool attention_shapes(Args *a, const Type *q, const Type *k, const Type *v) {
  int extra = q->rank - 4; /* 1 for grouped queries */
  bool fits = (extra == 0 || extra == 1) && k->rank == 4 && v->rank == 4;
  fits = fits && q->dtype == k->dtype && q->dtype == v->dtype && q->dims[0] == k->dims[0] && q->dims[1] == k->dims[1];
  fits = fits && q->dims[3 + extra] == k->dims[3] && k->dims[0] == v->dims[0] && k->dims[1] == v->dims[1] &&
         k->dims[2] == v->dims[2];
  if (fits) return true;
  const char *qt = dsl_type_text(a->ev, q), *kt = dsl_type_text(a->ev, k);
  dsl_fail(a->ev, a->call, DIAG_dsl_shape,
           "attention of q %s, k %s, v %s: q must be [b,g,s,k] or [b,g,r,s,k], k [b,g,t,k], v [b,g,t,e]", qt, kt,
           dsl_type_text(a->ev, v));
  return false;
}

/* Adds a group dimension of size 1 to queries that have none. */
static Val group_queries(Args *a, Val q) {
  const Type *t = arg_type_of(a, q);
  if (t->rank == 5) return q;
  const Expr *dims[] = {t->dims[0], t->dims[1], ex_const(a->ev->m, 1), t->dims[2], t->dims[3]};
  return build_reshape(&a->ev->b, q, 5, dims);
}

/* Removes the group dimension that group_queries added; with `lse`, also returns the log-sum-exp of the scores. */
static DslValue attention_results(Args *a, Val y, bool grouped, bool lse) {
  Builder *b = &a->ev->b;
  Val v[2] = {y, lse ? build_binary(b, OP_add, y + 1, build_unary(b, OP_log, y + 2)) : 0};
  DslValue *items = ARENA_ARRAY(a->ev->arena, DslValue, 2);
  for (int i = 0; i <= lse; i++) {
    const Type *t = arg_type_of(a, v[i]);
    const Expr *dims[] = {t->dims[0], t->dims[1], t->dims[3], i ? NULL : t->dims[4]};
    items[i] = built(a, grouped ? v[i] : build_reshape(b, v[i], 4 - i, dims));
  }
  return lse ? value_list(2, items) : items[0];
}

/* Reads the bias of the scores: [s, t], [b, s, t], [b, g, s, t] or [b, g, r, s, t]; *dims receives the IR's letters for
 * it, NULL if there is none. */
static bool attention_bias(Args *a, int i, const Type *q, const Type *k, Val *out, const char **dims) {
  static const char *const letters[MAX_RANK + 1] = {[2] = "st", [3] = "bst", [4] = "bgst", [5] = "bgrst"};
  *dims = NULL;
  if (!arg_given(a, i)) return true;
  if (!dsl_arg_tensor(a, i, out)) return false;
  const Type *t = arg_type_of(a, *out);
  const Expr *r = q->rank == 5 ? q->dims[2] : ex_const(a->ev->m, 1);
  const Expr *want[] = {q->dims[0], q->dims[1], r, q->dims[q->rank - 2], k->dims[2]};
  const char *spec = t->rank == 4 && q->rank == 5 ? NULL : letters[t->rank], *all = "bgrst";
  bool fits = spec && t->dtype == q->dtype;
  for (int d = 0; fits && d < t->rank; d++) fits = t->dims[d] == want[strchr(all, spec[d]) - all];
  *dims = spec;
  if (fits) return true;
  const char *text = dsl_type_text(a->ev, t);
  dsl_fail(a->ev, a->at[i], DIAG_dsl_shape,
           "a bias %s does not fit queries %s: it must be [s,t] or [b,s,t], or have the dimensions of all scores", text,
           dsl_type_text(a->ev, q));
  return false;
}

DslValue dsl_fn_attention(Args *a) {
  Val in[7];
  const char *bias;
  bool causal, lse;
  double scale;
  int64_t width;
  for (int i = 0; i < 3; i++)
    if (!dsl_arg_floats(a, i, &in[i])) return value_error();
  const Type *q = arg_type_of(a, in[0]), *k = arg_type_of(a, in[1]), *v = arg_type_of(a, in[2]);
  if (!attention_shapes(a, q, k, v) || !dsl_arg_flag(a, 6, false, &causal) || !dsl_arg_flag(a, 8, false, &lse) ||
      !attention_bias(a, 9, q, k, &in[6], &bias))
    return value_error();
  bool known = ex_get_const(k->dims[3], &width) && width > 0;
  if (!known && !arg_given(a, 7))
    return dsl_fail(a->ev, a->call, DIAG_dsl_argument, "attention needs 'scale' when the head size is not a number");
  if (!dsl_arg_number(a, 7, known ? 1.0 / sqrt((double)width) : 1.0, &scale)) return value_error();
  dsl_begin(a->ev, a->call);
  if (!positions(a, 3, q->dims[0], q->dims[q->rank - 2], &in[3])) return built(a, 0);
  bool shared = !arg_given(a, 3) && !arg_given(a, 4) && q->dims[q->rank - 2] == k->dims[2];
  if (shared) in[4] = in[3];
  else if (!positions(a, 4, q->dims[0], k->dims[2], &in[4])) return built(a, 0);
  if (!arg_given(a, 5))
    in[5] = dsl_operand(a->ev, a->call, value_expr(k->dims[2]), type_get(a->ev->m, DT_i64, 0, NULL));
  else if (!arg_of_rows(a, 5, q->dims[0], &in[5])) return value_error();
  in[0] = group_queries(a, in[0]);
  Attr attrs[] = {attr_f(AT_scale, scale), attr_i(AT_causal, causal), attr_i(AT_sums, 1), {0}};
  int nattrs = lse ? 3 : 2;
  if (bias) attrs[nattrs++] = attr_s(a->ev->m, AT_bias, bias);
  DslValue out = operation(a, OP_attention, bias ? 7 : 6, in, nattrs, attrs);
  return out.kind == V_TENSOR ? attention_results(a, out.u.t, q->rank == 5, lse) : out;
}

DslValue dsl_fn_cross_entropy(Args *a) {
  Val in[2];
  if (!dsl_arg_floats(a, 0, &in[0]) || !dsl_arg_tensor(a, 1, &in[1])) return value_error();
  const Type *x = arg_type_of(a, in[0]), *label = arg_type_of(a, in[1]);
  bool fits = label->dtype == DT_i64 && label->rank == x->rank - 1;
  for (int d = 0; fits && d < label->rank; d++) fits = label->dims[d] == x->dims[d];
  if (!fits) {
    const char *left = dsl_type_text(a->ev, x);
    return dsl_fail(a->ev, a->call, DIAG_dsl_shape, "cross_entropy of logits %s needs i64 labels, one per row, not %s",
                    left, dsl_type_text(a->ev, label));
  }
  return operation(a, OP_cross_entropy, 2, in, 0, NULL);
}
