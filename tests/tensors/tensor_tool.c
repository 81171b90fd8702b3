/* tests/tensors/tensor_tool.c - copies tensors from one file to another, for tests against numpy.
 *
 *   tensor_tool [--zip64] IN OUT     formats by extension: .npy (one tensor, "x"), .npz, .safetensors
 *
 * Exits 1 with the diagnostics on stderr if anything fails. */
#include <stdlib.h>
#include <string.h>

#include "base/npy.h"
#include "base/npz.h"
#include "base/safetensors.h"

typedef struct Tensors {
  NamedTensor *items;
  size_t n, cap;
  Npz *npz;
  Safetensors *safetensors;
} Tensors;

static bool ends_in(const char *s, const char *end) {
  size_t n = strlen(s), m = strlen(end);
  return n >= m && strcmp(s + n - m, end) == 0;
}

static bool read_npz(Diags *d, const char *path, Tensors *all) {
  all->npz = npz_open(d, path);
  for (size_t i = 0; all->npz && i < all->npz->n; i++) {
    NamedTensor t = {.name = all->npz->items[i].name};
    if (!npz_read(all->npz, &all->npz->items[i], &t.tensor)) return false;
    ARENA_PUSH(d->arena, all, t);
  }
  return all->npz != NULL;
}

static bool read_safetensors(Diags *d, const char *path, Tensors *all) {
  all->safetensors = safetensors_open(d, path);
  for (size_t i = 0; all->safetensors && i < all->safetensors->n; i++) {
    NamedTensor t = {.name = all->safetensors->items[i].name};
    if (!safetensors_read(all->safetensors, &all->safetensors->items[i], &t.tensor)) return false;
    ARENA_PUSH(d->arena, all, t);
  }
  return all->safetensors != NULL;
}

static bool read_any(Diags *d, const char *path, Tensors *all) {
  NamedTensor t = {.name = "x"};
  if (ends_in(path, ".npz")) return read_npz(d, path, all);
  if (ends_in(path, ".safetensors")) return read_safetensors(d, path, all);
  if (!npy_read(d, path, &t.tensor)) return false;
  ARENA_PUSH(d->arena, all, t);
  return true;
}

static bool write_any(Diags *d, const char *path, const Tensors *all, bool zip64) {
  if (ends_in(path, ".safetensors")) return safetensors_write(d, path, all->items, all->n, NULL, 0);
  if (!ends_in(path, ".npz")) return all->n == 1 && npy_write(d, path, &all->items[0].tensor);
  NpzWriter *w = npz_writer_open(d, path);
  if (!w) return false;
  if (zip64) npz_writer_force_zip64(w);
  for (size_t i = 0; i < all->n; i++) npz_writer_add(w, all->items[i].name, &all->items[i].tensor);
  return npz_writer_finish(w);
}

int main(int argc, char **argv) {
  bool zip64 = argc > 1 && strcmp(argv[1], "--zip64") == 0;
  if (argc - zip64 != 3) {
    fprintf(stderr, "usage: tensor_tool [--zip64] IN OUT\n");
    return 2;
  }
  Arena *arena = arena_new();
  Diags *d = diags_new(arena);
  Tensors all = {0};
  bool ok = read_any(d, argv[1 + zip64], &all) && write_any(d, argv[2 + zip64], &all, zip64);
  diags_print(d, stderr, false);
  for (size_t i = 0; i < all.n; i++) tensor_free(&all.items[i].tensor);
  npz_close(all.npz);
  safetensors_close(all.safetensors);
  arena_free(arena);
  return ok ? 0 : 1;
}
