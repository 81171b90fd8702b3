/* passes/cost/sizes.c - see sizes.h. */
#include "passes/cost/sizes.h"

#include <inttypes.h>
#include <math.h>

static const double most_bytes = 0x1p62;

/* Returns the largest dimension that is bound or has a hint; NULL if all are of usual sizes. */
static const Symbol *largest_dimension(const Module *m) {
  const int64_t common = 1 << 20;
  const Symbol *largest = NULL;
  for (size_t i = 0; i < m->symbols.n; i++) {
    const Symbol *s = &m->symbols.items[i];
    if (s->axis < 0 && s->hint > common && (!largest || s->hint > largest->hint)) largest = s;
  }
  return largest;
}

static double bytes_of(const CostModel *c, const Type *t) {
  double bytes = (double)dtype_bytes(t->dtype);
  bool empty = false;
  for (int d = 0; d < t->rank; d++) {
    double n = (double)cost_extent(c, t->dims[d]);
    if (n >= most_bytes) return INFINITY; /* also if another extent is 0, because parts of it are counted in 64 bits */
    empty |= n == 0;
    bytes *= n;
  }
  return empty ? 0 : bytes;
}

static bool refuse(const Module *m, const Op *op, Diags *d) {
  const Symbol *s = largest_dimension(m);
  const char *what = arena_printf(d->arena, "\"%s\" (%s) would have more than 2^62 bytes", op->name, op_name(op->kind));
  if (!s) return diag_error(d, DIAG_dimension, op->loc, "sizes are too large to plan for: %s", what);
  return diag_error(d, DIAG_dimension, op->loc, "dimension '%s' cannot be %" PRId64 ": %s", s->name, s->hint, what);
}

bool cost_sizes_can_be_priced(const CostModel *c, const Module *m, const Func *f, Diags *d) {
  for (Val v = 1; v < f->values.n; v++)
    if (!(bytes_of(c, type_of(f, v)) < most_bytes)) return refuse(m, op_of(f, v), d);
  return true;
}
