/* passes/search/symmetry.c - see symmetry.h. */
#include "passes/search/symmetry.h"

#include <string.h>

typedef struct Standing {
  const Layout *of, *stands;
} Standing;

struct Symmetry {
  Module *m;
  Arena *arena;
  int n;
  uint8_t to[MAX_EXCHANGES][MAX_AXES]; /* by axis: the axis that replaces it; the first exchange is the identity */
  Standing *known;                     /* open addressing */
  size_t nknown, slots;
};

static void add_exchanges(Symmetry *s, const int *alike, uint8_t *to, uint32_t taken, int axis) {
  if (axis == MAX_AXES) {
    if (s->n < MAX_EXCHANGES) memcpy(s->to[s->n], to, MAX_AXES);
    s->n++;
    return;
  }
  for (int x = 0; x < MAX_AXES; x++) {
    bool may = x == axis || (alike[x] >= 0 && alike[x] == alike[axis]);
    if (!may || (taken >> x & 1u)) continue;
    to[axis] = (uint8_t)x;
    add_exchanges(s, alike, to, taken | 1u << x, axis + 1);
  }
}

Symmetry *symmetry_new(Arena *a, Module *m, const int alike[MAX_AXES]) {
  Symmetry *s = ARENA_NEW(a, Symmetry);
  uint8_t to[MAX_AXES];
  *s = (Symmetry){.m = m, .arena = a, .slots = 256};
  add_exchanges(s, alike, to, 0, 0);
  if (s->n < 2 || s->n > MAX_EXCHANGES) return NULL;
  s->known = ARENA_ARRAY(a, Standing, s->slots);
  return s;
}

int symmetry_ways(const Symmetry *s) { return s->n; }

/* ---- layouts */

/* The axes of a dimension are a set. */
static const Layout *exchanged(const Symmetry *s, const Layout *l, const uint8_t *to) {
  Layout x = *l;
  x.partial_axes = 0;
  for (int a = 0; a < MAX_AXES; a++)
    if (l->partial_axes >> a & 1u) x.partial_axes |= 1u << to[a];
  for (int d = 0; d < l->rank; d++)
    for (int i = 0; i < l->dims[d].n; i++) {
      int at = i;
      uint8_t axis = to[l->dims[d].axes[i]];
      for (; at > 0 && x.dims[d].axes[at - 1] > axis; at--) x.dims[d].axes[at] = x.dims[d].axes[at - 1];
      x.dims[d].axes[at] = axis;
    }
  return layout_get(s->m, &x);
}

static int compare(const Layout *a, const Layout *b) {
  if (a->partial_axes != b->partial_axes) return a->partial_axes < b->partial_axes ? -1 : 1;
  for (int d = 0; d < a->rank; d++) {
    if (a->dims[d].n != b->dims[d].n) return a->dims[d].n < b->dims[d].n ? -1 : 1;
    int order = memcmp(a->dims[d].axes, b->dims[d].axes, (size_t)a->dims[d].n);
    if (order) return order;
  }
  return 0;
}

int symmetry_layouts(Symmetry *s, const Layout *l, const Layout *out[MAX_EXCHANGES]) {
  int n = 0;
  for (int i = 0; i < s->n; i++) {
    const Layout *x = exchanged(s, l, s->to[i]);
    int k = 0;
    while (k < n && out[k] != x) k++;
    if (k == n) out[n++] = x;
  }
  return n;
}

static Standing *slot_of(const Symmetry *s, const Layout *l) {
  size_t i = (size_t)(((uint64_t)(uintptr_t)l >> 4) * 0x9E3779B97F4A7C15u >> 32) & (s->slots - 1);
  while (s->known[i].of && s->known[i].of != l) i = (i + 1) & (s->slots - 1);
  return &s->known[i];
}

static void grow(Symmetry *s) {
  Standing *old = s->known;
  size_t n = s->slots;
  s->slots *= 2;
  s->known = ARENA_ARRAY(s->arena, Standing, s->slots);
  for (size_t i = 0; i < n; i++)
    if (old[i].of) *slot_of(s, old[i].of) = old[i];
}

const Layout *symmetry_layout(Symmetry *s, const Layout *l) {
  const Layout *all[MAX_EXCHANGES];
  Standing *known = slot_of(s, l);
  if (known->of) return known->stands;
  int n = symmetry_layouts(s, l, all), first = 0;
  for (int i = 1; i < n; i++)
    if (compare(all[i], all[first]) < 0) first = i;
  if (2 * ++s->nknown > s->slots) {
    grow(s);
    known = slot_of(s, l);
  }
  *known = (Standing){l, all[first]};
  return all[first];
}

/* ---- strategies */

static Strategy exchanged_strategy(const Strategy *x, const uint8_t *to) {
  Strategy out = *x;
  for (int i = 0; i < x->n; i++) {
    Pick p = {to[x->picks[i].axis], x->picks[i].factor};
    int at = i;
    for (; at > 0 && out.picks[at - 1].axis > p.axis; at--) out.picks[at] = out.picks[at - 1];
    out.picks[at] = p;
  }
  return out;
}

static int compare_strategies(const Strategy *a, const Strategy *b) {
  for (int i = 0; i < a->n && i < b->n; i++) {
    if (a->picks[i].axis != b->picks[i].axis) return a->picks[i].axis < b->picks[i].axis ? -1 : 1;
    if (a->picks[i].factor != b->picks[i].factor) return a->picks[i].factor < b->picks[i].factor ? -1 : 1;
  }
  return a->n - b->n;
}

bool symmetry_stands(const Symmetry *s, const Strategy *x) {
  for (int i = 1; i < s->n; i++) {
    Strategy other = exchanged_strategy(x, s->to[i]);
    if (compare_strategies(&other, x) < 0) return false;
  }
  return true;
}

int symmetry_strategies(const Symmetry *s, const Strategy *x, Strategy out[MAX_EXCHANGES]) {
  for (int i = 0; i < s->n; i++) out[i] = exchanged_strategy(x, s->to[i]);
  return s->n;
}
