/* ir/record.h - what is known of one operation, in one record; private to ir/.
 *
 * ir/ops.def lists the operations: what text, documents and whole classes need to know.  Everything else that
 * the compiler knows of an operation stands in its record, `record_NAME` in one file of ir/ops/ by family.  A field
 * that is not set says what its comment says.  Only three things stand elsewhere, on purpose: the prover's knowledge
 * (proof/prove*.c), which reads no record, so that a wrong one does not prove itself; kernels (codegen/); names in
 * models (frontend/).  Within a record `eval` is written from docs/ir.md and calls nothing of the rest, so that one
 * checks the other.
 */
#ifndef APC_IR_RECORD_H
#define APC_IR_RECORD_H

#include "ir/ir.h"

/* A cut windowed dimension: the result's part [lo, hi) needs of dimension `dim` of an operand ... */
typedef struct HaloNeed {
  Module *m;
  const Func *f;
  const Op *op;
  int operand, dim;
  const Expr *lo, *hi;
} HaloNeed;

struct Infer;
struct RuleMaking;
struct LocalPart;
struct LocalAttrs;
struct Eval;
struct OpPart;
struct Product;
struct Gradient;

/* What each of these is given stands in ir/infer.h, ir/layout/rule_make.h, ir/layout/local.h, ir/run/eval.h,
 * ir/layout/count.h, ir/gradient.h. */
typedef const Type *InferFn(const struct Infer *);
typedef void RuleFn(const struct RuleMaking *);
typedef void HaloFn(const HaloNeed *need, const Expr **lo, const Expr **hi);
typedef void LocalFn(const struct LocalPart *, struct LocalAttrs *out);
typedef bool EvalFn(struct Eval *);
typedef int ProductsFn(const struct OpPart *, struct Product *out); /* room for MAX_PRODUCTS */
typedef double CountFn(const struct OpPart *);
/* How many places an index may name, 0 ... n - 1; NULL: anything may stand there. */
typedef const Expr *PlacesFn(Module *m, const Func *f, const Op *op);
/* Derivative: builds what makes the gradients of the operands from those of the results. */
typedef void GradientFn(struct Gradient *);

typedef struct OpRecord {
  InferFn *infer;             /* the result's type */
  bool written_at_level2;     /* infer's extents need not be those that are written there: see infer_type */
  const char *space, *kinds;  /* factor rule as text (docs/ir.md); kinds: "body:t frozen:k e linear:2", or NULL */
  RuleFn *rule;               /* or as a function */
  HaloFn *halo;               /* of factors of kind halo; NULL: it has none */
  LocalFn *local;             /* NULL: the attributes mean the same on a part */
  EvalFn *eval;               /* what it computes, for the interpreter */
  int index;                  /* the operand that says where ... */
  PlacesFn *places;           /* ... and how many places it may name (ir/index_bound.h); NULL: it has none */
  ProductsFn *products;       /* contractions: the products they are */
  CountFn *flops;             /* NULL: two per multiply-add of the products, else one per element of the result */
  CountFn *bytes;             /* NULL: all of the operands and the result */
  const char *symbols, *body; /* composites: decomposition as IR text (ir/layout/body.c) */
  GradientFn *gradient;       /* NULL: it cannot be trained through */
} OpRecord;

const OpRecord *op_record(OpKind k);

#endif
