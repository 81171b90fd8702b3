/* frontend/contract.c - see contract.h. */
#include "frontend/contract.h"

#include <math.h>
#include <string.h>

#include "base/die.h"

enum { LETTERS = 128, GUESS = 64 }; /* GUESS: for a symbolic size without a bound */

typedef struct Plan {
  double *cost;   /* by set of operands: multiplications to compute its product; INFINITY if impossible */
  unsigned *left; /* the part of the set that is multiplied by the rest */
} Plan;

typedef struct Contraction {
  Builder *b;
  int n;
  const ContractTerm *terms;
  const char *out;
  double extents[LETTERS];
  Plan plan;
} Contraction;

/* ---- sizes and letters */

static double size_of(const Expr *e, const int64_t *guesses) {
  int64_t v;
  return ex_eval(e, guesses, &v) && v > 0 ? (double)v : 1;
}

static void read_extents(Contraction *c) {
  const Module *m = c->b->m;
  int64_t *guesses = ARENA_ARRAY(m->arena, int64_t, m->symbols.n + 1);
  for (size_t i = 0; i < m->symbols.n; i++) {
    const Symbol *s = &m->symbols.items[i];
    guesses[i] = s->hint ? s->hint : s->max && s->max < GUESS ? s->max : GUESS;
  }
  for (int i = 0; i < LETTERS; i++) c->extents[i] = 1;
  for (int t = 0; t < c->n; t++) {
    const Type *type = type_of(c->b->f, c->terms[t].value);
    for (int d = 0; d < type->rank; d++) {
      double *extent = &c->extents[(int)c->terms[t].letters[d]];
      *extent = fmax(*extent, size_of(type->dims[d], guesses));
    }
  }
}

static bool needed_outside(const Contraction *c, unsigned set, char letter) {
  if (strchr(c->out, letter)) return true;
  for (int t = 0; t < c->n; t++)
    if (!(set >> t & 1) && strchr(c->terms[t].letters, letter)) return true;
  return false;
}

/* Writes the letters of the product of a set, in the order in which operands name them, at most `most`; returns how
 * many there are. */
static int letters_of(const Contraction *c, unsigned set, int most, char *out) {
  int count = 0;
  bool single = (set & (set - 1)) == 0, seen[LETTERS] = {false};
  for (int t = 0; t < c->n; t++)
    for (const char *p = c->terms[t].letters; (set >> t & 1) && *p; p++) {
      if (seen[(int)*p] || (!single && !needed_outside(c, set, *p))) continue;
      seen[(int)*p] = true;
      if (count < most) out[count] = *p;
      count++;
    }
  out[count < most ? count : most] = '\0';
  return count;
}

/* ---- the order */

static double multiplications(const Contraction *c, unsigned left, unsigned right) {
  char of_left[MAX_RANK + 1], of_right[MAX_RANK + 1];
  double product = 1;
  letters_of(c, left, MAX_RANK, of_left);
  letters_of(c, right, MAX_RANK, of_right);
  for (const char *p = of_left; *p; p++) product *= c->extents[(int)*p];
  for (const char *p = of_right; *p; p++)
    if (!strchr(of_left, *p)) product *= c->extents[(int)*p];
  return product;
}

/* Orders splits of equal cost: operands one by one, from left to right. */
static bool goes_before(unsigned left, unsigned other) {
  int n = __builtin_popcount(left), m = __builtin_popcount(other);
  return n != m ? n > m : left < other;
}

/* Finds the cheapest split of a set; its left part contains the first operand. */
static void plan_set(Contraction *c, unsigned set) {
  unsigned first = set & -set, others = set ^ first;
  char letters[MAX_RANK + 1];
  Plan *p = &c->plan;
  p->cost[set] = INFINITY;
  if (letters_of(c, set, MAX_RANK, letters) > MAX_RANK) return;
  for (unsigned more = others; more != 0;) {
    more = (more - 1) & others;
    unsigned left = first | more, right = set ^ left;
    double cost = p->cost[left] + p->cost[right] + multiplications(c, left, right);
    bool better = cost < p->cost[set] || (cost <= p->cost[set] && !isinf(cost) && goes_before(left, p->left[set]));
    if (better) p->cost[set] = cost, p->left[set] = left;
  }
}

static void find_order(Contraction *c) {
  Arena *arena = c->b->m->arena;
  unsigned sets = 1u << c->n;
  c->plan = (Plan){ARENA_ARRAY(arena, double, sets), ARENA_ARRAY(arena, unsigned, sets)};
  for (unsigned set = 1; set < sets; set++)
    if (set & (set - 1)) plan_set(c, set);
}

/* ---- building */

/* Drops extents of 1 whose letter has a larger extent in the other operand. */
static ContractTerm without_stretched(Builder *b, ContractTerm x, const ContractTerm *other) {
  const Type *t = type_of(b->f, x.value), *to = type_of(b->f, other->value);
  const Expr *dims[MAX_RANK];
  int kept = 0;
  for (int d = 0; d < t->rank; d++) {
    const char *there = strchr(other->letters, x.letters[d]);
    bool stretched = there && ex_is_const(t->dims[d], 1) && !ex_is_const(to->dims[there - other->letters], 1);
    if (stretched) continue;
    dims[kept] = t->dims[d];
    x.letters[kept++] = x.letters[d];
  }
  x.letters[kept] = '\0';
  if (kept < t->rank) x.value = build_reshape(b, x.value, kept, dims);
  return x;
}

static ContractTerm product_of(Contraction *c, unsigned set) {
  if ((set & (set - 1)) == 0) return c->terms[__builtin_ctz(set)];
  ContractTerm x = product_of(c, c->plan.left[set]), y = product_of(c, set ^ c->plan.left[set]), result = {0};
  if (!x.value || !y.value) return result;
  ContractTerm left = without_stretched(c->b, x, &y), right = without_stretched(c->b, y, &x);
  letters_of(c, set, MAX_RANK, result.letters);
  if (set + 1 == 1u << c->n) strcpy(result.letters, c->out); /* the last dot writes the requested order */
  if (!left.value || !right.value) return (ContractTerm){0};
  result.value = build_dot(c->b, left.value, right.value,
                           arena_printf(c->b->m->arena, "%s,%s->%s", left.letters, right.letters, result.letters));
  return result;
}

/* For one operand: sums over letters that the result lacks, and reorders the others. */
static Val one_term(Builder *b, const ContractTerm *term, const char *out) {
  int axes[MAX_RANK], naxes = 0, perm[MAX_RANK], kept = 0;
  for (int i = 0; term->letters[i]; i++) {
    const char *in_result = strchr(out, term->letters[i]);
    if (in_result) perm[in_result - out] = kept++;
    else axes[naxes++] = i;
  }
  Val x = naxes ? build_reduce(b, RED_SUM, term->value, naxes, axes) : term->value;
  return x ? build_transpose(b, x, perm) : 0;
}

Val contract_terms(Builder *b, int n, const ContractTerm *terms, const char *out, const char **why) {
  *why = NULL;
  if (n < 1 || n > CONTRACT_MAX) die("contract: %d operands", n);
  if (n == 1) return one_term(b, terms, out);
  Contraction c = {.b = b, .n = n, .terms = terms, .out = out};
  read_extents(&c);
  find_order(&c);
  unsigned all = (1u << n) - 1;
  if (isinf(c.plan.cost[all])) {
    *why = "in every order an intermediate result has too many dimensions";
    return 0;
  }
  return product_of(&c, all).value;
}
