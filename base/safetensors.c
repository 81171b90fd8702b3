/* base/safetensors.c - see safetensors.h. */
#include "base/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/text.h"

#define HEADER_LIMIT ((uint64_t)100 * 1000 * 1000) /* the reference implementation's */
#define ALIGNMENT 4096u

static const char *const type_names[DT_COUNT] = {
    [DT_f32] = "F32", [DT_f64] = "F64", [DT_f16] = "F16",   [DT_bf16] = "BF16", [DT_i8] = "I8",
    [DT_i16] = "I16", [DT_i32] = "I32", [DT_i64] = "I64",   [DT_u8] = "U8",     [DT_u16] = "U16",
    [DT_u32] = "U32", [DT_u64] = "U64", [DT_bool] = "BOOL",
};

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
    if (strcmp(type_names[i], name) == 0) {
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

/* `data` is where the data begins in the file, `size` how much of it there is. */
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

/* Empty tensors share their place with the next one and must come before it. */
static int by_place(const void *a, const void *b) {
  const SafetensorsEntry *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* The ranges, sorted, must follow each other from the first byte of data to the last. */
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

/* Where the last tensor ends in the file, as far as the header can be believed. */
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

static Safetensors *open_map(Diags *d, const char *path, FileMap map, bool mapped) {
  Safetensors *s = ARENA_NEW(d->arena, Safetensors);
  *s = (Safetensors){.diags = d, .path = arena_strdup(d->arena, path), .map = map, .mapped = mapped};
  if (read_header(s)) return s;
  safetensors_close(s);
  return NULL;
}

Safetensors *safetensors_open(Diags *d, const char *path) {
  FileMap map;
  return file_take(d, path, &map) ? open_map(d, path, map, true) : NULL;
}

Safetensors *safetensors_open_memory(Diags *d, const char *name, const void *bytes, size_t n) {
  return open_map(d, name, (FileMap){.data = bytes, .size = n}, false);
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

static json_t *describe(const Tensor *t, uint64_t from) {
  json_t *shape = json_array();
  for (int i = 0; i < t->rank; i++) json_array_append_new(shape, json_integer(t->dims[i]));
  return json_pack("{s:s, s:o, s:[I,I]}", "dtype", type_names[t->dtype], "shape", shape, "data_offsets",
                   (json_int_t)from, (json_int_t)(from + t->bytes));
}

/* Adds a value under a new key; false when the key is taken or not UTF-8. */
static bool add_key(Diags *d, const char *path, json_t *object, const char *key, json_t *value) {
  const char *wrong = json_object_get(object, key) ? "is used twice" : NULL;
  if (!wrong && !text_is_utf8(key, strlen(key))) wrong = "is not UTF-8";
  if (!wrong && !value) wrong = "has a value that is not UTF-8";
  if (wrong) {
    json_decref(value);
    return diag_error(d, DIAG_tensor_format, file_loc(d, path), "the name %s %s", quoted(d->arena, key), wrong);
  }
  if (json_object_set_new(object, key, value) != 0) die_out_of_memory("writing the header of a safetensors file");
  return true;
}

static bool build_header(Diags *d, const char *path, json_t *root, const NamedTensor *const *tensors, size_t n,
                         const SafetensorsMeta *meta, size_t n_meta) {
  json_t *about = json_object();
  uint64_t at = 0;
  json_object_set_new(root, "__metadata__", about); /* also keeps tensors from using the name */
  for (size_t i = 0; i < n_meta; i++)
    if (!add_key(d, path, about, meta[i].key, json_string(meta[i].value))) return false;
  for (size_t i = 0; i < n; i++) {
    if (!add_key(d, path, root, tensors[i]->name, describe(&tensors[i]->tensor, at))) return false;
    at += tensors[i]->tensor.bytes;
  }
  if (!n_meta) json_object_del(root, "__metadata__");
  return true;
}

static bool write_all(Diags *d, const char *path, const char *json, const NamedTensor *const *tensors, size_t n) {
  size_t used = strlen(json), padding = (ALIGNMENT - (8 + used) % ALIGNMENT) % ALIGNMENT;
  uint64_t length = used + padding;
  if (length > HEADER_LIMIT)
    return diag_error(d, DIAG_tensor_format, file_loc(d, path), "the header needs %llu bytes; 100 MB are allowed",
                      (unsigned long long)length);
  FileWriter *w = file_writer_open(d, path, 0666);
  if (!w) return false;
  file_writer_add(w, &length, 8);
  file_writer_add(w, json, used);
  file_writer_pad(w, ' ', padding);
  for (size_t i = 0; i < n; i++) file_writer_add(w, tensors[i]->tensor.data, tensors[i]->tensor.bytes);
  return file_writer_finish(w);
}

bool safetensors_write(Diags *d, const char *path, const NamedTensor *tensors, size_t n, const SafetensorsMeta *meta,
                       size_t n_meta) {
  const NamedTensor **sorted = ARENA_ARRAY(d->arena, const NamedTensor *, n);
  for (size_t i = 0; i < n; i++) sorted[i] = &tensors[i];
  if (n) qsort(sorted, n, sizeof *sorted, by_layout);
  json_t *root = json_object();
  bool ok = build_header(d, path, root, sorted, n, meta, n_meta);
  char *json = ok ? json_dumps(root, JSON_COMPACT) : NULL;
  if (ok && !json) die_out_of_memory("writing the header of a safetensors file");
  ok = ok && write_all(d, path, json, sorted, n);
  free(json);
  json_decref(root);
  return ok;
}
