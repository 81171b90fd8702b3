/* codegen/rows/work_dot.c - adds the operations that perform a dot (ir/legal_dot.h): one batched matrix product of the
 * device's library with the casts, sums and transposes around it, or pointwise products and sums.
 *
 * Dots that the library cannot multiply become broadcast, multiply, reduce, which fuse into one loop.
 *
 * Rows of 16-bit matrices whose bytes are no multiple of 16 (a vocabulary of 50257) slow tensor cores down: for 8192 x
 * 768 x 50257 an H200 reaches 95 of the 795 TFLOP/s that it has for large products.  So rows of the operands of large
 * products are padded with zeros, and the result is sliced: if kernels write the operands and read the result, this
 * adds no copies.
 */
#include <string.h>

#include "base/die.h"
#include "codegen/rows/row_work.h"
#include "ir/legal_dot.h"

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

static Val add_step(Dot *d, OpKind kind, int nin, const Val *in, const Type *type, int nattrs, const Attr *attrs,
                    WorkClass class, Val out) {
  Op op = {.kind = kind, .nin = nin, .in = in, .out = out, .nattrs = nattrs, .attrs = attrs};
  return work_step(d->w, d->op, d->origin, &op, type, class);
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

/* Permutes `v`, whose dimensions are named `from`, to the order `to`. */
static Val permuted(Dot *d, Val v, const char *from, const char *to, DType dtype, Val out) {
  int64_t perm[MAX_RANK];
  int n = (int)strlen(to);
  for (int i = 0; i < n; i++) perm[i] = strchr(from, to[i]) - from;
  Attr a = attr_ints(d->w->m, AT_perm, n, perm);
  return add_step(d, OP_transpose, 1, &v, type_of_letters(d, to, dtype), 1, &a, WC_MAP, out);
}

/* Sums over letters that only one operand has. */
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

static DotForm form_of(const Dot *d) {
  DotForm f = {.dtype = d->dtype};
  memcpy(f.spec, d->spec, sizeof f.spec);
  for (int t = 0; t < 2; t++)
    for (int i = 0; d->spec[t][i]; i++) f.one[(int)d->spec[t][i]] = ex_is_const(work_type(d->w, d->in[t])->dims[i], 1);
  return f;
}

/* ---- matrix product */

static void swap_operands(Dot *d) {
  Val v = d->in[0];
  char s[MAX_RANK + 1];
  d->in[0] = d->in[1], d->in[1] = v;
  memcpy(s, d->spec[0], sizeof s), memcpy(d->spec[0], d->spec[1], sizeof s), memcpy(d->spec[1], s, sizeof s);
}

static const Type *tensor_type(const Dot *d, int t) {
  return t == 2 ? type_of_letters(d, d->spec[2], d->dtype) : work_type(d->w, d->in[t]);
}

/* Returns the elements of tensor t between neighbours of a group; NULL if it lacks the group. */
static const Expr *stride_of(const Dot *d, const DotGroup *g, int t) {
  const char *at = strchr(d->spec[t], g->letters[strlen(g->letters) - 1]);
  return at ? row_type_stride(d->w->m, tensor_type(d, t), (int)(at - d->spec[t])) : NULL;
}

static const Expr *extent_of(const Dot *d, const DotGroup *g) {
  const Expr *e = NULL;
  for (const char *l = g->letters; *l; l++) {
    int t = strchr(d->spec[0], *l) ? 0 : 1;
    const Expr *x = work_type(d->w, d->in[t])->dims[strchr(d->spec[t], *l) - d->spec[t]];
    e = e ? ex_mul(d->w->m, x, e) : x;
  }
  return e;
}

static bool unit(const Expr *e) { return ex_is_const(e, 1); }

/* Finds the strides of a matrix whose rows or columns may be missing (NULL): one is 1 and the other a leading
 * dimension. */
static void matrix_strides(const Dot *d, const DotGroup *row, const DotGroup *col, int t, const Expr **row_stride,
                           const Expr **col_stride) {
  const Expr *one = ex_const(d->w->m, 1), *r = row ? stride_of(d, row, t) : NULL,
             *c = col ? stride_of(d, col, t) : NULL;
  if (!c) c = r && unit(r) ? extent_of(d, row) : one;
  if (!r) r = unit(c) ? (col ? extent_of(d, col) : one) : one;
  *row_stride = r, *col_stride = c;
}

static GemmUnit gemm_of(const Dot *d, const LegalDot *p) {
  Module *m = d->w->m;
  const Expr *one = ex_const(m, 1), *zero = ex_const(m, 0);
  const DotGroup *row = p->row < 0 ? NULL : &p->groups[p->row], *col = p->column < 0 ? NULL : &p->groups[p->column],
                 *sum = p->depth < 0 ? NULL : &p->groups[p->depth];
  GemmUnit g = {.m = row ? extent_of(d, row) : one,
                .n = col ? extent_of(d, col) : one,
                .k = sum ? extent_of(d, sum) : one,
                .nbatch = p->nbatch,
                .sums = program_gemm_sums(d->dtype)};
  matrix_strides(d, row, sum, 0, &g.a_m, &g.a_k);
  matrix_strides(d, sum, col, 1, &g.b_k, &g.b_n);
  matrix_strides(d, row, col, 2, &g.c_m, &g.c_n);
  if (!col) g.c_n = one, g.c_m = row ? stride_of(d, row, 2) : one;
  for (int b = 0; b < p->nbatch; b++) {
    const DotGroup *x = &p->groups[p->batch[b]];
    const Expr *a_step = stride_of(d, x, 0), *b_step = stride_of(d, x, 1);
    g.batch[b] = extent_of(d, x);
    g.a_batch[b] = a_step ? a_step : zero;
    g.b_batch[b] = b_step ? b_step : zero;
    g.c_batch[b] = stride_of(d, x, 2);
  }
  return g;
}

/* Permutes an operand to the order of letters that the product needs. */
static void make_operand(Dot *d, int t, const char *want) {
  if (strcmp(want, d->spec[t]) == 0) return;
  d->in[t] = permuted(d, d->in[t], d->spec[t], want, d->dtype, 0);
  strcpy(d->spec[t], want);
}

static void add_gemm(Dot *d, const LegalDot *p, Val out) {
  Module *m = d->w->m;
  Attr spec = attr_s(m, AT_spec, arena_printf(m->arena, "%s,%s->%s", d->spec[0], d->spec[1], d->spec[2]));
  add_step(d, OP_dot, 2, d->in, type_of_letters(d, d->spec[2], d->dtype), 1, &spec, WC_GEMM, out);
  GemmUnit *keep = ARENA_NEW(d->w->arena, GemmUnit);
  *keep = gemm_of(d, p);
  keep->origin = d->origin;
  d->w->ops.items[d->w->ops.n - 1].gemm = keep;
}

/* ---- padded rows */

enum { LEAST_LENGTHENED = 256 }; /* rows, columns and depth of a product for which padding pays off */

static bool is_large(const Dot *d, const LegalDot *p) {
  GemmUnit g = gemm_of(d, p);
  const Expr *sides[] = {g.m, g.n, g.k};
  for (int i = 0; i < 3; i++)
    if (work_expected(d->w->m, sides[i]) < LEAST_LENGTHENED) return false;
  return true;
}

/* True if the letter alone is the rows, the columns or the depth. */
static bool is_side(const LegalDot *p, char l) {
  const int sides[] = {p->row, p->column, p->depth};
  for (int i = 0; i < 3; i++)
    if (sides[i] >= 0 && p->groups[sides[i]].letters[0] == l && !p->groups[sides[i]].letters[1]) return true;
  return false;
}

/* Returns by how many elements a row of tensor `t` falls short of a multiple of the device's alignment; 0 if
 * aligned. */
static int64_t missing(const Dot *d, const LegalDot *p, int t) {
  size_t n = strlen(d->spec[t]);
  int64_t extent, many = d->w->device->row_bytes / (int64_t)dtype_bytes(d->dtype);
  if (n < 2 || !is_side(p, d->spec[t][n - 1]) || !ex_get_const(tensor_type(d, t)->dims[n - 1], &extent)) return 0;
  return (many - extent % many) % many;
}

/* Returns the value already padded from `v` for another product of the same phase; 0 if none. */
static Val lengthened(const Dot *d, Val v, const Type *type) {
  const Op *ops = d->w->f->ops.items, *mine = &ops[d->origin];
  for (size_t i = d->w->ops.n; i-- > 0 && !d->w->in_turns;) {
    const Op *op = d->w->ops.items[i].op, *origin = &ops[d->w->ops.items[i].origin];
    bool same = op->kind == OP_pad && op->in[0] == v && work_type(d->w, op->out) == type;
    if (same && origin->kind == OP_dot && origin->phase == mine->phase && origin->again == mine->again) return op->out;
  }
  return 0;
}

/* Pads a letter with zeros at its end. */
static void lengthen_letter(Dot *d, char l, int64_t by) {
  Module *m = d->w->m;
  for (int t = 0; t < 2; t++) {
    const char *at = strchr(d->spec[t], l);
    const Type *x = work_type(d->w, d->in[t]);
    const Expr *low[MAX_RANK], *high[MAX_RANK], *dims[MAX_RANK];
    if (!at) continue;
    for (int i = 0; i < x->rank; i++) low[i] = high[i] = ex_const(m, 0), dims[i] = x->dims[i];
    int of = (int)(at - d->spec[t]);
    high[of] = ex_const(m, by), dims[of] = ex_add(m, x->dims[of], high[of]);
    const Type *type = type_get(m, x->dtype, x->rank, dims);
    Val before = lengthened(d, d->in[t], type);
    Attr a[] = {attr_exprs(m, AT_low, x->rank, low), attr_exprs(m, AT_high, x->rank, high), attr_f(AT_value, 0)};
    d->in[t] = before ? before : add_step(d, OP_pad, 1, &d->in[t], type, 3, a, WC_MAP, 0);
  }
}

static void lengthen_rows(Dot *d, const LegalDot *p) {
  if (!d->w->device->row_bytes || dtype_bytes(d->dtype) != 2 || !is_large(d, p)) return;
  for (int t = 0; t < 3; t++) {
    int64_t by = missing(d, p, t);
    if (by) lengthen_letter(d, d->spec[t][strlen(d->spec[t]) - 1], by);
  }
}

/* Slices out the beginning of `v` of that type. */
static Val cut(Dot *d, Val v, const Type *type, Val out) {
  Module *m = d->w->m;
  const Expr *starts[MAX_RANK];
  int64_t strides[MAX_RANK];
  for (int i = 0; i < type->rank; i++) starts[i] = ex_const(m, 0), strides[i] = 1;
  Attr a[] = {attr_exprs(m, AT_starts, type->rank, starts), attr_ints(m, AT_strides, type->rank, strides)};
  return add_step(d, OP_slice, 1, &v, type, 2, a, WC_MAP, out);
}

static void dot_by_library(Dot *d, Val out) {
  LegalDot p;
  DotForm f = form_of(d);
  char want[MAX_RANK + 1];
  legal_dot(d->w->device, &f, &p);
  if (p.swapped) swap_operands(d);
  make_operand(d, 1, p.spec[1]);
  make_operand(d, 0, p.spec[0]);
  strcpy(want, d->spec[2]), strcpy(d->spec[2], p.spec[2]);
  bool turned = strcmp(p.spec[2], want) != 0;
  const Type *asked = tensor_type(d, 2);
  Val in[2] = {d->in[0], d->in[1]};
  lengthen_rows(d, &p);
  const Type *made = tensor_type(d, 2);
  Val c = turned || made != asked ? work_temp(d->w, made) : out;
  add_gemm(d, &p, c);
  memcpy(d->in, in, sizeof in);
  if (made != asked) c = cut(d, c, asked, turned ? 0 : out);
  if (turned) permuted(d, c, d->spec[2], want, d->dtype, out);
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
  DotForm form;
  LegalDot p;
  op_dot_form(&form, work_type(w, op->out)->dtype, op_str(op, AT_spec));
  legal_dot(w->device, &form, &p);
  d.dtype = p.dtype;
  memcpy(d.spec, form.spec, sizeof d.spec);
  bool cast = p.dtype != form.dtype;
  for (int t = 0; t < 2; t++) {
    if (work_type(w, d.in[t])->dtype != p.dtype) {
      Attr a = attr_dtype(AT_to, p.dtype);
      const Type *wide = type_with_dtype(w->m, work_type(w, d.in[t]), p.dtype);
      d.in[t] = add_step(&d, OP_cast, 1, &d.in[t], wide, 1, &a, WC_MAP, 0);
    }
    sum_own_letters(&d, t);
  }
  if (!p.library) {
    dot_by_loops(&d, op->out);
    return;
  }
  const Type *type = work_type(w, op->out);
  Val wide = cast ? work_temp(w, type_with_dtype(w->m, type, p.dtype)) : op->out;
  dot_by_library(&d, wide);
  Attr a = attr_dtype(AT_to, form.dtype);
  if (cast) add_step(&d, OP_cast, 1, &wide, type, 1, &a, WC_MAP, op->out);
}
