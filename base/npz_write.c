/* base/npz_write.c - writing npz archives; see npz.h.
 *
 * Members are stored.  The npy header is padded so that the data lands on a multiple of 64 of the file;
 * zip64 fields appear when a number does not fit (or when forced).  The date is 1 January 1980.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/die.h"
#include "base/npy.h"
#include "base/npz.h"
#include "base/text.h"

#define NO16 0xffffu
#define NO32 0xffffffffu
#define DOS_DATE 0x0021u /* 1980-01-01 */

typedef struct Member {
  const char *name; /* with ".npy" */
  uint64_t offset, size;
  uint32_t crc;
  bool wide; /* the sizes are in zip64 fields */
} Member;

struct NpzWriter {
  Diags *diags;
  const char *path;
  Arena *arena;
  FileWriter *file;
  Member *items;
  size_t n, cap;
  bool failed, force_zip64;
};

/* A record under construction. */
typedef struct Record {
  uint8_t bytes[128];
  size_t n;
} Record;

static void put(Record *r, uint64_t v, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) r->bytes[r->n++] = (uint8_t)(v >> (8 * i));
}

#define BAD(w, ...) \
  ((w)->failed = true, diag_error((w)->diags, DIAG_tensor_format, file_loc((w)->diags, (w)->path), __VA_ARGS__))

NpzWriter *npz_writer_open(Diags *d, const char *path) {
  FileWriter *file = file_writer_open(d, path, 0666);
  if (!file) return NULL;
  NpzWriter *w = must_have(calloc(1, sizeof *w), "writing an npz file");
  *w = (NpzWriter){.diags = d, .arena = arena_new(), .file = file};
  w->path = arena_strdup(w->arena, path);
  return w;
}

void npz_writer_force_zip64(NpzWriter *w) { w->force_zip64 = true; }

static bool large(const NpzWriter *w, uint64_t v) { return w->force_zip64 || v >= NO32; }

static const char *quoted(const NpzWriter *w, const char *name) {
  Text t = {.arena = w->diags->arena};
  text_quoted(&t, name);
  return text_str(&t);
}

/* Writes the fields that local and central header share, from "version needed" to the name's length (4.3.7, 4.3.12). */
static void put_common(Record *r, const Member *m, bool zip64) {
  bool ascii = true;
  for (const char *c = m->name; *c; c++) ascii &= (unsigned char)*c < 0x80;
  put(r, zip64 ? 45 : 20, 2);
  put(r, ascii ? 0 : 0x0800, 2); /* bit 11: the name is UTF-8 */
  put(r, 0, 2);                  /* stored */
  put(r, 0, 2);
  put(r, DOS_DATE, 2);
  put(r, m->crc, 4);
  put(r, m->wide ? NO32 : m->size, 4);
  put(r, m->wide ? NO32 : m->size, 4);
  put(r, strlen(m->name), 2);
}

bool npz_writer_add(NpzWriter *w, const char *name, const Tensor *t) {
  size_t length = strlen(name);
  if (w->failed) return false;
  if (!length || length > NO16 - 4 || !text_is_utf8(name, length))
    return BAD(w, "the tensor name %s is empty, too long or not UTF-8", quoted(w, name));
  Member m = {.name = arena_printf(w->arena, "%s.npy", name), .offset = file_writer_offset(w->file)};
  m.wide = large(w, t->bytes + NPY_HEADER_MAX);
  size_t extra = m.wide ? 20 : 0, n;
  char header[NPY_HEADER_MAX];
  npy_header(t, m.offset + 30 + length + 4 + extra, header, &n);
  m.size = n + t->bytes;
  m.crc = (uint32_t)crc32_z(crc32_z(0, (const Bytef *)header, n), t->data, t->bytes);
  Record r = {.n = 0};
  put(&r, 0x04034b50u, 4);
  put_common(&r, &m, m.wide);
  put(&r, extra, 2);
  file_writer_add(w->file, r.bytes, r.n);
  file_writer_add(w->file, m.name, length + 4);
  r.n = 0;
  if (m.wide) put(&r, 1, 2), put(&r, 16, 2), put(&r, m.size, 8), put(&r, m.size, 8);
  file_writer_add(w->file, r.bytes, r.n);
  file_writer_add(w->file, header, n);
  w->failed = !file_writer_add(w->file, t->data, t->bytes);
  ARENA_PUSH(w->arena, w, m);
  return !w->failed;
}

static void write_central(NpzWriter *w, const Member *m) {
  bool far = large(w, m->offset);
  size_t fields = (m->wide ? 16u : 0u) + (far ? 8u : 0u), extra = fields ? fields + 4 : 0;
  Record r = {.n = 0};
  put(&r, 0x02014b50u, 4);
  put(&r, extra ? 45 : 20, 2); /* made by: FAT, so the attributes mean nothing */
  put_common(&r, m, extra != 0);
  put(&r, extra, 2);
  put(&r, 0, 6), put(&r, 0, 4); /* comment, disk, attributes */
  put(&r, far ? NO32 : m->offset, 4);
  file_writer_add(w->file, r.bytes, r.n);
  file_writer_add(w->file, m->name, strlen(m->name));
  r.n = 0;
  if (extra) put(&r, 1, 2), put(&r, fields, 2);
  if (m->wide) put(&r, m->size, 8), put(&r, m->size, 8);
  if (far) put(&r, m->offset, 8);
  file_writer_add(w->file, r.bytes, r.n);
}

/* 4.3.14 to 4.3.16 */
static void write_end(NpzWriter *w, uint64_t start) {
  uint64_t end = file_writer_offset(w->file), size = end - start;
  bool zip64 = large(w, start) || large(w, size) || w->n >= NO16;
  Record r = {.n = 0};
  if (zip64) {
    put(&r, 0x06064b50u, 4), put(&r, 44, 8), put(&r, 45, 2), put(&r, 45, 2), put(&r, 0, 8);
    put(&r, w->n, 8), put(&r, w->n, 8), put(&r, size, 8), put(&r, start, 8);
    put(&r, 0x07064b50u, 4), put(&r, 0, 4), put(&r, end, 8), put(&r, 1, 4);
  }
  put(&r, 0x06054b50u, 4), put(&r, 0, 4);
  put(&r, zip64 ? NO16 : w->n, 2), put(&r, zip64 ? NO16 : w->n, 2);
  put(&r, zip64 ? NO32 : size, 4), put(&r, zip64 ? NO32 : start, 4);
  put(&r, 0, 2);
  file_writer_add(w->file, r.bytes, r.n);
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(const Member *const *)a)->name, (*(const Member *const *)b)->name);
}

static bool check_unique(NpzWriter *w) {
  const Member **sorted = ARENA_ARRAY(w->arena, const Member *, w->n);
  for (size_t i = 0; i < w->n; i++) sorted[i] = &w->items[i];
  qsort(sorted, w->n, sizeof *sorted, by_name);
  for (size_t i = 1; i < w->n; i++)
    if (by_name(&sorted[i - 1], &sorted[i]) == 0) return BAD(w, "two tensors are named %s", quoted(w, sorted[i]->name));
  return true;
}

static void writer_free(NpzWriter *w) {
  arena_free(w->arena);
  free(w);
}

bool npz_writer_finish(NpzWriter *w) {
  if (w->failed || !check_unique(w)) {
    npz_writer_abandon(w);
    return false;
  }
  uint64_t start = file_writer_offset(w->file);
  for (size_t i = 0; i < w->n; i++) write_central(w, &w->items[i]);
  write_end(w, start);
  bool ok = file_writer_finish(w->file);
  writer_free(w);
  return ok;
}

void npz_writer_abandon(NpzWriter *w) {
  file_writer_abandon(w->file);
  writer_free(w);
}
