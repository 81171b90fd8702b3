/* runtime/train/dataset.c - see dataset.h.
 *
 * The order is a permutation of [0, rows) that is computed, not stored: a Feistel network of four rounds over the
 * smallest even number of bits that holds `rows`, iterated until the number is below it (Black and Rogaway, "Ciphers
 * with Arbitrary Finite Domains", 2002; the range is at most 4 times `rows`, so few iterations are needed).
 */
#include "runtime/train/dataset.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/npy.h"
#include "base/random.h"
#include "base/whole.h"
#include "runtime/host/host.h"
#include "runtime/train/tokens.h"

typedef struct Source {
  char name[512];
  const char *file;
  DType type;       /* of the input */
  Tensor rows;      /* the whole file; for windows only type and shape */
  Tokens *tokens;   /* windows of tokens; NULL: rows of an array */
  int64_t *window;  /* room for one window */
  int next;         /* the source that gets the next tokens, the labels; -1: none */
  bool follows;     /* another source fills it */
  char *batch;      /* rows of a step */
  size_t row_bytes; /* of the input's type */
} Source;

struct Dataset {
  Arena *arena;
  Diags *diags;
  Source *items; /* two per --data: tokens provide labels as well */
  int n;
  int64_t rows, batch, tokens;
  int token_bits;      /* 0: according to the vocabulary */
  DataSource *sources; /* NULL: not computed yet */
  int n_sources;
  const char *option; /* the option that gave the files */
  bool shuffled;
  uint64_t seed;
};

/* ---- order */

static uint32_t mix(uint64_t seed, uint64_t pass, uint32_t half, uint32_t round) {
  uint32_t out[4];
  random_block(seed, (pass << 2) + round, half, out);
  return out[0];
}

/* Returns the row at position `at` of a pass. */
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

static ApcStatus find_input(ApcModel *m, const Dataset *d, const char *name, ApcTensorInfo *info) {
  for (int i = 0; i < apc_inputs(m); i++)
    if (apc_input_info(m, i, info) == APC_OK && strcmp(info->name, name) == 0) return APC_OK;
  return host_error(m, RT_USAGE, "%s %s: the program has no input of that name", d->option, name);
}

/* Splits "NAME=@FILE". */
static ApcStatus split_data(ApcModel *m, const Dataset *d, const char *text, Source *s, const char **file) {
  const char *at = strstr(text, "=@");
  size_t n = at ? (size_t)(at - text) : 0;
  if (!n || n >= sizeof s->name || !at[2])
    return host_error(m, RT_USAGE, "%s %s: expected NAME=@FILE.npy or NAME=@TOKENS.bin", d->option, text);
  memcpy(s->name, text, n);
  *file = at + 2;
  return APC_OK;
}

/* Fails with the last diagnostic; for a shard it names that file. */
static ApcStatus refuse(ApcModel *m, const Dataset *d, const char *file) {
  const Diag *x = d->diags->n ? &d->diags->items[d->diags->n - 1] : NULL;
  return host_error(m, x && x->code == DIAG_no_memory ? RT_FAILED : RT_BAD_INPUT, "%s: %s",
                    x && x->loc.file ? x->loc.file : file, x ? x->message : "cannot be read");
}

static int64_t elements_of_row(const Tensor *t) {
  int64_t n = 1;
  for (int d = 1; d < t->rank; d++) n *= t->dims[d];
  return n;
}

/* Writes ", element [3, 0]," of a row; "" if a row is one number. */
static void place_in_row(const Tensor *t, int64_t element, char *text, size_t size) {
  int64_t index[TENSOR_MAX_RANK];
  char place[180];
  tensor_index(t->rank - 1, t->dims + 1, element, index);
  text[0] = 0;
  if (t->rank > 1) snprintf(text, size, ", element %s,", tensor_index_text(t->rank - 1, index, place, sizeof place));
}

static ApcStatus refuse_number(ApcModel *m, const Source *s, int64_t element, const char *what) {
  const int64_t per_row = elements_of_row(&s->rows);
  char place[200], value[32];
  place_in_row(&s->rows, element % per_row, place, sizeof place);
  tensor_element_text(&s->rows, element, value, sizeof value);
  return host_error(m, RT_BAD_INPUT, "%s: row %" PRId64 "%s is %s; %s", s->file, element / per_row, place, value, what);
}

/* Checks the numbers for an input of integers: each must fit its type, and indices must lie in their table. */
static ApcStatus check_numbers(ApcModel *m, const Source *s, const ApcTensorInfo *info) {
  const bool index = info->index_below >= 0;
  char what[800];
  if (!index && s->rows.dtype == s->type) return APC_OK;
  for (int64_t i = 0, n = tensor_elements(&s->rows), v = 0; i < n; i++) {
    if (!whole_number(&s->rows, i, s->type, &v)) {
      snprintf(what, sizeof what, "input '%s' takes whole numbers of type %s", s->name, dtype_name(s->type));
      return refuse_number(m, s, i, what);
    }
    if (!index || (v >= info->index_from && v < info->index_below) || v == info->index_ignored) continue;
    int end = snprintf(what, sizeof what, "as an index, input '%s', it must be %" PRId64 " to %" PRId64, s->name,
                       info->index_from, info->index_below - 1);
    if (info->index_ignored != info->index_from)
      snprintf(what + end, sizeof what - (size_t)end, ", or %" PRId64 ", which is ignored", info->index_ignored);
    return refuse_number(m, s, i, what);
  }
  return APC_OK;
}

/* Checks that the rows have the input's type, or contain integers of it in another type, and that the other dimensions
 * match. */
static ApcStatus check_rows(ApcModel *m, const Source *s, const ApcTensorInfo *info) {
  const Tensor *t = &s->rows;
  const char *file = s->file;
  bool integers = dtype_class(s->type) == DTC_I || dtype_class(s->type) == DTC_U;
  if (t->raw || !whole_may_be(t->dtype, s->type))
    return host_error(m, RT_BAD_INPUT, "%s is %s, but input '%s' has another type, %s", file, dtype_name(t->dtype),
                      s->name, dtype_name(s->type));
  bool fits = t->rank == info->rank;
  for (int d = 1; fits && d < t->rank; d++) fits = info->dims[d] < 0 || info->dims[d] == t->dims[d];
  if (!fits) return host_error(m, RT_BAD_INPUT, "%s: its rows do not have the shape of input '%s'", file, s->name);
  return integers ? check_numbers(m, s, info) : 0;
}

/* Adds a source whose rows are known. */
static ApcStatus add_source(ApcModel *m, Dataset *d, Source *s, const ApcTensorInfo *info, const char *file) {
  int64_t rows = s->rows.dims[0], batch = info->dims[0], elements = elements_of_row(&s->rows);
  if (d->rows >= 0 && (rows != d->rows || batch != d->batch))
    return host_error(m, RT_BAD_INPUT, "%s has %lld rows for input '%s', %lld in a step; another file has %lld, %lld",
                      file, (long long)rows, s->name, (long long)batch, (long long)d->rows, (long long)d->batch);
  if (rows < batch)
    return host_error(m, RT_BAD_INPUT, "%s has %lld rows, but a step takes %lld", file, (long long)rows,
                      (long long)batch);
  d->rows = rows, d->batch = batch;
  s->row_bytes = (size_t)elements * dtype_bytes(s->type);
  s->batch = malloc((size_t)batch * s->row_bytes + 1);
  bool labels = strcmp(s->name, "labels") == 0 && s->type == DT_i64 && s->rows.rank > 1;
  if (labels || (s->tokens && !d->tokens)) d->tokens = batch * elements;
  return s->batch ? 0 : host_error(m, RT_FAILED, "out of memory");
}

static ApcStatus open_rows(ApcModel *m, Dataset *d, Source *s, const ApcTensorInfo *info, const char *file) {
  if (!npy_read(d->diags, file, &s->rows)) return refuse(m, d, file);
  tensor_settle(&s->rows, s->type);
  ApcStatus code = check_rows(m, s, info);
  return code ? code : add_source(m, d, s, info, file);
}

/* ---- windows of tokens */

static bool is_window(const ApcTensorInfo *x) { return x->rank == 2 && (x->type == APC_I64 || x->type == APC_I32); }

static bool has_data(const DataFiles *files, const char *name) {
  size_t n = strlen(name);
  for (int i = 0; i < files->n; i++)
    if (strncmp(files->data[i], name, n) == 0 && files->data[i][n] == '=') return true;
  return false;
}

/* Uses the next tokens as `labels`, if the step has labels of the same shape that no other data provide. */
static ApcStatus open_next(ApcModel *m, Dataset *d, const DataFiles *files, Source *s, const ApcTensorInfo *of,
                           const char *file) {
  ApcTensorInfo info;
  bool found = false;
  for (int i = 0; i < apc_inputs(m) && !found; i++)
    found = apc_input_info(m, i, &info) == APC_OK && strcmp(info.name, "labels") == 0;
  if (!found || has_data(files, "labels") || !is_window(&info)) return APC_OK;
  if (info.dims[0] != of->dims[0] || info.dims[1] != of->dims[1])
    return host_error(m, RT_USAGE, "%s %s: 'labels' has another shape, so it needs data of its own", d->option,
                      s->name);
  s->next = d->n;
  Source *next = &d->items[d->n++];
  *next = (Source){.name = "labels", .type = (DType)info.type, .rows = s->rows, .next = -1, .follows = true};
  return add_source(m, d, next, &info, file);
}

static ApcStatus open_tokens(ApcModel *m, Dataset *d, const DataFiles *files, Source *s, const ApcTensorInfo *info,
                             const char *file) {
  if (!is_window(info))
    return host_error(m, RT_USAGE, "%s %s: tokens need an input of rows of integers", d->option, s->name);
  if (info->dims[1] < 1)
    return host_error(m, RT_USAGE, "%s %s: the length of a window is symbolic, '%s'; compile with --dim %s=N",
                      d->option, s->name, info->dim_text[1], info->dim_text[1]);
  int64_t below = info->index_below > 0 ? info->index_below : INT64_C(1) << 31;
  TokenFormat format = {d->token_bits, info->dims[1], below};
  s->tokens = tokens_open(d->diags, file, &format);
  s->window = calloc((size_t)format.length + 1, sizeof *s->window);
  if (!s->tokens) return refuse(m, d, file);
  if (!s->window) return host_error(m, RT_FAILED, "out of memory");
  s->rows = (Tensor){.dtype = s->type, .rank = 2, .dims = {tokens_rows(s->tokens), format.length}};
  ApcStatus code = add_source(m, d, s, info, file);
  return code ? code : open_next(m, d, files, s, info, file);
}

static ApcStatus open_source(ApcModel *m, Dataset *d, const DataFiles *files, const char *text) {
  Source *s = &d->items[d->n];
  ApcTensorInfo info;
  const char *file = text;
  s->next = -1;
  ApcStatus code = split_data(m, d, text, s, &file);
  if (!code) code = find_input(m, d, s->name, &info);
  if (code) return code;
  for (int i = 0; i < d->n; i++)
    if (strcmp(d->items[i].name, s->name) == 0)
      return host_error(m, RT_USAGE, "%s %s is given twice; a folder can hold several token files", d->option, s->name);
  if (info.rank < 1) return host_error(m, RT_USAGE, "%s %s: the input is a single number", d->option, s->name);
  if (info.dims[0] < 1)
    return host_error(m, RT_USAGE, "%s %s: the batch size is symbolic, '%s'; compile with --batch N", d->option,
                      s->name, info.dim_text[0]);
  s->type = (DType)info.type, s->file = file;
  d->n++; /* from here on it has to be freed */
  return tokens_named(file) ? open_tokens(m, d, files, s, &info, file) : open_rows(m, d, s, &info, file);
}

ApcStatus dataset_open(ApcModel *m, const DataFiles *files, Dataset **out) {
  Dataset *d = *out = calloc(1, sizeof *d);
  if (d) d->items = calloc(2 * (size_t)files->n + 1, sizeof *d->items);
  if (!d || !d->items) return host_error(m, RT_FAILED, "out of memory");
  d->arena = arena_new();
  d->diags = diags_new(d->arena);
  d->rows = -1, d->token_bits = files->token_bits, d->option = files->option;
  d->shuffled = files->shuffled, d->seed = files->seed;
  ApcStatus code = 0;
  for (int i = 0; i < files->n && !code; i++) code = open_source(m, d, files, files->data[i]);
  return code;
}

void dataset_close(ApcModel *m, Dataset *d) {
  if (!d) return;
  for (int i = 0; d->items && i < d->n; i++) {
    host_unbind(m, d->items[i].name);
    tensor_free(&d->items[i].rows);
    tokens_close(d->items[i].tokens);
    free(d->items[i].window);
    free(d->items[i].batch);
  }
  if (d->arena) arena_free(d->arena);
  free(d->items);
  free(d);
}

/* Copies a row of an array; check_numbers has checked numbers of another type. */
static void take_numbers(const Source *s, char *to, int64_t row) {
  const int64_t n = elements_of_row(&s->rows);
  if (s->rows.dtype == s->type) {
    memcpy(to, (const char *)s->rows.data + (size_t)row * s->row_bytes, s->row_bytes);
    return;
  }
  for (int64_t i = 0, v; i < n; i++)
    if (whole_number(&s->rows, row * n + i, s->type, &v))
      dtype_store_i(s->type, to + (size_t)i * dtype_bytes(s->type), v);
}

/* Copies row `row` of the file to row `k` of the step. */
static bool take_row(Dataset *d, Source *s, int64_t k, int64_t row) {
  char *to = s->batch + (size_t)k * s->row_bytes;
  if (!s->tokens) return take_numbers(s, to, row), true;
  Source *next = s->next < 0 ? NULL : &d->items[s->next];
  size_t element = dtype_bytes(s->type);
  if (!tokens_read(s->tokens, row, s->window)) return false;
  for (int64_t i = 0; i < s->rows.dims[1]; i++) {
    dtype_store_i(s->type, to + (size_t)i * element, s->window[i]);
    if (next)
      dtype_store_i(next->type, next->batch + (size_t)k * next->row_bytes + (size_t)i * dtype_bytes(next->type),
                    s->window[i + 1]);
  }
  return true;
}

ApcStatus dataset_bind(ApcModel *m, Dataset *d, int64_t step) {
  for (int i = 0; i < d->n; i++)
    for (int64_t k = 0; k < d->batch && !d->items[i].follows; k++)
      if (!take_row(d, &d->items[i], k, row_of(d, step * d->batch + k))) return refuse(m, d, d->items[i].name);
  ApcStatus status = APC_OK;
  for (int i = 0; i < d->n && !status; i++) {
    const Source *s = &d->items[i];
    int64_t dims[TENSOR_MAX_RANK];
    memcpy(dims, s->rows.dims, sizeof dims);
    dims[0] = d->batch;
    status = apc_bind_input(m, s->name, (ApcType)s->type, s->rows.rank, dims, s->batch);
  }
  return status ? status : 0;
}

static bool batch_not_finite(const Dataset *d, const Source *s, int64_t step, char *text, size_t size) {
  const int64_t n = elements_of_row(&s->rows);
  for (int64_t k = 0; k < d->batch; k++)
    for (int64_t i = 0; i < n; i++) {
      char place[200];
      double x = dtype_load_f(s->type, s->batch + (size_t)k * s->row_bytes + (size_t)i * dtype_bytes(s->type));
      if (isfinite(x)) continue;
      place_in_row(&s->rows, i, place, sizeof place);
      snprintf(text, size, "input '%s' (%s: row %" PRId64 "%.*s)", s->name, s->file, row_of(d, step * d->batch + k),
               place[0] ? (int)strlen(place) - 1 : 0, place);
      return true;
    }
  return false;
}

bool dataset_not_finite(const Dataset *d, int64_t step, char *text, size_t size) {
  for (int i = 0; i < d->n; i++)
    if (dtype_is_float(d->items[i].type) && batch_not_finite(d, &d->items[i], step, text, size)) return true;
  return false;
}

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

/* Computes the identities once: files may be large. */
static ApcStatus find_sources(ApcModel *m, Dataset *d) {
  DataSource *sources = ARENA_ARRAY(d->arena, DataSource, d->n + 1);
  int n = 0;
  for (int i = 0; i < d->n; i++) {
    const Source *s = &d->items[i];
    DataIdentity identity;
    char text[80];
    if (s->follows) continue;
    data_identity_begin(&identity);
    if (!(s->tokens ? tokens_identity(s->tokens, &identity) : data_identity_add(&identity, s->file)))
      return host_status(m, rt_error_errno(&m->error, RT_BAD_INPUT, "%s", s->file));
    data_identity_text(&identity, text, sizeof text);
    sources[n++] = (DataSource){s->name, arena_printf(d->arena, "%s, %s", last_part(s->file), text)};
  }
  d->sources = sources, d->n_sources = n;
  return APC_OK;
}

ApcStatus dataset_sources(ApcModel *m, Dataset *d, const DataSource **list, int *n) {
  ApcStatus code = d->sources ? 0 : find_sources(m, d);
  *list = d->sources, *n = d->n_sources;
  return code;
}

int64_t dataset_tokens(const Dataset *d) { return d->tokens; }

int64_t dataset_rows(const Dataset *d) { return d->rows; }
int64_t dataset_batch(const Dataset *d) { return d->batch; }
