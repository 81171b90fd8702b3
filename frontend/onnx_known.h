/* frontend/onnx_known.h - integer tensors whose elements are known at import, as symbolic expressions.
 *
 * Exporters compute the targets of reshapes, expands and slices with ordinary nodes on small integer
 * tensors (Shape, Gather, Concat, Equal, Where ...).  A Known carries such a tensor's elements; a node
 * all of whose inputs are known is evaluated here instead of being built.  When an element cannot be
 * decided (is `batch` equal to 1?) the evaluation fails and the node is built as usual.
 */
#ifndef APC_FRONTEND_ONNX_KNOWN_H
#define APC_FRONTEND_ONNX_KNOWN_H

#include "ir/ir.h"

#define KNOWN_MAX 64 /* elements; larger tensors are data, not shapes */
#define MAX_EXTENT (INT64_C(1) << 40) /* of a dimension, so that sums of a few and products with a stride fit an int64 */

typedef struct Known {
  const Type *type; /* integer or bool, constant extents */
  int n;
  const Expr *const *items; /* row-major; NULL: not known */
} Known;

/* Closed interval an expression lies in for all sizes its symbols may have; INT64_MIN and INT64_MAX stand
 * for no bound. */
typedef struct Bounds {
  int64_t low, high;
} Bounds;
Bounds known_bounds(const Module *m, const Expr *e);

/* a - b is always >= 0; always > 0; never 0. */
bool known_ge(Module *m, const Expr *a, const Expr *b);
bool known_gt(Module *m, const Expr *a, const Expr *b);
bool known_ne(Module *m, const Expr *a, const Expr *b);

/* A Known over a copy of the items. */
Known known_make(Module *m, const Type *type, const Expr *const *items);
Known known_ints(Module *m, DType dtype, int rank, const int64_t *dims, const int64_t *items);
/* All items are constants, copied to `out` (KNOWN_MAX of them fit). */
bool known_constants(const Known *k, int64_t *out);

/* Elementwise IR operations with NumPy broadcasting (cast and select included: operand 0 of select first).
 * items is NULL in the result when it is not decided or the operation is not one of integers. */
Known known_pointwise(Module *m, OpKind kind, DType result, int nin, const Known *in);

/* The elements of `k` at source[i] become the elements of a tensor of `type`. */
Known known_pick(Module *m, const Known *k, const Type *type, const int *source);
Known known_reduce(Module *m, Reduction r, const Known *k, const Type *type, unsigned axes);

/* No extent is surely negative or above MAX_EXTENT.  True of the types of all values an importer is given. */
bool known_extents(const Module *m, int rank, const Expr *const *dims);

/* NumPy broadcasting of extents; false when two extents contradict or cannot be compared. */
bool known_broadcast(Module *m, const Type *x, const Type *y, int *rank, const Expr **dims);

#endif
