/* ir/ops/dot.c - contractions of two operands by letters: dot. */
#include <string.h>

#include "ir/ops/record.h"

/* The type of the result: that of both operands, or f32 if one has 16 bits and the other is f32. */
static bool dot_type(DType a, DType b, DType *out) {
  const bool narrow = a == DT_f16 || a == DT_bf16 || b == DT_f16 || b == DT_bf16;
  *out = a == b ? a : DT_f32;
  return a != DT_bool && (a == b || (narrow && (a == DT_f32 || b == DT_f32)));
}

static const Type *infer_dot(const Infer *c) {
  const char *part[3];
  int length[3];
  const Expr *extent[128] = {NULL};
  const Expr *dims[MAX_RANK];
  const char *spec = infer_attr(c, AT_spec)->u.s;
  DType type;
  if (!infer_spec(spec, part, length)) return infer_fail(c, "spec \"%s\" is not of the form ab,bc->ac", spec);
  if (!dot_type(c->in[0]->dtype, c->in[1]->dtype, &type))
    return infer_fail(c, "operands need one numeric type, or f32 and 16 bits, not %s and %s",
                      dtype_name(c->in[0]->dtype), dtype_name(c->in[1]->dtype));
  for (int p = 0; p < 2; p++) {
    if (length[p] != c->in[p]->rank)
      return infer_fail(c, "spec \"%s\" gives operand %d %d dimensions", spec, p, length[p]);
    for (int i = 0; i < length[p]; i++) {
      const Expr **e = &extent[(int)part[p][i]];
      if (*e && *e != c->in[p]->dims[i]) return infer_fail(c, "'%c' of \"%s\" has two extents", part[p][i], spec);
      *e = c->in[p]->dims[i];
    }
  }
  if (length[2] > MAX_RANK) return infer_fail(c, "the result's rank, %d, is too large", length[2]);
  for (int i = 0; i < length[2]; i++) {
    dims[i] = extent[(int)part[2][i]];
    if (!dims[i]) return infer_fail(c, "'%c' of \"%s\" is in no operand", part[2][i], spec);
  }
  return type_get(c->m, type, length[2], dims);
}

static void rule_dot(const RuleMaking *k) {
  const char *s = op_str(k->op, AT_spec), *result = strstr(s, "->") + 2;
  for (int i = 0; i < 2; i++) {
    for (int d = 0; *s != ',' && *s != '-'; s++, d++) {
      char name[2] = {*s, 0};
      rule_assign(k, &k->r->operands[i], d, rule_in(k, i), name);
      if (!strchr(result, *s)) {
        Factor *f = &k->r->factors[rule_letter(k, name)];
        f->kind = FK_REDUCE;
        f->reduction = RED_SUM;
      }
    }
    s++;
  }
  for (int d = 0; result[d]; d++) {
    char name[2] = {result[d], 0};
    rule_assign(k, &k->r->results[0], d, rule_out(k), name);
  }
  rule_linear(k, 1, RED_SUM);
  rule_linear(k, 2, RED_SUM);
}

/* Factors of both operands and the result are the batch, of one operand and the result m and n, of the operands only
 * k. */
static int products_dot(const Op *op, const Rule *r, ProductFactors out[MAX_PRODUCTS]) {
  (void)op;
  *out = (ProductFactors){0};
  for (int i = 0; i < r->nfactors; i++) {
    if (!r->factors[i].size) continue;
    bool left = part_has(&r->operands[0], i), right = part_has(&r->operands[1], i);
    uint32_t *to = !part_has(&r->results[0], i) ? &out->k : left && right ? &out->batch : left ? &out->m : &out->n;
    *to |= 1u << i;
  }
  return 1;
}

/* ---- meaning */

/* One row of the innermost loop: y += a * b along it. */
static void multiply_add(bool modp, DType t, const Nest *n, Cell *y, const Cell *a, const Cell *b) {
  const int64_t ys = n->step[0], as = n->step[1], bs = n->step[2], count = n->inner;
  if (!dtype_is_float(t)) {
    for (int64_t i = 0; i < count; i++)
      y[i * ys].i = (int64_t)((uint64_t)y[i * ys].i + (uint64_t)a[i * as].i * (uint64_t)b[i * bs].i);
  } else if (modp) {
    for (int64_t i = 0; i < count; i++)
      y[i * ys].i = (int64_t)modp_add((uint64_t)y[i * ys].i, modp_mul((uint64_t)a[i * as].i, (uint64_t)b[i * bs].i));
  } else if (ys == 0) {
    double sum = y->f;
    for (int64_t i = 0; i < count; i++) sum += a[i * as].f * b[i * bs].f;
    y->f = sum;
  } else {
    for (int64_t i = 0; i < count; i++) y[i * ys].f += a[i * as].f * b[i * bs].f;
  }
}

/* Loops over the result's letters, then over the summed ones; the result's last letter goes innermost if that walks all
 * three tensors in order.  Every element's sum has the same order either way. */
static bool eval_dot(Eval *e) {
  const InterpTensor *a = e->in[0], *b = e->in[1], *y = e->out;
  const char *spec = op_str(e->op, AT_spec), *sa = spec, *sb = strchr(spec, ',') + 1, *sy = strstr(spec, "->") + 2;
  int64_t as[MAX_RANK], bs[MAX_RANK], ys[MAX_RANK], extent[128];
  Nest nest = {0};
  eval_row_major(a->rank, a->dims, as);
  eval_row_major(b->rank, b->dims, bs);
  eval_row_major(y->rank, y->dims, ys);
  memset(extent, -1, sizeof extent);
  for (int d = 0; d < a->rank; d++) extent[(int)sa[d]] = a->dims[d];
  for (int d = 0; d < b->rank; d++) {
    if (extent[(int)sb[d]] >= 0 && extent[(int)sb[d]] != b->dims[d])
      return eval_fail(e, "'%c' has extents %lld and %lld", sb[d], (long long)extent[(int)sb[d]],
                       (long long)b->dims[d]);
    extent[(int)sb[d]] = b->dims[d];
  }
  for (int d = 0; d < y->rank; d++)
    if (extent[(int)sy[d]] != y->dims[d]) return eval_fail(e, "'%c' is %lld", sy[d], (long long)extent[(int)sy[d]]);
  int last = y->rank - 1;
  bool last_inside =
      last >= 0 && letter_stride(sa, a->rank, as, sy[last]) <= 1 && letter_stride(sb, b->rank, bs, sy[last]) <= 1;
  for (int d = 0; d < y->rank - last_inside; d++)
    nest_add(&nest, y->dims[d], ys[d], letter_stride(sa, a->rank, as, sy[d]), letter_stride(sb, b->rank, bs, sy[d]));
  for (int d = 0; d < a->rank + b->rank; d++) {
    char letter = d < a->rank ? sa[d] : sb[d - a->rank];
    if (memchr(sy, letter, (size_t)y->rank) || (d >= a->rank && memchr(sa, letter, (size_t)a->rank))) continue;
    nest_add(&nest, extent[(int)letter], 0, letter_stride(sa, a->rank, as, letter),
             letter_stride(sb, b->rank, bs, letter));
  }
  if (last_inside)
    nest_add(&nest, y->dims[last], ys[last], letter_stride(sa, a->rank, as, sy[last]),
             letter_stride(sb, b->rank, bs, sy[last]));
  cells_fill(y, cell_i(0));
  nest_close(&nest);
  for (NestAt at = nest_begin(&nest); at.more; nest_next(&nest, &at))
    multiply_add(e->run->modp, y->dtype, &nest, y->cells + at.offset[0], a->cells + at.offset[1],
                 b->cells + at.offset[2]);
  if (!dtype_is_float(y->dtype) && dtype_bytes(y->dtype) < 8) {
    int64_t n = interp_elements(y);
    for (int64_t i = 0; i < n; i++) y->cells[i].i = wrap_int(y->dtype, y->cells[i].i);
  }
  return true;
}

const OpRecord record_dot = {
    .infer = infer_dot, .rule = rule_dot, .eval = eval_dot, .products = products_dot, .gradient = gradient_dot};
