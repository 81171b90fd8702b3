/* codegen/cpu/kernel_dot.c - a dot becomes one batched f32 matrix product, or pointwise products and sums.
 *
 * The letters of the einsum fall into classes by where they occur: batch (both operands and result), m (first operand
 * and result), n (second operand and result), k (both operands, summed).  Adjacent letters of a class merge when they
 * are contiguous wherever they occur; further m and n letters become batch loops with stride 0 in the other operand.  A
 * transposed operand is read where it was before it was transposed, when the strides fit a matrix product there too.
 * When the strides still do not fit, operands and result are transposed through temporaries.  Integers and f64 become
 * broadcast, multiply, reduce, which fuse into one loop; f16 and bf16 are widened to f32 first.
 */
#include <string.h>

#include "base/die.h"
#include "codegen/rows/row_work.h"

typedef enum Class { BATCH, M_ONLY, N_ONLY, SUMMED, NCLASSES } Class;

/* One letter, or several merged ones; strides in elements, NULL where the tensor does not have it. */
typedef struct Letter {
  Class class;
  const Expr *extent, *stride[3];
} Letter;

typedef struct Dot {
  Work *w;
  int origin;
  const Op *op;
  Val in[2], out;
  DType dtype; /* in which it is computed */
  char spec[3][MAX_RANK + 1];
} Dot;

static void append(char *letters, char l) {
  size_t n = strlen(letters);
  letters[n] = l, letters[n + 1] = 0;
}

static void split(Dot *d, const char *spec) {
  const char *comma = strchr(spec, ','), *arrow = strstr(spec, "->");
  memcpy(d->spec[0], spec, (size_t)(comma - spec));
  memcpy(d->spec[1], comma + 1, (size_t)(arrow - comma - 1));
  memcpy(d->spec[2], arrow + 2, strlen(arrow + 2));
}

static Val add_step(Dot *d, OpKind kind, int nin, const Val *in, const Type *type, int nattrs, const Attr *attrs,
                    WorkClass class, Val out) {
  Arena *a = d->w->m->arena;
  Op *op = ARENA_NEW(a, Op);
  Val *operands = ARENA_ARRAY(a, Val, nin);
  Attr *list = ARENA_ARRAY(a, Attr, nattrs);
  memcpy(operands, in, sizeof(Val) * (size_t)nin);
  if (nattrs) memcpy(list, attrs, sizeof(Attr) * (size_t)nattrs);
  *op = (Op){.kind = kind,
             .stage = d->op->stage,
             .name = d->op->name,
             .group = d->op->group,
             .loc = d->op->loc,
             .nin = nin,
             .in = operands,
             .out = out ? out : work_temp(d->w, type),
             .nattrs = nattrs,
             .attrs = list};
  work_add(d->w, op, d->origin, class);
  return op->out;
}

static const Type *type_of_letters(const Dot *d, const char *letters, DType dtype) {
  const Expr *dims[MAX_RANK];
  int n = (int)strlen(letters);
  for (int i = 0; i < n; i++)
    for (int t = 0; t < 2; t++) {
      const char *at = strchr(d->spec[t], letters[i]);
      if (at) dims[i] = work_type(d->w, d->in[t])->dims[at - d->spec[t]];
    }
  return type_get(d->w->m, dtype, n, dims);
}

/* `v` with dimensions named `from`, permuted to `to`. */
static Val permuted(Dot *d, Val v, const char *from, const char *to, DType dtype, Val out) {
  int64_t perm[MAX_RANK];
  int n = (int)strlen(to);
  for (int i = 0; i < n; i++) perm[i] = strchr(from, to[i]) - from;
  Attr a = attr_ints(d->w->m, AT_perm, n, perm);
  return add_step(d, OP_transpose, 1, &v, type_of_letters(d, to, dtype), 1, &a, WC_MAP, out);
}

/* Sums letters that only one operand has. */
static void sum_own_letters(Dot *d, int t) {
  for (int i = (int)strlen(d->spec[t]) - 1; i >= 0; i--) {
    char l = d->spec[t][i];
    if (strchr(d->spec[1 - t], l) || strchr(d->spec[2], l)) continue;
    int64_t axis = i;
    Attr a[2] = {attr_ints(d->w->m, AT_axes, 1, &axis), attr_red(AT_op, RED_SUM)};
    char left[MAX_RANK + 1] = {0};
    for (int j = 0, n = 0; d->spec[t][j]; j++)
      if (j != i) left[n++] = d->spec[t][j];
    const Type *type = type_of_letters(d, left, work_type(d->w, d->in[t])->dtype);
    d->in[t] = add_step(d, OP_reduce, 1, &d->in[t], type, 2, a, WC_ROW, 0);
    memcpy(d->spec[t], left, sizeof left);
  }
}

static Class class_of(const Dot *d, char l) {
  bool a = strchr(d->spec[0], l), b = strchr(d->spec[1], l), c = strchr(d->spec[2], l);
  return a && b && c ? BATCH : a && c ? M_ONLY : b && c ? N_ONLY : SUMMED;
}

/* ---- matrix product */

static bool merges(Module *m, const Letter *x, const Letter *y) {
  if (x->class != y->class) return false;
  for (int t = 0; t < 3; t++)
    if (x->stride[t] && x->stride[t] != ex_mul(m, y->stride[t], y->extent)) return false;
  return true;
}

/* Merged letters: those of the result in its order, then the summed ones in the first operand's order. */
static int merged_letters(const Dot *d, Letter *out) {
  Module *m = d->w->m;
  char order[2 * MAX_RANK + 1] = {0};
  int n = 0;
  strcpy(order, d->spec[2]);
  for (const char *l = d->spec[0]; *l; l++)
    if (!strchr(d->spec[2], *l)) append(order, *l);
  for (const char *l = order; *l; l++) {
    Letter x = {.class = class_of(d, *l)};
    for (int t = 2; t >= 0; t--) {
      const char *at = strchr(d->spec[t], *l);
      if (!at) continue;
      const Type *type = t == 2 ? type_of_letters(d, d->spec[2], d->dtype) : work_type(d->w, d->in[t]);
      x.extent = type->dims[at - d->spec[t]];
      x.stride[t] = type_stride(m, type, (int)(at - d->spec[t]));
    }
    if (ex_is_const(x.extent, 1)) continue;
    if (n && merges(m, &out[n - 1], &x)) {
      x.extent = ex_mul(m, x.extent, out[n - 1].extent);
      n--;
    }
    out[n++] = x;
  }
  return n;
}

static bool unit(const Expr *e) { return ex_is_const(e, 1); }

/* Sets the strides of a matrix whose rows or columns may be missing, so that one is 1 and the other a leading
 * dimension. */
static bool matrix_strides(Module *m, const Letter *row, const Letter *col, int t, const Expr **row_stride,
                           const Expr **col_stride) {
  const Expr *one = ex_const(m, 1), *r = row ? row->stride[t] : NULL, *c = col ? col->stride[t] : NULL;
  if (!c) c = r && unit(r) ? row->extent : one;
  if (!r) r = unit(c) ? (col ? col->extent : one) : one;
  *row_stride = r, *col_stride = c;
  return unit(r) || unit(c);
}

/* Which letter of a class is the matrix dimension: one with unit stride in tensor t, else the innermost in the
 * result. */
static int choose(const Letter *l, int n, Class class, int t) {
  int best = -1;
  for (int i = 0; i < n; i++)
    if (l[i].class == class && (best < 0 || !unit(l[best].stride[t]))) best = i;
  return best;
}

static bool try_gemm(const Dot *d, GemmUnit *g) {
  Module *m = d->w->m;
  Letter l[2 * MAX_RANK];
  int n = merged_letters(d, l), summed = 0;
  for (int i = 0; i < n; i++) summed += l[i].class == SUMMED;
  if (summed > 1) return false;
  int kk = choose(l, n, SUMMED, 0), nn = choose(l, n, N_ONLY, 2), mm = choose(l, n, M_ONLY, 2);
  if (mm >= 0 && kk >= 0 && !unit(l[kk].stride[0])) mm = choose(l, n, M_ONLY, 0);
  const Letter *row = mm < 0 ? NULL : &l[mm], *col = nn < 0 ? NULL : &l[nn], *sum = kk < 0 ? NULL : &l[kk];
  const Expr *one = ex_const(m, 1), *zero = ex_const(m, 0);
  *g = (GemmUnit){.m = row ? row->extent : one, .n = col ? col->extent : one, .k = sum ? sum->extent : one};
  if (!matrix_strides(m, row, sum, 0, &g->a_m, &g->a_k) || !matrix_strides(m, sum, col, 1, &g->b_k, &g->b_n))
    return false;
  matrix_strides(m, row, col, 2, &g->c_m, &g->c_n);
  if (col && !unit(col->stride[2])) return false;
  if (!col) g->c_n = one, g->c_m = row ? row->stride[2] : one;
  for (int i = 0; i < n; i++) {
    if (i == mm || i == nn || i == kk) continue;
    if (g->nbatch == GEMM_MAX_BATCH) return false;
    int b = g->nbatch++;
    g->batch[b] = l[i].extent;
    g->a_batch[b] = l[i].stride[0] ? l[i].stride[0] : zero;
    g->b_batch[b] = l[i].stride[1] ? l[i].stride[1] : zero;
    g->c_batch[b] = l[i].stride[2];
  }
  return true;
}

static void swap_operands(Dot *d) {
  Val v = d->in[0];
  char s[MAX_RANK + 1];
  d->in[0] = d->in[1], d->in[1] = v;
  memcpy(s, d->spec[0], sizeof s), memcpy(d->spec[0], d->spec[1], sizeof s), memcpy(d->spec[1], s, sizeof s);
}

/* Letters of the classes in turn; the summed ones from the first operand, the others from the result. */
static void letters_in(const Dot *d, const char *classes, char *out) {
  *out = 0;
  for (; *classes; classes++)
    for (const char *l = *classes == 'k' ? d->spec[0] : d->spec[2]; *l; l++)
      if ("bmnk"[class_of(d, *l)] == *classes) append(out, *l);
}

static void make_operand(Dot *d, int t, const char *classes) {
  char want[MAX_RANK + 1];
  letters_in(d, classes, want);
  if (strcmp(want, d->spec[t]) == 0) return;
  Val v = permuted(d, d->in[t], d->spec[t], want, d->dtype, 0);
  d->in[t] = v;
  memcpy(d->spec[t], want, sizeof want);
}

static void add_gemm(Dot *d, GemmUnit *g, Val out) {
  add_step(d, OP_dot, 2, d->in, type_of_letters(d, d->spec[2], d->dtype), 0, NULL, WC_GEMM, out);
  GemmUnit *keep = ARENA_NEW(d->w->m->arena, GemmUnit);
  *keep = *g;
  d->w->ops.items[d->w->ops.n - 1].gemm = keep;
}

/* ---- transposed operands */

static int uses_of(const Work *w, Val v) {
  int n = 0;
  for (size_t i = 0; i < w->f->ops.n; i++)
    for (int k = 0; k < w->f->ops.items[i].nin; k++) n += w->f->ops.items[i].in[k] == v;
  for (size_t i = 0; i < w->f->outputs.n; i++) n += w->f->outputs.items[i].value == v;
  return n;
}

/* What was transposed instead of the result that only this product uses; its letters are permuted back. */
static bool look_through(Dot *d, int t) {
  int def = work_def(d->w, d->in[t]);
  const Op *op = def < 0 ? NULL : d->w->ops.items[def].op;
  if (!op || op->kind != OP_transpose || uses_of(d->w, d->in[t]) != 1) return false;
  const Attr *perm = op_attr(op, AT_perm);
  char spec[MAX_RANK + 1] = {0};
  for (int i = 0; i < perm->n; i++) spec[perm->u.ints[i]] = d->spec[t][i];
  memcpy(d->spec[t], spec, sizeof spec);
  d->in[t] = op->in[0];
  return true;
}

static bool fits_gemm(const Dot *d) {
  GemmUnit g;
  Dot swapped = *d;
  swap_operands(&swapped);
  return try_gemm(d, &g) || try_gemm(&swapped, &g);
}

/* Matrices are read by strides: a transpose need not be made when its source has fitting ones. */
static void skip_transposes(Dot *d) {
  for (int which = 3; which > 0; which--) { /* both, the second, the first */
    Dot e = *d;
    bool any = false;
    for (int t = 0; t < 2; t++)
      if (which >> t & 1) any |= look_through(&e, t);
    if (!any || !fits_gemm(&e)) continue;
    *d = e;
    return;
  }
}

static void dot_by_library(Dot *d, Val out) {
  GemmUnit g;
  skip_transposes(d);
  for (int turn = 0; turn < 2; turn++) {
    if (try_gemm(d, &g)) {
      add_gemm(d, &g, out);
      return;
    }
    swap_operands(d);
  }
  make_operand(d, 1, "bkn"); /* before operand 0, whose order of k letters both follow */
  make_operand(d, 0, "bmk");
  if (try_gemm(d, &g)) {
    add_gemm(d, &g, out);
    return;
  }
  char want[MAX_RANK + 1], have[MAX_RANK + 1];
  memcpy(want, d->spec[2], sizeof want);
  letters_in(d, "bmn", have);
  memcpy(d->spec[2], have, sizeof have);
  if (!try_gemm(d, &g)) die("dot \"%s\" does not become a matrix product", d->op->name);
  Val c = work_temp(d->w, type_of_letters(d, have, d->dtype));
  add_gemm(d, &g, c);
  permuted(d, c, have, want, d->dtype, out);
}

/* ---- products and sums */

static Val spread(Dot *d, int t, const char *space, const Type *type) {
  char order[MAX_RANK + 1] = {0};
  int64_t dims[MAX_RANK];
  int n = 0;
  for (const char *l = space; *l; l++)
    if (strchr(d->spec[t], *l)) order[n] = *l, dims[n++] = l - space;
  Val v = strcmp(order, d->spec[t]) == 0 ? d->in[t] : permuted(d, d->in[t], d->spec[t], order, type->dtype, 0);
  Attr a = attr_ints(d->w->m, AT_dims, n, dims);
  return add_step(d, OP_broadcast, 1, &v, type, 1, &a, WC_MAP, 0);
}

static void dot_by_loops(Dot *d, Val out) {
  DType dtype = d->dtype;
  char space[2 * MAX_RANK + 1] = {0}, left[MAX_RANK + 1];
  strcpy(space, d->spec[2]);
  for (const char *l = d->spec[0]; *l; l++)
    if (!strchr(d->spec[2], *l)) append(space, *l);
  if (strlen(space) > MAX_RANK)
    die("dot \"%s\" of %s has more than %d letters", d->op->name, dtype_name(dtype), MAX_RANK);
  const Type *type = type_of_letters(d, space, dtype);
  Val ab[2] = {spread(d, 0, space, type), spread(d, 1, space, type)};
  int64_t n = (int64_t)strlen(space), kept = (int64_t)strlen(d->spec[2]);
  Val v = add_step(d, OP_mul, 2, ab, type, 0, NULL, WC_MAP, n == kept ? out : 0);
  while (n-- > kept) {
    memcpy(left, space, sizeof left);
    left[n] = 0;
    Attr a[2] = {attr_ints(d->w->m, AT_axes, 1, &n), attr_red(AT_op, RED_SUM)};
    v = add_step(d, OP_reduce, 1, &v, type_of_letters(d, left, dtype), 2, a, WC_ROW, n == kept ? out : 0);
  }
}

void work_add_dot(Work *w, const Op *op, int origin) {
  Dot d = {.w = w, .origin = origin, .op = op, .in = {op->in[0], op->in[1]}, .out = op->out};
  DType dtype = work_type(w, op->in[0])->dtype;
  split(&d, op_str(op, AT_spec));
  bool narrow = !device_multiplies(w->device, dtype) && (dtype == DT_f16 || dtype == DT_bf16);
  d.dtype = narrow ? DT_f32 : dtype;
  for (int t = 0; t < 2; t++) {
    if (narrow) {
      Attr a = attr_dtype(AT_to, DT_f32);
      d.in[t] =
          add_step(&d, OP_cast, 1, &d.in[t], type_with_dtype(w->m, work_type(w, d.in[t]), DT_f32), 1, &a, WC_MAP, 0);
    }
    sum_own_letters(&d, t);
  }
  if (!device_multiplies(w->device, d.dtype)) {
    dot_by_loops(&d, op->out);
    return;
  }
  const Type *type = work_type(w, op->out);
  Val wide = narrow ? work_temp(w, type_with_dtype(w->m, type, DT_f32)) : op->out;
  dot_by_library(&d, wide);
  Attr a = attr_dtype(AT_to, dtype);
  if (narrow) add_step(&d, OP_cast, 1, &wide, type, 1, &a, WC_MAP, op->out);
}
