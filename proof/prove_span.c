/* proof/prove_span.c - the arithmetic of the prover: positions of boxes.
 *
 * If sizes leave a comparison open (prove_size.c), the answer is no and p->uncertain is set.
 *
 * Dimensions along which a value does not vary (splats, broadcasts) have a "free" span: only its extent is known, and
 * it takes the place of the first span that it is unified with.
 */
#include <string.h>

#include "ir/shares.h"
#include "proof/prove_relation.h"

/* ---- expressions */

uint32_t expr_axes(const Module *m, const Expr *e) {
  uint32_t axes = 0;
  if (e->kind == EX_SYM) {
    int a = m->symbols.items[e->value].axis;
    return a >= 0 ? 1u << a : 0;
  }
  for (int i = 0; i < e->n; i++) axes |= expr_axes(m, e->args[i]);
  return axes;
}

bool expr_has_dimension(const Module *m, const Expr *e) {
  if (e->kind == EX_SYM) return m->symbols.items[e->value].axis < 0;
  for (int i = 0; i < e->n; i++)
    if (expr_has_dimension(m, e->args[i])) return true;
  return false;
}

/* Advances the coordinates of the axes in the set; false after the last combination. */
bool next_coordinates(const Module *m, uint32_t axes, int64_t *values) {
  for (int a = m->mesh.naxes - 1; a >= 0; a--) {
    if (!((axes >> a) & 1u)) continue;
    int64_t *v = &values[m->mesh.axes[a].symbol];
    if (++*v < m->mesh.axes[a].size) return true;
    *v = 0;
  }
  return false;
}

const Expr *expr_quotient(Prover *p, const Expr *e, const Expr *by) {
  const Expr *q = ex_exact_div(p->m, e, by);
  if (q) return q;
  q = ex_div(p->m, e, by);
  return expr_equal(p, e, ex_mul(p->m, q, by)) ? q : NULL;
}

/* ---- spans */

Span span_at(const Expr *lo, const Expr *hi) { return (Span){lo, hi, false}; }

const Expr *span_extent(Prover *p, const Span *s) { return s->free ? s->hi : ex_sub(p->m, s->hi, s->lo); }

uint32_t span_axes(const Module *m, const Span *s) { return expr_axes(m, s->hi) | (s->free ? 0 : expr_axes(m, s->lo)); }

uint32_t relation_axes(const Module *m, const Relation *r) {
  uint32_t axes = 0;
  for (int d = 0; d < r->rank; d++) axes |= span_axes(m, &r->dims[d]);
  return axes;
}

bool span_unify(Prover *p, const Span *a, const Span *b, Span *out) {
  if (!a->free && !b->free) {
    *out = *a;
    return expr_equal(p, a->lo, b->lo) && expr_equal(p, a->hi, b->hi);
  }
  *out = a->free ? *b : *a;
  return expr_equal(p, span_extent(p, a), span_extent(p, b));
}

bool span_is_whole(Prover *p, const Span *s, const Expr *extent) {
  if (s->free) return expr_equal(p, s->hi, extent);
  return expr_equal(p, s->lo, ex_const(p->m, 0)) && expr_equal(p, s->hi, extent);
}

/* Values of many layers have equal places, so results are cached. */
struct Place {
  const Expr *lo, *hi, *extent;
};

static bool empty_or_inside(const int64_t *v, const void *context) {
  (void)context;
  return v[1] <= v[0] || (v[0] >= 0 && v[1] <= v[2]); /* lo, hi, extent */
}

static bool find_within(Prover *p, const Span *s, const Expr *whole) {
  const Expr *const all[] = {s->lo, s->hi, whole};
  Decision d = decide(p, 3, all, empty_or_inside, NULL);
  if (d != OPEN) return d == HOLDS;
  if (expr_at_most(p, ex_min(p->m, s->hi, ex_const(p->m, 0)), s->lo) &&
      expr_at_most(p, s->hi, ex_max(p->m, whole, s->lo)))
    return true;
  p->uncertain = true;
  return false;
}

bool span_within(Prover *p, const Span *s, const Expr *whole) {
  if (s->hi == whole && ex_is_const(s->lo, 0)) return true;
  struct Place place = {s->lo, s->hi, whole};
  for (size_t i = 0; i < p->within.n; i++)
    if (memcmp(&p->within.items[i], &place, sizeof place) == 0) return true;
  if (!find_within(p, s, whole)) return false;
  ARENA_PUSH(p->m->arena, &p->within, place);
  return true;
}

/* ---- ruling out guesses by numbers */

enum { MAX_SEEN = 512 };

/* The values of two expressions at one legal size and the first coordinates. */
typedef struct Seen {
  int n; /* 0 if no legal size is known */
  uint32_t axes;
  int64_t (*coordinates)[MAX_AXES], (*values)[2], extent;
} Seen;

static Seen see(Prover *p, uint32_t axes, const Expr *extent, const Expr *a, const Expr *b) {
  Module *m = p->m;
  Seen seen = {.axes = axes | expr_axes(m, a) | expr_axes(m, b)};
  if (!sizes_choose(p) || !ex_eval(extent, p->values, &seen.extent)) return seen;
  if (!p->seen_values) {
    p->seen_coordinates = arena_alloc(m->arena, MAX_SEEN * sizeof *seen.coordinates);
    p->seen_values = arena_alloc(m->arena, MAX_SEEN * sizeof *seen.values);
  }
  seen.coordinates = p->seen_coordinates, seen.values = p->seen_values;
  do {
    for (int x = 0; x < m->mesh.naxes; x++) seen.coordinates[seen.n][x] = p->values[m->mesh.axes[x].symbol];
    if (!ex_eval(a, p->values, &seen.values[seen.n][0]) || !ex_eval(b, p->values, &seen.values[seen.n][1]))
      return seen.n = 0, seen;
  } while (++seen.n < MAX_SEEN && next_coordinates(m, seen.axes, p->values));
  return seen;
}

/* Number of a rank, counted by these axes, major to minor. */
static int64_t seen_number(const Prover *p, const Seen *seen, int rank, int n, const uint8_t *axes) {
  int64_t number = 0;
  for (int i = 0; i < n; i++) number = number * p->m->mesh.axes[axes[i]].size + seen->coordinates[rank][axes[i]];
  return number;
}

/* True if parts of that cut may have the extents that were seen.  Computes them as layout_interval does. */
static bool seen_extents(const Prover *p, const Seen *seen, const DimLayout *d, int64_t unit) {
  int64_t units = unit > 0 ? seen->extent / unit : 0;
  if (unit <= 0 || units > INT32_MAX || units < 0) return true;
  for (int i = 0; i < seen->n; i++) {
    int at[MAX_AXES];
    for (int a = 0; a < p->m->mesh.naxes; a++) at[a] = (int)seen->coordinates[i][a];
    SharePlace x = layout_place(&p->m->mesh, d, at);
    if (unit * ((x.before + x.own) * units / x.all - x.before * units / x.all) != seen->values[i][0]) return false;
  }
  return true;
}

/* True if the parts [lo, hi) that were seen may follow each other in that order. */
static bool seen_in_order(const Prover *p, const Seen *seen, int n, const uint8_t *order) {
  int64_t at[MAX_SEEN + 1];
  bool known[MAX_SEEN + 1] = {false};
  for (int i = 0; i < seen->n; i++) {
    int64_t r = seen_number(p, seen, i, n, order);
    if (r >= MAX_SEEN) continue;
    for (int end = 0; end < 2; end++) {
      if (known[r + end] && at[r + end] != seen->values[i][end]) return false;
      known[r + end] = true, at[r + end] = seen->values[i][end];
    }
  }
  return true;
}

/* A search for a canonical cut of the extent. */
typedef struct Search {
  const Expr *extent;
  const Seen *seen; /* values of the wanted part */
  bool (*fits)(Prover *, const Span *, const void *);
  const void *context;
  int64_t unit; /* at the size that is seen; 0 if unknown */
} Search;

/* Tries the ordered subsets of the axes. */
static bool try_cut(Prover *p, const Search *s, DimLayout *d, uint32_t axes, Span *out) {
  const Expr *lo, *hi;
  if (seen_extents(p, s->seen, d, s->unit)) {
    layout_interval(p->m, d, s->extent, &lo, &hi);
    *out = span_at(lo, hi);
    if (s->fits(p, out, s->context)) return true;
  }
  for (int a = 0; a < p->m->mesh.naxes; a++) {
    if (!((axes >> a) & 1u)) continue;
    d->axes[d->n++] = (uint8_t)a;
    if (try_cut(p, s, d, axes & ~(1u << a), out)) return true;
    d->n--;
  }
  return false;
}

/* The factor of a division of coordinates in one term of a part's extent; NULL if the term has none.  Where units are
 * symbols, only these factors give them; a unit may be a division of sizes. */
static const Expr *unit_of_term(Module *m, const Expr *term) {
  const Expr *unit = term->kind == EX_MUL ? ex_const(m, term->value < 0 ? -term->value : term->value) : ex_const(m, 1);
  bool divides = false;
  for (int i = 0; i < term->n && term->kind == EX_MUL; i++) {
    if (term->args[i]->kind == EX_DIV && !divides && ex_uses_coordinate(m, term->args[i])) divides = true;
    else unit = ex_mul(m, unit, term->args[i]);
  }
  return divides ? unit : NULL;
}

static bool try_unit(Prover *p, Search *s, const Expr *unit, uint32_t axes, Span *out) {
  DimLayout d = {.unit = unit};
  bool before = p->uncertain;
  if (!ex_get_const(unit, &s->unit)) s->unit = 0;
  return try_cut(p, s, &d, axes, out) && (p->uncertain = before, true);
}

bool span_search(Prover *p, const Expr *extent, const Expr *part, uint32_t axes,
                 bool (*fits)(Prover *, const Span *, const void *), const void *context, Span *out) {
  int64_t size;
  bool constant = ex_get_const(extent, &size);
  const Seen seen = see(p, axes, extent, part, part);
  Search s = {extent, &seen, fits, context, 0};
  for (int64_t unit = 1; unit <= (constant && size < 4096 ? size : 1); unit++)
    if ((unit == 1 || size % unit == 0) && try_unit(p, &s, ex_const(p->m, unit), axes, out)) return true;
  if (constant) return false;
  for (int i = 0; i < part->n && part->kind == EX_ADD; i++) {
    const Expr *unit = unit_of_term(p->m, part->args[i]);
    if (unit && ex_exact_div(p->m, extent, unit) && try_unit(p, &s, unit, axes, out)) return true;
  }
  p->uncertain = true; /* another unit might fit */
  return false;
}

typedef struct Wanted {
  const Expr *extent;
  int *skip; /* number of fitting places to skip */
} Wanted;

static bool fits_extent(Prover *p, const Span *s, const void *context) {
  const Wanted *w = context;
  return expr_equal(p, ex_sub(p->m, s->hi, s->lo), w->extent) && (*w->skip)-- == 0;
}

bool span_settle(Prover *p, Span *s, const Expr *extent) {
  if (!s->free) return true;
  const Expr *have = s->hi;
  if (expr_equal(p, have, extent)) return *s = span_at(ex_const(p->m, 0), extent), true;
  p->guessed = true;
  int skip = p->nguesses < MAX_GUESSES ? p->guesses[p->nguesses++] : 0, wanted = skip;
  bool found = span_search(p, extent, have, ~0u, fits_extent, &(Wanted){have, &skip}, s);
  p->exhausted |= !found && wanted > 0;
  return found;
}

static bool follow_each_other(Prover *p, const Span *s, const Expr *extent, int n, const uint8_t *order) {
  const Expr *at = ex_const(p->m, 0);
  int64_t total = 1;
  for (int i = 0; i < n; i++) total *= p->m->mesh.axes[order[i]].size;
  for (int64_t r = 0; r < total; r++) {
    const Expr *lo = s->lo, *hi = s->hi;
    int64_t rest = r;
    for (int i = n - 1; i >= 0; i--) {
      const MeshAxis *axis = &p->m->mesh.axes[order[i]];
      const Expr *c = ex_const(p->m, rest % axis->size);
      rest /= axis->size;
      lo = ex_subst(p->m, lo, axis->symbol, c);
      hi = ex_subst(p->m, hi, axis->symbol, c);
    }
    if (!expr_equal(p, lo, at)) return false;
    at = hi;
  }
  return expr_equal(p, at, extent);
}

bool span_covers(Prover *p, const Span *s, const Expr *extent, int n, const uint8_t *axes) {
  struct Place cover = {s->lo, s->hi, extent};
  for (size_t i = 0; i < p->covers.n; i++)
    if (memcmp(&p->covers.items[i], &cover, sizeof cover) == 0) return true;
  if (!follow_each_other(p, s, extent, n, axes)) return false;
  ARENA_PUSH(p->m->arena, &p->covers, cover);
  return true;
}

enum { MAX_ORDERS = 720 };

bool span_tiles(Prover *p, const Span *s, const Expr *extent, uint32_t axes) {
  /* try the orders of the axes */
  uint8_t order[MAX_AXES];
  int n = 0;
  for (int a = 0; a < p->m->mesh.naxes; a++)
    if ((axes >> a) & 1u) order[n++] = (uint8_t)a;
  const Seen seen = see(p, axes, extent, s->lo, s->hi);
  for (int tries = 0; tries < MAX_ORDERS;) {
    if (seen_in_order(p, &seen, n, order) && ++tries && follow_each_other(p, s, extent, n, order)) return true;
    int i = n - 2; /* the next permutation of the axes */
    while (i >= 0 && order[i] > order[i + 1]) i--;
    if (i < 0) return false;
    int j = n - 1;
    while (order[j] < order[i]) j--;
    uint8_t t = order[i];
    order[i] = order[j], order[j] = t;
    for (int a = i + 1, b = n - 1; a < b; a++, b--) t = order[a], order[a] = order[b], order[b] = t;
  }
  p->uncertain = true;
  return false;
}
