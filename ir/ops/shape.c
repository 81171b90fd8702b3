/* ir/ops/shape.c - operations that move elements without computing: broadcast, reshape, transpose, slice, pad, concat.
 */
#include <string.h>

#include "ir/ops/record.h"

/* ---- result types */

static const Type *infer_transpose(const Infer *c) {
  const Attr *perm = infer_attr(c, AT_perm);
  const Type *x = c->in[0];
  const Expr *dims[MAX_RANK];
  unsigned seen = 0;
  if (perm->n != x->rank) return infer_fail(c, "perm has %d entries for rank %d", perm->n, x->rank);
  for (int i = 0; i < x->rank; i++) {
    int64_t p = perm->u.ints[i];
    if (p < 0 || p >= x->rank || (seen & (1u << p))) return infer_fail(c, "perm is not a permutation");
    seen |= 1u << p;
    dims[i] = x->dims[p];
  }
  return type_get(c->m, x->dtype, x->rank, dims);
}

static const Type *infer_pad(const Infer *c) {
  const Attr *low = infer_attr(c, AT_low), *high = infer_attr(c, AT_high);
  const Type *x = c->in[0];
  const Expr *dims[MAX_RANK];
  if (low->n != x->rank || high->n != x->rank) return infer_fail(c, "low and high need one entry per dimension");
  for (int i = 0; i < x->rank; i++) {
    int64_t v;
    if ((ex_get_const(low->u.exprs[i], &v) && v < 0) || (ex_get_const(high->u.exprs[i], &v) && v < 0))
      return infer_fail(c, "negative padding of dimension %d", i);
    dims[i] = ex_add(c->m, ex_add(c->m, low->u.exprs[i], x->dims[i]), high->u.exprs[i]);
  }
  return type_get(c->m, x->dtype, x->rank, dims);
}

static const Type *infer_concat(const Infer *c) {
  const Type *x = c->in[0];
  int axis = infer_axis(c, AT_axis, x->rank);
  if (axis < 0) return NULL;
  const Expr *dims[MAX_RANK];
  memcpy(dims, x->dims, sizeof dims);
  for (int i = 1; i < c->spec->nin; i++) {
    const Type *y = c->in[i];
    if (y->dtype != x->dtype || y->rank != x->rank) return infer_fail(c, "operands differ in type or rank");
    for (int d = 0; d < x->rank; d++)
      if (d != axis && y->dims[d] != x->dims[d]) return infer_fail(c, "operands differ in dimension %d", d);
    dims[axis] = ex_add(c->m, dims[axis], y->dims[axis]);
  }
  return type_get(c->m, x->dtype, x->rank, dims);
}

/* The types are written; these functions check as much as possible. */

static const Type *infer_broadcast(const Infer *c) {
  const Type *x = c->in[0], *y = c->spec->type;
  const Attr *dims = infer_attr(c, AT_dims);
  if (dims->n != x->rank) return infer_fail(c, "dims needs one entry per operand dimension");
  for (int i = 0; i < x->rank; i++) {
    int64_t d = dims->u.ints[i];
    if (d < 0 || d >= y->rank || (i && d <= dims->u.ints[i - 1]))
      return infer_fail(c, "dims must be ascending result dimensions");
    if (x->dims[i] != y->dims[d] && !ex_is_const(x->dims[i], 1))
      return infer_fail(c, "operand dimension %d does not stretch to %s", i, infer_text(c, y));
  }
  return x->dtype == y->dtype ? y : infer_fail(c, "result type differs");
}

static const Type *infer_reshape(const Infer *c) {
  const Type *y = c->spec->type;
  if (c->f->level == 1 && type_elements(c->m, c->in[0]) != type_elements(c->m, y))
    return infer_fail(c, "%s does not hold as many elements as %s", infer_text(c, y), infer_text(c, c->in[0]));
  return c->in[0]->dtype == y->dtype ? y : infer_fail(c, "result type differs");
}

static const Type *infer_slice(const Infer *c) {
  const Attr *starts = infer_attr(c, AT_starts), *strides = infer_attr(c, AT_strides);
  const Type *x = c->in[0], *y = c->spec->type;
  if (starts->n != x->rank || strides->n != x->rank || y->rank != x->rank || y->dtype != x->dtype)
    return infer_fail(c, "starts, strides and result need the operand's rank and type");
  for (int d = 0; d < x->rank; d++) {
    int64_t start, extent, have, step = strides->u.ints[d];
    if (step < 1) return infer_fail(c, "stride %lld of dimension %d is not positive", (long long)step, d);
    if (!ex_get_const(starts->u.exprs[d], &start) || !ex_get_const(y->dims[d], &extent) ||
        !ex_get_const(x->dims[d], &have))
      continue;
    if (start < 0 || extent < 0 || (extent > 0 && (start >= have || (extent - 1) > (have - 1 - start) / step)))
      return infer_fail(c, "[%lld + %lld * %lld) leaves dimension %d of extent %lld", (long long)start,
                        (long long)extent, (long long)step, d, (long long)have);
  }
  return y;
}

/* ---- factor rules */

static void rule_broadcast(const RuleMaking *k) {
  const Attr *dims = op_attr(k->op, AT_dims);
  const Type *x = rule_in(k, 0), *y = rule_out(k);
  for (int d = 0; d < y->rank; d++)
    rule_set_dim(&k->r->results[0], d, rule_numbered(k, "x", d, y->dims[d], FK_PARALLEL));
  for (int i = 0; i < x->rank; i++) {
    int64_t d = dims->u.ints[i];
    bool stretched = x->dims[i] != y->dims[d];
    rule_set_dim(&k->r->operands[0], i,
                 stretched ? rule_numbered(k, "one", i, x->dims[i], FK_FROZEN) : k->r->results[0].dims[d].f[0]);
  }
  rule_moves_sums(k, 1);
}

static void rule_transpose(const RuleMaking *k) {
  const Attr *perm = op_attr(k->op, AT_perm);
  for (int d = 0; d < k->r->results[0].rank; d++) {
    uint8_t f = rule_numbered(k, "x", d, rule_out(k)->dims[d], FK_PARALLEL);
    rule_set_dim(&k->r->results[0], d, f);
    rule_set_dim(&k->r->operands[0], (int)perm->u.ints[d], f);
  }
  rule_moves_sums(k, 1);
}

/* Reshape (D12): walks both shapes from the major side, splitting each pair of extents into common factors; if neither
 * divides the other, the dimensions up to the next common boundary are frozen. */
typedef struct Walk {
  const Type *t;
  TensorFactors *out;
  int dim;
  const Expr *left; /* part of the current dimension's extent not yet split off; NULL at the end */
} Walk;

static void walk_next(Walk *w) {
  w->dim++;
  w->left = w->dim < w->t->rank ? w->t->dims[w->dim] : NULL;
}

/* Skips extents of 1: they have a factor of their own that is never cut. */
static void walk_ones(const RuleMaking *k, Walk *w, const char *letter) {
  while (w->left && ex_is_const(w->left, 1)) {
    if (w->out->dims[w->dim].n == 0)
      rule_push_dim(w->out, w->dim, rule_numbered(k, letter, w->dim, w->left, FK_FROZEN));
    walk_next(w);
  }
}

static const Expr *const_gcd(Module *m, const Expr *a, const Expr *b) {
  int64_t x, y;
  if (!ex_get_const(a, &x) || !ex_get_const(b, &y) || x <= 0 || y <= 0) return NULL;
  while (y) {
    int64_t t = x % y;
    x = y;
    y = t;
  }
  return ex_const(m, x);
}

/* Freezes the rest of both sides up to the next boundary at which the products agree. */
static void walk_diverge(const RuleMaking *k, Walk *a, Walk *b) {
  const Expr *pa = a->left, *pb = b->left;
  rule_push_dim(a->out, a->dim, rule_numbered(k, "f", k->r->nfactors, a->left, FK_FROZEN));
  rule_push_dim(b->out, b->dim, rule_numbered(k, "f", k->r->nfactors, b->left, FK_FROZEN));
  walk_next(a);
  walk_next(b);
  while (pa != pb) {
    int64_t x, y;
    bool grow_a =
        a->left &&
        (!b->left || (ex_get_const(pa, &x) && ex_get_const(pb, &y) ? x < y : ex_exact_div(k->m, pb, pa) != NULL));
    if (!grow_a && !b->left) {
      if (!a->left) return;
      grow_a = true;
    }
    Walk *w = grow_a ? a : b;
    const Expr **p = grow_a ? &pa : &pb;
    *p = ex_mul(k->m, *p, w->left);
    rule_push_dim(w->out, w->dim, rule_numbered(k, "f", k->r->nfactors, w->left, FK_FROZEN));
    walk_next(w);
  }
}

static void rule_reshape(const RuleMaking *k) {
  Walk a = {rule_in(k, 0), &k->r->operands[0], -1, NULL}, b = {rule_out(k), &k->r->results[0], -1, NULL};
  walk_next(&a);
  walk_next(&b);
  for (int n = 0;; n++) {
    walk_ones(k, &a, "ia");
    walk_ones(k, &b, "ib");
    if (!a.left || !b.left) break;
    const Expr *common = a.left == b.left                     ? a.left
                         : ex_exact_div(k->m, a.left, b.left) ? b.left
                         : ex_exact_div(k->m, b.left, a.left) ? a.left
                                                              : const_gcd(k->m, a.left, b.left);
    if (!common || ex_is_const(common, 1) || (common->kind == EX_CONST && common->value == 0)) {
      walk_diverge(k, &a, &b);
      continue;
    }
    uint8_t f = rule_numbered(k, "x", n, common, FK_PARALLEL);
    rule_push_dim(a.out, a.dim, f);
    rule_push_dim(b.out, b.dim, f);
    Walk *both[2] = {&a, &b};
    for (int i = 0; i < 2; i++) {
      if (both[i]->left == common) walk_next(both[i]);
      else both[i]->left = ex_exact_div(k->m, both[i]->left, common);
    }
  }
  rule_moves_sums(k, 1);
}

static bool untouched(const RuleMaking *k, int d) {
  const Attr *starts = op_attr(k->op, AT_starts), *strides = op_attr(k->op, AT_strides);
  return ex_is_const(starts->u.exprs[d], 0) && strides->u.ints[d] == 1 &&
         rule_in(k, 0)->dims[d] == rule_out(k)->dims[d];
}

static void rule_slice(const RuleMaking *k) {
  rule_same_dims(k);
  for (int d = 0; d < k->r->results[0].rank; d++)
    if (!untouched(k, d)) k->r->factors[k->r->results[0].dims[d].f[0]].kind = FK_HALO;
  rule_moves_sums(k, 1);
}

static void rule_pad(const RuleMaking *k) {
  const Attr *low = op_attr(k->op, AT_low), *high = op_attr(k->op, AT_high);
  rule_same_dims(k);
  for (int d = 0; d < k->r->results[0].rank; d++)
    if (!ex_is_const(low->u.exprs[d], 0) || !ex_is_const(high->u.exprs[d], 0))
      k->r->factors[k->r->results[0].dims[d].f[0]].kind = FK_HALO;
  if (op_float(k->op, AT_value, 0) == 0 && rule_out(k)->dtype != DT_bool) rule_linear(k, 1, RED_SUM);
}

static void rule_concat(const RuleMaking *k) {
  rule_same_dims(k);
  k->r->factors[k->r->results[0].dims[op_int(k->op, AT_axis, 0)].f[0]].kind = FK_HALO;
  rule_moves_sums(k, (1u << k->op->nin) - 1u);
}

/* ---- cut dimensions: the interval of the operand that a part needs, and its attributes */

static void halo_slice(const HaloNeed *x, const Expr **lo, const Expr **hi) {
  Module *m = x->m;
  const Expr *start = op_attr(x->op, AT_starts)->u.exprs[x->dim];
  int64_t step = op_attr(x->op, AT_strides)->u.ints[x->dim];
  *lo = ex_add(m, start, ex_muli(m, x->lo, step));
  /* The last element read is start + (hi - 1) * step; none if the interval is empty. */
  *hi = ex_max(m, *lo, ex_addi(m, ex_add(m, start, ex_muli(m, ex_addi(m, x->hi, -1), step)), 1));
  if (step == 1) *hi = ex_add(m, start, x->hi);
}

/* The exchange has already moved the window of a cut dimension here. */
static void local_slice(const LocalPart *p, LocalAttrs *out) {
  const Attr *starts = op_attr(p->op, AT_starts);
  const Expr *list[MAX_RANK];
  for (int d = 0; d < starts->n; d++) list[d] = p->result->dims[d].n ? ex_const(p->m, 0) : starts->u.exprs[d];
  local_set(out, attr_exprs(p->m, AT_starts, starts->n, list));
}

/* The operand begins at `shift` in the result; computes the part of it in [lo, hi) of the result. */
static void shifted(Module *m, const Expr *lo, const Expr *hi, const Expr *shift, const Expr *extent,
                    const Expr **operand_lo, const Expr **operand_hi) {
  const Expr *zero = ex_const(m, 0);
  *operand_lo = ex_min(m, ex_max(m, ex_sub(m, lo, shift), zero), extent);
  *operand_hi = ex_min(m, ex_max(m, ex_sub(m, hi, shift), zero), extent);
}

static void halo_pad(const HaloNeed *x, const Expr **lo, const Expr **hi) {
  const Expr *low = op_attr(x->op, AT_low)->u.exprs[x->dim];
  shifted(x->m, x->lo, x->hi, low, type_of(x->f, x->op->in[0])->dims[x->dim], lo, hi);
}

/* Pad of a cut dimension: the padding inside the part. */
static void local_padding(const LocalPart *p, int d, const Expr **low, const Expr **high) {
  const Expr *lo, *hi, *ilo, *ihi;
  Module *m = p->m;
  const Expr *shift = op_attr(p->op, AT_low)->u.exprs[d];
  layout_interval(m, &p->result->dims[d], type_of(p->f, p->op->out)->dims[d], &lo, &hi);
  shifted(m, lo, hi, shift, type_of(p->f, p->op->in[0])->dims[d], &ilo, &ihi);
  *low = ex_max(m, ex_min(m, ex_sub(m, shift, lo), ex_sub(m, hi, lo)), ex_const(m, 0));
  *high = ex_sub(m, ex_sub(m, ex_sub(m, hi, lo), *low), ex_sub(m, ihi, ilo));
}

static void local_pad(const LocalPart *p, LocalAttrs *out) {
  const Attr *low = op_attr(p->op, AT_low), *high = op_attr(p->op, AT_high);
  const Expr *lows[MAX_RANK], *highs[MAX_RANK];
  for (int d = 0; d < low->n; d++) {
    lows[d] = low->u.exprs[d];
    highs[d] = high->u.exprs[d];
    bool padded = !ex_is_const(lows[d], 0) || !ex_is_const(highs[d], 0);
    if (p->result->dims[d].n && padded) local_padding(p, d, &lows[d], &highs[d]);
  }
  local_set(out, attr_exprs(p->m, AT_low, low->n, lows));
  local_set(out, attr_exprs(p->m, AT_high, low->n, highs));
}

static void halo_concat(const HaloNeed *x, const Expr **lo, const Expr **hi) {
  const Expr *shift = ex_const(x->m, 0);
  for (int i = 0; i < x->operand; i++) shift = ex_add(x->m, shift, type_of(x->f, x->op->in[i])->dims[x->dim]);
  shifted(x->m, x->lo, x->hi, shift, type_of(x->f, x->op->in[x->operand])->dims[x->dim], lo, hi);
}

/* ---- meaning */

static bool eval_broadcast(Eval *e) {
  const InterpTensor *x = e->in[0], *y = e->out;
  const Attr *map = op_attr(e->op, AT_dims);
  int64_t xs[MAX_RANK], ys[MAX_RANK], step[MAX_RANK] = {0};
  Nest nest = {0};
  eval_row_major(x->rank, x->dims, xs);
  eval_row_major(y->rank, y->dims, ys);
  for (int i = 0; i < x->rank; i++) {
    int64_t d = map->u.ints[i];
    if (x->dims[i] == y->dims[d]) step[d] = xs[i];
    else if (x->dims[i] != 1)
      return eval_fail(e, "extent %lld does not stretch to %lld", (long long)x->dims[i], (long long)y->dims[d]);
  }
  for (int d = 0; d < y->rank; d++) nest_add(&nest, y->dims[d], ys[d], step[d], 0);
  nest_close(&nest);
  nest_copy(&nest, y->cells, x->cells);
  return true;
}

static bool eval_reshape(Eval *e) {
  int64_t n = interp_elements(e->in[0]);
  if (n != interp_elements(e->out))
    return eval_fail(e, "%lld elements do not become %lld", (long long)n, (long long)interp_elements(e->out));
  memcpy(e->out->cells, e->in[0]->cells, sizeof(Cell) * (size_t)n);
  return true;
}

static bool eval_transpose(Eval *e) {
  const InterpTensor *x = e->in[0], *y = e->out;
  const Attr *perm = op_attr(e->op, AT_perm);
  int64_t xs[MAX_RANK], ys[MAX_RANK];
  Nest nest = {0};
  eval_row_major(x->rank, x->dims, xs);
  eval_row_major(y->rank, y->dims, ys);
  for (int d = 0; d < y->rank; d++) {
    int64_t p = perm->u.ints[d];
    if (x->dims[p] != y->dims[d])
      return eval_fail(e, "extents %lld and %lld differ", (long long)x->dims[p], (long long)y->dims[d]);
    nest_add(&nest, y->dims[d], ys[d], xs[p], 0);
  }
  nest_close(&nest);
  nest_copy(&nest, y->cells, x->cells);
  return true;
}

static bool eval_slice(Eval *e) {
  const InterpTensor *x = e->in[0], *y = e->out;
  const Attr *starts = op_attr(e->op, AT_starts), *strides = op_attr(e->op, AT_strides);
  int64_t xs[MAX_RANK], ys[MAX_RANK], first = 0;
  bool empty = interp_elements(y) == 0;
  Nest nest = {0};
  eval_row_major(x->rank, x->dims, xs);
  eval_row_major(y->rank, y->dims, ys);
  for (int d = 0; d < y->rank; d++) {
    int64_t start, step = strides->u.ints[d], last;
    if (!eval_expr(e, starts->u.exprs[d], &start)) return false;
    bool far = __builtin_mul_overflow(y->dims[d] - 1, step, &last) || __builtin_add_overflow(start, last, &last);
    if (y->dims[d] > 0 && (start < 0 || far || last >= x->dims[d]))
      return eval_fail(e, "reads %lld .. %lld of dimension %d of extent %lld", (long long)start, (long long)last, d,
                       (long long)x->dims[d]);
    if (empty) continue;
    first += start * xs[d];
    nest_add(&nest, y->dims[d], ys[d], y->dims[d] > 1 ? xs[d] * step : 0, 0);
  }
  nest_close(&nest);
  if (!empty) nest_copy(&nest, y->cells, x->cells + first);
  return true;
}

static bool eval_pad(Eval *e) {
  const InterpTensor *x = e->in[0], *y = e->out;
  const Attr *low = op_attr(e->op, AT_low), *high = op_attr(e->op, AT_high);
  int64_t to[MAX_RANK], at[MAX_RANK] = {0};
  for (int d = 0; d < x->rank; d++) {
    int64_t after;
    if (!eval_expr(e, low->u.exprs[d], &to[d]) || !eval_expr(e, high->u.exprs[d], &after)) return false;
    if (to[d] < 0 || after < 0 || to[d] + x->dims[d] + after != y->dims[d])
      return eval_fail(e, "dimension %d: %lld + %lld + %lld is not %lld", d, (long long)to[d], (long long)x->dims[d],
                       (long long)after, (long long)y->dims[d]);
  }
  cells_fill(y, cell_of_double(e->run->modp, y->dtype, op_float(e->op, AT_value, 0)));
  eval_box_copy(x->rank, x->dims, y->cells, y->dims, to, x->cells, x->dims, at);
  return true;
}

static bool eval_concat(Eval *e) {
  int axis = (int)op_int(e->op, AT_axis, 0);
  int64_t to[MAX_RANK] = {0}, at[MAX_RANK] = {0};
  for (int i = 0; i < e->op->nin; i++) {
    const InterpTensor *x = e->in[i];
    for (int d = 0; d < x->rank; d++)
      if (d == axis ? to[d] + x->dims[d] > e->out->dims[d] : x->dims[d] != e->out->dims[d])
        return eval_fail(e, "operand %d does not fit: extent %lld of dimension %d", i, (long long)x->dims[d], d);
    eval_box_copy(x->rank, x->dims, e->out->cells, e->out->dims, to, x->cells, x->dims, at);
    to[axis] += x->dims[axis];
  }
  if (to[axis] != e->out->dims[axis])
    return eval_fail(e, "the operands have extent %lld together, not %lld", (long long)to[axis],
                     (long long)e->out->dims[axis]);
  return true;
}

/* ---- records */

const OpRecord record_broadcast = {
    .infer = infer_broadcast, .rule = rule_broadcast, .eval = eval_broadcast, .gradient = gradient_broadcast};
const OpRecord record_reshape = {
    .infer = infer_reshape, .rule = rule_reshape, .eval = eval_reshape, .gradient = gradient_reshape};
const OpRecord record_transpose = {
    .infer = infer_transpose, .rule = rule_transpose, .eval = eval_transpose, .gradient = gradient_transpose};
const OpRecord record_slice = {.infer = infer_slice,
                               .rule = rule_slice,
                               .halo = halo_slice,
                               .local = local_slice,
                               .eval = eval_slice,
                               .gradient = gradient_slice};
const OpRecord record_pad = {.infer = infer_pad,
                             .written_at_level2 = true,
                             .rule = rule_pad,
                             .halo = halo_pad,
                             .local = local_pad,
                             .eval = eval_pad,
                             .gradient = gradient_pad};
const OpRecord record_concat = {.infer = infer_concat,
                                .written_at_level2 = true,
                                .rule = rule_concat,
                                .halo = halo_concat,
                                .eval = eval_concat,
                                .gradient = gradient_concat};
