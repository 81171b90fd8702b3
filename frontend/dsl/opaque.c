/* frontend/dsl/opaque.c - opaque("my.Op: b.. k -> b.. k", [x], by=2): an operator that apc does not know, with its
 * sharding rule (ir/opaque_rule.h) and the attributes of its kernel.  The result is a tensor, or a list if the rule has
 * several. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/dsl/builtin.h"
#include "ir/opaque_rule.h"

/* Splits "my.Op: RULE"; false after reporting, with the character in the text. */
static bool split_rule(Args *a, const char *text, const char **kind, const OpaqueRule **r) {
  const char *colon = strchr(text, ':');
  OpaqueFault fault = {"expected an operator and a colon, as in my.Op: b.. k -> b.. k", 0};
  size_t n = colon ? (size_t)(colon - text) : 0, skipped = colon ? 1 + strspn(colon + 1, " ") : 0;
  bool named = n && strcspn(text, " \t\"\\") >= n && text[n - 1] != '.';
  *kind = named ? module_string(a->ev->m, arena_strndup(a->ev->arena, text, n)) : NULL;
  *r = named ? opaque_rule_parse(a->ev->m->arena, module_string(a->ev->m, colon + skipped), &fault) : NULL;
  if (*r) return true;
  dsl_fail(a->ev, a->at[0], DIAG_opaque_rule, "character %zu of the rule: %s", (named ? n : 0) + skipped + fault.at + 1,
           fault.why);
  return false;
}

/* The operands: a tensor or a list of tensors. */
static bool operands(Args *a, Val *in, int *n) {
  const DslValue *v = &a->v[1], *items = v->kind == V_LIST ? v->u.items : v;
  *n = v->kind == V_LIST ? v->n : 1;
  bool ok = *n <= MAX_OPERANDS;
  for (int i = 0; ok && i < *n; i++) {
    ok = items[i].kind == V_TENSOR;
    if (ok) in[i] = items[i].u.t;
  }
  return ok || dsl_arg_fail(a, 1, "a tensor or a list of tensors");
}

/* NULL for a value that no attribute has. */
static json_t *attribute(const DslValue *v) {
  int64_t i;
  if (v->kind == V_INT) return ex_get_const(v->u.e, &i) ? json_integer(i) : NULL;
  if (v->kind == V_FLOAT) return json_real(v->u.f);
  if (v->kind == V_STRING) return json_string(v->u.s);
  if (v->kind != V_LIST) return NULL;
  json_t *list = json_array();
  for (int k = 0; k < v->n; k++) {
    json_t *x = attribute(&v->u.items[k]);
    if (x && json_array_append_new(list, x) == 0) continue;
    json_decref(list);
    return NULL;
  }
  return list;
}

/* Sets *text to the attributes as a JSON object; "" without any. */
static bool attributes(Args *a, const char **text) {
  json_t *all = json_object();
  bool ok = true;
  for (int k = 0; ok && k < a->nextra; k++) {
    json_t *x = attribute(&a->extra_values[k]);
    ok = x && json_object_set_new(all, a->extra[k]->s, x) == 0;
    if (!ok)
      dsl_fail(a->ev, a->extra[k], DIAG_dsl_type,
               "'%s' must be a number, a string or a list of them, known at compile time", a->extra[k]->s);
  }
  char *dump = ok && a->nextra ? json_dumps(all, JSON_COMPACT) : NULL;
  *text = dump ? module_string(a->ev->m, dump) : "";
  free(dump);
  json_decref(all);
  return ok;
}

DslValue dsl_fn_opaque(Args *a) {
  const char *text, *kind, *given, *why;
  const OpaqueRule *r;
  Val in[MAX_OPERANDS];
  const Type *types[MAX_OPERANDS];
  OpaqueBound bound;
  int n;
  if (!dsl_arg_string(a, 0, &text) || !split_rule(a, text, &kind, &r) || !operands(a, in, &n) || !attributes(a, &given))
    return value_error();
  for (int i = 0; i < n; i++) types[i] = arg_type_of(a, in[i]);
  if (!opaque_bind(a->ev->m, r, n, types, given, false, &bound, &why))
    return dsl_fail(a->ev, a->call, DIAG_dsl_shape, "operator %s: %s", kind, why);
  Attr attrs[] = {attr_s(a->ev->m, AT_kind, kind), attr_s(a->ev->m, AT_rule, r->text),
                  attr_s(a->ev->m, AT_attributes, given)};
  dsl_begin(a->ev, a->call);
  Val v = build_op(
      &a->ev->b,
      &(OpSpec){
          .kind = OP_opaque, .nin = n, .in = in, .nattrs = *given ? 3 : 2, .attrs = attrs, .type = bound.results[0]});
  DslValue *items = ARENA_ARRAY(a->ev->arena, DslValue, MAX_RESULTS);
  for (int i = 0; i < r->nresults; i++) items[i] = dsl_built(a->ev, a->call, v ? v + (Val)i : 0);
  return items[0].kind == V_ERROR || r->nresults == 1 ? items[0] : value_list(r->nresults, items);
}
