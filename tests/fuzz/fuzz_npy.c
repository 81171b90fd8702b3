/* Fuzz target: the npy reader.  Reads every byte of accepted files. */
#include <stdint.h>

#include "base/hash.h"
#include "base/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  Tensor t;
  bool ok = npy_read_memory(diags, "fuzz.npy", data, size, &t);
  if (ok) (void)hash64(t.data, t.bytes, 0);
  if (ok != (diags->errors == 0)) __builtin_trap(); /* fails exactly if there is a diagnostic */
  tensor_free(&t);
  arena_free(arena);
  return 0;
}
