/* ir/expr.c - canonical integer expressions; see expr.h.
 *
 * A polynomial is a list of terms coefficient * atom * atom ... sorted by structure; ADD and MUL nodes are its interned
 * form.  Every constructor converts its operands to polynomials, computes, and converts the result back; expressions
 * have a handful of terms, so quadratic merging costs nothing.
 */
#include "ir/expr.h"

#include <string.h>

#include "ir/ir.h"
#include "ir/module.h"

enum { MAX_TERMS = 256, MAX_ATOMS = 16 };

typedef struct Term {
  int64_t coefficient;
  int n;
  const Expr *atoms[MAX_ATOMS];
} Term;

typedef struct Poly {
  int n;
  Term *terms; /* the constant is the term without atoms */
} Poly;

/* ---- structure order and interning */

int ex_compare(const Module *m, const Expr *a, const Expr *b) {
  if (a == b) return 0;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  if (a->kind == EX_SYM) {
    int c = strcmp(m->symbols.items[a->value].name, m->symbols.items[b->value].name);
    return c ? c : (a->value < b->value ? -1 : 1);
  }
  if (a->n != b->n) return a->n < b->n ? -1 : 1;
  for (int i = 0; i < a->n; i++) {
    int c = ex_compare(m, a->args[i], b->args[i]);
    if (c) return c;
  }
  return a->value < b->value ? -1 : a->value > b->value;
}

static int expr_equal(const void *key, const void *item) {
  const Expr *a = key, *b = item;
  return a->kind == b->kind && a->n == b->n && a->value == b->value &&
         (a->n == 0 || memcmp(a->args, b->args, sizeof *a->args * (size_t)a->n) == 0);
}

/* Sizes come from users' files, so errors must not abort: the module records the first reason, the result is 0, and the
 * verifier reports it (rule V3). */
static const char TOO_LARGE[] = "a size has too many terms";

static int64_t fault(Module *m, const char *why) {
  if (!m->expr_fault) m->expr_fault_at = (Loc){0};
  if (!m->expr_fault) m->expr_fault = why;
  return 0;
}

/* Clears the fault of a trial computation; true if there was one. */
static bool forgive(Module *m) {
  bool failed = m->expr_fault != NULL;
  m->expr_fault = NULL;
  return failed;
}

static const Expr *fault_expr(Module *m, const char *why) { return ex_const(m, fault(m, why)); }

static const Expr *intern(Module *m, ExprKind kind, int64_t value, int n, const Expr *const *args) {
  Expr key = {.kind = kind, .n = n, .value = value, .size = 1, .args = args};
  uint64_t h = hash_mix((uint64_t)kind + 1, (uint64_t)value);
  for (int i = 0; i < n; i++) {
    h = hash_mix(h, args[i]->hash);
    key.size += args[i]->size;
    if (args[i]->depth > key.depth) key.depth = args[i]->depth;
  }
  key.hash = h;
  key.depth++;
  const Expr *found = intern_find(&m->interned->exprs, h, &key, expr_equal);
  if (found) return found;
  if (key.depth > MAX_EXPR_DEPTH) return fault_expr(m, "a size is nested too deeply");
  if (key.size > MAX_EXPR_SIZE) return fault_expr(m, TOO_LARGE);
  Expr *e = ARENA_NEW(m->arena, Expr);
  const Expr **copy = ARENA_ARRAY(m->arena, const Expr *, n);
  for (int i = 0; i < n; i++) copy[i] = args[i];
  key.args = copy;
  *e = key;
  intern_add(m->arena, &m->interned->exprs, h, e);
  return e;
}

const Expr *ex_const(Module *m, int64_t v) { return intern(m, EX_CONST, v, 0, NULL); }
const Expr *ex_sym(Module *m, int symbol) { return intern(m, EX_SYM, symbol, 0, NULL); }

bool ex_get_const(const Expr *e, int64_t *v) {
  if (e->kind != EX_CONST) return false;
  *v = e->value;
  return true;
}

/* ---- polynomials */

int64_t ex_overflow(Module *m) { return fault(m, "a size does not fit 64 bits"); }

static int64_t mul_checked(Module *m, int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? ex_overflow(m) : r;
}

static int64_t add_checked(Module *m, int64_t a, int64_t b) {
  int64_t r;
  return __builtin_add_overflow(a, b, &r) ? ex_overflow(m) : r;
}

static int compare_atoms(const Module *m, const Term *a, const Term *b) {
  if (a->n != b->n) return a->n > b->n ? -1 : 1; /* higher degree first, the constant last */
  for (int i = 0; i < a->n; i++) {
    int c = ex_compare(m, a->atoms[i], b->atoms[i]);
    if (c) return c;
  }
  return 0;
}

/* Adds a term, keeping the list sorted and free of zeros and duplicates. */
static void poly_add_term(Module *m, Poly *p, const Term *t) {
  if (t->coefficient == 0) return;
  int i = 0;
  while (i < p->n) {
    int c = compare_atoms(m, &p->terms[i], t);
    if (c == 0) {
      p->terms[i].coefficient = add_checked(m, p->terms[i].coefficient, t->coefficient);
      if (p->terms[i].coefficient == 0) {
        memmove(&p->terms[i], &p->terms[i + 1], sizeof(Term) * (size_t)(p->n - i - 1));
        p->n--;
      }
      return;
    }
    if (c > 0) break;
    i++;
  }
  if (p->n == MAX_TERMS) {
    fault(m, TOO_LARGE);
    return;
  }
  memmove(&p->terms[i + 1], &p->terms[i], sizeof(Term) * (size_t)(p->n - i));
  p->terms[i] = *t;
  p->n++;
}

static void term_of(const Expr *e, Term *t) {
  t->coefficient = 1;
  t->n = 0;
  if (e->kind == EX_CONST) t->coefficient = e->value;
  else if (e->kind == EX_MUL) {
    t->coefficient = e->value;
    t->n = e->n;
    for (int i = 0; i < e->n; i++) t->atoms[i] = e->args[i];
  } else {
    t->n = 1;
    t->atoms[0] = e;
  }
}

static void poly_add(Module *m, Poly *p, const Expr *e, int64_t factor) {
  Term t;
  if (e->kind != EX_ADD) {
    term_of(e, &t);
    t.coefficient = mul_checked(m, t.coefficient, factor);
    poly_add_term(m, p, &t);
    return;
  }
  for (int i = 0; i < e->n; i++) {
    term_of(e->args[i], &t);
    t.coefficient = mul_checked(m, t.coefficient, factor);
    poly_add_term(m, p, &t);
  }
  poly_add_term(m, p, &(Term){mul_checked(m, e->value, factor), 0, {NULL}});
}

static const Expr *term_expr(Module *m, const Term *t) {
  if (t->n == 0) return ex_const(m, t->coefficient);
  if (t->n == 1 && t->coefficient == 1) return t->atoms[0];
  return intern(m, EX_MUL, t->coefficient, t->n, t->atoms);
}

static const Expr *poly_expr(Module *m, const Poly *p) {
  if (p->n == 0) return ex_const(m, 0);
  if (p->n == 1) return term_expr(m, &p->terms[0]);
  const Expr *args[MAX_TERMS];
  int n = 0;
  int64_t constant = 0;
  for (int i = 0; i < p->n; i++) {
    if (p->terms[i].n == 0) constant = p->terms[i].coefficient;
    else args[n++] = term_expr(m, &p->terms[i]);
  }
  return intern(m, EX_ADD, constant, n, args);
}

/* Scratch for the polynomials of one constructor call. */
static Poly poly_new(Term terms[MAX_TERMS + 1]) { return (Poly){0, terms}; }

static void term_times(Module *m, const Term *a, const Term *b, Term *out) {
  out->coefficient = mul_checked(m, a->coefficient, b->coefficient);
  if (a->n + b->n > MAX_ATOMS) {
    *out = (Term){fault(m, TOO_LARGE), 0, {NULL}};
    return;
  }
  int i = 0, j = 0, n = 0;
  while (i < a->n || j < b->n) {
    bool left = j == b->n || (i < a->n && ex_compare(m, a->atoms[i], b->atoms[j]) <= 0);
    out->atoms[n++] = left ? a->atoms[i++] : b->atoms[j++];
  }
  out->n = n;
}

/* ---- arithmetic */

const Expr *ex_add(Module *m, const Expr *a, const Expr *b) {
  Term terms[MAX_TERMS + 1];
  if (a->kind == EX_CONST && b->kind == EX_CONST) return ex_const(m, add_checked(m, a->value, b->value));
  Poly p = poly_new(terms);
  poly_add(m, &p, a, 1);
  poly_add(m, &p, b, 1);
  return poly_expr(m, &p);
}

const Expr *ex_sub(Module *m, const Expr *a, const Expr *b) {
  Term terms[MAX_TERMS + 1];
  if (a == b) return ex_const(m, 0);
  Poly p = poly_new(terms);
  poly_add(m, &p, a, 1);
  poly_add(m, &p, b, -1);
  return poly_expr(m, &p);
}

const Expr *ex_mul(Module *m, const Expr *a, const Expr *b) {
  Term left[MAX_TERMS + 1], right[MAX_TERMS + 1], terms[MAX_TERMS + 1];
  if (a->kind == EX_CONST && b->kind == EX_CONST) return ex_const(m, mul_checked(m, a->value, b->value));
  if (ex_is_const(a, 1)) return b;
  if (ex_is_const(b, 1)) return a;
  Poly p = poly_new(left), q = poly_new(right), r = poly_new(terms);
  poly_add(m, &p, a, 1);
  poly_add(m, &q, b, 1);
  for (int i = 0; i < p.n; i++)
    for (int j = 0; j < q.n; j++) {
      Term t;
      term_times(m, &p.terms[i], &q.terms[j], &t);
      poly_add_term(m, &r, &t);
    }
  return poly_expr(m, &r);
}

const Expr *ex_addi(Module *m, const Expr *a, int64_t b) { return ex_add(m, a, ex_const(m, b)); }
const Expr *ex_muli(Module *m, const Expr *a, int64_t b) { return ex_mul(m, a, ex_const(m, b)); }

/* Removes the atoms of b from a; false when one is missing or the coefficient does not divide. */
static bool term_divide(const Term *a, const Term *b, Term *out) {
  if (b->coefficient == 0 || (b->coefficient == -1 && a->coefficient == INT64_MIN)) return false;
  if (a->coefficient % b->coefficient != 0) return false;
  out->coefficient = a->coefficient / b->coefficient;
  out->n = 0;
  int j = 0;
  for (int i = 0; i < a->n; i++) {
    if (j < b->n && a->atoms[i] == b->atoms[j]) j++;
    else out->atoms[out->n++] = a->atoms[i];
  }
  return j == b->n;
}

/* Long division by the leading term; exact or NULL. */
static const Expr *long_division(Module *m, const Expr *a, const Expr *b) {
  Term terms[MAX_TERMS + 1], quotient[MAX_TERMS + 1], divisor[MAX_TERMS + 1];
  Poly p = poly_new(terms), q = poly_new(quotient), d = poly_new(divisor);
  poly_add(m, &p, a, 1);
  poly_add(m, &d, b, 1);
  if (d.n == 0) return NULL;
  for (int steps = 0; p.n > 0; steps++) {
    Term t;
    if (steps > MAX_TERMS || !term_divide(&p.terms[0], &d.terms[0], &t)) return NULL;
    poly_add_term(m, &q, &t);
    Term first = p.terms[0];
    for (int i = 0; i < d.n; i++) {
      Term product;
      term_times(m, &t, &d.terms[i], &product);
      product.coefficient = mul_checked(m, product.coefficient, -1);
      poly_add_term(m, &p, &product);
    }
    if (p.n > 0 && compare_atoms(m, &p.terms[0], &first) <= 0) return NULL;
  }
  return poly_expr(m, &q);
}

const Expr *ex_exact_div(Module *m, const Expr *a, const Expr *b) {
  if (a == b) return ex_const(m, 1);
  if (m->expr_fault) return NULL;
  const Expr *quotient = long_division(m, a, b);
  return forgive(m) ? NULL : quotient;
}

static int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return (a % b != 0 && a < 0) ? q - 1 : q;
}

int64_t ex_common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t t = a % b;
    a = b;
    b = t;
  }
  return a < 0 ? -a : a;
}

/* Floor division; if joined: floor((floor(x / a) + c) / b) = floor((x + a*c) / (a*b)). */
static const Expr *floor_of(Module *m, const Expr *e, int64_t b, bool joined) {
  const Expr *inner = e->kind == EX_ADD && e->n == 1 ? e->args[0] : e;
  int64_t a, both, shift, c = e->kind == EX_ADD ? e->value : 0;
  joined &= inner->kind == EX_DIV && ex_get_const(inner->args[1], &a) && !__builtin_mul_overflow(a, b, &both) &&
            !__builtin_mul_overflow(a, c, &shift);
  if (joined) return ex_div_joined(m, ex_addi(m, inner->args[0], shift), ex_const(m, both));
  return intern(m, EX_DIV, 0, 2, (const Expr *[]){e, ex_const(m, b)});
}

/* floor((b*x + r) / b) = x + floor(r / b): splits the divisible terms off, then cancels a common factor. */
static const Expr *div_by_const(Module *m, const Expr *a, int64_t b, bool joined) {
  Term terms[MAX_TERMS + 1], whole[MAX_TERMS + 1], rest[MAX_TERMS + 1];
  Poly p = poly_new(terms), w = poly_new(whole), r = poly_new(rest);
  poly_add(m, &p, a, 1);
  int64_t common = b;
  for (int i = 0; i < p.n; i++) {
    Term out = p.terms[i], stay = out;
    int64_t left = out.coefficient % b;
    if (out.n && left != 0) { /* only whole terms leave the division */
      common = ex_common_divisor(common, out.coefficient);
      out.coefficient = 0;
    } else {
      out.coefficient = floor_div(out.coefficient, b);
      stay.coefficient = left < 0 ? left + b : left;
    }
    poly_add_term(m, &w, &out);
    poly_add_term(m, &r, &stay);
  }
  if (r.n == 0 || (r.n == 1 && r.terms[0].n == 0)) return poly_expr(m, &w); /* a remainder below b */
  if (common > 1) {
    /* floor((g*y + c) / (g*b')) = floor((y + floor(c / g)) / b') */
    for (int i = 0; i < r.n; i++) r.terms[i].coefficient = floor_div(r.terms[i].coefficient, common);
    Poly again = poly_new(terms);
    for (int i = 0; i < r.n; i++) poly_add_term(m, &again, &r.terms[i]);
    const Expr *y = poly_expr(m, &again);
    const Expr *d = b == common ? y : floor_of(m, y, b / common, joined);
    return ex_add(m, poly_expr(m, &w), d);
  }
  return ex_add(m, poly_expr(m, &w), floor_of(m, poly_expr(m, &r), b, joined));
}

static const Expr *quotient(Module *m, const Expr *a, const Expr *b, bool joined) {
  if (b->kind == EX_CONST) {
    if (b->value <= 0)
      return fault_expr(m, b->value ? "a size is divided by a negative number" : "a size is divided by zero");
    if (a->kind == EX_CONST) return ex_const(m, floor_div(a->value, b->value));
    if (b->value == 1) return a;
    return div_by_const(m, a, b->value, joined);
  }
  if (ex_is_const(a, 0)) return a;
  const Expr *exact = ex_exact_div(m, a, b);
  if (exact) return exact;
  return intern(m, EX_DIV, 0, 2, (const Expr *[]){a, b});
}

const Expr *ex_div(Module *m, const Expr *a, const Expr *b) { return quotient(m, a, b, false); }

const Expr *ex_div_joined(Module *m, const Expr *a, const Expr *b) { return quotient(m, a, b, true); }

const Expr *ex_ceil_div(Module *m, const Expr *a, const Expr *b) {
  return ex_div(m, ex_add(m, a, ex_addi(m, b, -1)), b);
}

const Expr *ex_ceil_div_joined(Module *m, const Expr *a, const Expr *b) {
  return ex_div_joined(m, ex_add(m, a, ex_addi(m, b, -1)), b);
}

const Expr *ex_mod(Module *m, const Expr *a, const Expr *b) { return ex_sub(m, a, ex_mul(m, b, ex_div(m, a, b))); }

const Expr *ex_mod_joined(Module *m, const Expr *a, const Expr *b) {
  return ex_sub(m, a, ex_mul(m, b, ex_div_joined(m, a, b)));
}

/* ---- minimum and maximum: flattened, sorted, operands that differ by a constant merged */

/* a - b for inspection only: NULL, without a fault, if it cannot be computed. */
static const Expr *difference_of(Module *m, const Expr *a, const Expr *b) {
  if (m->expr_fault) return NULL;
  const Expr *difference = ex_sub(m, a, b);
  return forgive(m) ? NULL : difference;
}

static int extremum_insert(Module *m, ExprKind kind, const Expr **list, int n, const Expr *e) {
  for (int i = 0; i < n; i++) {
    const Expr *difference = difference_of(m, e, list[i]);
    if (!difference || difference->kind != EX_CONST) continue;
    if ((kind == EX_MIN) == (difference->value < 0)) {
      memmove(&list[i], &list[i + 1], sizeof *list * (size_t)(n - i - 1));
      return extremum_insert(m, kind, list, n - 1, e);
    }
    return n;
  }
  if (n == MAX_TERMS) {
    fault(m, TOO_LARGE);
    return n;
  }
  int i = n;
  while (i > 0 && ex_compare(m, list[i - 1], e) > 0) {
    list[i] = list[i - 1];
    i--;
  }
  list[i] = e;
  return n + 1;
}

static const Expr *extremum(Module *m, ExprKind kind, const Expr *a, const Expr *b) {
  const Expr *list[MAX_TERMS];
  const Expr *both[2] = {a, b};
  int n = 0;
  for (int k = 0; k < 2; k++) {
    if (both[k]->kind != kind) {
      n = extremum_insert(m, kind, list, n, both[k]);
      continue;
    }
    for (int i = 0; i < both[k]->n; i++) n = extremum_insert(m, kind, list, n, both[k]->args[i]);
  }
  return n == 1 ? list[0] : intern(m, kind, 0, n, list);
}

const Expr *ex_min(Module *m, const Expr *a, const Expr *b) { return extremum(m, EX_MIN, a, b); }
const Expr *ex_max(Module *m, const Expr *a, const Expr *b) { return extremum(m, EX_MAX, a, b); }

/* ---- substitution, queries, evaluation */

const Expr *ex_rebuild(Module *m, const Expr *e, const ExprRebuild *how) {
  const Expr *r = how->operand(how->context, e->args[0]);
  for (int i = 1; i < e->n; i++) {
    const Expr *a = how->operand(how->context, e->args[i]);
    if (e->kind == EX_MUL) r = ex_mul(m, r, a);
    else if (e->kind == EX_ADD) r = ex_add(m, r, a);
    else if (e->kind == EX_DIV) r = how->divide ? how->divide(how->context, r, a) : ex_div(m, r, a);
    else r = extremum(m, e->kind, r, a);
  }
  return e->kind == EX_MUL ? ex_muli(m, r, e->value) : e->kind == EX_ADD ? ex_addi(m, r, e->value) : r;
}

typedef struct Substitution {
  Module *m;
  int symbol;
  const Expr *by;
} Substitution;

static const Expr *substituted(const void *context, const Expr *e) {
  const Substitution *s = context;
  if (!ex_uses(e, s->symbol)) return e;
  return e->kind == EX_SYM ? s->by : ex_rebuild(s->m, e, &(ExprRebuild){substituted, NULL, s});
}

const Expr *ex_subst(Module *m, const Expr *e, int symbol, const Expr *by) {
  return substituted(&(Substitution){m, symbol, by}, e);
}

bool ex_uses(const Expr *e, int symbol) {
  if (e->kind == EX_SYM) return e->value == symbol;
  for (int i = 0; i < e->n; i++)
    if (ex_uses(e->args[i], symbol)) return true;
  return false;
}

bool ex_uses_coordinate(const Module *m, const Expr *e) {
  if (e->kind == EX_SYM) return m->symbols.items[e->value].axis >= 0;
  for (int i = 0; i < e->n; i++)
    if (ex_uses_coordinate(m, e->args[i])) return true;
  return false;
}

bool ex_eval(const Expr *e, const int64_t *symbol_values, int64_t *out) {
  if (e->kind == EX_CONST) return *out = e->value, true;
  if (e->kind == EX_SYM) return *out = symbol_values[e->value], true;
  int64_t r = 0;
  for (int i = 0; i < e->n; i++) {
    int64_t a;
    if (!ex_eval(e->args[i], symbol_values, &a)) return false;
    if (i == 0) r = a;
    else if (e->kind == EX_MUL) {
      if (__builtin_mul_overflow(r, a, &r)) return false;
    } else if (e->kind == EX_ADD) {
      if (__builtin_add_overflow(r, a, &r)) return false;
    } else if (e->kind == EX_DIV) {
      if (a <= 0) return false;
      r = floor_div(r, a);
    } else if (e->kind == EX_MIN) r = a < r ? a : r;
    else r = a > r ? a : r;
  }
  if (e->kind == EX_MUL && __builtin_mul_overflow(r, e->value, &r)) return false;
  if (e->kind == EX_ADD && __builtin_add_overflow(r, e->value, &r)) return false;
  return *out = r, true;
}

/* ---- text: `div` and `*` bind tighter than + and -; compound operands are in parentheses */

static void print_factor(const Module *m, Text *t, const Expr *e) {
  bool atom = e->kind == EX_SYM || e->kind == EX_MIN || e->kind == EX_MAX || (e->kind == EX_CONST && e->value >= 0);
  if (!atom) text_add(t, "(");
  ex_print(m, t, e);
  if (!atom) text_add(t, ")");
}

static void print_term(const Module *m, Text *t, const Expr *e, bool first) {
  int64_t c = e->kind == EX_MUL ? e->value : 1;
  if (!first) text_add(t, c < 0 ? " - " : " + ");
  else if (c < 0) text_add(t, "-");
  if (e->kind != EX_MUL) {
    ex_print(m, t, e);
    return;
  }
  if (c != 1 && c != -1) text_printf(t, "%llu*", c < 0 ? 0ull - (unsigned long long)c : (unsigned long long)c);
  for (int i = 0; i < e->n; i++) {
    if (i) text_add(t, "*");
    print_factor(m, t, e->args[i]);
  }
}

void ex_print(const Module *m, Text *t, const Expr *e) {
  switch (e->kind) {
    case EX_CONST: text_int(t, e->value); return;
    case EX_SYM: text_add(t, m->symbols.items[e->value].name); return;
    case EX_MUL: print_term(m, t, e, true); return;
    case EX_ADD:
      for (int i = 0; i < e->n; i++) print_term(m, t, e->args[i], i == 0);
      if (e->value)
        text_printf(t, e->value < 0 ? " - %llu" : " + %llu",
                    e->value < 0 ? 0ull - (unsigned long long)e->value : (unsigned long long)e->value);
      return;
    case EX_DIV:
      print_factor(m, t, e->args[0]);
      text_add(t, " div ");
      print_factor(m, t, e->args[1]);
      return;
    case EX_MIN:
    case EX_MAX:
      text_add(t, e->kind == EX_MIN ? "min(" : "max(");
      for (int i = 0; i < e->n; i++) {
        if (i) text_add(t, ", ");
        ex_print(m, t, e->args[i]);
      }
      text_add(t, ")");
      return;
  }
}
