/* passes/cost/dot.c - see dot.h. */
#include "passes/cost/dot.h"

#include <math.h>
#include <string.h>

#include "ir/window.h"
#include "passes/cost/kernel.h"

/* True if the factor's part on every rank is 1 for all sizes: level 2 then has a constant there.  Cuts into
 * micro-batches do not count: dropping a copy only because of them would make m parts of a product faster than the
 * whole, and the search's bounds over micro-batches rely on the opposite. */
static bool is_one(const Mesh *mesh, const Rule *r, const Strategy *s, int factor) {
  int64_t extent, parts = 1;
  for (int i = 0; i < s->n; i++) {
    if (s->picks[i].factor != factor) continue;
    if (mesh->axes[s->picks[i].axis].temporal) return false;
    parts *= mesh->axes[s->picks[i].axis].size;
  }
  return ex_get_const(r->factors[factor].size, &extent) && extent == parts;
}

/* ---- cache */

typedef struct DotKnown {
  const char *spec; /* NULL: a free slot */
  DType type;
  uint64_t ones; /* a bit per letter: a-z, A-Z */
  LegalDot dot;
  DotForm form;
  int passes[3];
} DotKnown;

static DotKnown *slot_of(const DotMemo *m, const char *spec, DType type, uint64_t ones) {
  uint64_t key = ((uint64_t)(uintptr_t)spec >> 3) ^ (ones << 12) ^ (uint64_t)type;
  size_t i = (size_t)(key * 0x9E3779B97F4A7C15u >> 32) & (m->slots - 1);
  for (;; i = (i + 1) & (m->slots - 1)) {
    DotKnown *k = &m->items[i];
    if (!k->spec || (k->spec == spec && k->type == type && k->ones == ones)) return k;
  }
}

static void grow(DotMemo *m) {
  DotKnown *old = m->items;
  size_t n = m->slots;
  m->slots = n ? 2 * n : 64;
  m->items = ARENA_ARRAY(m->arena, DotKnown, m->slots);
  for (size_t i = 0; i < n; i++)
    if (old[i].spec) *slot_of(m, old[i].spec, old[i].type, old[i].ones) = old[i];
}

static const DotKnown *known_dot(DotMemo *m, const DeviceTraits *d, const char *spec, DType type, uint64_t ones) {
  if (2 * m->n >= m->slots) grow(m);
  DotKnown *k = slot_of(m, spec, type, ones);
  if (k->spec) return k;
  *k = (DotKnown){.spec = spec, .type = type, .ones = ones};
  m->n++;
  op_dot_form(&k->form, type, spec);
  for (int l = 0; l < 26; l++) k->form.one['a' + l] = ones >> l & 1, k->form.one['A' + l] = ones >> (26 + l) & 1;
  legal_dot(d, &k->form, &k->dot);
  for (int i = 0; i < 3; i++) k->passes[i] = legal_dot_passes(&k->form, &k->dot, i);
  return k;
}

/* ---- sizes */

/* Fills *factor by letter; returns the letters of extent 1. */
static uint64_t find_factors(const OpPart *p, const char *spec, const Mesh *mesh, const Strategy *s, int *factor) {
  uint64_t seen = 0, ones = 0;
  for (int t = 0, d = 0; *spec != '-'; spec++) {
    if (*spec == ',') {
      t++, d = 0;
      continue;
    }
    int f = p->rule->operands[t].dims[d++].f[0];
    uint64_t bit = UINT64_C(1) << (*spec >= 'a' ? *spec - 'a' : 26 + *spec - 'A');
    factor[(int)*spec] = f;
    if (!(seen & bit) && is_one(mesh, p->rule, s, f)) ones |= bit;
    seen |= bit;
  }
  return ones;
}

static double extent(const OpPart *p, const int *factor, const char *letters) {
  double n = 1;
  for (; *letters; letters++) n *= p->size[factor[(int)*letters]];
  return n;
}

static double group_extent(const OpPart *p, const int *factor, const LegalDot *dot, int group) {
  return group < 0 ? 1 : extent(p, factor, dot->groups[group].letters);
}

/* The summed letters but the last, which the multiplying kernel sums; the kernel's result keeps the others. */
static const char *summed_later(const LegalDot *dot, char *out) {
  size_t n = 0;
  for (const char *l = dot->spec[0]; *l; l++)
    if (!strchr(dot->spec[2], *l)) out[n++] = *l;
  if (n) out[n - 1] = 0;
  return out;
}

/* True if the spec ends with one of the letters. */
static bool is_last(const char *spec, const char *letters) {
  return *spec && strchr(letters, spec[strlen(spec) - 1]) != NULL;
}

DotWork cost_dot_work(const Target *t, DotMemo *memo, const OpPart *p, DType type, const Mesh *mesh,
                      const Strategy *s) {
  int factor[128];
  const char *spec = op_str(p->op, AT_spec);
  uint64_t ones = find_factors(p, spec, mesh, s, factor);
  const DotKnown *k = known_dot(memo, t->device, spec, type, ones);
  const LegalDot *dot = &k->dot;
  DotWork w = {.library = dot->library, .dtype = dot->dtype, .batch = 1, .swapped = dot->swapped};
  for (int i = 0; i < 3; i++) {
    int at = i < 2 && dot->swapped ? 1 - i : i;
    w.passes[i] = k->passes[i];
    w.elements[i] = extent(p, factor, k->form.spec[i]);
    w.multiplied[i] = extent(p, factor, dot->spec[at]);
    w.size[i] = (double)dtype_bytes(dot->dtype);
    /* the library widens weights of 16 bits while it reads them */
    if (i < 2 && dot->dtype == type && w.elements[i] > 0) w.size[i] = fmin(w.size[i], p->in_bytes[i] / w.elements[i]);
  }
  if (!dot->library) {
    Product all[MAX_PRODUCTS];
    op_products(p, all);
    if (w.passes[2]) w.multiplied[2] *= extent(p, factor, summed_later(dot, (char[MAX_RANK + 1]){0}));
    w.batch = all[0].batch, w.m = all[0].m, w.n = all[0].n, w.k = all[0].k;
    return w;
  }
  w.m = group_extent(p, factor, dot, dot->row), w.n = group_extent(p, factor, dot, dot->column);
  w.k = group_extent(p, factor, dot, dot->depth);
  w.turned = dot->depth >= 0 && is_last(dot->spec[1], dot->groups[dot->depth].letters);
  for (int i = 0; i < dot->nbatch; i++) w.batch *= group_extent(p, factor, dot, dot->batch[i]);
  return w;
}

/* The seconds of this dot's part of the product of several dots. */
static double product_seconds(const Target *t, const DotWork *w, const Together *x) {
  double m = w->m, n = w->n, k = w->k, times = x ? x->times : 1;
  if (x && x->shared < 0) k *= times;
  else if (x && x->shared == w->swapped) n *= times;
  else m *= times;
  return cost_product_seconds(t, w->dtype, w->batch, m, n, k) / times;
}

DotCost cost_dot_form(const Target *t, const DotWork *w, DType type, const Together *together) {
  DotCost c = {0};
  if (w->few) c.arithmetic = cost_few_seconds(t, w->dtype, w->m, w->n, w->k);
  else if (w->library) c.arithmetic = product_seconds(t, w, together);
  else c.arithmetic = cost_kernel_seconds(t, KERNEL_DOT, type, 2 * w->batch * w->m * w->n * w->k);
  for (int i = 0; i < 3; i++) {
    c.bytes += w->multiplied[i] * w->size[i];
    if (!w->passes[i]) continue;
    double moved = w->elements[i] * (double)dtype_bytes(type) + w->multiplied[i] * (double)dtype_bytes(w->dtype);
    c.beside += w->passes[i] * t->launch + cost_memory_seconds(t, moved);
  }
  return c;
}

/* ---- convolutions */

bool cost_conv_form_is_known(const Target *t, const Func *f, const OpPart *p, const Mesh *mesh, const Strategy *s) {
  const char *spec = op_str(p->op, AT_spec);
  ConvLetter letters[CONV_LETTERS];
  bool one[128] = {false};
  if (p->op->kind != OP_conv && p->op->kind != OP_conv_transpose && p->op->kind != OP_conv_filter) return false;
  for (int r = 0; r < 3; r++) {
    int n;
    const char *part = window_letters(p->op->kind, spec, r, &n);
    int at = window_spec_part(p->op->kind, r);
    const TensorFactors *dims = at == 2 ? &p->rule->results[0] : &p->rule->operands[at];
    for (int d = 0; d < n; d++)
      if (part[d] >= 'a' && part[d] <= 'z') one[(int)part[d]] = is_one(mesh, p->rule, s, dims->dims[d].f[0]);
  }
  return op_conv_known(t->device, p->op->kind, spec, type_of(f, p->op->out)->dtype,
                       op_of(f, p->op->in[1])->kind == OP_param, one, letters);
}

double cost_conv_seconds(const Target *t, const Func *f, const OpPart *p, const Mesh *mesh, const Strategy *s,
                         double flops) {
  DType type = type_of(f, p->op->in[0])->dtype;
  bool library = t->device->blocks && cost_conv_form_is_known(t, f, p, mesh, s);
  return library ? cost_flops_seconds(t, type, flops) : cost_kernel_seconds(t, KERNEL_WINDOW, type, flops);
}
