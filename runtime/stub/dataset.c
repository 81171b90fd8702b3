/* runtime/stub/dataset.c - see dataset.h.
 *
 * The order is a permutation of [0, rows) that is computed, not stored: a Feistel network of four rounds over the
 * smallest even number of bits that holds `rows`, walked until the number is below it (Black and Rogaway, "Ciphers with
 * Arbitrary Finite Domains", 2002; at most 4 numbers in 1 are outside, so few steps are needed).
 */
#include "runtime/stub/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "base/npy.h"
#include "base/random.h"

typedef struct Source {
  char name[512];
  Tensor rows; /* the whole file */
  char *batch; /* rows of a step */
  size_t row_bytes;
} Source;

struct Dataset {
  Arena *arena;
  Source *items;
  int n;
  int64_t rows, batch, tokens;
  bool shuffled;
  uint64_t seed;
};

/* ---- order */

static uint32_t mix(uint64_t seed, uint64_t pass, uint32_t half, uint32_t round) {
  uint32_t out[4];
  random_block(seed, (pass << 2) + round, half, out);
  return out[0];
}

/* Where number `at` of the pass is. */
static int64_t shuffled(uint64_t seed, uint64_t pass, uint64_t at, uint64_t rows) {
  int half = 1;
  while (half < 31 && (1ull << (2 * half)) < rows) half++;
  const uint32_t mask = (uint32_t)((1ull << half) - 1);
  do {
    uint32_t left = (uint32_t)(at >> half) & mask, right = (uint32_t)at & mask;
    for (uint32_t round = 0; round < 4; round++) {
      uint32_t next = left ^ (mix(seed, pass, right, round) & mask);
      left = right, right = next;
    }
    at = (uint64_t)left << half | right;
  } while (at >= rows);
  return (int64_t)at;
}

static int64_t row_of(const Dataset *d, int64_t number) {
  int64_t at = number % d->rows;
  return d->shuffled ? shuffled(d->seed, (uint64_t)(number / d->rows), (uint64_t)at, (uint64_t)d->rows) : at;
}

/* ---- files */

static int find_input(ApcModel *m, const char *name, ApcTensorInfo *info) {
  for (int i = 0; i < apc_inputs(m); i++)
    if (apc_input_info(m, i, info) == APC_OK && strcmp(info->name, name) == 0) return 0;
  return stub_fail(APC_USAGE, "--data %s: the program has no input of that name", name);
}

/* "NAME=@FILE.npy" */
static int split_data(const char *text, Source *s, const char **file) {
  const char *at = strstr(text, "=@");
  size_t n = at ? (size_t)(at - text) : 0;
  if (!n || n >= sizeof s->name || !at[2]) return stub_fail(APC_USAGE, "--data %s: NAME=@FILE.npy is wanted", text);
  memcpy(s->name, text, n);
  *file = at + 2;
  return 0;
}

static int read_rows(Arena *a, const char *file, Tensor *out) {
  Diags *diags = diags_new(a);
  if (npy_read(diags, file, out)) return 0;
  return stub_fail(APC_BAD_INPUT, "%s: %s", file, diags->n ? diags->items[0].message : "cannot be read");
}

/* The rows must be of the input's type, and its other dimensions those of the file. */
static int check_rows(const Source *s, const ApcTensorInfo *info, const char *file) {
  const Tensor *t = &s->rows;
  if (info->rank < 1) return stub_fail(APC_USAGE, "--data %s: the input is one number", s->name);
  if (info->dims[0] < 1)
    return stub_fail(APC_USAGE, "--data %s: the batch is '%s' here; compile with --batch N", s->name,
                     info->dim_text[0]);
  if ((ApcType)t->dtype != info->type)
    return stub_fail(APC_BAD_INPUT, "%s is %s, but input '%s' has another type", file, dtype_name(t->dtype), s->name);
  bool fits = t->rank == info->rank;
  for (int d = 1; fits && d < t->rank; d++) fits = info->dims[d] < 0 || info->dims[d] == t->dims[d];
  return fits ? 0 : stub_fail(APC_BAD_INPUT, "%s: its rows do not have the shape of input '%s'", file, s->name);
}

static int64_t elements_of_row(const Tensor *t) {
  int64_t n = 1;
  for (int d = 1; d < t->rank; d++) n *= t->dims[d];
  return n;
}

static int open_source(ApcModel *m, Dataset *d, const char *text) {
  Source *s = &d->items[d->n];
  ApcTensorInfo info;
  const char *file = text;
  int code = split_data(text, s, &file);
  if (!code) code = find_input(m, s->name, &info);
  if (!code) code = read_rows(d->arena, file, &s->rows);
  if (code) return code;
  d->n++; /* from here on it has to be freed */
  code = check_rows(s, &info, file);
  if (code) return code;
  if (d->n > 1 && (s->rows.dims[0] != d->rows || info.dims[0] != d->batch))
    return stub_fail(APC_BAD_INPUT, "%s has %lld rows for input '%s', %lld in a step; another file has %lld, %lld",
                     file, (long long)s->rows.dims[0], s->name, (long long)info.dims[0], (long long)d->rows,
                     (long long)d->batch);
  d->rows = s->rows.dims[0], d->batch = info.dims[0];
  if (d->rows < d->batch)
    return stub_fail(APC_BAD_INPUT, "%s has %lld rows, and a step takes %lld", file, (long long)d->rows,
                     (long long)d->batch);
  s->row_bytes = s->rows.bytes / (size_t)d->rows;
  s->batch = malloc((size_t)d->batch * s->row_bytes + 1);
  bool tokens = strcmp(s->name, "labels") == 0 && s->rows.dtype == DT_i64;
  if (tokens || !d->tokens) d->tokens = d->batch * (tokens ? elements_of_row(&s->rows) : 1);
  return s->batch ? 0 : stub_fail(APC_FAILED, "out of memory");
}

int dataset_open(ApcModel *m, const Training *t, Dataset **out) {
  Dataset *d = *out = calloc(1, sizeof *d);
  if (d) d->items = calloc((size_t)t->n + 1, sizeof *d->items);
  if (!d || !d->items) return stub_fail(APC_FAILED, "out of memory");
  d->arena = arena_new();
  d->shuffled = t->shuffled, d->seed = t->seed;
  int code = 0;
  for (int i = 0; i < t->n && !code; i++) code = open_source(m, d, t->data[i]);
  return code;
}

void dataset_close(Dataset *d) {
  if (!d) return;
  for (int i = 0; d->items && i < d->n; i++) {
    tensor_free(&d->items[i].rows);
    free(d->items[i].batch);
  }
  if (d->arena) arena_free(d->arena);
  free(d->items);
  free(d);
}

ApcStatus dataset_bind(ApcModel *m, Dataset *d, int64_t step) {
  ApcStatus status = APC_OK;
  for (int i = 0; i < d->n && !status; i++) {
    Source *s = &d->items[i];
    int64_t dims[TENSOR_MAX_RANK];
    memcpy(dims, s->rows.dims, sizeof dims);
    dims[0] = d->batch;
    for (int64_t k = 0; k < d->batch; k++)
      memcpy(s->batch + (size_t)k * s->row_bytes,
             (const char *)s->rows.data + (size_t)row_of(d, step * d->batch + k) * s->row_bytes, s->row_bytes);
    status = apc_bind_input(m, s->name, (ApcType)s->rows.dtype, s->rows.rank, dims, s->batch);
  }
  return status;
}

int64_t dataset_tokens(const Dataset *d) { return d->tokens; }
