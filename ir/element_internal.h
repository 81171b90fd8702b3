/* ir/element_internal.h - private to ir/element*.c: functions whose elements are asked for. */
#ifndef APC_IR_ELEMENT_INTERNAL_H
#define APC_IR_ELEMENT_INTERNAL_H

#include "ir/element.h"
#include "ir/element_poly.h"

/* A value that is an atom: element (i0, i1, ...) of it is element (i_perm[0], i_perm[1], ...) of the value `number`. */
typedef struct Known {
  uint32_t number; /* 0: it is none */
  int perm[MAX_RANK];
} Known;

/* A function, or the body of a composite in it. */
typedef struct Scope {
  int number;             /* tells scopes apart */
  const Func *f;
  const FuncList *funcs;  /* where @prepare is */
  const struct Scope *outer; /* of a body: where its operands are */
  const Op *composite;
  Known *known;           /* by value; NULL in bodies */
  const struct Scope **bodies; /* by operation; NULL: not looked at yet */
} Scope;

typedef struct Elements {
  Module *m;
  Algebra *a;
  Arena *arena;
  int nscopes;
  struct { const char **keys; const Poly **polys; size_t n, cap; } memo;
} Elements;

Scope *scope_new(Elements *e, const Func *f, const FuncList *funcs);

/* The element of the value; `open` atoms on the way may be taken apart. */
const Poly *element_of(Elements *e, const Scope *s, Val v, const Expr *const *index, int open);
/* The same by the operation that makes it, whatever is known of it. */
const Poly *element_by_op(Elements *e, const Scope *s, Val v, const Expr *const *index, int open);

/* An expression of the model's dimensions. */
const Expr *element_expr(Elements *e, const Expr *x);

#endif
