/* proof/element_poly.h - elements of tensors as polynomials over atoms; private to proof/element*.c.
 *
 * An atom is a number that is not expanded: the element of an input or weight at symbolic indices, a function of other
 * polynomials, a sum or maximum over bound indices.  Atoms are hash-consed and polynomials canonical, so equality is
 * equality of text.  The laws are those of the real numbers: + and x commute, associate and distribute, x / y is x
 * times y to the power -1, sums are linear.
 *
 * Bound indices are named by the nesting depth of binders inside theirs, by their extent, and, among equal extents,
 * such that the text becomes smallest: sums that differ only in the names and order of their indices are one atom.
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
  int nbound; /* of a binder: number of bound symbols; its body is polys[0] */
  const int *bound;
  int height; /* nesting depth of binders */
  bool truth; /* its value is 0 or 1 */
} AtomInfo;

typedef struct Algebra {
  Arena *arena;
  Module *m;           /* a module of its own, with the model's dimensions by name, and indices */
  const Expr **extent; /* by symbol: extent of an index; NULL for a dimension */
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
  int provisional; /* number of names used */
  long steps;      /* steps left; at 0 everything fails */
  bool failed;     /* too large, or not an index: nothing is proved */
} Algebra;

/* A new algebra that may take so many steps; free it before its arena. */
Algebra *algebra_new(Arena *arena, long steps);
void algebra_free(Algebra *a);

/* An index in [0, extent); 0 if the extent is 1.  Equal names and extents give equal indices; fresh ones are new. */
const Expr *element_index_named(Algebra *a, const char *name, const Expr *extent);
const Expr *element_index_fresh(Algebra *a, const Expr *extent);
/* Returns the extent of an index; NULL if e is no index. */
const Expr *element_index_extent(const Algebra *a, const Expr *e);
/* True if e >= 0 at all indices in their ranges and all sizes (always if a range is empty); false if unknown. */
bool element_index_always(Algebra *a, const Expr *e);
/* Floor division and remainder of a sum of indices times strides, as reshapes need them. */
void element_index_divide(Algebra *a, const Expr *e, const Expr *by, const Expr **quotient, const Expr **remainder);

/* Arithmetic.  An infinity or NaN is an atom.  Results are `nothing`, with a->failed set, if they grow too large. */
const Poly *poly_number(Algebra *a, double c);
const Poly *poly_atom(Algebra *a, const char *kind, int nexprs, const Expr *const *exprs, int npolys,
                      const Poly *const *polys);
const Poly *poly_add(Algebra *a, const Poly *x, const Poly *y);
const Poly *poly_mul(Algebra *a, const Poly *x, const Poly *y);
const Poly *poly_recip(Algebra *a, const Poly *x);
bool poly_equal(const Poly *x, const Poly *y);
bool poly_get_number(const Poly *p, double *c);

/* Returns the sum of the body over the indices (from element_index_fresh). */
const Poly *poly_sum(Algebra *a, int n, const Expr *const *indices, const Poly *body);
/* Another reduction: `kind` of the body over the indices, whose order does not matter. */
const Poly *poly_reduce(Algebra *a, const char *kind, int n, const Expr *const *indices, const Poly *body);
/* The body as a function of the indices, in their order. */
const Poly *poly_function(Algebra *a, int n, const Expr *const *indices, const Poly *body);

/* ---- conditions and exponentials (element_logic.c) */

#define HOLDS_ATOM "holds" /* of e: 1 where e >= 0, else 0 */
#define SIZE_ATOM "size"   /* of e: its value */
#define MINUS_INFINITY_ATOM "number -inf"

/* Converts an integer over indices and dimensions to a polynomial, and back; NULL if p is no such integer. */
const Poly *poly_whole(Algebra *a, const Expr *e);
const Expr *poly_get_whole(Algebra *a, const Poly *p);
/* 1 where e >= 0, else 0. */
const Poly *poly_holds(Algebra *a, const Expr *e);
const Poly *poly_of_truth(Algebra *a, Atom atom);
/* True if p consists of conditions and numbers only. */
bool poly_is_logic(const Algebra *a, const Poly *p);
/* 1 where `holds` is true of the two numbers, else 0; NULL if x or y has other atoms than conditions. */
const Poly *poly_compare(Algebra *a, const Poly *x, const Poly *y, bool (*holds)(double, double));
/* Returns x where c is 1, y where c is 0. */
const Poly *poly_select(Algebra *a, const Poly *c, const Poly *x, const Poly *y);
const Poly *poly_exp(Algebra *a, const Poly *p); /* e to the power p */

#endif
