/* frontend/onnx/body.c - see body.h; bodies.def has the grammar.
 *
 * A single pass reads the text of a body and makes the nodes.  Where a condition does not hold, it reads without
 * making nodes.  Names are checked in both cases, so a body that parses for one call parses for all.
 */
#include "frontend/onnx/body.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "frontend/onnx/names.h"

#define BODY(domain, type, ...) {domain, #type, #__VA_ARGS__},
const OnnxBody onnx_bodies[] = {
#include "frontend/onnx/bodies.def"
};
const size_t onnx_nbodies = sizeof onnx_bodies / sizeof *onnx_bodies;

static const char newest[] = "ai.onnx"; /* the domain of nodes made here, compared by address */

bool onnx_body_has_made(const Onnx__NodeProto *node) { return node->domain == newest; }

static const char *plain(const char *domain) { return !domain || strcmp(domain, newest) == 0 ? "" : domain; }

const OnnxBody *onnx_body_find(const char *domain, const char *type) {
  for (size_t i = 0; type && i < onnx_nbodies; i++)
    if (strcmp(onnx_bodies[i].type, type) == 0 && strcmp(onnx_bodies[i].domain, plain(domain)) == 0)
      return &onnx_bodies[i];
  return NULL;
}

typedef struct BodyNames {
  char **items;
  size_t n, cap;
} BodyNames;

typedef struct BodyReader {
  Arena *a;
  const OnnxBody *body;
  const Onnx__NodeProto *call;
  const char *at;     /* position in the text */
  NameMap declared;   /* every name of a value so far */
  NameMap values;     /* the names that have a value */
  NameMap attributes; /* name -> AttributeProto, given or default */
  NameMap allowed;    /* the names of all attributes */
  BodyNames inputs, outputs;
  struct {
    Onnx__NodeProto **items;
    size_t n, cap;
  } nodes;
  int unnamed;     /* number of results so far without a name in the text */
  const char *why; /* why the call does not fit; NULL if it does */
} BodyReader;

/* ---- words and numbers */

static _Noreturn void malformed(const BodyReader *r) {
  die("frontend/onnx/bodies.def: %s at \"%.40s\"", r->body->type, r->at);
}

static char peek(BodyReader *r) {
  while (isspace((unsigned char)*r->at)) r->at++;
  return *r->at;
}

static bool take(BodyReader *r, const char *token) {
  size_t n = strlen(token);
  if (peek(r) != *token || strncmp(r->at, token, n) != 0) return false;
  r->at += n;
  return true;
}

static void need(BodyReader *r, const char *token) {
  if (!take(r, token)) malformed(r);
}

/* After an item of a list with commas that ends at `end`: true if another item follows. */
static bool another(BodyReader *r, const char *end, size_t already) {
  if (take(r, end)) return false;
  if (already) need(r, ",");
  return true;
}

static char *word(BodyReader *r) {
  peek(r);
  size_t n = 0;
  while (isalnum((unsigned char)r->at[n]) || r->at[n] == '_' || r->at[n] == '.') n++;
  if (!n) malformed(r);
  r->at += n;
  return arena_strndup(r->a, r->at - n, n);
}

static Onnx__AttributeProto *attribute(Arena *a, Onnx__AttributeProto__AttributeType type) {
  Onnx__AttributeProto *x = ARENA_NEW(a, Onnx__AttributeProto);
  onnx__attribute_proto__init(x);
  x->has_type = 1, x->type = type;
  return x;
}

static Onnx__AttributeProto *number(BodyReader *r) {
  char *end;
  size_t n = strspn(r->at, "+-0123456789");
  bool real = r->at[n] == '.' || r->at[n] == 'e';
  Onnx__AttributeProto *x =
      attribute(r->a, real ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT : ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
  if (real) x->has_f = 1, x->f = strtof(r->at, &end);
  else x->has_i = 1, x->i = strtoll(r->at, &end, 10);
  if (end == r->at) malformed(r);
  r->at = end;
  return x;
}

static Onnx__AttributeProto *string(BodyReader *r) {
  Onnx__AttributeProto *x = attribute(r->a, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
  need(r, "\"");
  size_t n = strcspn(r->at, "\"");
  x->has_s = 1;
  x->s = (ProtobufCBinaryData){n, (uint8_t *)arena_strndup(r->a, r->at, n)};
  r->at += n;
  need(r, "\"");
  return x;
}

static Onnx__AttributeProto *int_list(BodyReader *r) {
  Onnx__AttributeProto *x = attribute(r->a, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
  struct {
    int64_t *items;
    size_t n, cap;
  } list = {0};
  need(r, "[");
  while (another(r, "]", list.n)) {
    peek(r);
    ARENA_PUSH(r->a, &list, number(r)->i);
  }
  x->ints = list.items, x->n_ints = list.n;
  return x;
}

/* Reads @name or @name[i], an attribute of the call; NULL if absent. */
static Onnx__AttributeProto *reference(BodyReader *r) {
  need(r, "@");
  const char *name = word(r);
  if (!name_find(&r->allowed, name)) malformed(r);
  Onnx__AttributeProto *x = name_find(&r->attributes, name);
  if (!take(r, "[")) return x;
  size_t i = (size_t)number(r)->i;
  need(r, "]");
  if (!x || x->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS || x->n_floats <= i) return NULL;
  Onnx__AttributeProto *element = attribute(r->a, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
  element->has_f = 1, element->f = x->floats[i];
  return element;
}

static Onnx__AttributeProto *value(BodyReader *r) {
  switch (peek(r)) {
    case '"': return string(r);
    case '[': return int_list(r);
    case '@': return reference(r);
    default: return number(r);
  }
}

/* ---- the arguments of the call */

static bool gives(char *const *names, size_t n, size_t i) { return i < n && names[i] && *names[i]; }

static void read_inputs(BodyReader *r) {
  need(r, "(");
  while (another(r, ")", r->inputs.n)) {
    char *name = word(r);
    size_t i = r->inputs.n;
    bool optional = take(r, "?"), given = gives(r->call->input, r->call->n_input, i);
    ARENA_PUSH(r->a, &r->inputs, name);
    name_put(r->a, &r->declared, name, r);
    if (given) name_put(r->a, &r->values, name, r);
    else if (!optional && !r->why) r->why = arena_printf(r->a, "input %zu (%s) is missing", i, name);
  }
}

static void read_outputs(BodyReader *r) {
  need(r, "=>");
  need(r, "(");
  while (another(r, ")", r->outputs.n)) {
    ARENA_PUSH(r->a, &r->outputs, word(r));
    take(r, "?");
  }
}

static Onnx__AttributeProto *given_attribute(const Onnx__NodeProto *call, const char *name) {
  for (size_t i = 0; i < call->n_attribute; i++)
    if (call->attribute[i]->name && strcmp(call->attribute[i]->name, name) == 0) return call->attribute[i];
  return NULL;
}

static bool same_value(const Onnx__AttributeProto *x, const Onnx__AttributeProto *y) {
  if (x->type != y->type) return false;
  if (x->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING)
    return x->s.len == y->s.len && (!x->s.len || memcmp(x->s.data, y->s.data, x->s.len) == 0);
  return x->i == y->i && !(x->f < y->f || x->f > y->f);
}

static const char *value_text(Arena *a, const Onnx__AttributeProto *x) {
  if (x->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING)
    return arena_printf(a, "\"%.*s\"", (int)x->s.len, x->s.len ? (const char *)x->s.data : "");
  if (x->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT) return arena_printf(a, "%g", (double)x->f);
  return arena_printf(a, "%lld", (long long)x->i);
}

/* Reads the default of an attribute and its other permitted values. */
static void read_choices(BodyReader *r, const char *name, const Onnx__AttributeProto *given) {
  bool only = take(r, "=="), chosen = !given, listed = only;
  if (!only && !take(r, "=")) return;
  const char *choices = "";
  Onnx__AttributeProto *first = NULL;
  do {
    Onnx__AttributeProto *choice = value(r);
    listed |= first != NULL;
    choices = arena_printf(r->a, "%s%s%s", choices, first ? ", " : "", value_text(r->a, choice));
    if (!first) first = choice;
    chosen |= given && same_value(given, choice);
  } while (take(r, "|"));
  if (!given) name_put(r->a, &r->attributes, name, first);
  else if (given->type != first->type) r->why = arena_printf(r->a, "attribute \"%s\" has the wrong type", name);
  else if (listed && !chosen)
    r->why = arena_printf(r->a, "attribute \"%s\" is %s; apc takes %s", name, value_text(r->a, given), choices);
}

static void read_attributes(BodyReader *r) {
  size_t n = 0;
  need(r, "<");
  for (; another(r, ">", n); n++) {
    const char *name = word(r);
    Onnx__AttributeProto *given = given_attribute(r->call, name);
    name_put(r->a, &r->allowed, name, r);
    if (given) name_put(r->a, &r->attributes, name, given);
    read_choices(r, name, given);
  }
}

static void check_call(BodyReader *r) {
  const Onnx__NodeProto *c = r->call;
  if (c->n_input > r->inputs.n || c->n_output > r->outputs.n)
    r->why = arena_printf(r->a, "%zu inputs and %zu outputs; it has at most %zu and %zu", c->n_input, c->n_output,
                          r->inputs.n, r->outputs.n);
  for (size_t i = 0; i < c->n_attribute && !r->why; i++) {
    const char *name = c->attribute[i]->name ? c->attribute[i]->name : "";
    if (!name_find(&r->allowed, name)) r->why = arena_printf(r->a, "has no attribute \"%s\"", name);
    if (given_attribute(c, name) != c->attribute[i])
      r->why = arena_printf(r->a, "attribute \"%s\" is given twice", name);
  }
}

/* ---- nodes */

static bool is_output_wanted(const BodyReader *r, const char *name) {
  for (size_t i = 0; i < r->outputs.n; i++)
    if (strcmp(r->outputs.items[i], name) == 0) return gives(r->call->output, r->call->n_output, i);
  return false;
}

/* Reads [name] [!name] [name=value]; true if all conditions hold. */
static bool read_conditions(BodyReader *r) {
  bool holds = true;
  while (take(r, "[")) {
    bool not = take(r, "!");
    const char *name = word(r);
    const Onnx__AttributeProto *have = name_find(&r->attributes, name);
    bool is = take(r, "=") ? have && same_value(have, value(r))
                           : have || name_find(&r->values, name) || is_output_wanted(r, name);
    need(r, "]");
    holds &= is != not ;
  }
  return holds;
}

static Onnx__NodeProto *add_node(BodyReader *r, const char *type) {
  Onnx__NodeProto *n = ARENA_NEW(r->a, Onnx__NodeProto);
  const char *dot = strrchr(type, '.');
  onnx__node_proto__init(n);
  n->op_type = arena_strdup(r->a, dot ? dot + 1 : type);
  n->domain = dot ? arena_strndup(r->a, type, (size_t)(dot - type)) : (char *)(uintptr_t)newest;
  ARENA_PUSH(r->a, &r->nodes, n);
  return n;
}

static void name_node(Onnx__NodeProto *n, const BodyNames *in, const BodyNames *out) {
  n->input = in->items, n->n_input = in->n;
  n->output = out->items, n->n_output = out->n;
  n->name = out->items[0];
}

static char *fresh(BodyReader *r, const char *type) {
  const char *dot = strrchr(type, '.');
  return arena_printf(r->a, "%s.%d", dot ? dot + 1 : type, ++r->unnamed);
}

/* Adds a node with these operands and one result, and returns the result's name. */
static char *add_simple(BodyReader *r, const char *type, Onnx__AttributeProto *attr, size_t n, char *const *operands) {
  BodyNames in = {0}, out = {0};
  for (size_t i = 0; i < n; i++) ARENA_PUSH(r->a, &in, operands[i]);
  char *name = fresh(r, type);
  ARENA_PUSH(r->a, &out, name);
  Onnx__NodeProto *node = add_node(r, type);
  name_node(node, &in, &out);
  if (attr) {
    node->attribute = ARENA_ARRAY(r->a, Onnx__AttributeProto *, 1);
    node->attribute[node->n_attribute++] = attr;
  }
  return name;
}

/* Adds a number or list among operands; a number gets the type of the first operand. */
static char *add_constant(BodyReader *r, const Onnx__AttributeProto *x, const BodyNames *operands) {
  Onnx__AttributeProto *a = ARENA_NEW(r->a, Onnx__AttributeProto);
  *a = *x;
  bool list = x->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
  bool real = x->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
  a->name = arena_strdup(r->a, list ? "value_ints" : real ? "value_float" : "value_int");
  char *constant = add_simple(r, "Constant", a, 0, NULL);
  if (list || !operands->n) return constant;
  return add_simple(r, "CastLike", NULL, 2, (char *[]){constant, operands->items[0]});
}

static void read_node(BodyReader *r, bool keep, const char *type, const BodyNames *results);

/* Reads one operand; false if it is absent, in which case its node becomes its first operand. */
static bool read_operand(BodyReader *r, bool keep, BodyNames *in) {
  char *name = arena_strdup(r->a, "");
  if (!isalpha((unsigned char)peek(r))) {
    const Onnx__AttributeProto *x = take(r, "_") ? NULL : value(r);
    if (keep && x) name = add_constant(r, x, in);
    ARENA_PUSH(r->a, in, name);
    return true;
  }
  char *is = word(r);
  bool node = peek(r) == '(' || *r->at == '<', there = true;
  if (node) {
    BodyNames results = {0};
    ARENA_PUSH(r->a, &results, fresh(r, is));
    name_put(r->a, &r->declared, results.items[0], r);
    read_node(r, keep, is, &results);
    is = results.items[0];
  }
  if (!name_find(&r->declared, is)) malformed(r);
  bool present = name_find(&r->values, is);
  if (take(r, "?")) there = present;
  ARENA_PUSH(r->a, in, present ? is : name);
  return there;
}

static void read_node_attributes(BodyReader *r, Onnx__NodeProto *node) {
  struct {
    Onnx__AttributeProto **items;
    size_t n, cap;
  } list = {0};
  if (!take(r, "<")) return;
  for (size_t n = 0; another(r, ">", n); n++) {
    char *name = word(r);
    need(r, "=");
    const Onnx__AttributeProto *x = value(r);
    if (!x) continue;
    Onnx__AttributeProto *a = ARENA_NEW(r->a, Onnx__AttributeProto);
    *a = *x;
    a->name = name;
    ARENA_PUSH(r->a, &list, a);
  }
  node->attribute = list.items, node->n_attribute = list.n;
}

/* Reads the rest of a node after its type. */
static void read_node(BodyReader *r, bool keep, const char *type, const BodyNames *results) {
  Onnx__NodeProto read = ONNX__NODE_PROTO__INIT;
  BodyNames in = {0};
  bool whole = true;
  read_node_attributes(r, &read);
  need(r, "(");
  while (another(r, ")", in.n)) whole &= read_operand(r, keep, &in);
  if (!keep) return;
  Onnx__NodeProto *node = add_node(r, whole ? type : "Identity");
  if (whole) node->attribute = read.attribute, node->n_attribute = read.n_attribute;
  else in.n = 1;
  name_node(node, &in, results);
  for (size_t i = 0; i < results->n; i++) name_put(r->a, &r->values, results->items[i], r);
}

static void read_nodes(BodyReader *r) {
  need(r, "{");
  while (!take(r, "}")) {
    BodyNames results = {0};
    bool keep = read_conditions(r);
    do {
      char *name = word(r);
      ARENA_PUSH(r->a, &results, name);
      name_put(r->a, &r->declared, name, r);
    } while (take(r, ","));
    need(r, "=");
    read_node(r, keep, word(r), &results);
  }
  if (peek(r)) malformed(r);
}

static void check_outputs(BodyReader *r) {
  for (size_t i = 0; i < r->outputs.n && !r->why; i++) {
    if (gives(r->call->output, r->call->n_output, i) && !name_find(&r->values, r->outputs.items[i]))
      r->why = arena_printf(r->a, "output %zu (%s) is not computed", i, r->outputs.items[i]);
  }
}

Onnx__FunctionProto *onnx_body_of(Arena *a, const OnnxBody *body, const Onnx__NodeProto *call, const char **why) {
  BodyReader r = {.a = a, .body = body, .call = call, .at = body->text};
  read_inputs(&r);
  read_outputs(&r);
  read_attributes(&r);
  check_call(&r);
  read_nodes(&r);
  check_outputs(&r);
  *why = r.why;
  if (r.why) return NULL;
  Onnx__FunctionProto *f = ARENA_NEW(a, Onnx__FunctionProto);
  onnx__function_proto__init(f);
  f->name = arena_strdup(a, body->type);
  f->input = r.inputs.items, f->n_input = r.inputs.n;
  f->output = r.outputs.items, f->n_output = r.outputs.n;
  f->node = r.nodes.items, f->n_node = r.nodes.n;
  return f;
}
