/* tools/onnx_specs.c - see onnx_specs.h. */
#include "tools/onnx_specs.h"

#include <string.h>

#include "frontend/onnx/sharding_spec.h"
#include "ir/layout/rule.h"
#include "ir/schedule.h"
#include "passes/facts/counterpart.h"
#include "passes/facts/labels.h"

/* Operations of one name. */
typedef struct OpList {
  const Op **items;
  size_t n, cap;
} OpList;

typedef struct Specs {
  const OnnxSpecsOf *o;
  Arena *a;
  Mesh places;        /* the plan's mesh, with a stage per place */
  const Rule **rules; /* by operation of the planned function */
  Counterparts same;
  NameMap named;             /* value of the planned function (value_name) -> number of the value */
  NameMap from_at, plan_at;  /* Loc.node -> its operations, of either function */
  NameMap plan_ops;          /* name -> operation of the planned function */
  OpList from_ops, node_ops; /* of the node at hand: of the imported and of the planned function */
} Specs;

/* ---- names */

static void add_op(Arena *a, NameMap *map, const char *name, const Op *op) {
  OpList *list = name ? name_find(map, name) : NULL;
  if (!name) return;
  if (!list) name_put(a, map, name, list = ARENA_NEW(a, OpList));
  ARENA_PUSH(a, list, op);
}

static OpList ops_at(const NameMap *map, const char *name) {
  const OpList *list = name ? name_find(map, name) : NULL;
  return list ? *list : (OpList){0};
}

static void find_names(Specs *s) {
  const Func *from = s->o->from, *planned = s->o->planned;
  for (size_t i = 0; i < from->ops.n; i++) add_op(s->a, &s->from_at, from->ops.items[i].loc.node, &from->ops.items[i]);
  for (size_t i = 0; i < planned->ops.n; i++) {
    const Op *op = &planned->ops.items[i];
    add_op(s->a, &s->plan_at, op->loc.node, op);
    name_put(s->a, &s->plan_ops, op->name, (void *)(uintptr_t)op);
    for (int k = 0; k < op->nout; k++)
      name_put(s->a, &s->named, counterpart_name(s->a, planned, op->out + (Val)k),
               (void *)(uintptr_t)(op->out + (Val)k));
  }
}

/* Sets the operations of node i in both functions. */
static void find_ops(Specs *s, size_t i) {
  const OnnxSpecsOf *o = s->o;
  s->from_ops = s->node_ops = (OpList){0};
  if (!o->operations) {
    s->from_ops = ops_at(&s->from_at, o->places[i]), s->node_ops = ops_at(&s->plan_at, o->places[i]);
  } else if (o->operations[i] >= 0) {
    const Op *op = &o->from->ops.items[o->operations[i]], *planned = name_find(&s->plan_ops, op->name);
    ARENA_PUSH(s->a, &s->from_ops, op);
    if (planned) ARENA_PUSH(s->a, &s->node_ops, planned);
  }
}

/* ---- layouts of planned values */

static size_t number_of(const Specs *s, const Op *op) { return (size_t)(op - s->o->planned->ops.items); }
static const Rule *rule_at(const Specs *s, const Op *op) { return s->rules[number_of(s, op)]; }

static const Layout *operand_layout(const Specs *s, const Op *op, int k) {
  return strategy_operand(s->o->m, rule_at(s, op), &s->o->plan->strategies[number_of(s, op)], k);
}

static const Layout *result_layout(const Specs *s, const Op *op, int k) {
  return strategy_result(s->o->m, rule_at(s, op), &s->o->plan->strategies[number_of(s, op)], k);
}

/* ---- specs */

/* The layout that the readers in a node want. */
typedef struct Wanted {
  bool some, differ;
  const Layout *layout; /* by dimension of the graph's value */
  int stage;
} Wanted;

static void want(const Specs *s, Wanted *w, const Layout *l, const int *order, int stage) {
  Layout turned = {.rank = l->rank, .partial = l->partial, .partial_axes = l->partial_axes};
  for (int d = 0; d < l->rank; d++) turned.dims[d] = l->dims[order[d]];
  const Layout *layout = layout_get(s->o->m, &turned);
  w->differ |= w->some && (layout != w->layout || stage != w->stage);
  w->some = true, w->layout = layout, w->stage = stage;
}

static bool has_spec(const OnnxAnnotation *x, const char *tensor) {
  for (size_t i = 0; i < x->specs.n; i++)
    if (strcmp(x->specs.items[i]->tensor_name, tensor) == 0) return true;
  return false;
}

static void add_spec(const Specs *s, OnnxAnnotation *x, const char *tensor, const Wanted *w) {
  if (!w->some || w->differ || w->layout->partial_axes) return;
  const OnnxShards *shards = onnx_shards_of(s->a, &s->places, mesh_place_of(&s->o->plan->mesh, w->stage), w->layout);
  ARENA_PUSH(s->a, &x->specs, onnx_shards_write(s->a, tensor, shards));
}

static int stage_of(const Specs *s, const Op *op) { return s->o->plan->stages[number_of(s, op)]; }

/* Returns the layout that the node's operations want of value v of the imported function as an operand. */
static Wanted wanted_operand(const Specs *s, Val v) {
  const Func *from = s->o->from, *planned = s->o->planned;
  const char *name = counterpart_name(s->a, from, v);
  const Type *t = type_of(from, v);
  Wanted w = {0};
  int order[MAX_RANK];
  for (size_t i = 0; i < s->from_ops.n; i++) {
    const Op *op = s->from_ops.items[i], *l = name_find(&s->plan_ops, op->name);
    for (int k = 0; l && l->nin == op->nin && k < op->nin; k++)
      if (op->in[k] == v && counterpart_letters(&s->same, op, l, k, t, type_of(planned, l->in[k]), order))
        want(s, &w, operand_layout(s, l, k), order, stage_of(s, l));
  }
  if (w.some) return w;
  for (size_t i = 0; i < s->node_ops.n; i++) {
    const Op *l = s->node_ops.items[i];
    for (int k = 0; k < l->nin; k++) {
      const Op *source = op_of(planned, l->in[k]);
      const Param *weight = source->kind == OP_param ? module_param(s->o->m, op_str(source, AT_name)) : NULL;
      const bool same = strcmp(counterpart_name(s->a, planned, l->in[k]), name) == 0;
      if (same ? counterpart_order(&s->same, v, l->in[k], order)
               : weight && strncmp(name, "param ", 6) == 0 && counterpart_view(name + 6, weight, order))
        want(s, &w, operand_layout(s, l, k), order, stage_of(s, l));
    }
  }
  return w;
}

static Wanted wanted_result(const Specs *s, Val v) {
  const Func *from = s->o->from, *planned = s->o->planned;
  const Op *op = op_of(from, v);
  const Val at = (Val)(uintptr_t)name_find(&s->named, counterpart_name(s->a, from, v));
  Wanted w = {0};
  int order[MAX_RANK];
  if (!at || op_is_source(op_of(planned, at)->kind)) return w;
  const Op *l = op_of(planned, at);
  const Type *t = type_of(from, v), *u = type_of(planned, at);
  if (counterpart_letters(&s->same, op, l, op->nin, t, u, order) || counterpart_order(&s->same, v, at, order))
    want(s, &w, result_layout(s, l, value_index(planned, at)), order, stage_of(s, l));
  return w;
}

static void annotate(Specs *s, size_t i, OnnxAnnotation *x) {
  const Onnx__NodeProto *node = s->o->graph->node[i];
  find_ops(s, i);
  for (size_t k = 0; k < node->n_input; k++) {
    const Val v = (Val)(uintptr_t)name_find(&s->o->values, node->input[k]);
    if (!v || op_is_anywhere(op_of(s->o->from, v)) || has_spec(x, node->input[k])) continue;
    const Wanted w = wanted_operand(s, v);
    add_spec(s, x, node->input[k], &w);
  }
  for (size_t k = 0; k < node->n_output; k++) {
    const Val v = (Val)(uintptr_t)name_find(&s->o->values, node->output[k]);
    if (!v || op_is_anywhere(op_of(s->o->from, v)) || has_spec(x, node->output[k])) continue;
    const Wanted w = wanted_result(s, v);
    add_spec(s, x, node->output[k], &w);
  }
  for (size_t k = 0; k < s->node_ops.n; k++) {
    const Op *op = s->node_ops.items[k];
    if (!op_is_source(op->kind) && x->stage < stage_of(s, op)) x->stage = stage_of(s, op);
  }
}

/* Gives nodes without operations the stage of their first reader; a graph's nodes are in the order of their values. */
static void stage_others(Specs *s, OnnxAnnotation *by_node) {
  const Onnx__GraphProto *g = s->o->graph;
  NameMap made = {0}; /* tensor -> 1 + number of its node */
  bool *own = ARENA_ARRAY(s->a, bool, g->n_node + 1);
  for (size_t i = 0; i < g->n_node; i++) {
    own[i] = by_node[i].stage >= 0;
    for (size_t k = 0; k < g->node[i]->n_output; k++)
      name_put(s->a, &made, g->node[i]->output[k], (void *)(uintptr_t)(i + 1));
  }
  for (size_t i = g->n_node; i-- > 0;)
    for (size_t k = 0; by_node[i].stage >= 0 && k < g->node[i]->n_input; k++) {
      const uintptr_t at = (uintptr_t)name_find(&made, g->node[i]->input[k]);
      OnnxAnnotation *x = at ? &by_node[at - 1] : NULL;
      if (x && !own[at - 1] && (x->stage < 0 || x->stage > by_node[i].stage)) x->stage = by_node[i].stage;
    }
}

OnnxAnnotation *tool_onnx_specs(const OnnxSpecsOf *o) {
  Specs s = {.o = o,
             .a = o->arena,
             .places = o->plan->mesh,
             .rules = rules_of(o->m, o->planned),
             .same = {o->arena, o->imported, o->m, o->from, o->planned}};
  const size_t n = o->graph->n_node;
  OnnxAnnotation *by_node = ARENA_ARRAY(o->arena, OnnxAnnotation, n + 1);
  s.places.stages = mesh_places(&o->plan->mesh), s.places.chunks = 0;
  find_names(&s);
  for (size_t i = 0; i < n; i++) {
    by_node[i].stage = -1;
    annotate(&s, i, &by_node[i]);
  }
  stage_others(&s, by_node);
  for (size_t i = 0; o->plan->mesh.stages == 1 && i < n; i++) by_node[i].stage = -1;
  return by_node;
}
