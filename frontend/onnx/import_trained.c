/* frontend/onnx/import_trained.c - which initializers are weights: what training changes.
 *
 * Where the file says what they are (import_kind.c), parameters are.  Where it does not, those of several elements are;
 * most numbers of one element are constants: an epsilon, a scale, a bound.  But the bias of a layer with one result and
 * the slope of a PRelu are parameters, and neither the file nor the name tells them from a buffer.  So use decides:
 * what is an operand of a layer where that layer keeps a parameter.  Others are trained where somebody names them
 * (OnnxImportOptions.trained), and have other values where a file gives them (OnnxImportOptions.weights).
 */
#include <fnmatch.h>
#include <string.h>

#include "base/safetensors.h"
#include "frontend/onnx/import_graph.h"

enum { MOST_STEPS = 4 };

/* The operands of the type that are parameters, as a bit set. */
typedef struct Layer {
  const char *type;
  unsigned operands;
} Layer;

static unsigned parameters_of(const char *type) {
  static const Layer layers[] = {
      {"Conv", 1 << 1 | 1 << 2},
      {"ConvTranspose", 1 << 1 | 1 << 2},
      {"Gemm", 1 << 0 | 1 << 1 | 1 << 2},
      {"MatMul", 1 << 0 | 1 << 1},
      {"PRelu", 1 << 1},
      {"BatchNormalization", 1 << 1 | 1 << 2},
      {"GroupNormalization", 1 << 1 | 1 << 2},
      {"InstanceNormalization", 1 << 1 | 1 << 2},
      {"LayerNormalization", 1 << 1 | 1 << 2},
      {"RMSNormalization", 1 << 1},
      {"SimplifiedLayerNormalization", 1 << 1},
  };
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    if (strcmp(layers[i].type, type) == 0) return layers[i].operands;
  return 0;
}

/* Does it hand on the element it gets? */
static bool hands_on(const char *type) {
  static const char *const types[] = {"Cast", "Expand", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(types[i], type) == 0) return true;
  return false;
}

static bool is_product(const OnnxNodes *nodes, const char *value) {
  for (size_t i = 0; i < nodes->n; i++) {
    const Onnx__NodeProto *n = nodes->items[i];
    if (n->n_output && strcmp(n->output[0], value) == 0) return strcmp(onnx_text(n->op_type), "MatMul") == 0;
  }
  return false;
}

static bool is_parameter(const OnnxNodes *nodes, const char *name, int steps);

static bool is_parameter_of(const OnnxNodes *nodes, const Onnx__NodeProto *n, size_t operand, int steps) {
  const char *type = onnx_text(n->op_type);
  if (operand < 3 && parameters_of(type) >> operand & 1u) return true;
  if (strcmp(type, "Add") == 0 && n->n_input == 2) return is_product(nodes, n->input[1 - operand]);
  return operand == 0 && steps < MOST_STEPS && n->n_output && hands_on(type) &&
         is_parameter(nodes, n->output[0], steps + 1);
}

static bool is_parameter(const OnnxNodes *nodes, const char *name, int steps) {
  for (size_t i = 0; i < nodes->n; i++)
    for (size_t k = 0; k < nodes->items[i]->n_input; k++)
      if (strcmp(nodes->items[i]->input[k], name) == 0 && is_parameter_of(nodes, nodes->items[i], k, steps))
        return true;
  return false;
}

/* What the file says, or what use does where the file says too little. */
static OnnxKind kind_of(const Import *im, const char *name) {
  OnnxKind kind = import_kind(im->m->arena, im->kinds, name);
  if (kind != ONNX_UNKNOWN) return kind;
  return is_parameter(&im->g->nodes, name, 0) ? ONNX_PARAMETER : ONNX_OTHER;
}

bool import_is_trained(const Import *im, const char *name) {
  const OnnxImportOptions *o = im->dims.options;
  if (o && o->weights && safetensors_find(o->weights, name)) return true;
  if (!o || !o->training) return false;
  return o->trained ? fnmatch(o->trained, name, 0) == 0 : kind_of(im, name) == ONNX_PARAMETER;
}

bool import_is_fixed(const Import *im, const char *name) {
  const OnnxImportOptions *o = im->dims.options;
  return o && o->training && !o->trained && im->kinds && kind_of(im, name) != ONNX_PARAMETER;
}

/* ---- ties */

static bool all_equal(const Import *im, const OnnxData *d) {
  const uint8_t *bytes = onnx_file_bytes(im->file, d);
  size_t each = dtype_bytes(d->dtype);
  bool equal = bytes && d->elements > 1;
  for (uint64_t i = 1; equal && i < d->elements; i++) equal = memcmp(bytes, bytes + i * each, each) == 0;
  return equal;
}

static int count_users(const Import *im, const char *name) {
  int n = 0;
  for (size_t i = 0; i < im->g->nodes.n; i++) {
    const Onnx__NodeProto *node = im->g->nodes.items[i];
    size_t k = 0;
    while (k < node->n_input && strcmp(node->input[k], name) != 0) k++;
    n += k < node->n_input;
  }
  return n;
}

/* A table of a vocabulary that is tied has different elements; rows of zeros or ones are biases and gains that were
 * equal when the file was written. */
void import_warn_of_ties(const Import *im) {
  const OnnxImportOptions *o = im->dims.options;
  const char *first = NULL;
  int n = 0, users = 0;
  for (size_t i = 0; o && o->training && i < im->g->proto->n_initializer; i++) {
    const char *name = onnx_text(im->g->proto->initializer[i]->name);
    const ImportItem *item = import_find(im, name);
    if (!item->type || !dtype_is_float(item->data.dtype) || item->is_fixed || !all_equal(im, &item->data)) continue;
    int these = count_users(im, name);
    if (these < 2) continue;
    if (n++ == 0) first = name, users = these;
  }
  if (!n) return;
  const char *others = n == 1 ? "" : arena_printf(im->d->arena, ", and %d like it", n - 1);
  diag_warning(im->d, DIAG_onnx_tensor, im->loc,
               "tensor \"%s\" has equal elements and is used by %d nodes%s: exporters write equal tensors once; it is "
               "trained as one weight",
               first, users, others);
}
