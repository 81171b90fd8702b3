/* codegen/rows/row.h - row programs: the kernel IR (D32).
 *
 * A row program loops over the points of its outer dimensions (rows, parallel) and, inside, over one inner dimension
 * (elements).  Its values are nodes of one SSA graph without control flow.  A reduction over the inner dimension ends a
 * *stage*: nodes that use its result belong to the next stage, and the inner loop runs once per stage that stores or
 * accumulates per element.  Softmax has three stages: maximum; sum of exponentials; division.
 *
 * Nothing here is C: print_c.c prints loops for CPUs, another printer may choose warps and blocks.
 */
#ifndef APC_CODEGEN_ROWS_ROW_H
#define APC_CODEGEN_ROWS_ROW_H

#include "codegen/rows/row_work.h"

/* offset + sum of coef[d] * (index of loop dimension d); a NULL coefficient is 0. */
typedef struct Affine {
  const Expr *offset;
  const Expr *coef[MAX_RANK];
} Affine;

typedef enum RowNodeKind {
  RN_CONST,  /* f or i */
  RN_SCALAR, /* the i64 value of an expression */
  RN_INDEX,  /* the i64 value of `at`, plus args[0] if given */
  RN_LOAD,   /* element `at` (plus i64 args[0] if given) of a buffer; 0, without access, if `guard` is false */
  RN_OP,     /* an elementwise operation: unary, binary, compare, select, cast */
  RN_RANDOM, /* number args[0] (i64) that the operation `source` draws, with the key args[1] (i64) if it has one */
  RN_ACC     /* the finished reduction `acc` */
} RowNodeKind;

typedef struct RowNode {
  RowNodeKind kind;
  DType dtype; /* f16 and bf16 are computed in f32 and rounded by casts and stores */
  OpKind op;   /* OP */
  int nargs, args[3];
  double f;  /* CONST of float types */
  int64_t i; /* CONST of the others */
  Affine at;
  const Expr *expr;
  int buffer;
  int guard; /* LOAD: bool node, -1 if none */
  int acc;
  const Op *source; /* RANDOM: the operation */
  /* Derived by row_finish. */
  int stage;  /* the first stage in which the value can be computed */
  bool inner; /* depends on the index of the inner dimension */
  int cost;   /* of computing it from loads, in additions */
} RowNode;

typedef struct RowAcc {
  Reduction op;
  DType dtype;
  int node;
  int stage;
} RowAcc;

typedef struct RowStore {
  int node, buffer;
  Affine at;
  int stage;
  bool inner; /* per element, else once per row */
  bool total; /* stores no element, but the sum of a block's elements: of block i, as element i (work_total.c) */
} RowStore;

typedef struct RowBuffer {
  Val value;       /* 0 for a table */
  const Op *table; /* a const with listed elements */
  DType dtype;
  bool output;
} RowBuffer;

typedef struct RowProgram {
  int ndims;
  const Expr *extent[MAX_RANK + 1];
  int inner; /* the inner dimension: the reduced one, or the last; always a loop dimension */
  bool reduces;
  const Expr *start; /* global index of element 0 of the inner dimension: float sums are ordered by it (D33) */
  int nstages;
  const Expr *blocks; /* with totals: the number of blocks that share the elements evenly; else NULL */
  struct {
    RowNode *items;
    size_t n, cap;
  } nodes;
  struct {
    RowAcc *items;
    size_t n, cap;
  } accs;
  struct {
    RowStore *items;
    size_t n, cap;
  } stores;
  struct {
    RowBuffer *items;
    size_t n, cap;
  } buffers; /* inputs and tables, then outputs */
} RowProgram;

/* Builds the program of one group of operations; NULL if it stores nothing. */
RowProgram *row_build(Work *w, const WorkGroup *g);

/* Derives stages, levels and costs, and merges adjacent loop dimensions. */
void row_finish(Module *m, RowProgram *p);

#endif
