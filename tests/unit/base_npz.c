/* npz archives: a small zip builder in this test makes good and malformed ones in memory. */
#include <stdint.h>
#include <zlib.h>

#include "base/npz.h"
#include "tests/temp.h"
#include "tests/test.h"

static Arena *arena;
static Diags *diags;

typedef struct Archive {
  uint8_t data[16384];
  size_t n;
  uint8_t central[4096]; /* grows next to the members, appended by finish */
  size_t n_central, members;
} Archive;

static size_t put(uint8_t *p, size_t at, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; i++) p[at + (size_t)i] = (uint8_t)(v >> (8 * i));
  return at + (size_t)bytes;
}

/* A float32 .npy of n elements, all v. */
static size_t npy_of(uint8_t *to, int n, float v) {
  int header = snprintf((char *)to + 10, 100, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }\n", n);
  memcpy(to, "\x93NUMPY\1\0", 8);
  put(to, 8, (uint64_t)header, 2);
  for (int i = 0; i < n; i++) memcpy(to + 10 + header + 4 * i, &v, 4);
  return 10 + (size_t)header + 4 * (size_t)n;
}

static size_t deflated(uint8_t *to, size_t room, const uint8_t *from, size_t n) {
  z_stream s = {.next_in = (Bytef *)(uintptr_t)from, .avail_in = (uInt)n, .next_out = to, .avail_out = (uInt)room};
  CHECK(deflateInit2(&s, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) == Z_OK && deflate(&s, Z_FINISH) == Z_STREAM_END);
  deflateEnd(&s);
  return s.total_out;
}

/* One header, local or central: signature, then the shared fields. */
static size_t put_header(uint8_t *p, size_t at, uint32_t signature, bool central, unsigned method, uint32_t crc,
                         size_t packed, size_t size, size_t name) {
  at = put(p, at, signature, 4);
  if (central) at = put(p, at, 20, 2);
  at = put(p, at, 20, 2);
  at = put(p, at, 0, 2);
  at = put(p, at, method, 2);
  at = put(p, at, 0, 4);
  at = put(p, at, crc, 4);
  at = put(p, at, packed, 4);
  at = put(p, at, size, 4);
  return put(p, at, name, 2);
}

static void add(Archive *a, const char *name, const uint8_t *bytes, size_t n, unsigned method) {
  static uint8_t packed_bytes[8192];
  size_t length = strlen(name), start = a->n;
  uint32_t crc = (uint32_t)crc32(0, bytes, (uInt)n);
  size_t packed = method ? deflated(packed_bytes, sizeof packed_bytes, bytes, n) : n;
  a->n = put_header(a->data, a->n, 0x04034b50, false, method, crc, packed, n, length);
  a->n = put(a->data, a->n, 0, 2);
  memcpy(a->data + a->n, name, length);
  memcpy(a->data + a->n + length, method ? packed_bytes : bytes, packed);
  a->n += length + packed;
  size_t c = put_header(a->central, a->n_central, 0x02014b50, true, method, crc, packed, n, length);
  c = put(a->central, c, 0, 8);
  c = put(a->central, c, 0, 4);
  c = put(a->central, c, start, 4);
  memcpy(a->central + c, name, length);
  a->n_central = c + length;
  a->members++;
}

static void finish(Archive *a) {
  size_t start = a->n;
  memcpy(a->data + a->n, a->central, a->n_central);
  a->n = put(a->data, a->n + a->n_central, 0x06054b50, 4);
  a->n = put(a->data, a->n, 0, 4);
  a->n = put(a->data, a->n, a->members, 2);
  a->n = put(a->data, a->n, a->members, 2);
  a->n = put(a->data, a->n, a->n_central, 4);
  a->n = put(a->data, a->n, start, 4);
  a->n = put(a->data, a->n, 0, 2);
}

/* Members "a" (stored) and "b" (deflated). */
static Archive two(void) {
  Archive a = {.n = 0};
  uint8_t npy[4096];
  size_t n = npy_of(npy, 3, 1.5f);
  add(&a, "a.npy", npy, n, 0);
  n = npy_of(npy, 500, 2.5f);
  add(&a, "b.npy", npy, n, 8);
  finish(&a);
  return a;
}

/* Decodes all members. */
static bool decode(Npz *z) {
  bool ok = z != NULL;
  for (size_t i = 0; z && i < z->n; i++) {
    Tensor t;
    ok = npz_read(z, &z->items[i], &t) && ok;
    tensor_free(&t);
  }
  npz_close(z);
  return ok;
}

/* From an exact copy, so that sanitizers detect every overread, and in parts from a file, with the same result. */
static bool decodes(const Archive *a) {
  uint8_t *copy = malloc(a->n ? a->n : 1);
  memcpy(copy, a->data, a->n);
  bool ok = decode(npz_open_memory(diags, "x.npz", copy, a->n));
  free(copy);
  CHECK(ok == (diags->errors == 0));
  Diags *again = diags_new(arena);
  const char *path = temp_path("x.npz");
  temp_write(path, a->data, a->n);
  CHECK(decode(npz_open(again, path)) == ok);
  if (!ok && again->n && diags->n) CHECK_STR(again->items[again->n - 1].message, diags->items[diags->n - 1].message);
  return ok;
}

static void refuses(const Archive *a, const char *part) {
  CHECKF(!decodes(a), "%s", part);
  CHECK(diags->errors >= 1);
  if (diags->n) {
    const Diag *g = &diags->items[0];
    CHECK(g->code == DIAG_npz || g->code == DIAG_npy);
    CHECKF(strncmp(g->loc.file, "x.npz", 5) == 0, "%s", g->loc.file);
    CHECKF(strstr(g->message, part), "\"%s\" lacks \"%s\"", g->message, part);
  }
  diags = diags_new(arena);
}

static void good_archives_are_read(void) {
  Archive a = two();
  Npz *z = npz_open_memory(diags, "x.npz", a.data, a.n);
  CHECK(z && z->n == 2 && strcmp(z->items[0].name, "a") == 0 && strcmp(z->items[1].name, "b") == 0);
  const NpzMember *b = z ? npz_find(z, "b") : NULL;
  CHECK(b && b->deflated && z && !npz_find(z, "c") && !npz_find(z, "b.npy"));
  Tensor t;
  CHECK(b && npz_read(z, b, &t) && t.rank == 1 && t.dims[0] == 500 && t.dtype == DT_f32);
  for (int i = 0; i < 500; i++) CHECK(((float *)t.data)[i] == 2.5f);
  tensor_free(&t);
  npz_close(z);
  Archive none = {.n = 0};
  finish(&none);
  CHECK(decodes(&none) && diags->n == 0);
}

#define CENTRAL_B 51 /* 46 + strlen("a.npy") */
/* Offsets in two(): the second local header, the central headers, the end record. */
static size_t local_b(const Archive *a) { return a->central[CENTRAL_B + 42] + 256u * a->central[CENTRAL_B + 43]; }
static size_t central(const Archive *a) { return a->n - 22 - a->n_central; }
static size_t end(const Archive *a) { return a->n - 22; }

static void damaged(size_t at, uint64_t v, int bytes, const char *part) {
  Archive a = two();
  put(a.data, at, v, bytes);
  refuses(&a, part);
}

static void malformed_end_records(void) {
  Archive a = two();
  size_t e = end(&a);
  damaged(e, 0, 4, "end record is missing");
  damaged(e + 20, 1, 2, "end record is missing");
  damaged(e + 4, 1, 2, "several disks");
  damaged(e + 8, 1, 2, "several disks");
  damaged(e + 8, 0x00030003, 4, "claims 3 members");
  damaged(e + 8, 0x00010001, 4, "bytes too many");
  damaged(e + 8, 0x10001000, 4, "claims 4096 members");
  damaged(e + 12, 0x7fffffff, 4, "outside the file");
  damaged(e + 16, 0x7fffffff, 4, "outside the file");
  damaged(e + 16, 0xffffffff, 4, "zip64 locator is missing");
  damaged(e + 16, 0, 4, "directory is damaged");
  for (size_t n = 0; n < a.n; n++) { /* truncated anywhere */
    Archive cut = a;
    cut.n = n;
    CHECKF(!decodes(&cut), "%zu bytes", n);
  }
  diags = diags_new(arena);
  a.n++;
  refuses(&a, "end record is missing");
}

static void malformed_members(void) {
  Archive a = two();
  size_t c = central(&a), b = c + CENTRAL_B;
  damaged(c, 0, 4, "directory is damaged");
  damaged(b, 0, 4, "directory is damaged");
  damaged(b + 28, 0xffff, 2, "cut short");
  damaged(c + 8, 1, 2, "encrypted");
  damaged(c + 10, 12, 2, "method 12");
  damaged(c + 10, 8, 2, "disagree");
  damaged(c + 16, 0, 4, "checksum");
  damaged(b + 16, 0, 4, "checksum");
  damaged(c + 20, 10, 4, "two sizes differ");
  damaged(b + 24, 0x7fffffff, 4, "claims 2147483647 bytes");
  damaged(b + 24, 2000, 4, "its header asks for 2070 bytes, the archive says 2000");
  damaged(b + 24, 3000, 4, "compressed data is damaged");
  damaged(b + 20, 10, 4, "compressed data is damaged");
  damaged(b + 20, 0x7fffff, 4, "reaches beyond");
  damaged(b + 24, 0xffffffff, 4, "zip64 field is missing");
  damaged(b + 42, 0xffffffff, 4, "zip64 field is missing");
  damaged(b + 42, 0xfffffffe, 4, "no local header");
  damaged(b + 42, 5, 4, "no local header");
  damaged(b + 42, c, 4, "no local header");
  damaged(c + 46, '!', 1, "disagree");
  damaged(c + 46 + 4, 'x', 1, "not an npy file");
  damaged(c + 46, 0, 1, "not UTF-8");
  damaged(c + 46, 0xff, 1, "not UTF-8");
  damaged(local_b(&a), 0, 4, "no local header");
  damaged(local_b(&a) + 28, 0xffff, 2, "reaches beyond");
  damaged(local_b(&a) + 40, 0xff, 1, "compressed data is damaged");
}

static void malformed_contents(void) {
  uint8_t npy[4096];
  size_t n = npy_of(npy, 3, 1);
  Archive a = {.n = 0};
  add(&a, "a.npy", npy, n, 0);
  add(&a, "a.npy", npy, n, 0);
  finish(&a);
  refuses(&a, "two members are named \"a\"");
  a = (Archive){.n = 0};
  add(&a, "dir/", npy, 0, 0);
  finish(&a);
  refuses(&a, "not an npy file");
  a = (Archive){.n = 0};
  add(&a, ".npy", npy, n, 0);
  finish(&a);
  refuses(&a, "not an npy file");
  a = (Archive){.n = 0};
  add(&a, "a.npy", npy, n - 1, 8);
  finish(&a);
  refuses(&a, "its header asks for 80 bytes, the archive says 79");
  a = (Archive){.n = 0};
  add(&a, "a.npy", npy, 0, 8);
  finish(&a);
  refuses(&a, "empty");
}

/* Two directory entries for the same bytes: the trick of zip bombs. */
static void overlaps_are_refused(void) {
  Archive a = {.n = 0};
  uint8_t npy[4096], inner[4096];
  size_t n = npy_of(npy, 3, 1);
  Archive hidden = {.n = 0};
  add(&hidden, "b.npy", npy, n, 0);
  memcpy(inner, hidden.data, hidden.n);
  add(&a, "a.npy", inner, hidden.n, 0);
  memcpy(a.central + a.n_central, hidden.central, hidden.n_central);
  put(a.central, a.n_central + 42, 30 + 5, 4); /* b's local header is inside a's data */
  a.n_central += hidden.n_central;
  a.members++;
  finish(&a);
  refuses(&a, "members \"a\" and \"b\" overlap");
  a = two();
  memcpy(a.data + central(&a) + CENTRAL_B, a.data + central(&a), CENTRAL_B); /* the same entry twice */
  refuses(&a, "overlap");
}

static Tensor ramp(DType type, int rank, const int64_t *dims) {
  Tensor t;
  CHECK(tensor_alloc(&t, type, rank, dims));
  for (size_t i = 0; i < t.bytes; i++) ((uint8_t *)t.data)[i] = type == DT_bool ? i % 2 : (uint8_t)(i * 37 + 1);
  return t;
}

static void archives_go_round(void) {
  for (int zip64 = 0; zip64 < 2; zip64++) {
    const char *path = temp_path("round.npz");
    NpzWriter *w = npz_writer_open(diags, path);
    if (zip64) npz_writer_force_zip64(w);
    for (int type = 0; type < DT_COUNT; type++) {
      Tensor t = ramp((DType)type, 2, (int64_t[]){type, 5});
      CHECK(npz_writer_add(w, arena_printf(arena, "layer.%s/\xc3\xa9", dtype_name((DType)type)), &t));
      tensor_free(&t);
    }
    CHECK(npz_writer_finish(w));
    Npz *z = npz_open(diags, path);
    CHECK(z && z->n == DT_COUNT);
    for (int type = 0; z && type < DT_COUNT; type++) {
      Tensor t = ramp((DType)type, 2, (int64_t[]){type, 5}), u = {0};
      const NpzMember *m = npz_find(z, arena_printf(arena, "layer.%s/\xc3\xa9", dtype_name((DType)type)));
      CHECK(m && npz_read(z, m, &u));
      tensor_settle(&u, t.dtype);
      CHECK(u.dtype == t.dtype && tensor_same_shape(&t, &u));
      CHECK(u.data && memcmp(u.data, t.data, t.bytes) == 0);
      CHECK((uintptr_t)u.data % dtype_bytes(u.dtype) == 0);
      tensor_free(&t);
      tensor_free(&u);
    }
    npz_close(z);
  }
  CHECK(diags->n == 0);
}

static void many_members(void) {
  enum { N = 66000 }; /* more than 16 bits count: zip64 end record */
  const char *path = temp_path("many.npz");
  NpzWriter *w = npz_writer_open(diags, path);
  for (int32_t i = 0; i < N; i++) {
    Tensor t = tensor_view(DT_i32, 0, NULL, &i);
    npz_writer_add(w, arena_printf(arena, "t%d", i), &t);
  }
  CHECK(npz_writer_finish(w));
  Npz *z = npz_open(diags, path);
  CHECK(z && z->n == N);
  for (int32_t i = 0; z && i < N; i += 997) {
    Tensor t;
    CHECK(npz_read(z, npz_find(z, arena_printf(arena, "t%d", i)), &t) && *(int32_t *)t.data == i);
    tensor_free(&t);
  }
  npz_close(z);
}

static void writing_is_deterministic_and_safe(void) {
  const char *path = temp_path("d.npz");
  uint64_t size[2] = {0};
  char *bytes[2];
  Tensor t = ramp(DT_f32, 1, (int64_t[]){10});
  for (int i = 0; i < 2; i++) {
    NpzWriter *w = npz_writer_open(diags, path);
    CHECK(npz_writer_add(w, "x", &t) && npz_writer_finish(w));
    FileMap map;
    CHECK(file_map(diags, path, &map));
    size[i] = map.size;
    bytes[i] = arena_strndup(arena, (const char *)map.data, map.size);
    file_unmap(&map);
  }
  CHECK(size[0] == size[1] && memcmp(bytes[0], bytes[1], size[0]) == 0);
  static const char *const wrong[] = {"", "\xff", "twice"};
  for (int i = 0; i < 3; i++) {
    NpzWriter *w = npz_writer_open(diags, path);
    if (i == 2) CHECK(npz_writer_add(w, "twice", &t));
    CHECK(npz_writer_add(w, wrong[i], &t) == (i == 2));
    CHECK(!npz_writer_finish(w));
    CHECK(diags->errors == 1 && diags->items[0].code == DIAG_tensor_format);
    diags = diags_new(arena);
  }
  Npz *z = npz_open(diags, path); /* the old one */
  CHECK(z && z->n == 1 && npz_find(z, "x"));
  npz_close(z);
  tensor_free(&t);
}

int main(void) {
  arena = arena_new();
  diags = diags_new(arena);
  RUN(good_archives_are_read);
  RUN(malformed_end_records);
  RUN(malformed_members);
  RUN(malformed_contents);
  RUN(overlaps_are_refused);
  RUN(archives_go_round);
  RUN(many_members);
  RUN(writing_is_deterministic_and_safe);
  arena_free(arena);
  return test_summary();
}
