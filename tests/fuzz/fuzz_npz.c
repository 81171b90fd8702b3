/* Fuzz target: the npz reader.  Decodes every member and reads every byte of it. */
#include <stdint.h>

#include "base/hash.h"
#include "base/npz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  Npz *z = npz_open_memory(diags, "fuzz.npz", data, size);
  bool ok = z != NULL;
  for (size_t i = 0; z && i < z->n; i++) {
    Tensor t;
    if (npz_find(z, z->items[i].name) != &z->items[i]) __builtin_trap();
    bool read = npz_read(z, &z->items[i], &t);
    if (read) (void)hash64(t.data, t.bytes, 0);
    tensor_free(&t);
    ok = ok && read;
  }
  if (ok != (diags->errors == 0)) __builtin_trap();
  npz_close(z);
  arena_free(arena);
  return 0;
}
