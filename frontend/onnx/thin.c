/* frontend/onnx/thin.c - see thin.h.  Wire format: protobuf.dev/programming-guides/encoding. */
#include "frontend/onnx/thin.h"

#include <limits.h>
#include <string.h>

#include "base/text.h"
#include "onnx.pb-c.h"

enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };

#define LENGTH_BYTES 5 /* lengths of rewritten messages are padded varints: patched, never moved */

/* One message on the path from the outermost one; the chain gives the path in error messages. */
typedef struct Frame {
  const struct Frame *up;
  const ProtobufCFieldDescriptor *field; /* NULL for the outermost message */
  uint32_t index;                        /* the index in a repeated field */
  int depth;
} Frame;

typedef struct Walk {
  Diags *d;
  const char *file;
  const uint8_t *bytes;
  Arena *arena, *scratch;
  OnnxRanges *ranges;
  OnnxThin *out;
} Walk;

static void add_path(Text *t, const Frame *frame) {
  if (!frame->field) return;
  add_path(t, frame->up);
  if (frame->up->field) text_add(t, ".");
  text_add(t, frame->field->name);
  if (frame->field->label == PROTOBUF_C_LABEL_REPEATED) text_printf(t, "[%u]", frame->index);
}

static bool bad(const Walk *w, const Frame *frame, uint64_t at, const char *what) {
  Text path = {.arena = w->d->arena};
  add_path(&path, frame);
  return diag_error(w->d, DIAG_onnx_wire, (Loc){.file = w->file}, "byte %llu, in %s: %s", (unsigned long long)at,
                    path.n ? text_str(&path) : "the outermost message", what);
}

/* Reports a field of the file itself that is longer than the rest of the file; `ends`: where it would end, 0 if
 * unknown. */
static bool truncated(const Walk *w, uint64_t size, uint64_t ends) {
  Loc loc = {.file = w->file};
  if (!ends)
    return diag_error(w->d, DIAG_onnx_wire, loc,
                      "the file is truncated: it has %llu bytes, the last of which begin a field",
                      (unsigned long long)size);
  return diag_error(w->d, DIAG_onnx_wire, loc,
                    "the file is truncated: it has %llu bytes, and a field that ends at %llu", (unsigned long long)size,
                    (unsigned long long)ends);
}

/* Reads a varint at *at; false if it does not end before `end` or within `most` bytes. */
static bool read_varint(const Walk *w, uint64_t *at, uint64_t end, unsigned most, uint64_t *value) {
  *value = 0;
  for (unsigned i = 0; i < most && *at < end; i++) {
    uint8_t byte = w->bytes[(*at)++];
    *value |= (uint64_t)(byte & 0x7f) << (7 * i);
    if (!(byte & 0x80)) return true;
  }
  return false;
}

static bool emit(const Walk *w, const Frame *frame, const void *bytes, uint64_t n, uint64_t at) {
  OnnxThin *out = w->out;
  if (n == 0) return true;
  if (n > (uint64_t)INT_MAX - out->n) return bad(w, frame, at, "more than 2 GiB besides raw tensor data");
  while (out->cap - out->n < n) out->items = arena_grow(w->scratch, out->items, 1, out->n, &out->cap);
  memcpy(out->items + out->n, bytes, (size_t)n);
  out->n += (size_t)n;
  return true;
}

/* Writes a field key with wire type LENGTH. */
static bool emit_key(const Walk *w, const Frame *frame, uint32_t number, uint64_t at) {
  uint8_t key[5];
  size_t n = 0;
  for (uint32_t v = number << 3 | LENGTH;; v >>= 7) {
    key[n++] = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
    if (v <= 0x7f) break;
  }
  return emit(w, frame, key, n, at);
}

static void patch_length(OnnxThin *out, size_t at, size_t length) {
  for (int i = 0; i < LENGTH_BYTES; i++)
    out->items[at + (size_t)i] = (uint8_t)((length >> (7 * i) & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
}

static unsigned wire_type_of(ProtobufCType type) {
  switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return FIXED32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return LENGTH;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM: break;
  }
  return VARINT;
}

/* True if the wire type fits; numbers may be repeated singly or packed. */
static bool wire_type_fits(const ProtobufCFieldDescriptor *field, unsigned wire) {
  return wire == wire_type_of(field->type) || (wire == LENGTH && field->label == PROTOBUF_C_LABEL_REPEATED);
}

/* A field as found: its bytes are [start, end); for wire type LENGTH its contents are [body, end). */
typedef struct Field {
  uint64_t start, body, end;
  uint32_t number;
  unsigned wire;
} Field;

static bool read_field(const Walk *w, const Frame *frame, uint64_t at, uint64_t end, Field *f) {
  uint64_t key, length = 0;
  bool whole = !frame->field; /* the outermost message, which ends with the file */
  f->start = at;
  if (!read_varint(w, &at, end, 5, &key) || key > UINT32_MAX)
    return whole && at == end ? truncated(w, end, 0) : bad(w, frame, f->start, "not a field key");
  f->number = (uint32_t)(key >> 3);
  f->wire = (unsigned)(key & 7);
  if (f->number == 0) return bad(w, frame, f->start, "field number 0");
  switch (f->wire) {
    case VARINT:
      if (!read_varint(w, &at, end, 10, &key))
        return whole && at == end ? truncated(w, end, 0) : bad(w, frame, at, "an integer does not end");
      break;
    case FIXED64: length = 8; break;
    case FIXED32: length = 4; break;
    case LENGTH:
      if (!read_varint(w, &at, end, 10, &length))
        return whole && at == end ? truncated(w, end, 0) : bad(w, frame, at, "a length does not end");
      break;
    default: return bad(w, frame, f->start, "a wire type that ONNX does not use");
  }
  f->body = at;
  if (length > end - at && whole && length < INT64_MAX) return truncated(w, end, at + length);
  if (length > end - at) return bad(w, frame, f->start, "a field runs past the end of the message around it");
  f->end = at + length;
  return true;
}

static bool is_data(const Field *f) {
  return f->wire == LENGTH &&
         (f->number == ONNX_RAW_DATA || f->number == ONNX_FLOAT_DATA || f->number == ONNX_DOUBLE_DATA);
}

static bool cut_data(const Walk *w, const Frame *frame, const Field *f) {
  uint64_t index = w->ranges->n;
  OnnxRange range = {f->body, f->end - f->body, f->number};
  ARENA_PUSH(w->arena, w->ranges, range);
  const uint8_t length = sizeof index;
  return emit_key(w, frame, ONNX_RAW_DATA, f->start) && emit(w, frame, &length, 1, f->start) &&
         emit(w, frame, &index, sizeof index, f->start);
}

static bool walk(const Walk *w, const ProtobufCMessageDescriptor *message, uint64_t at, uint64_t end,
                 const Frame *frame);

static bool walk_child(const Walk *w, const ProtobufCFieldDescriptor *field, const Field *f, uint32_t index,
                       const Frame *frame) {
  Frame child = {frame, field, index, frame->depth + 1};
  if (child.depth > ONNX_MAX_DEPTH) return bad(w, frame, f->start, "messages are nested too deeply");
  const uint8_t blank[LENGTH_BYTES] = {0};
  if (!emit_key(w, frame, f->number, f->start) || !emit(w, frame, blank, LENGTH_BYTES, f->start)) return false;
  size_t body = w->out->n;
  if (!walk(w, field->descriptor, f->body, f->end, &child)) return false;
  patch_length(w->out, body - LENGTH_BYTES, w->out->n - body);
  return true;
}

/* FunctionProto.attribute_proto, if the installed schema lacks it. */
static const ProtobufCFieldDescriptor function_defaults = {.name = "attribute_proto",
                                                           .id = 11,
                                                           .label = PROTOBUF_C_LABEL_REPEATED,
                                                           .type = PROTOBUF_C_TYPE_MESSAGE,
                                                           .descriptor = &onnx__attribute_proto__descriptor};

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessageDescriptor *message, uint32_t number) {
  const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(message, number);
  bool younger = message == &onnx__function_proto__descriptor && number == function_defaults.id;
  return !field && younger ? &function_defaults : field;
}

static bool walk(const Walk *w, const ProtobufCMessageDescriptor *message, uint64_t at, uint64_t end,
                 const Frame *frame) {
  uint32_t seen[64] = {0}; /* occurrences of each field, for the path */
  const bool is_tensor = message == &onnx__tensor_proto__descriptor;
  int cut = 0;          /* data fields of this tensor */
  uint64_t copied = at; /* all bytes before it are in the output */
  while (at < end) {
    Field f = {0};
    if (!read_field(w, frame, at, end, &f)) return false;
    const ProtobufCFieldDescriptor *field = field_of(message, f.number);
    if (field && !wire_type_fits(field, f.wire)) {
      Frame here = {frame, field, 0, frame->depth + 1};
      return bad(w, &here, f.start, "stored with the wrong wire type");
    }
    at = f.end;
    const bool raw = is_tensor && is_data(&f);
    if (raw && cut++) return bad(w, frame, f.start, "the tensor's data is stored twice");
    if (!raw && !(field && field->type == PROTOBUF_C_TYPE_MESSAGE)) continue;
    if (!emit(w, frame, w->bytes + copied, f.start - copied, f.start)) return false;
    copied = f.end;
    if (!(raw ? cut_data(w, frame, &f) : walk_child(w, field, &f, seen[f.number % 64]++, frame))) return false;
  }
  return emit(w, frame, w->bytes + copied, end - copied, copied);
}

bool onnx_thin(Diags *d, const char *file, const ProtobufCMessageDescriptor *message, const uint8_t *bytes, uint64_t n,
               Arena *arena, OnnxRanges *ranges, Arena *scratch, OnnxThin *out) {
  Walk w = {d, file, bytes, arena, scratch, ranges, out};
  Frame top = {0};
  return walk(&w, message, 0, n, &top);
}
