/* codegen/rows/work_grow.c - attentions that extend their caches.
 *
 * Decoders whose cache is an input and an output of every request join it with the keys (values) of the new tokens, and
 * attend to the result.  A kernel for the join reads and writes the whole cache, and the attention reads it again.
 * Instead the attention takes both parts and writes the longer cache itself while it reads them.
 *
 * In: legalised operations.  The join must have two operands along the keys, the first of which is in memory anyway.
 * No operation may read its result before the attention; no loop may begin or end between them, and both must run once
 * or both in every micro-batch: then the result can be made where the attention is.  Later readers, and outputs, get
 * the tensor that the attention wrote.  Not if there are certainly many rows: copying is then a small part of the work,
 * and the attention would do it before it begins.
 *
 * A cache that the program keeps (passes/rewrite/kv_cache.c) is longer than its part in use, which is a slice.  The
 * attention reads that part in place, however many rows there are.
 */
#include <string.h>

#include "codegen/rows/row_work.h"

/* FEW + 1 of codegen/cpu/kernel_attention.h. */
enum { MANY_ROWS = 17, KEYS = 2 };

static bool has_many_rows(const Work *w, const Op *op) {
  int64_t rows;
  return ex_get_const(type_product(w->m, work_type(w, op->in[0]), 2, 4), &rows) && rows >= MANY_ROWS;
}

/* True if reading the value in place needs no computation. */
static bool is_in_memory(const Work *w, Val v) {
  const Expr *offset;
  int def = work_def(w, v);
  if (def < 0 || w->ops.items[def].class != WC_MAP) return true;
  const Op *op = w->ops.items[def].op;
  return op->nin > 0 && work_is_view(w, op, &offset) && is_in_memory(w, op->in[0]);
}

static bool is_plain_join(const Work *w, const Op *op) {
  if (op->kind != OP_concat || op->nin != 2 || op_int(op, AT_axis, 0) != KEYS) return false;
  const Type *past = work_type(w, op->in[0]), *more = work_type(w, op->in[1]);
  return ex_add(w->m, past->dims[KEYS], more->dims[KEYS]) == work_type(w, op->out)->dims[KEYS] &&
         is_in_memory(w, op->in[0]);
}

static int times_read(const Op *op, Val v) {
  int n = 0;
  for (int i = 0; i < op->nin; i++) n += op->in[i] == v;
  return n;
}

/* True if both operations run equally often: no loop begins or ends between them. */
static bool run_together(const Work *w, int from, int to) {
  bool together = w->ops.items[from].phase == w->ops.items[to].phase;
  for (int i = from + 1; i < to; i++) {
    WorkClass c = w->ops.items[i].class;
    together &= c != WC_LOOP && c != WC_REPEAT && c != WC_BIND;
  }
  return together;
}

/* True if the result of operation `from` can be made at operation `to`, which reads it once. */
static bool can_wait(const Work *w, int from, int to) {
  const WorkOp *made = &w->ops.items[from], *reader = &w->ops.items[to];
  if (!run_together(w, from, to) || times_read(reader->op, made->op->out) != 1) return false;
  for (int i = from + 1; i < to; i++) {
    if (times_read(w->ops.items[i].op, made->op->out)) return false;
  }
  return true;
}

/* The operation that makes the value, below reshapes; -1 if none does. */
static int made_by(const Work *w, Val v) {
  int def = work_def(w, v);
  while (def >= 0 && w->ops.items[def].op->kind == OP_reshape) def = work_def(w, w->ops.items[def].op->in[0]);
  return def;
}

/* True for a slice that keeps the first keys of a value in memory. */
static bool is_prefix(const Work *w, const Op *op) {
  if (op->kind != OP_slice || !is_in_memory(w, op->in[0])) return false;
  const Type *x = work_type(w, op->in[0]), *y = work_type(w, op->out);
  bool is = x->rank == 4;
  for (int d = 0; is && d < x->rank; d++)
    is = (d == KEYS || x->dims[d] == y->dims[d]) && ex_is_const(op_attr(op, AT_starts)->u.exprs[d], 0) &&
         op_attr(op, AT_strides)->u.ints[d] == 1;
  return is;
}

/* Lets the attention at `at` read the first keys and values of longer ones in place. */
static void shorten(Work *w, int at) {
  Arena *a = w->arena;
  WorkOp *o = &w->ops.items[at];
  GrowUnit g = {.op = o->op};
  Val *in = ARENA_ARRAY(a, Val, o->op->nin);
  memcpy(in, o->op->in, sizeof *in * (size_t)o->op->nin);
  for (int i = 1; i <= 2; i++) {
    int from = made_by(w, in[i]);
    if (from < 0 || !is_prefix(w, w->ops.items[from].op) || !run_together(w, from, at)) continue;
    const Op *slice = w->ops.items[from].op;
    if (work_type(w, slice->out) != work_type(w, in[i])) continue;
    in[i] = slice->in[0], g.room[i - 1] = work_type(w, in[i])->dims[KEYS];
  }
  if (!g.room[0] && !g.room[1]) return;
  Op *op = ARENA_NEW(a, Op);
  GrowUnit *unit = ARENA_NEW(a, GrowUnit);
  *op = *o->op, *unit = g;
  op->in = in;
  o->op = op, o->grow = unit;
}

/* Gives the attention at `at` the operands of the joins it reads. */
static void grow(Work *w, int at, bool *gone) {
  Arena *a = w->arena;
  WorkOp *o = &w->ops.items[at];
  GrowUnit g = {.op = o->op};
  Op *op = ARENA_NEW(a, Op);
  Val *in = ARENA_ARRAY(a, Val, o->op->nin + 2);
  memcpy(in, o->op->in, sizeof *in * (size_t)o->op->nin);
  for (int i = 1; i <= 2; i++) {
    int from = work_def(w, o->op->in[i]);
    if (from < 0 || gone[from] || !is_plain_join(w, w->ops.items[from].op) || !can_wait(w, from, at)) continue;
    const Op *join = w->ops.items[from].op;
    in[i] = join->in[0], in[o->op->nin + g.n] = join->in[1];
    g.operand[g.n] = i, g.whole[g.n++] = join->out;
    gone[from] = true;
  }
  if (!g.n) return;
  *op = *o->op;
  op->nin = o->op->nin + g.n, op->in = in;
  GrowUnit *unit = ARENA_NEW(a, GrowUnit);
  *unit = g;
  o->op = op, o->grow = unit;
}

void work_grow(Work *w) {
  bool *gone = ARENA_ARRAY(w->arena, bool, w->ops.n + 1);
  for (int i = 0; i < (int)w->ops.n; i++) {
    const Op *op = w->ops.items[i].op;
    if (op->kind == OP_attention && !has_many_rows(w, op)) grow(w, i, gone);
    if (op->kind == OP_attention && !w->ops.items[i].grow) shorten(w, i);
  }
  work_remove(w, gone);
}
