/* passes/search/fans.c - the tables of a value and its users: the cost of making each wanted layout; see graph.h.
 *
 * A (value, layout) conversion is paid once, however many users want it (D3), so a table covers the producer and all
 * its users.  Values of a domain that no table distinguishes count as one.  If many users may want different layouts, a
 * variable for the set of layouts stands between them and the producer; if one table is too large, the users pay
 * shares.
 */
#include <math.h>
#include <string.h>

#include "base/die.h"
#include "passes/lower/walk.h"
#include "passes/search/tables.h"
#include "solver/set.h"

/* ---- conversions */

/* the work of one conversion, in sums */
static const double work_of_conversion = 40;

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

/* The conversions of a fan-out: from every layout of the producer to every layout that users or an output want. */
typedef struct Wanted {
  int n;
  const Layout **to;
  double *seconds; /* by class of the producer and layout */
  int **lists;     /* by user: for each class the wanted layouts, `width` of them */
  int *width;
  int *output; /* by class of the producer */
  int *own;    /* by class of the producer: layouts that users with its variable want, `own_width` each */
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

/* Prices each wanted layout from each of the producer's layouts, or from the cheapest that stands for it: [n][w->n].
 * Conversions that take `limit` or longer, and impossible ones, count as `limit`. */
static void price_on(Graph *g, const Type *type, const Shared *s, int n, const Layout *const *from, const Wanted *w,
                     double limit, double *seconds) {
  Arena *a = arena_new();
  CostModel *cost = g->in.moves;
  Symmetry *exchange = g->in.symmetry;
  const Layout **all = ARENA_ARRAY(a, const Layout *, w->n *(exchange ? MAX_EXCHANGES : 1) + 1);
  int *ends = ARENA_ARRAY(a, int, w->n + 1), count = 0;
  for (int i = 0; i < w->n; i++) {
    if (exchange) count += symmetry_layouts(exchange, w->to[i], all + count);
    else all[count++] = w->to[i];
    ends[i] = count;
  }
  double *each = ARENA_ARRAY(a, double, (size_t)n *(size_t)count + 1);
  cost_convert_all(cost, type, n, from, count, all, limit, each);
  for (int f = 0; f < n; f++) {
    const double *row = each + (size_t)f * (size_t)count;
    for (int i = 0, k = 0; i < w->n; i++) {
      double least = limit;
      for (; k < ends[i]; k++) {
        bool apart = s->joined && all[k] != from[f];
        if (row[k] < limit) least = fmin(least, row[k] + (apart ? cost_apart(cost, g->in.f, s->joined, all[k]) : 0));
      }
      seconds[f * w->n + i] = least;
    }
  }
  arena_free(a);
}

/* A conversion that takes as long makes every plan slower than the known one.  Entries may count less than once. */
static double limit_of(const Graph *g, const Domain *producer) {
  return g->slack / (fmin(g->in.before, g->in.moves_repeat) * fmin(1, producer->conversions));
}

static void price_wanted(Graph *g, const Type *type, const Shared *s, const Classes *c, double limit, Wanted *w) {
  const int n = c[0].n;
  Arena *a = arena_new();
  const Layout **from = ARENA_ARRAY(a, const Layout *, n + 1);
  w->seconds = ARENA_ARRAY(g->arena, double, n * w->n + 1);
  for (int k = 0; k < n; k++) from[k] = s->producer->results[s->result][c[0].first[k]];
  if (!solve_watch_work(g->in.watch, work_of_conversion * n * w->n))
    price_on(g, type, s, n, from, w, limit, w->seconds);
  bool *once = ARENA_ARRAY(a, bool, w->n + 1);
  for (int i = 0; i < w->n; i++) once[i] = s->producer->read_behind && walk_layout_once(g->in.m, w->to[i]);
  for (int k = 0; k < n; k++) {
    bool made_once = walk_layout_once(g->in.m, from[k]);
    for (int i = 0; i < w->n; i++) {
      double *seconds = &w->seconds[k * w->n + i];
      *seconds *= made_once && once[i] ? g->in.before : g->in.moves_repeat;
      *seconds *= s->producer->conversions;
    }
  }
  arena_free(a);
}

/* Adds the cost of a layout unless it was counted before. */
static double add_layout(const double *seconds, int layout, int *seen, int stamp, double sum) {
  bool first = seen[layout] != stamp;
  seen[layout] = stamp;
  return first ? sum + seconds[layout] : sum;
}

/* Sums each distinct layout once, converted from the produced one, as in the walk.  For one class of the producer and
 * of every user but the last: row[class of the last user]. */
static void sum_wanted(const Shared *s, const Wanted *w, const int *at, int *seen, int stamp, int n, double *row) {
  const double *seconds = w->seconds + at[0] * w->n;
  const int last = s->nusers - 1, output = s->output ? w->output[at[0]] : -1;
  double sum = 0;
  for (int j = 0; j < w->own_width; j++) sum = add_layout(seconds, w->own[at[0] * w->own_width + j], seen, stamp, sum);
  for (int i = 0; i < last; i++)
    for (int j = 0; j < w->width[i]; j++)
      sum = add_layout(seconds, w->lists[i][at[i + 1] * w->width[i] + j], seen, stamp, sum);
  bool given = output < 0 || seen[output] == stamp;
  for (int k = 0; k < n; k++) {
    const int width = last < 0 ? 0 : w->width[last], *list = last < 0 ? NULL : w->lists[last] + k * width;
    bool also = given;
    row[k] = sum;
    for (int j = 0; j < width; j++) {
      bool again = seen[list[j]] == stamp;
      for (int i = 0; i < j && !again; i++) again = list[i] == list[j];
      if (!again) row[k] += seconds[list[j]];
      also |= list[j] == output;
    }
    if (!also) row[k] += seconds[output];
  }
}

/* Classes of the producer, then of the users. */
static Classes *classes_of_fan(Graph *g, const Shared *s) {
  Classes *c = ARENA_ARRAY(g->arena, Classes, s->nusers + 1);
  c[0] = classes_with(g, s->producer, 0, s->result, s->own, s->own_mask);
  for (int i = 0; i < s->nusers; i++) c[i + 1] = classes_of(g, s->users[i], s->masks[i], 0);
  return c;
}

/* Makes one table over the producer and all users of a value. */
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
  price_wanted(g, type, s, c, limit_of(g, s->producer), &w);
  int *seen = ARENA_ARRAY(g->arena, int, w.n + 1);
  double *table = ARENA_ARRAY(g->arena, double, entries);
  const int row = nusers ? classes[nusers] : 1;
  for (size_t e = 0; e < entries; e += (size_t)row) {
    if (solve_watch_work(g->in.watch, row)) break;
    sum_wanted(s, &w, at, seen, (int)(e / (size_t)row) + 1, row, table + e);
    for (int i = nusers ? nusers - 1 : 0; i >= 0 && ++at[i] == classes[i]; i--) at[i] = 0;
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

SolveFactor graph_pair_factor(Graph *g, const int *first_map, int first_classes, const int *second_map,
                              int second_classes, const double *table) {
  const int **maps = ARENA_ARRAY(g->arena, const int *, 2);
  int *classes = ARENA_ARRAY(g->arena, int, 2);
  maps[0] = first_map, maps[1] = second_map;
  classes[0] = first_classes, classes[1] = second_classes;
  return (SolveFactor){.n = 2, .maps = maps, .classes = classes, .table = table};
}

const int *graph_identity_map(Graph *g, int n) {
  int *map = ARENA_ARRAY(g->arena, int, n);
  for (int v = 0; v < n; v++) map[v] = v;
  return map;
}

/* [set][class], 0 or INFINITY; sets that serve the user equally form one class. */
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
  return graph_pair_factor(g, map, n, user->map, user->n, rows);
}

/* With a variable between, users that share the producer's variable become ordinary users. */
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

/* Many users: producer - set of layouts - each user.  False if there are too many sets. */
static bool set_tables(Graph *g, const Type *type, const Shared *given, FanTables *t) {
  const Shared all = with_own_as_user(g, given), *s = &all;
  int nusers = s->nusers, *classes = ARENA_ARRAY(g->arena, int, nusers + 1);
  const Classes *c = classes_of_fan(g, s);
  Wanted w;
  list_wanted(g, s, c, &w);
  price_wanted(g, type, s, c, limit_of(g, s->producer), &w);
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
  t->first = graph_pair_factor(g, c[0].map, c[0].n, graph_identity_map(g, sets->n), sets->n, sets->cost);
  t->each = ARENA_ARRAY(g->arena, SolveFactor, nusers);
  for (int i = 0; i < nusers; i++) {
    int same = 0; /* equal users have equal tables */
    while (s->users[same] != s->users[i] || s->masks[same] != s->masks[i]) same++;
    if (same < i) t->each[i] = t->each[same];
    else if (sets->fits[i]) t->each[i] = fits_factor(g, sets, sets->fits[i], &c[i + 1]);
  }
  return true;
}

/* Too large for one table: the producer pays the certain part, each user its share of the layouts it wants. */
static void share_tables(Graph *g, const Type *type, const Shared *s, FanTables *t) {
  const Classes *c = classes_of_fan(g, s);
  int *classes = ARENA_ARRAY(g->arena, int, s->nusers + 1), *user_classes = classes + 1;
  const int **maps = ARENA_ARRAY(g->arena, const int *, s->nusers + 1);
  Wanted w;
  list_wanted(g, s, c, &w);
  price_wanted(g, type, s, c, limit_of(g, s->producer), &w);
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
    t->each[i] = graph_pair_factor(g, c[0].map, c[0].n, c[i + 1].map, c[i + 1].n, t->shares->tables[i]);
  t->rest =
      (SolveFactor){.n = s->nusers + 1, .maps = maps, .classes = classes, .cost = fan_shares_rest, .of = t->shares};
}

/* Every rank has the whole value: users take parts of it, which take hardly any time and are left out here.  A plan is
 * priced with them. */
static void whole_tables(Graph *g, const Type *type, const Shared *s, FanTables *t) {
  const Classes *c = classes_of_fan(g, s);
  Wanted w;
  list_wanted(g, s, c, &w);
  price_wanted(g, type, s, c, INFINITY, &w);
  t->split = true;
  t->first = graph_row_factor(g, s->producer->n, ARENA_ARRAY(g->arena, double, s->producer->n));
  t->each = ARENA_ARRAY(g->arena, SolveFactor, t->nslots + 1);
  for (int i = 0; i < s->nusers; i++) {
    double *row = ARENA_ARRAY(g->arena, double, c[i + 1].n);
    for (int k = 0; k < c[i + 1].n; k++)
      for (int j = 0; j < w.width[i]; j++)
        if (w.seconds[w.lists[i][k * w.width[i] + j]] == INFINITY) row[k] = INFINITY;
    t->each[i] = graph_pair_factor(g, c[0].map, c[0].n, c[i + 1].map, c[i + 1].n, row);
  }
}

/* Returns the only user if it joins the maker of the value; NULL if there is none. */
static const Op *joined_user(const Graph *g, const FanOut *fan) {
  if (fan->nusers != 1) return NULL;
  const Op *op = &g->in.f->ops.items[fan->users[0]];
  const LegalJoin *join = cost_join(g->in.cost, g->in.f, op);
  return join_is_counted(join) && fan->masks[0] == 1 << join->operand ? op : NULL;
}

/* ---- slots: the variables of the users */

/* Adds lists of layouts; equal lists count once. */
static void add_lists(Domain *all, const Domain *d, int mask) {
  for (int i = 0; mask >> i; i++) {
    int k = 0;
    if (!(mask >> i & 1)) continue;
    while (k < all->nin && memcmp(all->operands[k], d->operands[i], sizeof *d->operands[i] * (size_t)d->n) != 0) k++;
    if (k == all->nin) all->operands[all->nin++] = d->operands[i];
  }
}

/* Returns the domain of the first n users, which share a variable; *mask gets all their operands. */
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

/* Returns the domain of the users with the variable of operation `as`; NULL if there are none. */
static const Domain *slot_domain(Graph *g, const FanOut *fan, size_t as, int *mask) {
  int n = 0, all = 0;
  for (int i = 0; i < fan->nusers; i++) all += g->variable[fan->users[i]] == g->variable[as];
  const Domain **users = ARENA_ARRAY(g->arena, const Domain *, all + 1);
  int *masks = ARENA_ARRAY(g->arena, int, all + 1);
  for (int i = 0; i < fan->nusers; i++)
    if (g->variable[fan->users[i]] == g->variable[as])
      users[n] = graph_domain(g, fan->users[i]), masks[n++] = fan->masks[i];
  return n ? union_of(g, n, users, masks, mask) : NULL;
}

/* Finds the users of a fan-out, by variable. */
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

const FanTables *graph_fan_tables(Graph *g, const FanOut *fan) {
  FanTables *t = &g->fans[fan->class];
  if (t->made) return t;
  const Type *type = type_of(g->in.f, g->in.f->ops.items[fan->producer].out + (Val)fan->result);
  Shared s = {.producer = graph_domain(g, fan->producer), .result = fan->result, .output = fan->output};
  *t = (FanTables){.made = true};
  find_slots(g, fan, &s, t);
  s.joined = joined_user(g, fan);
  double entries = classes_with(g, s.producer, 0, s.result, s.own, s.own_mask).n;
  int choosing = 0; /* users that may want different layouts */
  for (int i = 0; i < s.nusers; i++) {
    int classes = classes_of(g, s.users[i], s.masks[i], 0).n;
    choosing += classes > 1;
    entries *= classes;
  }
  t->choosing = choosing;
  bool large = choosing > 0 && t->nslots > 1 && entries > g->in.fan_out_cap;
  if (g->in.shape->small[fan->producer] && !t->own) return whole_tables(g, type, &s, t), t;
  if (choosing >= SEARCH_MANY_USERS && set_tables(g, type, &s, t)) return t;
  if (large) share_tables(g, type, &s, t);
  else t->whole = fan_out(g, type, s);
  return t;
}
