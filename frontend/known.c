/* frontend/known.c - see known.h. */
#include "frontend/known.h"

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
  /* The two ends are independent: an infinite end stays infinite. */
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

static Bounds symbol_bounds(Module *m, const Expr *e) {
  const Symbol *s = &m->symbols.items[e->value];
  if (s->axis >= 0) return (Bounds){0, m->mesh.axes[s->axis].size - 1};
  if (s->most) return (Bounds){s->min, known_bounds(m, s->most).high};
  return (Bounds){s->min, s->max ? s->max : INT64_MAX};
}

/* coefficient * (numerator div divisor) */
typedef struct Floor {
  const Expr *numerator;
  int64_t coefficient, divisor;
} Floor;

static bool is_floor(const Expr *e, Floor *f) {
  const Expr *div = e->kind == EX_MUL && e->n == 1 ? e->args[0] : e;
  if (div->kind != EX_DIV || !ex_get_const(div->args[1], &f->divisor)) return false;
  f->numerator = div->args[0];
  f->coefficient = e->kind == EX_MUL ? e->value : 1;
  return true;
}

static Bounds terms_bounds(Module *m, const Expr *e) {
  Bounds r = {e->value, e->value};
  if (e->kind != EX_ADD) return known_bounds(m, e);
  for (int i = 0; i < e->n; i++) r = add_bounds(r, known_bounds(m, e->args[i]));
  return r;
}

/* Returns x if the term is x div c, or (x div a) + s if it is (x + a*s) div c, where c is a multiple of a and x div
 * a is another term of the sum; the divisor becomes c / a.  NULL unless the coefficient is a multiple of the
 * divisor. */
static const Expr *dividend(Module *m, const Expr *sum, Floor *f) {
  Floor other;
  int64_t shift;
  if (f->coefficient % f->divisor == 0) return f->numerator;
  for (int i = 0; i < sum->n; i++) {
    if (!is_floor(sum->args[i], &other) || other.divisor >= f->divisor || f->divisor % other.divisor != 0) continue;
    int64_t divisor = f->divisor / other.divisor;
    if (f->coefficient % divisor != 0 || !ex_get_const(ex_sub(m, f->numerator, other.numerator), &shift) ||
        shift % other.divisor != 0)
      continue;
    f->divisor = divisor;
    const Expr *div = sum->args[i]->kind == EX_MUL ? sum->args[i]->args[0] : sum->args[i];
    return ex_addi(m, div, shift / other.divisor);
  }
  return NULL;
}

/* Bounds of a sum.  A remainder is a sum x - c * (x div c) whose terms may be unbounded: replaces c * (x div c) by x
 * - r with r in [0, c - 1]. */
static Bounds sum_bounds(Module *m, const Expr *e) {
  Bounds best = terms_bounds(m, e), rest = {0, 0};
  const Expr *left = e;
  Floor f;
  for (int i = 0; i < e->n && !m->expr_fault; i++) {
    const Expr *x = is_floor(e->args[i], &f) ? dividend(m, e, &f) : NULL;
    int64_t times = x ? f.coefficient / f.divisor : 0;
    const Expr *without = x ? ex_add(m, ex_sub(m, left, e->args[i]), ex_muli(m, x, times)) : NULL;
    if (m->expr_fault) {
      m->expr_fault = NULL; /* a failed attempt is no error */
      break;
    }
    if (!without) continue;
    Bounds remainder = mul_bounds((Bounds){0, f.divisor - 1}, (Bounds){-times, -times}),
           more = add_bounds(rest, remainder);
    Bounds b = add_bounds(terms_bounds(m, without), more);
    if (b.low <= best.low && b.high >= best.high) continue;
    best = (Bounds){b.low > best.low ? b.low : best.low, b.high < best.high ? b.high : best.high};
    left = without, rest = more;
  }
  return best;
}

Bounds known_bounds(Module *m, const Expr *e) {
  Bounds r = {e->value, e->value}, b;
  switch (e->kind) {
    case EX_CONST: return r;
    case EX_SYM: return symbol_bounds(m, e);
    case EX_DIV: return div_bounds(known_bounds(m, e->args[0]), known_bounds(m, e->args[1]));
    case EX_MUL:
      for (int i = 0; i < e->n; i++) r = mul_bounds(r, known_bounds(m, e->args[i]));
      return r;
    case EX_ADD: return sum_bounds(m, e);
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

bool known_need(Module *m, const Expr *e, int64_t least) {
  if (known_bounds(m, e).low >= least) return true;
  bool *raised = ARENA_ARRAY(m->arena, bool, m->symbols.n);
  for (size_t i = 0; i < m->symbols.n; i++) {
    Symbol *s = &m->symbols.items[i];
    raised[i] = s->axis < 0 && s->min == 0 && ex_uses(e, (int)i);
    if (raised[i]) s->min = 1;
  }
  bool holds = known_bounds(m, e).low >= least;
  for (size_t i = 0; i < m->symbols.n; i++) /* of computed sizes that is no assumption: programs check them */
    if (raised[i] && (!holds || m->symbols.items[i].most)) m->symbols.items[i].min = 0;
  return holds;
}

bool known_ge(Module *m, const Expr *a, const Expr *b) { return known_bounds(m, ex_sub(m, a, b)).low >= 0; }
bool known_gt(Module *m, const Expr *a, const Expr *b) { return known_bounds(m, ex_sub(m, a, b)).low > 0; }
bool known_ne(Module *m, const Expr *a, const Expr *b) { return known_gt(m, a, b) || known_gt(m, b, a); }

bool known_extents(Module *m, int rank, const Expr *const *dims) {
  for (int d = 0; d < rank; d++) {
    Bounds b = known_bounds(m, dims[d]);
    if (b.high < 0 || b.low > MAX_EXTENT) return false;
  }
  return true;
}

/* ---- making */

ImportKnown known_make(Module *m, const Type *type, const Expr *const *items) {
  int64_t n;
  if (!ex_get_const(type_elements(m, type), &n) || n < 0 || n > KNOWN_MAX) return (ImportKnown){type, 0, NULL};
  const Expr **copy = ARENA_ARRAY(m->arena, const Expr *, n);
  if (n) memcpy(copy, items, sizeof *copy * (size_t)n);
  return (ImportKnown){type, (int)n, copy};
}

ImportKnown known_ints(Module *m, DType dtype, int rank, const int64_t *dims, const int64_t *items) {
  const Expr *e[KNOWN_MAX];
  const Type *type = type_of_ints(m, dtype, rank, dims);
  int64_t n = type_elements(m, type)->value;
  for (int64_t i = 0; i < n && i < KNOWN_MAX; i++) e[i] = ex_const(m, items[i]);
  return known_make(m, type, e);
}

bool known_constants(const ImportKnown *k, int64_t *out) {
  if (!k->items) return false;
  for (int i = 0; i < k->n; i++)
    if (!ex_get_const(k->items[i], &out[i])) return false;
  return true;
}
