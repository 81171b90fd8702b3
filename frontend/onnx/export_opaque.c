/* frontend/onnx/export_opaque.c - writes an operator with a rule (ir/opaque_rule.h) as a node of its own domain, with
 * its attributes.  The rule is not part of an ONNX file: readers need it again (--op). */
#include <jansson.h>
#include <string.h>

#include "frontend/onnx/export_private.h"
#include "ir/opaque_rule.h"

/* A list of numbers or texts; whole numbers beside others are floats.  NULL for a mixed list. */
static Onnx__AttributeProto *list_attribute(OnnxWriter *w, const char *name, const json_t *list) {
  size_t n = json_array_size(list), texts = 0, ints = 0;
  for (size_t i = 0; i < n; i++) {
    texts += json_is_string(json_array_get(list, i));
    ints += json_is_integer(json_array_get(list, i));
  }
  if (ints == n) {
    int64_t *v = ARENA_ARRAY(w->arena, int64_t, n + 1);
    for (size_t i = 0; i < n; i++) v[i] = json_integer_value(json_array_get(list, i));
    return onnx_write_ints(w, name, (int)n, v);
  }
  if (texts && texts < n) return NULL;
  Onnx__AttributeProto *a = onnx_write_int(w, name, 0);
  a->has_i = false;
  a->type = texts ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS : ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
  a->strings = ARENA_ARRAY(w->arena, ProtobufCBinaryData, n);
  a->floats = ARENA_ARRAY(w->arena, float, n);
  a->n_strings = texts, a->n_floats = texts ? 0 : n;
  for (size_t i = 0; i < n; i++) {
    const json_t *x = json_array_get(list, i);
    const char *s = texts ? arena_strdup(w->arena, json_string_value(x)) : "";
    a->strings[i] = (ProtobufCBinaryData){strlen(s), (uint8_t *)(uintptr_t)s};
    a->floats[i] = texts ? 0 : (float)json_number_value(x);
  }
  return a;
}

/* NULL for a value that no attribute has. */
static Onnx__AttributeProto *attribute_of(OnnxWriter *w, const char *name, const json_t *x) {
  if (json_is_integer(x)) return onnx_write_int(w, name, json_integer_value(x));
  if (json_is_string(x)) return onnx_write_string(w, name, json_string_value(x));
  if (json_is_array(x)) return list_attribute(w, name, x);
  if (!json_is_real(x)) return NULL;
  Onnx__AttributeProto *a = onnx_write_int(w, name, 0);
  a->has_i = false, a->has_f = true;
  a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
  a->f = (float)json_real_value(x);
  return a;
}

static bool write_attributes(const Writing *n, json_t *all, Onnx__AttributeProto **attrs, int *count) {
  const char *name;
  json_t *x;
  *count = 0;
  json_object_foreach(all, name, x) {
    attrs[*count] = attribute_of(n->x->w, name, x);
    if (!attrs[*count])
      return export_no_form(n, arena_printf(n->x->w->arena, "its attribute '%s' has none", name)) != NULL;
    ++*count;
  }
  return true;
}

static const char *write_node(const Writing *n, json_t *all) {
  OnnxWriter *w = n->x->w;
  const char *in[MAX_OPERANDS], *results[MAX_RESULTS], *kind = op_str(n->op, AT_kind), *dot = strrchr(kind, '.');
  Onnx__AttributeProto **attrs = ARENA_ARRAY(w->arena, Onnx__AttributeProto *, json_object_size(all) + 1);
  int nattrs;
  if (!write_attributes(n, all, attrs, &nattrs)) return NULL;
  for (int i = 0; i < n->op->nin; i++)
    if (!(in[i] = operand(n, i))) return NULL;
  for (int i = 0; i < n->op->nout; i++) {
    results[i] = builder_unique_name(&w->names, i ? n->op->names[i - 1] : n->wanted);
    if (i) n->s->names[n->op->out + (Val)i] = results[i];
  }
  onnx_write_results(w, dot ? dot + 1 : kind, n->op->nout, results, n->op->nin, in, nattrs, attrs);
  onnx_write_domain(w, dot ? arena_strndup(w->arena, kind, (size_t)(dot - kind)) : "");
  return results[0];
}

const char *write_opaque(const Writing *n) {
  const char *attributes = op_str(n->op, AT_attributes);
  if (!op_attr(n->op, AT_rule)) return export_no_form(n, "the operator is not known");
  json_t *all = attributes ? json_loads(attributes, 0, NULL) : json_object();
  const char *result =
      json_is_object(all) ? write_node(n, all) : export_no_form(n, "its attributes are no JSON object");
  json_decref(all);
  return result;
}
