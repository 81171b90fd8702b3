/* Fuzz target: the safetensors reader.  Reads every tensor and every byte of it. */
#include <stdint.h>

#include "base/hash.h"
#include "base/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  Safetensors *s = safetensors_open_memory(diags, "fuzz.safetensors", data, size);
  bool ok = s != NULL;
  for (size_t i = 0; s && i < s->n; i++) {
    Tensor t;
    if (safetensors_find(s, s->items[i].name) != &s->items[i]) __builtin_trap();
    bool read = safetensors_read(s, &s->items[i], &t);
    if (read) (void)hash64(t.data, t.bytes, 0);
    tensor_free(&t);
    ok = ok && read;
  }
  if (ok != (diags->errors == 0)) __builtin_trap();
  safetensors_close(s);
  arena_free(arena);
  return 0;
}
