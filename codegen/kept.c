/* codegen/kept.c - see kept.h.  The cache holds a list of images: kind, length of the architecture's name, bytes of
 * code, the name, the code. */
#include "codegen/kept.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"

typedef struct ImageFront {
  uint64_t kind, arch, bytes;
} ImageFront;

/* Reads one image.  False if the data are no list of images. */
static bool take_image(const char **at, size_t *left, Arena *a, KernelImage *out) {
  ImageFront front;
  if (*left < sizeof front) return false;
  memcpy(&front, *at, sizeof front);
  *at += sizeof front, *left -= sizeof front;
  if (front.kind >= PIMAGE_COUNT || front.arch > *left || front.bytes > *left - front.arch) return false;
  uint8_t *code = must_have(malloc(front.bytes + 1), "for machine code");
  memcpy(code, *at + front.arch, front.bytes);
  *out = (KernelImage){.kind = (ProgramImageKind)front.kind,
                       .arch = arena_strndup(a, *at, front.arch),
                       .data = code,
                       .bytes = front.bytes,
                       .map = {.data = code, .size = front.bytes, .copied = true}};
  *at += front.arch + front.bytes, *left -= front.arch + front.bytes;
  return true;
}

static bool find(const KernelCompile *how, const CacheKey *k, KernelImages *out) {
  size_t left;
  const char *at = cache_find(how->cache, k, how->arena, &left);
  *out = (KernelImages){0};
  while (at && left && out->n < PIMAGE_COUNT && take_image(&at, &left, how->arena, &out->items[out->n])) out->n++;
  if (at && out->n && !left) return true;
  kernel_images_free(out);
  return false;
}

static void keep(const KernelCompile *how, const CacheKey *k, const KernelImages *images) {
  Text all = {.arena = how->arena};
  for (size_t i = 0; i < images->n; i++) {
    const KernelImage *x = &images->items[i];
    ImageFront front = {(uint64_t)x->kind, strlen(x->arch), x->bytes};
    text_addn(&all, (const char *)&front, sizeof front);
    text_add(&all, x->arch);
    text_addn(&all, x->data, x->bytes);
  }
  cache_keep(how->cache, k, text_str(&all), all.n);
}

bool kernels_compile(const KernelTarget *t, const KernelCompile *how, const char *const *texts, size_t n,
                     KernelImages *out, bool *kept) {
  CacheKey k = cache_key(how->cache, "kernels");
  cache_key_text(&k, t->language);
  for (size_t i = 0; i < n; i++) cache_key_text(&k, texts[i]);
  bool known = how->cache && t->identify && t->identify(how, &k);
  if ((*kept = known && find(how, &k, out))) return true;
  if (!t->compile(how, texts, n, out)) return false;
  if (known) keep(how, &k, out);
  return true;
}
