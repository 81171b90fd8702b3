/* safetensors files: good ones in their variants, round trips, malformed ones. */
#include <stdint.h>

#include "base/checksum.h"
#include "base/safetensors_sums.h"
#include "tests/temp.h"
#include "tests/test.h"

static Arena *arena;
static Diags *diags;

/* Opens and decodes an exact copy: length, header, `data` bytes counting 0, 1, 2 ... */
static bool decodes(const char *header, uint64_t length, size_t data) {
  size_t used = strlen(header), n = 8 + used + data;
  uint8_t *copy = malloc(n);
  memcpy(copy, &length, 8);
  memcpy(copy + 8, header, used);
  for (size_t i = 0; i < data; i++) copy[8 + used + i] = (uint8_t)i;
  Safetensors *s = safetensors_open_memory(diags, "x.safetensors", copy, n);
  bool ok = s != NULL;
  for (size_t i = 0; s && i < s->n; i++) {
    Tensor t;
    bool read = safetensors_read(s, &s->items[i], &t);
    if (read) {
      CHECK((uintptr_t)t.data % dtype_bytes(t.dtype) == 0);
      CHECK(memcmp(t.data, copy + s->items[i].offset, t.bytes) == 0);
    }
    tensor_free(&t);
    ok = ok && read;
  }
  safetensors_close(s);
  free(copy);
  CHECK(ok == (diags->errors == 0));
  return ok;
}

static void refuses(const char *header, uint64_t length, size_t data, const char *part) {
  CHECKF(!decodes(header, length, data), "%s", header);
  if (diags->n) {
    const Diag *g = &diags->items[0];
    CHECK(diags->errors == 1 && g->code == DIAG_safetensors);
    CHECK_STR(g->loc.file, "x.safetensors");
    CHECKF(strstr(g->message, part), "\"%s\" lacks \"%s\"", g->message, part);
  }
  diags = diags_new(arena);
}

#define ONE(dtype, shape, range) "{\"a\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" range "}}"
#define PAIR(range_a, range_b) \
  "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" range_a \
  "}," \
  "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" range_b "}}"

static void good_files_are_read(void) {
  static const struct {
    const char *header;
    size_t data;
  } rows[] = {
      {"{}", 0},
      {"{}      ", 0},
      {"{\"__metadata__\":{\"k\":\"v\"}}", 0},
      {ONE("\"F32\"", "[2,3]", "[0,24]"), 24},
      {ONE("\"F32\"", "[2,3]", "[0,24]") "   ", 24}, /* misaligned: copied */
      {ONE("\"BF16\"", "[]", "[0,2]"), 2},
      {ONE("\"F64\"", "[0]", "[0,0]"), 0},
      {ONE("\"BOOL\"", "[2]", "[0,2]"), 2},
      {PAIR("[0,4]", "[4,8]"), 8},
      {PAIR("[4,8]", "[0,4]"), 8},
      {"{\"e\":{\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[4,4]},"
       "\"a\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
       4},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    CHECKF(decodes(rows[i].header, strlen(rows[i].header), rows[i].data), "%s: %s", rows[i].header,
           diags->n ? diags->items[0].message : "");
}

static void malformed_headers(void) {
  static const struct {
    const char *header;
    size_t data;
    const char *part;
  } rows[] = {
      {"", 0, "does not begin"},
      {" {}", 0, "does not begin"},
      {"[]", 0, "does not begin"},
      {"{", 0, "not JSON"},
      {"{}x", 0, "not JSON"},
      {"{\"a\":1,\"a\":1}", 0, "not JSON"},
      {"{\"a\":\xff}", 0, "not JSON"},
      {"{\"\xc0\x80\":{}}", 0, "not JSON"},
      {"{\"a\":1}", 0, "not described by an object"},
      {"{\"a\":{}}", 0, "no dtype"},
      {"{\"__metadata__\":1}", 0, "not an object"},
      {"{\"__metadata__\":{\"k\":1}}", 0, "not a string"},
      {ONE("1", "[4]", "[0,4]"), 4, "no dtype"},
      {ONE("\"F4\"", "[8]", "[0,4]"), 4, "F4"},
      {ONE("\"f32\"", "[1]", "[0,4]"), 4, "not supported"},
      {ONE("\"F32\"", "1", "[0,4]"), 4, "no shape"},
      {ONE("\"F32\"", "[-1]", "[0,4]"), 4, "non-negative"},
      {ONE("\"F32\"", "[1.0]", "[0,4]"), 4, "non-negative"},
      {ONE("\"F32\"", "[\"1\"]", "[0,4]"), 4, "non-negative"},
      {ONE("\"F32\"", "[99999999999999999999]", "[0,4]"), 4, "not JSON"},
      {ONE("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "9 dimensions"},
      {ONE("\"F32\"", "[1152921504606846976]", "[0,4]"), 4, "asks for 4611686018427387904 bytes"},
      {ONE("\"F32\"", "[4294967296,4294967296]", "[0,4]"), 4, "too large"},
      {ONE("\"F32\"", "[1]", "[0]"), 4, "two integers"},
      {ONE("\"F32\"", "[1]", "[0,4,8]"), 4, "two integers"},
      {ONE("\"F32\"", "[1]", "{}"), 4, "two integers"},
      {ONE("\"F32\"", "[1]", "[0,4.0]"), 4, "two integers"},
      {ONE("\"F32\"", "[1]", "[-4,0]"), 4, "outside"},
      {ONE("\"F32\"", "[1]", "[4,0]"), 4, "outside"},
      {ONE("\"F32\"", "[1]", "[4,8]"), 4, "truncated: it has 66 bytes, its tensors end at 70"},
      {ONE("\"F32\"", "[1]", "[9223372036854775803,9223372036854775807]"), 4, "outside"},
      {ONE("\"F32\"", "[1]", "[0,3]"), 4, "range has 3"},
      {ONE("\"F32\"", "[2]", "[0,4]"), 4, "asks for 8 bytes"},
      {ONE("\"F32\"", "[1]", "[4,8]"), 8, "4 bytes before tensor \"a\""},
      {ONE("\"F32\"", "[1]", "[0,4]"), 8, "last 4 bytes"},
      {ONE("\"F32\"", "[1]", "[0,4],\"more\":1"), 4, "unknown field \"more\""},
      {ONE("\"BOOL\"", "[3]", "[0,3]"), 3, "neither 0 nor 1"},
      {PAIR("[0,4]", "[0,4]"), 4, "overlap"},
      {PAIR("[0,4]", "[3,7]"), 7, "overlap"},
      {PAIR("[0,4]", "[5,9]"), 9, "1 bytes before tensor \"b\""},
      {"{}", 1, "last 1 bytes"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    refuses(rows[i].header, strlen(rows[i].header), rows[i].data, rows[i].part);
}

static void malformed_lengths(void) {
  refuses("{}", 3, 0, "truncated: it has 10 bytes, its header alone takes 11");
  refuses("{}", 0, 0, "does not begin");
  refuses("{}", 1, 0, "not JSON");
  refuses("{}", 100000001, 0, "100 MB");
  refuses("{}", UINT64_MAX, 0, "100 MB");
  for (size_t n = 0; n < 8; n++) CHECK(!safetensors_open_memory(diags, "x", "\2\0\0\0\0\0\0\0{}", n));
  CHECK(diags->errors == 8);
  diags = diags_new(arena);
}

static void deep_nesting_is_refused(void) {
  static char deep[100001];
  memset(deep, '[', sizeof deep - 1);
  memcpy(deep, "{\"a\":", 5);
  refuses(deep, sizeof deep - 1, 0, "not JSON");
}

static void files_go_round(void) {
  enum { NAMED = DT_f4e2m1 }; /* the format has no types of fewer bits, or packs them */
  const char *path = temp_path("round.safetensors");
  NamedTensor tensors[NAMED];
  for (int i = 0; i < NAMED; i++) {
    Tensor *t = &tensors[i].tensor;
    tensors[i].name = arena_printf(arena, "layer.%s.\"\xc3\xa9", dtype_name((DType)i));
    CHECK(tensor_alloc(t, (DType)i, 2, (int64_t[]){i, 3}));
    for (size_t k = 0; k < t->bytes; k++) ((uint8_t *)t->data)[k] = i == DT_bool ? k % 2 : (uint8_t)(k * 7 + 1);
  }
  const SafetensorsMeta meta[] = {{"format", "apc"}, {"step", "12"}};
  CHECK(safetensors_write(diags, path, tensors, NAMED, meta, 2));
  Safetensors *s = safetensors_open(diags, path);
  CHECK(s && s->n == NAMED);
  if (!s) return;
  CHECK_STR(safetensors_meta(s, "step"), "12");
  CHECK(!safetensors_meta(s, "none") && !safetensors_find(s, "none"));
  uint64_t first = UINT64_MAX;
  for (int i = 0; i < NAMED; i++) {
    Tensor u, *t = &tensors[i].tensor;
    const SafetensorsEntry *e = safetensors_find(s, tensors[i].name);
    CHECK(e && safetensors_read(s, e, &u));
    CHECK(u.dtype == t->dtype && tensor_same_shape(&u, t) && memcmp(u.data, t->data, t->bytes) == 0);
    CHECK(!u.release); /* aligned: a view */
    if (e->offset < first) first = e->offset;
    tensor_free(&u);
  }
  CHECK(first % 4096 == 0);
  safetensors_close(s);
  for (int i = 0; i < NAMED; i++) tensor_free(&tensors[i].tensor);
  CHECK(diags->n == 0);
  NamedTensor packed = {"x", tensor_view(DT_i4, 0, NULL, "")};
  CHECK(!safetensors_write(diags, path, &packed, 1, NULL, 0) && diags->errors == 1);
  CHECK(strstr(diags->items[0].message, "no element type for \"x\" of i4"));
  diags = diags_new(arena);
}

static void order_does_not_matter(void) {
  const char *path[2] = {temp_path("1.safetensors"), temp_path("2.safetensors")};
  Tensor f = tensor_view(DT_f32, 1, (int64_t[]){2}, (float[]){1, 2}), b = tensor_view(DT_u8, 0, NULL, "x");
  const NamedTensor forward[] = {{"a", b}, {"b", f}, {"c", f}}, backward[] = {{"c", f}, {"b", f}, {"a", b}};
  CHECK(safetensors_write(diags, path[0], forward, 3, NULL, 0));
  CHECK(safetensors_write(diags, path[1], backward, 3, NULL, 0));
  FileMap x, y;
  CHECK(file_map(diags, path[0], &x) && file_map(diags, path[1], &y));
  CHECK(x.size == y.size && memcmp(x.data, y.data, x.size) == 0);
  file_unmap(&x);
  file_unmap(&y);
  CHECK(safetensors_write(diags, path[0], NULL, 0, NULL, 0));
  Safetensors *s = safetensors_open(diags, path[0]);
  CHECK(s && s->n == 0);
  safetensors_close(s);
}

static void wrong_names_are_refused(void) {
  const char *path = temp_path("names.safetensors");
  Tensor t = tensor_view(DT_u8, 0, NULL, "x");
  CHECK(safetensors_write(diags, path, (NamedTensor[]){{"old", t}}, 1, NULL, 0));
  const NamedTensor rows[][2] = {{{"a", t}, {"a", t}}, {{"a", t}, {"\xff", t}}, {{"a", t}, {"__metadata__", t}}};
  for (size_t i = 0; i < 3; i++) {
    CHECK(!safetensors_write(diags, path, rows[i], 2, NULL, 0));
    CHECK(diags->errors == 1 && diags->items[0].code == DIAG_tensor_format);
    diags = diags_new(arena);
  }
  const SafetensorsMeta meta[][2] = {{{"k", "1"}, {"k", "2"}}, {{"k", "1"}, {"l", "\xff"}}};
  for (size_t i = 0; i < 2; i++) {
    CHECK(!safetensors_write(diags, path, rows[0], 1, meta[i], 2));
    CHECK(diags->errors == 1 && diags->items[0].code == DIAG_tensor_format);
    diags = diags_new(arena);
  }
  Safetensors *s = safetensors_open(diags, path);
  CHECK(s && safetensors_find(s, "old"));
  safetensors_close(s);
}

/* A file with room for checksums gets them, and any byte flipped afterwards is found. */
static void checksums_find_every_byte(void) {
  const char *path = temp_path("sums.safetensors");
  uint8_t a[24], b[7];
  for (size_t i = 0; i < sizeof a; i++) a[i] = (uint8_t)(i * 37 % 5); /* equal elements at several places */
  memset(b, 3, sizeof b);
  const NamedTensor tensors[] = {{"z", tensor_view(DT_f32, 2, (int64_t[]){2, 3}, a)},
                                 {"a", tensor_view(DT_u8, 1, (int64_t[]){7}, b)}};
  const SafetensorsMeta meta[] = {{"steps", "12"}, {SAFETENSORS_SUMS, safetensors_sums_room(arena, 2)}};
  SafetensorsHeader h;
  CHECK(safetensors_header(diags, path, tensors, 2, meta, 2, &h));
  /* in two parts, the second one first */
  uint64_t of_z = checksum_part(4, a + 16, 2, 4) + checksum_part(0, a, 4, 4);
  CHECK(of_z == checksum_part(0, a, 6, 4));
  SafetensorsSum sums[] = {{"z", of_z}, {"a", checksum_part(0, b, 7, 1)}};
  size_t at = safetensors_sums_place(h.bytes, h.n);
  char *text = ARENA_ARRAY(arena, char, safetensors_sums_length(2) + 1);
  safetensors_sums_text(h.bytes, h.n, sums, 2, text);
  CHECK(strlen(text) == safetensors_sums_length(2) && strcmp(sums[0].name, "a") == 0);
  memcpy(h.bytes + at, text, strlen(text));
  char *file = ARENA_ARRAY(arena, char, h.file_bytes);
  memcpy(file, h.bytes, h.n);
  memcpy(file + h.n, a, sizeof a); /* the largest elements come first */
  memcpy(file + h.n + sizeof a, b, sizeof b);
  free(h.bytes);
  int unseen = 0;
  for (size_t flipped = 0; flipped <= h.file_bytes; flipped++) { /* the last round flips none */
    bool padding = flipped > 8 && flipped < h.n && file[flipped] == ' ' && file[flipped - 1] == ' ';
    if (padding && flipped % 512) continue;
    if (flipped < h.file_bytes) file[flipped] ^= 16;
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(file, 1, h.file_bytes, f) == h.file_bytes && fclose(f) == 0);
    Safetensors *s = safetensors_open_header(diags, path, 0, NULL);
    const char *wrong = "";
    SafetensorsChecked found = s ? safetensors_sums_check(s, &wrong) : SUMS_UNREADABLE;
    if (flipped == h.file_bytes) CHECK(found == SUMS_RIGHT);
    else unseen += found == SUMS_RIGHT;
    if (flipped >= h.n && flipped < h.n + sizeof a) CHECK(found == SUMS_WRONG && strcmp(wrong, "z") == 0);
    if (s) safetensors_close(s);
    if (flipped < h.file_bytes) file[flipped] ^= 16;
    if (diags->n) diags = diags_new(arena);
  }
  CHECK(unseen == 0);
}

int main(void) {
  arena = arena_new();
  diags = diags_new(arena);
  RUN(good_files_are_read);
  RUN(malformed_headers);
  RUN(malformed_lengths);
  RUN(deep_nesting_is_refused);
  RUN(files_go_round);
  RUN(order_does_not_matter);
  RUN(wrong_names_are_refused);
  RUN(checksums_find_every_byte);
  arena_free(arena);
  return test_summary();
}
