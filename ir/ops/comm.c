/* ir/ops/comm.c - operations of level 2: communication, and local operations on a rank's part of a value.
 *
 * Evaluation computes a rank's result from the operands of all members of its group.
 *
 * A group is the ranks of one stage that differ only in the named axes, ordered by their coordinates, the first axis
 * most major.  The extents of the members' parts are read from their values, never assumed to be even.
 */
#include <string.h>

#include "ir/ops/record.h"

/* ---- result types: written */

/* Moves keep type and rank. */
static const Type *check_moved(const Infer *c) {
  const Type *x = c->in[0], *y = c->spec->type;
  return x->dtype == y->dtype && x->rank == y->rank
             ? y
             : infer_fail(c, "the result is %s, the operand %s", infer_text(c, y), infer_text(c, x));
}

static const Type *infer_exchange(const Infer *c) {
  if (infer_attr(c, AT_source)->n != 2 || infer_attr(c, AT_target)->n != 2)
    return infer_fail(c, "source and target are intervals [lo, hi]");
  return infer_axis(c, AT_axis, c->in[0]->rank) < 0 ? NULL : check_moved(c);
}

static const Type *infer_along(const Infer *c) {
  return infer_axis(c, AT_axis, c->spec->type->rank) < 0 ? NULL : check_moved(c);
}

static const Type *infer_all_to_all(const Infer *c) {
  int rank = c->spec->type->rank;
  return infer_axis(c, AT_split, rank) < 0 || infer_axis(c, AT_concat, rank) < 0 ? NULL : check_moved(c);
}

/* ---- meaning */

typedef struct Group {
  int n, self;
  int ranks[MAX_INTERP_RANKS];
  const InterpTensor *in[MAX_INTERP_RANKS];
} Group;

static bool group_over(const Eval *e, int naxes, const int64_t *axes, Group *g) {
  if (!eval_same_kind(e)) return false;
  g->n = eval_group(e, naxes, axes, g->ranks, &g->self);
  for (int i = 0; i < g->n; i++)
    if (!(g->in[i] = eval_operand_on(e, g->ranks[i]))) return eval_fail(e, "a member of the group has no operand");
  return true;
}

static bool group_of(const Eval *e, Group *g) {
  const Attr *list = op_attr(e->op, AT_mesh_axes);
  int64_t one = op_int(e->op, AT_mesh_axis, 0);
  return list ? group_over(e, list->n, list->u.ints, g) : group_over(e, 1, &one, g);
}

static bool same_dims(const int64_t *a, const int64_t *b, int rank, int except) {
  for (int d = 0; d < rank; d++)
    if (d != except && a[d] != b[d]) return false;
  return true;
}

/* ---- reductions */

/* True if at most one member owns each element: no two have bits set in it. */
static bool check_owners(const Eval *e, const Group *g, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    int owners = 0;
    for (int k = 0; k < g->n; k++) owners += g->in[k]->cells[i].i != 0;
    if (owners > 1) return eval_fail(e, "%d members own element %lld", owners, (long long)i);
  }
  return true;
}

/* Reduces the box [at, at + size) of the members' operands in group order into `out`. */
static bool reduce_box(const Eval *e, Reduction r, const Group *g, const InterpTensor *out, const int64_t *at) {
  const InterpTensor *x = e->in[0];
  int64_t xs[MAX_RANK], ys[MAX_RANK], to[MAX_RANK] = {0}, first = 0;
  if (!reduction_defined(r, x->dtype))
    return eval_fail(e, "%s is not defined for %s", reduction_name(r), dtype_name(x->dtype));
  for (int i = 0; i < g->n; i++)
    if (!same_dims(g->in[i]->dims, x->dims, x->rank, -1))
      return eval_fail(e, "the operands of the members differ in shape");
  if (r == RED_ONE && !check_owners(e, g, interp_elements(x))) return false;
  eval_box_copy(x->rank, out->dims, out->cells, out->dims, to, g->in[0]->cells, x->dims, at);
  eval_row_major(x->rank, x->dims, xs);
  eval_row_major(x->rank, out->dims, ys);
  Nest nest = {0};
  for (int d = 0; d < x->rank; d++) {
    first += at[d] * xs[d];
    nest_add(&nest, out->dims[d], ys[d], xs[d], 0);
  }
  nest_close(&nest);
  for (int i = 1; i < g->n; i++)
    for (NestAt k = nest_begin(&nest); k.more; nest_next(&nest, &k))
      cells_reduce(e->run->modp, out->dtype, r, nest.inner, out->cells + k.offset[0], nest.step[0],
                   g->in[i]->cells + first + k.offset[1], nest.step[1]);
  return true;
}

static bool all_reduce(Eval *e, const Group *g) {
  int64_t at[MAX_RANK] = {0};
  return eval_same_shape(e, 0) && reduce_box(e, op_attr(e->op, AT_op)->u.reduction, g, e->out, at);
}

/* The sum over micro-batches. */
bool eval_accumulate(Eval *e) {
  const Mesh *mesh = &e->run->m->mesh;
  int64_t at[MAX_RANK] = {0}, axes[MAX_AXES];
  int n = 0;
  for (int a = 0; a < mesh->naxes && e->frame->f->level == 2; a++)
    if (mesh->axes[a].temporal) axes[n++] = a;
  Group g;
  if (!n) return eval_copy(e);
  return group_over(e, n, axes, &g) && eval_same_shape(e, 0) && reduce_box(e, RED_SUM, &g, e->out, at);
}

/* *before: start of this rank's part if the members' result extents lie one after the other along `axis`; false unless
 * they add up to `total`. */
static bool parts_before(const Eval *e, const Group *g, int axis, int64_t total, int64_t *before) {
  int64_t sum = 0, dims[MAX_RANK];
  for (int i = 0; i < g->n; i++) {
    if (!eval_result_dims_on(e, g->ranks[i], dims)) return false;
    if (i == g->self) *before = sum;
    sum += dims[axis];
  }
  return sum == total || eval_fail(e, "the members' parts of dimension %d add up to %lld of %lld", axis, (long long)sum,
                                   (long long)total);
}

static bool reduce_scatter(Eval *e, const Group *g) {
  int axis = (int)op_int(e->op, AT_axis, 0);
  int64_t at[MAX_RANK] = {0};
  if (!same_dims(e->in[0]->dims, e->out->dims, e->out->rank, axis)) return eval_fail(e, "the result does not fit");
  return parts_before(e, g, axis, e->in[0]->dims[axis], &at[axis]) &&
         reduce_box(e, op_attr(e->op, AT_op)->u.reduction, g, e->out, at);
}

/* ---- moves */

static bool all_gather(Eval *e, const Group *g) {
  int axis = (int)op_int(e->op, AT_axis, 0);
  int64_t to[MAX_RANK] = {0}, at[MAX_RANK] = {0};
  for (int i = 0; i < g->n; i++) {
    const InterpTensor *x = g->in[i];
    if (!same_dims(x->dims, e->out->dims, x->rank, axis) || to[axis] + x->dims[axis] > e->out->dims[axis])
      return eval_fail(e, "member %d's part does not fit", i);
    eval_box_copy(x->rank, x->dims, e->out->cells, e->out->dims, to, x->cells, x->dims, at);
    to[axis] += x->dims[axis];
  }
  return to[axis] == e->out->dims[axis] ||
         eval_fail(e, "the members hold %lld of extent %lld", (long long)to[axis], (long long)e->out->dims[axis]);
}

static bool all_to_all(Eval *e, const Group *g) {
  int cut = (int)op_int(e->op, AT_split, 0), joined = (int)op_int(e->op, AT_concat, 0);
  int64_t to[MAX_RANK] = {0}, at[MAX_RANK] = {0}, size[MAX_RANK];
  if (cut == joined) return eval_fail(e, "cuts and joins dimension %d", cut);
  if (!parts_before(e, g, cut, e->in[0]->dims[cut], &at[cut])) return false;
  for (int i = 0; i < g->n; i++) {
    const InterpTensor *x = g->in[i];
    memcpy(size, e->out->dims, sizeof size);
    size[joined] = x->dims[joined];
    bool fits = x->dims[cut] == e->in[0]->dims[cut] && to[joined] + size[joined] <= e->out->dims[joined];
    for (int d = 0; d < x->rank; d++) fits = fits && (d == cut || size[d] == x->dims[d]);
    if (!fits) return eval_fail(e, "member %d's part does not fit", i);
    eval_box_copy(x->rank, size, e->out->cells, e->out->dims, to, x->cells, x->dims, at);
    to[joined] += size[joined];
  }
  return to[joined] == e->out->dims[joined] ||
         eval_fail(e, "the members hold %lld of extent %lld", (long long)to[joined], (long long)e->out->dims[joined]);
}

static bool interval_on(const Eval *e, int rank, AttrKey key, int64_t *lo, int64_t *hi) {
  const Attr *a = op_attr(e->op, key);
  return eval_expr_on(e, rank, a->u.exprs[0], lo) && eval_expr_on(e, rank, a->u.exprs[1], hi);
}

/* Copies the part that member `i` holds of this rank's target [lo, hi) to indices not yet written (`have`, by index of
 * the target). */
static bool take_from(Eval *e, const Group *g, int i, int axis, int64_t lo, int64_t hi, bool *have) {
  const InterpTensor *x = g->in[i];
  int64_t slo, shi;
  if (!interval_on(e, g->ranks[i], AT_source, &slo, &shi)) return false;
  if (shi - slo != x->dims[axis])
    return eval_fail(e, "member %d declares [%lld, %lld) and holds %lld", i, (long long)slo, (long long)shi,
                     (long long)x->dims[axis]);
  if (!same_dims(x->dims, e->out->dims, x->rank, axis)) return eval_fail(e, "member %d's part does not fit", i);
  for (int64_t j = slo > lo ? slo : lo; j < (shi < hi ? shi : hi); j++) {
    int64_t to[MAX_RANK] = {0}, at[MAX_RANK] = {0}, size[MAX_RANK];
    if (have[j - lo]) continue;
    have[j - lo] = true;
    memcpy(size, e->out->dims, sizeof size);
    size[axis] = 1;
    to[axis] = j - lo;
    at[axis] = j - slo;
    eval_box_copy(x->rank, size, e->out->cells, e->out->dims, to, x->cells, x->dims, at);
  }
  return true;
}

/* An index that several members hold comes from the first in group order; one that no member holds is `value`. */
static bool exchange(Eval *e, const Group *g) {
  int axis = (int)op_int(e->op, AT_axis, 0);
  const Attr *value = op_attr(e->op, AT_value);
  int64_t lo, hi, n = interp_elements(e->out);
  if (!interval_on(e, e->rank, AT_target, &lo, &hi)) return false;
  if (hi - lo != e->out->dims[axis])
    return eval_fail(e, "the target [%lld, %lld) is not the result's %lld", (long long)lo, (long long)hi,
                     (long long)e->out->dims[axis]);
  Cell otherwise = cell_of_double(e->run->modp, e->out->dtype, value ? value->u.f : 0);
  for (int64_t i = 0; i < n; i++) e->out->cells[i] = otherwise;
  Arena *scratch = arena_new();
  bool *have = ARENA_ARRAY(scratch, bool, hi - lo), ok = true;
  for (int i = 0; i < g->n && ok; i++) ok = take_from(e, g, i, axis, lo, hi, have);
  for (int64_t j = 0; j < hi - lo && ok && !value; j++)
    if (!have[j])
      ok = eval_fail(e, "no member holds index %lld of dimension %d, and `value` is not given", (long long)(lo + j),
                     axis);
  arena_free(scratch);
  return ok;
}

static bool eval_comm(Eval *e) {
  Group g;
  if (!group_of(e, &g)) return false;
  switch (e->op->kind) {
    case OP_all_reduce: return all_reduce(e, &g);
    case OP_reduce_scatter: return reduce_scatter(e, &g);
    case OP_all_gather: return all_gather(e, &g);
    case OP_all_to_all: return all_to_all(e, &g);
    case OP_exchange: return exchange(e, &g);
    default: return eval_fail(e, "is not a collective");
  }
}

static bool eval_mask_partial(Eval *e) {
  const Attr *axes = op_attr(e->op, AT_mesh_axes);
  bool keep = true;
  if (!eval_same_shape(e, 0)) return false;
  Reduction r = op_attr(e->op, AT_op)->u.reduction;
  if (!reduction_defined(r, e->out->dtype))
    return eval_fail(e, "%s is not defined for %s", reduction_name(r), dtype_name(e->out->dtype));
  for (int i = 0; i < axes->n; i++) keep = keep && e->run->coordinates[e->rank][axes->u.ints[i]] == 0;
  int64_t n = interp_elements(e->out);
  Cell none = cell_identity(e->run->modp, e->out->dtype, r);
  for (int64_t i = 0; i < n; i++) e->out->cells[i] = keep ? e->in[0]->cells[i] : none;
  return true;
}

/* Runs on the receiving rank; its operand is on the rank with the same coordinates in the operation's stage. */
static bool eval_transfer(Eval *e) {
  const Run *run = e->run;
  int per_stage = run->nranks / run->m->mesh.stages;
  const InterpTensor *x = eval_operand_on(e, e->op->stage * per_stage + e->rank % per_stage);
  if (!x) return eval_fail(e, "the sender has no operand");
  if (!same_dims(x->dims, e->out->dims, x->rank, -1)) return eval_fail(e, "sender and receiver differ in shape");
  memcpy(e->out->cells, x->cells, sizeof(Cell) * (size_t)interp_elements(x));
  return true;
}

static bool eval_shard_slice(Eval *e) {
  const InterpTensor *x = e->in[0], *y = e->out;
  int axis = (int)op_int(e->op, AT_axis, 0);
  int64_t at[MAX_RANK] = {0}, to[MAX_RANK] = {0};
  if (!eval_same_kind(e) || !eval_expr(e, op_expr(e->op, AT_start), &at[axis])) return false;
  for (int d = 0; d < x->rank; d++)
    if (d == axis ? at[d] < 0 || at[d] + y->dims[d] > x->dims[d] : x->dims[d] != y->dims[d])
      return eval_fail(e, "[%lld, %lld) is outside dimension %d of extent %lld", (long long)at[d],
                       (long long)(at[d] + y->dims[d]), d, (long long)x->dims[d]);
  eval_box_copy(x->rank, y->dims, y->cells, y->dims, to, x->cells, x->dims, at);
  return true;
}

/* ---- records */

const OpRecord record_all_reduce = {.infer = infer_same, .rule = rule_none, .eval = eval_comm};
const OpRecord record_all_gather = {.infer = infer_along, .rule = rule_none, .eval = eval_comm};
const OpRecord record_reduce_scatter = {.infer = infer_along, .rule = rule_none, .eval = eval_comm};
const OpRecord record_all_to_all = {.infer = infer_all_to_all, .rule = rule_none, .eval = eval_comm};
const OpRecord record_exchange = {.infer = infer_exchange, .rule = rule_none, .eval = eval_comm};
const OpRecord record_shard_slice = {.infer = infer_along, .rule = rule_none, .eval = eval_shard_slice};
const OpRecord record_mask_partial = {.infer = infer_same, .rule = rule_none, .eval = eval_mask_partial};
const OpRecord record_transfer = {.infer = infer_same, .rule = rule_none, .eval = eval_transfer};
