/* tests/oracle/choices.h - complete choices of strategies and stages on a mesh, without the search: all of a small
 * function, or a number of random ones, each improved operation by operation.
 *
 * In: a level-1 function, a target, a mesh that the module has.  Out: the time of the fastest choice within each of
 * some limits of memory, by cost_plan.  Of the planner it uses only rules, prices and the definition of a plan: which
 * operations follow others (passes/facts/mirror.h), where micro-batches cut (Shape.time_factor), that sums of scalars
 * are added rank by rank, that an unreduced sum has an origin.  Plans of a training step are mirrored ones, as its
 * bound covers only those.  Stages begin at any operation that belongs to its stage. */
#ifndef APC_TESTS_ORACLE_CHOICES_H
#define APC_TESTS_ORACLE_CHOICES_H

#include <math.h>
#include <string.h>

#include "passes/cost/plan_price.h"
#include "passes/facts/derived.h"
#include "passes/plan/stage.h"
#include "passes/search/shape.h"
#include "tests/oracle/random_ops.h"

enum { CHOICE_LIMITS = 3 };

typedef struct Choices {
  Arena *arena;
  Module *m;
  const Func *f;
  const Rule *const *rules;
  CostModel *cost;
  const Shape *shape;
  size_t nheads, *heads; /* operations with a choice of their own */
  int *n;                /* by operation: its strategies */
  const Strategy **all;
  size_t ncuts, *cuts;   /* where stages may begin, */
  size_t begin[MAX_OPS]; /* and where they do in this choice */
  const bool *again;     /* by operation: it is recomputed; NULL if none is */
  Strategy *now;
  int *at, *stages; /* by operation */
  double limits[CHOICE_LIMITS], best[CHOICE_LIMITS];
  bool steady;         /* minimises the time from batch to batch, */
  double most_seconds; /* with a batch taking at most this; 0 for any time */
  long priced;
} Choices;

static inline int choices_time_axis(const Choices *c) {
  return c->m->mesh.naxes && c->m->mesh.axes[0].temporal ? 0 : -1;
}

/* Micro-batches cut a value where they can; values that they cannot cut have no part of the batch. */
static inline bool choices_timed(const Choices *c, size_t i, const Strategy *s) {
  const Op *op = &c->f->ops.items[i];
  int time = choices_time_axis(c);
  bool timed = false, writes = op->kind == OP_write && phase_each(op->phase);
  for (int k = 0; k < s->n; k++) {
    if (s->picks[k].axis != time) continue;
    timed = true;
    if (s->picks[k].factor != c->shape->time_factor[i]) return false;
  }
  bool whole = op_is_source(op->kind) || (c->shape->time_factor[i] == TIME_NONE && !writes);
  return (time < 0 || timed || whole) && cost_parts_filled(c->cost, c->rules[i], s, 0);
}

static inline bool choices_sum_of_scalars(const Choices *c, size_t i) {
  const Op *op = &c->f->ops.items[i];
  bool sums = false;
  if (!c->shape->mirrors.any || op->kind != OP_add || type_of(c->f, op->out)->rank) return false;
  for (int k = 0; k < c->rules[i]->nfactors; k++)
    sums |= c->rules[i]->factors[k].kind == FK_LINEAR && shape_linear_is_useful(c->shape, op, &c->rules[i]->factors[k]);
  return sums;
}

static inline bool choices_allowed(const Choices *c, size_t i, const Strategy *s) {
  int linear = 0, spatial = c->m->mesh.naxes - (choices_time_axis(c) >= 0);
  for (int k = 0; k < s->n; k++) {
    const Factor *factor = &c->rules[i]->factors[s->picks[k].factor];
    if (factor->kind != FK_LINEAR) continue;
    if (!shape_linear_is_useful(c->shape, &c->f->ops.items[i], factor)) return false;
    linear++;
  }
  return choices_timed(c, i, s) && (!choices_sum_of_scalars(c, i) || linear == spatial);
}

static inline void choices_list(Choices *c, size_t i) {
  const Strategy *found;
  int n = strategy_enumerate(c->arena, c->m, c->rules[i], false, &found);
  Strategy *kept = ARENA_ARRAY(c->arena, Strategy, n + 1);
  for (int v = 0; v < n; v++)
    if (choices_allowed(c, i, &found[v])) kept[c->n[i]++] = found[v];
  c->all[i] = kept;
  c->heads[c->nheads++] = i;
}

/* False if some operation has no strategy, because the mesh has too many micro-batches. */
static inline bool choices_new(Choices *c, Arena *a, Module *m, const Func *f, const Rule *const *rules,
                               CostModel *cost, const Shape *shape) {
  size_t n = f->ops.n + 1;
  *c = (Choices){.arena = a, .m = m, .f = f, .rules = rules, .cost = cost, .shape = shape};
  c->heads = ARENA_ARRAY(a, size_t, n), c->cuts = ARENA_ARRAY(a, size_t, n);
  c->n = ARENA_ARRAY(a, int, n), c->at = ARENA_ARRAY(a, int, n), c->stages = ARENA_ARRAY(a, int, n);
  c->all = ARENA_ARRAY(a, const Strategy *, n), c->now = ARENA_ARRAY(a, Strategy, n);
  const bool *derived = derived_ops(a, f);
  bool all = true;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op_is_anywhere(op) || derived[i]) continue;
    if (i > 0 && !phase_backward(op->phase) && stages_is_placed(f, derived, i)) c->cuts[c->ncuts++] = i;
    if (shape->mirrors.head[i] != i) continue;
    choices_list(c, i);
    all &= c->n[i] > 0;
  }
  return all;
}

static inline double choices_count(const Choices *c) {
  double n = 1;
  for (size_t k = 0; k < c->nheads; k++) n *= c->n[c->heads[k]];
  return n;
}

/* ---- a choice */

static inline const Layout *choices_tied(const Choices *c, size_t i) {
  const Op *op = &c->f->ops.items[i];
  return op->nout ? strategy_result(c->m, c->rules[i], &c->now[i], 0)
                  : strategy_operand(c->m, c->rules[i], &c->now[i], 0);
}

/* A sum of gradients takes strategies that fit that of the value's producer; if none does, any. */
static inline bool choices_sum_fits(const Choices *c, size_t sum) {
  size_t of = c->shape->mirrors.sum_of[sum];
  const int8_t *factors = c->shape->mirrors.factors[sum];
  if (mirror_sum_fits(&c->m->mesh, c->rules[sum], factors, &c->now[of], &c->now[sum])) return true;
  for (int v = 0; v < c->n[sum]; v++)
    if (mirror_sum_fits(&c->m->mesh, c->rules[sum], factors, &c->now[of], &c->all[sum][v])) return false;
  return true;
}

/* Derives the rest from the choices of the heads; false if it is no plan. */
static inline bool choices_complete(Choices *c) {
  const Mirrors *mirrors = &c->shape->mirrors;
  for (size_t k = 0; k < c->nheads; k++) {
    size_t h = c->heads[k];
    c->now[h] = c->all[h][c->at[h]];
    for (int i = 0; i < mirrors->nfollowers[h]; i++) {
      size_t x = mirrors->followers[h][i];
      c->now[x] = mirror_strategy(&c->m->mesh, c->rules[x], mirrors->factors[x], &c->now[h]);
      if (!choices_timed(c, x, &c->now[x])) return false;
    }
  }
  for (size_t i = 0; i < c->shape->npairs; i++)
    if (choices_tied(c, c->shape->pairs[i].first) != choices_tied(c, c->shape->pairs[i].second)) return false;
  for (size_t k = 0; k < c->nheads; k++)
    if (mirrors->sum_of[c->heads[k]] != SIZE_MAX && !choices_sum_fits(c, c->heads[k])) return false;
  return true;
}

/* Seconds with these stages; INFINITY if it is no plan.  Keeps the best within each limit. */
static inline double choices_price(Choices *c) {
  for (size_t i = 0; c->again && i < c->f->ops.n; i++) c->now[i].again = c->again[i];
  const PlanPrice p = cost_plan(c->cost, c->m, c->f, c->rules, c->now, c->stages);
  c->priced++;
  if (!p.possible) return INFINITY;
  for (int i = 0; i < CHOICE_LIMITS; i++)
    if (p.memory.total <= c->limits[i] && !(c->most_seconds > 0 && p.time.total > c->most_seconds))
      c->best[i] = fmin(c->best[i], c->steady ? p.time.period : p.time.total);
  return c->steady ? p.time.period : p.time.total;
}

static inline double choices_price_cut(Choices *c) {
  if (c->m->mesh.stages > 1) stages_place(c->f, c->m->mesh.stages, c->begin, c->stages);
  return choices_price(c);
}

/* ---- all */

/* All cuts in which stage `stage` and later ones begin at places from `from` on. */
static inline void choices_cut(Choices *c, int stage, size_t from) {
  if (stage == c->m->mesh.stages) choices_price_cut(c);
  for (size_t i = from; stage < c->m->mesh.stages && i < c->ncuts; i++) {
    c->begin[stage] = c->cuts[i];
    choices_cut(c, stage + 1, i + 1);
  }
}

static inline void choices_all(Choices *c) {
  for (size_t k = 0; k < c->nheads; k++) c->at[c->heads[k]] = 0;
  for (size_t k = 0; k < c->nheads;) {
    if (choices_complete(c)) choices_cut(c, 1, 0);
    for (k = 0; k < c->nheads && ++c->at[c->heads[k]] == c->n[c->heads[k]]; k++) c->at[c->heads[k]] = 0;
  }
}

/* ---- some */

static inline double choices_now(Choices *c) { return choices_complete(c) ? choices_price_cut(c) : INFINITY; }

/* Each operation takes the strategy, and each stage the beginning, that is best given all others, until nothing
 * improves. */
static inline void choices_improve(Choices *c, double best, long most) {
  const int stages = c->m->mesh.stages;
  for (double before = INFINITY; best < before * (1 - 1e-12) && c->priced < most;) {
    before = best;
    for (size_t k = 0; k < c->nheads && c->priced < most; k++) {
      int *at = &c->at[c->heads[k]], kept = *at;
      for (*at = 0; *at < c->n[c->heads[k]]; ++*at) {
        double seconds = choices_now(c);
        if (seconds < best) best = seconds, kept = *at;
      }
      *at = kept;
    }
    for (int s = 1; s < stages; s++) {
      size_t kept = c->begin[s];
      for (size_t i = 0; i < c->ncuts && c->priced < most; i++) {
        if (c->cuts[i] <= c->begin[s - 1] || (s + 1 < stages && c->cuts[i] >= c->begin[s + 1])) continue;
        c->begin[s] = c->cuts[i];
        double seconds = choices_now(c);
        if (seconds < best) best = seconds, kept = c->cuts[i];
      }
      c->begin[s] = kept;
    }
  }
}

/* Stages begin anywhere. */
static inline void choices_draw_cut(Choices *c, Random *r) {
  size_t missing = (size_t)c->m->mesh.stages - 1, n = 1;
  for (size_t i = 0; i < c->ncuts && missing; i++) {
    if (below(r, (uint32_t)(c->ncuts - i)) >= missing) continue;
    c->begin[n++] = c->cuts[i];
    missing--;
  }
}

/* Starts from the uncut choice and from random ones, until so many are priced or as many were no plans. */
static inline void choices_some(Choices *c, Random *r, long most) {
  if (c->ncuts + 1 < (size_t)c->m->mesh.stages) return;
  for (long none = 0; c->priced < most && none < most;) {
    bool whole = c->priced + none == 0;
    for (size_t k = 0; k < c->nheads; k++) c->at[c->heads[k]] = whole ? 0 : (int)below(r, (uint32_t)c->n[c->heads[k]]);
    choices_draw_cut(c, r);
    double seconds = choices_now(c);
    if (seconds < INFINITY) choices_improve(c, seconds, most);
    else none++;
  }
}

#endif
