/* codegen/rows/units.c - groups of operations become units, in an order that respects their dependences (units.h). */
#include "codegen/rows/units.h"

#include <string.h>

#include "base/die.h"
#include "codegen/rows/row.h"
#include "codegen/rows/row_work.h"
#include "codegen/rows/unit_bundle.h"

typedef struct Make {
  Work *w;
  Module *m;
  UnitList *list;
  size_t cap;
  const char **state; /* by value of the function: the state that it becomes; NULL if none */
} Make;

const Type *units_type(const UnitList *units, const Func *l2, Val v) {
  return v < l2->values.n ? type_of(l2, v) : units->temps[v - l2->values.n];
}

static Unit *add_unit(Make *k, UnitKind kind, const WorkOp *o) {
  struct {
    Unit *items;
    size_t n, cap;
  } grow = {k->list->items, k->list->n, k->cap};
  ARENA_PUSH(k->m->arena, &grow, ((Unit){.kind = kind, .op = o->origin, .tells = o->origin, .phase = o->phase}));
  k->list->items = grow.items, k->list->n = grow.n, k->cap = grow.cap;
  return &k->list->items[k->list->n - 1];
}

static const Val *values(Make *k, int n, const Val *v) {
  Val *list = ARENA_ARRAY(k->m->arena, Val, n);
  if (n) memcpy(list, v, sizeof(Val) * (size_t)n);
  return list;
}

/* ---- row programs */

static bool same_place(const RowNode *n, const RowStore *s) {
  return n->nargs == 0 && n->guard < 0 && n->at.offset == s->at.offset &&
         memcmp(n->at.coef, s->at.coef, sizeof n->at.coef) == 0;
}

/* Returns by node: it depends on elements of the input.  A finished reduction does not read them again. */
static bool *nodes_of_input(Arena *a, const RowProgram *p, size_t input) {
  bool *of = ARENA_ARRAY(a, bool, p->nodes.n + 1);
  for (size_t i = 0; i < p->nodes.n; i++) {
    const RowNode *n = &p->nodes.items[i];
    of[i] = (n->kind == RN_LOAD && n->buffer == (int)input) || (n->guard >= 0 && of[n->guard]);
    for (int k = 0; k < n->nargs; k++) of[i] |= of[n->args[k]];
  }
  return of;
}

/* True if a later stage reads elements of the input again, also to recompute a value that an earlier stage computed. */
static bool is_read_later(const RowProgram *p, size_t input, int stage) {
  Arena *a = arena_new();
  const bool *of = nodes_of_input(a, p, input);
  bool later = false;
  for (size_t i = 0; i < p->accs.n; i++) later |= p->accs.items[i].stage > stage && of[p->accs.items[i].node];
  for (size_t i = 0; i < p->stores.n; i++) later |= p->stores.items[i].stage > stage && of[p->stores.items[i].node];
  arena_free(a);
  return later;
}

/* True if the store may overwrite the input: every load of it reads the element stored, and none happens later. */
static bool may_share(const RowProgram *p, size_t input, const RowStore *s) {
  const RowBuffer *in = &p->buffers.items[input], *out = &p->buffers.items[s->buffer];
  if (in->output || in->table || in->dtype != out->dtype || s->total) return false;
  for (size_t i = 0; i < p->nodes.n; i++) {
    const RowNode *n = &p->nodes.items[i];
    if (n->kind != RN_LOAD || n->buffer != (int)input) continue;
    if (!same_place(n, s) || n->stage > s->stage || n->inner != s->inner) return false;
  }
  return !s->inner || !is_read_later(p, input, s->stage);
}

/* Returns the operation that makes a value of the function; NULL for a temporary. */
static const Op *made_by(const Make *k, Val v) { return v < k->w->f->values.n ? op_of(k->w->f, v) : NULL; }

static const char **find_states(Arena *a, const Work *w) {
  const char **state = ARENA_ARRAY(a, const char *, w->f->values.n);
  for (size_t i = w->f->ops.n; i-- > 0;) {
    const Op *op = &w->f->ops.items[i];
    if (op->kind == OP_write) state[op->in[0]] = op_str(op, AT_name);
  }
  return state;
}

static bool reads_state(const Make *k, Val v, const char *name) {
  const Op *op = made_by(k, v);
  return op && op->kind == OP_read && strcmp(op_str(op, AT_name), name) == 0;
}

/* The rounds in which outputs take inputs' memory: first a sum over micro-batches grows in place, then a new state
 * takes the memory of the old one, which no other value may take; the remaining outputs take any input. */
typedef enum AliasOf { ALIAS_SUM, ALIAS_STATE, ALIAS_ANY, ALIAS_ROUNDS } AliasOf;

static bool is_alias(const Make *k, AliasOf round, Val out, const RowBuffer *in) {
  Val start = round == ALIAS_SUM ? work_sum_start(k->w, out) : 0;
  const char *state = out < k->w->f->values.n ? k->state[out] : NULL;
  if (round == ALIAS_SUM) return start && in->value == start;
  if (round == ALIAS_STATE) return state && reads_state(k, in->value, state);
  if (in->table || in->output) return false; /* a table is no value */
  const Op *made = made_by(k, in->value);
  return !made || (made->kind != OP_read && !k->state[in->value]); /* may already lie in a state's memory */
}

static const int *find_aliases(Make *k, const RowProgram *p, const int *ptr_of, int nin, int nout) {
  int *alias = ARENA_ARRAY(k->m->arena, int, nout);
  bool *taken = ARENA_ARRAY(k->m->arena, bool, nin);
  for (int i = 0; i < nout; i++) alias[i] = -1;
  for (AliasOf round = 0; round < ALIAS_ROUNDS; round++)
    for (size_t i = 0; i < p->stores.n; i++) {
      const RowStore *s = &p->stores.items[i];
      int *of = &alias[ptr_of[s->buffer] - nin];
      Val out = p->buffers.items[s->buffer].value;
      for (size_t b = 0; b < p->buffers.n && *of < 0; b++)
        if (is_alias(k, round, out, &p->buffers.items[b]) && !taken[ptr_of[b]] && may_share(p, b, s))
          *of = ptr_of[b], taken[ptr_of[b]] = true;
    }
  return alias;
}

static bool moves(OpKind kind) {
  return op_is_view(kind) || kind == OP_transpose || kind == OP_slice || kind == OP_broadcast;
}

/* Returns the operation that messages name: the one that computes, not a reshape of its result.  The last operation
 * itself if its kernel only moves. */
static const WorkOp *telling(const Work *w, const WorkOp *last) {
  const WorkOp *o = last;
  while (moves(o->op->kind)) {
    int def = o->op->in[0] < w->ndef ? w->def[o->op->in[0]] : -1;
    if (def < 0) return last;
    o = &w->ops.items[def];
    if ((!o->virtual_ && o->group != last->group) || (o->class != WC_MAP && o->class != WC_ROW)) return last;
  }
  return o;
}

static void add_row_kernel(Make *k, const WorkGroup *g) {
  const RowProgram *p = row_build(k->w, g);
  const WorkOp *last = &k->w->ops.items[g->ops[g->n - 1]];
  Val list[512];
  int ptr_of[512], n = 0, nin = 0;
  if (!p) return;
  if (p->buffers.n > 512) die("units_of: %zu buffers in one kernel", p->buffers.n);
  for (size_t i = 0; i < p->buffers.n; i++) {
    if (p->buffers.items[i].table) continue;
    ptr_of[i] = n;
    list[n++] = p->buffers.items[i].value;
    nin += !p->buffers.items[i].output;
  }
  Unit *u = add_unit(k, UNIT_KERNEL, last);
  u->row = p, u->legal = last->op;
  u->tells = telling(k->w, last)->origin, u->computes = telling(k->w, last)->op->kind;
  u->nin = nin, u->in = values(k, nin, list);
  u->nout = n - nin, u->out = values(k, n - nin, list + nin);
  u->alias = find_aliases(k, p, ptr_of, nin, n - nin);
}

/* ---- the other kinds */

/* Adds the kernel of several gradients, with each value that it writes once. */
static void add_grads(Make *k, const WorkOp *o) {
  int n = 0, *alias = ARENA_ARRAY(k->m->arena, int, GRADS_MOST);
  Val out[GRADS_MOST];
  for (int i = 0; i < o->grads->n; i++) {
    bool seen = false;
    for (int j = 0; j < n; j++) seen |= out[j] == o->grads->part[i].result;
    if (!seen) alias[n] = -1, out[n++] = o->grads->part[i].result;
  }
  Unit *u = add_unit(k, UNIT_KERNEL, o);
  u->legal = o->place ? o->place->op : o->op;
  u->nin = o->op->nin, u->in = o->op->in;
  u->nout = n, u->out = values(k, n, out);
  u->alias = alias;
  u->place = o->place, u->grads = o->grads;
}

/* Lists the results of a template: those of the operation, or of the operations that one kernel computes. */
static Val *results_of(Make *k, const WorkOp *o, int *n) {
  int own = o->few ? o->few->nout : o->cache ? o->cache->n : o->op->nout;
  Val *out = ARENA_ARRAY(k->m->arena, Val, own + 2);
  for (*n = 0; *n < own; ++*n) out[*n] = o->few ? o->few->out[*n] : o->cache ? o->cache->out[*n] : o->op->out + (Val)*n;
  for (int i = 0; o->grow && i < o->grow->n; i++) out[(*n)++] = o->grow->whole[i];
  if (o->split) out[(*n)++] = o->split->found;
  if (o->scratch) out[(*n)++] = o->scratch;
  if (o->place && o->place->result) *out = o->place->result;
  return out;
}

/* Adds the kernel of a template.  An update in place writes only the elements that change; a rope rotates pairs in
 * place; a check of indices passes them on in place; a sum joins its residual. */
static void add_template(Make *k, const WorkOp *o) {
  if (o->grads) {
    add_grads(k, o);
    return;
  }
  int n;
  Val *out = results_of(k, o, &n);
  int *alias = ARENA_ARRAY(k->m->arena, int, n);
  for (int i = 0; i < n; i++) alias[i] = -1;
  bool plain = !o->cache && !o->few;
  if (plain && (o->op->kind == OP_update || (o->op->kind == OP_rope && !o->place) || o->op->kind == OP_within))
    *alias = 0;
  if ((o->conv && o->conv->epilogue.residual) || (o->few && o->few->product[0]->epilogue.residual))
    *alias = o->op->nin - 1;
  if (o->cache) alias[n - 2] = o->op->nin - 2, alias[n - 1] = o->op->nin - 1;
  Unit *u = add_unit(k, UNIT_KERNEL, o);
  u->legal = o->conv ? o->conv->op : o->grow ? o->grow->op : o->place ? o->place->op : o->op;
  u->nin = o->op->nin, u->in = o->op->in;
  u->nout = n, u->out = out;
  u->alias = alias;
  u->conv = o->conv, u->few = o->few, u->cache = o->cache, u->grow = o->grow, u->split = o->split, u->place = o->place;
}

static void add_gemm(Make *k, const WorkOp *o) {
  const GemmUnit *g = o->gemm;
  Unit *u = add_unit(k, UNIT_GEMM, o);
  u->nin = o->op->nin, u->in = o->op->in, u->nout = 1, u->out = values(k, 1, &o->op->out);
  u->gemm = g;
}

static void add_view(Make *k, const WorkOp *o, const Expr *offset) {
  Unit *u = add_unit(k, UNIT_VIEW, o);
  u->nin = 1, u->in = o->op->in, u->nout = 1, u->out = values(k, 1, &o->op->out);
  u->view_offset = ex_muli(k->m, offset, (int64_t)dtype_bytes(work_type(k->w, o->op->out)->dtype));
}

static void add_plain(Make *k, const WorkOp *o, UnitKind kind) {
  bool arrives = o->op->kind == OP_transfer && o->op->stage != k->w->stage;
  bool leaves = o->op->kind == OP_transfer && op_int(o->op, AT_to_stage, 0) != k->w->stage;
  Unit *u = add_unit(k, kind, o);
  u->legal = o->op;
  if (!arrives) u->nin = o->op->nin, u->in = o->op->in;
  if (o->op->out && kind != UNIT_WRITE && !leaves) u->nout = 1, u->out = values(k, 1, &o->op->out);
}

/* Returns the value of operand `operand` of each operation of a group, from operation `from` on, then `last` unless it
 * is 0. */
static const Val *operands(Make *k, const WorkGroup *g, int from, int operand, Val last) {
  Val *list = ARENA_ARRAY(k->m->arena, Val, g->n - from + 1);
  for (int i = from; i < g->n; i++) list[i - from] = k->w->ops.items[g->ops[i]].op->in[operand];
  list[g->n - from] = last;
  return list;
}

static const Val *results(Make *k, const WorkGroup *g, int from) {
  Val *list = ARENA_ARRAY(k->m->arena, Val, g->n);
  for (int i = from; i < g->n; i++) list[i - from] = k->w->ops.items[g->ops[i]].op->out;
  return list;
}

static void add_loop(Make *k, const WorkGroup *g) {
  Unit *u = add_unit(k, UNIT_LOOP, &k->w->ops.items[g->ops[0]]);
  u->nin = u->nout = g->n;
  u->in = operands(k, g, 0, 0, 0);
  u->out = results(k, g, 0);
}

static void add_repeat(Make *k, const WorkGroup *g) {
  const WorkOp *o = &k->w->ops.items[g->ops[0]];
  Unit *u = add_unit(k, UNIT_REPEAT, o);
  u->nout = g->n - 1;
  u->nin = u->nout + (o->op->nin > 1);
  u->in = operands(k, g, 1, 1, o->op->nin > 1 ? o->op->in[1] : 0);
  u->out = results(k, g, 1);
}

static void add_bind(Make *k, const WorkOp *o) {
  Unit *u = add_unit(k, UNIT_BIND, o);
  u->nin = 1, u->in = o->op->in, u->nout = 1, u->out = values(k, 1, &o->op->out);
  u->view_offset = ex_const(k->m, 0);
}

static bool in_memory(const Work *w, Val v) {
  int def = work_def(w, v);
  return def < 0 || !w->ops.items[def].virtual_;
}

static void add_group(Make *k, const WorkGroup *g) {
  const WorkOp *o = &k->w->ops.items[g->ops[0]];
  const Expr *offset;
  switch (o->class) {
    case WC_SOURCE: add_plain(k, o, UNIT_SOURCE); return;
    case WC_WRITE: add_plain(k, o, UNIT_WRITE); return;
    case WC_COMM: add_plain(k, o, UNIT_COMM); return;
    case WC_GEMM: add_gemm(k, o); return;
    case WC_TEMPLATE: add_template(k, o); return;
    case WC_LOOP: add_loop(k, g); return;
    case WC_REPEAT: add_repeat(k, g); return;
    case WC_BIND: add_bind(k, o); return;
    case WC_VIEW:
    case WC_MAP:
    case WC_ROW:
      if (g->n == 1 && o->class != WC_ROW && work_is_view(k->w, o->op, &offset) && in_memory(k->w, o->op->in[0]))
        add_view(k, o, offset);
      else if (o->class == WC_VIEW) die("units_of: view \"%s\" of a value that is not in memory", o->op->name);
      else add_row_kernel(k, g);
  }
}

bool unit_is_transfer(const Unit *u) { return u->kind == UNIT_COMM && u->legal->kind == OP_transfer; }

/* Adds the groups of a bundle: first all their kernels, then one unit that replaces them. */
static void add_bundle(Make *k, const int *groups, size_t n) {
  size_t first = k->list->n;
  for (size_t i = 0; i < n; i++) add_group(k, &k->w->groups.items[groups[i]]);
  k->list->n = first + units_bundle(k->m, k->list->items + first, k->list->n - first);
}

UnitList *units_of(Work *w) {
  Module *m = w->m;
  size_t n;
  work_fuse(w);
  const int *order = work_order(w, &n);
  UnitList *list = ARENA_NEW(m->arena, UnitList);
  list->work = w;
  Arena *scratch = arena_new();
  Make k = {.w = w, .m = m, .list = list, .state = find_states(scratch, w)};
  for (size_t i = 0, end; i < n; i = end) {
    int bundle = w->groups.items[order[i]].bundle;
    for (end = i + 1; end < n && bundle >= 0 && w->groups.items[order[end]].bundle == bundle;) end++;
    if (bundle < 0) add_group(&k, &w->groups.items[order[i]]);
    else add_bundle(&k, order + i, end - i);
  }
  arena_free(scratch);
  list->temps = w->temps.items, list->ntemps = w->temps.n;
  return list;
}

/* ---- text */

static void print_value(const Module *m, Text *t, const Func *f, const UnitList *list, Val v) {
  if (v < f->values.n) text_printf(t, " %%%s ", name_of(f, v));
  else text_printf(t, " temp%d ", (int)(v - f->values.n));
  type_print(m, t, units_type(list, f, v));
}

static void print_expr(const Module *m, Text *t, const char *label, const Expr *e) {
  text_printf(t, " %s=", label);
  ex_print(m, t, e);
}

static void print_gemm(const Module *m, Text *t, const GemmUnit *g) {
  print_expr(m, t, "m", g->m), print_expr(m, t, "n", g->n), print_expr(m, t, "k", g->k);
  print_expr(m, t, "a_m", g->a_m), print_expr(m, t, "a_k", g->a_k), print_expr(m, t, "b_k", g->b_k);
  print_expr(m, t, "b_n", g->b_n), print_expr(m, t, "c_m", g->c_m);
  for (int i = 0; i < g->nbatch; i++) {
    print_expr(m, t, "batch", g->batch[i]), print_expr(m, t, "a", g->a_batch[i]);
    print_expr(m, t, "b", g->b_batch[i]), print_expr(m, t, "c", g->c_batch[i]);
  }
  program_epilogue_text(t, g->epilogue);
}

static void print_conv(const Module *m, Text *t, const ConvUnit *c) {
  text_add(t, " conv");
  program_epilogue_text(t, c->epilogue);
  for (int i = 0; i < PROGRAM_CONV_NUMBERS; i++) print_expr(m, t, i ? "" : "numbers", c->numbers[i]);
}

void units_print(const Module *m, Text *t, const Func *l2, const UnitList *units) {
  static const char *const names[] = {"source", "kernel", "gemm", "view", "comm", "write", "bind", "loop", "repeat"};
  for (size_t i = 0; i < units->n; i++) {
    const Unit *u = &units->items[i];
    if (u->phase) text_printf(t, "%s ", phase_name(u->phase));
    text_printf(t, "%s %s", names[u->kind], l2->ops.items[u->op].name);
    for (int k = 0; k < u->nin; k++) print_value(m, t, l2, units, u->in[k]);
    text_add(t, " ->");
    for (int k = 0; k < u->nout; k++) {
      print_value(m, t, l2, units, u->out[k]);
      if (u->alias && u->alias[k] >= 0) text_printf(t, " in place of %d", u->alias[k]);
    }
    if (u->gemm) print_gemm(m, t, u->gemm);
    if (u->conv) print_conv(m, t, u->conv);
    for (int k = 0; u->few && k < u->few->n; k++) print_gemm(m, t, u->few->product[k]);
    if (u->view_offset) print_expr(m, t, "offset", u->view_offset);
    text_add(t, "\n");
  }
}
