/* frontend/onnx/import_kind.c - what the file itself says of an initializer: that it is a parameter, or is none.
 *
 * PyTorch's exporter (torch.export, since 2.5) notes in the metadata of a value whether it was a parameter, a buffer or
 * a constant of the program.  Its optimizer computes initializers from others and notes their names instead
 * ("folded_from"); what these were has to be found in the nodes, whose notes quote the program they come from: there
 * `%p_layers_0_weight` is the parameter layers.0.weight, and buffers begin with `%b_`.  A name with dots is one of the
 * two, other names are of values that were computed.
 *
 * Other exporters say nothing, and all initializers of floats are taken for parameters (import_trained.c).
 */
#include <ctype.h>
#include <string.h>

#include "frontend/onnx/import_graph.h"

struct OnnxKinds {
  NameMap said;   /* name of an initializer: its kind */
  NameMap folded; /* name of an initializer: what it was computed from, as the file writes it: ['a', 'b'] */
  NameMap quoted; /* p_NAME, b_NAME: names of the program that nodes quote */
};

static const char kind_key[] = "pkg.torch.export.graph_signature.InputSpec.kind",
                  folded_key[] = "pkg.onnxscript.optimizer.folded_from", node_key[] = "pkg.torch.onnx.fx_node";

static const char *value_of(OnnxOverlay__StringStringEntryProto *const *entries, size_t n, const char *key) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(onnx_text(entries[i]->key), key) == 0) return onnx_text(entries[i]->value);
  return NULL;
}

static void note(Arena *a, NameMap *map, const char *name, const char *text) {
  if (text) name_put(a, map, name, arena_strdup(a, text));
}

static void read_values(Arena *a, const Onnx__GraphProto *g, OnnxKinds *k) {
  NameMap initializers = {0};
  for (size_t i = 0; i < g->n_initializer; i++)
    name_put(a, &initializers, onnx_text(g->initializer[i]->name), g->initializer[i]);
  for (size_t i = 0; i < g->n_value_info; i++) {
    const char *name = onnx_text(g->value_info[i]->name);
    OnnxOverlay__ValueInfoProto *v = name_find(&initializers, name) ? onnx_value_overlay(g->value_info[i]) : NULL;
    if (!v) continue;
    note(a, &k->said, name, value_of(v->metadata_props, v->n_metadata_props, kind_key));
    note(a, &k->folded, name, value_of(v->metadata_props, v->n_metadata_props, folded_key));
    onnx_overlay__value_info_proto__free_unpacked(v, NULL);
  }
}

static size_t identifier(const char *text) {
  size_t n = 0;
  while (isalnum((unsigned char)text[n]) || text[n] == '_') n++;
  return n;
}

static void read_nodes(Arena *a, const Onnx__GraphProto *g, OnnxKinds *k) {
  for (size_t i = 0; i < g->n_node; i++) {
    OnnxOverlay__NodeProto *n = onnx_node_overlay(g->node[i]);
    const char *text = n ? value_of(n->metadata_props, n->n_metadata_props, node_key) : NULL;
    for (const char *p = text ? strchr(text, '%') : NULL; p; p = strchr(p + 1, '%')) {
      const char *name = arena_printf(a, "%.*s", (int)identifier(p + 1), p + 1);
      if (name[0] && name[1] == '_') name_put(a, &k->quoted, name, k);
    }
    if (n) onnx_overlay__node_proto__free_unpacked(n, NULL);
  }
}

OnnxKinds *import_kinds(Arena *a, const Onnx__GraphProto *g) {
  OnnxKinds *k = ARENA_NEW(a, OnnxKinds);
  read_values(a, g, k);
  if (!k->said.n) return NULL;
  if (k->folded.n) read_nodes(a, g, k);
  return k;
}

/* Is it quoted as the parameter, or buffer, of that name? */
static bool is_quoted(Arena *a, const OnnxKinds *k, char kind, const char *name) {
  char *quoted = arena_printf(a, "%c_%s", kind, name);
  for (char *p = quoted; *p; p++)
    if (!isalnum((unsigned char)*p)) *p = '_';
  return name_find(&k->quoted, quoted) != NULL;
}

OnnxKind import_kind(Arena *a, const OnnxKinds *k, const char *initializer) {
  if (!k) return ONNX_UNKNOWN;
  const char *said = name_find(&k->said, initializer), *from = name_find(&k->folded, initializer);
  if (said) return strcmp(said, "PARAMETER") == 0 ? ONNX_PARAMETER : ONNX_OTHER;
  bool some = false, only = true;
  for (const char *p = from ? strchr(from, '\'') : NULL; p;) {
    const char *end = strchr(p + 1, '\'');
    if (!end) break;
    const char *name = arena_printf(a, "%.*s", (int)(end - p - 1), p + 1);
    if (is_quoted(a, k, 'p', name)) return ONNX_PARAMETER;
    bool dotted = strchr(name, '.') && !is_quoted(a, k, 'b', name);
    some |= dotted;
    only &= dotted || strncmp(name, "val_", 4) == 0; /* shapes and the like, which the exporter makes */
    p = strchr(end + 1, '\'');
  }
  return !some ? ONNX_OTHER : only ? ONNX_PARAMETER : ONNX_UNKNOWN;
}
