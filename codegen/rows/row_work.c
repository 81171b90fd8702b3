/* codegen/rows/row_work.c - the operations of one stage, classified and legalised (row_work.h).
 *
 * Only operations that a result needs are kept: outputs and writes, of any stage, are the roots.  For a loop the roots
 * are the carries that have readers, inside or after it.
 */
#include "codegen/rows/row_work.h"

#include <string.h>

#include "base/die.h"
#include "ir/loops.h"
#include "ir/opaque_rule.h"
#include "ir/schedule.h"

const Type *work_type(const Work *w, Val v) {
  return v < w->f->values.n ? type_of(w->f, v) : w->temps.items[v - w->f->values.n];
}

/* Makes room in `def` for the values below `end`. */
static void reserve_def(Work *w, size_t end) {
  if (end <= w->ndef) return;
  size_t n = 2 * end + 64;
  int *def = ARENA_ARRAY(w->arena, int, n);
  for (size_t i = 0; i < n; i++) def[i] = i < w->ndef ? w->def[i] : -1;
  w->def = def, w->ndef = n;
}

Val work_temp(Work *w, const Type *type) {
  ARENA_PUSH(w->arena, &w->temps, type);
  reserve_def(w, w->f->values.n + w->temps.n);
  return (Val)(w->f->values.n + w->temps.n - 1);
}

static Phase body_phase(const Work *w, int origin) {
  Phase p = w->f->ops.items[origin].phase;
  return schedule_body(&w->m->mesh, w->in_turns, p == PH_wgt && w->all->early && w->all->early[origin] ? PH_bwd : p);
}

int work_add(Work *w, const Op *op, int origin, WorkClass class) {
  WorkOp item = {.op = op, .origin = origin, .class = class, .live = true, .phase = body_phase(w, origin), .group = -1};
  ARENA_PUSH(w->arena, &w->ops, item);
  int index = (int)w->ops.n - 1;
  reserve_def(w, op_end(op));
  for (Val v = op->out; v < op_end(op); v++) w->def[v] = index;
  return index;
}

void work_remove(Work *w, const bool *gone) {
  size_t n = 0;
  for (size_t i = 0; i < w->ops.n; i++)
    if (!gone[i]) w->ops.items[n++] = w->ops.items[i];
  w->ops.n = n;
  work_find_defs(w);
}

void work_find_defs(Work *w) {
  for (size_t v = 0; v < w->ndef; v++) w->def[v] = -1;
  for (size_t i = 0; i < w->ops.n; i++) {
    const WorkOp *o = &w->ops.items[i];
    for (Val v = o->op->out; v < op_end(o->op); v++) w->def[v] = (int)i;
    for (int k = 0; o->grow && k < o->grow->n; k++) w->def[o->grow->whole[k]] = (int)i;
    for (int k = 0; o->few && k < o->few->nout; k++) w->def[o->few->out[k]] = (int)i;
    for (int k = 0; o->cache && k < o->cache->n; k++) w->def[o->cache->out[k]] = (int)i;
    if (o->place && o->place->result) w->def[o->place->result] = (int)i;
    if (o->split) w->def[o->split->found] = (int)i;
    if (o->scratch) w->def[o->scratch] = (int)i;
    for (int k = 0; o->grads && k < o->grads->n; k++) w->def[o->grads->part[k].result] = (int)i;
  }
}

static const Val *val_list(Work *w, int n, const Val *v) {
  Val *list = ARENA_ARRAY(w->arena, Val, n);
  if (n) memcpy(list, v, sizeof(Val) * (size_t)n);
  return list;
}

static const Attr *attr_list(Work *w, int n, const Attr *a) {
  Attr *list = ARENA_ARRAY(w->arena, Attr, n);
  if (n) memcpy(list, a, sizeof(Attr) * (size_t)n);
  return list;
}

Val work_step(Work *w, const Op *op, int origin, const Op *step, const Type *type, WorkClass class) {
  Op *o = ARENA_NEW(w->arena, Op);
  *o = *step;
  o->name = op->name, o->group = op->group, o->loc = op->loc, o->stage = op->stage, o->again = op->again;
  o->in = val_list(w, o->nin, o->in), o->attrs = attr_list(w, o->nattrs, o->attrs);
  if (!o->out) o->out = work_temp(w, type);
  o->nout = 1;
  work_add(w, o, origin, class);
  return o->out;
}

int dense_dims(const Type *t, const Expr **dims, int *where) {
  int n = 0;
  for (int d = 0; d < t->rank; d++) {
    if (ex_is_const(t->dims[d], 1)) continue;
    if (dims) dims[n] = t->dims[d];
    if (where) where[n] = d;
    n++;
  }
  return n;
}

const Expr *row_type_stride(Module *m, const Type *t, int dim) { return type_product(m, t, dim + 1, t->rank); }

static int dense_index_of(const Type *t, int dim) {
  int n = 0;
  if (ex_is_const(t->dims[dim], 1)) return -1;
  for (int d = 0; d < dim; d++) n += !ex_is_const(t->dims[d], 1);
  return n;
}

/* Returns the only axis of a reduction whose extent is not 1; -1 if none. */
static int reduced_axis(const Work *w, const Op *op) {
  const Attr *axes = op_attr(op, AT_axes);
  for (int i = 0; i < axes->n; i++)
    if (dense_index_of(work_type(w, op->in[0]), (int)axes->u.ints[i]) >= 0) return i;
  return -1;
}

int row_reduced_dim(const Work *w, const Op *op) {
  const Type *t = work_type(w, op->in[0]);
  if (op->kind != OP_reduce) return dense_index_of(t, (int)op_int(op, AT_axis, t->rank - 1));
  int i = reduced_axis(w, op);
  return i < 0 ? -1 : dense_index_of(t, (int)op_attr(op, AT_axes)->u.ints[i]);
}

const Expr *row_start(const Work *w, const Op *op) {
  const Expr *zero = ex_const(w->m, 0);
  if (op->kind != OP_reduce) return zero;
  int i = reduced_axis(w, op);
  if (i < 0 || !reduction_is_ordered(op_attr(op, AT_op)->u.reduction, work_type(w, op->in[0])->dtype)) return NULL;
  return op_attr(op, AT_starts) ? op_attr(op, AT_starts)->u.exprs[i] : zero;
}

/* ---- views */

/* True for a contiguous slice: dimensions before the first sliced one have extent 1 in the result, steps are 1. */
static bool slice_is_view(const Work *w, const Op *op, const Expr **offset) {
  Module *m = w->m;
  const Type *x = work_type(w, op->in[0]), *y = work_type(w, op->out);
  bool cut_behind = false;
  *offset = ex_const(m, 0);
  for (int d = x->rank - 1; d >= 0; d--) {
    bool one = ex_is_const(y->dims[d], 1);
    const Expr *start = ex_const(m, 0);
    int64_t stride = 1;
    if (op->kind == OP_slice) {
      start = op_attr(op, AT_starts)->u.exprs[d];
      stride = op_attr(op, AT_strides)->u.ints[d];
    } else if (d == op_int(op, AT_axis, 0)) {
      start = op_expr(op, AT_start);
    }
    if (stride != 1 && !one) return false;
    if (cut_behind && !one) return false;
    if (x->dims[d] != y->dims[d]) cut_behind = true;
    *offset = ex_add(m, *offset, ex_mul(m, start, row_type_stride(m, x, d)));
  }
  return true;
}

bool work_is_view(const Work *w, const Op *op, const Expr **offset) {
  *offset = ex_const(w->m, 0);
  switch (op->kind) {
    case OP_reshape:
    case OP_copy:
    case OP_accumulate: return true;
    case OP_cast: return work_type(w, op->in[0])->dtype == work_type(w, op->out)->dtype;
    case OP_slice:
    case OP_shard_slice: return slice_is_view(w, op, offset);
    case OP_broadcast: return type_same_but_for_ones(work_type(w, op->in[0]), work_type(w, op->out));
    case OP_transpose: {
      const Attr *perm = op_attr(op, AT_perm);
      int64_t last = -1;
      for (int i = 0; i < perm->n; i++) {
        if (ex_is_const(work_type(w, op->out)->dims[i], 1)) continue;
        if (perm->u.ints[i] < last) return false;
        last = perm->u.ints[i];
      }
      return true;
    }
    default: return false;
  }
}

/* ---- legalising */

static WorkClass class_of(const Work *w, const Op *op) {
  switch (op->kind) {
    case OP_input:
    case OP_param:
    case OP_read: return WC_SOURCE;
    case OP_write: return WC_WRITE;
    case OP_reshape: return type_same_but_for_ones(work_type(w, op->in[0]), work_type(w, op->out)) ? WC_MAP : WC_VIEW;
    case OP_copy:
    case OP_accumulate: return WC_VIEW; /* without micro-batches */
#define TEMPLATE(op, family) case OP_##op:
#include "codegen/rows/templates.def"
      return WC_TEMPLATE;
    case OP_loop:
    case OP_carry: return WC_LOOP;
    case OP_repeat:
    case OP_leave: return WC_REPEAT;
    case OP_bind: return WC_BIND;
    case OP_call:
      if (w->f->level == 1) return WC_TEMPLATE;
      die("work_new: %s \"%s\" cannot be compiled", op_name(op->kind), op->name);
    default: return op_is_comm(op->kind) ? WC_COMM : op_is_along(op->kind) ? WC_ROW : WC_MAP;
  }
}

/* Returns the partial type of a sum that is continued: narrow floats are kept in f32. */
static const Type *without_dim(Module *m, const Type *t, int dim) {
  const Expr *dims[MAX_RANK];
  int n = 0;
  for (int d = 0; d < t->rank; d++)
    if (d != dim) dims[n++] = t->dims[d];
  DType dtype = t->dtype == DT_f16 || t->dtype == DT_bf16 ? DT_f32 : t->dtype;
  return type_get(m, dtype, n, dims);
}

static Op *copy_op(Work *w, const Op *op) {
  Op *o = ARENA_NEW(w->arena, Op);
  *o = *op;
  return o;
}

static Op *reduce_over(Work *w, const Op *op, Val x, int n, const int64_t *axes, const Expr *const *starts) {
  Module *m = w->m;
  Op *step = copy_op(w, op);
  Attr list[3] = {attr_ints(m, AT_axes, n, axes), attr_red(AT_op, op_attr(op, AT_op)->u.reduction),
                  attr_exprs(m, AT_starts, n, starts)};
  step->nattrs = 3, step->attrs = attr_list(w, 3, list);
  step->in = val_list(w, 1, &x);
  return step;
}

/* Returns the first of the neighbouring reduced dimensions that one row can cover: the last of them is short, and each
 * alone would be a kernel of many short rows.  The rank of x if there are none. */
static int short_run(const Work *w, Val x, int n, const int64_t *axes, const Expr *const *starts) {
  enum { SHORT = 16 };
  const Type *t = work_type(w, x);
  int first = n ? (int)axes[n - 1] + 1 : t->rank, dense = 0;
  bool is_short = false;
  for (int i = n - 1; i >= 0 && axes[i] == first - 1 && ex_is_const(starts[i], 0); i--, first--) {
    int64_t extent;
    if (ex_is_const(t->dims[axes[i]], 1)) continue;
    is_short |= dense++ == 0 && ex_get_const(t->dims[axes[i]], &extent) && extent < SHORT;
  }
  return is_short && dense > 1 ? first : t->rank;
}

/* Merges the dimensions of x from `first` to `last` into one.  A cast follows that, so that it stays in the kernel of
 * the reduction. */
static Val join_run(Work *w, const Op *op, int origin, Val x, int first, int last) {
  Module *m = w->m;
  const Type *t = work_type(w, x);
  int def = work_def(w, x);
  const Op *made = def < 0 ? NULL : w->ops.items[def].op;
  if (made && made->kind == OP_cast) {
    if (w->passed) w->passed[w->ops.items[def].origin] = true; /* unless others read it */
    Val before = join_run(w, op, origin, made->in[0], first, last);
    Op cast = *made;
    cast.in = &before, cast.out = 0;
    return work_step(w, made, origin, &cast, type_with_dtype(m, work_type(w, before), t->dtype), WC_MAP);
  }
  const Expr *dims[MAX_RANK];
  for (int d = 0; d < first; d++) dims[d] = t->dims[d];
  dims[first] = type_product(m, t, first, last + 1);
  for (int d = last + 1; d < t->rank; d++) dims[d - last + first] = t->dims[d];
  const Type *joined = type_get(m, t->dtype, t->rank - last + first, dims);
  return work_step(w, op, origin, &(Op){.kind = OP_reshape, .nin = 1, .in = &x}, joined, WC_VIEW);
}

/* Adds one reduction per dimension of extent other than 1, innermost first. */
static void add_reduce(Work *w, const Op *op, int origin) {
  Module *m = w->m;
  int64_t axes[MAX_RANK];
  const Expr *starts[MAX_RANK];
  const Attr *all = op_attr(op, AT_axes), *places = op_attr(op, AT_starts);
  int n = all->n, dense = 0;
  for (int i = 0; i < n; i++) axes[i] = all->u.ints[i], starts[i] = places ? places->u.exprs[i] : ex_const(m, 0);
  Val x = op->in[0];
  if (work_sums_whole(w, origin)) {
    const int64_t axis = 0;
    const Expr *const zero = ex_const(m, 0);
    work_add(w, reduce_over(w, op, work_add_total(w, op, origin), 1, &axis, &zero), origin, WC_ROW);
    return;
  }
  int first = short_run(w, x, n, axes, starts), last = n ? (int)axes[n - 1] : 0;
  if (first < work_type(w, x)->rank) {
    x = join_run(w, op, origin, x, first, last);
    n -= last - first;
  }
  for (int i = 0; i < n; i++) dense += !ex_is_const(work_type(w, x)->dims[axes[i]], 1);
  for (int i = n - 1; i >= 0 && dense > 1; i--) {
    if (ex_is_const(work_type(w, x)->dims[axes[i]], 1)) continue;
    Op *step = reduce_over(w, op, x, 1, &axes[i], &starts[i]);
    step->out = work_temp(w, without_dim(m, work_type(w, x), (int)axes[i]));
    work_add(w, step, origin, WC_ROW);
    x = step->out;
    memmove(axes + i, axes + i + 1, sizeof(int64_t) * (size_t)(n - i - 1));
    memmove(starts + i, starts + i + 1, sizeof *starts * (size_t)(n - i - 1));
    for (int j = i; j < n - 1; j++) axes[j]--;
    n--, dense--;
  }
  work_add(w, reduce_over(w, op, x, n, axes, starts), origin, WC_ROW);
}

/* True if sums over micro-batches accumulate.  At level 1 one device processes the whole batch at once. */
static bool accumulates(const Work *w) { return w->f->level == 2 && mesh_micro_batches(&w->m->mesh) > 1; }

Val work_resolve(const Work *w, Val v) {
  while (v < w->f->values.n) { /* legalising copies nothing */
    const Op *op = op_of(w->f, v);
    if (w->same && w->same[v] && w->same[v] != v) return w->same[v];
    if (op->kind != OP_copy && (op->kind != OP_accumulate || accumulates(w))) return v;
    v = op->in[0];
  }
  return v;
}

Val work_sum_start(const Work *w, Val sum) {
  for (size_t i = 0; i < w->sums.n; i++)
    if (w->sums.items[i].sum == sum) return w->sums.items[i].start;
  return 0;
}

/* Adds zeros, made before all micro-batches, and the addition in each micro-batch. */
static void add_accumulate(Work *w, const Op *op, int origin) {
  Op *start = copy_op(w, op), *sum = copy_op(w, op);
  const Val in[2] = {work_temp(w, work_type(w, op->out)), op->in[0]};
  start->nin = 0, start->out = in[0];
  int at = work_add(w, start, origin, WC_SOURCE);
  w->ops.items[at].phase = PH_pre;
  sum->kind = OP_add, sum->nin = 2, sum->in = val_list(w, 2, in);
  work_add(w, sum, origin, WC_MAP);
  ARENA_PUSH(w->arena, &w->sums, ((WorkSum){in[0], op->out}));
}

/* Returns the operation with copies of its operands looked through. */
static const Op *resolved(Work *w, const Op *op) {
  int same = 0;
  while (same < op->nin && work_resolve(w, op->in[same]) == op->in[same]) same++;
  if (same == op->nin) return op;
  Op *copy = copy_op(w, op);
  Val *in = ARENA_ARRAY(w->arena, Val, op->nin);
  for (int i = 0; i < op->nin; i++) in[i] = work_resolve(w, op->in[i]);
  copy->in = in;
  return copy;
}

/* True for numbers and lines that constants, sizes and integer inputs alone determine, such as positions. */
static bool is_line(const Work *w, const Op *op, int origin) {
  bool line = op->nout == 1 && type_of(w->f, op->out)->rank <= 1 && w->all->loops.of[origin] < 0;
  bool given = op->kind == OP_input && !dtype_is_float(type_of(w->f, op->out)->dtype);
  if (!line || !(op->nin ? op_is_elementwise(op->kind) : given || op_is_constant(op->kind))) return false;
  for (int i = 0; i < op->nin; i++)
    if (op->in[i] >= w->f->values.n || !w->same[op->in[i]]) return false;
  return true;
}

static bool same_line(const Work *w, const Op *a, const Op *b) {
  bool same = a->kind == b->kind && a->nin == b->nin && a->nattrs == b->nattrs && a->again == b->again &&
              type_of(w->f, a->out) == type_of(w->f, b->out);
  for (int i = 0; i < a->nin && same; i++) same = a->in[i] == b->in[i];
  for (int i = 0; i < a->nattrs && same; i++) same = attr_equal(&a->attrs[i], &b->attrs[i]);
  return same;
}

/* True if an equal line exists already, which is then shared: every layer has its own positions.  Not for outputs. */
static bool is_made(Work *w, const Op *op, int origin) {
  if (!w->same || !is_line(w, op, origin)) return false;
  w->same[op->out] = op->out;
  for (size_t i = 0; i < w->f->outputs.n; i++)
    if (w->f->outputs.items[i].value == op->out) return false;
  for (size_t i = 0; i < w->lines.n; i++) {
    const WorkOp *made = &w->ops.items[w->lines.items[i]];
    if (made->phase != body_phase(w, origin) || !same_line(w, made->op, op)) continue;
    w->same[op->out] = made->op->out;
    return w->passed[origin] = true;
  }
  ARENA_PUSH(w->arena, &w->lines, (int)w->ops.n);
  return false;
}

/* Adds an operator with a rule, and the scratch that it asks for. */
static void add_opaque(Work *w, const Op *op, int origin) {
  int at = work_add(w, op, origin, WC_TEMPLATE);
  const OpaqueRule *r = opaque_rule_of(w->m, op_str(op, AT_rule));
  const Type *in[MAX_OPERANDS];
  OpaqueBound b;
  const char *why, *attributes = op_str(op, AT_attributes);
  for (int i = 0; i < op->nin; i++) in[i] = work_type(w, op->in[i]);
  if (!r || !r->scratch || !opaque_bind(w->m, r, op->nin, in, attributes, w->f->level == 2, &b, &why)) return;
  const Expr *bytes = size_text_expr(w->m, r->scratch, &b, attributes);
  Val scratch = work_temp(w, type_get(w->m, DT_u8, 1, &bytes));
  w->ops.items[at].scratch = scratch;
  w->def[scratch] = at;
}

static void add_op(Work *w, const Op *source, int origin) {
  const Op *op = resolved(w, source);
  if (is_made(w, op, origin)) return;
  if (op->kind == OP_reduce) add_reduce(w, op, origin);
  else if (op->kind == OP_dot) work_add_dot(w, op, origin);
  else if (op->kind == OP_grouped_mlp) work_add_grouped_mlp(w, op, origin);
  else if (op_is_comm(op->kind)) work_add_comm(w, op, origin);
  else if (op->kind == OP_opaque) add_opaque(w, op, origin);
  else if (op->kind == OP_accumulate && accumulates(w)) add_accumulate(w, op, origin);
  else work_add(w, op, origin, class_of(w, op));
}

/* True for weights, states, inputs and constant scalars in a loop, which exist before it. */
static bool stands_before_loops(const Work *w, const Op *op) {
  bool constant = op->kind == OP_const || op->kind == OP_size;
  return class_of(w, op) == WC_SOURCE || (constant && type_of(w->f, op->out)->rank == 0);
}

static void add_sources_of(Work *w, const Loop *l) {
  for (size_t i = l->body; i < l->repeat; i++)
    if (w->all->needed[i] && stands_before_loops(w, &w->f->ops.items[i])) add_op(w, &w->f->ops.items[i], (int)i);
}

static void add_ops(Work *w) {
  const WorkFunction *all = w->all;
  const Loops *loops = &all->loops;
  size_t n;
  const size_t *order = work_in_stage(all, w->stage, &n);
  for (size_t k = 0; k < n; k++) {
    size_t i = order[k];
    const Op *op = &w->f->ops.items[i];
    if (!all->needed[i] || (loops->of[i] >= 0 && stands_before_loops(w, op))) continue;
    if (op->kind == OP_loop && loops->items[loops->of[i]].parent < 0) add_sources_of(w, &loops->items[loops->of[i]]);
    add_op(w, op, (int)i);
  }
}

/* ---- operations that legalising adds to a loop's body but that do not depend on the round */

/* Returns the loop (its index among the operations) before which operation `i` can be moved: the outermost one that
 * makes none of its operands; -1 if none.  Not before a loop of one round, which is a branch. */
static int loop_left_by(const Work *w, int i, const int *open, int depth, const int *place) {
  const Op *op = w->ops.items[i].op;
  int left = -1;
  for (int d = depth - 1; d >= 0; d--) {
    const Expr *trips = op_expr(w->ops.items[open[d]].op, AT_trips);
    if (trips && ex_is_const(trips, 1)) break;
    for (int k = 0; k < op->nin; k++)
      if (work_def(w, op->in[k]) >= 0 && place[work_def(w, op->in[k])] >= open[d]) return left;
    left = open[d];
  }
  return left;
}

/* Fills place[i] with the index of the operation after which operation i moves, or i itself.  True if any moves. */
static bool find_places(const Work *w, int *place) {
  int open[MAX_LOOPS], depth = 0;
  bool any = false;
  for (int i = 0; i < (int)w->ops.n; i++) {
    const Op *op = w->ops.items[i].op;
    place[i] = i;
    if (op->kind == OP_loop) open[depth++] = i;
    if (op->kind == OP_repeat) depth--;
    if (!depth || op->out < w->f->values.n || w->ops.items[i].class == WC_COMM) continue;
    int loop = loop_left_by(w, i, open, depth, place);
    if (loop >= 0) place[i] = loop - 1; /* directly before the loop, so after the operations before it */
    any |= loop >= 0;
  }
  return any;
}

static void put_in_places(Work *w, const int *place, Arena *scratch) {
  int n = (int)w->ops.n, at = 0;
  WorkOp *old = ARENA_ARRAY(scratch, WorkOp, n);
  memcpy(old, w->ops.items, sizeof *old * (size_t)n);
  for (int i = 0; i < n; i++) {
    if (old[i].op->kind == OP_loop)
      for (int k = i + 1; k < n; k++)
        if (place[k] == i - 1) w->ops.items[at++] = old[k];
    if (place[i] == i) w->ops.items[at++] = old[i];
  }
  for (int i = 0; i < n; i++)
    for (Val v = w->ops.items[i].op->out; v < op_end(w->ops.items[i].op); v++) w->def[v] = i;
}

/* Moves transposes and casts of operands from outside a loop before it. */
static void move_out_of_loops(Work *w) {
  Arena *scratch = arena_new();
  int *place = ARENA_ARRAY(scratch, int, w->ops.n);
  if (find_places(w, place)) put_in_places(w, place, scratch);
  arena_free(scratch);
}

void work_find_live(Work *w) {
  Arena *scratch = arena_new();
  bool *used = ARENA_ARRAY(scratch, bool, w->f->values.n + w->temps.n + 1);
  for (size_t i = 0; i < w->f->outputs.n; i++) used[w->f->outputs.items[i].value] = true;
  for (size_t i = w->ops.n; i-- > 0;) {
    WorkOp *o = &w->ops.items[i];
    bool idle = o->class == WC_MAP || (o->class == WC_VIEW && w->passed && w->passed[o->origin]);
    o->live = !idle || used[o->op->out];
    for (int k = 0; k < o->op->nin && o->live; k++) used[o->op->in[k]] = true;
  }
  arena_free(scratch);
}

/* Returns the phase in which outputs are read: after all micro-batches, if that phase has operations. */
static Phase last_phase(const Work *w) {
  Phase last = PH_fwd;
  for (size_t i = 0; i < w->ops.n; i++)
    if (w->ops.items[i].phase > last) last = w->ops.items[i].phase;
  return last;
}

/* Moves operations that only move or repeat a value, and are computed before all micro-batches, to the phase of their
 * users, unless that is before them too, or both in and after them: they cost nothing there, and would take memory. */
static void move_to_users(Work *w) {
  Arena *scratch = arena_new();
  uint8_t *users = ARENA_ARRAY(scratch, uint8_t, w->f->values.n + w->temps.n + 1); /* bit per phase */
  for (size_t i = 0; i < w->f->outputs.n; i++)
    users[w->f->outputs.items[i].value] |= (uint8_t)(1u << (last_phase(w) - PH_FIRST));
  for (size_t i = w->ops.n; i-- > 0;) {
    WorkOp *o = &w->ops.items[i];
    OpKind k = o->op->kind;
    bool moves = k == OP_broadcast || k == OP_transpose || k == OP_reshape || k == OP_slice || k == OP_shard_slice;
    moves &= w->f->ops.items[o->origin].kind == k; /* not those that legalising put around a collective */
    for (int p = PH_fwd; o->phase == PH_pre && moves && p < PH_END; p++)
      if (users[o->op->out] == 1u << (p - PH_FIRST)) o->phase = (Phase)p;
    for (int j = 0; j < o->op->nin && o->live; j++) users[o->op->in[j]] |= (uint8_t)(1u << (o->phase - PH_FIRST));
  }
  arena_free(scratch);
}

Work *work_of_stage(const WorkFunction *all, int stage) {
  Work *w = ARENA_NEW(all->arena, Work);
  *w = (Work){.m = all->m,
              .arena = all->arena,
              .f = all->f,
              .all = all,
              .stage = stage,
              .device = all->device,
              .in_turns = all->in_turns};
  if (all->joins && w->device->places) {
    w->passed = ARENA_ARRAY(w->arena, bool, w->f->ops.n + 1);
    w->within = ARENA_ARRAY(w->arena, bool, w->f->ops.n + 1);
    w->same = ARENA_ARRAY(w->arena, Val, w->f->values.n + 1);
  }
  add_ops(w);
  move_out_of_loops(w);
  if (all->joins) work_join(w);
  if (all->joins && w->device->few) work_few(w);
  if (all->joins && w->device->grows) work_grow(w);
  if (all->joins && w->device->places) work_grads(w), work_place(w), work_cache(w);
  if (all->joins && w->device->splits) work_split(w);
  if (all->joins && w->device->bundles) work_fold_totals(w);
  work_find_live(w);
  move_to_users(w);
  return w;
}

Work *work_new(Module *m, const Func *f, int stage, const DeviceTraits *device, bool join) {
  return work_of_stage(work_function(m->arena, m, f, device, join), stage);
}
