/* codegen/rows/work_comm.c - adds the operations that perform a collective (ir/legal_comm.h): the collective itself,
 * with transposes that make its parts contiguous, or a kernel that reduces gathered operands, as temporaries of the
 * stage.
 */
#include <string.h>

#include "base/die.h"
#include "codegen/rows/row_work.h"
#include "ir/legal_comm.h"

typedef struct Comm {
  Work *w;
  const Op *op;
  int origin;
} Comm;

/* A permutation of the dimensions of a tensor. */
typedef struct Order {
  int n;
  int64_t perm[MAX_RANK]; /* new -> old */
} Order;

static Val step(const Comm *c, OpKind kind, Val x, const Type *type, int nattrs, const Attr *attrs, WorkClass class,
                Val out) {
  Op op = {.kind = kind, .nin = 1, .in = &x, .out = out, .nattrs = nattrs, .attrs = attrs};
  return work_step(c->w, c->op, c->origin, &op, type, class);
}

static const Type *of_dims(const Comm *c, const Type *t, int n, const Expr *const *dims) {
  return type_get(c->w->m, t->dtype, n, dims);
}

static Val permute(const Comm *c, Val x, const Order *o, Val out) {
  const Type *t = work_type(c->w, x);
  const Expr *dims[MAX_RANK];
  for (int i = 0; i < o->n; i++) dims[i] = t->dims[o->perm[i]];
  Attr a = attr_ints(c->w->m, AT_perm, o->n, o->perm);
  return step(c, OP_transpose, x, of_dims(c, t, o->n, dims), 1, &a, WC_MAP, out);
}

static Order inverse(const Order *o) {
  Order r = {.n = o->n};
  for (int i = 0; i < o->n; i++) r.perm[o->perm[i]] = i;
  return r;
}

/* Returns the order with dimension a first, then b unless it is a; the others keep their order. */
static Order to_front(int rank, int a, int b) {
  Order o = {0};
  o.perm[o.n++] = a;
  if (b != a) o.perm[o.n++] = b;
  for (int d = 0; d < rank; d++)
    if (d != a && d != b) o.perm[o.n++] = d;
  return o;
}

/* Reshapes a value with its elements in order; extents of 1 do not matter in memory. */
static Val reshape(const Comm *c, Val x, int n, const Expr *const *dims, Val out) {
  const Type *t = of_dims(c, work_type(c->w, x), n, dims), *from = work_type(c->w, x);
  const Expr *a[MAX_RANK], *b[MAX_RANK];
  if (t == from && !out) return x;
  int na = dense_dims(from, a, NULL), nb = dense_dims(t, b, NULL);
  bool same = na == nb && memcmp(a, b, sizeof *a * (size_t)na) == 0;
  return step(c, OP_reshape, x, t, 0, NULL, same ? WC_MAP : WC_VIEW, out);
}

/* Adds the collective itself, along other dimensions than the operation's. */
static Val collective(const Comm *c, OpKind kind, Val x, const Type *type, int nalong, const Attr *along, Val out) {
  Attr list[AT_COUNT];
  int n = 0;
  for (int i = 0; i < nalong; i++) list[n++] = along[i];
  for (int i = 0; i < c->op->nattrs; i++) {
    AttrKey key = c->op->attrs[i].key;
    if (key != AT_axis && key != AT_split && key != AT_concat) list[n++] = c->op->attrs[i];
  }
  return step(c, kind, x, type, n, list, WC_COMM, out);
}

static bool comes_first(const Type *t, int dim) {
  for (int d = 0; d < dim; d++)
    if (!ex_is_const(t->dims[d], 1)) return false;
  return true;
}

/* Adds an all_gather, reduce_scatter or exchange along a dimension that is moved to the front. */
static Val along_front(const Comm *c, OpKind kind, Val x, const Type *result, int dim, Val out) {
  Order front = to_front(result->rank, dim, dim), back = inverse(&front);
  const Expr *dims[MAX_RANK];
  Attr axis = attr_i(AT_axis, 0);
  for (int i = 0; i < front.n; i++) dims[i] = result->dims[front.perm[i]];
  Val t = permute(c, x, &front, 0);
  t = collective(c, kind, t, of_dims(c, result, front.n, dims), 1, &axis, 0);
  return permute(c, t, &back, out);
}

static Val gather(const Comm *c, Val x, const Type *result, int dim, Val out) {
  Attr axis = attr_i(AT_axis, dim);
  if (!comes_first(result, dim)) return along_front(c, OP_all_gather, x, result, dim, out);
  return collective(c, OP_all_gather, x, result, 1, &axis, out);
}

/* ---- all_to_all */

static int members(const Comm *c) { return c->w->m->mesh.axes[op_int(c->op, AT_mesh_axis, 0)].size; }

static bool equal_parts(const Comm *c, const Expr *whole, const Expr *part) {
  return ex_muli(c->w->m, part, members(c)) == whole;
}

/* [.., n * s, .., e, ..] -> [.., n, s, .., e, ..] -> [n, e, .., s, ..] => [1, E, .., s, ..] -> [E, .., s, ..] -> */
static void split_evenly(const Comm *c, int cut, int joined) {
  Module *m = c->w->m;
  const Type *x = work_type(c->w, c->op->in[0]), *y = work_type(c->w, c->op->out);
  const Expr *dims[MAX_RANK];
  int n = 0;
  for (int d = 0; d < x->rank; d++) {
    if (d == cut) dims[n++] = ex_const(m, members(c));
    dims[n++] = d == cut ? y->dims[d] : x->dims[d];
  }
  Val t = reshape(c, c->op->in[0], n, dims, 0);
  Order parts = to_front(n, cut, joined + (joined > cut));
  t = permute(c, t, &parts, 0);
  const Type *sent = work_type(c->w, t);
  memcpy(dims, sent->dims, sizeof *dims * (size_t)n);
  dims[0] = ex_const(m, 1), dims[1] = y->dims[joined];
  Attr along[] = {attr_i(AT_split, 0), attr_i(AT_concat, 1)};
  t = collective(c, OP_all_to_all, t, of_dims(c, y, n, dims), 2, along, 0);
  t = reshape(c, t, n - 1, dims + 1, 0);
  Order front = to_front(y->rank, joined, joined), back = inverse(&front);
  permute(c, t, &back, c->op->out);
}

/* [.., S, .., e, ..] -> [S, e, ..] -> [1, S, e, ..] => [n, s, e, ..] -> [.., s, .., n, e, ..] -> [.., s, .., n * e, ..]
 */
static void join_evenly(const Comm *c, int cut, int joined) {
  Module *m = c->w->m;
  const Type *x = work_type(c->w, c->op->in[0]), *y = work_type(c->w, c->op->out);
  const Expr *dims[MAX_RANK];
  Order front = to_front(x->rank, cut, joined), back = {0};
  int n = x->rank + 1;
  Val t = permute(c, c->op->in[0], &front, 0);
  dims[0] = ex_const(m, 1);
  memcpy(dims + 1, work_type(c->w, t)->dims, sizeof *dims * (size_t)x->rank);
  t = reshape(c, t, n, dims, 0);
  dims[0] = ex_const(m, members(c)), dims[1] = y->dims[cut];
  Attr along[] = {attr_i(AT_split, 1), attr_i(AT_concat, 0)};
  t = collective(c, OP_all_to_all, t, of_dims(c, y, n, dims), 2, along, 0);
  Order place = inverse(&front);
  for (int d = 0; d < x->rank; d++) {
    if (d == joined) back.perm[back.n++] = 0;
    back.perm[back.n++] = place.perm[d] + 1;
  }
  t = permute(c, t, &back, 0);
  reshape(c, t, y->rank, y->dims, c->op->out);
}

/* Returns the start of this member's part: the sum of the parts before it. */
static const Expr *parts_before(const Comm *c, const Expr *part) {
  Module *m = c->w->m;
  int axis = (int)op_int(c->op, AT_mesh_axis, 0), n = members(c);
  const Expr *place = mesh_coordinate(m, axis), *sum = ex_const(m, 0), *one = ex_const(m, 1);
  for (int i = 0; i + 1 < n; i++) {
    const Expr *before = ex_min(m, one, ex_max(m, ex_const(m, 0), ex_addi(m, place, -i)));
    sum = ex_add(m, sum, ex_mul(m, before, ex_subst(m, part, m->mesh.axes[axis].symbol, ex_const(m, i))));
  }
  return sum;
}

/* Slices out this member's part of a dimension. */
static void slice_part(const Comm *c, Val x, int dim) {
  const Type *y = work_type(c->w, c->op->out);
  Attr slice[] = {attr_i(AT_axis, dim), attr_e(AT_start, parts_before(c, y->dims[dim]))};
  step(c, OP_shard_slice, x, y, 2, slice, WC_MAP, c->op->out);
}

/* Gathers the joined dimension whole, then slices out this member's part of the split one. */
static void gathered(const Comm *c, int cut, int joined) {
  const Type *x = work_type(c->w, c->op->in[0]), *y = work_type(c->w, c->op->out);
  const Expr *dims[MAX_RANK];
  memcpy(dims, x->dims, sizeof *dims * (size_t)x->rank);
  dims[joined] = y->dims[joined];
  Val t = gather(c, c->op->in[0], of_dims(c, x, x->rank, dims), joined, 0);
  slice_part(c, t, cut);
}

static void all_to_all(const Comm *c) {
  int cut = (int)op_int(c->op, AT_split, 0), joined = (int)op_int(c->op, AT_concat, 0);
  const Type *x = work_type(c->w, c->op->in[0]), *y = work_type(c->w, c->op->out);
  AllToAllForm f = {.rank = x->rank,
                    .split_first = comes_first(x, cut),
                    .join_first = comes_first(y, joined),
                    .split_evenly = equal_parts(c, x->dims[cut], y->dims[cut]),
                    .join_evenly = equal_parts(c, y->dims[joined], x->dims[joined])};
  switch (legal_all_to_all(&f)) {
    case ALL_TO_ALL_AS_IT_IS: work_add(c->w, c->op, c->origin, WC_COMM); return;
    case ALL_TO_ALL_SPLIT_EVENLY: split_evenly(c, cut, joined); return;
    case ALL_TO_ALL_JOIN_EVENLY: join_evenly(c, cut, joined); return;
    case ALL_TO_ALL_GATHERED: gathered(c, cut, joined); return;
  }
}

/* ---- reductions that the engine lacks */

/* Returns the number of this member in a group along these axes; `all`: the size of the group. */
static const Expr *place_among(const Comm *c, int n, const int64_t *axes, int64_t *all) {
  Module *m = c->w->m;
  const Expr *place = ex_const(m, 0);
  *all = 1;
  for (int i = 0; i < n; i++) {
    int64_t size = m->mesh.axes[axes[i]].size;
    place = ex_add(m, ex_muli(m, place, size), mesh_coordinate(m, (int)axes[i])), *all *= size;
  }
  return place;
}

/* Concatenates the operands of all members, [1, elements] -> [n, elements]: gathered along one mesh axis, or exchanged
 * along several. */
static Val gather_members(const Comm *c, Val x) {
  Module *m = c->w->m;
  const Attr *list = op_attr(c->op, AT_mesh_axes);
  int64_t one = op_int(c->op, AT_mesh_axis, 0), n;
  const Expr *place = place_among(c, list ? list->n : 1, list ? list->u.ints : &one, &n);
  const Expr *dims[] = {ex_const(m, n), work_type(c->w, x)->dims[1]};
  const Type *all = of_dims(c, work_type(c->w, x), 2, dims);
  if (!list || list->n == 1) {
    Attr along[] = {attr_i(AT_mesh_axis, list ? list->u.ints[0] : one), attr_i(AT_axis, 0)};
    return step(c, OP_all_gather, x, all, 2, along, WC_COMM, 0);
  }
  const Expr *source[] = {place, ex_addi(m, place, 1)}, *target[] = {ex_const(m, 0), dims[0]};
  Attr between[] = {*list, attr_i(AT_axis, 0), attr_exprs(m, AT_source, 2, source),
                    attr_exprs(m, AT_target, 2, target)};
  return step(c, OP_exchange, x, all, 4, between, WC_COMM, 0);
}

/* Gathers all members' operands and reduces them with a kernel on each member. */
static void reduce_here(const Comm *c) {
  Module *m = c->w->m;
  const Type *x = work_type(c->w, c->op->in[0]);
  const Expr *flat[] = {ex_const(m, 1), type_product(m, x, 0, x->rank)};
  bool scatter = c->op->kind == OP_reduce_scatter;
  int64_t members_dim = 0;
  Val t = gather_members(c, reshape(c, c->op->in[0], 2, flat, 0));
  Attr how[] = {*op_attr(c->op, AT_op), attr_ints(m, AT_axes, 1, &members_dim)};
  t = step(c, OP_reduce, t, of_dims(c, x, 1, flat + 1), 2, how, WC_ROW, 0);
  t = reshape(c, t, x->rank, x->dims, scatter ? 0 : c->op->out);
  if (scatter) slice_part(c, t, (int)op_int(c->op, AT_axis, 0));
}

static bool reduces_itself(const Work *w, const Op *op) {
  const Attr *how = op_attr(op, AT_op);
  return !how || legal_reduces(how->u.reduction, work_type(w, op->in[0])->dtype);
}

static bool along_dimension(OpKind k) { return k == OP_all_gather || k == OP_reduce_scatter || k == OP_exchange; }

void work_add_comm(Work *w, const Op *op, int origin) {
  Comm c = {w, op, origin};
  int dim = (int)op_int(op, AT_axis, 0);
  if (!w->device->contiguous_collectives || op->nin == 0) work_add(w, op, origin, WC_COMM);
  else if (!reduces_itself(w, op)) reduce_here(&c);
  else if (op->kind == OP_all_to_all) all_to_all(&c);
  else if (along_dimension(op->kind) && !comes_first(work_type(w, op->out), dim))
    along_front(&c, op->kind, op->in[0], work_type(w, op->out), dim, op->out);
  else work_add(w, op, origin, WC_COMM);
}
