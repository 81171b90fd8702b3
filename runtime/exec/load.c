/* runtime/exec/load.c - see load.h. */
#define _GNU_SOURCE /* MADV_POPULATE_READ */
#include "runtime/exec/load.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fill.h"
#include "base/lost_pages.h"
#include "base/read_at.h"
#include "base/safetensors.h"

typedef struct Range {
  const unsigned char *data;
  uint64_t bytes;
  bool mapped; /* munmap it */
  bool file;   /* its pages are a file's, whether we unmap it or not */
} Range;

/* The source of one weight: `data` is element [0,..,0]. */
typedef struct Source {
  const unsigned char *data;
  DType dtype;
  int64_t strides[PROGRAM_MAX_RANK];
} Source;

struct Weights {
  const Program *p;
  Range *blobs; /* per blob; or the file that replaces all */
  uint32_t n_blobs;
  Source *sources; /* per weight; data NULL if no file has its bytes */
  Arena *arena;    /* for the safetensors reader */
};

enum { HEADER_MOST = 100 * 1000 * 1000 }; /* limit for a safetensors file */
static const unsigned char no_bytes[1];

static RtStatus map_file(const ParamFile *f, Range *out, RtError *error) {
  uint64_t bytes = (uint64_t)f->stamp.size;
  if (!bytes) return RT_OK;
  void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, f->fd, 0);
  if (map == MAP_FAILED) return rt_error_errno(error, RT_BAD_INPUT, "%s", f->path);
  lost_pages_watch(map, bytes, f->path);
  *out = (Range){map, bytes, true, true};
  return RT_OK;
}

static RtStatus map_blobs(const ParamFiles *f, Weights *w, RtError *error) {
  RtStatus status = RT_OK;
  for (uint32_t i = 0; i < f->n && !status; i++) {
    const ProgramBlob *b = &w->p->blobs[i];
    if (f->items[i].fd >= 0) status = map_file(&f->items[i], &w->blobs[i], error);
    else
      w->blobs[i] =
          (Range){f->artifact->image + b->offset, b->bytes, false, f->artifact->fd > 0 && !f->artifact->tables_only};
  }
  return status;
}

static void sources_from_blobs(Weights *w) {
  const Program *p = w->p;
  for (uint32_t i = 0; i < p->n_params; i++) {
    const ProgramParam *t = &p->params[i];
    if (t->init != PINIT_blob || !w->blobs[t->blob].data) continue;
    Source *s = &w->sources[i];
    *s = (Source){w->blobs[t->blob].data + t->offset, (DType)t->source_dtype, {0}};
    for (uint32_t d = 0; d < t->dims.n; d++) s->strides[d] = p->exprs[program_list(p, t->strides)[d]].value;
  }
}

/* The file holds whole weights under the names of the model; a view of a weight becomes a view of its tensor. */
static RtStatus source_from_entry(const Program *p, const ProgramParam *t, const Safetensors *f, Source *s,
                                  RtError *error) {
  const char *name = program_text(p, t->view ? t->origin : t->name);
  ProgramList dims = t->view ? t->origin_dims : t->dims;
  const SafetensorsEntry *e = safetensors_find(f, name);
  if (!e) return rt_error(error, RT_BAD_INPUT, "%s has no tensor '%s'", f->path, name);
  bool same = e->rank == (int)dims.n;
  for (uint32_t d = 0; same && d < dims.n; d++) same = e->dims[d] == p->exprs[program_list(p, dims)[d]].value;
  if (!same)
    return rt_error(error, RT_BAD_INPUT, "%s: tensor '%s' does not have the shape of the model", f->path, name);
  *s = (Source){f->map.data + e->offset + (t->view ? t->first * dtype_bytes(e->dtype) : 0), e->dtype, {0}};
  for (uint32_t d = 0; t->view && d < t->dims.n; d++) s->strides[d] = p->exprs[program_list(p, t->strides)[d]].value;
  if (t->view) return RT_OK;
  int64_t run = 1;
  for (int d = e->rank; d-- > 0;) {
    s->strides[d] = run;
    run *= e->dims[d];
  }
  return RT_OK;
}

/* `bytes` holds at least the header of a file of n bytes. */
static RtStatus sources_from_file(Weights *w, const char *path, const void *bytes, uint64_t n, RtError *error) {
  w->arena = arena_new();
  Diags *d = diags_new(w->arena);
  Safetensors *f = safetensors_open_memory(d, path, bytes, n);
  if (!f) return rt_error(error, RT_BAD_INPUT, "%s: %s", path, d->n ? d->items[0].message : "cannot be read");
  for (uint32_t i = 0; i < w->p->n_params; i++) {
    const ProgramParam *t = &w->p->params[i];
    if (t->init == PINIT_prepared) continue;
    RtStatus status = source_from_entry(w->p, t, f, &w->sources[i], error);
    if (status) return status;
  }
  return RT_OK;
}

static RtStatus new_weights(const Program *p, Weights **out, RtError *error) {
  Weights *w = *out = calloc(1, sizeof *w);
  if (!w) return rt_error(error, RT_FAILED, "out of memory");
  w->p = p;
  w->n_blobs = p->n_blobs + 1;
  w->blobs = calloc(w->n_blobs, sizeof *w->blobs);
  w->sources = calloc(p->n_params + 1u, sizeof *w->sources);
  return w->blobs && w->sources ? RT_OK : rt_error(error, RT_FAILED, "out of memory");
}

RtStatus weights_open(const ParamFiles *files, Weights **out, RtError *error) {
  Weights *w;
  RtStatus status = new_weights(&files->artifact->program, &w, error);
  if (!status && files->replaces) status = map_file(&files->items[0], &w->blobs[0], error);
  else if (!status) status = map_blobs(files, w, error);
  if (!status && files->replaces)
    status =
        sources_from_file(w, files->other, w->blobs[0].data ? w->blobs[0].data : no_bytes, w->blobs[0].bytes, error);
  else if (!status) sources_from_blobs(w);
  if (!status) *out = w;
  else weights_close(w);
  return status;
}

/* ---- checks before anything is started */

/* Reads the start of a safetensors file, as far as its header claims to reach and may reach; from malloc. */
static void *read_header(const ParamFile *f) {
  uint64_t size = (uint64_t)f->stamp.size, length = 0;
  if (size >= sizeof length && pread(f->fd, &length, sizeof length, 0) != (ssize_t)sizeof length) return NULL;
  uint64_t want = sizeof length + (length < HEADER_MOST ? length : HEADER_MOST);
  if (want > size) want = size;
  char *bytes = malloc(want + 1);
  if (bytes && !read_at(f->fd, 0, bytes, want)) free(bytes), bytes = NULL;
  return bytes;
}

RtStatus weights_check(const ParamFiles *files, RtError *error) {
  Weights *w = NULL;
  if (!files->replaces) return RT_OK;
  void *header = read_header(&files->items[0]);
  if (!header) return rt_error_errno(error, RT_BAD_INPUT, "%s", files->other);
  RtStatus status = new_weights(&files->artifact->program, &w, error);
  if (!status) status = sources_from_file(w, files->other, header, (uint64_t)files->items[0].stamp.size, error);
  weights_close(w);
  free(header);
  return status;
}

void weights_close(Weights *w) {
  if (!w) return;
  for (uint32_t i = 0; w->blobs && i < w->n_blobs; i++) {
    if (!w->blobs[i].mapped) continue;
    lost_pages_forget(w->blobs[i].data);
    munmap((void *)(uintptr_t)w->blobs[i].data, w->blobs[i].bytes);
  }
  if (w->arena) arena_free(w->arena);
  free(w->blobs);
  free(w->sources);
  free(w);
}

/* ---- parts */

const void *weights_in_place(const Weights *w, uint32_t param, const int64_t *lo, const int64_t *extent) {
  const ProgramParam *t = &w->p->params[param];
  const Source *s = &w->sources[param];
  if (!s->data || s->dtype != (DType)t->dtype) return NULL;
  int64_t run = 1, first = 0;
  bool one_run = true, empty = false;
  for (uint32_t d = t->dims.n; d-- > 0;) {
    first += lo[d] * s->strides[d];
    one_run &= extent[d] == 1 || s->strides[d] == run;
    empty |= extent[d] == 0;
    run *= extent[d] > 1 ? extent[d] : 1;
  }
  size_t size = dtype_bytes(s->dtype);
  const unsigned char *at = s->data + (empty ? 0 : (size_t)first * size);
  return (one_run || empty) && (uintptr_t)at % size == 0 ? at : NULL;
}

/* Merges dimensions [from, to) into one of *n elements with one step.  False if there is no such step. */
static bool as_one(const Source *s, const int64_t *extent, uint32_t from, uint32_t to, int64_t *n, int64_t *step) {
  *n = 1, *step = 0;
  for (uint32_t d = to; d-- > from;) {
    if (extent[d] == 1) continue;
    if (*n == 1) *step = s->strides[d];
    else if (s->strides[d] != *step * *n) return false;
    *n *= extent[d];
  }
  return true;
}

bool weights_matrix(const Weights *w, uint32_t param, const int64_t *lo, const int64_t *extent, const int64_t dense[4],
                    WeightsMatrix *out) {
  const ProgramParam *t = &w->p->params[param];
  const Source *s = &w->sources[param];
  bool by_rows = dense[3] == 1 && dense[2] == dense[1], by_columns = dense[2] == 1 && dense[3] == dense[0];
  int64_t outside = by_rows ? dense[0] : dense[1], inside = by_rows ? dense[1] : dense[0], first = 0, n = 1;
  uint32_t d = 0;
  if (!s->data || s->dtype != (DType)t->dtype || !(by_rows || by_columns)) return false;
  while (d < t->dims.n && n * extent[d] <= outside && n < outside) n *= extent[d++];
  for (uint32_t i = 0; i < t->dims.n; i++) first += lo[i] * s->strides[i];
  int64_t n_outside, n_inside, far, near;
  if (!as_one(s, extent, 0, d, &n_outside, &far) || !as_one(s, extent, d, t->dims.n, &n_inside, &near)) return false;
  if (n_outside != outside || n_inside != inside || n_outside < 1 || n_inside < 1 || far < 0 || near < 0) return false;
  *out = (WeightsMatrix){s->data + first * (int64_t)dtype_bytes(s->dtype), by_rows ? far : near, by_rows ? near : far};
  return true;
}

/* Copies n elements, `stride` elements apart. */
static void copy_run(const unsigned char *from, DType from_type, int64_t stride, char *to, DType to_type, int64_t n) {
  size_t in = dtype_bytes(from_type), out = dtype_bytes(to_type);
  if (from_type == to_type && stride == 1) {
    memcpy(to, from, (size_t)n * in);
  } else if (from_type == to_type) {
    for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * out, from + (size_t)(i * stride) * in, in);
  } else {
    for (int64_t i = 0; i < n; i++) {
      unsigned char element[8]; /* files are not aligned */
      memcpy(element, from + (size_t)(i * stride) * in, in);
      void *at = to + (size_t)i * out;
      if (dtype_is_float(from_type)) dtype_store_f(to_type, at, dtype_load_f(from_type, element));
      else if (dtype_is_float(to_type)) dtype_store_f(to_type, at, (double)dtype_load_i(from_type, element));
      else dtype_store_i(to_type, at, dtype_load_i(from_type, element));
    }
  }
}

static void fill_run(const ProgramParam *t, char *to, uint64_t first, size_t n) {
  DType type = (DType)t->dtype;
  switch ((ProgramInit)t->init) {
    case PINIT_normal: fill_normal(type, to, first, n, t->seed, t->stream, 0, t->value); break;
    case PINIT_uniform: fill_uniform(type, to, first, n, t->seed, t->stream, -t->value, t->value); break;
    default:
      for (size_t i = 0; i < n; i++)
        dtype_store_f(type, to + i * dtype_bytes(type), t->init == PINIT_constant ? t->value : 0);
  }
}

/* Trailing dimensions that are whole and contiguous become one: how many dimensions remain outside of the innermost
 * run, its length and its stride. */
typedef struct Runs {
  uint32_t outer;
  int64_t n, stride;
} Runs;

static Runs runs_of(const ProgramParam *t, const int64_t *dims, const int64_t *strides, const int64_t *extent) {
  if (t->dims.n == 0) return (Runs){0, 1, 1};
  uint32_t d = t->dims.n - 1;
  Runs r = {d, extent[d], strides[d]};
  while (d > 0 && extent[d] == dims[d] && strides[d - 1] == strides[d] * dims[d]) {
    d--;
    r.n *= extent[d];
    r.outer = d;
  }
  return r;
}

/* Files may be slow and random numbers take time, so every LIFE_PIECE elements count as a sign of life. */
typedef struct Life {
  _Atomic uint64_t *beats;
  int64_t elements; /* since the last one */
} Life;

enum { LIFE_PIECE = 1 << 20 };

static void load_run(const ProgramParam *t, const Source *s, int64_t first, const Runs *r, char *to, Life *life) {
  size_t size = dtype_bytes((DType)t->dtype);
  for (int64_t done = 0; done < r->n; done += LIFE_PIECE) {
    int64_t n = r->n - done < LIFE_PIECE ? r->n - done : LIFE_PIECE;
    char *out = to + (size_t)done * size;
    if (s->data)
      copy_run(s->data + (size_t)(first + done * r->stride) * dtype_bytes(s->dtype), s->dtype, r->stride, out,
               (DType)t->dtype, n);
    else fill_run(t, out, (uint64_t)(first + done), (size_t)n);
    life->elements += n;
    if (life->elements < LIFE_PIECE) continue;
    life->elements = 0;
    if (life->beats) atomic_fetch_add(life->beats, 1);
  }
}

void weights_load(const Weights *w, uint32_t param, const int64_t *lo, const int64_t *extent, void *to,
                  _Atomic uint64_t *beats) {
  const ProgramParam *t = &w->p->params[param];
  const Source *s = &w->sources[param];
  size_t size = dtype_bytes((DType)t->dtype);
  int64_t dims[PROGRAM_MAX_RANK], global[PROGRAM_MAX_RANK], at[PROGRAM_MAX_RANK] = {0}, run = 1;
  for (uint32_t d = t->dims.n; d-- > 0;) {
    if (extent[d] == 0) return;
    dims[d] = w->p->exprs[program_list(w->p, t->dims)[d]].value;
    global[d] = run;
    run *= dims[d];
  }
  const int64_t *strides = s->data ? s->strides : global;
  Runs r = runs_of(t, dims, strides, extent);
  Life life = {beats, 0};
  for (char *out = to;; out += (size_t)r.n * size) {
    int64_t first = 0;
    for (uint32_t d = 0; d < t->dims.n; d++) first += (lo[d] + at[d]) * strides[d];
    load_run(t, s, first, &r, out, &life);
    uint32_t d = r.outer;
    while (d > 0 && ++at[d - 1] == extent[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

/* ---- pages */

static void advise(const Weights *w, const void *from, const void *to, int advice) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)from, end = (uintptr_t)to;
  for (uint32_t i = 0; i < w->n_blobs; i++) {
    uintptr_t data = (uintptr_t)w->blobs[i].data;
    if (!w->blobs[i].file || first < data || end > data + w->blobs[i].bytes) continue;
    /* Bytes before the range in its first page were read before; bytes after it in its last page may be read next. */
    uintptr_t begin = first / page * page, behind = advice == MADV_DONTNEED ? end / page * page : end;
    if (begin < behind) madvise((void *)begin, behind - begin, advice);
    return;
  }
}

void weights_soon(const Weights *w, const void *from, const void *to) {
#ifdef MADV_POPULATE_READ
  advise(w, from, to, MADV_POPULATE_READ); /* old systems lack it: then pages are read when they are touched */
#else
  (void)w, (void)from, (void)to;
#endif
}

void weights_give_back(const Weights *w, const void *from, const void *to) { advise(w, from, to, MADV_DONTNEED); }

void weights_give_back_part(const Weights *w, uint32_t param, const int64_t *lo, const int64_t *extent) {
  const Source *s = &w->sources[param];
  int64_t first = 0, last = 0;
  if (!s->data) return;
  for (uint32_t d = 0; d < w->p->params[param].dims.n; d++) {
    if (extent[d] == 0) return;
    int64_t a = lo[d] * s->strides[d], b = (lo[d] + extent[d] - 1) * s->strides[d];
    first += a < b ? a : b;
    last += a < b ? b : a;
  }
  int64_t size = (int64_t)dtype_bytes(s->dtype);
  advise(w, s->data + first * size, s->data + (last + 1) * size, MADV_DONTNEED);
}

void weights_give_back_all(const Weights *w) {
  for (uint32_t i = 0; i < w->n_blobs; i++)
    if (w->blobs[i].data) advise(w, w->blobs[i].data, w->blobs[i].data + w->blobs[i].bytes, MADV_DONTNEED);
}
