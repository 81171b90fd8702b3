/* codegen/rows/row_build.c - the row program of a group.
 *
 * Works backwards from the stored values: `value_at` returns the node of any value at an index, which is an affine
 * function of the loop indices per dimension, or a computed number (gather).  Operations that move elements only change
 * the index; a value in memory becomes a load; a reduction becomes an accumulation of its operand over the inner
 * dimension.  Structurally equal nodes are shared.  An element that may not exist (pad, concat, gather) is guarded: its
 * loads happen only if the guard holds.
 */
#include <math.h>
#include <string.h>

#include "base/die.h"
#include "codegen/rows/row.h"

/* The index along one dimension: an affine function of the loop indices plus, if node >= 0, a computed i64. */
typedef struct Index {
  Affine at;
  int node;
} Index;

typedef struct Known { /* a value already computed at an index */
  Val v;
  int guard, rank, node;
  Index index[MAX_RANK];
} Known;

typedef struct Build {
  Work *w;
  Module *m;
  const WorkGroup *g;
  RowProgram *p;
  Arena *scratch; /* for lists whose length is not known yet */
  int reduced;    /* loop dimension accumulated over */
  struct {
    Known *items;
    size_t n, cap;
  } known;
} Build;

static int value_at(Build *b, Val v, const Index *index, int guard);

/* ---- nodes */

static bool same_affine(const Affine *a, const Affine *b) {
  return a->offset == b->offset && memcmp(a->coef, b->coef, sizeof a->coef) == 0;
}

static bool same_node(const RowNode *a, const RowNode *b) {
  return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op && a->nargs == b->nargs &&
         memcmp(a->args, b->args, sizeof a->args) == 0 && memcmp(&a->f, &b->f, sizeof a->f) == 0 && a->i == b->i &&
         same_affine(&a->at, &b->at) && a->expr == b->expr && a->buffer == b->buffer && a->guard == b->guard &&
         a->acc == b->acc && a->source == b->source;
}

static int node(Build *b, RowNode n) {
  if (n.kind != RN_LOAD) n.guard = -1;
  if (!n.at.offset) n.at.offset = ex_const(b->m, 0);
  for (size_t i = 0; i < b->p->nodes.n; i++)
    if (same_node(&b->p->nodes.items[i], &n)) return (int)i;
  ARENA_PUSH(b->scratch, &b->p->nodes, n);
  return (int)b->p->nodes.n - 1;
}

static int op1(Build *b, OpKind op, DType dtype, int x) {
  return node(b, (RowNode){.kind = RN_OP, .op = op, .dtype = dtype, .nargs = 1, .args = {x}});
}

static int op2(Build *b, OpKind op, DType dtype, int x, int y) {
  return node(b, (RowNode){.kind = RN_OP, .op = op, .dtype = dtype, .nargs = 2, .args = {x, y}});
}

static int select_node(Build *b, DType dtype, int c, int x, int y) {
  return node(b, (RowNode){.kind = RN_OP, .op = OP_select, .dtype = dtype, .nargs = 3, .args = {c, x, y}});
}

static int number(Build *b, DType dtype, double v) {
  RowNode n = {.kind = RN_CONST, .dtype = dtype};
  if (dtype_is_float(dtype)) n.f = v;
  else n.i = dtype_constant_i(dtype, v);
  return node(b, n);
}

static int integer(Build *b, int64_t v) { return node(b, (RowNode){.kind = RN_CONST, .dtype = DT_i64, .i = v}); }

static int scalar(Build *b, const Expr *e) {
  int64_t v;
  if (ex_get_const(e, &v)) return integer(b, v);
  return node(b, (RowNode){.kind = RN_SCALAR, .dtype = DT_i64, .expr = e});
}

static int both(Build *b, int x, int y) { return x < 0 ? y : y < 0 ? x : op2(b, OP_and, DT_bool, x, y); }

static int to_dtype(Build *b, int x, DType dtype) {
  return b->p->nodes.items[x].dtype == dtype ? x : op1(b, OP_cast, dtype, x);
}

static int buffer(Build *b, Val v, const Op *table, DType dtype, bool output) {
  for (size_t i = 0; i < b->p->buffers.n; i++) {
    const RowBuffer *x = &b->p->buffers.items[i];
    if (x->value == v && x->table == table && x->output == output) return (int)i;
  }
  RowBuffer x = {.value = v, .table = table, .dtype = dtype, .output = output};
  ARENA_PUSH(b->scratch, &b->p->buffers, x);
  return (int)b->p->buffers.n - 1;
}

/* ---- indices */

static Index index_const(Build *b, const Expr *e) {
  return (Index){.at = {.offset = e ? e : ex_const(b->m, 0)}, .node = -1};
}

static Index index_loop(Build *b, int dim) {
  Index x = index_const(b, NULL);
  x.at.coef[dim] = ex_const(b->m, 1);
  return x;
}

static Affine affine_scaled(Module *m, const Affine *a, const Expr *by) {
  Affine r = {.offset = ex_mul(m, a->offset, by)};
  for (int d = 0; d < MAX_RANK; d++)
    if (a->coef[d]) r.coef[d] = ex_mul(m, a->coef[d], by);
  return r;
}

static void affine_add(Module *m, Affine *a, const Affine *b) {
  a->offset = ex_add(m, a->offset, b->offset);
  for (int d = 0; d < MAX_RANK; d++)
    if (b->coef[d]) a->coef[d] = a->coef[d] ? ex_add(m, a->coef[d], b->coef[d]) : b->coef[d];
}

static bool affine_constant(const Affine *a) {
  for (int d = 0; d < MAX_RANK; d++)
    if (a->coef[d]) return false;
  return true;
}

static int index_node(Build *b, const Index *x) {
  if (x->node < 0 && affine_constant(&x->at)) return scalar(b, x->at.offset);
  return node(
      b,
      (RowNode){
          .kind = RN_INDEX, .dtype = DT_i64, .nargs = x->node >= 0, .args = {x->node >= 0 ? x->node : 0}, .at = x->at});
}

/* Returns x * by + plus, by a constant. */
static Index index_affine(Build *b, const Index *x, int64_t by, const Expr *plus) {
  Index r = {.at = affine_scaled(b->m, &x->at, ex_const(b->m, by)), .node = x->node};
  if (x->node >= 0 && by != 1) r.node = op2(b, OP_mul, DT_i64, x->node, integer(b, by));
  r.at.offset = ex_add(b->m, r.at.offset, plus);
  return r;
}

/* Returns the position of element [index] of a row-major tensor. */
static Index flat_index(Build *b, const Index *index, int rank, const Expr *const *dims) {
  Index r = index_const(b, NULL);
  const Expr *stride = ex_const(b->m, 1);
  for (int d = rank - 1; d >= 0; d--) {
    Affine part = affine_scaled(b->m, &index[d].at, stride);
    affine_add(b->m, &r.at, &part);
    if (index[d].node >= 0) {
      int n = ex_is_const(stride, 1) ? index[d].node : op2(b, OP_mul, DT_i64, index[d].node, scalar(b, stride));
      r.node = r.node < 0 ? n : op2(b, OP_add, DT_i64, r.node, n);
    }
    stride = ex_mul(b->m, stride, dims[d]);
  }
  return r;
}

/* Returns the loop's own position in a value of this type: all loop dimensions, or all except the reduced one. */
static void place_of(Build *b, const Type *t, Index *index) {
  int where[MAX_RANK], n = dense_dims(t, NULL, where);
  bool full = n == b->g->space.ndims;
  for (int d = 0; d < t->rank; d++) index[d] = index_const(b, NULL);
  for (int i = 0; i < n; i++) index[where[i]] = index_loop(b, full || i < b->g->space.reduced ? i : i + 1);
}

static int load(Build *b, int buf, DType dtype, const Index *at, int guard) {
  return node(b, (RowNode){.kind = RN_LOAD,
                           .dtype = dtype,
                           .nargs = at->node >= 0,
                           .args = {at->node >= 0 ? at->node : 0},
                           .at = at->at,
                           .buffer = buf,
                           .guard = guard});
}

/* ---- operations that move elements */

static int at_broadcast(Build *b, const Op *op, const Index *index, int guard) {
  const Type *x = work_type(b->w, op->in[0]);
  const Attr *dims = op_attr(op, AT_dims);
  Index at[MAX_RANK];
  for (int i = 0; i < x->rank; i++) at[i] = ex_is_const(x->dims[i], 1) ? index_const(b, NULL) : index[dims->u.ints[i]];
  return value_at(b, op->in[0], at, guard);
}

/* Handles a reshape that only adds or drops dimensions of extent 1. */
static int at_unit_reshape(Build *b, const Op *op, const Index *index, int guard) {
  const Type *x = work_type(b->w, op->in[0]), *y = work_type(b->w, op->out);
  int xd[MAX_RANK], yd[MAX_RANK], n = dense_dims(x, NULL, xd);
  Index at[MAX_RANK];
  dense_dims(y, NULL, yd);
  for (int d = 0; d < x->rank; d++) at[d] = index_const(b, NULL);
  for (int i = 0; i < n; i++) at[xd[i]] = index[yd[i]];
  return value_at(b, op->in[0], at, guard);
}

static int at_transpose(Build *b, const Op *op, const Index *index, int guard) {
  Index at[MAX_RANK];
  const Attr *perm = op_attr(op, AT_perm);
  for (int i = 0; i < perm->n; i++) at[perm->u.ints[i]] = index[i];
  return value_at(b, op->in[0], at, guard);
}

static int at_slice(Build *b, const Op *op, const Index *index, int guard) {
  Index at[MAX_RANK];
  int rank = work_type(b->w, op->out)->rank;
  for (int d = 0; d < rank; d++) {
    if (op->kind == OP_slice)
      at[d] = index_affine(b, &index[d], op_attr(op, AT_strides)->u.ints[d], op_attr(op, AT_starts)->u.exprs[d]);
    else at[d] = d == op_int(op, AT_axis, 0) ? index_affine(b, &index[d], 1, op_expr(op, AT_start)) : index[d];
  }
  return value_at(b, op->in[0], at, guard);
}

/* Returns the bool node for 0 <= index < extent; `low` and `high` select the sides to test. */
static int inside(Build *b, const Index *x, const Expr *extent, bool low, bool high) {
  int i = index_node(b, x), g = -1;
  if (low) g = op2(b, OP_ge, DT_bool, i, integer(b, 0));
  if (high) g = both(b, g, op2(b, OP_lt, DT_bool, i, scalar(b, extent)));
  return g;
}

static int at_pad(Build *b, const Op *op, const Index *index, int guard) {
  const Type *x = work_type(b->w, op->in[0]);
  const Expr *const *low = op_attr(op, AT_low)->u.exprs, *const *high = op_attr(op, AT_high)->u.exprs;
  Index at[MAX_RANK];
  int here = -1;
  for (int d = 0; d < x->rank; d++) {
    at[d] = index_affine(b, &index[d], 1, ex_muli(b->m, low[d], -1));
    here = both(b, here, inside(b, &at[d], x->dims[d], !ex_is_const(low[d], 0), !ex_is_const(high[d], 0)));
  }
  int v = value_at(b, op->in[0], at, both(b, guard, here));
  return here < 0 ? v : select_node(b, x->dtype, here, v, number(b, x->dtype, op_float(op, AT_value, 0)));
}

/* Returns an element of a join: element i is that of operand 0 if i is below its extent, and so on. */
static int at_concat(Build *b, const Op *op, const Index *index, int guard) {
  int axis = (int)op_int(op, AT_axis, 0), before[MAX_OPERANDS], part[MAX_OPERANDS] = {0};
  const Type *y = work_type(b->w, op->out);
  const Expr *start = ex_const(b->m, 0);
  int i = index_node(b, &index[axis]);
  for (int k = 0; k < op->nin; k++) {
    const Type *x = work_type(b->w, op->in[k]);
    Index at[MAX_RANK];
    memcpy(at, index, sizeof(Index) * (size_t)y->rank);
    at[axis] = index_affine(b, &index[axis], 1, ex_muli(b->m, start, -1));
    int behind = k > 0 ? op2(b, OP_ge, DT_bool, i, scalar(b, start)) : -1;
    start = ex_add(b->m, start, x->dims[axis]);
    before[k] = k < op->nin - 1 ? op2(b, OP_lt, DT_bool, i, scalar(b, start)) : -1;
    part[k] = value_at(b, op->in[k], at, both(b, guard, both(b, behind, before[k])));
  }
  int joined = part[op->nin - 1];
  for (int k = op->nin - 2; k >= 0; k--) joined = select_node(b, y->dtype, before[k], part[k], joined);
  return joined;
}

/* Returns the element of the table at row i of dimension `axis`, with the other indices as in `at`; 0 if the row is
 * absent. */
static int row_at(Build *b, const Op *op, int i, Index *at, int axis, int guard) {
  const Type *table = work_type(b->w, op->in[0]);
  /* Subtracting start wraps; a difference that wraps is out of range all the same, because the unwrapped index is
   * compared with [start, start + extent). */
  const Expr *start = op_expr(op, AT_start);
  int here = both(b, op2(b, OP_ge, DT_bool, i, scalar(b, start)),
                  op2(b, OP_lt, DT_bool, i, scalar(b, ex_add(b->m, start, table->dims[axis]))));
  at[axis] = (Index){.at = {.offset = ex_muli(b->m, start, -1)}, .node = i};
  int v = value_at(b, op->in[0], at, both(b, guard, here));
  return select_node(b, table->dtype, here, v, number(b, table->dtype, 0));
}

static int at_gather(Build *b, const Op *op, const Index *index, int guard) {
  const Type *table = work_type(b->w, op->in[0]), *which = work_type(b->w, op->in[1]);
  int axis = (int)op_int(op, AT_axis, 0);
  int i = to_dtype(b, value_at(b, op->in[1], index + axis, guard), DT_i64);
  Index at[MAX_RANK];
  for (int d = 0; d < table->rank; d++)
    if (d != axis) at[d] = index[d < axis ? d : d + which->rank - 1];
  return row_at(b, op, i, at, axis, guard);
}

static int at_take(Build *b, const Op *op, const Index *index, int guard) {
  const Type *table = work_type(b->w, op->in[0]);
  int axis = (int)op_int(op, AT_axis, 0);
  int i = to_dtype(b, value_at(b, op->in[1], index, guard), DT_i64);
  Index at[MAX_RANK];
  for (int d = 0; d < table->rank; d++) at[d] = index[d];
  return row_at(b, op, i, at, axis, guard);
}

/* ---- sources of numbers */

static int at_const(Build *b, const Op *op, const Index *index, int guard) {
  const Type *t = work_type(b->w, op->out);
  const Attr *value = op_attr(op, AT_value);
  if (value) return number(b, t->dtype, value->u.f);
  Index at = flat_index(b, index, t->rank, t->dims);
  return load(b, buffer(b, 0, op, t->dtype, false), t->dtype, &at, guard);
}

static int at_random(Build *b, const Op *op, const Index *index, int guard) {
  const Type *t = work_type(b->w, op->out);
  Index at[MAX_RANK];
  for (int d = 0; d < t->rank; d++) at[d] = index_affine(b, &index[d], 1, op_attr(op, AT_starts)->u.exprs[d]);
  Index flat = flat_index(b, at, t->rank, op_attr(op, AT_extents)->u.exprs);
  RowNode n = {
      .kind = RN_RANDOM, .dtype = t->dtype, .nargs = 1 + op->nin, .args = {index_node(b, &flat)}, .source = op};
  if (op->nin) n.args[1] = to_dtype(b, value_at(b, op->in[0], index, guard), DT_i64);
  return node(b, n);
}

static double identity_of(Reduction r, DType t) {
  bool is_float = dtype_is_float(t);
  int bits = (int)dtype_bytes(t) * 8;
  bool is_signed = dtype_class(t) == DTC_I;
  switch (r) {
    case RED_PRODUCT:
    case RED_AND: return 1;
    case RED_MAX: return is_float ? -INFINITY : is_signed ? -ldexp(1, bits - 1) : 0;
    case RED_MIN: return is_float ? INFINITY : is_signed ? ldexp(1, bits - 1) - 1 : ldexp(1, bits) - 1;
    default: return 0;
  }
}

static int at_mask_partial(Build *b, const Op *op, const Index *index, int guard) {
  DType t = work_type(b->w, op->out)->dtype;
  Reduction r = op_attr(op, AT_op)->u.reduction;
  const Attr *axes = op_attr(op, AT_mesh_axes);
  const Expr *sum = ex_const(b->m, 0);
  for (int i = 0; i < axes->n; i++) sum = ex_add(b->m, sum, mesh_coordinate(b->m, (int)axes->u.ints[i]));
  int keep = op2(b, OP_eq, DT_bool, scalar(b, sum), integer(b, 0));
  int none = number(b, t, identity_of(r, t));
  if (dtype_class(t) == DTC_U && r == RED_MIN) none = node(b, (RowNode){.kind = RN_CONST, .dtype = t, .i = -1});
  return select_node(b, t, keep, value_at(b, op->in[0], index, guard), none);
}

/* ---- row operations */

static int accumulate(Build *b, Reduction r, int v) {
  DType dtype = b->p->nodes.items[v].dtype;
  for (size_t i = 0; i < b->p->accs.n; i++)
    if (b->p->accs.items[i].op == r && b->p->accs.items[i].node == v)
      return node(b, (RowNode){.kind = RN_ACC, .dtype = dtype, .acc = (int)i});
  ARENA_PUSH(b->scratch, &b->p->accs, ((RowAcc){.op = r, .dtype = dtype, .node = v}));
  return node(b, (RowNode){.kind = RN_ACC, .dtype = dtype, .acc = (int)b->p->accs.n - 1});
}

/* Returns the operand of a row operation at the loop's own position. */
static int operand_in_place(Build *b, Val v) {
  Index at[MAX_RANK];
  place_of(b, work_type(b->w, v), at);
  return value_at(b, v, at, -1);
}

static DType wide(DType t) { return dtype_held(t); }

/* Widens a narrow float.  It is already computed in f32, so only the node's type changes, without rounding. */
static int widened(Build *b, int v) {
  DType t = b->p->nodes.items[v].dtype;
  return t == wide(t) ? v : op1(b, OP_cast, wide(t), v);
}

static int at_softmax(Build *b, const Op *op, const Index *index, int guard) {
  int x = widened(b, operand_in_place(b, op->in[0]));
  DType t = b->p->nodes.items[x].dtype;
  int max = accumulate(b, RED_MAX, x);
  int sum = accumulate(b, RED_SUM, op1(b, OP_exp, t, op2(b, OP_sub, t, x, max)));
  int here = widened(b, value_at(b, op->in[0], index, guard));
  return op2(b, OP_div, t, op1(b, OP_exp, t, op2(b, OP_sub, t, here, max)), sum);
}

static int at_norm(Build *b, const Op *op, const Index *index, int guard) {
  const Type *type = work_type(b->w, op->in[0]);
  int x = widened(b, operand_in_place(b, op->in[0])), here = widened(b, value_at(b, op->in[0], index, guard));
  DType t = b->p->nodes.items[x].dtype;
  int n = op1(b, OP_cast, t, scalar(b, type->dims[type->rank - 1]));
  if (strcmp(op_str(op, AT_kind), "layer") == 0) {
    int mean = op2(b, OP_div, t, accumulate(b, RED_SUM, x), n);
    x = op2(b, OP_sub, t, x, mean), here = op2(b, OP_sub, t, here, mean);
  }
  int square = op2(b, OP_div, t, accumulate(b, RED_SUM, op2(b, OP_mul, t, x, x)), n);
  int scale = op1(b, OP_rsqrt, t, op2(b, OP_add, t, square, number(b, t, op_float(op, AT_eps, 0))));
  return op2(b, OP_mul, t, here, scale);
}

static int at_cross_entropy(Build *b, const Op *op) {
  const Type *type = work_type(b->w, op->in[0]);
  int x = widened(b, operand_in_place(b, op->in[0]));
  DType t = b->p->nodes.items[x].dtype;
  int max = accumulate(b, RED_MAX, x);
  int sum = accumulate(b, RED_SUM, op1(b, OP_exp, t, op2(b, OP_sub, t, x, max)));
  Index at[MAX_RANK];
  place_of(b, type, at);
  int label = operand_in_place(b, op->in[1]);
  at[type->rank - 1] = (Index){.at = {.offset = ex_const(b->m, 0)}, .node = label};
  int here = both(b, op2(b, OP_ge, DT_bool, label, integer(b, 0)),
                  op2(b, OP_lt, DT_bool, label, scalar(b, type->dims[type->rank - 1])));
  int picked = select_node(b, t, here, widened(b, value_at(b, op->in[0], at, here)), number(b, t, 0));
  return op2(b, OP_add, t, op1(b, OP_log, t, sum), op2(b, OP_sub, t, max, picked));
}

/* ---- any value */

static int computed_at(Build *b, const Op *op, const Index *index, int guard) {
  const Type *y = work_type(b->w, op->out);
  switch (op->kind) {
    case OP_broadcast: return at_broadcast(b, op, index, guard);
    case OP_reshape: return at_unit_reshape(b, op, index, guard);
    case OP_transpose: return at_transpose(b, op, index, guard);
    case OP_slice:
    case OP_shard_slice: return at_slice(b, op, index, guard);
    case OP_pad: return at_pad(b, op, index, guard);
    case OP_concat: return at_concat(b, op, index, guard);
    case OP_gather: return at_gather(b, op, index, guard);
    case OP_take: return at_take(b, op, index, guard);
    case OP_const: return at_const(b, op, index, guard);
    case OP_size: return to_dtype(b, scalar(b, op_expr(op, AT_expr)), y->dtype);
    case OP_iota: {
      Index at = index_affine(b, &index[op_int(op, AT_axis, 0)], 1, op_expr(op, AT_start));
      return to_dtype(b, index_node(b, &at), y->dtype);
    }
    case OP_random:
    case OP_random_keyed: return at_random(b, op, index, guard);
    case OP_mask_partial: return at_mask_partial(b, op, index, guard);
    case OP_reduce: return accumulate(b, op_attr(op, AT_op)->u.reduction, widened(b, operand_in_place(b, op->in[0])));
    case OP_softmax: return at_softmax(b, op, index, guard);
    case OP_norm: return at_norm(b, op, index, guard);
    case OP_cross_entropy: return at_cross_entropy(b, op);
    case OP_cast:
    case OP_bitcast: return op1(b, op->kind, y->dtype, value_at(b, op->in[0], index, guard));
    default: break;
  }
  if (op_class(op->kind) == OC_OTHER && op->kind != OP_select) die("row_build: %s \"%s\"", op_name(op->kind), op->name);
  RowNode n = {.kind = RN_OP, .op = op->kind, .dtype = y->dtype, .nargs = op->nin};
  for (int k = 0; k < op->nin; k++) n.args[k] = value_at(b, op->in[k], index, guard);
  return node(b, n);
}

static bool computed_here(const Build *b, Val v) {
  int def = work_def(b->w, v);
  if (def < 0) return false;
  const WorkOp *o = &b->w->ops.items[def];
  return o->virtual_ || o->group == b->w->ops.items[b->g->ops[0]].group;
}

static bool same_index(const Index *a, const Index *b, int rank) {
  for (int d = 0; d < rank; d++)
    if (a[d].node != b[d].node || !same_affine(&a[d].at, &b[d].at)) return false;
  return true;
}

static int value_at(Build *b, Val v, const Index *index, int guard) {
  const Type *t = work_type(b->w, v);
  for (size_t i = 0; i < b->known.n; i++) {
    const Known *k = &b->known.items[i];
    if (k->v == v && k->guard == guard && same_index(k->index, index, t->rank)) return k->node;
  }
  Known k = {.v = v, .guard = guard, .rank = t->rank};
  if (t->rank) memcpy(k.index, index, sizeof(Index) * (size_t)t->rank);
  if (computed_here(b, v)) {
    k.node = computed_at(b, b->w->ops.items[work_def(b->w, v)].op, k.index, guard);
  } else {
    Index at = flat_index(b, k.index, t->rank, t->dims);
    k.node = load(b, buffer(b, v, NULL, t->dtype, false), t->dtype, &at, guard);
  }
  ARENA_PUSH(b->scratch, &b->known, k);
  return k.node;
}

/* ---- stages, levels, costs */

static int cost_of(const RowNode *n) {
  if (n->kind == RN_RANDOM) return 40 * n->nargs;
  if (n->kind != RN_OP) return n->kind == RN_LOAD;
  return op_element_cost(n->op);
}

static bool varies(const RowProgram *p, const Affine *a) {
  return a->coef[p->inner] && !ex_is_const(a->coef[p->inner], 0);
}

/* Derives stages and costs.  Nodes are in order: arguments come first; an accumulation's node directly follows its
 * operand. */
static void derive(RowProgram *p) {
  p->nstages = 1;
  for (size_t i = 0; i < p->nodes.n; i++) {
    RowNode *n = &p->nodes.items[i];
    n->stage = 0, n->cost = cost_of(n);
    n->inner = (n->kind == RN_LOAD || n->kind == RN_INDEX) && varies(p, &n->at);
    int args[4], count = n->nargs;
    memcpy(args, n->args, sizeof n->args);
    if (n->guard >= 0) args[count++] = n->guard;
    for (int k = 0; k < count; k++) {
      const RowNode *x = &p->nodes.items[args[k]];
      n->stage = x->stage > n->stage ? x->stage : n->stage;
      n->inner = n->inner || x->inner;
      if (n->inner) n->cost = n->cost + x->cost > 1000 ? 1000 : n->cost + x->cost;
    }
    if (n->kind == RN_ACC) {
      RowAcc *acc = &p->accs.items[n->acc];
      acc->stage = p->nodes.items[acc->node].stage;
      n->stage = acc->stage + 1;
    }
    if (n->stage + 1 > p->nstages) p->nstages = n->stage + 1;
  }
  for (size_t i = 0; i < p->stores.n; i++) {
    RowStore *s = &p->stores.items[i];
    const RowNode *n = &p->nodes.items[s->node];
    s->stage = n->stage;
    s->inner = n->inner || s->total || varies(p, &s->at);
  }
}

/* ---- merging loop dimensions */

static bool dims_fit(Module *m, const RowProgram *p, const Affine *a, int x, int y) {
  const Expr *zero = ex_const(m, 0), *cx = a->coef[x] ? a->coef[x] : zero, *cy = a->coef[y] ? a->coef[y] : zero;
  return cx == ex_mul(m, cy, p->extent[y]);
}

static void drop_dim(RowProgram *p, Affine *a, int x) {
  for (int d = x; d + 1 < p->ndims; d++) a->coef[d] = a->coef[d + 1];
  a->coef[p->ndims - 1] = NULL;
}

/* Folds dimension x into y = x + 1 if every access steps over both as over one. */
static bool merge_dims(Module *m, RowProgram *p, int x) {
  int y = x + 1;
  if (p->reduces && (x == p->inner || y == p->inner)) return false;
  for (size_t i = 0; i < p->nodes.n; i++) {
    const RowNode *n = &p->nodes.items[i];
    if ((n->kind == RN_LOAD || n->kind == RN_INDEX) && !dims_fit(m, p, &n->at, x, y)) return false;
  }
  for (size_t i = 0; i < p->stores.n; i++)
    if (!p->stores.items[i].total && !dims_fit(m, p, &p->stores.items[i].at, x, y)) return false;
  p->extent[y] = ex_mul(m, p->extent[x], p->extent[y]);
  for (size_t i = 0; i < p->nodes.n; i++) drop_dim(p, &p->nodes.items[i].at, x);
  for (size_t i = 0; i < p->stores.n; i++) drop_dim(p, &p->stores.items[i].at, x);
  for (int d = x; d + 1 < p->ndims; d++) p->extent[d] = p->extent[d + 1];
  p->ndims--;
  if (p->inner > x) p->inner--;
  return true;
}

void row_finish(Module *m, RowProgram *p) {
  for (int x = p->ndims - 2; x >= 0; x--) merge_dims(m, p, x);
  derive(p);
}

/* ---- groups */

/* Adds a total.  The number of blocks is an extent: the kernel has equally many. */
static void add_total(Build *b, Val v, const Op *op) {
  const Type *t = work_type(b->w, v);
  ARENA_PUSH(b->scratch, &b->p->stores,
             ((RowStore){.node = operand_in_place(b, op->in[0]),
                         .buffer = buffer(b, v, NULL, t->dtype, true),
                         .at = {.offset = ex_const(b->m, 0)},
                         .total = true}));
  b->p->blocks = t->dims[0];
}

static void add_store(Build *b, Val v) {
  const Type *t = work_type(b->w, v);
  const WorkOp *made = &b->w->ops.items[work_def(b->w, v)];
  Index index[MAX_RANK];
  if (work_is_total(made)) {
    add_total(b, v, made->op);
    return;
  }
  place_of(b, t, index);
  int n = value_at(b, v, index, -1);
  Index at = flat_index(b, index, t->rank, t->dims);
  ARENA_PUSH(b->scratch, &b->p->stores,
             ((RowStore){.node = n, .buffer = buffer(b, v, NULL, t->dtype, true), .at = at.at}));
}

/* Orders inputs and tables before outputs, otherwise keeping their order. */
static void order_buffers(RowProgram *p, Arena *scratch) {
  int *to = ARENA_ARRAY(scratch, int, p->buffers.n + 1), next = 0;
  RowBuffer *sorted = ARENA_ARRAY(scratch, RowBuffer, p->buffers.n + 1);
  for (int output = 0; output < 2; output++)
    for (size_t i = 0; i < p->buffers.n; i++)
      if (p->buffers.items[i].output == (output != 0)) sorted[next] = p->buffers.items[i], to[i] = next++;
  p->buffers.items = sorted;
  for (size_t i = 0; i < p->nodes.n; i++)
    if (p->nodes.items[i].kind == RN_LOAD) p->nodes.items[i].buffer = to[p->nodes.items[i].buffer];
  for (size_t i = 0; i < p->stores.n; i++) p->stores.items[i].buffer = to[p->stores.items[i].buffer];
}

static void *copy_of(Arena *a, const void *items, size_t n, size_t bytes) {
  void *copy = arena_alloc(a, n * bytes);
  return n ? memcpy(copy, items, n * bytes) : copy;
}

/* Copies a program, with lists of exact length. */
static RowProgram *settled(Arena *a, const RowProgram *p) {
  RowProgram *out = ARENA_NEW(a, RowProgram);
  *out = *p;
  out->nodes.items = copy_of(a, p->nodes.items, out->nodes.cap = p->nodes.n, sizeof *p->nodes.items);
  out->accs.items = copy_of(a, p->accs.items, out->accs.cap = p->accs.n, sizeof *p->accs.items);
  out->stores.items = copy_of(a, p->stores.items, out->stores.cap = p->stores.n, sizeof *p->stores.items);
  out->buffers.items = copy_of(a, p->buffers.items, out->buffers.cap = p->buffers.n, sizeof *p->buffers.items);
  return out;
}

static bool build_in(Arena *scratch, RowProgram *p, Work *w, const WorkGroup *g) {
  Build b = {.w = w, .m = w->m, .g = g, .p = p, .scratch = scratch, .reduced = g->space.reduced};
  p->ndims = g->space.ndims;
  memcpy(p->extent, g->space.dims, sizeof g->space.dims);
  p->reduces = g->space.rows;
  p->start = g->space.start ? g->space.start : ex_const(w->m, 0);
  p->inner = g->space.reduced >= 0 ? g->space.reduced : p->ndims - 1;
  if (p->ndims == 0 || (p->reduces && g->space.reduced < 0)) {
    /* Everything is one element per row: adds an inner dimension of extent 1 that no access depends on. */
    p->inner = p->ndims;
    p->extent[p->ndims++] = ex_const(w->m, 1);
  }
  for (int i = 0; i < g->n; i++) {
    Val v = w->ops.items[g->ops[i]].op->out;
    if (v && w->stored[v]) add_store(&b, v);
  }
  if (p->stores.n == 0) return false;
  order_buffers(p, scratch);
  row_finish(w->m, p);
  return true;
}

RowProgram *row_build(Work *w, const WorkGroup *g) {
  Arena *scratch = arena_new();
  RowProgram p = {0};
  RowProgram *out = build_in(scratch, &p, w, g) ? settled(w->m->arena, &p) : NULL;
  arena_free(scratch);
  return out;
}
