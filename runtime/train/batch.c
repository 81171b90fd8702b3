/* runtime/train/batch.c - gives the rows of a data set (dataset.h).
 *
 * A step's rows are put together in one of two batches, while the other one is bound.  The order of rows is computed
 * before the threads begin, so that it does not depend on them; each thread takes every nth row.  An error is that of
 * the first row that has one, and is reported by the step that takes it.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/dataset_internal.h"

static pthread_mutex_t error_lock = PTHREAD_MUTEX_INITIALIZER;

static int threads_of(const Dataset *d) { return d->files->readers > 0 ? d->files->readers : 1; }

/* ---- one row */

/* Writes the next tokens as labels, or what follows from documents. */
static void fill_following(const FilledInput *x, int slot, int64_t k, const DocumentRow *row) {
  char *to = x->batch[slot] + (size_t)k * x->row_bytes;
  const size_t size = dtype_bytes(x->type);
  if (x->from == FROM_DOCUMENTS) {
    const DocumentRow mine = {row->tokens, row->starts, row->length, x->ignored};
    document_write(x->kind, x->type, &mine, to);
    return;
  }
  for (int64_t i = 0; i < row->length; i++) dtype_store_i(x->type, to + (size_t)i * size, row->tokens[i + 1]);
}

static bool fill_window(Dataset *d, int i, const Source *s, int slot, int64_t k, int64_t from, int worker, char *error,
                        size_t size) {
  const FilledInput *x = &d->inputs[i];
  int64_t *window = d->window + worker * (d->length + 1);
  bool *starts = d->starts && i == d->windows ? d->starts + worker * (d->length + 1) : NULL;
  char *to = x->batch[slot] + (size_t)k * x->row_bytes;
  if (!tokens_read(s->tokens, from, window, starts, error, size)) return false;
  for (int64_t j = 0; j < s->rows.dims[1]; j++)
    dtype_store_i(x->type, to + (size_t)j * dtype_bytes(x->type), window[j]);
  const DocumentRow row = {window, starts, d->length, 0};
  for (int f = d->n_files; f < d->n && i == d->windows; f++) fill_following(&d->inputs[f], slot, k, &row);
  return true;
}

/* Fills row k of a batch.  Padding is the batch's first row, with labels that are ignored. */
static bool fill_row(Dataset *d, int slot, int64_t k, int worker, char *error, size_t size) {
  const RowPlace *rows = d->batches[slot].rows, from = rows[k].row < 0 ? rows[0] : rows[k];
  for (int i = 0; i < d->n_files; i++) {
    const Source *s = &d->sources[from.source * d->files->n + i];
    const FilledInput *x = &d->inputs[i];
    if (!s->tokens) source_copy(s, from.row, x->batch[slot] + (size_t)k * x->row_bytes);
    else if (!fill_window(d, i, s, slot, k, from.row, worker, error, size)) return false;
  }
  for (int i = 0; i < d->n && rows[k].row < 0; i++) {
    const FilledInput *x = &d->inputs[i];
    const size_t element = dtype_bytes(x->type);
    for (size_t at = 0; x->can_ignore && at < x->row_bytes; at += element)
      dtype_store_i(x->type, x->batch[slot] + (size_t)k * x->row_bytes + at, x->ignored);
  }
  return true;
}

static void fill(void *context, int worker, int workers) {
  Dataset *d = context;
  Batch *b = &d->batches[d->filling];
  char error[sizeof b->error];
  for (int64_t k = worker; k < d->begin.batch; k += workers) {
    if (fill_row(d, d->filling, k, worker, error, sizeof error)) continue;
    pthread_mutex_lock(&error_lock);
    if (b->failed < 0 || k < b->failed) b->failed = k, memcpy(b->error, error, sizeof error);
    pthread_mutex_unlock(&error_lock);
    return;
  }
}

/* ---- batches */

ApcStatus batches_open(ApcModel *m, Dataset *d) {
  const size_t window = (size_t)d->length + 1, batch = (size_t)d->begin.batch;
  bool ok = true, documents = false;
  for (int i = 0; i < d->n; i++) {
    documents = documents || d->inputs[i].from == FROM_DOCUMENTS;
    for (int k = 0; k < 2; k++) {
      size_t bytes;
      ok = ok && !__builtin_mul_overflow(batch, d->inputs[i].row_bytes, &bytes) && bytes < SIZE_MAX / 2;
      d->inputs[i].batch[k] = ok ? malloc(bytes + 1) : NULL;
      ok = ok && d->inputs[i].batch[k];
    }
  }
  for (int k = 0; k < 2; k++) d->batches[k].rows = calloc(batch, sizeof(RowPlace)), ok = ok && d->batches[k].rows;
  d->window = calloc(window * (size_t)threads_of(d), sizeof *d->window);
  if (documents) d->starts = calloc(window * (size_t)threads_of(d), sizeof *d->starts);
  if (!ok || !d->window || (documents && !d->starts)) return host_error(m, RT_FAILED, "out of memory");
  d->readers = readers_open(d->files->readers, fill, d);
  return d->readers ? APC_OK : host_status(m, rt_error_errno(&m->error, RT_FAILED, "no threads to read data"));
}

void batches_close(Dataset *d) {
  readers_close(d->readers);
  for (int i = 0; d->inputs && i < d->n; i++)
    for (int k = 0; k < 2; k++) free(d->inputs[i].batch[k]);
  for (int k = 0; k < 2; k++) free(d->batches[k].rows);
  free(d->window);
  free(d->starts);
}

/* Begins to put the next step together, in the batch that is not bound. */
static void begin_batch(Dataset *d) {
  d->filling = d->bound == 0 ? 1 : 0;
  Batch *b = &d->batches[d->filling];
  b->before = d->order, b->step = d->next;
  draw_next(&d->order, b->rows);
  b->after = d->order, b->failed = -1;
  d->ahead = d->next++;
  readers_begin(d->readers);
}

static bool go_to_step(Dataset *d, int64_t step) {
  d->order = d->begin, d->next = step;
  return draw_skip(&d->order, step);
}

ApcStatus dataset_bind(ApcModel *m, Dataset *d, int64_t step) {
  if (d->ahead != step) {
    readers_wait(d->readers);
    if (d->next != step) (void)go_to_step(d, step);
    begin_batch(d);
  }
  readers_wait(d->readers);
  const int slot = d->filling;
  d->ahead = -1;
  if (d->batches[slot].failed >= 0) return host_error(m, RT_BAD_INPUT, "%s", d->batches[slot].error);
  d->bound = slot;
  ApcStatus status = APC_OK;
  for (int i = 0; i < d->n && !status; i++) {
    const FilledInput *x = &d->inputs[i];
    status = apc_bind_input(m, x->name, (ApcType)x->type, x->rank, x->dims, x->batch[slot]);
  }
  if (!status && d->files->readers) begin_batch(d);
  return status;
}

/* ---- places */

void dataset_place(const Dataset *d, char *text, size_t size) {
  draw_write(d->bound < 0 ? &d->order : &d->batches[d->bound].after, text, size);
}

bool dataset_go_to(Dataset *d, int64_t made, const char *text, char *other, size_t size) {
  readers_wait(d->readers);
  Order o = d->begin;
  if (!draw_read(&o, text, other, size)) return false;
  d->order = o, d->next = made, d->ahead = d->bound = -1;
  return true;
}

bool dataset_skip(Dataset *d, int64_t made) {
  readers_wait(d->readers);
  d->ahead = d->bound = -1;
  return go_to_step(d, made);
}

void dataset_back(Dataset *d, int64_t made) {
  readers_wait(d->readers);
  const Batch *b = d->bound < 0 ? NULL : &d->batches[d->bound];
  if (b && b->step == made) d->order = b->before, d->next = made;
  else if (b && b->step + 1 == made) d->order = b->after, d->next = made;
  else if (d->next != made) (void)go_to_step(d, made);
  d->ahead = d->bound = -1;
}

static bool batch_not_finite(const Dataset *d, int i, char *text, size_t size) {
  const FilledInput *x = &d->inputs[i];
  const Batch *b = &d->batches[d->bound];
  const int64_t n = (int64_t)(x->row_bytes / dtype_bytes(x->type));
  for (int64_t k = 0; k < d->begin.batch; k++)
    for (int64_t j = 0; j < n && b->rows[k].row >= 0; j++) {
      char place[200];
      const Source *s = &d->sources[b->rows[k].source * d->files->n + i];
      double v =
          dtype_load_f(x->type, x->batch[d->bound] + (size_t)k * x->row_bytes + (size_t)j * dtype_bytes(x->type));
      if (isfinite(v)) continue;
      source_place(s, j, place, sizeof place);
      snprintf(text, size, "input '%s' (%s: row %" PRId64 "%.*s)", x->name, s->file, b->rows[k].row,
               place[0] ? (int)strlen(place) - 1 : 0, place);
      return true;
    }
  return false;
}

bool dataset_not_finite(const Dataset *d, char *text, size_t size) {
  for (int i = 0; i < d->n_files && d->bound >= 0; i++)
    if (dtype_is_float(d->inputs[i].type) && batch_not_finite(d, i, text, size)) return true;
  return false;
}
