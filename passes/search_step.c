/* passes/search_step.c - the numbers of a compiled elimination: the table of every step, then a cheapest choice.
 *
 * A table is out[scope] = min over the variable's classes c of least[c] + the operands.  The last place of the scope is the inner loop.  What
 * of the sum does not depend on it is added up outside, what depends on nothing else is one matrix for the whole step.  All tables are >= 0, so
 * classes are skipped that cannot beat what every entry of the row already has, or lead to a total above the one of interest even when
 * everything else is at its cheapest.
 */
#include <math.h>
#include <string.h>

#include "passes/search_private.h"
#include "passes/search_watch.h"

/* One step while it is computed. */
typedef struct Rows {
  const Program *p;
  const Step *s;
  int last, inner, classes;  /* last place, its classes; classes of the variable */
  int nouter, *outer;        /* operands without the last place */
  int nvarying, *varying;    /* operands with it and with some other place */
  double *matrix;            /* [class][inner]: the operands with nothing but the last place */
  double *matrix_least;      /* by class */
} Rows;

static const double *values_of(const Program *p, const Operand *o) { return o->step < 0 ? o->input : p->steps[o->step]->table; }

static bool has_place(const Operand *o, int place) {
  for (int i = 0; i < o->n; i++)
    if (o->places[i] == place) return true;
  return false;
}

static void find_least(Step *s, double lambda, Arena *a) {
  int classes = s->classes[s->n];
  if (!s->least) s->least = ARENA_ARRAY(a, double, classes);
  for (int c = 0; c < classes; c++) s->least[c] = INFINITY;
  for (int v = 0; v < s->domain; v++) {
    double own = s->time[v] + (s->memory ? lambda * s->memory[v] : 0);
    int c = s->maps[s->n][v];
    if (own < s->least[c]) s->least[c] = own;
  }
}

static void add_picked(double *restrict out, const double *restrict table, const size_t *restrict offsets, int n) {
  for (int k = 0; k < n; k++) out[k] += table[offsets[k]];
}

static void lower_row(double *restrict out, const double *restrict row, double value, int n) {
  for (int k = 0; k < n; k++) {
    double sum = row[k] + value;
    out[k] = sum < out[k] ? sum : out[k];
  }
}

/* In four lanes: one would wait for itself. */
static double largest(const double *row, int n) {
  double most[4] = {0};
  int k = 0;
  for (; k + 4 <= n; k += 4)
    for (int i = 0; i < 4; i++) most[i] = row[k + i] > most[i] ? row[k + i] : most[i];
  for (; k < n; k++) most[0] = row[k] > most[0] ? row[k] : most[0];
  for (int i = 1; i < 4; i++) most[0] = most[i] > most[0] ? most[i] : most[0];
  return most[0];
}

static void sort_operands(Rows *r, Arena *a) {
  const Step *s = r->s;
  r->outer = ARENA_ARRAY(a, int, s->noperands + 1);
  r->varying = ARENA_ARRAY(a, int, s->noperands + 1);
  r->matrix = ARENA_ARRAY(a, double, r->classes * r->inner);
  r->matrix_least = ARENA_ARRAY(a, double, r->classes);
  for (int f = 0; f < s->noperands; f++) {
    const Operand *o = &s->operands[f];
    bool with = r->last >= 0 && has_place(o, r->last), other = false;
    for (int i = 0; i < r->last; i++) other |= has_place(o, i);
    if (!with) r->outer[r->nouter++] = f;
    else if (other) r->varying[r->nvarying++] = f;
    for (int c = 0; c < r->classes && with && !other; c++)
      add_picked(r->matrix + (size_t)c * (size_t)r->inner, values_of(r->p, o) + s->offsets[s->n][f][c], s->offsets[r->last][f], r->inner);
  }
  for (int c = 0; c < r->classes; c++) {
    double least = INFINITY;
    for (int k = 0; k < r->inner; k++) least = fmin(least, r->matrix[(size_t)c * (size_t)r->inner + (size_t)k]);
    r->matrix_least[c] = least;
  }
}

/* What each class costs before the last place is known; returns the class that looks best. */
static int outer_costs(const Rows *r, const int *at, size_t *base, double *sums, double *keys) {
  const Step *s = r->s;
  int best = 0;
  for (int f = 0; f < s->noperands; f++) {
    base[f] = 0;
    for (int i = 0; i < r->last; i++) base[f] += s->offsets[i][f][at[i]];
  }
  memcpy(sums, s->least, sizeof(double) * (size_t)r->classes);
  for (int i = 0; i < r->nouter; i++) {
    int f = r->outer[i];
    add_picked(sums, values_of(r->p, &s->operands[f]) + base[f], s->offsets[s->n][f], r->classes);
  }
  for (int c = 0; c < r->classes; c++) {
    keys[c] = sums[c] + r->matrix_least[c];
    if (keys[c] < keys[best]) best = c;
  }
  return best;
}

static void lower_by(const Rows *r, int c, double sum, const size_t *base, double *row, double *out) {
  const Step *s = r->s;
  const double *matrix = r->matrix + (size_t)c * (size_t)r->inner;
  if (!r->nvarying) {
    lower_row(out, matrix, sum, r->inner);
    return;
  }
  memcpy(row, matrix, sizeof(double) * (size_t)r->inner);
  for (int i = 0; i < r->nvarying; i++) {
    int f = r->varying[i];
    add_picked(row, values_of(r->p, &s->operands[f]) + base[f] + s->offsets[s->n][f][c], s->offsets[r->last][f], r->inner);
  }
  lower_row(out, row, sum, r->inner);
}

/* Entries above `most` may be left at infinity. */
static void fill_table(const Program *p, Step *s, double most) {
  Arena *a = arena_new();
  Rows r = {.p = p, .s = s, .last = s->n - 1, .classes = s->classes[s->n]};
  r.inner = r.last >= 0 ? s->classes[r.last] : 1;
  sort_operands(&r, a);
  int *at = ARENA_ARRAY(a, int, s->n + 1);
  size_t *base = ARENA_ARRAY(a, size_t, s->noperands + 1);
  double *sums = ARENA_ARRAY(a, double, r.classes), *keys = ARENA_ARRAY(a, double, r.classes), *row = ARENA_ARRAY(a, double, r.inner);
  for (size_t e = 0; e < s->entries; e += (size_t)r.inner) {
    double *out = s->table + e;
    if (watch_work(p->p->watch, (double)r.inner * r.classes)) break;
    for (int k = 0; k < r.inner; k++) out[k] = INFINITY;
    int best = outer_costs(&r, at, base, sums, keys);
    double worst = most;
    int taken = 0;
    for (int i = -1; i < r.classes; i++) {
      int c = i < 0 ? best : i;
      if (i == best || keys[c] > worst || keys[c] == INFINITY) continue;
      lower_by(&r, c, sums[c], base, row, out);
      if (taken++ % 8 == 0) worst = fmin(most, largest(out, r.inner));
    }
    for (int i = r.last - 1; i >= 0 && ++at[i] == s->classes[i]; i--) at[i] = 0;
  }
  arena_free(a);
}

/* The sum of the cheapest values of the variables a table stands for: what it is at least. */
static double least_sum(const Program *p, const Step *s) {
  double sum = INFINITY;
  for (int c = 0; c < s->classes[s->n]; c++) sum = fmin(sum, s->least[c]);
  for (int f = 0; f < s->noperands; f++)
    if (s->operands[f].step >= 0) sum += p->steps[s->operands[f].step]->floor;
  return sum;
}

static double sum_of_roots(const Program *p, bool floors) {
  double sum = p->p->constant;
  for (int i = 0; i < p->n; i++) {
    const Step *s = p->steps[p->eliminations[i].step];
    if (!s->n) sum += floors ? s->floor : s->table[0];
  }
  return sum;
}

double elimination_run(Program *p, double lambda, double most) {
  for (int i = 0; i < p->nsteps; i++) {
    find_least(p->steps[i], lambda, p->arena);
    p->steps[i]->floor = least_sum(p, p->steps[i]);
  }
  double slack = most - sum_of_roots(p, true);
  for (int i = 0; i < p->nsteps; i++) {
    Step *s = p->steps[i];
    if (!s->table) {
      s->table = ARENA_ARRAY(p->arena, double, s->entries);
      s->choice = ARENA_ARRAY(p->arena, int, s->entries);
    }
    fill_table(p, s, s->floor + slack);
    if (p->p->watch && p->p->watch->expired) return NAN;
    memset(s->choice, 0xff, sizeof *s->choice * s->entries);
  }
  return sum_of_roots(p, false);
}

/* ---- a choice */

/* What one of a variable's joins costs when its scope is decided. */
static double join_cost(const Program *p, const Elimination *e, const int *values, int v, double lambda) {
  const Step *s = p->steps[e->step];
  double sum = s->time[v] + (s->memory ? lambda * s->memory[v] : 0);
  for (int f = 0; f < s->noperands; f++) {
    size_t at = s->offsets[s->n][f][s->maps[s->n][v]];
    for (int i = 0; i < s->n; i++) at += s->offsets[i][f][s->maps[i][values[e->scope[i]]]];
    sum += values_of(p, &s->operands[f])[at];
  }
  return sum;
}

static int best_value(const Program *p, int var, const int *values, double lambda) {
  int best = 0;
  double least = INFINITY;
  for (int v = 0; v < p->p->domain[var]; v++) {
    double sum = 0;
    for (int i = p->first[var]; i < p->last[var] && sum < least; i++) sum += join_cost(p, &p->eliminations[i], values, v, lambda);
    if (sum < least) least = sum, best = v;
  }
  return best;
}

/* In the opposite order everything a join depends on is known; equal joins with equal scopes have equal answers. */
void elimination_assign(Program *p, double lambda, int *values) {
  for (int k = p->p->nvars - 1; k >= 0; k--) {
    int var = p->order[k];
    const Elimination *e = &p->eliminations[p->first[var]];
    if (p->last[var] - p->first[var] > 1) {
      values[var] = best_value(p, var, values, lambda);
      continue;
    }
    int *known = &p->steps[e->step]->choice[step_entry(p, e, values)];
    if (*known < 0) *known = best_value(p, var, values, lambda);
    values[var] = *known;
  }
}
