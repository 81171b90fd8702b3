/* base/statistics.h - what is said of times that were measured again and again. */
#ifndef APC_BASE_STATISTICS_H
#define APC_BASE_STATISTICS_H

#include <stddef.h>

typedef struct Statistics {
  double mean, deviation;               /* of a sample */
  double least, median, p90, p99, most; /* p90: the least value that nine tenths are not above */
} Statistics;

/* Sorts the n > 0 values. */
Statistics statistics_of(double *v, size_t n);

#endif
