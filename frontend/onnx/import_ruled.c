/* frontend/onnx/import_ruled.c - operators for which the user gives a rule (ir/opaque_rule.h): one opaque operation per
 * node, with all results.
 *
 * Result types follow from the rule; types that the file declares must agree.  Extents that the rule wants equal are
 * assumed to be (assume.h).  The attributes of the node become a JSON object: numbers, texts and lists of them; a small
 * tensor is an object {"type": "f32", "shape": [2], "data": [1, 2]}.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/onnx/import_graph.h"
#include "frontend/onnx/import_private.h"
#include "frontend/onnx/rules.h"
#include "ir/opaque_rule.h"

/* ---- attributes */

static json_t *text_json(const ProtobufCBinaryData *s) { return json_stringn((const char *)s->data, s->len); }

/* JSON has no infinities and no NaN. */
static json_t *number_json(double v) {
  if (isfinite(v)) return json_real(v);
  return json_string(isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
}

static json_t *elements_json(const Onnx__AttributeProto *a) {
  json_t *list = json_array();
  for (size_t i = 0; i < a->n_ints; i++) json_array_append_new(list, json_integer(a->ints[i]));
  for (size_t i = 0; i < a->n_floats; i++) json_array_append_new(list, number_json((double)a->floats[i]));
  for (size_t i = 0; i < a->n_strings; i++) json_array_append_new(list, text_json(&a->strings[i]));
  return list;
}

static json_t *tensor_json(ImportNode *n, const Onnx__TensorProto *t) {
  enum { MOST = 4096 };
  OnnxData d;
  if (!onnx_file_data(import_file(n->im), n->b->diags, t, &d) || d.elements > MOST) return NULL;
  const uint8_t *bytes = d.packed ? d.unpacked : onnx_file_bytes(import_file(n->im), &d);
  if (!bytes && d.elements) return NULL;
  json_t *shape = json_array(), *data = json_array();
  size_t step = dtype_bytes(d.dtype);
  for (size_t i = 0; i < d.rank; i++) json_array_append_new(shape, json_integer(d.dims[i]));
  for (uint64_t i = 0; i < d.elements; i++) {
    uint8_t element[8];
    memcpy(element, bytes + i * step, step);
    json_array_append_new(data, dtype_is_float(d.dtype) ? number_json(dtype_load_f(d.dtype, element))
                                                        : json_integer(dtype_load_i(d.dtype, element)));
  }
  return json_pack("{s:s, s:o, s:o}", "type", dtype_name(d.dtype), "shape", shape, "data", data);
}

/* Returns NULL for a kind of attribute that has no text. */
static json_t *attribute_json(ImportNode *n, const Onnx__AttributeProto *a) {
  switch (a->type) {
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT: return number_json((double)a->f);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT: return json_integer(a->i);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING: return text_json(&a->s);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS:
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS: return elements_json(a);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR: return a->t ? tensor_json(n, a->t) : NULL;
    default: return NULL;
  }
}

/* Sets *text to the object; "" without attributes.  False after an error. */
static bool attributes_text(ImportNode *n, const char **text) {
  json_t *all = json_object();
  bool ok = true;
  for (size_t i = 0; ok && i < n->proto->n_attribute; i++) {
    const Onnx__AttributeProto *a = n->proto->attribute[i];
    json_t *x = attribute_json(n, a);
    ok = x && json_object_set_new(all, onnx_text(a->name), x) == 0;
    if (!ok)
      node_error(n,
                 "attribute \"%s\" cannot be passed to a kernel: it is no number, no text in UTF-8, no list of them "
                 "and no tensor of at most 4,096 elements",
                 onnx_text(a->name));
  }
  char *dump = ok && n->proto->n_attribute ? json_dumps(all, JSON_COMPACT) : NULL;
  *text = dump ? module_string(n->m, dump) : "";
  free(dump);
  json_decref(all);
  return ok;
}

/* ---- types */

/* The file may declare the type of an output; it must not contradict the rule. */
static bool as_declared(ImportNode *n, size_t k, const Type *type) {
  const Onnx__ValueInfoProto *v = import_value_info(n->im, n->out[k]->name);
  const Onnx__TypeProto *t = v ? v->type : NULL;
  DType dtype;
  if (!t || t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !t->tensor_type) return true;
  if (onnx_dtype(t->tensor_type->elem_type, &dtype) && dtype != type->dtype)
    return node_error(n, "output %zu is %s in the file and %s by its rule, in which a result may begin with its type",
                      k, dtype_name(dtype), dtype_name(type->dtype));
  const Onnx__TensorShapeProto *shape = t->tensor_type->shape;
  bool same = !shape || shape->n_dim == (size_t)type->rank;
  for (int d = 0; same && shape && d < type->rank; d++) {
    int64_t extent;
    const Onnx__TensorShapeProto__Dimension *dim = shape->dim[d];
    bool number = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    same = !number || !ex_get_const(type->dims[d], &extent) || extent == dim->dim_value;
  }
  return same || node_error(n, "output %zu has another shape in the file than by its rule, %s", k,
                            import_type_string(n->m, type));
}

static bool read_inputs(ImportNode *n, const OpaqueRule *r, Val *in, const Type **types) {
  if (n->proto->n_input != (size_t)r->noperands || n->proto->n_output > (size_t)r->nresults)
    return node_error(n, "it has %zu input%s and %zu output%s, its rule has %d and %d", n->proto->n_input,
                      n->proto->n_input == 1 ? "" : "s", n->proto->n_output, n->proto->n_output == 1 ? "" : "s",
                      r->noperands, r->nresults);
  for (int i = 0; i < r->noperands; i++) {
    if (!has_input(n, (size_t)i)) return node_error(n, "input %d is missing, which its rule has", i);
    if (!(in[i] = input(n, (size_t)i))) return false;
    types[i] = type_of(n->b->f, in[i]);
  }
  return true;
}

bool import_ruled(ImportNode *n) {
  const OnnxRule *rule = onnx_rule_find(n->im->rules, n->proto->domain, n->proto->op_type);
  const OpaqueRule *r = opaque_rule_of(n->m, rule->rule);
  Val in[MAX_OPERANDS];
  const Type *types[MAX_OPERANDS];
  const char *attributes, *why;
  OpaqueBound b;
  if (!read_inputs(n, r, in, types) || !attributes_text(n, &attributes)) return false;
  if (!opaque_bind(n->m, r, r->noperands, types, attributes, false, &b, &why)) {
    if (b.clash[0]) equal_extents(n, b.clash[0], b.clash[1]); /* another attempt may assume it */
    return node_error(n, "%s", why);
  }
  for (size_t k = 0; k < n->proto->n_output; k++)
    if (n->out[k] && !as_declared(n, k, b.results[k])) return false;
  Attr attrs[] = {attr_s(n->m, AT_kind, rule->kind), attr_s(n->m, AT_rule, r->text),
                  attr_s(n->m, AT_attributes, attributes)};
  const char *names[MAX_RESULTS] = {NULL};
  for (int i = 1; i < r->nresults; i++) names[i - 1] = arena_printf(n->m->arena, "%s.%d", n->name, i);
  Val v = build_op(n->b, &(OpSpec){.kind = OP_opaque,
                                   .names = names,
                                   .loc = n->b->loc,
                                   .nin = r->noperands,
                                   .in = in,
                                   .nattrs = *attributes ? 3 : 2,
                                   .attrs = attrs,
                                   .type = b.results[0]});
  for (size_t k = 0; v && k < n->proto->n_output; k++)
    if (wants(n, k) && !import_set_output(n, k, v + (Val)k)) return false;
  return v != 0;
}
