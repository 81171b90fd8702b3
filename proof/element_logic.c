/* proof/element_logic.c - conditions on indices, and exponentials under masks; see element_poly.h.
 *
 * A comparison of integers over indices and dimensions becomes "e >= 0" of one expression.  It is an atom with the
 * value 0 or 1, or a number where the ranges of the indices decide it.  Of e >= 0 and its negation -e - 1 >= 0, one is
 * the atom and the other is 1 minus it.  So conditions are polynomials, `and` is a product, and a select is c x + (1 -
 * c) y.
 *
 * exp(x + y) is exp(x) exp(y), so the largest score, which a softmax subtracts, cancels.  Where a condition adds -inf,
 * or a number of at most -3e4, the exponential is split by that condition, and is 0 where it holds, as a mask intends.
 */
#include <math.h>
#include <string.h>

#include "proof/element_poly.h"

#define HIDDEN (-3e4) /* numbers up to this one count as -inf in an exponential */
enum { MAX_TRUTHS = 6 };

static const Poly *negated(Algebra *a, const Poly *p) { return poly_mul(a, poly_number(a, -1), p); }
static const Poly *contrary(Algebra *a, const Poly *p) { return poly_add(a, poly_number(a, 1), negated(a, p)); }

static bool is_kind(const Algebra *a, const Power *p, const char *kind) {
  return strcmp(a->atoms.items[p->atom].kind, kind) == 0;
}
static bool is_truth(const Algebra *a, const Power *p) { return a->atoms.items[p->atom].truth; }

/* ---- integers */

static const Poly *whole_term(Algebra *a, const Expr *term) {
  if (term->kind != EX_MUL) return poly_atom(a, SIZE_ATOM, 1, &term, 0, NULL);
  const Poly *product = poly_number(a, (double)term->value);
  for (int i = 0; i < term->n; i++) product = poly_mul(a, product, poly_atom(a, SIZE_ATOM, 1, &term->args[i], 0, NULL));
  return product;
}

const Poly *poly_whole(Algebra *a, const Expr *e) {
  if (e->kind == EX_CONST) return poly_number(a, (double)e->value);
  if (e->kind != EX_ADD) return whole_term(a, e);
  const Poly *sum = poly_number(a, (double)e->value);
  for (int i = 0; i < e->n; i++) sum = poly_add(a, sum, whole_term(a, e->args[i]));
  return sum;
}

const Expr *poly_get_whole(Algebra *a, const Poly *p) {
  const double limit = 0x1p53;
  const Expr *e = ex_const(a->m, 0);
  for (int i = 0; i < p->n; i++) {
    const Monomial *m = &p->items[i];
    if (m->c != floor(m->c) || fabs(m->c) >= limit) return NULL;
    const Expr *term = ex_const(a->m, (int64_t)m->c);
    for (int k = 0; k < m->n; k++) {
      if (m->powers[k].power < 0 || !is_kind(a, &m->powers[k], SIZE_ATOM)) return NULL;
      for (int j = 0; j < m->powers[k].power; j++)
        term = ex_mul(a->m, term, a->atoms.items[m->powers[k].atom].exprs[0]);
    }
    e = ex_add(a->m, e, term);
  }
  return e;
}

/* ---- e >= 0 */

static bool uses_index(const Algebra *a, const Expr *e) {
  if (element_index_extent(a, e)) return true;
  for (int i = 0; i < e->n; i++)
    if (uses_index(a, e->args[i])) return true;
  return false;
}

/* Returns the term with its index at 0, or at the end of its range, whichever makes it smaller; NULL if unknown. */
static const Expr *least_of_term(Algebra *a, const Expr *term) {
  if (!uses_index(a, term)) return term;
  const Expr *factors = ex_const(a->m, term->kind == EX_MUL ? term->value : 1),
             *index = term->kind == EX_SYM ? term : NULL;
  for (int i = 0; i < term->n; i++) {
    const Expr *x = term->args[i];
    if (term->kind != EX_MUL || x->kind != EX_SYM || (index && element_index_extent(a, x))) return NULL;
    if (element_index_extent(a, x)) index = x;
    else factors = ex_mul(a->m, factors, x);
  }
  if (!index) return NULL;
  bool negative = term->kind == EX_MUL && term->value < 0;
  return negative ? ex_mul(a->m, factors, ex_addi(a->m, element_index_extent(a, index), -1)) : ex_const(a->m, 0);
}

/* True if a sum of products of dimensions is not negative even if each product is at its least. */
static bool never_negative(const Algebra *a, const Expr *e) {
  __int128 sum = e->kind == EX_CONST || e->kind == EX_ADD ? e->value : 0;
  for (int i = 0; i < (e->kind == EX_ADD ? e->n : e->kind != EX_CONST); i++) {
    const Expr *term = e->kind == EX_ADD ? e->args[i] : e;
    __int128 least = term->kind == EX_MUL ? term->value : 1;
    if (term->kind != EX_SYM && term->kind != EX_MUL) return false;
    for (int k = 0; k < (term->kind == EX_MUL ? term->n : 1); k++) {
      const Expr *x = term->kind == EX_MUL ? term->args[k] : term;
      if (x->kind != EX_SYM || least > INT32_MAX) return false;
      least *= a->m->symbols.items[x->value].min;
    }
    if (term->kind == EX_MUL && term->value < 0) return false;
    sum += least;
  }
  return sum >= 0;
}

bool element_index_always(Algebra *a, const Expr *e) {
  const Expr *least = ex_const(a->m, e->kind == EX_ADD || e->kind == EX_CONST ? e->value : 0);
  for (int i = 0; i < (e->kind == EX_ADD ? e->n : e->kind != EX_CONST); i++) {
    const Expr *term = least_of_term(a, e->kind == EX_ADD ? e->args[i] : e);
    if (!term) return false;
    least = ex_add(a->m, least, term);
  }
  return never_negative(a, least);
}

const Poly *poly_holds(Algebra *a, const Expr *e) {
  const Expr *other = ex_sub(a->m, ex_const(a->m, -1), e);
  if (element_index_always(a, e)) return poly_number(a, 1);
  if (element_index_always(a, other)) return poly_number(a, 0);
  if (ex_compare(a->m, e, other) < 0) return poly_atom(a, HOLDS_ATOM, 1, &e, 0, NULL);
  return contrary(a, poly_atom(a, HOLDS_ATOM, 1, &other, 0, NULL));
}

/* ---- polynomials over conditions alone */

typedef struct Truths {
  int n;
  Atom atoms[MAX_TRUTHS];
} Truths;

/* Collects the conditions of p; false if p has other atoms, or too many conditions. */
static bool truths_of(const Algebra *a, const Poly *p, Truths *t) {
  for (int i = 0; i < p->n; i++)
    for (int k = 0; k < p->items[i].n; k++) {
      const Power *x = &p->items[i].powers[k];
      bool known = false;
      for (int j = 0; j < t->n; j++) known = known || t->atoms[j] == x->atom;
      if (!is_truth(a, x) || x->power != 1 || (!known && t->n == MAX_TRUTHS)) return false;
      if (!known) t->atoms[t->n++] = x->atom;
    }
  return true;
}

bool poly_is_logic(const Algebra *a, const Poly *p) { return truths_of(a, p, &(Truths){0}); }

/* Returns the value of p when exactly the conditions in `set` hold. */
static double number_at(const Poly *p, const Truths *t, unsigned set) {
  double sum = 0;
  for (int i = 0; i < p->n; i++) {
    bool all = true;
    for (int k = 0; k < p->items[i].n; k++)
      for (int j = 0; j < t->n; j++)
        if (t->atoms[j] == p->items[i].powers[k].atom) all = all && ((set >> j) & 1u);
    sum += all ? p->items[i].c : 0;
  }
  return sum;
}

const Poly *poly_compare(Algebra *a, const Poly *x, const Poly *y, bool (*holds)(double, double)) {
  Truths t = {0};
  const Poly *sum = poly_number(a, 0);
  if (!truths_of(a, x, &t) || !truths_of(a, y, &t)) return NULL;
  for (unsigned set = 0; set < 1u << t.n; set++) {
    if (!holds(number_at(x, &t, set), number_at(y, &t, set))) continue;
    const Poly *product = poly_number(a, 1);
    for (int j = 0; j < t.n; j++) {
      const Poly *condition = poly_of_truth(a, t.atoms[j]);
      product = poly_mul(a, product, ((set >> j) & 1u) ? condition : contrary(a, condition));
    }
    sum = poly_add(a, sum, product);
  }
  return sum;
}

const Poly *poly_select(Algebra *a, const Poly *c, const Poly *x, const Poly *y) {
  return poly_add(a, poly_mul(a, c, x), poly_mul(a, contrary(a, c), y));
}

/* ---- exponentials */

/* Sign of an infinity: -1 or 1 if the monomial is infinite, or counts as it, where its conditions hold; 0 if finite. */
static int infinity_of(const Algebra *a, const Monomial *m) {
  bool infinite = false;
  for (int k = 0; k < m->n; k++) {
    if (is_truth(a, &m->powers[k])) continue;
    if (infinite || m->powers[k].power != 1 || !is_kind(a, &m->powers[k], MINUS_INFINITY_ATOM)) return 0;
    infinite = true;
  }
  if (!infinite && fabs(m->c) < -HIDDEN) return 0;
  return (m->c > 0) == infinite ? -1 : 1;
}

static const Power *condition_in(const Algebra *a, const Monomial *m) {
  for (int k = 0; k < m->n; k++)
    if (is_truth(a, &m->powers[k])) return &m->powers[k];
  return NULL;
}

/* Returns p under the assumption that the condition holds, or does not hold. */
static const Poly *given(Algebra *a, const Poly *p, Atom condition, bool holds) {
  const Poly *sum = poly_number(a, 0);
  for (int i = 0; i < p->n; i++) {
    const Monomial *m = &p->items[i];
    Power *powers = ARENA_ARRAY(a->arena, Power, m->n);
    int n = 0;
    for (int k = 0; k < m->n; k++)
      if (m->powers[k].atom != condition) powers[n++] = m->powers[k];
    const Monomial rest = {m->c, n, powers};
    if (n == m->n || holds) sum = poly_add(a, sum, poly_mul(a, poly_number(a, 1), &(Poly){1, &rest}));
  }
  return sum;
}

static const Poly *exp_of_monomial(Algebra *a, const Monomial *m) {
  const double most = 700; /* largest argument whose exponential is finite */
  if (!m->n && fabs(m->c) < most) return poly_number(a, exp(m->c));
  const Monomial size = {fabs(m->c), m->n, m->powers};
  const Poly *argument = poly_mul(a, poly_number(a, 1), &(Poly){1, &size});
  const Poly *p = poly_atom(a, "exp", 0, NULL, 1, &argument);
  return m->c > 0 || a->failed ? p : poly_recip(a, p);
}

const Poly *poly_exp(Algebra *a, const Poly *p) {
  bool below = false, above = false;
  for (int i = 0; i < p->n && !a->failed; i++) {
    const Power *c = condition_in(a, &p->items[i]);
    int infinity = infinity_of(a, &p->items[i]);
    below |= infinity<0, above |= infinity> 0;
    if (!c || !infinity) continue;
    return poly_select(a, poly_of_truth(a, c->atom), poly_exp(a, given(a, p, c->atom, true)),
                       poly_exp(a, given(a, p, c->atom, false)));
  }
  if (above) return poly_atom(a, "exp", 0, NULL, 1, &p);
  if (below) return poly_number(a, 0);
  const Poly *product = poly_number(a, 1);
  for (int i = 0; i < p->n && !a->failed; i++) product = poly_mul(a, product, exp_of_monomial(a, &p->items[i]));
  return product;
}
