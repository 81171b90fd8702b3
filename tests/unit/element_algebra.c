/* The algebra of elements: laws that hold, and elements that must differ. */
#include "proof/element_poly.h"
#include "tests/test.h"

static Arena *arena;
static Algebra *a;

static const Expr *dim(const char *name) { return ex_sym(a->m, module_symbol(a->m, name)); }
static const Expr *num(int64_t v) { return ex_const(a->m, v); }
static const Poly *at(const char *what, const Expr *i, const Expr *j) {
  return poly_atom(a, what, 2, (const Expr *[]){i, j}, 0, NULL);
}
static const Poly *minus(const Poly *x) { return poly_mul(a, poly_number(a, -1), x); }

static void laws(void) {
  const Expr *i = element_index_named(a, "i", num(5)), *j = element_index_named(a, "j", num(7));
  const Poly *x = at("x", i, j), *y = at("y", i, j), *z = at("x", j, i);
  CHECK(poly_equal(poly_add(a, x, y), poly_add(a, y, x)) && poly_equal(poly_mul(a, x, y), poly_mul(a, y, x)));
  CHECK(poly_equal(poly_mul(a, poly_add(a, x, y), x), poly_add(a, poly_mul(a, x, x), poly_mul(a, y, x))));
  CHECK(poly_equal(poly_mul(a, x, poly_recip(a, x)), poly_number(a, 1)) && poly_add(a, x, minus(x))->n == 0);
  CHECK(poly_equal(poly_recip(a, poly_add(a, x, y)), poly_recip(a, poly_add(a, y, x))));
  CHECK(!poly_equal(x, z) && !poly_equal(x, y) && !poly_equal(x, poly_mul(a, x, x)) &&
        !poly_equal(x, poly_mul(a, poly_number(a, 1.0001), x)));
  CHECK(!poly_equal(poly_recip(a, poly_add(a, x, y)), poly_add(a, poly_recip(a, x), poly_recip(a, y))));
}

/* sum over k of f(i, k) g(k, j), with indices made in any order and under any name */
static const Poly *product(const Expr *i, const Expr *j, const Expr *n, bool turned, const Poly *scale) {
  const Expr *k = element_index_fresh(a, n);
  const Poly *f = at("f", i, k), *g = turned ? at("g", j, k) : at("g", k, j);
  return poly_sum(a, 1, &k, poly_mul(a, scale, poly_mul(a, g, f)));
}

static void sums(void) {
  const Expr *i = element_index_named(a, "i", num(5)), *j = element_index_named(a, "j", num(5)), *n = dim("n");
  const Poly *one = poly_number(a, 1), *s = at("s", j, j);
  CHECK(poly_equal(product(i, j, n, false, one), product(i, j, n, false, one)));
  CHECK(!poly_equal(product(i, j, n, false, one), product(j, i, n, false, one)) &&
        !poly_equal(product(i, j, n, false, one), product(i, j, n, true, one)));
  CHECK(!poly_equal(product(i, j, n, false, one), product(i, j, dim("m"), false, one)));
  CHECK(poly_equal(product(i, j, n, false, s),
                   poly_mul(a, s, product(i, j, n, false, one)))); /* factors without the index are outside */
  const Expr *k = element_index_fresh(a, n), *l = element_index_fresh(a, n), *kl[] = {k, l}, *lk[] = {l, k};
  CHECK(poly_equal(poly_sum(a, 2, kl, at("f", k, l)), poly_sum(a, 2, lk, at("f", k, l))) &&
        poly_equal(poly_sum(a, 2, kl, at("f", k, l)), poly_sum(a, 2, kl, at("f", l, k))));
  CHECK(!poly_equal(poly_function(a, 2, kl, at("f", k, l)), poly_function(a, 2, lk, at("f", k, l))));
  CHECK(poly_equal(poly_sum(a, 2, kl, at("f", k, i)),
                   poly_mul(a, poly_atom(a, "size", 1, &n, 0, NULL), poly_sum(a, 1, &k, at("f", k, i)))));
  CHECK(!poly_equal(poly_reduce(a, "max", 1, &k, at("f", k, i)), poly_sum(a, 1, &k, at("f", k, i))));
  CHECK(!poly_equal(poly_sum(a, 1, &k, poly_mul(a, at("f", k, i), at("f", k, i))),
                    poly_mul(a, poly_sum(a, 1, &k, at("f", k, i)), poly_sum(a, 1, &k, at("f", k, i)))));
}

static void indices(void) {
  const Expr *h = dim("h"), *i = element_index_named(a, "p", dim("b")), *j = element_index_named(a, "q", h),
             *k = element_index_named(a, "r", num(4)), *q, *r;
  const Expr *both = ex_add(a->m, ex_mul(a->m, i, h), j); /* i * h + j */
  element_index_divide(a, both, h, &q, &r);
  CHECK(q == i && r == j);
  element_index_divide(a, ex_add(a->m, ex_muli(a->m, both, 4), k), ex_muli(a->m, h, 4), &q, &r);
  CHECK(q == i && r == ex_add(a->m, ex_muli(a->m, j, 4), k));
  element_index_divide(a, ex_addi(a->m, both, 1), h, &q, &r); /* j + 1 may be h */
  CHECK(q != i);
  element_index_divide(a, ex_add(a->m, i, j), h, &q, &r); /* i may be large */
  CHECK(q != num(0));
  element_index_divide(a, j, num(4), &q, &r); /* and so may j */
  CHECK(q != num(0));
  element_index_divide(a, ex_add(a->m, k, ex_muli(a->m, j, 2)), ex_muli(a->m, h, 8), &q, &r); /* digits that overlap */
  CHECK(q != num(0));
}

/* A sum over merged dimensions is one over both; merged the other way round it is another. */
static void merged(void) {
  const Expr *three = num(3), *four = num(4), *n = element_index_fresh(a, num(12)), *i = element_index_fresh(a, three),
             *k = element_index_fresh(a, four), *q, *r, *ik[] = {i, k};
  element_index_divide(a, n, four, &q, &r);
  const Poly *joined = poly_sum(a, 1, &n, poly_mul(a, at("t", q, r), at("w", n, num(0))));
  CHECK(poly_equal(
      joined, poly_sum(a, 2, ik, poly_mul(a, at("t", i, k), at("w", ex_add(a->m, ex_muli(a->m, i, 4), k), num(0))))));
  CHECK(!poly_equal(
      joined, poly_sum(a, 2, ik, poly_mul(a, at("t", i, k), at("w", ex_add(a->m, ex_muli(a->m, k, 3), i), num(0))))));
}

/* Beyond the limit of work nothing is proved. */
static void bounded(void) {
  a->steps = 50;
  const Poly *p = poly_number(a, 1);
  for (int i = 0; i < 8; i++) p = poly_mul(a, p, poly_add(a, at("u", num(i), num(0)), at("v", num(i), num(0))));
  CHECK(a->failed);
}

int main(void) {
  arena = arena_new();
  a = algebra_new(arena, 1000000);
  RUN(laws);
  RUN(sums);
  RUN(indices);
  RUN(merged);
  CHECK(!a->failed && !a->m->expr_fault);
  RUN(bounded);
  algebra_free(a);
  arena_free(arena);
  return test_summary();
}
