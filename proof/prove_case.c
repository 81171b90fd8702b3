/* proof/prove_case.c - the cases of operations: does a local operation compute, on the boxes of its operands, its part
 * of the result of a level-1 operation of the same kind?
 *
 * One function per shape of operation fills the spans of the result and adds the axes over which it becomes partial.
 * One table (passes_partial) says how partial operands pass through.
 */
#include <string.h>

#include "proof/prove_relation.h"

/* ---- partial results */

static Reduction as_sum(Reduction r) { return r == RED_ONE ? RED_SUM : r; }

/* True for casts that are exact on every float: a cast that rounds or overflows is not linear. */
static bool keeps_all_numbers(DType from, DType to) {
  bool half = from == DT_f16 || from == DT_bf16;
  return dtype_is_float(from) && (from == to || to == DT_f64 || (half && to == DT_f32)) && dtype_is_float(to);
}

/* True if the operation passes partial results of this kind from this group of operands to its result. */
static bool passes_partial(const Op *op, const Func *f, uint32_t operands, Reduction r) {
  const Attr *fill = op_attr(op, AT_value);
  switch (op->kind) {
    case OP_broadcast:
    case OP_reshape:
    case OP_transpose:
    case OP_slice: return operands == 1; /* elements are moved, so every kind of part stays valid */
    case OP_neg: return operands == 1 && r == RED_SUM;
    case OP_add:
    case OP_sub: return operands == 3 && r == RED_SUM;
    case OP_pool_grad: return operands == 2 && r == RED_SUM;
    case OP_mul:
    case OP_dot:
    case OP_conv:
    case OP_conv_transpose:
    case OP_conv_filter: return (operands == 1 || operands == 2) && r == RED_SUM;
    case OP_div: return operands == 1 && r == RED_SUM && dtype_is_float(type_of(f, op->out)->dtype);
    case OP_select:
      return r == RED_SUM && (operands == 6 || (operands == 2 && op_is_zeros(op_of(f, op->in[2]))) ||
                              (operands == 4 && op_is_zeros(op_of(f, op->in[1]))));
    case OP_gather:
    case OP_take: return operands == 1 && r == RED_SUM;
    case OP_grouped_dot: return (operands == 1 || operands == 4) && r == RED_SUM;
    case OP_grouped_mlp: return operands == 16 && r == RED_SUM;
    case OP_scatter:
    case OP_put: return operands == 1 && as_sum(op_attr(op, AT_op)->u.reduction) == r && r != RED_PRODUCT;
    case OP_scan: return operands == 1 && r == RED_SUM && op_attr(op, AT_op)->u.reduction == RED_SUM;
    case OP_update: return operands == 3 && r == RED_SUM;
    case OP_concat: return operands == (1u << op->nin) - 1u && r == RED_SUM;
    case OP_pad: return operands == 1 && r == RED_SUM && fill && fill->u.f == 0;
    case OP_reduce:
    case OP_pool: return operands == 1 && as_sum(op_attr(op, AT_op)->u.reduction) == r && r != RED_PRODUCT;
    case OP_cast: {
      return operands == 1 && r == RED_SUM &&
             keeps_all_numbers(type_of(f, op->in[0])->dtype, type_of(f, op->out)->dtype);
    }
    default: return false;
  }
}

/* Passes the partial axes of the operands to the result; every other operand must be whole over them. */
static bool pass_partials(Prover *p, const Op *op, const Func *f, const Relation *in, Relation *out) {
  uint32_t all = 0;
  for (int i = 0; i < op->nin; i++) all |= in[i].axes;
  for (int a = 0; a < p->m->mesh.naxes; a++) {
    if (!((all >> a) & 1u)) continue;
    uint32_t operands = 0;
    Reduction r = RED_NONE;
    for (int i = 0; i < op->nin; i++) {
      if ((in[i].axes >> a) & 1u) {
        if (r != RED_NONE && r != as_sum(in[i].partial))
          return prove_fail(p, "operands are partial in different ways over %s", p->m->mesh.axes[a].name);
        r = as_sum(in[i].partial);
        operands |= 1u << i;
      } else if ((relation_axes(p->m, &in[i]) >> a) & 1u) {
        return prove_fail(p, "one operand is partial over %s, another is cut by it", p->m->mesh.axes[a].name);
      }
    }
    if (!passes_partial(op, f, operands, r))
      return prove_fail(p, "operand %d is a partial %s over %s here", __builtin_ctz(operands), reduction_name(r),
                        p->m->mesh.axes[a].name);
    if (out->axes && as_sum(out->partial) != r) return prove_fail(p, "two kinds of partial results");
    out->partial = r;
    out->axes |= 1u << a;
  }
  return true;
}

/* A reduced dimension that is cut makes the result partial over the axes that cut it. */
bool reduce_span(Prover *p, Span s, const Expr *extent, Reduction r, Relation *out) {
  if (!span_settle(p, &s, extent)) return prove_fail(p, "the place of a reduced dimension is unknown");
  if (span_is_whole(p, &s, extent)) return true;
  uint32_t axes = span_axes(p->m, &s);
  if (!span_tiles(p, &s, extent, axes)) return prove_fail(p, "the parts of a reduced dimension do not cover it once");
  if (axes & out->axes) return prove_fail(p, "a mesh axis cuts two reduced dimensions");
  if (out->axes && as_sum(out->partial) != as_sum(r)) return prove_fail(p, "two kinds of partial results");
  out->partial = out->axes ? RED_SUM : r;
  if (r != RED_ONE && r != RED_SUM) out->partial = r;
  out->axes |= axes;
  return true;
}

/* ---- the operations */

typedef struct Case {
  Prover *p;
  const Func *gf;
  const Op *g; /* level-1 operation */
  const Func *f;
  const Op *op; /* local operation */
  int result;   /* index of its result */
  const Relation *in;
  Relation *out;
} Case;

static const Type *global_in(const Case *c, int i) { return type_of(c->gf, c->g->in[i]); }
static const Type *global_out(const Case *c) { return type_of(c->gf, c->g->out + (Val)c->result); }
static const Type *local_in(const Case *c, int i) { return type_of(c->f, c->op->in[i]); }
static const Type *local_out(const Case *c) { return type_of(c->f, c->op->out + (Val)c->result); }

/* True if all attributes other than the places of local parts are equal; a local reduction may also have `starts`. */
static bool same_attrs(const Case *c) {
  bool starts = c->op->kind == OP_reduce && op_attr(c->op, AT_starts);
  if (c->g->nattrs + starts != c->op->nattrs) return prove_fail(c->p, "attributes differ from level 1");
  for (int i = 0, k = 0; i < c->g->nattrs; i++, k++) {
    if (starts && c->op->attrs[k].key == AT_starts) k++;
    const Attr *a = &c->g->attrs[i], *b = &c->op->attrs[k];
    bool place = a->key == AT_start || a->key == AT_starts || a->key == AT_low || a->key == AT_high;
    Text x = {.arena = c->p->m->arena}, y = {.arena = c->p->m->arena};
    if (a->key != b->key) return prove_fail(c->p, "attributes differ from level 1");
    if (place) continue;
    attr_print(c->p->m, &x, a);
    attr_print(c->p->m, &y, b);
    if (strcmp(text_str(&x), text_str(&y)) != 0)
      return prove_fail(c->p, "%s, level 1 has %s", text_str(&y), text_str(&x));
  }
  return true;
}

static bool case_elementwise(const Case *c) {
  for (int d = 0; d < c->out->rank; d++) {
    c->out->dims[d] = c->in[0].dims[d];
    for (int i = 1; i < c->op->nin; i++)
      if (!span_unify(c->p, &c->out->dims[d], &c->in[i].dims[d], &c->out->dims[d]))
        return prove_fail(c->p, "operands hold different parts of dimension %d", d);
  }
  return true;
}

static bool case_broadcast(const Case *c) {
  const Attr *dims = op_attr(c->g, AT_dims);
  for (int d = 0; d < c->out->rank; d++) c->out->dims[d] = (Span){NULL, local_out(c)->dims[d], true};
  for (int i = 0; i < c->in[0].rank; i++) {
    int64_t d = dims->u.ints[i];
    if (global_in(c, 0)->dims[i] == global_out(c)->dims[d]) c->out->dims[d] = c->in[0].dims[i];
    else if (!span_is_whole(c->p, &c->in[0].dims[i], global_in(c, 0)->dims[i]))
      return prove_fail(c->p, "a stretched dimension is cut");
  }
  return true;
}

static bool case_transpose(const Case *c) {
  for (int d = 0; d < c->out->rank; d++) c->out->dims[d] = c->in[0].dims[op_attr(c->g, AT_perm)->u.ints[d]];
  return true;
}

/* True if an ordered sum knows where its part begins, since it is defined on global indices.  A span without a known
 * place may be anywhere. */
static bool sums_in_place(const Case *c, int i, const Span *s) {
  const Attr *starts = op_attr(c->op, AT_starts);
  const Expr *zero = ex_const(c->p->m, 0), *start = starts ? starts->u.exprs[i] : zero;
  if (s->free || !reduction_is_ordered(op_attr(c->g, AT_op)->u.reduction, local_out(c)->dtype)) return true;
  return expr_equal(c->p, start, s->lo) || prove_fail(c->p, "starts is not where this rank's part begins");
}

static bool case_reduce(const Case *c) {
  const Attr *axes = op_attr(c->g, AT_axes);
  int next = 0, n = 0;
  for (int d = 0; d < c->in[0].rank; d++) {
    if (next < axes->n && axes->u.ints[next] == d) {
      if (!sums_in_place(c, next++, &c->in[0].dims[d])) return false;
      if (!reduce_span(c->p, c->in[0].dims[d], global_in(c, 0)->dims[d], op_attr(c->g, AT_op)->u.reduction, c->out))
        return false;
    } else {
      c->out->dims[n++] = c->in[0].dims[d];
    }
  }
  return true;
}

bool prove_letters(Prover *p, const Func *gf, const Op *g, const Relation *in, char first, Relation *out) {
  const char *s = op_str(g, AT_spec), *result = strstr(s, "->") + 2;
  Span spans[128];
  const Expr *extents[128] = {NULL};
  for (int i = 0; i < 2; i++, s++)
    for (int d = 0; *s != ',' && *s != '-'; s++, d++) {
      int l = *s;
      if (l < first) continue;
      if (!extents[l]) spans[l] = in[i].dims[d];
      else if (!span_unify(p, &spans[l], &in[i].dims[d], &spans[l]))
        return prove_fail(p, "operands hold different parts of '%c'", l);
      extents[l] = type_of(gf, g->in[i])->dims[d];
    }
  for (int d = 0; result[d]; d++)
    if (result[d] >= first) out->dims[d] = spans[(int)result[d]];
  for (int l = first; l < 128; l++)
    if (extents[l] && !strchr(result, l) && !reduce_span(p, spans[l], extents[l], RED_SUM, out)) return false;
  return true;
}

/* True if the local start is the start of the held part of the indexed dimension; places a free span. */
static bool place_is(const Case *c, Span *s, const Expr *extent) {
  if (!span_settle(c->p, s, extent)) return prove_fail(c->p, "the place of the indexed dimension is unknown");
  return expr_equal(c->p, op_expr(c->op, AT_start), s->lo) ||
         prove_fail(c->p, "start is not where this rank's part begins");
}

/* Handles a table: if it is cut along the indexed dimension, the result is partial. */
static bool table_is(const Case *c, Span table, const Expr *extent) {
  return place_is(c, &table, extent) && reduce_span(c->p, table, extent, RED_ONE, c->out);
}

static bool case_gather(const Case *c) {
  int axis = (int)op_int(c->g, AT_axis, 0), n = 0;
  const Expr *extent = global_in(c, 0)->dims[axis];
  if (!table_is(c, c->in[0].dims[axis], extent)) return false;
  for (int d = 0; d < axis; d++) c->out->dims[n++] = c->in[0].dims[d];
  for (int d = 0; d < c->in[1].rank; d++) c->out->dims[n++] = c->in[1].dims[d];
  for (int d = axis + 1; d < c->in[0].rank; d++) c->out->dims[n++] = c->in[0].dims[d];
  return true;
}

/* True if dimension d of operand i holds the part `s`. */
static bool same_part(const Case *c, int i, int d, Span *s) {
  return span_unify(c->p, s, &c->in[i].dims[d], s) ||
         prove_fail(c->p, "operand %d holds another part of dimension %d", i, d);
}

/* Checks rows, groups, and the dimension that the last product sums.  The dimension that the first products of an mlp
 * sum must be whole. */
static bool case_grouped(const Case *c) {
  bool mlp = c->op->kind == OP_grouped_mlp;
  int rows = c->out->rank - 1, last = c->op->nin - 1;
  Span groups = c->in[2].dims[0], sum = c->in[last].dims[1];
  for (int i = 3; i <= last; i++)
    if (!same_part(c, i, 0, &groups)) return false;
  for (int i = 2; i < last; i++)
    if (!same_part(c, i, 2, &sum)) return false;
  if (!mlp && !same_part(c, 0, rows, &sum)) return false;
  for (int i = 2; i < last; i++)
    if (!span_is_whole(c->p, &c->in[i].dims[1], global_in(c, i)->dims[1]))
      return prove_fail(c->p, "a sum is cut before a nonlinear function");
  if (mlp && !span_is_whole(c->p, &c->in[0].dims[rows], global_in(c, 0)->dims[rows]))
    return prove_fail(c->p, "a sum is cut before a nonlinear function");
  if (!table_is(c, groups, global_in(c, 2)->dims[0]) ||
      !reduce_span(c->p, sum, global_in(c, last)->dims[1], RED_SUM, c->out))
    return false;
  for (int d = 0; d < rows; d++) {
    c->out->dims[d] = c->in[0].dims[d];
    if (!same_part(c, 1, d, &c->out->dims[d])) return false;
  }
  c->out->dims[rows] = c->in[last].dims[2];
  return true;
}

static bool case_take(const Case *c) {
  int axis = (int)op_int(c->g, AT_axis, 0);
  const Expr *extent = global_in(c, 0)->dims[axis];
  if (!table_is(c, c->in[0].dims[axis], extent)) return false;
  for (int d = 0; d < c->out->rank; d++) {
    c->out->dims[d] = c->in[1].dims[d];
    if (d != axis && !span_unify(c->p, &c->out->dims[d], &c->in[0].dims[d], &c->out->dims[d]))
      return prove_fail(c->p, "operands hold different parts of dimension %d", d);
  }
  return true;
}

/* The rows of the result begin at `start`; an index dimension that is cut makes it partial. */
static bool case_scatter(const Case *c) {
  int axis = (int)op_int(c->g, AT_axis, 0), n = c->op->kind == OP_put ? 1 : c->in[1].rank;
  Reduction op = op_attr(c->g, AT_op)->u.reduction;
  const Expr *start = op_expr(c->op, AT_start);
  for (int d = 0; d < c->in[1].rank; d++) {
    Span s = c->in[0].dims[c->op->kind == OP_put ? d : axis + d];
    if (!span_unify(c->p, &s, &c->in[1].dims[d], &s))
      return prove_fail(c->p, "updates and indices hold different parts of dimension %d", d);
    if (c->op->kind == OP_put && d != axis) c->out->dims[d] = s;
    else if (!reduce_span(c->p, s, global_in(c, 1)->dims[d], op, c->out)) return false;
  }
  for (int d = 0; c->op->kind == OP_scatter && d < c->out->rank; d++)
    if (d != axis) c->out->dims[d] = c->in[0].dims[d < axis ? d : d + n - 1];
  c->out->dims[axis] = span_at(start, ex_add(c->p->m, start, local_out(c)->dims[axis]));
  return span_within(c->p, &c->out->dims[axis], global_out(c)->dims[axis]) ||
         prove_fail(c->p, "rows beyond those of level 1");
}

static bool case_ordered(const Case *c) {
  int axis = (int)op_int(c->g, AT_axis, 0);
  for (int d = 0; d < c->out->rank; d++) c->out->dims[d] = c->in[0].dims[d];
  if (!span_is_whole(c->p, &c->in[0].dims[axis], global_in(c, 0)->dims[axis]))
    return prove_fail(c->p, "a dimension whose order matters is cut");
  c->out->dims[axis] = span_at(ex_const(c->p->m, 0), global_out(c)->dims[axis]);
  return true;
}

static bool case_update(const Case *c) {
  int axis = (int)op_int(c->g, AT_axis, 0);
  for (int d = 0; d < c->out->rank; d++) {
    c->out->dims[d] = c->in[0].dims[d];
    if (d == axis) continue;
    if (!span_unify(c->p, &c->in[0].dims[d], &c->in[1].dims[d], &c->out->dims[d]))
      return prove_fail(c->p, "operands hold different parts of dimension %d", d);
  }
  for (int i = 2; i < c->op->nin; i++)
    if (c->in[i].rank && !span_unify(c->p, &c->out->dims[0], &c->in[i].dims[0], &c->out->dims[0]))
      return prove_fail(c->p, "positions and rows are of different parts of dimension 0");
  if (!span_is_whole(c->p, &c->in[1].dims[axis], global_in(c, 1)->dims[axis]))
    return prove_fail(c->p, "the update is cut along its own dimension");
  Span *held = &c->out->dims[axis];
  const Expr *start = op_expr(c->op, AT_start);
  if (!held->free) return place_is(c, held, global_in(c, 0)->dims[axis]);
  *held = span_at(start, ex_add(c->p->m, start, held->hi)); /* any part before the update, but a certain one after it */
  return span_within(c->p, held, global_in(c, 0)->dims[axis]) ||
         prove_fail(c->p, "start is not where this rank's part begins");
}

/* True if the slice reads of dimension d exactly what level 1 reads, from a whole operand: then it is inside. */
static bool reads_as_level_1(const Case *c, int d) {
  const Expr *from = op_attr(c->op, AT_starts)->u.exprs[d], *global = op_attr(c->g, AT_starts)->u.exprs[d];
  return expr_equal(c->p, local_in(c, 0)->dims[d], global_in(c, 0)->dims[d]) && expr_equal(c->p, from, global) &&
         expr_equal(c->p, local_out(c)->dims[d], global_out(c)->dims[d]);
}

static bool case_slice(const Case *c) {
  const Attr *starts = op_attr(c->g, AT_starts), *local = op_attr(c->op, AT_starts),
             *strides = op_attr(c->g, AT_strides);
  Module *m = c->p->m;
  for (int d = 0; d < c->out->rank; d++) {
    Span s = c->in[0].dims[d];
    const Expr *extent = local_out(c)->dims[d];
    const Expr *from = local->u.exprs[d], *step = ex_const(m, strides->u.ints[d]);
    Span read = span_at(from, ex_max(m, from, ex_addi(m, ex_add(m, from, ex_mul(m, ex_addi(m, extent, -1), step)), 1)));
    if (!reads_as_level_1(c, d) && !span_within(c->p, &read, local_in(c, 0)->dims[d]))
      return prove_fail(c->p, "the slice leaves dimension %d of its operand", d);
    if (s.free) {
      c->out->dims[d] = (Span){NULL, extent, true};
      continue;
    }
    const Expr *first = ex_sub(m, ex_add(m, s.lo, local->u.exprs[d]), starts->u.exprs[d]);
    const Expr *lo = expr_quotient(c->p, first, step);
    if (!lo) return prove_fail(c->p, "dimension %d begins between two steps", d);
    c->out->dims[d] = span_at(lo, ex_add(m, lo, extent));
    if (!span_within(c->p, &c->out->dims[d], global_out(c)->dims[d]))
      return prove_fail(c->p, "dimension %d leaves the slice of level 1", d);
  }
  return true;
}

/* The place of padded or joined results is found by trying the canonical cuts against all coordinates. */
typedef struct Joint {
  const Case *c;
  int dim;
} Joint;

enum { MAX_JOINED = 16 }; /* operands of a concat */

/* Numbers of a joint: the result's part, the local padding, the offset of level 1's data; then each operand's part and
 * its whole extent. */
enum { JOINT_LO, JOINT_HI, JOINT_LOW, JOINT_HIGH, JOINT_SHIFT, JOINT_OPERANDS };

/* True if the operands' parts, one after the other, are the data that level 1 has there. */
static bool lies_as_level_1(const int64_t *v, const void *context) {
  const Case *c = ((const Joint *)context)->c;
  int64_t at = v[JOINT_LO], end = v[JOINT_HI], low = v[JOINT_LOW], high = v[JOINT_HIGH], offset = v[JOINT_SHIFT];
  if (low < 0 || high < 0 || (low > 0 && at + low > offset))
    return false; /* padding before the data only where level 1 pads */
  at += low;
  for (int i = 0; i < c->op->nin; i++) {
    const int64_t *x = &v[JOINT_OPERANDS + 3 * i];
    int64_t n = x[1] - x[0], whole = x[2];
    bool free = c->in[i].dims[((const Joint *)context)->dim].free;
    if (n > 0 && free && (at < offset || at + n > offset + whole)) return false; /* any part, but inside it */
    if (n > 0 && !free && at != offset + x[0]) return false;
    at += n;
    offset += whole;
  }
  return !(high > 0 && at < offset && end > at) && at + high == end;
}

static bool fits_joint(Prover *p, const Span *s, const void *context) {
  const Case *c = ((const Joint *)context)->c;
  int dim = ((const Joint *)context)->dim;
  const Expr *zero = ex_const(p->m, 0), *all[JOINT_OPERANDS + 3 * MAX_JOINED] = {s->lo, s->hi, zero, zero, zero};
  if (c->op->nin > MAX_JOINED || !expr_equal(p, ex_sub(p->m, s->hi, s->lo), local_out(c)->dims[dim])) return false;
  if (c->op->kind == OP_pad) {
    all[JOINT_LOW] = op_attr(c->op, AT_low)->u.exprs[dim];
    all[JOINT_HIGH] = op_attr(c->op, AT_high)->u.exprs[dim];
    all[JOINT_SHIFT] = op_attr(c->g, AT_low)->u.exprs[dim];
  }
  for (int i = 0; i < c->op->nin; i++) {
    const Span *x = &c->in[i].dims[dim];
    const Expr **to = &all[JOINT_OPERANDS + 3 * i];
    to[0] = x->free ? zero : x->lo, to[1] = x->hi, to[2] = global_in(c, i)->dims[dim];
  }
  Decision d = decide(p, JOINT_OPERANDS + 3 * c->op->nin, all, lies_as_level_1, context);
  p->uncertain |= d == OPEN;
  return d == HOLDS;
}

/* The theorem for symbolic extents: with result interval [lo, hi), an operand i whose elements are at offset o_i of the
 * result, holding [clip(lo - o_i), clip(hi - o_i)) of its extent, padded below by max(0, min(o - lo, hi - lo)), is
 * right for all sizes. */
static bool fits_windows(Prover *p, const Span *s, const void *context) {
  const Case *c = ((const Joint *)context)->c;
  int dim = ((const Joint *)context)->dim;
  Module *m = p->m;
  const Expr *zero = ex_const(m, 0), *extent = ex_sub(m, s->hi, s->lo);
  if (extent != local_out(c)->dims[dim]) return false;
  const Expr *offset = c->g->kind == OP_pad ? op_attr(c->g, AT_low)->u.exprs[dim] : zero;
  if (c->op->kind == OP_pad) {
    const Expr *low = op_attr(c->op, AT_low)->u.exprs[dim], *high = op_attr(c->op, AT_high)->u.exprs[dim];
    const Expr *held = span_extent(p, &c->in[0].dims[dim]);
    if (low != ex_max(m, zero, ex_min(m, ex_sub(m, offset, s->lo), extent))) return false;
    if (ex_add(m, ex_add(m, low, held), high) != extent) return false;
  }
  for (int i = 0; i < c->op->nin; i++) {
    const Expr *whole = global_in(c, i)->dims[dim];
    const Expr *lo = ex_min(m, ex_max(m, ex_sub(m, s->lo, offset), zero), whole),
               *hi = ex_min(m, ex_max(m, ex_sub(m, s->hi, offset), zero), whole);
    const Span *x = &c->in[i].dims[dim];
    if (x->free ? x->hi != ex_sub(m, hi, lo) : x->lo != lo || x->hi != hi) return false;
    offset = ex_add(m, offset, whole);
  }
  return true;
}

static bool case_joint(const Case *c, int dim) {
  Module *m = c->p->m;
  bool whole = true;
  uint32_t axes = expr_axes(m, local_out(c)->dims[dim]);
  for (int i = 0; i < c->op->nin; i++) {
    whole &= span_is_whole(c->p, &c->in[i].dims[dim], global_in(c, i)->dims[dim]);
    axes |= span_axes(m, &c->in[i].dims[dim]);
  }
  if (c->op->kind == OP_pad) {
    axes |= expr_axes(m, op_attr(c->op, AT_low)->u.exprs[dim]) | expr_axes(m, op_attr(c->op, AT_high)->u.exprs[dim]);
    whole &= expr_equal(c->p, op_attr(c->op, AT_low)->u.exprs[dim], op_attr(c->g, AT_low)->u.exprs[dim]) &&
             expr_equal(c->p, op_attr(c->op, AT_high)->u.exprs[dim], op_attr(c->g, AT_high)->u.exprs[dim]);
  }
  if (whole) return c->out->dims[dim] = span_at(ex_const(m, 0), global_out(c)->dims[dim]), true;
  Joint joint = {c, dim};
  /* Parts that hold only padding fit in many places; the windows of the theorem identify the right one. */
  if (span_search(c->p, global_out(c)->dims[dim], local_out(c)->dims[dim], axes, fits_windows, &joint,
                  &c->out->dims[dim]))
    return true;
  return span_search(c->p, global_out(c)->dims[dim], local_out(c)->dims[dim], axes, fits_joint, &joint,
                     &c->out->dims[dim]) ||
         prove_fail(c->p, "the parts do not lie where level 1 puts them");
}

static bool case_pad(const Case *c) {
  Module *m = c->p->m;
  for (int d = 0; d < c->out->rank; d++) {
    bool padded =
        !ex_is_const(op_attr(c->g, AT_low)->u.exprs[d], 0) || !ex_is_const(op_attr(c->g, AT_high)->u.exprs[d], 0);
    bool local = !expr_equal(c->p, op_attr(c->op, AT_low)->u.exprs[d], ex_const(m, 0)) ||
                 !expr_equal(c->p, op_attr(c->op, AT_high)->u.exprs[d], ex_const(m, 0));
    if (!padded && local) return prove_fail(c->p, "dimension %d is not padded at level 1", d);
    if (!padded) c->out->dims[d] = c->in[0].dims[d];
    else if (!case_joint(c, d)) return false;
  }
  return true;
}

static bool case_concat(const Case *c) {
  int axis = (int)op_int(c->g, AT_axis, 0);
  for (int d = 0; d < c->out->rank; d++) {
    if (d == axis) {
      if (!case_joint(c, d)) return false;
      continue;
    }
    c->out->dims[d] = c->in[0].dims[d];
    for (int i = 1; i < c->op->nin; i++)
      if (!span_unify(c->p, &c->out->dims[d], &c->in[i].dims[d], &c->out->dims[d]))
        return prove_fail(c->p, "operands hold different parts of dimension %d", d);
  }
  return true;
}

/* True if the value does not vary along dimension d of operand 0.  A dimension of extent 1 does not vary, but only
 * inside its extent. */
static bool varies_not(const Case *c, int d) {
  const Span *s = &c->in[0].dims[d];
  return s->free || (ex_is_const(global_in(c, 0)->dims[d], 1) && span_within(c->p, s, global_in(c, 0)->dims[d]));
}

/* A reshape along which the value does not vary: dimensions [j, to) of the result must hold as many elements as
 * dimensions [i, from) of the operand. */
static bool reshape_free(const Case *c, int i, int from, int j, int to) {
  Module *m = c->p->m;
  const Expr *have = type_product(m, local_in(c, 0), i, from), *want = type_product(m, local_out(c), j, to);
  for (int d = j; d < to; d++) c->out->dims[d] = (Span){NULL, local_out(c)->dims[d], true};
  return expr_equal(c->p, have, want) || prove_fail(c->p, "the operand holds fewer or more elements");
}

/* Reshape: the shapes are divided into groups of equal products; in a group only the first extent above 1 may be cut,
 * on multiples that are whole on both sides. */
static bool case_reshape(const Case *c) {
  Module *m = c->p->m;
  const Type *x = global_in(c, 0), *y = global_out(c);
  int i = 0, j = 0;
  while (i < x->rank || j < y->rank) {
    int i0 = i, j0 = j;
    reshape_group(m, x, y, &i, &j);
    bool free = i > i0;
    for (int d = i0; d < i && free; d++) free = varies_not(c, d);
    if (free) {
      if (!reshape_free(c, i0, i, j0, j)) return false;
      continue;
    }
    int cut = -1;
    for (int d = i0; d < i; d++) {
      Span *s = (Span *)&c->in[0].dims[d];
      if (!span_settle(c->p, s, x->dims[d])) return prove_fail(c->p, "the place of dimension %d is unknown", d);
      if (span_is_whole(c->p, s, x->dims[d])) continue;
      if (cut >= 0) return prove_fail(c->p, "two cut dimensions are merged");
      cut = d;
    }
    const Expr *behind_x = ex_const(m, 1), *behind_y = ex_const(m, 1);
    for (int d = i0; d < i; d++) {
      if (cut > d && !ex_is_const(x->dims[d], 1))
        return prove_fail(c->p, "dimension %d is cut, but is not the first of its group", cut);
      if (d > cut) behind_x = ex_mul(m, behind_x, x->dims[d]);
    }
    int first = j0;
    while (first + 1 < j && ex_is_const(y->dims[first], 1)) first++;
    for (int d = j0; d < j; d++) {
      c->out->dims[d] = span_at(ex_const(m, 0), y->dims[d]);
      if (d > first) behind_y = ex_mul(m, behind_y, y->dims[d]);
    }
    if (cut < 0) continue;
    if (j0 == j)
      return prove_fail(c->p, "dimension %d of extent 1 is cut, and the result has no dimension for it", cut);
    const Expr *lo = ex_exact_div(m, ex_mul(m, c->in[0].dims[cut].lo, behind_x), behind_y);
    const Expr *hi = ex_exact_div(m, ex_mul(m, c->in[0].dims[cut].hi, behind_x), behind_y);
    if (!lo || !hi) return prove_fail(c->p, "the cut of dimension %d falls inside an element of the result", cut);
    c->out->dims[first] = span_at(lo, hi);
  }
  return true;
}

/* ---- sources without operands */
static bool case_iota(const Case *c) {
  int64_t axis = op_int(c->op, AT_axis, 0);
  const Expr *start = op_expr(c->op, AT_start);
  for (int d = 0; d < c->out->rank; d++) c->out->dims[d] = (Span){NULL, local_out(c)->dims[d], true};
  c->out->dims[axis] = span_at(start, ex_add(c->p->m, start, local_out(c)->dims[axis]));
  return span_within(c->p, &c->out->dims[axis], global_out(c)->dims[axis]) ||
         prove_fail(c->p, "indices beyond those of level 1");
}

static bool case_constant(const Case *c) {
  bool splat = c->op->kind == OP_size || op_attr(c->op, AT_value);
  for (int d = 0; d < c->out->rank; d++) {
    c->out->dims[d] = (Span){NULL, local_out(c)->dims[d], true};
    if (!splat && !expr_equal(c->p, local_out(c)->dims[d], global_out(c)->dims[d]))
      return prove_fail(c->p, "a constant with listed elements is cut");
    if (!splat) c->out->dims[d] = span_at(ex_const(c->p->m, 0), global_out(c)->dims[d]);
  }
  return true;
}

static bool case_random(const Case *c) {
  const Attr *starts = op_attr(c->op, AT_starts);
  for (int d = 0; d < c->out->rank; d++) {
    c->out->dims[d] = span_at(starts->u.exprs[d], ex_add(c->p->m, starts->u.exprs[d], local_out(c)->dims[d]));
    if (!span_within(c->p, &c->out->dims[d], global_out(c)->dims[d]))
      return prove_fail(c->p, "random elements beyond those of level 1");
  }
  return true;
}

/* An unknown function of whole operands.  One with a rule is in prove_opaque.c. */
static bool case_opaque(const Case *c) {
  for (int i = 0; i < c->op->nin; i++)
    for (int d = 0; d < c->in[i].rank; d++)
      if (!span_is_whole(c->p, &c->in[i].dims[d], global_in(c, i)->dims[d]))
        return prove_fail(c->p, "operand %d of an unknown operator is cut", i);
  for (int d = 0; d < c->out->rank; d++) c->out->dims[d] = span_at(ex_const(c->p->m, 0), global_out(c)->dims[d]);
  return true;
}

static bool check_case(const Case *c) {
  if (!same_attrs(c)) return false;
  if (global_out(c)->dtype != local_out(c)->dtype || global_out(c)->rank != local_out(c)->rank)
    return prove_fail(c->p, "the result type differs from level 1");
  if (op_class(c->op->kind) != OC_OTHER) return case_elementwise(c);
  switch (c->op->kind) {
    case OP_select:
    case OP_cast:
    case OP_bitcast: return case_elementwise(c);
    case OP_broadcast: return case_broadcast(c);
    case OP_transpose: return case_transpose(c);
    case OP_reshape: return case_reshape(c);
    case OP_slice: return case_slice(c);
    case OP_pad: return case_pad(c);
    case OP_concat: return case_concat(c);
    case OP_reduce: return case_reduce(c);
    case OP_dot: return prove_letters(c->p, c->gf, c->g, c->in, 'A', c->out);
    case OP_conv:
    case OP_conv_transpose:
    case OP_conv_filter:
    case OP_pool:
    case OP_pool_grad: return prove_window(c->p, &(WindowCase){c->gf, c->g, c->f, c->op, c->in, c->out});
    case OP_gather: return case_gather(c);
    case OP_grouped_dot:
    case OP_grouped_mlp: return case_grouped(c);
    case OP_take: return case_take(c);
    case OP_scatter:
    case OP_put: return case_scatter(c);
    case OP_argsort:
    case OP_topk:
    case OP_scan: return case_ordered(c);
    case OP_update: return case_update(c);
    case OP_iota: return case_iota(c);
    case OP_const:
    case OP_size: return case_constant(c);
    case OP_random:
    case OP_random_keyed: return case_random(c);
    case OP_opaque:
      return op_attr(c->op, AT_rule) ? prove_opaque(c->p, &(OpaqueCase){c->gf, c->g, c->result, c->in, c->out})
                                     : case_opaque(c);
    default: return c->p->uncertain = true, prove_fail(c->p, "the prover does not know this operation");
  }
}

/* True if the box is inside the extents of level 1.  A term does not determine extents: another value of level 1 may
 * have the same term on more indices. */
static bool lies_in(Prover *p, const Relation *r, const Type *global) {
  for (int d = 0; d < r->rank; d++)
    if (!r->dims[d].free && !span_within(p, &r->dims[d], global->dims[d]))
      return prove_fail(p, "dimension %d lies beyond that of level 1", d);
  return true;
}

static bool operands_lie_in(const Case *c) {
  for (int i = 0; i < c->op->nin; i++)
    if (c->in[i].rank != global_in(c, i)->rank || !lies_in(c->p, &c->in[i], global_in(c, i))) return false;
  return true;
}

bool prove_case(Prover *p, const CaseOf *of, Relation *out) {
  Case c = {p, of->gf, of->g, of->f, of->op, of->result, of->in, out};
  return operands_lie_in(&c) && pass_partials(p, of->op, of->f, of->in, out) && check_case(&c) &&
         lies_in(p, out, global_out(&c));
}
