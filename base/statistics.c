/* base/statistics.c - see statistics.h. */
#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

/* The percentile by the nearest-rank method. */
static double percentile(const double *v, size_t n, size_t percent) { return v[(n * percent + 99) / 100 - 1]; }

Statistics statistics_of(double *v, size_t n) {
  Statistics s = {0};
  qsort(v, n, sizeof *v, by_value);
  for (size_t i = 0; i < n; i++) s.mean += v[i] / (double)n;
  for (size_t i = 0; i < n; i++) s.deviation += (v[i] - s.mean) * (v[i] - s.mean);
  s.deviation = n > 1 ? sqrt(s.deviation / (double)(n - 1)) : 0;
  s.least = v[0];
  s.most = v[n - 1];
  s.median = (v[(n - 1) / 2] + v[n / 2]) / 2;
  s.p90 = percentile(v, n, 90);
  s.p99 = percentile(v, n, 99);
  return s;
}
