/* codegen/rows/row_copies.c - kernels compute cheap values again instead of reading them from memory.
 *
 * The gradient of a GELU reads five values of its forward pass, each as large as its operand: elementwise functions of
 * that operand, which is in memory anyway.  A GPU computes them in the time of reading one.  The same holds for a sum's
 * wider copy of a 16-bit gradient, and for everything in the gradient of a cross-entropy but the logits.
 *
 * In: groups, and `stored`.  A value is copied if
 *   - it is computed element by element, in at most MOST_WORK additions, from at most one tensor of its own size, which
 *     is in memory in an element type that is no wider, and from smaller values;
 *   - only kernels of elements and rows of no larger space read it in other groups, and it is no output.
 * Out: readers in other groups read a virtual copy, and its own group does not store it (`copied`).  A group without
 * stored values left is no kernel.  Values are visited in order; a value that is not copied counts as in memory for
 * later ones.  Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016), section 4, drops results of
 * cheap operations; here a kernel computes them where it needs them.
 */
#include "codegen/rows/row_work.h"

enum { MOST_WORK = 96, MOST_DEPTH = 10 }; /* later walks visit shared operands again: at most 2^depth times */

typedef struct Copies {
  Work *w;
  Arena *scratch;
  bool *kept; /* by value: it is in memory in any case */
  Val *copy;  /* by value: its virtual copy; 0 if none */
  size_t nvalues;
  int *round; /* by operation of the work: the last value for which it was visited */
  int now;
} Copies;

static int dims_of(const Work *w, Val v) { return dense_dims(work_type(w, v), NULL, NULL); }

static const WorkOp *maker_of(const Work *w, Val v) {
  int def = work_def(w, v);
  return def < 0 ? NULL : &w->ops.items[def];
}

static bool is_of_rows(const WorkOp *o) { return o->class == WC_MAP || o->class == WC_ROW; }

/* True for operations that compute an element from the elements at the same position, or from constants. */
static bool is_by_element(const WorkOp *o) {
  OpKind k = o->op->kind;
  if (o->class != WC_MAP || o->op->nout != 1) return false;
  return op_is_elementwise(k) || k == OP_cast || k == OP_broadcast || op_is_constant(k);
}

/* Marks values that are in memory in any case: outputs, results and operands of libraries and templates, and those that
 * are read by something other than a kernel of rows in a space of at most their size. */
static void find_kept(Copies *c) {
  const Work *w = c->w;
  for (size_t i = 0; i < w->f->outputs.n; i++) c->kept[w->f->outputs.items[i].value] = true;
  /* Every micro-batch adds to a sum in memory. */
  for (size_t i = 0; i < w->sums.n; i++) c->kept[w->sums.items[i].sum] = c->kept[w->sums.items[i].start] = true;
  for (size_t i = 0; i < w->ops.n; i++) {
    const WorkOp *o = &w->ops.items[i];
    if (!o->live) continue;
    for (Val v = o->op->out; v && v < op_end(o->op); v++) c->kept[v] |= !is_of_rows(o);
    for (int k = 0; k < o->op->nin; k++) {
      const WorkOp *from = maker_of(w, o->op->in[k]);
      bool other = !from || o->virtual_ || from->group != o->group;
      bool larger = o->op->out && dims_of(w, o->op->out) > dims_of(w, o->op->in[k]);
      if (other && (!is_of_rows(o) || o->virtual_ || larger)) c->kept[o->op->in[k]] = true;
    }
  }
}

/* The value is a function of these. */
typedef struct Cone {
  int group, dims; /* of the value */
  int work;        /* additions per element */
  Val whole;       /* the tensor of its size that it depends on; 0 if none */
} Cone;

/* Adds what `v` depends on; false if it is not cheap. */
static bool look_at(Copies *c, Val v, Cone *cone, int depth) {
  const Work *w = c->w;
  const WorkOp *o = maker_of(w, v);
  bool here = o && (o->group == cone->group || c->copy[v]) && (depth == 0 || !c->kept[v]);
  bool inside = o && (o->virtual_ || here);
  if (o && o->virtual_ && !o->op->nin) return !op_attr(o->op, AT_ints) && !op_attr(o->op, AT_floats);
  if (inside && (o->virtual_ ? o->op->nin == 1 : is_by_element(o))) {
    int def = work_def(w, v);
    if (c->round[def] == c->now) return true;
    if (depth == MOST_DEPTH) return false;
    c->round[def] = c->now;
    cone->work += op_is_elementwise(o->op->kind) ? op_element_cost(o->op->kind) : 1;
    bool cheap = cone->work <= MOST_WORK;
    for (int k = 0; k < o->op->nin && cheap; k++) cheap = look_at(c, o->op->in[k], cone, depth + 1);
    return cheap;
  }
  if (o && o->virtual_) return false;
  if (dims_of(w, v) < cone->dims) return true;
  if (!c->kept[v] || (cone->whole && cone->whole != v)) return false;
  cone->whole = v;
  return true;
}

/* Finds what the result of an operation depends on; false if it is not cheap. */
static bool find_cone(Copies *c, const WorkOp *o, Cone *cone) {
  const Val v = o->op->out;
  *cone = (Cone){.group = o->group, .dims = dims_of(c->w, v)};
  c->now++;
  return look_at(c, v, cone, 0);
}

static bool should_copy(Copies *c, const WorkOp *o) {
  const Work *w = c->w;
  const Val v = o->op->out;
  Cone cone;
  if (!o->live || o->virtual_ || o->group < 0 || !is_by_element(o) || !w->stored[v] || c->kept[v]) return false;
  if (o->phase == PH_pre || work_in_update(w, o) || dims_of(w, v) < 2 || !find_cone(c, o, &cone)) return false;
  return !cone.whole || dtype_bytes(work_type(w, cone.whole)->dtype) <= dtype_bytes(work_type(w, v)->dtype);
}

/* Notes, for prices, that kernels compute the result of an operation of the function. */
static void note_copied(Copies *c, const WorkOp *o) {
  Work *w = c->w;
  Cone cone;
  if (w->f->ops.items[o->origin].out != o->op->out || !find_cone(c, o, &cone)) return;
  w->copied[o->origin] = true, w->whole[o->origin] = cone.whole;
}

/* Returns a virtual copy of a value, with those of the values inside its cone. */
static Val copy_value(Copies *c, Val v, int group, bool first) {
  Work *w = c->w;
  const WorkOp *o = maker_of(w, v);
  if (!o || o->virtual_ || !is_by_element(o) || (!first && c->kept[v])) return v;
  if (c->copy[v] || o->group != group) return c->copy[v] ? c->copy[v] : v;
  note_copied(c, o);
  Val in[MAX_OPERANDS];
  const WorkOp from = *o;
  for (int k = 0; k < from.op->nin; k++) in[k] = copy_value(c, from.op->in[k], group, false);
  Op step = *from.op;
  step.in = in, step.out = 0;
  Val copy = work_step(w, from.op, from.origin, &step, work_type(w, v), WC_MAP);
  WorkOp *made = &w->ops.items[w->ops.n - 1];
  made->phase = from.phase, made->back = from.back, made->virtual_ = true;
  return c->copy[v] = copy;
}

/* Returns the copy that an operation reads instead of `v`; `v` itself if none. */
static Val read_by(const Copies *c, const WorkOp *o, Val v) {
  const WorkOp *from = maker_of(c->w, v);
  bool other = from && v < c->nvalues && c->copy[v] && !c->kept[v] && from->group != o->group;
  return other ? c->copy[v] : v;
}

/* Lets the first n operations read the copies of values of other groups. */
static void read_copies(Copies *c, size_t n) {
  Work *w = c->w;
  for (size_t i = 0; i < n; i++) {
    WorkOp *o = &w->ops.items[i];
    bool any = false;
    for (int k = 0; k < o->op->nin && o->live && !o->virtual_; k++) any |= read_by(c, o, o->op->in[k]) != o->op->in[k];
    if (!any) continue;
    Op *op = ARENA_NEW(w->arena, Op);
    Val *in = ARENA_ARRAY(w->arena, Val, o->op->nin);
    for (int k = 0; k < o->op->nin; k++) in[k] = read_by(c, o, o->op->in[k]);
    *op = *o->op, op->in = in, o->op = op;
    work_link(w, o);
  }
}

void work_copy_values(Work *w) {
  const size_t n = w->ops.n;
  Copies c = {.w = w, .scratch = arena_new(), .nvalues = w->f->values.n + w->temps.n};
  c.kept = ARENA_ARRAY(c.scratch, bool, c.nvalues + 1);
  c.copy = ARENA_ARRAY(c.scratch, Val, c.nvalues + 1);
  c.round = ARENA_ARRAY(c.scratch, int, n + 1);
  w->copied = ARENA_ARRAY(w->arena, bool, w->f->ops.n + 1);
  w->whole = ARENA_ARRAY(w->arena, Val, w->f->ops.n + 1);
  find_kept(&c);
  for (size_t i = 0; i < n; i++) {
    const WorkOp o = w->ops.items[i];
    const Val v = o.op->out;
    if (should_copy(&c, &o)) copy_value(&c, v, o.group, true);
    else if (v && w->stored[v]) c.kept[v] = true;
  }
  read_copies(&c, n);
  arena_free(c.scratch);
}

void work_drop_empty(Work *w) {
  Arena *scratch = arena_new();
  bool *stores = ARENA_ARRAY(scratch, bool, w->groups.n + 1);
  for (size_t i = 0; i < w->ops.n; i++) {
    const WorkOp *o = &w->ops.items[i];
    for (Val v = o->op->out; v && v < op_end(o->op) && o->group >= 0; v++) stores[o->group] |= w->stored[v];
  }
  for (size_t g = 0; g < w->groups.n; g++) w->groups.items[g].dead |= w->groups.items[g].fusable && !stores[g];
  arena_free(scratch);
}
