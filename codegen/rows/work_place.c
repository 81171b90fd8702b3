/* codegen/rows/work_place.c - attentions and rotations read and write heads in the layout of the products around them.
 *
 * A product makes and reads [batch, sequence, heads, size]; at level 1 an attention reads [batch, groups, repeats,
 * sequence, size].  Between them are transposes, reshapes and slices, which would be copies.  Instead the kernels take
 * strides: operands are read through the operations that move them, and a result that only one chain of transposes and
 * reshapes reads is written in the layout at the chain's end.  Gradients of one attention (work_grads.c) are written
 * side by side if a concatenation reads them all, and nothing else.
 *
 * In: legalised operations.  Out: the same with other operands and results (PlaceUnit), and without the operations that
 * lost all readers.  An attention_grad finds the result of its attention at its new place.  Strides are expressions, so
 * a dimension is split if extents are known to be equal as expressions; moves that strides cannot describe remain
 * kernels.  The innermost dimension keeps its elements contiguous, and a rotation has at most two dimensions before the
 * positions.
 */
#include <string.h>

#include "base/die.h"
#include "codegen/rows/row_work.h"

typedef struct Placing {
  Work *w;
  int *reads, *reader; /* by value: its number of readers, and the last operation that reads it */
  bool *output;        /* by value: it is an output of the function */
  bool *gone;          /* by operation */
} Placing;

static bool has_places(OpKind k) { return k == OP_attention || k == OP_attention_grad || k == OP_rope; }

/* True if the kernel takes strides for that operand.  The last four of an attention_grad are result, maxima,
 * sums and gradient. */
static bool takes_place(const Op *op, int i) {
  if (op->kind == OP_rope) return i == 0;
  return i < 3 || (op->kind == OP_attention_grad && (i == op->nin - 4 || i == op->nin - 1));
}

TensorPlace work_dense_place(Module *m, const Type *t) {
  TensorPlace p = {.type = t, .offset = ex_const(m, 0)};
  for (int d = 0; d < t->rank; d++) p.stride[d] = row_type_stride(m, t, d);
  return p;
}

/* ---- through operations that move elements */

/* Dimensions [i, i + a) of the place become [j, j + b) of the new one: merged if they are contiguous, or split from
 * one. */
static bool regroup(const Work *w, const TensorPlace *from, int i, int a, TensorPlace *to, int j, int b) {
  Module *m = w->m;
  for (int d = i; d + 1 < i + a; d++)
    if (from->stride[d] != ex_mul(m, from->type->dims[d + 1], from->stride[d + 1])) return false;
  const Expr *stride = from->stride[i + a - 1];
  for (int d = j + b - 1; d >= j; d--) to->stride[d] = stride, stride = ex_mul(m, stride, to->type->dims[d]);
  return true;
}

/* Finds the fewest dimensions from i and j on that have equally many elements in both. */
static bool equal_extents(const Work *w, const TensorPlace *from, int i, const TensorPlace *to, int j, int *a, int *b) {
  for (int n = 2; n <= from->type->rank - i + to->type->rank - j; n++)
    for (*a = 1; *a < n; ++*a) {
      *b = n - *a;
      if (i + *a > from->type->rank || j + *b > to->type->rank) continue;
      if (type_product(w->m, from->type, i, i + *a) == type_product(w->m, to->type, j, j + *b)) return true;
    }
  return false;
}

/* Describes the same elements as type `t`; false if one stride per dimension does not suffice. */
static bool reshaped(const Work *w, const TensorPlace *from, const Type *t, TensorPlace *to) {
  int i = 0, j = 0;
  *to = (TensorPlace){.type = t, .offset = from->offset};
  for (int a, b; i < from->type->rank || j < t->rank; i += a, j += b) {
    a = b = 0;
    if (i < from->type->rank && ex_is_const(from->type->dims[i], 1)) a = 1;
    else if (j < t->rank && ex_is_const(t->dims[j], 1)) b = 1, to->stride[j] = ex_const(w->m, 0);
    else if (!equal_extents(w, from, i, to, j, &a, &b) || !regroup(w, from, i, a, to, j, b)) return false;
  }
  return true;
}

static bool moved(const Work *w, const Op *op, const TensorPlace *from, TensorPlace *to) {
  Module *m = w->m;
  const Type *t = work_type(w, op->out);
  *to = (TensorPlace){.type = t, .offset = from->offset};
  switch (op->kind) {
    case OP_reshape: return reshaped(w, from, t, to);
    case OP_transpose:
      for (int d = 0; d < t->rank; d++) to->stride[d] = from->stride[op_attr(op, AT_perm)->u.ints[d]];
      return true;
    case OP_slice:
      for (int d = 0; d < t->rank; d++) {
        const Expr *start = op_attr(op, AT_starts)->u.exprs[d];
        to->offset = ex_add(m, to->offset, ex_mul(m, start, from->stride[d]));
        to->stride[d] = ex_muli(m, from->stride[d], op_attr(op, AT_strides)->u.ints[d]);
      }
      return true;
    default: return false;
  }
}

/* Finds the place of the operand's elements of `op` in its result. */
static bool moved_back(const Work *w, const Op *op, const TensorPlace *to, TensorPlace *from) {
  const Type *t = work_type(w, op->in[0]);
  *from = (TensorPlace){.type = t, .offset = to->offset};
  if (op->kind == OP_reshape) return reshaped(w, to, t, from);
  for (int d = 0; d < t->rank; d++) from->stride[op_attr(op, AT_perm)->u.ints[d]] = to->stride[d];
  return true;
}

/* ---- the places that a kernel can take */

static bool is_one(const Expr *e) { return ex_is_const(e, 1); }

static bool fits(const Op *op, const TensorPlace *p) {
  int rank = p->type->rank;
  bool wide = !is_one(p->type->dims[rank - 1]) && !is_one(p->stride[rank - 1]);
  return !wide && (op->kind != OP_rope || rank <= 5);
}

/* ---- results */

static bool turns(const Op *op) { return op->kind == OP_transpose || op->kind == OP_reshape; }

/* Returns the only reader of `v` that does not read it in place; -1 unless there is exactly one. */
static int only_reader(const Placing *p, Val v) {
  int found = -1;
  if (p->output[v]) return -1;
  if (p->reads[v] == 1) return p->reader[v];
  for (size_t i = 0; i < p->w->ops.n; i++) {
    const Op *op = p->w->ops.items[i].op;
    for (int k = 0; k < op->nin; k++) {
      if (op->in[k] != v || (op->kind == OP_attention_grad && takes_place(op, k))) continue;
      if (found >= 0) return -1;
      found = (int)i;
    }
  }
  return found;
}

/* The transposes and reshapes that alone read a result, in order. */
typedef struct Chain {
  const WorkOp *first; /* the operation of the result */
  const Op *op;        /* itself, or one of its parts */
  int at[MAX_RANK], n;
  Val end; /* the value of the last one, or the result */
} Chain;

static Chain chain_after(const Placing *p, const WorkOp *first, const Op *op) {
  Chain c = {.first = first, .op = op, .end = op->out};
  for (int next = only_reader(p, op->out); next >= 0 && c.n < MAX_RANK;) {
    const WorkOp *o = &p->w->ops.items[next];
    if (!turns(o->op) || !work_same_time(first, o)) break;
    c.at[c.n++] = next, c.end = o->op->out;
    next = p->output[o->op->out] || p->reads[o->op->out] != 1 ? -1 : p->reader[o->op->out];
  }
  return c;
}

/* Finds the place of the result if the value after n moves of the chain lies as `lies` says.  False if the kernel
 * cannot write there. */
static bool place_before(const Placing *p, const Chain *c, int n, TensorPlace lies, TensorPlace *place) {
  for (int i = n; i-- > 0; lies = *place)
    if (!moved_back(p->w, p->w->ops.items[c->at[i]].op, &lies, place)) return false;
  *place = lies;
  return fits(c->op, place);
}

static void pass(Placing *p, int at) { p->gone[at] = p->w->passed[p->w->ops.items[at].origin] = true; }

/* Places a result as late in its chain as the kernel can, and marks the operations that it replaces.  Returns the value
 * that holds it; 0: the result itself. */
static Val place_result(Placing *p, const Chain *c, TensorPlace *place) {
  Val result = 0;
  int best = 0;
  for (int n = 1; n <= c->n; n++) {
    const Val v = p->w->ops.items[c->at[n - 1]].op->out;
    TensorPlace found;
    if (place_before(p, c, n, work_dense_place(p->w->m, work_type(p->w, v)), &found))
      best = n, *place = found, result = v;
  }
  for (int i = 0; i < best; i++) pass(p, c->at[i]);
  return result;
}

/* ---- results side by side */

/* Returns the concatenation that reads the end of the chain, and nothing else does; -1 if none. */
static int concat_after(const Placing *p, const Chain *c) {
  int at = c->n ? (p->output[c->end] || p->reads[c->end] != 1 ? -1 : p->reader[c->end]) : only_reader(p, c->end);
  if (at < 0 || p->w->ops.items[at].op->kind != OP_concat || !work_same_time(c->first, &p->w->ops.items[at])) return -1;
  return at;
}

/* Returns the place of operand k of a concatenation in its result. */
static TensorPlace place_in_concat(const Work *w, const Op *concat, int k) {
  const int axis = (int)op_int(concat, AT_axis, 0);
  TensorPlace place = work_dense_place(w->m, work_type(w, concat->out));
  const Expr *start = ex_const(w->m, 0);
  for (int i = 0; i < k; i++) start = ex_add(w->m, start, work_type(w, concat->in[i])->dims[axis]);
  place.type = work_type(w, concat->in[k]);
  place.offset = ex_mul(w->m, start, place.stride[axis]);
  return place;
}

/* Finds the chain that ends in the value; -1 if none. */
static int chain_of(const Chain *chains, int n, Val end) {
  int i = n - 1;
  while (i >= 0 && chains[i].end != end) i--;
  return i;
}

/* Places the results of the chains that a concatenation joins in its result, if it reads nothing else.  False if that
 * is not so. */
static bool place_side_by_side(Placing *p, int at, const Chain *chains, GradsUnit *g) {
  const Op *concat = p->w->ops.items[at].op;
  TensorPlace place[GRADS_MOST];
  int of[GRADS_MOST];
  if (concat->nin > g->n) return false;
  for (int k = 0; k < concat->nin; k++) {
    of[k] = chain_of(chains, g->n, concat->in[k]);
    if (of[k] < 0 || concat_after(p, &chains[of[k]]) != at) return false;
    const Chain *c = &chains[of[k]];
    if (!place_before(p, c, c->n, place_in_concat(p->w, concat, k), &place[k])) return false;
  }
  for (int k = 0; k < concat->nin; k++) {
    g->part[of[k]].result = concat->out, g->part[of[k]].out = place[k];
    for (int i = 0; i < chains[of[k]].n; i++) pass(p, chains[of[k]].at[i]);
  }
  pass(p, at);
  return true;
}

/* Places the results of gradients that one kernel computes. */
static void place_grads(Placing *p, WorkOp *o) {
  GradsUnit *g = ARENA_NEW(p->w->arena, GradsUnit);
  Chain chains[GRADS_MOST];
  *g = *o->grads;
  for (int i = 0; i < g->n; i++) chains[i] = chain_after(p, o, g->part[i].op);
  for (int i = 0; i < g->n; i++) {
    GradsPart *part = &g->part[i];
    int at = concat_after(p, &chains[i]);
    if (part->out.type || (at >= 0 && place_side_by_side(p, at, chains, g))) continue;
    Val result = place_result(p, &chains[i], &part->out);
    if (result) part->result = result;
  }
  o->grads = g;
}

/* ---- operands */

/* Returns the value that holds the elements of `v`, and their place; marks the operations that move them as passed. */
Val work_read_in_place(Work *w, Val v, TensorPlace *place) {
  int def = work_def(w, v);
  const WorkOp *o = def < 0 ? NULL : &w->ops.items[def];
  if (o && o->place && o->place->result && v == o->op->out) {
    *place = o->place->out;
    return o->place->result;
  }
  for (int i = 0; o && o->grads && i < o->grads->n; i++)
    if (o->grads->part[i].op->out == v && o->grads->part[i].out.type) {
      *place = o->grads->part[i].out;
      return o->grads->part[i].result;
    }
  if (o && (o->class == WC_MAP || o->class == WC_VIEW) && (turns(o->op) || o->op->kind == OP_slice)) {
    TensorPlace from;
    Val base = work_read_in_place(w, o->op->in[0], &from);
    int of = work_def(w, base);
    bool computed = of >= 0 && op_is_constant(w->ops.items[of].op->kind);
    if (!computed && moved(w, o->op, &from, place)) {
      w->passed[o->origin] = true;
      return base;
    }
  }
  *place = work_dense_place(w->m, work_type(w, v));
  return v;
}

/* Places the operands of an operation.  Takes an index, not a pointer: the list of operations does not grow meanwhile,
 * but its items change. */
static void place_operands(Placing *p, int at, PlaceUnit *unit) {
  Work *w = p->w;
  WorkOp *o = &w->ops.items[at];
  const Op *op = o->op;
  Val *in = ARENA_ARRAY(w->arena, Val, op->nin);
  bool any = false;
  memcpy(in, op->in, sizeof *in * (size_t)op->nin);
  for (int i = 0; i < op->nin; i++) {
    TensorPlace place;
    if (!takes_place(op, i)) continue;
    Val v = work_read_in_place(w, op->in[i], &place);
    if (v == op->in[i] || !fits(op, &place)) continue;
    in[i] = v, unit->in[i] = place, any = true;
  }
  if (!any) return;
  Op *copy = ARENA_NEW(w->arena, Op);
  *copy = *op;
  copy->in = in;
  o->op = copy;
}

static void find_readers(Placing *p) {
  const Work *w = p->w;
  for (size_t i = 0; i < w->f->outputs.n; i++) p->output[w->f->outputs.items[i].value] = true;
  for (size_t i = 0; i < w->ops.n; i++)
    for (int k = 0; k < w->ops.items[i].op->nin; k++) {
      Val v = w->ops.items[i].op->in[k];
      p->reads[v]++, p->reader[v] = (int)i;
    }
}

void work_place(Work *w) {
  Arena *a = w->arena;
  size_t n = w->f->values.n + w->temps.n + 1, first = 0;
  while (first < w->ops.n && !has_places(w->ops.items[first].op->kind)) first++;
  if (first == w->ops.n) return;
  Placing p = {w, ARENA_ARRAY(a, int, n), ARENA_ARRAY(a, int, n), ARENA_ARRAY(a, bool, n),
               ARENA_ARRAY(a, bool, w->ops.n)};
  find_readers(&p);
  for (size_t i = first; i < w->ops.n; i++) {
    WorkOp *o = &w->ops.items[i];
    if (!has_places(o->op->kind)) continue;
    PlaceUnit *unit = ARENA_NEW(a, PlaceUnit);
    *unit = (PlaceUnit){.op = o->op};
    if (o->grads) {
      place_grads(&p, o);
    } else {
      Chain chain = chain_after(&p, o, o->op);
      unit->result = place_result(&p, &chain, &unit->out);
    }
    if (unit->result) o->place = unit;
    place_operands(&p, (int)i, unit);
    if (o->op != unit->op) o->place = unit;
  }
  work_remove(w, p.gone);
}
