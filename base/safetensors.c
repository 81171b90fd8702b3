/* base/safetensors.c - see safetensors.h. */
#include "base/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/text.h"

#define HEADER_LIMIT ((uint64_t)100 * 1000 * 1000) /* the reference implementation's */
#define ALIGNMENT 4096u

static const char *const type_names[DT_COUNT] = {
    [DT_f32] = "F32",
    [DT_f64] = "F64",
    [DT_f16] = "F16",
    [DT_bf16] = "BF16",
    [DT_i8] = "I8",
    [DT_i16] = "I16",
    [DT_i32] = "I32",
    [DT_i64] = "I64",
    [DT_u8] = "U8",
    [DT_u16] = "U16",
    [DT_u32] = "U32",
    [DT_u64] = "U64",
    [DT_bool] = "BOOL",
    [DT_f8e4m3fn] = "F8_E4M3",
    [DT_f8e4m3fnuz] = "F8_E4M3FNUZ",
    [DT_f8e5m2] = "F8_E5M2",
    [DT_f8e5m2fnuz] = "F8_E5M2FNUZ",
    [DT_f8e8m0] = "F8_E8M0",
}; /* NULL: the format has no such type, or packs it */

#define BAD(s, ...) diag_error((s)->diags, DIAG_safetensors, file_loc((s)->diags, (s)->path), __VA_ARGS__)

static const char *quoted(Arena *arena, const char *name) {
  Text t = {.arena = arena};
  text_quoted(&t, name);
  return text_str(&t);
}
#define NAME(s, e) quoted((s)->diags->arena, (e)->name)

static bool read_dtype(Safetensors *s, const json_t *value, SafetensorsEntry *e) {
  const char *name = json_string_value(value);
  if (!name) return BAD(s, "tensor %s has no dtype string", NAME(s, e));
  for (int i = 0; i < DT_COUNT; i++)
    if (type_names[i] && strcmp(type_names[i], name) == 0) {
      e->dtype = (DType)i;
      return true;
    }
  return BAD(s, "tensor %s has the element type %s, which is not supported", NAME(s, e), quoted(s->diags->arena, name));
}

static bool read_shape(Safetensors *s, const json_t *shape, SafetensorsEntry *e) {
  if (!json_is_array(shape)) return BAD(s, "tensor %s has no shape array", NAME(s, e));
  size_t rank = json_array_size(shape);
  if (rank > TENSOR_MAX_RANK)
    return BAD(s, "tensor %s has %zu dimensions, more than %d", NAME(s, e), rank, TENSOR_MAX_RANK);
  e->rank = (int)rank;
  for (size_t i = 0; i < rank; i++) {
    const json_t *dim = json_array_get(shape, i);
    if (!json_is_integer(dim) || json_integer_value(dim) < 0)
      return BAD(s, "tensor %s: dimension %zu is not a non-negative integer", NAME(s, e), i);
    e->dims[i] = json_integer_value(dim);
  }
  if (!tensor_size(e->dtype, e->rank, e->dims, &e->bytes))
    return BAD(s, "tensor %s: its shape is too large", NAME(s, e));
  return true;
}

/* `data` is the offset of the data in the file, `size` its length in bytes. */
static bool read_range(Safetensors *s, const json_t *range, uint64_t data, uint64_t size, SafetensorsEntry *e) {
  const json_t *first = json_array_get(range, 0), *last = json_array_get(range, 1);
  if (!json_is_array(range) || json_array_size(range) != 2 || !json_is_integer(first) || !json_is_integer(last))
    return BAD(s, "tensor %s: data_offsets is not an array of two integers", NAME(s, e));
  json_int_t from = json_integer_value(first), to = json_integer_value(last);
  if (from < 0 || to < from || (uint64_t)to > size)
    return BAD(s, "tensor %s: its range [%lld, %lld) is outside the %llu bytes of data", NAME(s, e), (long long)from,
               (long long)to, (unsigned long long)size);
  if ((uint64_t)(to - from) != e->bytes)
    return BAD(s, "tensor %s: its shape asks for %zu bytes, its range has %lld", NAME(s, e), e->bytes,
               (long long)(to - from));
  e->offset = data + (uint64_t)from;
  return true;
}

static bool read_entry(Safetensors *s, const json_t *value, uint64_t data, uint64_t size, SafetensorsEntry *e) {
  const char *key;
  json_t *ignored;
  if (!json_is_object(value)) return BAD(s, "tensor %s is not described by an object", NAME(s, e));
  json_object_foreach((json_t *)(uintptr_t)value, key, ignored) {
    if (strcmp(key, "dtype") != 0 && strcmp(key, "shape") != 0 && strcmp(key, "data_offsets") != 0)
      return BAD(s, "tensor %s has an unknown field %s", NAME(s, e), quoted(s->diags->arena, key));
  }
  return read_dtype(s, json_object_get(value, "dtype"), e) && read_shape(s, json_object_get(value, "shape"), e) &&
         read_range(s, json_object_get(value, "data_offsets"), data, size, e);
}

static bool read_meta(Safetensors *s, json_t *meta) {
  const char *key;
  json_t *value;
  if (!json_is_object(meta)) return BAD(s, "__metadata__ is not an object");
  s->meta = ARENA_ARRAY(s->diags->arena, SafetensorsMeta, json_object_size(meta));
  json_object_foreach(meta, key, value) {
    if (!json_is_string(value)) return BAD(s, "__metadata__: %s is not a string", quoted(s->diags->arena, key));
    s->meta[s->n_meta++] =
        (SafetensorsMeta){arena_strdup(s->diags->arena, key), arena_strdup(s->diags->arena, json_string_value(value))};
  }
  return true;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const SafetensorsEntry *)a)->name, ((const SafetensorsEntry *)b)->name);
}

/* Empty tensors share their offset with the next one and must come before it. */
static int by_place(const void *a, const void *b) {
  const SafetensorsEntry *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* The sorted ranges must cover the data without gaps or overlap. */
static bool check_cover(Safetensors *s, uint64_t data) {
  if (s->n) qsort(s->items, s->n, sizeof *s->items, by_place);
  uint64_t at = data;
  for (size_t i = 0; i < s->n; i++) {
    const SafetensorsEntry *e = &s->items[i];
    if (e->offset < at) return BAD(s, "tensors %s and %s overlap", NAME(s, &s->items[i - 1]), NAME(s, e));
    if (e->offset > at)
      return BAD(s, "%llu bytes before tensor %s belong to no tensor", (unsigned long long)(e->offset - at),
                 NAME(s, e));
    at += e->bytes;
  }
  if (at == s->map.size) return true;
  return BAD(s, "the last %llu bytes belong to no tensor", (unsigned long long)(s->map.size - at));
}

/* Where the last tensor ends in the file, as far as the header can be trusted. */
static uint64_t end_of_tensors(json_t *root, uint64_t data) {
  const char *key;
  json_t *value;
  uint64_t end = data;
  json_object_foreach(root, key, value) {
    json_int_t last = json_integer_value(json_array_get(json_object_get(value, "data_offsets"), 1));
    if (last > 0 && last < 1LL << 50 && data + (uint64_t)last > end) end = data + (uint64_t)last;
  }
  return end;
}

static bool read_entries(Safetensors *s, json_t *root, uint64_t data) {
  const char *key;
  json_t *value;
  uint64_t end = end_of_tensors(root, data);
  if (s->unfinished && end < s->map.size) s->map.size = end; /* what writers leave there for each other */
  if (end > s->map.size)
    return BAD(s, "the file is truncated: it has %zu bytes, its tensors end at %llu", s->map.size,
               (unsigned long long)end);
  s->items = ARENA_ARRAY(s->diags->arena, SafetensorsEntry, json_object_size(root));
  json_object_foreach(root, key, value) {
    if (strcmp(key, "__metadata__") == 0) {
      if (!read_meta(s, value)) return false;
      continue;
    }
    SafetensorsEntry *e = &s->items[s->n++];
    e->name = arena_strdup(s->diags->arena, key);
    if (!read_entry(s, value, data, s->map.size - data, e)) return false;
  }
  if (!check_cover(s, data)) return false;
  if (s->n) qsort(s->items, s->n, sizeof *s->items, by_name);
  return true;
}

static bool read_header(Safetensors *s) {
  const uint8_t *p = s->map.data;
  if (s->map.size == 0) return BAD(s, "the file is empty");
  if (s->map.size < 8)
    return BAD(s, "the file is truncated: it has %zu bytes, the length of its header alone takes 8", s->map.size);
  uint64_t length = 0;
  for (int i = 7; i >= 0; i--) length = length << 8 | p[i];
  if (length > HEADER_LIMIT)
    return BAD(s, "the header claims %llu bytes; the format allows 100 MB", (unsigned long long)length);
  if (length > s->map.size - 8)
    return BAD(s, "the file is truncated: it has %zu bytes, its header alone takes %llu", s->map.size,
               (unsigned long long)length + 8);
  if (!length || p[8] != '{') return BAD(s, "the header does not begin with '{'");
  json_error_t error;
  json_t *root = json_loadb((const char *)p + 8, (size_t)length, JSON_REJECT_DUPLICATES, &error);
  if (!root)
    return BAD(s, "the header is not JSON: %s at byte %d", quoted(s->diags->arena, error.text), error.position);
  bool ok = read_entries(s, root, 8 + length);
  json_decref(root);
  return ok;
}

static Safetensors *open_map(Diags *d, const char *path, FileMap map, bool mapped, bool unfinished) {
  Safetensors *s = ARENA_NEW(d->arena, Safetensors);
  *s = (Safetensors){
      .diags = d, .path = arena_strdup(d->arena, path), .map = map, .mapped = mapped, .unfinished = unfinished};
  if (read_header(s)) return s;
  safetensors_close(s);
  return NULL;
}

Safetensors *safetensors_open(Diags *d, const char *path) {
  FileMap map;
  return file_take(d, path, &map) ? open_map(d, path, map, true, false) : NULL;
}

Safetensors *safetensors_open_memory(Diags *d, const char *name, const void *bytes, size_t n) {
  return open_map(d, name, (FileMap){.data = bytes, .size = n}, false, false);
}

/* The bytes up to the end of the header, given the first 8 bytes and the file's size, as far as they can be trusted;
 * read_header reports faults. */
static size_t header_bytes(const uint8_t *first, uint64_t size) {
  uint64_t length = 0;
  if (size < 8) return (size_t)size;
  for (int i = 7; i >= 0; i--) length = length << 8 | first[i];
  return length > HEADER_LIMIT || length > size - 8 ? 8 : 8 + (size_t)length;
}

static bool read_head(Diags *d, const char *path, const FileParts *f, uint64_t mark, uint8_t **out, size_t *n) {
  uint8_t first[8] = {0};
  if (!file_parts_read(d, path, f, 0, first, f->size < 8 ? (size_t)f->size : 8)) return false;
  for (int i = 0; i < 8; i++) first[i] ^= (uint8_t)(mark >> 8 * i);
  *n = header_bytes(first, f->size);
  *out = ARENA_ARRAY(d->arena, uint8_t, *n + 8);
  memcpy(*out, first, 8);
  return *n <= 8 || file_parts_read(d, path, f, 8, *out + 8, *n - 8);
}

Safetensors *safetensors_open_header(Diags *d, const char *path, uint64_t mark, uint64_t *hash) {
  FileParts f;
  uint8_t *bytes;
  size_t n;
  if (!file_parts_open(d, path, &f)) return NULL;
  f.written = true;
  const size_t size = (size_t)f.size;
  bool ok = read_head(d, path, &f, mark, &bytes, &n);
  file_parts_close(&f);
  if (ok && hash) *hash = hash64(bytes, n, 0);
  return ok ? open_map(d, path, (FileMap){.data = bytes, .size = size}, false, mark != 0) : NULL;
}

void safetensors_close(Safetensors *s) {
  if (s && s->mapped) file_unmap(&s->map);
}

const SafetensorsEntry *safetensors_find(const Safetensors *s, const char *name) {
  const SafetensorsEntry key = {.name = name};
  return s->n ? bsearch(&key, s->items, s->n, sizeof key, by_name) : NULL;
}

const char *safetensors_meta(const Safetensors *s, const char *key) {
  for (size_t i = 0; i < s->n_meta; i++)
    if (strcmp(s->meta[i].key, key) == 0) return s->meta[i].value;
  return NULL;
}

bool safetensors_read(Safetensors *s, const SafetensorsEntry *e, Tensor *out) {
  const uint8_t *data = s->map.data + e->offset;
  *out = (Tensor){0};
  if ((uintptr_t)data % dtype_bytes(e->dtype) == 0) {
    *out = tensor_view(e->dtype, e->rank, e->dims, data);
  } else {
    if (!tensor_alloc(out, e->dtype, e->rank, e->dims)) return file_no_memory(s->diags, s->path, e->bytes);
    memcpy(out->data, data, e->bytes);
  }
  if (tensor_bools_valid(out)) return true;
  tensor_free(out);
  return BAD(s, "tensor %s: bool data has a byte that is neither 0 nor 1", NAME(s, e));
}

/* Writing */

static int by_layout(const void *a, const void *b) {
  const NamedTensor *x = *(const NamedTensor *const *)a, *y = *(const NamedTensor *const *)b;
  size_t p = dtype_bytes(x->tensor.dtype), q = dtype_bytes(y->tensor.dtype);
  return p != q ? (p < q) - (p > q) : strcmp(x->name, y->name);
}

static void put_string(Text *t, const char *s) {
  static const char letters[] = "\bb\ff\nn\rr\tt\"\"\\\\";
  text_add(t, "\"");
  for (; *s; s++) {
    const char *letter = NULL;
    for (size_t i = 0; i + 1 < sizeof letters && !letter; i += 2)
      if (letters[i] == *s) letter = &letters[i + 1];
    if (letter) text_printf(t, "\\%c", *letter);
    else if ((unsigned char)*s < 0x20) text_printf(t, "\\u%04X", (unsigned char)*s);
    else text_addn(t, s, 1);
  }
  text_add(t, "\"");
}

static void put_tensor(Text *t, const NamedTensor *x, uint64_t from) {
  put_string(t, x->name);
  text_printf(t, ":{\"dtype\":\"%s\",\"shape\":[", type_names[x->tensor.dtype]);
  for (int i = 0; i < x->tensor.rank; i++) text_printf(t, i ? ",%lld" : "%lld", (long long)x->tensor.dims[i]);
  text_printf(t, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)from,
              (unsigned long long)(from + x->tensor.bytes));
}

static bool bad_name(Diags *d, const char *path, const char *name, const char *why) {
  return diag_error(d, DIAG_tensor_format, file_loc(d, path), "the name %s %s", quoted(d->arena, name), why);
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Sorts n names and checks that each is unique UTF-8. */
static bool check_names(Diags *d, const char *path, const char **names, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!text_is_utf8(names[i], strlen(names[i]))) return bad_name(d, path, names[i], "is not UTF-8");
  if (n) qsort(names, n, sizeof *names, by_text);
  for (size_t i = 1; i < n; i++)
    if (strcmp(names[i - 1], names[i]) == 0) return bad_name(d, path, names[i], "is used twice");
  return true;
}

static bool check_header(Diags *d, const char *path, const NamedTensor *const *tensors, size_t n,
                         const SafetensorsMeta *meta, size_t n_meta) {
  const char **names = ARENA_ARRAY(d->arena, const char *, n + 1), **keys = ARENA_ARRAY(d->arena, const char *, n_meta);
  for (size_t i = 0; i < n; i++) {
    names[i] = tensors[i]->name;
    if (!type_names[tensors[i]->tensor.dtype])
      return diag_error(d, DIAG_tensor_format, file_loc(d, path),
                        "safetensors files have no element type for %s of %s; use .npy or .npz",
                        quoted(d->arena, names[i]), dtype_name(tensors[i]->tensor.dtype));
  }
  names[n] = "__metadata__"; /* reserved */
  for (size_t i = 0; i < n_meta; i++) {
    keys[i] = meta[i].key;
    if (!text_is_utf8(meta[i].value, strlen(meta[i].value)))
      return bad_name(d, path, meta[i].key, "has a value that is not UTF-8");
  }
  return check_names(d, path, names, n + 1) && check_names(d, path, keys, n_meta);
}

static const char *header_text(Arena *a, const NamedTensor *const *tensors, size_t n, const SafetensorsMeta *meta,
                               size_t n_meta) {
  Text t = {.arena = a};
  uint64_t at = 0;
  text_add(&t, n_meta ? "{\"__metadata__\":{" : "{");
  for (size_t i = 0; i < n_meta; i++) {
    if (i) text_add(&t, ",");
    put_string(&t, meta[i].key);
    text_add(&t, ":");
    put_string(&t, meta[i].value);
  }
  if (n_meta) text_add(&t, "}");
  for (size_t i = 0; i < n; i++) {
    if (i || n_meta) text_add(&t, ",");
    put_tensor(&t, tensors[i], at);
    at += tensors[i]->tensor.bytes;
  }
  text_add(&t, "}");
  return text_str(&t);
}

/* Lays out the header: 8 bytes of length, the text, and spaces up to the data. */
static bool lay_out_header(Diags *d, const char *path, const char *json, const NamedTensor *const *tensors, size_t n,
                           SafetensorsHeader *out) {
  size_t used = strlen(json), padding = (ALIGNMENT - (8 + used) % ALIGNMENT) % ALIGNMENT;
  uint64_t length = used + padding;
  if (length > HEADER_LIMIT)
    return diag_error(d, DIAG_tensor_format, file_loc(d, path), "the header needs %llu bytes; the format allows 100 MB",
                      (unsigned long long)length);
  *out = (SafetensorsHeader){.bytes = malloc(8 + (size_t)length), .n = 8 + (size_t)length, .file_bytes = 8 + length};
  if (!out->bytes) die_out_of_memory("writing the header of a safetensors file");
  memcpy(out->bytes, &length, 8);
  memcpy(out->bytes + 8, json, used);
  memset(out->bytes + 8 + used, ' ', padding);
  for (size_t i = 0; i < n; i++) out->file_bytes += tensors[i]->tensor.bytes;
  return true;
}

static bool make_header(Diags *d, const char *path, const NamedTensor *const *sorted, size_t n,
                        const SafetensorsMeta *meta, size_t n_meta, SafetensorsHeader *out) {
  return check_header(d, path, sorted, n, meta, n_meta) &&
         lay_out_header(d, path, header_text(d->arena, sorted, n, meta, n_meta), sorted, n, out);
}

static const NamedTensor **in_order(Diags *d, const NamedTensor *tensors, size_t n) {
  const NamedTensor **sorted = ARENA_ARRAY(d->arena, const NamedTensor *, n);
  for (size_t i = 0; i < n; i++) sorted[i] = &tensors[i];
  if (n) qsort(sorted, n, sizeof *sorted, by_layout);
  return sorted;
}

bool safetensors_header(Diags *d, const char *path, const NamedTensor *tensors, size_t n, const SafetensorsMeta *meta,
                        size_t n_meta, SafetensorsHeader *out) {
  *out = (SafetensorsHeader){0};
  return make_header(d, path, in_order(d, tensors, n), n, meta, n_meta, out);
}

bool safetensors_write(Diags *d, const char *path, const NamedTensor *tensors, size_t n, const SafetensorsMeta *meta,
                       size_t n_meta) {
  const NamedTensor **sorted = in_order(d, tensors, n);
  SafetensorsHeader header = {0};
  FileWriter *w = NULL;
  if (make_header(d, path, sorted, n, meta, n_meta, &header)) w = file_writer_open(d, path, 0666);
  if (w) file_writer_add(w, header.bytes, header.n);
  for (size_t i = 0; i < n && w; i++) file_writer_add(w, sorted[i]->tensor.data, sorted[i]->tensor.bytes);
  free(header.bytes);
  return w && file_writer_finish(w);
}
