/* passes/rewrite/widen.c - computes products with f16 and bf16 weights in f32, and keeps the weights in 16 bits.
 *
 * The CPU multiplies matrices in f32.  Its products with weights read panels of f32, f16 or bf16 and widen the latter
 * in registers (codegen/panels.h).  So such a product has operands of two types, and the weight stays as it is stored:
 *
 *   dot(x, w) : f16          becomes   cast(dot(cast(x), w)) : f16
 *   dot(x, cast(w)) : f32    becomes   dot(x, w) : f32
 *   gather(cast(w), i)       becomes   cast(gather(w, i))
 *
 * A weight can be read so if the product is one of a matrix, in its order, at least a panel wide.  Other weights are
 * widened explicitly: without this the generated code would widen them in every request.  The cast depends on the
 * weight alone, so passes/rewrite/prepare.c moves it to loading; the planner counts the resulting f32 weight:
 *
 *   dot(x, w) : f16          becomes   cast(dot(cast(x), cast(w))) : f16
 *
 * Widening is exact, so that results have the bits of products with f32 weights of the same numbers.  A sum over ranks
 * is in f32, which is more exact and sends twice the bytes.  (bench/results/cpu.md, Weights of 16 bits)
 *
 * The product keeps its name, because plans refer to it.  Products of two activations stay as they are: their casts are
 * temporary either way.  Other devices multiply 16-bit numbers themselves.  Not done: weights of experts and
 * frozen weights of training steps become f32.  Entries are looked at one by one: if two read different matrices in a
 * weight, one of them widens it in every request.
 */
#include <string.h>

#include "ir/legal_dot.h"
#include "ir/loops.h"
#include "passes/facts/fixed.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"
#include "program/epilogue.h"

typedef struct Widen {
  Rewrite r;
  const DeviceTraits *device;
  bool trains; /* gradients read a frozen weight as another matrix than the forward pass */
  const Fixed *fixed;
  Loops loops;
  Val *wide;       /* by old value: its cast to f32; 0 until needed */
  int64_t *matrix; /* by old value, a weight: the matrix that products read in panels (matrix_read); 0 if none yet */
} Widen;

static bool narrow(const Type *t) { return t->dtype == DT_f16 || t->dtype == DT_bf16; }

static Val wide(Widen *w, Val v) {
  const Op *op = op_of(w->r.old, v);
  if (!w->wide[v])
    w->wide[v] = rewrite_cast(&w->r, op, arena_printf(w->r.m->arena, "%s.f32", op->name), w->r.map[v], DT_f32);
  return w->wide[v];
}

/* ---- weights that stay in 16 bits */

/* Returns the value of 16 bits that was widened to `v`; 0 if there is none. */
static Val widened_from(const Func *f, Val v) {
  const Op *op = op_of(f, v);
  return op->kind == OP_cast && narrow(type_of(f, op->in[0])) && type_of(f, v)->dtype == DT_f32 ? op->in[0] : 0;
}

/* Returns the value of 16 bits of which `v` is the numbers; 0 if there is none.  Looks through a cast from 16 bits to
 * f32 and back, as of a bf16 weight of an f32 model that is computed in bf16. */
static Val narrow_of(const Func *f, Val v) {
  const Op *op = op_of(f, v);
  if (!narrow(type_of(f, v))) return widened_from(f, v);
  const Val from = op->kind == OP_cast ? widened_from(f, op->in[0]) : 0;
  return from && type_of(f, from)->dtype == type_of(f, v)->dtype ? from : v;
}

/* The operation whose result `v` is in another shape. */
static const Op *stored(const Widen *w, Val v) {
  const Op *op = op_of(w->r.old, v);
  while (op->kind == OP_reshape || op->kind == OP_copy) op = op_of(w->r.old, op->in[0]);
  return op;
}

/* True if the value becomes a weight: as it is stored, or computed at loading. */
static bool is_weight(const Widen *w, Val v) {
  const Op *op = stored(w, v);
  return op->kind == OP_param || (fixed_by_weights(w->fixed[v]) && op->kind != OP_broadcast);
}

/* Gives the result the letters of the rows first, then those of the columns in the weight's order. */
static void turn(DotForm *f, int t) {
  char result[MAX_RANK + 1] = {0};
  int n = 0;
  for (const char *l = f->spec[2]; *l; l++)
    if (!strchr(f->spec[t], *l)) result[n++] = *l;
  for (const char *l = f->spec[t]; *l; l++)
    if (strchr(f->spec[2], *l)) result[n++] = *l;
  memcpy(f->spec[2], result, sizeof result);
}

/* True if operand t of the product is one matrix for all rows, in the order in which the library reads it. */
static bool is_matrix(const Widen *w, const DotForm *f, int t) {
  LegalDot p;
  legal_dot(w->device, f, &p);
  if (!p.library || p.swapped == t || strcmp(p.spec[1], f->spec[t]) != 0) return false;
  for (int i = 0; i < p.nbatch; i++)
    if (p.groups[p.batch[i]].class != DOT_M) return false;
  return true;
}

/* The same for some order of the result, which is `f->spec[2]`: the given order, or rows before columns. */
static bool some_order(const Widen *w, DotForm *f, int t) {
  const DotForm given = *f;
  if (is_matrix(w, f, t)) return true;
  turn(f, t);
  if (is_matrix(w, f, t)) return true;
  *f = given;
  return false;
}

/* The same, for the product's extents.  Ranks may later share an extent of 1 of the other operand, as the one token of
 * a decode entry; then some have 0 of it, and their extent is no constant.  So such an extent counts as 1 only if no
 * order does without. */
static bool reads_matrix(const Widen *w, const Op *op, int t, DotForm *f) {
  const Type *type = type_of(w->r.old, op->in[t]), *other = type_of(w->r.old, op->in[1 - t]);
  int64_t dims[MAX_RANK], columns = 1;
  op_dot_form(f, DT_f32, op_str(op, AT_spec));
  if (!type_constant_dims(type, dims)) return false;
  for (int d = 0; d < type->rank; d++) {
    f->one[(int)f->spec[t][d]] = dims[d] == 1;
    if (strchr(f->spec[2], f->spec[t][d])) columns *= dims[d];
  }
  if (columns < PROGRAM_PANEL) return false;
  if (some_order(w, f, t)) return true;
  for (int d = 0; d < other->rank; d++) f->one[(int)f->spec[1 - t][d]] |= ex_is_const(other->dims[d], 1);
  return some_order(w, f, t);
}

/* A number for the matrix that a product reads in a weight: its columns, and whether they are the weight's last. */
static int64_t matrix_read(const Widen *w, const Op *op, int t, const DotForm *f) {
  const Type *type = type_of(w->r.old, op->in[t]);
  int64_t columns = 1;
  bool last = false;
  for (int d = 0; d < type->rank; d++) {
    if (ex_is_const(type->dims[d], 1)) continue;
    last = strchr(f->spec[2], f->spec[t][d]);
    if (last) columns *= type->dims[d]->value;
  }
  return 2 * columns + last;
}

/* Returns the 16-bit weight that the product may read as operand t, and sets its form; 0 if none.  A weight has one set
 * of panels: products that read another matrix than the first one's get an f32 weight. */
static Val kept_as(const Widen *w, const Op *op, int t, DotForm *f) {
  const Val v = narrow_of(w->r.old, op->in[t]);
  const bool alone = v && !w->trains && is_weight(w, v) && !fixed_by_weights(w->fixed[op->in[1 - t]]);
  if (!alone || !w->device->panels || !reads_matrix(w, op, t, f)) return 0;
  const int64_t matrix = matrix_read(w, op, t, f);
  int64_t *first = &w->matrix[stored(w, v)->out];
  if (*first == 0) *first = matrix;
  return *first == matrix ? v : 0;
}

static Val kept(const Widen *w, const Op *op, int t) { return kept_as(w, op, t, &(DotForm){0}); }

/* The product's operand in f32, or the weight in 16 bits. */
static Val operand(Widen *w, const Op *op, int t) {
  const Val weight = kept(w, op, t);
  if (weight) return w->r.map[weight];
  return narrow(type_of(w->r.old, op->in[t])) ? wide(w, op->in[t]) : w->r.map[op->in[t]];
}

/* Builds the product, with its result in the order of `spec`. */
static Val product_of(Widen *w, const Op *op, const char *spec) {
  const Val in[2] = {operand(w, op, 0), operand(w, op, 1)};
  Attr a = attr_s(w->r.m, AT_spec, spec);
  OpSpec x = op_spec_of(w->r.old, op);
  x.in = in, x.type = NULL, x.nattrs = 1, x.attrs = &a;
  return build_op(&w->r.b, &x);
}

/* Brings the result from the order of the letters `from` to that of `to`. */
static Val in_order(Widen *w, const Op *op, Val v, const char *from, const char *to) {
  int64_t perm[MAX_RANK];
  const int n = (int)strlen(to);
  for (int d = 0; d < n; d++) perm[d] = strchr(from, to[d]) - from;
  return rewrite_transpose(&w->r, op, arena_printf(w->r.m->arena, "%s.turned", op->name), v, n, perm);
}

static Val widen_dot(Widen *w, const Op *op) {
  Arena *a = w->r.m->arena;
  const DType type = type_of(w->r.old, op->out)->dtype;
  DotForm f, kept_form;
  op_dot_form(&f, DT_f32, op_str(op, AT_spec));
  char want[MAX_RANK + 1];
  memcpy(want, f.spec[2], sizeof want);
  for (int t = 0; t < 2; t++)
    if (kept_as(w, op, t, &kept_form)) f = kept_form;
  Val product = product_of(w, op, arena_printf(a, "%s,%s->%s", f.spec[0], f.spec[1], f.spec[2]));
  if (product) product = in_order(w, op, product, f.spec[2], want);
  if (type == DT_f32 || !product) return product;
  return rewrite_cast(&w->r, op, arena_printf(a, "%s.%s", op->name, dtype_name(type)), product, type);
}

static bool widens(const Widen *w, const Op *op) {
  if (op->kind != OP_dot) return false;
  if (type_of(w->r.old, op->out)->dtype == DT_f32) return kept(w, op, 0) || kept(w, op, 1);
  if (!narrow(type_of(w->r.old, op->out))) return false;
  return fixed_by_weights(w->fixed[op->in[0]]) || fixed_by_weights(w->fixed[op->in[1]]);
}

/* ---- lookups */

/* True for rows of a widened table, which can be widened after the lookup. */
static bool looks_up(const Widen *w, const Op *op) {
  if (op->kind != OP_gather || fixed_by_weights(w->fixed[op->out]) || narrow(type_of(w->r.old, op->in[0])))
    return false;
  const Val table = narrow_of(w->r.old, op->in[0]);
  return table && is_weight(w, table);
}

static Val widen_rows(Widen *w, const Op *op) {
  const Val table = narrow_of(w->r.old, op->in[0]);
  const Type *type = type_of(w->r.old, op->out);
  Val in[2] = {w->r.map[table], w->r.map[op->in[1]]};
  OpSpec spec = op_spec_of(w->r.old, op);
  spec.in = in;
  spec.type = type_with_dtype(w->r.m, type, type_of(w->r.old, table)->dtype);
  spec.name = arena_printf(w->r.m->arena, "%s.rows", op->name);
  return rewrite_cast(&w->r, op, NULL, build_op(&w->r.b, &spec), DT_f32);
}

/* Casts values that a loop reads from outside before it: once, and later operations may use the cast. */
static void widen_entering(Widen *w, const Loop *l) {
  int loop = (int)(l - w->loops.items);
  for (size_t i = l->body; i < l->repeat; i++) {
    const Op *op = &w->r.old->ops.items[i];
    for (int k = 0; k < 2 && widens(w, op); k++)
      if (!kept(w, op, k) && narrow(type_of(w->r.old, op->in[k])) &&
          !loops_within(&w->loops, w->loops.of[w->r.old->values.items[op->in[k]].op], loop))
        wide(w, op->in[k]);
  }
}

/* True for a training step: a state starts as a weight. */
static bool is_training(const Module *m) {
  for (size_t i = 0; i < m->states.n; i++)
    if (m->states.items[i].param) return true;
  return false;
}

static bool widen(Module *m, const DeviceTraits *d, const Func *f, Diags *diags) {
  Widen w = {.r = rewrite_start(m, f, diags),
             .device = d,
             .trains = is_training(m),
             .fixed = fixed_values(m->arena, f),
             .loops = loops_of(m->arena, f),
             .wide = ARENA_ARRAY(m->arena, Val, f->values.n),
             .matrix = ARENA_ARRAY(m->arena, int64_t, f->values.n)};
  bool any = false;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op->kind == OP_loop) widen_entering(&w, &w.loops.items[w.loops.of[i]]);
    if (widens(&w, op)) any = true, w.r.map[op->out] = widen_dot(&w, op);
    else if (looks_up(&w, op)) any = true, w.r.map[op->out] = widen_rows(&w, op);
    else if (!rewrite_copy(&w.r, op)) return false;
  }
  if (any) rewrite_finish(&w.r);
  return diags->errors == 0;
}

bool pass_widen(Module *m, const DeviceTraits *d, Diags *diags) {
  bool ok = true;
  for (size_t k = 0; ok && k < m->funcs.n; k++)
    if (m->funcs.items[k]->level == 1) ok = widen(m, d, m->funcs.items[k], diags);
  return ok && pass_dce(m, diags); /* casts of weights without readers */
}
