/* driver/annotated.c - see annotated.h.
 *
 * Device d of a configuration is rank d of the target.  Distinct numbers of pipeline stages, in order, are the stages;
 * without numbers, disjoint blocks of devices are.  Each spec gives by device the numbers of its shards; the mesh has
 * an axis for each digit of them (frontend/onnx/sharding_spec.h), and axes that no spec uses are left to the search.
 *
 * A spec of an operand is the layout that the node's operations read it in; a spec of a result is the layout in which
 * its operation makes it.  If an operation cannot make its result so from operands in their layouts, as for a sum whose
 * parts are scattered, those that read the result take it in that layout.  Partial sums are no part of a spec.  An
 * operation is found by the name of its node, and a tensor by its maker, after the passes of level 1.
 *
 * Not followed, which is reported by node and tensor: devices in an order that no mesh has, specs that contradict each
 * other, stages in another order than the nodes, tensors that passes replaced by others.
 */
#include "driver/annotated.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/nearest.h"
#include "driver/annotated_form.h"
#include "driver/internal.h"
#include "frontend/onnx/names.h"
#include "frontend/onnx/sharding.h"
#include "frontend/onnx/sharding_spec.h"
#include "passes/facts/derived.h"
#include "passes/facts/labels.h"

enum {
  MOST_REPORTS = 16,
  MOST_AXES = 4,     /* the planner would need minutes for more */
  MOST_OPEN_AXES = 3 /* up to which an axis without specs is divided */
};

/* A spec that may be followed. */
typedef struct Spec {
  const OnnxNodeSharding *node;
  const OnnxTensorSharding *tensor;
  const OnnxShards *shards;
  int stage;
  Layout layout;
} Spec;

/* The operations of a node in the forward pass. */
typedef struct NodeOps {
  size_t *items;
  size_t n, cap;
} NodeOps;

typedef struct Annotations {
  Build *b;
  Arena *a;
  const OnnxSharding *x;
  const OnnxDevices *c;
  bool asked; /* by name: what is not followed is an error */
  int reports;
  int stages;
  int *stage_of; /* by node of `x`: its stage; -1: not given */
  size_t *cuts;  /* by stage: its first operation */
  NameMap ops;   /* by node: NodeOps */
  NameMap made;  /* by an operation's name: NodeOps, only it, or the pieces that passes cut it into */
  const Rule *const *rules;
  SaidLayouts *layouts; /* by operation */
  PlanSaid *said;
  struct {
    Spec *items;
    size_t n, cap;
  } specs;
} Annotations;

/* ---- reports */

__attribute__((format(printf, 3, 4))) static void not_followed(Annotations *k, const char *node, const char *format,
                                                               ...) {
  Diags *d = k->b->options.model.diags;
  const Loc loc = {.file = k->b->model.path, .node = node};
  if (k->reports++ >= MOST_REPORTS) return;
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(k->a, format, args);
  va_end(args);
  if (k->asked) diag_error(d, DIAG_onnx_sharding_unmet, loc, "%s", text);
  else diag_warning(d, DIAG_onnx_sharding_unmet, loc, "%s", text);
}

static void spec_not_followed(Annotations *k, const Spec *s, const char *why) {
  not_followed(k, s->node->node, "the sharding of \"%s\" %s", s->tensor->tensor, why);
}

/* Formats "a" (2 devices), "b" (4 devices). */
static const char *configurations_text(Arena *a, const OnnxSharding *x) {
  enum { MOST_NAMED = 8 };
  Text text = {.arena = a};
  for (size_t i = 0; i < x->configurations.n && i < MOST_NAMED; i++) {
    const OnnxDevices *c = &x->configurations.items[i];
    text_printf(&text, "%s\"%s\" (%d device%s)", i ? ", " : "", c->name, c->devices, c->devices == 1 ? "" : "s");
  }
  if (x->configurations.n > MOST_NAMED) text_add(&text, ", and more");
  return text.n ? text_str(&text) : "none";
}

/* ---- the configuration */

static bool is_used(const OnnxSharding *x, const OnnxDevices *c) {
  for (size_t i = 0; i < x->nodes.n; i++)
    if (strcmp(x->nodes.items[i].configuration, c->name) == 0) return true;
  return false;
}

static const OnnxDevices *asked_for(const Build *b, const OnnxSharding *x) {
  const char *name = b->options.configuration;
  const Target *t = b->options.target;
  Diags *d = b->options.model.diags;
  Nearest near = nearest_to(name);
  for (size_t i = 0; x && i < x->configurations.n; i++) {
    const OnnxDevices *c = &x->configurations.items[i];
    nearest_try(&near, c->name);
    if (strcmp(c->name, name) != 0) continue;
    if (c->devices == t->ranks) return c;
    diag_error(d, DIAG_plan_options, (Loc){0}, "--configuration %s: it has %d device%s, but %s has %d", name,
               c->devices, c->devices == 1 ? "" : "s", t->name, t->ranks);
    return NULL;
  }
  if (!x) diag_error(d, DIAG_usage_value, (Loc){0}, "--configuration %s: only .onnx models have configurations", name);
  else
    diag_error(d, DIAG_usage_value, (Loc){0}, "--configuration %s: the model's configurations are: %s", name,
               configurations_text(b->options.model.arena, x));
  if (near.best) diag_help(d, "the nearest is '%s'", near.best);
  return NULL;
}

/* Warns that nothing is followed.  Nothing can be sharded over one device, so this needs no warning. */
static void warn_unused(const Build *b, const OnnxSharding *x, const char *why) {
  if (b->options.target->ranks == 1) return;
  diag_warning(b->options.model.diags, DIAG_onnx_sharding_unused, (Loc){.file = b->model.path},
               "the sharding annotations of %zu node%s are not used: %s; configurations: %s", x->annotated,
               x->annotated == 1 ? "" : "s", why, configurations_text(b->options.model.arena, x));
}

/* Returns the only configuration that fits; NULL after a warning. */
static const OnnxDevices *fitting(const Build *b, const OnnxSharding *x) {
  const OnnxDevices *found = NULL;
  const Target *t = b->options.target;
  int n = 0;
  for (size_t i = 0; i < x->configurations.n; i++) {
    const OnnxDevices *c = &x->configurations.items[i];
    if (c->devices == t->ranks && is_used(x, c)) found = c, n++;
  }
  if (n == 1) return found;
  warn_unused(b, x,
              x->inside == x->annotated
                  ? "they are in functions, or in graphs inside nodes"
                  : arena_printf(b->options.model.arena, "%s %d devices, as %s has",
                                 n ? "several configurations have" : "no configuration has", t->ranks, t->name));
  if (n) diag_help(b->options.model.diags, "--configuration NAME chooses one");
  return NULL;
}

/* ---- operations */

static bool is_forward(const Op *op) { return !op->mirror.name && op->phase == PH_fwd; }

static void list_op(Arena *a, NameMap *map, const char *name, size_t op) {
  NodeOps *list = name_find(map, name);
  if (!list) name_put(a, map, name, list = ARENA_NEW(a, NodeOps));
  ARENA_PUSH(a, list, op);
}

static void index_ops(Annotations *k) {
  const Func *f = k->b->l1;
  const bool *derived = derived_ops(k->a, f);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (!is_forward(op)) continue;
    if (op->name && *op->name && op->out) list_op(k->a, &k->made, annotated_whole(k->a, op->name), i);
    if (op->loc.node && op->nin && !derived[i]) list_op(k->a, &k->ops, op->loc.node, i);
  }
}

static const NodeOps *listed(const NameMap *map, const char *name) {
  static const NodeOps none;
  const NodeOps *list = name_find(map, name);
  return list ? list : &none;
}

static const NodeOps *ops_of(const Annotations *k, const char *node) { return listed(&k->ops, node); }

static bool makes(const Annotations *k, size_t op, const OnnxTensorSharding *t, const Layout *l,
                  TensorFactors *factors) {
  const Func *f = k->b->l1;
  return t->number < f->ops.items[op].nout &&
         annotated_result(k->b->model.m, f, op, k->rules[op], t->number, t, l, factors);
}

/* Returns the operations that make the tensor, in some form that can have the layout (NULL: any), or all its pieces. */
static const NodeOps *makers_of(const Annotations *k, const OnnxTensorSharding *t, const Layout *l) {
  const char *names[] = {t->maker, arena_printf(k->a, "%s.heads", t->maker)};
  TensorFactors factors;
  for (int i = 0; i < 2; i++) {
    const NodeOps *list = listed(&k->made, names[i]);
    bool all = list->n > 0;
    for (size_t j = 0; j < list->n; j++) all &= makes(k, list->items[j], t, l, &factors);
    if (all) return list;
  }
  return listed(&k->made, "");
}

/* ---- stages */

static int by_number(const void *x, const void *y) {
  const int a = *(const int *)x, b = *(const int *)y;
  return (a > b) - (a < b);
}

static bool is_of(const Annotations *k, const OnnxNodeSharding *n) { return strcmp(n->configuration, k->c->name) == 0; }

/* Numbers the stages from 0 in the order of the file's numbers. */
static void number_stages(Annotations *k) {
  const OnnxSharding *x = k->x;
  int *numbers = ARENA_ARRAY(k->a, int, x->nodes.n + 1), n = 0, distinct = 0;
  for (size_t i = 0; i < x->nodes.n; i++)
    if (is_of(k, &x->nodes.items[i]) && x->nodes.items[i].staged) numbers[n++] = x->nodes.items[i].stage;
  qsort(numbers, (size_t)n, sizeof *numbers, by_number);
  for (int i = 0; i < n; i++)
    if (!i || numbers[i] != numbers[i - 1]) numbers[distinct++] = numbers[i];
  for (size_t i = 0; i < x->nodes.n; i++) {
    const OnnxNodeSharding *node = &x->nodes.items[i];
    const int *at = node->staged && is_of(k, node)
                        ? bsearch(&node->stage, numbers, (size_t)distinct, sizeof *numbers, by_number)
                        : NULL;
    k->stage_of[i] = at ? (int)(at - numbers) : -1;
  }
  k->stages = distinct > 1 ? distinct : 1;
}

/* Returns the number of devices that hold the spec's tensor, and the first of them; 0 if it is malformed. */
static int devices_of(const Annotations *k, const OnnxTensorSharding *t, int *first) {
  const char *why;
  const OnnxShards *s =
      t->malformed || !t->type ? NULL : onnx_shards_read(k->a, t->spec, t->type->rank, k->c->devices, &why);
  int n = 0;
  for (int r = 0; s && r < s->devices; r++) {
    if (s->holds[r] && !n++) *first = r;
    if (s->holds[r] && r - *first != n - 1) return 0;
  }
  return n;
}

/* Without numbers: nodes on blocks of devices of one size are stages. */
static void stages_of_devices(Annotations *k) {
  int block = 0, first = 0;
  int *stage_of = ARENA_ARRAY(k->a, int, k->x->nodes.n + 1);
  for (size_t i = 0; i < k->x->nodes.n; i++) {
    const OnnxNodeSharding *node = &k->x->nodes.items[i];
    stage_of[i] = -1;
    for (size_t t = 0; is_of(k, node) && t < node->tensors.n; t++) {
      const int n = devices_of(k, &node->tensors.items[t], &first);
      if (!n || (block && n != block) || k->c->devices % n || first % n) return;
      block = n;
      stage_of[i] = first / n;
    }
  }
  if (block) k->stage_of = stage_of, k->stages = k->c->devices / block;
}

static bool stages_are_even(Annotations *k) {
  if (k->c->devices % k->stages == 0) return true;
  not_followed(k, NULL, "configuration \"%s\" has %d devices, which %d pipeline stages cannot share evenly", k->c->name,
               k->c->devices, k->stages);
  return false;
}

/* Finds the first operation of each stage. */
static bool find_cuts(Annotations *k) {
  const size_t n = k->b->l1->ops.n;
  k->cuts = ARENA_ARRAY(k->a, size_t, k->stages + 1);
  for (int s = 1; s <= k->stages; s++) k->cuts[s] = n;
  for (size_t i = 0; i < k->x->nodes.n; i++) {
    const NodeOps *ops = ops_of(k, k->x->nodes.items[i].node);
    const int s = k->stage_of[i];
    if (s > 0 && ops->n && ops->items[0] < k->cuts[s]) k->cuts[s] = ops->items[0];
  }
  for (int s = 1; s < k->stages; s++) {
    const char *why = k->cuts[s] == n                ? "has no operations"
                      : k->cuts[s] <= k->cuts[s - 1] ? "begins before the one in front of it"
                                                     : plan_cut_refused(k->b->model.m, k->b->l1, k->cuts[s]);
    if (!why) continue;
    not_followed(k, k->cuts[s] < n ? k->b->l1->ops.items[k->cuts[s]].loc.node : NULL, "pipeline stage %d of %d %s",
                 s + 1, k->stages, why);
    return false;
  }
  return true;
}

static int stage_at(const Annotations *k, size_t op) {
  int s = 0;
  while (s + 1 < k->stages && op >= k->cuts[s + 1]) s++;
  return s;
}

/* Sets the stages of nodes without one; false after a report if a node lies in another stage than its own. */
static bool place_nodes(Annotations *k) {
  bool ok = true;
  for (size_t i = 0; i < k->x->nodes.n; i++) {
    const NodeOps *ops = ops_of(k, k->x->nodes.items[i].node);
    if (!is_of(k, &k->x->nodes.items[i]) || !ops->n) continue;
    const int first = stage_at(k, ops->items[0]), last = stage_at(k, ops->items[ops->n - 1]);
    if (k->stage_of[i] < 0) k->stage_of[i] = first;
    if (first == k->stage_of[i] && last == first) continue;
    not_followed(k, k->x->nodes.items[i].node,
                 "the node has pipeline stage %d of %d, but comes among the nodes of stage %d", k->stage_of[i] + 1,
                 k->stages, (first == k->stage_of[i] ? last : first) + 1);
    ok = false;
  }
  return ok;
}

static bool find_stages(Annotations *k) {
  k->stage_of = ARENA_ARRAY(k->a, int, k->x->nodes.n + 1);
  number_stages(k);
  bool any = false;
  for (size_t i = 0; i < k->x->nodes.n; i++) any |= k->stage_of[i] >= 0;
  if (!any) stages_of_devices(k);
  return stages_are_even(k) && find_cuts(k) && place_nodes(k);
}

/* ---- the mesh */

/* Adds the digits of the spec; false after setting *why. */
static bool add_digits(Annotations *k, OnnxDigits *digits, const OnnxShards *s, int stage, const char **why) {
  OnnxDigits more = *digits;
  if (!onnx_digits_add(&more, k->a, s, stage * digits->ranks, why)) return false;
  if (onnx_digits_mesh(&more).naxes > MOST_AXES)
    return *why = arena_printf(k->a, "needs, together with others, a mesh of more than %d axes", MOST_AXES), false;
  *digits = more;
  return true;
}

static void add_spec(Annotations *k, OnnxDigits *digits, size_t node, const OnnxTensorSharding *t) {
  Spec s = {.node = &k->x->nodes.items[node], .tensor = t, .stage = k->stage_of[node]};
  const char *why = "is malformed";
  if (!t->type) return; /* no output needs the node */
  const NodeOps *makers = t->maker ? makers_of(k, t, NULL) : NULL;
  if (s.stage < 0) s.stage = makers && makers->n ? stage_at(k, makers->items[0]) : 0; /* the node has no operations */
  if (t->malformed && !k->asked) return;
  if (!t->malformed) s.shards = onnx_shards_read(k->a, t->spec, t->type->rank, k->c->devices, &why);
  if (!s.shards || !add_digits(k, digits, s.shards, s.stage, &why)) spec_not_followed(k, &s, why);
  else ARENA_PUSH(k->a, &k->specs, s);
}

/* Returns the axes that some spec uses, as a bit set, and sets the layouts. */
static uint32_t set_layouts(Annotations *k, const Mesh *mesh, int ranks) {
  uint32_t used = 0;
  for (size_t i = 0; i < k->specs.n; i++) {
    Spec *s = &k->specs.items[i];
    s->layout = onnx_shards_layout(mesh, s->shards, s->stage * ranks);
    for (int d = 0; d < s->layout.rank; d++)
      for (int j = 0; j < s->layout.dims[d].n; j++) used |= 1u << s->layout.dims[d].axes[j];
  }
  return used;
}

static void find_mesh(Annotations *k) {
  OnnxDigits digits = {.ranks = k->c->devices / k->stages};
  for (size_t i = 0; i < k->x->nodes.n; i++)
    for (size_t t = 0; is_of(k, &k->x->nodes.items[i]) && t < k->x->nodes.items[i].tensors.n; t++)
      add_spec(k, &digits, i, &k->x->nodes.items[i].tensors.items[t]);
  Mesh mesh = onnx_digits_mesh(&digits);
  onnx_digits_divide(&digits, ~set_layouts(k, &mesh, digits.ranks), MOST_OPEN_AXES);
  mesh = onnx_digits_mesh(&digits);
  set_layouts(k, &mesh, digits.ranks);
  for (int i = 0; i < mesh.naxes; i++) mesh.axes[i].name = arena_printf(k->a, "a%d", i);
  mesh.stages = k->stages;
  k->said->mesh = mesh;
}

/* ---- layouts of operations */

/* True if some strategy gives the operation its layouts. */
static bool has_strategy(const Annotations *k, size_t op) {
  Module *m = k->b->model.m;
  const Rule *r = k->rules[op];
  uint32_t factors[MAX_AXES] = {0};
  const Strategy *all;
  for (int i = 0; i < m->mesh.naxes; i++)
    for (int f = 0; f < r->nfactors; f++)
      factors[i] |= (uint32_t)(said_layouts_pick(k->said, op, &m->mesh, i, f) != 0) << f;
  Arena *scratch = arena_new();
  const int n = strategy_enumerate_among(scratch, m, r, true, factors, &all);
  bool any = false;
  for (int i = 0; i < n && !any; i++) any = said_layouts_hold(k->said, op, &m->mesh, &all[i]);
  arena_free(scratch);
  return any;
}

/* True if the parts of the layout are those that ONNX means: whole parts of a dimension that the operation has in
 * several. */
static bool divides(const Rule *r, const TensorFactors *factors, const Mesh *mesh, const Layout *l) {
  for (int d = 0; d < l->rank; d++) {
    int64_t parts = layout_parts(mesh, &l->dims[d]), extent;
    if (parts == 1 || factors->dims[d].n < 2) continue;
    if (!ex_get_const(r->factors[factors->dims[d].f[0]].size, &extent) || extent % parts) return false;
  }
  return true;
}

/* Gives the operation one more layout.  Returns why it cannot have that beside the others, NULL if it can. */
static const char *add_layout(Annotations *k, size_t op, int tensor, const TensorFactors *factors, const Layout *l) {
  SaidLayouts *list = &k->layouts[op];
  ARENA_PUSH(k->a, list, ((SaidLayout){.tensor = tensor, .factors = *factors, .layout = *l}));
  const bool whole = divides(k->rules[op], factors, &k->said->mesh, l);
  if (whole && has_strategy(k, op)) return NULL;
  list->n--;
  return whole ? "cannot be followed beside the others of the node" : "divides heads, which apc keeps whole";
}

static bool has_layout(const Annotations *k, size_t op, int tensor) {
  for (size_t i = 0; i < k->layouts[op].n; i++)
    if (k->layouts[op].items[i].tensor == tensor) return true;
  return false;
}

static const char not_made[] = "is not followed: apc computes that tensor in another form";

/* Whoever reads the result and has no layout for it from its own node takes it in this one. */
static void give_readers(Annotations *k, const Spec *s, size_t maker) {
  const Func *f = k->b->l1;
  const Val v = f->ops.items[maker].out + (Val)s->tensor->number;
  const char *why = "needs a conversion that nothing reads";
  bool any = false;
  for (size_t i = maker + 1; i < f->ops.n; i++)
    for (int j = 0; j < f->ops.items[i].nin; j++) {
      if (f->ops.items[i].in[j] != v || !is_forward(&f->ops.items[i])) continue;
      TensorFactors factors;
      if (!any) why = NULL;
      any = true;
      if (has_layout(k, i, j)) continue;
      const bool found = annotated_operand(k->b->model.m, f, i, k->rules[i], j, s->tensor, &s->layout, &factors);
      const char *refused = found ? add_layout(k, i, j, &factors, &s->layout) : not_made;
      if (refused) why = refused;
    }
  if (why) spec_not_followed(k, s, why);
}

static void follow_result(Annotations *k, const Spec *s) {
  const NodeOps *makers = makers_of(k, s->tensor, &s->layout);
  if (!makers->n) spec_not_followed(k, s, not_made);
  for (size_t i = 0; i < makers->n; i++) {
    const size_t at = makers->items[i];
    TensorFactors factors;
    if (op_is_anywhere(&k->b->l1->ops.items[at])) continue; /* any rank makes any part of it */
    makes(k, at, s->tensor, &s->layout, &factors);
    if (add_layout(k, at, ~s->tensor->number, &factors, &s->layout)) give_readers(k, s, at);
  }
}

/* Gives the operation the layouts of its operands that are the tensor.  Returns why it cannot have them; not_made if it
 * has no such operand. */
static const char *follow_in(Annotations *k, const Spec *s, size_t op) {
  const Func *f = k->b->l1;
  const char *why = not_made;
  bool any = false;
  for (int j = 0; j < f->ops.items[op].nin; j++) {
    TensorFactors factors;
    if (!annotated_operand(k->b->model.m, f, op, k->rules[op], j, s->tensor, &s->layout, &factors)) continue;
    const char *refused = add_layout(k, op, j, &factors, &s->layout);
    if (!any || refused) why = refused;
    any = true;
  }
  return why;
}

/* A pass may have joined the node's product with others (passes/rewrite/joined.c). */
static const char *follow_joined(Annotations *k, const Spec *s) {
  const Func *f = k->b->l1;
  const char *why = not_made;
  for (size_t i = 0; i < f->ops.n && why == not_made; i++)
    if (op_is_contraction(f->ops.items[i].kind) && is_forward(&f->ops.items[i])) why = follow_in(k, s, i);
  return why;
}

static void follow_operand(Annotations *k, const Spec *s) {
  const NodeOps *ops = ops_of(k, s->node->node);
  const char *why = not_made;
  for (size_t i = 0; i < ops->n; i++) {
    const char *refused = follow_in(k, s, ops->items[i]);
    if (why == not_made || (refused && refused != not_made)) why = refused;
  }
  if (why == not_made && module_param(k->b->model.m, s->tensor->maker)) why = follow_joined(k, s);
  else if (!ops->n) follow_result(k, s), why = NULL; /* the node only gives its operand another name */
  if (why) spec_not_followed(k, s, why);
}

static bool is_split(const Layout *l) {
  bool split = false;
  for (int d = 0; d < l->rank; d++) split |= l->dims[d].n > 0;
  return split;
}

/* Operands first: a result may be converted. */
static void follow_specs(Annotations *k) {
  Module *m = k->b->model.m;
  const Mesh before = m->mesh;
  module_set_mesh(m, &k->said->mesh);
  for (int results = 0; results < 2; results++)
    for (size_t i = 0; i < k->specs.n; i++) {
      const Spec *s = &k->specs.items[i];
      if (s->tensor->result != results || !s->layout.rank) continue; /* nothing to shard */
      if (!s->tensor->maker && is_split(&s->layout)) spec_not_followed(k, s, not_made);
      if (s->tensor->maker) results ? follow_result(k, s) : follow_operand(k, s);
    }
  module_set_mesh(m, &before);
  for (size_t i = 0; i < k->b->l1->ops.n; i++) k->said->n += k->layouts[i].n > 0;
}

/* ---- entry */

static bool forced_otherwise(const Annotations *k) {
  const int asked = k->b->options.plan.degree[DEGREE_pp];
  if (!asked || asked == k->stages) return false;
  diag_error(k->b->options.model.diags, DIAG_plan_options, (Loc){0},
             "--pp %d contradicts configuration \"%s\" of the model, which has %d pipeline stage%s", asked, k->c->name,
             k->stages, k->stages == 1 ? "" : "s");
  diag_help(k->b->options.model.diags, "--configuration none ignores the annotations");
  return true;
}

static void say_followed(const Annotations *k) {
  const DriverWatch *w = &k->b->options.model.watch;
  driver_watch_say(w, k->a, "Annotated",
                   "configuration \"%s\" of the model gives the layouts of %d operation%s and %d stage%s "
                   "(--configuration none ignores it)",
                   k->c->name, k->said->n, k->said->n == 1 ? "" : "s", k->stages, k->stages == 1 ? "" : "s");
}

static bool follow(Annotations *k) {
  Build *b = k->b;
  const size_t errors = b->options.model.diags->errors;
  k->said = ARENA_NEW(k->a, PlanSaid);
  k->layouts = ARENA_ARRAY(k->a, SaidLayouts, b->l1->ops.n + 1);
  *k->said = (PlanSaid){
      .source = arena_printf(k->a, "configuration \"%s\"", k->c->name),
      .has_mesh = true,
      .nameless = true,
      .time = "mb",
      .strategies = ARENA_ARRAY(k->a, const SaidStrategy *, b->l1->ops.n + 1),
      .layouts = k->layouts,
  };
  k->rules = (const Rule *const *)rules_of(b->model.m, b->l1);
  index_ops(k);
  const bool staged = find_stages(k);
  if (staged) find_mesh(k), follow_specs(k);
  else if (!k->asked) diag_note(b->options.model.diags, (Loc){.file = b->model.path}, "so no annotation is followed");
  if (k->x->inside)
    not_followed(k, NULL, "the annotations of %zu node%s in functions, or in graphs inside nodes, are not followed",
                 k->x->inside, k->x->inside == 1 ? "" : "s");
  if (k->reports > MOST_REPORTS)
    diag_note(b->options.model.diags, (Loc){.file = b->model.path}, "%d more annotations are not followed",
              k->reports - MOST_REPORTS);
  if (b->options.model.diags->errors > errors) return false;
  if (!k->said->n && k->stages == 1) return true;
  if (!staged) return true;
  if (forced_otherwise(k)) return false;
  if (k->stages > 1) k->said->cuts = k->cuts;
  b->options.plan.degree[DEGREE_pp] = k->stages;
  b->options.plan.said = k->said;
  say_followed(k);
  return true;
}

/* Returns why the options exclude annotations; NULL if they do not. */
static const char *excluded(const Build *b) {
  const DriverObjective goal = b->options.objective;
  if (goal == OBJECTIVE_throughput || goal == OBJECTIVE_cost) return "--objective chooses the number of devices";
  return b->l1->joint ? "--optimize plans another function" : NULL;
}

bool driver_annotate(Build *b) {
  const OnnxSharding *x = b->model.sharding;
  const char *name = b->options.configuration;
  Annotations k = {.b = b, .a = b->model.m->arena, .x = x, .asked = name != NULL};
  if (name && strcmp(name, "none") == 0) return true;
  if (!name && (!x || !x->annotated)) return true;
  const char *why = excluded(b);
  if (why && !name) return warn_unused(b, x, why), true;
  if (why)
    return diag_error(b->options.model.diags, DIAG_plan_options, (Loc){0}, "--configuration %s cannot be followed: %s",
                      name, why);
  k.c = name ? asked_for(b, x) : fitting(b, x);
  return k.c ? follow(&k) : !name;
}

void driver_check_annotations(const Build *b, const Plan *p) {
  const PlanSaid *x = b->options.plan.said;
  for (size_t i = 0; x && x->layouts && i < b->l1->ops.n; i++)
    if (!said_layouts_hold(x, i, &p->mesh, &p->strategies[i]))
      die("the plan does not have the annotated layouts of \"%s\"", b->l1->ops.items[i].name);
}

void driver_blame_annotations(const Build *b, Diags *why) {
  diag_note(why, (Loc){.file = b->model.path}, "%s of the model restricted the search", b->options.plan.said->source);
  diag_help(why, "--configuration none ignores the sharding annotations");
}
