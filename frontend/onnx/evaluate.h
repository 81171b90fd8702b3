/* frontend/onnx/evaluate.h - constant propagation: finds elements of values that are known at import.
 *
 * In: the part of the level-1 function that is built.  Out: for a value, its elements as numbers, if constants alone
 * determine them, or as expressions, if constants and dimensions do; otherwise why they are unknown.
 *
 * The reference interpreter computes numbers, one operation at a time, and rounds floats to their type after each
 * one, as the model's own arithmetic does.  If sizes are among the elements, the interpreter also runs operations
 * that move elements, on the indices of the elements.  Integer arithmetic works on expressions.  Float arithmetic
 * works on quotients of an expression and a power of two with few bits, which is exact in f32 for sizes below 2^18;
 * floor, ceil and conversions to integers also accept quotients by other numbers, exact below 2^22.  Elements that
 * cannot be decided are left out one by one.
 *
 * Values are evaluated on demand, once.  Limits: EVALUATE_ELEMENTS per value, KNOWN_MAX if sizes are among them, and
 * EVALUATE_WORK for the operations of a model beyond EVALUATE_FREE, so that a small file takes bounded time.
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

/* numerator / denominator; numerator NULL if unknown.  Integers and bools have the denominator 1. */
typedef struct Number {
  const Expr *numerator;
  int64_t denominator;
} Number;

typedef enum FactKind {
  FACT_NONE,     /* not evaluated yet */
  FACT_CONSTANT, /* cells */
  FACT_SIZES,    /* items, some of which may be unknown */
  FACT_DATA,     /* depends on an input, a state or the round of a loop */
  FACT_OPEN,     /* depends only on dimensions, but is no expression of them */
  FACT_LARGE,    /* constants beyond the limits */
} FactKind;

typedef struct ImportFact {
  FactKind kind;
  FactKind missing; /* why an element is unknown: DATA, OPEN, LARGE; NONE if all are known */
  Val cause;        /* the operand in which it is unknown; 0 if the operation itself is the reason */
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
  FactTensor **tensors; /* by value, for operations param and input */
  size_t cap;
  int64_t work;
} Evaluation;

/* Evaluates a value of the function.  The result is valid until further values are evaluated. */
const ImportFact *evaluate(Evaluation *e, Val v);

/* Records elements that are known from elsewhere. */
void evaluate_tensor(Evaluation *e, Val v, FactTensor tensor);
void evaluate_known(Evaluation *e, Val v, const ImportKnown *k);
ImportFact fact_of_tensor(Evaluation *e, FactTensor tensor);
ImportFact fact_of_known(Module *m, const ImportKnown *k);

/* Forgets values from `first` on, which were removed. */
void evaluate_forget(Evaluation *e, size_t first);

/* Returns integers or bools, at most KNOWN_MAX, if all are known; else items is NULL. */
ImportKnown fact_known(Module *m, const ImportFact *f);

#endif
