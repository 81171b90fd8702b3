/* passes/search/graph.c - see graph.h.  Domains are made once per class of operations, tables once per class of
 * fan-outs. */
#include "passes/search/graph.h"

#include <math.h>
#include <string.h>

#include "base/die.h"
#include "passes/lower/walk.h"
#include "passes/search/domain.h"
#include "solver/set.h"
#include "solver/shares.h"

/* A table that equal surroundings share. */
typedef struct Shared {
  const Domain *producer;
  int result; /* of the producer */
  int nusers;
  const Domain *const *users;
  const int *masks;  /* of operands, by user */
  const Domain *own; /* what users ask for that have the producer's variable; NULL: none has */
  int own_mask;
  bool output;
  const Op *joined;   /* the only user, when it joins the producer: it pays when it does not get the value as it is */
  SolveFactor factor; /* without vars */
} Shared;

/* The tables of a class of fan-outs: one over all variables, or one per user: when there are many, with a variable for
 * the set of layouts between them and the producer; when one table is too large, with shares and a rest. */
typedef struct FanTables {
  bool made, split;
  int choosing; /* users that may ask for different layouts */
  int sets;     /* values of `middle` */
  SolveFactor whole;
  const Domain *middle; /* split: the variable between; NULL: none */
  SolveFactor first;    /* split: producer and middle, or the producer alone */
  SolveFactor *each;    /* split: by slot */
  int nslots;           /* variables of users, the producer's last; by slot a user that has it */
  const int *slots;
  bool own;          /* the last slot has the producer's */
  FanShares *shares; /* NULL: nobody pays a share */
  SolveFactor rest;  /* what the shares leave out */
} FanTables;

/* Values of a domain that no table tells apart: numbered by first appearance. */
typedef struct Classes {
  const Domain *domain;
  int mask, result;  /* of operands; 0: of that result */
  const Domain *own; /* and of these operands; NULL: none */
  int own_mask;
  int n;
  int *map;   /* by value */
  int *first; /* by class: a value that has it */
} Classes;

/* The variable between the producer of a value and its users. */
typedef struct Between {
  int variable;
  const FanOut *fan;
} Between;

/* Tables of two operations: what has one layout, or one variable then; a sum of gradients and what makes the value. */
typedef struct Tie {
  const Domain *domains[2];
  bool same;          /* variable */
  SolveFactor factor; /* without vars */
} Tie;

/* The operands of several users with one variable, as if of one. */
typedef struct Union {
  int n;
  const Domain *const *users;
  const int *masks;
  Domain *all; /* its mask is all operands */
} Union;

struct Graph {
  GraphInput in;
  Arena *arena;
  int *variable;    /* by operation; -1: none */
  Domain **domains; /* by class of operations */
  FanTables *fans;  /* by class of fan-outs */
  struct {
    Shared *items;
    size_t n, cap;
  } shared;
  struct {
    Classes *items;
    size_t n, cap;
  } classes;
  struct {
    Tie *items;
    size_t n, cap;
  } ties;
  struct {
    Union *items;
    size_t n, cap;
  } unions;
  struct {
    SolveFactor *items;
    size_t n, cap;
  } factors, rests;
  struct {
    int *items;
    size_t n, cap;
  } sizes;
  struct {
    const double **items;
    size_t n, cap;
  } times, memories;
  struct {
    Between *items;
    size_t n, cap;
  } between;
  SolveProblem problem;
};

static Domain *domain_at(const Graph *g, size_t op) { return g->domains[g->in.shape->class[op]]; }

/* ---- conversions */

static Classes classes_with(Graph *g, const Domain *d, int mask, int result, const Domain *own, int own_mask) {
  const Layout *const *lists[2 * MAX_OPERANDS + 1];
  int nlists = 0;
  for (size_t i = 0; i < g->classes.n; i++) {
    const Classes *c = &g->classes.items[i];
    if (c->domain == d && c->mask == mask && c->result == result && c->own == own && c->own_mask == own_mask) return *c;
  }
  if (!mask) lists[nlists++] = d->results[result];
  for (int i = 0; mask >> i; i++)
    if (mask >> i & 1) lists[nlists++] = d->operands[i];
  for (int i = 0; own_mask >> i; i++)
    if (own_mask >> i & 1) lists[nlists++] = own->operands[i];
  Classes c = {d, mask, result, own, own_mask, 0, ARENA_ARRAY(g->arena, int, d->n), ARENA_ARRAY(g->arena, int, d->n)};
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
  ARENA_PUSH(g->arena, &g->classes, c);
  return c;
}

static Classes classes_of(Graph *g, const Domain *d, int mask, int result) {
  return classes_with(g, d, mask, result, NULL, 0);
}

/* The conversions of a fan-out: from every layout of the producer to every one that users ask for, or that an output
 * has. */
typedef struct Wanted {
  int n;
  const Layout **to;
  double *seconds; /* by class of the producer, layout */
  int **lists;     /* by user: for each class the layouts it asks for, `width` of them */
  int *width;
  int *output; /* by class of the producer */
  int *own;    /* the same: what users with its variable ask for, `own_width` layouts each */
  int own_width;
} Wanted;

static int want(Wanted *w, const Layout *l) {
  int i = 0;
  while (i < w->n && w->to[i] != l) i++;
  if (i == w->n) w->to[w->n++] = l;
  return i;
}

static const Layout *output_layout(const Graph *g, const Layout *made) {
  const Layout *l = walk_output(g->in.m, made);
  return g->in.symmetry ? symmetry_layout(g->in.symmetry, l) : l;
}

static void list_wanted(Graph *g, const Shared *s, const Classes *c, Wanted *w) {
  const Layout *tuple[MAX_OPERANDS];
  int most = s->output ? c[0].n : 0;
  most += c[0].n * __builtin_popcount((unsigned)s->own_mask);
  for (int i = 0; i < s->nusers; i++) most += c[i + 1].n * __builtin_popcount((unsigned)s->masks[i]);
  *w = (Wanted){.to = ARENA_ARRAY(g->arena, const Layout *, most + 1),
                .lists = ARENA_ARRAY(g->arena, int *, s->nusers + 1),
                .width = ARENA_ARRAY(g->arena, int, s->nusers + 1)};
  for (int i = 0; i < s->nusers; i++) {
    w->width[i] = __builtin_popcount((unsigned)s->masks[i]);
    w->lists[i] = ARENA_ARRAY(g->arena, int, c[i + 1].n * w->width[i]);
    for (int k = 0; k < c[i + 1].n; k++) {
      domain_collect(s->users[i], s->masks[i], c[i + 1].first[k], tuple, 0);
      for (int j = 0; j < w->width[i]; j++) w->lists[i][k * w->width[i] + j] = want(w, tuple[j]);
    }
  }
  w->output = ARENA_ARRAY(g->arena, int, c[0].n);
  for (int k = 0; k < c[0].n && s->output; k++)
    w->output[k] = want(w, output_layout(g, s->producer->results[s->result][c[0].first[k]]));
  w->own_width = __builtin_popcount((unsigned)s->own_mask);
  w->own = ARENA_ARRAY(g->arena, int, c[0].n * w->own_width + 1);
  for (int k = 0; k < c[0].n && s->own; k++) {
    domain_collect(s->own, s->own_mask, c[0].first[k], tuple, 0);
    for (int j = 0; j < w->own_width; j++) w->own[k * w->own_width + j] = want(w, tuple[j]);
  }
}

/* What it costs on a mesh to have each layout, of those that stand for it the cheapest. */
static void price_on(Graph *g, CostModel *cost, const Type *type, const Shared *s, const Layout *from, const Wanted *w,
                     double *seconds) {
  Arena *a = arena_new();
  Symmetry *exchange = g->in.symmetry;
  const Layout **all = ARENA_ARRAY(a, const Layout *, w->n *(exchange ? MAX_EXCHANGES : 1) + 1);
  int *behind = ARENA_ARRAY(a, int, w->n + 1), n = 0;
  for (int i = 0; i < w->n; i++) {
    if (exchange) n += symmetry_layouts(exchange, w->to[i], all + n);
    else all[n++] = w->to[i];
    behind[i] = n;
  }
  double *each = ARENA_ARRAY(a, double, n + 1);
  cost_convert_all(cost, type, from, n, all, each);
  for (int i = 0, k = 0; i < w->n; i++)
    for (seconds[i] = INFINITY; k < behind[i]; k++) {
      bool apart = s->joined && all[k] != from;
      seconds[i] = fmin(seconds[i], each[k] + (apart ? cost_apart(cost, g->in.f, s->joined, all[k]) : 0));
    }
  arena_free(a);
}

static void price_wanted(Graph *g, const Type *type, const Shared *s, const Classes *c, Wanted *w) {
  double *whole = ARENA_ARRAY(g->arena, double, w->n);
  w->seconds = ARENA_ARRAY(g->arena, double, c[0].n * w->n);
  for (int k = 0; k < c[0].n; k++) {
    const Layout *from = s->producer->results[s->result][c[0].first[k]];
    double *seconds = w->seconds + k * w->n;
    if (solve_watch_work(g->in.watch, 100 * w->n)) break; /* a conversion takes as long as a hundred sums */
    price_on(g, g->in.cost, type, s, from, w, seconds);
    if (g->in.whole) price_on(g, g->in.whole, type, s, from, w, whole);
    for (int i = 0; i < w->n; i++) {
      bool before = s->producer->read_behind && walk_layout_once(g->in.m, from) && walk_layout_once(g->in.m, w->to[i]);
      if (before) seconds[i] *= g->in.before;
      else seconds[i] = fmax(seconds[i] * g->in.repeat, g->in.whole ? whole[i] * g->in.share : 0);
      seconds[i] *= s->producer->conversions;
    }
  }
}

/* Each distinct layout once, converted from the one that is produced: the versions of the walk. */
static double sum_wanted(const Shared *s, const Wanted *w, const int *at, int *seen, int stamp) {
  const double *seconds = w->seconds + at[0] * w->n;
  double sum = 0;
  for (int j = 0; j < w->own_width; j++) {
    int layout = w->own[at[0] * w->own_width + j];
    if (seen[layout] != stamp) sum += seconds[layout];
    seen[layout] = stamp;
  }
  for (int i = 0; i < s->nusers; i++) {
    const int *list = w->lists[i] + at[i + 1] * w->width[i];
    for (int j = 0; j < w->width[i]; j++) {
      if (seen[list[j]] != stamp) sum += seconds[list[j]];
      seen[list[j]] = stamp;
    }
  }
  return s->output && seen[w->output[at[0]]] != stamp ? sum + seconds[w->output[at[0]]] : sum;
}

/* Of the producer, then of the users. */
static Classes *classes_of_fan(Graph *g, const Shared *s) {
  Classes *c = ARENA_ARRAY(g->arena, Classes, s->nusers + 1);
  c[0] = classes_with(g, s->producer, 0, s->result, s->own, s->own_mask);
  for (int i = 0; i < s->nusers; i++) c[i + 1] = classes_of(g, s->users[i], s->masks[i], 0);
  return c;
}

/* The whole fan-out of a value as one table over producer and users. */
static SolveFactor fan_out_table(Graph *g, const Type *type, const Shared *s) {
  int nusers = s->nusers;
  const Classes *c = classes_of_fan(g, s);
  int *classes = ARENA_ARRAY(g->arena, int, nusers + 1), *at = ARENA_ARRAY(g->arena, int, nusers + 1);
  const int **maps = ARENA_ARRAY(g->arena, const int *, nusers + 1);
  size_t entries = 1;
  Wanted w;
  for (int i = 0; i <= nusers; i++) {
    classes[i] = c[i].n;
    maps[i] = c[i].map;
    entries *= (size_t)c[i].n;
  }
  list_wanted(g, s, c, &w);
  price_wanted(g, type, s, c, &w);
  int *seen = ARENA_ARRAY(g->arena, int, w.n + 1);
  double *table = ARENA_ARRAY(g->arena, double, entries);
  for (size_t e = 0; e < entries; e++) {
    if (solve_watch_work(g->in.watch, 1)) break;
    table[e] = sum_wanted(s, &w, at, seen, (int)e + 1);
    for (int i = nusers; i >= 0 && ++at[i] == classes[i]; i--) at[i] = 0;
  }
  return (SolveFactor){.n = nusers + 1, .maps = maps, .classes = classes, .table = table};
}

static bool same_users(const Shared *a, const Shared *b) {
  for (int i = 0; i < a->nusers; i++)
    if (a->users[i] != b->users[i] || a->masks[i] != b->masks[i]) return false;
  return true;
}

static SolveFactor fan_out(Graph *g, const Type *type, Shared s) {
  for (size_t i = 0; i < g->shared.n; i++) {
    const Shared *k = &g->shared.items[i];
    if (k->producer == s.producer && k->result == s.result && k->nusers == s.nusers && k->output == s.output &&
        !k->joined == !s.joined && k->own == s.own && k->own_mask == s.own_mask && same_users(k, &s))
      return k->factor;
  }
  s.factor = fan_out_table(g, type, &s);
  ARENA_PUSH(g->arena, &g->shared, s);
  return s.factor;
}

/* A table of two places. */
static SolveFactor pair_factor(Graph *g, const int *first_map, int first_classes, const int *second_map,
                               int second_classes, const double *table) {
  const int **maps = ARENA_ARRAY(g->arena, const int *, 2);
  int *classes = ARENA_ARRAY(g->arena, int, 2);
  maps[0] = first_map, maps[1] = second_map;
  classes[0] = first_classes, classes[1] = second_classes;
  return (SolveFactor){.n = 2, .maps = maps, .classes = classes, .table = table};
}

static const int *identity_map(Graph *g, int n) {
  int *map = ARENA_ARRAY(g->arena, int, n);
  for (int v = 0; v < n; v++) map[v] = v;
  return map;
}

/* [set][class], 0 or INFINITY: sets that serve the user alike are one class. */
static SolveFactor fits_factor(Graph *g, const Sets *sets, const double *fits, const Classes *user) {
  int n = 0, *map = ARENA_ARRAY(g->arena, int, sets->n);
  double *rows = ARENA_ARRAY(g->arena, double, sets->n * user->n);
  size_t bytes = sizeof *rows * (size_t)user->n;
  for (int s = 0; s < sets->n; s++) {
    int k = 0;
    while (k < n && memcmp(rows + k * user->n, fits + s * user->n, bytes) != 0) k++;
    if (k == n) memcpy(rows + n++ * user->n, fits + s * user->n, bytes);
    map[s] = k;
  }
  return pair_factor(g, map, n, user->map, user->n, rows);
}

/* What has the producer's variable is a user like others where there is a variable between. */
static Shared with_own_as_user(Graph *g, const Shared *s) {
  Shared all = *s;
  const Domain **users = ARENA_ARRAY(g->arena, const Domain *, s->nusers + 1);
  int *masks = ARENA_ARRAY(g->arena, int, s->nusers + 1);
  for (int i = 0; i < s->nusers; i++) users[i] = s->users[i], masks[i] = s->masks[i];
  if (s->own) users[all.nusers] = s->own, masks[all.nusers++] = s->own_mask;
  all.users = users, all.masks = masks;
  all.own = NULL, all.own_mask = 0;
  return all;
}

/* Many users: producer - set of layouts - each user.  False when there are too many sets. */
static bool set_tables(Graph *g, const Type *type, const Shared *given, FanTables *t) {
  const Shared all = with_own_as_user(g, given), *s = &all;
  int nusers = s->nusers, *classes = ARENA_ARRAY(g->arena, int, nusers + 1);
  const Classes *c = classes_of_fan(g, s);
  Wanted w;
  list_wanted(g, s, c, &w);
  price_wanted(g, type, s, c, &w);
  for (int i = 0; i < nusers; i++) classes[i] = c[i + 1].n;
  const Sets *sets = sets_of(g->arena, &(SetInput){.nproducers = c[0].n,
                                                   .nlayouts = w.n,
                                                   .nusers = nusers,
                                                   .seconds = w.seconds,
                                                   .output = s->output ? w.output : NULL,
                                                   .classes = classes,
                                                   .width = w.width,
                                                   .lists = (const int *const *)w.lists,
                                                   .most = g->in.set_cap});
  if (!sets) return false;
  Domain *d = ARENA_NEW(g->arena, Domain);
  *d = (Domain){.n = sets->n, .time = ARENA_ARRAY(g->arena, double, sets->n)};
  t->split = true;
  t->middle = d;
  t->sets = sets->n;
  t->first = pair_factor(g, c[0].map, c[0].n, identity_map(g, sets->n), sets->n, sets->cost);
  t->each = ARENA_ARRAY(g->arena, SolveFactor, nusers);
  for (int i = 0; i < nusers; i++) {
    int same = 0; /* equal users have equal tables */
    while (s->users[same] != s->users[i] || s->masks[same] != s->masks[i]) same++;
    if (same < i) t->each[i] = t->each[same];
    else if (sets->fits[i]) t->each[i] = fits_factor(g, sets, sets->fits[i], &c[i + 1]);
  }
  return true;
}

/* Too large for one table: the producer pays what is certain, each user its share of what it asks for. */
static void share_tables(Graph *g, const Type *type, const Shared *s, FanTables *t) {
  const Classes *c = classes_of_fan(g, s);
  int *classes = ARENA_ARRAY(g->arena, int, s->nusers + 1), *user_classes = classes + 1;
  const int **maps = ARENA_ARRAY(g->arena, const int *, s->nusers + 1);
  Wanted w;
  list_wanted(g, s, c, &w);
  price_wanted(g, type, s, c, &w);
  for (int i = 0; i <= s->nusers; i++) classes[i] = c[i].n, maps[i] = c[i].map;
  t->shares = fan_shares_new(g->arena, &(FanSharesInput){.nproducers = c[0].n,
                                                         .nlayouts = w.n,
                                                         .seconds = w.seconds,
                                                         .output = s->output ? w.output : NULL,
                                                         .own = w.own,
                                                         .own_width = w.own_width,
                                                         .nusers = s->nusers,
                                                         .classes = user_classes,
                                                         .width = w.width,
                                                         .lists = (const int *const *)w.lists});
  t->split = true;
  t->first = (SolveFactor){.n = 1, .maps = maps, .classes = classes, .table = t->shares->certain};
  t->each = ARENA_ARRAY(g->arena, SolveFactor, t->nslots);
  for (int i = 0; i < s->nusers; i++)
    t->each[i] = pair_factor(g, c[0].map, c[0].n, c[i + 1].map, c[i + 1].n, t->shares->tables[i]);
  t->rest =
      (SolveFactor){.n = s->nusers + 1, .maps = maps, .classes = classes, .cost = fan_shares_rest, .of = t->shares};
}

/* The only user, where it joins what makes the value; NULL: there is none. */
static const Op *joined_user(const Graph *g, const FanOut *fan) {
  if (fan->nusers != 1) return NULL;
  const Op *op = &g->in.f->ops.items[fan->users[0]];
  const LegalJoin *join = cost_join(g->in.cost, g->in.f, op);
  return join_is_counted(join) && fan->masks[0] == 1 << join->operand ? op : NULL;
}

/* ---- slots: the variables of the users */

/* Equal lists of layouts count once. */
static void add_lists(Domain *all, const Domain *d, int mask) {
  for (int i = 0; mask >> i; i++) {
    int k = 0;
    if (!(mask >> i & 1)) continue;
    while (k < all->nin && memcmp(all->operands[k], d->operands[i], sizeof *d->operands[i] * (size_t)d->n) != 0) k++;
    if (k == all->nin) all->operands[all->nin++] = d->operands[i];
  }
}

/* The first n of these users have one variable; *mask gets all operands of the result. */
static const Domain *union_of(Graph *g, int n, const Domain *const *users, const int *masks, int *mask) {
  *mask = masks[0];
  if (n == 1) return users[0];
  size_t i = 0;
  for (; i < g->unions.n; i++) {
    const Union *u = &g->unions.items[i];
    bool same = u->n == n;
    for (int k = 0; k < n && same; k++) same = u->users[k] == users[k] && u->masks[k] == masks[k];
    if (same) break;
  }
  if (i == g->unions.n) {
    Domain *all = ARENA_NEW(g->arena, Domain);
    *all = (Domain){.n = users[0]->n, .operands = ARENA_ARRAY(g->arena, const Layout **, n *MAX_OPERANDS)};
    for (int k = 0; k < n; k++) add_lists(all, users[k], masks[k]);
    if (all->nin >= MAX_OPERANDS) die("%d layouts of one value follow one choice", all->nin);
    ARENA_PUSH(g->arena, &g->unions, ((Union){n, users, masks, all}));
  }
  *mask = (int)((1u << g->unions.items[i].all->nin) - 1);
  return g->unions.items[i].all;
}

/* What the users with the variable of operation `as` ask for; NULL: there is none. */
static const Domain *slot_domain(Graph *g, const FanOut *fan, size_t as, int *mask) {
  const Domain **users = ARENA_ARRAY(g->arena, const Domain *, fan->nusers + 1);
  int n = 0, *masks = ARENA_ARRAY(g->arena, int, fan->nusers + 1);
  for (int i = 0; i < fan->nusers; i++)
    if (g->variable[fan->users[i]] == g->variable[as])
      users[n] = domain_at(g, fan->users[i]), masks[n++] = fan->masks[i];
  return n ? union_of(g, n, users, masks, mask) : NULL;
}

/* Fills in the users of a fan-out, by variable. */
static void find_slots(Graph *g, const FanOut *fan, Shared *s, FanTables *t) {
  const Domain **users = ARENA_ARRAY(g->arena, const Domain *, fan->nusers + 1);
  int *masks = ARENA_ARRAY(g->arena, int, fan->nusers + 1), *slots = ARENA_ARRAY(g->arena, int, fan->nusers + 1),
      own = -1;
  for (int i = 0; i < fan->nusers; i++) {
    int variable = g->variable[fan->users[i]], k = 0;
    while (k < i && g->variable[fan->users[k]] != variable) k++;
    if (k < i) continue;
    if (variable == g->variable[fan->producer]) own = i;
    else slots[s->nusers++] = i;
  }
  for (int k = 0; k < s->nusers; k++) users[k] = slot_domain(g, fan, fan->users[slots[k]], &masks[k]);
  s->users = users;
  s->masks = masks;
  t->nslots = s->nusers;
  t->slots = slots;
  t->own = own >= 0;
  if (!t->own) return;
  s->own = slot_domain(g, fan, fan->producer, &s->own_mask);
  slots[t->nslots++] = own;
}

static FanTables *tables_of(Graph *g, const FanOut *fan) {
  FanTables *t = &g->fans[fan->class];
  if (t->made) return t;
  const Type *type = type_of(g->in.f, g->in.f->ops.items[fan->producer].out + (Val)fan->result);
  Shared s = {.producer = domain_at(g, fan->producer), .result = fan->result, .output = fan->output};
  *t = (FanTables){.made = true};
  find_slots(g, fan, &s, t);
  s.joined = joined_user(g, fan);
  double entries = classes_with(g, s.producer, 0, s.result, s.own, s.own_mask).n;
  int choosing = 0; /* users that can ask for different layouts */
  for (int i = 0; i < s.nusers; i++) {
    int classes = classes_of(g, s.users[i], s.masks[i], 0).n;
    choosing += classes > 1;
    entries *= classes;
  }
  t->choosing = choosing;
  bool large = choosing > 0 && t->nslots > 1 && entries > g->in.fan_out_cap;
  if (choosing >= SEARCH_MANY_USERS && set_tables(g, type, &s, t)) return t;
  if (large) share_tables(g, type, &s, t);
  else t->whole = fan_out(g, type, s);
  return t;
}

/* ---- variables and factors */

static SolveFactor with_variables(Graph *g, const SolveFactor *shared, const int *vars) {
  SolveFactor f = *shared;
  f.vars = memcpy(ARENA_ARRAY(g->arena, int, f.n), vars, sizeof *vars * (size_t)f.n);
  return f;
}

static void add_factor(Graph *g, const SolveFactor *shared, const int *vars) {
  ARENA_PUSH(g->arena, &g->factors, with_variables(g, shared, vars));
}

static int add_variable(Graph *g, const Domain *d) {
  ARENA_PUSH(g->arena, &g->sizes, d->n);
  ARENA_PUSH(g->arena, &g->times, domain_total(d));
  ARENA_PUSH(g->arena, &g->memories, domain_total_memory(d));
  return (int)g->sizes.n - 1;
}

static void add_fan(Graph *g, const FanOut *fan) {
  const FanTables *t = tables_of(g, fan);
  int *vars = ARENA_ARRAY(g->arena, int, t->nslots + 1), middle = vars[0] = g->variable[fan->producer];
  for (int i = 0; i < t->nslots; i++) vars[i + 1] = g->variable[fan->users[t->slots[i]]];
  if (!t->split) {
    add_factor(g, &t->whole, vars);
    return;
  }
  if (t->middle) {
    middle = add_variable(g, t->middle);
    ARENA_PUSH(g->arena, &g->between, ((Between){middle, fan}));
  }
  add_factor(g, &t->first, (int[2]){vars[0], middle});
  if (t->shares) ARENA_PUSH(g->arena, &g->rests, with_variables(g, &t->rest, vars));
  for (int i = 0; i < t->nslots; i++)
    if (t->each[i].n) add_factor(g, &t->each[i], (int[2]){middle, vars[i + 1]});
}

/* Both must have one layout: that of what they make, or, for writes, take. */
static SolveFactor pair_table(Graph *g, const Domain *const d[2], bool same_variable) {
  const Layout **layouts[2];
  int n[2] = {d[0]->n, d[1]->n};
  for (int k = 0; k < 2; k++) layouts[k] = d[k]->nout ? d[k]->results[0] : d[k]->operands[0];
  if (same_variable) {
    const int **map = ARENA_ARRAY(g->arena, const int *, 1);
    int *classes = ARENA_ARRAY(g->arena, int, 1);
    double *row = ARENA_ARRAY(g->arena, double, n[0]);
    *map = identity_map(g, *classes = n[0]);
    for (int v = 0; v < n[0]; v++) row[v] = layouts[0][v] == layouts[1][v] ? 0 : INFINITY;
    return (SolveFactor){.n = 1, .maps = map, .classes = classes, .table = row};
  }
  double *table = ARENA_ARRAY(g->arena, double, n[0] * n[1]);
  for (int v = 0; v < n[0] * n[1]; v++) table[v] = layouts[0][v / n[1]] == layouts[1][v % n[1]] ? 0 : INFINITY;
  return pair_factor(g, identity_map(g, n[0]), n[0], identity_map(g, n[1]), n[1], table);
}

static size_t tie_of(const Graph *g, const Domain *const d[2], bool same) {
  size_t i = 0;
  while (i < g->ties.n &&
         !(g->ties.items[i].domains[0] == d[0] && g->ties.items[i].domains[1] == d[1] && g->ties.items[i].same == same))
    i++;
  return i;
}

static void add_pair(Graph *g, LayoutPair pair) {
  const Domain *d[2] = {domain_at(g, pair.first), domain_at(g, pair.second)};
  int vars[2] = {g->variable[pair.first], g->variable[pair.second]};
  size_t i = tie_of(g, d, vars[0] == vars[1]);
  if (i == g->ties.n)
    ARENA_PUSH(g->arena, &g->ties, ((Tie){{d[0], d[1]}, vars[0] == vars[1], pair_table(g, d, vars[0] == vars[1])}));
  add_factor(g, &g->ties.items[i].factor, vars);
}

/* A sum of gradients may only be what fits the strategy of what makes the value; where nothing does, anything. */
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
  return pair_factor(g, identity_map(g, d[0]->n), d[0]->n, identity_map(g, d[1]->n), d[1]->n, table);
}

static void add_sum(Graph *g, size_t head, size_t sum) {
  const Domain *d[2] = {domain_at(g, head), domain_at(g, sum)};
  size_t i = tie_of(g, d, false);
  if (i == g->ties.n)
    ARENA_PUSH(g->arena, &g->ties, ((Tie){{d[0], d[1]}, false, sum_table(g, g->in.shape->class[sum], d)}));
  add_factor(g, &g->ties.items[i].factor, (int[2]){g->variable[head], g->variable[sum]});
}

/* The class of what the first operation of a class follows; -1: nothing. */
static int class_followed(const Graph *g, int c) {
  const Shape *s = g->in.shape;
  size_t i = s->first[c], head = s->mirrors.head[i];
  return head == i ? -1 : s->class[head];
}

static Domain *domain_of_class(Graph *g, int c) {
  const Shape *s = g->in.shape;
  int head = class_followed(g, c);
  size_t sum_of = s->mirrors.sum_of[s->first[c]];
  if (head >= 0) return domain_follow(&g->in, g->arena, c, g->domains[head]);
  if (sum_of != SIZE_MAX) return domain_of_sum(&g->in, g->arena, c, g->domains[s->class[sum_of]]);
  return domain_new(&g->in, g->arena, c);
}

static bool make_domains(Graph *g, const char **why) {
  const Shape *s = g->in.shape;
  for (int c = 0; c < s->nclasses; c++) {
    if (solve_watch_work(g->in.watch, 1e3)) return false;
    g->domains[c] = domain_of_class(g, c);
    if (g->domains[c]->n) continue;
    const Op *op = &g->in.f->ops.items[s->first[c]];
    *why = arena_printf(g->in.m->arena, "%s \"%s\" cannot be cut into %d micro-batches", op_name(op->kind), op->name,
                        g->in.m->mesh.axes[0].size);
    return false;
  }
  return true;
}

/* The sum of the cheapest strategies. */
static double cheapest(const Graph *g) {
  const Shape *s = g->in.shape;
  double sum = 0, *least = ARENA_ARRAY(g->arena, double, s->nclasses);
  for (int c = 0; c < s->nclasses; c++) {
    least[c] = INFINITY;
    for (int v = 0; v < g->domains[c]->n; v++) least[c] = fmin(least[c], domain_total(g->domains[c])[v]);
  }
  for (size_t i = 0; i < g->in.f->ops.n; i++)
    if (s->class[i] >= 0 && s->mirrors.head[i] == i) sum += least[s->class[i]];
  return sum;
}

static void fill(Graph *g) {
  const Shape *s = g->in.shape;
  for (size_t i = 0; i < g->in.f->ops.n; i++) {
    size_t head = s->mirrors.head[i];
    g->variable[i] = s->class[i] < 0 ? -1 : head != i ? g->variable[head] : add_variable(g, domain_at(g, i));
  }
  for (size_t i = 0; i < s->nfans && !solve_watch_work(g->in.watch, 0); i++) add_fan(g, &s->fans[i]);
  for (size_t i = 0; i < s->npairs; i++) add_pair(g, s->pairs[i]);
  for (size_t i = 0; i < g->in.f->ops.n; i++)
    if (s->mirrors.sum_of[i] != SIZE_MAX) add_sum(g, s->mirrors.sum_of[i], i);
}

/* FanShares follow a choice. */
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

const char graph_no_choice[] = "some operation and its gradients cannot be cut alike";

Graph *graph_new(const GraphInput *in, const char **why) {
  Arena *a = arena_new();
  Graph *g = ARENA_NEW(a, Graph);
  *g = (Graph){.in = *in, .arena = a};
  g->variable = ARENA_ARRAY(a, int, in->f->ops.n);
  g->domains = ARENA_ARRAY(a, Domain *, in->shape->nclasses);
  g->fans = ARENA_ARRAY(a, FanTables, in->shape->nfan_classes);
  double start = solve_watch_processor(), least = INFINITY;
  if (make_domains(g, why)) {
    least = cheapest(g);
    if (least == INFINITY) *why = graph_no_choice;
  }
  if (in->report) in->report->domains += solve_watch_processor() - start;
  if (least > in->prune_above || least == INFINITY) {
    arena_free(a);
    return NULL;
  }
  double slack = in->prune_above < INFINITY ? (in->prune_above - least) * (1 + 1e-9) + 1e-12 : INFINITY;
  for (int c = 0; c < in->shape->nclasses; c++)
    if (class_followed(g, c) < 0) domain_prune(g->domains[c], slack, a);
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
    out[i] = g->variable[i] < 0 ? (Strategy){0} : domain_at(g, i)->strategies[values[g->variable[i]]];
}

/* The fan-out whose tables have this variable between producer and users; NULL for that of an operation. */
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
