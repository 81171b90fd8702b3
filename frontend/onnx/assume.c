/* frontend/onnx/assume.c - see assume.h. */
#include "frontend/onnx/assume.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/known.h"

enum { MAX_CHOICES = 4, MAX_LEAST = 1 << 20, MAX_MULTIPLE = 4096 };

const OnnxAssumption *assumption_of(const OnnxAssumptions *a, const char *name) {
  for (size_t i = 0; a && i < a->n; i++)
    if (strcmp(a->items[i].name, name) == 0) return &a->items[i];
  return NULL;
}

static OnnxAssumption *assumption(OnnxAssumptions *a, const char *name) {
  for (size_t i = 0; i < a->n; i++)
    if (strcmp(a->items[i].name, name) == 0) return &a->items[i];
  ARENA_PUSH(a->arena, a, ((OnnxAssumption){.name = arena_strdup(a->arena, name)}));
  return &a->items[a->n - 1];
}

/* ---- ranges */

static bool in_range(const Symbol *s, int64_t min, int64_t max) {
  min = s->min > min ? s->min : min;
  max = max && (!s->max || max < s->max) ? max : s->max;
  return !max || min <= max;
}

bool assume_range(Module *m, int symbol, int64_t min, int64_t max) {
  Symbol *s = &m->symbols.items[symbol];
  if (s->most || !in_range(s, min, max)) return false;
  if (min > s->min) s->min = min;
  if (max && (!s->max || max < s->max)) s->max = max;
  return true;
}

bool assume_learn(const Module *m, OnnxAssumptions *a) {
  for (size_t i = 0; i < m->symbols.n; i++) {
    const Symbol *s = &m->symbols.items[i];
    const OnnxAssumption *known = assumption_of(a, s->name);
    if (s->axis >= 0 || s->most || (s->min == (known ? known->min : 0) && s->max == (known ? known->max : 0))) continue;
    OnnxAssumption *e = assumption(a, s->name);
    e->min = s->min, e->max = s->max;
    a->news = true;
  }
  return a->news;
}

/* True if the term of a sum is coefficient * (symbol div divisor); the divisor is 1 for a symbol alone. */
static bool is_term(const Expr *e, int64_t *coefficient, int64_t *divisor, int *symbol) {
  const Expr *atom = e->kind == EX_MUL && e->n == 1 ? e->args[0] : e;
  *coefficient = e->kind == EX_MUL ? e->value : 1;
  *divisor = 1;
  if (atom->kind == EX_DIV && ex_get_const(atom->args[1], divisor)) atom = atom->args[0];
  if (atom->kind != EX_SYM) return false;
  *symbol = (int)atom->value;
  return true;
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

bool assume_positive(Module *m, const Expr *e) {
  int64_t coefficient, divisor, constant = e->kind == EX_ADD ? e->value : 0;
  int symbol;
  bool holds = known_bounds(m, e).low >= 0; /* checked now, as an attempt may have changed the bounds */
  if (e->kind == EX_ADD && e->n != 1) return holds;
  if (!is_term(e->kind == EX_ADD ? e->args[0] : e, &coefficient, &divisor, &symbol)) return holds;
  bool small = coefficient > -MAX_EXTENT && coefficient < MAX_EXTENT && constant > -MAX_EXTENT &&
               constant < MAX_EXTENT && divisor < MAX_LEAST;
  if (!small || coefficient == 0) return holds;
  if (coefficient > 0)
    return assume_range(m, symbol, divisor * -floor_div(constant, coefficient), 0); /* ceil(-constant / coefficient) */
  int64_t most = floor_div(constant, -coefficient);
  return most >= 0 && assume_range(m, symbol, 0, divisor * most + divisor - 1);
}

/* True if e never decreases (never increases: up is false) when a symbol in it increases. */
static bool moves(const Expr *e, bool up) {
  int64_t c;
  if (e->kind == EX_CONST) return true;
  if (e->kind == EX_SYM) return up;
  if (e->kind == EX_DIV && !ex_get_const(e->args[1], &c)) return false;
  if (e->kind == EX_MUL && e->value < 0) up = !up;
  for (int i = 0; i < (e->kind == EX_DIV ? 1 : e->n); i++)
    if (!moves(e->args[i], up)) return false;
  return true;
}

static bool rises(const Expr *e) { return moves(e, true); }

static int only_symbol(const Module *m, const Expr *e) {
  int found = -1;
  for (size_t i = 0; i < m->symbols.n; i++) {
    if (!ex_uses(e, (int)i)) continue;
    if (found >= 0) return -1;
    found = (int)i;
  }
  return found;
}

static bool negative_at(const Expr *e, int symbol, int64_t v, int64_t *values) {
  int64_t r;
  values[symbol] = v;
  return ex_eval(e, values, &r) && r < 0;
}

void assume_extent(Module *m, const Expr *extent) {
  if (extent->kind == EX_CONST || known_bounds(m, extent).low >= 0) return;
  int symbol = only_symbol(m, extent);
  if (symbol < 0 || !rises(extent)) return;
  int64_t *values = ARENA_ARRAY(m->arena, int64_t, m->symbols.n), low = m->symbols.items[symbol].min, high = low;
  while (high < MAX_LEAST && negative_at(extent, symbol, high, values)) high = 2 * high + 1;
  if (high == low || high >= MAX_LEAST) return;
  while (low < high) { /* negative below low, not at high */
    int64_t middle = low + (high - low) / 2;
    if (negative_at(extent, symbol, middle, values)) low = middle + 1;
    else high = middle;
  }
  assume_range(m, symbol, high, 0);
}

/* ---- equations */

/* True for a sum of products of symbols, which dims.c can parse. */
static bool polynomial(const Expr *e) {
  if (e->kind == EX_CONST && (e->value > MAX_EXTENT || e->value < -MAX_EXTENT)) return false;
  if (e->kind != EX_CONST && e->kind != EX_SYM && e->kind != EX_ADD && e->kind != EX_MUL) return false;
  for (int i = 0; i < e->n; i++)
    if (!polynomial(e->args[i])) return false;
  return true;
}

static bool substitute(Module *m, OnnxAssumptions *a, int symbol, const Expr *by, const char *node) {
  const Symbol *s = &m->symbols.items[symbol];
  Bounds b = known_bounds(m, by);
  int64_t least = s->min > 1 || !node ? s->min : 1; /* 0 is more likely a mistake, unless the user says so */
  if (!polynomial(by) || ex_uses_computed(m, by) || b.high < least || (s->max && b.low > s->max)) return false;
  Text t = {.arena = a->arena};
  ex_print(m, &t, by);
  OnnxAssumption *e = assumption(a, s->name);
  e->is = text_str(&t);
  e->node = node ? arena_strdup(a->arena, node) : NULL;
  return a->news = true;
}

/* Divides by symbols that are a factor of all terms: the equation then holds for all their sizes except perhaps 0. */
static const Expr *without_common_factors(Module *m, const Expr *e) {
  for (size_t i = 0; i < m->symbols.n && e->kind == EX_ADD; i++) {
    const Expr *quotient = ex_uses(e, (int)i) ? ex_exact_div(m, e, ex_sym(m, (int)i)) : NULL;
    if (quotient) e = quotient;
  }
  return e;
}

/* Solves difference = 0 for the symbol that was declared last, but before `limit`, and stands alone in one term;
 * NULL if there is none. */
static const Expr *solution(Module *m, const Expr *difference, int limit, int *symbol) {
  difference = without_common_factors(m, difference);
  int best = -1;
  const Expr *by = NULL;
  int terms = difference->kind == EX_ADD ? difference->n : 1;
  for (int i = 0; i < terms; i++) {
    const Expr *term = difference->kind == EX_ADD ? difference->args[i] : difference;
    int64_t coefficient, divisor;
    int alone;
    if (!is_term(term, &coefficient, &divisor, &alone) || divisor != 1 || alone < best || alone >= limit) continue;
    const Expr *rest = ex_sub(m, difference, term);
    if (ex_uses(rest, alone)) continue;
    const Expr *value =
        ex_exact_div(m, ex_sub(m, ex_const(m, 0), rest), ex_const(m, coefficient < 0 ? -coefficient : coefficient));
    if (!value || m->symbols.items[alone].axis >= 0 || m->symbols.items[alone].most) continue;
    best = alone;
    by = coefficient < 0 ? ex_sub(m, ex_const(m, 0), value) : value;
  }
  *symbol = best;
  return by;
}

static bool solve(Module *m, OnnxAssumptions *a, const Expr *difference, const char *node) {
  int symbol;
  const Expr *by = solution(m, difference, (int)m->symbols.n, &symbol);
  return by && substitute(m, a, symbol, by, node);
}

/* Finds a minimum or maximum that contains no other; NULL if there is none. */
static const Expr *find_choice(const Expr *e) {
  const Expr *found = NULL;
  for (int i = 0; i < e->n && !found; i++) found = find_choice(e->args[i]);
  return found || (e->kind != EX_MIN && e->kind != EX_MAX) ? found : e;
}

typedef struct Replacement {
  Module *m;
  const Expr *from, *by;
} Replacement;

static const Expr *divide_joined(const void *context, const Expr *a, const Expr *b) {
  return ex_div_joined(((const Replacement *)context)->m, a, b);
}

static const Expr *replaced_in(const void *context, const Expr *e) {
  const Replacement *r = context;
  if (e == r->from) return r->by;
  return e->n ? ex_rebuild(r->m, e, &(ExprRebuild){replaced_in, divide_joined, r}) : e;
}

/* Returns `e` with the part `from` replaced by `by`. */
static const Expr *replaced(Module *m, const Expr *e, const Expr *from, const Expr *by) {
  return replaced_in(&(Replacement){m, from, by}, e);
}

/* The ranges of all dimensions; those of symbols that were declared since stay as they are. */
typedef struct Ranges {
  size_t n;
  int64_t *min, *max;
} Ranges;

static Ranges ranges_of(const Module *m) {
  Ranges r = {m->symbols.n, ARENA_ARRAY(m->arena, int64_t, m->symbols.n), ARENA_ARRAY(m->arena, int64_t, m->symbols.n)};
  for (size_t i = 0; i < r.n; i++) r.min[i] = m->symbols.items[i].min, r.max[i] = m->symbols.items[i].max;
  return r;
}

static void set_ranges(Module *m, const Ranges *r) {
  for (size_t i = 0; i < r->n; i++) m->symbols.items[i].min = r->min[i], m->symbols.items[i].max = r->max[i];
}

/* True if x leaves more sizes than y: the narrowest of the dimensions in which they differ is wider. */
static bool wider(const Ranges *x, const Ranges *y) {
  const Ranges *both[] = {x, y};
  int64_t narrowest[2] = {INT64_MAX, INT64_MAX};
  for (size_t i = 0; i < 2 * x->n; i++) {
    const Ranges *r = both[i % 2];
    size_t k = i / 2;
    if (x->min[k] == y->min[k] && x->max[k] == y->max[k]) continue;
    int64_t sizes = r->max[k] ? r->max[k] - r->min[k] : INT64_MAX - r->min[k];
    if (sizes < narrowest[i % 2]) narrowest[i % 2] = sizes;
  }
  return narrowest[0] > narrowest[1];
}

static bool choose(Module *m, const Expr *difference, int depth);

/* Takes that operand of a minimum or maximum: the others do not exceed it. */
static bool take(Module *m, const Expr *difference, const Expr *choice, int operand, int depth) {
  const Expr *taken = choice->args[operand];
  bool ok = choose(m, replaced(m, difference, choice, taken), depth + 1);
  for (int k = 0; k < choice->n && ok; k++) {
    const Expr *other = choice->args[k];
    if (k != operand)
      ok = assume_positive(m, choice->kind == EX_MIN ? ex_sub(m, other, taken) : ex_sub(m, taken, other));
  }
  return ok;
}

/* Chooses one operand of each minimum and maximum so that the difference becomes 0.  Of several that do, those that
 * leave the most sizes: max(seq, 1) is seq for all sizes of at least 1, and 1 for seq = 1 only. */
static bool choose(Module *m, const Expr *difference, int depth) {
  if (ex_is_const(difference, 0)) return true;
  const Expr *choice = depth < MAX_CHOICES ? find_choice(difference) : NULL;
  if (!choice) return false;
  const Ranges before = ranges_of(m);
  Ranges best = {0};
  for (int i = 0; i < choice->n; i++) {
    if (take(m, difference, choice, i, depth)) {
      Ranges now = ranges_of(m);
      if (!best.min || wider(&now, &best)) best = now;
    }
    set_ranges(m, &before);
  }
  if (best.min) set_ranges(m, &best);
  return best.min != NULL;
}

/* Chooses one operand of each minimum and maximum and solves the equation that is left.  With the solution the
 * difference must be 0 whatever they choose: total is past + seq in seq - max(0, total - min(past, total)). */
static bool solve_choice(Module *m, OnnxAssumptions *a, const Expr *difference, const Expr *left, int depth,
                         const char *node) {
  const Expr *choice = find_choice(left), *by;
  if (!choice) {
    for (int symbol = (int)m->symbols.n; (by = solution(m, left, symbol, &symbol)) != NULL;)
      if (known_bounds(m, by).low >= 0 && choose(m, ex_subst(m, difference, symbol, by), 0) &&
          substitute(m, a, symbol, by, node))
        return true;
    return false;
  }
  for (int i = 0; i < choice->n && depth < MAX_CHOICES; i++)
    if (solve_choice(m, a, difference, replaced(m, left, choice, choice->args[i]), depth + 1, node)) return true;
  return false;
}

/* ---- multiples */

/* The product of all divisors of the symbol inside e; 0 if it is too large. */
static int64_t divisors_over(const Expr *e, int symbol) {
  int64_t product = 1, c;
  if (!ex_uses(e, symbol)) return 1;
  if (e->kind == EX_DIV && ex_get_const(e->args[1], &c)) product = c;
  for (int i = 0; i < e->n && product; i++) {
    int64_t inside = divisors_over(e->args[i], symbol);
    product = inside && product <= MAX_MULTIPLE / inside ? product * inside : 0;
  }
  return product;
}

static const Expr *times_symbol(Module *m, const Expr *e, int symbol, int64_t c) {
  return ex_subst(m, e, symbol, ex_muli(m, ex_sym(m, symbol), c));
}

/* Assumes that the dimension is c times a new one: "h" is 8*h_div_8. */
static bool substitute_multiple(Module *m, OnnxAssumptions *a, int symbol, int64_t c, const char *node) {
  const char *name = m->symbols.items[symbol].name, *mark = strstr(name, "_div_");
  int64_t before = mark ? strtoll(mark + 5, NULL, 10) : 1;
  if (before < 1 || before > MAX_MULTIPLE) return false;
  OnnxAssumption *e = assumption(a, name);
  e->is = arena_printf(a->arena, "%lld*%.*s_div_%lld", (long long)c, mark ? (int)(mark - name) : (int)strlen(name),
                       name, (long long)(before * c));
  e->node = node ? arena_strdup(a->arena, node) : NULL;
  return a->news = true;
}

static bool may_be_multiple(const Module *m, int symbol) {
  const Symbol *s = &m->symbols.items[symbol];
  return s->axis < 0 && s->max == 0 && !s->most;
}

/* Solves difference = 0 by making dimensions multiples of their divisors: 2*((h + 1) div 2) - h, where the decoder
 * of an image model meets its encoder. */
static bool choose_multiples(Module *m, OnnxAssumptions *a, const Expr *difference, const char *node) {
  int64_t *c = ARENA_ARRAY(m->arena, int64_t, m->symbols.n);
  const Expr *rest = difference;
  for (size_t i = 0; i < m->symbols.n; i++) {
    c[i] = may_be_multiple(m, (int)i) ? divisors_over(difference, (int)i) : 1;
    if (c[i] > 1) rest = times_symbol(m, rest, (int)i, c[i]);
  }
  if (!ex_is_const(rest, 0)) return false;
  for (size_t i = 0; i < m->symbols.n; i++) { /* finds the smallest sufficient multiple of each */
    int64_t most = c[i];
    for (int64_t smaller = 1; smaller < most && c[i] == most; smaller++) {
      if (most % smaller) continue;
      rest = times_symbol(m, difference, (int)i, smaller);
      for (size_t k = 0; k < m->symbols.n; k++)
        if (k != i && c[k] > 1) rest = times_symbol(m, rest, (int)k, c[k]);
      if (ex_is_const(rest, 0)) c[i] = smaller;
    }
    if (c[i] > 1 && !substitute_multiple(m, a, (int)i, c[i], node)) return false;
  }
  return a->news;
}

bool assume_divisible(Module *m, OnnxAssumptions *a, const Expr *e, const Expr *by, const char *node) {
  if (!a || m->expr_fault) return false;
  for (size_t i = m->symbols.n; i-- > 0;)
    for (int64_t c = 2; ex_uses(e, (int)i) && may_be_multiple(m, (int)i) && c <= MAX_MULTIPLE; c++) {
      const Expr *quotient = ex_exact_div(m, times_symbol(m, e, (int)i, c), times_symbol(m, by, (int)i, c));
      m->expr_fault = NULL;
      if (quotient) return substitute_multiple(m, a, (int)i, c, node);
    }
  return false;
}

bool assume_one(Module *m, const Expr *e) {
  Bounds b = known_bounds(m, e);
  int symbol = only_symbol(m, e);
  int64_t *values = ARENA_ARRAY(m->arena, int64_t, m->symbols.n), at_one;
  if (symbol < 0 || !rises(e) || b.low != 0 || b.high != 1) return false;
  values[symbol] = 1;
  return ex_eval(e, values, &at_one) && at_one == 1 && assume_range(m, symbol, 1, 0);
}

bool assume_equal(Module *m, OnnxAssumptions *a, const Expr *x, const Expr *y, const char *node) {
  if (x == y) return true;
  if (!a || m->expr_fault) return false;
  const Expr *difference = ex_sub(m, x, y);
  bool ok = choose(m, difference, 0) || solve(m, a, difference, node) ||
            solve_choice(m, a, difference, difference, 0, node) || choose_multiples(m, a, difference, node);
  m->expr_fault = NULL; /* a failed attempt is no error */
  return ok;
}

void assume_or_one(const Module *m, OnnxAssumptions *a, const Expr *x, const Expr *y, const char *node) {
  const Expr *both[] = {x, y};
  for (size_t i = 0; a && i < 2 * a->n; i++) {
    OnnxAssumption *e = &a->items[i / 2];
    const Expr *side = both[i % 2];
    bool is_it = side->kind == EX_SYM && strcmp(m->symbols.items[side->value].name, e->name) == 0;
    if (is_it && e->is && e->node && strcmp(e->node, node) == 0) e->or_one = true;
  }
}
