/* frontend/dsl/contract.c - built-in contractions: matmul, einsum and tensordot, all with the `dot` operation, and
 * products of rows with the matrix of their group. */
#include <ctype.h>
#include <string.h>

#include "frontend/contract.h"
#include "frontend/dsl/builtin.h"

static DslValue built(Args *a, Val v) { return dsl_built(a->ev, a->call, v); }

static bool same_dtype(Args *a, Val x, Val y) {
  DType p = arg_type_of(a, x)->dtype, q = arg_type_of(a, y)->dtype;
  if (p == q && p != DT_bool) return true;
  dsl_fail(a->ev, a->call, DIAG_dsl_type, "%s multiplies tensors of one element type, not %s and %s", a->call->s,
           dtype_name(p), dtype_name(q));
  return false;
}

/* ---- matmul */

/* Drops batch dimensions of size 1 that are broadcast against the other operand: dot omits such a letter. */
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

/* Letters of an operand: batch dimensions are named from the right, so that those of both operands match; then
 * `last`. */
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

enum { MAX_OPERANDS_OF_EINSUM = MAX_ARGUMENTS - 1 };

typedef struct Spec {
  int noperands;
  ContractTerm operands[MAX_OPERANDS_OF_EINSUM];
  char result[MAX_RANK + 1];
} Spec;

static bool spec_fail(Args *a, const char *what) {
  dsl_fail(a->ev, a->at[0], DIAG_dsl_value, "%s; a spec is like \"bsd,dhk->bshk\"", what);
  return false;
}

/* Appends a letter to one part of the spec. */
static bool add_letter(Args *a, char *part, char letter) {
  size_t n = strlen(part);
  if (n == MAX_RANK) return spec_fail(a, "too many letters");
  if (strchr(part, letter)) return spec_fail(a, arena_printf(a->ev->arena, "'%c' occurs twice in one tensor", letter));
  part[n] = letter;
  return true;
}

static bool parse_spec(Args *a, const char *s, Spec *spec) {
  *spec = (Spec){.noperands = 1};
  bool arrow = false;
  for (; *s; s++) {
    if (*s == ' ') continue;
    if (*s == ',' && !arrow) {
      if (spec->noperands == MAX_OPERANDS_OF_EINSUM)
        return spec_fail(a, arena_printf(a->ev->arena, "more than %d tensors", MAX_OPERANDS_OF_EINSUM));
      spec->noperands++;
    } else if (s[0] == '-' && s[1] == '>' && !arrow) {
      arrow = true;
      s++;
    } else if (!isalpha((unsigned char)*s)) {
      return spec_fail(a, "unexpected character");
    } else if (!add_letter(a, arrow ? spec->result : spec->operands[spec->noperands - 1].letters, *s)) {
      return false;
    }
  }
  return arrow || spec_fail(a, "there is no '->'");
}

static bool check_letters(Args *a, const Spec *spec) {
  const Expr *sizes[128] = {NULL};
  for (int p = 0; p < spec->noperands; p++) {
    const Type *t = arg_type_of(a, spec->operands[p].value);
    const char *letters = spec->operands[p].letters;
    if ((int)strlen(letters) != t->rank) {
      dsl_fail(a->ev, a->at[p + 1], DIAG_dsl_shape, "\"%s\" has %d letters, but the tensor is %s", letters,
               (int)strlen(letters), dsl_type_text(a->ev, t));
      return false;
    }
    for (int i = 0; i < t->rank; i++) {
      const Expr **size = &sizes[(int)letters[i]];
      if (*size && *size != t->dims[i]) {
        const char *before = dsl_expr_text(a->ev, *size);
        dsl_fail(a->ev, a->at[p + 1], DIAG_dsl_shape, "'%c' is %s in an earlier tensor and %s in this one", letters[i],
                 before, dsl_expr_text(a->ev, t->dims[i]));
        return false;
      }
      *size = t->dims[i];
    }
  }
  for (const char *p = spec->result; *p; p++)
    if (!sizes[(int)*p]) return spec_fail(a, arena_printf(a->ev->arena, "'%c' is in no operand", *p));
  return true;
}

DslValue dsl_fn_einsum(Args *a) {
  const char *text, *why;
  Spec spec;
  int given = 0;
  while (given < MAX_OPERANDS_OF_EINSUM && arg_given(a, given + 1)) given++;
  if (!dsl_arg_string(a, 0, &text) || !parse_spec(a, text, &spec)) return value_error();
  if (given != spec.noperands)
    return dsl_fail(a->ev, a->call, DIAG_dsl_argument, "the spec has %d operand%s, but %d %s given", spec.noperands,
                    spec.noperands == 1 ? "" : "s", given, given == 1 ? "is" : "are");
  for (int i = 0; i < given; i++) {
    if (!dsl_arg_tensor(a, i + 1, &spec.operands[i].value)) return value_error();
    if (i > 0 && !same_dtype(a, spec.operands[0].value, spec.operands[i].value)) return value_error();
  }
  if (!check_letters(a, &spec)) return value_error();
  dsl_begin(a->ev, a->call);
  Val v = contract_terms(&a->ev->b, given, spec.operands, spec.result, &why);
  if (why) return dsl_fail(a->ev, a->call, DIAG_dsl_shape, "%s", why);
  return built(a, v);
}

/* ---- products by group: x[.., k] with w[index[..]] of matrices w[groups, k, n] */

static bool grouped_misfit(Args *a, Val x, Val other) {
  const char *left = dsl_type_text(a->ev, arg_type_of(a, x));
  dsl_fail(a->ev, a->call, DIAG_dsl_shape, "%s: %s does not fit %s", a->call->s,
           dsl_type_text(a->ev, arg_type_of(a, other)), left);
  return false;
}

/* The rows and their indices, the latter as i64. */
static bool grouped_rows(Args *a, Val in[2]) {
  if (!dsl_arg_floats(a, 0, &in[0]) || !dsl_arg_tensor(a, 1, &in[1])) return false;
  const Type *x = arg_type_of(a, in[0]), *index = arg_type_of(a, in[1]);
  if (dtype_class(index->dtype) != DTC_I) return dsl_arg_fail(a, 1, "a tensor of signed integers");
  bool fits = index->rank == x->rank - 1;
  for (int d = 0; fits && d < index->rank; d++) fits = index->dims[d] == x->dims[d];
  if (!fits) return grouped_misfit(a, in[0], in[1]);
  dsl_begin(a->ev, a->call);
  if (index->dtype != DT_i64) in[1] = build_cast(&a->ev->b, in[1], DT_i64);
  return true;
}

/* Argument i: matrices [groups, rows, columns] of the rows' type; NULL matches any size. */
static bool grouped_matrices(Args *a, int i, Val x, const Expr *groups, const Expr *rows, const Expr *columns,
                             Val *out) {
  if (!dsl_arg_floats(a, i, out) || !same_dtype(a, x, *out)) return false;
  const Type *w = arg_type_of(a, *out);
  bool fits =
      w->rank == 3 && (!groups || w->dims[0] == groups) && w->dims[1] == rows && (!columns || w->dims[2] == columns);
  return fits || grouped_misfit(a, x, *out);
}

static const Expr *row_size(Args *a, Val x) { return arg_type_of(a, x)->dims[arg_type_of(a, x)->rank - 1]; }

DslValue dsl_fn_grouped_dot(Args *a) {
  Val in[3];
  if (!grouped_rows(a, in) || !grouped_matrices(a, 2, in[0], NULL, row_size(a, in[0]), NULL, &in[2]))
    return value_error();
  Attr start = attr_e(AT_start, ex_const(a->ev->m, 0));
  return built(
      a, build_op(&a->ev->b, &(OpSpec){.kind = OP_grouped_dot, .nin = 3, .in = in, .nattrs = 1, .attrs = &start}));
}

DslValue dsl_fn_grouped_mlp(Args *a) {
  Val in[5];
  const char *kind = "silu";
  if (!grouped_rows(a, in) || !grouped_matrices(a, 2, in[0], NULL, row_size(a, in[0]), NULL, &in[2]))
    return value_error();
  const Type *gate = arg_type_of(a, in[2]);
  if (!grouped_matrices(a, 3, in[0], gate->dims[0], gate->dims[1], gate->dims[2], &in[3]) ||
      !grouped_matrices(a, 4, in[0], gate->dims[0], gate->dims[2], NULL, &in[4]) ||
      (arg_given(a, 5) && !dsl_arg_string(a, 5, &kind)))
    return value_error();
  if (strcmp(kind, "silu") != 0 && strcmp(kind, "relu") != 0)
    return dsl_fail(a->ev, a->at[5], DIAG_dsl_value, "'kind' is \"silu\" or \"relu\", not \"%s\"", kind);
  Attr attrs[] = {attr_s(a->ev->m, AT_kind, kind), attr_e(AT_start, ex_const(a->ev->m, 0))};
  return built(a,
               build_op(&a->ev->b, &(OpSpec){.kind = OP_grouped_mlp, .nin = 5, .in = in, .nattrs = 2, .attrs = attrs}));
}
