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
