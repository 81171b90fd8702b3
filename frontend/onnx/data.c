/* frontend/onnx/data.c - locates the elements of a tensor; see file.h.
 *
 * There are three places: raw_data or packed floats (a range of the model file, known from the pre-pass), an
 * external file, and typed fields.  In memory, int64_data, uint64_data and unpacked floats already have the layout
 * of the element type, so the blob is the message's own array.  int32_data holds one narrower element per int32 and
 * is copied.  Elements of fewer than 8 bits are packed; small tensors are unpacked as well, for those who read them.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/small_float.h"
#include "frontend/onnx/file_private.h"

static const struct {
  const char *name;
  bool known; /* apc supports it, as `dtype` */
  DType dtype;
} onnx_types[] = {
    [0] = {"UNDEFINED", false, 0},
    [1] = {"FLOAT", true, DT_f32},
    [2] = {"UINT8", true, DT_u8},
    [3] = {"INT8", true, DT_i8},
    [4] = {"UINT16", true, DT_u16},
    [5] = {"INT16", true, DT_i16},
    [6] = {"INT32", true, DT_i32},
    [7] = {"INT64", true, DT_i64},
    [8] = {"STRING", false, 0},
    [9] = {"BOOL", true, DT_bool},
    [10] = {"FLOAT16", true, DT_f16},
    [11] = {"DOUBLE", true, DT_f64},
    [12] = {"UINT32", true, DT_u32},
    [13] = {"UINT64", true, DT_u64},
    [14] = {"COMPLEX64", false, 0},
    [15] = {"COMPLEX128", false, 0},
    [16] = {"BFLOAT16", true, DT_bf16},
    [17] = {"FLOAT8E4M3FN", true, DT_f8e4m3fn},
    [18] = {"FLOAT8E4M3FNUZ", true, DT_f8e4m3fnuz},
    [19] = {"FLOAT8E5M2", true, DT_f8e5m2},
    [20] = {"FLOAT8E5M2FNUZ", true, DT_f8e5m2fnuz},
    [21] = {"UINT4", true, DT_u4},
    [22] = {"INT4", true, DT_i4},
    [23] = {"FLOAT4E2M1", true, DT_f4e2m1},
    [24] = {"FLOAT8E8M0", true, DT_f8e8m0},
    [25] = {"UINT2", true, DT_u2},
    [26] = {"INT2", true, DT_i2},
};
#define ONNX_TYPES ((int32_t)(sizeof onnx_types / sizeof *onnx_types))

bool onnx_dtype(int32_t t, DType *out) {
  if (t < 0 || t >= ONNX_TYPES || !onnx_types[t].known) return false;
  *out = onnx_types[t].dtype;
  return true;
}

const char *onnx_dtype_name(int32_t t) { return t < 0 || t >= ONNX_TYPES ? "unknown" : onnx_types[t].name; }

/* The tensor and how to report errors in it, which every function below needs. */
typedef struct Source {
  OnnxFile *f;
  Diags *d;
  const Onnx__TensorProto *t;
  OnnxData *out;
} Source;

__attribute__((format(printf, 3, 4))) static bool bad(const Source *s, DiagCode code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *what = arena_vprintf(s->d->arena, format, args);
  va_end(args);
  Loc loc = {.file = arena_strdup(s->d->arena, s->f->path)};
  return diag_error(s->d, code, loc, "tensor \"%s\": %s", s->t->name ? s->t->name : "", what);
}

/* --- Shape and size --- */

static bool read_shape(const Source *s) {
  const Onnx__TensorProto *t = s->t;
  if (!onnx_dtype(t->data_type, &s->out->dtype))
    return bad(s, DIAG_onnx_tensor, "element type %s (%d) is not supported", onnx_dtype_name(t->data_type),
               t->data_type);
  uint64_t elements = 1;
  bool empty = false;
  for (size_t i = 0; i < t->n_dims; i++) {
    if (t->dims[i] < 0) return bad(s, DIAG_onnx_tensor, "dimension %zu is %" PRId64, i, t->dims[i]);
    if (t->dims[i] == 0) empty = true;
    else if (__builtin_mul_overflow(elements, (uint64_t)t->dims[i], &elements))
      return bad(s, DIAG_onnx_tensor, "its dimensions multiply to more than 2^64 elements");
  }
  s->out->rank = t->n_dims;
  s->out->dims = t->dims;
  s->out->elements = empty ? 0 : elements;
  const int bits = dtype_bits(s->out->dtype);
  if (bits < 8) {
    s->out->packed = bits;
    s->out->bytes = packed_bytes(bits, s->out->elements);
    return true;
  }
  if (__builtin_mul_overflow(s->out->elements, dtype_bytes(s->out->dtype), &s->out->bytes))
    return bad(s, DIAG_onnx_tensor, "it would be larger than 2^64 bytes");
  return true;
}

static bool check_bools(const Source *s) {
  if (s->out->dtype != DT_bool) return true;
  const uint8_t *p = onnx_file_bytes(s->f, s->out);
  for (uint64_t i = 0; i < s->out->elements; i++)
    if (p[i] > 1) return bad(s, DIAG_onnx_tensor, "element %" PRIu64 " is %d, not a bool (0 or 1)", i, p[i]);
  return true;
}

/* --- Raw data --- */

static bool raw_data(const Source *s) {
  uint64_t index;
  memcpy(&index, s->t->raw_data.data, sizeof index);
  OnnxRange range = s->f->ranges.items[index];
  const char *field = range.field == ONNX_FLOAT_DATA    ? "float_data"
                      : range.field == ONNX_DOUBLE_DATA ? "double_data"
                                                        : "raw_data";
  bool wrong_type = (range.field == ONNX_FLOAT_DATA && s->out->dtype != DT_f32) ||
                    (range.field == ONNX_DOUBLE_DATA && s->out->dtype != DT_f64);
  if (wrong_type)
    return bad(s, DIAG_onnx_tensor, "its data is in %s, but its type is %s", field, dtype_name(s->out->dtype));
  if (range.bytes != s->out->bytes)
    return bad(s, DIAG_onnx_tensor, "its shape and type ask for %" PRIu64 " bytes, %s has %" PRIu64, s->out->bytes,
               field, range.bytes);
  s->out->blob = 0;
  s->out->offset = range.offset;
  return check_bools(s);
}

/* --- Typed fields --- */

static bool wrong_count(const Source *s, size_t n, const char *field) {
  return bad(s, DIAG_onnx_tensor, "its shape asks for %" PRIu64 " elements, %s has %zu", s->out->elements, field, n);
}

/* Uses the message's own array as the data. */
static bool in_place(const Source *s, const void *items, size_t n, const char *field) {
  if (n != s->out->elements) return wrong_count(s, n, field);
  s->out->blob = onnx_add_blob(s->f, (OnnxBlob){NULL, items, s->out->bytes});
  s->out->offset = 0;
  return true;
}

/* The smallest and largest int64 that an element of the type can store (floats: their 16 bits). */
static void stored_range(DType t, int64_t *low, int64_t *high) {
  int bits = (int)dtype_bytes(t) * 8;
  switch (dtype_class(t)) {
    case DTC_B: *low = 0, *high = 1; break;
    case DTC_I: *low = -((int64_t)1 << (bits - 1)), *high = ((int64_t)1 << (bits - 1)) - 1; break;
    case DTC_F:
    case DTC_U: *low = 0, *high = ((int64_t)1 << bits) - 1; break;
  }
}

static int64_t element(const Onnx__TensorProto *t, bool wide, size_t i) {
  if (!wide) return t->int32_data[i];
  return t->uint64_data[i] > INT64_MAX ? INT64_MAX : (int64_t)t->uint64_data[i];
}

/* Copies elements of at most 4 bytes, or bytes of packed ones, out of int32_data or (`wide`) uint64_data. */
static bool narrowed(const Source *s, bool wide) {
  const char *field = wide ? "uint64_data" : "int32_data";
  size_t n = wide ? s->t->n_uint64_data : s->t->n_int32_data, size = dtype_bytes(s->out->dtype);
  if (s->out->packed && n != s->out->bytes)
    return bad(s, DIAG_onnx_tensor, "its shape and type ask for %" PRIu64 " packed bytes, %s has %zu", s->out->bytes,
               field, n);
  if (!s->out->packed && n != s->out->elements) return wrong_count(s, n, field);
  uint8_t *to = arena_alloc(s->f->arena, n * size);
  int64_t low = 0, high = 0;
  stored_range(s->out->packed ? DT_u8 : s->out->dtype, &low, &high);
  for (size_t i = 0; i < n; i++) {
    int64_t v = element(s->t, wide, i);
    if (v < low || v > high)
      return bad(s, DIAG_onnx_tensor, "element %zu of %s is %" PRId64 ", which does not fit %s", i, field, v,
                 dtype_name(s->out->dtype));
    memcpy(to + i * size, &v, size);
  }
  s->out->blob = onnx_add_blob(s->f, (OnnxBlob){NULL, to, s->out->bytes});
  s->out->offset = 0;
  return true;
}

static bool typed_data(const Source *s) {
  const Onnx__TensorProto *t = s->t;
  int present = (t->n_float_data > 0) + (t->n_int32_data > 0) + (t->n_int64_data > 0) + (t->n_double_data > 0) +
                (t->n_uint64_data > 0) + (t->n_string_data > 0);
  if (present > 1) return bad(s, DIAG_onnx_tensor, "its data is stored in more than one field");
  switch (s->out->dtype) {
    case DT_f32: return in_place(s, t->float_data, t->n_float_data, "float_data");
    case DT_f64: return in_place(s, t->double_data, t->n_double_data, "double_data");
    case DT_i64: return in_place(s, t->int64_data, t->n_int64_data, "int64_data");
    case DT_u64: return in_place(s, t->uint64_data, t->n_uint64_data, "uint64_data");
    case DT_i32: return in_place(s, t->int32_data, t->n_int32_data, "int32_data");
    case DT_u32: return narrowed(s, true);
    default: return narrowed(s, false);
  }
}

/* --- External data --- */

typedef struct External {
  const char *location;
  uint64_t offset, length;
  bool has_length;
} External;

static bool parse_number(const char *text, uint64_t *out) {
  if (*text < '0' || *text > '9') return false;
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 10);
  return errno == 0 && *end == '\0';
}

static bool parse_external(const Source *s, External *e) {
  for (size_t i = 0; i < s->t->n_external_data; i++) {
    const Onnx__StringStringEntryProto *entry = s->t->external_data[i];
    const char *key = entry->key ? entry->key : "", *value = entry->value ? entry->value : "";
    bool ok = true;
    if (strcmp(key, "location") == 0) e->location = value;
    else if (strcmp(key, "offset") == 0) ok = parse_number(value, &e->offset);
    else if (strcmp(key, "length") == 0) ok = e->has_length = parse_number(value, &e->length);
    if (!ok) return bad(s, DIAG_onnx_external, "the external data's %s is \"%s\", not a number of bytes", key, value);
  }
  if (!e->location || !*e->location) return bad(s, DIAG_onnx_external, "the external data names no location");
  return true;
}

static bool has_dotdot(const char *path) {
  for (const char *p = path; p; p = strchr(p, '/')) {
    while (*p == '/') p++;
    if (p[0] == '.' && p[1] == '.' && (p[2] == '/' || p[2] == '\0')) return true;
  }
  return false;
}

/* True if the real path lies in the real folder. */
static bool lies_in(const char *real, const char *folder) {
  size_t n = strlen(folder);
  if (n == 1) n = 0; /* the root folder: every path is inside */
  return strncmp(real, folder, n) == 0 && real[n] == '/';
}

/* The real folder of the model's file, if that is a link to another folder; NULL if not.  The caller frees it. */
static char *folder_of_file(const OnnxFile *f) {
  char *real = realpath(f->path, NULL), *slash = real ? strrchr(real, '/') : NULL;
  if (slash) slash[slash == real] = '\0';
  return real;
}

/* Returns the real path of `location` in the file's arena; it must lie inside the real folder of the model.  A hub's
 * cache has links to the model and its data side by side, and both files in a folder elsewhere, which also counts as
 * the model's.  NULL after a diagnostic. */
static const char *resolve(const Source *s, const char *location) {
  if (location[0] == '/') {
    bad(s, DIAG_onnx_external, "its location %s is an absolute path", location);
    return NULL;
  }
  if (has_dotdot(location)) {
    bad(s, DIAG_onnx_external, "its location %s leaves the model's folder", location);
    return NULL;
  }
  const char *slash = strrchr(s->f->path, '/');
  const char *folder = slash ? arena_strndup(s->f->arena, s->f->path, (size_t)(slash - s->f->path) + 1) : "./";
  const char *joined = arena_printf(s->f->arena, "%s%s", folder, location);
  char *real_folder = realpath(folder, NULL), *real = realpath(joined, NULL);
  const char *result = NULL, *why = strerror(errno);
  char *linked = folder_of_file(s->f);
  if (!real_folder || !real) {
    bad(s, DIAG_onnx_external, "cannot open its data %s: %s", joined, why);
  } else if (!lies_in(real, real_folder) && !(linked && lies_in(real, linked))) {
    bad(s, DIAG_onnx_external, "its location %s is a link to %s, outside the model's folder", location, real);
  } else {
    result = arena_strdup(s->f->arena, real);
  }
  free(linked);
  free(real_folder);
  free(real);
  return result;
}

/* Returns the blob of a real path, which is mapped once. */
static bool external_blob(const Source *s, const char *path, uint32_t *blob) {
  for (uint32_t i = 1; i < s->f->blobs.n; i++) {
    const char *known = s->f->blobs.items[i].blob.path;
    if (known && strcmp(known, path) == 0) {
      *blob = i;
      return true;
    }
  }
  struct stat st;
  if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
    return bad(s, DIAG_onnx_external, "its location %s is %s", path,
               S_ISDIR(st.st_mode) ? "a folder" : "not a regular file");
  return onnx_map_blob(s->f, s->d, path, blob);
}

static bool find_external(const Source *s, const External *e) {
  const char *path = resolve(s, e->location);
  if (!path || !external_blob(s, path, &s->out->blob)) return false;
  uint64_t size = onnx_file_blob(s->f, s->out->blob).bytes;
  if (e->offset <= size && s->out->bytes <= size - e->offset) return true;
  return bad(s, DIAG_onnx_external,
             "bytes %" PRIu64 " to %" PRIu64 " + %" PRIu64
             " of %s are past its end: that file is truncated or the wrong one; it has %" PRIu64 " bytes",
             e->offset, e->offset, s->out->bytes, e->location, size);
}

static bool is_refused(const OnnxFile *f, const char *location) {
  for (size_t i = 0; i < f->refused.n; i++)
    if (strcmp(f->refused.items[i], location) == 0) return true;
  return false;
}

/* Reports a faulty location once: all tensors there have the same fault. */
static bool external_data(const Source *s) {
  External e = {0};
  if (!parse_external(s, &e)) return false;
  if (e.has_length && e.length != s->out->bytes)
    return bad(s, DIAG_onnx_external, "its shape and type ask for %" PRIu64 " bytes, its length is given as %" PRIu64,
               s->out->bytes, e.length);
  if (is_refused(s->f, e.location)) return false;
  if (!find_external(s, &e)) {
    ARENA_PUSH(s->f->arena, &s->f->refused, e.location);
    return false;
  }
  s->out->offset = e.offset;
  return check_bools(s);
}

static bool find_data(const Source *at) {
  const Source s = *at;
  const Onnx__TensorProto *tensor = s.t;
  if (tensor->segment) return bad(&s, DIAG_onnx_tensor, "tensors stored in segments are not supported");
  bool external = tensor->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  bool typed = tensor->n_float_data || tensor->n_int32_data || tensor->n_int64_data || tensor->n_double_data ||
               tensor->n_uint64_data || tensor->n_string_data;
  if (external + typed + tensor->has_raw_data > 1)
    return bad(&s, DIAG_onnx_tensor, "its data is stored in more than one place");
  if (external) return external_data(&s);
  return tensor->has_raw_data ? raw_data(&s) : typed_data(&s);
}

bool onnx_file_data(OnnxFile *f, Diags *d, const Onnx__TensorProto *tensor, OnnxData *out) {
  const Source s = {f, d, tensor, out};
  *out = (OnnxData){0};
  if (!read_shape(&s) || !find_data(&s)) return false;
  const uint8_t *stored = onnx_file_stored(f, out);
  if (!out->packed || out->elements > ONNX_UNPACKED_MOST || !stored) return true;
  uint8_t *to = arena_alloc(f->arena, out->elements + 1);
  unpack_bits(out->packed, out->elements, stored, to);
  out->unpacked = to;
  return true;
}

const uint8_t *onnx_file_bytes(const OnnxFile *f, const OnnxData *data) {
  return data->packed ? data->unpacked : onnx_file_stored(f, data);
}

const uint8_t *onnx_file_stored(const OnnxFile *f, const OnnxData *data) {
  const uint8_t *base = onnx_file_blob(f, data->blob).data;
  return base ? base + data->offset : NULL;
}
