/* passes/search_solve.c - elimination with scalar tables, the Lagrangian sweep, mini-buckets; see search_solve.h.
 * Frontier tables are in search_frontier.c. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/hash.h"
#include "passes/search_private.h"

/* ---- elimination order: always the variable whose bucket is smallest now (min-weight), ties by index */

typedef struct Order {
  int n;
  size_t words;
  uint64_t *adjacent; /* n rows of `words` */
  double *weight;
  bool *gone;
  const double *size; /* log of the domain */
} Order;

static uint64_t *row(const Order *o, int v) { return o->adjacent + (size_t)v * o->words; }

static void weigh(Order *o, int v) {
  double w = o->size[v];
  for (size_t i = 0; i < o->words; i++)
    for (uint64_t bits = row(o, v)[i]; bits; bits &= bits - 1) w += o->size[i * 64 + (size_t)__builtin_ctzll(bits)];
  o->weight[v] = w;
}

static void remove_variable(Order *o, int v) {
  uint64_t *mine = row(o, v);
  o->gone[v] = true;
  for (size_t i = 0; i < o->words; i++)
    for (uint64_t bits = mine[i]; bits; bits &= bits - 1) {
      int u = (int)(i * 64) + __builtin_ctzll(bits);
      uint64_t *theirs = row(o, u);
      for (size_t j = 0; j < o->words; j++) theirs[j] |= mine[j];
      theirs[u / 64] &= ~(1ull << (u % 64));
      theirs[v / 64] &= ~(1ull << (v % 64));
    }
  for (size_t i = 0; i < o->words; i++)
    for (uint64_t bits = mine[i]; bits; bits &= bits - 1) weigh(o, (int)(i * 64) + __builtin_ctzll(bits));
}

static int *elimination_order(const SolveProblem *p, Arena *a) {
  Order o = {.n = p->nvars, .words = ((size_t)p->nvars + 63) / 64};
  int *order = ARENA_ARRAY(a, int, p->nvars);
  double *size = ARENA_ARRAY(a, double, p->nvars);
  o.adjacent = ARENA_ARRAY(a, uint64_t, o.words * (size_t)p->nvars);
  o.weight = ARENA_ARRAY(a, double, p->nvars);
  o.gone = ARENA_ARRAY(a, bool, p->nvars);
  o.size = size;
  for (int v = 0; v < p->nvars; v++) size[v] = log(p->domain[v]);
  for (size_t f = 0; f < p->nfactors; f++)
    for (int i = 0; i < p->factors[f].n; i++)
      for (int j = 0; j < p->factors[f].n; j++) {
        int u = p->factors[f].vars[i], v = p->factors[f].vars[j];
        if (u != v) row(&o, u)[v / 64] |= 1ull << (v % 64);
      }
  for (int v = 0; v < p->nvars; v++) weigh(&o, v);
  for (int k = 0; k < p->nvars; k++) {
    int best = -1;
    for (int v = 0; v < p->nvars; v++)
      if (!o.gone[v] && (best < 0 || o.weight[v] < o.weight[best] - 1e-9)) best = v;
    order[k] = best;
    remove_variable(&o, best);
  }
  return order;
}

/* ---- buckets */

/* Numbers the distinct combinations of the classes that several maps give to each of n values; returns how many. */
static int join_maps(Arena *a, int n, int nmaps, const int *const *maps, int **joint, int **representative) {
  int *out = ARENA_ARRAY(a, int, n), *rep = ARENA_ARRAY(a, int, n), count = 0;
  for (int v = 0; v < n; v++) {
    int c = 0;
    for (; c < count; c++) {
      int i = 0;
      while (i < nmaps && maps[i][rep[c]] == maps[i][v]) i++;
      if (i == nmaps) break;
    }
    if (c == count) rep[count++] = v;
    out[v] = c;
  }
  *joint = out;
  *representative = rep;
  return count;
}

static int place_in(const int *list, int n, int v) {
  for (int i = 0; i < n; i++)
    if (list[i] == v) return i;
  return -1;
}

static size_t stride_of(const Table *t, int place) {
  size_t s = 1;
  for (int i = place + 1; i < t->n; i++) s *= (size_t)t->classes[i];
  return s;
}

/* offsets[class] of variable `var` of the bucket in the tables of factor f */
static size_t *offsets_of(Arena *a, const Table *t, int var, int classes, const int *representative) {
  size_t *out = ARENA_ARRAY(a, size_t, classes);
  int place = place_in(t->vars, t->n, var);
  if (place < 0) return out;
  size_t s = stride_of(t, place);
  for (int c = 0; c < classes; c++) out[c] = s * (size_t)t->maps[place][representative[c]];
  return out;
}

static int maps_of(const Bucket *b, int var, const int **maps) {
  int n = 0;
  for (int f = 0; f < b->nfactors; f++) {
    int place = place_in(b->factors[f]->vars, b->factors[f]->n, var);
    if (place >= 0) maps[n++] = b->factors[f]->maps[place];
  }
  return n;
}

/* The variables a bucket's factors are about, in the order they appear. */
static void find_scope(Arena *a, Bucket *b) {
  int most = 0;
  for (int f = 0; f < b->nfactors; f++) most += b->factors[f]->n;
  b->scope = ARENA_ARRAY(a, int, most + 1);
  b->n = 0;
  for (int f = 0; f < b->nfactors; f++)
    for (int i = 0; i < b->factors[f]->n; i++) {
      int v = b->factors[f]->vars[i];
      if (v != b->var && place_in(b->scope, b->n, v) < 0) b->scope[b->n++] = v;
    }
}

/* Classes and offsets of a bucket whose scope is known. */
static void find_classes(const SolveProblem *p, Arena *a, Bucket *b) {
  const int **maps = ARENA_ARRAY(a, const int *, b->nfactors + 1);
  b->classes = ARENA_ARRAY(a, int, b->n + 1);
  b->maps = ARENA_ARRAY(a, int *, b->n + 1);
  b->offsets = ARENA_ARRAY(a, size_t **, b->n + 1);
  for (int i = 0; i <= b->n; i++) { /* the last one is the bucket's own variable */
    int v = i < b->n ? b->scope[i] : b->var, *representative;
    int n = maps_of(b, v, maps);
    b->classes[i] = join_maps(a, p->domain[v], n, maps, &b->maps[i], &representative);
    b->offsets[i] = ARENA_ARRAY(a, size_t *, b->nfactors);
    for (int f = 0; f < b->nfactors; f++) b->offsets[i][f] = offsets_of(a, b->factors[f], v, b->classes[i], representative);
  }
}

static double bucket_work(const Bucket *b) {
  double w = 1;
  for (int i = 0; i <= b->n; i++) w *= b->classes[i];
  return w;
}

Table *bucket_result(Arena *a, const Bucket *b) {
  Table *t = ARENA_NEW(a, Table);
  t->n = b->n;
  t->vars = b->scope;
  t->maps = (const int *const *)b->maps;
  t->classes = b->classes;
  t->entries = 1;
  for (int i = 0; i < b->n; i++) t->entries *= (size_t)b->classes[i];
  return t;
}

/* out[...] = min over the variable of own cost plus factors.  The last scope variable is the inner loop: factors without it
 * are added up outside. */
static double *minimise(const Bucket *b, const double *own, Arena *a, size_t entries) {
  int nf = b->nfactors, last = b->n - 1, nu = b->classes[b->n], inner = last >= 0 ? b->classes[last] : 1, nwith = 0;
  double *out = ARENA_ARRAY(a, double, entries), *best = ARENA_ARRAY(a, double, nu), *outer = ARENA_ARRAY(a, double, nu);
  size_t *base = ARENA_ARRAY(a, size_t, nf + 1);
  int *at = ARENA_ARRAY(a, int, b->n + 1), *with = ARENA_ARRAY(a, int, nf + 1);
  bool *inside = ARENA_ARRAY(a, bool, nf + 1);
  for (int f = 0; f < nf; f++) {
    inside[f] = last >= 0 && place_in(b->factors[f]->vars, b->factors[f]->n, b->scope[last]) >= 0;
    if (inside[f]) with[nwith++] = f;
  }
  for (int c = 0; c < nu; c++) best[c] = INFINITY;
  for (int v = 0; v < b->domain; v++)
    if (own[v] < best[b->maps[b->n][v]]) best[b->maps[b->n][v]] = own[v];
  for (size_t e = 0; e < entries; e += (size_t)inner) {
    memcpy(outer, best, sizeof(double) * (size_t)nu);
    for (int f = 0; f < nf; f++) {
      base[f] = 0;
      for (int i = 0; i < last; i++) base[f] += b->offsets[i][f][at[i]];
      const size_t *own_offset = b->offsets[b->n][f];
      const double *table = b->factors[f]->table + base[f];
      for (int c = 0; c < nu && !inside[f]; c++) outer[c] += table[own_offset[c]];
    }
    for (int k = 0; k < inner; k++) {
      double least = INFINITY;
      for (int c = 0; c < nu; c++) {
        double sum = outer[c];
        for (int i = 0; i < nwith && sum < least; i++) {
          int f = with[i];
          sum += b->factors[f]->table[base[f] + b->offsets[last][f][k] + b->offsets[b->n][f][c]];
        }
        if (sum < least) least = sum;
      }
      out[e + (size_t)k] = least;
    }
    for (int i = last - 1; i >= 0 && ++at[i] == b->classes[i]; i--) at[i] = 0;
  }
  return out;
}

/* ---- work shared by repeated blocks: equal buckets (same tables in the same places) have equal results */

static bool same_bucket(const Bucket *x, const Bucket *y) {
  if (x->nfactors != y->nfactors || x->n != y->n || x->domain != y->domain || x->time != y->time || x->memory != y->memory) return false;
  for (int f = 0; f < x->nfactors; f++) {
    const Table *s = x->factors[f], *t = y->factors[f];
    if (s->table != t->table || s->points != t->points || s->n != t->n) return false;
    for (int i = 0; i < s->n; i++) {
      if (s->maps[i] != t->maps[i]) return false;
      int a = s->vars[i] == x->var ? x->n : place_in(x->scope, x->n, s->vars[i]);
      int b = t->vars[i] == y->var ? y->n : place_in(y->scope, y->n, t->vars[i]);
      if (a != b) return false;
    }
  }
  return true;
}

static uint64_t bucket_hash(const Bucket *b) {
  uint64_t h = hash64(&b->time, sizeof b->time, (uint64_t)b->nfactors);
  for (int f = 0; f < b->nfactors; f++) {
    const void *p = b->factors[f]->table ? (const void *)b->factors[f]->table : (const void *)b->factors[f]->points;
    h = hash64(&p, sizeof p, h);
  }
  return h;
}

static int *find_known(Solver *s, uint64_t h) {
  size_t i = (size_t)h & (s->nknown - 1);
  while (s->known[i] >= 0 && s->buckets[s->known[i]].hash != h) i = (i + 1) & (s->nknown - 1);
  return &s->known[i];
}

/* ---- one elimination */

static void add_table(Solver *s, Table *t) {
  s->alive[s->tables.n] = true;
  for (int i = 0; i < t->n; i++) ARENA_PUSH(s->arena, &s->of_var[t->vars[i]], (int)s->tables.n);
  ARENA_PUSH(s->arena, &s->tables, t);
}

/* Scope, classes and offsets; those of an equal bucket that is known.  Returns its index, or -1. */
static int prepare_bucket(Solver *s, Bucket *b) {
  find_scope(s->arena, b);
  b->hash = bucket_hash(b);
  int known = *find_known(s, b->hash);
  if (known < 0 || !same_bucket(&s->buckets[known], b)) {
    find_classes(s->p, s->arena, b);
    return -1;
  }
  b->classes = s->buckets[known].classes;
  b->maps = s->buckets[known].maps;
  b->offsets = s->buckets[known].offsets;
  return known;
}

/* Eliminates the variable of a prepared bucket; scalar or frontier tables. */
static bool eliminate_bucket(Solver *s, Bucket *b, int known) {
  Table *out = bucket_result(s->arena, b);
  if (known >= 0) {
    const int *vars = out->vars;
    *out = *s->buckets[known].result;
    out->vars = vars;
  } else {
    if (!s->frontier) out->table = minimise(b, b->own, s->arena, out->entries);
    else if (!frontier_tables(s, b, out)) return false;
    *find_known(s, b->hash) = s->nbuckets;
  }
  out->bucket = s->nbuckets;
  b->result = out;
  s->buckets[s->nbuckets++] = *b;
  if (out->n) add_table(s, out);
  else if (s->frontier) ARENA_PUSH(s->arena, &s->constants, s->nbuckets - 1);
  else s->constant += out->table[0];
  return true;
}

/* Splits a bucket that is too large: each part takes factors while its work stays under the cap. */
static bool eliminate_split(Solver *s, const Bucket *whole) {
  const Table **left = ARENA_ARRAY(s->arena, const Table *, whole->nfactors);
  int n = whole->nfactors;
  bool first = true;
  memcpy(left, whole->factors, sizeof *left * (size_t)n);
  s->split = true;
  while (n) {
    Bucket part = *whole;
    int kept = 0, known = -1;
    part.factors = ARENA_ARRAY(s->arena, const Table *, n);
    part.nfactors = 0;
    if (!first) part.own = part.time = s->zeros, part.memory = NULL;
    for (int f = 0; f < n; f++) {
      Bucket trial = part;
      trial.factors = ARENA_ARRAY(s->arena, const Table *, part.nfactors + 1);
      if (part.nfactors) memcpy(trial.factors, part.factors, sizeof *left * (size_t)part.nfactors);
      trial.factors[trial.nfactors++] = left[f];
      int trial_known = prepare_bucket(s, &trial);
      if (part.nfactors == 0 || bucket_work(&trial) <= s->p->table_cap) part = trial, known = trial_known;
      else left[kept++] = left[f];
    }
    n = kept;
    if (!eliminate_bucket(s, &part, known)) return false;
    first = false;
  }
  return true;
}

bool solver_eliminate(Solver *s, int var) {
  Bucket b = {.var = var, .domain = s->p->domain[var], .time = s->p->time[var], .memory = s->p->memory ? s->p->memory[var] : NULL};
  double *own = ARENA_ARRAY(s->arena, double, b.domain);
  for (int v = 0; v < b.domain; v++) own[v] = b.time[v] + (b.memory ? s->lambda * b.memory[v] : 0);
  b.own = own;
  b.factors = ARENA_ARRAY(s->arena, const Table *, s->of_var[var].n + 1);
  for (size_t i = 0; i < s->of_var[var].n; i++) {
    int t = s->of_var[var].items[i];
    if (!s->alive[t]) continue;
    s->alive[t] = false;
    b.factors[b.nfactors++] = s->tables.items[t];
  }
  s->first_bucket[var] = s->nbuckets;
  int known = prepare_bucket(s, &b);
  bool ok = b.nfactors > 1 && bucket_work(&b) > s->p->table_cap ? !s->frontier && eliminate_split(s, &b) : eliminate_bucket(s, &b, known);
  s->last_bucket[var] = s->nbuckets;
  return ok;
}

void solver_start(Solver *s, const SolveProblem *p, Arena *a, const int *order) {
  *s = (Solver){.p = p, .arena = a, .order = order};
  /* Every bucket lowers the sum of the tables' scopes, so there are at most this many. */
  size_t most = (size_t)p->nvars + 16;
  for (size_t f = 0; f < p->nfactors; f++) most += (size_t)p->factors[f].n;
  s->alive = ARENA_ARRAY(a, bool, most + p->nfactors);
  s->of_var = arena_alloc(a, sizeof *s->of_var * (size_t)p->nvars);
  s->buckets = ARENA_ARRAY(a, Bucket, most);
  s->first_bucket = ARENA_ARRAY(a, int, p->nvars);
  s->last_bucket = ARENA_ARRAY(a, int, p->nvars);
  for (s->nknown = 64; s->nknown < 2 * most;) s->nknown *= 2;
  s->known = ARENA_ARRAY(a, int, s->nknown);
  for (size_t i = 0; i < s->nknown; i++) s->known[i] = -1;
  int widest = 1;
  for (int v = 0; v < p->nvars; v++) widest = p->domain[v] > widest ? p->domain[v] : widest;
  s->zeros = ARENA_ARRAY(a, double, widest);
  for (size_t f = 0; f < p->nfactors; f++) {
    const SolveFactor *k = &p->factors[f];
    Table *t = ARENA_NEW(a, Table);
    *t = (Table){.n = k->n, .vars = k->vars, .maps = k->maps, .classes = k->classes, .table = k->table};
    add_table(s, t);
  }
}

size_t table_entry(const Table *t, const int *values) {
  size_t at = 0;
  for (int i = 0; i < t->n; i++) at = at * (size_t)t->classes[i] + (size_t)t->maps[i][values[t->vars[i]]];
  return at;
}

static double entry(const Table *t, const int *values) { return t->table[table_entry(t, values)]; }

/* Values in the opposite order: everything a bucket depends on is known by then. */
static void assign(const Solver *s, int *values) {
  for (int k = s->p->nvars - 1; k >= 0; k--) {
    int var = s->order[k], best = 0;
    double least = INFINITY;
    const Bucket *first = &s->buckets[s->first_bucket[var]];
    for (int v = 0; v < s->p->domain[var]; v++) {
      values[var] = v;
      double sum = first->own[v];
      for (int i = s->first_bucket[var]; i < s->last_bucket[var]; i++)
        for (int f = 0; f < s->buckets[i].nfactors && sum < least; f++) sum += entry(s->buckets[i].factors[f], values);
      if (sum < least) least = sum, best = v;
    }
    values[var] = best;
  }
}

/* ---- evaluation and improvement of a whole assignment */

double solve_evaluate(const SolveProblem *p, const int *values, double *memory) {
  double time = *memory = 0;
  for (int v = 0; v < p->nvars; v++) {
    time += p->time[v][values[v]];
    if (p->memory && p->memory[v]) *memory += p->memory[v][values[v]];
  }
  for (size_t f = 0; f < p->nfactors; f++) {
    const SolveFactor *k = &p->factors[f];
    time += entry(&(Table){.n = k->n, .vars = k->vars, .maps = k->maps, .classes = k->classes, .table = k->table}, values);
  }
  return time;
}

static double around(const Solver *s, int var, const int *values) {
  const SolveProblem *p = s->p;
  double sum = p->time[var][values[var]] + (p->memory && p->memory[var] ? s->lambda * p->memory[var][values[var]] : 0);
  for (size_t i = 0; i < s->of_var[var].n; i++) {
    int t = s->of_var[var].items[i];
    if ((size_t)t < p->nfactors) sum += entry(s->tables.items[t], values);
  }
  return sum;
}

/* Coordinate descent; used only when a bucket was split. */
static void descend(const Solver *s, int *values) {
  bool better = true;
  for (int sweep = 0; better && sweep < 20; sweep++) {
    better = false;
    for (int var = 0; var < s->p->nvars; var++) {
      int best = values[var];
      double least = around(s, var, values);
      for (int v = 0; v < s->p->domain[var]; v++) {
        values[var] = v;
        double sum = around(s, var, values);
        if (sum < least * (1 - 1e-12)) least = sum, best = v, better = true;
      }
      values[var] = best;
    }
  }
}

/* ---- one scalar solution for time + lambda * memory */

typedef struct Point {
  bool feasible, split;
  double bound; /* of the weighted sum */
  double time, memory;
  int *values;
} Point;

static Point solve_weighted(const SolveProblem *p, const int *order, double lambda, Arena *out) {
  Arena *a = arena_new();
  Solver s;
  solver_start(&s, p, a, order);
  s.lambda = lambda;
  for (int k = 0; k < p->nvars; k++) solver_eliminate(&s, order[k]);
  Point r = {.feasible = s.constant < INFINITY, .split = s.split, .bound = s.constant, .values = ARENA_ARRAY(out, int, p->nvars)};
  if (r.feasible) {
    assign(&s, r.values);
    if (s.split) descend(&s, r.values);
    r.time = solve_evaluate(p, r.values, &r.memory);
    r.feasible = r.time < INFINITY;
  }
  arena_free(a);
  return r;
}

/* ---- with a memory limit */

static void keep(SolveResult *r, const Point *x, double limit) {
  if (x->feasible && x->memory <= limit && (!r->feasible || x->time < r->time)) {
    r->feasible = true;
    r->time = x->time;
    r->memory = x->memory;
    r->values = x->values;
  }
}

static bool above(const SolveProblem *p, double bound) { return p->stop_above > 0 && bound > p->stop_above; }

/* The facets of the lower hull around the limit, by secants: each solution is a vertex, so the sweep ends. */
static bool sweep(const SolveProblem *p, const int *order, Point over, SolveResult *r, Arena *a) {
  const double steep = 1e6; /* seconds per byte: the least memory comes first */
  Point under = solve_weighted(p, order, steep, a);
  if (!under.feasible || under.memory > p->memory_limit) return !under.split;
  keep(r, &under, p->memory_limit);
  r->lower_bound = over.bound;
  for (int i = 0; i < 60; i++) {
    double lambda = (under.time - over.time) / (over.memory - under.memory);
    if (!(lambda > 0) || !(lambda < INFINITY)) break;
    Point x = solve_weighted(p, order, lambda, a);
    if (!x.feasible) break;
    keep(r, &x, p->memory_limit);
    double bound = x.bound - lambda * p->memory_limit;
    if (bound > r->lower_bound) r->lower_bound = bound;
    if (above(p, r->lower_bound)) return true;
    bool vertex = x.time + lambda * x.memory < (over.time + lambda * over.memory) * (1 - 1e-12);
    if (!vertex) break;
    if (x.memory > p->memory_limit) over = x;
    else under = x;
  }
  return true;
}

SolveResult solve(const SolveProblem *p, Arena *arena) {
  SolveResult r = {0};
  int *order = elimination_order(p, arena);
  Point free_choice = solve_weighted(p, order, 0, arena);
  r.lower_bound = free_choice.bound;
  if (!free_choice.feasible) {
    r.exact = !free_choice.split;
    return r;
  }
  keep(&r, &free_choice, p->memory_limit);
  if (r.feasible) {
    r.exact = !free_choice.split;
    if (r.exact) r.lower_bound = r.time;
    return r;
  }
  if (!sweep(p, order, free_choice, &r, arena)) return r;
  r.exact = true;
  if (!r.feasible) return r;
  if (above(p, r.lower_bound)) {
    r.exact = false;
    return r;
  }
  if (r.lower_bound < r.time * (1 - 1e-9)) r.exact = frontier_solve(p, order, &r, arena);
  if (r.exact) r.lower_bound = r.time;
  return r;
}
