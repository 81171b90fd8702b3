/* frontend/onnx/counted.h - results whose size data decide (import_counted.c). */
#ifndef APC_FRONTEND_ONNX_COUNTED_H
#define APC_FRONTEND_ONNX_COUNTED_H

#include "frontend/onnx/import_private.h"

/* Binds a computed size, from 0 to `most`, to an i64 scalar, or returns the size that was bound to an equal one.  NULL
 * after an error: in a loop, or in training. */
const Expr *counted_size(ImportNode *n, Val count, const Expr *most);
/* Returns the indices of the true elements of bool[N], in ascending order: i64[size], with a computed size. */
Val counted_indices(ImportNode *n, Val marks);
/* Scatters the elements of x to the places that `index` names, of `extent` places; others are 0. */
Val counted_scatter(ImportNode *n, Val x, Val index, const Expr *extent);
/* Returns index div `below` mod `extent`; without an extent, index div `below`. */
Val counted_digit(ImportNode *n, Val index, const Expr *below, const Expr *extent);

/* import_merge.c: true if an operator of the branch gives its result a size that data decide; and an If with such
 * branches, of which both are computed. */
bool import_merges(const Onnx__GraphProto *branch);
bool import_merged(ImportNode *n, const Onnx__GraphProto *yes, const Onnx__GraphProto *no, Val holds,
                   const bool *wanted);

/* NonZero and Compress of constants, whose results have known sizes. */
bool import_known_non_zero(ImportNode *n);
bool import_known_compress(ImportNode *n, int axis);

#endif
