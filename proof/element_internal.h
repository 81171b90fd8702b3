/* proof/element_internal.h - private to proof/element*.c: elements of values of a function. */
#ifndef APC_PROOF_ELEMENT_INTERNAL_H
#define APC_PROOF_ELEMENT_INTERNAL_H

#include "proof/element.h"
#include "proof/element_poly.h"

#define VALUE_ATOM "value " /* followed by its number */

/* A value that is an atom: element (i0, i1, ...) of it is element (i_perm[0], i_perm[1], ...) of the value `number`. */
typedef struct Known {
  uint32_t number; /* 0 if the value is no atom */
  int perm[MAX_RANK];
} Known;

typedef enum Form { BEFORE, AFTER } Form; /* relative to the pass */

/* A function, or the body of a composite. */
typedef struct Scope {
  int number; /* unique */
  Form form;
  const Func *f;
  const FuncList *funcs;     /* the list with @prepare */
  const struct Scope *outer; /* of a body: the scope of its operands */
  const Op *composite;
  Known *known;   /* by value; NULL in bodies */
  bool *of_sizes; /* by operation: integers or conditions that depend on indices and sizes only, never atoms; NULL in
                     bodies */
  const struct Scope **bodies; /* by operation; NULL if not expanded yet */
} Scope;

typedef struct Elements {
  Module *m;
  Algebra *a;
  Arena *arena;
  int nscopes;
  bool *opened;     /* by number of a known value: it is expanded in both forms */
  bool past_guards; /* AFTER: divisors lose their guard against 0; BEFORE: values lose their replacement of NaN by 0 */
  bool guarded;     /* such a guard was found */
  struct {
    const char **keys;
    const Poly **polys;
    size_t n, cap;
  } memo;
} Elements;

/* A scope of the function; `funcs` is the list that the function belongs to. */
Scope *scope_new(Elements *e, Form form, const Func *f, const FuncList *funcs);

/* Returns the element of the value: an atom if the value is known and not expanded. */
const Poly *element_of(Elements *e, const Scope *s, Val v, const Expr *const *index);
/* Returns the element by the operation that defines it, even if the value is known. */
const Poly *element_by_op(Elements *e, const Scope *s, Val v, const Expr *const *index);

/* Translates an expression over the model's dimensions into the algebra's module. */
const Expr *element_expr(Elements *e, const Expr *x);

#endif
