/* frontend/known.h - integer tensors whose elements are known at import, as symbolic expressions.
 *
 * Exporters compute the targets of reshapes, expands and slices with ordinary nodes on small integer tensors (Shape,
 * Gather, Concat, Equal, Where ...).  A Known holds the elements of such a tensor.  evaluate.h computes those of the
 * graph's own nodes.
 */
#ifndef APC_FRONTEND_KNOWN_H
#define APC_FRONTEND_KNOWN_H

#include "ir/ir.h"

#define KNOWN_MAX 64 /* elements; larger tensors are data, not shapes */
#define MAX_EXTENT \
  (INT64_C(1) << 40) /* limit of a dimension, so that sums of a few and products with a stride fit an int64 */

typedef struct ImportKnown {
  const Type *type; /* integer or bool, constant extents */
  int n;
  const Expr *const *items; /* row-major; NULL if unknown */
} ImportKnown;

/* Closed interval that contains the expression for all sizes of its symbols; INT64_MIN and INT64_MAX mean unbounded. */
typedef struct Bounds {
  int64_t low, high;
} Bounds;
Bounds known_bounds(Module *m, const Expr *e);

/* True if e is at least `least`, assuming where necessary that sizes in it are at least 1.  A model that divides by
 * a size or takes an element of a dimension needs it non-empty: a request with such a size of 0 is refused. */
bool known_need(Module *m, const Expr *e, int64_t least);

/* True if a - b is always >= 0; always > 0; never 0. */
bool known_ge(Module *m, const Expr *a, const Expr *b);
bool known_gt(Module *m, const Expr *a, const Expr *b);
bool known_ne(Module *m, const Expr *a, const Expr *b);

/* Makes a Known with a copy of the items. */
ImportKnown known_make(Module *m, const Type *type, const Expr *const *items);
ImportKnown known_ints(Module *m, DType dtype, int rank, const int64_t *dims, const int64_t *items);
/* True if all items are constants, which are copied to `out` (room for KNOWN_MAX). */
bool known_constants(const ImportKnown *k, int64_t *out);

/* True if no extent is certainly negative or above MAX_EXTENT.  Holds for all types that an importer receives. */
bool known_extents(Module *m, int rank, const Expr *const *dims);

#endif
