/* ir/run/eval_cells.c - elements: numbers as cells, identities and folds of reductions, arithmetic modulo p, loop
 * nests. */
#include <math.h>
#include <string.h>

#include "base/die.h"
#include "ir/run/eval.h"

/* ---- arithmetic modulo p = 2^31 - 1 */

uint64_t modp_inverse(uint64_t a) {
  uint64_t r = 1, e = INTERP_P - 2; /* Fermat: a^(p-2); 0 stays 0 */
  for (uint64_t b = a; e; e >>= 1, b = modp_mul(b, b))
    if (e & 1) r = modp_mul(r, b);
  return r;
}

/* The finalizer of SplitMix64 over the operands; only needs to distinguish unequal operands. */
uint64_t modp_hash(uint64_t kind, uint64_t x, uint64_t y) {
  uint64_t h = kind * 0x9e3779b97f4a7c15u ^ x;
  for (int i = 0; i < 2; i++) {
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    h ^= h >> 31;
    if (i == 0) h ^= y * 0xd6e8feb86659fd93u;
  }
  return h % INTERP_P;
}

/* Every finite double is m * 2^k, and 2^31 = 1 modulo p.  Infinities are the ends of the order, so they remain the
 * identities of max and min. */
uint64_t interp_residue(double v) {
  if (isnan(v)) return modp_hash(OP_isnan, 0, 0);
  if (isinf(v)) return v < 0 ? 0 : INTERP_P - 1;
  int k;
  double m = frexp(v, &k);
  int64_t mantissa = (int64_t)ldexp(m, 53);
  int shift = ((k - 53) % 31 + 31) % 31;
  return modp_mul(modp_of_int(mantissa), (uint64_t)1 << shift);
}

/* ---- numbers as elements */

Cell cell_of_double(bool modp, DType t, double v) {
  if (dtype_is_float(t)) return modp ? cell_i((int64_t)interp_residue(v)) : cell_f(v);
  return cell_i(dtype_constant_i(t, v));
}

Cell cell_of_int(bool modp, DType t, int64_t v) {
  if (!dtype_is_float(t)) return cell_i(wrap_int(t, v));
  if (modp) return cell_i((int64_t)modp_of_int(v));
  return cell_f((double)v);
}

static int64_t int_limit(DType t, bool largest) {
  int bits = dtype_bits(t);
  if (t == DT_bool) return largest;
  if (dtype_class(t) == DTC_U) return !largest ? 0 : bits == 64 ? -1 : (int64_t)(((uint64_t)1 << bits) - 1);
  int64_t top = (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
  return largest ? top : -top - 1;
}

Cell cell_identity(bool modp, DType t, Reduction r) {
  bool is_float = dtype_is_float(t);
  switch (r) {
    case RED_PRODUCT: return cell_of_int(modp, t, 1);
    case RED_MAX: return is_float ? cell_of_double(modp, t, -INFINITY) : cell_i(int_limit(t, false));
    case RED_MIN: return is_float ? cell_of_double(modp, t, INFINITY) : cell_i(int_limit(t, true));
    case RED_AND: return cell_i(wrap_int(t, -1)); /* all bits; true */
    default: return cell_i(0);                    /* sum, or, one: zero bits are the number 0 in both domains */
  }
}

void cells_fill(const InterpTensor *t, Cell v) {
  int64_t n = interp_elements(t);
  for (int64_t i = 0; i < n; i++) t->cells[i] = v;
}

/* ---- folding */

#define FOLD(field, expression) \
  for (int64_t i = 0; i < n; i++, acc += as, x += xs) { \
    const __typeof__(acc->field) a = acc->field, b = x->field; \
    acc->field = (expression); \
  } \
  return

static void reduce_float(Reduction r, int64_t n, Cell *acc, int64_t as, const Cell *x, int64_t xs) {
  switch (r) {
    case RED_SUM: FOLD(f, a + b);
    case RED_PRODUCT: FOLD(f, a * b);
    case RED_MAX: FOLD(f, isnan(a) || isnan(b) ? NAN : a > b ? a : b);
    case RED_MIN: FOLD(f, isnan(a) || isnan(b) ? NAN : a < b ? a : b);
    case RED_ONE: FOLD(i, a | b);
    default: die("no %s of floats", reduction_name(r));
  }
}

static void reduce_modp(Reduction r, int64_t n, Cell *acc, int64_t as, const Cell *x, int64_t xs) {
  switch (r) {
    case RED_SUM: FOLD(i, (int64_t)modp_add((uint64_t)a, (uint64_t)b));
    case RED_PRODUCT: FOLD(i, (int64_t)modp_mul((uint64_t)a, (uint64_t)b));
    case RED_MAX: FOLD(i, a > b ? a : b);
    case RED_MIN: FOLD(i, a < b ? a : b);
    case RED_ONE: FOLD(i, a | b);
    default: die("no %s of floats", reduction_name(r));
  }
}

static void reduce_int(DType t, Reduction r, int64_t n, Cell *acc, int64_t as, const Cell *x, int64_t xs) {
  const bool u64 = t == DT_u64;
  switch (r) {
    case RED_SUM: FOLD(i, wrap_int(t, (int64_t)((uint64_t)a + (uint64_t)b)));
    case RED_PRODUCT: FOLD(i, wrap_int(t, (int64_t)((uint64_t)a * (uint64_t)b)));
    case RED_MAX: FOLD(i, (u64 ? (uint64_t)a > (uint64_t)b : a > b) ? a : b);
    case RED_MIN: FOLD(i, (u64 ? (uint64_t)a < (uint64_t)b : a < b) ? a : b);
    case RED_OR:
    case RED_ONE: FOLD(i, a | b);
    case RED_AND: FOLD(i, a & b);
    case RED_NONE:
    case RED_COUNT: die("no reduction named");
  }
}

void cells_reduce(bool modp, DType t, Reduction r, int64_t n, Cell *acc, int64_t as, const Cell *x, int64_t xs) {
  if (!dtype_is_float(t)) reduce_int(t, r, n, acc, as, x, xs);
  else if (modp) reduce_modp(r, n, acc, as, x, xs);
  else reduce_float(r, n, acc, as, x, xs);
}

/* ---- loop nests */

void eval_row_major(int rank, const int64_t *dims, int64_t *strides) {
  int64_t stride = 1;
  for (int d = rank - 1; d >= 0; d--) {
    strides[d] = stride;
    stride *= dims[d];
  }
}

int64_t count_cells(int rank, const int64_t *dims) {
  int64_t n = 1;
  for (int d = 0; d < rank; d++) n *= dims[d];
  return n;
}

EvalLines eval_lines(const InterpTensor *t, int axis) {
  return (EvalLines){count_cells(axis, t->dims), t->dims[axis], count_cells(t->rank - axis - 1, t->dims + axis + 1)};
}

int64_t letter_stride(const char *letters, int n, const int64_t *strides, char letter) {
  const char *found = memchr(letters, letter, (size_t)n);
  return found ? strides[found - letters] : 0;
}

void nest_add(Nest *n, int64_t extent, int64_t s0, int64_t s1, int64_t s2) {
  if (n->n == NEST_MAX) die("loop nest too deep");
  n->extent[n->n] = extent;
  n->stride[0][n->n] = s0;
  n->stride[1][n->n] = s1;
  n->stride[2][n->n] = s2;
  n->n++;
}

/* True if loop `b` directly inside loop `a` can be traversed as one loop. */
static bool joins(const Nest *n, int a, int b) {
  for (int t = 0; t < NEST_TENSORS; t++)
    if (n->stride[t][a] != n->stride[t][b] * n->extent[b]) return false;
  return true;
}

void nest_close(Nest *n) {
  int kept = 0;
  for (int i = 0; i < n->n; i++) {
    if (n->extent[i] == 1) continue;
    if (kept && joins(n, kept - 1, i)) {
      n->extent[kept - 1] *= n->extent[i];
      for (int t = 0; t < NEST_TENSORS; t++) n->stride[t][kept - 1] = n->stride[t][i];
      continue;
    }
    n->extent[kept] = n->extent[i];
    for (int t = 0; t < NEST_TENSORS; t++) n->stride[t][kept] = n->stride[t][i];
    kept++;
  }
  n->inner = kept ? n->extent[kept - 1] : 1;
  for (int t = 0; t < NEST_TENSORS; t++) n->step[t] = kept ? n->stride[t][kept - 1] : 0;
  n->n = kept ? kept - 1 : 0;
}

NestAt nest_begin(const Nest *n) {
  NestAt at;
  at.more = n->inner > 0;
  for (int i = 0; i < n->n; i++) {
    at.index[i] = 0;
    at.more = at.more && n->extent[i] > 0;
  }
  for (int t = 0; t < NEST_TENSORS; t++) at.offset[t] = 0;
  return at;
}

void nest_next(const Nest *n, NestAt *at) {
  for (int i = n->n - 1; i >= 0; i--) {
    for (int t = 0; t < NEST_TENSORS; t++) at->offset[t] += n->stride[t][i];
    if (++at->index[i] < n->extent[i]) return;
    for (int t = 0; t < NEST_TENSORS; t++) at->offset[t] -= n->stride[t][i] * n->extent[i];
    at->index[i] = 0;
  }
  at->more = false;
}

void nest_copy(const Nest *n, Cell *dst, const Cell *src) {
  bool whole = n->step[0] == 1 && n->step[1] == 1;
  for (NestAt at = nest_begin(n); at.more; nest_next(n, &at)) {
    Cell *y = dst + at.offset[0];
    const Cell *x = src + at.offset[1];
    if (whole) memcpy(y, x, sizeof(Cell) * (size_t)n->inner);
    else
      for (int64_t i = 0; i < n->inner; i++) y[i * n->step[0]] = x[i * n->step[1]];
  }
}

void eval_box_copy(int rank, const int64_t *size, Cell *dst, const int64_t *dst_dims, const int64_t *to,
                   const Cell *src, const int64_t *src_dims, const int64_t *at) {
  int64_t ds[MAX_RANK], ss[MAX_RANK];
  Nest nest = {0};
  eval_row_major(rank, dst_dims, ds);
  eval_row_major(rank, src_dims, ss);
  for (int d = 0; d < rank; d++) {
    dst += to[d] * ds[d];
    src += at[d] * ss[d];
    nest_add(&nest, size[d], ds[d], ss[d], 0);
  }
  nest_close(&nest);
  nest_copy(&nest, dst, src);
}
