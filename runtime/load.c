/* runtime/load.c - see load.h. */
#include "runtime/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fill.h"
#include "base/hash.h"
#include "base/safetensors.h"

typedef struct Range {
  const unsigned char *data;
  uint64_t bytes;
  bool mapped; /* ours to unmap */
} Range;

/* Where one weight is: `data` is element [0,..,0]. */
typedef struct Source {
  const unsigned char *data;
  DType dtype;
  int64_t strides[PROGRAM_MAX_RANK];
} Source;

struct Weights {
  const Program *p;
  Range *blobs;    /* per blob */
  Source *sources; /* per weight; data NULL when it has no bytes anywhere */
  Arena *arena;    /* for the safetensors reader */
  Safetensors *file;
};

static bool is_safetensors(const char *path) {
  size_t n = strlen(path), k = strlen(".safetensors");
  return n >= k && strcmp(path + n - k, ".safetensors") == 0;
}

static RtStatus map_file(const char *path, const ProgramBlob *b, bool verify, Range *out, RtError *error) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 || fstat(fd, &st) != 0) {
    RtStatus status = rt_error_errno(error, RT_BAD_INPUT, "the weights in %s cannot be read (see --weights)", path);
    if (fd >= 0) close(fd);
    return status;
  }
  RtStatus status = RT_OK;
  if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != b->bytes)
    status = rt_error(error, RT_BAD_INPUT, "%s is not the file with the weights: it has %lld bytes instead of %llu",
                      path, (long long)st.st_size, (unsigned long long)b->bytes);
  if (!status && b->bytes) {
    void *map = mmap(NULL, b->bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) status = rt_error_errno(error, RT_BAD_INPUT, "%s", path);
    else *out = (Range){map, b->bytes, true};
  }
  close(fd);
  if (!status && verify && b->hash && program_file_hash(out->data, b->bytes) != b->hash)
    status = rt_error(error, RT_BAD_INPUT, "%s is not the file with the weights: its content has changed", path);
  return status;
}

/* Damaged weights would give wrong results, damaged kernels anything at all. */
static RtStatus check_embedded(const Artifact *a, RtError *error) {
  const Program *p = &a->program;
  for (uint32_t i = 0; i < p->n_blobs; i++) {
    const ProgramBlob *b = &p->blobs[i];
    if (!*program_text(p, b->path) && b->hash && hash64(a->image + b->offset, b->bytes, 0) != b->hash)
      return rt_error(error, RT_BAD_INPUT, "the compiled model is damaged: its %s do not match their checksum",
                      i == p->header->cpu_image ? "kernels" : "weights");
  }
  return RT_OK;
}

static bool refers_to_file(const Program *p) {
  for (uint32_t i = 0; i < p->n_blobs; i++)
    if (*program_text(p, p->blobs[i].path)) return true;
  return false;
}

static RtStatus map_blobs(const Artifact *a, const char *override, bool verify, Weights *w, RtError *error) {
  const Program *p = w->p;
  for (uint32_t i = 0; i < p->n_blobs; i++) {
    const ProgramBlob *b = &p->blobs[i];
    const char *path = program_text(p, b->path);
    RtStatus status = RT_OK;
    if (!*path) w->blobs[i] = (Range){a->image + b->offset, b->bytes, false};
    else status = map_file(override ? override : path, b, verify, &w->blobs[i], error);
    if (status) return status;
  }
  return RT_OK;
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

/* The file holds whole weights under the names of the model; what is a view of one here is one there. */
static RtStatus source_from_entry(const Program *p, const ProgramParam *t, const Safetensors *f, Source *s,
                                  RtError *error) {
  const char *name = program_text(p, t->view ? t->origin : t->name);
  ProgramList dims = t->view ? t->origin_dims : t->dims;
  const SafetensorsEntry *e = safetensors_find(f, name);
  if (!e) return rt_error(error, RT_BAD_INPUT, "%s has no tensor '%s'", f->path, name);
  bool same = e->rank == (int)dims.n;
  for (uint32_t d = 0; same && d < dims.n; d++) same = e->dims[d] == p->exprs[program_list(p, dims)[d]].value;
  if (!same) return rt_error(error, RT_BAD_INPUT, "%s: tensor '%s' has another shape than the model's", f->path, name);
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

static RtStatus sources_from_file(Weights *w, const char *path, RtError *error) {
  w->arena = arena_new();
  Diags *d = diags_new(w->arena);
  w->file = safetensors_open(d, path);
  if (!w->file) return rt_error(error, RT_BAD_INPUT, "%s: %s", path, d->n ? d->items[0].message : "cannot be read");
  for (uint32_t i = 0; i < w->p->n_params; i++) {
    const ProgramParam *t = &w->p->params[i];
    if (t->init == PINIT_prepared) continue;
    RtStatus status = source_from_entry(w->p, t, w->file, &w->sources[i], error);
    if (status) return status;
  }
  return RT_OK;
}

RtStatus weights_open(const Artifact *a, const char *override, bool verify, Weights **out, RtError *error) {
  const Program *p = &a->program;
  Weights *w = calloc(1, sizeof *w);
  if (w) {
    w->p = p;
    w->blobs = calloc(p->n_blobs + 1u, sizeof *w->blobs);
    w->sources = calloc(p->n_params + 1u, sizeof *w->sources);
  }
  RtStatus status = RT_OK;
  if (!w || !w->blobs || !w->sources) status = rt_error(error, RT_FAILED, "out of memory");
  else if (override && is_safetensors(override)) status = sources_from_file(w, override, error);
  else if (override && !refers_to_file(p))
    status = rt_error(error, RT_BAD_INPUT, "%s: this program carries its weights; others are taken from a .safetensors file", override);
  else status = map_blobs(a, override, verify, w, error);
  if (!status && verify) status = check_embedded(a, error);
  if (status) {
    weights_close(w);
    return status;
  }
  if (!w->file) sources_from_blobs(w);
  *out = w;
  return RT_OK;
}

void weights_close(Weights *w) {
  if (!w) return;
  for (uint32_t i = 0; w->blobs && i < w->p->n_blobs; i++)
    if (w->blobs[i].mapped) munmap((void *)(uintptr_t)w->blobs[i].data, w->blobs[i].bytes);
  if (w->file) safetensors_close(w->file);
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

/* n elements, `stride` elements apart. */
static void copy_run(const unsigned char *from, DType from_type, int64_t stride, char *to, DType to_type, int64_t n) {
  size_t in = dtype_bytes(from_type), out = dtype_bytes(to_type);
  if (from_type == to_type && stride == 1) {
    memcpy(to, from, (size_t)n * in);
  } else if (from_type == to_type) {
    for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * out, from + (size_t)(i * stride) * in, in);
  } else {
    for (int64_t i = 0; i < n; i++) {
      unsigned char element[8]; /* files align nothing */
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
      for (size_t i = 0; i < n; i++) dtype_store_f(type, to + i * dtype_bytes(type), t->init == PINIT_constant ? t->value : 0);
  }
}

/* Trailing dimensions that are taken whole and lie in one run are one dimension; how many dimensions stay in front of
 * the innermost run, its length and its stride. */
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

void weights_load(const Weights *w, uint32_t param, const int64_t *lo, const int64_t *extent, void *to) {
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
  for (char *out = to;; out += (size_t)r.n * size) {
    int64_t first = 0;
    for (uint32_t d = 0; d < t->dims.n; d++) first += (lo[d] + at[d]) * strides[d];
    if (s->data) copy_run(s->data + (size_t)first * dtype_bytes(s->dtype), s->dtype, r.stride, out, (DType)t->dtype, r.n);
    else fill_run(t, out, (uint64_t)first, (size_t)r.n);
    uint32_t d = r.outer;
    while (d > 0 && ++at[d - 1] == extent[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}
