/* frontend/onnx/annotate.c - see annotate.h. */
#include "frontend/onnx/annotate.h"

#include <string.h>

enum { IR_VERSION = 11 };

/* ---- messages as fields of a message whose schema may lack them */

/* The field as protobuf-c keeps unknown ones: the length, then the message. */
static ProtobufCMessageUnknownField unknown(Arena *a, uint32_t tag, const ProtobufCMessage *m) {
  const size_t n = protobuf_c_message_get_packed_size(m);
  uint8_t *data = arena_alloc(a, n + 10), *at = data;
  for (uint64_t rest = n;; rest >>= 7) {
    *at++ = (uint8_t)(rest > 127 ? (rest & 127) | 128 : rest);
    if (rest <= 127) break;
  }
  at += protobuf_c_message_pack(m, at);
  return (ProtobufCMessageUnknownField){
      .tag = tag, .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, .len = (size_t)(at - data), .data = data};
}

static void add_field(Arena *a, ProtobufCMessage *to, uint32_t tag, const ProtobufCMessage *m) {
  ProtobufCMessageUnknownField *list = ARENA_ARRAY(a, ProtobufCMessageUnknownField, to->n_unknown_fields + 1);
  for (unsigned i = 0; i < to->n_unknown_fields; i++) list[i] = to->unknown_fields[i];
  list[to->n_unknown_fields] = unknown(a, tag, m);
  to->unknown_fields = list, to->n_unknown_fields++;
}

/* A kind of message: its field in the message around it, and its name. */
typedef struct Kind {
  uint32_t tag;
  const ProtobufCMessageDescriptor *as;
  const char *(*name)(const ProtobufCMessage *m);
} Kind;

static const char *configuration_name(const ProtobufCMessage *m) {
  return onnx_text(((const OnnxOverlay__DeviceConfigurationProto *)(const void *)m)->name);
}
static const char *node_configuration(const ProtobufCMessage *m) {
  return onnx_text(((const OnnxOverlay__NodeDeviceConfigurationProto *)(const void *)m)->configuration_id);
}

static const Kind configurations = {26, &onnx_overlay__device_configuration_proto__descriptor, configuration_name},
                  of_nodes = {10, &onnx_overlay__node_device_configuration_proto__descriptor, node_configuration};

static bool is_called(const Kind *k, const ProtobufCMessage *m, const char *name) {
  return m && strcmp(k->name(m), name) == 0;
}

/* Removes the messages of that name from a field that the installed schema has. */
static void drop_known(Arena *a, ProtobufCMessage *from, const Kind *k, const char *name) {
  const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(from->descriptor, k->tag);
  if (!field) return;
  size_t *count = (size_t *)(void *)((char *)from + field->quantifier_offset), n = 0;
  ProtobufCMessage **list = *(ProtobufCMessage ***)(void *)((char *)from + field->offset);
  for (size_t i = 0; i < *count; i++) {
    const size_t bytes = protobuf_c_message_get_packed_size(list[i]);
    uint8_t *packed = arena_alloc(a, bytes + 1);
    protobuf_c_message_pack(list[i], packed);
    if (!is_called(k, onnx_unpack(a, k->as, bytes, packed), name)) list[n++] = list[i];
  }
  *count = n;
}

/* Removes the messages of that name.  An unknown field begins with the length of its message. */
static void drop_called(Arena *a, ProtobufCMessage *from, const Kind *k, const char *name) {
  unsigned n = 0;
  for (unsigned i = 0; i < from->n_unknown_fields; i++) {
    const ProtobufCMessageUnknownField field = from->unknown_fields[i];
    size_t skip = 0;
    while (skip < field.len && field.data[skip] & 128) skip++;
    const bool is = field.tag == k->tag && skip < field.len;
    if (!is || !is_called(k, onnx_unpack(a, k->as, field.len - skip - 1, field.data + skip + 1), name))
      from->unknown_fields[n++] = field;
  }
  from->n_unknown_fields = n;
  drop_known(a, from, k, name);
}

/* ---- annotations */

static void annotate_node(Arena *a, Onnx__NodeProto *node, const char *configuration, const OnnxAnnotation *x) {
  OnnxOverlay__NodeDeviceConfigurationProto c;
  drop_called(a, &node->base, &of_nodes, configuration);
  if (x->stage < 0 && !x->specs.n) return;
  onnx_overlay__node_device_configuration_proto__init(&c);
  c.configuration_id = arena_strdup(a, configuration);
  c.sharding_spec = x->specs.items, c.n_sharding_spec = x->specs.n;
  if (x->stage >= 0) c.has_pipeline_stage = true, c.pipeline_stage = x->stage;
  add_field(a, &node->base, of_nodes.tag, &c.base);
}

void onnx_annotate(Arena *a, Onnx__ModelProto *model, const OnnxConfiguration *c, const OnnxAnnotation *by_node) {
  OnnxOverlay__DeviceConfigurationProto devices;
  onnx_overlay__device_configuration_proto__init(&devices);
  devices.name = arena_strdup(a, c->name);
  devices.has_num_devices = true, devices.num_devices = c->ndevices;
  devices.device = ARENA_ARRAY(a, char *, (size_t)c->ndevices + 1);
  for (int i = 0; i < c->ndevices; i++) devices.device[devices.n_device++] = arena_strdup(a, c->devices[i]);
  drop_called(a, &model->base, &configurations, c->name);
  add_field(a, &model->base, configurations.tag, &devices.base);
  for (size_t i = 0; i < model->graph->n_node; i++) annotate_node(a, model->graph->node[i], c->name, &by_node[i]);
  if (!model->has_ir_version || model->ir_version < IR_VERSION)
    model->has_ir_version = true, model->ir_version = IR_VERSION;
}
