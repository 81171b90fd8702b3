/* base/fill.h - random data for a piece of a tensor.
 *
 * Fills out[0..n) with the values of the elements first, first + 1, ... of the whole tensor, so that
 * filling it in pieces gives the same bytes as filling it at once.  Values are computed in double (the
 * uniform with 24 bits) and rounded to the element type; integer types truncate toward zero.
 */
#ifndef APC_BASE_FILL_H
#define APC_BASE_FILL_H

#include "base/dtype.h"

/* low + (high - low) * u; rounding to a narrow type may reach `high` itself. */
void fill_uniform(DType t, void *out, uint64_t first, size_t n, uint64_t seed, uint64_t stream, double low,
                  double high);
/* mean + deviation * z */
void fill_normal(DType t, void *out, uint64_t first, size_t n, uint64_t seed, uint64_t stream, double mean,
                 double deviation);
/* An integer in [0, bound), bound > 0; for bool, whether it is not 0. */
void fill_below(DType t, void *out, uint64_t first, size_t n, uint64_t seed, uint64_t stream, uint64_t bound);

#endif
