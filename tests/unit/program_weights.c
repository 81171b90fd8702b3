/* tests/unit/program_weights.c - parts of weights from files, other types, other files, and the random generator. */
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "base/fill.h"
#include "base/hash.h"
#include "base/safetensors.h"
#include "runtime/exec/load.h"
#include "tests/programs.h"

enum { ROWS = 6, COLUMNS = 5 };

typedef struct Case {
  const char *name;
  ProgramInit init;
  DType dtype, source;
  int64_t strides[2];
  double value;
} Case;

static const Case cases[] = {
    {"plain", PINIT_blob, DT_f32, DT_f32, {COLUMNS, 1}, 0},    {"transposed", PINIT_blob, DT_f32, DT_f32, {1, ROWS}, 0},
    {"wider", PINIT_blob, DT_f64, DT_f32, {COLUMNS, 1}, 0},    {"repeated", PINIT_blob, DT_f32, DT_f32, {0, 1}, 0},
    {"narrower", PINIT_blob, DT_i32, DT_f32, {COLUMNS, 1}, 0}, {"zeros", PINIT_zeros, DT_f32, DT_f32, {0, 0}, 0},
    {"constant", PINIT_constant, DT_i64, DT_f32, {0, 0}, 7},   {"normal", PINIT_normal, DT_f32, DT_f32, {0, 0}, 0.5},
    {"uniform", PINIT_uniform, DT_f64, DT_f32, {0, 0}, 2},
};
enum { CASES = sizeof cases / sizeof *cases };

/* An opened Program with these weights, or, with n_rows rows, those that are in no file; its file holds 3, 3.5, 4,
   ... */
static Artifact artifact_with(void **image, int64_t n_rows) {
  Make m = make_new(1);
  float values[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; i++) values[i] = 3 + (float)i / 2;
  const char *path = temp_path("w.bin");
  temp_write(path, values, sizeof values);
  uint32_t blob = program_add_blobs(m.b, &(ProgramBlob){.path = program_string(m.b, path),
                                                        .bytes = sizeof values,
                                                        .hash = program_blob_hash(values, sizeof values)});
  uint32_t rows = make_number(&m, n_rows), columns = make_number(&m, COLUMNS), zero = make_number(&m, 0);
  for (int i = 0; i < CASES; i++) {
    const Case *c = &cases[i];
    if (n_rows != ROWS && c->init == PINIT_blob) continue;
    uint32_t tensor = make_tensor(&m, PC_param, c->dtype, 1, MAKE_LIST(&m, rows, columns));
    program_add_params(
        m.b, &(ProgramParam){.name = program_string(m.b, c->name),
                             .dtype = c->dtype,
                             .buffer = make_buffer_of(&m, tensor),
                             .dims = MAKE_LIST(&m, rows, columns),
                             .interval = MAKE_LIST(&m, zero, rows, zero, columns),
                             .init = c->init,
                             .blob = blob,
                             .source_dtype = c->source,
                             .strides = MAKE_LIST(&m, make_number(&m, c->strides[0]), make_number(&m, c->strides[1])),
                             .value = c->value,
                             .seed = 11,
                             .stream = 2});
  }
  size_t bytes;
  RtError error = {0};
  ProgramFacts facts = {"weights", "test", "test", 1, 0, NULL, NULL, 0, NULL};
  CHECKF(program_builder_finish(m.b, &facts, image, &bytes, &error) == RT_OK, "%s", error.text);
  program_builder_free(m.b);
  Artifact a = {.image = *image, .bytes = bytes};
  CHECK(program_open(*image, bytes, &a.program, &error) == RT_OK);
  return a;
}

static Artifact artifact_of(void **image) { return artifact_with(image, ROWS); }

static double expected(const Case *c, int64_t i, int64_t j) {
  double v;
  switch (c->init) {
    case PINIT_blob:
      v = 3 + (double)(i * c->strides[0] + j * c->strides[1]) / 2;
      return c->dtype == DT_i32 ? trunc(v) : v;
    case PINIT_constant: return c->value;
    case PINIT_normal:
      fill_normal(DT_f64, &v, (uint64_t)(i * COLUMNS + j), 1, 11, 2, 0, c->value);
      return (double)(float)v;
    case PINIT_uniform: fill_uniform(DT_f64, &v, (uint64_t)(i * COLUMNS + j), 1, 11, 2, -c->value, c->value); return v;
    default: return 0;
  }
}

static void check_part(const Weights *w, uint32_t i, const int64_t *lo, const int64_t *extent, double offset) {
  double room[ROWS * COLUMNS];
  const Case *c = &cases[i];
  weights_load(w, i, lo, extent, room, NULL);
  for (int64_t r = 0; r < extent[0]; r++)
    for (int64_t k = 0; k < extent[1]; k++) {
      const char *at = (const char *)room + (size_t)(r * extent[1] + k) * dtype_bytes(c->dtype);
      double got = dtype_is_float(c->dtype) ? dtype_load_f(c->dtype, at) : (double)dtype_load_i(c->dtype, at);
      double want = expected(c, lo[0] + r, lo[1] + k) + offset;
      CHECKF(got == want, "%s[%d,%d]: %g instead of %g", c->name, (int)(lo[0] + r), (int)(lo[1] + k), got, want);
    }
}

static ParamFiles *open_files(const Artifact *a, const char *other, Weights **w) {
  ParamFiles *files = NULL;
  RtError error = {0};
  bool ok = param_files_open(a, other, NULL, &files, &error) == RT_OK && weights_check(files, &error) == RT_OK &&
            weights_open(files, w, &error) == RT_OK;
  CHECKF(ok, "%s", error.text);
  return files;
}

/* Files that the host, which maps nothing, and a rank must refuse. */
static RtStatus open_both(const Artifact *a, const char *other, RtError *error) {
  ParamFiles *files = NULL;
  Weights *w = NULL;
  RtError second = {0};
  RtStatus status = param_files_open(a, other, NULL, &files, error);
  if (status) return status;
  status = weights_check(files, error);
  CHECK(weights_open(files, &w, &second) == status && strcmp(error->text, second.text) == 0);
  if (!status) weights_close(w);
  param_files_close(files);
  return status;
}

static void parts(void) {
  static const int64_t pieces[][4] = {
      {0, 0, ROWS, COLUMNS}, {2, 0, 3, COLUMNS}, {0, 1, ROWS, 2}, {5, 4, 1, 1}, {1, 1, 0, 3}};
  void *image;
  Artifact a = artifact_of(&image);
  Weights *w;
  ParamFiles *files = open_files(&a, NULL, &w);
  for (uint32_t i = 0; i < CASES; i++)
    for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) check_part(w, i, pieces[k], pieces[k] + 2, 0);
  CHECK(weights_in_place(w, 0, pieces[1], pieces[1] + 2) && !weights_in_place(w, 0, pieces[2], pieces[2] + 2));
  CHECK(!weights_in_place(w, 1, pieces[1], pieces[1] + 2) && !weights_in_place(w, 2, pieces[0], pieces[0] + 2));
  weights_close(w);
  param_files_close(files);
  program_close(&a.program);
  free(image);
}

/* Long reads signal their progress, whether rows are read whole or cut. */
static void signs_of_life(void) {
  enum { MANY = 1 << 20 };
  void *image;
  Artifact a = artifact_with(&image, MANY);
  Weights *w;
  ParamFiles *files = open_files(&a, NULL, &w);
  double *room = malloc(sizeof *room * MANY * COLUMNS);
  for (uint32_t i = 0; i < a.program.n_params && room; i++)
    for (int64_t columns = COLUMNS - 1; columns <= COLUMNS; columns++) {
      _Atomic uint64_t beats = 0;
      weights_load(w, i, (int64_t[]){0, 0}, (int64_t[]){MANY, columns}, room, &beats);
      CHECKF(beats == (uint64_t)columns, "%d beats for %d columns", (int)beats, (int)columns);
    }
  free(room);
  weights_close(w);
  param_files_close(files);
  program_close(&a.program);
  free(image);
}

static const char *write_safetensors(size_t n, int64_t rows) {
  static double data[CASES][ROWS * COLUMNS];
  NamedTensor tensors[CASES];
  for (size_t i = 0; i < n; i++) {
    for (int k = 0; k < ROWS * COLUMNS; k++) data[i][k] = expected(&cases[i], k / COLUMNS, k % COLUMNS) + 100;
    tensors[i] = (NamedTensor){cases[i].name, tensor_view(DT_f64, 2, (int64_t[]){rows, COLUMNS}, data[i])};
  }
  Arena *arena = arena_new();
  const char *path = temp_path("w.safetensors");
  CHECK(safetensors_write(diags_new(arena), path, tensors, n, NULL, 0));
  arena_free(arena);
  return path;
}

static void other_files(void) {
  static const int64_t lo[2] = {1, 2}, extent[2] = {4, 3};
  void *image;
  Artifact a = artifact_of(&image);
  Weights *w;
  RtError error = {0};
  ParamFiles *files = open_files(&a, write_safetensors(CASES, ROWS), &w);
  for (uint32_t i = 0; i < CASES; i++)
    if (cases[i].init != PINIT_normal) check_part(w, i, lo, extent, 100);
  weights_close(w);
  param_files_close(files);
  CHECK(open_both(&a, write_safetensors(3, ROWS), &error) == RT_BAD_INPUT);
  CHECKF(strstr(error.text, "w.safetensors has no tensor 'repeated'"), "%s", error.text);
  error = (RtError){0};
  CHECK(open_both(&a, write_safetensors(CASES, ROWS - 1), &error) == RT_BAD_INPUT);
  CHECKF(strstr(error.text, "tensor 'plain' does not have the shape of the model"), "%s", error.text);
  error = (RtError){0};
  char same_size[ROWS * COLUMNS * 4] = {1};
  temp_write(temp_path("w.bin"), same_size, sizeof same_size);
  CHECK(open_both(&a, NULL, &error) == RT_BAD_INPUT);
  CHECKF(strstr(error.text, "its content has changed"), "%s", error.text);
  program_close(&a.program);
  free(image);
}

/* In a file over 64 MiB every byte counts, and both ways to compute its hash agree. */
static void large_files(void) {
  enum { BYTES = PROGRAM_HASH_SMALL + (3 << 20) + 5 };
  static const size_t places[] = {0, (16 << 20) + 77, (33 << 20) + 500001, BYTES - 1};
  unsigned char *bytes = calloc(1, BYTES);
  const char *path = temp_path("large");
  uint64_t first = program_blob_hash(bytes, BYTES), hash = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    bytes[places[i]] ^= 1;
    CHECK(program_blob_hash(bytes, BYTES) != first);
    bytes[places[i]] ^= 1;
  }
  bytes[places[2]] = 9;
  temp_write(path, bytes, BYTES);
  int fd = open(path, O_RDONLY);
  CHECK(artifact_hash_file(fd, 0, BYTES, NULL, &hash) && hash == program_blob_hash(bytes, BYTES));
  CHECK(artifact_hash_file(fd, 7, 1000001, NULL, &hash) && hash == program_blob_hash(bytes + 7, 1000001));
  CHECK(!artifact_hash_file(fd, 0, BYTES + 1, NULL, &hash)); /* truncated */
  close(fd);
  free(bytes);
}

int main(void) {
  RUN(parts);
  RUN(signs_of_life);
  RUN(other_files);
  RUN(large_files);
  return test_summary();
}
