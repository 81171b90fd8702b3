/* frontend/onnx/import_value.c - inputs of the graph whose values are known at import; see OnnxValue in import.h.
 *
 * In: values by the names of inputs.  Out: inputs that list their elements, and facts about these for operators that
 * need constants.  A value that is only available is bound when an operator fails for the lack of a constant that comes
 * from its input: the import then starts again (import.c), so that no more inputs are bound than sizes depend on.
 */
#include <string.h>

#include "base/whole.h"
#include "frontend/onnx/import_graph.h"

static OnnxValue *value_of(const Import *im, const char *input) {
  const OnnxImportOptions *o = im->dims.options;
  bool alone = im->g->proto->n_input == 1;
  OnnxValue *found = NULL;
  for (size_t i = 0; o && i < o->nvalues; i++) {
    OnnxValue *v = &o->values[i];
    bool is_it = *v->name ? strcmp(v->name, input) == 0 : alone;
    if (is_it && (!found || !found->asked || v->asked)) found = v; /* the last, but what is asked for comes first */
  }
  return found;
}

OnnxValue *import_bound_value(const Import *im, const char *input) {
  OnnxValue *v = value_of(im, input);
  if (v && v->asked) v->bound = true;
  return v && v->bound ? v : NULL;
}

bool import_check_values(const Import *im) {
  const OnnxImportOptions *o = im->dims.options;
  bool ok = true;
  for (size_t i = 0; o && i < o->nvalues; i++) {
    const OnnxValue *v = &o->values[i];
    if (!v->asked || v->bound) continue;
    ok = *v->name ? diag_error(im->d, DIAG_input, im->loc, "the model has no input \"%s\"", v->name)
                  : diag_error(im->d, DIAG_input, im->loc, "the model has %zu inputs, so the value needs a name",
                               im->g->proto->n_input);
  }
  return ok;
}

static bool does_not_fit(const Import *im, const char *input, const Type *type, const Type *given) {
  return diag_error(im->d, DIAG_input, im->loc, "input \"%s\" is %s, but the value given for it is %s", input,
                    import_type_string(im->m, type), import_type_string(im->m, given));
}

/* Copies the elements to the module's arena, as elements of the input's type; NULL after an error.  Integers of another
 * type may stand for them. */
static void *elements_of(const Import *im, const char *input, DType type, const Tensor *t) {
  Tensor converted = {0};
  if (t->dtype != type && (!whole_may_be(t->dtype, type) || whole_first_other(t, type) >= 0)) {
    diag_error(im->d, DIAG_input, im->loc, "input \"%s\" is %s, but the value given for it is %s", input,
               dtype_name(type), dtype_name(t->dtype));
    return NULL;
  }
  if (t->dtype != type && !whole_convert(t, type, &converted)) {
    diag_error(im->d, DIAG_no_memory, im->loc, "out of memory for input \"%s\"", input);
    return NULL;
  }
  const Tensor *from = t->dtype != type ? &converted : t;
  char *copy = ARENA_ARRAY(im->m->arena, char, from->bytes + 1);
  memcpy(copy, from->data, from->bytes);
  tensor_free(&converted);
  return copy;
}

static Attr listed(const Import *im, DType type, const char *elements, int n) {
  size_t step = dtype_bytes(type);
  if (!dtype_is_float(type)) {
    int64_t *list = ARENA_ARRAY(im->m->arena, int64_t, n + 1);
    for (int i = 0; i < n; i++) list[i] = dtype_load_i(type, elements + (size_t)i * step);
    return attr_ints(im->m, AT_ints, n, list);
  }
  double *list = ARENA_ARRAY(im->m->arena, double, n + 1);
  for (int i = 0; i < n; i++) list[i] = dtype_load_f(type, elements + (size_t)i * step);
  return (Attr){.key = AT_floats, .n = n, .u.floats = list};
}

Val import_fixed_input(Import *im, const char *input, const Type *type, const OnnxValue *value) {
  const Tensor *t = &value->tensor;
  const Type *given = type_of_ints(im->m, t->dtype, t->rank, t->dims);
  if (t->rank != type->rank) return does_not_fit(im, input, type, given), 0;
  for (int d = 0; d < t->rank; d++) {
    if (type->dims[d] == given->dims[d]) continue;
    if (!assume_equal(im->m, im->assumptions, type->dims[d], given->dims[d], NULL))
      does_not_fit(im, input, type, given);
    return 0; /* a new assumption: fail this attempt */
  }
  const void *elements = elements_of(im, input, type->dtype, t);
  if (!elements) return 0;
  given = type_of_ints(im->m, type->dtype, t->rank, t->dims);
  int64_t n = tensor_elements(t);
  Attr attrs[] = {attr_s(im->m, AT_name, input), listed(im, type->dtype, elements, (int)n)};
  Val v = build_op(&im->b, &(OpSpec){.kind = OP_input, .name = input, .type = given, .nattrs = 2, .attrs = attrs});
  if (v) evaluate_tensor(&im->evaluation, v, (FactTensor){elements, given, (uint64_t)n});
  return v;
}

/* The value of the input that operand i comes from, unless it is bound already; NULL if there is none. */
static OnnxValue *free_value(ImportNode *n, size_t i) {
  const char *input = import_origin(n, i);
  OnnxValue *v = input ? value_of(n->im, input) : NULL;
  return v && !v->bound ? v : NULL;
}

static void bind(ImportNode *n, OnnxValue *v) {
  v->bound = true;
  n->im->assumptions->news = true;
}

void import_bind_origin(ImportNode *n, size_t i) {
  OnnxValue *v = free_value(n, i);
  if (v) bind(n, v);
}

void import_bind_operands(ImportNode *n) {
  for (size_t i = 0; i < n->proto->n_input && !n->im->assumptions->news; i++) {
    OnnxValue *v = has_input(n, i) && !n->in[i]->sequence && n->in[i]->type ? free_value(n, i) : NULL;
    if (v && tensor_elements(&v->tensor) <= KNOWN_MAX) bind(n, v);
  }
}
