/* codegen/kernel_set.c - see kernel_set.h. */
#include "codegen/kernel_set.h"

#include <string.h>

#include "base/hash.h"
#include "codegen/cpu/print_c.h"

/* A translation unit ends behind this much text of kernels: about ten kernels, 0.3 s of gcc -O3, of which the prelude
 * is 0.05 s. */
#define UNIT_BYTES ((size_t)12000)

int kernel_set_add(KernelSet *s, const char *kind, const char *text) {
  uint64_t hash = hash64(text, strlen(text), 0);
  for (size_t i = 0; i < s->kernels.n; i++)
    if (s->kernels.items[i].hash == hash && strcmp(s->kernels.items[i].text, text) == 0) return (int)i;
  Kernel k = {arena_printf(s->arena, "k%zu_%s", s->kernels.n, kind), text, hash};
  ARENA_PUSH(s->arena, &s->kernels, k);
  return (int)s->kernels.n - 1;
}

const char **kernel_set_texts(const KernelSet *s, size_t *n) {
  const char **texts = ARENA_ARRAY(s->arena, const char *, s->kernels.n + 1);
  *n = 0;
  for (size_t i = 0; i < s->kernels.n;) {
    Text t = {.arena = s->arena};
    text_add(&t, kernel_prelude);
    for (size_t bytes = 0; i < s->kernels.n && bytes < UNIT_BYTES; i++) {
      const Kernel *k = &s->kernels.items[i];
      text_printf(&t, "void %s%s", k->symbol, k->text);
      bytes += strlen(k->text);
    }
    texts[(*n)++] = text_str(&t);
  }
  return texts;
}
