/* frontend/onnx/import_sharding.c - checks the multi-device annotations of a model, and reports that they are not used.
 *
 * In: the fields of IR version 11 (the ONNX Multi-Device Proposal and onnx.proto): a model
 * lists configurations of devices, and a node says, for a configuration, on which devices the shards of its operands
 * and results are.  Out: one warning that names the configurations, and one for each annotation that contradicts itself
 * or the graph.  ONNX lets a backend ignore annotations, so none of these is an error.
 *
 * Not done: the planner does not follow the annotations.  Axes are checked only for tensors of the model's own graph
 * whose type the import computed.  Shards of unequal sizes are not reported, since ONNX permits them.
 */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "frontend/onnx/import_graph.h"

enum { DEVICE_FIELD = 10, MOST_FAULTS = 16, MOST_CONFIGURATIONS = 1000 };

typedef struct Check {
  const Import *im;
  const OnnxOverlay__ModelProto *model;
  size_t n_configurations; /* that are looked at */
  const Onnx__NodeProto *node;
  Loc loc;
  bool outer;       /* the node is in the model's graph, not in a graph or function inside it */
  size_t annotated; /* nodes with annotations */
  int faults;
} Check;

__attribute__((format(printf, 2, 3))) static void fault(Check *c, const char *format, ...) {
  if (c->faults++ >= MOST_FAULTS) return;
  va_list args;
  va_start(args, format);
  diag_warning(c->im->d, DIAG_onnx_sharding, c->loc, "%s", arena_vprintf(c->im->m->arena, format, args));
  va_end(args);
}

static const OnnxOverlay__DeviceConfigurationProto *configuration_of(const Check *c, const char *name) {
  for (size_t i = 0; i < c->n_configurations; i++)
    if (strcmp(onnx_text(c->model->configuration[i]->name), name) == 0) return c->model->configuration[i];
  return NULL;
}

static bool is_listed(const char *name, char *const *names, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

/* The devices that an entry of ShardingSpecProto.device stands for: a group of the map, or itself. */
static const int64_t *devices_of(const OnnxOverlay__ShardingSpecProto *s, size_t i, size_t *n) {
  for (size_t k = 0; k < s->n_index_to_device_group_map; k++) {
    const OnnxOverlay__IntIntListEntryProto *group = s->index_to_device_group_map[k];
    if (group->key != s->device[i]) continue;
    *n = group->n_value;
    return group->value;
  }
  *n = 1;
  return &s->device[i];
}

static void check_devices(Check *c, const OnnxOverlay__ShardingSpecProto *s, int32_t devices) {
  const char *tensor = onnx_text(s->tensor_name);
  NameMap seen = {0};
  for (size_t i = 0; i < s->n_device; i++) {
    size_t n;
    const int64_t *list = devices_of(s, i, &n);
    if (!n) fault(c, "sharding of \"%s\": group %" PRId64 " has no devices", tensor, s->device[i]);
    for (size_t k = 0; k < n; k++) {
      const char *number = arena_printf(c->im->m->arena, "%" PRId64, list[k]);
      if (list[k] < 0 || list[k] >= devices)
        fault(c, "sharding of \"%s\": device %s is not one of the %d of the configuration", tensor, number, devices);
      else if (name_find(&seen, number)) fault(c, "sharding of \"%s\": device %s occurs twice", tensor, number);
      name_put(c->im->m->arena, &seen, number, c);
    }
  }
}

/* The shards along one dimension; 0 after a warning. */
static int64_t shards_of(Check *c, const OnnxOverlay__ShardedDimProto *dim, const char *tensor) {
  int64_t shards = 1;
  for (size_t i = 0; i < dim->n_simple_sharding; i++) {
    int64_t n = dim->simple_sharding[i]->num_shards;
    if (n >= 1 && !__builtin_mul_overflow(shards, n, &shards)) continue;
    fault(c, "sharding of \"%s\": axis %" PRId64 " has %" PRId64 " shards", tensor, dim->axis, n);
    return 0;
  }
  return shards;
}

/* Does nothing if the rank of the tensor is not known. */
static void check_axes(Check *c, const OnnxOverlay__ShardingSpecProto *s) {
  const char *tensor = onnx_text(s->tensor_name);
  const ImportItem *item = c->outer ? import_find(c->im, tensor) : NULL;
  if (!item || !item->type) return;
  const int rank = item->type->rank;
  int64_t shards = 1;
  uint32_t seen = 0;
  for (size_t i = 0; i < s->n_sharded_dim; i++) {
    const int64_t axis = s->sharded_dim[i]->axis, at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) {
      fault(c, "sharding of \"%s\": axis %" PRId64 " of a tensor with %d dimensions", tensor, axis, rank);
      return;
    }
    if (seen >> at & 1) fault(c, "sharding of \"%s\": axis %" PRId64 " occurs twice", tensor, axis);
    seen |= 1u << at;
    const int64_t n = shards_of(c, s->sharded_dim[i], tensor);
    if (!n || __builtin_mul_overflow(shards, n, &shards)) return;
  }
  if (shards > 1 && (uint64_t)shards != s->n_device)
    fault(c, "sharding of \"%s\": %" PRId64 " shards for %zu devices or groups", tensor, shards, s->n_device);
}

static void check_node(Check *c, const OnnxOverlay__NodeDeviceConfigurationProto *n) {
  const OnnxOverlay__DeviceConfigurationProto *of = configuration_of(c, onnx_text(n->configuration_id));
  if (!of) {
    fault(c, "the model has no device configuration \"%s\"", onnx_text(n->configuration_id));
    return;
  }
  for (size_t i = 0; i < n->n_sharding_spec; i++) {
    const OnnxOverlay__ShardingSpecProto *s = n->sharding_spec[i];
    const char *tensor = onnx_text(s->tensor_name);
    if (!is_listed(tensor, c->node->input, c->node->n_input) && !is_listed(tensor, c->node->output, c->node->n_output))
      fault(c, "sharding of \"%s\", which is no operand or result of the node", tensor);
    check_devices(c, s, of->num_devices);
    check_axes(c, s);
  }
}

/* True if the node may have the field.  Most have none, and need not be packed for a look at it. */
static bool may_be_annotated(const ProtobufCMessage *node) {
  for (unsigned i = 0; i < node->n_unknown_fields; i++)
    if (node->unknown_fields[i].tag == DEVICE_FIELD) return true;
  return protobuf_c_message_descriptor_get_field(node->descriptor, DEVICE_FIELD) != NULL;
}

static void check_nodes(Check *c, Onnx__NodeProto *const *nodes, size_t n_nodes, bool outer);

static void check_graphs(Check *c, const Onnx__NodeProto *node) {
  for (size_t i = 0; i < node->n_attribute; i++) {
    const Onnx__AttributeProto *a = node->attribute[i];
    if (a->g) check_nodes(c, a->g->node, a->g->n_node, false);
    for (size_t k = 0; k < a->n_graphs; k++) check_nodes(c, a->graphs[k]->node, a->graphs[k]->n_node, false);
  }
}

static void check_annotations(Check *c, const Onnx__NodeProto *node, const OnnxOverlay__NodeProto *n) {
  const char *name = *onnx_text(node->name) ? node->name : node->n_output ? node->output[0] : "";
  c->node = node;
  c->loc = (Loc){.file = c->im->loc.file, .node = module_string(c->im->m, name)};
  for (size_t k = 0; k < n->n_device_configurations; k++) check_node(c, n->device_configurations[k]);
  c->annotated += n->n_device_configurations > 0;
}

/* `outer`: the nodes are those of the model's graph, whose values have known types. */
static void check_nodes(Check *c, Onnx__NodeProto *const *nodes, size_t n_nodes, bool outer) {
  for (size_t i = 0; i < n_nodes; i++) {
    OnnxOverlay__NodeProto *n = may_be_annotated(&nodes[i]->base) ? onnx_node_overlay(nodes[i]) : NULL;
    c->outer = outer;
    if (n) {
      check_annotations(c, nodes[i], n);
      onnx_overlay__node_proto__free_unpacked(n, NULL);
    }
    check_graphs(c, nodes[i]);
  }
}

static void check_configurations(Check *c) {
  c->loc = c->im->loc;
  if (c->model->n_configuration > c->n_configurations)
    fault(c, "the model has %zu device configurations; %d are looked at", c->model->n_configuration,
          MOST_CONFIGURATIONS);
  for (size_t i = 0; i < c->n_configurations; i++) {
    const OnnxOverlay__DeviceConfigurationProto *x = c->model->configuration[i];
    if (x->num_devices < 1) fault(c, "configuration \"%s\" has %d devices", onnx_text(x->name), x->num_devices);
    else if (x->n_device && x->n_device != (size_t)x->num_devices)
      fault(c, "configuration \"%s\" has %d devices, but names %zu", onnx_text(x->name), x->num_devices, x->n_device);
    if (configuration_of(c, onnx_text(x->name)) != x)
      fault(c, "two configurations are called \"%s\"", onnx_text(x->name));
  }
}

/* Formats "a" (2 devices), "b" (4 devices). */
static const char *configurations_text(const Check *c) {
  Text text = {.arena = c->im->m->arena};
  for (size_t i = 0; i < c->n_configurations && i < MOST_FAULTS; i++) {
    const OnnxOverlay__DeviceConfigurationProto *x = c->model->configuration[i];
    text_printf(&text, "%s\"%s\" (%d devices)", i ? ", " : "", onnx_text(x->name), x->num_devices);
  }
  if (c->model->n_configuration > MOST_FAULTS) text_add(&text, ", and more");
  return text.n ? text_str(&text) : "none";
}

void import_check_sharding(const Import *im) {
  OnnxOverlay__ModelProto *model = onnx_model_overlay(onnx_file_model(im->file));
  if (!model) return;
  Check c = {.im = im, .model = model, .n_configurations = model->n_configuration};
  if (c.n_configurations > MOST_CONFIGURATIONS) c.n_configurations = MOST_CONFIGURATIONS;
  check_configurations(&c);
  const Onnx__ModelProto *m = onnx_file_model(im->file);
  check_nodes(&c, m->graph->node, m->graph->n_node, true);
  for (size_t i = 0; i < m->n_functions; i++) check_nodes(&c, m->functions[i]->node, m->functions[i]->n_node, false);
  c.loc = im->loc;
  if (c.faults > MOST_FAULTS)
    diag_note(im->d, c.loc, "%d more annotations contradict themselves or the graph", c.faults - MOST_FAULTS);
  if (c.annotated) {
    diag_warning(im->d, DIAG_onnx_sharding_unused, c.loc,
                 "the sharding annotations of %zu node%s are not used; configurations: %s", c.annotated,
                 c.annotated == 1 ? "" : "s", configurations_text(&c));
    diag_help(im->d, "apc chooses the layouts; --pin and --plan force some");
  }
  onnx_overlay__model_proto__free_unpacked(model, NULL);
}
