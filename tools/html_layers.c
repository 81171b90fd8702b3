/* tools/html_layers.c - see html_page.h.
 *
 * Types, layouts, strategies, label lists and operations are in tables and referred to by number.  An operation is its
 * name and the number of its facts, since many have the same; `columns` names both.  Of a group only the first instance
 * is written.  A name with {n} stands for the names of all instances: the label of the instance in the group's list n
 * is put in its place.
 */
#include <math.h>
#include <string.h>

#include "base/json_text.h"
#include "passes/facts/names.h"
#include "tools/html_page.h"

enum { MOST_LISTS = 256 };

/* Values with their numbers, by key. */
typedef struct Table {
  json_t *values, *number;
} Table;

typedef struct Layers {
  const HtmlPage *p;
  Module *m;
  const Func *f;
  const Plan *plan;
  Fold fold;
  struct Figures *figures; /* by operation */
  Table types, layouts, strategies, labels, facts, rows;
  int nlists, lists[MOST_LISTS]; /* the label lists of the current group */
} Layers;

/* Sums of the ledger's entries of an operation in its own stage. */
typedef struct Figures {
  double seconds, again, flops, bytes; /* again: of its recomputation */
  bool priced;
  Phase phase; /* in which it runs: once, if nothing that changes is read */
  json_t *comms;
} Figures;

static const char *const columns[] = {"name",  "kind",    "type",  "layout",     "strategy", "stage",  "phase",
                                      "flags", "seconds", "again", "arithmetic", "traffic",  "memory", "comms"};
enum { SHOWN = 1, WEIGHT = 2, RECOMPUTED = 4 }; /* flags; SHOWN: also while a group shows only what matters */

static Table table_new(void) { return (Table){json_array(), json_object()}; }

/* Returns the number of the value with that key; takes the reference. */
static int number_in(Table *t, const char *key, json_t *value) {
  json_t *known = json_object_get(t->number, key);
  if (known) return json_decref(value), (int)json_integer_value(known);
  const int n = (int)json_array_size(t->values);
  json_object_set_new(t->number, key, json_integer(n));
  json_array_append_new(t->values, value);
  return n;
}

/* The same for a list, by its text. */
static int text_number(Table *t, json_t *list) {
  char *key = json_dumps(list, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(5));
  const int number = number_in(t, key, list);
  free(key);
  return number;
}

static json_t *table_json(Table *t) {
  json_decref(t->number);
  return t->values;
}

/* ---- figures */

/* Returns the number of the tier that joins the ranks of the axes, or of neighbouring stages if there are none. */
static int link_of(const HtmlPage *p, uint32_t axes) {
  const Target *g = p->b->options.target;
  const Mesh *mesh = &p->b->plan->mesh;
  int stride = 1, span = 2 * mesh_ranks(mesh) / mesh->stages;
  if (axes) span = 1;
  for (int a = mesh->naxes - 1; a >= 0; a--) {
    if (mesh->axes[a].temporal) continue;
    stride *= mesh->axes[a].size;
    if (axes >> a & 1) span = stride;
  }
  return g->ntiers ? (int)(target_tier(g, span < g->ranks ? span : g->ranks) - g->tiers) : -1;
}

static json_t *comm_json(const HtmlPage *p, const LedgerEntry *e) {
  return json_pack("[i, i, f, f, i, i]", (int)e->comm, (int)e->axes, e->bytes, e->seconds, link_of(p, e->axes),
                   (int)(e->phase - PH_pre));
}

static void add_entry(const Layers *x, const LedgerEntry *e) {
  Figures *y = &x->figures[e->op];
  if (e->stage != x->plan->stages[e->op] || e->kind == LEDGER_send) return;
  if (e->kind == LEDGER_collective) {
    if (!y->comms) y->comms = json_array();
    json_array_append_new(y->comms, comm_json(x->p, e));
  } else if (e->now != e->op) {
    y->again += e->seconds;
  } else {
    if (!y->priced) y->priced = true, y->phase = e->phase;
    y->seconds += e->seconds, y->flops += e->flops, y->bytes += e->bytes;
  }
}

/* Returns, by operation, the texts of the figures: layers are shown together only if these agree. */
static const char **texts_of(const Layers *x) {
  Arena *a = x->p->arena;
  const char **texts = ARENA_ARRAY(a, const char *, x->f->ops.n + 1);
  for (size_t i = 0; i < x->f->ops.n; i++) {
    const Figures *y = &x->figures[i];
    char *comms = y->comms ? json_dumps(y->comms, JSON_COMPACT | JSON_REAL_PRECISION(4)) : NULL;
    texts[i] = arena_printf(a, "%.3g %.3g %s", y->seconds, y->again, comms ? comms : "");
    free(comms);
  }
  return texts;
}

/* ---- operations */

static json_t *layout_json(const Layout *l) {
  json_t *dims = json_array();
  for (int d = 0; d < l->rank; d++) {
    json_t *axes = json_array();
    for (int i = 0; i < l->dims[d].n; i++) json_array_append_new(axes, json_integer(l->dims[d].axes[i]));
    json_array_append_new(dims, axes);
  }
  return json_pack("[o, i]", dims, (int)l->partial_axes);
}

static int type_number(Layers *x, const Op *op) {
  Text text = {.arena = x->p->arena};
  for (int k = 0; k < op->nout; k++) {
    if (k) text_add(&text, ", ");
    type_print(x->m, &text, type_of(x->f, op->out + (Val)k));
  }
  return number_in(&x->types, text_str(&text), html_text(x->p, text_str(&text)));
}

static int layout_number(Layers *x, const Layout *l) {
  Text text = {.arena = x->p->arena};
  layout_print(x->m, &text, l);
  return number_in(&x->layouts, arena_printf(x->p->arena, "%d%s", l->rank, text_str(&text)), layout_json(l));
}

static int strategy_number(Layers *x, size_t i) {
  const Strategy *s = &x->plan->strategies[i];
  Text text = {.arena = x->p->arena};
  if (s->n) strategy_print(&x->m->mesh, &text, x->p->rules[i], s);
  if (s->gather_at_use) text_add(&text, " gather use");
  return number_in(&x->strategies, text_str(&text), html_text(x->p, text_str(&text)));
}

/* Returns the labels as [first, step, how many] if they are numbers in equal steps, else as a list of texts. */
static json_t *labels_json(const HtmlPage *p, int n, const char *const *labels) {
  json_t *list = json_array();
  long first = 0, step = 0;
  bool even = n > 1;
  for (int i = 0; i < n; i++) {
    char *end;
    const long number = strtol(labels[i], &end, 10);
    even &= *labels[i] >= '0' && *labels[i] <= '9' && !*end && (*labels[i] != '0' || !labels[i][1]);
    if (i == 0) first = number;
    if (i == 1) step = number - first;
    even &= number == first + i * step;
    json_array_append_new(list, html_text(p, labels[i]));
  }
  if (!even) return list;
  json_decref(list);
  return json_pack("[i, i, i]", (int)first, (int)step, n);
}

/* Returns the number of the list among those of the group; -1 if it has too many. */
static int list_number(Layers *x, int n, const char *const *labels) {
  Text key = {.arena = x->p->arena};
  for (int i = 0; i < n; i++) text_printf(&key, "%s\n", labels[i]);
  const int number = number_in(&x->labels, text_utf8(x->p->arena, text_str(&key)), labels_json(x->p, n, labels));
  for (int i = 0; i < x->nlists; i++)
    if (x->lists[i] == number) return i;
  if (x->nlists == MOST_LISTS) return -1;
  x->lists[x->nlists] = number;
  return x->nlists++;
}

/* The names of operation k of all instances, with holes for labels; braces of names are doubled. */
static json_t *name_json(Layers *x, const FoldGroup *g, int k) {
  Arena *a = x->p->arena;
  const char **names = ARENA_ARRAY(a, const char *, g->count);
  for (int i = 0; i < g->count; i++) names[i] = x->f->ops.items[g->ops[i * g->size + k]].name;
  const NamePattern pattern = names_pattern(a, g->count, names);
  Text text = {.arena = a};
  for (int i = 0; i < pattern.n; i++) {
    const NamePiece *piece = &pattern.pieces[i];
    const int list = piece->labels ? list_number(x, g->count, piece->labels) : -1;
    if (list >= 0) text_printf(&text, "{%d}", list);
    else if (piece->labels) text_add(&text, "*");
    for (const char *s = piece->labels ? "" : piece->same; *s; s++) {
      text_addn(&text, s, 1);
      if (*s == '{' || *s == '}') text_addn(&text, s, 1);
    }
  }
  return html_text(x->p, text_str(&text));
}

/* True for operations that say how a layer is divided: weights, products, composites, and values that are converted. */
static bool is_shown(const Op *op, const Figures *y) {
  return op_is_declared(op->kind) || op_is_contraction(op->kind) || op_is_composite(op->kind) || y->comms ||
         op->kind == OP_gather;
}

/* Zero as an integer, which is shorter. */
static json_t *figure_json(double v) { return v > 0 && isfinite(v) ? json_real(v) : json_integer(0); }

static int operation_number(Layers *x, const FoldGroup *g, int k) {
  const size_t i = g->ops[k];
  const Op *op = &x->f->ops.items[i];
  const Strategy *s = &x->plan->strategies[i];
  const Figures *y = &x->figures[i];
  const Target *target = x->p->b->options.target;
  const Layout *l = op->out ? strategy_result(x->m, x->p->rules[i], s, 0) : layout_replicated(x->m, 0);
  const DType type = op->nin ? type_of(x->f, op->in[0])->dtype : op->out ? type_of(x->f, op->out)->dtype : DT_f32;
  double memory = 0;
  for (int r = 0; r < op->nout; r++)
    memory += cost_bytes(x->p->cost, type_of(x->f, op->out + (Val)r), strategy_result(x->m, x->p->rules[i], s, r));
  const int flags =
      (is_shown(op, y) ? SHOWN : 0) | (op_is_resident(op->kind) ? WEIGHT : 0) | (s->again ? RECOMPUTED : 0);
  const double peak = dtype_is_float(type) ? target_flops(target, type) : target_flops(target, DT_f32);
  json_t *o = json_pack("[s, i, i, i, i, i, i, o, o, o, o, o]", op_name(op->kind), type_number(x, op),
                        layout_number(x, l), strategy_number(x, i), x->plan->stages[i] - x->plan->stages[g->ops[0]],
                        (int)((y->priced ? y->phase : op->phase) - PH_pre), flags, figure_json(y->seconds),
                        figure_json(y->again), figure_json(y->flops / peak),
                        figure_json(y->bytes / target->memory_bandwidth), json_integer((json_int_t)memory));
  if (y->comms) json_array_append(o, y->comms);
  return text_number(&x->rows, json_pack("[o, i]", name_json(x, g, k), text_number(&x->facts, o)));
}

static json_t *stages_json(const Layers *x, const FoldGroup *g) {
  json_t *list = json_array();
  for (int i = 0; i < g->count; i++) json_array_append_new(list, json_integer(x->plan->stages[g->ops[i * g->size]]));
  return list;
}

static json_t *group_json(Layers *x, const FoldGroup *g) {
  json_t *ops = json_array(), *labels = json_array();
  x->nlists = 0;
  for (int k = 0; k < g->size; k++) json_array_append_new(ops, json_integer(operation_number(x, g, k)));
  for (int i = 0; i < x->nlists; i++) json_array_append_new(labels, json_integer(x->lists[i]));
  return json_pack("{s:o, s:i, s:b, s:o, s:o, s:o}", "title", html_text(x->p, g->title), "count", g->count, "outside",
                   g->outside, "labels", labels, "stages", stages_json(x, g), "ops", ops);
}

/* ---- the tables that the target and the mesh give */

static json_t *axes_json(const HtmlPage *p) {
  const Mesh *mesh = &p->b->plan->mesh;
  json_t *list = json_array();
  for (int a = 0; a < mesh->naxes; a++)
    json_array_append_new(list, json_pack("{s:s, s:i, s:b}", "name", mesh->axes[a].name, "size", mesh->axes[a].size,
                                          "time", mesh->axes[a].temporal));
  return list;
}

static json_t *links_json(const Target *g) {
  json_t *list = json_array();
  for (int i = 0; i < g->ntiers; i++)
    json_array_append_new(
        list, json_pack("{s:s, s:o}", "name", g->tiers[i].name, "bandwidth", tool_json_real(g->tiers[i].bandwidth)));
  return list;
}

static json_t *comms_json(void) {
  json_t *list = json_array();
  for (int k = 0; k < COMM_KIND_COUNT; k++)
    json_array_append_new(list, json_string(program_comm_kind_name((CommKind)k)));
  json_array_append_new(list, json_string("slice"));
  return list;
}

static json_t *phases_json(void) {
  json_t *list = json_array();
  for (Phase k = PH_pre; k < PH_END; k++) json_array_append_new(list, json_string(phase_name(k)));
  return list;
}

static json_t *columns_json(void) {
  json_t *list = json_array();
  for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) json_array_append_new(list, json_string(columns[k]));
  return list;
}

json_t *html_layers(const HtmlPage *p) {
  Layers x = {.p = p, .m = p->b->model.m, .f = p->b->l1, .plan = p->b->plan};
  x.figures = ARENA_ARRAY(p->arena, Figures, x.f->ops.n + 1);
  x.types = table_new(), x.layouts = table_new(), x.strategies = table_new(), x.labels = table_new(),
  x.facts = table_new(), x.rows = table_new();
  for (size_t i = 0; p->ledger && i < p->ledger->entries.n; i++) add_entry(&x, &p->ledger->entries.items[i]);
  x.fold = tool_fold(p->arena, x.f, x.plan, texts_of(&x));
  json_t *groups = json_array();
  for (size_t i = 0; i < x.fold.n; i++) json_array_append_new(groups, group_json(&x, &x.fold.items[i]));
  for (size_t i = 0; i < x.f->ops.n; i++) json_decref(x.figures[i].comms);
  return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "axes", axes_json(p), "links",
                   links_json(p->b->options.target), "comms", comms_json(), "phases", phases_json(), "columns",
                   columns_json(), "types", table_json(&x.types), "layouts", table_json(&x.layouts), "strategies",
                   table_json(&x.strategies), "labels", table_json(&x.labels), "facts", table_json(&x.facts), "rows",
                   table_json(&x.rows), "groups", groups);
}
