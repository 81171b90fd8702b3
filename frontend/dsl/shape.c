/* frontend/dsl/shape.c - built-in functions that change shapes: reshape, transpose, rearrange, concat, pad ... */
#include <ctype.h>
#include <string.h>

#include "frontend/dsl/builtin.h"

static DslValue built(Args *a, Val v) { return dsl_built(a->ev, a->call, v); }

static const Expr *product(DslEval *ev, int n, const Expr *const *dims) {
  const Expr *p = ex_const(ev->m, 1);
  for (int i = 0; i < n; i++) p = ex_mul(ev->m, p, dims[i]);
  return p;
}

/* Checks that sizes are not negative, except for one -1 where allowed; *hole is its index, -1 if there is none. */
static bool sizes_legal(Args *a, int i, int n, const Expr *const *dims, int *hole) {
  int64_t v;
  for (int d = 0; d < n; d++) {
    if (!ex_get_const(dims[d], &v) || v >= 0) continue;
    if (v == -1 && hole && *hole < 0) {
      *hole = d;
      continue;
    }
    dsl_fail(a->ev, a->at[i], DIAG_dsl_value, v == -1 && hole ? "only one size can be -1" : "the size %lld is negative",
             (long long)v);
    return false;
  }
  return true;
}

DslValue dsl_fn_reshape(Args *a) {
  Val x;
  int rank, hole = -1;
  const Expr *dims[MAX_RANK];
  if (!dsl_arg_tensor(a, 0, &x) || !dsl_arg_sizes(a, 1, &rank, dims) || !sizes_legal(a, 1, rank, dims, &hole))
    return value_error();
  Module *m = a->ev->m;
  const Type *t = arg_type_of(a, x);
  const Expr *have = type_elements(m, t);
  if (hole >= 0) {
    dims[hole] = ex_const(m, 1);
    const Expr *rest = product(a->ev, rank, dims);
    const Expr *missing = ex_is_const(rest, 0) ? NULL : ex_exact_div(m, have, rest);
    if (!missing)
      return dsl_fail(a->ev, a->at[1], DIAG_dsl_shape,
                      "no size fits for -1: the number of elements of %s is not a multiple of %s",
                      dsl_type_text(a->ev, t), dsl_expr_text(a->ev, rest));
    dims[hole] = missing;
  }
  const Type *want = type_get(m, t->dtype, rank, dims);
  if (type_elements(m, want) != have) {
    const char *from = dsl_type_text(a->ev, t);
    return dsl_fail(a->ev, a->at[1], DIAG_dsl_shape, "%s does not hold as many elements as %s",
                    dsl_type_text(a->ev, want), from);
  }
  dsl_begin(a->ev, a->call);
  return built(a, build_reshape(&a->ev->b, x, rank, dims));
}

DslValue dsl_fn_transpose(Args *a) {
  Val x;
  int perm[MAX_RANK], n;
  const Expr *order[MAX_RANK];
  bool seen[MAX_RANK] = {false};
  if (!dsl_arg_tensor(a, 0, &x)) return value_error();
  int rank = arg_type_of(a, x)->rank;
  for (int d = 0; d < rank; d++) perm[d] = rank - 1 - d;
  if (arg_given(a, 1)) {
    int64_t p;
    if (!dsl_arg_sizes(a, 1, &n, order)) return value_error();
    for (int d = 0; d < n; d++) {
      bool fits = n == rank && ex_get_const(order[d], &p) && p >= -rank && p < rank;
      if (fits) perm[d] = (int)(p < 0 ? p + rank : p);
      if (!fits || seen[perm[d]])
        return dsl_fail(a->ev, a->at[1], DIAG_dsl_shape, "axes must name each of the %d dimensions of %s once", rank,
                        dsl_type_text(a->ev, arg_type_of(a, x)));
      seen[perm[d]] = true;
    }
    if (n != rank)
      return dsl_fail(a->ev, a->at[1], DIAG_dsl_shape, "axes must name each of the %d dimensions once", rank);
  }
  dsl_begin(a->ev, a->call);
  return built(a, build_transpose(&a->ev->b, x, perm));
}

DslValue dsl_fn_broadcast(Args *a) {
  Val x;
  int rank;
  const Expr *dims[MAX_RANK];
  if (!dsl_arg_tensor(a, 0, &x) || !dsl_arg_sizes(a, 1, &rank, dims) || !sizes_legal(a, 1, rank, dims, NULL))
    return value_error();
  const Type *t = arg_type_of(a, x);
  bool fits = t->rank <= rank;
  for (int i = 1; fits && i <= t->rank; i++)
    fits = t->dims[t->rank - i] == dims[rank - i] || ex_is_const(t->dims[t->rank - i], 1);
  if (!fits) {
    const char *from = dsl_type_text(a->ev, t);
    return dsl_fail(a->ev, a->call, DIAG_dsl_shape, "%s does not broadcast to %s", from,
                    dsl_type_text(a->ev, type_get(a->ev->m, t->dtype, rank, dims)));
  }
  dsl_begin(a->ev, a->call);
  return built(a, build_bcast_to(&a->ev->b, x, rank, dims));
}

DslValue dsl_fn_expand_dims(Args *a) {
  Val x;
  int axis, n = 0;
  const Expr *dims[MAX_RANK + 1];
  if (!dsl_arg_tensor(a, 0, &x)) return value_error();
  const Type *t = arg_type_of(a, x);
  if (t->rank == MAX_RANK) return dsl_arg_fail(a, 0, "of fewer dimensions"), value_error();
  if (!dsl_arg_axis(a, 1, t->rank + 1, 0, &axis)) return value_error();
  for (int d = 0; d <= t->rank; d++) dims[d] = d == axis ? ex_const(a->ev->m, 1) : t->dims[n++];
  dsl_begin(a->ev, a->call);
  return built(a, build_reshape(&a->ev->b, x, t->rank + 1, dims));
}

/* Concatenates in groups if there are more tensors than one operation takes. */
static Val concat_many(DslEval *ev, int n, const Val *x, int axis) {
  enum { GROUP = 16 };
  if (n <= GROUP) return build_concat(&ev->b, n, x, axis);
  int groups = (n + GROUP - 1) / GROUP;
  Val *joined = ARENA_ARRAY(ev->arena, Val, groups);
  for (int g = 0; g < groups; g++) {
    int first = g * GROUP, count = n - first < GROUP ? n - first : GROUP;
    joined[g] = build_concat(&ev->b, count, x + first, axis);
    if (!joined[g]) return 0;
  }
  return concat_many(ev, groups, joined, axis);
}

DslValue dsl_fn_concat(Args *a) {
  DslValue list = a->v[0];
  int axis;
  if (list.kind != V_LIST || list.n < 1) return dsl_arg_fail(a, 0, "a list of tensors"), value_error();
  Val *x = ARENA_ARRAY(a->ev->arena, Val, list.n);
  for (int i = 0; i < list.n; i++) {
    if (list.u.items[i].kind != V_TENSOR)
      return dsl_fail(a->ev, a->at[0], DIAG_dsl_type, "item %d to concat is %s, not a tensor", i,
                      dsl_value_describe(a->ev, list.u.items[i]));
    x[i] = list.u.items[i].u.t;
  }
  const Type *first = arg_type_of(a, x[0]);
  if (!dsl_arg_axis(a, 1, first->rank, 0, &axis)) return value_error();
  for (int i = 1; i < list.n; i++) {
    const Type *t = arg_type_of(a, x[i]);
    bool fits = t->rank == first->rank && t->dtype == first->dtype;
    for (int d = 0; fits && d < t->rank; d++) fits = d == axis || t->dims[d] == first->dims[d];
    if (fits) continue;
    const char *left = dsl_type_text(a->ev, first);
    return dsl_fail(a->ev, a->at[0], DIAG_dsl_shape, "item 0, %s, and item %d, %s, cannot be joined along axis %d",
                    left, i, dsl_type_text(a->ev, t), axis);
  }
  dsl_begin(a->ev, a->call);
  return built(a, concat_many(a->ev, list.n, x, axis));
}

DslValue dsl_fn_pad(Args *a) {
  Val x;
  int nlow, nhigh;
  double value;
  const Expr *low[MAX_RANK], *high[MAX_RANK];
  if (!dsl_arg_tensor(a, 0, &x) || !dsl_arg_sizes(a, 1, &nlow, low) || !dsl_arg_sizes(a, 2, &nhigh, high) ||
      !dsl_arg_number(a, 3, 0, &value))
    return value_error();
  if (!sizes_legal(a, 1, nlow, low, NULL) || !sizes_legal(a, 2, nhigh, high, NULL)) return value_error();
  const Type *t = arg_type_of(a, x);
  if (nlow != t->rank || nhigh != t->rank)
    return dsl_fail(a->ev, a->call, DIAG_dsl_shape, "low and high need one size for each of the %d dimensions",
                    t->rank);
  Attr attrs[] = {attr_exprs(a->ev->m, AT_low, nlow, low), attr_exprs(a->ev->m, AT_high, nhigh, high),
                  attr_f(AT_value, value)};
  dsl_begin(a->ev, a->call);
  return built(a, build_op(&a->ev->b, &(OpSpec){.kind = OP_pad, .nin = 1, .in = &x, .nattrs = 3, .attrs = attrs}));
}

/* ---- rearrange: "b s (h k) -> b h s k"
 * The named sizes split the operand's dimensions, the names are reordered, and groups on the right merge. */

enum { MAX_NAMES = MAX_RANK };

typedef struct Side {
  int ngroups, n;          /* dimensions; all names */
  int first[MAX_RANK + 1]; /* names of dimension d are first[d] .. first[d + 1] */
  const char *names[MAX_NAMES];
} Side;

static bool pattern_fail(Args *a, const char *what) {
  dsl_fail(a->ev, a->at[1], DIAG_dsl_value, "%s; a pattern is like \"b s (h k) -> b h s k\"", what);
  return false;
}

static bool parse_side(Args *a, const char *s, const char *end, Side *side) {
  bool open = false;
  *side = (Side){0};
  while (s < end) {
    if (*s == ' ') s++;
    else if (*s == '(' || *s == ')') {
      if (open == (*s == '(')) return pattern_fail(a, "unbalanced parentheses");
      if (*s == ')' && side->first[side->ngroups - 1] == side->n) return pattern_fail(a, "empty parentheses");
      open = *s++ == '(';
      if (!open) continue;
      if (side->ngroups == MAX_RANK) return pattern_fail(a, "too many dimensions");
      side->first[side->ngroups++] = side->n;
    } else {
      size_t length = 0;
      while (s + length < end && (isalnum((unsigned char)s[length]) || s[length] == '_')) length++;
      if (length == 0) return pattern_fail(a, "unexpected character");
      if (side->n == MAX_NAMES || (!open && side->ngroups == MAX_RANK)) return pattern_fail(a, "too many dimensions");
      if (!open) side->first[side->ngroups++] = side->n;
      side->names[side->n++] = arena_strndup(a->ev->arena, s, length);
      s += length;
    }
  }
  side->first[side->ngroups] = side->n;
  return !open || pattern_fail(a, "unbalanced parentheses");
}

static int side_find(const Side *s, const char *name) {
  for (int i = 0; i < s->n; i++)
    if (strcmp(s->names[i], name) == 0) return i;
  return -1;
}

static bool sides_match(Args *a, const Side *left, const Side *right) {
  for (int i = 0; i < left->n; i++) {
    if (side_find(left, left->names[i]) != i)
      return pattern_fail(a, arena_printf(a->ev->arena, "'%s' occurs twice", left->names[i]));
    if (side_find(right, left->names[i]) < 0)
      return pattern_fail(a, arena_printf(a->ev->arena, "'%s' is missing on the right", left->names[i]));
  }
  for (int i = 0; i < right->n; i++)
    if (side_find(left, right->names[i]) < 0)
      return pattern_fail(a, arena_printf(a->ev->arena, "'%s' is missing on the left", right->names[i]));
  return left->n == right->n || pattern_fail(a, "a name occurs twice on the right");
}

/* Determines the sizes of the names on the left from the keywords and the operand; one of each group may be omitted. */
static bool side_sizes(Args *a, const Side *left, const Type *t, const Expr *sizes[MAX_NAMES]) {
  DslEval *ev = a->ev;
  for (int i = 0; i < left->n; i++) sizes[i] = NULL;
  for (int k = 0; k < a->nextra; k++) {
    int i = side_find(left, a->extra[k]->s);
    int64_t v;
    if (i < 0 || a->extra_values[k].kind != V_INT || (dsl_value_const(a->extra_values[k], &v) && v < 1)) {
      dsl_fail(ev, a->extra[k], DIAG_dsl_argument,
               i < 0 ? "'%s' is not in the pattern" : "the size of '%s' must be a positive integer", a->extra[k]->s);
      return false;
    }
    sizes[i] = a->extra_values[k].u.e;
  }
  for (int d = 0; d < left->ngroups; d++) {
    const Expr *known = ex_const(ev->m, 1);
    int hole = -1;
    for (int i = left->first[d]; i < left->first[d + 1]; i++) {
      if (sizes[i]) known = ex_mul(ev->m, known, sizes[i]);
      else if (hole >= 0) {
        dsl_fail(ev, a->call, DIAG_dsl_argument, "rearrange needs the size of '%s' or '%s' as a keyword",
                 left->names[hole], left->names[i]);
        return false;
      } else hole = i;
    }
    const Expr *rest = ex_exact_div(ev->m, t->dims[d], known);
    if (!rest || (hole < 0 && !ex_is_const(rest, 1))) {
      const char *have = dsl_expr_text(ev, t->dims[d]);
      dsl_fail(ev, a->call, DIAG_dsl_shape, "dimension %d of size %s does not split into the given sizes, %s together",
               d, have, dsl_expr_text(ev, known));
      return false;
    }
    if (hole >= 0) sizes[hole] = rest;
  }
  return true;
}

DslValue dsl_fn_rearrange(Args *a) {
  Val x;
  const char *pattern;
  Side left, right;
  const Expr *sizes[MAX_NAMES], *dims[MAX_RANK];
  int perm[MAX_RANK];
  if (!dsl_arg_tensor(a, 0, &x) || !dsl_arg_string(a, 1, &pattern)) return value_error();
  const char *arrow = strstr(pattern, "->");
  if (!arrow) return pattern_fail(a, "there is no '->'"), value_error();
  if (!parse_side(a, pattern, arrow, &left) || !parse_side(a, arrow + 2, arrow + strlen(arrow), &right))
    return value_error();
  const Type *t = arg_type_of(a, x);
  if (left.ngroups != t->rank)
    return dsl_fail(a->ev, a->at[1], DIAG_dsl_shape, "the pattern has %d dimensions on the left, but x is %s",
                    left.ngroups, dsl_type_text(a->ev, t));
  if (!sides_match(a, &left, &right) || !side_sizes(a, &left, t, sizes)) return value_error();
  for (int i = 0; i < right.n; i++) perm[i] = side_find(&left, right.names[i]);
  for (int d = 0; d < right.ngroups; d++) {
    dims[d] = ex_const(a->ev->m, 1);
    for (int i = right.first[d]; i < right.first[d + 1]; i++) dims[d] = ex_mul(a->ev->m, dims[d], sizes[perm[i]]);
  }
  dsl_begin(a->ev, a->call);
  Builder *b = &a->ev->b;
  Val split = build_reshape(b, x, left.n, sizes);
  return built(a, build_reshape(b, split ? build_transpose(b, split, perm) : 0, right.ngroups, dims));
}
