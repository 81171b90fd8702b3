/* ir/ops/index.c - operations with an index operand: gather, take, update, scatter, put; and within, which checks
 * indices. */
#include <string.h>

#include "base/tensor.h"
#include "ir/ops/record.h"

/* ---- result types */

static const Type *infer_gather(const Infer *c) {
  const Type *table = c->in[0], *index = c->in[1];
  int axis = infer_axis(c, AT_axis, table->rank), n = 0;
  const Expr *dims[2 * MAX_RANK];
  if (axis < 0) return NULL;
  if (dtype_class(index->dtype) != DTC_I)
    return infer_fail(c, "indices are %s, not signed integers", dtype_name(index->dtype));
  for (int d = 0; d < axis; d++) dims[n++] = table->dims[d];
  for (int d = 0; d < index->rank; d++) dims[n++] = index->dims[d];
  for (int d = axis + 1; d < table->rank; d++) dims[n++] = table->dims[d];
  if (n > MAX_RANK) return infer_fail(c, "the result's rank, %d, is too large", n);
  return type_get(c->m, table->dtype, n, dims);
}

/* Element-wise indexing: equal extents apart from `axis`. */
static const Type *check_aligned(const Infer *c, const Type *x, const Type *index, int axis) {
  if (dtype_class(index->dtype) != DTC_I)
    return infer_fail(c, "indices are %s, not signed integers", dtype_name(index->dtype));
  if (x->rank != index->rank) return infer_fail(c, "%s and %s differ in rank", infer_text(c, x), infer_text(c, index));
  for (int d = 0; d < x->rank; d++)
    if (d != axis && x->dims[d] != index->dims[d])
      return infer_fail(c, "dimension %d of %s and %s differs", d, infer_text(c, x), infer_text(c, index));
  return index;
}

static const Type *infer_take(const Infer *c) {
  int axis = infer_axis(c, AT_axis, c->in[0]->rank);
  if (axis < 0 || !check_aligned(c, c->in[0], c->in[1], axis)) return NULL;
  return type_with_dtype(c->m, c->in[1], c->in[0]->dtype);
}

/* scatter and put: the result's type is written. */
static const Type *infer_scatter(const Infer *c) {
  const Type *x = c->in[0], *index = c->in[1], *y = c->spec->type;
  int axis = infer_axis(c, AT_axis, y->rank);
  if (axis < 0) return NULL;
  if (x->dtype != y->dtype) return infer_fail(c, "the result is %s, unlike operand 0", dtype_name(y->dtype));
  if (!infer_reduction(c, x->dtype)) return NULL;
  if (c->spec->kind == OP_put) {
    if (!check_aligned(c, y, index, axis) || !check_aligned(c, x, index, -1)) return NULL;
    return y;
  }
  if (dtype_class(index->dtype) != DTC_I)
    return infer_fail(c, "indices are %s, not signed integers", dtype_name(index->dtype));
  if (x->rank != y->rank + index->rank - 1)
    return infer_fail(c, "%s does not scatter %s into %s", infer_text(c, index), infer_text(c, x), infer_text(c, y));
  for (int d = 0; d < x->rank; d++) {
    bool indexed = d >= axis && d < axis + index->rank;
    const Expr *want = indexed ? index->dims[d - axis] : y->dims[d < axis ? d : d - index->rank + 1];
    if (x->dims[d] != want) return infer_fail(c, "dimension %d of %s does not fit", d, infer_text(c, x));
  }
  return y;
}

static const Type *infer_update(const Infer *c) {
  const Type *x = c->in[0], *u = c->in[1];
  int axis = infer_axis(c, AT_axis, x->rank);
  if (axis < 0) return NULL;
  for (int i = 2; i < c->spec->nin; i++) {
    const Type *p = c->in[i];
    bool rows = p->rank == 1 && p->dims[0] == x->dims[0] && axis > 0;
    if ((p->rank && !rows) || p->dtype != DT_i64)
      return infer_fail(c, "the %s must be an i64 scalar, or one per row of dimension 0",
                        i == 2 ? "position" : "count");
  }
  if (u->dtype != x->dtype || u->rank != x->rank) return infer_fail(c, "operands differ in type or rank");
  for (int d = 0; d < x->rank; d++)
    if (d != axis && u->dims[d] != x->dims[d]) return infer_fail(c, "operands differ in dimension %d", d);
  return x;
}

static const Type *infer_within(const Infer *c) {
  if (dtype_class(c->in[0]->dtype) != DTC_I)
    return infer_fail(c, "indices are %s, not signed integers", dtype_name(c->in[0]->dtype));
  if (infer_attr(c, AT_starts)->n != c->in[0]->rank) return infer_fail(c, "starts needs one entry per dimension");
  return c->in[0];
}

static const Type *infer_bind(const Infer *c) {
  if (c->in[0]->rank != 0 || c->in[0]->dtype != DT_i64) return infer_fail(c, "the size must be an i64 scalar");
  return c->in[0];
}

/* ---- factor rules */

/* Cutting the indexed dimension gives each row to the rank that owns it: exactly one rank has the element. */
static void rule_gather(const RuleMaking *k) {
  const Type *table = rule_in(k, 0), *index = rule_in(k, 1);
  int axis = (int)op_int(k->op, AT_axis, 0), out = 0;
  for (int d = 0; d < table->rank; d++) {
    if (d == axis) {
      uint8_t v = rule_numbered(k, "v", 0, table->dims[d], FK_REDUCE);
      k->r->factors[v].reduction = RED_ONE;
      rule_set_dim(&k->r->operands[0], d, v);
      for (int j = 0; j < index->rank; j++) {
        uint8_t f = rule_numbered(k, "i", j, index->dims[j], FK_PARALLEL);
        rule_set_dim(&k->r->operands[1], j, f);
        rule_set_dim(&k->r->results[0], out++, f);
      }
      continue;
    }
    uint8_t f = rule_numbered(k, "x", d, table->dims[d], FK_PARALLEL);
    rule_set_dim(&k->r->operands[0], d, f);
    rule_set_dim(&k->r->results[0], out++, f);
  }
  rule_moves_sums(k, 1);
}

/* Elements are looked up at equal indices of the other dimensions; the indexed one is cut as in a gather. */
static void rule_take(const RuleMaking *k) {
  int axis = (int)op_int(k->op, AT_axis, 0);
  rule_same_dims(k);
  uint8_t v = rule_numbered(k, "v", 0, rule_in(k, 0)->dims[axis], FK_REDUCE);
  k->r->factors[v].reduction = RED_ONE;
  rule_set_dim(&k->r->operands[0], axis, v);
  rule_moves_sums(k, 1);
}

/* Cutting the updates makes the result partial; cutting the rows gives each rank the rows it owns. */
static void rule_scatter(const RuleMaking *k) {
  const Type *y = rule_out(k), *index = rule_in(k, 1);
  int axis = (int)op_int(k->op, AT_axis, 0), at = 0;
  Reduction op = op_attr(k->op, AT_op)->u.reduction;
  for (int d = 0; d < y->rank; d++) {
    bool indexed = d == axis;
    uint8_t f = rule_numbered(k, indexed ? "v" : "x", d, y->dims[d], FK_PARALLEL);
    rule_set_dim(&k->r->results[0], d, f);
    for (int j = 0; indexed && j < index->rank; j++) {
      uint8_t i = rule_numbered(k, "i", j, index->dims[j], FK_REDUCE);
      k->r->factors[i].reduction = op;
      rule_set_dim(&k->r->operands[0], at++, i);
      rule_set_dim(&k->r->operands[1], j, i);
    }
    if (!indexed) rule_set_dim(&k->r->operands[0], at++, f);
  }
  if (op != RED_PRODUCT) rule_linear(k, 1, op);
}

static void rule_put(const RuleMaking *k) {
  const Type *y = rule_out(k);
  int axis = (int)op_int(k->op, AT_axis, 0);
  Reduction op = op_attr(k->op, AT_op)->u.reduction;
  for (int d = 0; d < y->rank; d++) {
    uint8_t f = rule_numbered(k, d == axis ? "v" : "x", d, y->dims[d], FK_PARALLEL), u = f;
    rule_set_dim(&k->r->results[0], d, f);
    if (d == axis) {
      u = rule_numbered(k, "i", d, rule_in(k, 0)->dims[d], FK_REDUCE);
      k->r->factors[u].reduction = op;
    }
    for (int i = 0; i < 2; i++) rule_set_dim(&k->r->operands[i], d, u);
  }
  if (op != RED_PRODUCT) rule_linear(k, 1, op);
}

/* Owner-masked write (D14): the updated dimension is cut, and the update stays whole along it.  Positions and counts of
 * rows are cut as the rows are. */
static void rule_update(const RuleMaking *k) {
  int axis = (int)op_int(k->op, AT_axis, 0);
  const Type *x = rule_in(k, 0);
  for (int d = 0; d < x->rank; d++) {
    uint8_t f = rule_numbered(k, "x", d, x->dims[d], FK_PARALLEL);
    rule_set_dim(&k->r->operands[0], d, f);
    rule_set_dim(&k->r->results[0], d, f);
    rule_set_dim(&k->r->operands[1], d, d == axis ? rule_numbered(k, "u", 0, rule_in(k, 1)->dims[d], FK_FROZEN) : f);
    for (int i = 2; i < k->op->nin && d == 0; i++)
      if (rule_in(k, i)->rank) rule_set_dim(&k->r->operands[i], 0, f);
  }
  rule_moves_sums(k, 3);
}

/* ---- ranges of indices */

static const Expr *places_gather(Module *m, const Func *f, const Op *op) {
  (void)m;
  return type_of(f, op->in[0])->dims[op_int(op, AT_axis, 0)];
}

static const Expr *places_scatter(Module *m, const Func *f, const Op *op) {
  (void)m;
  return type_of(f, op->out)->dims[op_int(op, AT_axis, 0)];
}

static const Expr *places_within(Module *m, const Func *f, const Op *op) {
  (void)m, (void)f;
  return op_expr(op, AT_below);
}

static bool is_state(const Func *f, Val v) {
  OpKind k;
  while ((k = op_of(f, v)->kind) == OP_update || k == OP_carry || k == OP_leave) v = op_of(f, v)->in[0];
  return k == OP_read;
}

/* Elements outside a state would be lost silently, so the whole update must fit; with a count, whose value is not
 * known here, at least the position (frontend/dsl/tensor.c adds a check of the sum). */
static const Expr *places_update(Module *m, const Func *f, const Op *op) {
  int64_t axis = op_int(op, AT_axis, 0);
  if (!is_state(f, op->in[0])) return NULL;
  if (op->nin > 3) return ex_addi(m, type_of(f, op->in[0])->dims[axis], 1);
  return ex_addi(m, ex_sub(m, type_of(f, op->in[0])->dims[axis], type_of(f, op->in[1])->dims[axis]), 1);
}

/* ---- work: a gather reads the rows it selects, an update writes the rows it gets */

static double bytes_gather(const OpPart *p) {
  return p->bytes + (p->in_bytes[0] < p->bytes ? p->in_bytes[0] : p->bytes) + p->in_bytes[1];
}

static double bytes_update(const OpPart *p) { return 2 * p->in_bytes[1]; }

/* ---- meaning */

/* Later extents on this rank have the size. */
static bool eval_bind(Eval *e) {
  const Expr *size = op_expr(e->op, AT_expr);
  const Symbol *s = &e->run->m->symbols.items[size->value];
  int64_t v = e->in[0]->cells[0].i, most;
  e->out->cells[0].i = v;
  if (!eval_expr(e, s->most, &most)) return false;
  if (v < 0 || v > most)
    return eval_fail(e, "%s would be %lld, but is from 0 to %lld", s->name, (long long)v, (long long)most);
  e->run->symbols[e->rank][size->value] = v;
  return true;
}

static bool eval_within(Eval *e) {
  const InterpTensor *x = e->in[0];
  const Attr *starts = op_attr(e->op, AT_starts);
  int64_t below, start, index[MAX_RANK], n = interp_elements(x), bad = 0;
  char why[320];
  if (!eval_same_shape(e, 0) || !eval_expr(e, op_expr(e->op, AT_below), &below)) return false;
  memcpy(e->out->cells, x->cells, sizeof(Cell) * (size_t)n);
  int64_t low = op_int(e->op, AT_negative, 0) ? -below : 0;
  while (bad < n && x->cells[bad].i >= low && x->cells[bad].i < below) bad++;
  if (bad == n) return true;
  tensor_index(x->rank, x->dims, bad, index);
  for (int d = 0; d < x->rank; d++) {
    if (!eval_expr(e, starts->u.exprs[d], &start)) return false;
    index[d] += start;
  }
  return eval_fail(e, "%s", tensor_index_refused(x->rank, index, x->cells[bad].i, low, below - 1, why, sizeof why));
}

static bool eval_gather(Eval *e) {
  const InterpTensor *table = e->in[0], *index = e->in[1], *y = e->out;
  int axis = (int)op_int(e->op, AT_axis, 0);
  int64_t start, n = interp_elements(index), rows = table->dims[axis];
  if (!eval_expr(e, op_expr(e->op, AT_start), &start)) return false;
  int64_t outer = count_cells(axis, table->dims), inner = count_cells(table->rank - axis - 1, table->dims + axis + 1);
  if (interp_elements(y) != outer * n * inner) return eval_fail(e, "the result does not fit");
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < n; i++) {
      int64_t row;
      bool known = !__builtin_sub_overflow(index->cells[i].i, start, &row) && row >= 0 && row < rows;
      Cell *to = y->cells + (o * n + i) * inner;
      if (known) memcpy(to, table->cells + (o * rows + row) * inner, sizeof(Cell) * (size_t)inner);
      else memset(to, 0, sizeof(Cell) * (size_t)inner); /* zero bits are the number 0 in both domains */
    }
  return true;
}

/* The element of operand i for one of the `outer` slices of an update: the only one, or that of its row. */
static int64_t of_slice(const Eval *e, int i, int64_t slice, int64_t outer) {
  const InterpTensor *x = e->in[i];
  return x->cells[x->rank ? slice / (outer / x->dims[0]) : 0].i;
}

static bool eval_update(Eval *e) {
  const InterpTensor *x = e->in[0], *u = e->in[1], *y = e->out;
  int axis = (int)op_int(e->op, AT_axis, 0);
  int64_t start, rows = x->dims[axis];
  if (!eval_expr(e, op_expr(e->op, AT_start), &start)) return false;
  for (int i = 2; i < e->op->nin; i++)
    if (e->in[i]->rank && e->in[i]->dims[0] != x->dims[0])
      return eval_fail(e, "%lld positions or counts for %lld rows", (long long)e->in[i]->dims[0],
                       (long long)x->dims[0]);
  for (int d = 0; d < x->rank; d++)
    if (x->dims[d] != y->dims[d] || (d != axis && u->dims[d] != x->dims[d]))
      return eval_fail(e, "extents of dimension %d do not fit", d);
  int64_t outer = count_cells(axis, x->dims), inner = count_cells(x->rank - axis - 1, x->dims + axis + 1);
  memcpy(y->cells, x->cells, sizeof(Cell) * (size_t)interp_elements(y));
  for (int64_t o = 0; o < outer; o++) {
    int64_t first, count = e->op->nin > 3 ? of_slice(e, 3, o, outer) : u->dims[axis];
    bool far = __builtin_sub_overflow(of_slice(e, 2, o, outer), start, &first);
    for (int64_t i = 0; i < u->dims[axis] && i < count; i++) {
      int64_t row;
      if (far || __builtin_add_overflow(first, i, &row) || row < 0 || row >= rows) continue;
      memcpy(y->cells + (o * rows + row) * inner, u->cells + (o * u->dims[axis] + i) * inner,
             sizeof(Cell) * (size_t)inner);
    }
  }
  return true;
}

/* index - start if in [0, n), else -1. */
static int64_t row_of(int64_t index, int64_t start, int64_t n) {
  int64_t row;
  return !__builtin_sub_overflow(index, start, &row) && row >= 0 && row < n ? row : -1;
}

static bool eval_take(Eval *e) {
  const InterpTensor *x = e->in[0], *index = e->in[1], *y = e->out;
  int axis = (int)op_int(e->op, AT_axis, 0);
  int64_t start;
  if (!eval_expr(e, op_expr(e->op, AT_start), &start) || !eval_aligned(e, x, index, axis) ||
      !eval_aligned(e, index, y, -1))
    return false;
  EvalLines from = eval_lines(x, axis), to = eval_lines(y, axis);
  for (int64_t l = 0; l < to.outer * to.inner; l++)
    for (int64_t i = 0; i < to.n; i++) {
      int64_t at = eval_line_start(&to, l) + i * to.inner, row = row_of(index->cells[at].i, start, from.n);
      y->cells[at] = row < 0 ? cell_i(0) : x->cells[eval_line_start(&from, l) + row * from.inner];
    }
  return true;
}

static void reduce_one(const Eval *e, Reduction r, Cell *to, const Cell *from) {
  cells_reduce(e->run->modp, e->out->dtype, r, 1, to, 0, from, 0);
}

static bool eval_put(Eval *e) {
  const InterpTensor *x = e->in[0], *index = e->in[1], *y = e->out;
  int axis = (int)op_int(e->op, AT_axis, 0);
  Reduction r = op_attr(e->op, AT_op)->u.reduction;
  int64_t start;
  if (!eval_expr(e, op_expr(e->op, AT_start), &start) || !eval_aligned(e, x, index, -1) ||
      !eval_aligned(e, y, index, axis))
    return false;
  cells_fill(y, cell_identity(e->run->modp, y->dtype, r));
  EvalLines from = eval_lines(x, axis), to = eval_lines(y, axis);
  for (int64_t l = 0; l < from.outer * from.inner; l++)
    for (int64_t i = 0; i < from.n; i++) {
      int64_t at = eval_line_start(&from, l) + i * from.inner, row = row_of(index->cells[at].i, start, to.n);
      if (row >= 0) reduce_one(e, r, &y->cells[eval_line_start(&to, l) + row * to.inner], &x->cells[at]);
    }
  return true;
}

static bool eval_scatter(Eval *e) {
  const InterpTensor *x = e->in[0], *index = e->in[1], *y = e->out;
  int axis = (int)op_int(e->op, AT_axis, 0);
  Reduction r = op_attr(e->op, AT_op)->u.reduction;
  int64_t start, n = interp_elements(index);
  if (!eval_expr(e, op_expr(e->op, AT_start), &start)) return false;
  EvalLines to = eval_lines(y, axis);
  if (interp_elements(x) != to.outer * n * to.inner) return eval_fail(e, "the updates do not fit");
  cells_fill(y, cell_identity(e->run->modp, y->dtype, r));
  for (int64_t o = 0; o < to.outer; o++)
    for (int64_t i = 0; i < n; i++) {
      int64_t row = row_of(index->cells[i].i, start, to.n);
      if (row >= 0)
        cells_reduce(e->run->modp, y->dtype, r, to.inner, y->cells + (o * to.n + row) * to.inner, 1,
                     x->cells + (o * n + i) * to.inner, 1);
    }
  return true;
}

/* ---- records */

const OpRecord record_gather = {.infer = infer_gather,
                                .rule = rule_gather,
                                .local = local_start_of_operand,
                                .eval = eval_gather,
                                .index = 1,
                                .places = places_gather,
                                .bytes = bytes_gather,
                                .gradient = gradient_gather};
const OpRecord record_take = {.infer = infer_take,
                              .rule = rule_take,
                              .local = local_start_of_operand,
                              .eval = eval_take,
                              .index = 1,
                              .places = places_gather,
                              .gradient = gradient_take};
const OpRecord record_update = {.infer = infer_update,
                                .rule = rule_update,
                                .local = local_start_of_operand,
                                .eval = eval_update,
                                .index = 2,
                                .places = places_update,
                                .bytes = bytes_update,
                                .gradient = gradient_update};
const OpRecord record_scatter = {.infer = infer_scatter,
                                 .rule = rule_scatter,
                                 .local = local_start_of_result,
                                 .eval = eval_scatter,
                                 .index = 1,
                                 .places = places_scatter,
                                 .gradient = gradient_scatter};
const OpRecord record_put = {.infer = infer_scatter,
                             .rule = rule_put,
                             .local = local_start_of_result,
                             .eval = eval_put,
                             .index = 1,
                             .places = places_scatter,
                             .gradient = gradient_put};
const OpRecord record_bind = {.infer = infer_bind, .rule = rule_none, .eval = eval_bind};
const OpRecord record_within = {.infer = infer_within,
                                .space = "x.. -> x..",
                                .local = local_starts_of_result,
                                .eval = eval_within,
                                .places = places_within};
