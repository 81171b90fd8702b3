/* passes/rewrite/positions.c - see positions.h.
 *
 * In a concatenation, a part of extent 1 may continue the sequence of the other part: -1 before 0, 1, 2 ... is one
 * sequence.  A running sum is only followed over values that are equal everywhere.
 *
 * Not supported: products of indices, divisions, conditions that hold if one of several does.
 */
#include "passes/rewrite/positions.h"

#include <string.h>

#include "ir/index_bound.h"
#include "passes/rewrite/recognise.h"

enum { MOST_STEPS = 4000, MOST_DEPTH = 100 };

Positions positions_new(Module *m, const Func *f) { return (Positions){.m = m, .f = f, .steps = MOST_STEPS}; }

static bool is_whole(const Type *t) { return t->dtype == DT_i64 || t->dtype == DT_i32; }

/* ---- sums of indices */

static IndexSum number(const Positions *p, int64_t v) { return (IndexSum){.base = ex_const(p->m, v)}; }

IndexSum position_index(Positions *p, const Expr *extent) {
  IndexSum x = number(p, 0);
  if (ex_is_const(extent, 1)) return x;
  if (p->n == MAX_INDICES) p->steps = 0;
  else x.factor[p->n] = ex_const(p->m, 1), p->extent[p->n++] = extent;
  return x;
}

static const Expr *factor(const Positions *p, const IndexSum *x, int i) {
  return x->factor[i] ? x->factor[i] : ex_const(p->m, 0);
}

IndexSum position_sum(const Positions *p, const IndexSum *x, const IndexSum *y, const Expr *by) {
  IndexSum z = {.base = ex_add(p->m, x->base, ex_mul(p->m, y->base, by))};
  for (int i = 0; i < p->n; i++) {
    const Expr *e = ex_add(p->m, factor(p, x, i), ex_mul(p->m, factor(p, y, i), by));
    z.factor[i] = ex_is_const(e, 0) ? NULL : e;
  }
  return z;
}

static IndexSum shifted(const Positions *p, IndexSum x, const Expr *by) {
  x.base = ex_add(p->m, x.base, by);
  return x;
}

static IndexSum scaled(const Positions *p, const IndexSum *x, const Expr *by) {
  IndexSum zero = number(p, 0);
  return position_sum(p, &zero, x, by);
}

/* x - y */
static IndexSum difference(const Positions *p, const IndexSum *x, const IndexSum *y) {
  return position_sum(p, x, y, ex_const(p->m, -1));
}

bool position_is_size(const Positions *p, const IndexSum *x) {
  for (int i = 0; i < p->n; i++)
    if (x->factor[i]) return false;
  return true;
}

static bool same(const IndexSum *x, const IndexSum *y) {
  return memcmp(x->factor, y->factor, sizeof x->factor) == 0 && x->base == y->base;
}

/* True if x >= 0 at all indices, for all sizes. */
static bool always(const Positions *p, const IndexSum *x) {
  const Expr *least = x->base;
  for (int i = 0; i < p->n; i++) {
    if (!x->factor[i] || size_never_below(p->m, x->factor[i], 0)) continue;
    if (!size_never_below(p->m, ex_muli(p->m, x->factor[i], -1), 0)) return false;
    least = ex_add(p->m, least, ex_mul(p->m, x->factor[i], ex_addi(p->m, p->extent[i], -1)));
  }
  return size_never_below(p->m, least, 0);
}

/* -x - 1, which is >= 0 if x is not */
static IndexSum contrary(const Positions *p, const IndexSum *x) {
  IndexSum y = number(p, -1);
  return difference(p, &y, x);
}

/* True if always 0 <= x < extent. */
static bool inside(const Positions *p, const IndexSum *x, const Expr *extent) {
  IndexSum end = {.base = ex_addi(p->m, extent, -1)}, left = difference(p, &end, x);
  return always(p, x) && always(p, &left);
}

/* ---- operations that only move elements */

/* Finds quotient and remainder by an extent, if the terms that it does not divide are always below it. */
static bool divide(const Positions *p, IndexSum *x, const Expr *extent, IndexSum *remainder) {
  IndexSum q = number(p, 0), r = *x;
  const Expr *e = ex_exact_div(p->m, x->base, extent);
  if (e) q.base = e, r.base = ex_const(p->m, 0);
  for (int i = 0; i < p->n; i++)
    if (x->factor[i] && (e = ex_exact_div(p->m, x->factor[i], extent)) != NULL) q.factor[i] = e, r.factor[i] = NULL;
  *x = q, *remainder = r;
  return inside(p, &r, extent);
}

static bool through_reshape(const Positions *p, const Op *op, const IndexSum *at, IndexSum *in) {
  const Type *to = type_of(p->f, op->out), *from = type_of(p->f, op->in[0]);
  IndexSum place = number(p, 0);
  for (int d = 0; d < to->rank; d++) {
    if (ex_is_const(to->dims[d], 1)) continue;
    place = position_sum(p, &at[d], &place, to->dims[d]);
  }
  int first = 0; /* the first dimension other than 1: nothing is left to divide there */
  while (first < from->rank && ex_is_const(from->dims[first], 1)) in[first++] = number(p, 0);
  for (int d = from->rank - 1; d > first; d--) {
    in[d] = number(p, 0);
    if (!ex_is_const(from->dims[d], 1) && !divide(p, &place, from->dims[d], &in[d])) return false;
  }
  if (first < from->rank) in[first] = place;
  return true;
}

static void through_slice(const Positions *p, const Op *op, const IndexSum *at, IndexSum *in) {
  const Attr *starts = op_attr(op, AT_starts), *strides = op_attr(op, AT_strides);
  for (int d = 0; d < starts->n; d++)
    in[d] = shifted(p, scaled(p, &at[d], ex_const(p->m, strides->u.ints[d])), starts->u.exprs[d]);
}

/* Returns the part of a concatenation that contains the element, and where it begins; -1 if it may be in several. */
static int part_of(const Positions *p, const Op *op, const IndexSum *x, const Expr **start) {
  int axis = (int)op_int(op, AT_axis, 0);
  *start = ex_const(p->m, 0);
  for (int k = 0; k < op->nin; k++) {
    const Expr *extent = type_of(p->f, op->in[k])->dims[axis];
    IndexSum there = shifted(p, *x, ex_muli(p->m, *start, -1));
    if (inside(p, &there, extent)) return k;
    *start = ex_add(p->m, *start, extent);
  }
  return -1;
}

/* Follows a look-up at a known position.  gather: the indices' dimensions replace the table's. */
static bool through_table(Positions *p, const Op *op, const IndexSum *at, IndexSum *in) {
  const Type *table = type_of(p->f, op->in[0]), *indices = type_of(p->f, op->in[1]);
  int axis = (int)op_int(op, AT_axis, 0), more = op->kind == OP_gather ? indices->rank - 1 : 0;
  IndexSum x;
  if (!ex_is_const(op_expr(op, AT_start), 0) ||
      !position_of(p, op->in[1], op->kind == OP_gather ? at + axis : at, &x) || !inside(p, &x, table->dims[axis]))
    return false;
  for (int d = 0; d < table->rank; d++) in[d] = d == axis ? x : at[d < axis ? d : d + more];
  return true;
}

/* Begins another operation; false if there were too many, or too deeply nested ones. */
static bool enter(Positions *p) {
  if (p->steps > 0 && p->depth < MOST_DEPTH) return p->steps--, p->depth++, true;
  p->steps = 0;
  return false;
}

static bool leave(Positions *p, bool found) {
  p->depth--;
  return found && p->steps > 0;
}

/* Returns the value and indices from which the element is moved; 0 if it is computed. */
static Val moved_from(Positions *p, const Op *op, const IndexSum *at, IndexSum *in) {
  const Expr *start;
  int k;
  if (!op->nin) return 0;
  const Type *from = type_of(p->f, op->in[0]);
  switch (op->kind) {
    case OP_copy:
    case OP_within: memcpy(in, at, sizeof *in * (size_t)from->rank); return op->in[0];
    case OP_reshape: return through_reshape(p, op, at, in) ? op->in[0] : 0;
    case OP_transpose:
      for (int d = 0; d < from->rank; d++) in[op_attr(op, AT_perm)->u.ints[d]] = at[d];
      return op->in[0];
    case OP_broadcast:
      for (int d = 0; d < from->rank; d++)
        in[d] = ex_is_const(from->dims[d], 1) ? number(p, 0) : at[op_attr(op, AT_dims)->u.ints[d]];
      return op->in[0];
    case OP_slice: through_slice(p, op, at, in); return op->in[0];
    case OP_concat:
      k = part_of(p, op, &at[op_int(op, AT_axis, 0)], &start);
      if (k < 0) return 0;
      memcpy(in, at, sizeof *in * (size_t)from->rank);
      in[op_int(op, AT_axis, 0)] = shifted(p, at[op_int(op, AT_axis, 0)], ex_muli(p->m, start, -1));
      return op->in[k];
    case OP_gather:
    case OP_take: return through_table(p, op, at, in) ? op->in[0] : 0;
    default: return 0;
  }
}

Val position_moved(Positions *p, Val v, const IndexSum *at, IndexSum *in) {
  Val from = enter(p) ? moved_from(p, op_of(p->f, v), at, in) : 0;
  return from && leave(p, true) ? from : 0;
}

/* ---- integers */

/* Returns the only index in x, apart from what is added to it; -1 if x is not of that form. */
static int only_index(const Positions *p, const IndexSum *x) {
  int found = -1;
  for (int i = 0; i < p->n; i++) {
    if (!x->factor[i]) continue;
    if (found >= 0 || !ex_is_const(x->factor[i], 1)) return -1;
    found = i;
  }
  return found;
}

/* Handles one part of many elements, and parts of extent 1 that continue its sequence. */
static bool position_of_join(Positions *p, const Op *op, const IndexSum *at, IndexSum *out) {
  int axis = (int)op_int(op, AT_axis, 0), rank = type_of(p->f, op->out)->rank, i = only_index(p, &at[axis]), whole = -1;
  const Expr *start = ex_const(p->m, 0);
  IndexSum in[MAX_RANK], other;
  if (i < 0) return false;
  memcpy(in, at, sizeof *in * (size_t)rank);
  for (int k = 0; k < op->nin; k++) {
    const Expr *extent = type_of(p->f, op->in[k])->dims[axis];
    if (!ex_is_const(extent, 1)) {
      if (whole >= 0) return false;
      whole = k, in[axis] = shifted(p, at[axis], ex_muli(p->m, start, -1));
      if (!position_of(p, op->in[k], in, out)) return false;
    }
    start = ex_add(p->m, start, extent);
  }
  if (whole < 0) return false;
  start = ex_const(p->m, 0), in[axis] = number(p, 0);
  for (int k = 0; k < op->nin; k++) {
    const Expr *extent = type_of(p->f, op->in[k])->dims[axis];
    IndexSum there = shifted(p, *out, ex_mul(p->m, factor(p, out, i), ex_sub(p->m, start, at[axis].base)));
    there.factor[i] = NULL;
    if (k != whole && (!position_of(p, op->in[k], in, &other) || !same(&there, &other))) return false;
    start = ex_add(p->m, start, extent);
  }
  return true;
}

/* Handles running sums over values that are equal everywhere. */
static bool position_of_scan(Positions *p, const Op *op, const IndexSum *at, IndexSum *out) {
  const Type *t = type_of(p->f, op->in[0]);
  int axis = (int)op_int(op, AT_axis, 0), n = p->n;
  IndexSum in[MAX_RANK], each, count = at[axis];
  if (op_attr(op, AT_op)->u.reduction != RED_SUM) return false;
  for (int d = 0; d < t->rank; d++) in[d] = position_index(p, t->dims[d]);
  bool found = position_of(p, op->in[0], in, &each) && position_is_size(p, &each);
  p->n = n;
  if (!found) return false;
  if (op_int(op, AT_reverse, 0)) {
    IndexSum end = {.base = ex_addi(p->m, t->dims[axis], -1)};
    count = difference(p, &end, &count);
  }
  if (!op_int(op, AT_exclusive, 0)) count = shifted(p, count, ex_const(p->m, 1));
  *out = scaled(p, &count, each.base);
  return true;
}

static bool position_of_arithmetic(Positions *p, const Op *op, const IndexSum *at, IndexSum *out) {
  IndexSum x, y;
  if (!position_of(p, op->in[0], at, &x)) return false;
  if (op->kind == OP_neg) {
    *out = scaled(p, &x, ex_const(p->m, -1));
    return true;
  }
  if (!position_of(p, op->in[1], at, &y)) return false;
  if (op->kind == OP_add) *out = position_sum(p, &x, &y, ex_const(p->m, 1));
  else if (op->kind == OP_sub) *out = difference(p, &x, &y);
  else if (position_is_size(p, &y)) *out = scaled(p, &x, y.base);
  else if (position_is_size(p, &x)) *out = scaled(p, &y, x.base);
  else return false;
  return true;
}

/* Handles choices with the same outcome everywhere. */
static bool position_of_choice(Positions *p, const Op *op, const IndexSum *at, IndexSum *out) {
  Conditions c;
  if (op->kind == OP_select)
    return conditions_of(p, op->in[0], at, &c) && (c.never || !c.n) && position_of(p, op->in[c.never ? 2 : 1], at, out);
  IndexSum x, y;
  if (!position_of(p, op->in[0], at, &x) || !position_of(p, op->in[1], at, &y)) return false;
  IndexSum more = difference(p, &x, &y), less = difference(p, &y, &x);
  bool first = always(p, op->kind == OP_max ? &more : &less), second = always(p, op->kind == OP_max ? &less : &more);
  *out = first ? x : y;
  return first || second;
}

static bool position_of_cast(Positions *p, const Op *op, const IndexSum *at, IndexSum *out) {
  Choice c;
  if (is_whole(type_of(p->f, op->in[0]))) return position_of(p, op->in[0], at, out);
  if (!choice_of(p, op->out, at, &c) || (c.when.n && !c.when.never)) return false;
  *out = number(p, (int64_t)(c.when.never ? c.otherwise : c.then));
  return true;
}

static bool find_position(Positions *p, Val v, const IndexSum *at, IndexSum *out) {
  const Op *op = op_of(p->f, v);
  IndexSum in[MAX_RANK];
  if (!is_whole(type_of(p->f, v))) return false;
  Val from = moved_from(p, op, at, in);
  if (from) return position_of(p, from, in, out);
  switch (op->kind) {
    case OP_const: *out = number(p, (int64_t)op_float(op, AT_value, 0)); return op_attr(op, AT_value) != NULL;
    case OP_size: *out = (IndexSum){.base = op_expr(op, AT_expr)}; return true;
    case OP_iota: *out = shifted(p, at[op_int(op, AT_axis, 0)], op_expr(op, AT_start)); return true;
    case OP_neg:
    case OP_add:
    case OP_sub:
    case OP_mul: return position_of_arithmetic(p, op, at, out);
    case OP_select:
    case OP_max:
    case OP_min: return position_of_choice(p, op, at, out);
    case OP_cast: return position_of_cast(p, op, at, out);
    case OP_concat: return position_of_join(p, op, at, out);
    case OP_scan: return position_of_scan(p, op, at, out);
    default: return false;
  }
}

bool position_of(Positions *p, Val v, const IndexSum *at, IndexSum *out) {
  return enter(p) && leave(p, find_position(p, v, at, out));
}

/* ---- conditions */

static bool add_condition(const Positions *p, Conditions *c, const IndexSum *least) {
  IndexSum other = contrary(p, least);
  if (c->never || always(p, least)) return true;
  if (always(p, &other)) {
    *c = (Conditions){.never = true};
    return true;
  }
  for (int i = 0; i < c->n; i++)
    if (same(&c->least[i], least)) return true;
  if (c->n == MAX_CONDITIONS) return false;
  c->least[c->n++] = *least;
  return true;
}

bool conditions_negate(const Positions *p, Conditions *c) {
  Conditions d = {.never = !c->never && !c->n};
  if (!c->never && c->n > 1) return false;
  if (!c->never && c->n) d.n = 1, d.least[0] = contrary(p, &c->least[0]);
  *c = d;
  return true;
}

/* Handles comparisons of a choice with one of its numbers. */
static bool conditions_of_choice(Positions *p, const Op *op, const IndexSum *at, Conditions *out) {
  Choice c;
  double x;
  if (!choice_of(p, op->in[0], at, &c) || !recognise_number(p->f, op->in[1], &x)) return false;
  if (c.then == c.otherwise || (x != c.then && x != c.otherwise)) return false;
  *out = c.when;
  return (x == c.then) == (op->kind == OP_eq) || conditions_negate(p, out);
}

static bool conditions_of_comparison(Positions *p, const Op *op, const IndexSum *at, Conditions *out) {
  IndexSum x, y;
  bool equality = op->kind == OP_eq || op->kind == OP_ne;
  if (!position_of(p, op->in[0], at, &x) || !position_of(p, op->in[1], at, &y))
    return equality && conditions_of_choice(p, op, at, out);
  IndexSum more = difference(p, &x, &y), less = difference(p, &y, &x);
  *out = (Conditions){0};
  switch (op->kind) {
    case OP_ge: return add_condition(p, out, &more);
    case OP_le: return add_condition(p, out, &less);
    case OP_gt: more = contrary(p, &less); return add_condition(p, out, &more);
    case OP_lt: less = contrary(p, &more); return add_condition(p, out, &less);
    default:
      return add_condition(p, out, &more) && add_condition(p, out, &less) &&
             (op->kind == OP_eq || conditions_negate(p, out));
  }
}

static bool conditions_of_both(Positions *p, const Op *op, const IndexSum *at, Conditions *out) {
  Conditions x, y;
  bool known = conditions_of(p, op->in[0], at, &x), other = conditions_of(p, op->in[1], at, &y);
  bool all = op->kind == OP_and;
  /* One of the two may decide the result alone. */
  for (int i = 0; i < 2; i++) {
    const Conditions *c = i ? &y : &x;
    if (!(i ? other : known) || !(all ? c->never : !c->never && !c->n)) continue;
    *out = *c;
    return true;
  }
  if (!known || !other) return false;
  if (!all) {
    *out = x.never ? y : x;
    return x.never || y.never;
  }
  *out = x;
  for (int i = 0; i < y.n; i++)
    if (!add_condition(p, out, &y.least[i])) return false;
  return true;
}

/* True where the number is not 0. */
static bool conditions_of_cast(Positions *p, const Op *op, const IndexSum *at, Conditions *out) {
  Choice c;
  if (!choice_of(p, op->in[0], at, &c)) return false;
  *out = (Conditions){.never = c.then == 0};
  if ((c.then != 0) == (c.otherwise != 0)) return true;
  *out = c.when;
  return c.then != 0 || conditions_negate(p, out);
}

static bool find_conditions(Positions *p, Val v, const IndexSum *at, Conditions *out) {
  const Op *op = op_of(p->f, v);
  IndexSum in[MAX_RANK];
  if (type_of(p->f, v)->dtype != DT_bool) return false;
  Val from = moved_from(p, op, at, in);
  if (from) return conditions_of(p, from, in, out);
  switch (op->kind) {
    case OP_const: *out = (Conditions){.never = op_float(op, AT_value, 0) == 0}; return op_attr(op, AT_value) != NULL;
    case OP_not: return conditions_of(p, op->in[0], at, out) && conditions_negate(p, out);
    case OP_and:
    case OP_or: return conditions_of_both(p, op, at, out);
    case OP_cast: return conditions_of_cast(p, op, at, out);
    case OP_eq:
    case OP_ne:
    case OP_lt:
    case OP_le:
    case OP_gt:
    case OP_ge: return conditions_of_comparison(p, op, at, out);
    default: return false;
  }
}

bool conditions_of(Positions *p, Val v, const IndexSum *at, Conditions *out) {
  return enter(p) && leave(p, find_conditions(p, v, at, out));
}

static bool find_choice(Positions *p, Val v, const IndexSum *at, Choice *out) {
  const Op *op = op_of(p->f, v);
  IndexSum in[MAX_RANK];
  *out = (Choice){0};
  if (recognise_number(p->f, v, &out->then)) {
    out->otherwise = out->then;
    return true;
  }
  Val from = moved_from(p, op, at, in);
  if (from) return choice_of(p, from, in, out);
  if (op->kind == OP_cast && type_of(p->f, op->in[0])->dtype == DT_bool) {
    out->then = 1, out->otherwise = 0;
    return conditions_of(p, op->in[0], at, &out->when);
  }
  return op->kind == OP_select && recognise_number(p->f, op->in[1], &out->then) &&
         recognise_number(p->f, op->in[2], &out->otherwise) && conditions_of(p, op->in[0], at, &out->when);
}

bool choice_of(Positions *p, Val v, const IndexSum *at, Choice *out) {
  return enter(p) && leave(p, find_choice(p, v, at, out));
}
