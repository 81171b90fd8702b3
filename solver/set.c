/* solver/set.c - see set.h. */
#include "solver/set.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { MAX_CHOSEN = 63 };

typedef struct Listing {
  const SetInput *in;
  Arena *arena;
  bool *always; /* by layout: some user needs it in any case */
  int nchosen;  /* layouts that may or may not be in a set */
  int *chosen;
  int *bit;         /* by layout: index in `chosen`; -1 if absent */
  uint64_t **needs; /* by user, class */
  uint64_t *sets;
  int n;
} Listing;

static void find_layouts(Listing *l) {
  const SetInput *in = l->in;
  l->always = ARENA_ARRAY(l->arena, bool, in->nlayouts + 1);
  l->chosen = ARENA_ARRAY(l->arena, int, in->nlayouts + 1);
  l->bit = ARENA_ARRAY(l->arena, int, in->nlayouts + 1);
  for (int i = 0; i < in->nlayouts; i++) l->bit[i] = -1;
  for (int u = 0; u < in->nusers; u++)
    for (int k = 0; k < in->width[u] && in->classes[u] == 1; k++) l->always[in->lists[u][k]] = true;
  for (int u = 0; u < in->nusers; u++)
    for (int k = 0; k < in->width[u] * in->classes[u]; k++) {
      int layout = in->lists[u][k];
      if (l->always[layout] || l->bit[layout] >= 0) continue;
      l->bit[layout] = l->nchosen;
      l->chosen[l->nchosen++] = layout;
    }
}

static void find_needs(Listing *l) {
  const SetInput *in = l->in;
  l->needs = ARENA_ARRAY(l->arena, uint64_t *, in->nusers + 1);
  for (int u = 0; u < in->nusers; u++) {
    l->needs[u] = ARENA_ARRAY(l->arena, uint64_t, in->classes[u]);
    for (int c = 0; c < in->classes[u]; c++)
      for (int k = 0; k < in->width[u]; k++) {
        int bit = l->bit[in->lists[u][c * in->width[u] + k]];
        if (bit >= 0) l->needs[u][c] |= (uint64_t)1 << bit;
      }
  }
}

/* True if every user has a class whose layouts are in the set. */
static bool serves_all(const Listing *l, uint64_t set) {
  for (int u = 0; u < l->in->nusers; u++) {
    int c = 0;
    while (c < l->in->classes[u] && (l->needs[u][c] & ~set)) c++;
    if (c == l->in->classes[u]) return false;
  }
  return true;
}

/* The next larger number with the same number of bits (Gosper). */
static uint64_t next_of_level(uint64_t set) {
  uint64_t low = set & -set, up = set + low;
  return up | (((set ^ up) / low) >> 2);
}

static double sets_of_level(int n, int level) {
  double count = 1;
  for (int i = 0; i < level; i++) count = count * (n - i) / (i + 1);
  return count;
}

/* Lists all sets of `level` layouts; false if there are too many. */
static bool list_level(Listing *l, int level, int most) {
  const double most_tried = 1e5;
  uint64_t end = (uint64_t)1 << l->nchosen;
  if (sets_of_level(l->nchosen, level) > most_tried) return false;
  for (uint64_t set = ((uint64_t)1 << level) - 1; set < end; set = level ? next_of_level(set) : end) {
    if (!serves_all(l, set)) continue;
    if (l->n == most) return false;
    l->sets[l->n++] = set;
  }
  return true;
}

static double cost_of_set(const Listing *l, int producer, uint64_t set) {
  const double *seconds = l->in->seconds + producer * l->in->nlayouts;
  int output = l->in->output ? l->in->output[producer] : -1;
  double sum = 0;
  for (int i = 0; i < l->in->nlayouts; i++) {
    bool in_set = l->bit[i] >= 0 && (set >> l->bit[i] & 1);
    if (l->always[i] || in_set || i == output) sum += seconds[i];
  }
  return sum;
}

static void fill_costs(const Listing *l, Sets *out) {
  out->cost = ARENA_ARRAY(l->arena, double, l->in->nproducers * out->n);
  for (int p = 0; p < l->in->nproducers; p++)
    for (int s = 0; s < out->n; s++) out->cost[p * out->n + s] = cost_of_set(l, p, l->sets[s]);
}

static void fill_fits(const Listing *l, Sets *out) {
  const SetInput *in = l->in;
  out->fits = ARENA_ARRAY(l->arena, double *, in->nusers + 1);
  for (int u = 0; u < in->nusers; u++) {
    int n = in->classes[u];
    if (n == 1) continue;
    out->fits[u] = ARENA_ARRAY(l->arena, double, out->n *n);
    for (int s = 0; s < out->n; s++)
      for (int c = 0; c < n; c++) out->fits[u][s * n + c] = !(l->needs[u][c] & ~l->sets[s]) ? 0 : INFINITY;
  }
}

const Sets *sets_of(Arena *a, const SetInput *in) {
  Listing l = {.in = in, .arena = a, .sets = ARENA_ARRAY(a, uint64_t, in->most + 1)};
  find_layouts(&l);
  if (l.nchosen > MAX_CHOSEN) return NULL;
  find_needs(&l);
  for (int level = 0; level <= l.nchosen; level++)
    if (!list_level(&l, level, in->most)) return NULL;
  Sets *out = ARENA_NEW(a, Sets);
  out->n = l.n;
  fill_costs(&l, out);
  fill_fits(&l, out);
  return out;
}
