/* frontend/onnx/node.c - inputs, outputs and attributes of one ONNX node; see import_private.h. */
#include <inttypes.h>
#include <string.h>

#include "base/small_float.h"
#include "frontend/onnx/import_bits.h"

bool node_error(ImportNode *n, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(n->m->arena, format, args);
  va_end(args);
  return diag_error(n->b->diags, DIAG_onnx_node, n->b->loc, "%s: %s", n->op->type, text);
}

bool import_in_loop(const ImportNode *n) {
  const Func *f = n->b->f;
  int depth = 0;
  for (size_t i = 0; i < f->ops.n; i++)
    depth += (f->ops.items[i].kind == OP_loop) - (f->ops.items[i].kind == OP_repeat);
  return depth > 0;
}

const char *import_type_string(Module *m, const Type *t) {
  Text text = {.arena = m->arena};
  type_print(m, &text, t);
  return text_str(&text);
}

/* ---- tensors of the file */

/* Reads a small tensor of integers or bools as known elements. */
static ImportKnown known_of_data(Module *m, const OnnxData *d, const uint8_t *bytes) {
  int64_t items[KNOWN_MAX];
  DTypeClass class = dtype_class(d->dtype);
  if (d->elements > KNOWN_MAX || class == DTC_F) return (ImportKnown){0};
  for (uint64_t i = 0; i < d->elements; i++) {
    items[i] = dtype_load_i(d->dtype, bytes + i * dtype_bytes(d->dtype));
    if (items[i] < 0 && class == DTC_U) return (ImportKnown){0}; /* does not fit an int64 */
  }
  return known_ints(m, d->dtype, (int)d->rank, d->dims, items);
}

ImportItem item_of_tensor(ImportNode *n, const Onnx__TensorProto *tensor, const char *name, bool *ok) {
  ImportItem item = {.name = name, .tensor = tensor, .producer = -1};
  OnnxFile *file = import_file(n->im);
  *ok = onnx_file_data(file, n->b->diags, tensor, &item.data);
  if (*ok && item.data.rank > MAX_RANK)
    *ok = diag_error(n->b->diags, DIAG_onnx_tensor, n->b->loc, "tensor \"%s\" has %zu dimensions; apc takes at most %d",
                     name, item.data.rank, MAX_RANK);
  for (size_t d = 0; *ok && d < item.data.rank; d++)
    if (item.data.dims[d] > MAX_EXTENT)
      *ok = diag_error(n->b->diags, DIAG_onnx_tensor, n->b->loc,
                       "tensor \"%s\" has the dimension %" PRId64 ", above 2^40", name, item.data.dims[d]);
  if (!*ok) return item;
  item.type = type_of_ints(n->m, item.data.dtype, (int)item.data.rank, item.data.dims);
  item.known = known_of_data(n->m, &item.data, onnx_file_bytes(file, &item.data));
  if (n->m->expr_fault)
    *ok = diag_error(n->b->diags, DIAG_onnx_tensor, n->b->loc, "tensor \"%s\": %s", name, n->m->expr_fault);
  return item;
}

static Val const_floats(ImportNode *n, const Type *type, const OnnxData *d, const uint8_t *bytes) {
  double *list = ARENA_ARRAY(n->m->arena, double, d->elements);
  bool equal = d->elements > 0;
  for (uint64_t i = 0; i < d->elements; i++) {
    list[i] = dtype_load_f(d->dtype, bytes + i * dtype_bytes(d->dtype));
    equal = equal && memcmp(&list[i], &list[0], sizeof *list) == 0;
  }
  if (equal) return build_splat(n->b, type, list[0]);
  Attr a = {.key = AT_floats, .n = (int)d->elements, .u.floats = list};
  return build_op(n->b, &(OpSpec){.kind = OP_const, .type = type, .nattrs = 1, .attrs = &a});
}

static Val const_ints(ImportNode *n, const Type *type, int count, const int64_t *list) {
  bool equal = count > 0;
  for (int i = 1; i < count; i++) equal = equal && list[i] == list[0];
  /* Splats are doubles: exact up to 2^53. */
  if (equal && list[0] <= (1ll << 53) && list[0] >= -(1ll << 53)) return build_splat(n->b, type, (double)list[0]);
  Attr a = attr_ints(n->m, AT_ints, count, list);
  return build_op(n->b, &(OpSpec){.kind = OP_const, .type = type, .nattrs = 1, .attrs = &a});
}

enum { CONST_FLOATS = 16, FOLD_BYTES = 1 << 20 };

/* True if the param is that tensor of the file. */
static bool is_of_tensor(const Module *m, const Param *p, const ImportItem *item, const OnnxBlob *blob,
                         const Type *type) {
  return p->init == INIT_BLOB && p->type == type && p->offset == item->data.offset && p->blob >= 0 &&
         strcmp(m->blobs.items[p->blob].path, blob->path) == 0;
}

/* Adds a weight: a param that refers to its bytes in the file.  @eval has those of @main. */
static Param *add_param(ImportNode *n, const ImportItem *item, const Type *type) {
  Module *m = n->m;
  OnnxBlob blob = onnx_file_blob(import_file(n->im), item->data.blob);
  const char *name = item->name;
  Param *have;
  for (int i = 1; (have = module_param(m, name)); i++) {
    if (import_evaluates(n->im) && is_of_tensor(m, have, item, &blob, type)) return have;
    name = arena_printf(m->arena, "%s.%d", item->name, i);
  }
  Param *p = module_param_add(m, name, type);
  p->init = INIT_BLOB;
  p->blob = module_blob(m, blob.path, blob.bytes);
  p->offset = item->data.offset;
  p->loc = (Loc){.file = n->b->loc.file, .node = p->name};
  return p;
}

static Val value_of_param(ImportNode *n, const Param *p) {
  const Loc saved = n->b->loc;
  n->b->loc = p->loc;
  Val v = build_param(n->b, p->name);
  n->b->loc = saved;
  return v;
}

/* Builds a weight of packed elements: a param of bytes, rows if they are whole, and its unpacking. */
static Val param_of_packed(ImportNode *n, const ImportItem *item) {
  const Type *t = item->type;
  const int bits = item->data.packed, last = t->rank - 1;
  bool rows = last >= 0 && t->rank < MAX_RANK && item->data.dims[last] * bits % 8 == 0;
  int64_t dims[MAX_RANK] = {(int64_t)item->data.bytes}, stride = 1;
  for (int d = 0; rows && d <= last; d++) dims[d] = d == last ? item->data.dims[d] * bits / 8 : item->data.dims[d];
  Param *p = add_param(n, item, type_of_ints(n->m, DT_u8, rows ? t->rank : 1, dims));
  for (int d = p->type->rank - 1; d >= 0; d--) {
    p->strides[d] = stride;
    stride *= dims[d];
  }
  Val v = import_unpacked(n, value_of_param(n, p), bits,
                          rows ? t->dims[last] : ex_const(n->m, (int64_t)item->data.elements));
  return v ? build_bitcast(n->b, rows ? v : build_reshape(n->b, v, t->rank, t->dims), t->dtype) : 0;
}

/* Builds a weight. */
static Val param_of_item(ImportNode *n, const ImportItem *item) {
  Module *m = n->m;
  const Expr *dims[MAX_RANK];
  int64_t stride = 1;
  if (item->data.packed) return param_of_packed(n, item);
  for (int d = 0; d < item->type->rank; d++) dims[d] = item->repeats >> d & 1u ? ex_const(m, 1) : item->type->dims[d];
  Param *p = add_param(n, item, type_get(m, item->type->dtype, item->type->rank, dims));
  for (int d = item->type->rank - 1; d >= 0; d--) {
    p->strides[d] = stride;
    if (item->data.dims[d]) stride *= item->data.dims[d];
  }
  DType t = item->data.dtype;
  p->trainable = item->is_weight && !item->is_fixed && dtype_is_float(t) && dtype_computes(t);
  return value_of_param(n, p);
}

/* Returns the elements with a byte each; onnx_file_bytes has none of large packed tensors. */
static const uint8_t *unpacked_bytes(const ImportNode *n, const OnnxData *d) {
  uint8_t *to = arena_alloc(n->m->arena, d->elements + 1);
  unpack_bits(d->packed, d->elements, onnx_file_stored(import_file(n->im), d), to);
  return to;
}

/* Builds a constant for data that was stored element by element, outside raw bytes. */
static Val const_of_item(ImportNode *n, const ImportItem *item, const uint8_t *bytes) {
  const OnnxData *d = &item->data;
  if (d->bytes > FOLD_BYTES) {
    node_error(
        n, "tensor \"%s\" of %" PRIu64 " bytes is not stored as raw data; save the model again with a current exporter",
        item->name, d->bytes);
    return 0;
  }
  if (d->packed && !bytes && d->elements) bytes = unpacked_bytes(n, d);
  if (dtype_is_float(d->dtype)) return const_floats(n, item->type, d, bytes);
  int64_t *list = ARENA_ARRAY(n->m->arena, int64_t, d->elements);
  for (uint64_t i = 0; i < d->elements; i++) list[i] = dtype_load_i(d->dtype, bytes + i * dtype_bytes(d->dtype));
  return const_ints(n, item->type, (int)d->elements, list);
}

static FactTensor tensor_of_item(const ImportNode *n, const ImportItem *item) {
  return (FactTensor){onnx_file_bytes(import_file(n->im), &item->data), item->type, item->data.elements};
}

static Val value_of_tied(ImportNode *n, ImportItem *item) {
  const int perm[] = {1, 0};
  Val v = item_value(n, item->tied);
  return v && item->tied_transposed ? build_transpose(n->b, v, perm) : v;
}

static Val value_of_tensor(ImportNode *n, ImportItem *item) {
  if (item->tied) return value_of_tied(n, item);
  OnnxFile *file = import_file(n->im);
  const uint8_t *bytes = onnx_file_bytes(file, &item->data);
  bool in_file = onnx_file_blob(file, item->data.blob).path != NULL && item->data.elements > 0;
  bool small =
      (item->data.elements <= 1 && !item->is_trained) || (!item->is_weight && item->data.elements <= CONST_FLOATS);
  if (!in_file || small) return const_of_item(n, item, bytes);
  Val v = param_of_item(n, item);
  if (item->repeats && !item->data.packed) return broadcast(n, v, item->type->rank, item->type->dims);
  evaluate_tensor(import_evaluation(n->im), v, tensor_of_item(n, item));
  return v;
}

/* ---- known elements as values */

static Val known_element(ImportNode *n, const ImportKnown *k, int i) {
  const Type *one = type_of_ints(n->m, k->type->dtype, 1, (int64_t[]){1});
  int64_t value;
  if (ex_get_const(k->items[i], &value)) return const_ints(n, one, 1, &value);
  return build_size(n->b, one, k->items[i]);
}

Val import_known_value(ImportNode *n, const ImportKnown *k) {
  int64_t constants[KNOWN_MAX];
  if (known_constants(k, constants)) return const_ints(n, k->type, k->n, constants);
  bool equal = true;
  for (int i = 1; i < k->n; i++) equal = equal && k->items[i] == k->items[0];
  if (equal) return build_size(n->b, k->type, k->items[0]);
  Val joined = known_element(n, k, 0);
  for (int i = 1; i < k->n;) {
    Val part[16] = {joined};
    int parts = 1;
    while (parts < 16 && i < k->n) part[parts++] = known_element(n, k, i++);
    joined = build_concat(n->b, parts, part, 0);
  }
  return build_reshape(n->b, joined, k->type->rank, k->type->dims);
}

/* ---- inputs */

bool has_input(const ImportNode *n, size_t i) { return i < n->proto->n_input && n->in[i] != NULL; }
const Type *input_type(const ImportNode *n, size_t i) { return n->in[i]->type; }

static const ImportFact *item_fact(ImportNode *n, ImportItem *item) {
  if (item->val) return evaluate(import_evaluation(n->im), item->val);
  if (item->fact) return item->fact;
  ImportFact *f = ARENA_NEW(n->m->arena, ImportFact);
  *f = item->known.items ? fact_of_known(n->m, &item->known)
                         : fact_of_tensor(import_evaluation(n->im), tensor_of_item(n, item));
  return item->fact = f;
}

const ImportFact *input_fact(ImportNode *n, size_t i) { return has_input(n, i) ? item_fact(n, n->in[i]) : NULL; }

ImportKnown input_known(ImportNode *n, size_t i) {
  if (!has_input(n, i)) return (ImportKnown){0};
  ImportItem *item = n->in[i];
  int64_t elements;
  bool may = !item->known.items && !dtype_is_float(item->type->dtype) &&
             ex_get_const(type_elements(n->m, item->type), &elements) && elements <= KNOWN_MAX;
  if (may) item->known = fact_known(n->m, item_fact(n, item));
  return item->known;
}

bool node_sequence_error(ImportNode *n, const char *name) {
  return diag_error(n->b->diags, DIAG_onnx_node, n->b->loc,
                    "\"%s\" is a sequence of tensors, which apc accepts only if its tensors are known at import", name);
}

Val item_value(ImportNode *n, ImportItem *item) {
  if (item->val) return item->val;
  if (item->sequence) return node_sequence_error(n, item->name), 0;
  bool as_elements = item->known.items && (!item->tensor || item->data.elements <= CONST_FLOATS);
  item->val = as_elements ? import_known_value(n, &item->known) : value_of_tensor(n, item);
  if (as_elements && item->val) evaluate_known(import_evaluation(n->im), item->val, &item->known);
  return item->val;
}

ImportItem *new_item(ImportNode *n, const char *name, Val v) {
  ImportItem *item = ARENA_NEW(n->m->arena, ImportItem);
  *item = (ImportItem){.name = name, .val = v, .type = v ? type_of(n->b->f, v) : NULL, .producer = -1, .used = true};
  return item;
}

Val input(ImportNode *n, size_t i) { return has_input(n, i) ? item_value(n, n->in[i]) : 0; }

bool input_exprs(ImportNode *n, size_t i, const char *what, ImportKnown *out) {
  *out = input_known(n, i);
  if (out->items && out->type->rank <= 1 && dtype_class(out->type->dtype) != DTC_B) return true;
  if (out->items)
    return node_error(n, "%s must be a list of integers, not %s", what, import_type_string(n->m, out->type));
  return input_refused(n, i, what);
}

bool input_shape(ImportNode *n, size_t i, const char *what, ImportKnown *out) {
  if (!input_exprs(n, i, what, out)) return false;
  if (out->n > MAX_RANK) return node_error(n, "a result of %d dimensions", out->n);
  for (int d = 0; d < out->n; d++)
    if (!known_extents(n->m, 1, &out->items[d])) return node_error(n, "dimension %d is negative or above 2^40", d);
  return true;
}

bool node_extent(ImportNode *n, double x, int64_t *out) {
  if (!(x >= 0 && x < (double)MAX_EXTENT))
    return node_error(n, "a dimension would be %g; at least 0 and less than 2^40 is expected", x);
  *out = (int64_t)x;
  return true;
}

bool input_ints(ImportNode *n, size_t i, const char *what, int64_t *out, int *count) {
  ImportKnown k;
  if (!input_exprs(n, i, what, &k)) return false;
  *count = k.n;
  if (known_constants(&k, out)) return true;
  return input_refused(n, i, what);
}

bool input_doubles(ImportNode *n, size_t i, const char *what, int max, double *out, int *count) {
  const ImportFact *f = input_fact(n, i);
  if (f->kind != FACT_CONSTANT) return input_refused(n, i, what);
  if (f->n > max) return node_error(n, "%s has %" PRId64 " elements", what, f->n);
  *count = (int)f->n;
  for (int k = 0; k < *count; k++) out[k] = dtype_is_float(f->type->dtype) ? f->cells[k].f : (double)f->cells[k].i;
  return true;
}

bool input_number(ImportNode *n, size_t i, double *out) { return has_input(n, i) && item_number(n, n->in[i], out); }

bool item_number(ImportNode *n, ImportItem *item, double *out) {
  int64_t elements;
  if (!ex_get_const(type_elements(n->m, item->type), &elements) || elements != 1) return false;
  const ImportFact *f = item_fact(n, item);
  if (f->kind != FACT_CONSTANT) return false;
  *out = dtype_is_float(item->type->dtype) ? f->cells[0].f : (double)f->cells[0].i;
  return true;
}

/* ---- outputs */

bool wants(const ImportNode *n, size_t i) { return i < n->proto->n_output && n->out[i] != NULL; }

bool import_set_output(ImportNode *n, size_t i, Val v) {
  if (!v) return false;
  if (!wants(n, i)) return true;
  n->out[i]->val = v;
  n->out[i]->type = type_of(n->b->f, v);
  return true;
}

bool import_set_known(ImportNode *n, size_t i, ImportKnown k) {
  if (!wants(n, i)) return true;
  n->out[i]->known = k;
  n->out[i]->type = k.type;
  return true;
}

void import_set_alias(ImportNode *n, size_t i, ImportItem *from) {
  if (!wants(n, i)) return;
  n->out[i]->type = from->type;
  import_rename(n->im, n->out[i]->name, from);
}

void import_set_tensor(ImportNode *n, size_t i, const ImportItem *from) {
  if (!wants(n, i)) return;
  ImportItem *out = n->out[i];
  *out = (ImportItem){.name = out->name,
                      .type = from->type,
                      .known = from->known,
                      .tensor = from->tensor,
                      .data = from->data,
                      .producer = out->producer,
                      .used = out->used};
}

/* ---- attributes */

static const Onnx__AttributeProto *find_attr(const ImportNode *n, const char *name) {
  for (size_t i = 0; i < n->proto->n_attribute; i++) {
    const char *have = n->proto->attribute[i]->name;
    if (have && strcmp(have, name) == 0) return n->proto->attribute[i];
  }
  return NULL;
}

bool has_attr(const ImportNode *n, const char *name) { return find_attr(n, name) != NULL; }

/* The attribute if present and of that type; reports a wrong type. */
static const Onnx__AttributeProto *typed_attr(ImportNode *n, const char *name,
                                              Onnx__AttributeProto__AttributeType type) {
  const Onnx__AttributeProto *a = find_attr(n, name);
  if (!a || a->type == type) return a;
  node_error(n, "attribute \"%s\" has the wrong type", name);
  n->failed = true;
  return NULL;
}

int64_t node_int(ImportNode *n, const char *name, int64_t otherwise) {
  const Onnx__AttributeProto *a = typed_attr(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
  return a ? a->i : otherwise;
}

double node_float(ImportNode *n, const char *name, double otherwise) {
  const Onnx__AttributeProto *a = typed_attr(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
  return a ? (double)a->f : otherwise;
}

const char *node_string(ImportNode *n, const char *name, const char *otherwise) {
  const Onnx__AttributeProto *a = typed_attr(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
  return a ? arena_strndup(n->m->arena, (const char *)a->s.data, a->s.len) : otherwise;
}

const int64_t *node_ints(ImportNode *n, const char *name, int *count) {
  const Onnx__AttributeProto *a = typed_attr(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
  *count = a ? (int)a->n_ints : -1;
  return a ? a->ints : NULL;
}

bool node_ints_into(ImportNode *n, const char *name, int expected, int64_t least, int64_t *out) {
  int count;
  const int64_t *list = node_ints(n, name, &count);
  if (count >= 0 && count != expected) return node_error(n, "%s has %d entries, not %d", name, count, expected);
  for (int i = 0; i < count; i++) {
    if (list[i] < least || list[i] > INT32_MAX) return node_error(n, "%s cannot contain %" PRId64, name, list[i]);
    out[i] = list[i];
  }
  return true;
}

const float *node_floats(ImportNode *n, const char *name, size_t *count) {
  const Onnx__AttributeProto *a = typed_attr(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS);
  *count = a ? a->n_floats : 0;
  return a ? a->floats : NULL;
}

const char *const *node_strings(ImportNode *n, const char *name, size_t *count) {
  const Onnx__AttributeProto *a = typed_attr(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS);
  *count = a ? a->n_strings : 0;
  if (!a) return NULL;
  const char **out = ARENA_ARRAY(n->m->arena, const char *, a->n_strings);
  for (size_t i = 0; i < a->n_strings; i++)
    out[i] = arena_strndup(n->m->arena, (const char *)a->strings[i].data, a->strings[i].len);
  return out;
}

bool node_dtype(ImportNode *n, const char *name, DType *out) {
  int64_t type = node_int(n, name, 0);
  int32_t number = type >= 0 && type <= INT32_MAX ? (int32_t)type : -1;
  return onnx_dtype(number, out) || node_error(n, "%s is %s, which is not supported", name, onnx_dtype_name(number));
}

const Onnx__TensorProto *node_tensor(ImportNode *n, const char *name) {
  const Onnx__AttributeProto *a = typed_attr(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR);
  return a ? a->t : NULL;
}

const Onnx__GraphProto *node_graph(ImportNode *n, const char *name) {
  const Onnx__AttributeProto *a = typed_attr(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);
  if (a && a->g) return a->g;
  node_error(n, "has no graph \"%s\"", name);
  return NULL;
}

bool node_axis(ImportNode *n, int64_t axis, int rank, int *out) {
  if (axis < -rank || axis >= rank) return node_error(n, "axis %" PRId64 " is outside a tensor of rank %d", axis, rank);
  *out = (int)(axis < 0 ? axis + rank : axis);
  return true;
}

bool node_axes(ImportNode *n, int64_t since_input, int rank, unsigned *out, bool *given) {
  int64_t from_input[KNOWN_MAX];
  const int64_t *list = from_input;
  int count = -1, axis = 0;
  if (n->opset < since_input) list = node_ints(n, "axes", &count);
  else if (has_input(n, 1) && !input_ints(n, 1, "axes", from_input, &count)) return false;
  *out = 0;
  *given = count >= 0;
  for (int i = 0; i < count; i++) {
    if (!node_axis(n, list[i], rank, &axis)) return false;
    if (*out >> axis & 1) return node_error(n, "axis %d is given twice", axis);
    *out |= 1u << axis;
  }
  return true;
}
