/* tests/onnx/open_testdata.c - opens every model and tensor of Debian's libonnx-testdata.
 *
 * Usage: onnx_open_testdata [FOLDER]...; exits 77 if the default folder is not installed.  Every .onnx file must open
 * without a diagnostic, and each of its initializers must give its data (or name a type that apc lacks); every
 * input_*.pb and output_*.pb of the node tests likewise. */
#define _GNU_SOURCE /* nftw */
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "frontend/onnx/file.h"

static struct {
  size_t models, tensors, unsupported, failed;
  uint64_t bytes;
} count;

static void data_of(OnnxFile *f, Diags *d, const Onnx__TensorProto *t) {
  OnnxData data;
  DType dtype;
  if (!onnx_dtype(t->data_type, &dtype)) {
    count.unsupported++;
  } else if (onnx_file_data(f, d, t, &data)) {
    count.tensors++;
    count.bytes += data.bytes;
  }
}

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), m = strlen(end);
  return n >= m && strcmp(s + n - m, end) == 0;
}

static int visit(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
  (void)st, (void)ftw;
  bool model = ends_with(path, ".onnx"), tensor = ends_with(path, ".pb") && strstr(path, "/node/");
  if (kind != FTW_F || !(model || tensor)) return 0;
  Arena *arena = arena_new();
  Diags *d = diags_new(arena);
  OnnxFile *f = model ? onnx_file_open(d, path) : onnx_file_open_tensor(d, path);
  if (f && model) {
    const Onnx__GraphProto *graph = onnx_file_model(f)->graph;
    count.models++;
    for (size_t i = 0; i < graph->n_initializer; i++) data_of(f, d, graph->initializer[i]);
  } else if (f) {
    data_of(f, d, onnx_file_tensor(f));
  }
  onnx_file_close(f);
  /* Sequences and optionals are not TensorProtos: their .pb files may not parse as one. */
  if (d->errors && model) {
    count.failed++;
    diags_print(d, stderr, false);
  }
  arena_free(arena);
  return 0;
}

int main(int argc, char **argv) {
  const char *standard[] = {argv[0], "/usr/share/libonnx-testdata/data"};
  struct stat st;
  if (argc < 2 && stat(standard[1], &st) != 0) {
    printf("libonnx-testdata is not installed\n");
    return 77;
  }
  const char *const *folders = argc < 2 ? standard : (const char *const *)argv;
  for (int i = 1; i < (argc < 2 ? 2 : argc); i++) nftw(folders[i], visit, 16, FTW_PHYS);
  printf("%zu models opened, %zu failed; %zu tensors (%llu bytes), %zu of types apc does not have\n", count.models,
         count.failed, count.tensors, (unsigned long long)count.bytes, count.unsupported);
  return count.failed || count.models == 0;
}
