/* ir/layout/convert_costs.c - the costs of many conversions of one value; see convert.h.
 *
 * Conversions that move the same axes, leave the others in place, and agree on units and the kind of partial sum form
 * one problem: shortest paths from all of its sources at once (Bellman-Ford over a queue of layouts).  A layout has a
 * row of costs, one per source, so that a move is one addition and one comparison of two rows, which SIMD does for
 * several sources at a time.
 */
#include <math.h>
#include <string.h>

#include "base/wide.h"
#include "ir/layout/convert_states.h"

/* A source and a goal of a problem, by their indices in it. */
typedef struct Pair {
  int source, goal;
} Pair;

typedef struct Job {
  uint32_t moving;
  const Layout *rest; /* common to all its layouts: the axes that do not move */
  int class;          /* goal class */
  int next;           /* next job that moves the same axes; -1 if none */
  size_t cursor;      /* goals of a source mostly come in the order of the previous source's */
  ConvertRun run;
  struct {
    int *items;
    size_t n, cap;
  } sources, goals; /* indices of states */
  struct {
    Pair *items;
    size_t n, cap;
  } pairs;
} Job;

/* Properties that goals of one problem must share. */
typedef struct GoalClass {
  const Expr *units[MAX_RANK]; /* in which a dimension may be cut, even if the goal leaves it whole */
  Reduction partial;
} GoalClass;

/* One call of convert_table_costs. */
typedef struct Asking {
  ConvertTable *t;
  Arena *arena;
  struct {
    GoalClass *items;
    size_t n, cap;
  } classes;
  struct {
    Job *items;
    size_t n, cap;
  } jobs;
  int *first;      /* by bit set of axes: the last job that moves them; -1 if none */
  int *at, *class; /* by goal: its state and class */
} Asking;

/* One problem being solved. */
typedef struct Solving {
  ConvertTable *t;
  const Job *job;
  Arena *arena;
  int width; /* length of rows: number of sources */
  struct {
    double **items;
    size_t n, cap;
  } rows;
  struct {
    bool *items;
    size_t n, cap;
  } waits; /* by row: whether it is in the queue */
  struct {
    int *items;
    size_t n, cap;
  } queue;        /* states */
  double *wanted; /* by goal, source: 1 if requested, else 0 */
  double *most;   /* by source: its most expensive goal so far, or the limit; layouts at that cost are not expanded */
} Solving;

/* ---- rows */

/* Lowers costs to those through another layout and a move; false if none is lower. */
WIDE static bool lower_row(double *restrict to, const double *restrict from, const double *restrict most, double move,
                           int n) {
  double lowered = 0;
  for (int i = 0; i < n; i++) {
    double sum = from[i] + move, limit = to[i] < most[i] ? to[i] : most[i];
    lowered = sum < limit ? 1 : lowered;
    to[i] = sum < limit ? sum : to[i];
  }
  return lowered > 0;
}

WIDE static bool any_below(const double *restrict row, const double *restrict most, int n) {
  double any = 0;
  for (int i = 0; i < n; i++) any = row[i] < most[i] ? 1 : any;
  return any > 0;
}

WIDE static void raise_row(double *restrict most, const double *restrict row, const double *restrict wanted, int n) {
  for (int i = 0; i < n; i++) {
    double cost = wanted[i] > 0 ? row[i] : 0;
    most[i] = cost > most[i] ? cost : most[i];
  }
}

/* ---- one problem */

/* Returns the row of a state; creates it on the first visit. */
static int row_of(Solving *s, int state) {
  Place *p = &s->t->states[state];
  if (p->run == s->t->runs) return p->row;
  double *row = ARENA_ARRAY(s->arena, double, s->width);
  for (int i = 0; i < s->width; i++) row[i] = INFINITY;
  p->run = s->t->runs, p->row = (int)s->rows.n;
  ARENA_PUSH(s->arena, &s->rows, row);
  ARENA_PUSH(s->arena, &s->waits, false);
  return p->row;
}

static double *costs_at(Solving *s, int state) {
  int row = row_of(s, state);
  return s->rows.items[row];
}

static void wait(Solving *s, int state) {
  bool *waits = &s->waits.items[s->t->states[state].row];
  if (!*waits) ARENA_PUSH(s->arena, &s->queue, state);
  *waits = true;
}

/* Computes `most`: the limit while a goal has not been reached. */
static void find_most(Solving *s) {
  const Job *j = s->job;
  memset(s->most, 0, sizeof *s->most * (size_t)s->width);
  for (size_t g = 0; g < j->goals.n; g++)
    raise_row(s->most, costs_at(s, j->goals.items[g]), s->wanted + g * (size_t)s->width, s->width);
  for (int i = 0; i < s->width; i++) s->most[i] = fmin(s->most[i], s->t->limit);
}

static void follow_moves(Solving *s, int state) {
  ConvertTable *t = s->t;
  if (!t->states[state].expanded) convert_expand(t, state);
  const Place *p = &t->states[state];
  for (size_t i = 0; i < p->hops.n; i++) {
    const Hop *h = &p->hops.items[i];
    if (h->moving & ~s->job->moving) continue;
    if (h->conditional && !convert_allowed(t, &s->job->run, p->layout, &p->edges.items[i], h->moving)) continue;
    if (lower_row(costs_at(s, h->to), costs_at(s, state), s->most, h->cost, s->width)) wait(s, h->to);
  }
}

static void note_costs(const Solving *s) {
  const Job *j = s->job;
  const Place *states = s->t->states;
  for (size_t i = 0; i < j->pairs.n; i++) {
    const Pair *p = &j->pairs.items[i];
    const Place *goal = &states[j->goals.items[p->goal]];
    states[j->sources.items[p->source]].costs[goal->goal] = s->rows.items[goal->row][p->source];
  }
}

/* Expands layouts in the order in which they are reached, and again when they become cheaper.  Paths are short, so that
 * is rare. */
static void solve_job(ConvertTable *t, const Job *j) {
  Arena *a = arena_new();
  Solving s = {.t = t, .job = j, .arena = a, .width = (int)j->sources.n};
  s.most = ARENA_ARRAY(a, double, s.width);
  s.wanted = ARENA_ARRAY(a, double, j->sources.n * j->goals.n);
  t->runs++;
  for (size_t i = 0; i < j->pairs.n; i++)
    s.wanted[(size_t)j->pairs.items[i].goal * j->sources.n + (size_t)j->pairs.items[i].source] = 1;
  for (int i = 0; i < s.width; i++) {
    costs_at(&s, j->sources.items[i])[i] = 0;
    wait(&s, j->sources.items[i]);
  }
  for (size_t next = 0, round = 0; next < s.queue.n; next++) {
    if (next == round) find_most(&s), round = s.queue.n;
    int state = s.queue.items[next], row = t->states[state].row;
    s.waits.items[row] = false;
    if (any_below(s.rows.items[row], s.most, s.width)) follow_moves(&s, state);
  }
  note_costs(&s);
  arena_free(a);
}

/* ---- problems */

static int class_of_goal(Asking *x, const Layout *to) {
  GoalClass c = {.partial = to->partial_axes ? to->partial : RED_NONE};
  for (int d = 0; d < to->rank; d++) c.units[d] = to->dims[d].n ? to->dims[d].unit : x->t->units[d].items[0];
  for (size_t i = 0; i < x->classes.n; i++) {
    const GoalClass *k = &x->classes.items[i];
    if (k->partial == c.partial && memcmp(k->units, c.units, sizeof c.units) == 0) return (int)i;
  }
  ARENA_PUSH(x->arena, &x->classes, c);
  return (int)x->classes.n - 1;
}

static const Layout *without_axes(ConvertTable *t, const Layout *l, uint32_t axes) {
  Layout rest = *l;
  rest.partial_axes &= ~axes;
  for (int d = 0; d < l->rank; d++) {
    rest.dims[d].n = 0;
    for (int i = 0; i < l->dims[d].n; i++)
      if (!(axes >> l->dims[d].axes[i] & 1u)) rest.dims[d].axes[rest.dims[d].n++] = l->dims[d].axes[i];
  }
  return layout_get(t->m, &rest);
}

static const Layout *rest_of(ConvertTable *t, int state, uint32_t axes) {
  Place *p = &t->states[state];
  if (!p->rests) p->rests = ARENA_ARRAY(t->arena, const Layout *, (size_t)1 << t->m->mesh.naxes);
  if (!p->rests[axes]) p->rests[axes] = without_axes(t, p->layout, axes);
  return p->rests[axes];
}

/* Index of the job for a source and a goal class. */
static int job_of(Asking *x, int source, uint32_t moving, int class) {
  const Layout *rest = rest_of(x->t, source, moving);
  for (int i = x->first[moving]; i >= 0; i = x->jobs.items[i].next)
    if (x->jobs.items[i].rest == rest && x->jobs.items[i].class == class) return i;
  Job j = {.moving = moving, .rest = rest, .class = class, .next = x->first[moving], .run = {.moving = moving}};
  ARENA_PUSH(x->arena, &x->jobs, j);
  return x->first[moving] = (int)x->jobs.n - 1;
}

/* Adds a pair to the job; the pairs of a source must be added together. */
static void add_pair(Asking *x, Job *j, int source, int goal) {
  size_t n = j->sources.n, goals = j->goals.n, tried = 0;
  if (n == 0 || j->sources.items[n - 1] != source) ARENA_PUSH(x->arena, &j->sources, source);
  if (j->cursor >= goals) j->cursor = 0;
  while (tried < goals && j->goals.items[j->cursor] != goal)
    tried++, j->cursor = j->cursor + 1 < goals ? j->cursor + 1 : 0;
  if (tried == goals) {
    ARENA_PUSH(x->arena, &j->goals, goal);
    convert_join(x->t, &j->run, goal);
    j->cursor = goals;
  }
  ARENA_PUSH(x->arena, &j->pairs, ((Pair){(int)j->sources.n - 1, (int)j->cursor}));
}

/* Returns the costs from a state, with room for all goals so far. */
static double *costs_from(ConvertTable *t, int from) {
  Place *s = &t->states[from];
  size_t n = (size_t)t->ngoals + 1;
  if (s->ncosts >= n) return s->costs;
  double *costs = ARENA_ARRAY(t->arena, double, n + n / 2);
  if (s->ncosts) memcpy(costs, s->costs, sizeof *costs * s->ncosts);
  for (size_t i = s->ncosts; i < n + n / 2; i++) costs[i] = NAN;
  s->costs = costs;
  s->ncosts = n + n / 2;
  return costs;
}

/* Adds the conversions to n goals whose costs are unknown. */
static void ask(Asking *x, int source, int n) {
  ConvertTable *t = x->t;
  double *costs = costs_from(t, source);
  for (int i = 0; i < n; i++) {
    if (x->at[i] < 0) continue;
    const Place *goal = &t->states[x->at[i]];
    if (!isnan(costs[goal->goal])) continue;
    costs[goal->goal] = x->at[i] == source ? 0 : INFINITY; /* requested once */
    if (x->at[i] == source) continue;
    uint32_t moving = convert_moving(t->m, &t->states[source].where, &goal->where);
    int job = job_of(x, source, moving, x->class[i]);
    add_pair(x, &x->jobs.items[job], source, x->at[i]);
  }
}

/* Raises the limit; costs that the old one may have hidden are unknown again. */
static void raise_limit(ConvertTable *t, double limit) {
  if (limit <= t->limit) return;
  for (int i = 0; i < t->n; i++)
    for (size_t k = 0; k < t->states[i].ncosts; k++)
      if (t->states[i].costs[k] == INFINITY) t->states[i].costs[k] = NAN;
  t->limit = limit;
}

void convert_table_costs(ConvertTable *t, int nfrom, const Layout *const *from, int n, const Layout *const *to,
                         double limit, double *out) {
  Asking x = {.t = t, .arena = arena_new()};
  raise_limit(t, limit);
  int *sources = ARENA_ARRAY(x.arena, int, nfrom + 1), nsets = 1 << t->m->mesh.naxes;
  x.at = ARENA_ARRAY(x.arena, int, n + 1), x.class = ARENA_ARRAY(x.arena, int, n + 1);
  x.first = ARENA_ARRAY(x.arena, int, nsets);
  for (int i = 0; i < nsets; i++) x.first[i] = -1;
  for (int i = 0; i < n; i++) x.at[i] = convert_goal(t, to[i]), x.class[i] = class_of_goal(&x, to[i]);
  for (int k = 0; k < nfrom; k++) {
    sources[k] = convert_state(t, from[k]);
    if (sources[k] >= 0) ask(&x, sources[k], n);
  }
  for (size_t i = 0; i < x.jobs.n; i++) solve_job(t, &x.jobs.items[i]);
  for (int k = 0; k < nfrom; k++)
    for (int i = 0; i < n; i++) {
      bool known = sources[k] >= 0 && x.at[i] >= 0;
      out[(size_t)k * (size_t)n + (size_t)i] = known ? t->states[sources[k]].costs[t->states[x.at[i]].goal] : INFINITY;
    }
  arena_free(x.arena);
}
