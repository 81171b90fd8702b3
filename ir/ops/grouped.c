/* ir/ops/grouped.c - products of rows with the matrix of their group: grouped_dot, grouped_mlp.
 *
 * Evaluation goes row by row, in the order of the sums; a row whose group is not on this rank is zeros.  Modulo p the
 * function between the products is the hash of the elementwise operation, so that a grouped_mlp equals the operations
 * it replaces.
 */
#include <math.h>
#include <string.h>

#include "ir/ops/record.h"

/* ---- result types */

/* Rows x[r.., k], each with the index[r..] of its group, and matrices w[v, a, b]. */
static const Type *check_grouped(const Infer *c, int w, const Expr *groups, const Expr *rows, const Expr *columns) {
  const Type *x = c->in[0], *t = c->in[w];
  if (t->rank != 3 || t->dtype != x->dtype)
    return infer_fail(c, "operand %d must be %s[groups, rows, columns]", w, dtype_name(x->dtype));
  bool fits = (!groups || t->dims[0] == groups) && t->dims[1] == rows && (!columns || t->dims[2] == columns);
  return fits ? t : infer_fail(c, "extents of operand %d do not fit", w);
}

static const Type *check_grouped_rows(const Infer *c) {
  const Type *x = c->in[0], *index = c->in[1];
  if (!dtype_is_float(x->dtype) || x->rank < 1) return infer_fail(c, "rows must be floats with at least one dimension");
  if (index->dtype != DT_i64 || index->rank != x->rank - 1) return infer_fail(c, "indices must be i64, one per row");
  for (int d = 0; d < index->rank; d++)
    if (index->dims[d] != x->dims[d]) return infer_fail(c, "indices and rows differ in dimension %d", d);
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
  const char *kind = infer_attr(c, AT_kind)->u.s;
  if (strcmp(kind, "silu") != 0 && strcmp(kind, "relu") != 0)
    return infer_fail(c, "kind is \"%s\", not silu or relu", kind);
  const Type *x = check_grouped_rows(c), *gate = x ? check_grouped(c, 2, NULL, x->dims[x->rank - 1], NULL) : NULL;
  if (!gate || !check_grouped(c, 3, gate->dims[0], gate->dims[1], gate->dims[2])) return NULL;
  const Type *down = check_grouped(c, 4, gate->dims[0], gate->dims[2], NULL);
  return down ? with_last(c, down->dims[2]) : NULL;
}

/* ---- sharding */

/* The dimensions of rows and of their indices. */
static void grouped_rows(const RuleMaking *k) {
  for (int d = 0; d < rule_out(k)->rank - 1; d++) {
    uint8_t f = rule_numbered(k, "r", d, rule_out(k)->dims[d], FK_PARALLEL);
    for (int i = 0; i < 2; i++) rule_set_dim(&k->r->operands[i], d, f);
    rule_set_dim(&k->r->results[0], d, f);
  }
}

/* Cutting the matrices gives each row to the rank that owns its matrix; the summed dimension is cut as in a dot. */
static void rule_grouped_dot(const RuleMaking *k) {
  const Type *y = rule_out(k), *w = rule_in(k, 2);
  int last = y->rank - 1;
  grouped_rows(k);
  uint8_t factors[3] = {rule_factor(k, "v", w->dims[0], FK_REDUCE, RED_ONE),
                        rule_factor(k, "k", w->dims[1], FK_REDUCE, RED_SUM),
                        rule_factor(k, "n", w->dims[2], FK_PARALLEL, RED_NONE)};
  for (int d = 0; d < 3; d++) rule_set_dim(&k->r->operands[2], d, factors[d]);
  rule_set_dim(&k->r->operands[0], last, factors[1]);
  rule_set_dim(&k->r->results[0], last, factors[2]);
  rule_linear(k, 1, RED_SUM);
  rule_linear(k, 4, RED_SUM);
}

/* A nonlinear function is between the products, so k is whole.  So is n: cutting it would repeat all computation before
 * it. */
static void rule_grouped_mlp(const RuleMaking *k) {
  const Type *y = rule_out(k), *gate = rule_in(k, 2);
  int last = y->rank - 1;
  grouped_rows(k);
  uint8_t v = rule_factor(k, "v", gate->dims[0], FK_REDUCE, RED_ONE),
          in = rule_factor(k, "k", gate->dims[1], FK_FROZEN, RED_NONE);
  uint8_t f = rule_factor(k, "f", gate->dims[2], FK_REDUCE, RED_SUM),
          n = rule_factor(k, "n", y->dims[last], FK_FROZEN, RED_NONE);
  for (int i = 2; i < 5; i++) {
    rule_set_dim(&k->r->operands[i], 0, v);
    rule_set_dim(&k->r->operands[i], 1, i < 4 ? in : f);
    rule_set_dim(&k->r->operands[i], 2, i < 4 ? f : n);
  }
  rule_set_dim(&k->r->operands[0], last, in);
  rule_set_dim(&k->r->results[0], last, n);
  rule_linear(k, 16, RED_SUM);
}

/* `start` is the first local matrix. */
static void local_grouped(const LocalPart *p, LocalAttrs *out) {
  local_set(out, attr_e(AT_start, local_begin(p, p->in[2], 0, type_of(p->f, p->op->in[2])->dims[0])));
}

static const Expr *places_groups(Module *m, const Func *f, const Op *op) {
  (void)m;
  return type_of(f, op->in[2])->dims[0];
}

/* ---- work: rows are divided evenly among groups, and each row uses one matrix */

static ProductFactors rows_of_groups(const Rule *r) {
  ProductFactors x = {.groups = part_factors(r, "v")};
  for (int i = 0; i < r->nfactors; i++)
    if (r->factors[i].size && r->factors[i].name[0] == 'r') x.m |= 1u << i;
  return x;
}

static int products_grouped_dot(const Op *op, const Rule *r, ProductFactors out[MAX_PRODUCTS]) {
  (void)op;
  *out = rows_of_groups(r);
  out->n = part_factors(r, "n");
  out->k = part_factors(r, "k");
  return 1;
}

static int products_grouped_mlp(const Op *op, const Rule *r, ProductFactors out[MAX_PRODUCTS]) {
  (void)op;
  out[0] = out[2] = rows_of_groups(r);
  out[0].k = part_factors(r, "k");
  out[0].n = out[2].k = part_factors(r, "f");
  out[2].n = part_factors(r, "n");
  out[1] = out[0]; /* gate, up, down */
  return 3;
}

/* Counts only the local matrices that rows use. */
static double bytes_grouped(const OpPart *p) {
  Product x[MAX_PRODUCTS];
  op_products(p, x);
  double met = fmin(1, x[0].batch / fmax(1, part_size(p, "v"))), bytes = p->bytes;
  for (int i = 0; i < p->op->nin; i++) bytes += i < 2 ? p->in_bytes[i] : p->in_bytes[i] * met;
  return bytes;
}

/* ---- meaning */

/* Matrices by group, [groups, rows, columns]. */
typedef struct Matrices {
  const InterpTensor *w;
  int64_t rows, columns;
} Matrices;

static Matrices matrices(const Eval *e, int i) { return (Matrices){e->in[i], e->in[i]->dims[1], e->in[i]->dims[2]}; }

/* y = x times the matrix of the group. */
static void row_times(bool modp, const Matrices *m, int64_t group, const Cell *x, Cell *y) {
  const Cell *w = m->w->cells + group * m->rows * m->columns;
  memset(y, 0, sizeof *y * (size_t)m->columns);
  for (int64_t i = 0; i < m->rows; i++, w += m->columns)
    for (int64_t j = 0; j < m->columns; j++) {
      if (modp) y[j].i = (int64_t)modp_add((uint64_t)y[j].i, modp_mul((uint64_t)x[i].i, (uint64_t)w[j].i));
      else y[j].f += x[i].f * w[j].f;
    }
}

/* gate[i] = kind(gate[i]) * up[i] */
static void join(bool modp, bool silu, int64_t n, Cell *gate, const Cell *up) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t x = (uint64_t)gate[i].i, hashed = modp_hash(silu ? OP_sigmoid : OP_relu, x, 0);
    double f = gate[i].f, value = silu ? f / (1 + exp(-f)) : f < 0 ? 0 : f;
    if (modp) gate[i].i = (int64_t)modp_mul(silu ? modp_mul(x, hashed) : hashed, (uint64_t)up[i].i);
    else gate[i].f = value * up[i].f;
  }
}

/* Local group of a row with this index; -1 if none. */
static int64_t group_of(int64_t index, int64_t start, int64_t groups) {
  int64_t group;
  return !__builtin_sub_overflow(index, start, &group) && group >= 0 && group < groups ? group : -1;
}

static bool fits(Eval *e, int64_t width, int64_t columns) {
  const InterpTensor *x = e->in[0], *index = e->in[1], *y = e->out;
  int64_t rows = interp_elements(index);
  bool right = interp_elements(x) == rows * width && interp_elements(y) == rows * columns;
  for (int i = 3; i < e->op->nin; i++) right &= e->in[i]->dims[0] == e->in[2]->dims[0];
  return right || eval_fail(e, "rows, indices and matrices do not fit");
}

static bool eval_grouped_dot(Eval *e) {
  Matrices w = matrices(e, 2);
  int64_t start;
  if (!eval_expr(e, op_expr(e->op, AT_start), &start) || !fits(e, w.rows, w.columns)) return false;
  for (int64_t r = 0; r < interp_elements(e->in[1]); r++) {
    int64_t group = group_of(e->in[1]->cells[r].i, start, w.w->dims[0]);
    Cell *y = e->out->cells + r * w.columns;
    if (group < 0) memset(y, 0, sizeof *y * (size_t)w.columns);
    else row_times(e->run->modp, &w, group, e->in[0]->cells + r * w.rows, y);
  }
  return true;
}

static bool eval_grouped_mlp(Eval *e) {
  Matrices gate = matrices(e, 2), up = matrices(e, 3), down = matrices(e, 4);
  bool silu = strcmp(op_str(e->op, AT_kind), "silu") == 0;
  int64_t start;
  if (!eval_expr(e, op_expr(e->op, AT_start), &start) || !fits(e, gate.rows, down.columns)) return false;
  if (up.rows != gate.rows || up.columns != gate.columns || down.rows != gate.columns)
    return eval_fail(e, "the matrices do not fit");
  Cell *hidden = arena_alloc(e->run->arena, 2 * sizeof *hidden * (size_t)(gate.columns + 1)),
       *other = hidden + gate.columns;
  for (int64_t r = 0; r < interp_elements(e->in[1]); r++) {
    int64_t group = group_of(e->in[1]->cells[r].i, start, gate.w->dims[0]);
    const Cell *x = e->in[0]->cells + r * gate.rows;
    Cell *y = e->out->cells + r * down.columns;
    memset(y, 0, sizeof *y * (size_t)down.columns);
    if (group < 0) continue;
    row_times(e->run->modp, &gate, group, x, hidden);
    row_times(e->run->modp, &up, group, x, other);
    join(e->run->modp, silu, gate.columns, hidden, other);
    row_times(e->run->modp, &down, group, hidden, y);
  }
  return true;
}

/* ---- records */

const OpRecord record_grouped_dot = {.infer = infer_grouped_dot,
                                     .rule = rule_grouped_dot,
                                     .local = local_grouped,
                                     .eval = eval_grouped_dot,
                                     .index = 1,
                                     .places = places_groups,
                                     .products = products_grouped_dot,
                                     .bytes = bytes_grouped};
const OpRecord record_grouped_mlp = {.infer = infer_grouped_mlp,
                                     .rule = rule_grouped_mlp,
                                     .local = local_grouped,
                                     .eval = eval_grouped_mlp,
                                     .index = 1,
                                     .places = places_groups,
                                     .products = products_grouped_mlp,
                                     .bytes = bytes_grouped};
