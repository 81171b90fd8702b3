/* frontend/onnx/import_sharding.c - reads and checks the multi-device annotations of a model.
 *
 * In: the fields of IR version 11 (the ONNX Multi-Device Proposal and onnx.proto): a model
 * lists configurations of devices, and a node says, for a configuration, on which devices the shards of its operands
 * and results are.  Out: the annotations of the graph's nodes (sharding.h), which driver/annotated.c makes a part of a
 * plan; and a warning for each that contradicts itself or the graph.
 *
 * Not done: annotations in functions and in graphs inside nodes are checked and counted only.  Axes are checked only
 * for tensors of the model's own graph whose type the import computed.  Shards of unequal sizes are not reported, since
 * ONNX permits them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/onnx/import_graph.h"
#include "frontend/onnx/sharding_spec.h"
#include "ir/layout/rule.h"

enum { DEVICE_FIELD = 10, MOST_FAULTS = 16, MOST_CONFIGURATIONS = 1000 };

/* A node of the model's graph, and its number among the nodes with calls expanded. */
typedef struct Place {
  const Onnx__NodeProto *node;
  size_t at;
} Place;

typedef struct Check {
  const Import *im;
  const OnnxOverlay__ModelProto *model;
  size_t n_configurations; /* that are looked at */
  const Onnx__NodeProto *node;
  Loc loc;
  bool outer;          /* the node is in the model's graph, not in a graph or function inside it */
  const Place *places; /* of the graph's nodes, ascending by node */
  OnnxSharding *out;
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

/* Returns the place of the name; -1 if it is not in the list. */
static int place_in(const char *name, char *const *names, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(names[i], name) == 0) return (int)i;
  return -1;
}

static bool is_listed(const char *name, char *const *names, size_t n) { return place_in(name, names, n) >= 0; }

/* Ends at the first fault, so that a group that occurs often is walked twice at most. */
static void check_devices(Check *c, const OnnxOverlay__ShardingSpecProto *s, int32_t devices) {
  const double most_lookups = 1e8; /* groups are found one by one */
  const char *tensor = onnx_text(s->tensor_name);
  NameMap seen = {0};
  bool many = (double)s->n_device * (double)s->n_index_to_device_group_map > most_lookups;
  if (many || s->n_device > (uint64_t)(devices > 0 ? devices : 0)) {
    fault(c, "sharding of \"%s\": %zu devices and %zu groups, of %d devices", tensor, s->n_device,
          s->n_index_to_device_group_map, devices);
    return;
  }
  for (size_t i = 0, n = 0; i < s->n_device; i++) {
    const int64_t *list = onnx_spec_devices(s, i, &n);
    if (!n) fault(c, "sharding of \"%s\": group %" PRId64 " has no devices", tensor, s->device[i]);
    for (size_t k = 0; k < n; k++) {
      const char *number = arena_printf(c->im->m->arena, "%" PRId64, list[k]);
      if (list[k] < 0 || list[k] >= devices) {
        fault(c, "sharding of \"%s\": device %s is not one of the %d of the configuration", tensor, number, devices);
        return;
      }
      if (name_find(&seen, number)) {
        fault(c, "sharding of \"%s\": device %s occurs twice", tensor, number);
        return;
      }
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

/* ---- the annotations of nodes */

static int by_node(const void *x, const void *y) {
  const uintptr_t a = (uintptr_t)((const Place *)x)->node, b = (uintptr_t)((const Place *)y)->node;
  return (a > b) - (a < b);
}

static const Place *places(const Import *im) {
  const OnnxNodes *nodes = &im->g->nodes;
  Place *list = ARENA_ARRAY(im->m->arena, Place, nodes->n + 1);
  for (size_t i = 0; i < nodes->n; i++) list[i] = (Place){nodes->items[i], i};
  qsort(list, nodes->n, sizeof *list, by_node);
  return list;
}

/* Returns the place of the node; NULL if it is a call, which has been expanded. */
static const Place *place_of(const Check *c) {
  return bsearch(&(Place){c->node, 0}, c->places, c->im->g->nodes.n, sizeof *c->places, by_node);
}

/* Copies the message, whose file may be closed, into the arena. */
static const OnnxOverlay__ShardingSpecProto *kept(Arena *a, const OnnxOverlay__ShardingSpecProto *s) {
  const size_t n = onnx_overlay__sharding_spec_proto__get_packed_size(s);
  uint8_t *bytes = ARENA_ARRAY(a, uint8_t, n + 1);
  onnx_overlay__sharding_spec_proto__pack(s, bytes);
  return (const void *)onnx_unpack(a, &onnx_overlay__sharding_spec_proto__descriptor, n, bytes);
}

/* Returns the dimensions over which a product of the node sums that reads the value; 0 if there is none.  The
 * operations of a node are one after the other, up to the one of its first result. */
static uint32_t summed_dims(const Check *c, const char *node, Val v) {
  const Func *f = c->im->b.f;
  const ImportItem *result = c->node->n_output ? import_find(c->im, c->node->output[0]) : NULL;
  uint32_t dims = 0;
  if (!result || !result->val) return 0;
  for (int i = f->values.items[result->val].op; i >= 0; i--) {
    const Op *op = &f->ops.items[i];
    if (!op->loc.node || (op->kind != OP_param && strcmp(op->loc.node, node) != 0)) break;
    const Rule *r = op_is_contraction(op->kind) ? rule_of(c->im->m, f, op) : NULL;
    for (int j = 0; r && j < op->nin; j++)
      for (int d = 0; op->in[j] == v && d < r->operands[j].rank; d++) {
        const DimFactors *dim = &r->operands[j].dims[d];
        dims |= (uint32_t)(dim->n && r->factors[dim->f[0]].kind == FK_REDUCE) << d;
      }
  }
  return dims;
}

static OnnxTensorSharding tensor_sharding(const Check *c, const OnnxOverlay__ShardingSpecProto *s, bool malformed,
                                          const char *node) {
  const char *tensor = onnx_text(s->tensor_name);
  const Func *f = c->im->b.f;
  const ImportItem *item = import_find(c->im, tensor);
  OnnxTensorSharding out = {.tensor = arena_strdup(c->im->m->arena, tensor),
                            .result = is_listed(tensor, c->node->output, c->node->n_output),
                            .malformed = malformed,
                            .place = place_in(tensor, c->node->input, c->node->n_input),
                            .spec = kept(c->im->m->arena, s),
                            .type = item ? item->type : NULL};
  if (out.result) out.place = place_in(tensor, c->node->output, c->node->n_output);
  if (!item || !item->val) return out;
  const Op *op = &f->ops.items[f->values.items[item->val].op];
  out.maker = op->name, out.number = (int)(item->val - op->out);
  if (!out.result) out.summed = summed_dims(c, node, item->val);
  return out;
}

static void check_node(Check *c, const OnnxOverlay__NodeDeviceConfigurationProto *n) {
  Arena *a = c->im->m->arena;
  const OnnxOverlay__DeviceConfigurationProto *of = configuration_of(c, onnx_text(n->configuration_id));
  if (!of) {
    fault(c, "the model has no device configuration \"%s\"", onnx_text(n->configuration_id));
    return;
  }
  const Place *place = c->outer ? place_of(c) : NULL;
  OnnxNodeSharding out = {.node = place ? c->im->g->names[place->at] : NULL,
                          .configuration = arena_strdup(a, onnx_text(of->name)),
                          .staged = n->has_pipeline_stage,
                          .stage = n->pipeline_stage};
  NameMap named = {0};
  for (size_t i = 0; i < n->n_sharding_spec; i++) {
    const OnnxOverlay__ShardingSpecProto *s = n->sharding_spec[i];
    const char *tensor = onnx_text(s->tensor_name);
    const int before = c->faults;
    if (name_find(&named, tensor)) fault(c, "sharding of \"%s\" is given twice", tensor);
    name_put(a, &named, tensor, c);
    if (!is_listed(tensor, c->node->input, c->node->n_input) && !is_listed(tensor, c->node->output, c->node->n_output))
      fault(c, "sharding of \"%s\", which is no operand or result of the node", tensor);
    check_devices(c, s, of->num_devices);
    check_axes(c, s);
    if (place) ARENA_PUSH(a, &out.tensors, tensor_sharding(c, s, c->faults > before, out.node));
  }
  if (place) ARENA_PUSH(a, &c->out->nodes, out);
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
  c->out->annotated += n->n_device_configurations > 0;
  c->out->inside += n->n_device_configurations > 0 && !(c->outer && place_of(c));
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

static void keep_configurations(const Check *c) {
  Arena *a = c->im->m->arena;
  for (size_t i = 0; i < c->n_configurations; i++) {
    const OnnxOverlay__DeviceConfigurationProto *x = c->model->configuration[i];
    const OnnxDevices kept = {arena_strdup(a, onnx_text(x->name)), x->num_devices};
    if (configuration_of(c, onnx_text(x->name)) == x) ARENA_PUSH(a, &c->out->configurations, kept);
  }
}

const OnnxSharding *import_sharding(const Import *im) {
  OnnxSharding *out = ARENA_NEW(im->m->arena, OnnxSharding);
  OnnxOverlay__ModelProto *model = onnx_model_overlay(onnx_file_model(im->file));
  if (!model) return out;
  Check c = {.im = im, .model = model, .n_configurations = model->n_configuration, .out = out};
  if (c.n_configurations > MOST_CONFIGURATIONS) c.n_configurations = MOST_CONFIGURATIONS;
  if (c.n_configurations) c.places = places(im);
  check_configurations(&c);
  keep_configurations(&c);
  const Onnx__ModelProto *m = onnx_file_model(im->file);
  check_nodes(&c, m->graph->node, m->graph->n_node, true);
  for (size_t i = 0; i < m->n_functions; i++) check_nodes(&c, m->functions[i]->node, m->functions[i]->n_node, false);
  if (c.faults > MOST_FAULTS)
    diag_note(im->d, im->loc, "%d more annotations contradict themselves or the graph", c.faults - MOST_FAULTS);
  onnx_overlay__model_proto__free_unpacked(model, NULL);
  return out;
}
