/* runtime/device/cuda/known.h - descriptors and choices that are kept: a hash table from what they depend on.
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

/* False: no memory. */
static inline bool gpu_known_open(GpuKnown *k) {
  k->items = calloc(GPU_KNOWN, sizeof *k->items);
  return k->items != NULL;
}

/* The place of an item: its own, or the free one where it goes. */
static inline void **gpu_known_place(const GpuKnown *k, const void *key, size_t bytes) {
  uint64_t at = hash64(key, bytes, 0);
  while (k->items[at % GPU_KNOWN] && memcmp(k->items[at % GPU_KNOWN], key, bytes)) at++;
  return &k->items[at % GPU_KNOWN];
}

/* Requests of ever new sizes do not fill the table: it begins anew when it is three quarters full. */
static inline bool gpu_known_full(const GpuKnown *k) { return k->n > GPU_KNOWN / 4 * 3; }

#endif
