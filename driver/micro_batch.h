/* driver/micro_batch.h - --micro-batch N: the size of a micro-batch on one data-parallel rank. */
#ifndef APC_DRIVER_MICRO_BATCH_H
#define APC_DRIVER_MICRO_BATCH_H

#include "driver/driver.h"

/* Returns the planned size of each symbol, in the module's arena. */
const int64_t *planned_sizes(const Build *b);
/* Returns the global batch size: dimension 0 of the first input that has one, at these sizes of the symbols; *bound is
 * set if it is a constant. */
int64_t batch_size(const Build *b, const int64_t *sizes, bool *bound);

/* Returns the fastest plan in which every data-parallel rank takes `size` sequences at a time (the last micro-batch
 * takes the rest).  NULL after diagnostics. */
Plan *driver_micro_batch(Build *b, const PlanOptions *options, int64_t size, Diags *d);

#endif
