/* passes/search_graph.c - see search_graph.h. */
#include "passes/search_graph.h"

#include <math.h>
#include <string.h>

#include "base/die.h"

/* Operations of equal rule, types and labels share their strategies and costs. */
typedef struct Domain {
  const char *key;
  int n;
  Strategy *strategies;
  const Layout **result;    /* by strategy; NULL for operations without result */
  const Layout ***operands; /* by operand, strategy */
  double *time;             /* by strategy, weighted */
  double *memory;           /* NULL: none */
} Domain;

typedef struct Use {
  size_t op;
  int operand;
} Use;

/* A table that equal surroundings share. */
typedef struct Shared {
  const Domain *producer;
  int nusers;
  const Domain **users;
  const int *operands; /* operand masks, by user */
  bool output;
  SolveFactor factor;  /* without vars */
} Shared;

struct Graph {
  GraphInput in;
  Arena *arena;
  bool exact;
  int *variable; /* by operation; -1: none */
  Domain **domains; /* by operation */
  struct { Domain **items; size_t n, cap; } known;
  struct { Shared **items; size_t n, cap; } shared;
  struct { SolveFactor *items; size_t n, cap; } factors;
  struct { int *items; size_t n, cap; } sizes;
  struct { const double **items; size_t n, cap; } times, memories;
  bool *may_be_partial; /* by value */
  SolveProblem problem;
};

bool graph_is_anywhere(const Op *op) {
  return op->kind == OP_size || op->kind == OP_iota || op->kind == OP_random || (op->kind == OP_const && op_attr(op, AT_value));
}

static bool uses_axis(const Layout *l, int axis) {
  for (int d = 0; d < l->rank; d++)
    for (int i = 0; i < l->dims[d].n; i++)
      if (l->dims[d].axes[i] == axis) return true;
  return false;
}

static int time_axis(const Mesh *mesh) { return mesh->naxes && mesh->axes[0].temporal ? 0 : -1; }

static double repeat_of(const Graph *g, const Layout *a, const Layout *b) {
  int t = time_axis(&g->in.m->mesh);
  return t >= 0 && (uses_axis(a, t) || uses_axis(b, t)) ? g->in.repeat : 1;
}

/* ---- which values can be sums that are not summed up yet */

static void find_partial(Graph *g) {
  const Func *f = g->in.f;
  g->may_be_partial = ARENA_ARRAY(g->arena, bool, f->values.n);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    const Rule *r = g->in.rules[i];
    for (int k = 0; op->out && k < r->nfactors; k++) {
      bool from_operand = false;
      for (int j = 0; j < op->nin; j++) from_operand |= (r->factors[k].operands >> j & 1u) && g->may_be_partial[op->in[j]];
      if (r->factors[k].kind == FK_REDUCE || (r->factors[k].kind == FK_LINEAR && from_operand)) g->may_be_partial[op->out] = true;
    }
  }
}

static bool linear_is_useful(const Graph *g, const Op *op, const Factor *k) {
  for (int j = 0; j < op->nin; j++)
    if ((k->operands >> j & 1u) && g->may_be_partial[op->in[j]]) return true;
  return false;
}

/* ---- strategies of one operation */

/* The factor micro-batches cut: the first batch factor that is parallel and comes first in its dimensions; -1: none. */
static int time_factor(const Graph *g, size_t index) {
  const Rule *r = g->in.rules[index];
  const char *why;
  int t = time_axis(&g->in.m->mesh);
  for (int k = 0; t >= 0 && k < r->nfactors; k++) {
    Strategy s = {1, {{(uint8_t)t, (uint8_t)k}}};
    if (g->in.labels[index].factors[k] == LABEL_BATCH && strategy_legal(g->in.m, r, &s, &why)) return k;
  }
  return -1;
}

static bool sequence_is_other(OpKind k) { return !cost_is_contraction(k) && k != OP_gather && k != OP_param; }

static bool pick_allowed(const Graph *g, size_t index, Pick p, int time) {
  const Op *op = &g->in.f->ops.items[index];
  const Factor *k = &g->in.rules[index]->factors[p.factor];
  const AxisUse *use = &g->in.uses[p.axis];
  Label l = g->in.labels[index].factors[p.factor];
  if (g->in.m->mesh.axes[p.axis].temporal) return p.factor == time;
  if (k->kind == FK_LINEAR) return linear_is_useful(g, op, k);
  if (op->kind == OP_param) return true; /* where a weight is kept does not depend on what its dimensions mean */
  if (use->labels >> l & 1u) return true;
  return l == LABEL_SEQUENCE && (use->labels >> LABEL_OTHER & 1u) && sequence_is_other(op->kind);
}

static bool strategy_allowed(const Graph *g, size_t index, const Strategy *s, int time, bool source) {
  bool timed = false;
  for (int i = 0; i < s->n; i++) {
    if (!pick_allowed(g, index, s->picks[i], time)) return false;
    timed |= g->in.m->mesh.axes[s->picks[i].axis].temporal;
  }
  if (time >= 0 && !timed && !source) return false;
  return cost_parts_filled(g->in.cost, g->in.rules[index], s);
}

/* How far the axes that have to be used are used. */
static double forced_parts(const Graph *g, size_t index, const Strategy *s) {
  const Op *op = &g->in.f->ops.items[index];
  bool matrix = op->kind == OP_param && type_of(g->in.f, op->out)->rank >= 2;
  double parts = 1;
  for (int i = 0; i < s->n; i++) {
    const AxisUse *use = &g->in.uses[s->picks[i].axis];
    bool counts = use->forced && g->in.rules[index]->factors[s->picks[i].factor].size;
    if (counts && (cost_is_contraction(op->kind) || (matrix && use->weights))) parts *= g->in.m->mesh.axes[s->picks[i].axis].size;
  }
  return parts;
}

static const char *domain_key(const Graph *g, size_t index) {
  const Op *op = &g->in.f->ops.items[index];
  const Rule *r = g->in.rules[index];
  Text t = {.arena = g->arena};
  text_printf(&t, "%s ", op_name(op->kind));
  for (int i = 0; i < op->nin; i++) {
    type_print(g->in.m, &t, type_of(g->in.f, op->in[i]));
    text_add(&t, " ");
  }
  if (op->out) type_print(g->in.m, &t, type_of(g->in.f, op->out));
  rule_print(g->in.m, &t, r);
  for (int k = 0; k < r->nfactors; k++)
    text_printf(&t, " %s:%d:%d", r->factors[k].name, (int)g->in.labels[index].factors[k],
                r->factors[k].kind == FK_LINEAR ? linear_is_useful(g, op, &r->factors[k]) : 0);
  return text_str(&t);
}

static bool same_effect(const Domain *d, int nin, int a, int b) {
  if (d->result && d->result[a] != d->result[b]) return false;
  for (int i = 0; i < nin; i++)
    if (d->operands[i][a] != d->operands[i][b]) return false;
  return true;
}

static void set_strategy(Graph *g, size_t index, Domain *d, int at, const Strategy *s) {
  const Op *op = &g->in.f->ops.items[index];
  const Rule *r = g->in.rules[index];
  Module *m = g->in.m;
  int t = time_axis(&m->mesh);
  bool timed = s->n && s->picks[0].axis == t;
  d->strategies[at] = *s;
  if (op->out) d->result[at] = strategy_result(m, r, s);
  for (int i = 0; i < op->nin; i++) d->operands[i][at] = strategy_operand(m, r, s, i);
  d->time[at] = cost_op(g->in.cost, g->in.f, op, r, s).seconds * (timed ? g->in.repeat : 1);
  if (d->memory) d->memory[at] = cost_bytes(g->in.cost, type_of(g->in.f, op->out), d->result[at]);
}

static Domain *make_domain(Graph *g, size_t index, const char *key) {
  const Op *op = &g->in.f->ops.items[index];
  const Strategy *all;
  int n = strategy_enumerate(g->in.m, g->in.rules[index], false, &all), time = time_factor(g, index);
  double most = 1;
  Domain *d = ARENA_NEW(g->arena, Domain);
  *d = (Domain){.key = key, .strategies = ARENA_ARRAY(g->arena, Strategy, n), .time = ARENA_ARRAY(g->arena, double, n)};
  d->result = op->out ? ARENA_ARRAY(g->arena, const Layout *, n) : NULL;
  d->operands = ARENA_ARRAY(g->arena, const Layout **, op->nin + 1);
  d->memory = op->kind == OP_param || op->kind == OP_read ? ARENA_ARRAY(g->arena, double, n) : NULL;
  for (int i = 0; i < op->nin; i++) d->operands[i] = ARENA_ARRAY(g->arena, const Layout *, n);
  bool *allowed = ARENA_ARRAY(g->arena, bool, n);
  for (int i = 0; i < n; i++) {
    allowed[i] = strategy_allowed(g, index, &all[i], time, cost_is_source(op->kind));
    if (allowed[i]) most = fmax(most, forced_parts(g, index, &all[i]));
  }
  for (int i = 0; i < n; i++) {
    if (!allowed[i] || forced_parts(g, index, &all[i]) < most) continue;
    set_strategy(g, index, d, d->n, &all[i]);
    int same = 0;
    while (same < d->n && !same_effect(d, op->nin, same, d->n)) same++;
    if (same == d->n) d->n++;
    else if (d->time[d->n] < d->time[same]) set_strategy(g, index, d, same, &all[i]);
  }
  return d;
}

static Domain *domain_of(Graph *g, size_t index) {
  const char *key = domain_key(g, index);
  for (size_t i = 0; i < g->known.n; i++)
    if (strcmp(g->known.items[i]->key, key) == 0) return g->known.items[i];
  Domain *d = make_domain(g, index, key);
  ARENA_PUSH(g->arena, &g->known, d);
  return d;
}

/* ---- conversions */

/* Distinct tuples of layouts, numbered by first appearance. */
typedef struct Classes {
  int n;
  int *map;         /* by value of the variable */
  int *first;       /* by class: a value that has it */
} Classes;

static Classes classes_of(Graph *g, const Domain *d, const Layout *const *const *lists, int nlists) {
  Classes c = {0, ARENA_ARRAY(g->arena, int, d->n), ARENA_ARRAY(g->arena, int, d->n)};
  for (int v = 0; v < d->n; v++) {
    int k = 0;
    for (; k < c.n; k++) {
      int i = 0;
      while (i < nlists && lists[i][v] == lists[i][c.first[k]]) i++;
      if (i == nlists) break;
    }
    if (k == c.n) c.first[c.n++] = v;
    c.map[v] = k;
  }
  return c;
}

static Classes user_classes(Graph *g, const Domain *d, int mask) {
  const Layout *const *lists[MAX_OPERANDS];
  int n = 0;
  for (int i = 0; mask >> i; i++)
    if (mask >> i & 1) lists[n++] = d->operands[i];
  return classes_of(g, d, lists, n);
}

static double convert_weighted(const Graph *g, const Type *type, const Layout *from, const Layout *to) {
  return from == to ? 0 : cost_convert(g->in.cost, type, from, to) * repeat_of(g, from, to);
}

static const Layout *resolved(Module *m, const Layout *l) {
  Layout whole = *l;
  whole.partial_axes = 0;
  return layout_get(m, &whole);
}

/* Each distinct layout once; users that share pay the n-th part each when relaxed. */
static double demanded_cost(const Graph *g, const Type *type, const Layout *from, const Layout *const *to, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) {
    bool again = false;
    for (int j = 0; j < i; j++) again |= to[j] == to[i];
    if (!again) sum += convert_weighted(g, type, from, to[i]);
  }
  return sum;
}

static int collect(const Domain *d, int mask, int value, const Layout **out, int n) {
  for (int i = 0; mask >> i; i++)
    if (mask >> i & 1) out[n++] = d->operands[i][value];
  return n;
}

/* All conversions of a fan-out: from every layout of the producer to every one the users ask for. */
static void price_conversions(Graph *g, const Type *type, const Layout *const *from, const Classes *c, const Domain *const *users, const int *masks, int nusers) {
  int n = 0, most = 1;
  for (int i = 0; i < nusers; i++) most += c[i + 1].n * __builtin_popcount((unsigned)masks[i]);
  const Layout **to = ARENA_ARRAY(g->arena, const Layout *, most);
  for (int i = 0; i < nusers; i++)
    for (int k = 0; k < c[i + 1].n; k++) {
      const Layout *tuple[MAX_OPERANDS];
      int count = collect(users[i], masks[i], c[i + 1].first[k], tuple, 0);
      for (int j = 0; j < count; j++) {
        int known = 0;
        while (known < n && to[known] != tuple[j]) known++;
        if (known == n) to[n++] = tuple[j];
      }
    }
  for (int k = 0; k < c[0].n; k++) cost_convert_all(g->in.cost, type, from[c[0].first[k]], n, to);
}

/* The whole fan-out of a value as one table over producer and users. */
static SolveFactor fan_out_table(Graph *g, const Type *type, const Domain *producer, const Domain *const *users, const int *masks, int nusers, bool output) {
  const Layout *const *result = producer->result;
  Classes *c = ARENA_ARRAY(g->arena, Classes, nusers + 1);
  int *classes = ARENA_ARRAY(g->arena, int, nusers + 1), *at = ARENA_ARRAY(g->arena, int, nusers + 1);
  const int **maps = ARENA_ARRAY(g->arena, const int *, nusers + 1);
  size_t entries = 1;
  for (int i = 0; i <= nusers; i++) {
    c[i] = i == 0 ? classes_of(g, producer, &result, 1) : user_classes(g, users[i - 1], masks[i - 1]);
    classes[i] = c[i].n;
    maps[i] = c[i].map;
    entries *= (size_t)c[i].n;
  }
  price_conversions(g, type, result, c, users, masks, nusers);
  double *table = ARENA_ARRAY(g->arena, double, entries);
  const Layout **to = ARENA_ARRAY(g->arena, const Layout *, (nusers + 1) * MAX_OPERANDS);
  for (size_t e = 0; e < entries; e++) {
    const Layout *from = result[c[0].first[at[0]]];
    int n = 0;
    for (int i = 0; i < nusers; i++) n = collect(users[i], masks[i], c[i + 1].first[at[i + 1]], to, n);
    if (output) to[n++] = resolved(g->in.m, from);
    table[e] = demanded_cost(g, type, from, to, n);
    for (int i = nusers; i >= 0 && ++at[i] == classes[i]; i--) at[i] = 0;
  }
  return (SolveFactor){.n = nusers + 1, .maps = maps, .classes = classes, .table = table};
}

static const Shared *fan_out(Graph *g, const Type *type, const Domain *producer, const Domain *const *users, const int *masks, int nusers, bool output) {
  for (size_t i = 0; i < g->shared.n; i++) {
    const Shared *s = g->shared.items[i];
    if (s->producer == producer && s->nusers == nusers && s->output == output &&
        (!nusers || (memcmp(s->users, users, sizeof *users * (size_t)nusers) == 0 && memcmp(s->operands, masks, sizeof *masks * (size_t)nusers) == 0)))
      return s;
  }
  Shared *s = ARENA_NEW(g->arena, Shared);
  const Domain **copy = ARENA_ARRAY(g->arena, const Domain *, nusers + 1);
  int *operands = ARENA_ARRAY(g->arena, int, nusers + 1);
  if (nusers) {
    memcpy(copy, users, sizeof *users * (size_t)nusers);
    memcpy(operands, masks, sizeof *masks * (size_t)nusers);
  }
  *s = (Shared){producer, nusers, copy, operands, output, fan_out_table(g, type, producer, copy, operands, nusers, output)};
  ARENA_PUSH(g->arena, &g->shared, s);
  return s;
}

static void add_factor(Graph *g, const SolveFactor *shared, const int *vars) {
  SolveFactor f = *shared;
  int *copy = ARENA_ARRAY(g->arena, int, f.n);
  memcpy(copy, vars, sizeof *copy * (size_t)f.n);
  f.vars = copy;
  ARENA_PUSH(g->arena, &g->factors, f);
}

static int add_variable(Graph *g, const Domain *d) {
  ARENA_PUSH(g->arena, &g->sizes, d->n);
  ARENA_PUSH(g->arena, &g->times, d->time);
  ARENA_PUSH(g->arena, &g->memories, d->memory);
  return (int)g->sizes.n - 1;
}

/* The domain of an explicit copy: every layout the users ask for or the producer gives, at no cost of its own. */
static Domain *copy_domain(Graph *g, const Domain *producer, const Domain *const *users, const int *masks, int nusers) {
  Domain *d = ARENA_NEW(g->arena, Domain);
  const Layout *tuple[MAX_OPERANDS];
  int most = producer->n;
  for (int i = 0; i < nusers; i++) most += users[i]->n * __builtin_popcount((unsigned)masks[i]);
  d->result = ARENA_ARRAY(g->arena, const Layout *, most);
  for (int i = -1; i < nusers; i++) {
    const Domain *from = i < 0 ? producer : users[i];
    for (int v = 0; v < from->n; v++) {
      int n = i < 0 ? (tuple[0] = producer->result[v], 1) : collect(from, masks[i], v, tuple, 0);
      for (int j = 0; j < n; j++) {
        int k = 0;
        while (k < d->n && d->result[k] != tuple[j]) k++;
        if (k == d->n) d->result[d->n++] = tuple[j];
      }
    }
  }
  d->operands = ARENA_ARRAY(g->arena, const Layout **, 1);
  d->operands[0] = d->result;
  d->time = ARENA_ARRAY(g->arena, double, d->n);
  return d;
}

/* Too large for one table: producer - copy - each user. */
static void split_fan_out(Graph *g, const Type *type, const Domain *producer, int var, const Domain *const *users, const int *masks, const int *vars, int nusers, bool output) {
  g->exact = false;
  if (g->in.relax) { /* no user pays more than its share */
    for (int i = 0; i < nusers; i++) {
      SolveFactor f = fan_out(g, type, producer, &users[i], &masks[i], 1, false)->factor;
      size_t entries = (size_t)f.classes[0] * (size_t)f.classes[1];
      double *table = ARENA_ARRAY(g->arena, double, entries);
      for (size_t e = 0; e < entries; e++) table[e] = f.table[e] / (nusers + 1);
      f.table = table;
      add_factor(g, &f, (int[2]){var, vars[i]});
    }
    return;
  }
  const Domain *copy = copy_domain(g, producer, users, masks, nusers);
  int middle = add_variable(g, copy), whole = 1;
  add_factor(g, &fan_out(g, type, producer, &copy, &whole, 1, output)->factor, (int[2]){var, middle});
  for (int i = 0; i < nusers; i++) add_factor(g, &fan_out(g, type, copy, &users[i], &masks[i], 1, false)->factor, (int[2]){middle, vars[i]});
}

/* Users of a value: distinct operations, with the operands that take it. */
static int users_of(const Graph *g, Val v, const Use *uses, size_t nuses, const Domain **users, int *masks, int *vars) {
  int n = 0;
  (void)v;
  for (size_t i = 0; i < nuses; i++) {
    int var = g->variable[uses[i].op], k = 0;
    while (k < n && vars[k] != var) k++;
    if (k == n) {
      vars[n] = var;
      users[n] = g->domains[uses[i].op];
      masks[n++] = 0;
    }
    masks[k] |= 1 << uses[i].operand;
  }
  return n;
}

static void value_factors(Graph *g, Val v, const Use *uses, size_t nuses, bool output) {
  const Func *f = g->in.f;
  const Op *op = op_of(f, v);
  const Type *type = type_of(f, v);
  const Domain **users = ARENA_ARRAY(g->arena, const Domain *, nuses + 1);
  int *masks = ARENA_ARRAY(g->arena, int, nuses + 1), *vars = ARENA_ARRAY(g->arena, int, nuses + 2);
  int n = users_of(g, v, uses, nuses, users, masks, vars + 1);
  if (graph_is_anywhere(op)) return; /* made where and as it is needed */
  const Domain *producer = g->domains[f->values.items[v].op];
  vars[0] = g->variable[f->values.items[v].op];
  double entries = producer->n;
  for (int i = 0; i < n; i++) entries *= user_classes(g, users[i], masks[i]).n;
  if (n > 1 && entries > g->in.table_cap / 64) split_fan_out(g, type, producer, vars[0], users, masks, vars + 1, n, output);
  else if (n || output) add_factor(g, &fan_out(g, type, producer, users, masks, n, output)->factor, vars);
}

/* Reads and writes of one state keep it in one layout. */
static void state_factors(Graph *g) {
  const Func *f = g->in.f;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *a = &f->ops.items[i];
    if (a->kind != OP_read && a->kind != OP_write) continue;
    for (size_t j = i + 1; j < f->ops.n; j++) {
      const Op *b = &f->ops.items[j];
      if ((b->kind != OP_read && b->kind != OP_write) || strcmp(op_str(a, AT_name), op_str(b, AT_name)) != 0) continue;
      const Domain *d[2] = {g->domains[i], g->domains[j]};
      const Layout **layouts[2] = {a->out ? d[0]->result : d[0]->operands[0], b->out ? d[1]->result : d[1]->operands[0]};
      int **maps = ARENA_ARRAY(g->arena, int *, 2), *classes = ARENA_ARRAY(g->arena, int, 2);
      for (int k = 0; k < 2; k++) {
        classes[k] = d[k]->n;
        maps[k] = ARENA_ARRAY(g->arena, int, d[k]->n);
        for (int v = 0; v < d[k]->n; v++) maps[k][v] = v;
      }
      double *table = ARENA_ARRAY(g->arena, double, d[0]->n * d[1]->n);
      for (int v = 0; v < d[0]->n * d[1]->n; v++) table[v] = layouts[0][v / d[1]->n] == layouts[1][v % d[1]->n] ? 0 : INFINITY;
      SolveFactor factor = {.n = 2, .maps = (const int *const *)maps, .classes = classes, .table = table};
      add_factor(g, &factor, (int[2]){g->variable[i], g->variable[j]});
      break;
    }
  }
}

static bool make_variables(Graph *g, const char **why) {
  const Func *f = g->in.f;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    g->variable[i] = -1;
    if (graph_is_anywhere(op)) continue;
    g->domains[i] = domain_of(g, i);
    if (!g->domains[i]->n) {
      *why = arena_printf(g->in.m->arena, "%s \"%s\" cannot be cut into %d micro-batches", op_name(op->kind), op->name, g->in.m->mesh.axes[0].size);
      return false;
    }
    g->variable[i] = add_variable(g, g->domains[i]);
  }
  return true;
}

/* Drops strategies that cost so much more than the cheapest of their operation that no plan with them beats the best one known. */
static void prune_domains(Graph *g, double slack) {
  for (size_t i = 0; i < g->known.n; i++) {
    Domain *d = g->known.items[i];
    double least = INFINITY;
    int kept = 0, nin = 0;
    for (int v = 0; v < d->n; v++) least = fmin(least, d->time[v]);
    while (d->operands[nin]) nin++;
    for (int v = 0; v < d->n; v++) {
      if (d->time[v] > least + slack) continue;
      d->strategies[kept] = d->strategies[v];
      if (d->result) d->result[kept] = d->result[v];
      for (int k = 0; k < nin; k++) d->operands[k][kept] = d->operands[k][v];
      d->time[kept] = d->time[v];
      if (d->memory) d->memory[kept] = d->memory[v];
      kept++;
    }
    d->n = kept;
  }
  for (size_t i = 0; i < g->in.f->ops.n; i++)
    if (g->variable[i] >= 0) g->sizes.items[g->variable[i]] = g->domains[i]->n;
}

static void make_factors(Graph *g) {
  const Func *f = g->in.f;
  struct { Use *items; size_t n, cap; } *uses = arena_alloc(g->arena, sizeof *uses * f->values.n);
  bool *output = ARENA_ARRAY(g->arena, bool, f->values.n);
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin; k++) ARENA_PUSH(g->arena, &uses[f->ops.items[i].in[k]], ((Use){i, k}));
  for (size_t i = 0; i < f->outputs.n; i++) output[f->outputs.items[i].value] = true;
  for (Val v = 1; v < f->values.n; v++) value_factors(g, v, uses[v].items, uses[v].n, output[v]);
  state_factors(g);
}

static double cheapest(const Graph *g) {
  double sum = 0;
  for (size_t v = 0; v < g->sizes.n; v++) {
    double least = INFINITY;
    for (int i = 0; i < g->sizes.items[v]; i++) least = fmin(least, g->times.items[v][i]);
    sum += least;
  }
  return sum;
}

Graph *graph_new(const GraphInput *in, const char **why) {
  Arena *a = arena_new();
  Graph *g = ARENA_NEW(a, Graph);
  *g = (Graph){.in = *in, .arena = a, .exact = true};
  g->variable = ARENA_ARRAY(a, int, in->f->ops.n);
  g->domains = ARENA_ARRAY(a, Domain *, in->f->ops.n);
  find_partial(g);
  if (!make_variables(g, why)) {
    arena_free(a);
    return NULL;
  }
  double least = cheapest(g);
  if (least > in->prune_above) {
    arena_free(a);
    return NULL;
  }
  if (in->prune_above < INFINITY) prune_domains(g, (in->prune_above - least) * (1 + 1e-9) + 1e-12);
  make_factors(g);
  g->problem = (SolveProblem){.nvars = (int)g->sizes.n, .domain = g->sizes.items, .time = g->times.items, .memory = g->memories.items,
                              .factors = g->factors.items, .nfactors = g->factors.n, .memory_limit = in->memory_limit, .table_cap = in->table_cap,
                              .frontier_cap = in->frontier_cap, .stop_above = in->prune_above};
  return g;
}

void graph_free(Graph *g) { arena_free(g->arena); }
const SolveProblem *graph_problem(const Graph *g) { return &g->problem; }
bool graph_exact(const Graph *g) { return g->exact; }

void graph_strategies(const Graph *g, const int *values, Strategy *out) {
  for (size_t i = 0; i < g->in.f->ops.n; i++) out[i] = g->variable[i] < 0 ? (Strategy){0} : g->domains[i]->strategies[values[g->variable[i]]];
}

int graph_domain(const Graph *g, size_t op, const Strategy **out) {
  *out = g->domains[op] ? g->domains[op]->strategies : NULL;
  return g->domains[op] ? g->domains[op]->n : 0;
}
