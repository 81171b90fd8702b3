/* base/fill.c - see fill.h. */
#include "base/fill.h"

#include "base/random.h"

void fill_uniform(DType t, void *out, uint64_t first, size_t n, uint64_t seed, uint64_t stream, double low,
                  double high) {
  uint8_t *p = out;
  uint32_t block[4];
  for (size_t i = 0; i < n; i++, p += dtype_bytes(t)) {
    uint64_t element = first + i;
    if (i == 0 || element % 4 == 0) random_block(seed, stream, element / 4, block);
    dtype_store_f(t, p, low + (high - low) * (double)random_uniform_of(block[element % 4]));
  }
}

void fill_normal(DType t, void *out, uint64_t first, size_t n, uint64_t seed, uint64_t stream, double mean,
                 double deviation) {
  uint8_t *p = out;
  for (size_t i = 0; i < n; i++, p += dtype_bytes(t))
    dtype_store_f(t, p, mean + deviation * random_normal(seed, stream, first + i));
}

void fill_below(DType t, void *out, uint64_t first, size_t n, uint64_t seed, uint64_t stream, uint64_t bound) {
  uint8_t *p = out;
  for (size_t i = 0; i < n; i++, p += dtype_bytes(t))
    dtype_store_i(t, p, (int64_t)random_below(seed, stream, first + i, bound));
}
