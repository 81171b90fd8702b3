/* proof/prove_bound.c - is one expression at most another at all coordinates and all sizes?
 *
 * Coordinates become numbers, one rank after the other; it remains to show that a difference over sizes is not
 * negative:
 *
 *   - A minimum or maximum is one of its arguments.  For an added minimum or a subtracted maximum, every argument must
 *     satisfy the bound; otherwise one is enough.  Floor division is monotone, so both hold below divisions too.
 *   - x div k >= y is x >= k * y, and x - k < k * (x div k) <= x.
 *   - A sum of products of sizes is not negative if it is not with every term at its least: added ones at the least
 *     sizes, subtracted ones at the largest, where those are limited.
 *   - Where that fails, an extent of level 1 is subtracted: it is not negative at the sizes of interest.
 *   - Where that fails, a minimum or maximum that is not negative is replaced by a size of its own: it has one value at
 *     all its places.
 *
 * True is a proof; false proves nothing (differences of products, divisions by sizes, and bounds of divisions that need
 * both sides are not found).
 */
#include "proof/prove_relation.h"

enum { MAX_BOUND_STEPS = 2000 };

typedef struct Bound {
  Module *m;
  const int64_t *least; /* by symbol */
  int unlimited;        /* a symbol that stands for any number from 0 on; -1 if none */
  int steps;
} Bound;

static const Expr *term_at(const Expr *e, int i) { return e->kind == EX_ADD ? e->args[i] : e; }
static int terms_of(const Expr *e) { return e->kind == EX_ADD ? e->n : 1; }

/* Returns the only factor of a term that is no size; NULL if there are none or several.  The other factors are not
 * negative. */
static const Expr *hard_factor(const Expr *term) {
  const Expr *hard = NULL;
  if (term->kind != EX_MUL) return term->kind == EX_SYM || term->kind == EX_CONST ? NULL : term;
  for (int i = 0; i < term->n; i++) {
    if (term->args[i]->kind == EX_SYM) continue;
    if (hard) return NULL;
    hard = term->args[i];
  }
  return hard;
}

static int sign_of(const Expr *term) { return term->kind == EX_MUL && term->value < 0 ? -1 : 1; }

static bool is_extremum(const Expr *e) { return e->kind == EX_MIN || e->kind == EX_MAX; }
static bool is_division(const Expr *e) { return e->kind == EX_DIV && e->args[1]->kind == EX_CONST; }

/* Returns the first minimum or maximum in a term; *sign is negated if the term falls as it grows. */
static const Expr *extremum_in(const Expr *term, int *sign) {
  const Expr *hard = hard_factor(term);
  if (!hard) return NULL;
  *sign *= sign_of(term);
  if (is_extremum(hard)) return hard;
  for (int i = 0; is_division(hard) && i < terms_of(hard->args[0]); i++) {
    int inner = *sign;
    const Expr *found = extremum_in(term_at(hard->args[0], i), &inner);
    if (found) return *sign = inner, found;
  }
  return NULL;
}

/* The term without its hard factor. */
static const Expr *cofactor(Module *m, const Expr *term) {
  const Expr *others = ex_const(m, term->kind == EX_MUL ? term->value : 1), *hard = hard_factor(term);
  for (int i = 0; i < term->n && term->kind == EX_MUL; i++)
    if (term->args[i] != hard) others = ex_mul(m, others, term->args[i]);
  return others;
}

/* Returns the term with that first minimum or maximum replaced. */
static const Expr *with_argument(Module *m, const Expr *term, const Expr *by) {
  const Expr *hard = hard_factor(term);
  if (is_extremum(hard)) return ex_mul(m, cofactor(m, term), by);
  const Expr *sum = hard->args[0];
  for (int i = 0, sign = 1; i < terms_of(hard->args[0]); i++) {
    const Expr *inner = term_at(hard->args[0], i);
    if (!extremum_in(inner, &sign)) continue;
    sum = ex_add(m, ex_sub(m, sum, inner), with_argument(m, inner, by));
    break;
  }
  return ex_mul(m, cofactor(m, term), ex_div(m, sum, hard->args[1]));
}

/* Lower bound of a product of sizes; false if unknown. */
static bool least_term(const Bound *b, const Expr *term, int64_t *least) {
  *least = term->kind == EX_MUL || term->kind == EX_CONST ? term->value : 1;
  bool subtracted = *least < 0;
  if (hard_factor(term)) return false;
  for (int k = 0; k < (term->kind == EX_MUL ? term->n : term->kind == EX_SYM); k++) {
    const Expr *factor = term->kind == EX_MUL ? term->args[k] : term;
    if (factor->kind != EX_SYM) return false;
    int64_t most = b->m->symbols.items[factor->value].max, at_least = b->least[factor->value];
    if (factor->value == b->unlimited) most = at_least = 0;
    if (subtracted && !most) return false;
    if (__builtin_mul_overflow(*least, subtracted ? most : at_least, least)) return false;
  }
  return true;
}

/* True if a sum without minimum, maximum or division is not negative with every term at its least. */
static bool sum_is_positive(const Bound *b, const Expr *e) {
  int64_t total = e->kind == EX_ADD ? e->value : 0, least;
  for (int i = 0; i < terms_of(e); i++)
    if (!least_term(b, term_at(e, i), &least) || __builtin_add_overflow(total, least, &total)) return false;
  return total >= 0;
}

static bool not_negative(Bound *b, const Expr *e);

/* True if the sum is not negative for all arguments of the minimum or maximum in one of its terms, or for one
 * argument. */
static bool arguments_do(Bound *b, const Expr *e, const Expr *term, const Expr *extremum, bool all) {
  for (int i = 0; i < extremum->n; i++) {
    const Expr *rest = ex_sub(b->m, e, term);
    if (not_negative(b, ex_add(b->m, rest, with_argument(b->m, term, extremum->args[i]))) != all) return !all;
  }
  return all;
}

/* by * y + constant is not negative if y and the constant are not, or, in integers, if y + floor(constant / by) is
 * not. */
static bool divide_sum(Module *m, const Expr *e, const Expr *by, const Expr **out) {
  int64_t constant = e->kind == EX_ADD ? e->value : 0;
  *out = ex_exact_div(m, ex_addi(m, e, -constant), by);
  if (*out && by->kind == EX_CONST) *out = ex_add(m, *out, ex_div(m, ex_const(m, constant), by));
  return *out && (constant >= 0 || by->kind == EX_CONST);
}

/* True if rest + others * (x div k) is not negative.  If `others` divides the sum, the quotient decides.  If it is 1 or
 * -1, the condition on x is exact; otherwise a bound of the division must suffice. */
static bool division_does(Bound *b, const Expr *e, const Expr *term) {
  Module *m = b->m;
  const Expr *x = hard_factor(term)->args[0], *k = hard_factor(term)->args[1], *others = cofactor(m, term), *share;
  const Expr *last = ex_addi(m, k, -1), *rest = ex_mul(m, k, ex_sub(m, e, term));
  bool unit = ex_is_const(others, 1) || ex_is_const(others, -1);
  if (!unit && divide_sum(m, e, ex_muli(m, others, sign_of(term)), &share)) return not_negative(b, share);
  if (sign_of(term) > 0 && !unit) x = ex_sub(m, x, last);
  if (sign_of(term) < 0 && unit) x = ex_sub(m, x, last);
  return not_negative(b, ex_add(m, rest, ex_mul(m, others, x)));
}

static bool not_negative(Bound *b, const Expr *e) {
  if (e->kind == EX_CONST) return e->value >= 0;
  if (b->steps++ >= MAX_BOUND_STEPS) return false;
  for (int all = 1; all >= 0; all--) /* conditions on all arguments first: they lose nothing */
    for (int i = 0; i < terms_of(e); i++) {
      int sign = 1;
      const Expr *extremum = extremum_in(term_at(e, i), &sign);
      if (!extremum || ((extremum->kind == EX_MIN) == (sign > 0)) != all) continue;
      bool done = arguments_do(b, e, term_at(e, i), extremum, all);
      if (all || done) return done;
    }
  for (int i = 0; i < terms_of(e); i++) {
    const Expr *hard = hard_factor(term_at(e, i));
    if (hard && is_division(hard) && division_does(b, e, term_at(e, i))) return true;
  }
  return sum_is_positive(b, e);
}

typedef struct Replacement {
  Module *m;
  const Expr *atom, *by;
} Replacement;

static const Expr *replaced_in(const void *context, const Expr *e) {
  const Replacement *r = context;
  if (e == r->atom) return r->by;
  return e->n ? ex_rebuild(r->m, e, &(ExprRebuild){replaced_in, NULL, r}) : e;
}

static const Expr *replaced(Module *m, const Expr *e, const Expr *atom, const Expr *by) {
  return replaced_in(&(Replacement){m, atom, by}, e);
}

/* True if the symbol occurs outside of `atom`.  Walks the text, because an expression with `atom` replaced may have
 * lost symbols (0 div k is 0). */
static bool occurs_beside(const Expr *e, const Expr *atom, int symbol) {
  if (e == atom) return false;
  if (e->kind == EX_SYM) return e->value == symbol;
  for (int i = 0; i < e->n; i++)
    if (occurs_beside(e->args[i], atom, symbol)) return true;
  return false;
}

/* Replaces a minimum or maximum that occurs several times by a size of its own, since it has the same value everywhere.
 * Uses the name of a symbol that does not occur elsewhere. */
static bool not_negative_in(Prover *p, const Expr *e, const Expr *atom) {
  Module *m = p->m;
  int symbol = 0, n = (int)m->symbols.n;
  while (symbol < n && occurs_beside(e, atom, symbol)) symbol++;
  if (symbol == n) return false;
  return not_negative(&(Bound){m, p->least, -1, 0}, atom) &&
         not_negative(&(Bound){m, p->least, symbol, 0}, replaced(m, e, atom, ex_sym(m, symbol)));
}

static bool not_negative_in_minimum(Prover *p, const Expr *e, const Expr *inside) {
  if (is_extremum(inside) && not_negative_in(p, e, inside)) return true;
  for (int i = 0; i < inside->n; i++)
    if (not_negative_in_minimum(p, e, inside->args[i])) return true;
  return false;
}

bool prove_size_is_positive(Module *m, const Expr *e) {
  int64_t *least = ARENA_ARRAY(m->arena, int64_t, m->symbols.n);
  for (size_t i = 0; i < m->symbols.n; i++) least[i] = m->symbols.items[i].min;
  return not_negative(&(Bound){m, least, -1, 0}, ex_addi(m, e, -1));
}

/* Subtracts an extent of level 1: at sizes of level 1 none is negative, so if the difference is not negative, e is
 * not. */
static bool not_negative_without_extent(Prover *p, const Expr *e) {
  for (size_t i = 0; i < p->assumed; i++)
    if (not_negative(&(Bound){p->m, p->least, -1, 0}, ex_sub(p->m, e, p->extents.items[i]))) return true;
  return false;
}

bool expr_at_most(Prover *p, const Expr *a, const Expr *b) {
  Module *m = p->m;
  const Expr *difference = ex_sub(m, b, a);
  uint32_t axes = expr_axes(m, difference);
  for (int x = 0; x < m->mesh.naxes; x++) p->values[m->mesh.axes[x].symbol] = 0;
  do {
    const Expr *here = difference;
    for (int x = 0; x < m->mesh.naxes; x++)
      if ((axes >> x) & 1u)
        here = ex_subst(m, here, m->mesh.axes[x].symbol, ex_const(m, p->values[m->mesh.axes[x].symbol]));
    if (!not_negative(&(Bound){m, p->least, -1, 0}, here) && !not_negative_in_minimum(p, here, here) &&
        !not_negative_without_extent(p, here))
      return false;
  } while (next_coordinates(m, axes, p->values));
  return true;
}
