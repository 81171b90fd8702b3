/* proof/prove_size.c - at which sizes does a condition hold, and when are expressions equal?
 *
 * A condition is a predicate over the values of a list of expressions; the symbols that matter are those of the list,
 * so none can be forgotten.  All coordinates are tried.  Dimensions with few legal sizes are tried completely, and the
 * answer is exact.  Otherwise sizes from their range (min, max, multiple), in every order of up to four symbols, equal
 * ones too, may refute, but cannot prove.
 *
 * Equality that this leaves open is decided by canonical form, or by bounds from both sides (prove_bound.c).
 */
#include "proof/prove_relation.h"

enum { MAX_CONDITION = 64, MAX_CASES = 20000, MAX_ORDERED = 4 };

/* The legal sizes of a symbol that are tried, counted from the smallest. */
static const int64_t samples[] = {0, 1, 2, 3, 5, 7, 12, 31, 100, 1000};
static const int64_t LIMIT = (int64_t)1 << 50;
enum { SAMPLES = sizeof samples / sizeof *samples };

/* ---- legal sizes */

/* Returns the size if e is n * size + constant with one size; else NULL. */
static const Expr *single_size(const Expr *e, int64_t *n) {
  const Expr *term = e->kind == EX_ADD && e->n == 1 ? e->args[0] : e;
  bool product = term->kind == EX_MUL && term->n == 1;
  *n = product ? term->value : 1;
  if (product) term = term->args[0];
  return term->kind == EX_SYM ? term : NULL;
}

/* Excludes sizes at which an extent of level 1 is negative: raises the least value of a symbol, or keeps the extent as
 * a condition. */
static void note_extent(Prover *p, const Expr *e) {
  int64_t n;
  const Expr *size = single_size(e, &n);
  for (size_t i = 0; i < p->extents.n; i++)
    if (p->extents.items[i] == e) return;
  if (expr_at_most(p, ex_const(p->m, 0), e)) return;
  if (size && n > 0 && e->value < 0) {
    int64_t least = (-e->value + n - 1) / n;
    if (p->least[size->value] < least) p->least[size->value] = least;
  } else {
    ARENA_PUSH(p->m->arena, &p->extents, e);
  }
}

void sizes_open(Prover *p) {
  size_t n = p->m->symbols.n;
  p->values = ARENA_ARRAY(p->m->arena, int64_t, n);
  p->least = ARENA_ARRAY(p->m->arena, int64_t, n);
  p->used = ARENA_ARRAY(p->m->arena, int, n);
  for (size_t i = 0; i < n; i++) p->least[i] = p->m->symbols.items[i].min;
  for (size_t v = 1; p->l1 && v < p->l1->values.n; v++) {
    const Type *t = type_of(p->l1, (Val)v);
    for (int d = 0; d < t->rank; d++)
      if (t->dims[d]->kind == EX_ADD) note_extent(p, t->dims[d]);
  }
  p->assumed = p->extents.n;
}

static bool uses_only(const Module *m, const Expr *e, const bool *known) {
  if (e->kind == EX_SYM) return known[e->value];
  for (int i = 0; i < e->n; i++)
    if (!uses_only(m, e->args[i], known)) return false;
  return true;
}

/* True if the extents of level 1 are legal at the sizes in p->values.  Ignores extents with symbols that are not
 * `known` (NULL: all are), whose values are left over from elsewhere. */
static bool is_size_of_level_1(const Prover *p, const bool *known) {
  for (size_t i = 0; i < p->extents.n; i++) {
    int64_t extent;
    if (known && !uses_only(p->m, p->extents.items[i], known)) continue;
    if (ex_eval(p->extents.items[i], p->values, &extent) && extent < 0) return false;
  }
  return true;
}

/* Returns the number of legal sizes; -1 if unlimited. */
static int64_t legal_sizes(const Prover *p, int symbol, int64_t *least) {
  const Symbol *s = &p->m->symbols.items[symbol];
  int64_t multiple = s->multiple > 1 ? s->multiple : 1;
  int64_t over = p->least[symbol] % multiple, up = over ? multiple - over : 0;
  if (__builtin_add_overflow(p->least[symbol], up, least)) *least = p->least[symbol] - over;
  if (!s->max) return -1;
  if (s->max < *least) return 0;
  int64_t more = (s->max - *least) / multiple;
  return more < INT64_MAX ? more + 1 : more;
}

static int64_t legal_size(const Prover *p, int symbol, int64_t number) {
  const Symbol *s = &p->m->symbols.items[symbol];
  int64_t least, n = legal_sizes(p, symbol, &least);
  if (n == 0) return least; /* no size is legal, so any will do */
  int64_t more, size;
  bool beyond = __builtin_mul_overflow(n > 0 ? number % n : number, s->multiple > 1 ? s->multiple : 1, &more) ||
                __builtin_add_overflow(least, more, &size);
  return beyond ? least : size;
}

/* ---- which symbols the expressions use */

typedef struct Uses {
  uint32_t axes;
  int *dimensions, n; /* symbols that are sizes */
} Uses;

static void note_uses(const Module *m, const Expr *e, Uses *u) {
  if (e->kind == EX_SYM) {
    int axis = m->symbols.items[e->value].axis;
    bool known = axis >= 0;
    if (axis >= 0) u->axes |= 1u << axis;
    for (int i = 0; i < u->n && !known; i++) known = u->dimensions[i] == (int)e->value;
    if (!known) u->dimensions[u->n++] = (int)e->value;
  }
  for (int i = 0; i < e->n; i++) note_uses(m, e->args[i], u);
}

/* Number of combinations of all legal sizes; -1 if too many, counting the coordinates that the expressions use. */
static int64_t combinations(const Prover *p, const Uses *u) {
  int64_t ranks = 1, sizes = 1, least;
  for (int a = 0; a < p->m->mesh.naxes; a++)
    if ((u->axes >> a) & 1u) ranks *= p->m->mesh.axes[a].size;
  for (int i = 0; i < u->n; i++) {
    int64_t n = legal_sizes(p, u->dimensions[i], &least);
    if (n < 0 || n > MAX_CASES || (sizes *= n) > MAX_CASES) return -1;
  }
  return sizes * ranks > MAX_CASES ? -1 : sizes;
}

/* Sets the sizes of combination `number`, as digits. */
static void set_sizes(Prover *p, const Uses *u, int64_t number) {
  int64_t least;
  for (int i = 0; i < u->n; i++) {
    int64_t n = legal_sizes(p, u->dimensions[i], &least);
    p->values[u->dimensions[i]] = legal_size(p, u->dimensions[i], number % n);
    number /= n;
  }
}

/* ---- samples */

/* An order of sizes: place[i] is the rank of the i-th symbol; equal sizes share a place. */
typedef struct Order {
  int n, place[MAX_ORDERED];
} Order;

static bool has_gap(const Order *o) {
  uint32_t taken = 0;
  for (int i = 0; i < o->n; i++) taken |= 1u << o->place[i];
  return (taken & (taken + 1)) != 0;
}

/* Advances through all orders, starting from all sizes equal; false after the last one. */
static bool next_order(Order *o) {
  do {
    int i = 0;
    while (i < o->n && ++o->place[i] == o->n) o->place[i++] = 0;
    if (i == o->n) return false;
  } while (has_gap(o));
  return true;
}

/* The least size that is legal for all symbols in use; -1 if it is the least of each. */
static int64_t common_least(const Prover *p, const Uses *u) {
  int64_t most = 0, least;
  bool same = true;
  for (int i = 0; i < u->n; i++) {
    legal_sizes(p, u->dimensions[i], &least);
    same &= i == 0 || least == most;
    if (most < least) most = least;
  }
  return same ? -1 : most;
}

/* Sets sizes of a sample in that order: each counted from its own least size, or from `from` if that is not negative.
 * Symbols without a place in the order, and unused symbols, differ from each other. */
static void sample_sizes(Prover *p, const Uses *u, const Order *o, int sample, int64_t from) {
  for (size_t i = 0, k = 0; i < p->m->symbols.n; i++)
    p->values[i] = p->m->symbols.items[i].axis >= 0 ? 0 : legal_size(p, (int)i, samples[sample] + (int64_t)k++);
  for (int i = 0; i < o->n; i++) {
    int symbol = u->dimensions[i];
    int64_t multiple = p->m->symbols.items[symbol].multiple, least, more = 0, number = samples[sample] + o->place[i];
    legal_sizes(p, symbol, &least);
    if (from >= 0) more = (from - least) / (multiple > 1 ? multiple : 1);
    if (__builtin_add_overflow(number, more, &number)) number = more; /* beyond 64 bits */
    p->values[symbol] = legal_size(p, symbol, number);
  }
}

/* Tries large sizes first, since they distinguish cuts. */
bool sizes_choose(Prover *p) {
  const Uses none = {0};
  for (int k = SAMPLES; k-- > 0;) {
    sample_sizes(p, &none, &(Order){0}, k, -1);
    if (is_size_of_level_1(p, NULL)) return true;
  }
  return false;
}

/* ---- deciding */

typedef struct Asked {
  int n;
  const Expr *const *exprs;
  bool (*holds)(const int64_t *, const void *);
  const void *context;
} Asked;

/* Decides at all coordinates, with sizes as in p->values. */
static Decision at_these_sizes(Prover *p, const Asked *a, uint32_t axes) {
  for (int x = 0; x < p->m->mesh.naxes; x++) p->values[p->m->mesh.axes[x].symbol] = 0;
  bool open = false;
  do {
    int64_t numbers[MAX_CONDITION];
    bool known = true;
    for (int i = 0; i < a->n && known; i++)
      known = ex_eval(a->exprs[i], p->values, &numbers[i]) && numbers[i] >= -LIMIT && numbers[i] <= LIMIT;
    if (known && !a->holds(numbers, a->context)) return FAILS;
    open |= !known; /* too large to add, or a division by zero */
  } while (next_coordinates(p->m, axes, p->values));
  return open ? OPEN : HOLDS;
}

static Uses uses_of(Prover *p, const Asked *a) {
  Uses u = {.dimensions = p->used};
  for (int i = 0; i < a->n; i++) note_uses(p->m, a->exprs[i], &u);
  return u;
}

static Decision sampled(Prover *p, const Asked *a, const Uses *u) {
  if (!u->n) return at_these_sizes(p, a, u->axes);
  const int64_t from[] = {-1, common_least(p, u)};
  int ways = from[1] < 0 ? 1 : 2;
  Order order = {.n = u->n < MAX_ORDERED ? u->n : MAX_ORDERED};
  do
    for (int k = 0; k < ways * SAMPLES; k++) {
      sample_sizes(p, u, &order, k / ways, from[k % ways]);
      if (is_size_of_level_1(p, NULL) && at_these_sizes(p, a, u->axes) == FAILS) return FAILS;
    }
  while (next_order(&order));
  return OPEN;
}

static Decision exhausted(Prover *p, const Asked *a, const Uses *u) {
  int64_t sizes = combinations(p, u);
  Decision decision = sizes < 0 ? OPEN : HOLDS;
  bool *known = sizes < 0 ? NULL : ARENA_ARRAY(p->m->arena, bool, p->m->symbols.n);
  for (int i = 0; known && i < u->n; i++) known[u->dimensions[i]] = true;
  for (int64_t k = 0; k < sizes && decision != FAILS; k++) {
    set_sizes(p, u, k);
    if (!is_size_of_level_1(p, known)) continue;
    Decision here = at_these_sizes(p, a, u->axes);
    if (here != HOLDS) decision = here;
  }
  return decision;
}

Decision decide(Prover *p, int n, const Expr *const *exprs, bool (*holds)(const int64_t *, const void *),
                const void *context) {
  Asked asked = {n, exprs, holds, context};
  Uses u = uses_of(p, &asked);
  Decision decision = sampled(p, &asked, &u);
  return decision == OPEN && u.n ? exhausted(p, &asked, &u) : decision;
}

/* ---- extents of local values */

static bool is_not_negative(const int64_t *v, const void *context) {
  (void)context;
  return v[0] >= 0;
}

bool extent_is_legal(Prover *p, const Expr *e) {
  if (e->kind == EX_CONST || e->kind == EX_SYM) return e->kind == EX_SYM || e->value >= 0;
  for (size_t i = 0; i < p->legal.n; i++)
    if (p->legal.items[i] == e) return true;
  Decision d = decide(p, 1, &e, is_not_negative, NULL);
  if (d == OPEN && !expr_at_most(p, ex_const(p->m, 0), e)) p->uncertain = true;
  else if (d == OPEN) d = HOLDS;
  if (d == HOLDS) ARENA_PUSH(p->m->arena, &p->legal, e);
  return d == HOLDS;
}

/* ---- equality */

static bool is_zero(const int64_t *v, const void *context) {
  (void)context;
  return v[0] == 0;
}

/* True if the canonical form is 0 once coordinates are numbers and every size is replaced by its multiple. */
static bool zero_for_all_sizes(Prover *p, const Expr *e, const Uses *u) {
  Module *m = p->m;
  for (int i = 0; i < u->n; i++) {
    int64_t multiple = m->symbols.items[u->dimensions[i]].multiple;
    if (multiple > 1) e = ex_subst(m, e, u->dimensions[i], ex_muli(m, ex_sym(m, u->dimensions[i]), multiple));
  }
  for (int a = 0; a < m->mesh.naxes; a++) p->values[m->mesh.axes[a].symbol] = 0;
  do {
    const Expr *here = e;
    for (int a = 0; a < m->mesh.naxes; a++)
      if ((u->axes >> a) & 1u)
        here = ex_subst(m, here, m->mesh.axes[a].symbol, ex_const(m, p->values[m->mesh.axes[a].symbol]));
    if (!ex_is_const(here, 0)) return false;
  } while (next_coordinates(m, u->axes, p->values));
  return true;
}

bool expr_equal(Prover *p, const Expr *a, const Expr *b) {
  if (a == b) return true;
  const Expr *difference = ex_sub(p->m, a, b);
  Asked asked = {1, &difference, is_zero, NULL};
  Uses u = uses_of(p, &asked);
  Decision decision = sampled(p, &asked, &u);
  if (decision == FAILS) return false;
  if (decision == HOLDS) return true;
  if (u.n && (zero_for_all_sizes(p, difference, &u) || (expr_at_most(p, a, b) && expr_at_most(p, b, a)) ||
              exhausted(p, &asked, &u) == HOLDS))
    return true;
  p->uncertain = true;
  return false;
}
