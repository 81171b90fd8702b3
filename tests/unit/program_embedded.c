/* tests/unit/program_embedded.c - embedded parts of a weight file: every weight begins at a multiple of PROGRAM_ALIGN
 * bytes, overlapping views are one part, unread bytes are left out; and the hash is that of the written bytes. */
#include <stdlib.h>

#include "codegen/embedded.h"
#include "program/program.h"
#include "tests/test.h"

static Param *add(Module *m, const char *name, int blob, uint64_t offset, int64_t rows, int64_t columns, int64_t step) {
  const int64_t dims[] = {rows, columns};
  Param *p = module_param_add(m, name, type_of_ints(m, DT_f32, 2, dims));
  p->init = INIT_BLOB;
  p->blob = blob;
  p->offset = offset;
  p->strides[0] = step, p->strides[1] = 1;
  return p;
}

/* Columns 0 to 3 and 4 to 7 of 10 rows of 8 from byte 3 on, in two views whose ranges overlap; 5 elements at odd
 * offsets after them, twice; one weight in another file; an empty one. */
static Module *make(int *blob) {
  Module *m = module_new();
  *blob = module_blob(m, "weights", 1000);
  int other = module_blob(m, "other", 1000);
  add(m, "after", *blob, 601, 1, 5, 5);
  add(m, "right", *blob, 3 + 16, 10, 4, 8);
  add(m, "left", *blob, 3, 10, 4, 8);
  add(m, "again", *blob, 601, 1, 5, 5);
  add(m, "elsewhere", other, 500, 1, 5, 5);
  add(m, "nothing", *blob, 900, 0, 5, 5);
  return m;
}

static void test_parts(void) {
  int blob;
  Module *m = make(&blob);
  Embedded e = embedded_of(m, blob);
  CHECK(e.file_bytes == 1000 && e.n == 2 && e.bytes == 320 + 20);
  CHECK(e.n == 2 && e.parts[0].from == 3 && e.parts[0].bytes == 320 && e.parts[0].to == 0);
  CHECK(e.n == 2 && e.parts[1].from == 601 && e.parts[1].bytes == 20 && e.parts[1].to == 320);
  CHECK(embedded_place(&e, 3) == 0 && embedded_place(&e, 3 + 16) == 16 && embedded_place(&e, 601) == 320);
  CHECK(embedded_place(&e, 620) == 339 && embedded_place(&e, 621) == e.bytes);
  CHECK(embedded_place(&e, 900) == e.bytes && embedded_place(&e, 2) == e.bytes);
  module_free(m);
}

static void test_alignment(void) {
  Module *m = module_new();
  int blob = module_blob(m, "weights", 1 << 20);
  for (int i = 0; i < 50; i++) add(m, arena_printf(m->arena, "w%d", i), blob, (uint64_t)(i * 1001), 3, 7, 7);
  Embedded e = embedded_of(m, blob);
  CHECK(e.n == 50);
  for (uint64_t i = 0; i < 50; i++) CHECK(embedded_place(&e, i * 1001) == i * 128);
  module_free(m);
}

/* A range that ends beyond the file, or whose end overflows, is cut: the Program's checks refuse it. */
static void test_outside(void) {
  Module *m = module_new();
  int blob = module_blob(m, "weights", 1000);
  add(m, "long", blob, 900, 10, 10, 10);
  add(m, "endless", blob, 960, 4, 1, INT64_MAX / 2);
  add(m, "beyond", blob, 2000, 1, 1, 1);
  Embedded e = embedded_of(m, blob);
  CHECK(e.n == 1 && e.bytes == 100 && embedded_place(&e, 900) == 0 && embedded_place(&e, 2000) == 100);
  module_free(m);
}

/* Two parts of some 40 MB: pieces are hashed by themselves, and the gap is inside one. */
static void test_hash(uint64_t bytes) {
  uint8_t *file = malloc(2 * bytes + 17), *range = calloc(1, 2 * bytes + PROGRAM_ALIGN);
  EmbeddedPart parts[] = {{.from = 7, .bytes = bytes, .to = 0}, {.from = 17 + bytes, .bytes = bytes, .to = 0}};
  parts[1].to = (bytes + PROGRAM_ALIGN - 1) / PROGRAM_ALIGN * PROGRAM_ALIGN;
  Embedded e = {.bytes = parts[1].to + bytes, .parts = parts, .n = 2};
  for (uint64_t i = 0; i < 2 * bytes + 17; i++) file[i] = (uint8_t)(i * 2654435761u >> 13);
  for (int i = 0; i < 2; i++) memcpy(range + parts[i].to, file + parts[i].from, bytes);
  uint64_t hash = embedded_hash(&e, file);
  CHECK(hash == program_blob_hash(range, e.bytes));
  range[parts[1].to - 1] = 1;
  CHECK(hash != program_blob_hash(range, e.bytes));
  free(file);
  free(range);
}

static void test_hashes(void) {
  test_hash(1000);
  test_hash(1001);
  test_hash(PROGRAM_HASH_SMALL / 2 + 5);
}

int main(void) {
  RUN(test_parts);
  RUN(test_alignment);
  RUN(test_outside);
  RUN(test_hashes);
  return test_summary();
}
