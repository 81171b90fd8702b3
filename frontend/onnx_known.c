/* frontend/onnx_known.c - see onnx_known.h. */
#include "frontend/onnx_known.h"

#include <string.h>

/* ---- bounds: interval arithmetic that saturates */

static int64_t sat_add(int64_t a, int64_t b) {
  if (a == INT64_MIN || b == INT64_MIN) return INT64_MIN;
  if (a == INT64_MAX || b == INT64_MAX) return INT64_MAX;
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return a < 0 ? INT64_MIN : INT64_MAX;
  return r;
}

static int64_t sat_mul(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  bool negative = (a < 0) != (b < 0), infinite = a == INT64_MIN || a == INT64_MAX || b == INT64_MIN || b == INT64_MAX;
  int64_t r;
  if (infinite || __builtin_mul_overflow(a, b, &r)) return negative ? INT64_MIN : INT64_MAX;
  return r;
}

static Bounds add_bounds(Bounds x, Bounds y) {
  /* The two ends are separate: an open end of one stays open. */
  Bounds r = {INT64_MIN, INT64_MAX};
  if (x.low != INT64_MIN && y.low != INT64_MIN) r.low = sat_add(x.low, y.low);
  if (x.high != INT64_MAX && y.high != INT64_MAX) r.high = sat_add(x.high, y.high);
  return r;
}

static Bounds mul_bounds(Bounds x, Bounds y) {
  int64_t p[4] = {sat_mul(x.low, y.low), sat_mul(x.low, y.high), sat_mul(x.high, y.low), sat_mul(x.high, y.high)};
  Bounds r = {p[0], p[0]};
  for (int i = 1; i < 4; i++) {
    if (p[i] < r.low) r.low = p[i];
    if (p[i] > r.high) r.high = p[i];
  }
  return r;
}

static int64_t floor_div(int64_t a, int64_t b) {
  if (a == INT64_MIN || a == INT64_MAX) return a;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static Bounds div_bounds(Bounds x, Bounds y) {
  if (y.low < 1) return (Bounds){INT64_MIN, INT64_MAX};
  Bounds r;
  r.low = x.low < 0 ? floor_div(x.low, y.low) : y.high == INT64_MAX ? 0 : floor_div(x.low, y.high);
  r.high = x.high >= 0 ? floor_div(x.high, y.low) : y.high == INT64_MAX ? -1 : floor_div(x.high, y.high);
  return r;
}

static Bounds symbol_bounds(const Module *m, const Expr *e) {
  const Symbol *s = &m->symbols.items[e->value];
  if (s->axis >= 0) return (Bounds){0, m->mesh.axes[s->axis].size - 1};
  return (Bounds){s->min, s->max ? s->max : INT64_MAX};
}

Bounds known_bounds(const Module *m, const Expr *e) {
  Bounds r = {e->value, e->value}, b;
  switch (e->kind) {
    case EX_CONST: return r;
    case EX_SYM: return symbol_bounds(m, e);
    case EX_DIV: return div_bounds(known_bounds(m, e->args[0]), known_bounds(m, e->args[1]));
    case EX_MUL:
      for (int i = 0; i < e->n; i++) r = mul_bounds(r, known_bounds(m, e->args[i]));
      return r;
    case EX_ADD:
      for (int i = 0; i < e->n; i++) r = add_bounds(r, known_bounds(m, e->args[i]));
      return r;
    case EX_MIN:
    case EX_MAX:
      r = known_bounds(m, e->args[0]);
      for (int i = 1; i < e->n; i++) {
        b = known_bounds(m, e->args[i]);
        bool take_low = e->kind == EX_MIN ? b.low < r.low : b.low > r.low;
        bool take_high = e->kind == EX_MIN ? b.high < r.high : b.high > r.high;
        r = (Bounds){take_low ? b.low : r.low, take_high ? b.high : r.high};
      }
      return r;
  }
  return (Bounds){INT64_MIN, INT64_MAX};
}

bool known_ge(Module *m, const Expr *a, const Expr *b) { return known_bounds(m, ex_sub(m, a, b)).low >= 0; }
bool known_gt(Module *m, const Expr *a, const Expr *b) { return known_bounds(m, ex_sub(m, a, b)).low > 0; }
bool known_ne(Module *m, const Expr *a, const Expr *b) { return known_gt(m, a, b) || known_gt(m, b, a); }

bool known_extents(const Module *m, int rank, const Expr *const *dims) {
  for (int d = 0; d < rank; d++) {
    Bounds b = known_bounds(m, dims[d]);
    if (b.high < 0 || b.low > MAX_EXTENT) return false;
  }
  return true;
}

/* ---- making */

Known known_make(Module *m, const Type *type, const Expr *const *items) {
  int64_t n;
  if (!ex_get_const(type_elements(m, type), &n) || n < 0 || n > KNOWN_MAX) return (Known){type, 0, NULL};
  const Expr **copy = ARENA_ARRAY(m->arena, const Expr *, n);
  if (n) memcpy(copy, items, sizeof *copy * (size_t)n);
  return (Known){type, (int)n, copy};
}

Known known_ints(Module *m, DType dtype, int rank, const int64_t *dims, const int64_t *items) {
  const Expr *e[KNOWN_MAX];
  const Type *type = type_of_ints(m, dtype, rank, dims);
  int64_t n = type_elements(m, type)->value;
  for (int64_t i = 0; i < n && i < KNOWN_MAX; i++) e[i] = ex_const(m, items[i]);
  return known_make(m, type, e);
}

bool known_constants(const Known *k, int64_t *out) {
  if (!k->items) return false;
  for (int i = 0; i < k->n; i++)
    if (!ex_get_const(k->items[i], &out[i])) return false;
  return true;
}

/* ---- elementwise */

static const Expr *boolean(Module *m, bool yes, bool no) { return yes ? ex_const(m, 1) : no ? ex_const(m, 0) : NULL; }

static const Expr *compare(Module *m, OpKind kind, const Expr *x, const Expr *y) {
  switch (kind) {
    case OP_eq: return boolean(m, x == y, known_ne(m, x, y));
    case OP_ne: return boolean(m, known_ne(m, x, y), x == y);
    case OP_lt: return boolean(m, known_gt(m, y, x), known_ge(m, x, y));
    case OP_le: return boolean(m, known_ge(m, y, x), known_gt(m, x, y));
    case OP_gt: return boolean(m, known_gt(m, x, y), known_ge(m, y, x));
    case OP_ge: return boolean(m, known_ge(m, x, y), known_gt(m, y, x));
    default: return NULL;
  }
}

/* Truncating division and remainder equal the flooring ones where nothing is negative. */
static bool divides_plainly(Module *m, const Expr *x, const Expr *y) {
  return known_bounds(m, x).low >= 0 && known_bounds(m, y).low >= 1;
}

static const Expr *logic(Module *m, OpKind kind, const Expr *x, const Expr *y) {
  int64_t a, b;
  if (!ex_get_const(x, &a) || !ex_get_const(y, &b)) return NULL;
  return ex_const(m, kind == OP_and ? a & b : kind == OP_or ? a | b : a ^ b);
}

static const Expr *binary(Module *m, OpKind kind, const Expr *x, const Expr *y) {
  switch (kind) {
    case OP_add: return ex_add(m, x, y);
    case OP_sub: return ex_sub(m, x, y);
    case OP_mul: return ex_mul(m, x, y);
    case OP_div: return divides_plainly(m, x, y) ? ex_div(m, x, y) : NULL;
    case OP_mod: return divides_plainly(m, x, y) ? ex_mod(m, x, y) : NULL;
    case OP_max: return ex_max(m, x, y);
    case OP_min: return ex_min(m, x, y);
    case OP_and:
    case OP_or:
    case OP_xor: return logic(m, kind, x, y);
    default: return compare(m, kind, x, y);
  }
}

static const Expr *unary(Module *m, OpKind kind, DType to, const Expr *x) {
  const Expr *zero = ex_const(m, 0);
  switch (kind) {
    case OP_neg: return ex_sub(m, zero, x);
    case OP_not: return compare(m, OP_eq, x, zero);
    case OP_abs: return known_bounds(m, x).low >= 0 ? x : known_bounds(m, x).high <= 0 ? ex_sub(m, zero, x) : NULL;
    case OP_relu: return ex_max(m, x, zero);
    case OP_sign: return known_gt(m, x, zero) ? ex_const(m, 1) : x == zero ? x : known_gt(m, zero, x) ? ex_const(m,
        -1) : NULL;
    case OP_cast: return to == DT_bool ? compare(m, OP_ne, x, zero) : x;
    default: return NULL;
  }
}

static const Expr *element(Module *m, OpKind kind, DType result, int nin, const Expr *const *x) {
  int64_t condition;
  if (kind == OP_select) return ex_get_const(x[0], &condition) ? x[condition ? 1 : 2] : NULL;
  return nin == 1 ? unary(m, kind, result, x[0]) : binary(m, kind, x[0], x[1]);
}

/* Values of 64 bits only: wrapping of narrower types is not modelled. */
static bool fits(const Module *m, DType t, const Expr *e) {
  Bounds b = known_bounds(m, e);
  if (dtype_class(t) == DTC_B) return true;
  if (dtype_class(t) == DTC_F) return false;
  int bits = (int)dtype_bytes(t) * 8;
  if (bits == 64) return dtype_class(t) == DTC_I || b.low >= 0;
  int64_t span = (int64_t)1 << (dtype_class(t) == DTC_I ? bits - 1 : bits);
  if (e->kind != EX_CONST) return bits >= 32; /* sizes are assumed below 2^31, as the exporter did */
  return b.high < span && b.low >= (dtype_class(t) == DTC_I ? -span : 0);
}

bool known_broadcast(Module *m, const Type *x, const Type *y, int *rank, const Expr **dims) {
  *rank = x->rank > y->rank ? x->rank : y->rank;
  for (int i = 0; i < *rank; i++) {
    int xi = i - (*rank - x->rank), yi = i - (*rank - y->rank);
    const Expr *p = xi >= 0 ? x->dims[xi] : ex_const(m, 1), *q = yi >= 0 ? y->dims[yi] : ex_const(m, 1);
    if (p != q && !ex_is_const(p, 1) && !ex_is_const(q, 1)) return false;
    dims[i] = ex_is_const(p, 1) ? q : p;
  }
  return true;
}

/* The operand element that result index `at` of a tensor of `type` reads. */
static int source_index(const Type *type, const Type *operand, int at) {
  int index = 0, scale = 1;
  for (int d = type->rank - 1; d >= 0; d--) {
    int o = d - (type->rank - operand->rank), extent = (int)type->dims[d]->value;
    if (o >= 0 && operand->dims[o]->value != 1) {
      index += at % extent * scale;
      scale *= extent;
    }
    at /= extent;
  }
  return index;
}

Known known_pointwise(Module *m, OpKind kind, DType result, int nin, const Known *in) {
  const Expr *dims[MAX_RANK], *items[KNOWN_MAX], *x[3];
  const Type *type = in[0].type;
  int rank;
  for (int i = 0; i < nin; i++) {
    if (!in[i].items || !known_broadcast(m, type, in[i].type, &rank, dims)) return (Known){0};
    type = type_get(m, result, rank, dims);
  }
  int64_t n;
  if (!ex_get_const(type_elements(m, type), &n) || n < 0 || n > KNOWN_MAX) return (Known){0};
  for (int e = 0; e < n; e++) {
    for (int i = 0; i < nin; i++) x[i] = in[i].items[source_index(type, in[i].type, e)];
    items[e] = element(m, kind, result, nin, x);
    if (!items[e] || !fits(m, result, items[e])) return (Known){0};
  }
  return known_make(m, type, items);
}

/* ---- moving and reducing */

Known known_pick(Module *m, const Known *k, const Type *type, const int *source) {
  const Expr *items[KNOWN_MAX];
  int64_t n;
  if (!k->items || !ex_get_const(type_elements(m, type), &n) || n < 0 || n > KNOWN_MAX) return (Known){0};
  for (int i = 0; i < n; i++) items[i] = k->items[source[i]];
  return known_make(m, type, items);
}

static const Expr *combine(Module *m, Reduction r, const Expr *x, const Expr *y) {
  switch (r) {
    case RED_SUM: return ex_add(m, x, y);
    case RED_PRODUCT: return ex_mul(m, x, y);
    case RED_MAX: return ex_max(m, x, y);
    case RED_MIN: return ex_min(m, x, y);
    default: return NULL;
  }
}

Known known_reduce(Module *m, Reduction r, const Known *k, const Type *type, unsigned axes) {
  const Expr *items[KNOWN_MAX] = {NULL};
  if (!k->items || k->n == 0) return (Known){0};
  for (int e = 0; e < k->n; e++) {
    int at = e, to = 0, scale = 1;
    for (int d = k->type->rank - 1; d >= 0; d--) {
      int extent = (int)k->type->dims[d]->value;
      if (!(axes >> d & 1)) {
        to += at % extent * scale;
        scale *= extent;
      }
      at /= extent;
    }
    items[to] = items[to] ? combine(m, r, items[to], k->items[e]) : k->items[e];
    if (!items[to] || !fits(m, type->dtype, items[to])) return (Known){0};
  }
  return known_make(m, type, items);
}
