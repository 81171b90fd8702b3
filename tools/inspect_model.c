/* tools/inspect_model.c - apc inspect of a model: inputs, outputs, dimensions, parameters, operations; for ONNX also
 * the operators of the file and which of them apc does not have. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "frontend/onnx/import.h"
#include "tools/inspect.h"

/* ---- counts by name */

typedef struct Count {
  const char *name;
  int64_t n;
  bool missing;
} Count;

typedef struct Counts {
  Count *items;
  size_t n, cap;
} Counts;

static Count *count(Arena *a, Counts *c, const char *name) {
  for (size_t i = 0; i < c->n; i++)
    if (strcmp(c->items[i].name, name) == 0) {
      c->items[i].n++;
      return &c->items[i];
    }
  ARENA_PUSH(a, c, ((Count){.name = name, .n = 1}));
  return &c->items[c->n - 1];
}

static int most_first(const void *x, const void *y) {
  const Count *a = x, *b = y;
  return a->n != b->n ? (a->n < b->n ? 1 : -1) : strcmp(a->name, b->name);
}

static void sort_counts(Counts *c) {
  if (c->n) qsort(c->items, c->n, sizeof *c->items, most_first);
}

/* ---- facts in an ONNX file */

typedef struct OnnxFacts {
  int64_t opset, ir_version, nodes;
  const char *producer;
  Counts operators;
  size_t missing;
} OnnxFacts;

static int64_t default_opset(const Onnx__ModelProto *model) {
  for (size_t i = 0; i < model->n_opset_import; i++) {
    const char *domain = model->opset_import[i]->domain;
    if (!domain || !*domain || strcmp(domain, "ai.onnx") == 0) return model->opset_import[i]->version;
  }
  return 0;
}

static bool is_model_function(const Onnx__ModelProto *model, const Onnx__NodeProto *node) {
  for (size_t i = 0; i < model->n_functions; i++)
    if (model->functions[i]->name && node->op_type && strcmp(model->functions[i]->name, node->op_type) == 0)
      return true;
  return false;
}

static void count_graph(Arena *a, const Onnx__ModelProto *model, const Onnx__GraphProto *graph, OnnxFacts *out);

/* Counts a node and the nodes of graphs inside it. */
static void count_node(Arena *a, const Onnx__ModelProto *model, const Onnx__NodeProto *node, OnnxFacts *out) {
  const char *domain = node->domain ? node->domain : "", *type = node->op_type ? node->op_type : "";
  bool plain = !*domain || strcmp(domain, "ai.onnx") == 0;
  out->nodes++;
  for (size_t i = 0; i < node->n_attribute; i++)
    if (node->attribute[i]->g) count_graph(a, model, node->attribute[i]->g, out);
  Count *c = count(a, &out->operators, plain ? arena_strdup(a, type) : arena_printf(a, "%s.%s", domain, type));
  if (c->n > 1) return;
  c->missing = !onnx_op_supported(domain, type, out->opset) && !is_model_function(model, node);
  out->missing += c->missing;
}

static void count_graph(Arena *a, const Onnx__ModelProto *model, const Onnx__GraphProto *graph, OnnxFacts *out) {
  for (size_t i = 0; i < graph->n_node; i++) count_node(a, model, graph->node[i], out);
}

static bool onnx_facts(Tool *t, const char *path, OnnxFacts *out) {
  *out = (OnnxFacts){0};
  OnnxFile *file = onnx_file_open(t->diags, path);
  if (!file) return false;
  const Onnx__ModelProto *model = onnx_file_model(file);
  out->opset = default_opset(model);
  out->ir_version = model->ir_version;
  const char *name = model->producer_name ? model->producer_name : "",
             *version = model->producer_version ? model->producer_version : "";
  out->producer = arena_printf(t->arena, "%s%s%s", name, *name && *version ? " " : "", version);
  if (model->graph) count_graph(t->arena, model, model->graph, out);
  sort_counts(&out->operators);
  onnx_file_close(file);
  return true;
}

/* ---- the module */

static const char *type_text(Tool *t, const Module *m, const Type *type) {
  Text text = {.arena = t->arena};
  type_print(m, &text, type);
  return text_str(&text);
}

static json_t *port(Tool *t, const Module *m, const char *name, const Type *type) {
  json_t *shape = json_array();
  for (int d = 0; d < type->rank; d++) {
    int64_t v;
    Text text = {.arena = t->arena};
    ex_print(m, &text, type->dims[d]);
    json_array_append_new(shape, ex_get_const(type->dims[d], &v) ? json_integer(v) : json_text(text_str(&text)));
  }
  return json_pack("{s:o, s:s, s:o}", "name", json_text(name), "dtype", dtype_name(type->dtype), "shape", shape);
}

static json_t *entry_json(Tool *t, const Module *m, const Func *f) {
  json_t *inputs = json_array(), *outputs = json_array();
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_input)
      json_array_append_new(inputs, port(t, m, op_str(&f->ops.items[i], AT_name), type_of(f, f->ops.items[i].out)));
  for (size_t i = 0; i < f->outputs.n; i++)
    json_array_append_new(outputs, port(t, m, f->outputs.items[i].name, type_of(f, f->outputs.items[i].value)));
  return json_pack("{s:o, s:o, s:o}", "name", json_text(f->name), "inputs", inputs, "outputs", outputs);
}

static void print_entry(Tool *t, const Module *m, const Func *f) {
  printf("  entry %s\n", f->name);
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_input)
      printf("    input   %-24s %s\n", op_str(&f->ops.items[i], AT_name),
             type_text(t, m, type_of(f, f->ops.items[i].out)));
  for (size_t i = 0; i < f->outputs.n; i++)
    printf("    output  %-24s %s\n", f->outputs.items[i].name, type_text(t, m, type_of(f, f->outputs.items[i].value)));
}

static Counts operations(Arena *a, const Module *m) {
  Counts c = {0};
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; i < m->funcs.items[k]->ops.n; i++) count(a, &c, op_name(m->funcs.items[k]->ops.items[i].kind));
  sort_counts(&c);
  return c;
}

static double weight_bytes(const Module *m) {
  double sum = 0;
  for (size_t i = 0; i < m->params.n; i++) {
    int64_t dims[MAX_RANK];
    double n = (double)dtype_bytes(m->params.items[i].type->dtype);
    if (m->params.items[i].init == INIT_PREPARED || !type_constant_dims(m->params.items[i].type, dims)) continue;
    for (int d = 0; d < m->params.items[i].type->rank; d++) n *= (double)dims[d];
    sum += n;
  }
  return sum;
}

/* ---- output */

static json_t *counts_json(const Counts *c, bool only_missing) {
  json_t *o = json_object();
  for (size_t i = 0; i < c->n; i++)
    if (!only_missing || c->items[i].missing) json_set_text(o, c->items[i].name, json_integer(c->items[i].n));
  return o;
}

static json_t *dimensions_json(Tool *t, const Model *model) {
  const int *symbols;
  int n = model_dimensions(t->arena, model, &symbols);
  json_t *array = json_array();
  for (int i = 0; i < n; i++) {
    const Symbol *s = &model->m->symbols.items[symbols[i]];
    json_array_append_new(array, json_pack("{s:o, s:I, s:o, s:I, s:I}", "name", json_text(s->name), "min",
                                           (json_int_t)s->min, "max", s->max ? json_integer(s->max) : json_null(),
                                           "multiple", (json_int_t)s->multiple, "hint", (json_int_t)symbol_hint(s)));
  }
  return array;
}

static json_t *facts_json(Tool *t, const Model *model) {
  json_t *entries = json_array();
  for (int i = 0; i < model->nentries; i++)
    json_array_append_new(entries, entry_json(t, model->m, module_func(model->m, model->entries[i])));
  Counts ops = operations(t->arena, model->m);
  return json_pack("{s:I, s:I, s:o, s:o, s:o}", "params", (json_int_t)model_parameters(model->m), "weight_bytes",
                   (json_int_t)weight_bytes(model->m), "dimensions", dimensions_json(t, model), "entries", entries,
                   "operations", counts_json(&ops, false));
}

static void add_onnx_json(json_t *document, const OnnxFacts *facts) {
  json_object_set_new(document, "onnx",
                      json_pack("{s:I, s:I, s:o, s:I, s:o, s:o}", "opset", (json_int_t)facts->opset, "ir_version",
                                (json_int_t)facts->ir_version, "producer", json_text(facts->producer), "nodes",
                                (json_int_t)facts->nodes, "operators", counts_json(&facts->operators, false),
                                "unsupported", counts_json(&facts->operators, true)));
}

static void print_counts(const char *title, const Counts *c, bool only_missing) {
  size_t shown = 0;
  for (size_t i = 0; i < c->n; i++) {
    if (only_missing && !c->items[i].missing) continue;
    if (shown % 6 == 0) printf("%s%-12s", shown ? "\n  " : "  ", shown ? "" : title);
    printf(" %s %" PRId64 "%s", c->items[i].name, c->items[i].n, "");
    shown++;
  }
  if (shown) putchar('\n');
}

static void print_model(Tool *t, const Model *model) {
  const Module *m = model->m;
  printf("  parameters   %s (%s of weights)\n", show_count(t->arena, model_parameters(m)),
         show_bytes(t->arena, weight_bytes(m)));
  const int *symbols;
  int n = model_dimensions(t->arena, model, &symbols);
  for (int i = 0; i < n; i++) {
    const Symbol *s = &m->symbols.items[symbols[i]];
    const char *most = s->max ? arena_printf(t->arena, " to %" PRId64, s->max) : " on";
    printf("  dimension    %s from %" PRId64 "%s, planned for %" PRId64 "\n", s->name, s->min, most, symbol_hint(s));
  }
  for (int i = 0; i < model->nentries; i++) print_entry(t, m, module_func(m, model->entries[i]));
  Counts ops = operations(t->arena, m);
  print_counts("operations", &ops, false);
}

int inspect_model(Tool *t, const char *path) {
  OnnxFacts facts = {0};
  bool onnx = model_kind(path) == MODEL_ONNX, json = option_given(&t->options, OPT_json);
  if (option_given(&t->options, OPT_unsupported)) return inspect_unsupported(t, path);
  if (onnx && !onnx_facts(t, path, &facts)) return EXIT_BAD_INPUT;
  if (onnx && !json) {
    printf("%s\n  onnx         opset %" PRId64 ", IR version %" PRId64 ", %s nodes%s%s\n", path, facts.opset,
           facts.ir_version, show_count(t->arena, facts.nodes), *facts.producer ? ", by " : "", facts.producer);
    print_counts("operators", &facts.operators, false);
    print_counts("unsupported", &facts.operators, true);
  }
  Model model;
  bool ok = tool_model(t, path, &model) && tool_model_known(t, &model);
  tool_stages_end(t);
  if (ok && !json && !onnx) printf("%s\n", path);
  if (ok && !json) print_model(t, &model);
  if (json) {
    json_t *document = ok ? facts_json(t, &model) : json_object();
    json_object_set_new(document, "schema", json_string("apc.inspect/1"));
    json_object_set_new(document, "file", json_text(path));
    json_object_set_new(document, "kind", json_string("model"));
    if (onnx) add_onnx_json(document, &facts);
    tool_json(t, document);
  }
  model_free(&model);
  return ok ? EXIT_OK : tool_failed(t->diags);
}
