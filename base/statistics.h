/* base/statistics.h - statistics of repeated time measurements. */
#ifndef APC_BASE_STATISTICS_H
#define APC_BASE_STATISTICS_H

#include <stddef.h>

typedef struct Statistics {
  double mean, deviation;               /* of a sample */
  double least, median, p90, p99, most; /* p90: the least value that is at or above nine tenths of them */
} Statistics;

/* Sorts the n > 0 values and returns their statistics. */
Statistics statistics_of(double *v, size_t n);

#endif
