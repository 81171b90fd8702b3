/* frontend/known.h - integer tensors whose elements are known at import, as symbolic expressions.
 *
 * Exporters compute the targets of reshapes, expands and slices with ordinary nodes on small integer
 * tensors (Shape, Gather, Concat, Equal, Where ...).  A Known carries such a tensor's elements.  Where it comes from
 * the graph's own nodes, it was computed by evaluate.h.
 */
#ifndef APC_FRONTEND_KNOWN_H
#define APC_FRONTEND_KNOWN_H

#include "ir/ir.h"

#define KNOWN_MAX 64 /* elements; larger tensors are data, not shapes */
#define MAX_EXTENT \
  (INT64_C(1) << 40) /* of a dimension, so that sums of a few and products with a stride fit an int64 */

typedef struct ImportKnown {
  const Type *type; /* integer or bool, constant extents */
  int n;
  const Expr *const *items; /* row-major; NULL: not known */
} ImportKnown;

/* Closed interval an expression lies in for all sizes its symbols may have; INT64_MIN and INT64_MAX stand
 * for no bound. */
typedef struct Bounds {
  int64_t low, high;
} Bounds;
Bounds known_bounds(Module *m, const Expr *e);

/* Is e at least `least`, taking sizes in it to be at least 1 where that is needed?  What a model divides by or takes an
 * element of is not empty: a request with such a size of 0 is refused. */
bool known_need(Module *m, const Expr *e, int64_t least);

/* a - b is always >= 0; always > 0; never 0. */
bool known_ge(Module *m, const Expr *a, const Expr *b);
bool known_gt(Module *m, const Expr *a, const Expr *b);
bool known_ne(Module *m, const Expr *a, const Expr *b);

/* A Known over a copy of the items. */
ImportKnown known_make(Module *m, const Type *type, const Expr *const *items);
ImportKnown known_ints(Module *m, DType dtype, int rank, const int64_t *dims, const int64_t *items);
/* All items are constants, copied to `out` (KNOWN_MAX of them fit). */
bool known_constants(const ImportKnown *k, int64_t *out);

/* No extent is surely negative or above MAX_EXTENT.  True of the types of all values an importer is given. */
bool known_extents(Module *m, int rank, const Expr *const *dims);

#endif
