/* ir/record.h - the facts about one operation, in one record; private to ir/.
 *
 * ir/ops.def lists the operations, with the facts for text, documents and whole classes.  All other facts are in the
 * operation's record, `record_NAME` in a file of ir/ops/ by family.  The comment of a field says what an unset one
 * means.  Only three things are elsewhere, on purpose: the prover's knowledge (proof/prove*.c), which reads no record,
 * so that a wrong one does not prove itself; kernels (codegen/); names in models (frontend/).  Within a record, `eval`
 * is written from docs/ir.md and calls none of the other functions, so that each checks the other.
 */
#ifndef APC_IR_RECORD_H
#define APC_IR_RECORD_H

#include "ir/ir.h"

/* A cut windowed dimension: the part of operand dimension `dim` needed for the result's part [lo, hi) ... */
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
struct ProductFactors;
struct Rule;
struct Gradient;

/* ir/infer.h, ir/layout/rule_make.h, ir/layout/local.h, ir/run/eval.h, ir/layout/count.h and ir/gradient.h describe the
 * arguments. */
typedef const Type *InferFn(const struct Infer *);
typedef void RuleFn(const struct RuleMaking *);
typedef void HaloFn(const HaloNeed *need, const Expr **lo, const Expr **hi);
typedef void LocalFn(const struct LocalPart *, struct LocalAttrs *out);
typedef bool EvalFn(struct Eval *);
typedef int ProductsFn(const Op *op, const struct Rule *r, struct ProductFactors *out); /* room for MAX_PRODUCTS */
typedef double CountFn(const struct OpPart *);
/* The number n of valid indices, 0 ... n - 1; NULL if any index is allowed. */
typedef const Expr *PlacesFn(Module *m, const Func *f, const Op *op);
/* Builds the gradients of the operands from those of the results. */
typedef void GradientFn(struct Gradient *);

typedef struct OpRecord {
  InferFn *infer;             /* the result's type */
  bool written_at_level2;     /* infer's extents may differ from the written ones at level 2: see infer_types */
  const char *space, *kinds;  /* factor rule as text (docs/ir.md); kinds: "body:t frozen:k e linear:2", or NULL */
  RuleFn *rule;               /* or a function that makes the rule */
  HaloFn *halo;               /* for factors of kind halo; NULL if there are none */
  LocalFn *local;             /* NULL if the attributes mean the same on a part */
  EvalFn *eval;               /* the result's values, for the interpreter */
  int index;                  /* the operand with indices ... */
  PlacesFn *places;           /* ... and their number (ir/index_bound.h); NULL if it has none */
  ProductsFn *products;       /* contractions: their matrix products */
  CountFn *flops;             /* NULL: two per multiply-add of the products, else one per element of the result */
  CountFn *bytes;             /* NULL: all bytes of the operands and the result */
  const char *symbols, *body; /* composites: decomposition as IR text (ir/layout/body.c) */
  GradientFn *gradient;       /* NULL if it has no derivative */
} OpRecord;

const OpRecord *op_record(OpKind k); /* the record of an operation */

#endif
