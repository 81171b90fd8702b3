/* passes/cost/comm.c - see comm.h.
 *
 * A ring visits its ranks block by block.  Of its n - 1 steps (2(n - 1) for an all-reduce), one per block of the tier
 * below crosses a tier's links; n/(n-1) of the bytes pass every rank, and the links that leave a block carry the rings
 * of all its ranks together.  A tree moves the whole buffer up and down (a tree of two only exchanges it), and forms a
 * chain inside a host.  With reduction in the switches, every rank sends and receives the buffer once inside a block,
 * and the blocks form a tree.  This is NCCL's own model (src/graph/tuning.cc) with tiers in place of "node" and
 * "network".
 */
#include "passes/cost/comm.h"

#include <math.h>
#include <string.h>

CommGroup cost_group_block(const Target *t, int n) {
  CommGroup g = {{0}};
  for (int i = 0; i < t->ntiers; i++) g.inside[i] = n < t->tiers[i].group ? n : t->tiers[i].group;
  return g;
}

/* ---- a group on the tiers it uses */

typedef struct Level {
  const TargetTier *tier;
  int below, blocks; /* ranks in each block that this tier joins, and the number of blocks */
} Level;

typedef struct Levels {
  int n, ranks, host; /* host: ranks of one operating system */
  bool innermost;     /* the first level is the innermost tier of the target */
  Level items[MAX_TIERS];
} Levels;

static Levels levels_of(const Target *t, const CommGroup *g) {
  Levels l = {.ranks = 1, .host = t->nodes > 0 && t->ranks > t->nodes ? t->ranks / t->nodes : 1};
  for (int i = 0; i < t->ntiers; i++) {
    int inside = g->inside[i];
    if (inside <= l.ranks) continue;
    l.innermost |= i == 0;
    l.items[l.n++] = (Level){&t->tiers[i], l.ranks, (inside + l.ranks - 1) / l.ranks};
    l.ranks = inside;
  }
  return l;
}

/* Returns the bytes per second of a rank's links; a rank with few partners may not use all of them. */
static double link_rate(const Level *l) {
  double pairs = l->tier->pair * (l->blocks - 1);
  return l->tier->pair > 0 && pairs < l->tier->bandwidth ? pairs : l->tier->bandwidth;
}

/* Finds the figures of a protocol on a tier; false if the tier does not have it. */
static bool protocol_on(const TargetTier *tier, Algorithm algorithm, const char *name, Protocol *out) {
  if (tier->nprotocols == 0) {
    *out = (Protocol){algorithm, name, 0, tier->latency, 1, INFINITY};
    return algorithm == ALG_RING || algorithm == ALG_DIRECT;
  }
  for (int i = 0; i < tier->nprotocols; i++)
    if (tier->protocols[i].algorithm == algorithm && strcmp(tier->protocols[i].name, name) == 0)
      return *out = tier->protocols[i], true;
  return false;
}

typedef struct Path {
  const Levels *levels;
  Protocol on[MAX_TIERS];
} Path;

/* Returns the seconds per byte on level i if `factor` times the buffer of every rank crosses the links of its block at
 * the same time. */
static double shared_byte(const Path *p, int i, double factor) {
  const Level *l = &p->levels->items[i];
  return factor / fmin(link_rate(l) * p->on[i].share * l->below, p->on[i].most);
}

/* ---- algorithms */

static CommWay ring(const Path *p, int rounds) {
  const Levels *l = p->levels;
  double n = l->ranks, crossed = 0, volume = rounds * (n - 1) / n;
  CommWay way = {p->on[0].base, 0};
  for (int i = l->n - 1; i >= 0; i--) {
    double steps = n / l->items[i].below - crossed - (i == 0);
    crossed += steps;
    way.fixed += rounds * steps * p->on[i].step;
    way.per_byte = fmax(way.per_byte, shared_byte(p, i, volume));
  }
  return way;
}

static CommWay tree(const Path *p) {
  const Levels *l = p->levels;
  CommWay way = {p->on[0].base, 0};
  for (int i = 0; i < l->n; i++) {
    int k = l->items[i].blocks;
    double chain = i == 0 && l->innermost ? fmin(k, l->host) : 1, hosts = ceil(k / chain);
    way.fixed += 2 * (chain - 1 + ceil(log2(hosts))) * p->on[i].step;
    way.per_byte = fmax(way.per_byte, shared_byte(p, i, k == 2 && (i > 0 || l->n == 1) ? 1 : 2));
  }
  return way;
}

static CommWay switched(const Path *p) {
  const Levels *l = p->levels;
  CommWay way = {p->on[0].base, shared_byte(p, 0, 1)};
  for (int i = 1; i < l->n; i++) {
    int k = l->items[i].blocks;
    way.fixed += 2 * ceil(log2(k)) * p->on[i].step;
    way.per_byte = fmax(way.per_byte, shared_byte(p, i, k == 2 ? 1 : 2));
  }
  return way;
}

/* Every rank sends to all others: the bytes for other blocks cross each rank's share of the links between blocks. */
static CommWay direct(const Path *p, bool whole) {
  const Levels *l = p->levels;
  CommWay way = {p->on[0].base, 0};
  for (int i = 0; i < l->n; i++) {
    const Level *x = &l->items[i];
    double peers = x->below * (x->blocks - 1), rate = fmin(link_rate(x) * p->on[i].share, p->on[i].most);
    way.fixed += peers * p->on[i].step;
    way.per_byte = fmax(way.per_byte, (whole && i == l->n - 1 ? 1 : peers / l->ranks) / rate);
  }
  return way;
}

static void add(CommCosts *c, CommKind kind, CommWay way) { c->ways[kind][c->nways[kind]++] = way; }

static void add_ways(CommCosts *c, const Path *p, Algorithm algorithm) {
  switch (algorithm) {
    case ALG_RING:
      add(c, COMM_all_reduce, ring(p, 2));
      add(c, COMM_all_gather, ring(p, 1));
      add(c, COMM_reduce_scatter, ring(p, 1));
      break;
    case ALG_TREE: add(c, COMM_all_reduce, tree(p)); break;
    case ALG_SWITCHED:
      if (p->levels->innermost) add(c, COMM_all_reduce, switched(p));
      break;
    case ALG_DIRECT:
      add(c, COMM_all_to_all, direct(p, false));
      add(c, COMM_exchange, direct(p, true));
      break;
  }
}

static void try_way(CommCosts *c, const Levels *l, Algorithm algorithm, const char *name) {
  Path p = {.levels = l};
  for (int i = 0; i < l->n; i++)
    if (!protocol_on(l->items[i].tier, algorithm, name, &p.on[i])) return;
  add_ways(c, &p, algorithm);
}

/* Returns the tier whose protocols list the available algorithms: the innermost tier that has any. */
static const TargetTier *named_tier(const Levels *l) {
  for (int i = 0; i < l->n; i++)
    if (l->items[i].tier->nprotocols) return l->items[i].tier;
  return NULL;
}

CommCosts cost_comms(const Target *t, const CommGroup *g) {
  Levels l = levels_of(t, g);
  CommCosts c = {.n = l.ranks};
  if (l.n == 0) return c;
  const TargetTier *tier = named_tier(&l);
  if (!tier) {
    try_way(&c, &l, ALG_RING, "");
    try_way(&c, &l, ALG_DIRECT, "");
    for (int k = 0; k < COMM_KIND_COUNT; k++)
      for (int i = 0; i < c.nways[k]; i++) c.ways[k][i].fixed += t->launch;
    return c;
  }
  for (int i = 0; i < tier->nprotocols; i++) try_way(&c, &l, tier->protocols[i].algorithm, tier->protocols[i].name);
  return c;
}

double cost_comm_seconds(const CommCosts *c, CommKind kind, double bytes) {
  double best = INFINITY;
  if (c->n < 2) return 0;
  for (int i = 0; i < c->nways[kind]; i++)
    best = fmin(best, c->ways[kind][i].fixed + bytes * c->ways[kind][i].per_byte);
  return best;
}

double cost_send_seconds(const Target *t, int span, double bytes) {
  const TargetTier *tier = target_tier(t, span);
  double rate = tier->pair > 0 ? tier->pair : tier->bandwidth, best = INFINITY;
  if (!tier->nprotocols) return t->launch + tier->latency + bytes / rate;
  for (int i = 0; i < tier->nprotocols; i++) {
    const Protocol *p = &tier->protocols[i];
    if (p->algorithm == ALG_DIRECT) best = fmin(best, p->base + p->step + bytes / fmin(rate * p->share, p->most));
  }
  return best;
}

double cost_send_least(const Target *t, int span, double bytes) {
  double least = t->nkinds ? INFINITY : cost_send_seconds(t, span, bytes);
  for (int i = 0; i < t->nkinds; i++) least = fmin(least, cost_send_seconds(t->kinds[i], span, bytes));
  return least;
}
