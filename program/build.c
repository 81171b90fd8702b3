/* program/build.c - see build.h. */
#include "program/build.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "program/artifact.h"

typedef struct Bytes {
  unsigned char *data;
  size_t n, cap; /* in bytes */
} Bytes;

/* Hash table from content to index; slot 0 is empty, else index + 1. */
typedef struct Table {
  uint32_t *slots;
  size_t n, cap;
} Table;

struct ProgramBuilder {
  Bytes sections[PS_COUNT];
  Table texts, exprs;
};

static void *more(void *old, size_t bytes) { return must_have(realloc(old, bytes), "building a program"); }

static void append(Bytes *b, const void *bytes, size_t n) {
  if (b->n + n > b->cap) {
    b->cap = (b->n + n) * 2;
    b->data = more(b->data, b->cap);
  }
  memcpy(b->data + b->n, bytes, n);
  b->n += n;
}

static uint32_t append_record(Bytes *b, const void *record, size_t size) {
  size_t index = b->n / size;
  if (index >= PROGRAM_NONE - 1) die("program: more than 2^32 records in a section");
  append(b, record, size);
  return (uint32_t)index;
}

#define SECTION(name, record, doc) \
  uint32_t program_add_##name(ProgramBuilder *b, const record *r) { \
    return append_record(&b->sections[PS_##name], r, sizeof *r); \
  } \
  uint32_t program_count_##name(const ProgramBuilder *b) { \
    return (uint32_t)(b->sections[PS_##name].n / sizeof(record)); \
  } \
  record *program_at_##name(ProgramBuilder *b, uint32_t index) { \
    if (index >= program_count_##name(b)) die("program: no record %u in section %s", index, #name); \
    return (record *)(void *)b->sections[PS_##name].data + index; \
  }
#include "program/program.def"
#undef SECTION

ProgramBuilder *program_builder_new(void) {
  ProgramBuilder *b = must_have(calloc(1, sizeof *b), "building a program");
  append(&b->sections[PS_strings], "", 1);
  return b;
}

void program_builder_free(ProgramBuilder *b) {
  if (!b) return;
  for (int i = 0; i < PS_COUNT; i++) free(b->sections[i].data);
  free(b->texts.slots);
  free(b->exprs.slots);
  free(b);
}

/* ---- texts, stored once */

static uint64_t text_hash(const ProgramBuilder *b, uint32_t at) {
  const char *s = (const char *)b->sections[PS_strings].data + at;
  return hash64(s, strlen(s), 0);
}
static uint64_t expr_hash(const ProgramBuilder *b, uint32_t at) {
  return hash64(b->sections[PS_exprs].data + at * sizeof(ProgramExpr), sizeof(ProgramExpr), 0);
}

static void table_put(Table *t, uint64_t hash, uint32_t item) {
  size_t i = hash & (t->cap - 1);
  while (t->slots[i]) i = (i + 1) & (t->cap - 1);
  t->slots[i] = item + 1;
  t->n++;
}

static void table_reserve(Table *t, const ProgramBuilder *b, uint64_t (*hash)(const ProgramBuilder *, uint32_t)) {
  if (2 * (t->n + 1) <= t->cap) return;
  Table old = *t;
  t->cap = old.cap ? 2 * old.cap : 256;
  t->n = 0;
  t->slots = must_have(calloc(t->cap, sizeof *t->slots), "building a program");
  for (size_t i = 0; i < old.cap; i++)
    if (old.slots[i]) table_put(t, hash(b, old.slots[i] - 1), old.slots[i] - 1);
  free(old.slots);
}

uint32_t program_string(ProgramBuilder *b, const char *s) {
  size_t n = strlen(s);
  if (n == 0) return 0;
  uint64_t h = hash64(s, n, 0);
  table_reserve(&b->texts, b, text_hash);
  Table *t = &b->texts;
  for (size_t i = h & (t->cap - 1); t->slots[i]; i = (i + 1) & (t->cap - 1))
    if (strcmp((const char *)b->sections[PS_strings].data + t->slots[i] - 1, s) == 0) return t->slots[i] - 1;
  Bytes *strings = &b->sections[PS_strings];
  if (strings->n + n + 1 >= PROGRAM_NONE - 1) die("program: more than 4 GiB of texts");
  uint32_t at = (uint32_t)strings->n;
  append(strings, s, n + 1);
  table_put(t, h, at);
  return at;
}

ProgramList program_list_of(ProgramBuilder *b, uint32_t n, const uint32_t *items) {
  ProgramList l = {program_count_indices(b), n};
  for (uint32_t i = 0; i < n; i++) program_add_indices(b, &items[i]);
  return l;
}

/* ---- expressions, stored once */

static uint32_t intern_expr(ProgramBuilder *b, const ProgramExpr *e) {
  uint64_t h = hash64(e, sizeof *e, 0);
  table_reserve(&b->exprs, b, expr_hash);
  Table *t = &b->exprs;
  for (size_t i = h & (t->cap - 1); t->slots[i]; i = (i + 1) & (t->cap - 1))
    if (memcmp(program_at_exprs(b, t->slots[i] - 1), e, sizeof *e) == 0) return t->slots[i] - 1;
  uint32_t at = program_add_exprs(b, e);
  table_put(t, h, at);
  return at;
}

uint32_t program_const(ProgramBuilder *b, int64_t v) {
  return intern_expr(b, &(ProgramExpr){.kind = PX_const, .value = v});
}
uint32_t program_sym(ProgramBuilder *b, uint32_t symbol) {
  return intern_expr(b, &(ProgramExpr){.kind = PX_sym, .a = symbol});
}
uint32_t program_coordinate(ProgramBuilder *b, uint32_t axis) {
  return intern_expr(b, &(ProgramExpr){.kind = PX_coordinate, .a = axis});
}

static bool fold(ProgramExprKind kind, int64_t x, int64_t y, int64_t *out) {
  switch (kind) {
    case PX_add: return !__builtin_add_overflow(x, y, out);
    case PX_mul: return !__builtin_mul_overflow(x, y, out);
    case PX_div:
      if (y <= 0) return false;
      *out = x / y - (x % y < 0);
      return true;
    case PX_min: *out = x < y ? x : y; return true;
    case PX_max: *out = x > y ? x : y; return true;
    default: return false;
  }
}

uint32_t program_expr(ProgramBuilder *b, ProgramExprKind kind, uint32_t x, uint32_t y) {
  ProgramExpr l = *program_at_exprs(b, x), r = *program_at_exprs(b, y);
  int64_t v;
  if (l.kind == PX_const && r.kind == PX_const && fold(kind, l.value, r.value, &v)) return program_const(b, v);
  return intern_expr(b, &(ProgramExpr){.kind = (uint32_t)kind, .a = x, .b = y});
}

/* ---- the image */

uint32_t program_embed(ProgramBuilder *b, uint64_t bytes, uint64_t hash) {
  return program_add_blobs(b, &(ProgramBlob){.bytes = bytes, .hash = hash});
}

uint32_t program_embed_image(ProgramBuilder *b, ProgramImageKind kind, const char *arch, uint64_t bytes,
                             uint64_t hash) {
  uint32_t blob = program_embed(b, bytes, hash);
  return program_add_images(b, &(ProgramImage){kind, program_string(b, arch), blob, 0});
}

static uint64_t page_up(uint64_t n) { return (n + PROGRAM_PAGE - 1) / PROGRAM_PAGE * PROGRAM_PAGE; }

static const size_t record_bytes[] = {
#define SECTION(name, record, doc) sizeof(record),
#include "program/program.def"
#undef SECTION
};

static uint64_t lay_out(const ProgramBuilder *b, ProgramHeader *h) {
  uint64_t at = sizeof *h;
  for (int i = 0; i < PS_COUNT; i++) {
    h->sections[i] = (ProgramSection){at, b->sections[i].n / record_bytes[i]};
    at += (b->sections[i].n + 7) / 8 * 8;
  }
  return at;
}

/* Returns the equal embedded range of the next Program; NULL if it has none. */
static const ProgramBlob *shared_blob(const Program *after, const ProgramBlob *blob) {
  for (uint32_t i = 0; after && blob->hash && i < after->n_blobs; i++) {
    const ProgramBlob *x = &after->blobs[i];
    if (!*program_text(after, x->path) && x->hash == blob->hash && x->bytes == blob->bytes) return x;
  }
  return NULL;
}

/* Gives embedded ranges their offsets: first those of this Program alone, then those of the next one. */
static void place_blobs(ProgramBuilder *b, const Program *after, ProgramHeader *h) {
  uint64_t end = h->table_bytes, at = page_up(end);
  for (uint32_t i = 0; i < program_count_blobs(b); i++) {
    ProgramBlob *blob = program_at_blobs(b, i);
    if (blob->path || shared_blob(after, blob)) continue;
    blob->offset = at;
    end = at + blob->bytes;
    at = page_up(end);
  }
  h->image_bytes = end;
  if (!after) return;
  h->next = (end + ARTIFACT_ALIGN - 1) / ARTIFACT_ALIGN * ARTIFACT_ALIGN;
  h->image_bytes = h->next + after->header->image_bytes;
  for (uint32_t i = 0; i < program_count_blobs(b); i++) {
    ProgramBlob *blob = program_at_blobs(b, i);
    const ProgramBlob *shared = blob->path ? NULL : shared_blob(after, blob);
    if (shared) blob->offset = h->next + shared->offset;
  }
}

RtStatus program_builder_finish(ProgramBuilder *b, const ProgramFacts *facts, void **tables, size_t *bytes,
                                RtError *error) {
  return program_builder_finish_before(b, facts, NULL, tables, bytes, error);
}

RtStatus program_builder_finish_before(ProgramBuilder *b, const ProgramFacts *facts, const Program *after,
                                       void **tables, size_t *bytes, RtError *error) {
  ProgramHeader h = {.magic = PROGRAM_MAGIC, .version = PROGRAM_VERSION, .header_bytes = sizeof h};
  h.name = program_string(b, facts->name);
  h.target = program_string(b, facts->target);
  h.producer = program_string(b, facts->producer);
  h.stages = facts->stages;
  h.device = program_string(b, facts->device ? facts->device : "cpu");
  h.planned = facts->planned ? program_string(b, facts->planned) : h.device;
  h.n_events = facts->n_events;
  h.peak = facts->peak;
  h.peak_of = program_string(b, facts->peak_of ? facts->peak_of : "");
  h.table_bytes = lay_out(b, &h);
  place_blobs(b, after, &h);
  unsigned char *image = must_have(calloc(1, h.table_bytes), "building a program");
  for (int i = 0; i < PS_COUNT; i++)
    if (b->sections[i].n) memcpy(image + h.sections[i].offset, b->sections[i].data, b->sections[i].n);
  memcpy(image, &h, sizeof h);
  size_t begin = offsetof(ProgramHeader, table_bytes);
  h.table_hash = hash64(image + begin, h.table_bytes - begin, 0);
  memcpy(image, &h, sizeof h);
  Program check;
  RtError reason = {0};
  if (program_open(image, h.table_bytes, &check, &reason) != RT_OK) {
    free(image);
    if (reason.status == RT_FAILED) return rt_error(error, RT_FAILED, "%s", reason.text);
    return rt_error(error, RT_INTERNAL, "the program built is not valid: %s", reason.text);
  }
  program_close(&check);
  *tables = image;
  *bytes = h.table_bytes;
  return RT_OK;
}

_Noreturn void program_refused(const char *what, const RtError *error) {
  if (error->status == RT_FAILED) die_out_of_memory("for %s", what);
  die("%s: %s", what, error->text);
}
