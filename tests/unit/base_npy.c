/* npy files: numpy's variants, round trips, and malformed ones. */
#include <stdint.h>

#include "base/file.h"
#include "base/npy.h"
#include "tests/temp.h"
#include "tests/test.h"

static Arena *arena;
static Diags *diags;

typedef struct Bytes {
  uint8_t data[2048];
  size_t n;
} Bytes;

/* A file of the given version with that header text, and n bytes of data. */
static Bytes file(int version, const char *header, const void *data, size_t n) {
  Bytes b = {.n = 0};
  size_t length = strlen(header);
  memcpy(b.data, "\x93NUMPY", 6);
  b.data[6] = (uint8_t)version;
  b.data[8] = (uint8_t)length;
  b.data[9] = (uint8_t)(length >> 8);
  b.n = version == 1 ? 10 : 12;
  memcpy(b.data + b.n, header, length);
  b.n += length;
  if (n) memcpy(b.data + b.n, data, n);
  b.n += n;
  return b;
}

static bool reads(const Bytes *b, Tensor *t) {
  bool ok = npy_read_memory(diags, "x.npy", b->data, b->n, t);
  CHECK(ok == (diags->errors == 0));
  for (size_t i = 0; i < diags->n; i++) fprintf(stderr, "%s\n", diags->items[i].message);
  diags = diags_new(arena);
  return ok;
}

static void refuses(const Bytes *b, const char *part) {
  Tensor t = {.rank = 77};
  CHECKF(!npy_read_memory(diags, "x.npy", b->data, b->n, &t), "%s", part);
  CHECK(t.rank == 0 && !t.data);
  CHECK(diags->errors == 1 && diags->n == 1);
  if (diags->n) {
    CHECK(diags->items[0].code == DIAG_npy);
    CHECK_STR(diags->items[0].loc.file, "x.npy");
    CHECKF(strstr(diags->items[0].message, part), "\"%s\" lacks \"%s\"", diags->items[0].message, part);
  }
  diags = diags_new(arena);
}

static const int32_t six[] = {1, 2, 3, 4, 5, 6};

static void check_six(const Bytes *b, int rank, int64_t d0, int64_t d1) {
  Tensor t;
  if (!reads(b, &t)) {
    CHECKF(false, "%.40s", (const char *)b->data + 10);
    return;
  }
  CHECK(t.dtype == DT_i32 && t.rank == rank && t.dims[0] == d0 && (rank < 2 || t.dims[1] == d1));
  CHECK(memcmp(t.data, six, sizeof six) == 0 && (uintptr_t)t.data % 4 == 0);
  tensor_free(&t);
}

static void headers_vary(void) {
  static const struct {
    int version;
    const char *header;
    int rank;
    int64_t d0, d1;
  } rows[] = {
      {1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }          \n", 2, 2, 3},
      {2, "{'descr': '<i4', 'fortran_order': False, 'shape': (6,), }\n", 1, 6, 0},
      {3, "{'shape':(2,3),'fortran_order':False,'descr':'<i4'}", 2, 2, 3},
      {1, " { \"descr\" : \"<i4\" , \"fortran_order\" : True , \"shape\" : ( 6 , ) } \t\n", 1, 6, 0},
      {1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2L, 3L), }\n", 2, 2, 3},
      {1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3,), }", 2, 2, 3},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Bytes b = file(rows[i].version, rows[i].header, six, sizeof six);
    check_six(&b, rows[i].rank, rows[i].d0, rows[i].d1);
  }
}

static void fortran_order_is_transposed(void) {
  static const int32_t columns[] = {1, 4, 2, 5, 3, 6};
  Bytes b = file(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }", columns, sizeof columns);
  check_six(&b, 2, 2, 3);
  uint8_t from[2 * 3 * 4 * 5]; /* element (i,j,k,l) at i + 2j + 6k + 24l holds its row-major index */
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 3; j++)
      for (int k = 0; k < 4; k++)
        for (int l = 0; l < 5; l++) from[i + 2 * j + 6 * k + 24 * l] = (uint8_t)(((i * 3 + j) * 4 + k) * 5 + l);
  Tensor t;
  b = file(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 4, 5), }", from, sizeof from);
  CHECK(reads(&b, &t));
  for (size_t i = 0; i < t.bytes; i++) CHECK(((uint8_t *)t.data)[i] == i);
  tensor_free(&t);
  b = file(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 0, 5), }", NULL, 0);
  CHECK(reads(&b, &t) && t.bytes == 0 && t.rank == 3);
  tensor_free(&t);
}

static void malformed_files_are_refused(void) {
#define HEADER(descr, order, shape) "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }"
  static const struct {
    const char *header, *part;
  } rows[] = {
      {HEADER("'>i4'", "False", "(2, 3)"), "big-endian"},
      {HEADER("'|O'", "False", "(2, 3)"), "Python objects"},
      {HEADER("'<U6'", "False", "(2, 3)"), "strings"},
      {HEADER("'|S4'", "False", "(2, 3)"), "strings"},
      {HEADER("'<c8'", "False", "(3,)"), "complex"},
      {HEADER("'|V4'", "False", "(6,)"), "V1 and V2"},
      {HEADER("[('a', '<i4')]", "False", "(6,)"), "structured"},
      {HEADER("'<i3'", "False", "(8,)"), "not supported"},
      {HEADER("''", "False", "(8,)"), "not supported"},
      {HEADER("'i4'", "False", "(6,)"), "not supported"},
      {HEADER("'<i4", "False", "(6,)"), "not supported"}, /* the quote closes at fortran_order */
      {HEADER("4", "False", "(6,)"), "quoted string"},
      {HEADER("'<i4'", "0", "(6,)"), "fortran_order"},
      {HEADER("'<i4'", "False", "(7,)"), "the file is truncated: it has 93 bytes, its header and shape ask for 97"},
      {HEADER("'<i4'", "False", "(5,)"), "asks for 20 bytes"},
      {HEADER("'<i4'", "False", "()"), "asks for 4 bytes"},
      {HEADER("'<i4'", "False", "(6)"), "not a tuple"},
      {HEADER("'<i4'", "False", "6"), "'('"},
      {HEADER("'<i4'", "False", "(2 3)"), "not a tuple"},
      {HEADER("'<i4'", "False", "(-2, -3)"), "non-negative"},
      {HEADER("'<i4'", "False", "(2, 3.0)"), "non-negative"},
      {HEADER("'<i4'", "False", "(,)"), "non-negative"},
      {HEADER("'<i4'", "False", "(2, 3"), "non-negative"},
      {HEADER("'<i4'", "False", "(1,1,1,1,1,1,1,2,3)"), "more than 8 dimensions"},
      {HEADER("'<i4'", "False", "(1152921504606846976,)"), "shape ask for 4611686018427387989"},
      {HEADER("'<i4'", "False", "(4294967296, 4294967296)"), "too large"},
      {HEADER("'<i4'", "False", "(0, 4294967296, 4294967296)"), "too large"},
      {HEADER("'<i4'", "False", "(99999999999999999999,)"), "over 2^63"},
      {"{'descr': '<i4', 'fortran_order': False}", "lacks 'shape'"},
      {"{'fortran_order': False, 'shape': (6,)}", "lacks 'descr'"},
      {"{'descr': '<i4', 'shape': (6,)}", "lacks 'fortran_order'"},
      {"{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, 'shape': (6,)}", "twice"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (6,), 'more': 1}", "unknown key \"more\""},
      {"{'descr': '<i4' 'fortran_order': False, 'shape': (6,)}", "'}'"},
      {"{'descr'= '<i4', 'fortran_order': False, 'shape': (6,)}", "':'"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (6,)} x", "goes on"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (6,)", "nothing"},
      {"", "nothing"},
      {"\x01\x02", "\"\\x01\""},
      {"{", "quoted string"},
      {"{'", "does not end"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Bytes b = file(1 + (int)(i % 3), rows[i].header, six, sizeof six);
    refuses(&b, rows[i].part);
  }
  Bytes b = file(1, HEADER("'|b1'", "False", "(3,)"), "\0\1\2", 3);
  refuses(&b, "neither 0 nor 1");
}

static void damaged_beginnings_are_refused(void) {
  Bytes good = file(1, HEADER("'<i4'", "False", "(6,)"), six, sizeof six), b = good;
  for (size_t n = 0; n < good.n; n++) { /* truncated anywhere */
    Tensor t;
    uint8_t *copy = malloc(n ? n : 1);
    memcpy(copy, good.data, n);
    CHECKF(!npy_read_memory(diags, "x.npy", copy, n, &t), "%zu bytes", n);
    free(copy);
  }
  CHECK(diags->errors == good.n);
  diags = diags_new(arena);
  b.n = 0;
  refuses(&b, "empty");
  b = good;
  b.data[0] = 'N';
  refuses(&b, "magic");
  b = good;
  b.data[6] = 4;
  refuses(&b, "version 4.0");
  b = good;
  b.data[7] = 1;
  refuses(&b, "version 1.1");
  b = good;
  b.data[9] = 0xff;
  refuses(&b, "truncated");
  b = file(2, HEADER("'<i4'", "False", "(6,)"), six, sizeof six);
  b.data[11] = 0xff;
  refuses(&b, "truncated");
}

static void every_type_goes_round(void) {
  static const int64_t shapes[][3] = {{2, 3, 4}, {7}, {0, 5}, {0}};
  static const int ranks[] = {3, 1, 2, 0};
  for (int type = 0; type < DT_COUNT; type++)
    for (size_t k = 0; k < 4; k++) {
      Tensor t, u;
      const char *path = temp_path("round.npy");
      CHECK(tensor_alloc(&t, (DType)type, ranks[k], shapes[k]));
      for (size_t i = 0; i < t.bytes; i++) ((uint8_t *)t.data)[i] = type == DT_bool ? i % 2 : (uint8_t)(i * 37);
      CHECK(npy_write(diags, path, &t) && npy_read(diags, path, &u));
      CHECK(u.raw == (type == DT_bf16 || !dtype_computes((DType)type)));
      tensor_settle(&u, (DType)type);
      CHECK(u.dtype == t.dtype && tensor_same_shape(&t, &u) && u.bytes == t.bytes);
      CHECK(u.data && memcmp(u.data, t.data, t.bytes) == 0 && (uintptr_t)u.data % 64 == 0);
      CHECK(u.release && u.owner != u.data); /* borrowed from the mapping, not copied */
      tensor_free(&t);
      tensor_free(&u);
    }
  CHECK(diags->n == 0);
}

static void files_are_named_in_errors(void) {
  const char *path = temp_path("broken.npy");
  Tensor t;
  temp_write(path, "nothing", 7);
  CHECK(!npy_read(diags, path, &t) && diags->errors == 1);
  CHECK_STR(diags->items[0].loc.file, path);
  CHECK(!npy_read(diags, temp_path("absent.npy"), &t) && diags->errors == 2);
  CHECK(diags->items[1].code == DIAG_file_read);
  diags = diags_new(arena);
}

int main(void) {
  arena = arena_new();
  diags = diags_new(arena);
  RUN(headers_vary);
  RUN(fortran_order_is_transposed);
  RUN(malformed_files_are_refused);
  RUN(damaged_beginnings_are_refused);
  RUN(every_type_goes_round);
  RUN(files_are_named_in_errors);
  arena_free(arena);
  return test_summary();
}
