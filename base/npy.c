/* base/npy.c - see npy.h.
 *
 * A file is "\x93NUMPY", two version bytes, the header's length (2 bytes in version 1, else 4), the header (a Python
 * dict literal with exactly the keys descr, fortran_order, shape) and the data.
 */
#include "base/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"

typedef struct NpyType {
  const char *name;
  DType dtype;
} NpyType;

/* numpy's names, with the "<" or "|" that numpy writes. */
static const NpyType npy_types[] = {
    {"<f4", DT_f32}, {"<f8", DT_f64}, {"<f2", DT_f16}, {"|i1", DT_i8},  {"<i2", DT_i16}, {"<i4", DT_i32},
    {"<i8", DT_i64}, {"|u1", DT_u8},  {"<u2", DT_u16}, {"<u4", DT_u32}, {"<u8", DT_u64}, {"|b1", DT_bool},
};
#define NPY_TYPES (sizeof npy_types / sizeof *npy_types)

/* Those that numpy writes as raw bytes, by their names in ml_dtypes. */
static const NpyType ml_types[] = {
    {"bfloat16", DT_bf16},
    {"float8_e4m3fn", DT_f8e4m3fn},
    {"float8_e4m3fnuz", DT_f8e4m3fnuz},
    {"float8_e5m2", DT_f8e5m2},
    {"float8_e5m2fnuz", DT_f8e5m2fnuz},
    {"float8_e8m0fnu", DT_f8e8m0},
    {"float4_e2m1fn", DT_f4e2m1},
    {"int4", DT_i4},
    {"uint4", DT_u4},
    {"int2", DT_i2},
    {"uint2", DT_u2},
};
#define ML_TYPES (sizeof ml_types / sizeof *ml_types)
_Static_assert(NPY_TYPES + ML_TYPES == DT_COUNT, "an element type without a name");

typedef struct Reader {
  Diags *diags;
  const char *name;
  const char *at, *end; /* the rest of the header */
  bool have_descr, have_order, have_shape;
  bool fortran;
  bool raw;
  DType dtype;
  int rank;
  int64_t dims[TENSOR_MAX_RANK];
} Reader;

#define BAD(r, ...) diag_error((r)->diags, DIAG_npy, file_loc((r)->diags, (r)->name), __VA_ARGS__)

/* Quotes text of the file for printing; at most 40 bytes. */
static const char *shown(Reader *r, const char *s, size_t n) {
  Text t = {.arena = r->diags->arena};
  text_quoted(&t, arena_strndup(r->diags->arena, s, n < 40 ? n : 40));
  return text_str(&t);
}

static void skip_space(Reader *r) {
  while (r->at < r->end && strchr(" \t\n\r", *r->at) && *r->at) r->at++;
}

/* Skips spaces, then takes `c` if it is next. */
static bool take(Reader *r, char c) {
  skip_space(r);
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

static bool take_word(Reader *r, const char *word) {
  size_t n = strlen(word);
  skip_space(r);
  if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return false;
  r->at += n;
  return true;
}

static bool expect(Reader *r, char c) {
  if (take(r, c)) return true;
  return BAD(r, "the header has %s where '%c' is expected", r->at == r->end ? "nothing" : shown(r, r->at, 1), c);
}

static bool parse_string(Reader *r, const char **s, size_t *n) {
  skip_space(r);
  char quote = r->at < r->end ? *r->at : 0;
  if (quote != '\'' && quote != '"') return BAD(r, "the header lacks a quoted string where one is expected");
  const char *close = memchr(r->at + 1, quote, (size_t)(r->end - r->at - 1));
  if (!close) return BAD(r, "the header has a string that does not end");
  *s = r->at + 1;
  *n = (size_t)(close - *s);
  r->at = close + 1;
  return true;
}

static bool unknown_type(Reader *r, const char *s, size_t n) {
  const char *type = shown(r, s, n);
  char order = n ? s[0] : 0, kind = n > 1 ? s[1] : 0;
  if (order == '>') return BAD(r, "the data is big-endian (%s); only little-endian data is read", type);
  if (kind == 'O') return BAD(r, "the array holds Python objects (%s), which are never loaded", type);
  if (kind == 'U' || kind == 'S') return BAD(r, "the array holds strings (%s), not numbers", type);
  if (kind == 'c') return BAD(r, "complex numbers (%s) are not supported", type);
  if (kind == 'V')
    return BAD(r, "the array holds raw bytes (%s); only V1 and V2, as numpy writes types of ml_dtypes, are read", type);
  return BAD(r, "element type %s is not supported", type);
}

/* Finds a type of ml_dtypes by its name, or by what numpy writes: V1, V2, and f1, which it cannot load itself. */
static bool find_ml_type(Reader *r, const char *s, size_t n) {
  for (size_t i = 0; i < ML_TYPES; i++)
    if (n == strlen(ml_types[i].name) && memcmp(s, ml_types[i].name, n) == 0) {
      r->dtype = ml_types[i].dtype;
      return true;
    }
  if (n != 3 || (s[0] != '<' && s[0] != '|')) return false;
  r->raw = s[1] == 'V' && (s[2] == '1' || s[2] == '2');
  r->dtype = s[1] == 'f' ? DT_f8e5m2 : s[2] == '1' ? DT_f8e4m3fn : DT_bf16;
  return r->raw || memcmp(s + 1, "f1", 2) == 0;
}

static bool parse_descr(Reader *r) {
  const char *s;
  size_t n;
  skip_space(r);
  if (r->at < r->end && (*r->at == '[' || *r->at == '(')) return BAD(r, "structured element types are not supported");
  if (!parse_string(r, &s, &n)) return false;
  for (size_t i = 0; i < NPY_TYPES; i++) {
    const char *name = npy_types[i].name;
    bool order = n == 3 && (s[0] == name[0] || (name[0] == '|' && s[0] == '<'));
    if (order && memcmp(s + 1, name + 1, 2) == 0) {
      r->dtype = npy_types[i].dtype;
      return true;
    }
  }
  return find_ml_type(r, s, n) || unknown_type(r, s, n);
}

static bool parse_order(Reader *r) {
  r->fortran = take_word(r, "True");
  if (r->fortran || take_word(r, "False")) return true;
  return BAD(r, "fortran_order is neither True nor False");
}

static bool parse_dim(Reader *r, int64_t *dim) {
  const char *digits = r->at;
  *dim = 0;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
    if (__builtin_mul_overflow(*dim, 10, dim) || __builtin_add_overflow(*dim, *r->at - '0', dim))
      return BAD(r, "a dimension in the shape is over 2^63");
  if (r->at == digits) return BAD(r, "the shape is not a tuple of non-negative integers");
  if (r->at < r->end && *r->at == 'L') r->at++; /* Python 2 */
  return true;
}

static bool parse_shape(Reader *r) {
  if (!expect(r, '(')) return false;
  for (bool comma = true; !take(r, ')');) {
    if (!comma) return BAD(r, "the shape is not a tuple of non-negative integers");
    if (r->rank == TENSOR_MAX_RANK) return BAD(r, "the array has more than %d dimensions", TENSOR_MAX_RANK);
    if (!parse_dim(r, &r->dims[r->rank++])) return false;
    comma = take(r, ',');
    if (!comma && r->rank == 1) return BAD(r, "the shape is a number, not a tuple");
  }
  return true;
}

static bool parse_entry(Reader *r) {
  static const struct {
    const char *key;
    bool (*parse)(Reader *);
    size_t seen;
  } keys[] = {{"descr", parse_descr, offsetof(Reader, have_descr)},
              {"fortran_order", parse_order, offsetof(Reader, have_order)},
              {"shape", parse_shape, offsetof(Reader, have_shape)}};
  const char *s;
  size_t n;
  if (!parse_string(r, &s, &n) || !expect(r, ':')) return false;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strlen(keys[i].key) == n && memcmp(keys[i].key, s, n) == 0) {
      bool *seen = (bool *)((char *)r + keys[i].seen);
      if (*seen) return BAD(r, "the header has the key %s twice", shown(r, s, n));
      *seen = true;
      return keys[i].parse(r);
    }
  return BAD(r, "the header has an unknown key %s", shown(r, s, n));
}

static bool parse_header(Reader *r) {
  if (!expect(r, '{')) return false;
  while (!take(r, '}')) {
    if (!parse_entry(r)) return false;
    if (take(r, ',')) continue;
    if (!expect(r, '}')) return false;
    break;
  }
  skip_space(r);
  if (r->at != r->end) return BAD(r, "the header goes on after its closing brace");
  const char *missing = !r->have_descr ? "descr" : !r->have_order ? "fortran_order" : "shape";
  if (!r->have_descr || !r->have_order || !r->have_shape) return BAD(r, "the header lacks '%s'", missing);
  return true;
}

/* Sets `at` and `end` to the header's text, and *data to where the header ends. */
static bool find_header(Reader *r, const uint8_t *bytes, size_t n, size_t *data) {
  if (n == 0) return BAD(r, "the file is empty");
  if (memcmp(bytes, "\x93NUMPY", n < 6 ? n : 6) != 0) return BAD(r, "this is not an npy file: the magic is missing");
  if (n < 12) return BAD(r, "the file is truncated: it ends inside its first 12 bytes, after %zu", n);
  unsigned major = bytes[6], minor = bytes[7];
  if (major < 1 || major > 3 || minor != 0) return BAD(r, "npy version %u.%u is not known", major, minor);
  size_t length = bytes[8] | (size_t)bytes[9] << 8, start = 10;
  if (major > 1) {
    length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    start = 12;
  }
  if (length > n - start)
    return BAD(r, "the file is truncated: it has %zu bytes, its header alone takes %zu", n, start + length);
  r->at = (const char *)bytes + start;
  r->end = r->at + length;
  *data = start + length;
  return true;
}

static void copy_element(uint8_t *to, const uint8_t *from, size_t bytes) {
  switch (bytes) {
    case 1: *to = *from; return;
    case 2: memcpy(to, from, 2); return;
    case 4: memcpy(to, from, 4); return;
    default: memcpy(to, from, 8); return;
  }
}

/* Copies column-major `from` into row-major t: visits t in order and keeps the source offset of its indices. */
static void transpose(const Tensor *t, const uint8_t *from) {
  size_t size = dtype_bytes(t->dtype), stride[TENSOR_MAX_RANK], offset = 0;
  int64_t index[TENSOR_MAX_RANK] = {0};
  stride[0] = size;
  for (int i = 1; i < t->rank; i++) stride[i] = stride[i - 1] * (size_t)t->dims[i - 1];
  for (uint8_t *to = t->data, *end = to + t->bytes; to < end; to += size) {
    copy_element(to, from + offset, size);
    for (int i = t->rank - 1; i >= 0; i--) {
      offset += stride[i];
      if (++index[i] < t->dims[i]) break;
      offset -= stride[i] * (size_t)t->dims[i];
      index[i] = 0;
    }
  }
}

/* Makes the tensor from complete data: a view if its layout allows, else a copy. */
static bool make_tensor(Reader *r, const uint8_t *data, size_t bytes, Tensor *out) {
  bool transposed = r->fortran && r->rank > 1;
  if (!transposed && (uintptr_t)data % dtype_bytes(r->dtype) == 0) {
    *out = tensor_view(r->dtype, r->rank, r->dims, data);
  } else {
    if (!tensor_alloc(out, r->dtype, r->rank, r->dims)) return file_no_memory(r->diags, r->name, bytes);
    if (transposed) transpose(out, data);
    else memcpy(out->data, data, bytes);
  }
  out->raw = r->raw;
  if (tensor_bools_valid(out)) return true;
  tensor_free(out);
  return BAD(r, "bool data has a byte that is neither 0 nor 1");
}

bool npy_read_header(Diags *d, const char *name, const void *bytes, size_t n, Tensor *out, uint64_t *whole) {
  Reader r = {.diags = d, .name = name};
  size_t start = 0, want = 0;
  *out = (Tensor){0};
  if (!find_header(&r, bytes, n, &start) || !parse_header(&r)) return false;
  if (!tensor_size(r.dtype, r.rank, r.dims, &want)) return BAD(&r, "the shape is too large");
  *out = (Tensor){.dtype = r.dtype, .raw = r.raw, .rank = r.rank, .bytes = want};
  memcpy(out->dims, r.dims, sizeof r.dims);
  *whole = (uint64_t)start + want;
  return true;
}

bool npy_read_memory(Diags *d, const char *name, const void *bytes, size_t n, Tensor *out) {
  Reader r = {.diags = d, .name = name};
  size_t start = 0, want = 0;
  *out = (Tensor){0};
  if (!find_header(&r, bytes, n, &start) || !parse_header(&r)) return false;
  if (!tensor_size(r.dtype, r.rank, r.dims, &want)) return BAD(&r, "the shape is too large");
  if (want > n - start)
    return BAD(&r, "the file is truncated: it has %zu bytes, its header and shape ask for %zu", n, start + want);
  if (want < n - start) return BAD(&r, "the shape asks for %zu bytes of data, the file has %zu", want, n - start);
  return make_tensor(&r, (const uint8_t *)bytes + start, want, out);
}

bool npy_read_file_header(Diags *d, const char *path, Tensor *out) {
  FileParts f;
  uint64_t whole;
  *out = (Tensor){0};
  if (!file_parts_open(d, path, &f)) return false;
  Reader r = {.diags = d, .name = path};
  size_t n = f.size < NPY_HEADER_ROOM ? (size_t)f.size : NPY_HEADER_ROOM;
  void *begin = malloc(n + 1);
  bool ok = begin ? file_parts_read(d, path, &f, 0, begin, n) : file_no_memory(d, path, n + 1);
  ok = ok && npy_read_header(d, path, begin, n, out, &whole);
  if (ok && whole > f.size)
    ok = BAD(&r, "the file is truncated: it has %llu bytes, its header and shape ask for %llu",
             (unsigned long long)f.size, (unsigned long long)whole);
  if (ok && whole < f.size)
    ok = BAD(&r, "the shape asks for %zu bytes of data, the file has %llu", out->bytes,
             (unsigned long long)(f.size - (whole - out->bytes)));
  free(begin);
  file_parts_close(&f);
  return ok;
}

static void release_map(void *owner, size_t owner_bytes) {
  FileMap map = {.data = owner, .size = owner_bytes};
  file_unmap(&map);
}

static void release_copy(void *owner, size_t owner_bytes) {
  FileMap map = {.data = owner, .size = owner_bytes, .copied = true};
  file_unmap(&map);
}

bool npy_read(Diags *d, const char *path, Tensor *out) {
  FileMap map;
  *out = (Tensor){0};
  if (!file_take(d, path, &map)) return false;
  bool ok = npy_read_memory(d, path, map.data, map.size, out);
  if (!ok || out->release) { /* failed, or copied */
    file_unmap(&map);
    return ok;
  }
  out->release = map.copied ? release_copy : release_map;
  out->owner = (void *)(uintptr_t)map.data;
  out->owner_bytes = map.size;
  return true;
}

void npy_header(const Tensor *t, uint64_t offset, char header[NPY_HEADER_MAX], size_t *n) {
  const char *type = dtype_bytes(t->dtype) == 1 ? "|V1" : "|V2";
  for (size_t i = 0; i < NPY_TYPES; i++)
    if (npy_types[i].dtype == t->dtype) type = npy_types[i].name;
  char *at = header + 10, *end = header + NPY_HEADER_MAX;
  at += snprintf(at, (size_t)(end - at), "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
  for (int i = 0; i < t->rank; i++)
    at += snprintf(at, (size_t)(end - at), "%s%lld", i ? ", " : "", (long long)t->dims[i]);
  at += snprintf(at, (size_t)(end - at), "%s), }", t->rank == 1 ? "," : "");
  while ((offset + (uint64_t)(at - header) + 1) % 64 != 0) *at++ = ' ';
  *at++ = '\n';
  size_t length = (size_t)(at - header) - 10;
  memcpy(header, "\x93NUMPY\x01\x00", 8);
  header[8] = (char)(length & 0xff);
  header[9] = (char)(length >> 8);
  *n = length + 10;
}

bool npy_write(Diags *d, const char *path, const Tensor *t) {
  char header[NPY_HEADER_MAX];
  size_t n;
  npy_header(t, 0, header, &n);
  FileWriter *w = file_writer_open(d, path, 0666);
  if (!w) return false;
  file_writer_add(w, header, n);
  file_writer_add(w, t->data, t->bytes);
  return file_writer_finish(w);
}
