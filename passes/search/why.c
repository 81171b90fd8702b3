/* passes/search/why.c - see why.h. */
#include "passes/search/why.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "ir/joint.h"
#include "passes/search/shape.h"

enum { MOST_PRICED = 8 };

typedef struct Asking {
  Module *m;
  const Func *f;
  const Plan *plan;
  Arena *arena;
  CostModel *cost;
  const Rule *const *rules;
  const Shape *shape;
  size_t head;
  bool *member;         /* by operation: the head, or one of its followers */
  Strategy *strategies; /* those of the plan, except for the examined operation */
} Asking;

/* ---- which operation */

static bool find_op(const Func *f, const char *name, size_t *out, Diags *d) {
  Nearest near = nearest_to(name);
  for (size_t i = 0; i < f->ops.n; i++) {
    const char *own = f->ops.items[i].name;
    if (own && strcmp(own, name) == 0) return *out = i, true;
    if (own && *own) nearest_try(&near, own);
    if (f->joint && near.distance && strcmp(joint_own_name(f, i), name) == 0) near.best = own, near.distance = 0;
  }
  diag_error(d, DIAG_usage_value, (Loc){0}, "--why %s: no operation of %s has that name", name,
             f->joint ? "the entries that are planned together" : "the model");
  if (near.best) diag_help(d, "the nearest is '%s'", near.best);
  else diag_help(d, "a saved plan (--save-plan) and --emit=html list the names");
  return false;
}

/* ---- costs at the border of a choice */

static double times_in_step(const Asking *w, size_t op) {
  return phase_each(w->f->ops.items[op].phase) ? w->plan->micro_batches : 1;
}

static double own_seconds(const Asking *w) {
  double sum = 0;
  for (size_t i = 0; i < w->f->ops.n; i++)
    if (w->member[i])
      sum +=
          times_in_step(w, i) * cost_op_runs(w->cost, w->shape->loops, w->f, i, w->rules[i], &w->strategies[i]).seconds;
  return sum;
}

typedef struct Moves {
  WhyMove *items;
  size_t n, cap;
} Moves;

/* Adds a conversion; each layout of a value is made once. */
static void add_move(const Asking *w, Moves *list, WhyMove x, double times) {
  if (x.from == x.to) return;
  for (size_t i = 0; i < list->n; i++)
    if (list->items[i].value == x.value && list->items[i].to == x.to) return;
  x.seconds = times * cost_convert(w->cost, type_of(w->f, x.value), x.from, x.to);
  if (x.seconds > 0) ARENA_PUSH(w->arena, list, x);
}

static const Layout *made_in(const Asking *w, Val v) {
  size_t maker = (size_t)w->f->values.items[v].op;
  return strategy_result(w->m, w->rules[maker], &w->strategies[maker], value_index(w->f, v));
}

/* Finds the conversions of values that the members read, and of their results that others read. */
static void find_moves(const Asking *w, Moves *list) {
  const Func *f = w->f;
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin; k++) {
      Val v = f->ops.items[i].in[k];
      size_t maker = (size_t)f->values.items[v].op;
      if (!w->member[i] && !w->member[maker]) continue;
      if (w->shape->class[maker] < 0 || w->shape->class[i] < 0) continue; /* it is made in the wanted layout */
      const bool reads = !w->member[maker];
      double times = runs_of_result(w->shape->loops, f, maker) * fmin(times_in_step(w, i), times_in_step(w, maker));
      add_move(w, list,
               (WhyMove){.value = v,
                         .other = reads ? maker : i,
                         .reads = reads,
                         .from = made_in(w, v),
                         .to = strategy_operand(w->m, w->rules[i], &w->strategies[i], k)},
               times);
    }
}

/* Gives the members a strategy of the head; false if some cannot follow it. */
static bool take_strategy(Asking *w, const Strategy *s) {
  const Mirrors *mirrors = &w->shape->mirrors;
  for (size_t i = 0; i < w->f->ops.n; i++) {
    if (!w->member[i]) continue;
    Strategy *own = &w->strategies[i];
    Strategy next = i == w->head ? *s : mirror_strategy(&w->m->mesh, w->rules[i], mirrors->factors[i], s);
    next.again = own->again, next.gather_at_use = own->gather_at_use;
    *own = next;
    if (!strategy_legal(&w->m->mesh, w->rules[i], own, NULL)) return false;
  }
  return true;
}

static WhyChoice weigh(Asking *w, const Strategy *s) {
  Moves moves = {0};
  WhyChoice x = {.strategy = *s, .own = INFINITY};
  if (!take_strategy(w, s)) return x;
  x.own = own_seconds(w);
  find_moves(w, &moves);
  for (size_t i = 0; i < moves.n; i++) x.moved += moves.items[i].seconds;
  x.nmoves = (int)moves.n, x.moves = moves.items;
  return x;
}

/* ---- all strategies */

/* Micro-batches split what they split in the plan. */
static int strategies_of(const Asking *w, const Strategy **out) {
  const Strategy *now = &w->plan->strategies[w->head];
  uint32_t factors[MAX_AXES];
  for (int i = 0; i < MAX_AXES; i++) factors[i] = UINT32_MAX;
  if (w->m->mesh.naxes && w->m->mesh.axes[0].temporal) {
    factors[0] = 0;
    for (int i = 0; i < now->n; i++)
      if (now->picks[i].axis == 0) factors[0] |= 1u << now->picks[i].factor;
  }
  return strategy_enumerate_among(w->arena, w->m, w->rules[w->head], false, factors, out);
}

static bool keeps_time(const Asking *w, const Strategy *s) {
  const Strategy *now = &w->plan->strategies[w->head];
  bool time[2] = {false, false};
  if (!w->m->mesh.naxes || !w->m->mesh.axes[0].temporal) return true;
  for (int i = 0; i < now->n; i++) time[0] |= now->picks[i].axis == 0;
  for (int i = 0; i < s->n; i++) time[1] |= s->picks[i].axis == 0;
  return time[0] == time[1];
}

static bool same_picks(const Strategy *a, const Strategy *b) {
  return a->n == b->n && memcmp(a->picks, b->picks, sizeof *a->picks * (size_t)a->n) == 0;
}

static double weight(const WhyChoice *x) { return x->own + x->moved; }

static int by_weight(const void *x, const void *y) {
  double a = weight(x), b = weight(y);
  return a < b ? -1 : a > b;
}

static double seconds_of(const WhyChoice *x) { return x->price.possible ? x->price.time.total : INFINITY; }

static int by_seconds(const void *x, const void *y) {
  double a = seconds_of(x), b = seconds_of(y);
  return a < b ? -1 : a > b;
}

static void price(Asking *w, WhyChoice *x) {
  take_strategy(w, &x->strategy);
  x->price = cost_plan(w->cost, w->m, w->f, w->rules, w->strategies, w->plan->stages);
}

/* Puts the plan's own choice first. */
static void ask(Asking *w, Why *out) {
  const Strategy *all, *now = &w->plan->strategies[w->head];
  int n = strategies_of(w, &all), count = 1;
  WhyChoice *list = ARENA_ARRAY(w->arena, WhyChoice, n + 1);
  list[0] = weigh(w, now);
  for (int i = 0; i < n; i++) {
    if (same_picks(&all[i], now) || !keeps_time(w, &all[i]) ||
        !cost_parts_filled(w->cost, w->rules[w->head], &all[i], 0))
      continue;
    list[count] = weigh(w, &all[i]);
    if (weight(&list[count]) < INFINITY) count++;
  }
  out->possible = count;
  qsort(list + 1, (size_t)count - 1, sizeof *list, by_weight);
  if (count > MOST_PRICED) count = MOST_PRICED;
  for (int i = 0; i < count; i++) price(w, &list[i]);
  qsort(list + 1, (size_t)count - 1, sizeof *list, by_seconds);
  while (count > 1 && !list[count - 1].price.possible) count--;
  out->n = count, out->choices = list;
}

static void find_members(Asking *w, Why *out) {
  const Mirrors *mirrors = &w->shape->mirrors;
  w->member = ARENA_ARRAY(w->arena, bool, w->f->ops.n + 1);
  w->member[w->head] = true;
  out->nfollowers = mirrors->nfollowers[w->head];
  for (int i = 0; i < out->nfollowers; i++) w->member[mirrors->followers[w->head][i]] = true;
}

bool search_why(Module *m, const Func *f, const Target *t, const Plan *p, const char *name, Why *out, Diags *d) {
  *out = (Why){0};
  if (!find_op(f, name, &out->op, d)) return false;
  Asking w = {.m = m, .f = f, .plan = p, .arena = m->arena, .cost = cost_model_new(m, t), .rules = rules_of(m, f)};
  w.shape = shape_of(m, w.cost, f, w.rules, labels_of(m, f, w.rules), cost_loops(m->arena, w.cost, f, NULL));
  w.strategies = ARENA_ARRAY(m->arena, Strategy, f->ops.n + 1);
  memcpy(w.strategies, p->strategies, sizeof *w.strategies * f->ops.n);
  out->head = w.head = w.shape->mirrors.head[out->op];
  bool chooses = w.shape->class[w.head] >= 0;
  if (chooses) find_members(&w, out), ask(&w, out);
  else
    diag_error(d, DIAG_usage_value, (Loc){0},
               "--why %s: %s has no layout of its own: every rank computes what it needs", name,
               op_name(f->ops.items[out->op].kind));
  cost_model_free(w.cost);
  return chooses;
}
