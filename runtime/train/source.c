/* runtime/train/source.c - see source.h. */
#include "runtime/train/source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/npy.h"
#include "base/whole.h"

int64_t source_elements(const Source *s) {
  int64_t n = 1;
  for (int d = 1; d < s->rows.rank; d++) n *= s->rows.dims[d];
  return n;
}

void source_place(const Source *s, int64_t element, char *text, size_t size) {
  const Tensor *t = &s->rows;
  int64_t index[TENSOR_MAX_RANK];
  char place[180];
  tensor_index(t->rank - 1, t->dims + 1, element, index);
  text[0] = 0;
  if (t->rank > 1) snprintf(text, size, ", element %s,", tensor_index_text(t->rank - 1, index, place, sizeof place));
}

static ApcStatus refuse_number(ApcModel *m, const Source *s, int64_t element, const char *what) {
  const int64_t per_row = source_elements(s);
  char place[200], value[32];
  source_place(s, element % per_row, place, sizeof place);
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
      snprintf(what, sizeof what, "input '%s' takes whole numbers of type %s", info->name, dtype_name(s->type));
      return refuse_number(m, s, i, what);
    }
    if (!index || (v >= info->index_from && v < info->index_below) || v == info->index_ignored) continue;
    int end = snprintf(what, sizeof what, "as an index, input '%s', it must be %" PRId64 " to %" PRId64, info->name,
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
                      info->name, dtype_name(s->type));
  bool fits = t->rank == info->rank;
  for (int d = 1; fits && d < t->rank; d++) fits = info->dims[d] < 0 || info->dims[d] == t->dims[d];
  if (!fits) return host_error(m, RT_BAD_INPUT, "%s: its rows do not have the shape of input '%s'", file, info->name);
  return integers ? check_numbers(m, s, info) : 0;
}

/* Fails with the last diagnostic; for one of several files it names that file. */
static ApcStatus refuse(ApcModel *m, const Diags *diags, const char *file) {
  const Diag *x = diags->n ? &diags->items[diags->n - 1] : NULL;
  return host_error(m, x && x->code == DIAG_no_memory ? RT_FAILED : RT_BAD_INPUT, "%s: %s",
                    x && x->loc.file ? x->loc.file : file, x ? x->message : "cannot be read");
}

static ApcStatus open_rows(ApcModel *m, const ApcTensorInfo *info, Diags *diags, Source *s) {
  if (!npy_read(diags, s->file, &s->rows)) return refuse(m, diags, s->file);
  tensor_settle(&s->rows, s->type);
  return check_rows(m, s, info);
}

static bool is_window(const ApcTensorInfo *x) { return x->rank == 2 && (x->type == APC_I64 || x->type == APC_I32); }

static ApcStatus open_tokens(ApcModel *m, const DataFiles *files, const ApcTensorInfo *info, Diags *diags, Source *s) {
  if (!is_window(info))
    return host_error(m, RT_USAGE, "%s %s: tokens need an input of rows of integers", files->option, info->name);
  if (info->dims[1] < 1)
    return host_error(m, RT_USAGE, "%s %s: the length of a window is symbolic, '%s'; compile with --dim %s=N",
                      files->option, info->name, info->dim_text[1], info->dim_text[1]);
  const int64_t below = info->index_below > 0 ? info->index_below : INT64_C(1) << 31;
  const TokenFormat format = {files->token_bits, info->dims[1], below, files->document_end};
  s->tokens = tokens_open(diags, s->file, &format);
  if (!s->tokens) return refuse(m, diags, s->file);
  s->rows = (Tensor){.dtype = s->type, .rank = 2, .dims = {tokens_rows(s->tokens), format.length}};
  return APC_OK;
}

ApcStatus source_open(ApcModel *m, const DataFiles *files, const ApcTensorInfo *info, const char *file, Diags *diags,
                      Source *out) {
  *out = (Source){.file = file, .type = (DType)info->type};
  return tokens_named(file) ? open_tokens(m, files, info, diags, out) : open_rows(m, info, diags, out);
}

void source_close(Source *s) {
  tensor_free(&s->rows);
  tokens_close(s->tokens);
}

void source_copy(const Source *s, int64_t row, char *to) {
  const int64_t n = source_elements(s);
  const size_t bytes = dtype_bytes(s->type);
  if (s->rows.dtype == s->type) {
    memcpy(to, (const char *)s->rows.data + (size_t)(row * n) * bytes, (size_t)n * bytes);
    return;
  }
  for (int64_t i = 0, v; i < n; i++)
    if (whole_number(&s->rows, row * n + i, s->type, &v)) dtype_store_i(s->type, to + (size_t)i * bytes, v);
}

bool source_identity(const Source *s, DataIdentity *out) {
  return s->tokens ? tokens_identity(s->tokens, out) : data_identity_add(out, s->file);
}
