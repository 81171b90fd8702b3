/* codegen/kernel_set.c - see kernel_set.h. */
#include "codegen/kernel_set.h"

#include <string.h>

#include "base/hash.h"

int kernel_set_add(KernelSet *s, const char *kind, const char *text) {
  uint64_t hash = hash64(text, strlen(text), 0);
  for (size_t i = 0; i < s->kernels.n; i++)
    if (s->kernels.items[i].hash == hash && strcmp(s->kernels.items[i].text, text) == 0) return (int)i;
  Kernel k = {arena_printf(s->arena, "k%zu_%s", s->kernels.n, kind), text, hash};
  ARENA_PUSH(s->arena, &s->kernels, k);
  return (int)s->kernels.n - 1;
}

const void *kernel_set_known(const KernelSet *s, const void *key, size_t bytes) {
  uint64_t hash = hash64(key, bytes, 0);
  for (size_t i = 0; i < s->known.n; i++) {
    const KernelKnown *k = &s->known.items[i];
    if (k->hash == hash && k->bytes == bytes && memcmp(k->key, key, bytes) == 0) return k->made;
  }
  return NULL;
}

void kernel_set_keep(KernelSet *s, const void *key, size_t bytes, const void *made) {
  KernelKnown k = {arena_strndup(s->arena, key, bytes), made, bytes, hash64(key, bytes, 0)};
  ARENA_PUSH(s->arena, &s->known, k);
}
