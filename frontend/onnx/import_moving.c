/* frontend/onnx/import_moving.c - slices whose bounds move with the round of a loop: x[t : t + 1], x[8 * t : 8 * t +
 * 8].
 *
 * Both bounds are traced back to a multiple of one round number plus sizes; their difference is the extent.  Slices
 * beyond the operand would have an extent that depends on data, so both bounds must lie inside in every possible
 * round.
 */
#include <math.h>

#include "frontend/onnx/import_private.h"

/* scale * (round of loop) + offset. */
typedef struct Place {
  const Op *loop; /* NULL if no round occurs */
  int64_t scale;
  const Expr *offset; /* NULL if it has another form */
} Place;

enum { MAX_STEPS = 1000 }; /* operations to visit for one bound; shared ones count once per use */

static Place place_of(ImportNode *n, Val v, int64_t i, int *steps);

/* Multiplies p by a constant. */
static Place times_constant(ImportNode *n, Place p, int64_t c) {
  int64_t scale;
  if (__builtin_mul_overflow(p.scale, c, &scale)) return (Place){0};
  return (Place){p.loop, scale, ex_muli(n->m, p.offset, c)};
}

static Place sum(ImportNode *n, Place p, Place q, int64_t sign) {
  if (p.loop && q.loop) return (Place){0};
  q = times_constant(n, q, sign);
  if (!q.offset) return q;
  return (Place){q.loop ? q.loop : p.loop, q.loop ? q.scale : p.scale, ex_add(n->m, p.offset, q.offset)};
}

static Place times(ImportNode *n, Place p, Place q) {
  int64_t c;
  if (!p.loop && ex_get_const(p.offset, &c)) return times_constant(n, q, c);
  if (!q.loop && ex_get_const(q.offset, &c)) return times_constant(n, p, c);
  return (Place){0};
}

static Place of_both(ImportNode *n, const Op *op, int64_t i, int *steps) {
  Place p = place_of(n, op->in[0], i, steps);
  if (!p.offset) return p;
  Place q = place_of(n, op->in[1], i, steps);
  if (!q.offset) return q;
  return op->kind == OP_mul ? times(n, p, q) : sum(n, p, q, op->kind == OP_sub ? -1 : 1);
}

static Place in_concat(ImportNode *n, const Op *op, int64_t i, int *steps) {
  for (int k = 0; k < op->nin; k++) {
    int64_t count;
    const Type *t = type_of(n->b->f, op->in[k]);
    if (t->rank != 1 || !ex_get_const(t->dims[0], &count)) return (Place){0};
    if (i < count) return place_of(n, op->in[k], i, steps);
    i -= count;
  }
  return (Place){0};
}

static Place constant_place(ImportNode *n, const Op *op, int64_t i) {
  const Attr *ints = op_attr(op, AT_ints), *value = op_attr(op, AT_value);
  if (ints) return (Place){NULL, 0, ex_const(n->m, ints->u.ints[i])};
  return value && fabs(value->u.f) < 0x1p53 ? (Place){NULL, 0, ex_const(n->m, (int64_t)value->u.f)} : (Place){0};
}

/* Traces element `i` of an integer value. */
static Place place_of(ImportNode *n, Val v, int64_t i, int *steps) {
  const Func *f = n->b->f;
  const Op *op = op_of(f, v);
  int64_t elements;
  if ((*steps)++ > MAX_STEPS || !ex_get_const(type_elements(n->m, type_of(f, v)), &elements)) return (Place){0};
  switch (op->kind) {
    case OP_loop: return (Place){op, 1, ex_const(n->m, 0)};
    case OP_size: return (Place){NULL, 0, op_expr(op, AT_expr)};
    case OP_const: return constant_place(n, op, i);
    case OP_concat: return in_concat(n, op, i, steps);
    case OP_add:
    case OP_sub:
    case OP_mul: return of_both(n, op, i, steps);
    case OP_cast:
      return dtype_class(type_of(f, op->in[0])->dtype) == DTC_I ? place_of(n, op->in[0], i, steps) : (Place){0};
    case OP_copy:
    case OP_reshape: return place_of(n, op->in[0], i, steps);
    case OP_broadcast:
      return ex_get_const(type_elements(n->m, type_of(f, op->in[0])), &elements) && elements == 1
                 ? place_of(n, op->in[0], 0, steps)
                 : (Place){0};
    default: return (Place){0};
  }
}

static Place input_place(ImportNode *n, size_t in, int64_t i) {
  ImportKnown k = input_known(n, in);
  if (k.items) return (Place){NULL, 0, i < k.n ? k.items[i] : NULL};
  Val v = input(n, in);
  int steps = 0;
  return v ? place_of(n, v, i, &steps) : (Place){0};
}

bool import_slice_moves(ImportNode *n, int i, int axis, Val *x) {
  Module *m = n->m;
  Place start = input_place(n, 1, i), end = input_place(n, 2, i);
  const Expr *trips = start.loop ? op_expr(start.loop, AT_trips) : NULL;
  if (!start.offset || !end.offset || !trips || start.loop != end.loop || start.scale != end.scale || start.scale < 0) {
    diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc, "Slice: the bounds of axis %d are computed from data", axis);
    say_origin(n, input_known(n, 2).items ? 1 : 2);
    return false;
  }
  const Type *t = type_of(n->b->f, *x);
  const Expr *extent = ex_sub(m, end.offset, start.offset), *zero = ex_const(m, 0);
  const Expr *highest = ex_add(m, end.offset, ex_muli(m, ex_addi(m, trips, -1), start.scale));
  if (!known_ge(m, extent, zero) || !known_ge(m, start.offset, zero) || !known_ge(m, t->dims[axis], highest))
    return diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc,
                      "Slice: cannot tell whether the slice exceeds axis %d of %s in some round of the loop", axis,
                      import_type_string(m, t));
  Val first = start.loop->out;
  if (start.scale != 1) first = binary_number(n, OP_mul, first, (double)start.scale);
  if (start.offset != zero) first = binary(n, OP_add, first, import_scalar_i64(n, start.offset));
  Val at = ex_is_const(extent, 1) ? build_reshape(n->b, first, 1, &extent)
                                  : binary(n, OP_add, iota_i64(n, 1, &extent, 0), first);
  return (*x = build_gather(n->b, *x, at, axis)) != 0;
}
