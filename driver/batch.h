/* driver/batch.h - the plan of a build for another batch. */
#ifndef APC_DRIVER_BATCH_H
#define APC_DRIVER_BATCH_H

#include "driver/driver.h"

typedef struct BatchPrice {
  int64_t batch; /* rows, before and after */
  int64_t larger;
  double seconds;      /* of a step */
  double bytes;        /* of the largest rank */
  bool fits;           /* within the memory limit */
  const char *why_not; /* there is no such plan; NULL if there is one */
} BatchPrice;

/* Prices the build's plan, with the same choices and the same number of micro-batches, for a batch `times` as large:
 * reads the model again with that size.  Its memory is that of its Program where that of the plan is (Plan.allocated).
 * False if the batch is no dimension that the line or the model leaves open. */
bool driver_batch_price(const Build *b, int64_t times, BatchPrice *out);

#endif
