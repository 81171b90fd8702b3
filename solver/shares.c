/* solver/shares.c - see shares.h. */
#include "solver/shares.h"

#include <math.h>
#include <string.h>

static bool user_wants(const FanSharesInput *in, int user, int class, int layout) {
  const int *list = in->lists[user] + class * in->width[user];
  for (int k = 0; k < in->width[user]; k++)
    if (list[k] == layout) return true;
  return false;
}

static bool may_want(const FanSharesInput *in, int user, int layout) {
  for (int c = 0; c < in->classes[user]; c++)
    if (user_wants(in, user, c, layout)) return true;
  return false;
}

/* Cost of a share; infinite for every user of a layout that no conversion makes. */
static double part(double weight, double seconds) { return seconds < INFINITY ? weight * seconds : INFINITY; }

static void find_certain(FanShares *s) {
  const FanSharesInput *in = &s->in;
  for (int p = 0; p < in->nproducers; p++) {
    bool *certain = s->is_certain + p * in->nlayouts;
    if (in->output) certain[in->output[p]] = true;
    for (int k = 0; k < in->own_width; k++) certain[in->own[p * in->own_width + k]] = true;
    for (int u = 0; u < in->nusers; u++)
      for (int k = 0; k < in->width[u] && in->classes[u] == 1; k++) certain[in->lists[u][k]] = true;
    for (int l = 0; l < in->nlayouts; l++)
      if (certain[l]) s->certain[p] += in->seconds[p * in->nlayouts + l];
  }
}

/* Sums the user's shares of the layouts it needs; the stamp marks layouts that are counted already. */
static double cost_of_user(FanShares *s, int p, int user, int class) {
  const FanSharesInput *in = &s->in;
  const int *list = in->lists[user] + class * in->width[user];
  double sum = 0;
  s->stamp++;
  for (int k = 0; k < in->width[user]; k++) {
    int at = p * in->nlayouts + list[k];
    if (!s->is_certain[at] && s->seen[list[k]] != s->stamp)
      sum += part(s->weights[at * in->nusers + user], in->seconds[at]);
    s->seen[list[k]] = s->stamp;
  }
  return sum;
}

static void fill_tables(FanShares *s) {
  const FanSharesInput *in = &s->in;
  for (int u = 0; u < in->nusers; u++)
    for (int p = 0; p < in->nproducers; p++)
      for (int c = 0; c < in->classes[u]; c++) s->tables[u][p * in->classes[u] + c] = cost_of_user(s, p, u, c);
}

FanShares *fan_shares_new(Arena *a, const FanSharesInput *in) {
  FanShares *s = ARENA_NEW(a, FanShares);
  int cells = in->nproducers * in->nlayouts;
  *s = (FanShares){.in = *in,
                   .certain = ARENA_ARRAY(a, double, in->nproducers),
                   .tables = ARENA_ARRAY(a, double *, in->nusers + 1),
                   .is_certain = ARENA_ARRAY(a, bool, cells + 1),
                   .weights = ARENA_ARRAY(a, double, cells * in->nusers + 1),
                   .wanted = ARENA_ARRAY(a, double, cells * in->nusers + 1),
                   .noted = ARENA_ARRAY(a, double, cells + 1),
                   .seen = ARENA_ARRAY(a, int, in->nlayouts + 1)};
  for (int u = 0; u < in->nusers; u++) s->tables[u] = ARENA_ARRAY(a, double, in->nproducers * in->classes[u]);
  find_certain(s);
  for (int l = 0; l < in->nlayouts; l++) {
    int n = 0;
    for (int u = 0; u < in->nusers; u++) n += may_want(in, u, l);
    for (int u = 0; u < in->nusers; u++) {
      double weight = may_want(in, u, l) ? 1. / n : 0;
      for (int p = 0; p < in->nproducers; p++) s->weights[(p * in->nlayouts + l) * in->nusers + u] = weight;
    }
  }
  fill_tables(s);
  return s;
}

double fan_shares_rest(const void *of, const int *at) {
  FanShares *s = (FanShares *)of;
  const FanSharesInput *in = &s->in;
  double sum = 0;
  int first = ++s->stamp;
  for (int u = 0; u < in->nusers; u++)
    for (int k = 0; k < in->width[u]; k++) {
      int layout = in->lists[u][at[u + 1] * in->width[u] + k], cell = at[0] * in->nlayouts + layout;
      if (s->is_certain[cell] || s->seen[layout] == first || in->seconds[cell] == INFINITY) continue;
      double paid = 0;
      for (int v = u; v < in->nusers; v++)
        if (user_wants(in, v, at[v + 1], layout)) paid += s->weights[cell * in->nusers + v];
      sum += fmax(0, 1 - paid) * in->seconds[cell];
      s->seen[layout] = first;
    }
  return sum;
}

void fan_shares_note(FanShares *s, const int *at) {
  const FanSharesInput *in = &s->in;
  int first = ++s->stamp;
  for (int u = 0; u < in->nusers; u++)
    for (int k = 0; k < in->width[u]; k++) {
      int layout = in->lists[u][at[u + 1] * in->width[u] + k], cell = at[0] * in->nlayouts + layout, n = 0;
      if (s->is_certain[cell] || s->seen[layout] == first) continue;
      for (int v = u; v < in->nusers; v++) n += user_wants(in, v, at[v + 1], layout);
      for (int v = u; v < in->nusers; v++)
        if (user_wants(in, v, at[v + 1], layout)) s->wanted[cell * in->nusers + v] += 1. / n;
      s->noted[cell]++;
      s->seen[layout] = first;
    }
}

void fan_shares_move(FanShares *s, double step) {
  const FanSharesInput *in = &s->in;
  for (int cell = 0; cell < in->nproducers * in->nlayouts; cell++) {
    if (s->noted[cell] == 0) continue;
    for (int u = 0; u < in->nusers; u++) {
      double *w = &s->weights[cell * in->nusers + u], *wanted = &s->wanted[cell * in->nusers + u];
      *w += step * (*wanted / s->noted[cell] - *w);
      *wanted = 0;
    }
    s->noted[cell] = 0;
  }
  fill_tables(s);
}
