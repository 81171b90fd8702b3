/* runtime/device/cuda/known.h - a hash table of descriptors and choices, by the key that they depend on.
 *
 * An item begins with its key, which has no padding: it is compared as bytes. */
#ifndef APC_RUNTIME_DEVICE_CUDA_KNOWN_H
#define APC_RUNTIME_DEVICE_CUDA_KNOWN_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { GPU_KNOWN = 4096 /* places; a power of two */ };

typedef struct GpuKnown {
  void **items; /* NULL: not open */
  uint32_t n;
} GpuKnown;

/* Opens the table; false without memory. */
static inline bool gpu_known_open(GpuKnown *k) {
  k->items = calloc(GPU_KNOWN, sizeof *k->items);
  return k->items != NULL;
}

/* Returns the place of an item: its own, or a free one for it. */
static inline void **gpu_known_place(const GpuKnown *k, const void *key, size_t bytes) {
  uint64_t at = hash64(key, bytes, 0);
  while (k->items[at % GPU_KNOWN] && memcmp(k->items[at % GPU_KNOWN], key, bytes)) at++;
  return &k->items[at % GPU_KNOWN];
}

/* True if the table is three quarters full; then the caller drops all items, so that ever new sizes do not fill it. */
static inline bool gpu_known_full(const GpuKnown *k) { return k->n > GPU_KNOWN / 4 * 3; }

#endif
