/* passes/rewrite/packed.h - weights of products in 4 or 8 bits (--weights-dtype). */
#ifndef APC_PASSES_REWRITE_PACKED_H
#define APC_PASSES_REWRITE_PACKED_H

#include "ir/ir.h"

enum { PACKED_COLUMNS = 16, PACKED_LEAST_GROUP = 32, PACKED_MOST_GROUP = 512 };

typedef struct PackedForm {
  int bits;      /* 4 or 8 */
  int64_t group; /* terms with one scale */
} PackedForm;

/* One side of a matrix in a weight: the index counts these dimensions of it, the last one fastest. */
typedef struct PackedSide {
  int n;
  int64_t dims[MAX_RANK], steps[MAX_RANK]; /* extents; elements of the weight from one index to the next */
  int64_t extent;
} PackedSide;

/* A weight's matrix, and the two weights that replace it. */
typedef struct PackedMatrix {
  const char *param;            /* the weight */
  int64_t first;                /* its element that is [0, 0] of the matrix */
  PackedSide terms, columns;    /* the summed index, and the other */
  const char *numbers, *scales; /* the new weights, in the form of packed_dot's operands 1 and 2 */
} PackedMatrix;

typedef struct PackedMatrices {
  PackedMatrix *items;
  size_t n, cap;
  size_t left; /* weights of products that stay */
  double bytes_before, bytes_after;
} PackedMatrices;

/* Rewrites the products of all level-1 functions.  The new weights are zeros until the caller gives them values.  False
 * after diagnostics. */
bool rewrite_packed(Module *m, PackedForm form, PackedMatrices *out, Diags *diags);

/* Makes weights that no operation reads zeros, which no program stores. */
void rewrite_packed_drop(Module *m);

#endif
