/* tools/calibrate_fit.c - see calibrate.h.
 *
 * With few features every subset is tried: the best one without negative factors is the non-negative least squares
 * solution (Lawson and Hanson, "Solving Least Squares Problems", 1974, solve it for many).  Errors are relative, since
 * times of a probe differ by factors of a thousand.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/calibrate.h"

typedef double Matrix[FIT_FEATURES][FIT_FEATURES + 1];

/* Solves the normal equations of the features in the set by Gaussian elimination; false if singular. */
static bool solve(Matrix m, int n, double *out) {
  for (int i = 0; i < n; i++) {
    int pivot = i;
    for (int r = i + 1; r < n; r++)
      if (fabs(m[r][i]) > fabs(m[pivot][i])) pivot = r;
    if (!(fabs(m[pivot][i]) > 1e-30)) return false;
    for (int k = 0; k <= n; k++) {
      double x = m[i][k];
      m[i][k] = m[pivot][k], m[pivot][k] = x;
    }
    for (int r = 0; r < n; r++) {
      double times = m[r][i] / m[i][i];
      for (int k = 0; k <= n && r != i; k++) m[r][k] -= times * m[i][k];
    }
  }
  for (int i = 0; i < n; i++) out[i] = m[i][n] / m[i][i];
  return true;
}

static double whole(const FitRow *r) { return r->whole > 0 ? r->whole : r->seconds; }

static double relative(const FitRow *r, int feature) { return r->feature[feature] / whole(r); }

static bool counts(const FitRow *r) { return isfinite(r->seconds) && whole(r) > 0; }

/* Returns the sum of squared relative errors; INFINITY if a factor would be negative. */
static double try_set(int n, const FitRow *rows, int features, unsigned set, double *out) {
  int list[FIT_FEATURES], k = 0;
  double factor[FIT_FEATURES], sum = 0;
  Matrix m = {{0}};
  for (int i = 0; i < features; i++)
    if (set >> i & 1u) list[k++] = i;
  for (int r = 0; r < n; r++)
    for (int i = 0; i < k && counts(&rows[r]); i++) {
      for (int j = 0; j < k; j++) m[i][j] += relative(&rows[r], list[i]) * relative(&rows[r], list[j]);
      m[i][k] += relative(&rows[r], list[i]) * rows[r].seconds / whole(&rows[r]);
    }
  if (!solve(m, k, factor)) return INFINITY;
  memset(out, 0, sizeof *out * FIT_FEATURES);
  for (int i = 0; i < k; i++) {
    if (factor[i] < 0) return INFINITY;
    out[list[i]] = factor[i];
  }
  for (int r = 0; r < n; r++) {
    double error = -rows[r].seconds / whole(&rows[r]);
    for (int i = 0; i < k; i++) error += factor[i] * relative(&rows[r], list[i]);
    if (counts(&rows[r])) sum += error * error;
  }
  return sum;
}

void calibrate_fit(int n, const FitRow *rows, int features, double factor[FIT_FEATURES]) {
  double best = INFINITY, now[FIT_FEATURES];
  memset(factor, 0, sizeof *factor * FIT_FEATURES);
  for (unsigned set = 1; set < 1u << features; set++) {
    double error = try_set(n, rows, features, set, now);
    if (error < best) best = error, memcpy(factor, now, sizeof now);
  }
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double calibrate_median(double *v, int n) {
  if (!n) return NAN;
  qsort(v, (size_t)n, sizeof *v, ascending);
  return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}
