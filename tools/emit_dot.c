/* tools/emit_dot.c - see emit_dot.h.
 *
 * One node per operation, in a cluster per pipeline stage: kind, type, strategy and layout of the result.  An edge
 * where the layout changes is red and shows both layouts; an edge between stages is dashed.  Constants and sizes that
 * no mesh axis shards are omitted: they are many and of little interest.
 */
#include "tools/emit_dot.h"

#include <string.h>

typedef struct Dot {
  Module *m;
  const Func *f;
  const Plan *plan;
  const Rule **rules;
  Text *out;
} Dot;

bool tool_graph_shows(const Op *op) { return !op_is_source(op->kind) || op_is_declared(op->kind); }

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

static void stage(const Dot *d, int stage_number) {
  text_printf(d->out, "  subgraph cluster_%d {\n    label=\"stage %d of %d\"; style=filled; color=\"%s\";\n",
              stage_number, stage_number, d->plan->mesh.stages, stage_color(stage_number));
  for (size_t i = 0; i < d->f->ops.n; i++)
    if (tool_graph_shows(&d->f->ops.items[i]) && d->plan->stages[i] == stage_number) node(d, i);
  text_add(d->out, "  }\n");
}

bool tool_graph_edge(Module *m, const Func *f, const Plan *plan, const Rule *const *rules, size_t to, int operand,
                     GraphEdge *out) {
  Val v = f->ops.items[to].in[operand];
  size_t from = (size_t)f->values.items[v].op;
  OpKind k = f->ops.items[from].kind;
  bool loaded = op_is_declared(k); /* loaded in the layout that its use wants */
  if (!tool_graph_shows(&f->ops.items[from])) return false;
  *out = (GraphEdge){from,
                     to,
                     strategy_result(m, rules[from], &plan->strategies[from], value_index(f, v)),
                     strategy_operand(m, rules[to], &plan->strategies[to], operand),
                     false,
                     plan->stages[from] != plan->stages[to]};
  out->changes = out->made != out->wanted && !loaded;
  return true;
}

static void edge(const Dot *d, size_t to, int operand) {
  GraphEdge e;
  if (!tool_graph_edge(d->m, d->f, d->plan, d->rules, to, operand, &e)) return;
  text_printf(d->out, "  n%zu -> n%zu", e.from, e.to);
  if (e.changes) {
    text_add(d->out, " [color=\"#c5221f\", fontcolor=\"#c5221f\", label=\"");
    text_printf(d->out, "%s to %s\"%s]", layout_text(d, e.made), layout_text(d, e.wanted),
                e.crosses ? ", style=dashed" : "");
  } else if (e.crosses) {
    text_add(d->out, " [style=dashed]");
  }
  text_add(d->out, ";\n");
}

void tool_dot_print(Module *m, const Func *f, const Plan *plan, const char *title, Text *out) {
  Dot d = {m, f, plan, ARENA_ARRAY(m->arena, const Rule *, f->ops.n), out};
  for (size_t i = 0; i < f->ops.n; i++) d.rules[i] = rule_of(m, f, &f->ops.items[i]);
  text_add(out,
           "digraph plan {\n  rankdir=TB; labelloc=t; node [fontname=\"sans-serif\", fontsize=10]; edge "
           "[fontname=\"sans-serif\", fontsize=9];\n  label=\"");
  quoted(out, title);
  text_add(out, "\";\n");
  for (int s = 0; s < plan->mesh.stages; s++) stage(&d, s);
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; tool_graph_shows(&f->ops.items[i]) && k < f->ops.items[i].nin; k++) edge(&d, i, k);
  for (size_t i = 0; i < f->outputs.n; i++) {
    text_printf(out, "  o%zu [shape=house, label=\"", i);
    quoted(out, f->outputs.items[i].name);
    text_printf(out, "\"];\n");
    size_t from = (size_t)f->values.items[f->outputs.items[i].value].op;
    if (tool_graph_shows(&f->ops.items[from])) text_printf(out, "  n%zu -> o%zu;\n", from, i);
  }
  text_add(out, "}\n");
}
