/* frontend/onnx/import_kind.c - what the file itself says about an initializer: whether it is a parameter.
 *
 * PyTorch's exporter (torch.export, since 2.5) notes in the metadata of a value whether it was a parameter, a buffer
 * or a constant of the program.  Its optimizer computes initializers from others and notes their names instead
 * ("folded_from").  Their kinds can be found in the nodes, whose notes quote the source program:
 * `%p_layers_0_weight` is the parameter layers.0.weight, and buffers begin with `%b_`.  A name with dots is one of
 * the two; other names are computed values.
 *
 * If the file says nothing about an initializer, or if it was computed from other values as well, its use decides
 * (import_trained.c).  The same notes say which parameter a node reads if several with equal numbers were written
 * once.
 *
 * Other exporters write no such notes.
 */
#include <ctype.h>
#include <string.h>

#include "frontend/onnx/import_graph.h"

struct OnnxKinds {
  NameMap said;    /* initializer -> its kind */
  NameMap folded;  /* initializer -> the names it was computed from, as the file writes them: ['a', 'b'] */
  NameMap called;  /* initializer -> its name in the program, as p_NAME */
  NameMap quoted;  /* p_NAME, b_NAME: names of the program that nodes quote */
  OnnxReads order; /* those of parameters, in order of appearance */
};

static const char kind_key[] = "pkg.torch.export.graph_signature.InputSpec.kind",
                  folded_key[] = "pkg.onnxscript.optimizer.folded_from", node_key[] = "pkg.torch.onnx.fx_node",
                  called_key[] = "pkg.torch.onnx.original_node_name", scopes_key[] = "pkg.torch.onnx.name_scopes",
                  rule_key[] = "pkg.onnxscript.rewriter.rule_name";

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
    note(a, &k->called, name, value_of(v->metadata_props, v->n_metadata_props, called_key));
    onnx_overlay__value_info_proto__free_unpacked(v, NULL);
  }
}

static size_t identifier(const char *text) {
  size_t n = 0;
  while (isalnum((unsigned char)text[n]) || text[n] == '_') n++;
  return n;
}

/* Returns the next name of a parameter or buffer after a '%', or NULL; moves *at past it. */
static const char *next_quoted(Arena *a, const char **at) {
  for (const char *p = *at ? strchr(*at, '%') : NULL; p; p = strchr(p + 1, '%')) {
    size_t n = identifier(p + 1);
    *at = p + 1 + n;
    if (n > 2 && p[2] == '_') return arena_strndup(a, p + 1, n);
  }
  return NULL;
}

static void read_nodes(Arena *a, const Onnx__GraphProto *g, OnnxKinds *k) {
  for (size_t i = 0; i < g->n_node; i++) {
    OnnxOverlay__NodeProto *n = onnx_node_overlay(g->node[i]);
    const char *text = n ? value_of(n->metadata_props, n->n_metadata_props, node_key) : NULL;
    for (const char *name; (name = next_quoted(a, &text));) {
      if (name[0] == 'p' && !name_find(&k->quoted, name)) ARENA_PUSH(a, &k->order, name);
      name_put(a, &k->quoted, name, k);
    }
    if (n) onnx_overlay__node_proto__free_unpacked(n, NULL);
  }
}

OnnxKinds *import_kinds(Arena *a, const Onnx__GraphProto *g) {
  OnnxKinds *k = ARENA_NEW(a, OnnxKinds);
  read_values(a, g, k);
  if (!k->said.n) return NULL;
  read_nodes(a, g, k);
  return k;
}

/* The name in the program of the parameter or buffer with that name. */
static const char *program_name(Arena *a, char kind, const char *name) {
  char *called = arena_printf(a, "%c_%s", kind, name);
  for (char *p = called; *p; p++) *p = isalnum((unsigned char)*p) ? (char)tolower((unsigned char)*p) : '_';
  return called;
}

static bool is_quoted(Arena *a, const OnnxKinds *k, char kind, const char *name) {
  return name_find(&k->quoted, program_name(a, kind, name)) != NULL;
}

const char *import_kind_called(Arena *a, const OnnxKinds *k, const char *initializer) {
  const char *called = name_find(&k->called, initializer);
  return called ? called : program_name(a, 'p', initializer);
}

OnnxReads import_kind_sources(Arena *a, const OnnxKinds *k, const char *initializer) {
  OnnxReads list = {0};
  const char *from = k ? name_find(&k->folded, initializer) : NULL;
  for (const char *p = from ? strchr(from, '\'') : NULL; p;) {
    const char *end = strchr(p + 1, '\'');
    if (!end) break;
    ARENA_PUSH(a, &list, arena_strndup(a, p + 1, (size_t)(end - p - 1)));
    p = strchr(end + 1, '\'');
  }
  return list;
}

/* "a.b.weight" for p_a_b_weight of a node in the module a.b: uses the longest of its modules that the name begins
 * with. */
static const char *full_name(Arena *a, const char *called, const char *scopes) {
  const char *best = "", *rest = called + 2;
  for (const char *p = scopes ? strchr(scopes, '\'') : NULL; p;) {
    const char *end = strchr(p + 1, '\'');
    if (!end) break;
    const char *module = arena_strndup(a, p + 1, (size_t)(end - p - 1)), *begins = program_name(a, *called, module);
    size_t n = strlen(begins);
    if (*module && strlen(module) > strlen(best) && strncmp(called, begins, n) == 0 && called[n] == '_')
      best = module, rest = called + n + 1;
    p = strchr(end + 1, '\'');
  }
  return *best ? arena_printf(a, "%s.%s", best, rest) : rest;
}

OnnxQuoted import_kind_quoted(Arena *a, const Onnx__NodeProto *node) {
  OnnxQuoted list = {0};
  OnnxOverlay__NodeProto *n = onnx_node_overlay(node);
  const char *text = n ? value_of(n->metadata_props, n->n_metadata_props, node_key) : NULL,
             *scopes = n ? value_of(n->metadata_props, n->n_metadata_props, scopes_key) : NULL,
             *rules = n ? value_of(n->metadata_props, n->n_metadata_props, rule_key) : NULL;
  list.lacks_bias = rules && strstr(rules, "RemoveOptionalBias") && !strstr(rules, "Fuse");
  for (const char *called; (called = next_quoted(a, &text));)
    if (called[0] == 'p') ARENA_PUSH(a, &list, ((OnnxQuotedName){called, full_name(a, called, scopes)}));
  if (n) onnx_overlay__node_proto__free_unpacked(n, NULL);
  return list;
}

bool import_kind_buffer(Arena *a, const Onnx__NodeProto *node, int i, OnnxQuotedName *out) {
  OnnxOverlay__NodeProto *n = onnx_node_overlay(node);
  const char *text = n ? value_of(n->metadata_props, n->n_metadata_props, node_key) : NULL,
             *scopes = n ? value_of(n->metadata_props, n->n_metadata_props, scopes_key) : NULL;
  bool found = false;
  for (const char *called; !found && (called = next_quoted(a, &text));)
    if (called[0] == 'b' && i-- == 0) *out = (OnnxQuotedName){called, full_name(a, called, scopes)}, found = true;
  if (n) onnx_overlay__node_proto__free_unpacked(n, NULL);
  return found;
}

/* PyTorch 2.5 and later writes a batch norm in training mode as one in inference mode, but quotes it. */
bool import_kind_measures(const Onnx__NodeProto *node) {
  OnnxOverlay__NodeProto *n = onnx_node_overlay(node);
  const char *text = n ? value_of(n->metadata_props, n->n_metadata_props, node_key) : NULL;
  const char *call = text ? strstr(text, "aten._native_batch_norm_legit_functional.") : NULL;
  bool is = call && strstr(call, ", True, ");
  if (n) onnx_overlay__node_proto__free_unpacked(n, NULL);
  return is;
}

const OnnxReads *import_kind_parameters(const OnnxKinds *k) { return &k->order; }

OnnxKind import_kind(Arena *a, const OnnxKinds *k, const char *initializer) {
  if (!k) return ONNX_UNKNOWN;
  const char *said = name_find(&k->said, initializer);
  if (said) return strcmp(said, "PARAMETER") == 0 ? ONNX_PARAMETER : ONNX_OTHER;
  OnnxReads from = import_kind_sources(a, k, initializer);
  if (!from.n) return ONNX_UNKNOWN; /* made by a rewrite rule of the exporter */
  bool some = false, only = true;
  for (size_t i = 0; i < from.n; i++) {
    const char *name = from.items[i], *kind = name_find(&k->said, name);
    if (is_quoted(a, k, 'p', name) || (kind && strcmp(kind, "PARAMETER") == 0)) return ONNX_PARAMETER;
    bool dotted = strchr(name, '.') && !is_quoted(a, k, 'b', name) && !kind;
    some |= dotted;
    only &= dotted || strncmp(name, "val_", 4) == 0; /* shapes and the like, which the exporter computes */
  }
  return !some ? ONNX_CONSTANT : only ? ONNX_PARAMETER : ONNX_UNKNOWN;
}
