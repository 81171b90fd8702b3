/* bench/iopddl/tighten.c - messages of costs; see tighten.h. */
#include "bench/iopddl/tighten.h"

#include <math.h>
#include <string.h>

Tighten *tighten_new(const SolveProblem *p, Arena *a) {
  Tighten *t = ARENA_NEW(a, Tighten);
  int widest = 0;
  *t = (Tighten){.p = p, .arena = a};
  t->pairs_of = arena_alloc(a, sizeof *t->pairs_of * (size_t)(p->nvars + 1));
  for (int side = 0; side < 2; side++) t->moved[side] = ARENA_ARRAY(a, double *, p->nfactors + 1);
  for (int i = 0; i < p->nvars; i++) widest = p->domain[i] > widest ? p->domain[i] : widest;
  for (size_t f = 0; f < p->nfactors; f++)
    for (int side = 0; side < 2; side++) {
      ARENA_PUSH(a, &t->pairs_of[p->factors[f].vars[side]], (int)f);
      t->moved[side][f] = ARENA_ARRAY(a, double, p->factors[f].classes[side] + 1);
    }
  t->sums = ARENA_ARRAY(a, double, widest + 1);
  t->left = ARENA_ARRAY(a, double, widest + 1);
  return t;
}

/* Cost of a variable including costs moved to it. */
static void sum_up(const Tighten *t, const double *const *time, int i, double *sums) {
  memcpy(sums, time[i], sizeof *sums * (size_t)t->p->domain[i]);
  for (size_t k = 0; k < t->pairs_of[i].n; k++) {
    int f = t->pairs_of[i].items[k];
    const double *moved = t->moved[t->p->factors[f].vars[1] == i][f];
    for (int v = 0; v < t->p->domain[i]; v++) sums[v] += moved[v];
  }
}

/* Moves part of a variable's cost to its pair, and the least cost of the pair to the other variable. */
static void send(Tighten *t, int f, int side, double part) {
  const SolveFactor *p = &t->p->factors[f];
  int n = p->classes[side], m = p->classes[!side];
  double *to = t->moved[!side][f], least = INFINITY;
  for (int v = 0; v < n; v++) t->left[v] = part * t->sums[v] - t->moved[side][f][v];
  for (int w = 0; w < m; w++) to[w] = INFINITY;
  for (int v = 0; v < n; v++)
    for (int w = 0; w < m; w++) {
      double x = t->left[v] + p->table[side == 0 ? v * p->classes[1] + w : w * p->classes[1] + v];
      if (x < to[w]) to[w] = x;
    }
  for (int w = 0; w < m; w++) least = fmin(least, to[w]);
  for (int w = 0; w < m; w++) to[w] -= least;
}

static void pass(Tighten *t, const double *const *time, bool back) {
  for (int k = 0; k < t->p->nvars; k++) {
    int i = back ? t->p->nvars - 1 - k : k;
    double ahead = 0, behind = 0;
    for (size_t e = 0; e < t->pairs_of[i].n; e++) {
      const SolveFactor *p = &t->p->factors[t->pairs_of[i].items[e]];
      if ((p->vars[p->vars[0] == i] > i) != back) ahead++;
      else behind++;
    }
    if (ahead == 0) continue;
    sum_up(t, time, i, t->sums);
    for (size_t e = 0; e < t->pairs_of[i].n; e++) {
      int f = t->pairs_of[i].items[e];
      const SolveFactor *p = &t->p->factors[f];
      if ((p->vars[p->vars[0] == i] > i) != back) send(t, f, p->vars[1] == i, 1 / fmax(ahead, behind));
    }
  }
}

void tighten_sweep(Tighten *t, const double *const *time, int sweeps) {
  for (int i = 0; i < 2 * sweeps; i++) pass(t, time, i % 2);
}

void tighten_choose(const Tighten *t, const double *const *time, int *value) {
  for (int i = 0; i < t->p->nvars; i++) {
    sum_up(t, time, i, t->sums);
    for (size_t e = 0; e < t->pairs_of[i].n; e++) {
      int f = t->pairs_of[i].items[e];
      const SolveFactor *p = &t->p->factors[f];
      int side = p->vars[1] == i, other = p->vars[!side];
      if (other > i) continue;
      for (int v = 0; v < t->p->domain[i]; v++) {
        int at = side == 0 ? v * p->classes[1] + value[other] : value[other] * p->classes[1] + v;
        t->sums[v] += p->table[at] - t->moved[side][f][v];
      }
    }
    value[i] = 0;
    for (int v = 1; v < t->p->domain[i]; v++)
      if (t->sums[v] < t->sums[value[i]]) value[i] = v;
  }
}

static double take_least(double *x, size_t n) {
  double least = INFINITY;
  for (size_t i = 0; i < n; i++) least = fmin(least, x[i]);
  for (size_t i = 0; i < n; i++) x[i] = fmax(0, x[i] - least);
  return least;
}

/* Moves to each pair its part of the costs of its variables. */
SolveProblem tighten_moved(const Tighten *t, const double *const *time, Arena *a) {
  SolveProblem out = *t->p;
  double **moved = ARENA_ARRAY(a, double *, out.nvars + 1);
  SolveFactor *factors = ARENA_ARRAY(a, SolveFactor, out.nfactors + 1);
  for (int i = 0; i < out.nvars; i++) {
    size_t pairs = t->pairs_of[i].n;
    moved[i] = ARENA_ARRAY(a, double, out.domain[i] + 1);
    sum_up(t, time, i, moved[i]);
    out.constant += take_least(moved[i], (size_t)out.domain[i]);
    for (int v = 0; v < out.domain[i] && pairs; v++) moved[i][v] /= (double)pairs;
  }
  for (size_t f = 0; f < out.nfactors; f++) {
    const SolveFactor *p = &t->p->factors[f];
    int n = p->classes[0], m = p->classes[1];
    double *table = ARENA_ARRAY(a, double, (size_t)n *(size_t)m + 1);
    for (int v = 0; v < n; v++)
      for (int w = 0; w < m; w++)
        table[v * m + w] =
            p->table[v * m + w] - t->moved[0][f][v] - t->moved[1][f][w] + moved[p->vars[0]][v] + moved[p->vars[1]][w];
    out.constant += take_least(table, (size_t)n * (size_t)m);
    factors[f] = *p;
    factors[f].table = table;
  }
  for (int i = 0; i < out.nvars; i++)
    if (t->pairs_of[i].n) memset(moved[i], 0, sizeof(double) * (size_t)out.domain[i]);
  out.time = (const double *const *)moved;
  out.factors = factors;
  return out;
}
