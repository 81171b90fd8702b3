/* codegen/rows/work_cache.c - rotations and updates of caches before an attention in one kernel.
 *
 * A decoder rotates queries and keys and writes keys and values into caches, which its attention then reads.  For one
 * token each of the four takes as long as a launch.  They are independent of each other but for the keys, which are
 * rotated where they are written.
 *
 * In: legalised operations, after work_place.  An attention whose keys and values are updates of states at one index,
 * along one dimension; the new keys are the result of a rotation that only the update reads, or any value.  The
 * queries' rotation joins if only the attention reads its result, and it has the same positions.  Out: a template with
 * `cache`, where the last of them was; writes of the states follow it.  Not in loops, and not if another operation
 * reads a result before that place.
 */
#include <string.h>

#include "codegen/rows/row_work.h"

enum { CACHE_RANK = 4 };

typedef struct Finding {
  Work *w;
  int *reads; /* by value: its number of readers, outputs included */
  bool *gone; /* by operation */
  int *after; /* by operation: it moves after this one; -1: it stays */
} Finding;

/* The operations that one kernel replaces. */
typedef struct Found {
  int rotation[2]; /* operations: of the queries, of the keys; -1: none */
  int update[2];   /* of keys, of values */
  int last;        /* of these */
  CacheUnit unit;
  Val in[2 + 2 * CACHE_SETS], out[CACHE_SETS];
} Found;

static const WorkOp *item(const Finding *f, int i) { return &f->w->ops.items[i]; }
static bool is_one(const Expr *e) { return ex_is_const(e, 1); }

/* Returns the operation of that kind that makes the value; -1 if another one does. */
static int maker(const Finding *f, Val v, OpKind kind) {
  int def = work_def(f->w, v);
  return def >= 0 && item(f, def)->op->kind == kind && item(f, def)->class == WC_TEMPLATE ? def : -1;
}

static bool updates_state(const Finding *f, int i) {
  const Op *op = item(f, i)->op;
  int def = work_def(f->w, op->in[0]);
  return def >= 0 && item(f, def)->op->kind == OP_read && work_type(f->w, op->out)->rank == CACHE_RANK;
}

static int axis_of(const Op *op) { return (int)op_int(op, AT_axis, 0); }

/* True if both write at the same places of caches of one length. */
static bool same_place(const Finding *f, int a, int b) {
  const Op *x = item(f, a)->op, *y = item(f, b)->op;
  const Type *s = work_type(f->w, x->in[0]), *t = work_type(f->w, y->in[0]), *u = work_type(f->w, x->in[1]),
             *v = work_type(f->w, y->in[1]);
  int axis = axis_of(x);
  bool middle = axis == 1 || axis == 2;
  bool together = x->nin == 3 && y->nin == 3 && work_type(f->w, x->in[2])->rank == 0; /* not of each row */
  return together && middle && axis_of(y) == axis && x->in[2] == y->in[2] &&
         op_expr(x, AT_start) == op_expr(y, AT_start) && s->dims[axis] == t->dims[axis] &&
         u->dims[axis] == v->dims[axis] && s->dtype == t->dtype;
}

static bool same_rotation(const Finding *f, int a, int b) {
  const Op *x = item(f, a)->op, *y = item(f, b)->op;
  return x->in[1] == y->in[1] && op_float(x, AT_base, 10000) == op_float(y, AT_base, 10000) &&
         op_int(x, AT_interleaved, 0) == op_int(y, AT_interleaved, 0) &&
         work_type(f->w, x->out)->dtype == work_type(f->w, y->out)->dtype;
}

/* ---- places of the elements */

static TensorPlace in_place(const Finding *f, int rotation) {
  const WorkOp *o = item(f, rotation);
  return o->place && o->place->in[0].type ? o->place->in[0] : work_dense_place(f->w->m, work_type(f->w, o->op->in[0]));
}

static TensorPlace out_place(const Finding *f, int rotation) {
  const WorkOp *o = item(f, rotation);
  return o->place && o->place->result ? o->place->out : work_dense_place(f->w->m, work_type(f->w, o->op->out));
}

static Val result_of(const Finding *f, int rotation) {
  const WorkOp *o = item(f, rotation);
  return o->place && o->place->result ? o->place->result : o->op->out;
}

/* Fills a set of rows [.., s, h, k] of rank 3 to 5: `from` and `to` are the places of its elements. */
static bool fill_set(const Finding *f, const TensorPlace *from, const TensorPlace *to, CacheSet *set) {
  Module *m = f->w->m;
  const Type *t = from->type;
  if (t->rank < 3 || t->rank > CACHE_DIMS) return false;
  for (int d = 0; d < CACHE_DIMS; d++) {
    int of = d - (CACHE_DIMS - t->rank);
    set->extent[d] = of < 0 ? ex_const(m, 1) : t->dims[of];
    set->from[d] = of < 0 ? ex_const(m, 0) : from->stride[of];
    set->to[d] = of < 0 ? ex_const(m, 0) : to->stride[of];
  }
  set->from_offset = from->offset, set->to_offset = to->offset;
  return true;
}

/* Finds where the elements of a rotation's result are in the cache: dimensions of the new rows are found by their
 * strides there. */
static bool place_in_cache(const Finding *f, int rotation, const Op *update, TensorPlace *to) {
  Module *m = f->w->m;
  const Type *rows = work_type(f->w, update->in[1]), *cache = work_type(f->w, update->in[0]);
  const TensorPlace was = out_place(f, rotation);
  int rank = was.type->rank, axis = axis_of(update);
  bool axis_found = is_one(rows->dims[axis]);
  if (!ex_is_const(was.offset, 0) || rows->dims[CACHE_RANK - 1] != was.type->dims[rank - 1]) return false;
  *to = (TensorPlace){.type = was.type, .offset = was.offset};
  for (int d = 0; d < rank - 1; d++) {
    int e = 0;
    to->stride[d] = ex_const(m, 0);
    if (is_one(was.type->dims[d])) continue;
    while (e < CACHE_RANK - 1 && (rows->dims[e] != was.type->dims[d] || row_type_stride(m, rows, e) != was.stride[d]))
      e++;
    if (e == CACHE_RANK - 1 || (e == axis) != (d == rank - 3)) return false;
    axis_found |= e == axis;
    to->stride[d] = row_type_stride(m, cache, e);
  }
  to->stride[rank - 3] = row_type_stride(m, cache, axis);
  to->stride[rank - 1] = ex_const(m, 1);
  return axis_found;
}

/* The dimensions of [b, h, s, k] or [b, s, h, k] as those of a rotation, b, s, h, k; extents are those of `rows`. */
static TensorPlace in_order(const Finding *f, const TensorPlace *of, const Type *rows, int axis) {
  const int order[CACHE_RANK] = {0, axis, 3 - axis, 3};
  const Expr *dims[CACHE_RANK];
  TensorPlace p = {.offset = of->offset};
  for (int d = 0; d < CACHE_RANK; d++) dims[d] = rows->dims[order[d]], p.stride[d] = of->stride[order[d]];
  p.type = type_get(f->w->m, rows->dtype, CACHE_RANK, dims);
  return p;
}

/* ---- one kernel */

static bool add_rotated(const Finding *f, Found *x, int rotation, const TensorPlace *to, Val out) {
  CacheSet *set = &x->unit.set[x->unit.n];
  TensorPlace from = in_place(f, rotation);
  if (!fill_set(f, &from, to, set)) return false;
  set->rotated = true;
  x->in[2 + x->unit.n] = item(f, rotation)->op->in[0], x->out[x->unit.n++] = out;
  return true;
}

static bool add_update(const Finding *f, Found *x, int which) {
  const Op *op = item(f, x->update[which])->op;
  const Type *rows = work_type(f->w, op->in[1]), *cache = work_type(f->w, op->in[0]);
  int axis = axis_of(op), rotation = which ? -1 : x->rotation[1];
  if (rotation >= 0) {
    TensorPlace to;
    return place_in_cache(f, rotation, op, &to) && add_rotated(f, x, rotation, &to, op->out);
  }
  TensorPlace given, dense = work_dense_place(f->w->m, cache);
  Val v = work_read_in_place(f->w, op->in[1], &given);
  if (!is_one(given.stride[CACHE_RANK - 1])) v = op->in[1], given = work_dense_place(f->w->m, rows);
  TensorPlace from = in_order(f, &given, rows, axis), to = in_order(f, &dense, rows, axis);
  fill_set(f, &from, &to, &x->unit.set[x->unit.n]);
  x->in[2 + x->unit.n] = v, x->out[x->unit.n++] = op->out;
  return true;
}

/* Finds what an attention lets join. */
static bool find(const Finding *f, const WorkOp *attention, Found *x) {
  const Op *op = attention->op;
  *x = (Found){.rotation = {-1, -1}};
  for (int i = 0; i < 2; i++)
    if ((x->update[i] = maker(f, op->in[1 + i], OP_update)) < 0 || !updates_state(f, x->update[i])) return false;
  if (x->update[0] == x->update[1] || !same_place(f, x->update[0], x->update[1])) return false;
  Val keys = item(f, x->update[0])->op->in[1];
  x->rotation[1] = f->reads[keys] == 1 ? maker(f, keys, OP_rope) : -1;
  if (x->rotation[1] >= 0 && work_type(f->w, item(f, x->rotation[1])->op->in[1])->rank > 1) return false;
  x->rotation[0] = f->reads[op->in[0]] == 1 ? maker(f, op->in[0], OP_rope) : -1;
  if (x->rotation[0] >= 0 && (x->rotation[1] < 0 || !same_rotation(f, x->rotation[0], x->rotation[1])))
    x->rotation[0] = -1;
  const int all[] = {x->update[0], x->update[1], x->rotation[0], x->rotation[1]};
  for (int i = 0; i < 4; i++) {
    if (all[i] < 0) continue;
    bool same = work_same_time(item(f, all[i]), attention) && f->w->all->loops.of[item(f, all[i])->origin] < 0 &&
                !f->gone[all[i]];
    if (!same) return false;
    if (all[i] > x->last) x->last = all[i];
  }
  return true;
}

static bool is_result(const Found *x, const Op *op) {
  for (int i = 0; i < op->nin; i++)
    for (int k = 0; k < x->unit.n; k++)
      if (op->in[i] == x->out[k]) return true;
  return false;
}

/* True if no operation before the last one reads a result, but writes, which wait. */
static bool can_wait(const Finding *f, const Found *x) {
  for (int i = 0; i < x->last; i++)
    if (is_result(x, item(f, i)->op) && item(f, i)->class != WC_WRITE) return false;
  for (int i = 0; i < x->last; i++)
    if (is_result(x, item(f, i)->op)) f->after[i] = x->last;
  return true;
}

static void join(const Finding *f, int attention) {
  Found x;
  if (!find(f, item(f, attention), &x)) return;
  const Op *update = item(f, x.update[0])->op, *rotation = x.rotation[1] < 0 ? NULL : item(f, x.rotation[1])->op;
  if (x.rotation[0] >= 0) {
    TensorPlace to = out_place(f, x.rotation[0]);
    if (!add_rotated(f, &x, x.rotation[0], &to, result_of(f, x.rotation[0]))) return;
  }
  if (!add_update(f, &x, 0) || !add_update(f, &x, 1) || !can_wait(f, &x)) return;
  x.in[0] = rotation ? rotation->in[1] : update->in[2], x.in[1] = update->in[2];
  for (int i = 0; i < 2; i++) x.in[2 + x.unit.n + i] = item(f, x.update[i])->op->in[0];
  x.unit.start = op_expr(update, AT_start);
  x.unit.base = rotation ? op_float(rotation, AT_base, 10000) : 1;
  x.unit.interleaved = rotation && op_int(rotation, AT_interleaved, 0) != 0;
  const int others[] = {x.update[1], x.rotation[0], x.rotation[1]};
  f->gone[x.update[0]] = true;
  for (int i = 0; i < 3; i++)
    if (others[i] >= 0) f->gone[others[i]] = true, x.unit.follow[x.unit.nfollow++] = item(f, others[i])->origin;
  Arena *a = f->w->arena;
  CacheUnit *unit = ARENA_NEW(a, CacheUnit);
  Op *op = ARENA_NEW(a, Op);
  Val *in = ARENA_ARRAY(a, Val, 4 + x.unit.n);
  *unit = x.unit;
  memcpy(unit->out, x.out, sizeof unit->out);
  memcpy(in, x.in, sizeof *in * (size_t)(4 + x.unit.n));
  *op = *update;
  op->nin = 4 + unit->n, op->in = in, op->out = unit->out[0];
  WorkOp *o = &f->w->ops.items[x.last];
  o->op = op, o->origin = item(f, x.update[0])->origin, o->place = NULL, o->cache = unit;
  f->gone[x.last] = false;
}

/* ---- the list */

static void rewrite(const Finding *f) {
  Work *w = f->w;
  size_t n = 0;
  WorkOp *items = ARENA_ARRAY(w->arena, WorkOp, w->ops.n + 1);
  for (int i = 0; i < (int)w->ops.n; i++) {
    if (!f->gone[i] && f->after[i] < 0) items[n++] = *item(f, i);
    for (int k = 0; k < i && item(f, i)->cache; k++)
      if (f->after[k] == i) items[n++] = *item(f, k);
  }
  memcpy(w->ops.items, items, sizeof *items * n);
  w->ops.n = n;
  work_find_defs(w);
}

void work_cache(Work *w) {
  Arena *a = w->arena;
  bool any = false;
  Finding f = {w, ARENA_ARRAY(a, int, work_values(w)), ARENA_ARRAY(a, bool, w->ops.n + 1),
               ARENA_ARRAY(a, int, w->ops.n + 1)};
  for (size_t i = 0; i < w->ops.n; i++) {
    const Op *op = w->ops.items[i].op;
    f.after[i] = -1, any |= op->kind == OP_update;
    for (int k = 0; k < op->nin; k++) f.reads[op->in[k]]++;
  }
  if (!any) return;
  for (size_t i = 0; i < w->f->outputs.n; i++) f.reads[w->f->outputs.items[i].value] += 2;
  for (int i = 0; i < (int)w->ops.n; i++)
    if (w->ops.items[i].op->kind == OP_attention && w->ops.items[i].op->nin > 2) join(&f, i);
  rewrite(&f);
}
