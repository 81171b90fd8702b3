/* passes/search/near.c - outcomes that the search counts above the memory limit, and whose Programs may be within it;
 * see outer.h.
 *
 * What the search counts is more than a Program takes, or less (docs/plan.md), and differs most between pipelines and
 * plans without.  So of each kind, a number of stages and micro-batches with a schedule, those outcomes are kept that
 * no other of the kind betters in time and bytes.  Whoever makes Programs asks the fastest first (driver/memory.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes/search/outer.h"

enum { MOST_REFINED = 4 };

/* Times as much as a Program takes may be counted. */
static const double most_counted = 2;

static bool same_kind(const Candidate *a, const Candidate *b) {
  return a->stages == b->stages && a->micro == b->micro && a->schedule.order == b->schedule.order &&
         a->schedule.chunks == b->schedule.chunks;
}

static double seconds_of(const Outcome *o) { return o->price.time.total; }

static double bytes_of(const Outcome *o) { return o->price.memory.total; }

static bool betters(const Outcome *a, const Outcome *b) {
  return same_kind(&a->c, &b->c) && seconds_of(a) <= seconds_of(b) && bytes_of(a) <= bytes_of(b);
}

/* Where a new one goes: in the place of one that it betters, or of the slowest where there is no more room; the one
 * with the least bytes stays.  NULL: nowhere. */
static Outcome *place_for(Search *s, const Outcome *o) {
  NearList *l = s->run.near;
  Outcome *place = NULL, *slowest = NULL;
  const Outcome *least = search_least_near(s);
  for (size_t i = 0; i < l->n; i++) {
    Outcome *x = l->items[i];
    if (betters(x, o)) return NULL;
    if (betters(o, x)) place = x;
    if (x != least && (!slowest || seconds_of(x) > seconds_of(slowest))) slowest = x;
  }
  if (place) return place;
  if (l->n < MOST_NEAR) {
    ARENA_PUSH(s->arena, l, ARENA_NEW(s->arena, Outcome));
    return l->items[l->n - 1];
  }
  bool better = seconds_of(o) < seconds_of(slowest) || bytes_of(o) < bytes_of(least);
  return better ? slowest : NULL;
}

void search_keep_near(Search *s, const Outcome *o) {
  bool near = s->run.near && !s->run.hasty && o->price.possible && o->price.memory.total > s->limit &&
              o->price.memory.total <= most_counted * s->limit;
  if (!near || (s->run.best && seconds_of(o) >= seconds_of(s->run.best))) return;
  Outcome *x = place_for(s, o);
  if (!x) return;
  const size_t n = s->f->ops.n;
  Strategy *strategies = x->strategies ? x->strategies : ARENA_ARRAY(s->arena, Strategy, n + 1);
  int *stages = x->stages ? x->stages : ARENA_ARRAY(s->arena, int, n + 1);
  *x = *o;
  x->strategies = memcpy(strategies, o->strategies, sizeof *strategies * n);
  x->stages = memcpy(stages, o->stages, sizeof *stages * n);
}

static int by_seconds(const void *x, const void *y) {
  const Outcome *a = *(Outcome *const *)x, *b = *(Outcome *const *)y;
  if (seconds_of(a) != seconds_of(b)) return seconds_of(a) < seconds_of(b) ? -1 : 1;
  return bytes_of(a) < bytes_of(b) ? -1 : bytes_of(a) > bytes_of(b);
}

size_t search_near_before(const Search *s, double seconds, Outcome *out[MOST_NEAR]) {
  size_t n = 0;
  for (size_t i = 0; s->run.near && i < s->run.near->n; i++)
    if (seconds_of(s->run.near->items[i]) < seconds) out[n++] = s->run.near->items[i];
  if (n) qsort(out, n, sizeof *out, by_seconds);
  return n;
}

Outcome *search_least_near(const Search *s) {
  Outcome *least = NULL;
  for (size_t i = 0; s->run.near && i < s->run.near->n; i++)
    if (!least || bytes_of(s->run.near->items[i]) < bytes_of(least)) least = s->run.near->items[i];
  return least;
}

/* Steps between none, selective and full. */
static void refine(Search *s, const Outcome *of) {
  const Recompute steps[] = {{RECOMPUTE_layers, 1},
                             {RECOMPUTE_layers, s->nlayers / 4},
                             {RECOMPUTE_layers, s->nlayers / 2},
                             {RECOMPUTE_selective, 0},
                             {RECOMPUTE_full_layers, s->nlayers / 4},
                             {RECOMPUTE_full_layers, s->nlayers / 2},
                             {RECOMPUTE_full_layers, s->nlayers - 1}};
  const size_t n = s->f->ops.n;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    bool counted = steps[i].kind != RECOMPUTE_selective;
    if (counted && (steps[i].layers < 1 || steps[i].layers > s->nlayers)) continue;
    Outcome x = {.c = of->c, .solved = of->solved, .data_axes = of->data_axes};
    memcpy(x.found, of->found, sizeof x.found);
    x.strategies = memcpy(ARENA_ARRAY(s->arena, Strategy, n + 1), of->strategies, sizeof *x.strategies * n);
    x.stages = ARENA_ARRAY(s->arena, int, n + 1);
    search_price_again(s, steps[i], &x);
  }
}

/* The search has looked at steps between where the last fits alone (candidate.c). */
void search_refine_near(Search *s) {
  Outcome *all[MOST_NEAR], *kept[MOST_REFINED];
  size_t n = search_near_before(s, s->run.best ? seconds_of(s->run.best) : INFINITY, all), refined = 0;
  if (s->npolicies < 2) return;
  for (size_t i = 0; i < n && refined < MOST_REFINED; i++) {
    bool known = false;
    for (size_t k = 0; k < refined; k++) known |= same_kind(&kept[k]->c, &all[i]->c);
    if (known) continue;
    kept[refined] = ARENA_NEW(s->arena, Outcome);
    *kept[refined] = *all[i]; /* others may take its place in the list */
    kept[refined]->strategies =
        memcpy(ARENA_ARRAY(s->arena, Strategy, s->f->ops.n + 1), all[i]->strategies, sizeof(Strategy) * s->f->ops.n);
    refined++;
  }
  for (size_t k = 0; k < refined && !s->watch.expired; k++) {
    search_set_mesh(s, &kept[k]->c, NULL);
    refine(s, kept[k]);
  }
}
