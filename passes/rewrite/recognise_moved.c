/* passes/rewrite/recognise_moved.c - gathers that return a value unchanged.
 *
 * Exporters look a mask up at (row of the batch, key), that is at positions which are the indices of the result.  Such
 * a gather equals its table, reshaped, transposed or broadcast, so that the table may be split like any other value,
 * over micro-batches as well.  Positions are followed as in positions.h; so is the table, back through operations that
 * only move elements, to the first value whose dimensions are indices of the result.
 *
 * Not supported: parts of a dimension, which would be slices.
 */
#include <string.h>

#include "passes/rewrite/positions.h"
#include "passes/rewrite/recognise.h"

/* The value that equals the result; for each of its dimensions other than 1, the corresponding dimension of the
 * result. */
typedef struct Whole {
  Val value;
  int n, from[MAX_RANK], to[MAX_RANK];
} Whole;

/* Returns the dimension of the result that equals this whole index; -1 if none. */
static int whole_dim(const Positions *p, const int *dim_of, const IndexSum *x, const Expr *extent) {
  int found = -1;
  for (int i = 0; i < p->n; i++) {
    if (!x->factor[i]) continue;
    if (found >= 0 || !ex_is_const(x->factor[i], 1) || p->extent[i] != extent) return -1;
    found = dim_of[i];
  }
  return ex_is_const(x->base, 0) ? found : -1;
}

static bool is_whole(const Positions *p, const int *dim_of, Val v, const IndexSum *at, Whole *out) {
  const Type *t = type_of(p->f, v);
  bool used[MAX_RANK] = {false};
  *out = (Whole){.value = v};
  for (int d = 0; d < t->rank; d++) {
    if (ex_is_const(t->dims[d], 1)) continue;
    int to = whole_dim(p, dim_of, &at[d], t->dims[d]);
    if (to < 0 || used[to]) return false;
    used[to] = true;
    out->from[out->n] = d, out->to[out->n++] = to;
  }
  return true;
}

static bool find_whole(Recognise *w, const Op *op, Whole *out) {
  Positions p = positions_new(w->r.m, w->r.old);
  const Type *t = type_of(w->r.old, op->out);
  IndexSum at[MAX_RANK], in[MAX_RANK];
  int dim_of[MAX_INDICES];
  for (int d = 0; d < t->rank; d++) {
    int before = p.n;
    at[d] = position_index(&p, t->dims[d]);
    if (p.n > before) dim_of[before] = d;
  }
  for (Val v = op->out; (v = position_moved(&p, v, at, in)) != 0;) {
    if (is_whole(&p, dim_of, v, in, out)) return true;
    memcpy(at, in, sizeof at);
  }
  return false;
}

/* Returns the value without dimensions of extent 1, the others in the order of the result. */
static Val in_order(Recognise *w, const Op *op, const Whole *whole, int *dims) {
  const Type *t = type_of(w->r.old, whole->value);
  const Expr *extents[MAX_RANK];
  int perm[MAX_RANK];
  for (int i = 0; i < whole->n; i++) {
    extents[i] = t->dims[whole->from[i]];
    int k = 0;
    for (int j = 0; j < whole->n; j++) k += whole->to[j] < whole->to[i];
    perm[k] = i, dims[k] = whole->to[i];
  }
  Val v = recognise_reshape(w, op, "whole", w->r.map[whole->value], whole->n, extents);
  return recognise_transpose(w, op, "order", v, perm);
}

Val recognise_moved(Recognise *w, const Op *op) {
  const Type *t = type_of(w->r.old, op->out);
  Whole whole;
  int dims[MAX_RANK];
  if (!find_whole(w, op, &whole)) return 0;
  if (type_of(w->r.old, whole.value) == t) {
    bool same = true;
    for (int i = 0; i < whole.n; i++) same &= whole.from[i] == whole.to[i];
    if (same) return w->r.map[whole.value];
  }
  Val v = in_order(w, op, &whole, dims);
  int spread = 0;
  for (int d = 0; d < t->rank; d++) spread += !ex_is_const(t->dims[d], 1);
  if (spread == whole.n) return recognise_reshape(w, op, NULL, v, t->rank, t->dims);
  int64_t list[MAX_RANK];
  for (int i = 0; i < whole.n; i++) list[i] = dims[i];
  Attr a = attr_ints(w->r.m, AT_dims, whole.n, list);
  return recognise_build(w, op, NULL,
                         (OpSpec){.kind = OP_broadcast, .nin = 1, .in = &v, .nattrs = 1, .attrs = &a, .type = t});
}
