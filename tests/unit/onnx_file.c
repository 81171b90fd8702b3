/* tests/unit/onnx_file.c - opening ONNX files: the places of tensor bytes, and every way a file can be wrong. */
#include "frontend/onnx/file.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/test.h"

static Arena *arena;
static Diags *diags;
static char folder[] = "/tmp/apc-onnx-XXXXXX";
static const char *in_folder = ""; /* the model's folder below it */

/* --- Building models --- */

typedef struct Bytes {
  uint8_t *items;
  size_t n;
} Bytes;

static Bytes pack(const ProtobufCMessage *m) {
  Bytes b = {arena_alloc(arena, protobuf_c_message_get_packed_size(m)), 0};
  b.n = protobuf_c_message_pack(m, b.items);
  return b;
}

static Onnx__TensorProto tensor_of(const char *name, int32_t type, int64_t *dims, size_t rank) {
  Onnx__TensorProto t = ONNX__TENSOR_PROTO__INIT;
  t.name = arena_strdup(arena, name);
  t.has_data_type = 1;
  t.data_type = type;
  t.dims = dims;
  t.n_dims = rank;
  return t;
}

static void set_raw(Onnx__TensorProto *t, const void *bytes, size_t n) {
  t->has_raw_data = 1;
  t->raw_data = (ProtobufCBinaryData){n, arena_alloc(arena, n)};
  if (n) memcpy(t->raw_data.data, bytes, n);
}

/* A model whose graph holds these initializers. */
static Bytes pack_model(Onnx__TensorProto **tensors, size_t n) {
  Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
  Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
  Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets = &opset;
  opset.has_version = 1;
  opset.version = 17;
  model.graph = &graph;
  model.n_opset_import = 1;
  model.opset_import = &opsets;
  graph.initializer = tensors;
  graph.n_initializer = n;
  return pack(&model.base);
}

static OnnxFile *open_one(Onnx__TensorProto *t, const char *name) {
  Bytes b = pack_model(&t, 1);
  return onnx_file_open_bytes(diags, name, b.items, b.n);
}

static void begin(void) { diags = diags_new(arena); }

/* The only diagnostic has that code and contains that text. */
static void expect(DiagCode code, const char *text) {
  CHECKF(diags->n >= 1 && diags->items[0].code == code, "code %s, %zu diagnostics",
         diags->n ? diag_code_name(diags->items[0].code) : "none", diags->n);
  CHECKF(diags->n >= 1 && strstr(diags->items[0].message, text), "wanted \"%s\" in: %s", text,
         diags->n ? diags->items[0].message : "nothing");
}

/* --- Valid files --- */

static void raw_data_stays_in_place(void) {
  begin();
  int64_t dims[] = {3};
  float values[] = {1, 2, 3};
  Onnx__TensorProto t = tensor_of("w", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, dims, 1), *tp = &t;
  set_raw(&t, values, sizeof values);
  Bytes b = pack_model(&tp, 1);
  OnnxFile *f = onnx_file_open_bytes(diags, "m.onnx", b.items, b.n);
  CHECK(f && diags->n == 0);
  OnnxData data;
  CHECK(onnx_file_data(f, diags, onnx_file_model(f)->graph->initializer[0], &data));
  CHECK(data.dtype == DT_f32 && data.rank == 1 && data.dims[0] == 3 && data.bytes == 12 && data.blob == 0);
  const uint8_t *p = onnx_file_bytes(f, &data);
  CHECK(p > b.items && p < b.items + b.n);
  CHECK(memcmp(p, values, sizeof values) == 0);
  CHECK_STR(onnx_file_model(f)->graph->initializer[0]->name, "w");
  onnx_file_close(f);
}

static void packed_floats_stay_in_place(void) {
  begin();
  int64_t dims[] = {3};
  float values[] = {1, 2, 3};
  Onnx__TensorProto t = tensor_of("w", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, dims, 1), *tp = &t;
  t.float_data = values, t.n_float_data = 3;
  Bytes b = pack_model(&tp, 1);
  OnnxFile *f = onnx_file_open_bytes(diags, "m.onnx", b.items, b.n);
  OnnxData data;
  CHECK(f && onnx_file_data(f, diags, onnx_file_model(f)->graph->initializer[0], &data) && data.blob == 0);
  CHECK(memcmp(onnx_file_bytes(f, &data), values, sizeof values) == 0);
  onnx_file_close(f);
}

static void tensors_are_cut_everywhere(void) {
  begin();
  int64_t dims[] = {2};
  const uint8_t bytes[] = {7, 9};
  Onnx__TensorProto t = tensor_of("t", ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, dims, 1), *tp = &t;
  set_raw(&t, bytes, 2);
  Onnx__SparseTensorProto sparse = ONNX__SPARSE_TENSOR_PROTO__INIT, *sparses = &sparse;
  sparse.values = sparse.indices = &t;
  Onnx__GraphProto inner = ONNX__GRAPH_PROTO__INIT;
  inner.initializer = &tp;
  inner.n_initializer = 1;
  Onnx__AttributeProto attribute = ONNX__ATTRIBUTE_PROTO__INIT, *attributes = &attribute;
  attribute.t = &t;
  attribute.tensors = &tp;
  attribute.n_tensors = 1;
  attribute.g = &inner;
  attribute.sparse_tensor = &sparse;
  Onnx__NodeProto node = ONNX__NODE_PROTO__INIT, *nodes = &node;
  node.attribute = &attributes;
  node.n_attribute = 1;
  Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
  graph.node = &nodes;
  graph.n_node = 1;
  graph.sparse_initializer = &sparses;
  graph.n_sparse_initializer = 1;
  Onnx__FunctionProto function = ONNX__FUNCTION_PROTO__INIT, *functions = &function;
  function.node = &nodes;
  function.n_node = 1;
  Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets = &opset;
  Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
  model.graph = &graph;
  model.functions = &functions;
  model.n_functions = 1;
  model.opset_import = &opsets;
  model.n_opset_import = 1;
  Bytes b = pack(&model.base);
  OnnxFile *f = onnx_file_open_bytes(diags, "m.onnx", b.items, b.n);
  CHECK(f != NULL);
  const Onnx__ModelProto *m = onnx_file_model(f);
  const Onnx__AttributeProto *a = m->graph->node[0]->attribute[0],
                             *in_function = m->functions[0]->node[0]->attribute[0];
  const Onnx__TensorProto *all[] = {a->t,
                                    a->tensors[0],
                                    a->g->initializer[0],
                                    a->sparse_tensor->values,
                                    m->graph->sparse_initializer[0]->indices,
                                    in_function->t};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    OnnxData data;
    CHECK(onnx_file_data(f, diags, all[i], &data));
    CHECK(data.bytes == 2 && memcmp(onnx_file_bytes(f, &data), bytes, 2) == 0);
  }
  onnx_file_close(f);
}

static void typed_fields_are_read(void) {
  begin();
  int64_t dims[] = {2};
  int32_t halves[] = {0x3c00, 0xc000}, small[] = {-128, 127};
  uint64_t words[] = {1, 4294967295u};
  int64_t longs[] = {-5, 6};
  Onnx__TensorProto t[4] = {tensor_of("h", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16, dims, 1),
                            tensor_of("b", ONNX__TENSOR_PROTO__DATA_TYPE__INT8, dims, 1),
                            tensor_of("u", ONNX__TENSOR_PROTO__DATA_TYPE__UINT32, dims, 1),
                            tensor_of("l", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, dims, 1)};
  t[0].int32_data = halves, t[0].n_int32_data = 2;
  t[1].int32_data = small, t[1].n_int32_data = 2;
  t[2].uint64_data = words, t[2].n_uint64_data = 2;
  t[3].int64_data = longs, t[3].n_int64_data = 2;
  Onnx__TensorProto *list[] = {&t[0], &t[1], &t[2], &t[3]};
  Bytes b = pack_model(list, 4);
  OnnxFile *f = onnx_file_open_bytes(diags, "m.onnx", b.items, b.n);
  CHECK(f != NULL);
  OnnxData d[4];
  for (int i = 0; i < 4; i++) CHECK(onnx_file_data(f, diags, onnx_file_model(f)->graph->initializer[i], &d[i]));
  CHECK(dtype_load_f(DT_f16, onnx_file_bytes(f, &d[0]) + 2) == -2.0);
  CHECK(dtype_load_i(DT_i8, onnx_file_bytes(f, &d[1])) == -128);
  CHECK(dtype_load_i(DT_u32, onnx_file_bytes(f, &d[2]) + 4) == 4294967295);
  CHECK(dtype_load_i(DT_i64, onnx_file_bytes(f, &d[3])) == -5);
  onnx_file_close(f);
}

static const char *write_file(const char *name, const void *bytes, size_t n) {
  const char *path = arena_printf(arena, "%s/%s", folder, name);
  FILE *out = fopen(path, "wb");
  CHECK(out && fwrite(bytes, 1, n, out) == n && fclose(out) == 0);
  return path;
}

static Onnx__StringStringEntryProto *entry(const char *key, const char *value) {
  Onnx__StringStringEntryProto *e = ARENA_NEW(arena, Onnx__StringStringEntryProto);
  onnx__string_string_entry_proto__init(e);
  e->key = arena_strdup(arena, key);
  e->value = arena_strdup(arena, value);
  return e;
}

/* Reads the data of an f32[2] with external bytes; `length` may be NULL. */
static bool external(const char *location, const char *offset, const char *length, OnnxData *data, OnnxFile **file) {
  begin();
  int64_t dims[] = {2};
  Onnx__TensorProto t = tensor_of("w", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, dims, 1);
  Onnx__StringStringEntryProto *entries[4] = {entry("location", location), entry("offset", offset),
                                              entry("checksum", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
                                              length ? entry("length", length) : NULL};
  t.external_data = entries;
  t.n_external_data = length ? 4 : 3;
  t.has_data_location = 1;
  t.data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  OnnxFile *f = open_one(&t, arena_printf(arena, "%s/%sm.onnx", folder, in_folder));
  CHECK(f != NULL);
  bool ok = onnx_file_data(f, diags, onnx_file_model(f)->graph->initializer[0], data);
  if (file) *file = f;
  else onnx_file_close(f);
  return ok;
}

static void external_data_is_mapped(void) {
  const uint8_t bytes[] = {0xff, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}; /* 1.0f 2.0f from offset 1 */
  write_file("w.bin", bytes, sizeof bytes);
  OnnxData data;
  OnnxFile *f;
  CHECK(external("w.bin", "1", "8", &data, &f));
  float values[2];
  memcpy(values, onnx_file_bytes(f, &data), 8);
  CHECK(values[0] == 1 && values[1] == 2 && data.blob == 1 && data.offset == 1);
  CHECK(onnx_file_blob_count(f) == 2);
  OnnxData again;
  CHECK(onnx_file_data(f, diags, onnx_file_model(f)->graph->initializer[0], &again) && again.blob == 1);
  onnx_file_close(f);
  CHECK(external("w.bin", "1", NULL, &data, NULL));
}

static void external_data_is_confined(void) {
  OnnxData data;
  CHECK(!external("/etc/passwd", "0", "8", &data, NULL));
  expect(DIAG_onnx_external, "absolute");
  CHECK(!external("../../etc/passwd", "0", "8", &data, NULL));
  expect(DIAG_onnx_external, "leaves the model's folder");
  CHECK(!external("sub/..", "0", "8", &data, NULL));
  expect(DIAG_onnx_external, "leaves the model's folder");
  CHECK(symlink("/etc/passwd", arena_printf(arena, "%s/link.bin", folder)) == 0);
  CHECK(!external("link.bin", "0", "8", &data, NULL));
  expect(DIAG_onnx_external, "outside the model's folder");
  CHECK(mkdir(arena_printf(arena, "%s/sub", folder), 0777) == 0);
  CHECK(symlink("../w.bin", arena_printf(arena, "%s/sub/w.bin", folder)) == 0);
  CHECK(symlink("/etc/passwd", arena_printf(arena, "%s/sub/far.bin", folder)) == 0);
  in_folder = "sub/";
  CHECK(!external("w.bin", "1", "8", &data, NULL)); /* the model is no link */
  expect(DIAG_onnx_external, "outside the model's folder");
  write_file("stored", "", 1);
  CHECK(symlink("../stored", arena_printf(arena, "%s/sub/m.onnx", folder)) == 0);
  CHECK(external("w.bin", "1", "8", &data, NULL)); /* a link to where the data lies, too */
  CHECK(!external("far.bin", "1", "8", &data, NULL));
  expect(DIAG_onnx_external, "outside the model's folder");
  in_folder = "";
  CHECK(!external("sub", "0", "8", &data, NULL));
  expect(DIAG_onnx_external, "is a folder"); /* after "tensor w" */
  CHECK(!external("w.bin", "2", "8", &data, NULL));
  expect(DIAG_onnx_external, "past its end");
  CHECK(!external("w.bin", "18446744073709551615", "8", &data, NULL));
  expect(DIAG_onnx_external, "past its end");
  CHECK(!external("w.bin", "18446744073709551616", "8", &data, NULL));
  expect(DIAG_onnx_external, "not a number");
  CHECK(!external("w.bin", "-1", "8", &data, NULL));
  expect(DIAG_onnx_external, "not a number");
  CHECK(!external("w.bin", "0", "4", &data, NULL));
  expect(DIAG_onnx_external, "length is given as 4");
  CHECK(!external("none.bin", "0", "8", &data, NULL));
  expect(DIAG_onnx_external, "cannot open");
  CHECK(!external("", "0", "8", &data, NULL));
  expect(DIAG_onnx_external, "no location");
  CHECK(!external(".", "0", "8", &data, NULL));
  CHECK(mkfifo(arena_printf(arena, "%s/fifo", folder), 0600) == 0);
  CHECK(!external("fifo", "0", "8", &data, NULL));
  expect(DIAG_onnx_external, "tensor \"w\": its location");
}

static long resident_pages(void) {
  long total = 0, resident = 0;
  FILE *in = fopen("/proc/self/statm", "r");
  CHECK(in && fscanf(in, "%ld %ld", &total, &resident) == 2);
  if (in) fclose(in);
  return resident;
}

/* Three gigabytes of raw_data, as a hole in a sparse file. */
static void three_gigabytes_open_at_once(void) {
  begin();
  const uint64_t raw = (uint64_t)3 << 30;
  const uint8_t opset[] = {0x42, 2, 0x10, 17},
                type[] = {0x08, 0x80, 0x80, 0x80, 0x80, 0x0c, 0x10, 2, 0x42, 1, 'w', 0x4a};
  uint8_t head[64];
  size_t n = 0;
#define PUT(bytes, count) (memcpy(head + n, bytes, count), n += (count))
#define PUT_VARINT(value) \
  for (uint64_t v_ = (value);; v_ >>= 7) { \
    head[n++] = (uint8_t)((v_ & 0x7f) | (v_ > 0x7f ? 0x80 : 0)); \
    if (v_ <= 0x7f) break; \
  }
  PUT(opset, sizeof opset);
  head[n++] = 0x3a; /* graph */
  PUT_VARINT(1 + 5 + sizeof type + 5 + raw);
  head[n++] = 0x2a; /* initializer */
  PUT_VARINT(sizeof type + 5 + raw);
  PUT(type, sizeof type);
  PUT_VARINT(raw);
  const char *path = write_file("big.onnx", head, n);
  CHECK(truncate(path, (off_t)(n + raw)) == 0);
  struct timespec t0, t1;
  long before = resident_pages();
  clock_gettime(CLOCK_MONOTONIC, &t0);
  OnnxFile *f = onnx_file_open(diags, path);
  clock_gettime(CLOCK_MONOTONIC, &t1);
  CHECK(f && diags->n == 0);
  double ms = (double)(t1.tv_sec - t0.tv_sec) * 1e3 + (double)(t1.tv_nsec - t0.tv_nsec) * 1e-6;
  long kib = (resident_pages() - before) * (sysconf(_SC_PAGESIZE) / 1024);
  printf("3 GiB model: opened in %.2f ms, %ld KiB more resident\n", ms, kib);
  CHECK(ms < 200 && kib < 8192);
  OnnxData data;
  CHECK(onnx_file_data(f, diags, onnx_file_model(f)->graph->initializer[0], &data));
  CHECK(data.bytes == raw && data.offset == n && onnx_file_bytes(f, &data)[raw - 1] == 0);
  onnx_file_close(f);
}

static void younger_fields_are_read(void) {
  begin();
  OnnxOverlay__NodeDeviceConfigurationProto config = ONNX_OVERLAY__NODE_DEVICE_CONFIGURATION_PROTO__INIT,
                                            *configs = &config;
  config.configuration_id = arena_strdup(arena, "two gpus");
  config.has_pipeline_stage = 1;
  config.pipeline_stage = 3;
  OnnxOverlay__NodeProto extra = ONNX_OVERLAY__NODE_PROTO__INIT;
  extra.device_configurations = &configs;
  extra.n_device_configurations = 1;
  Bytes b = pack(&extra.base);
  Onnx__NodeProto *node = onnx__node_proto__unpack(NULL, b.n, b.items);
  OnnxOverlay__NodeProto *again = onnx_node_overlay(node);
  CHECK(again && again->n_device_configurations == 1);
  CHECK_STR(again->device_configurations[0]->configuration_id, "two gpus");
  CHECK(again->device_configurations[0]->pipeline_stage == 3);
  onnx_overlay__node_proto__free_unpacked(again, NULL);
  onnx__node_proto__free_unpacked(node, NULL);
}

/* --- Malformed files --- */

static void malformed_wire_is_refused(void) {
#define CASE(text, ...) \
  { (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), text }
  const struct {
    const uint8_t *bytes;
    size_t n;
    const char *text;
  } cases[] = {
      CASE("truncated: it has 3 bytes, and a field that ends at 18", 0x3a, 0x10, 0x0a), /* graph of 16 bytes, 1 there */
      CASE("graph.node[1]: a field runs past", 0x3a, 6, 0x0a, 0, 0x0a, 2, 0x1a, 9),
      CASE("truncated: it has 3 bytes", 0x08, 0xff, 0xff),
      CASE("an integer does not end", 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
      CASE("truncated: it has 2 bytes", 0x3a, 0x80),
      CASE("field number 0", 0x00, 0x01),
      CASE("not a field key", 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
      CASE("a wire type that ONNX does not use", 0x3b),           /* start of a group */
      CASE("graph: stored with the wrong wire type", 0x38, 0x01), /* graph as an integer */
      CASE("graph.initializer[0].raw_data: stored with the wrong wire type", 0x3a, 4, 0x2a, 2, 0x48, 1),
      CASE("truncated: it has 4 bytes, and a field that ends at 9", 0x09, 1, 2, 3), /* 64 bits cut short */
      CASE("a field runs past", 0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
      CASE("cannot decode", 0x3a, 8, 0x0a, 6, 0x2a, 4, 0x3a, 2, 0, 0), /* packed floats of 2 bytes in an attribute */
      CASE("data is stored twice", 0x3a, 8, 0x2a, 6, 0x4a, 1, 0, 0x4a, 1, 0),
      CASE("in the outermost message", 'v', 'e', 'r', 's', 'i', 'o', 'n', ' ', 'h', 't', 't', 'p',
           's'), /* LFS pointer */
  };
#undef CASE
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin();
    uint8_t *copy = malloc(cases[i].n); /* exactly sized, so that a sanitizer detects overreads */
    memcpy(copy, cases[i].bytes, cases[i].n);
    OnnxFile *f = onnx_file_open_bytes(diags, "bad.onnx", copy, cases[i].n);
    CHECKF(f == NULL, "case %zu", i);
    expect(DIAG_onnx_wire, cases[i].text);
    CHECK_STR(diags->items[0].loc.file, "bad.onnx");
    onnx_file_close(f);
    free(copy);
  }
}

static void deep_nesting_is_refused(void) {
  begin();
  enum { LEVELS = 3000 };
  uint8_t *bytes = arena_alloc(arena, LEVELS * 4);
  uint8_t *p = bytes + LEVELS * 4;
  size_t n = 0; /* TypeProto.sequence_type.elem_type ..., written from the inside */
  for (int i = 0; i < LEVELS; i++) {
    uint8_t key = i % 2 ? 0x22 : 0x0a;
    size_t length = n;
    uint8_t varint[2] = {(uint8_t)(length & 0x7f), (uint8_t)(length >> 7)};
    if (length > 0x7f) *--p = varint[1], varint[0] |= 0x80, n++;
    *--p = varint[0], *--p = key, n += 2;
    if (n > 16000) break;
  }
  begin();
  Bytes type = {p, n};
  /* attribute.tp 14 <- node.attribute 5 <- graph.node 1 <- model.graph 7, each with a two-byte length */
  const uint8_t keys[] = {0x72, 0x2a, 0x0a, 0x3a};
  for (size_t i = 0; i < sizeof keys; i++) {
    uint8_t *outer = arena_alloc(arena, type.n + 4);
    size_t head = 0;
    outer[head++] = keys[i];
    outer[head++] = (uint8_t)((type.n & 0x7f) | 0x80);
    outer[head++] = (uint8_t)((type.n >> 7 & 0x7f) | 0x80);
    outer[head++] = (uint8_t)(type.n >> 14);
    memcpy(outer + head, type.items, type.n);
    type = (Bytes){outer, type.n + head};
  }
  CHECK(!onnx_file_open_bytes(diags, "deep.onnx", type.items, type.n));
  expect(DIAG_onnx_wire, "nested too deeply");
}

static void incomplete_models_are_refused(void) {
  begin();
  CHECK(!onnx_file_open_bytes(diags, "empty.onnx", "", 0));
  expect(DIAG_onnx_model, "no graph");
  begin();
  const uint8_t graph_only[] = {0x3a, 0};
  CHECK(!onnx_file_open_bytes(diags, "m.onnx", graph_only, sizeof graph_only));
  expect(DIAG_onnx_model, "operator set");
  begin();
  CHECK(!onnx_file_open(diags, arena_printf(arena, "%s/missing.onnx", folder)));
  expect(DIAG_file_read, "No such file");
  begin();
  CHECK(!onnx_file_open(diags, folder));
  expect(DIAG_file_read, "cannot read the file");
  begin();
  CHECK(!onnx_file_open(diags, write_file("empty.onnx", "", 0)));
  expect(DIAG_onnx_model, "no graph");
}

static void expect_bad_tensor(Onnx__TensorProto *t, const char *text) {
  begin();
  OnnxFile *f = open_one(t, "m.onnx");
  CHECK(f != NULL);
  OnnxData data;
  CHECK(!onnx_file_data(f, diags, onnx_file_model(f)->graph->initializer[0], &data));
  expect(DIAG_onnx_tensor, text);
  expect(DIAG_onnx_tensor, "tensor \"t\"");
  onnx_file_close(f);
}

static void malformed_tensors_are_refused(void) {
  int64_t three[] = {3}, negative[] = {-1}, huge[] = {1 << 30, 1 << 30, 1 << 30}, large[] = {1ll << 62};
  int32_t out_of_range[] = {1, 300, 2};
  float floats[] = {1, 2, 3};
  const uint8_t bytes[] = {0, 1, 2};
  Onnx__TensorProto t = tensor_of("t", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, three, 1);
  set_raw(&t, bytes, 3);
  expect_bad_tensor(&t, "ask for 12 bytes, raw_data has 3");
  t.int32_data = out_of_range, t.n_int32_data = 3;
  expect_bad_tensor(&t, "more than one place");
  t = tensor_of("t", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, three, 1);
  t.float_data = floats, t.n_float_data = 2;
  expect_bad_tensor(&t, "float_data has 8");
  t.data_type = ONNX__TENSOR_PROTO__DATA_TYPE__INT32;
  expect_bad_tensor(&t, "its data is in float_data, but its type is i32");
  int64_t longs[] = {1, 2, 3};
  t = tensor_of("t", ONNX__TENSOR_PROTO__DATA_TYPE__INT32, three, 1);
  t.int64_data = longs, t.n_int64_data = 3;
  expect_bad_tensor(&t, "int32_data has 0");
  t.int32_data = out_of_range, t.n_int32_data = 3;
  expect_bad_tensor(&t, "more than one field");
  t = tensor_of("t", 22 /* INT4 */, three, 1);
  t.int32_data = out_of_range, t.n_int32_data = 3;
  expect_bad_tensor(&t, "ask for 2 packed bytes, int32_data has 3");
  t = tensor_of("t", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, negative, 1);
  expect_bad_tensor(&t, "dimension 0 is -1");
  t = tensor_of("t", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, huge, 3);
  expect_bad_tensor(&t, "2^64 elements");
  t = tensor_of("t", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, large, 1);
  expect_bad_tensor(&t, "2^64 bytes");
  t = tensor_of("t", ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, three, 1);
  t.int32_data = out_of_range, t.n_int32_data = 3;
  expect_bad_tensor(&t, "element 1 of int32_data is 300");
  t = tensor_of("t", ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, three, 1);
  set_raw(&t, bytes, 3);
  expect_bad_tensor(&t, "element 2 is 2, not a bool");
  t = tensor_of("t", ONNX__TENSOR_PROTO__DATA_TYPE__STRING, three, 1);
  expect_bad_tensor(&t, "STRING (8) is not supported");
  t = tensor_of("t", ONNX__TENSOR_PROTO__DATA_TYPE__COMPLEX64, three, 1);
  expect_bad_tensor(&t, "COMPLEX64 (14) is not supported");
  t = tensor_of("t", -4, three, 1);
  expect_bad_tensor(&t, "unknown (-4)");
  Onnx__TensorProto__Segment segment = ONNX__TENSOR_PROTO__SEGMENT__INIT;
  t = tensor_of("t", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, three, 1);
  t.segment = &segment;
  expect_bad_tensor(&t, "segments");
}

/* Every prefix of a good model, and the model with each byte replaced, ends in a diagnostic or a model. */
static void truncations_and_flips_never_crash(void) {
  int64_t dims[] = {2};
  float floats[] = {1, 2};
  Onnx__TensorProto t = tensor_of("t", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, dims, 1), u = t;
  set_raw(&t, floats, 8);
  u.float_data = floats, u.n_float_data = 2;
  Onnx__TensorProto *both[] = {&t, &u};
  Bytes good = pack_model(both, 2);
  for (size_t i = 0; i < good.n * 257; i++) {
    size_t n = i < good.n ? i : good.n;
    uint8_t *copy = malloc(n ? n : 1);
    memcpy(copy, good.items, n);
    if (i >= good.n) copy[i % good.n] = (uint8_t)(i / good.n - 1);
    begin();
    OnnxFile *f = onnx_file_open_bytes(diags, "m.onnx", copy, n);
    CHECK(f || diags->errors);
    for (size_t k = 0; f && k < onnx_file_model(f)->graph->n_initializer; k++) {
      OnnxData data;
      size_t errors = diags->errors;
      CHECK(onnx_file_data(f, diags, onnx_file_model(f)->graph->initializer[k], &data) || diags->errors > errors);
    }
    onnx_file_close(f);
    free(copy);
  }
}

static void remove_folder(void) {
  static const char *const names[] = {"w.bin",  "link.bin",  "fifo",        "big.onnx",  "empty.onnx",
                                      "stored", "sub/w.bin", "sub/far.bin", "sub/m.onnx"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(arena_printf(arena, "%s/%s", folder, names[i]));
  rmdir(arena_printf(arena, "%s/sub", folder));
  rmdir(folder);
}

int main(void) {
  arena = arena_new();
  if (!mkdtemp(folder)) return 1;
  RUN(raw_data_stays_in_place);
  RUN(packed_floats_stay_in_place);
  RUN(tensors_are_cut_everywhere);
  RUN(typed_fields_are_read);
  RUN(external_data_is_mapped);
  RUN(external_data_is_confined);
  RUN(three_gigabytes_open_at_once);
  RUN(younger_fields_are_read);
  RUN(malformed_wire_is_refused);
  RUN(deep_nesting_is_refused);
  RUN(incomplete_models_are_refused);
  RUN(malformed_tensors_are_refused);
  RUN(truncations_and_flips_never_crash);
  remove_folder();
  arena_free(arena);
  return test_summary();
}
