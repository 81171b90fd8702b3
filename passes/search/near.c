/* passes/search/near.c - plans that the search counts above the memory limit, but that may fit.
 *
 * Weights and state are counted as a Program stores them.  For all other memory the count is an upper bound, up to
 * twice that of a Program (docs/guide/plan.md).  So outcomes that were priced on the way to a fitting one are kept if
 * they are faster, for callers that compute their Program (driver/memory.c).
 */
#include <string.h>

#include "passes/facts/zero.h"
#include "passes/search/outer.h"

static const double most_over = 1.5, most_made = 2; /* limits of count / Program: total, without weights */

static bool may_fit(const Search *s, const PlanMemory *m) {
  double made = cost_memory_made(m);
  double scale = m->total > 0 ? m->needs / m->total : 1;
  return m->needs <= most_over * s->limit && m->needs - scale * (made - made / most_made) <= s->limit;
}

static bool is_better(const Outcome *a, const Outcome *b) {
  return a->seconds <= b->seconds && a->price.memory.needs <= b->price.memory.needs;
}

/* Copies into a free slot if there is one. */
static void copy_near(Search *s, Outcome **to, const Outcome *o) {
  const size_t n = s->f->ops.n;
  if (!*to) *to = ARENA_NEW(s->arena, Outcome);
  Strategy *strategies = (*to)->strategies ? (*to)->strategies : ARENA_ARRAY(s->arena, Strategy, n);
  int *stages = (*to)->stages ? (*to)->stages : ARENA_ARRAY(s->arena, int, n);
  **to = *o;
  (*to)->strategies = memcpy(strategies, o->strategies, sizeof *strategies * n);
  (*to)->stages = memcpy(stages, o->stages, sizeof *stages * n);
  (*to)->zero = zero_stage(s->m, &s->m->mesh, s->f, s->rules, strategies, o->data_axes, &s->shape->mirrors);
}

/* Moves an outcome after the end of the list, where its memory is reused. */
static void take_out(NearList *l, int i) {
  Outcome *out = l->items[i];
  memmove(&l->items[i], &l->items[i + 1], sizeof *l->items * (size_t)(--l->n - i));
  l->items[l->n] = out;
}

void search_keep_near(Search *s, const Outcome *o) {
  NearList *l = &s->run.near;
  int at = 0;
  if (!l->wanted || o->price.time.total > s->most_seconds || !may_fit(s, &o->price.memory) ||
      o->seconds >= search_best_time(s))
    return;
  for (int i = 0; i < l->n; i++)
    if (is_better(l->items[i], o)) return;
  for (int i = l->n; i-- > 0;)
    if (is_better(o, l->items[i])) take_out(l, i);
  if (l->n == MOST_NEAR) take_out(l, 0); /* the one with the highest count */
  copy_near(s, &l->items[l->n], o);
  Outcome *kept = l->items[l->n];
  while (at < l->n && l->items[at]->seconds < kept->seconds) at++;
  memmove(&l->items[at + 1], &l->items[at], sizeof *l->items * (size_t)(l->n++ - at));
  l->items[at] = kept;
}
