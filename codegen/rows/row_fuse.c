/* codegen/rows/row_fuse.c - groups the operations of a stage into kernels.
 *
 * Virtual operations are computed wherever they are used: constants, index numbers, and slices, transposes, broadcasts,
 * widenings and negations of values in memory (the operand of a broadcast along other than the last dimensions is
 * always in memory).  Every other operation starts as a group of its own; in order, each is merged with the groups of
 * its operands if
 *   - both are pointwise or row operations of one iteration space, and the operand is read at the position being
 *     computed, or once per row;
 *   - a group with a transpose that makes another dimension the last one has no row operations, and reads at most two
 *     whole tensors;
 *   - no path between the two groups leads through a third (the merged group would depend on itself);
 *   - no loop begins or ends between them, and both run before, in or after the micro-batches;
 *   - recomputation for gradients does not merge with earlier operations: its results would be live from there on;
 *   - the limits of a kernel hold: 64 operations, 16 buffers.
 * A value that another group needs is stored, but stays fused.  On devices with bundles, reductions along the same
 * dimension, other than the last, are merged as well if they read the same value, or one computed from it.
 */
#include <string.h>

#include "codegen/rows/row_work.h"

enum { MAX_GROUP_OPS = 64, MAX_GROUP_BUFFERS = 16 };

static bool is_fusable(const WorkOp *o) { return o->class == WC_MAP || o->class == WC_ROW; }

/* ---- virtual operations */

static bool moves_last_dim(const Work *w, const Op *op) {
  const Attr *perm = op_attr(op, AT_perm);
  const Type *y = work_type(w, op->out);
  for (int i = perm->n - 1; i >= 0; i--)
    if (!ex_is_const(y->dims[i], 1)) {
      for (int j = 0; j < perm->n; j++)
        if (perm->u.ints[j] > perm->u.ints[i] && !ex_is_const(y->dims[j], 1)) return true;
      return false;
    }
  return false;
}

static bool may_be_virtual(const Work *w, const WorkOp *o, int uses) {
  const Op *op = o->op;
  if (o->class != WC_MAP) return false;
  if (op_is_constant(op->kind)) return true;
  switch (op->kind) {
    case OP_transpose:
      if (moves_last_dim(w, op) && uses > 1) return false;
      break;
    case OP_cast:
      if (uses > 4) return false;
      break;
    case OP_neg: /* as in the half of a rotation that exporters write: concat(-x[d:], x[:d]) */
      if (uses > 1) return false;
      break;
    case OP_broadcast:
    case OP_reshape:
    case OP_slice:
    case OP_shard_slice: break;
    default: return false;
  }
  int def = work_def(w, op->in[0]);
  bool in_memory = def < 0 || !is_fusable(&w->ops.items[def]) || w->ops.items[def].virtual_;
  return in_memory ||
         (op->kind == OP_broadcast && !op_spreads_rows(op, work_type(w, op->in[0]), work_type(w, op->out)));
}

static void find_virtual(Work *w) {
  Arena *scratch = arena_new();
  int *uses = ARENA_ARRAY(scratch, int, w->ndef + 1);
  bool *in_memory = ARENA_ARRAY(scratch, bool, w->ndef + 1);
  for (size_t i = 0; i < w->f->outputs.n; i++)
    if (w->f->outputs.items[i].value < w->ndef) in_memory[w->f->outputs.items[i].value] = true;
  for (size_t i = 0; i < w->ops.n; i++) {
    const WorkOp *o = &w->ops.items[i];
    for (int k = 0; k < o->op->nin && o->live; k++) {
      if (o->op->in[k] >= w->ndef) continue;
      uses[o->op->in[k]]++;
      if (!is_fusable(o)) in_memory[o->op->in[k]] = true;
    }
  }
  for (size_t i = 0; i < w->ops.n; i++) {
    WorkOp *o = &w->ops.items[i];
    o->virtual_ = o->op->out && !in_memory[o->op->out] && may_be_virtual(w, o, uses[o->op->out]);
  }
  arena_free(scratch);
}

/* ---- spaces */

static WorkSpace space_of(const Work *w, const WorkOp *o) {
  WorkSpace s = {.reduced = -1, .rows = o->class == WC_ROW};
  if (!is_fusable(o)) return s;
  s.ndims = dense_dims(work_type(w, s.rows || work_is_total(o) ? o->op->in[0] : o->op->out), s.dims, NULL);
  if (s.rows) s.reduced = row_reduced_dim(w, o->op);
  if (s.rows) s.start = row_start(w, o->op);
  return s;
}

static bool same_dims(const WorkSpace *a, const WorkSpace *b) {
  return a->ndims == b->ndims && memcmp(a->dims, b->dims, sizeof a->dims[0] * (size_t)a->ndims) == 0;
}

/* True if a's dimensions are those of b without the reduced one. */
static bool is_row_space(const WorkSpace *a, const WorkSpace *b) {
  if (b->reduced < 0 || a->ndims != b->ndims - 1) return false;
  for (int i = 0; i < a->ndims; i++)
    if (a->dims[i] != b->dims[i + (i >= b->reduced)]) return false;
  return true;
}

/* Finds the space in which both groups can be computed.  False if none. */
static bool common_space(const WorkSpace *a, const WorkSpace *b, WorkSpace *out) {
  if (a->rows && b->rows) {
    *out = *a;
    if (!a->start) out->start = b->start;
    return same_dims(a, b) && a->reduced == b->reduced && (!a->start || !b->start || a->start == b->start);
  }
  if (!a->rows && !b->rows) {
    *out = *a;
    return same_dims(a, b);
  }
  const WorkSpace *rows = a->rows ? a : b, *map = a->rows ? b : a;
  *out = *rows;
  return same_dims(rows, map) || is_row_space(map, rows);
}

/* True if the operation reads its operands at the position it computes, or at the row; false for unlisted
 * operations. */
static bool computes_in_place(OpKind k) {
  switch (k) {
    case OP_reshape: /* one that drops or adds extents of 1 */
    case OP_mask_partial: return true;
    default: return op_is_elementwise(k) || op_is_along(k);
  }
}

/* Maps each dense dimension of a broadcast's operand to its loop dimension; false if one has none. */
static bool broadcast_loops(const Work *w, const Op *op, const WorkSpace *s, int *loop) {
  const Attr *dims = op_attr(op, AT_dims);
  const Expr *y_dims[MAX_RANK];
  int where[MAX_RANK], y_where[MAX_RANK], n = dense_dims(work_type(w, op->in[0]), NULL, where);
  int y_rank = dense_dims(work_type(w, op->out), y_dims, y_where);
  bool full = y_rank == s->ndims;
  for (int i = 0; i < n; i++) {
    int at = -1;
    for (int j = 0; j < y_rank; j++)
      if (y_where[j] == dims->u.ints[where[i]]) at = j;
    if (at < 0) return false;
    loop[i] = full || s->reduced < 0 || at < s->reduced ? at : at + 1;
  }
  return true;
}

/* True if, in the common space, `op` reads operand k at the position it computes (or at its row).  The dense dimensions
 * of the operand must be loop dimensions in order: all of them, or all except the reduced one. */
static bool reads_in_place(const Work *w, const Op *op, int k, const WorkSpace *s) {
  int loop[MAX_RANK], n = dense_dims(work_type(w, op->in[k]), NULL, NULL);
  bool full = n == s->ndims;
  if (op->kind == OP_broadcast) {
    if (!broadcast_loops(w, op, s, loop)) return false;
  } else {
    if (!computes_in_place(op->kind)) return false;
    for (int i = 0; i < n; i++) loop[i] = full || s->reduced < 0 || i < s->reduced ? i : i + 1;
  }
  if (full) {
    for (int i = 0; i < n; i++)
      if (loop[i] != i) return false;
    return true;
  }
  if (s->reduced < 0 || n != s->ndims - 1) return false;
  for (int i = 0; i < n; i++)
    if (loop[i] != i + (i >= s->reduced)) return false;
  return true;
}

/* ---- groups */

/* Calls visit for every value that `v` reads from memory or another group, looking through virtual operations. */
static void leaves(const Work *w, Val v, void (*visit)(void *, Val), void *context) {
  int def = work_def(w, v);
  if (def < 0 || !w->ops.items[def].virtual_) {
    visit(context, v);
    return;
  }
  const Op *op = w->ops.items[def].op;
  for (int k = 0; k < op->nin; k++) leaves(w, op->in[k], visit, context);
}

static int group_of(const Work *w, Val v) {
  int def = work_def(w, v);
  return def < 0 ? -1 : w->ops.items[def].group;
}

static void add_link(Arena *a, GroupLinks *l, int g) {
  for (size_t i = 0; i < l->n; i++)
    if (l->items[i] == g) return;
  ARENA_PUSH(a, l, g);
}

typedef struct Needs {
  Work *w;
  int group;
} Needs;

/* Links a new group to a group it needs.  No group needs the new one yet. */
static void add_need(void *context, Val v) {
  Needs *c = context;
  int g = group_of(c->w, v);
  if (g < 0 || g == c->group) return;
  WorkGroup *to = &c->w->groups.items[c->group], *from = &c->w->groups.items[g];
  if (from->late > to->late) to->late = from->late;
  add_link(c->w->arena, &to->reads, g);
  add_link(c->w->arena, &from->users, c->group);
}

void work_link(Work *w, const WorkOp *o) {
  Needs needs = {w, o->group};
  for (int k = 0; k < o->op->nin; k++) leaves(w, o->op->in[k], add_need, &needs);
}

typedef struct Buffers {
  const Work *w;
  int a, b, n;
  Val seen[2 * MAX_GROUP_BUFFERS + 1];
} Buffers;

static void add_buffer(void *context, Val v) {
  Buffers *c = context;
  int g = group_of(c->w, v);
  if ((g >= 0 && (g == c->a || g == c->b)) || c->n > 2 * MAX_GROUP_BUFFERS) return;
  for (int i = 0; i < c->n; i++)
    if (c->seen[i] == v) return;
  c->seen[c->n++] = v;
}

/* Returns the values that both groups read from memory or other groups. */
static Buffers read_by(const Work *w, int a, int b) {
  const WorkGroup *both[2] = {&w->groups.items[a], &w->groups.items[b]};
  Buffers c = {.w = w, .a = a, .b = b};
  for (int t = 0; t < 2; t++)
    for (int i = 0; i < both[t]->n; i++) {
      const Op *op = w->ops.items[both[t]->ops[i]].op;
      for (int k = 0; k < op->nin; k++) leaves(w, op->in[k], add_buffer, &c);
    }
  return c;
}

static bool has_turned(const Work *w, const WorkGroup *g) {
  bool any = false;
  for (int i = 0; i < g->n; i++) {
    const Op *op = w->ops.items[g->ops[i]].op;
    any |= op->kind == OP_transpose && moves_last_dim(w, op);
  }
  return any;
}

/* True if the merged group keeps the limits.  A kernel with a transpose that makes another dimension the last one runs
 * by tiles (codegen/cpu/print_c.c), if it has no rows; the cache cannot hold the lines of many values together. */
static bool within_limits(const Work *w, int a, int b, const WorkSpace *s) {
  enum { MAX_TURNED = 2 };
  const WorkGroup *x = &w->groups.items[a], *y = &w->groups.items[b];
  if (x->n + y->n > MAX_GROUP_OPS) return false;
  Buffers c = read_by(w, a, b);
  if (!has_turned(w, x) && !has_turned(w, y)) return c.n < MAX_GROUP_BUFFERS;
  int whole = 0;
  for (int i = 0; i < c.n; i++) whole += dense_dims(work_type(w, c.seen[i]), NULL, NULL) == s->ndims;
  return !s->rows && whole <= MAX_TURNED;
}

/* Queues a group to be visited, once: `round` marks visited groups.  Groups that depend on another are at least as
 * late. */
static void look_at(Work *w, int g, int late) {
  WorkGroup *group = &w->groups.items[g];
  if (group->late < late || group->seen == w->round) return;
  group->seen = w->round;
  ARENA_PUSH(w->arena, &w->todo, g);
}

/* True if there is a third group on a path between the two.  The last one on such a path is one that `to` reads. */
static bool has_detour(Work *w, int from, int to) {
  const WorkGroup *groups = w->groups.items;
  const int late = groups[from].late;
  if (groups[to].late < late) return false;
  w->round++, w->todo.n = 0;
  bool found = false;
  for (size_t i = 0; i < groups[to].reads.n; i++)
    if (groups[to].reads.items[i] != from) look_at(w, groups[to].reads.items[i], late);
  while (w->todo.n && !found) {
    const GroupLinks *reads = &groups[w->todo.items[--w->todo.n]].reads;
    for (size_t i = 0; i < reads->n; i++) found |= reads->items[i] == from, look_at(w, reads->items[i], late);
  }
  return found;
}

typedef struct Within {
  const Work *w;
  int a, b;
  bool any;
} Within;

static void find_within(void *context, Val v) {
  Within *c = context;
  int g = group_of(c->w, v);
  c->any |= g >= 0 && (g == c->a || g == c->b);
}

/* True if `v` is read from memory: virtual operations may not read values that the kernel is about to store. */
static bool reads_stored(const Work *w, int a, int b, Val v) {
  int def = work_def(w, v);
  Within c = {w, a, b, false};
  if (def < 0 || !w->ops.items[def].virtual_) return true;
  leaves(w, v, find_within, &c);
  return !c.any;
}

/* True if every member reads the other group's values at the position it computes. */
static bool members_in_place(const Work *w, int a, int b, const WorkSpace *s) {
  const WorkGroup *both[2] = {&w->groups.items[a], &w->groups.items[b]};
  for (int t = 0; t < 2; t++)
    for (int i = 0; i < both[t]->n; i++) {
      const Op *op = w->ops.items[both[t]->ops[i]].op;
      for (int k = 0; k < op->nin; k++) {
        int g = group_of(w, op->in[k]);
        if (!reads_stored(w, a, b, op->in[k])) return false;
        if (g < 0 || (g != a && g != b)) continue;
        if (!reads_in_place(w, op, k, s)) return false;
        /* A column reduction keeps its columns apart; a second pass over them is another kernel. */
        if (op->kind == OP_broadcast && s->reduced >= 0 && s->reduced != s->ndims - 1) return false;
      }
    }
  return true;
}

static void drop_link(GroupLinks *l, int g) {
  size_t n = 0;
  for (size_t i = 0; i < l->n; i++)
    if (l->items[i] != g) l->items[n++] = l->items[i];
  l->n = n;
}

/* Merges the links of the second group into those of the first. */
static void merge_links(Work *w, int into, int from) {
  Arena *arena = w->arena;
  WorkGroup *groups = w->groups.items, *a = &groups[into], *b = &groups[from];
  drop_link(&a->reads, from), drop_link(&a->users, from);
  drop_link(&b->reads, into), drop_link(&b->users, into);
  for (size_t i = 0; i < b->reads.n; i++) {
    int g = b->reads.items[i];
    drop_link(&groups[g].users, from);
    add_link(arena, &groups[g].users, into), add_link(arena, &a->reads, g);
  }
  for (size_t i = 0; i < b->users.n; i++) {
    int g = b->users.items[i];
    drop_link(&groups[g].reads, from);
    add_link(arena, &groups[g].reads, into), add_link(arena, &a->users, g);
  }
}

/* Makes the groups that depend on this one at least as late. */
static void spread_late(Work *w, int into) {
  Arena *arena = w->arena;
  w->todo.n = 0;
  ARENA_PUSH(arena, &w->todo, into);
  while (w->todo.n) {
    const WorkGroup *g = &w->groups.items[w->todo.items[--w->todo.n]];
    for (size_t i = 0; i < g->users.n; i++) {
      WorkGroup *user = &w->groups.items[g->users.items[i]];
      if (user->late >= g->late) continue;
      user->late = g->late;
      ARENA_PUSH(arena, &w->todo, g->users.items[i]);
    }
  }
}

static void merge(Work *w, int into, int from, const WorkSpace *space) {
  WorkGroup *a = &w->groups.items[into], *b = &w->groups.items[from];
  int n = a->n + b->n, *ops = ARENA_ARRAY(w->arena, int, n);
  for (int i = 0, x = 0, y = 0; i < n; i++)
    ops[i] = y == b->n || (x < a->n && a->ops[x] < b->ops[y]) ? a->ops[x++] : b->ops[y++];
  a->ops = ops, a->n = n, a->space = *space;
  a->again |= b->again, a->back &= b->back;
  for (int i = 0; i < b->n; i++) w->ops.items[b->ops[i]].group = into;
  b->dead = true;
  if (b->late > a->late) a->late = b->late;
  merge_links(w, into, from);
  spread_late(w, into);
}

static void try_merge(Work *w, int a, int b) {
  WorkSpace s;
  if (a == b || a < 0 || b < 0 || !w->groups.items[a].fusable || !w->groups.items[b].fusable) return;
  if (w->groups.items[a].segment != w->groups.items[b].segment) return;
  if (w->groups.items[a].again || w->groups.items[b].again)
    if (!w->groups.items[a].back || !w->groups.items[b].back) return;
  if (!common_space(&w->groups.items[a].space, &w->groups.items[b].space, &s)) return;
  if (!within_limits(w, a, b, &s) || !members_in_place(w, a, b, &s)) return;
  if (has_detour(w, a, b) || has_detour(w, b, a)) return;
  merge(w, b, a, &s);
}

typedef struct Candidates {
  const Work *w;
  int n, groups[3 * MAX_OPERANDS];
} Candidates;

static void add_candidate(void *context, Val v) {
  Candidates *c = context;
  int g = group_of(c->w, v);
  if (g >= 0 && c->n < 3 * MAX_OPERANDS) c->groups[c->n++] = g;
}

typedef struct Readers {
  const Work *w;
  int op, other; /* other: a group */
  int *first;    /* by value: the first operation found to read it; -1 if none */
} Readers;

static void note_reader(void *context, Val v) {
  Readers *c = context;
  if (c->first[v] < 0) c->first[v] = c->op;
}

static void find_reader(void *context, Val v) {
  Readers *c = context;
  if (c->first[v] >= 0) c->other = c->w->ops.items[c->first[v]].group;
}

/* Visits the values that an operand is computed from: those in memory, and slices of them, each of which is a value of
 * its own. */
static void parts_read(Readers *c, Val v, void (*visit)(void *, Val)) {
  int def = work_def(c->w, v);
  const WorkOp *o = def < 0 ? NULL : &c->w->ops.items[def];
  if (!o || !o->virtual_ || o->op->kind == OP_slice || o->op->kind == OP_shard_slice) {
    visit(c, v);
    return;
  }
  for (int k = 0; k < o->op->nin; k++) parts_read(c, o->op->in[k], visit);
}

/* Merges totals with groups of the update that read the same value from memory. */
static void merge_totals(Work *w) {
  Arena *scratch = arena_new();
  size_t n = w->f->values.n + w->temps.n + 1;
  Readers c = {.w = w, .first = ARENA_ARRAY(scratch, int, n)};
  for (size_t v = 0; v < n; v++) c.first[v] = -1;
  bool *has_total = ARENA_ARRAY(scratch, bool, w->groups.n + 1);
  for (size_t i = 0; i < w->ops.n; i++)
    if (w->ops.items[i].live && work_is_total(&w->ops.items[i])) has_total[w->ops.items[i].group] = true;
  for (int totals = 0; totals < 2; totals++)
    for (size_t i = 0; i < w->ops.n; i++) {
      const WorkOp *o = &w->ops.items[i];
      if (!o->live || o->virtual_ || o->class != WC_MAP || !work_in_update(w, o) || has_total[o->group] != totals)
        continue;
      c.op = (int)i, c.other = -1;
      for (int k = 0; k < o->op->nin; k++) parts_read(&c, o->op->in[k], totals ? find_reader : note_reader);
      if (c.other < 0) continue;
      try_merge(w, c.other, o->group);
      has_total[o->group] = true;
    }
  arena_free(scratch);
}

static bool is_column_sum(const WorkGroup *g) {
  return !g->dead && g->space.rows && g->space.reduced >= 0 && g->space.reduced != g->space.ndims - 1;
}

/* Visits the whole tensors that an operation reads from memory. */
static void whole_leaves(Readers *c, const WorkOp *o, void (*visit)(void *, Val)) {
  const int ndims = c->w->groups.items[o->group].space.ndims;
  for (int k = 0; k < o->op->nin; k++)
    if (dense_dims(work_type(c->w, o->op->in[k]), NULL, NULL) == ndims) parts_read(c, o->op->in[k], visit);
}

/* Returns the operand of a cast, which kernels read instead (row_copies.c). */
static Val uncast(const Work *w, Val v) {
  int def = work_def(w, v);
  return def >= 0 && w->ops.items[def].op->kind == OP_cast ? w->ops.items[def].op->in[0] : v;
}

/* True if group `a` reads only what group `b` reads as well. */
static bool reads_no_more(const Work *w, int a, int b) {
  Buffers x = read_by(w, a, a), y = read_by(w, b, b);
  for (int i = 0, k; i < x.n; i++) {
    for (k = 0; k < y.n && y.seen[k] != x.seen[i] && y.seen[k] != uncast(w, x.seen[i]);) k++;
    if (k == y.n) return false;
  }
  return true;
}

/* Finds a group that reads only what the kernel of `v` reads as well, so that nothing stays in memory for longer. */
static void find_beside(void *context, Val v) {
  Readers *c = context, beside = {.w = c->w, .other = -1, .first = c->first};
  const int g = group_of(c->w, v);
  if (g < 0 || is_column_sum(&c->w->groups.items[g])) return;
  for (int i = 0; i < c->w->groups.items[g].n; i++) {
    whole_leaves(&beside, &c->w->ops.items[c->w->groups.items[g].ops[i]], find_reader);
    if (beside.other >= 0 && reads_no_more(c->w, beside.other, g)) c->other = beside.other;
  }
}

/* Merges reductions along the same dimension, other than the last, that read the same tensor: the gradients of a norm's
 * gain and bias.  Also one that reads what a kernel computes from their tensors: the norm's data gradient, whose sum is
 * the gradient of the bias of the product before it. */
static void merge_column_sums(Work *w) {
  Arena *scratch = arena_new();
  size_t n = w->f->values.n + w->temps.n + 1;
  Readers c = {.w = w, .first = ARENA_ARRAY(scratch, int, n)};
  for (size_t v = 0; v < n; v++) c.first[v] = -1;
  for (size_t i = 0; i < w->ops.n; i++) {
    const WorkOp *o = &w->ops.items[i];
    if (!o->live || o->virtual_ || !is_column_sum(&w->groups.items[o->group])) continue;
    c.other = -1;
    whole_leaves(&c, o, find_reader);
    if (c.other < 0) whole_leaves(&c, o, find_beside);
    if (c.other >= 0) try_merge(w, c.other, o->group);
    c.op = (int)i;
    whole_leaves(&c, o, note_reader);
  }
  arena_free(scratch);
}

static void mark_stored(void *context, Val v) { ((Work *)context)->stored[v] = true; }

/* Marks the values that outputs and other groups read, which must be in memory. */
static void find_stored(Work *w) {
  w->stored = ARENA_ARRAY(w->arena, bool, w->f->values.n + w->temps.n + 1);
  for (size_t i = 0; i < w->f->outputs.n; i++) w->stored[w->f->outputs.items[i].value] = true;
  for (size_t i = 0; i < w->ops.n; i++) {
    const WorkOp *o = &w->ops.items[i];
    if (o->virtual_ || !o->live) continue;
    for (int k = 0; k < o->op->nin; k++) {
      if (group_of(w, o->op->in[k]) == o->group) continue; /* virtual operations have no group */
      leaves(w, o->op->in[k], mark_stored, w);
    }
  }
}

/* Returns the segment of an operation.  The kernels of a bundle read gradients; none computes them. */
static int segment_of(const Work *w, const WorkOp *o, int segment) {
  int phase = (PH_END - PH_FIRST) * segment + o->phase - PH_FIRST;
  return 2 * phase + work_in_update(w, o);
}

/* Creates a group for an operation; a carry and a leave join the previous group, of their loop or repeat. */
static void add_to_group(Work *w, int i, int *segment) {
  WorkOp *o = &w->ops.items[i];
  if (o->op->kind == OP_carry || o->op->kind == OP_leave) {
    WorkGroup *g = &w->groups.items[w->groups.n - 1];
    int *ops = ARENA_ARRAY(w->arena, int, g->n + 1);
    memcpy(ops, g->ops, sizeof *ops * (size_t)g->n);
    ops[g->n++] = i;
    g->ops = ops, g->late = i;
    o->group = (int)w->groups.n - 1;
    return;
  }
  *segment += o->class == WC_LOOP || o->class == WC_REPEAT || o->class == WC_BIND;
  WorkGroup g = {.n = 1,
                 .ops = ARENA_ARRAY(w->arena, int, 1),
                 .space = space_of(w, o),
                 .fusable = is_fusable(o),
                 .again = o->op->again,
                 .back = o->back,
                 .segment = segment_of(w, o, *segment),
                 .late = i,
                 .bundle = -1};
  g.ops[0] = i;
  o->group = (int)w->groups.n;
  ARENA_PUSH(w->arena, &w->groups, g);
}

/* Reserves groups: most operations start with one of their own. */
static void reserve_groups(Work *w) {
  size_t n = 0;
  for (size_t i = 0; i < w->ops.n; i++) n += w->ops.items[i].live && !w->ops.items[i].virtual_;
  w->groups.cap = n;
  w->groups.items = ARENA_ARRAY(w->arena, WorkGroup, n);
}

static void find_back(Work *w) {
  for (size_t i = 0; i < w->ops.n; i++) {
    WorkOp *o = &w->ops.items[i];
    o->back = o->op->again;
    for (int k = 0; k < o->op->nin; k++) {
      int def = work_def(w, o->op->in[k]);
      o->back |= def >= 0 && w->ops.items[def].back;
    }
  }
}

void work_fuse(Work *w) {
  int last_comm = -1, segment = 0;
  find_virtual(w);
  find_back(w);
  reserve_groups(w);
  for (size_t i = 0; i < w->ops.n; i++) {
    WorkOp *o = &w->ops.items[i];
    if (o->virtual_ || !o->live) continue;
    add_to_group(w, (int)i, &segment);
    Needs needs = {w, o->group};
    Candidates c = {.w = w};
    bool arrives = o->class == WC_COMM && o->op->stage != w->stage;
    for (int k = 0; k < o->op->nin && !arrives; k++) {
      leaves(w, o->op->in[k], add_need, &needs);
      if (work_def(w, o->op->in[k]) >= 0 && !w->ops.items[work_def(w, o->op->in[k])].virtual_)
        add_candidate(&c, o->op->in[k]);
    }
    if (o->class == WC_COMM) {
      if (last_comm >= 0) add_need(&needs, w->ops.items[last_comm].op->out);
      last_comm = (int)i;
    }
    for (int k = 0; k < c.n; k++)
      if (!w->groups.items[c.groups[k]].dead) try_merge(w, o->group, c.groups[k]);
  }
  if (w->all->totals) merge_totals(w);
  if (w->device->bundles) merge_column_sums(w);
  find_stored(w);
  if (!w->all->update) return;
  work_copy_values(w);
  find_stored(w);
  work_drop_empty(w);
}
