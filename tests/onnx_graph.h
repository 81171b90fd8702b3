/* tests/onnx_graph.h - ONNX graphs for tests of the importer, built in memory.
 *
 * begin(); in(...), out(...), node(...), attr(...); then IMPORTS() and HAS("text of the module"), or expect(an error).
 */
#ifndef APC_TESTS_ONNX_GRAPH_H
#define APC_TESTS_ONNX_GRAPH_H

#include <stdlib.h>

#include "frontend/onnx/import.h"
#include "tests/test.h"

/* ---- building models */

static Arena *arena;
static Diags *diags;
static Module *module;
static Onnx__ModelProto model;
static Onnx__GraphProto graph;
static Onnx__FunctionProto function;
static struct {
  Onnx__NodeProto **items;
  size_t n, cap;
} nodes, body;
static struct {
  Onnx__ValueInfoProto **items;
  size_t n, cap;
} inputs, outputs;
static struct {
  Onnx__TensorProto **items;
  size_t n, cap;
} initializers;
static int64_t opset;

enum { F32 = 1, I32 = 6, I64 = 7, STRING = 8, BOOL = 9, F16 = 10, F64 = 11 };
#define INT ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT
#define INTS ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS
#define FLOAT ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT
#define STRING_ATTR ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING
#define TENSOR ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR

static inline void begin(void) {
  if (module) module_free(module);
  if (arena) arena_free(arena);
  arena = arena_new();
  diags = diags_new(arena);
  module = NULL;
  onnx__model_proto__init(&model);
  onnx__graph_proto__init(&graph);
  onnx__function_proto__init(&function);
  memset(&nodes, 0, sizeof nodes);
  memset(&body, 0, sizeof body);
  memset(&inputs, 0, sizeof inputs);
  memset(&outputs, 0, sizeof outputs);
  memset(&initializers, 0, sizeof initializers);
  opset = 17;
}

/* Splits "a,b,,c" into a list; empty parts are empty strings. */
static inline char **list_of(const char *text, size_t *n) {
  char **out = ARENA_ARRAY(arena, char *, strlen(text) + 1);
  *n = 0;
  for (const char *p = text; *text; p = strchr(p, ',') + 1) {
    out[(*n)++] = arena_strndup(arena, p, strcspn(p, ","));
    if (!strchr(p, ',')) break;
  }
  return out;
}

/* Dimensions: numbers, names, or "?" for one without either. */
static inline Onnx__ValueInfoProto *value_info(const char *name, int32_t type, const char *dims) {
  Onnx__ValueInfoProto *v = ARENA_NEW(arena, Onnx__ValueInfoProto);
  onnx__value_info_proto__init(v);
  v->name = arena_strdup(arena, name);
  v->type = ARENA_NEW(arena, Onnx__TypeProto);
  onnx__type_proto__init(v->type);
  v->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  Onnx__TypeProto__Tensor *t = v->type->tensor_type = ARENA_NEW(arena, Onnx__TypeProto__Tensor);
  onnx__type_proto__tensor__init(t);
  t->has_elem_type = 1;
  t->elem_type = type;
  if (!dims) return v;
  t->shape = ARENA_NEW(arena, Onnx__TensorShapeProto);
  onnx__tensor_shape_proto__init(t->shape);
  char **part = list_of(dims, &t->shape->n_dim);
  t->shape->dim = ARENA_ARRAY(arena, Onnx__TensorShapeProto__Dimension *, t->shape->n_dim);
  for (size_t i = 0; i < t->shape->n_dim; i++) {
    Onnx__TensorShapeProto__Dimension *d = t->shape->dim[i] = ARENA_NEW(arena, Onnx__TensorShapeProto__Dimension);
    onnx__tensor_shape_proto__dimension__init(d);
    char *end;
    long number = strtol(part[i], &end, 10);
    if (strcmp(part[i], "?") == 0) continue;
    d->value_case = *end ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                         : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    if (*end) d->dim_param = part[i];
    else d->dim_value = number;
  }
  return v;
}

static inline void in(const char *name, int32_t type, const char *dims) {
  ARENA_PUSH(arena, &inputs, value_info(name, type, dims));
}
static inline void out(const char *name) { ARENA_PUSH(arena, &outputs, value_info(name, F32, NULL)); }

static inline Onnx__NodeProto *new_node(const char *type, const char *in_names, const char *out_names) {
  Onnx__NodeProto *n = ARENA_NEW(arena, Onnx__NodeProto);
  onnx__node_proto__init(n);
  n->op_type = arena_strdup(arena, type);
  n->input = list_of(in_names, &n->n_input);
  n->output = list_of(out_names, &n->n_output);
  n->name = arena_printf(arena, "/%s", out_names);
  n->attribute = ARENA_ARRAY(arena, Onnx__AttributeProto *, 20);
  return n;
}

static inline Onnx__NodeProto *node(const char *type, const char *in_names, const char *out_names) {
  Onnx__NodeProto *n = new_node(type, in_names, out_names);
  ARENA_PUSH(arena, &nodes, n);
  return n;
}

static inline Onnx__AttributeProto *attr(Onnx__NodeProto *n, const char *name, Onnx__AttributeProto__AttributeType type,
                                         int64_t value) {
  Onnx__AttributeProto *a = n->attribute[n->n_attribute++] = ARENA_NEW(arena, Onnx__AttributeProto);
  onnx__attribute_proto__init(a);
  a->name = arena_strdup(arena, name);
  a->has_type = 1;
  a->type = type;
  a->has_i = type == INT;
  a->i = value;
  if (type == INTS) {
    a->n_ints = 1;
    a->ints = ARENA_ARRAY(arena, int64_t, 1);
    a->ints[0] = value;
  }
  return a;
}

/* A graph inside a node; its inputs have no types, as some exporters write them. */
static inline Onnx__GraphProto *graph_attr(Onnx__NodeProto *n, const char *name, const char *in_names,
                                           const char *out_names) {
  Onnx__AttributeProto *a = attr(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH, 0);
  Onnx__GraphProto *g = a->g = ARENA_NEW(arena, Onnx__GraphProto);
  onnx__graph_proto__init(g);
  g->name = a->name;
  char **list[2];
  size_t counts[2];
  list[0] = list_of(in_names, &counts[0]), list[1] = list_of(out_names, &counts[1]);
  for (int k = 0; k < 2; k++) {
    Onnx__ValueInfoProto **infos = ARENA_ARRAY(arena, Onnx__ValueInfoProto *, counts[k] + 1);
    for (size_t i = 0; i < counts[k]; i++) {
      infos[i] = ARENA_NEW(arena, Onnx__ValueInfoProto);
      onnx__value_info_proto__init(infos[i]);
      infos[i]->name = list[k][i];
    }
    *(k ? &g->output : &g->input) = infos;
    *(k ? &g->n_output : &g->n_input) = counts[k];
  }
  g->node = ARENA_ARRAY(arena, Onnx__NodeProto *, 16);
  return g;
}

static inline Onnx__NodeProto *node_in(Onnx__GraphProto *g, const char *type, const char *in_names,
                                       const char *out_names) {
  return g->node[g->n_node++] = new_node(type, in_names, out_names);
}

static inline void int_list_attr(Onnx__NodeProto *n, const char *name, const char *values) {
  Onnx__AttributeProto *a = attr(n, name, INTS, 0);
  char **part = list_of(values, &a->n_ints);
  a->ints = ARENA_ARRAY(arena, int64_t, a->n_ints + 1);
  for (size_t i = 0; i < a->n_ints; i++) a->ints[i] = atoll(part[i]);
}

static inline void ints(const char *name, const char *values) {
  Onnx__TensorProto *t = ARENA_NEW(arena, Onnx__TensorProto);
  onnx__tensor_proto__init(t);
  t->name = arena_strdup(arena, name);
  t->has_data_type = 1;
  t->data_type = I64;
  char **part = list_of(values, &t->n_int64_data);
  t->int64_data = ARENA_ARRAY(arena, int64_t, t->n_int64_data + 1);
  for (size_t i = 0; i < t->n_int64_data; i++) t->int64_data[i] = atoll(part[i]);
  t->dims = ARENA_ARRAY(arena, int64_t, 1);
  t->dims[0] = (int64_t)t->n_int64_data;
  t->n_dims = 1;
  ARENA_PUSH(arena, &initializers, t);
}

static inline void weight(const char *name, int64_t rows, int64_t columns) {
  Onnx__TensorProto *t = ARENA_NEW(arena, Onnx__TensorProto);
  onnx__tensor_proto__init(t);
  t->name = arena_strdup(arena, name);
  t->has_data_type = t->has_raw_data = 1;
  t->data_type = F32;
  t->dims = ARENA_ARRAY(arena, int64_t, 2);
  t->dims[0] = rows, t->dims[1] = columns;
  t->n_dims = 2;
  t->raw_data.len = (size_t)(rows * columns * 4);
  t->raw_data.data = arena_alloc(arena, t->raw_data.len);
  ARENA_PUSH(arena, &initializers, t);
}

static inline void floats(const char *name, int count, const float *values) {
  weight(name, 1, count);
  Onnx__TensorProto *t = initializers.items[initializers.n - 1];
  t->n_dims = 1;
  t->dims[0] = count;
  memcpy(t->raw_data.data, values, sizeof *values * (size_t)count);
}

static inline void string_attr(Onnx__NodeProto *n, const char *name, const char *value) {
  Onnx__AttributeProto *a = attr(n, name, STRING_ATTR, 0);
  a->has_s = 1;
  a->s = (ProtobufCBinaryData){strlen(value), (uint8_t *)arena_strdup(arena, value)};
}

static inline bool import_with(const OnnxImportOptions *options) {
  Onnx__OperatorSetIdProto set = ONNX__OPERATOR_SET_ID_PROTO__INIT, *sets = &set;
  Onnx__FunctionProto *functions = &function;
  set.has_version = 1;
  set.version = opset;
  model.graph = &graph;
  model.opset_import = &sets;
  model.n_opset_import = 1;
  graph.node = nodes.items, graph.n_node = nodes.n;
  graph.input = inputs.items, graph.n_input = inputs.n;
  graph.output = outputs.items, graph.n_output = outputs.n;
  graph.initializer = initializers.items, graph.n_initializer = initializers.n;
  if (body.n) {
    function.node = body.items, function.n_node = body.n;
    model.functions = &functions;
    model.n_functions = 1;
  }
  size_t n = onnx__model_proto__get_packed_size(&model);
  uint8_t *bytes = arena_alloc(arena, n);
  onnx__model_proto__pack(&model, bytes);
  OnnxFile *f = onnx_file_open_bytes(diags, "m.onnx", bytes, n);
  if (module) module_free(module);
  module = NULL;
  bool ok = f && onnx_import(&module, f, options, diags) && verify_module(module, diags);
  onnx_file_close(f);
  return ok;
}

static inline bool import(void) { return import_with(NULL); }

/* Writes the model as a file for other tools; after import(), which completes it. */
static inline bool write_graph(const char *path) {
  Onnx__OperatorSetIdProto set = ONNX__OPERATOR_SET_ID_PROTO__INIT, *sets = &set;
  set.has_version = 1;
  set.version = opset;
  model.opset_import = &sets;
  uint8_t *bytes = arena_alloc(arena, onnx__model_proto__get_packed_size(&model));
  size_t n = onnx__model_proto__pack(&model, bytes);
  FILE *f = fopen(path, "wb");
  return f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0;
}

static inline const char *printed(void) {
  Text t = {.arena = arena};
  module_print(module, &t);
  return text_str(&t);
}

#define HAS(text) CHECKF(strstr(printed(), text), "no \"%s\" in:\n%s", text, printed())
#define HAS_NOT(text) CHECKF(!strstr(printed(), text), "\"%s\" in:\n%s", text, printed())
#define IMPORTS() \
  do { \
    if (!import()) { \
      CHECKF(false, "the graph is refused"); \
      diags_print(diags, stderr, false); \
      return; \
    } \
  } while (0)

static inline void expect(DiagCode code, const char *text, const char *place) {
  CHECK(!import());
  bool found = false;
  for (size_t i = 0; i < diags->n; i++) {
    const Diag *d = &diags->items[i];
    bool there = !place || (d->loc.node && strcmp(d->loc.node, place) == 0);
    found = found || (d->code == code && strstr(d->message, text) && there);
  }
  CHECKF(found, "no %s \"%s\" at %s", diag_code_name(code), text, place ? place : "the file");
  if (!found) diags_print(diags, stderr, false);
}

#endif
