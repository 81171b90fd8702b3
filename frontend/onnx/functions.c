/* frontend/onnx/functions.c - see functions.h. */
#include "frontend/onnx/functions.h"

#include <string.h>

#include "frontend/onnx/body.h"
#include "frontend/onnx/file.h"
#include "frontend/onnx/names.h"
#include "frontend/onnx/rules.h"

enum { MAX_DEPTH = 64, MAX_NODES = 1000000 };

typedef struct Function {
  const Onnx__FunctionProto *proto;
  Onnx__AttributeProto **defaults; /* of its attributes */
  size_t ndefaults;
} Function;

typedef struct Expand {
  Arena *arena;
  const Onnx__ModelProto *model;
  const OnnxRules *rules; /* of operators; NULL if none */
  const char *file;
  Diags *d;
  NameMap functions; /* "domain:name:overload" -> Function */
  NameMap named;     /* "domain:name" -> non-NULL if it has any overload */
  NameMap opsets;    /* domain -> OperatorSetIdProto of the model */
  size_t nodes;      /* nodes and calls so far, and the names that calls and graphs declare */
} Expand;

/* A call being expanded: maps names and attributes of its body. */
typedef struct Call {
  const Onnx__NodeProto *node;
  const Function *function;
  const char *name;
  NameMap values; /* body name -> caller's name */
  int depth;
} Call;

static const char *text(const char *s) { return s ? s : ""; }

static bool fail(Expand *e, const char *name, const char *what, const char *detail) {
  Loc loc = {.file = e->file, .node = arena_strdup(e->d->arena, name)};
  return diag_error(e->d, DIAG_onnx_graph, loc, "%s%s%s", what, *detail ? ": " : "", detail);
}

/* Counts nodes against the limit: functions that each call the next twice grow exponentially. */
static bool count_nodes(Expand *e, const char *name, size_t n) {
  e->nodes += n;
  return e->nodes <= MAX_NODES || fail(e, name, "more than a million nodes", "");
}

static const char *function_name(Expand *e, const char *domain, const char *name) {
  return arena_printf(e->arena, "%s:%s", text(domain), text(name));
}

static bool read_defaults(Expand *e, const OnnxOverlay__FunctionProto *o, Function *f) {
  f->defaults = ARENA_ARRAY(e->arena, Onnx__AttributeProto *, o->n_attribute_proto);
  for (size_t i = 0; i < o->n_attribute_proto; i++) {
    ProtobufCBinaryData bytes = o->attribute_proto[i];
    Onnx__AttributeProto *a = (void *)onnx_unpack(e->arena, &onnx__attribute_proto__descriptor, bytes.len, bytes.data);
    if (!a) return fail(e, text(f->proto->name), "a default of the function's attributes cannot be decoded", "");
    f->defaults[f->ndefaults++] = a;
  }
  return true;
}

/* Of functions with the same name and overload the first counts. */
static bool name_functions(Expand *e) {
  for (size_t i = e->model->n_functions; i-- > 0;) {
    Function *f = ARENA_NEW(e->arena, Function);
    f->proto = e->model->functions[i];
    const char *name = function_name(e, f->proto->domain, f->proto->name);
    OnnxOverlay__FunctionProto *o = onnx_function_overlay(f->proto);
    bool ok = o ? read_defaults(e, o, f) : fail(e, text(f->proto->name), "the function cannot be decoded", "");
    name_put(e->arena, &e->named, name, f);
    name_put(e->arena, &e->functions, arena_printf(e->arena, "%s:%s", name, o ? text(o->overload) : ""), f);
    if (o) onnx_overlay__function_proto__free_unpacked(o, NULL);
    if (!ok) return false;
  }
  return true;
}

/* Finds the body of an operator that is not a function of the model. */
static bool body_of(Expand *e, const Onnx__NodeProto *node, const Function **f) {
  const OnnxBody *body = onnx_body_find(node->domain, node->op_type);
  if (!body) return true;
  if (!count_nodes(e, text(node->name), 3)) return false; /* the cost of reading its text */
  const char *why = NULL, *name = *text(node->name) ? node->name : node->n_output ? node->output[0] : body->type;
  Onnx__FunctionProto *proto = onnx_body_of(e->arena, body, node, &why);
  Function *made = ARENA_NEW(e->arena, Function);
  made->proto = proto;
  *f = made;
  return proto || diag_error(e->d, DIAG_onnx_node, (Loc){.file = e->file, .node = arena_strdup(e->d->arena, name)},
                             "%s: %s", body->type, arena_strdup(e->d->arena, why));
}

/* Sets *f to the function that the node calls, NULL if none; false after an error. */
static bool function_of(Expand *e, const Onnx__NodeProto *node, const Function **f) {
  *f = NULL;
  const char *name = e->named.n ? function_name(e, node->domain, node->op_type) : NULL;
  if (!name || !name_find(&e->named, name)) return body_of(e, node, f);
  Onnx__NodeProto shallow = *node; /* without its lists, which may be large: it may be called often */
  shallow.n_input = shallow.n_output = shallow.n_attribute = 0, shallow.doc_string = NULL;
  if (!count_nodes(e, text(node->name), onnx__node_proto__get_packed_size(&shallow) / 1000)) return false;
  OnnxOverlay__NodeProto *o = onnx_node_overlay(&shallow);
  const char *overload = o ? arena_strdup(e->arena, text(o->overload)) : "";
  if (o) onnx_overlay__node_proto__free_unpacked(o, NULL);
  *f = name_find(&e->functions, arena_printf(e->arena, "%s:%s", name, overload));
  return *f || fail(e, text(node->name), "the function it calls has no such overload",
                    arena_printf(e->d->arena, "%s of %s", *overload ? overload : "none", text(node->op_type)));
}

static const Onnx__AttributeProto *attr_of(const Onnx__NodeProto *node, const char *name) {
  for (size_t i = 0; i < node->n_attribute; i++)
    if (strcmp(text(node->attribute[i]->name), name) == 0) return node->attribute[i];
  return NULL;
}

static char *translated(Expand *e, Call *call, const char *name) {
  if (!*name) return (char *)(uintptr_t) "";
  char *known = name_find(&call->values, name);
  if (known) return known;
  char *fresh = arena_printf(e->arena, "%s/%s", call->name, name);
  name_put(e->arena, &call->values, name, fresh);
  return fresh;
}

static char **translate_all(Expand *e, Call *call, char *const *names, size_t n) {
  char **out = ARENA_ARRAY(e->arena, char *, n);
  for (size_t i = 0; i < n; i++) out[i] = translated(e, call, text(names[i]));
  return out;
}

static const Onnx__AttributeProto *default_of(const Function *f, const char *name) {
  for (size_t i = 0; i < f->ndefaults; i++)
    if (strcmp(text(f->defaults[i]->name), name) == 0) return f->defaults[i];
  return NULL;
}

/* Substitutes the attributes of a body's node.  An attribute is omitted if it refers to an attribute that the call
 * does not give and that has no default. */
static void translate_attributes(Expand *e, const Call *call, Onnx__NodeProto *node) {
  Onnx__AttributeProto **out = ARENA_ARRAY(e->arena, Onnx__AttributeProto *, node->n_attribute);
  size_t n = 0;
  for (size_t i = 0; i < node->n_attribute; i++) {
    const Onnx__AttributeProto *a = node->attribute[i], *given = a;
    if (*text(a->ref_attr_name)) {
      given = attr_of(call->node, a->ref_attr_name);
      if (!given && !(given = default_of(call->function, a->ref_attr_name))) continue;
    }
    out[n] = ARENA_NEW(e->arena, Onnx__AttributeProto);
    *out[n] = *given;
    out[n++]->name = a->name;
  }
  node->attribute = out;
  node->n_attribute = n;
}

static bool expand_node(Expand *e, Onnx__NodeProto *node, Call *inside, OnnxNodes *out);

static bool same_opsets(Expand *e, const Onnx__FunctionProto *f) {
  for (size_t i = 0; i < f->n_opset_import; i++) {
    const Onnx__OperatorSetIdProto *of_model = name_find(&e->opsets, text(f->opset_import[i]->domain));
    if (of_model && of_model->version != f->opset_import[i]->version) return false;
  }
  return true;
}

static bool expand_call(Expand *e, const Onnx__NodeProto *node, const Function *function, int depth, OnnxNodes *out) {
  const Onnx__FunctionProto *f = function->proto;
  const char *base = *text(node->name) ? node->name : node->n_output ? node->output[0] : text(node->op_type);
  Call call = {node, function, base, {0}, depth + 1};
  if (call.depth > MAX_DEPTH) return fail(e, base, "functions call each other too deeply", text(f->name));
  if (!count_nodes(e, base, 1 + f->n_input + f->n_opset_import)) return false;
  if (node->n_input > f->n_input || node->n_output > f->n_output)
    return fail(e, base, "more inputs or outputs than the function has", text(f->name));
  if (!same_opsets(e, f))
    return fail(e, base, "the function uses another operator set version than the model", text(f->name));
  for (size_t i = 0; i < f->n_input; i++)
    name_put(e->arena, &call.values, text(f->input[i]), i < node->n_input ? node->input[i] : (char *)(uintptr_t) "");
  for (size_t i = 0; i < node->n_output; i++)
    if (*text(node->output[i])) name_put(e->arena, &call.values, text(f->output[i]), node->output[i]);
  for (size_t i = 0; i < f->n_node; i++)
    if (!expand_node(e, f->node[i], &call, out)) return false;
  return true;
}

/* ---- graphs of control flow */

static Onnx__ValueInfoProto **translate_infos(Expand *e, Call *inside, Onnx__ValueInfoProto *const *infos, size_t n) {
  Onnx__ValueInfoProto **out = ARENA_ARRAY(e->arena, Onnx__ValueInfoProto *, n);
  for (size_t i = 0; i < n; i++) {
    out[i] = ARENA_NEW(e->arena, Onnx__ValueInfoProto);
    *out[i] = *infos[i];
    out[i]->name = translated(e, inside, text(infos[i]->name));
  }
  return out;
}

/* Maps the names of a copied graph, except those of its nodes. */
static void translate_graph(Expand *e, Call *inside, Onnx__GraphProto *g) {
  g->input = translate_infos(e, inside, g->input, g->n_input);
  g->output = translate_infos(e, inside, g->output, g->n_output);
  g->value_info = translate_infos(e, inside, g->value_info, g->n_value_info);
  Onnx__TensorProto **tensors = ARENA_ARRAY(e->arena, Onnx__TensorProto *, g->n_initializer);
  for (size_t i = 0; i < g->n_initializer; i++) {
    tensors[i] = ARENA_NEW(e->arena, Onnx__TensorProto);
    *tensors[i] = *g->initializer[i];
    tensors[i]->name = translated(e, inside, text(tensors[i]->name));
  }
  g->initializer = tensors;
}

static bool expand_graph(Expand *e, Onnx__GraphProto **graph, Call *inside) {
  Onnx__GraphProto *copy = ARENA_NEW(e->arena, Onnx__GraphProto);
  OnnxNodes nodes = {0};
  *copy = **graph;
  *graph = copy;
  if (inside &&
      !count_nodes(e, inside->name, copy->n_input + copy->n_output + copy->n_value_info + copy->n_initializer))
    return false;
  if (inside) translate_graph(e, inside, copy);
  for (size_t i = 0; i < copy->n_node; i++)
    if (!expand_node(e, copy->node[i], inside, &nodes)) return false;
  copy->node = nodes.items, copy->n_node = nodes.n;
  return true;
}

/* Expands the graphs among a node's attributes; copies the node if it has any. */
static bool expand_graphs(Expand *e, Onnx__NodeProto **node, Call *inside) {
  bool copied = false;
  for (size_t i = 0; i < (*node)->n_attribute; i++) {
    if (!(*node)->attribute[i]->g) continue;
    if (!copied) {
      Onnx__NodeProto *copy = ARENA_NEW(e->arena, Onnx__NodeProto);
      *copy = **node;
      copy->attribute = ARENA_ARRAY(e->arena, Onnx__AttributeProto *, copy->n_attribute);
      memcpy(copy->attribute, (*node)->attribute, copy->n_attribute * sizeof *copy->attribute);
      *node = copy;
      copied = true;
    }
    Onnx__AttributeProto *a = ARENA_NEW(e->arena, Onnx__AttributeProto);
    *a = *(*node)->attribute[i];
    (*node)->attribute[i] = a;
    if (!expand_graph(e, &a->g, inside)) return false;
  }
  return true;
}

static bool expand_node(Expand *e, Onnx__NodeProto *node, Call *inside, OnnxNodes *out) {
  if (inside) {
    Onnx__NodeProto *copy = ARENA_NEW(e->arena, Onnx__NodeProto);
    *copy = *node;
    copy->name = arena_printf(e->arena, "%s/%s", inside->name, *text(node->name) ? node->name : text(node->op_type));
    copy->input = translate_all(e, inside, node->input, node->n_input);
    copy->output = translate_all(e, inside, node->output, node->n_output);
    translate_attributes(e, inside, copy);
    node = copy;
  }
  const Function *f = NULL;
  OnnxRule *rule = onnx_rule_find(e->rules, node->domain, node->op_type);
  if (rule) rule->used = true;
  else if (!function_of(e, node, &f)) return false;
  if (f) return expand_call(e, node, f, inside ? inside->depth : 0, out);
  if (!count_nodes(e, text(node->name), 1)) return false;
  if (!expand_graphs(e, &node, inside)) return false;
  ARENA_PUSH(e->arena, out, node);
  return true;
}

bool onnx_expand_functions(Arena *arena, const Onnx__ModelProto *model, const OnnxRules *rules, const char *file,
                           Diags *d, OnnxNodes *out) {
  Expand e = {.arena = arena, .model = model, .rules = rules, .file = file, .d = d};
  if (!name_functions(&e)) return false;
  for (size_t i = 0; i < model->n_opset_import; i++)
    name_put(arena, &e.opsets, text(model->opset_import[i]->domain), model->opset_import[i]);
  for (size_t i = 0; i < model->graph->n_node; i++)
    if (!expand_node(&e, model->graph->node[i], NULL, out)) return false;
  return true;
}
