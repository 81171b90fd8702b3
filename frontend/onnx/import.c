/* frontend/onnx/import.c - imports the graph around the nodes; see import.h.
 *
 * First names are bound (initializers, inputs, node outputs).  Then the nodes are ordered so that every value is
 * defined before its use (order.c), nodes that no output needs are dropped, and the others are imported one by one.
 */
#include "frontend/onnx/import.h"

#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "base/nearest.h"
#include "frontend/onnx/body.h"
#include "frontend/onnx/import_graph.h"
#include "frontend/onnx/rules.h"

enum { OPSET_MIN = LIMIT_OPSET_FIRST, OPSET_MAX = LIMIT_OPSET_LAST };

OnnxFile *import_file(const Import *im) { return im->file; }
bool import_trains(const Import *im) { return im->dims.options && im->dims.options->training; }
Evaluation *import_evaluation(Import *im) { return &im->evaluation; }

static const OnnxOp onnx_ops[] = {
#define ONNX_OP(type, since, until, min_in, max_in, max_out, attrs, import, arg) \
  {"", type, since, until, min_in, max_in, max_out, attrs, import_##import, (int)(arg)},
#define RUNTIME_OP(type, min_in, max_in, max_out, attrs, import, arg) \
  {"com.microsoft", type, 1, 0, min_in, max_in, max_out, attrs, import_##import, (int)(arg)},
#define DOMAIN_OP(domain, type, min_in, max_in, max_out, attrs, import, arg) \
  {domain, type, 1, 0, min_in, max_in, max_out, attrs, import_##import, (int)(arg)},
#include "frontend/onnx/ops.def"
};

static bool default_domain(const char *domain) { return !domain || !*domain || strcmp(domain, "ai.onnx") == 0; }

/* The version of the node's operator set. */
static int64_t opset_of(const Import *im, const Onnx__NodeProto *node) {
  return onnx_body_has_made(node) ? OPSET_MAX : im->opset;
}

static const OnnxOp *find_op(const char *domain, const char *type, int64_t opset) {
  if (!type) return NULL;
  if (default_domain(domain)) domain = "";
  for (size_t i = 0; i < sizeof onnx_ops / sizeof *onnx_ops; i++) {
    const OnnxOp *op = &onnx_ops[i];
    if (strcmp(op->type, type) == 0 && strcmp(op->domain, domain) == 0 && opset >= op->since &&
        (!op->until || opset <= op->until))
      return op;
  }
  return NULL;
}

bool onnx_op_supported(const char *domain, const char *type, int64_t opset) {
  return find_op(domain, type, opset) || onnx_body_find(domain, type);
}

const Expr *import_dim(Import *im, const char *value, size_t k, const Onnx__TensorShapeProto__Dimension *d) {
  return onnx_dim(&im->dims, value, k, d);
}

/* ---- names */

void import_value_infos(Import *im) {
  ImportGraph *g = im->g;
  const Onnx__GraphProto *p = g->proto;
  for (size_t i = 0; i < p->n_output; i++)
    name_put(im->m->arena, &g->infos, onnx_text(p->output[i]->name), p->output[i]);
  for (size_t i = 0; i < p->n_value_info; i++)
    name_put(im->m->arena, &g->infos, onnx_text(p->value_info[i]->name), p->value_info[i]);
}

const Onnx__ValueInfoProto *import_value_info(const Import *im, const char *value) {
  const Onnx__ValueInfoProto *found = NULL;
  for (const ImportGraph *g = im->g; g && !found; g = g->outer) found = name_find(&g->infos, value);
  return found;
}

ImportItem *import_find(const Import *im, const char *name) {
  ImportItem *found = NULL;
  for (const ImportGraph *g = im->g; g && !found; g = g->outer) found = name_find(&g->items, name);
  return found;
}

void import_rename(Import *im, const char *name, ImportItem *to) { name_put(im->m->arena, &im->g->items, name, to); }

/* Defines a name of this graph, which may hide the same name of an outer graph. */
ImportItem *import_define(Import *im, const char *name, Loc loc) {
  name = module_string(im->m, name);
  if (name_find(&im->g->items, name)) {
    diag_error(im->d, DIAG_onnx_graph, loc, "value \"%s\" is defined twice", name);
    return NULL;
  }
  ImportItem *item = ARENA_NEW(im->m->arena, ImportItem);
  item->name = name;
  item->producer = -1;
  name_put(im->m->arena, &im->g->items, name, item);
  return item;
}

/* Functions that read a tensor need an ImportNode for diagnostics; this one stands for the graph. */
static ImportNode outer_node(Import *im) {
  static const OnnxOp op = {.type = "graph"};
  return (ImportNode){.im = im, .m = im->m, .b = &im->b, .op = &op, .opset = im->opset};
}

bool import_initializers(Import *im) {
  ImportNode n = outer_node(im);
  bool ok = true;
  for (size_t i = 0; i < im->g->proto->n_initializer; i++) {
    const Onnx__TensorProto *t = im->g->proto->initializer[i];
    ImportItem *item = import_define(im, onnx_text(t->name), im->loc);
    bool read = false;
    if (item) {
      *item = item_of_tensor(&n, t, item->name, &read);
      item->is_weight = true;
    }
    ok = ok && read;
  }
  if (im->g->proto->n_sparse_initializer)
    ok = diag_error(im->d, DIAG_onnx_tensor, im->loc, "sparse initializers are not supported (%zu)",
                    im->g->proto->n_sparse_initializer);
  return ok;
}

static bool input_type_of(Import *im, const Onnx__ValueInfoProto *v, const Type **type) {
  const Onnx__TypeProto *t = v->type;
  DType dtype;
  const Expr *dims[MAX_RANK];
  const char *name = onnx_text(v->name);
  if (!t || t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !t->tensor_type)
    return diag_error(im->d, DIAG_onnx_graph, im->loc, "input \"%s\" is not a tensor", name);
  if (!onnx_dtype(t->tensor_type->elem_type, &dtype))
    return diag_error(im->d, DIAG_onnx_graph, im->loc, "input \"%s\" has element type %s, which is not supported", name,
                      onnx_dtype_name(t->tensor_type->elem_type));
  const Onnx__TensorShapeProto *shape = t->tensor_type->shape;
  if (!shape) return diag_error(im->d, DIAG_onnx_graph, im->loc, "input \"%s\" has no shape, not even a rank", name);
  if (shape->n_dim > MAX_RANK)
    return diag_error(im->d, DIAG_onnx_graph, im->loc, "input \"%s\" has %zu dimensions; apc takes at most %d", name,
                      shape->n_dim, MAX_RANK);
  for (size_t k = 0; k < shape->n_dim; k++) dims[k] = onnx_dim(&im->dims, name, k, shape->dim[k]);
  *type = type_get(im->m, dtype, (int)shape->n_dim, dims);
  if (im->m->expr_fault)
    return diag_error(im->d, DIAG_onnx_graph, im->loc, "input \"%s\": %s", name, im->m->expr_fault);
  if (!known_extents(im->m, (*type)->rank, dims))
    return diag_error(im->d, DIAG_onnx_graph, im->loc,
                      "input \"%s\" is %s, with a dimension that is negative or above 2^40", name,
                      import_type_string(im->m, *type));
  return true;
}

static bool define_inputs(Import *im) {
  bool ok = true;
  for (size_t i = 0; i < im->g->proto->n_input; i++) {
    const Onnx__ValueInfoProto *v = im->g->proto->input[i];
    const ImportItem *known = import_find(im, onnx_text(v->name));
    if (known && known->is_weight) continue; /* a default value, which apc uses */
    ImportItem *item = import_define(im, onnx_text(v->name), im->loc);
    const Type *type = NULL;
    if (!item || !input_type_of(im, v, &type)) {
      ok = false;
      continue;
    }
    im->b.loc = (Loc){.file = im->loc.file, .node = item->name};
    const OnnxValue *value = import_bound_value(im, item->name);
    if (!value) item->val = build_input(&im->b, item->name, type);
    else if (!(item->val = import_fixed_input(im, item->name, type, value))) return false;
    item->type = type_of(im->b.f, item->val);
    if (im->m->symbols.n > MAX_SYMBOLS)
      return diag_error(im->d, DIAG_onnx_graph, im->loc, "more than %d symbolic dimensions", MAX_SYMBOLS);
  }
  return ok;
}

static bool check_dim_options(Import *im) {
  bool ok = true;
  for (size_t i = 0; im->dims.options && i < im->dims.options->ndims; i++) {
    if (im->dims.bound[i]) continue;
    Text have = {.arena = im->m->arena};
    for (size_t s = 0; s < im->m->symbols.n; s++)
      text_printf(&have, "%s%s", s ? ", " : "", im->m->symbols.items[s].name);
    ok = diag_error(im->d, DIAG_onnx_model, im->loc, "the model has no dimension \"%s\"; it has: %s",
                    im->dims.options->dims[i].name, have.n ? text_str(&have) : "none");
  }
  return ok;
}

/* Returns `base`, or the first free name of base.1, base.2 ...  A taken name maps to the next suffix to try. */
static const char *unique_node_name(Import *im, const char *base) {
  Arena *a = im->m->arena;
  const char *name = base;
  uintptr_t next = (uintptr_t)name_find(&im->taken, base);
  if (next) {
    do name = arena_printf(a, "%s.%ju", base, (uintmax_t)next++);
    while (name_find(&im->taken, name));
    name_put(a, &im->taken, base, (void *)next);
  }
  name = module_string(im->m, name);
  name_put(a, &im->taken, name, (void *)(uintptr_t)1);
  return name;
}

/* Names every node: by its own name, else that of its first output, else its type; made unique.  Names of nodes in
 * an inner graph begin with the name of the node around it. */
void import_name_nodes(Import *im, const char *prefix) {
  ImportGraph *g = im->g;
  g->names = ARENA_ARRAY(im->m->arena, const char *, g->nodes.n);
  for (size_t i = 0; i < g->nodes.n; i++) {
    const Onnx__NodeProto *node = g->nodes.items[i];
    const char *base = onnx_text(node->name);
    if (!*base && node->n_output) base = onnx_text(node->output[0]);
    if (!*base) base = onnx_text(node->op_type);
    if (prefix && strncmp(base, prefix, strlen(prefix)) != 0)
      base = arena_printf(im->m->arena, "%s%s%s", prefix, *base == '/' ? "" : "/", base);
    g->names[i] = unique_node_name(im, base);
  }
}

bool import_node_outputs(Import *im) {
  const ImportGraph *g = im->g;
  bool ok = true;
  for (size_t i = 0; i < g->nodes.n; i++)
    for (size_t k = 0; k < g->nodes.items[i]->n_output; k++) {
      const char *name = g->nodes.items[i]->output[k];
      if (!*name) continue;
      ImportItem *item = import_define(im, name, onnx_node_loc(im, i));
      if (item) item->producer = (int)i;
      else ok = false;
    }
  return ok;
}

/* ---- missing operators, reported all at once */

typedef struct Missing {
  const char *type;
  size_t count;
  size_t first[3];
} Missing;

/* Suggests an operator of this operator set that may be meant. */
static void suggest_operator(Import *im, const char *type) {
  static const char runtime[] = "com.microsoft.";
  if (strncmp(type, runtime, sizeof runtime - 1) == 0) {
    diag_help(
        im->d,
        "ONNX Runtime writes this operator when it saves an optimised model; give apc the model before optimisation");
    return;
  }
  Nearest near = nearest_to(type);
  for (size_t i = 0; i < sizeof onnx_ops / sizeof *onnx_ops; i++)
    if (find_op(onnx_ops[i].domain, onnx_ops[i].type, im->opset)) nearest_try(&near, onnx_ops[i].type);
  if (near.best) diag_help(im->d, "the nearest operator is %s", near.best);
}

static bool check_supported(Import *im) {
  struct {
    Missing *items;
    size_t n, cap;
  } list = {0};
  NameMap places = {0}; /* type -> 1 + index in the list */
  for (size_t k = 0; k < im->g->norder; k++) {
    size_t i = (size_t)im->g->order[k];
    const Onnx__NodeProto *node = im->g->nodes.items[i];
    if (!im->g->live[i] || find_op(node->domain, node->op_type, opset_of(im, node))) continue;
    if (onnx_rule_find(im->rules, node->domain, node->op_type)) continue;
    const char *type = onnx_operator(im->m->arena, node->domain, onnx_text(node->op_type));
    size_t at = (size_t)(uintptr_t)name_find(&places, type);
    if (!at) {
      ARENA_PUSH(im->m->arena, &list, ((Missing){.type = type}));
      name_put(im->m->arena, &places, type, (void *)(uintptr_t)(at = list.n));
    }
    at--;
    if (list.items[at].count < 3) list.items[at].first[list.items[at].count] = i;
    list.items[at].count++;
  }
  for (size_t at = 0; at < list.n; at++) {
    const Missing *missing = &list.items[at];
    diag_error(im->d, DIAG_onnx_unsupported, im->loc,
               "operator %s is not supported at operator set %" PRId64 " (%zu node%s)", missing->type, im->opset,
               missing->count, missing->count == 1 ? "" : "s");
    diag_operator(im->d, missing->type, missing->count);
    for (size_t i = 0; i < missing->count && i < 3; i++)
      diag_note(im->d, onnx_node_loc(im, missing->first[i]), "%s", i == 0 ? "first used here" : "and here");
    suggest_operator(im, missing->type);
    diag_help(im->d, "--op '%s: RULE' and --op-library FILE.so make it an operator with a kernel of your own",
              missing->type);
  }
  return list.n == 0;
}

/* ---- nodes */

static bool attr_allowed(const char *allowed, const char *name) {
  size_t n = strlen(name);
  for (const char *p = allowed; n && (p = strstr(p, name)); p += n)
    if ((p == allowed || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0')) return true;
  return false;
}

static bool check_node(ImportNode *n) {
  const OnnxOp *op = n->op;
  size_t nin = n->proto->n_input, nout = n->proto->n_output;
  if (nin < (size_t)op->min_in || (op->max_in >= 0 && nin > (size_t)op->max_in))
    return node_error(n, "%zu inputs; at least %d%s are required", nin, op->min_in,
                      op->max_in < 0 ? "" : " and no surplus inputs");
  if (nout < 1 || (op->max_out >= 0 && nout > (size_t)op->max_out)) return node_error(n, "%zu outputs", nout);
  for (int i = 0; i < op->min_in; i++)
    if (!has_input(n, (size_t)i)) return node_error(n, "input %d is missing", i);
  for (size_t i = 0; i < n->proto->n_attribute; i++) {
    const Onnx__AttributeProto *a = n->proto->attribute[i];
    if (!attr_allowed(op->attrs, onnx_text(a->name)))
      return node_error(n, "has no attribute \"%s\"", onnx_text(a->name));
    if (a->ref_attr_name && *a->ref_attr_name)
      return node_error(n, "attribute \"%s\" refers to an attribute of a function", a->name);
    for (size_t k = 0; k < i; k++)
      if (strcmp(onnx_text(n->proto->attribute[k]->name), a->name) == 0)
        return node_error(n, "attribute \"%s\" is given twice", a->name);
  }
  return true;
}

/* If the node made the value of its first output, names the value after the node. */
static void name_result(ImportNode *n, size_t ops_before) {
  const ImportItem *first = n->out[0];
  if (!first || !first->val) return;
  size_t at = (size_t)n->b->f->values.items[first->val].op;
  Op *op = &n->b->f->ops.items[at];
  if (at < ops_before || op->kind == OP_param) return;
  const char *old = op->name;
  op->name = builder_unique_name(n->b, n->name);
  if (op->group == old) op->group = op->name;
}

bool equal_extents(ImportNode *n, const Expr *p, const Expr *q) {
  if (p == q) return true;
  assume_equal(n->m, n->im->assumptions, p, q, n->name);
  return false; /* a new assumption: fail this attempt */
}

bool equal_or_one(ImportNode *n, const Expr *p, const Expr *q) {
  bool equal = equal_extents(n, p, q);
  assume_or_one(n->m, n->im->assumptions, p, q, n->name);
  return equal;
}

const Expr *exact_extent(ImportNode *n, const Expr *e, const Expr *by) {
  const Expr *quotient = ex_exact_div(n->m, e, by);
  if (!quotient) assume_divisible(n->m, n->im->assumptions, e, by, n->name);
  return quotient;
}

static bool check_result(ImportNode *n, size_t k, const Type *t) {
  if (!t) return node_error(n, "output %zu is not supported", k);
  for (int d = 0; d < t->rank; d++) assume_extent(n->m, t->dims[d]);
  if (known_extents(n->m, t->rank, t->dims)) return true;
  return node_error(n, "output %zu would be %s, with a dimension that is negative or above 2^40", k,
                    import_type_string(n->m, t));
}

/* If the elements of the node's results are known, removes its operations; readers use the elements.  Not done if
 * the node runs graphs, whose values other nodes of them may have, or if it took a weight, which is named once. */
static void take_back(ImportNode *n, size_t ops, size_t values, const Val *before) {
  Func *f = n->b->f;
  f->ops.n = ops, f->values.n = values;
  evaluate_forget(import_evaluation(n->im), values);
  for (size_t k = 0; k < n->proto->n_input; k++)
    if (n->in[k] && n->in[k]->val >= values) n->in[k]->val = before[k];
  for (size_t k = 0; k < n->proto->n_output; k++)
    if (n->out[k] && n->out[k]->val >= values) n->out[k]->val = 0;
}

/* True if all results are small, integer and known.  They are evaluated at once, since later nodes depend on them. */
static bool results_known(ImportNode *n) {
  bool all = true;
  for (size_t k = 0; k < n->proto->n_output; k++) {
    ImportItem *out = n->out[k];
    int64_t elements;
    if (out && out->sequence) return false;
    if (!out || !out->val) continue;
    bool small = !dtype_is_float(out->type->dtype) && ex_get_const(type_elements(n->m, out->type), &elements) &&
                 elements <= KNOWN_MAX;
    if (small) out->known = fact_known(n->m, evaluate(import_evaluation(n->im), out->val));
    all = all && out->known.items;
  }
  return all;
}

static bool has_graphs(const Onnx__NodeProto *proto) {
  for (size_t i = 0; i < proto->n_attribute; i++)
    if (proto->attribute[i]->g || proto->attribute[i]->n_graphs) return true;
  return false;
}

static bool takes_sequences(ImportNode *n) {
  bool may = n->op->import == import_sequence_op || n->op->import == import_optional;
  for (size_t k = 0; k < n->proto->n_input && !may; k++)
    if (n->in[k] && n->in[k]->sequence) return node_sequence_error(n, n->in[k]->name);
  return true;
}

static bool import_node(Import *im, size_t i) {
  const Onnx__NodeProto *proto = im->g->nodes.items[i];
  ImportNode n = {
      .im = im, .m = im->m, .b = &im->b, .proto = proto, .name = im->g->names[i], .opset = opset_of(im, proto)};
  const bool ruled = onnx_rule_find(im->rules, proto->domain, proto->op_type) != NULL;
  const OnnxOp opaque = {
      .type = onnx_text(proto->op_type), .max_in = -1, .max_out = -1, .import = ruled ? import_ruled : import_opaque};
  const OnnxOp *known = find_op(proto->domain, proto->op_type, n.opset);
  n.op = known ? known : &opaque; /* check_supported allowed it */
  n.in = ARENA_ARRAY(im->m->arena, ImportItem *, proto->n_input);
  n.out = ARENA_ARRAY(im->m->arena, ImportItem *, proto->n_output);
  for (size_t k = 0; k < proto->n_input; k++) {
    n.in[k] = *proto->input[k] ? import_item_at(im, import_find(im, proto->input[k]), i, k) : NULL;
    if (n.in[k] && !n.in[k]->type) return false; /* its producer failed and reported it */
  }
  for (size_t k = 0; k < proto->n_output; k++) {
    ImportItem *item = *proto->output[k] ? import_find(im, proto->output[k]) : NULL;
    n.out[k] = item && item->used ? item : NULL;
  }
  im->b.loc = onnx_node_loc(im, i);
  im->b.prefix = arena_printf(im->m->arena, "%s.", n.name);
  size_t ops_before = im->b.f->ops.n, values_before = im->b.f->values.n, params_before = im->m->params.n,
         errors = im->d->errors;
  Val *before = ARENA_ARRAY(im->m->arena, Val, proto->n_input);
  for (size_t k = 0; k < proto->n_input; k++) before[k] = n.in[k] ? n.in[k]->val : 0;
  bool ok = (!known || check_node(&n)) && takes_sequences(&n) && (import_keeps_all(&n) || n.op->import(&n)) &&
            !n.failed && import_left_out(&n, i);
  if (im->m->expr_fault && im->d->errors == errors) ok = node_error(&n, "%s", im->m->expr_fault);
  if (!ok && im->d->errors == errors) node_error(&n, "cannot be imported"); /* never fail silently */
  if (!ok) import_bind_operands(&n);
  if (ok && im->m->symbols.n > MAX_SYMBOLS) ok = node_error(&n, "more than %d symbolic dimensions", MAX_SYMBOLS);
  for (size_t k = 0; ok && k < proto->n_output; k++) ok = !n.out[k] || check_result(&n, k, n.out[k]->type);
  if (ok) name_result(&n, ops_before);
  if (ok && results_known(&n) && !has_graphs(proto) && im->m->params.n == params_before)
    take_back(&n, ops_before, values_before, before);
  return ok;
}

bool import_live_nodes(Import *im) {
  bool ok = true;
  if (!im->unknown_as_opaque && !check_supported(im)) return false;
  for (size_t k = 0; k < im->g->norder && !im->m->expr_fault; k++) {
    size_t i = (size_t)im->g->order[k];
    if (im->g->live[i] && !import_node(im, i)) ok = false;
  }
  return ok;
}

static bool build_outputs(Import *im) {
  ImportNode n = outer_node(im);
  NameMap seen = {0};
  im->b.prefix = NULL;
  for (size_t i = 0; i < im->g->proto->n_output; i++) {
    const char *name = onnx_text(im->g->proto->output[i]->name);
    im->b.loc = (Loc){.file = im->loc.file, .node = module_string(im->m, name)};
    if (name_find(&seen, name))
      return diag_error(im->d, DIAG_onnx_graph, im->loc, "output \"%s\" is named twice", name);
    name_put(im->m->arena, &seen, name, im);
    Val v = item_value(&n, import_find(im, name));
    if (!v) return false;
    build_output(&im->b, name, v, NULL);
  }
  return true;
}

/* ---- entry */

static bool uses_default_domain(const Onnx__GraphProto *g) {
  for (size_t i = 0; i < g->n_node; i++)
    if (default_domain(g->node[i]->domain)) return true;
  return g->n_node == 0;
}

static bool read_opset(Import *im) {
  const Onnx__ModelProto *model = onnx_file_model(im->file);
  im->opset = -1;
  for (size_t i = 0; i < model->n_opset_import; i++)
    if (default_domain(model->opset_import[i]->domain)) im->opset = model->opset_import[i]->version;
  if (im->opset < 0 && !uses_default_domain(model->graph)) im->opset = OPSET_MAX; /* for the bodies of operators */
  if (im->opset < 0)
    return diag_error(im->d, DIAG_onnx_opset, im->loc, "the model imports no version of the default operator set");
  if (im->opset < OPSET_MIN || im->opset > OPSET_MAX)
    return diag_error(im->d, DIAG_onnx_opset, im->loc, "operator set %" PRId64 " is not supported; apc reads %d to %d",
                      im->opset, OPSET_MIN, OPSET_MAX);
  return true;
}

/* Rules are for operators that apc does not know. */
static bool check_rules(const Import *im) {
  for (size_t i = 0; im->rules && i < im->rules->n; i++) {
    const OnnxRule *r = &im->rules->items[i];
    const char *dot = strrchr(r->kind, '.'), *type = dot ? dot + 1 : r->kind;
    const char *domain = dot ? arena_strndup(im->m->arena, r->kind, (size_t)(dot - r->kind)) : "";
    if (onnx_op_supported(domain, type, im->opset))
      return diag_error(im->d, DIAG_opaque_rule, r->loc,
                        "apc knows the operator %s; rules are for operators that it does not know", r->kind);
  }
  return true;
}

static void note_places(const Import *im, OnnxPlaces *out) {
  const ImportGraph *g = im->g;
  Arena *a = im->m->arena;
  NameMap by_result = {0}; /* first output -> 1 + number of the node */
  *out = (OnnxPlaces){.nodes = ARENA_ARRAY(a, const char *, g->proto->n_node + 1)};
  for (size_t i = 0; i < g->nodes.n; i++)
    if (g->nodes.items[i]->n_output) name_put(a, &by_result, g->nodes.items[i]->output[0], (void *)(uintptr_t)(i + 1));
  for (size_t i = 0; i < g->proto->n_node; i++) {
    const Onnx__NodeProto *node = g->proto->node[i];
    const uintptr_t at = node->n_output ? (uintptr_t)name_find(&by_result, node->output[0]) : 0;
    if (at && g->nodes.items[at - 1] == node) out->nodes[i] = g->names[at - 1];
  }
  for (size_t i = 0; i < g->items.cap; i++) {
    const ImportItem *item = g->items.slots[i].value;
    if (item && item->val) name_put(a, &out->values, g->items.slots[i].name, (void *)(uintptr_t)item->val);
  }
}

/* `evaluates`: builds @eval beside @main, which has been imported.  *modes: true if the two would differ. */
static bool attempt(Module *m, OnnxFile *file, const OnnxImportOptions *options, OnnxAssumptions *assumptions,
                    bool evaluates, bool *modes, Diags *diags) {
  ImportGraph g = {.proto = onnx_file_model(file)->graph};
  TrainingFacts nobody, *facts = options && options->facts ? options->facts : &nobody;
  Import im = {.m = m, .file = file, .d = diags, .g = &g, .facts = facts, .modes = {.evaluates = evaluates}};
  *facts = (TrainingFacts){0};
  im.loc.file = module_string(m, onnx_file_path(file));
  im.dims = (OnnxDims){m, options, options ? ARENA_ARRAY(m->arena, bool, options->ndims) : NULL, assumptions};
  im.assumptions = assumptions;
  im.unknown_as_opaque = options && options->unknown_as_opaque;
  im.rules = options ? options->operators : NULL;
  if (options && (options->training || options->weights) && g.proto) im.kinds = import_kinds(m->arena, g.proto);
  import_value_infos(&im);
  im.b = builder_new(m, module_func_add(m, evaluates ? "eval" : "main", 1), diags);
  im.b.loc = im.loc;
  im.evaluation = (Evaluation){.m = m, .f = im.b.f};
  if (!read_opset(&im) || !check_rules(&im)) return false;
  if (!onnx_expand_functions(m->arena, onnx_file_model(file), im.rules, im.loc.file, diags, &g.nodes)) return false;
  bool ok = import_initializers(&im);
  ok = define_inputs(&im) && ok;
  ok = check_dim_options(&im) && import_check_values(&im) && ok;
  import_name_nodes(&im, NULL);
  if (!import_node_outputs(&im) || !ok) return false;
  im.b.loc = im.loc;
  if (!import_graph_order(&im)) return false;
  import_trained(&im);
  ok = import_ties(&im) && import_graph_mark_live(&im, NULL) && import_live_nodes(&im) && build_outputs(&im) &&
       import_check_modes(&im);
  if (ok) import_end_modes(&im);
  *modes = import_has_modes(&im);
  const OnnxSharding *sharding = ok && !(options && options->planned) ? import_sharding(&im) : NULL;
  if (options && options->sharding) *options->sharding = sharding;
  if (ok && options && options->places) note_places(&im, options->places);
  return ok;
}

enum { MAX_ATTEMPTS = 16 }; /* and one for each value of an input */

static void warn_of_assumptions(const OnnxAssumptions *a, const char *file, Diags *diags) {
  for (size_t i = 0; i < a->n; i++)
    if (a->items[i].is && a->items[i].node)
      diag_warning(diags, DIAG_onnx_assumed, (Loc){.file = file, .node = arena_strdup(diags->arena, a->items[i].node)},
                   "the dimension \"%s\" is taken to be %s, since other sizes do not fit here%s", a->items[i].name,
                   a->items[i].is,
                   a->items[i].or_one ? arena_printf(diags->arena, ", but for 1: --dim %s=1", a->items[i].name) : "");
}

/* Imports the graph once more, as it computes in evaluation.  It has the weights and sizes of the first function, and
 * its warnings are the same. */
static bool import_eval(Module *m, OnnxFile *file, const OnnxImportOptions *options, OnnxAssumptions *assumptions,
                        Diags *diags) {
  OnnxImportOptions again = *options;
  const size_t n = diags->n, warnings = diags->warnings;
  bool modes;
  again.facts = NULL, again.sharding = NULL, again.places = NULL;
  if (!attempt(m, file, &again, assumptions, true, &modes, diags)) return false;
  diags->n = n, diags->warnings = warnings;
  import_read_statistics(m);
  return true;
}

/* New assumptions on dimensions change sizes that the function already has, so each attempt builds it anew. */
bool onnx_import(Module **m, OnnxFile *file, const OnnxImportOptions *options, Diags *diags) {
  OnnxAssumptions assumptions = {.arena = arena_new()};
  const size_t n = diags->n, errors = diags->errors, warnings = diags->warnings;
  const size_t most = MAX_ATTEMPTS + (options ? options->nvalues : 0);
  bool ok, modes = false;
  for (size_t i = 1;; i++) {
    assumptions.news = false;
    *m = module_new();
    ok = attempt(*m, file, options, &assumptions, false, &modes, diags);
    if (ok || !assume_learn(*m, &assumptions) || i >= most) break;
    diags->n = n, diags->errors = errors, diags->warnings = warnings;
    module_free(*m);
  }
  if (ok && modes) ok = import_eval(*m, file, options, &assumptions, diags);
  if (ok) warn_of_assumptions(&assumptions, module_string(*m, onnx_file_path(file)), diags);
  arena_free(assumptions.arena);
  return ok;
}
