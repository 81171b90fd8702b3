/* proof/element_poly.h - elements of tensors as polynomials over atoms; private to proof/element*.c.
 *
 * An atom is a number that is not taken apart: the element of an input or weight at symbolic indices, a function of
 * other polynomials, a sum or maximum over bound indices.  Atoms are hash-consed and polynomials canonical, so equality
 * is equality of text.  Laws are those of the real numbers: + and x commute, associate and distribute, x / y is x times
 * y to the power -1, sums are linear.
 *
 * Bound indices are named by how many binders lie inside theirs, by their extent, and, among equal extents, so that the
 * text becomes the smallest: sums that differ in names and order of what they run over are one atom.
 */
#ifndef APC_PROOF_ELEMENT_POLY_H
#define APC_PROOF_ELEMENT_POLY_H

#include "ir/ir.h"

typedef uint32_t Atom;

typedef struct Power {
  Atom atom;
  int power; /* not 0 */
} Power;

typedef struct Monomial {
  double c; /* not 0 */
  int n;
  const Power *powers; /* ascending atoms */
} Monomial;

typedef struct Poly {
  int n;
  const Monomial *items; /* ascending powers, all different */
} Poly;

typedef struct AtomInfo {
  const char *kind;
  int nexprs, npolys;
  const Expr *const *exprs;
  const Poly *const *polys;
  int nbound; /* of a binder: its body is polys[0], and these are the symbols */
  const int *bound;
  int height; /* binders inside each other */
  bool truth; /* 0 or 1 */
} AtomInfo;

typedef struct Algebra {
  Arena *arena;
  Module *m;           /* of its own: the dimensions of the model by name, and indices */
  const Expr **extent; /* by symbol: of an index; NULL: a dimension */
  size_t nextent;
  struct {
    AtomInfo *items;
    size_t n, cap;
  } atoms;
  struct {
    const char **keys;
    Atom *atoms;
    size_t n, cap;
  } table;
  int provisional; /* names given out */
  long steps;      /* left; at 0 everything has failed */
  bool failed;     /* too large, or an index that is none: nothing is proved */
} Algebra;

Algebra *algebra_new(Arena *arena, long steps);
void algebra_free(Algebra *a);

/* An index in [0, extent); 0 itself when the extent is 1. */
const Expr *element_index_named(Algebra *a, const char *name, const Expr *extent);
const Expr *element_index_fresh(Algebra *a, const Expr *extent);
/* NULL: it is none. */
const Expr *element_index_extent(const Algebra *a, const Expr *e);
/* e >= 0 at all indices in their ranges, at all sizes; where a range is empty there is nothing to hold.  False: not
 * found. */
bool element_index_always(Algebra *a, const Expr *e);
/* Floor division and remainder of a sum of indices times strides, which is what reshapes do. */
void element_index_divide(Algebra *a, const Expr *e, const Expr *by, const Expr **quotient, const Expr **remainder);

const Poly *poly_number(Algebra *a, double c);
const Poly *poly_atom(Algebra *a, const char *kind, int nexprs, const Expr *const *exprs, int npolys,
                      const Poly *const *polys);
const Poly *poly_add(Algebra *a, const Poly *x, const Poly *y);
const Poly *poly_mul(Algebra *a, const Poly *x, const Poly *y);
const Poly *poly_recip(Algebra *a, const Poly *x);
bool poly_equal(const Poly *x, const Poly *y);
bool poly_get_number(const Poly *p, double *c);

/* The sum of the body over the indices (as element_index_fresh gave them). */
const Poly *poly_sum(Algebra *a, int n, const Expr *const *indices, const Poly *body);
/* Another reduction: `kind` of the body over the indices, in any order. */
const Poly *poly_reduce(Algebra *a, const char *kind, int n, const Expr *const *indices, const Poly *body);
/* The function of the indices, in their order. */
const Poly *poly_function(Algebra *a, int n, const Expr *const *indices, const Poly *body);

/* ---- conditions and exponentials (element_logic.c) */

#define HOLDS_ATOM "holds" /* of e: 1 where e >= 0, else 0 */
#define SIZE_ATOM "size"   /* of e: its value */
#define MINUS_INFINITY_ATOM "number -inf"

/* A whole number of indices and dimensions, and back; NULL: it is none. */
const Poly *poly_whole(Algebra *a, const Expr *e);
const Expr *poly_get_whole(Algebra *a, const Poly *p);
/* 1 where e >= 0, else 0. */
const Poly *poly_holds(Algebra *a, const Expr *e);
const Poly *poly_of_truth(Algebra *a, Atom atom);
/* Is it made of conditions and numbers alone? */
bool poly_is_logic(const Algebra *a, const Poly *p);
/* 1 where `holds` is true of the two numbers, else 0; NULL: they are not made of conditions alone. */
const Poly *poly_compare(Algebra *a, const Poly *x, const Poly *y, bool (*holds)(double, double));
/* x where c is 1, y where it is 0. */
const Poly *poly_select(Algebra *a, const Poly *c, const Poly *x, const Poly *y);
const Poly *poly_exp(Algebra *a, const Poly *p);

#endif
