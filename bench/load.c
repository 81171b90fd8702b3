/* bench/load.c - how fast a model file of 3 GB opens, and how much memory that needs.
 *
 * usage: bench_load [FOLDER]     (default /tmp; the file is written there and removed)
 *
 * Writes an ONNX file whose weights are one tensor of zeros, left as a hole of a sparse file, so it needs no disk
 * space; opens it through frontend/onnx/file.h and prints the time and the growth of the resident set.  It measures the
 * effect of the file's size, not of many tensors or nodes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "frontend/onnx/file.h"

/* Elements of the tensor (f32): slightly below 3 GB. */
#define ELEMENTS (INT64_C(750) * 1000 * 1000)

typedef struct Bytes {
  uint8_t data[256];
  size_t n;
} Bytes;

static void put_varint(Bytes *b, uint64_t v) {
  for (; v >= 128; v >>= 7) b->data[b->n++] = (uint8_t)(v | 128);
  b->data[b->n++] = (uint8_t)v;
}

/* Protobuf wire types: 0 is a varint, 2 a length and that many bytes. */
static void put_int(Bytes *b, unsigned field, uint64_t v) {
  put_varint(b, field << 3);
  put_varint(b, v);
}

static void put_length(Bytes *b, unsigned field, uint64_t length) {
  put_varint(b, field << 3 | 2);
  put_varint(b, length);
}

static void put_text(Bytes *b, unsigned field, const char *text) {
  size_t n = strlen(text);
  put_length(b, field, n);
  memcpy(b->data + b->n, text, n);
  b->n += n;
}

/* ModelProto{ir_version, opset_import, graph{name, initializer{dims, data_type, name, raw_data}}} up to the raw data,
 * which ends the file. */
static Bytes model_header(void) {
  const uint64_t raw = (uint64_t)ELEMENTS * 4;
  Bytes tensor = {.n = 0}, graph = {.n = 0}, model = {.n = 0};
  put_int(&tensor, 1, (uint64_t)ELEMENTS);
  put_int(&tensor, 2, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
  put_text(&tensor, 8, "w");
  put_length(&tensor, 9, raw);
  put_text(&graph, 2, "load");
  put_length(&graph, 5, tensor.n + raw);
  memcpy(graph.data + graph.n, tensor.data, tensor.n);
  graph.n += tensor.n;
  put_int(&model, 1, 8);
  put_length(&model, 8, 2);
  put_int(&model, 2, 17);
  put_length(&model, 7, graph.n + raw);
  memcpy(model.data + model.n, graph.data, graph.n);
  model.n += graph.n;
  return model;
}

static bool write_model(int file) {
  Bytes header = model_header();
  off_t end = (off_t)header.n + (off_t)ELEMENTS * 4;
  return write(file, header.data, header.n) == (ssize_t)header.n && ftruncate(file, end) == 0;
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static long resident_kib(void) {
  long pages = -1;
  FILE *f = fopen("/proc/self/statm", "r");
  if (f && fscanf(f, "%*s %ld", &pages) != 1) pages = -1;
  if (f) fclose(f);
  return pages < 0 ? -1 : pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int measure(const char *path) {
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  long before = resident_kib();
  double start = now_ms();
  OnnxFile *f = onnx_file_open(diags, path);
  OnnxData data = {0};
  bool found = f && onnx_file_data(f, diags, onnx_file_model(f)->graph->initializer[0], &data);
  double ms = now_ms() - start;
  long after = resident_kib();
  diags_print(diags, stderr, false);
  bool right = found && data.elements == (uint64_t)ELEMENTS && data.bytes == (uint64_t)ELEMENTS * 4;
  if (right)
    printf("open %.2f ms, resident %ld KiB, %ld KiB of them for the file (%.2f GB)\n", ms, after, after - before,
           (double)data.bytes / 1e9);
  else fprintf(stderr, "bench_load: the tensor was not found as written\n");
  if (f) onnx_file_close(f);
  arena_free(arena);
  return right ? 0 : 1;
}

int main(int argc, char **argv) {
  char path[4096];
  if (snprintf(path, sizeof path, "%s/apc-load-XXXXXX", argc > 1 ? argv[1] : "/tmp") >= (int)sizeof path) return 2;
  int file = mkstemp(path);
  if (file < 0) {
    fprintf(stderr, "bench_load: %s: %s\n", path, strerror(errno));
    return 1;
  }
  int rc = 1;
  if (write_model(file)) rc = measure(path);
  else fprintf(stderr, "bench_load: cannot write %s: %s\n", path, strerror(errno));
  close(file);
  unlink(path);
  return rc;
}
