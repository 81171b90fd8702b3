/* proof/element_poly.c - see element_poly.h. */
#include "proof/element_poly.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { MAX_MONOMIALS = 64, MAX_POWERS = 24, MAX_BOUND = 12, MAX_ORDERS = 720 };

static const Poly nothing = {0, NULL};

Algebra *algebra_new(Arena *arena, long steps) {
  Algebra *a = ARENA_NEW(arena, Algebra);
  a->arena = arena;
  a->m = module_new();
  a->steps = steps;
  ARENA_PUSH(arena, &a->atoms, ((AtomInfo){.kind = ""})); /* atom 0 is unused */
  return a;
}

void algebra_free(Algebra *a) { module_free(a->m); }

static const Poly *fail(Algebra *a) {
  a->failed = true;
  return &nothing;
}

static bool step(Algebra *a) {
  if (a->steps-- <= 0) a->failed = true;
  return !a->failed;
}

/* ---- indices */

static const char *extent_text(Algebra *a, const Expr *e) {
  Text t = {.arena = a->arena};
  ex_print(a->m, &t, e);
  return text_str(&t);
}

/* Returns the slot of a key's number; 0 in a new slot. */
static Atom *slot(Algebra *a, const char *key) {
  if (2 * (a->table.n + 1) > a->table.cap) {
    size_t cap = a->table.cap ? 2 * a->table.cap : 1024, old = a->table.cap;
    const char **keys = a->table.keys;
    Atom *atoms = a->table.atoms;
    a->table.keys = ARENA_ARRAY(a->arena, const char *, cap), a->table.atoms = ARENA_ARRAY(a->arena, Atom, cap);
    a->table.cap = cap, a->table.n = 0;
    for (size_t i = 0; i < old; i++)
      if (keys[i]) *slot(a, keys[i]) = atoms[i];
  }
  size_t i = hash64(key, strlen(key), 1) & (a->table.cap - 1);
  while (a->table.keys[i] && strcmp(a->table.keys[i], key) != 0) i = (i + 1) & (a->table.cap - 1);
  if (!a->table.keys[i]) a->table.keys[i] = key, a->table.n++;
  return &a->table.atoms[i];
}

/* The tab separates indices from the names of dimensions. */
const Expr *element_index_named(Algebra *a, const char *name, const Expr *extent) {
  if (ex_is_const(extent, 1)) return ex_const(a->m, 0);
  const char *full = arena_printf(a->arena, "\t%s[%s]", name, extent_text(a, extent));
  Atom *known = slot(a, full); /* no key of an atom begins with a tab */
  if (*known) return ex_sym(a->m, (int)*known - 1);
  int symbol = module_symbol(a->m, full);
  *known = (Atom)symbol + 1;
  if ((size_t)symbol >= a->nextent) {
    size_t n = 2 * (size_t)symbol + 64;
    const Expr **more = ARENA_ARRAY(a->arena, const Expr *, n);
    if (a->nextent) memcpy(more, a->extent, sizeof *more * a->nextent);
    a->extent = more, a->nextent = n;
  }
  a->extent[symbol] = extent;
  return ex_sym(a->m, symbol);
}

const Expr *element_index_fresh(Algebra *a, const Expr *extent) {
  return element_index_named(a, arena_printf(a->arena, "?%d", a->provisional++), extent);
}

const Expr *element_index_extent(const Algebra *a, const Expr *e) {
  return e->kind == EX_SYM && (size_t)e->value < a->nextent ? a->extent[e->value] : NULL;
}

static bool is_index(const Algebra *a, const Expr *e) { return element_index_extent(a, e) != NULL; }

/* True for a product of dimensions and a positive number, or a sum of such products and a number that is not
 * negative. */
static bool is_stride(const Expr *e) {
  if (e->kind == EX_CONST) return e->value > 0;
  if (e->kind == EX_ADD) {
    bool all = e->value >= 0;
    for (int i = 0; i < e->n; i++) all = all && is_stride(e->args[i]);
    return all;
  }
  if (e->kind == EX_SYM) return true;
  if (e->kind != EX_MUL || e->value <= 0) return false;
  for (int i = 0; i < e->n; i++)
    if (e->args[i]->kind != EX_SYM) return false;
  return true;
}

typedef struct Digit {
  const Expr *stride, *extent;
} Digit;

/* Returns the extent of an index, or of its quotient by a divisor of its extent; NULL for anything else. */
static const Expr *numbers_of(Algebra *a, const Expr *e) {
  if (is_index(a, e)) return a->extent[e->value];
  return e->kind == EX_DIV && is_index(a, e->args[0]) ? ex_exact_div(a->m, a->extent[e->args[0]->value], e->args[1])
                                                      : NULL;
}

/* Returns the only factor of a term that is an index or such a quotient; NULL if there are none or several. */
static const Expr *index_in(Algebra *a, const Expr *term) {
  const Expr *index = numbers_of(a, term) ? term : NULL;
  for (int i = 0; term->kind == EX_MUL && i < term->n; i++) {
    if (!numbers_of(a, term->args[i])) continue;
    if (index) return NULL;
    index = term->args[i];
  }
  return index;
}

/* Splits a term into stride * index; false if it is no such product. */
static bool digit_of(Algebra *a, const Expr *term, Digit *d) {
  const Expr *index = index_in(a, term->kind == EX_ADD && term->n ? term->args[0] : term);
  if (!index) return false;
  *d = (Digit){ex_exact_div(a->m, term, index), numbers_of(a, index)};
  return d->stride && is_stride(d->stride);
}

/* True if the terms are the digits of a number below `limit` in mixed radix. */
static bool below(Algebra *a, int n, const Expr *const *terms, const Expr *limit) {
  Digit digits[MAX_RANK * 2];
  const Expr *cover = ex_const(a->m, 1);
  if (n > MAX_RANK * 2) return false;
  for (int i = 0; i < n; i++)
    if (!digit_of(a, terms[i], &digits[i])) return false;
  for (int left = n; left > 0; left--) {
    int least = -1;
    for (int i = 0; i < left && least < 0; i++) {
      bool divides = ex_exact_div(a->m, digits[i].stride, cover) != NULL;
      for (int k = 0; k < left && divides; k++)
        divides = ex_exact_div(a->m, digits[k].stride, digits[i].stride) != NULL;
      if (divides) least = i;
    }
    if (least < 0) return false;
    cover = ex_mul(a->m, digits[least].stride, digits[least].extent);
    digits[least] = digits[left - 1];
  }
  return ex_exact_div(a->m, limit, cover) != NULL && is_stride(limit);
}

enum { MAX_TERMS = 60 };

/* Merges the terms of each index: strides that are sums are spread over several terms. */
static int by_index(Algebra *a, int n, const Expr *const *terms, const Expr **out) {
  const Expr *index[MAX_TERMS];
  int count = 0;
  for (int i = 0; i < n; i++) {
    const Expr *x = index_in(a, terms[i]);
    int k = 0;
    while (k < count && (!x || index[k] != x)) k++;
    index[k] = x;
    out[k] = k < count ? ex_add(a->m, out[k], terms[i]) : terms[i];
    count += k == count;
  }
  return count;
}

void element_index_divide(Algebra *a, const Expr *e, const Expr *by, const Expr **quotient, const Expr **remainder) {
  const Expr *rest[MAX_TERMS], *joined[MAX_TERMS], *q = ex_const(a->m, 0), *r = ex_const(a->m, 0);
  const Expr *const *terms = e->kind == EX_ADD ? e->args : &e;
  int n = 0, count = e->kind == EX_ADD ? e->n : 1;
  if (count > MAX_TERMS) a->failed = true;
  else if (by->kind == EX_ADD) count = by_index(a, count, terms, joined), terms = joined;
  for (int i = 0; i < count && !a->failed; i++) {
    const Expr *exact = ex_exact_div(a->m, terms[i], by);
    if (exact) q = ex_add(a->m, q, exact);
    else if (!ex_is_const(terms[i], 0)) rest[n++] = terms[i], r = ex_add(a->m, r, terms[i]);
  }
  int64_t constant = e->kind == EX_ADD ? e->value : 0, k;
  if (constant && ex_get_const(by, &k) && k > 0)
    q = ex_add(a->m, q, ex_div(a->m, ex_const(a->m, constant), by)), constant = (constant % k + k) % k;
  r = ex_addi(a->m, r, constant);
  bool inside = constant == 0 && below(a, n, rest, by);
  if (!inside && !(element_index_always(a, r) && element_index_always(a, ex_addi(a->m, ex_sub(a->m, by, r), -1)))) {
    const Expr *more = ex_div(a->m, r, by);
    q = ex_add(a->m, q, more), r = ex_sub(a->m, r, ex_mul(a->m, by, more));
  }
  *quotient = q, *remainder = r;
}

/* Simplifies quotients of indices that have become sums of digits. */
typedef struct Simplifying {
  Algebra *a;
} Simplifying;

static const Expr *divided(const void *context, const Expr *x, const Expr *by) {
  const Expr *quotient, *ignored;
  element_index_divide(((const Simplifying *)context)->a, x, by, &quotient, &ignored);
  return quotient;
}

static const Expr *simplified_in(const void *context, const Expr *e) {
  const Simplifying *s = context;
  return e->n ? ex_rebuild(s->a->m, e, &(ExprRebuild){simplified_in, divided, s}) : e;
}

static const Expr *simplified(Algebra *a, const Expr *e) { return simplified_in(&(Simplifying){a}, e); }

/* ---- atoms */

static void add_poly_text(Text *t, const Poly *p) {
  for (int i = 0; i < p->n; i++) {
    text_printf(t, "%s%.12g", i ? "+" : "", p->items[i].c); /* numbers that differ by rounding only are equal */
    for (int k = 0; k < p->items[i].n; k++)
      text_printf(t, "*%u^%d", p->items[i].powers[k].atom, p->items[i].powers[k].power);
  }
}

static int height_of(const Algebra *a, int n, const Power *powers) {
  int h = 0;
  for (int i = 0; i < n; i++)
    if (a->atoms.items[powers[i].atom].height > h) h = a->atoms.items[powers[i].atom].height;
  return h;
}

static int poly_height(const Algebra *a, const Poly *p) {
  int h = 0;
  for (int i = 0; i < p->n; i++) {
    int one = height_of(a, p->items[i].n, p->items[i].powers);
    if (one > h) h = one;
  }
  return h;
}

static Atom atom_get(Algebra *a, AtomInfo info) {
  Text t = {.arena = a->arena};
  text_printf(&t, "%s(", info.kind);
  for (int i = 0; i < info.nbound; i++) text_printf(&t, "%s,", a->m->symbols.items[info.bound[i]].name);
  for (int i = 0; i < info.nexprs; i++) {
    ex_print(a->m, &t, info.exprs[i]);
    text_add(&t, ";");
  }
  text_add(&t, "|");
  for (int i = 0; i < info.npolys; i++) {
    add_poly_text(&t, info.polys[i]);
    text_add(&t, ";");
  }
  Atom *at = slot(a, text_str(&t));
  if (*at) return *at;
  for (int i = 0; i < info.npolys; i++) {
    int h = poly_height(a, info.polys[i]) + (info.nbound > 0);
    if (h > info.height) info.height = h;
  }
  info.truth = strcmp(info.kind, HOLDS_ATOM) == 0;
  ARENA_PUSH(a->arena, &a->atoms, info);
  return *at = (Atom)(a->atoms.n - 1);
}

static const Poly *poly_of_power(Algebra *a, Power power) {
  Power *p = ARENA_NEW(a->arena, Power);
  Monomial *m = ARENA_NEW(a->arena, Monomial);
  Poly *poly = ARENA_NEW(a->arena, Poly);
  *p = power;
  *m = (Monomial){1, 1, p};
  *poly = (Poly){1, m};
  return poly;
}

static const Poly *poly_of_atom(Algebra *a, Atom atom) { return poly_of_power(a, (Power){atom, 1}); }

const Poly *poly_of_truth(Algebra *a, Atom atom) { return poly_of_atom(a, atom); }

const Poly *poly_atom(Algebra *a, const char *kind, int nexprs, const Expr *const *exprs, int npolys,
                      const Poly *const *polys) {
  if (!step(a)) return &nothing;
  const Expr **es = ARENA_ARRAY(a->arena, const Expr *, nexprs);
  const Poly **ps = ARENA_ARRAY(a->arena, const Poly *, npolys);
  for (int i = 0; i < nexprs; i++) es[i] = exprs[i];
  for (int i = 0; i < npolys; i++) ps[i] = polys[i];
  return poly_of_atom(
      a, atom_get(a, (AtomInfo){.kind = kind, .nexprs = nexprs, .npolys = npolys, .exprs = es, .polys = ps}));
}

/* ---- polynomials */

const Poly *poly_number(Algebra *a, double c) {
  if (c == 0) return &nothing;
  if (!isfinite(c)) return poly_atom(a, arena_printf(a->arena, "number %g", c), 0, NULL, 0, NULL);
  Monomial *m = ARENA_NEW(a->arena, Monomial);
  Poly *p = ARENA_NEW(a->arena, Poly);
  *m = (Monomial){c, 0, NULL};
  *p = (Poly){1, m};
  return p;
}

bool poly_get_number(const Poly *p, double *c) {
  *c = p->n ? p->items[0].c : 0;
  return p->n == 0 || (p->n == 1 && p->items[0].n == 0);
}

static int compare_powers(const Monomial *x, const Monomial *y) {
  for (int i = 0; i < x->n && i < y->n; i++) {
    if (x->powers[i].atom != y->powers[i].atom) return x->powers[i].atom < y->powers[i].atom ? -1 : 1;
    if (x->powers[i].power != y->powers[i].power) return x->powers[i].power < y->powers[i].power ? -1 : 1;
  }
  return (x->n > y->n) - (x->n < y->n);
}

static bool close(double x, double y) { return x == y || fabs(x - y) <= 1e-12 * fabs(x); }

bool poly_equal(const Poly *x, const Poly *y) {
  if (x->n != y->n) return false;
  for (int i = 0; i < x->n; i++)
    if (compare_powers(&x->items[i], &y->items[i]) != 0 || !close(x->items[i].c, y->items[i].c)) return false;
  return true;
}

const Poly *poly_add(Algebra *a, const Poly *x, const Poly *y) {
  if (!x->n) return y;
  if (!y->n) return x;
  if (!step(a) || x->n + y->n > MAX_MONOMIALS) return fail(a);
  Monomial *items = ARENA_ARRAY(a->arena, Monomial, x->n + y->n);
  int n = 0;
  for (int i = 0, k = 0; i < x->n || k < y->n;) {
    int order = i == x->n ? 1 : k == y->n ? -1 : compare_powers(&x->items[i], &y->items[k]);
    if (order < 0) items[n++] = x->items[i++];
    else if (order > 0) items[n++] = y->items[k++];
    else {
      Monomial sum = x->items[i++];
      double other = y->items[k++].c;
      sum.c = close(sum.c, -other) ? 0 : sum.c + other;
      if (sum.c != 0) items[n++] = sum;
    }
  }
  Poly *p = ARENA_NEW(a->arena, Poly);
  *p = (Poly){n, items};
  return p;
}

static bool times(Algebra *a, const Monomial *x, const Monomial *y, Monomial *out) {
  Power list[2 * MAX_POWERS];
  int n = 0;
  if (x->n > MAX_POWERS || y->n > MAX_POWERS) return false;
  for (int i = 0, k = 0; i < x->n || k < y->n;) {
    if (k == y->n || (i < x->n && x->powers[i].atom < y->powers[k].atom)) list[n++] = x->powers[i++];
    else if (i == x->n || x->powers[i].atom > y->powers[k].atom) list[n++] = y->powers[k++];
    else {
      int sum = x->powers[i].power + y->powers[k].power;
      if (a->atoms.items[x->powers[i].atom].truth && sum > 1) sum = 1; /* 0 or 1 */
      if (sum) list[n++] = (Power){x->powers[i].atom, sum};
      i++, k++;
    }
  }
  Power *powers = ARENA_ARRAY(a->arena, Power, n);
  if (n) memcpy(powers, list, sizeof *list * (size_t)n);
  *out = (Monomial){x->c * y->c, n, powers};
  return out->c != 0 && isfinite(out->c);
}

const Poly *poly_mul(Algebra *a, const Poly *x, const Poly *y) {
  const Poly *sum = &nothing;
  if (!step(a) || x->n * y->n > MAX_MONOMIALS) return x->n && y->n ? fail(a) : &nothing;
  for (int i = 0; i < x->n; i++)
    for (int k = 0; k < y->n; k++) {
      Monomial *m = ARENA_NEW(a->arena, Monomial);
      Poly *p = ARENA_NEW(a->arena, Poly);
      if (!times(a, &x->items[i], &y->items[k], m)) return fail(a);
      *p = (Poly){1, m};
      sum = poly_add(a, sum, p);
    }
  return sum;
}

static const Poly *scaled(Algebra *a, const Poly *p, double c) { return poly_mul(a, p, poly_number(a, c)); }

/* Returns the atoms common to all monomials, with the power nearest to 0. */
static const Poly *common_factor(Algebra *a, const Poly *x) {
  const Monomial *first = &x->items[0];
  Power *common = ARENA_ARRAY(a->arena, Power, first->n);
  Monomial *m = ARENA_NEW(a->arena, Monomial);
  Poly *p = ARENA_NEW(a->arena, Poly);
  int n = 0;
  for (int k = 0; k < first->n; k++) {
    Power least = first->powers[k];
    for (int i = 1; i < x->n && least.power; i++) {
      int power = 0;
      for (int j = 0; j < x->items[i].n; j++)
        if (x->items[i].powers[j].atom == least.atom) power = x->items[i].powers[j].power;
      if ((power > 0) != (least.power > 0)) least.power = 0;
      else if (abs(power) < abs(least.power)) least.power = power;
    }
    if (least.power) common[n++] = least;
  }
  *m = (Monomial){1, n, common};
  *p = (Poly){1, m};
  return p;
}

/* True if the polynomial is 0 where some condition does not hold. */
static bool needs_truth(const Algebra *a, const Poly *x) {
  for (int k = 0; x->n == 1 && k < x->items[0].n; k++)
    if (a->atoms.items[x->items[0].powers[k].atom].truth) return true;
  return false;
}

/* Reciprocals: a sum is split into its common factor and an atom for the remainder, scaled by its first number. */
const Poly *poly_recip(Algebra *a, const Poly *x) {
  if (!x->n) return fail(a);
  if (needs_truth(a, x)) return poly_atom(a, "over 0", 0, NULL, 1, &x);
  const Poly *common = x->n > 1 ? common_factor(a, x) : NULL;
  if (common && common->items[0].n) {
    const Poly *inverse = poly_recip(a, common);
    return poly_mul(a, inverse, poly_recip(a, poly_mul(a, inverse, x)));
  }
  double c = 1 / x->items[0].c;
  if (!isfinite(c)) return fail(a);
  const Poly *base = x->n > 1 ? poly_atom(a, "value", 0, NULL, 1, (const Poly *[]){scaled(a, x, c)}) : x;
  if (a->failed) return &nothing;
  const Monomial *old = &base->items[0];
  Power *powers = ARENA_ARRAY(a->arena, Power, old->n);
  Monomial *m = ARENA_NEW(a->arena, Monomial);
  Poly *p = ARENA_NEW(a->arena, Poly);
  for (int i = 0; i < old->n; i++) powers[i] = (Power){old->powers[i].atom, -old->powers[i].power};
  *m = (Monomial){c, old->n, powers};
  *p = (Poly){1, m};
  return p;
}

/* ---- replacing indices */

typedef struct Renaming {
  int n;
  int from[MAX_BOUND];
  const Expr *to[MAX_BOUND];
} Renaming;

static const Poly *rename_poly(Algebra *a, const Renaming *r, const Poly *p);
static Atom binder(Algebra *a, const char *kind, bool ordered, int n, const int *symbols, const Poly *body);

static bool uses_any(const Algebra *a, const Renaming *r, Atom atom) {
  const AtomInfo *info = &a->atoms.items[atom];
  for (int i = 0; i < info->nexprs; i++)
    for (int k = 0; k < r->n; k++)
      if (ex_uses(info->exprs[i], r->from[k])) return true;
  for (int i = 0; i < info->npolys; i++)
    for (int j = 0; j < info->polys[i]->n; j++)
      for (int k = 0; k < info->polys[i]->items[j].n; k++)
        if (uses_any(a, r, info->polys[i]->items[j].powers[k].atom)) return true;
  return false;
}

static bool is_ordered(const char *kind) { return strcmp(kind, "function") == 0; }

/* Binds the body again, because another order of indices may now give the smallest text. */
static Atom rebound(Algebra *a, const AtomInfo *info, const Poly *body) {
  Renaming r = {.n = info->nbound};
  int symbols[MAX_BOUND];
  for (int i = 0; i < r.n; i++) {
    r.from[i] = info->bound[i];
    r.to[i] = element_index_fresh(a, a->extent[info->bound[i]]);
    symbols[i] = (int)r.to[i]->value;
  }
  body = rename_poly(a, &r, body);
  return a->failed ? 0 : binder(a, info->kind, is_ordered(info->kind), r.n, symbols, body);
}

static Atom rename_atom(Algebra *a, const Renaming *r, Atom atom) {
  AtomInfo info = a->atoms.items[atom]; /* a copy: making atoms moves the array */
  if (!step(a) || !uses_any(a, r, atom)) return atom;
  const Expr **exprs = ARENA_ARRAY(a->arena, const Expr *, info.nexprs);
  const Poly **polys = ARENA_ARRAY(a->arena, const Poly *, info.npolys);
  for (int i = 0; i < info.nexprs; i++) {
    exprs[i] = info.exprs[i];
    for (int k = 0; k < r->n; k++) exprs[i] = ex_subst(a->m, exprs[i], r->from[k], r->to[k]);
    exprs[i] = simplified(a, exprs[i]);
  }
  for (int i = 0; i < info.npolys; i++) polys[i] = rename_poly(a, r, info.polys[i]);
  if (info.nbound) return rebound(a, &info, polys[0]);
  info.exprs = exprs, info.polys = polys, info.height = 0;
  return atom_get(a, info);
}

/* Evaluates conditions and integers anew after renaming: they may have become numbers, or sums. */
static const Poly *renamed_power(Algebra *a, const Renaming *r, Power power) {
  Atom atom = rename_atom(a, r, power.atom);
  const AtomInfo *info = &a->atoms.items[atom];
  bool whole = strcmp(info->kind, SIZE_ATOM) == 0;
  if (atom == power.atom || a->failed || power.power < 0 || (!whole && !info->truth))
    return poly_of_power(a, (Power){atom, power.power});
  const Poly *one = whole ? poly_whole(a, info->exprs[0]) : poly_holds(a, info->exprs[0]), *product = one;
  for (int k = 1; k < power.power; k++) product = poly_mul(a, product, one);
  return product;
}

static const Poly *rename_poly(Algebra *a, const Renaming *r, const Poly *p) {
  const Poly *sum = &nothing;
  for (int i = 0; i < p->n && !a->failed; i++) {
    const Poly *product = poly_number(a, p->items[i].c);
    for (int k = 0; k < p->items[i].n; k++) product = poly_mul(a, product, renamed_power(a, r, p->items[i].powers[k]));
    sum = poly_add(a, sum, product);
  }
  return sum;
}

/* ---- binders */

static const char *bound_name(Algebra *a, int height, int number) {
  return arena_printf(a->arena, "#%d.%d", height, number);
}

/* The next permutation in lexicographic order. */
static bool next_order(int n, int *order) {
  int i = n - 2;
  while (i >= 0 && order[i] > order[i + 1]) i--;
  if (i < 0) return false;
  int k = n - 1;
  while (order[k] < order[i]) k--;
  int t = order[i];
  order[i] = order[k], order[k] = t;
  for (int x = i + 1, y = n - 1; x < y; x++, y--) t = order[x], order[x] = order[y], order[y] = t;
  return true;
}

static int compare_text(Algebra *a, const Poly *x, const Poly *y) {
  Text s = {.arena = a->arena}, t = {.arena = a->arena};
  add_poly_text(&s, x);
  add_poly_text(&t, y);
  return strcmp(text_str(&s), text_str(&t));
}

static int by_name(const void *x, const void *y) { return strcmp(*(const char *const *)x, *(const char *const *)y); }

/* Names the indices of a binder.  If unordered, chooses the order with the smallest text among those that keep equal
 * extents together. */
static Atom binder(Algebra *a, const char *kind, bool ordered, int n, const int *symbols, const Poly *body) {
  int height = poly_height(a, body) + 1, order[MAX_BOUND], best[MAX_BOUND];
  const Poly *least = NULL;
  if (n > MAX_BOUND || !step(a)) return fail(a), (Atom)0;
  for (int i = 0; i < n; i++) order[i] = i;
  for (int tries = 0;; tries++) {
    if (tries > MAX_ORDERS) return fail(a), (Atom)0;
    Renaming r = {.n = n};
    int symbol[MAX_BOUND];
    for (int i = 0; i < n; i++) {
      const Expr *extent = a->extent[symbols[i]];
      int number = order[i];
      if (!ordered) { /* number among indices of the same extent */
        number = 0;
        for (int k = 0; k < n; k++) number += a->extent[symbols[k]] == extent && order[k] < order[i];
      }
      r.from[i] = symbols[i];
      r.to[i] = element_index_named(a, bound_name(a, height, number), extent);
      symbol[i] = (int)r.to[i]->value;
    }
    const Poly *p = rename_poly(a, &r, body);
    if (a->failed) return 0;
    if (!least || compare_text(a, p, least) < 0) {
      least = p;
      memcpy(best, symbol, sizeof symbol);
    }
    if (ordered || !next_order(n, order)) break;
  }
  int *bound = ARENA_ARRAY(a->arena, int, n);
  memcpy(bound, best, sizeof *bound * (size_t)n);
  if (!ordered) { /* the list of bound indices has no order */
    const char *names[MAX_BOUND];
    for (int i = 0; i < n; i++) names[i] = a->m->symbols.items[bound[i]].name;
    qsort(names, (size_t)n, sizeof *names, by_name);
    for (int i = 0; i < n; i++) bound[i] = module_symbol_find(a->m, names[i]);
  }
  const Poly **polys = ARENA_ARRAY(a->arena, const Poly *, 1);
  polys[0] = least;
  return atom_get(a, (AtomInfo){.kind = kind, .npolys = 1, .polys = polys, .nbound = n, .bound = bound});
}

/* Collects the symbols of the indices; indices of extent 1 have none. */
static int symbols_of(int n, const Expr *const *indices, int *symbols) {
  int count = 0;
  for (int i = 0; i < n && count < MAX_BOUND; i++)
    if (indices[i]->kind == EX_SYM) symbols[count++] = (int)indices[i]->value;
  return count;
}

static bool depends(const Algebra *a, Atom atom, int symbol) {
  return uses_any(a, &(Renaming){.n = 1, .from = {symbol}}, atom);
}

/* Sums one monomial: factors without a bound index move outside the sum. */
static const Poly *sum_monomial(Algebra *a, int n, const int *symbols, const Monomial *m) {
  Power inside[MAX_POWERS], outside[MAX_POWERS];
  int ni = 0, no = 0, used[MAX_BOUND], nused = 0;
  if (m->n > MAX_POWERS) return fail(a);
  for (int k = 0; k < m->n; k++) {
    bool any = false;
    for (int i = 0; i < n; i++) any = any || depends(a, m->powers[k].atom, symbols[i]);
    *(any ? &inside[ni++] : &outside[no++]) = m->powers[k];
  }
  const Monomial out = {m->c, no, outside}, in = {1, ni, inside};
  const Poly outer = {1, &out}, inner = {1, &in};
  const Poly *result = poly_mul(a, poly_number(a, 1), &outer);
  for (int i = 0; i < n; i++) {
    bool any = false;
    for (int k = 0; k < ni; k++) any = any || depends(a, inside[k].atom, symbols[i]);
    if (any) used[nused++] = symbols[i];
    else result = poly_mul(a, result, poly_whole(a, a->extent[symbols[i]])); /* once per value of the index */
  }
  if (!nused) return result;
  Atom atom = binder(a, "sum", false, nused, used, poly_mul(a, poly_number(a, 1), &inner));
  return a->failed ? &nothing : poly_mul(a, result, poly_of_atom(a, atom));
}

/* Returns a divisor of the index in the expression; NULL if none. */
static const Expr *divisor_in(const Expr *e, int symbol) {
  if (e->kind == EX_DIV && e->args[0]->kind == EX_SYM && e->args[0]->value == symbol) return e->args[1];
  for (int i = 0; i < e->n; i++) {
    const Expr *by = divisor_in(e->args[i], symbol);
    if (by) return by;
  }
  return NULL;
}

static const Expr *divisor(const Algebra *a, const Poly *p, int symbol) {
  const Expr *by = NULL;
  for (int i = 0; i < p->n; i++)
    for (int k = 0; k < p->items[i].n && !by; k++) {
      const AtomInfo *info = &a->atoms.items[p->items[i].powers[k].atom];
      for (int e = 0; e < info->nexprs && !by; e++) by = divisor_in(info->exprs[e], symbol);
      for (int e = 0; e < info->npolys && !by; e++) by = divisor(a, info->polys[e], symbol);
    }
  return by;
}

/* Splits a sum over merged dimensions into one over each: index = by * i + k. */
static const Poly *split_sum(Algebra *a, int n, const Expr *const *indices, int which, const Expr *by,
                             const Poly *body) {
  const Expr *list[MAX_BOUND + 1], *rest = ex_exact_div(a->m, a->extent[indices[which]->value], by);
  if (!rest || n >= MAX_BOUND) return fail(a);
  memcpy(list, indices, sizeof *list * (size_t)n);
  list[which] = element_index_fresh(a, rest), list[n] = element_index_fresh(a, by);
  Renaming r = {
      .n = 1, .from = {(int)indices[which]->value}, .to = {ex_add(a->m, ex_mul(a->m, by, list[which]), list[n])}};
  return poly_sum(a, n + 1, list, rename_poly(a, &r, body));
}

const Poly *poly_sum(Algebra *a, int n, const Expr *const *indices, const Poly *body) {
  int symbols[MAX_BOUND], count = symbols_of(n, indices, symbols);
  const Poly *sum = &nothing;
  if (!count) return body;
  for (int i = 0; i < n && !a->failed; i++) {
    const Expr *by = indices[i]->kind == EX_SYM ? divisor(a, body, (int)indices[i]->value) : NULL;
    if (by && ex_exact_div(a->m, a->extent[indices[i]->value], by)) return split_sum(a, n, indices, i, by, body);
  }
  for (int i = 0; i < body->n && !a->failed; i++)
    sum = poly_add(a, sum, sum_monomial(a, count, symbols, &body->items[i]));
  return sum;
}

static const Poly *bind(Algebra *a, const char *kind, bool ordered, int n, const Expr *const *indices,
                        const Poly *body) {
  int symbols[MAX_BOUND], count = symbols_of(n, indices, symbols);
  if (!count || a->failed) return poly_atom(a, kind, 0, NULL, 1, &body);
  Atom atom = binder(a, kind, ordered, count, symbols, body);
  return a->failed ? &nothing : poly_of_atom(a, atom);
}

const Poly *poly_reduce(Algebra *a, const char *kind, int n, const Expr *const *indices, const Poly *body) {
  return bind(a, kind, false, n, indices, body);
}
const Poly *poly_function(Algebra *a, int n, const Expr *const *indices, const Poly *body) {
  return bind(a, "function", true, n, indices, body);
}
