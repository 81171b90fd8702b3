/* passes/search_candidates.c - the ways to divide the ranks into stages, micro-batches and axes; see search_outer.h. */
#include <stdlib.h>
#include <string.h>

#include "passes/search_outer.h"

static bool one_tier(const Search *s) { return s->t->ntiers == 1; }

static void add_candidate(Search *s, const Candidate *c) {
  if (s->ncandidates < MAX_CANDIDATES) s->candidates[s->ncandidates++] = *c;
}

/* Appends the forced axes, each whole or as two sub-axes. */
static void add_forced(Search *s, const Candidate *c, int degree) {
  while (degree < DEGREE_COUNT && s->forced[degree] <= 1) degree++;
  if (degree == DEGREE_COUNT) {
    add_candidate(s, c);
    return;
  }
  int n = s->forced[degree];
  for (int major = n; major >= 2; major--) {
    Candidate next = *c;
    if (n % major) continue;
    if (major < n && (c->naxes + 2 > MAX_SPATIAL || (one_tier(s) && major * major < n))) continue;
    next.degree[next.naxes] = degree;
    next.sizes[next.naxes++] = major;
    if (major < n) next.degree[next.naxes] = degree, next.sizes[next.naxes++] = n / major;
    add_forced(s, &next, degree + 1);
  }
}

/* Free axes whose sizes multiply to n; on one tier their order does not matter, so sizes fall. */
static void add_free(Search *s, const Candidate *c, int n, int largest, int room) {
  if (n == 1) {
    add_forced(s, c, 0);
    return;
  }
  if (room == 0) return;
  for (int size = n; size >= 2; size--) {
    Candidate next = *c;
    if (n % size || (one_tier(s) && size > largest)) continue;
    next.degree[next.naxes] = -1;
    next.sizes[next.naxes++] = size;
    add_free(s, &next, n / size, size, room - 1);
  }
}

static void add_stages(Search *s, int stages, int micro) {
  int spatial = s->t->ranks / stages, used = 1, nforced = 0;
  for (int d = 0; d < DEGREE_COUNT; d++) {
    used *= s->forced[d] > 0 ? s->forced[d] : 1;
    nforced += s->forced[d] > 1;
  }
  if (spatial % used) return;
  bool all = true;
  for (int d = 0; d < DEGREE_COUNT; d++) all &= s->forced[d] > 0;
  if (all && spatial != used) return;
  Candidate c = {.stages = stages, .micro = micro};
  int room = MAX_SPATIAL - nforced;
  add_free(s, &c, spatial / used, spatial, room > 1 ? room : 1);
}

/* The most promising first; among equals those with fewer axes, which are solved sooner. */
static int by_bound(const void *x, const void *y) {
  const Candidate *a = x, *b = y;
  if (a->bound != b->bound) return a->bound < b->bound ? -1 : 1;
  if (a->naxes != b->naxes) return a->naxes - b->naxes;
  if (a->stages != b->stages) return a->stages - b->stages;
  if (a->micro != b->micro) return a->micro - b->micro;
  return memcmp(a->sizes, b->sizes, sizeof a->sizes);
}

double repeat_of(const Candidate *c) { return c->stages == 1 ? c->micro : 1 + (double)(c->micro - 1) / c->stages; }

/* Every product cut among all ranks of a stage and all micro-batches, and nothing else. */
static double ideal_seconds(const Search *s, const Candidate *c) {
  double parts = (double)(s->t->ranks / c->stages) * c->micro;
  return s->products.launches + repeat_of(c) * s->products.seconds / parts;
}

void measure_products(Search *s) {
  for (size_t i = 0; i < s->f->ops.n; i++) {
    const Op *op = &s->f->ops.items[i];
    if (op->kind != OP_dot && !op_is_grouped(op->kind)) continue;
    s->products.launches += s->t->launch * runs_of_op(s->shape->loops, i);
    s->products.seconds += cost_op_runs(s->cost, s->shape->loops, s->f, i, s->rules[i], &(Strategy){0}).flops / target_flops(s->t, type_of(s->f, op->in[0])->dtype);
  }
}

void make_candidates(Search *s, const PlanOptions *o, bool for_memory) {
  s->ncandidates = 0;
  for (int stages = 1; stages <= s->t->ranks; stages++) {
    if (s->t->ranks % stages || (o->pp > 0 && o->pp != stages)) continue;
    for (int micro = 1; micro <= 8; micro *= 2) {
      if (o->micro_batches > 0 && micro > 1) break;
      if (stages == 1 && micro > 1 && !for_memory) break;
      add_stages(s, stages, o->micro_batches > 0 ? o->micro_batches : micro);
    }
  }
  for (int i = 0; i < s->ncandidates; i++) s->candidates[i].bound = ideal_seconds(s, &s->candidates[i]);
  qsort(s->candidates, (size_t)s->ncandidates, sizeof *s->candidates, by_bound);
}
