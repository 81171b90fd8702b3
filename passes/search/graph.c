/* passes/search/graph.c - the planner graph: its variables and the factors between them; see graph.h.  Domains are made
 * once per class of operations, tables once per class of fan-outs (fans.c). */
#include "passes/search/graph.h"

#include <math.h>
#include <string.h>

#include "passes/search/tables.h"

static SolveFactor with_variables(Graph *g, const SolveFactor *shared, const int *vars) {
  SolveFactor f = *shared;
  f.vars = memcpy(ARENA_ARRAY(g->arena, int, f.n), vars, sizeof *vars * (size_t)f.n);
  return f;
}

/* Returns n numbers, each multiplied by `times`. */
static const double *so_often(Graph *g, const double *x, size_t n, double times) {
  if (!x || times == 1) return x;
  double *out = ARENA_ARRAY(g->arena, double, n + 1);
  for (size_t i = 0; i < n; i++) out[i] = x[i] * times;
  return out;
}

static void add_factor(Graph *g, const SolveFactor *shared, const int *vars, double times) {
  SolveFactor f = with_variables(g, shared, vars);
  size_t n = 1;
  for (int k = 0; k < f.n; k++) n *= (size_t)f.classes[k];
  f.table = so_often(g, f.table, n, times);
  ARENA_PUSH(g->arena, &g->factors, f);
}

static int add_variable(Graph *g, const Domain *d, double times) {
  ARENA_PUSH(g->arena, &g->sizes, d->n);
  ARENA_PUSH(g->arena, &g->times, so_often(g, domain_total(d), (size_t)d->n, times));
  ARENA_PUSH(g->arena, &g->memories, so_often(g, domain_total_memory(d), (size_t)d->n, times));
  return (int)g->sizes.n - 1;
}

static void add_fan(Graph *g, const FanOut *fan) {
  const FanTables *t = graph_fan_tables(g, fan);
  int *vars = ARENA_ARRAY(g->arena, int, t->nslots + 1), middle = vars[0] = g->variable[fan->producer];
  for (int i = 0; i < t->nslots; i++) vars[i + 1] = g->variable[fan->users[t->slots[i]]];
  if (!t->split) {
    add_factor(g, &t->whole, vars, fan->times);
    return;
  }
  if (t->middle) {
    middle = add_variable(g, t->middle, fan->times);
    ARENA_PUSH(g->arena, &g->between, ((Between){middle, fan}));
  }
  add_factor(g, &t->first, (int[2]){vars[0], middle}, fan->times);
  /* Shares leave out a rest.  For equal layers it would count many times, so it is left out of their cost. */
  if (t->shares && fan->times == 1) ARENA_PUSH(g->arena, &g->rests, with_variables(g, &t->rest, vars));
  for (int i = 0; i < t->nslots; i++)
    if (t->each[i].n) add_factor(g, &t->each[i], (int[2]){middle, vars[i + 1]}, fan->times);
}

SolveFactor graph_row_factor(Graph *g, int n, const double *row) {
  const int **map = ARENA_ARRAY(g->arena, const int *, 1);
  int *classes = ARENA_ARRAY(g->arena, int, 1);
  *map = graph_identity_map(g, *classes = n);
  return (SolveFactor){.n = 1, .maps = map, .classes = classes, .table = row};
}

/* Both must have one layout: of their results, or, for writes, of their operands. */
static SolveFactor pair_table(Graph *g, const Domain *const d[2], bool same_variable) {
  const Layout **layouts[2];
  int n[2] = {d[0]->n, d[1]->n};
  for (int k = 0; k < 2; k++) layouts[k] = d[k]->nout ? d[k]->results[0] : d[k]->operands[0];
  if (same_variable) {
    double *row = ARENA_ARRAY(g->arena, double, n[0]);
    for (int v = 0; v < n[0]; v++) row[v] = layouts[0][v] == layouts[1][v] ? 0 : INFINITY;
    return graph_row_factor(g, n[0], row);
  }
  double *table = ARENA_ARRAY(g->arena, double, n[0] * n[1]);
  for (int v = 0; v < n[0] * n[1]; v++) table[v] = layouts[0][v / n[1]] == layouts[1][v % n[1]] ? 0 : INFINITY;
  return graph_pair_factor(g, graph_identity_map(g, n[0]), n[0], graph_identity_map(g, n[1]), n[1], table);
}

/* Returns an equal tie, adding it without a factor if there is none. */
static Tie *tie_like(Graph *g, const Tie *like) {
  for (size_t i = 0; i < g->ties.n; i++) {
    Tie *x = &g->ties.items[i];
    bool domains = x->domains[0] == like->domains[0] && x->domains[1] == like->domains[1];
    if (domains && x->same == like->same && x->result == like->result && x->operand == like->operand) return x;
  }
  ARENA_PUSH(g->arena, &g->ties, *like);
  return &g->ties.items[g->ties.n - 1];
}

static void add_pair(Graph *g, LayoutPair pair) {
  const Domain *d[2] = {graph_domain(g, pair.first), graph_domain(g, pair.second)};
  int vars[2] = {g->variable[pair.first], g->variable[pair.second]};
  Tie tie = {{d[0], d[1]}, vars[0] == vars[1], -1, -1, {0}};
  Tie *known = tie_like(g, &tie);
  if (!known->factor.n) known->factor = pair_table(g, d, tie.same);
  add_factor(g, &known->factor, vars, 1);
}

/* A sum of gradients may only have strategies that fit that of the maker of the value; if none fits, any. */
static SolveFactor sum_table(Graph *g, int class, const Domain *const d[2]) {
  double *table = ARENA_ARRAY(g->arena, double, d[0]->n *d[1]->n);
  for (int h = 0; h < d[0]->n; h++) {
    double *row = table + h * d[1]->n;
    bool any = false;
    for (int v = 0; v < d[1]->n; v++) {
      bool fits = domain_sum_fits(&g->in, class, &d[0]->strategies[h], &d[1]->strategies[v]);
      row[v] = fits ? 0 : INFINITY;
      any |= fits;
    }
    for (int v = 0; v < d[1]->n && !any; v++) row[v] = 0;
  }
  return graph_pair_factor(g, graph_identity_map(g, d[0]->n), d[0]->n, graph_identity_map(g, d[1]->n), d[1]->n, table);
}

static void add_sum(Graph *g, size_t head, size_t sum) {
  const Domain *d[2] = {graph_domain(g, head), graph_domain(g, sum)};
  Tie tie = {{d[0], d[1]}, false, -1, -1, {0}};
  Tie *known = tie_like(g, &tie);
  if (!known->factor.n) known->factor = sum_table(g, g->in.shape->class[sum], d);
  add_factor(g, &known->factor, (int[2]){g->variable[head], g->variable[sum]}, 1);
}

/* An operation that gets a converted value reads it from memory, even from a maker in the same kernel. */
static SolveFactor inside_table(Graph *g, const Tie *tie) {
  const Domain *maker = tie->domains[0], *user = tie->domains[1];
  const Layout *const *made = maker->results[tie->result], *const *asked = user->operands[tie->operand];
  const double *outside = user->outside[tie->operand];
  if (tie->same) {
    double *row = ARENA_ARRAY(g->arena, double, maker->n);
    for (int v = 0; v < maker->n; v++) row[v] = made[v] == asked[v] ? 0 : outside[v];
    return graph_row_factor(g, maker->n, row);
  }
  double *table = ARENA_ARRAY(g->arena, double, maker->n * user->n);
  for (int v = 0; v < maker->n * user->n; v++)
    table[v] = made[v / user->n] == asked[v % user->n] ? 0 : outside[v % user->n];
  return graph_pair_factor(g, graph_identity_map(g, maker->n), maker->n, graph_identity_map(g, user->n), user->n,
                           table);
}

static void add_inside(Graph *g, const InsideUse *use) {
  size_t user = use->user;
  int operand = use->operand;
  Val v = g->in.f->ops.items[user].in[operand];
  size_t maker = (size_t)g->in.f->values.items[v].op;
  int vars[2] = {g->variable[maker], g->variable[user]};
  Tie tie = {
      {graph_domain(g, maker), graph_domain(g, user)}, vars[0] == vars[1], value_index(g->in.f, v), operand, {0}};
  Tie *known = tie_like(g, &tie);
  if (!known->factor.n) known->factor = inside_table(g, &tie);
  add_factor(g, &known->factor, vars, use->times);
}

/* Returns the class of the operation that the first operation of a class follows; -1 if none. */
static int class_followed(const Graph *g, int c) {
  const Shape *s = g->in.shape;
  size_t i = s->first[c], head = s->mirrors.head[i];
  return head == i ? -1 : s->class[head];
}

/* A followed operation may come after its followers. */
static Domain *domain_of_class(Graph *g, int c) {
  const Shape *s = g->in.shape;
  int head = class_followed(g, c);
  size_t sum_of = s->mirrors.sum_of[s->first[c]];
  if (g->domains[c]) return g->domains[c];
  if (head >= 0) return g->domains[c] = domain_follow(&g->in, g->arena, c, domain_of_class(g, head));
  if (sum_of != SIZE_MAX)
    return g->domains[c] = domain_of_sum(&g->in, g->arena, c, domain_of_class(g, s->class[sum_of]));
  return g->domains[c] = domain_new(&g->in, g->arena, c);
}

/* A follower within a kernel may have no strategy that fits. */
static bool is_empty(const Domain *d, const Op *op) {
  bool any = d->n > 0 && op->mirror.name;
  for (int v = 0; v < d->n; v++) any |= d->time[v] < INFINITY;
  return !any;
}

static bool make_domains(Graph *g, const char **why) {
  const Shape *s = g->in.shape;
  for (int c = 0; c < s->nclasses; c++) {
    if (solve_watch_work(g->in.watch, 1e3)) return false;
    const Op *op = &g->in.f->ops.items[s->first[c]];
    if (!is_empty(domain_of_class(g, c), op)) continue;
    if (g->in.pinned && g->in.pinned[s->first[c]]) {
      const PlanPin *pin = &g->in.pins[__builtin_ctzll(g->in.pinned[s->first[c]])];
      *why = arena_printf(g->in.m->arena, "%s \"%s\" cannot be cut as --pin '%s' says", op_name(op->kind), op->name,
                          pin->text);
      return false;
    }
    *why = arena_printf(g->in.m->arena, "%s \"%s\" cannot be cut into %d micro-batches", op_name(op->kind), op->name,
                        g->in.m->mesh.axes[0].size);
    return false;
  }
  return true;
}

/* The sum of the cheapest strategies.  `by_layer` gets the sums of the layers. */
static double cheapest(const Graph *g, const int *layer, double *by_layer) {
  const Shape *s = g->in.shape;
  double sum = 0, *least = ARENA_ARRAY(g->arena, double, s->nclasses);
  for (int c = 0; c < s->nclasses; c++) {
    least[c] = INFINITY;
    for (int v = 0; v < g->domains[c]->n; v++) least[c] = fmin(least[c], domain_total(g->domains[c])[v]);
  }
  for (size_t i = 0; i < g->in.f->ops.n; i++)
    if (s->class[i] >= 0 && s->mirrors.head[i] == i) {
      sum += least[s->class[i]];
      if (by_layer && layer[i] >= 0) by_layer[layer[i]] += least[s->class[i]];
    }
  return sum;
}

static void fill(Graph *g) {
  const Shape *s = g->in.shape;
  for (size_t i = 0; i < g->in.f->ops.n; i++)
    g->variable[i] = s->class[i] >= 0 && s->owner[i] == i ? add_variable(g, graph_domain(g, i), s->times[i]) : -1;
  for (size_t i = 0; i < g->in.f->ops.n; i++)
    if (s->class[i] >= 0) g->variable[i] = g->variable[s->owner[i]];
  for (size_t i = 0; i < s->nfans && !solve_watch_work(g->in.watch, 0); i++) add_fan(g, &s->fans[i]);
  for (size_t i = 0; i < s->ninsides && !solve_watch_work(g->in.watch, 0); i++) add_inside(g, &s->insides[i]);
  for (size_t i = 0; i < s->npairs; i++) add_pair(g, s->pairs[i]);
  for (size_t i = 0; i < s->nsums; i++) add_sum(g, s->sums[i].first, s->sums[i].second);
}

/* A FanShares callback: moves shares towards a choice. */
static void share_again(void *of, const int *values, double step) {
  Graph *g = of;
  Arena *a = arena_new();
  for (size_t i = 0; i < g->rests.n; i++) {
    const SolveFactor *f = &g->rests.items[i];
    int *at = ARENA_ARRAY(a, int, f->n);
    for (int k = 0; k < f->n; k++) at[k] = f->maps[k][values[f->vars[k]]];
    fan_shares_note((FanShares *)(uintptr_t)f->of, at);
  }
  for (int c = 0; c < g->in.shape->nfan_classes; c++)
    if (g->fans[c].shares) fan_shares_move(g->fans[c].shares, step);
  arena_free(a);
}

const char graph_no_choice[] = "some operation and its gradients have no common strategy";

/* Makes the graph with domains only; *least: the cheapest strategies together, INFINITY if some operation has none or
 * the time is over; `by_layer`, if not NULL: those of each layer. */
static Graph *graph_of_domains(const GraphInput *in, const int *layer, double *by_layer, double *least,
                               const char **why) {
  Arena *a = arena_new();
  Graph *g = ARENA_NEW(a, Graph);
  *g = (Graph){.in = *in, .arena = a};
  g->variable = ARENA_ARRAY(a, int, in->f->ops.n);
  g->domains = ARENA_ARRAY(a, Domain *, in->shape->nclasses);
  g->fans = ARENA_ARRAY(a, FanTables, in->shape->nfan_classes);
  double start = solve_watch_processor();
  *least = INFINITY;
  if (make_domains(g, why)) {
    *least = cheapest(g, layer, by_layer);
    if (*least == INFINITY) *why = graph_no_choice;
  }
  if (in->report) in->report->domains += solve_watch_processor() - start;
  return g;
}

double graph_cheapest(const GraphInput *in, const int *layer, double *by_layer) {
  const double sums = 1e3; /* the work of one strategy, in sums */
  const char *why = NULL;
  double least, strategies = 0;
  Graph *g = graph_of_domains(in, layer, by_layer, &least, &why);
  for (int c = 0; c < in->shape->nclasses; c++) strategies += g->domains[c] ? g->domains[c]->n : 0;
  bool over = solve_watch_work(in->watch, sums * strategies);
  arena_free(g->arena);
  return over ? 0 : least;
}

Graph *graph_new(const GraphInput *in, const char **why) {
  double least, start;
  Graph *g = graph_of_domains(in, NULL, NULL, &least, why);
  Arena *a = g->arena;
  const double as_fast = 1 - 1e-9; /* a plan that is no faster is the known plan, on another mesh */
  if (least > in->prune_above * as_fast || least == INFINITY) {
    arena_free(a);
    return NULL;
  }
  g->slack = in->prune_above < INFINITY ? (in->prune_above - least) * (1 + 1e-9) + 1e-12 : INFINITY;
  for (int c = 0; c < in->shape->nclasses; c++)
    if (class_followed(g, c) < 0) domain_prune(g->domains[c], g->slack, a);
  start = solve_watch_processor();
  fill(g);
  if (in->report) in->report->graphs++, in->report->tables += solve_watch_processor() - start;
  if (in->watch && in->watch->expired) {
    arena_free(a);
    return NULL;
  }
  g->problem = (SolveProblem){.nvars = (int)g->sizes.n,
                              .domain = g->sizes.items,
                              .time = g->times.items,
                              .memory = g->memories.items,
                              .factors = g->factors.items,
                              .nfactors = g->factors.n,
                              .rests = g->rests.items,
                              .nrests = g->rests.n,
                              .share = share_again,
                              .share_of = g,
                              .rounds = in->rounds,
                              .split_rounds = in->split_rounds,
                              .whole_work = in->whole_work,
                              .memory_limit = in->memory_limit,
                              .table_cap = in->table_cap,
                              .frontier_cap = in->frontier_cap,
                              .stop_above = in->prune_above,
                              .watch = in->watch};
  return g;
}

void graph_free(Graph *g) { arena_free(g->arena); }
const SolveProblem *graph_problem(const Graph *g) { return &g->problem; }

void graph_strategies(const Graph *g, const int *values, Strategy *out) {
  for (size_t i = 0; i < g->in.f->ops.n; i++)
    out[i] = g->variable[i] < 0 ? (Strategy){0} : graph_domain(g, i)->strategies[values[g->variable[i]]];
}

/* The bytes that an operation of a class makes and reads with a value, shared by all operations with the same. */
typedef struct MadeRead {
  int value;       /* of its variable, plus 1 */
  double made;     /* bytes of all results */
  double whole;    /* INFINITY if some result is a partial sum; else `made` */
  double *operand; /* bytes, by operand */
} MadeRead;

static const MadeRead *made_and_read(const Graph *g, size_t op, int value, MadeRead *known, Arena *a) {
  const Func *f = g->in.f;
  const Op *x = &f->ops.items[op];
  const Domain *d = graph_domain(g, op);
  if (known->value == value + 1) return known;
  *known = (MadeRead){.value = value + 1, .operand = ARENA_ARRAY(a, double, d->nin + 1)};
  bool partial = false;
  for (int k = 0; k < d->nout; k++) {
    known->made += cost_bytes(g->in.cost, type_of(f, x->out + (Val)k), d->results[k][value]);
    partial |= d->results[k][value]->partial_axes != 0;
  }
  known->whole = partial ? INFINITY : known->made;
  for (int k = 0; k < d->nin; k++)
    known->operand[k] = cost_bytes(g->in.cost, type_of(f, x->in[k]), d->operands[k][value]);
  return known;
}

void graph_operations(const Graph *g, const int *values, double *seconds, double *bytes, double *sent) {
  const Shape *s = g->in.shape;
  const Func *f = g->in.f;
  Arena *scratch = arena_new();
  MadeRead *known = ARENA_ARRAY(scratch, MadeRead, s->nclasses + 1);
  for (size_t i = 0; i < f->ops.n; i++) sent[i] = INFINITY;
  for (size_t i = 0; i < f->ops.n; i++) {
    int class = s->class[i], value = class < 0 ? 0 : values[g->variable[i]];
    seconds[i] = bytes[i] = 0;
    if (class < 0) continue;
    const MadeRead *x = made_and_read(g, i, value, &known[class], scratch);
    seconds[i] = graph_domain(g, i)->time[value], bytes[i] = x->made;
    sent[i] = fmin(sent[i], x->whole);
    for (int k = 0; k < f->ops.items[i].nin && !phase_backward(f->ops.items[i].phase); k++) {
      double *from = &sent[f->values.items[f->ops.items[i].in[k]].op];
      *from = fmin(*from, x->operand[k]);
    }
  }
  arena_free(scratch);
}

/* Returns the fan-out whose tables have this variable between producer and users; NULL for a variable of an
 * operation. */
static const FanOut *fan_between(const Graph *g, int variable) {
  for (size_t i = 0; i < g->between.n; i++)
    if (g->between.items[i].variable == variable) return g->between.items[i].fan;
  return NULL;
}

const char *graph_variable_name(const Graph *g, int variable, Arena *a) {
  const FanOut *fan = fan_between(g, variable);
  if (fan) return arena_printf(a, "layouts of %s", g->in.f->ops.items[fan->producer].name);
  for (size_t i = 0; i < g->in.f->ops.n; i++)
    if (g->variable[i] == variable) return arena_strdup(a, g->in.f->ops.items[i].name);
  return "?";
}

bool graph_fan(const Graph *g, size_t i, SearchFan *out) {
  if (i >= g->in.shape->nfans) return false;
  const FanOut *fan = &g->in.shape->fans[i];
  const FanTables *t = &g->fans[fan->class];
  *out = (SearchFan){g->in.f->ops.items[fan->producer].name, fan->nusers, t->choosing, t->sets};
  return true;
}
