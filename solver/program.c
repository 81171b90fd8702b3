/* solver/program.c - compiles an elimination order into steps; see private.h. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "solver/private.h"

/* A table that has not been joined yet. */
typedef struct Live {
  int maker;  /* elimination, or -1 - index of the input */
  int step;   /* -1 if an input */
  int number; /* equal for equal tables: the first factor with the same table, or the step */
  int n;
  const int *vars;
  const int *const *maps;
  const int *classes;
  const SolveFactor *input;
} Live;

typedef struct IntList {
  int *items;
  size_t n, cap;
} IntList;

/* A join that was too large, and the part that has each of its tables. */
typedef struct Large {
  const Step *whole;
  Split *split;
  const int *part;
} Large;

typedef struct Compiler {
  StepProgram *out;
  const SolveProblem *p;
  Arena *arena;
  bool may_split;
  struct {
    Live *items;
    size_t n, cap;
  } live;
  bool *alive;
  IntList *of_var;
  int *known; /* steps by hash: open addressing, index + 1 */
  size_t nknown;
  struct {
    Split **items;
    size_t n, cap;
  } splits;
  struct {
    Large *items;
    size_t n, cap;
  } large;
  const double *zeros;
} Compiler;

/* A join that is about to become a step. */
typedef struct Join {
  int var;
  const double *time, *memory;
  int n, *tables; /* indices in the list of live tables */
  int nscope, *scope;
} Join;

/* Numbers the distinct combinations of the classes that several maps give to each of n values; returns how many. */
static int join_maps(Arena *a, int n, int nmaps, const int *const *maps, int **joint, int **representative) {
  int *out = ARENA_ARRAY(a, int, n), *rep = ARENA_ARRAY(a, int, n), count = 0;
  size_t slots = 16;
  while (slots < 2 * (size_t)n) slots *= 2;
  Arena *scratch = arena_new();
  int *table = ARENA_ARRAY(scratch, int, slots); /* class + 1 */
  for (int v = 0; v < n; v++) {
    uint64_t h = 0;
    for (int i = 0; i < nmaps; i++) h = (h ^ (uint64_t)maps[i][v]) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    size_t at = (size_t)h & (slots - 1);
    for (; table[at]; at = (at + 1) & (slots - 1)) {
      int i = 0;
      while (i < nmaps && maps[i][rep[table[at] - 1]] == maps[i][v]) i++;
      if (i == nmaps) break;
    }
    if (!table[at]) rep[count] = v, table[at] = ++count;
    out[v] = table[at] - 1;
  }
  arena_free(scratch);
  *joint = out;
  *representative = rep;
  return count;
}

static size_t stride_of(const Operand *t, int place) {
  size_t s = 1;
  for (int i = place + 1; i < t->n; i++) s *= (size_t)t->classes[i];
  return s;
}

static double entries_of(const Live *t) {
  double n = 1;
  for (int i = 0; i < t->n; i++) n *= t->classes[i];
  return n;
}

/* Puts the inner place of the largest table with several places last: the last place is the inner loop (step.c), which
 * then reads adjacent entries.  Small tables stay in the cache, or are copied. */
static void order_scope(const Compiler *c, Join *j) {
  const Live *largest = NULL;
  for (int f = 0; f < j->n; f++) {
    const Live *t = &c->live.items[j->tables[f]];
    if (t->n > 2 && (!largest || entries_of(t) > entries_of(largest))) largest = t;
  }
  if (!largest) return;
  int inner = largest->vars[largest->n - 1] == j->var ? largest->vars[largest->n - 2] : largest->vars[largest->n - 1];
  for (int i = step_place_in(j->scope, j->nscope, inner); i + 1 < j->nscope; i++) j->scope[i] = j->scope[i + 1];
  j->scope[j->nscope - 1] = inner;
}

/* Collects the variables of the tables, in order of appearance. */
static void find_scope(Compiler *c, Join *j) {
  int most = 0;
  for (int f = 0; f < j->n; f++) most += c->live.items[j->tables[f]].n;
  j->scope = ARENA_ARRAY(c->arena, int, most + 1);
  j->nscope = 0;
  for (int f = 0; f < j->n; f++) {
    const Live *t = &c->live.items[j->tables[f]];
    for (int i = 0; i < t->n; i++)
      if (t->vars[i] != j->var && step_place_in(j->scope, j->nscope, t->vars[i]) < 0)
        j->scope[j->nscope++] = t->vars[i];
  }
  order_scope(c, j);
}

static int place_of(const Join *j, int var) {
  return var == j->var ? j->nscope : step_place_in(j->scope, j->nscope, var);
}

/* ---- equal joins */

const void *solve_factor_identity(const SolveFactor *f) { return f->table ? (const void *)f->table : f->of; }

static const void *identity(const Live *t) {
  return t->step < 0 ? solve_factor_identity(t->input) : (const void *)t->maps;
}

static uint64_t join_hash(const Compiler *c, const Join *j) {
  uint64_t h = hash64(&j->time, sizeof j->time, (uint64_t)j->n);
  for (int f = 0; f < j->n; f++) {
    const Live *t = &c->live.items[j->tables[f]];
    const void *id = identity(t);
    h = hash64(&id, sizeof id, h ^ (uint64_t)t->step);
    for (int i = 0; i < t->n; i++) {
      int place = place_of(j, t->vars[i]);
      h = h * 31 + (uint64_t)place;
    }
  }
  return h;
}

static bool same_join(const Compiler *c, const Step *s, const Join *j) {
  if (s->noperands != j->n || s->n != j->nscope || s->domain != c->p->domain[j->var] || s->time != j->time ||
      s->memory != j->memory)
    return false;
  for (int f = 0; f < j->n; f++) {
    const Operand *o = &s->operands[f];
    const Live *t = &c->live.items[j->tables[f]];
    if (o->step != t->step || o->n != t->n) return false;
    if (t->step < 0 && (o->rest ? o->rest->of : (const void *)o->input) != solve_factor_identity(t->input))
      return false;
    for (int i = 0; i < t->n; i++)
      if (o->maps[i] != t->maps[i] || o->places[i] != place_of(j, t->vars[i])) return false;
  }
  return true;
}

static int *find_known(Compiler *c, const Join *j, uint64_t h) {
  size_t i = (size_t)h & (c->nknown - 1);
  while (c->known[i]) {
    const Step *s = c->out->steps[c->known[i] - 1];
    if (s->hash == h && same_join(c, s, j)) break;
    i = (i + 1) & (c->nknown - 1);
  }
  return &c->known[i];
}

/* ---- one step */

static void fill_place(Compiler *c, Step *s, int place, int domain) {
  const int **maps = ARENA_ARRAY(c->arena, const int *, s->noperands + 1);
  int n = 0, *representative, *at = ARENA_ARRAY(c->arena, int, s->noperands + 1);
  for (int f = 0; f < s->noperands; f++) {
    at[f] = step_place_in(s->operands[f].places, s->operands[f].n, place);
    if (at[f] >= 0) maps[n++] = s->operands[f].maps[at[f]];
  }
  s->classes[place] = join_maps(c->arena, domain, n, maps, &s->maps[place], &representative);
  s->offsets[place] = ARENA_ARRAY(c->arena, size_t *, s->noperands + 1);
  for (int f = 0; f < s->noperands; f++) {
    size_t *out = s->offsets[place][f] = ARENA_ARRAY(c->arena, size_t, s->classes[place]);
    if (at[f] < 0) continue;
    size_t stride = stride_of(&s->operands[f], at[f]);
    for (int k = 0; k < s->classes[place]; k++) out[k] = stride * (size_t)s->operands[f].maps[at[f]][representative[k]];
  }
}

static Step *step_new(Compiler *c, const Join *j, uint64_t hash) {
  Step *s = ARENA_NEW(c->arena, Step);
  *s = (Step){.domain = c->p->domain[j->var],
              .time = j->time,
              .memory = j->memory,
              .noperands = j->n,
              .n = j->nscope,
              .hash = hash,
              .entries = 1,
              .work = 1};
  s->operands = ARENA_ARRAY(c->arena, Operand, j->n + 1);
  for (int f = 0; f < j->n; f++) {
    const Live *t = &c->live.items[j->tables[f]];
    int *places = ARENA_ARRAY(c->arena, int, t->n + 1);
    for (int i = 0; i < t->n; i++) places[i] = place_of(j, t->vars[i]);
    s->operands[f] = (Operand){t->step,
                               t->number,
                               t->input ? t->input->table : NULL,
                               t->n,
                               t->maps,
                               t->classes,
                               places,
                               t->input && !t->input->table ? t->input : NULL};
  }
  s->classes = ARENA_ARRAY(c->arena, int, s->n + 1);
  s->maps = ARENA_ARRAY(c->arena, int *, s->n + 1);
  s->offsets = ARENA_ARRAY(c->arena, size_t **, s->n + 1);
  for (int i = 0; i <= s->n; i++) {
    fill_place(c, s, i, c->p->domain[i < s->n ? j->scope[i] : j->var]);
    s->work *= s->classes[i];
    if (i < s->n) s->entries *= (size_t)s->classes[i];
  }
  return s;
}

/* Returns the step of a join: a known one, or a new one that is not in the program yet. */
static Step *step_for(Compiler *c, Join *j, int **slot) {
  find_scope(c, j);
  uint64_t h = join_hash(c, j);
  *slot = find_known(c, j, h);
  return **slot ? c->out->steps[**slot - 1] : step_new(c, j, h);
}

static void add_live(Compiler *c, Live t) {
  c->alive[c->live.n] = true;
  for (int i = 0; i < t.n; i++) ARENA_PUSH(c->arena, &c->of_var[t.vars[i]], (int)c->live.n);
  ARENA_PUSH(c->arena, &c->live, t);
}

static void add_elimination(Compiler *c, const Join *j, Step *s, int *slot) {
  StepProgram *out = c->out;
  if (!*slot) {
    out->steps[out->nsteps++] = s;
    *slot = out->nsteps;
    out->work += s->work;
  }
  int *makers = ARENA_ARRAY(c->arena, int, j->n + 1), number = *slot - 1;
  for (int f = 0; f < j->n; f++) {
    makers[f] = c->live.items[j->tables[f]].maker;
    c->alive[j->tables[f]] = false;
  }
  out->eliminations[out->n] = (Elimination){.var = j->var, .step = number, .scope = j->scope, .makers = makers};
  if (s->n) add_live(c, (Live){out->n, number, number, s->n, j->scope, (const int *const *)s->maps, s->classes, NULL});
  out->n++;
}

static uint64_t split_hash(const Compiler *c, const Join *parts, int n) {
  uint64_t h = (uint64_t)n;
  for (int i = 0; i < n; i++) h = h * 31 + join_hash(c, &parts[i]);
  return h;
}

/* Returns the split into equal parts, or a new one. */
static Split *split_of(Compiler *c, const Join *parts, int n) {
  uint64_t h = split_hash(c, parts, n);
  for (size_t i = 0; i < c->splits.n; i++) {
    Split *x = c->splits.items[i];
    int same = 0;
    while (x->hash == h && x->n == n && same < n && same_join(c, x->parts[same], &parts[same])) same++;
    if (same == n) return x;
  }
  Split *x = ARENA_NEW(c->arena, Split);
  *x = (Split){h, n, ARENA_ARRAY(c->arena, Step *, n), ARENA_ARRAY(c->arena, int, n)};
  for (int i = 0; i < n; i++) {
    x->parts[i] = step_new(c, &parts[i], 0);
    x->parts[i]->split = x;
  }
  ARENA_PUSH(c->arena, &c->splits, x);
  return x;
}

/* An empty part of a join, with room for n tables. */
static Join part_of(Compiler *c, const Join *whole, bool first, int n) {
  return (Join){.var = whole->var,
                .time = first ? whole->time : c->zeros,
                .memory = first ? whole->memory : NULL,
                .tables = ARENA_ARRAY(c->arena, int, n)};
}

/* Builds the next part of a join that is too large: takes tables while its work stays under the cap. */
static Join next_part(Compiler *c, const Join *whole, bool first, int *left, int *n) {
  Join part = part_of(c, whole, first, *n);
  int kept = 0;
  for (int f = 0; f < *n; f++) {
    int *slot;
    Join trial = part;
    part.tables[trial.n++] = left[f];
    Step *s = step_for(c, &trial, &slot);
    if (part.n == 0 || s->work <= c->p->table_cap) part = trial;
    else left[kept++] = left[f];
  }
  *n = kept;
  find_scope(c, &part); /* the last trial may have had other tables than the part */
  return part;
}

static void add_parts(Compiler *c, const Join *parts, Split *x) {
  c->out->split = true;
  for (int i = 0; i < x->n; i++) add_elimination(c, &parts[i], x->parts[i], &x->numbers[i]);
}

static void eliminate_split(Compiler *c, const Join *whole, const Step *as) {
  int *left = ARENA_ARRAY(c->arena, int, whole->n), n = whole->n, nparts = 0;
  Join *parts = ARENA_ARRAY(c->arena, Join, whole->n);
  memcpy(left, whole->tables, sizeof *left * (size_t)n);
  while (n) {
    parts[nparts] = next_part(c, whole, nparts == 0, left, &n);
    nparts++;
  }
  int *part = ARENA_ARRAY(c->arena, int, whole->n);
  for (int f = 0; f < whole->n; f++)
    while (step_place_in(parts[part[f]].tables, parts[part[f]].n, whole->tables[f]) < 0) part[f]++;
  Split *x = split_of(c, parts, nparts);
  ARENA_PUSH(c->arena, &c->large, ((Large){as, x, part}));
  add_parts(c, parts, x);
}

static const Large *find_large(const Compiler *c, const Join *j, uint64_t h) {
  for (size_t i = 0; i < c->large.n; i++)
    if (c->large.items[i].whole->hash == h && same_join(c, c->large.items[i].whole, j)) return &c->large.items[i];
  return NULL;
}

/* Eliminates a variable whose join equals one that was split before. */
static void eliminate_like(Compiler *c, const Join *whole, const Large *as) {
  Join *parts = ARENA_ARRAY(c->arena, Join, as->split->n);
  for (int i = 0; i < as->split->n; i++) parts[i] = part_of(c, whole, i == 0, whole->n);
  for (int f = 0; f < whole->n; f++) {
    Join *part = &parts[as->part[f]];
    part->tables[part->n++] = whole->tables[f];
  }
  for (int i = 0; i < as->split->n; i++) find_scope(c, &parts[i]);
  add_parts(c, parts, as->split);
}

static bool stands_before(const Compiler *c, int var, int a, int b) {
  const Live *x = &c->live.items[a], *y = &c->live.items[b];
  if ((x->step < 0) != (y->step < 0)) return x->step < 0;
  if (x->number != y->number) return x->number < y->number;
  return step_place_in(x->vars, x->n, var) < step_place_in(y->vars, y->n, var);
}

/* Inserts a table in an order that does not depend on when tables were made, so that equal joins compare equal. */
static void insert_table(const Compiler *c, Join *j, int table) {
  int at = j->n++;
  for (; at > 0 && stands_before(c, j->var, table, j->tables[at - 1]); at--) j->tables[at] = j->tables[at - 1];
  j->tables[at] = table;
}

static bool eliminate(Compiler *c, int var) {
  Join j = {.var = var, .time = c->p->time[var], .memory = c->p->memory ? c->p->memory[var] : NULL};
  j.tables = ARENA_ARRAY(c->arena, int, c->of_var[var].n + 1);
  for (size_t i = 0; i < c->of_var[var].n; i++)
    if (c->alive[c->of_var[var].items[i]]) insert_table(c, &j, c->of_var[var].items[i]);
  c->out->first[var] = c->out->n;
  find_scope(c, &j);
  uint64_t h = join_hash(c, &j);
  int *slot = find_known(c, &j, h);
  const Large *as = *slot ? NULL : find_large(c, &j, h);
  Step *s = *slot ? c->out->steps[*slot - 1] : as ? NULL : step_new(c, &j, h);
  bool large = s && j.n > 1 && s->work > c->p->table_cap;
  if ((large || as) && !c->may_split) return false;
  if (as) eliminate_like(c, &j, as);
  else if (large) eliminate_split(c, &j, s);
  else add_elimination(c, &j, s, slot);
  c->out->last[var] = c->out->n;
  return true;
}

/* By factor: the first factor with the same table. */
static int *number_inputs(const SolveProblem *p, Arena *a) {
  int *number = ARENA_ARRAY(a, int, p->nfactors + 1);
  size_t slots = 64;
  while (slots < 2 * p->nfactors) slots *= 2;
  size_t *table = ARENA_ARRAY(a, size_t, slots); /* factor + 1 */
  for (size_t f = 0; f < p->nfactors; f++) {
    const void *id = solve_factor_identity(&p->factors[f]);
    size_t at = (size_t)hash64(&id, sizeof id, 0) & (slots - 1);
    while (table[at] && solve_factor_identity(&p->factors[table[at] - 1]) != id) at = (at + 1) & (slots - 1);
    if (!table[at]) table[at] = f + 1;
    number[f] = (int)(table[at] - 1);
  }
  return number;
}

StepProgram *elimination_compile(const SolveProblem *p, const int *order, bool may_split, Arena *a) {
  StepProgram *out = ARENA_NEW(a, StepProgram);
  /* Every elimination shortens the sum of the tables' scopes, which bounds their number. */
  size_t most = (size_t)p->nvars + 16;
  int widest = 1;
  for (size_t f = 0; f < p->nfactors; f++) most += (size_t)p->factors[f].n;
  for (int v = 0; v < p->nvars; v++) widest = p->domain[v] > widest ? p->domain[v] : widest;
  *out = (StepProgram){.p = p,
                       .arena = a,
                       .order = order,
                       .steps = ARENA_ARRAY(a, Step *, most),
                       .eliminations = ARENA_ARRAY(a, Elimination, most)};
  out->first = ARENA_ARRAY(a, int, p->nvars);
  out->last = ARENA_ARRAY(a, int, p->nvars);
  out->seen = ARENA_ARRAY(a, double *, p->nfactors + 1);
  out->moved = ARENA_ARRAY(a, bool, p->nfactors + 1);
  Compiler c = {.out = out, .p = p, .arena = a, .may_split = may_split, .nknown = 64};
  while (c.nknown < 2 * most) c.nknown *= 2;
  c.known = ARENA_ARRAY(a, int, c.nknown);
  c.alive = ARENA_ARRAY(a, bool, most + p->nfactors);
  c.of_var = ARENA_ARRAY(a, IntList, p->nvars);
  c.zeros = ARENA_ARRAY(a, double, widest);
  const int *number = number_inputs(p, a);
  out->inputs = ARENA_ARRAY(a, int, p->nfactors + 1);
  for (size_t f = 0; f < p->nfactors; f++)
    if (number[f] == (int)f) out->inputs[out->ninputs++] = (int)f;
  for (size_t f = 0; f < p->nfactors; f++) {
    const SolveFactor *k = &p->factors[f];
    add_live(&c, (Live){-1 - (int)f, -1, number[f], k->n, k->vars, k->maps, k->classes, k});
  }
  for (int k = 0; k < p->nvars; k++)
    if (!eliminate(&c, order[k])) return NULL;
  return out;
}

/* ---- values */

size_t step_entry(const StepProgram *p, const Elimination *e, const int *values) {
  const Step *s = p->steps[e->step];
  size_t at = 0;
  for (int i = 0; i < s->n; i++) at = at * (size_t)s->classes[i] + (size_t)s->maps[i][values[e->scope[i]]];
  return at;
}

static double cost_of_rest(const SolveFactor *k, const int *values) {
  int few[16] = {0}, *at = k->n <= 16 ? few : must_have(malloc(sizeof *at * (size_t)k->n), "in the search");
  for (int i = 0; i < k->n; i++) at[i] = k->maps[i][values[k->vars[i]]];
  double cost = k->cost(k->of, at);
  if (at != few) free(at);
  return cost;
}

double solve_factor_cost(const SolveFactor *k, const int *values) {
  size_t at = 0;
  if (!k->table) return cost_of_rest(k, values);
  for (int i = 0; i < k->n; i++) at = at * (size_t)k->classes[i] + (size_t)k->maps[i][values[k->vars[i]]];
  return k->table[at];
}

double solve_evaluate(const SolveProblem *p, const int *values, double *memory) {
  double time = p->constant;
  *memory = 0;
  for (int v = 0; v < p->nvars; v++) {
    time += p->time[v][values[v]];
    if (p->memory && p->memory[v]) *memory += p->memory[v][values[v]];
  }
  for (size_t f = 0; f < p->nfactors; f++) time += solve_factor_cost(&p->factors[f], values);
  return time;
}
