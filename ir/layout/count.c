/* ir/layout/count.c - see count.h. */
#include "ir/layout/count.h"

#include "base/die.h"

double part_size(const OpPart *p, const char *factor) {
  int f = rule_factor_find(p->rule, factor);
  if (f < 0) die("%s has no factor %s", op_name(p->op->kind), factor);
  return p->size[f];
}

bool part_has(const TensorFactors *t, int factor) {
  for (int d = 0; d < t->rank; d++)
    for (int i = 0; i < t->dims[d].n; i++)
      if (t->dims[d].f[i] == factor) return true;
  return false;
}

int op_products(const OpPart *p, Product out[MAX_PRODUCTS]) {
  const OpRecord *record = op_record(p->op->kind);
  return record->products ? record->products(p, out) : 0;
}

double op_flops(const OpPart *p) {
  const OpRecord *record = op_record(p->op->kind);
  Product x[MAX_PRODUCTS];
  double sum = 0;
  if (record->flops) return record->flops(p);
  if (!record->products) return p->elements;
  int n = record->products(p, x);
  for (int i = 0; i < n; i++) sum += 2 * (x[i].batch * x[i].m * x[i].k * x[i].n);
  return sum;
}

double op_bytes(const OpPart *p) {
  const OpRecord *record = op_record(p->op->kind);
  double sum = p->bytes;
  if (record->bytes) return record->bytes(p);
  for (int i = 0; i < p->op->nin; i++) sum += p->in_bytes[i];
  return sum;
}
