/* proof/element_internal.h - private to proof/element*.c: functions whose elements are asked for. */
#ifndef APC_PROOF_ELEMENT_INTERNAL_H
#define APC_PROOF_ELEMENT_INTERNAL_H

#include "proof/element.h"
#include "proof/element_poly.h"

#define VALUE_ATOM "value " /* and its number */

/* A value that is an atom: element (i0, i1, ...) of it is element (i_perm[0], i_perm[1], ...) of the value `number`. */
typedef struct Known {
  uint32_t number; /* 0: it is none */
  int perm[MAX_RANK];
} Known;

typedef enum Form { BEFORE, AFTER } Form; /* the pass */

/* A function, or the body of a composite in it. */
typedef struct Scope {
  int number; /* tells scopes apart */
  Form form;
  const Func *f;
  const FuncList *funcs;     /* where @prepare is */
  const struct Scope *outer; /* of a body: where its operands are */
  const Op *composite;
  Known *known;   /* by value; NULL in bodies */
  bool *of_sizes; /* by operation: integers or conditions of indices and sizes alone, never atoms; NULL in bodies */
  const struct Scope **bodies; /* by operation; NULL: not looked at yet */
} Scope;

typedef struct Elements {
  Module *m;
  Algebra *a;
  Arena *arena;
  int nscopes;
  bool *opened;     /* by number of a known value: it is taken apart, in both forms */
  bool past_guards; /* AFTER: a divisor that is guarded against 0 is taken without; BEFORE: what is 0 where it is NaN,
                       without that */
  bool guarded;     /* there was one */
  struct {
    const char **keys;
    const Poly **polys;
    size_t n, cap;
  } memo;
} Elements;

Scope *scope_new(Elements *e, Form form, const Func *f, const FuncList *funcs);

/* The element of the value: an atom where it is known and not opened. */
const Poly *element_of(Elements *e, const Scope *s, Val v, const Expr *const *index);
/* The same by the operation that makes it, whatever is known of it. */
const Poly *element_by_op(Elements *e, const Scope *s, Val v, const Expr *const *index);

/* An expression of the model's dimensions. */
const Expr *element_expr(Elements *e, const Expr *x);

#endif
