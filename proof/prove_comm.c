/* proof/prove_comm.c - axioms of the level-2 operations: how communication changes the box a rank holds.
 *
 * The term never changes.  Each axiom states what the operand must be for the operation to be meaningful, and the box
 * after it.
 */
#include <string.h>

#include "proof/prove_relation.h"

static uint32_t relation_uses(const Module *m, const Relation *r, int except) {
  uint32_t axes = 0;
  for (int d = 0; d < r->rank; d++)
    if (d != except) axes |= span_axes(m, &r->dims[d]);
  return axes;
}

static uint32_t attr_axes(const Op *op) {
  const Attr *one = op_attr(op, AT_mesh_axis), *list = op_attr(op, AT_mesh_axes);
  uint32_t axes = one ? 1u << one->u.i : 0;
  for (int i = 0; list && i < list->n; i++) axes |= 1u << list->u.ints[i];
  return axes;
}

static const Expr *at_member(Prover *p, const Expr *e, int axis, int member) {
  return ex_subst(p->m, e, p->m->mesh.axes[axis].symbol, ex_const(p->m, member));
}

/* True if the value is partial over all the axes, with the operation's reduction. */
static bool is_partial(Prover *p, Reduction by, const Relation *in, uint32_t axes) {
  if ((in->axes & axes) != axes) return prove_fail(p, "the value is not partial over the axes it is reduced over");
  bool as_sum = in->partial == RED_ONE && in->copied && by == RED_SUM;
  return as_sum || in->partial == by ||
         prove_fail(p, "reduced by %s, partial by %s", reduction_name(by), reduction_name(in->partial));
}

static const Expr *members_sum(Prover *p, const Expr *e, int axis) {
  const Expr *sum = ex_const(p->m, 0);
  for (int j = 0; j < p->m->mesh.axes[axis].size; j++) sum = ex_add(p->m, sum, at_member(p, e, axis, j));
  return sum;
}

/* Joins the parts of dimension `dim` that the members of the axis hold; they must follow each other. */
static bool join(Prover *p, const Relation *in, int axis, int dim, Span *out) {
  const Span *s = &in->dims[dim];
  int n = p->m->mesh.axes[axis].size;
  if ((in->axes >> axis) & 1u) return prove_fail(p, "a partial value is gathered");
  if ((relation_uses(p->m, in, dim) >> axis) & 1u) return prove_fail(p, "the axis cuts another dimension as well");
  if (s->free) {
    *out = (Span){NULL, members_sum(p, s->hi, axis), true};
    return true;
  }
  for (int j = 0; j + 1 < n; j++)
    if (!expr_equal(p, at_member(p, s->hi, axis, j), at_member(p, s->lo, axis, j + 1)))
      return prove_fail(p, "the parts of the members do not follow each other");
  *out = span_at(at_member(p, s->lo, axis, 0), at_member(p, s->hi, axis, n - 1));
  return true;
}

/* Search for the canonical cut whose members begin and end where the local extents put them. */
typedef struct Scatter {
  const Span *whole;
  const Expr *extent; /* of one member; depends on the axis */
  int axis;
} Scatter;

static bool fits_scatter(Prover *p, const Span *s, const void *context) {
  const Scatter *c = context;
  const Expr *at = c->whole->lo;
  for (int j = 0; j < p->m->mesh.axes[c->axis].size; j++) {
    if (!expr_equal(p, at_member(p, s->lo, c->axis, j), at)) return false;
    at = ex_add(p->m, at, at_member(p, c->extent, c->axis, j));
    if (!expr_equal(p, at_member(p, s->hi, c->axis, j), at)) return false;
  }
  return expr_equal(p, at, c->whole->hi);
}

/* Cuts dimension `dim`, which the axis does not cut yet, by the members' extents.  The global extent is unknown here,
 * so the cut is searched under all extents that the enclosing span can belong to: its own, as a canonical cut of the
 * whole. */
static bool scatter(Prover *p, const Func *f, const Op *op, const Relation *in, int axis, int dim, Span *out) {
  const Span *s = &in->dims[dim];
  const Expr *extent = type_of(f, op->out)->dims[dim];
  if ((relation_uses(p->m, in, -1) >> axis) & 1u) return prove_fail(p, "the axis already cuts the value");
  if (s->free) {
    const Expr *all = s->hi; /* `out` may be the same span */
    *out = (Span){NULL, extent, true};
    return expr_equal(p, members_sum(p, extent, axis), all) ||
           prove_fail(p, "the members' extents do not cut the dimension");
  }
  /* extent of the whole dimension: the last member's end over all axes that cut it now */
  const Expr *whole = s->hi;
  for (int a = 0; a < p->m->mesh.naxes; a++) whole = at_member(p, whole, a, p->m->mesh.axes[a].size - 1);
  Span have = *s; /* `out` may be the same span */
  Scatter c = {&have, extent, axis};
  uint32_t axes = span_axes(p->m, s) | 1u << axis;
  return span_search(p, whole, extent, axes, fits_scatter, &c, out) ||
         prove_fail(p, "the members' extents do not cut the dimension");
}

static bool prove_all_to_all(Prover *p, const Func *f, const Op *op, const Relation *in, Relation *out) {
  int axis = (int)op_int(op, AT_mesh_axis, 0), cut = (int)op_int(op, AT_split, 0),
      joined = (int)op_int(op, AT_concat, 0);
  if (cut == joined) return prove_fail(p, "split and concat are the same dimension");
  if (!join(p, in, axis, joined, &out->dims[joined])) return false;
  Relation between = *out;
  return scatter(p, f, op, &between, axis, cut, &out->dims[cut]);
}

static bool prove_exchange(Prover *p, const Op *op, const Relation *in, Relation *out) {
  const Attr *source = op_attr(op, AT_source), *target = op_attr(op, AT_target);
  int dim = (int)op_int(op, AT_axis, 0);
  uint32_t axes = attr_axes(op);
  Span have = span_at(source->u.exprs[0], source->u.exprs[1]), want = span_at(target->u.exprs[0], target->u.exprs[1]),
       s;
  if (in->axes & axes) return prove_fail(p, "a partial value is exchanged");
  if (relation_uses(p->m, in, dim) & axes) return prove_fail(p, "the axes cut another dimension as well");
  if (!span_unify(p, &in->dims[dim], &have, &s)) return prove_fail(p, "source is not the part this rank holds");
  if ((span_axes(p->m, &have) | span_axes(p->m, &want)) & ~axes) {
    /* Axes outside the exchange cut both sides alike: each group of members sees one part. */
    for (int a = 0; a < p->m->mesh.naxes; a++)
      if (!((axes >> a) & 1u) && ((span_axes(p->m, &have) >> a) & 1u))
        return prove_fail(p, "an axis outside the exchange cuts the dimension");
  }
  const Expr *whole = have.hi;
  for (int a = 0; a < p->m->mesh.naxes; a++) whole = at_member(p, whole, a, p->m->mesh.axes[a].size - 1);
  if (!span_tiles(p, &have, whole, span_axes(p->m, &have)))
    return prove_fail(p, "the sources do not cover the dimension once");
  if (!span_within(p, &want, whole)) return prove_fail(p, "a rank wants elements that no rank holds");
  out->dims[dim] = want;
  return true;
}

static bool lies_inside(const int64_t *v, const void *context) {
  (void)context;
  return v[0] >= 0 && v[1] <= v[2];
}

/* True if the slice, even if empty, lies in its operand. */
static bool slices_operand(Prover *p, const Expr *lo, const Expr *hi, const Expr *extent) {
  const Expr *const all[] = {lo, hi, extent};
  Decision d = decide(p, 3, all, lies_inside, NULL);
  if (d != OPEN) return d == HOLDS;
  if (expr_at_most(p, ex_const(p->m, 0), lo) && expr_at_most(p, hi, extent)) return true;
  p->uncertain = true;
  return false;
}

/* Accumulation: each micro-batch adds its part, and the operations after it see the whole sum. */
bool prove_accumulate(Prover *p, const Relation *in, Relation *out) {
  uint32_t axes = 0;
  for (int a = 0; a < p->m->mesh.naxes; a++)
    if (p->m->mesh.axes[a].temporal && p->m->mesh.axes[a].size > 1) axes |= 1u << a;
  *out = *in;
  out->axes &= ~axes;
  if (!axes) return true;
  if (relation_uses(p->m, in, -1) & axes) return prove_fail(p, "micro-batches cut the accumulated value");
  return is_partial(p, RED_SUM, in, axes);
}

bool prove_comm(Prover *p, const Func *f, const Op *op, const Relation *in, Relation *out) {
  *out = *in;
  uint32_t axes = attr_axes(op);
  int axis = (int)op_int(op, AT_mesh_axis, 0), dim = (int)op_int(op, AT_axis, 0);
  for (int a = 0; a < p->m->mesh.naxes; a++)
    if (((axes >> a) & 1u) && p->m->mesh.axes[a].temporal)
      return prove_fail(p, "communication over the micro-batch axis");
  switch (op->kind) {
    case OP_transfer: return true;
    case OP_all_reduce:
      if (!is_partial(p, op_attr(op, AT_op)->u.reduction, in, axes)) return false;
      out->axes &= ~axes;
      return true;
    case OP_reduce_scatter:
      if (!is_partial(p, op_attr(op, AT_op)->u.reduction, in, axes)) return false;
      out->axes &= ~axes;
      return scatter(p, f, op, out, axis, dim, &out->dims[dim]);
    case OP_all_gather: return join(p, in, axis, dim, &out->dims[dim]);
    case OP_all_to_all: return prove_all_to_all(p, f, op, in, out);
    case OP_exchange: return prove_exchange(p, op, in, out);
    case OP_mask_partial:
      if ((in->axes | relation_uses(p->m, in, -1)) & axes)
        return prove_fail(p, "the value is not replicated over the axes");
      if (in->axes && in->partial != RED_ONE && in->partial != op_attr(op, AT_op)->u.reduction)
        return prove_fail(p, "two kinds of partial results");
      if (in->axes && in->partial == RED_ONE && op_attr(op, AT_op)->u.reduction != RED_SUM)
        return prove_fail(p, "two kinds of partial results");
      out->axes |= axes;
      out->partial = op_attr(op, AT_op)->u.reduction;
      return true;
    case OP_shard_slice: {
      const Span *s = &in->dims[dim];
      const Expr *start = op_expr(op, AT_start), *extent = type_of(f, op->out)->dims[dim];
      if (!slices_operand(p, start, ex_add(p->m, start, extent), type_of(f, op->in[0])->dims[dim]))
        return prove_fail(p, "the slice leaves its operand");
      if (s->free) return out->dims[dim] = (Span){NULL, extent, true}, true;
      const Expr *lo = ex_add(p->m, s->lo, start);
      out->dims[dim] = span_at(lo, ex_add(p->m, lo, extent));
      return !(span_axes(p->m, &out->dims[dim]) & in->axes) ||
             prove_fail(p, "an axis both cuts the value and makes it partial");
    }
    default: return p->uncertain = true, prove_fail(p, "the prover does not know this operation");
  }
}
