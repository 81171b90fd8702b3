/* ir/layout/count.c - see count.h. */
#include "ir/layout/count.h"

#include <math.h>

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

uint32_t part_factors(const Rule *r, const char *letters) {
  uint32_t set = 0;
  for (const char *c = letters; *c; c++) {
    int f = rule_factor_find(r, (char[]){*c, 0});
    if (f < 0) die("a rule has no factor %c", *c);
    set |= 1u << f;
  }
  return set;
}

static double extent_of(const OpPart *p, uint32_t set) {
  double n = 1;
  for (int i = 0; i < p->rule->nfactors; i++)
    if (set >> i & 1) n *= p->size[i];
  return n;
}

static Product product_of(const OpPart *p, const ProductFactors *x) {
  Product y = {extent_of(p, x->batch), extent_of(p, x->m), extent_of(p, x->n), extent_of(p, x->k)};
  if (x->every) y.k /= (double)x->every;
  if (!x->groups) return y;
  double rows = y.m * p->share;
  y.batch = fmax(1, fmin(extent_of(p, x->groups), rows));
  y.m = rows / y.batch;
  return y;
}

int op_products(const OpPart *p, Product out[MAX_PRODUCTS]) {
  const OpRecord *record = op_record(p->op->kind);
  ProductFactors x[MAX_PRODUCTS];
  int n = record->products ? record->products(p->op, p->rule, x) : 0;
  for (int i = 0; i < n; i++) out[i] = product_of(p, &x[i]);
  return n;
}

static const Expr *times_factors(Module *m, const Rule *r, const Expr *by, uint32_t set) {
  for (int i = 0; i < r->nfactors; i++)
    if (set >> i & 1) by = ex_mul(m, by, r->factors[i].size);
  return by;
}

const Expr *op_multiply_adds(Module *m, const Op *op, const Rule *r) {
  const OpRecord *record = op_record(op->kind);
  ProductFactors x[MAX_PRODUCTS];
  const Expr *sum = ex_const(m, 0);
  int n = record->products ? record->products(op, r, x) : 0;
  for (int i = 0; i < n; i++) {
    const uint32_t sets[] = {x[i].batch, x[i].m, x[i].n, x[i].k};
    const Expr *product = ex_const(m, 1);
    for (int k = 0; k < 4; k++) product = times_factors(m, r, product, sets[k]);
    sum = ex_add(m, sum, x[i].every ? ex_div(m, product, ex_const(m, x[i].every)) : product);
  }
  return sum;
}

double op_flops(const OpPart *p) {
  const OpRecord *record = op_record(p->op->kind);
  Product x[MAX_PRODUCTS];
  double sum = 0;
  if (record->flops) return record->flops(p);
  if (!record->products) return p->elements;
  int n = op_products(p, x);
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
