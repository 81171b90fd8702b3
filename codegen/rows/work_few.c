/* codegen/rows/work_few.c - products of few rows, as in decoding, on devices with a kernel for them.
 *
 * Such a product takes as long as its weights take to be read, a few microseconds, and the kernels around it take as
 * long as a launch.  So one kernel computes
 *   - up to three products of one value with weights (queries, keys and values; gate and up), side by side;
 *   - before them the norm of that value, if nothing else reads it;
 *   - after one product a function of an element; after two products f(first) * second, as in a gated MLP;
 *   - what joined a product already: a bias, a residual, relu (work_join.c).
 * Each block computes the norm of its rows again, which is short beside its part of the weights.
 *
 * In: legalised operations, after work_join.  A product qualifies if its operands are 16-bit, the second one is a
 * weight, at most FEW_MOST_ROWS rows are planned for, and sums run over contiguous elements of the first operand and
 * over rows or columns of the second.  Out: a template with `few` instead of them; it stands where the first product
 * stood, or where the last operation after the products did.
 */
#include <string.h>

#include "codegen/rows/row_work.h"

typedef struct Finding {
  Work *w;
  int *reads, *reader; /* by value: its number of readers, outputs included, and the last operation that reads it */
  bool *gone;          /* by operation: another one computes it */
  const WorkOp **made; /* by operation: it is replaced by this one; NULL: it stays */
} Finding;

/* The parts of a kernel while it is found. */
typedef struct Found {
  int n, product[FEW_PRODUCTS]; /* operations of the work */
  int last;                     /* the operation whose result is the kernel's, if there are more after the products */
  FewUnit unit;
  Val value, gain, shift; /* the operand of the norm, or of the products; 0: none */
} Found;

static const WorkOp *item(const Finding *f, int i) { return &f->w->ops.items[i]; }
static const Type *type_at(const Finding *f, Val v) { return work_type(f->w, v); }

static const WorkOp *maker(const Finding *f, Val v) {
  int def = work_def(f->w, v);
  return def < 0 ? NULL : item(f, def);
}

static bool is_source(const Finding *f, Val v) {
  const WorkOp *o = maker(f, v);
  return o && o->op->kind == OP_param;
}

static bool is_one(const Expr *e) { return ex_is_const(e, 1); }

static bool is_few(const Finding *f, int i) {
  const WorkOp *o = item(f, i);
  const GemmUnit *g = o->gemm;
  if (!g || f->gone[i] || g->nbatch || g->b_panel || f->w->all->loops.of[o->origin] >= 0) return false;
  DType t = type_at(f, o->op->in[0])->dtype;
  bool narrow = (t == DT_bf16 || t == DT_f16) && type_at(f, o->op->out)->dtype == t && g->sums == DT_f32;
  int64_t rows = work_expected(f->w->m, g->m);
  return narrow && rows >= 1 && rows <= FEW_MOST_ROWS && is_source(f, o->op->in[1]) && is_one(g->a_k) &&
         is_one(g->c_n) && (is_one(g->b_n) || is_one(g->b_k));
}

/* True if one kernel can compute both: of one value, in one order of the weights, at one time. */
static bool together(const Finding *f, int a, int b) {
  const WorkOp *x = item(f, a), *y = item(f, b);
  const GemmUnit *g = x->gemm, *h = y->gemm;
  bool same = x->op->in[0] == y->op->in[0] && g->m == h->m && g->k == h->k && g->a_m == h->a_m &&
              is_one(g->b_n) == is_one(h->b_n) && work_same_time(x, y);
  for (int i = 2; i < y->op->nin && same; i++) same = is_source(f, y->op->in[i]);
  return same && !g->epilogue.residual && !h->epilogue.residual;
}

static void find_products(const Finding *f, int at, Found *x) {
  *x = (Found){.n = 1, .product = {at}, .last = -1, .value = item(f, at)->op->in[0]};
  for (int i = at + 1; i <= f->reader[x->value] && x->n < FEW_PRODUCTS; i++)
    if (is_few(f, i) && together(f, at, i)) x->product[x->n++] = i;
}

/* ---- after the products */

/* Returns the only reader of a value; -1 if there are others. */
static int only_reader(const Finding *f, Val v) { return f->reads[v] == 1 ? f->reader[v] : -1; }

static bool same_time(const Finding *f, int a, int b) { return work_same_time(item(f, a), item(f, b)); }

/* True for a function of one element with a result of the same type. */
static bool is_function(const Finding *f, const Op *op) {
  return op_is_elementwise(op->kind) && op->nin == 1 && op->kind != OP_cast &&
         type_at(f, op->out) == type_at(f, op->in[0]);
}

/* A function of the result of a product: an operation of one element, or x * sigmoid(x). */
typedef struct Function {
  OpKind kind;     /* OP_none for x * sigmoid(x) */
  int at, sigmoid; /* operations; -1: there is none */
} Function;

/* Finds the function that alone reads the value. */
static Function function_of(const Finding *f, Val v) {
  int reader = f->reader[v];
  if (f->reads[v] == 1 && is_function(f, item(f, reader)->op)) return (Function){item(f, reader)->op->kind, reader, -1};
  const Op *mul = reader < 0 ? NULL : item(f, reader)->op;
  if (f->reads[v] != 2 || mul->kind != OP_mul || mul->in[0] == mul->in[1]) return (Function){OP_none, -1, -1};
  Val other = mul->in[mul->in[0] == v ? 1 : 0];
  const WorkOp *sigmoid = maker(f, other);
  bool silu = sigmoid && sigmoid->op->kind == OP_sigmoid && sigmoid->op->in[0] == v && f->reads[other] == 1;
  return silu ? (Function){OP_none, reader, work_def(f->w, other)} : (Function){OP_none, -1, -1};
}

static void apply(const Finding *f, Found *x, const Function *by) {
  if (by->at < 0) return;
  x->unit.function = by->kind, x->unit.silu = by->sigmoid >= 0;
  f->gone[by->at] = true;
  if (by->sigmoid >= 0) f->gone[by->sigmoid] = true;
}

/* Lets the kernel multiply a function of the first product by the second one. */
static bool try_gate(const Finding *f, Found *x) {
  Val g = item(f, x->product[0])->op->out, u = item(f, x->product[1])->op->out;
  Function by = function_of(f, g);
  Val v = by.at < 0 ? g : item(f, by.at)->op->out;
  int mul = only_reader(f, u);
  const Op *op = mul < 0 ? NULL : item(f, mul)->op;
  if (!op || op->kind != OP_mul || mul == by.at || f->reads[v] != 1 || f->reader[v] != mul) return false;
  if (type_at(f, op->out) != type_at(f, g) || !same_time(f, mul, x->product[0])) return false;
  apply(f, x, &by);
  x->unit.gated = true, x->last = mul;
  return true;
}

static void find_after(const Finding *f, Found *x) {
  if (x->n == 2 && !try_gate(f, x)) {
    int first = x->product[0];
    x->product[0] = x->product[1], x->product[1] = first;
    if (!try_gate(f, x)) x->product[1] = x->product[0], x->product[0] = first;
  }
  if (x->n != 1) return;
  Function by = function_of(f, item(f, x->product[0])->op->out);
  if (by.at < 0 || !same_time(f, by.at, x->product[0])) return;
  apply(f, x, &by);
  x->last = by.at;
}

/* ---- before the products */

/* Returns the vector along the last dimension that an operand of `op` repeats; 0 if none does.  *other is the other
 * operand. */
static Val vector_of(const Finding *f, const Op *op, Val *other) {
  for (int k = 0; k < 2; k++) {
    const WorkOp *o = maker(f, op->in[k]);
    if (!o || o->op->kind != OP_broadcast) continue;
    const Type *v = type_at(f, o->op->in[0]), *t = type_at(f, op->out);
    const Attr *dims = op_attr(o->op, AT_dims);
    int last = v->rank - 1;
    if (dense_dims(v, NULL, NULL) != 1 || v->dtype != t->dtype || dims->u.ints[last] != t->rank - 1) continue;
    if (v->dims[last] != t->dims[t->rank - 1]) continue;
    *other = op->in[1 - k];
    return o->op->in[0];
  }
  return 0;
}

/* Follows the value back to a norm: scaled, then shifted.  Only products of the kernel may read it. */
static void find_norm(const Finding *f, Found *x) {
  const GemmUnit *g = item(f, x->product[0])->gemm;
  Val v = x->value, gain = 0, shift = 0;
  int chain[3], n = 0, readers = x->n;
  for (const OpKind *k = (const OpKind[]){OP_add, OP_mul, OP_none}; *k; k++) {
    const WorkOp *o = maker(f, v);
    Val before = 0, vector = o && o->op->kind == *k ? vector_of(f, o->op, &before) : 0;
    if (!vector || f->reads[v] != readers) continue;
    *(*k == OP_add ? &shift : &gain) = vector;
    chain[n++] = work_def(f->w, v), v = before, readers = 1;
  }
  const WorkOp *norm = maker(f, v);
  if (!norm || norm->op->kind != OP_norm || f->reads[v] != readers || !same_time(f, work_def(f->w, v), x->product[0]))
    return;
  const Type *t = type_at(f, norm->op->in[0]);
  bool whole = t->dims[t->rank - 1] == g->k && (is_one(g->m) || g->a_m == g->k);
  if (!whole || t->dtype != type_at(f, x->value)->dtype) return;
  chain[n++] = work_def(f->w, v);
  for (int i = 0; i < n; i++) {
    const Op *op = item(f, chain[i])->op;
    f->gone[chain[i]] = true;
    for (int k = 0; k < op->nin; k++) { /* a broadcast that nothing else reads */
      const WorkOp *o = maker(f, op->in[k]);
      if (o && o->op->kind == OP_broadcast && f->reads[op->in[k]] == 1) f->w->passed[o->origin] = true;
    }
  }
  x->unit.norm = strcmp(op_str(norm->op, AT_kind), "layer") == 0 ? FEW_LAYER : FEW_RMS;
  x->unit.eps = op_float(norm->op, AT_eps, 0);
  x->unit.gain = gain != 0, x->unit.shift = shift != 0;
  x->value = norm->op->in[0], x->gain = gain, x->shift = shift;
}

/* ---- the kernel */

/* Lists the operands: the value, gain and shift of the norm, then of each product its weight and bias, a residual. */
static const Val *operands_of(const Finding *f, const Found *x, int *n) {
  Val *in = ARENA_ARRAY(f->w->arena, Val, 3 + 3 * FEW_PRODUCTS);
  *n = 0;
  in[(*n)++] = x->value;
  if (x->gain) in[(*n)++] = x->gain;
  if (x->shift) in[(*n)++] = x->shift;
  for (int i = 0; i < x->n; i++) {
    const Op *op = item(f, x->product[i])->op;
    for (int k = 1; k < op->nin; k++) in[(*n)++] = op->in[k];
  }
  return in;
}

static void make(const Finding *f, Found *x) {
  Arena *a = f->w->arena;
  const WorkOp *first = item(f, x->product[0]);
  FewUnit *unit = ARENA_NEW(a, FewUnit);
  Op *op = ARENA_NEW(a, Op);
  WorkOp *o = ARENA_NEW(a, WorkOp);
  *unit = x->unit;
  unit->n = x->n, unit->nout = unit->gated ? 1 : x->n;
  for (int i = 0; i < x->n; i++) {
    const WorkOp *p = item(f, x->product[i]);
    unit->product[i] = p->gemm, unit->out[i] = p->op->out;
    f->gone[x->product[i]] = true;
  }
  if (x->last >= 0) unit->out[0] = item(f, x->last)->op->out, f->gone[x->last] = true;
  *op = *first->op;
  op->in = operands_of(f, x, &op->nin), op->out = unit->out[0], op->nout = 1;
  *o = *first;
  o->op = op, o->class = WC_TEMPLATE, o->gemm = NULL, o->few = unit;
  f->made[x->last >= 0 ? x->last : x->product[0]] = o;
}

/* The kernel is worth it alone: for one product too, since the library's call does not read faster. */
static void find_all(const Finding *f) {
  for (int i = 0; i < (int)f->w->ops.n; i++) {
    Found x;
    if (!is_few(f, i)) continue;
    find_products(f, i, &x);
    find_after(f, &x);
    find_norm(f, &x);
    make(f, &x);
  }
}

/* ---- the list */

typedef struct Listing {
  WorkOp *items;
  size_t n;
  bool *done; /* by operation of the old list */
} Listing;

static void put(const Finding *f, Listing *l, int i) {
  if (!l->done[i]) l->items[l->n++] = *item(f, i), l->done[i] = true;
}

/* Writes the new list; weights come before the first kernel that reads them. */
static void rewrite(const Finding *f) {
  Work *w = f->w;
  Listing l = {.items = ARENA_ARRAY(w->arena, WorkOp, w->ops.n + 1), .done = ARENA_ARRAY(w->arena, bool, w->ops.n + 1)};
  for (int i = 0; i < (int)w->ops.n; i++) {
    const WorkOp *made = f->made[i];
    for (int k = 0; made && k < made->op->nin; k++)
      if (work_def(w, made->op->in[k]) > i) put(f, &l, work_def(w, made->op->in[k]));
    if (made) l.items[l.n++] = *made;
    else if (!f->gone[i]) put(f, &l, i);
    else if (w->ops.items[i].op->kind != OP_dot) w->passed[w->ops.items[i].origin] = true;
  }
  memcpy(w->ops.items, l.items, sizeof *l.items * l.n);
  w->ops.n = l.n;
  work_find_defs(w);
}

static void find_readers(const Finding *f) {
  const Work *w = f->w;
  for (size_t v = 0; v < work_values(w); v++) f->reader[v] = -1;
  for (size_t i = 0; i < w->ops.n; i++)
    for (int k = 0; k < w->ops.items[i].op->nin; k++) {
      Val v = w->ops.items[i].op->in[k];
      f->reads[v]++, f->reader[v] = (int)i;
    }
  for (size_t i = 0; i < w->f->outputs.n; i++) f->reads[w->f->outputs.items[i].value] += FEW_PRODUCTS + 1;
}

void work_few(Work *w) {
  Arena *a = w->arena;
  size_t n = 0;
  for (size_t i = 0; i < w->ops.n; i++) n += w->ops.items[i].gemm != NULL;
  if (!n) return;
  Finding f = {w, ARENA_ARRAY(a, int, work_values(w)), ARENA_ARRAY(a, int, work_values(w)),
               ARENA_ARRAY(a, bool, w->ops.n + 1), ARENA_ARRAY(a, const WorkOp *, w->ops.n + 1)};
  find_readers(&f);
  find_all(&f);
  rewrite(&f);
}
