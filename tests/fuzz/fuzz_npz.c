/* Fuzz target: the npz reader.  Decodes every member and reads every byte of it, in memory and in parts from a file;
 * both must agree. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/npz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A hash of all tensors. */
static uint64_t decode(Diags *diags, Npz *z) {
  bool ok = z != NULL;
  uint64_t hash = 0;
  for (size_t i = 0; z && i < z->n; i++) {
    Tensor t;
    if (npz_find(z, z->items[i].name) != &z->items[i]) __builtin_trap();
    bool read = npz_read(z, &z->items[i], &t);
    if (read) hash = hash64(t.data, t.bytes, hash + i);
    tensor_free(&t);
    ok = ok && read;
  }
  if (ok != (diags->errors == 0)) __builtin_trap();
  npz_close(z);
  return hash;
}

static int file_of(const uint8_t *data, size_t size) {
  static int fd = -1;
  if (fd < 0) fd = memfd_create("fuzz.npz", MFD_CLOEXEC);
  if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size) __builtin_trap();
  return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Arena *arena = arena_new();
  Diags *one = diags_new(arena), *two = diags_new(arena);
  char path[32];
  uint64_t hash = decode(one, npz_open_memory(one, "fuzz.npz", data, size));
  snprintf(path, sizeof path, "/proc/self/fd/%d", file_of(data, size));
  if (decode(two, npz_open(two, path)) != hash || one->n != two->n) __builtin_trap();
  for (size_t i = 0; i < one->n; i++)
    if (strcmp(one->items[i].message, two->items[i].message) != 0) __builtin_trap();
  arena_free(arena);
  return 0;
}
