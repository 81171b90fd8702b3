/* ir/layout/local.c - see local.h. */
#include "ir/layout/local.h"

#include <string.h>

void local_set(LocalAttrs *out, Attr a) {
  int i = 0;
  while (i < out->n && out->items[i].key != a.key) i++;
  if (i == out->n) out->n++;
  out->items[i] = a;
}

const Expr *local_begin(const LocalPart *p, const Layout *l, int dim, const Expr *extent) {
  const Expr *lo, *hi;
  layout_interval(p->m, &l->dims[dim], extent, &lo, &hi);
  return lo;
}

static void start_along(const LocalPart *p, const Layout *l, const Type *t, LocalAttrs *out) {
  int axis = (int)op_int(p->op, AT_axis, 0);
  local_set(out, attr_e(AT_start, local_begin(p, l, axis, t->dims[axis])));
}

void local_start_of_operand(const LocalPart *p, LocalAttrs *out) {
  start_along(p, p->in[0], type_of(p->f, p->op->in[0]), out);
}

void local_start_of_result(const LocalPart *p, LocalAttrs *out) {
  start_along(p, p->result, type_of(p->f, p->op->out), out);
}

void local_starts_of_result(const LocalPart *p, LocalAttrs *out) {
  const Type *y = type_of(p->f, p->op->out);
  const Expr *list[MAX_RANK];
  for (int d = 0; d < y->rank; d++) list[d] = local_begin(p, p->result, d, y->dims[d]);
  local_set(out, attr_exprs(p->m, AT_starts, y->rank, list));
}

int op_local_attrs(const LocalPart *p, Attr *out) {
  LocalAttrs local = {p->op->nattrs, out};
  if (local.n) memcpy(out, p->op->attrs, sizeof(Attr) * (size_t)local.n);
  const OpRecord *record = op_record(p->op->kind);
  if (record->local) record->local(p, &local);
  return local.n;
}
