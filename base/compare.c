/* base/compare.c - see compare.h. */
#include "base/compare.h"

#include <math.h>
#include <string.h>

double number_gap(double got, double want) {
  if (got == want || (isnan(got) && isnan(want))) return 0;
  return isfinite(got) && isfinite(want) ? fabs(got - want) : INFINITY;
}

bool number_close(double got, double want, double tolerance) {
  if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
  if (tolerance <= 0) return memcmp(&got, &want, sizeof got) == 0;
  double gap = number_gap(got, want);
  return isfinite(gap) && gap <= tolerance * (1 + fabs(want));
}

double integer_gap(DType t, int64_t got, int64_t want) {
  bool greater = dtype_class(t) == DTC_U ? (uint64_t)got > (uint64_t)want : got > want;
  return (double)(greater ? (uint64_t)got - (uint64_t)want : (uint64_t)want - (uint64_t)got);
}

/* Scaled by the largest number so far, as dnrm2 of the BLAS does. */
static void squares_add(Squares *s, double v) {
  v = fabs(v);
  if (v == 0) return;
  if (v > s->scale) {
    s->squares = s->squares * (s->scale / v) * (s->scale / v) + 1;
    s->scale = v;
  } else {
    s->squares += (v / s->scale) * (v / s->scale);
  }
}

void distance_add(Distance *d, double got, double want) {
  double gap = number_gap(got, want);
  if (gap > d->most) d->most = gap;
  if (isfinite(gap)) squares_add(&d->gaps, gap);
  if (isfinite(want)) squares_add(&d->wanted, want);
}

double distance_relative(const Distance *d) {
  if (!isfinite(d->most)) return INFINITY;
  if (d->gaps.scale == 0) return 0;
  return d->wanted.scale > 0 ? d->gaps.scale / d->wanted.scale * sqrt(d->gaps.squares / d->wanted.squares) : INFINITY;
}
