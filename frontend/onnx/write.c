/* frontend/onnx/write.c - see write.h. */
#include "frontend/onnx/write.h"

#include <limits.h>
#include <string.h>

#include "base/die.h"
#include "frontend/onnx/file.h"

OnnxWriter *onnx_writer_new(Module *m, Diags *d) {
  OnnxWriter *w = ARENA_NEW(d->arena, OnnxWriter);
  Func *none = ARENA_NEW(d->arena, Func);
  *none = (Func){.level = 1};
  *w = (OnnxWriter){.arena = d->arena, .m = m, .names = builder_new(m, none, d)};
  return w;
}

int32_t onnx_type_of(DType t) {
  DType found;
  for (int32_t n = 1; n < 32; n++)
    if (onnx_dtype(n, &found) && found == t) return n;
  die("onnx: element type %s has no number", dtype_name(t));
}

/* Copies a string; protobuf-c messages have no const. */
static char *text(OnnxWriter *w, const char *s) { return arena_strdup(w->arena, s); }

/* ---- nodes */

void onnx_write_results(OnnxWriter *w, const char *type, int nout, const char *const *results, int nin,
                        const char *const *in, int nattrs, Onnx__AttributeProto *const *attrs) {
  Onnx__NodeProto *n = ARENA_NEW(w->arena, Onnx__NodeProto);
  onnx__node_proto__init(n);
  n->op_type = text(w, type);
  n->name = text(w, results[0]);
  n->n_input = (size_t)nin;
  n->input = ARENA_ARRAY(w->arena, char *, (size_t)nin + 1);
  for (int i = 0; i < nin; i++) n->input[i] = text(w, in[i]);
  n->n_output = (size_t)nout;
  n->output = ARENA_ARRAY(w->arena, char *, (size_t)nout);
  for (int i = 0; i < nout; i++) n->output[i] = text(w, results[i]);
  n->n_attribute = (size_t)nattrs;
  n->attribute = ARENA_ARRAY(w->arena, Onnx__AttributeProto *, (size_t)nattrs + 1);
  for (int i = 0; i < nattrs; i++) n->attribute[i] = attrs[i];
  ARENA_PUSH(w->arena, &w->nodes, n);
  ARENA_PUSH(w->arena, &w->writers, w->writer);
}

void onnx_write_result(OnnxWriter *w, const char *type, const char *result, int nin, const char *const *in, int nattrs,
                       Onnx__AttributeProto *const *attrs) {
  onnx_write_results(w, type, 1, &result, nin, in, nattrs, attrs);
}

const char *onnx_write_node(OnnxWriter *w, const char *type, const char *wanted, int nin, const char *const *in,
                            int nattrs, Onnx__AttributeProto *const *attrs) {
  const char *result = builder_unique_name(&w->names, wanted);
  onnx_write_result(w, type, result, nin, in, nattrs, attrs);
  return result;
}

static Onnx__AttributeProto *attribute(OnnxWriter *w, const char *name, Onnx__AttributeProto__AttributeType type) {
  Onnx__AttributeProto *a = ARENA_NEW(w->arena, Onnx__AttributeProto);
  onnx__attribute_proto__init(a);
  a->name = text(w, name);
  a->has_type = true;
  a->type = type;
  return a;
}

Onnx__AttributeProto *onnx_write_int(OnnxWriter *w, const char *name, int64_t v) {
  Onnx__AttributeProto *a = attribute(w, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
  a->has_i = true;
  a->i = v;
  return a;
}

Onnx__AttributeProto *onnx_write_ints(OnnxWriter *w, const char *name, int n, const int64_t *v) {
  Onnx__AttributeProto *a = attribute(w, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
  a->n_ints = (size_t)n;
  a->ints = ARENA_ARRAY(w->arena, int64_t, (size_t)n + 1);
  for (int i = 0; i < n; i++) a->ints[i] = v[i];
  return a;
}

Onnx__AttributeProto *onnx_write_string(OnnxWriter *w, const char *name, const char *v) {
  Onnx__AttributeProto *a = attribute(w, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
  a->has_s = true;
  a->s = (ProtobufCBinaryData){strlen(v), (uint8_t *)text(w, v)};
  return a;
}

/* ---- tensors */

const char *onnx_write_tensor(OnnxWriter *w, const char *wanted, DType t, int rank, const int64_t *dims,
                              const void *data, size_t bytes) {
  Onnx__TensorProto *p = ARENA_NEW(w->arena, Onnx__TensorProto);
  onnx__tensor_proto__init(p);
  p->name = text(w, builder_unique_name(&w->names, wanted));
  p->has_data_type = true;
  p->data_type = onnx_type_of(t);
  p->n_dims = (size_t)rank;
  p->dims = ARENA_ARRAY(w->arena, int64_t, (size_t)rank + 1);
  for (int d = 0; d < rank; d++) p->dims[d] = dims[d];
  p->has_raw_data = true;
  p->raw_data = (ProtobufCBinaryData){bytes, (uint8_t *)(uintptr_t)data};
  ARENA_PUSH(w->arena, &w->tensors, p);
  return p->name;
}

const char *onnx_write_vector(OnnxWriter *w, int n, const int64_t *v) {
  int64_t dims[1] = {n}, *data = ARENA_ARRAY(w->arena, int64_t, (size_t)n + 1);
  for (int i = 0; i < n; i++) data[i] = v[i];
  return onnx_write_tensor(w, "ints", DT_i64, 1, dims, data, (size_t)n * sizeof *data);
}

const char *onnx_write_scalar(OnnxWriter *w, DType t, double f, int64_t i, bool one_element) {
  int64_t dims[1] = {1}, *data = ARENA_NEW(w->arena, int64_t); /* space for any element */
  if (dtype_is_float(t)) dtype_store_f(t, data, f);
  else dtype_store_i(t, data, i);
  return onnx_write_tensor(w, "number", t, one_element, dims, data, dtype_bytes(t));
}

/* ---- inputs and outputs */

static Onnx__ValueInfoProto *value_info(OnnxWriter *w, const char *name, const Type *t) {
  Onnx__ValueInfoProto *v = ARENA_NEW(w->arena, Onnx__ValueInfoProto);
  Onnx__TypeProto *type = ARENA_NEW(w->arena, Onnx__TypeProto);
  Onnx__TypeProto__Tensor *tensor = ARENA_NEW(w->arena, Onnx__TypeProto__Tensor);
  Onnx__TensorShapeProto *shape = ARENA_NEW(w->arena, Onnx__TensorShapeProto);
  onnx__value_info_proto__init(v);
  onnx__type_proto__init(type);
  onnx__type_proto__tensor__init(tensor);
  onnx__tensor_shape_proto__init(shape);
  v->name = text(w, name);
  v->type = type;
  type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  type->tensor_type = tensor;
  tensor->has_elem_type = true;
  tensor->elem_type = onnx_type_of(t->dtype);
  tensor->shape = shape;
  shape->n_dim = (size_t)t->rank;
  shape->dim = ARENA_ARRAY(w->arena, Onnx__TensorShapeProto__Dimension *, (size_t)t->rank + 1);
  for (int d = 0; d < t->rank; d++) {
    Onnx__TensorShapeProto__Dimension *dim = shape->dim[d] = ARENA_NEW(w->arena, Onnx__TensorShapeProto__Dimension);
    onnx__tensor_shape_proto__dimension__init(dim);
    int64_t size;
    if (ex_get_const(t->dims[d], &size)) {
      dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
      dim->dim_value = size;
      continue;
    }
    Text formula = {.arena = w->arena};
    ex_print(w->m, &formula, t->dims[d]);
    dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    dim->dim_param = text(w, text_str(&formula));
  }
  return v;
}

void onnx_write_input(OnnxWriter *w, const char *name, const Type *t) {
  ARENA_PUSH(w->arena, &w->inputs, value_info(w, name, t));
}
void onnx_write_output(OnnxWriter *w, const char *name, const Type *t) {
  ARENA_PUSH(w->arena, &w->outputs, value_info(w, name, t));
}

/* ---- graphs inside nodes */

OnnxAround onnx_write_begin(OnnxWriter *w) {
  OnnxAround around = {w->nodes, w->inputs, w->outputs, w->writers.n, w->writer};
  w->nodes = (OnnxNodeList){0};
  w->inputs = w->outputs = (OnnxInfoList){0};
  return around;
}

Onnx__AttributeProto *onnx_write_end(OnnxWriter *w, OnnxAround around, const char *attr, const char *graph) {
  Onnx__AttributeProto *a = attribute(w, attr, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);
  Onnx__GraphProto *g = a->g = ARENA_NEW(w->arena, Onnx__GraphProto);
  onnx__graph_proto__init(g);
  g->name = text(w, graph);
  g->n_node = w->nodes.n, g->node = w->nodes.items;
  g->n_input = w->inputs.n, g->input = w->inputs.items;
  g->n_output = w->outputs.n, g->output = w->outputs.items;
  w->nodes = around.nodes, w->inputs = around.inputs, w->outputs = around.outputs;
  w->writers.n = around.nwriters, w->writer = around.writer;
  return a;
}

/* ---- the message */

void onnx_write_domain(OnnxWriter *w, const char *domain) {
  if (!*domain) return;
  w->nodes.items[w->nodes.n - 1]->domain = text(w, domain);
  for (size_t i = 0; i < w->domains.n; i++)
    if (strcmp(w->domains.items[i], domain) == 0) return;
  ARENA_PUSH(w->arena, &w->domains, arena_strdup(w->arena, domain));
}

static Onnx__OperatorSetIdProto *opset(OnnxWriter *w, const char *domain, int64_t version) {
  Onnx__OperatorSetIdProto *set = ARENA_NEW(w->arena, Onnx__OperatorSetIdProto);
  onnx__operator_set_id_proto__init(set);
  set->domain = text(w, domain);
  set->has_version = true;
  set->version = version;
  return set;
}

Onnx__ModelProto *onnx_writer_model(OnnxWriter *w, const char *graph, const char *producer, const char *version) {
  Onnx__GraphProto *g = ARENA_NEW(w->arena, Onnx__GraphProto);
  onnx__graph_proto__init(g);
  g->name = text(w, graph);
  g->n_node = w->nodes.n, g->node = w->nodes.items;
  g->n_initializer = w->tensors.n, g->initializer = w->tensors.items;
  g->n_input = w->inputs.n, g->input = w->inputs.items;
  g->n_output = w->outputs.n, g->output = w->outputs.items;
  Onnx__ModelProto *model = ARENA_NEW(w->arena, Onnx__ModelProto);
  onnx__model_proto__init(model);
  model->has_ir_version = true;
  model->ir_version = ONNX_WRITE_IR_VERSION;
  model->opset_import = ARENA_ARRAY(w->arena, Onnx__OperatorSetIdProto *, 1 + w->domains.n);
  model->opset_import[model->n_opset_import++] = opset(w, "", ONNX_WRITE_OPSET);
  for (size_t i = 0; i < w->domains.n; i++)
    model->opset_import[model->n_opset_import++] = opset(w, w->domains.items[i], 1);
  model->producer_name = text(w, producer);
  model->producer_version = text(w, version);
  model->graph = g;
  return model;
}

uint8_t *onnx_pack(const Onnx__ModelProto *model, Loc loc, size_t *bytes, Diags *d) {
  *bytes = onnx__model_proto__get_packed_size(model);
  if (*bytes > INT_MAX) {
    diag_error(d, DIAG_onnx_export, loc,
               "the model has %zu bytes; an ONNX file with its weights inside has at most 2 GiB", *bytes);
    return NULL;
  }
  uint8_t *packed = arena_alloc(d->arena, *bytes);
  onnx__model_proto__pack(model, packed);
  return packed;
}
