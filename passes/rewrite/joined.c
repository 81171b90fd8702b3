/* passes/rewrite/joined.c - joins products of one value with weights of heads into one product.
 *
 *   dot(x, wq) "bsd,dhk->bshk", dot(x, wk) "bsd,dhk->bshk", dot(x, wv) "bsd,dhk->bshk"
 *
 * become slices of one product "bsd,dhk->bshk", with the weights of each head side by side; `prepare` joins the weights
 * at loading, and biases as well.  Each training step joins them in the kernel that narrows them.  So heads remain a
 * dimension that ranks may split, and a rank's part of the joined weight consists of its own parts.  A device whose
 * attention reads heads in place (DeviceTraits.places) reads the slices in place.
 *
 * In: level-1 functions with attention, before `train`, so that the gradients of the products are joined too.
 * Consecutive products, without another product between them, each of the same value with a weight, as [rows, summed] x
 * [summed, heads, size] -> [rows, heads, size], with equal heads and sizes; all or none with a bias of heads and sizes.
 * Products with fewer heads of keys than of queries stay separate: the joined product could only be split into as many
 * parts as there are heads of keys.  A product whose result other products read stays separate.  Operations without
 * used results are dropped.  Not supported: functions with loops.
 */
#include <string.h>

#include "passes/facts/fixed.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"

enum { MOST_TOGETHER = 3 };

/* One of the products. */
typedef struct Part {
  const Op *dot, *sum; /* sum: with a bias; NULL if none */
  const Op *spread;    /* the bias in the shape in which it is added */
  const Expr *dims[2]; /* heads, size */
  int rows;            /* dimensions of the value except the summed one */
} Part;

typedef struct Joining {
  Rewrite r;
  const Fixed *fixed;
  const int *uses;        /* live_uses */
  const bool *multiplied; /* find_multiplied */
  Part part[MOST_TOGETHER];
  int n;
  bool *starts, *gone; /* by operation: starts a joined product; is part of one */
} Joining;

static const Type *old_type(const Joining *j, Val v) { return type_of(j->r.old, v); }

/* ---- matching */

static bool is_live(const int *uses, const Op *op) {
  bool live = !op->out || op->kind == OP_input;
  for (Val v = op->out; v && v < op_end(op); v++) live |= uses[v] > 0;
  return live;
}

/* True for "bsd,dhk->bshk", with any dimensions of extent 1 among them. */
static bool reads_heads(const Joining *j, const Op *op, Part *p) {
  if (op->kind != OP_dot || !fixed_by_weights(j->fixed[op->in[1]]) || fixed_by_weights(j->fixed[op->in[0]]))
    return false;
  const char *x = op_str(op, AT_spec), *w = strchr(x, ',') + 1, *y = strstr(w, "->") + 2;
  int rank = (int)(w - x) - 1, columns = (int)(y - w) - 3, n = 0;
  const Type *t = old_type(j, op->in[1]);
  *p = (Part){.dot = op, .rows = rank - 1};
  if (rank < 2 || columns < 2 || x[rank - 1] != w[0] || (int)strlen(y) != rank - 1 + columns) return false;
  if (strncmp(x, y, (size_t)rank - 1) != 0 || strncmp(w + 1, y + rank - 1, (size_t)columns) != 0) return false;
  for (int d = 1; d <= columns; d++) {
    if (ex_is_const(t->dims[d], 1)) continue;
    if (n == 2) return false;
    p->dims[n++] = t->dims[d];
  }
  return n == 2;
}

/* Finds its bias, one number for each head and element. */
static void find_bias(const Joining *j, size_t at, Part *p) {
  const Func *f = j->r.old;
  for (size_t i = at + 1; i < f->ops.n && j->uses[p->dot->out] == 1; i++) {
    const Op *op = &f->ops.items[i];
    for (int k = 0; k < op->nin; k++) {
      if (op->in[k] != p->dot->out) continue;
      const Op *spread = op->kind == OP_add ? op_of(f, op->in[1 - k]) : NULL;
      if (!spread || spread->kind != OP_broadcast || j->uses[spread->out] != 1) return;
      const Attr *dims = op_attr(spread, AT_dims);
      const Type *b = old_type(j, spread->in[0]), *y = old_type(j, op->out);
      int n = 0;
      for (int d = 0; d < b->rank; d++) {
        if (ex_is_const(b->dims[d], 1)) continue;
        if (n == 2 || dims->u.ints[d] < p->rows || b->dims[d] != p->dims[n] || b->dims[d] != y->dims[dims->u.ints[d]])
          return;
        n++;
      }
      if (n == 2 && fixed_by_weights(j->fixed[spread->in[0]])) p->sum = op, p->spread = spread;
      return;
    }
  }
}

static bool together(const Part *a, const Part *b) {
  return a->dot->in[0] == b->dot->in[0] && a->rows == b->rows && a->dims[0] == b->dims[0] && a->dims[1] == b->dims[1] &&
         !a->sum == !b->sum;
}

/* Finds the products from operation `at` on that can be joined; n is less than 2 if none. */
static void find_parts(Joining *j, size_t at) {
  const Func *f = j->r.old;
  j->n = 0;
  for (size_t i = at; i < f->ops.n && j->n < MOST_TOGETHER; i++) {
    const Op *op = &f->ops.items[i];
    Part p;
    if (!op_is_contraction(op->kind) || !is_live(j->uses, op)) continue;
    if (!reads_heads(j, op, &p)) return;
    find_bias(j, i, &p);
    if (j->n && !together(&j->part[0], &p)) return;
    if (j->multiplied[p.sum ? p.sum->out : op->out]) return;
    j->part[j->n++] = p;
  }
}

/* Counts the uses of each value by outputs and by operations that some output needs. */
static const int *live_uses(Arena *a, const Func *f) {
  int *uses = ARENA_ARRAY(a, int, f->values.n + 1);
  for (size_t i = 0; i < f->outputs.n; i++) uses[f->outputs.items[i].value]++;
  for (size_t i = f->ops.n; i-- > 0;)
    for (int k = 0; k < f->ops.items[i].nin && is_live(uses, &f->ops.items[i]); k++) uses[f->ops.items[i].in[k]]++;
  return uses;
}

/* By value: a product reads it, perhaps moved.  It would need a copy of a slice; attentions, rotations and kernels of
 * rows read slices in place. */
static const bool *find_multiplied(Arena *a, const Func *f, const int *uses) {
  bool *multiplied = ARENA_ARRAY(a, bool, f->values.n + 1);
  for (size_t i = f->ops.n; i-- > 0;) {
    const Op *op = &f->ops.items[i];
    bool moves = op->kind == OP_transpose || op->kind == OP_reshape,
         reads = op_is_contraction(op->kind) && op->kind != OP_attention && is_live(uses, op);
    for (int k = 0; k < op->nin; k++) multiplied[op->in[k]] |= reads || (moves && multiplied[op->out]);
  }
  return multiplied;
}

/* ---- building */

static Val build(Joining *j, const char *part, OpSpec spec) {
  const Op *first = j->part[0].dot;
  spec.name = arena_printf(j->r.m->arena, "%s.%s", first->name, part), spec.loc = first->loc;
  return build_op(&j->r.b, &spec);
}

/* Returns a value that only weights determine, building it earlier than its place. */
static Val early(Joining *j, Val v) {
  const Op *op = op_of(j->r.old, v);
  if (j->r.map[v]) return j->r.map[v];
  for (int k = 0; k < op->nin; k++) early(j, op->in[k]);
  rewrite_copy(&j->r, op);
  return j->r.map[v];
}

/* Reshapes to [.., heads, size], without other dimensions. */
static Val plain(Joining *j, Val v, const Part *p, bool weight) {
  const Type *t = type_of(j->r.b.f, v);
  const Expr *dims[3] = {weight ? t->dims[0] : NULL, p->dims[0], p->dims[1]};
  const Type *wanted = type_get(j->r.m, t->dtype, weight ? 3 : 2, weight ? dims : dims + 1);
  if (t == wanted) return v;
  return build(j, "part", (OpSpec){.kind = OP_reshape, .nin = 1, .in = &v, .type = wanted});
}

static Val side_by_side(Joining *j, const char *name, const Val *v, bool weight) {
  Attr axis = attr_i(AT_axis, weight ? 2 : 1);
  return build(j, name, (OpSpec){.kind = OP_concat, .nin = j->n, .in = v, .nattrs = 1, .attrs = &axis});
}

/* Multiplies x [rows, w] by the joined weights [w, heads, n * size]. */
static Val product(Joining *j) {
  const Part *p = &j->part[0];
  Val w[MOST_TOGETHER];
  for (int i = 0; i < j->n; i++) w[i] = plain(j, early(j, j->part[i].dot->in[1]), &j->part[i], true);
  Val in[2] = {j->r.map[p->dot->in[0]], side_by_side(j, "weights", w, true)};
  char rows[MAX_RANK + 1] = {0};
  for (int d = 0; d < p->rows; d++) rows[d] = (char)('a' + d);
  Attr spec = attr_s(j->r.m, AT_spec, arena_printf(j->r.m->arena, "%sw,wxy->%sxy", rows, rows));
  return build(j, "joined", (OpSpec){.kind = OP_dot, .nin = 2, .in = in, .nattrs = 1, .attrs = &spec});
}

static Val biases(Joining *j, Val y) {
  const int first = j->part[0].rows;
  Val b[MOST_TOGETHER];
  for (int i = 0; i < j->n; i++) b[i] = plain(j, early(j, j->part[i].spread->in[0]), &j->part[i], false);
  Val line = side_by_side(j, "biases", b, false);
  Attr dims = attr_ints(j->r.m, AT_dims, 2, (int64_t[]){first, first + 1});
  OpSpec spread = {
      .kind = OP_broadcast, .nin = 1, .in = &line, .nattrs = 1, .attrs = &dims, .type = type_of(j->r.b.f, y)};
  Val in[2] = {y, build(j, "bias", spread)};
  return build(j, "sum", (OpSpec){.kind = OP_add, .nin = 2, .in = in});
}

/* Replaces product i by its part of the joined product. */
static void give(Joining *j, Val y, int i) {
  const Part *p = &j->part[i];
  const Op *op = p->sum ? p->sum : p->dot;
  const Type *t = type_of(j->r.b.f, y), *was = old_type(j, op->out);
  const Expr *dims[MAX_RANK], *starts[MAX_RANK];
  int64_t strides[MAX_RANK];
  for (int d = 0; d < t->rank; d++) dims[d] = t->dims[d], starts[d] = ex_const(j->r.m, 0), strides[d] = 1;
  dims[p->rows + 1] = p->dims[1], starts[p->rows + 1] = ex_muli(j->r.m, p->dims[1], i);
  const Type *part = type_get(j->r.m, t->dtype, t->rank, dims);
  Attr a[] = {attr_exprs(j->r.m, AT_starts, t->rank, starts), attr_ints(j->r.m, AT_strides, t->rank, strides)};
  OpSpec slice = {.kind = OP_slice,
                  .name = part == was ? op->name : arena_printf(j->r.m->arena, "%s.slice", op->name),
                  .loc = op->loc,
                  .nin = 1,
                  .in = &y,
                  .nattrs = 2,
                  .attrs = a,
                  .type = part};
  Val v = build_op(&j->r.b, &slice);
  OpSpec spec = {.kind = OP_reshape, .name = op->name, .loc = op->loc, .nin = 1, .in = &v, .type = was};
  rewrite_map(&j->r, op, part == was ? v : build_op(&j->r.b, &spec));
}

static void join(Joining *j) {
  Val y = product(j);
  if (j->part[0].sum) y = biases(j, y);
  for (int i = 0; i < j->n; i++) give(j, y, i);
}

/* ---- the function */

static size_t index_of(const Joining *j, const Op *op) { return (size_t)(op - j->r.old->ops.items); }

/* Finds all products to join, and marks operations to drop; a bias may be broadcast before its product. */
static void find_all(Joining *j) {
  const Func *f = j->r.old;
  for (size_t i = 0; i < f->ops.n; i++) {
    if (f->ops.items[i].kind != OP_dot || j->gone[i]) continue;
    find_parts(j, i);
    if (j->n < 2) continue;
    j->starts[i] = true;
    for (int k = 0; k < j->n; k++) {
      const Part *p = &j->part[k];
      j->gone[index_of(j, p->dot)] = true;
      if (p->sum) j->gone[index_of(j, p->sum)] = j->gone[index_of(j, p->spread)] = true;
    }
  }
}

static bool join_heads(Module *m, const Func *f, Diags *diags) {
  Arena *a = m->arena;
  const int *uses = live_uses(a, f);
  Joining j = {.r = rewrite_start(m, f, diags),
               .fixed = fixed_values(a, f),
               .uses = uses,
               .multiplied = find_multiplied(a, f, uses),
               .starts = ARENA_ARRAY(a, bool, f->ops.n + 1),
               .gone = ARENA_ARRAY(a, bool, f->ops.n + 1)};
  find_all(&j);
  for (size_t i = 0; i < f->ops.n && !diags->errors; i++) {
    const Op *op = &f->ops.items[i];
    if (j.starts[i]) find_parts(&j, i), join(&j);
    else if (!j.gone[i] && is_live(uses, op) && !(op->out && j.r.map[op->out])) rewrite_copy(&j.r, op);
  }
  if (!diags->errors) rewrite_finish(&j.r);
  return diags->errors == 0;
}

bool pass_joined(Module *m, const DeviceTraits *device, Diags *diags) {
  for (size_t k = 0; k < m->funcs.n && device->places; k++)
    if (m->funcs.items[k]->level == 1 && rewrite_has_heads(m->funcs.items[k]) &&
        !join_heads(m, m->funcs.items[k], diags))
      return false;
  return true;
}
