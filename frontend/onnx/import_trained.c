/* frontend/onnx/import_trained.c - decides which initializers are weights, that is, which training changes.
 *
 * The user decides first (OnnxImportOptions.rules, .trained), then the file (import_kind.c).  If the file says
 * nothing about an initializer but describes others, use decides: an initializer that reaches a product, a
 * convolution, a norm, a gather, a concatenation or an addition of data is a weight, and this guess is reported.  If
 * the file says nothing at all, initializers of several elements are weights.  Most numbers of one element are
 * constants: an epsilon, a scale, a bound.  But the bias of a layer with one result and the slope of a PRelu are
 * parameters; there use decides, by the places where layers have parameters.  PyTorch's older exporter writes
 * constants as nodes, so an initializer named like a module's is a parameter.
 *
 * Other weights get new values if a file gives them (OnnxImportOptions.weights).  Statistics of norms are never
 * trained (import_norm.c).
 */
#include <ctype.h>
#include <string.h>

#include "base/safetensors.h"
#include "frontend/onnx/import_graph.h"

enum { MOST_STEPS = 4 };

/* The operands of an operator type that are parameters, as a bit set. */
typedef struct Layer {
  const char *type;
  unsigned operands;
} Layer;

static unsigned parameters_of(const char *type) {
  static const Layer layers[] = {
      {"Conv", 1 << 1 | 1 << 2},
      {"ConvTranspose", 1 << 1 | 1 << 2},
      {"Gather", 1 << 0},
      {"Gemm", 1 << 0 | 1 << 1 | 1 << 2},
      {"MatMul", 1 << 0 | 1 << 1},
      {"PRelu", 1 << 1},
      {"BatchNormalization", 1 << 1 | 1 << 2},
      {"GroupNormalization", 1 << 1 | 1 << 2},
      {"InstanceNormalization", 1 << 1 | 1 << 2},
      {"LayerNormalization", 1 << 1 | 1 << 2},
      {"RMSNormalization", 1 << 1},
      {"SimplifiedLayerNormalization", 1 << 1},
      {"FusedMatMul", 1 << 0 | 1 << 1},
      {"TransposeMatMul", 1 << 0 | 1 << 1},
      {"MultiHeadAttention", 1 << 3},
      {"GroupQueryAttention", 1 << 11},
      {"MoE", 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7},
  };
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    if (strcmp(layers[i].type, type) == 0) return layers[i].operands;
  return 0;
}

/* True for operators that pass their operand's elements on. */
static bool hands_on(const char *type) {
  static const char *const types[] = {"Cast", "Expand", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(types[i], type) == 0) return true;
  return false;
}

static bool is_product(const Import *im, const char *value) {
  const ImportItem *item = import_find(im, value);
  bool here = item && item->producer >= 0 && name_find(&im->g->items, value) == item;
  return here && strcmp(onnx_text(im->g->nodes.items[item->producer]->op_type), "MatMul") == 0;
}

/* True if another operand of the node is data. */
static bool beside_data(const Import *im, ImportUse use) {
  const Onnx__NodeProto *n = im->g->nodes.items[use.node];
  for (size_t k = 0; k < n->n_input; k++)
    if (k != use.operand && *n->input[k] && import_is_data(im, n->input[k])) return true;
  return false;
}

static bool is_parameter(const Import *im, const char *name, bool single, int steps);

static bool is_parameter_of(const Import *im, ImportUse use, bool single, int steps) {
  const Onnx__NodeProto *n = im->g->nodes.items[use.node];
  const char *type = onnx_text(n->op_type);
  bool gathered = strcmp(type, "Gather") == 0;
  if (use.operand < 32 && parameters_of(type) >> use.operand & 1u) return !gathered || !single;
  bool added = strcmp(type, "Add") == 0 || (!single && strcmp(type, "Sub") == 0);
  if (added && n->n_input == 2) return single ? is_product(im, n->input[1 - use.operand]) : beside_data(im, use);
  if (!single && strcmp(type, "Concat") == 0) return beside_data(im, use);
  return use.operand == 0 && steps < MOST_STEPS && n->n_output && hands_on(type) &&
         is_parameter(im, n->output[0], single, steps + 1);
}

static bool is_parameter(const Import *im, const char *name, bool single, int steps) {
  ImportUses uses = import_uses_of(im, name);
  for (size_t i = 0; i < uses.n; i++)
    if (is_parameter_of(im, uses.items[i], single, steps)) return true;
  return false;
}

bool import_use_trains(const Import *im, ImportUse use, bool single) { return is_parameter_of(im, use, single, 0); }

bool import_is_traced(const Import *im) {
  const char *producer = onnx_text(onnx_file_model(im->file)->producer_name);
  return !im->kinds && strcmp(producer, "pytorch") == 0;
}

/* True for names of a module's members, not those of steps of the exporter ("onnx::MatMul_12", "12"). */
static bool is_named_by_module(const char *name) {
  return (isalpha((unsigned char)*name) || *name == '_') && strncmp(name, "onnx::", 6) != 0;
}

/* ---- reports */

typedef struct Found {
  OnnxReads guessed, buffers, constants, unused;
} Found;

static const char *names_text(Arena *a, const OnnxReads *names) {
  enum { SHOWN = 4 };
  Text t = {.arena = a};
  for (size_t i = 0; i < names->n && i < SHOWN; i++) text_printf(&t, "%s\"%s\"", i ? ", " : "", names->items[i]);
  if (names->n > SHOWN) text_printf(&t, " and %zu more", names->n - SHOWN);
  return text_str(&t);
}

const char *import_names_text(const Import *im, const OnnxReads *names) { return names_text(im->m->arena, names); }

static void fix(const Import *im, ImportItem *item, OnnxReads *list) {
  item->is_fixed = true;
  if (item->data.elements > 1) ARENA_PUSH(im->m->arena, list, item->name);
}

/* Decides by use for an initializer that the file does not describe, although it describes others. */
static void guess(const Import *im, ImportItem *item, Found *found) {
  if (!is_parameter(im, item->name, item->data.elements == 1, 0)) return fix(im, item, &found->unused);
  item->is_trained = true;
  ARENA_PUSH(im->m->arena, &found->guessed, item->name);
}

const SafetensorsEntry *import_stored(const Import *im, const char *weight) {
  const OnnxImportOptions *o = im->dims.options;
  if (!o || !o->weights) return NULL;
  return safetensors_find(o->weights, o->weight_name ? o->weight_name(o->weight_maps, weight) : weight);
}

static void decide(const Import *im, ImportItem *item, Found *found) {
  const OnnxImportOptions *o = im->dims.options;
  bool single = item->data.elements == 1;
  if (import_stored(im, item->name)) item->is_trained = true;
  if (!o->training) return;
  if (training_wish(o->rules, item->name) == TRAINING_TRAINED) {
    item->is_trained = true;
    return;
  }
  if (o->trained) {
    item->is_trained |= training_glob(o->trained, item->name);
    return;
  }
  switch (import_kind(im->m->arena, im->kinds, item->name)) {
    case ONNX_PARAMETER: item->is_trained = true; return;
    case ONNX_OTHER: return fix(im, item, &found->buffers);
    case ONNX_CONSTANT: return fix(im, item, &found->constants);
    case ONNX_UNKNOWN: break;
  }
  if (im->kinds) return guess(im, item, found);
  if (single && import_is_traced(im) && is_named_by_module(item->name)) {
    item->is_trained = true;
    ARENA_PUSH(im->m->arena, &found->guessed, item->name);
    return;
  }
  item->is_trained |= is_parameter(im, item->name, single, 0);
}

static void say_fixed(const Import *im, const OnnxReads *names, const char *why) {
  if (names->n)
    ARENA_PUSH(im->m->arena, &im->facts->said,
               arena_printf(im->m->arena, "not trained: %s; %s (--trainable NAME trains one)",
                            names_text(im->m->arena, names), why));
}

static void say(const Import *im, const Found *found) {
  if (im->g->outer) return;
  if (found->guessed.n)
    diag_warning(im->d, DIAG_onnx_trained, im->loc,
                 "the file does not say whether these are parameters; judging by their use they are, so they are "
                 "trained: %s (--freeze NAME keeps one unchanged)",
                 names_text(im->m->arena, &found->guessed));
  say_fixed(im, &found->buffers, "the file says that they are not parameters");
  say_fixed(im, &found->constants, "the exporter computed them from constants");
  say_fixed(im, &found->unused, "they reach no product, convolution, norm, gather or addition of data");
}

/* A tensor that is stored element by element has no bytes in the file that a weight could refer to. */
static void warn_of_constant(const Import *im, const ImportItem *item) {
  bool may_be_weight = item->is_trained || (item->data.elements > 1 && !item->is_fixed);
  if (!im->dims.options->training || !may_be_weight || onnx_file_blob(im->file, item->data.blob).path) return;
  diag_warning(im->d, DIAG_onnx_trained, im->loc,
               "tensor \"%s\" is stored number by number, so it is a constant and is not trained; save the model again "
               "with its tensors as raw data",
               item->name);
}

void import_trained(Import *im) {
  const OnnxImportOptions *o = im->dims.options;
  Found found = {0};
  if (!o || (!o->training && !o->weights)) return;
  import_uses(im);
  for (size_t i = 0; i < im->g->proto->n_initializer; i++) {
    ImportItem *item = name_find(&im->g->items, onnx_text(im->g->proto->initializer[i]->name));
    if (!item->type || !dtype_is_float(item->data.dtype)) continue;
    decide(im, item, &found);
    warn_of_constant(im, item);
  }
  say(im, &found);
}
