/* frontend/onnx/evaluate.h - what is known at import of the elements of built values: constant propagation.
 *
 * In: the level-1 function as far as it is built.  Out: for a value, its elements as numbers where constants alone
 * determine them, or as expressions where constants and dimensions do; else why not.
 *
 * Numbers come from the reference interpreter, one operation at a time, floats rounded to their type after each one, as
 * the model's own arithmetic is.  Where sizes are among the elements, operations that move elements are run by the
 * interpreter too, on the places the elements come from; integer arithmetic is done on expressions, and float
 * arithmetic on quotients of an expression and a power of two with few bits, which is exact in f32 for sizes below 2^18
 * (floor, ceil, and conversions to integers also take quotients by other numbers, exact below 2^22).  Elements that
 * cannot be decided are left out one by one.
 *
 * Values are looked at when somebody asks, and once.  Limits: EVALUATE_ELEMENTS of a value, KNOWN_MAX where sizes are
 * among them, EVALUATE_WORK for the operations of a model beyond EVALUATE_FREE, so that a small file takes bounded
 * time.
 */
#ifndef APC_FRONTEND_ONNX_EVALUATE_H
#define APC_FRONTEND_ONNX_EVALUATE_H

#include "frontend/onnx/import.h"
#include "frontend/known.h"
#include "ir/run/interp.h"

#define EVALUATE_ELEMENTS (INT64_C(1) << 16)
#define EVALUATE_FREE 1024 /* elements of an operation that are not counted */
#define EVALUATE_WORK \
  (INT64_C(1) << 25) /* elements read and written by all operations that are evaluated; products of extents where they \
                        are multiplied */

/* numerator / denominator; numerator NULL: not known.  Integers and bools have the denominator 1. */
typedef struct Number {
  const Expr *numerator;
  int64_t denominator;
} Number;

typedef enum FactKind {
  FACT_NONE,     /* not looked at */
  FACT_CONSTANT, /* cells */
  FACT_SIZES,    /* items, some of which may be missing */
  FACT_DATA,     /* depends on an input, on a state or on the round of a loop */
  FACT_OPEN,     /* depends on dimensions only, but cannot be expressed by them */
  FACT_LARGE,    /* constants beyond the limits */
} FactKind;

typedef struct ImportFact {
  FactKind kind;
  FactKind missing; /* why an element is missing: DATA, OPEN, LARGE; NONE: all are there */
  Val cause;        /* the operand that it is missing in; 0: the operation itself is the reason */
  const Type *type;
  int64_t n;
  const Cell *cells;
  const Number *items;
} ImportFact;

/* The bytes of a tensor of the file. */
typedef struct FactTensor {
  const uint8_t *bytes;
  const Type *type;
  uint64_t elements;
} FactTensor;

typedef struct Evaluation {
  Module *m;
  const Func *f;
  ImportFact *facts;    /* by value */
  FactTensor **tensors; /* by value: of an operation param */
  size_t cap;
  int64_t work;
} Evaluation;

/* Of a value of the function.  Valid until more values are looked at. */
const ImportFact *evaluate(Evaluation *e, Val v);

/* What is known of a value from elsewhere. */
void evaluate_tensor(Evaluation *e, Val v, FactTensor tensor);
void evaluate_known(Evaluation *e, Val v, const ImportKnown *k);
ImportFact fact_of_tensor(Evaluation *e, FactTensor tensor);
ImportFact fact_of_known(Module *m, const ImportKnown *k);

/* Values from `first` on are gone. */
void evaluate_forget(Evaluation *e, size_t first);

/* Integers or bools, at most KNOWN_MAX, all of which are there; else items NULL. */
ImportKnown fact_known(Module *m, const ImportFact *f);

#endif
