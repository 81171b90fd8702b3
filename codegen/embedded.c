/* codegen/embedded.c - see embedded.h. */
#include "codegen/embedded.h"

#include <stdlib.h>

#include "program/program.h"

/* ---- parts */

/* Returns the bytes of the file that hold the elements of a weight: [*from, *end), at most to the file's end. */
static void range_of(const Param *p, uint64_t file_bytes, uint64_t *from, uint64_t *end) {
  uint64_t last = 0;
  bool ok = true, empty = false;
  int64_t dims[MAX_RANK] = {0};
  type_constant_dims(p->type, dims);
  for (int d = 0; d < p->type->rank; d++) {
    uint64_t step;
    empty |= dims[d] == 0;
    if (dims[d] == 0) continue;
    ok = ok && !__builtin_mul_overflow((uint64_t)dims[d] - 1, (uint64_t)p->strides[d], &step) &&
         !__builtin_add_overflow(last, step, &last);
  }
  uint64_t bytes;
  *from = p->offset < file_bytes ? p->offset : file_bytes;
  ok = ok && !__builtin_mul_overflow(last + 1, dtype_bytes(p->type->dtype), &bytes) && bytes <= file_bytes - *from;
  *end = empty ? *from : ok ? *from + bytes : file_bytes;
}

static int by_begin(const void *x, const void *y) {
  const EmbeddedPart *a = x, *b = y;
  return a->from < b->from ? -1 : a->from > b->from;
}

/* Merges sorted parts that share bytes; returns how many are left. */
static size_t join(EmbeddedPart *parts, size_t n) {
  size_t made = 0;
  for (size_t i = 0; i < n; i++) {
    EmbeddedPart *last = made ? &parts[made - 1] : NULL;
    uint64_t end = parts[i].from + parts[i].bytes;
    if (!last || parts[i].from >= last->from + last->bytes) parts[made++] = parts[i];
    else if (end > last->from + last->bytes) last->bytes = end - last->from;
  }
  return made;
}

Embedded embedded_of(const Module *m, int blob) {
  const Blob *b = &m->blobs.items[blob];
  EmbeddedPart *parts = ARENA_ARRAY(m->arena, EmbeddedPart, m->params.n + 1);
  Embedded e = {.path = b->path, .file_bytes = b->bytes, .parts = parts};
  for (size_t i = 0; i < m->params.n; i++) {
    const Param *p = &m->params.items[i];
    uint64_t from, end;
    if (p->init != INIT_BLOB || p->blob != blob) continue;
    range_of(p, b->bytes, &from, &end);
    if (from < end) parts[e.n++] = (EmbeddedPart){.from = from, .bytes = end - from};
  }
  qsort(parts, e.n, sizeof *parts, by_begin);
  e.n = join(parts, e.n);
  for (size_t i = 0; i < e.n; i++) {
    parts[i].to = (e.bytes + PROGRAM_ALIGN - 1) / PROGRAM_ALIGN * PROGRAM_ALIGN;
    e.bytes = parts[i].to + parts[i].bytes;
  }
  return e;
}

uint64_t embedded_place(const Embedded *e, uint64_t offset) {
  size_t lo = 0, hi = e->n; /* parts before `lo` begin at or before the offset */
  while (lo < hi) {
    size_t mid = (lo + hi) / 2;
    if (e->parts[mid].from <= offset) lo = mid + 1;
    else hi = mid;
  }
  const EmbeddedPart *p = lo ? &e->parts[lo - 1] : NULL;
  return p && offset - p->from < p->bytes ? p->to + (offset - p->from) : e->bytes;
}

/* ---- identity */

uint64_t embedded_hash(const Embedded *e, const uint8_t *file) {
  static const uint8_t zeros[PROGRAM_ALIGN];
  ProgramBlobHash h;
  uint64_t at = 0;
  program_blob_hash_begin(&h, e->bytes);
  for (size_t i = 0; i < e->n; i++) {
    const EmbeddedPart *p = &e->parts[i];
    program_blob_hash_add(&h, zeros, (size_t)(p->to - at));
    program_blob_hash_add(&h, file + p->from, (size_t)p->bytes);
    at = p->to + p->bytes;
  }
  return program_blob_hash_end(&h);
}
