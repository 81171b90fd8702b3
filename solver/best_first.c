/* solver/best_first.c - finds the optimum where tables had to leave something out: joins that were split, and costs of
 * values that have too many users for one table.
 *
 * Input: a program with whole joins, rests included, so that none of its tables can be formed; and, over the same order
 * of variables, a program whose tables are lower bounds, after a run.  An entry of a whole join is computed on demand:
 * the minimum over the classes of its variable of the inputs' costs plus the entries of its operands, which are
 * computed on demand in turn.  Until then, an operand counts as its lower bound: the tables of the bounds that are made
 * below the entry and used above it.  The search always expands the class with the least known sum, until that class is
 * exact or above the limit that the caller set, at which something else becomes cheaper.  Results are stored by join
 * and entry, and equal joins share them.  So it is an AND/OR search, best first, with mini-bucket tables as its
 * heuristic (Marinescu, Dechter: AND/OR branch-and-bound search, 2009; recursive best-first search: Korf 1993).
 *
 * The search may be stopped early; the bound proved by then is the result.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "solver/private.h"
#include "solver/watch.h"

typedef unsigned __int128 Key;

/* A table that is added to the cost of a class. */
typedef struct Addend {
  const double *table;
  int n;
  const int *places; /* in the join; the variable's place comes last */
  size_t **offsets;  /* by place here, class of the join */
  size_t *variable;  /* by class of the variable; NULL if the table does not depend on the variable */
} Addend;

/* A whole join: how its entries are computed. */
typedef struct Node {
  const Step *step;
  bool known;            /* a table of the bounds gives all entries exactly */
  int **values;          /* by place, class: one value of that class */
  int ninputs, naddends; /* exact addends first, then the bounds of operands */
  Addend *addends;
  int nchildren, nrests;
  struct Child {
    int node, operand;
    int first, n; /* its addends */
  } * children;
  int *rests; /* operands */
} Node;

typedef struct Memo {
  Key key;
  int node;   /* + 1; 0: empty */
  int choice; /* class; -1 if not exact yet */
  double least;
} Memo;

/* Scratch memory for one entry that is being computed. */
typedef struct Level {
  double *certain, *sum; /* by class */
  bool *counted;         /* by class: whether `certain` includes the rests */
  int *at;               /* of a child */
  int *values;
  size_t *base; /* by addend */
} Level;

typedef struct BestFirst {
  StepProgram *whole, *bounds;
  Arena *arena;
  Node *nodes;             /* by step of `whole` */
  struct Pending *pending; /* by elimination of `whole` */
  Memo *memo;
  size_t nmemo, used;
  Level **levels;
  int widest, most_addends, most_places;
  double near; /* how far above the second-best class a class is expanded */
  double work, most_work;
  bool stopped;
} BestFirst;

/* ---- stored results */

static Key key_of(const Step *s, const int *at) {
  Key k = 0;
  for (int i = 0; i < s->n; i++) k *= (unsigned)s->classes[i], k += (unsigned)at[i];
  return k;
}

/* True if every entry of the step has a number of its own. */
static bool can_be_numbered(const Step *s) {
  double bits = 0;
  for (int i = 0; i < s->n; i++) bits += log2(s->classes[i]);
  return bits < 127;
}

static size_t slot_of(const BestFirst *b, Key key, int node) {
  uint64_t h = hash64(&key, sizeof key, (uint64_t)node);
  size_t i = (size_t)h & (b->nmemo - 1);
  while (b->memo[i].node && (b->memo[i].node != node + 1 || b->memo[i].key != key)) i = (i + 1) & (b->nmemo - 1);
  return i;
}

static void grow_memo(BestFirst *b) {
  Memo *old = b->memo;
  size_t n = b->nmemo;
  b->nmemo *= 2;
  b->memo = must_have(calloc(b->nmemo, sizeof *b->memo), "in the search");
  for (size_t i = 0; i < n; i++)
    if (old[i].node) b->memo[slot_of(b, old[i].key, old[i].node - 1)] = old[i];
  free(old);
}

static const Memo *recall(const BestFirst *b, int node, Key key) {
  const Memo *m = &b->memo[slot_of(b, key, node)];
  return m->node ? m : NULL;
}

static void remember(BestFirst *b, int node, Key key, double least, int choice) {
  Memo *m = &b->memo[slot_of(b, key, node)];
  if (!m->node) {
    if (2 * ++b->used > b->nmemo) {
      grow_memo(b);
      m = &b->memo[slot_of(b, key, node)];
    }
    *m = (Memo){key, node + 1, -1, least};
  }
  m->least = least;
  m->choice = choice;
}

/* ---- one entry */

static Level *level_at(BestFirst *b, int depth) {
  if (b->levels[depth]) return b->levels[depth];
  Level *l = b->levels[depth] = ARENA_NEW(b->arena, Level);
  *l = (Level){.certain = ARENA_ARRAY(b->arena, double, b->widest),
               .sum = ARENA_ARRAY(b->arena, double, b->widest),
               .counted = ARENA_ARRAY(b->arena, bool, b->widest),
               .at = ARENA_ARRAY(b->arena, int, b->most_places),
               .values = ARENA_ARRAY(b->arena, int, b->most_places),
               .base = ARENA_ARRAY(b->arena, size_t, b->most_addends)};
  return l;
}

static double addend_at(const Addend *a, size_t base, int class) {
  return a->table[base + (a->variable ? a->variable[class] : 0)];
}

static void begin_entry(BestFirst *b, const Node *n, const int *at, Level *l) {
  const Step *s = n->step;
  int classes = s->classes[s->n];
  memcpy(l->certain, s->least, sizeof *l->certain * (size_t)classes);
  memset(l->counted, 0, sizeof *l->counted * (size_t)classes);
  for (int i = 0; i < s->n; i++) l->values[i] = n->values[i][at[i]];
  for (int k = 0; k < n->naddends; k++) {
    const Addend *a = &n->addends[k];
    size_t base = 0;
    for (int i = 0; i < a->n; i++)
      if (a->places[i] < s->n) base += a->offsets[i][at[a->places[i]]];
    l->base[k] = base;
    double *out = k < n->ninputs ? l->certain : l->sum;
    if (k == n->ninputs) memcpy(l->sum, l->certain, sizeof *l->sum * (size_t)classes);
    for (int c = 0; c < classes; c++) out[c] += addend_at(a, base, c);
  }
  if (n->naddends == n->ninputs) memcpy(l->sum, l->certain, sizeof *l->sum * (size_t)classes);
  b->work += (double)classes * (1 + n->naddends);
}

/* Returns an operand and stores in l->at the classes at which it is read, for a class of the variable. */
static const Operand *read_operand(const Node *n, int operand, Level *l, int class) {
  const Operand *o = &n->step->operands[operand];
  l->values[n->step->n] = n->values[n->step->n][class];
  for (int i = 0; i < o->n; i++) l->at[i] = o->maps[i][l->values[o->places[i]]];
  return o;
}

static double rests_of(const Node *n, Level *l, int class) {
  double sum = 0;
  for (int k = 0; k < n->nrests; k++) {
    const SolveFactor *rest = read_operand(n, n->rests[k], l, class)->rest;
    sum += rest->cost(rest->of, l->at);
  }
  return sum;
}

static double by_terms(const Node *n, const struct Child *child, const Level *l, int class) {
  double sum = 0;
  for (int k = child->first; k < child->first + child->n; k++) sum += addend_at(&n->addends[k], l->base[k], class);
  return sum;
}

/* Key of the entry of a child that a class reads. */
static Key child_entry(const BestFirst *b, const Node *n, const struct Child *child, Level *l, int class) {
  read_operand(n, child->operand, l, class);
  return key_of(b->nodes[child->node].step, l->at);
}

/* Returns the known cost of a class. *open is the first child that is not exact, or -1; *least is its lower bound. */
static double look(const BestFirst *b, const Node *n, Level *l, int class, int *open, double *least) {
  double sum = l->certain[class];
  *open = -1;
  for (int k = 0; k < n->nchildren; k++) {
    const struct Child *child = &n->children[k];
    double part = by_terms(n, child, l, class);
    const Memo *m = recall(b, child->node, child_entry(b, n, child, l, class));
    if (m && (m->choice >= 0 || m->least > part)) part = m->least;
    if ((!m || m->choice < 0) && *open < 0) *open = k, *least = part;
    sum += part;
  }
  return sum;
}

/* Returns the class with the least sum; *next is the second least sum. */
static int least_class(const double *sum, int n, double *next) {
  int best = 0;
  *next = INFINITY;
  for (int c = 1; c < n; c++) {
    if (sum[c] < sum[best]) *next = sum[best], best = c;
    else if (sum[c] < *next) *next = sum[c];
  }
  return best;
}

/* Returns the cost of an entry. *known: it is exact; otherwise it is a lower bound, because the cost exceeds `limit` or
 * time ran out. */
static double evaluate(BestFirst *b, int node, const int *at, double limit, int depth, bool *known) {
  const Node *n = &b->nodes[node];
  const Step *s = n->step;
  Key key = key_of(s, at);
  const Memo *m = recall(b, node, key);
  *known = m && m->choice >= 0;
  if (*known || (m && m->least > limit)) return m->least;
  Level *l = level_at(b, depth);
  double before = m ? m->least : 0;
  int classes = s->classes[s->n], class = -1;
  begin_entry(b, n, at, l);
  for (;;) {
    double next, part = 0;
    int open;
    class = least_class(l->sum, classes, &next);
    b->stopped |= b->work > b->most_work || solve_watch_work(b->bounds->p->watch, classes);
    b->work += classes;
    if (l->sum[class] > limit || b->stopped || l->sum[class] == INFINITY) break;
    if (!l->counted[class]) l->certain[class] += rests_of(n, l, class), l->counted[class] = true;
    double sum = look(b, n, l, class, &open, &part);
    if (sum > l->sum[class] * (1 + 1e-12)) {
      l->sum[class] = sum;
      continue;
    }
    if (open < 0) {
      *known = true;
      l->sum[class] = sum;
      break;
    }
    bool end;
    double up_to = fmin(limit, next + b->near);
    child_entry(b, n, &n->children[open], l, class);
    double found = evaluate(b, n->children[open].node, l->at, up_to - (sum - part), depth + 1, &end);
    l->sum[class] = sum - part + fmax(found, part);
    if (!end && !b->stopped) l->sum[class] = fmax(l->sum[class], up_to * (1 + 1e-12));
  }
  double least = fmax(before, l->sum[class]);
  remember(b, node, key, least, *known ? class : -1);
  return least;
}

/* ---- the nodes */

/* An addend for a table whose places are these places of the join. */
static Addend addend_of(BestFirst *b, const Node *n, const double *table, int nplaces, const int *places,
                        const int *const *maps, const int *classes) {
  const Step *s = n->step;
  Addend a = {.table = table, .n = nplaces, .places = places, .offsets = ARENA_ARRAY(b->arena, size_t *, nplaces + 1)};
  size_t stride = 1;
  for (int i = nplaces - 1; i >= 0; i--) {
    int count = s->classes[places[i]];
    size_t *out = a.offsets[i] = ARENA_ARRAY(b->arena, size_t, count);
    for (int c = 0; c < count; c++) out[c] = stride * (size_t)maps[i][n->values[places[i]][c]];
    if (places[i] == s->n) a.variable = out;
    stride *= (size_t)classes[i];
  }
  return a;
}

static void find_values(BestFirst *b, Node *n, const int *domains) {
  const Step *s = n->step;
  n->values = ARENA_ARRAY(b->arena, int *, s->n + 1);
  for (int i = 0; i <= s->n; i++) {
    n->values[i] = ARENA_ARRAY(b->arena, int, s->classes[i]);
    for (int v = domains[i] - 1; v >= 0; v--) n->values[i][s->maps[i][v]] = v;
  }
}

/* Tables of the bounds that are made at or below an elimination and used above it. */
typedef struct Pending {
  int n, *items; /* eliminations of the bounds */
} Pending;

static Pending pending_at(BestFirst *b, const Elimination *e, const Pending *below) {
  const StepProgram *bounds = b->bounds;
  const Step *s = b->whole->steps[e->step];
  int most = bounds->last[e->var] - bounds->first[e->var];
  for (int f = 0; f < s->noperands; f++)
    if (e->makers[f] >= 0) most += below[e->makers[f]].n;
  Pending out = {0, ARENA_ARRAY(b->arena, int, most + 1)};
  for (int f = 0; f < s->noperands; f++)
    for (int k = 0; e->makers[f] >= 0 && k < below[e->makers[f]].n; k++) {
      int table = below[e->makers[f]].items[k];
      const Elimination *x = &bounds->eliminations[table];
      if (step_place_in(x->scope, bounds->steps[x->step]->n, e->var) < 0) out.items[out.n++] = table;
    }
  for (int i = bounds->first[e->var]; i < bounds->last[e->var]; i++) out.items[out.n++] = i;
  return out;
}

static void add_terms(BestFirst *b, Node *n, const Elimination *e, const Pending *p) {
  for (int k = 0; k < p->n; k++) {
    const Elimination *x = &b->bounds->eliminations[p->items[k]];
    const Step *t = b->bounds->steps[x->step];
    int *places = ARENA_ARRAY(b->arena, int, t->n + 1);
    for (int i = 0; i < t->n; i++)
      places[i] = x->scope[i] == e->var ? n->step->n : step_place_in(e->scope, n->step->n, x->scope[i]);
    n->addends[n->naddends++] = addend_of(b, n, t->table, t->n, places, (const int *const *)t->maps, t->classes);
  }
}

static bool is_known(const BestFirst *b, const Elimination *e, const Pending *p) {
  const StepProgram *bounds = b->bounds;
  const Step *s = b->whole->steps[e->step];
  bool known = bounds->last[e->var] - bounds->first[e->var] == 1 && p->n == 1;
  for (int f = 0; f < s->noperands; f++)
    known &= s->operands[f].step < 0 ? !s->operands[f].rest : b->nodes[s->operands[f].step].known;
  return known;
}

/* Builds the node of a step from the step's first elimination. */
static void make_node(BestFirst *b, const Elimination *e, const Pending *below, const Pending *own) {
  const Step *s = b->whole->steps[e->step];
  const SolveProblem *p = b->whole->p;
  Node *n = &b->nodes[e->step];
  int *domains = ARENA_ARRAY(b->arena, int, s->n + 1), most = s->noperands;
  for (int i = 0; i < s->n; i++) domains[i] = p->domain[e->scope[i]];
  domains[s->n] = s->domain;
  for (int f = 0; f < s->noperands; f++)
    if (e->makers[f] >= 0) most += below[e->makers[f]].n;
  *n = (Node){.step = s,
              .known = is_known(b, e, own),
              .addends = ARENA_ARRAY(b->arena, Addend, most + 1),
              .children = ARENA_ARRAY(b->arena, struct Child, s->noperands + 1),
              .rests = ARENA_ARRAY(b->arena, int, s->noperands + 1)};
  find_values(b, n, domains);
  for (int f = 0; f < s->noperands; f++) {
    const Operand *o = &s->operands[f];
    if (o->rest) n->rests[n->nrests++] = f;
    else if (o->step < 0) n->addends[n->naddends++] = addend_of(b, n, o->input, o->n, o->places, o->maps, o->classes);
    else if (b->nodes[o->step].known) add_terms(b, n, e, &below[e->makers[f]]);
  }
  n->ninputs = n->naddends;
  for (int f = 0; f < s->noperands; f++) {
    const Operand *o = &s->operands[f];
    if (o->step < 0 || b->nodes[o->step].known) continue;
    int first = n->naddends;
    add_terms(b, n, e, &below[e->makers[f]]);
    n->children[n->nchildren++] = (struct Child){o->step, f, first, n->naddends - first};
  }
  if (n->naddends > b->most_addends) b->most_addends = n->naddends;
  if (s->classes[s->n] > b->widest) b->widest = s->classes[s->n];
  if (s->n + 1 > b->most_places) b->most_places = s->n + 1;
}

/* Builds all nodes; false if the entries of some step cannot be numbered. */
static bool make_nodes(BestFirst *b, double lambda) {
  StepProgram *w = b->whole;
  Pending *pending = b->pending = ARENA_ARRAY(b->arena, Pending, w->n + 1);
  b->nodes = ARENA_ARRAY(b->arena, Node, w->nsteps + 1);
  for (int i = 0; i < w->nsteps; i++) {
    if (!can_be_numbered(w->steps[i])) return false;
    step_begin(w->steps[i], lambda, b->arena);
  }
  for (int i = 0; i < w->n; i++) {
    const Elimination *e = &w->eliminations[i];
    pending[i] = pending_at(b, e, pending);
    if (!b->nodes[e->step].step) make_node(b, e, pending, &pending[i]);
  }
  return true;
}

/* ---- the answer */

static int value_of_class(const Step *s, int class, double lambda) {
  int best = -1;
  double least = INFINITY;
  for (int v = 0; v < s->domain; v++) {
    double own = step_own_cost(s, lambda, v);
    if (s->maps[s->n][v] == class && own < least) least = own, best = v;
  }
  return best;
}

static int *choice_of(BestFirst *b, double lambda, Arena *a) {
  const StepProgram *w = b->whole;
  int *values = ARENA_ARRAY(a, int, w->p->nvars), *at = ARENA_ARRAY(b->arena, int, b->most_places);
  for (int i = w->n - 1; i >= 0; i--) {
    const Elimination *e = &w->eliminations[i];
    const Step *s = w->steps[e->step];
    for (int k = 0; k < s->n; k++) at[k] = s->maps[k][values[e->scope[k]]];
    values[e->var] = b->nodes[e->step].known ? elimination_best_value(b->bounds, e->var, values, lambda)
                                             : value_of_class(s, recall(b, e->step, key_of(s, at))->choice, lambda);
  }
  return values;
}

/* Returns the sum of all joins without a scope, as far as it is known. */
static double sum_of_roots(const BestFirst *b, const double *least) {
  double sum = b->whole->p->constant;
  for (int i = 0; i < b->whole->n; i++) sum += least[i];
  return sum;
}

/* Evaluates the joins without a scope, starting from the tables of the bounds; true if all are exact. */
static bool evaluate_roots(BestFirst *b, double most, double *least) {
  const StepProgram *w = b->whole;
  bool all = true;
  for (int i = 0; i < w->n; i++)
    for (int k = 0; k < b->pending[i].n && !w->steps[w->eliminations[i].step]->n; k++)
      least[i] += b->bounds->steps[b->bounds->eliminations[b->pending[i].items[k]].step]->table[0];
  for (int i = 0; i < w->n && !b->stopped; i++) {
    int step = w->eliminations[i].step;
    bool known;
    if (w->steps[step]->n || b->nodes[step].known) continue;
    double rest = sum_of_roots(b, least) - least[i];
    least[i] = fmax(least[i], evaluate(b, step, NULL, most - rest, 0, &known));
    all &= known;
  }
  return all && !b->stopped;
}

double best_first(StepProgram *whole, StepProgram *bounds, double lambda, double most, double near, double *work,
                  int **values) {
  Arena *a = arena_new();
  BestFirst b = {.whole = whole,
                 .bounds = bounds,
                 .arena = a,
                 .nmemo = 1 << 12,
                 .levels = ARENA_ARRAY(a, Level *, whole->n + 2),
                 .near = near,
                 .most_work = *work};
  double *least = ARENA_ARRAY(a, double, whole->n + 1), bound = 0;
  *values = NULL;
  *work = 0;
  b.memo = must_have(calloc(b.nmemo, sizeof *b.memo), "in the search");
  if (make_nodes(&b, lambda)) {
    bool known = evaluate_roots(&b, most, least);
    bound = sum_of_roots(&b, least);
    if (known && bound < INFINITY) *values = choice_of(&b, lambda, whole->arena);
    *work = b.work;
  }
  free(b.memo);
  arena_free(a);
  return bound;
}
