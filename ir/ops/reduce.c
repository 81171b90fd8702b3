/* ir/ops/reduce.c - operations along dimensions: reduce, scan, argsort, topk. */
#define _GNU_SOURCE /* qsort_r */
#include <stdlib.h>
#include <string.h>

#include "ir/ops/record.h"

/* ---- result types */

static const Type *infer_reduce(const Infer *c) {
  const Attr *axes = infer_attr(c, AT_axes);
  const Type *x = c->in[0];
  const Expr *dims[MAX_RANK];
  if (!infer_reduction(c, x->dtype)) return NULL;
  int n = 0, next = 0;
  for (int d = 0; d < x->rank; d++) {
    if (next < axes->n && axes->u.ints[next] == d) next++;
    else dims[n++] = x->dims[d];
  }
  if (next != axes->n) return infer_fail(c, "axes must be ascending dimensions of the operand");
  if (infer_attr(c, AT_starts) && infer_attr(c, AT_starts)->n != axes->n)
    return infer_fail(c, "starts needs one entry for each of the %d reduced dimensions", axes->n);
  return type_get(c->m, x->dtype, n, dims);
}

static const Type *infer_argsort(const Infer *c) {
  if (c->in[0]->dtype == DT_bool) return infer_fail(c, "not defined for bool");
  return infer_axis(c, AT_axis, c->in[0]->rank) < 0 ? NULL : type_with_dtype(c->m, c->in[0], DT_i64);
}

static const Type *infer_topk(const Infer *c) {
  const Type *x = c->in[0];
  const Expr *dims[MAX_RANK], *k = infer_attr(c, AT_k)->u.e;
  int axis = infer_axis(c, AT_axis, x->rank);
  int64_t number, all;
  if (x->dtype == DT_bool) return infer_fail(c, "not defined for bool");
  if (axis < 0) return NULL;
  bool known = ex_get_const(k, &number);
  if (known && (number < 0 || (ex_get_const(x->dims[axis], &all) && number > all)))
    return infer_fail(c, "cannot take %lld elements along dimension %d", (long long)number, axis);
  for (int d = 0; d < x->rank; d++) dims[d] = d == axis ? k : x->dims[d];
  infer_further(c, type_get(c->m, DT_i64, x->rank, dims));
  return type_get(c->m, x->dtype, x->rank, dims);
}

static const Type *infer_scan(const Infer *c) {
  if (!infer_reduction(c, c->in[0]->dtype)) return NULL;
  return infer_axis(c, AT_axis, c->in[0]->rank) < 0 ? NULL : c->in[0];
}

/* ---- sharding */

static void rule_reduce(const RuleMaking *k) {
  const Attr *axes = op_attr(k->op, AT_axes);
  Reduction op = op_attr(k->op, AT_op)->u.reduction;
  const Type *x = rule_in(k, 0);
  int next = 0, out = 0;
  for (int d = 0; d < x->rank; d++) {
    bool reduced = next < axes->n && axes->u.ints[next] == d;
    uint8_t f = rule_numbered(k, reduced ? "r" : "x", d, x->dims[d], reduced ? FK_REDUCE : FK_PARALLEL);
    rule_set_dim(&k->r->operands[0], d, f);
    if (reduced) k->r->factors[f].reduction = op, next++;
    else rule_set_dim(&k->r->results[0], out++, f);
  }
  if (op != RED_PRODUCT) rule_linear(k, 1, op);
}

/* A dimension whose order matters stays whole. */
static void rule_ordered(const RuleMaking *k) {
  rule_same_dims(k);
  k->r->factors[k->r->results[0].dims[op_int(k->op, AT_axis, 0)].f[0]].kind = FK_FROZEN;
  if (k->op->kind == OP_scan && op_attr(k->op, AT_op)->u.reduction == RED_SUM) rule_linear(k, 1, RED_SUM);
}

/* A topk reads all elements along the axis, wherever the largest are. */
static void rule_topk(const RuleMaking *k) {
  int axis = (int)op_int(k->op, AT_axis, 0);
  for (int d = 0; d < rule_in(k, 0)->rank; d++) {
    bool ordered = d == axis;
    uint8_t of = rule_numbered(k, ordered ? "n" : "x", d, rule_in(k, 0)->dims[d], ordered ? FK_FROZEN : FK_PARALLEL);
    uint8_t to = ordered ? rule_numbered(k, "k", d, rule_out(k)->dims[d], FK_FROZEN) : of;
    rule_set_dim(&k->r->operands[0], d, of);
    for (int i = 0; i < k->r->nresults; i++) rule_set_dim(&k->r->results[i], d, to);
  }
}

/* Starts of a part of a float sum in the reduced dimensions: its order is by global index (D33). */
static void local_reduce(const LocalPart *p, LocalAttrs *out) {
  const Type *x = type_of(p->f, p->op->in[0]);
  const Attr *axes = op_attr(p->op, AT_axes);
  const Expr *list[MAX_RANK];
  bool cut = false;
  if (!reduction_is_ordered(op_attr(p->op, AT_op)->u.reduction, x->dtype)) return;
  for (int i = 0; i < axes->n; i++) {
    int d = (int)axes->u.ints[i];
    list[i] = local_begin(p, p->in[0], d, x->dims[d]);
    cut |= p->in[0]->dims[d].n > 0;
  }
  if (cut) local_set(out, attr_exprs(p->m, AT_starts, axes->n, list));
}

/* one per element of the operand */
static double flops_reduce(const OpPart *p) { return p->first; }

/* ---- meaning */

static bool eval_reduce(Eval *e) {
  const InterpTensor *x = e->in[0], *y = e->out;
  const Attr *axes = op_attr(e->op, AT_axes);
  Reduction r = op_attr(e->op, AT_op)->u.reduction;
  int64_t xs[MAX_RANK], ys[MAX_RANK];
  Nest nest = {0};
  int next = 0, out = 0;
  eval_row_major(x->rank, x->dims, xs);
  eval_row_major(y->rank, y->dims, ys);
  for (int d = 0; d < x->rank; d++) {
    bool reduced = next < axes->n && axes->u.ints[next] == d;
    if (reduced) next++;
    else if (y->dims[out++] != x->dims[d])
      return eval_fail(e, "extent %lld of dimension %d does not fit", (long long)x->dims[d], d);
    nest_add(&nest, x->dims[d], reduced ? 0 : ys[out - 1], xs[d], 0);
  }
  cells_fill(y, cell_identity(e->run->modp, y->dtype, r));
  nest_close(&nest);
  for (NestAt at = nest_begin(&nest); at.more; nest_next(&nest, &at))
    cells_reduce(e->run->modp, y->dtype, r, nest.inner, y->cells + at.offset[0], nest.step[0], x->cells + at.offset[1],
                 nest.step[1]);
  return true;
}

typedef struct Sorting {
  const Cell *line;
  int64_t step;
  bool floats, is_unsigned, descending;
} Sorting;

/* Returns -1, 0 or 1; NaN is the largest. */
static int order(const Sorting *s, int64_t a, int64_t b) {
  const Cell *x = &s->line[a * s->step], *y = &s->line[b * s->step];
  if (!s->floats) {
    if (s->is_unsigned) return ((uint64_t)x->i > (uint64_t)y->i) - ((uint64_t)x->i < (uint64_t)y->i);
    return (x->i > y->i) - (x->i < y->i);
  }
  if (x->f != x->f || y->f != y->f) return (x->f != x->f) - (y->f != y->f);
  return (x->f > y->f) - (x->f < y->f);
}

static int by_element(const void *p, const void *q, void *context) {
  const Sorting *s = context;
  int64_t a = *(const int64_t *)p, b = *(const int64_t *)q;
  int c = order(s, a, b);
  if (s->descending) c = -c;
  return c ? c : (a > b) - (a < b);
}

/* Sorts the indices of line `line` into `places`, which has room for one more. */
static void sort_line(const Eval *e, const InterpTensor *x, const EvalLines *l, int64_t line, int64_t *places) {
  Sorting s = {x->cells + eval_line_start(l, line), l->inner, dtype_is_float(x->dtype) && !e->run->modp,
               dtype_class(x->dtype) == DTC_U, op_int(e->op, AT_descending, 0) != 0};
  for (int64_t i = 0; i < l->n; i++) places[i] = i;
  qsort_r(places, (size_t)l->n, sizeof *places, by_element, &s);
}

static bool eval_topk(Eval *e) {
  const InterpTensor *x = e->in[0], *y = e->outs[0], *index = e->outs[1];
  int axis = (int)op_int(e->op, AT_axis, 0);
  EvalLines from = eval_lines(x, axis), to = eval_lines(y, axis);
  if (!eval_aligned(e, x, y, axis) || !eval_aligned(e, y, index, -1)) return false;
  if (to.n > from.n) return eval_fail(e, "cannot take %lld of %lld elements", (long long)to.n, (long long)from.n);
  int64_t *places = arena_alloc(e->run->arena, sizeof *places * (size_t)(from.n + 1));
  for (int64_t line = 0; line < to.outer * to.inner; line++) {
    sort_line(e, x, &from, line, places);
    for (int64_t i = 0; i < to.n; i++) {
      int64_t at = eval_line_start(&to, line) + i * to.inner;
      y->cells[at] = x->cells[eval_line_start(&from, line) + places[i] * from.inner];
      index->cells[at] = cell_i(places[i]);
    }
  }
  return true;
}

static bool eval_argsort(Eval *e) {
  const InterpTensor *x = e->in[0], *y = e->out;
  EvalLines l = eval_lines(x, (int)op_int(e->op, AT_axis, 0));
  if (!eval_aligned(e, x, y, -1)) return false;
  int64_t *places = arena_alloc(e->run->arena, sizeof *places * (size_t)(l.n + 1));
  for (int64_t line = 0; line < l.outer * l.inner; line++) {
    int64_t start = eval_line_start(&l, line);
    sort_line(e, x, &l, line, places);
    for (int64_t i = 0; i < l.n; i++) y->cells[start + i * l.inner] = cell_of_int(e->run->modp, DT_i64, places[i]);
  }
  return true;
}

static bool eval_scan(Eval *e) {
  const InterpTensor *x = e->in[0], *y = e->out;
  EvalLines l = eval_lines(x, (int)op_int(e->op, AT_axis, 0));
  Reduction r = op_attr(e->op, AT_op)->u.reduction;
  bool exclusive = op_int(e->op, AT_exclusive, 0) != 0, reverse = op_int(e->op, AT_reverse, 0) != 0;
  if (!eval_aligned(e, x, y, -1)) return false;
  for (int64_t line = 0; line < l.outer * l.inner; line++) {
    Cell sum = cell_identity(e->run->modp, y->dtype, r);
    for (int64_t k = 0; k < l.n; k++) {
      int64_t at = eval_line_start(&l, line) + (reverse ? l.n - 1 - k : k) * l.inner;
      Cell before = sum;
      cells_reduce(e->run->modp, y->dtype, r, 1, &sum, 0, &x->cells[at], 0);
      y->cells[at] = exclusive ? before : sum;
    }
  }
  return true;
}

/* ---- records */

const OpRecord record_reduce = {.infer = infer_reduce,
                                .rule = rule_reduce,
                                .local = local_reduce,
                                .eval = eval_reduce,
                                .flops = flops_reduce,
                                .gradient = gradient_reduce};
const OpRecord record_argsort = {.infer = infer_argsort, .rule = rule_ordered, .eval = eval_argsort};
const OpRecord record_topk = {
    .infer = infer_topk, .rule = rule_topk, .eval = eval_topk, .flops = flops_reduce, .gradient = gradient_topk};
const OpRecord record_scan = {.infer = infer_scan, .rule = rule_ordered, .eval = eval_scan, .gradient = gradient_scan};
