/* tools/emit_dot.c - see emit_dot.h.
 *
 * One node per operation: kind, type, strategy and layout of the result; of layers that the plan treats alike
 * (plan_fold.h) one node stands for the operation of all of them, in a cluster that says how many there are.  Other
 * operations are in a cluster per pipeline stage.  An edge where the layout changes is red and shows both layouts; an
 * edge between stages is dashed, one from a layer to the next is dotted.  Constants and sizes are left out.
 *
 * Graphviz takes minutes for more than a thousand nodes.  So of a graph with more than MOST_NODES only weights, inputs,
 * products, composites and values whose layout changes are shown, and no update; an edge then stands for a path.
 */
#include "tools/emit_dot.h"

#include <stdlib.h>
#include <string.h>

#include "tools/plan_fold.h"

enum { MOST_NODES = 400, MOST_SOURCES = 4 };

/* Where the value of an operation comes from: itself, or if it is not shown the nearest operations above that are. */
typedef struct Sources {
  int n;
  size_t ops[MOST_SOURCES];
} Sources;

typedef struct Dot {
  Module *m;
  const Func *f;
  const Plan *plan;
  const Rule **rules;
  Fold fold;
  bool *shown;      /* by operation */
  Sources *sources; /* by operation */
  Text *out;
} Dot;

/* A use of a value by another operation; both numbers are those of the first layer of a group. */
typedef struct Edge {
  size_t from, to;
  const Layout *made, *wanted;
  bool changes; /* the layout */
  bool crosses; /* from one stage to another */
  bool next;    /* to another layer of the same group */
} Edge;

typedef struct Edges {
  Edge *items;
  size_t n, cap;
} Edges;

static const char *stage_color(int stage) {
  static const char *const colors[] = {"#e8f0fe", "#e6f4ea", "#fef7e0", "#fce8e6", "#f3e8fd", "#e4f7fb"};
  return colors[(size_t)stage % (sizeof colors / sizeof *colors)];
}

/* Adds text for a quoted string of the dot language. */
static void quoted(Text *out, const char *s) {
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') text_add(out, "\\");
    text_addn(out, s, 1);
  }
}

static const char *layout_text(const Dot *d, const Layout *l) {
  Text t = {.arena = d->m->arena};
  layout_print(d->m, &t, l);
  return text_str(&t);
}

static void node(const Dot *d, size_t i) {
  const Op *op = &d->f->ops.items[i];
  const Strategy *s = &d->plan->strategies[i];
  Text type = {.arena = d->m->arena}, strategy = {.arena = d->m->arena};
  for (Val v = op->out; v < op_end(op); v++) {
    if (v > op->out) text_add(&type, ", ");
    type_print(d->m, &type, type_of(d->f, v));
  }
  if (s->n) strategy_print(&d->m->mesh, &strategy, d->rules[i], s);
  const char *shape = op->kind == OP_input ? "invhouse" : op_is_resident(op->kind) ? "cylinder" : "box";
  text_printf(d->out, "    n%zu [shape=%s, style=filled, fillcolor=\"%s\", label=\"", i, shape,
              op->kind == OP_param ? "#ffffff" : "#d2e3fc");
  quoted(d->out, op->name);
  text_printf(d->out, "\\n%s %s", op_name(op->kind), text_str(&type));
  if (s->n)
    text_printf(d->out, "\\n%s -> %s", text_str(&strategy),
                op->out ? layout_text(d, strategy_result(d->m, d->rules[i], s, 0)) : "{}");
  text_add(d->out, "\"];\n");
}

/* The operation that stands for this one: of the first layer of its group. */
static size_t shown_for(const Dot *d, size_t op) {
  return d->fold.items[d->fold.group_of[op]].ops[d->fold.place_of[op]];
}

/* Layers that are alike. */
static void layers(const Dot *d, size_t number) {
  const FoldGroup *g = &d->fold.items[number];
  text_printf(d->out, "  subgraph cluster_layers_%zu {\n    label=\"", number);
  quoted(d->out, g->title);
  text_printf(d->out, ", %d times\"; style=filled; color=\"%s\";\n", g->count, stage_color(d->plan->stages[g->ops[0]]));
  for (int k = 0; k < g->size; k++)
    if (d->shown[g->ops[k]]) node(d, g->ops[k]);
  text_add(d->out, "  }\n");
}

/* True for an operation of the stage that is shown and not folded. */
static bool is_in_stage(const Dot *d, size_t op, int stage_number) {
  return d->shown[op] && d->fold.items[d->fold.group_of[op]].count == 1 && d->plan->stages[op] == stage_number;
}

static bool has_nodes(const Dot *d, int stage_number) {
  for (size_t i = 0; i < d->f->ops.n; i++)
    if (is_in_stage(d, i, stage_number)) return true;
  return false;
}

/* Operations of a stage that are not folded. */
static void stage(const Dot *d, int stage_number) {
  text_printf(d->out, "  subgraph cluster_%d {\n    label=\"stage %d of %d\"; style=filled; color=\"%s\";\n",
              stage_number, stage_number, d->plan->mesh.stages, stage_color(stage_number));
  for (size_t i = 0; i < d->f->ops.n; i++)
    if (is_in_stage(d, i, stage_number)) node(d, i);
  text_add(d->out, "  }\n");
}

static bool changes_layout(const Dot *d, size_t to, int operand) {
  const Val v = d->f->ops.items[to].in[operand];
  const size_t from = (size_t)d->f->values.items[v].op;
  if (op_is_source(d->f->ops.items[from].kind)) return false; /* made or loaded in the layout that its use wants */
  return strategy_result(d->m, d->rules[from], &d->plan->strategies[from], value_index(d->f, v)) !=
         strategy_operand(d->m, d->rules[to], &d->plan->strategies[to], operand);
}

/* Shows what the head of this file says of a large graph. */
static void show_important(const Dot *d) {
  for (size_t i = 0; i < d->f->ops.n; i++) {
    const Op *op = &d->f->ops.items[i];
    if (d->fold.group_of[i] < 0 || op->phase == PH_step) continue;
    d->shown[i] |= op_is_contraction(op->kind) || op_is_composite(op->kind);
    for (int k = 0; k < op->nin; k++) {
      const size_t from = func_op_index(d->f, op_of(d->f, op->in[k]));
      if (op_is_declared(d->f->ops.items[from].kind)) d->shown[from] = true;
      if (d->fold.group_of[from] >= 0 && changes_layout(d, i, k)) d->shown[i] = d->shown[from] = true;
    }
  }
}

/* Chooses the operations that are shown. */
static void choose_shown(Dot *d) {
  size_t nodes = 0;
  for (size_t g = 0; g < d->fold.n; g++) nodes += (size_t)d->fold.items[g].size;
  for (size_t i = 0; i < d->f->ops.n; i++) d->shown[i] = d->fold.group_of[i] >= 0 && nodes <= MOST_NODES;
  if (nodes > MOST_NODES) show_important(d);
  for (size_t i = 0; i < d->f->outputs.n; i++) {
    const size_t from = (size_t)d->f->values.items[d->f->outputs.items[i].value].op;
    d->shown[from] |= d->fold.group_of[from] >= 0;
  }
}

static void add_source(Sources *x, size_t op) {
  for (int i = 0; i < x->n; i++)
    if (x->ops[i] == op) return;
  if (x->n < MOST_SOURCES) x->ops[x->n++] = op;
}

/* Finds the sources of all values; operations stand after what they read. */
static void find_sources(const Dot *d) {
  for (size_t i = 0; i < d->f->ops.n; i++) {
    const Op *op = &d->f->ops.items[i];
    if (d->shown[i]) add_source(&d->sources[i], i);
    for (int k = 0; k < op->nin && !d->shown[i]; k++) {
      const Sources *x = &d->sources[d->f->values.items[op->in[k]].op];
      for (int s = 0; s < x->n; s++) add_source(&d->sources[i], x->ops[s]);
    }
  }
}

static void add_edge(const Dot *d, Edges *edges, size_t from, size_t to, int operand) {
  const Val v = d->f->ops.items[to].in[operand];
  const FoldGroup *g = &d->fold.items[d->fold.group_of[to]];
  Edge e = {.from = shown_for(d, from), .to = shown_for(d, to)};
  if ((size_t)d->f->values.items[v].op == from && changes_layout(d, to, operand)) {
    e.changes = true;
    e.made = strategy_result(d->m, d->rules[from], &d->plan->strategies[from], value_index(d->f, v));
    e.wanted = strategy_operand(d->m, d->rules[to], &d->plan->strategies[to], operand);
  }
  e.crosses = d->plan->stages[from] != d->plan->stages[to];
  e.next = d->fold.group_of[from] == d->fold.group_of[to] && g->count > 1 &&
           d->fold.instance_of[from] != d->fold.instance_of[to];
  ARENA_PUSH(d->m->arena, edges, e);
}

static void add_edges(const Dot *d, Edges *edges, size_t to, int operand) {
  const Sources *x = &d->sources[d->f->values.items[d->f->ops.items[to].in[operand]].op];
  for (int s = 0; s < x->n; s++) add_edge(d, edges, x->ops[s], to, operand);
}

/* Edges in the order of their nodes; of equal nodes first one that changes the layout, within a layer. */
static int by_nodes(const void *a, const void *b) {
  const Edge *x = a, *y = b;
  if (x->to != y->to) return x->to < y->to ? -1 : 1;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  if (x->next != y->next) return x->next - y->next;
  if (x->changes != y->changes) return y->changes - x->changes;
  return y->crosses - x->crosses;
}

static void edge(const Dot *d, const Edge *e) {
  text_printf(d->out, "  n%zu -> n%zu", e->from, e->to);
  const char *style = e->crosses ? "style=dashed" : e->next ? "style=dotted" : "";
  if (e->changes)
    text_printf(d->out, " [color=\"#c5221f\", fontcolor=\"#c5221f\", label=\"%s to %s\"%s%s%s]",
                layout_text(d, e->made), layout_text(d, e->wanted), *style ? ", " : "", style,
                e->next ? ", constraint=false" : "");
  else if (*style) text_printf(d->out, " [%s%s]", style, e->next ? ", constraint=false" : "");
  text_add(d->out, ";\n");
}

static void print_edges(const Dot *d) {
  Edges edges = {0};
  for (size_t i = 0; i < d->f->ops.n; i++)
    for (int k = 0; d->shown[i] && k < d->f->ops.items[i].nin; k++) add_edges(d, &edges, i, k);
  if (edges.n) qsort(edges.items, edges.n, sizeof *edges.items, by_nodes);
  for (size_t i = 0; i < edges.n; i++) {
    const Edge *e = &edges.items[i];
    if (i && e[-1].from == e->from && e[-1].to == e->to && e[-1].next == e->next) continue;
    edge(d, e);
  }
}

void tool_dot_print(Module *m, const Func *f, const Plan *plan, const char *title, Text *out) {
  Dot d = {
      .m = m, .f = f, .plan = plan, .rules = rules_of(m, f), .fold = tool_fold(m->arena, f, plan, NULL), .out = out};
  d.shown = ARENA_ARRAY(m->arena, bool, f->ops.n + 1), d.sources = ARENA_ARRAY(m->arena, Sources, f->ops.n + 1);
  choose_shown(&d);
  find_sources(&d);
  text_add(out,
           "digraph plan {\n  rankdir=TB; labelloc=t; node [fontname=\"sans-serif\", fontsize=10]; edge "
           "[fontname=\"sans-serif\", fontsize=9];\n  label=\"");
  quoted(out, title);
  text_add(out, "\";\n");
  for (int s = 0; s < plan->mesh.stages; s++)
    if (has_nodes(&d, s)) stage(&d, s);
  for (size_t i = 0; i < d.fold.n; i++)
    if (d.fold.items[i].count > 1) layers(&d, i);
  print_edges(&d);
  for (size_t i = 0; i < f->outputs.n; i++) {
    const size_t from = (size_t)f->values.items[f->outputs.items[i].value].op;
    text_printf(out, "  o%zu [shape=house, label=\"", i);
    quoted(out, f->outputs.items[i].name);
    text_printf(out, "\"];\n");
    if (d.shown[from]) text_printf(out, "  n%zu -> o%zu;\n", shown_for(&d, from), i);
  }
  text_add(out, "}\n");
}
