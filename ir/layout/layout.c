/* ir/layout/layout.c - layouts: interning, the one partition function (D11), local types, text. */
#include <string.h>

#include "base/die.h"
#include "ir/ir.h"
#include "ir/shares.h"
#include "ir/module.h"

static const struct {
  const char *name;
  bool numbers, bools;
} reductions[RED_COUNT] = {
    {.name = "none"},
#define REDUCTION(name, NAME, numbers, bools) {#name, numbers, bools},
#include "base/reduction.def"
#undef REDUCTION
};

const char *reduction_name(Reduction r) { return reductions[r].name; }

bool reduction_find(const char *name, Reduction *out) {
  for (int i = 0; i < RED_COUNT; i++)
    if (strcmp(reductions[i].name, name) == 0) {
      *out = (Reduction)i;
      return true;
    }
  return false;
}

bool reduction_defined(Reduction r, DType t) {
  if (!dtype_computes(t)) return r == RED_ONE;
  return dtype_class(t) == DTC_B ? reductions[r].bools : reductions[r].numbers;
}

bool reduction_is_ordered(Reduction r, DType t) { return r == RED_SUM && dtype_is_float(t); }

static int layout_equal(const void *key, const void *item) {
  const Layout *a = key, *b = item;
  if (a->rank != b->rank || a->partial != b->partial || a->partial_axes != b->partial_axes) return 0;
  for (int d = 0; d < a->rank; d++) {
    const DimLayout *x = &a->dims[d], *y = &b->dims[d];
    if (x->n != y->n || x->unit != y->unit || memcmp(x->axes, y->axes, (size_t)x->n) != 0) return 0;
  }
  return 1;
}

const Layout *layout_get(Module *m, const Layout *l) {
  Layout key;
  memset(&key, 0, sizeof key);
  key.rank = l->rank;
  key.partial_axes = l->partial_axes;
  key.partial = l->partial_axes ? l->partial : RED_NONE;
  uint64_t h = hash_mix(hash_mix((uint64_t)key.rank, key.partial_axes), (uint64_t)key.partial);
  for (int d = 0; d < l->rank; d++) {
    DimLayout *k = &key.dims[d];
    k->n = l->dims[d].n;
    h = hash_mix(h, (uint64_t)k->n);
    for (int i = 0; i < k->n; i++) {
      k->axes[i] = l->dims[d].axes[i];
      h = hash_mix(h, k->axes[i]);
    }
    if (k->n) {
      k->unit = l->dims[d].unit ? l->dims[d].unit : ex_const(m, 1);
      h = hash_mix(h, k->unit->hash);
    }
  }
  const Layout *found = intern_find(&m->interned->layouts, h, &key, layout_equal);
  if (found) return found;
  Layout *fresh = ARENA_NEW(m->arena, Layout);
  *fresh = key;
  intern_add(m->arena, &m->interned->layouts, h, fresh);
  return fresh;
}

const Layout *layout_replicated(Module *m, int rank) { return layout_get(m, &(Layout){.rank = rank}); }

int64_t layout_parts(const Mesh *mesh, const DimLayout *d) {
  int64_t n = 1;
  for (int i = 0; i < d->n; i++) n *= mesh->axes[d->axes[i]].size;
  return n;
}

static bool is_cut_in_time(const Mesh *mesh, int axis) {
  return mesh->axes[axis].temporal && mesh->axes[axis].size > 1;
}

bool layout_over_time(const Mesh *mesh, const Layout *l) {
  for (int a = 0; a < mesh->naxes; a++)
    if (is_cut_in_time(mesh, a) && (l->partial_axes >> a & 1u)) return true;
  for (int d = 0; d < l->rank; d++)
    for (int i = 0; i < l->dims[d].n; i++)
      if (is_cut_in_time(mesh, l->dims[d].axes[i])) return true;
  return false;
}

void layout_interval(Module *m, const DimLayout *d, const Expr *extent, const Expr **lo, const Expr **hi) {
  if (d->n == 0) {
    *lo = ex_const(m, 0);
    *hi = extent;
    return;
  }
  const Expr *r, *own, *n, *units = ex_div(m, extent, d->unit);
  layout_place_expr(m, d, &r, &own, &n);
  *lo = ex_mul(m, d->unit, ex_div(m, ex_mul(m, r, units), n));
  *hi = ex_mul(m, d->unit, ex_div(m, ex_mul(m, ex_add(m, r, own), units), n));
}

/* Replaces each size by its multiple of a new size. */
static const Expr *in_multiples(Module *m, const Expr *e) {
  for (size_t i = 0; i < m->symbols.n; i++)
    if (m->symbols.items[i].multiple > 1 && ex_uses(e, (int)i))
      e = ex_subst(m, e, (int)i, ex_muli(m, ex_sym(m, (int)i), m->symbols.items[i].multiple));
  return e;
}

bool layout_unit_divides(Module *m, const DimLayout *d, const Expr *extent) {
  if (d->n == 0 || ex_is_const(d->unit, 1)) return true;
  return ex_exact_div(m, in_multiples(m, extent), in_multiples(m, d->unit)) != NULL;
}

const Type *layout_local_type(Module *m, const Type *global, const Layout *l) {
  const Expr *dims[MAX_RANK];
  if (l->rank != global->rank) die("layout of rank %d for a type of rank %d", l->rank, global->rank);
  for (int d = 0; d < global->rank; d++) {
    const Expr *lo, *hi;
    layout_interval(m, &l->dims[d], global->dims[d], &lo, &hi);
    dims[d] = ex_sub(m, hi, lo);
  }
  return type_get(m, global->dtype, global->rank, dims);
}

static void print_axes(const Module *m, Text *t, uint32_t axes) {
  const char *separator = "";
  for (int a = 0; a < m->mesh.naxes; a++)
    if (axes & (1u << a)) {
      text_printf(t, "%s%s", separator, m->mesh.axes[a].name);
      separator = ".";
    }
}

void layout_print(const Module *m, Text *t, const Layout *l) {
  const char *separator = "";
  text_add(t, "{");
  for (int d = 0; d < l->rank; d++) {
    const DimLayout *k = &l->dims[d];
    if (!k->n) continue;
    text_printf(t, "%s%d:", separator, d);
    for (int i = 0; i < k->n; i++) text_printf(t, "%s%s", i ? "." : "", m->mesh.axes[k->axes[i]].name);
    if (!ex_is_const(k->unit, 1)) {
      text_add(t, "/(");
      ex_print(m, t, k->unit);
      text_add(t, ")");
    }
    separator = ", ";
  }
  if (l->partial_axes) {
    text_printf(t, "%s%s:", separator, reduction_name(l->partial));
    print_axes(m, t, l->partial_axes);
  }
  text_add(t, "}");
}
