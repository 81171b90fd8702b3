/* frontend/dsl_contract.c - built-in contractions: matmul, einsum, tensordot, all by the `dot` operation. */
#include <ctype.h>
#include <string.h>

#include "frontend/dsl_builtin.h"

static DslValue built(Args *a, Val v) { return dsl_built(a->ev, a->call, v); }

static bool same_dtype(Args *a, Val x, Val y) {
  DType p = arg_type_of(a, x)->dtype, q = arg_type_of(a, y)->dtype;
  if (p == q && p != DT_bool) return true;
  dsl_fail(a->ev, a->call, DIAG_dsl_type, "%s multiplies tensors of one element type, not %s and %s", a->call->s,
           dtype_name(p), dtype_name(q));
  return false;
}

/* ---- matmul */

/* Drops the batch dimensions of size 1 that the other operand stretches: dot leaves such a letter out. */
static Val drop_stretched(Builder *b, Val x, const Type *other) {
  const Type *t = type_of(b->f, x);
  const Expr *dims[MAX_RANK];
  int rank = 0;
  for (int d = 0; d < t->rank; d++) {
    int od = d - t->rank + other->rank;
    bool stretched = d < t->rank - 2 && od >= 0 && ex_is_const(t->dims[d], 1) && !ex_is_const(other->dims[od], 1);
    if (!stretched) dims[rank++] = t->dims[d];
  }
  return build_reshape(b, x, rank, dims);
}

/* Letters of an operand: batch dimensions are named from the right, so that they meet; then `last`. */
static int batch_letters(const Type *t, const Type *other, int kept, char *out) {
  int n = 0;
  for (int d = 0; d < t->rank - kept; d++) {
    int from_right = t->rank - d, od = other ? other->rank - from_right : -1;
    bool stretched = od >= 0 && ex_is_const(t->dims[d], 1) && !ex_is_const(other->dims[od], 1);
    if (!stretched) out[n++] = (char)('a' + MAX_RANK - from_right);
  }
  return n;
}

static bool batches_meet(const Type *x, const Type *y) {
  for (int i = 3; i <= x->rank && i <= y->rank; i++) {
    const Expr *p = x->dims[x->rank - i], *q = y->dims[y->rank - i];
    if (p != q && !ex_is_const(p, 1) && !ex_is_const(q, 1)) return false;
  }
  return true;
}

DslValue dsl_fn_matmul(Args *a) {
  Val x, y;
  if (!dsl_arg_tensor(a, 0, &x) || !dsl_arg_tensor(a, 1, &y) || !same_dtype(a, x, y)) return value_error();
  const Type *p = arg_type_of(a, x), *q = arg_type_of(a, y);
  if (p->rank == 0 || q->rank == 0)
    return dsl_fail(a->ev, a->call, DIAG_dsl_shape, "matmul needs at least one dimension on both sides");
  const Expr *inner = p->dims[p->rank - 1], *rows = q->dims[q->rank > 1 ? q->rank - 2 : 0];
  const char *left = dsl_type_text(a->ev, p);
  if (inner != rows) {
    const char *is = dsl_expr_text(a->ev, inner);
    return dsl_fail(a->ev, a->call, DIAG_dsl_shape, "matmul of %s and %s: inner sizes differ, %s and %s", left,
                    dsl_type_text(a->ev, q), is, dsl_expr_text(a->ev, rows));
  }
  if (!batches_meet(p, q))
    return dsl_fail(a->ev, a->call, DIAG_dsl_shape, "matmul of %s and %s: batch dimensions do not fit", left,
                    dsl_type_text(a->ev, q));
  char spec[8 * MAX_RANK] = "", xs[MAX_RANK + 1], ys[MAX_RANK + 1], out[2 * MAX_RANK + 2];
  int px = p->rank > 1 ? 2 : 1, py = q->rank > 1 ? 2 : 1;
  int nx = batch_letters(p, q->rank > 1 && p->rank > 1 ? q : NULL, px, xs);
  int ny = batch_letters(q, q->rank > 1 && p->rank > 1 ? p : NULL, py, ys);
  int n = 0;
  for (char letter = 'a'; letter < 'a' + MAX_RANK; letter++)
    if (memchr(xs, letter, (size_t)nx) || memchr(ys, letter, (size_t)ny)) out[n++] = letter;
  if (px == 2) out[n++] = 'm';
  if (py == 2) out[n++] = 'n';
  snprintf(spec, sizeof spec, "%.*s%sk,%.*sk%s->%.*s", nx, xs, px == 2 ? "m" : "", ny, ys, py == 2 ? "n" : "", n, out);
  if (n > MAX_RANK)
    return dsl_fail(a->ev, a->call, DIAG_dsl_shape, "the product has more than %d dimensions", MAX_RANK);
  dsl_begin(a->ev, a->call);
  if (px == 2 && py == 2) {
    Val dropped = drop_stretched(&a->ev->b, x, q);
    y = drop_stretched(&a->ev->b, y, p);
    x = dropped;
  }
  return built(a, build_dot(&a->ev->b, x, y, spec));
}

/* ---- tensordot */

DslValue dsl_fn_tensordot(Args *a) {
  Val x, y;
  int64_t n;
  if (!dsl_arg_tensor(a, 0, &x) || !dsl_arg_tensor(a, 1, &y) || !dsl_arg_int(a, 2, 1, &n) || !same_dtype(a, x, y))
    return value_error();
  const Type *p = arg_type_of(a, x), *q = arg_type_of(a, y);
  const char *left = dsl_type_text(a->ev, p);
  if (n < 0 || n > p->rank || n > q->rank)
    return dsl_fail(a->ev, a->call, DIAG_dsl_shape, "%s and %s do not have %lld dimensions to contract", left,
                    dsl_type_text(a->ev, q), (long long)n);
  if (p->rank + q->rank - 2 * n > MAX_RANK)
    return dsl_fail(a->ev, a->call, DIAG_dsl_shape, "the product has more than %d dimensions", MAX_RANK);
  for (int i = 0; i < n; i++)
    if (p->dims[p->rank - n + i] != q->dims[i]) {
      const char *last = arena_printf(a->ev->arena, n == 1 ? "last size of %s" : "last sizes of %s", left);
      return dsl_fail(a->ev, a->call, DIAG_dsl_shape, "the %s and the first of %s differ", last,
                      dsl_type_text(a->ev, q));
    }
  char spec[4 * MAX_RANK + 8], *s = spec;
  for (int i = 0; i < p->rank; i++) *s++ = (char)('a' + i);
  *s++ = ',';
  for (int i = 0; i < q->rank; i++) *s++ = (char)('a' + p->rank - n + i);
  *s++ = '-', *s++ = '>';
  for (int i = 0; i < p->rank - n; i++) *s++ = (char)('a' + i);
  for (int64_t i = n; i < q->rank; i++) *s++ = (char)('a' + p->rank - n + i);
  *s = 0;
  dsl_begin(a->ev, a->call);
  return built(a, build_dot(&a->ev->b, x, y, spec));
}

/* ---- einsum */

typedef struct Spec {
  char part[3][MAX_RANK + 1]; /* operands, then the result */
  int n[3], noperands;
} Spec;

static bool spec_fail(Args *a, const char *what) {
  dsl_fail(a->ev, a->at[0], DIAG_dsl_value, "%s; a spec is like \"bsd,dhk->bshk\"", what);
  return false;
}

static bool parse_spec(Args *a, const char *s, Spec *spec) {
  *spec = (Spec){0};
  int part = 0;
  bool arrow = false;
  for (; *s; s++) {
    if (*s == ' ') continue;
    if (*s == ',' && !arrow && part == 0) part = 1;
    else if (s[0] == '-' && s[1] == '>' && !arrow) {
      arrow = true;
      spec->noperands = part + 1;
      part = 2;
      s++;
    } else if (!isalpha((unsigned char)*s)) return spec_fail(a, "unexpected character");
    else if (spec->n[part] == MAX_RANK) return spec_fail(a, "too many letters");
    else if (strchr(spec->part[part], *s))
      return spec_fail(a, arena_printf(a->ev->arena, "'%c' occurs twice in one tensor", *s));
    else spec->part[part][spec->n[part]++] = *s;
  }
  return arrow || spec_fail(a, "there is no '->'");
}

static bool check_letters(Args *a, const Spec *spec, const Val *x) {
  const Expr *sizes[128] = {NULL};
  for (int p = 0; p < spec->noperands; p++) {
    const Type *t = arg_type_of(a, x[p]);
    if (spec->n[p] != t->rank) {
      dsl_fail(a->ev, a->at[p + 1], DIAG_dsl_shape, "\"%s\" has %d letters, but the tensor is %s", spec->part[p],
               spec->n[p], dsl_type_text(a->ev, t));
      return false;
    }
    for (int i = 0; i < t->rank; i++) {
      const Expr **size = &sizes[(int)spec->part[p][i]];
      if (*size && *size != t->dims[i]) {
        const char *first = dsl_expr_text(a->ev, *size);
        dsl_fail(a->ev, a->at[p + 1], DIAG_dsl_shape, "'%c' is %s in the first tensor and %s in the second",
                 spec->part[p][i], first, dsl_expr_text(a->ev, t->dims[i]));
        return false;
      }
      *size = t->dims[i];
    }
  }
  for (int i = 0; i < spec->n[2]; i++)
    if (!sizes[(int)spec->part[2][i]])
      return spec_fail(a, arena_printf(a->ev->arena, "'%c' is in no operand", spec->part[2][i]));
  return true;
}

/* One tensor: letters that the result lacks are summed, the others reordered. */
static Val einsum_one(Eval *ev, const Spec *spec, Val x) {
  int axes[MAX_RANK], naxes = 0, perm[MAX_RANK], kept = 0;
  for (int i = 0; i < spec->n[0]; i++) {
    const char *in_result = strchr(spec->part[2], spec->part[0][i]);
    if (in_result) perm[in_result - spec->part[2]] = kept++;
    else axes[naxes++] = i;
  }
  if (naxes) x = build_reduce(&ev->b, RED_SUM, x, naxes, axes);
  return x ? build_transpose(&ev->b, x, perm) : 0;
}

DslValue dsl_fn_einsum(Args *a) {
  const char *text;
  Val x[2] = {0, 0};
  Spec spec;
  if (!dsl_arg_string(a, 0, &text) || !parse_spec(a, text, &spec) || !dsl_arg_tensor(a, 1, &x[0])) return value_error();
  if (arg_given(a, 2) != (spec.noperands == 2))
    return dsl_fail(a->ev, a->call, DIAG_dsl_argument, "the spec has %d operand%s, but %d %s given", spec.noperands,
                    spec.noperands == 1 ? "" : "s", arg_given(a, 2) ? 2 : 1, arg_given(a, 2) ? "are" : "is");
  if (arg_given(a, 2) && (!dsl_arg_tensor(a, 2, &x[1]) || !same_dtype(a, x[0], x[1]))) return value_error();
  if (!check_letters(a, &spec, x)) return value_error();
  dsl_begin(a->ev, a->call);
  if (spec.noperands == 1) return built(a, einsum_one(a->ev, &spec, x[0]));
  return built(a, build_dot(&a->ev->b, x[0], x[1],
                            arena_printf(a->ev->arena, "%s,%s->%s", spec.part[0], spec.part[1], spec.part[2])));
}
