/* frontend/topo/target_build.c - see target_build.h.  A cpu's figures (and its links) are those of the whole machine:
 * its ranks share them evenly, and when there are more ranks than cores every latency grows by that ratio. */
#include "frontend/topo/target_build.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/nearest.h"

/* ---- names */

static void try_names(Nearest *near, const TopoFile *f, TopoKind kind) {
  for (const TopoBlock *b = f->first; b; b = b->next)
    if (b->kind == kind) nearest_try(near, b->name);
}

static const TopoBlock *refer(Diags *d, TopoLibrary *l, TopoKind kind, const TopoValue *v) {
  const TopoBlock *b = library_find(l, kind, v->text);
  if (b) return b;
  Nearest near = nearest_to(v->text);
  library_parse_all(l);
  if (l->own) try_names(&near, l->own, kind);
  for (int i = 0; i < l->nbuiltin; i++) try_names(&near, &l->builtin[i], kind);
  diag_error(d, DIAG_target_syntax, v->loc, "there is no %s '%s'", topo_kind_name(kind), v->text);
  if (near.best) diag_help(d, "the nearest is '%s'", near.best);
  return NULL;
}

static bool add_part(Diags *d, TargetParts *p, const TopoBlock *b) {
  if (!b) return false;
  for (int i = 0; i < p->n; i++)
    if (p->all[i] == b) return true;
  if (p->n == TARGET_PARTS)
    return diag_error(d, DIAG_target_syntax, b->loc, "a machine of more than %d blocks", TARGET_PARTS);
  p->all[p->n++] = b;
  return true;
}

static bool add_named(Diags *d, TopoLibrary *l, TargetParts *p, TopoKind kind, const TopoValue *v) {
  return !v || add_part(d, p, refer(d, l, kind, v));
}

enum { LINK_NAME, LINK_JOINS, LINK_RATE, LINK_PAIR, LINK_LATENCY, LINK_WITH };
enum { NET_NAME, NET_COUNT, NET_RATE, NET_LATENCY, NET_WITH };

/* A block of a kind of device (ir/device.def), by its name. */
static const TopoBlock *find_device(TopoLibrary *l, const char *name) {
  const TopoBlock *b = NULL;
  for (int k = 0; k < DEVICE_KINDS && !b; k++) {
    TopoKind kind;
    if (topo_kind_find(target_device_traits((DeviceKind)k)->name, &kind)) b = library_find(l, kind, name);
  }
  return b;
}

/* Do ranks share the one device of a machine, its cores and memory? */
static bool ranks_share(const TargetParts *p) {
  return target_device_traits_find(topo_kind_name(p->device->kind))->shared_memory;
}

bool topo_target_parts(Diags *d, TopoLibrary *l, const TopoBlock *machine, TargetParts *out) {
  *out = (TargetParts){.machine = machine};
  const TopoValue *name = topo_find(machine, "devices", NULL)->slots[1];
  out->device = find_device(l, name->text);
  if (!out->device) out->device = refer(d, l, TOPO_gpu, name);
  if (!out->device) return false;
  const TopoStatement *kernels = topo_find(out->device, "kernels", NULL),
                      *network = topo_find(machine, "network", NULL);
  if (kernels && !add_named(d, l, out, TOPO_kernels, kernels->slots[0])) return false;
  if (!add_part(d, out, out->device)) return false;
  for (const TopoStatement *s = NULL; (s = topo_find(machine, "link", s));)
    if (!add_named(d, l, out, TOPO_protocols, s->slots[LINK_WITH])) return false;
  if (network && !add_named(d, l, out, TOPO_protocols, network->slots[NET_WITH])) return false;
  return add_part(d, out, machine);
}

static const TopoBlock *part_named(const TargetParts *p, TopoKind kind, const char *name) {
  for (int i = 0; i < p->n; i++)
    if (p->all[i]->kind == kind && strcmp(p->all[i]->name, name) == 0) return p->all[i];
  return NULL;
}

/* ---- figures */

static double figure(const TopoBlock *b, const char *name, int slot, double unknown) {
  const TopoStatement *s = topo_find(b, name, NULL);
  return s && s->slots[slot] ? s->slots[slot]->number : unknown;
}

static const char *word_of(const TopoBlock *b, const char *name, int slot) {
  const TopoStatement *s = topo_find(b, name, NULL);
  return s ? s->slots[slot]->text : NULL;
}

static ComputeType type_of_slot(const TopoValue *v) {
  ComputeType c = CT_f32;
  compute_find(v->text, &c); /* topo_check has seen to it */
  return c;
}

static bool read_kernels(Diags *d, const TopoBlock *b, KernelCosts *out) {
  *out = (KernelCosts){.prologue = figure(b, "prologue", 0, 0),
                       .smoothing = figure(b, "smoothing", 0, 0),
                       .attention = figure(b, "attention", 0, 1),
                       .attention_half = figure(b, "attention", 1, figure(b, "attention", 0, 1)),
                       .assumed = figure(b, "assumed", 0, NAN),
                       .steady = figure(b, "steady", 0, 1),
                       .overlap = figure(b, "overlap", 0, 0),
                       .bandwidth = figure(b, "bandwidth", 0, 1),
                       .ramp = figure(b, "bandwidth", 1, 0)};
  for (int i = 0; i < CT_COUNT; i++) out->sustained[i] = NAN;
  for (const TopoStatement *s = NULL; (s = topo_find(b, "sustained", s));)
    out->sustained[type_of_slot(s->slots[0])] = s->slots[1]->number;
  for (const TopoStatement *s = NULL; (s = topo_find(b, "tile", s));) {
    const TopoValue *t = s->slots[0];
    if (out->ntiles == MAX_TILES) return diag_error(d, DIAG_target_syntax, s->loc, "more than %d tiles", MAX_TILES);
    if (t->number < 1 || t->columns < 1) return diag_error(d, DIAG_target_syntax, t->loc, "a tile of no elements");
    out->tiles[out->ntiles++] = (KernelTile){t->number, t->columns, s->slots[1]->number};
  }
  return true;
}

static bool read_protocols(Diags *d, const TopoBlock *b, TargetTier *tier) {
  static const char *const words[] = {
      [ALG_RING] = "ring", [ALG_TREE] = "tree", [ALG_SWITCHED] = "switched", [ALG_DIRECT] = "direct"};
  for (int k = 0; k < 4; k++)
    for (const TopoStatement *s = NULL; (s = topo_find(b, words[k], s));) {
      if (tier->nprotocols == MAX_PROTOCOLS)
        return diag_error(d, DIAG_target_syntax, s->loc, "more than %d ways", MAX_PROTOCOLS);
      double most = s->slots[4] ? s->slots[4]->number : INFINITY;
      tier->protocols[tier->nprotocols++] = (Protocol){(Algorithm)k,        s->slots[0]->text,   s->slots[1]->number,
                                                       s->slots[2]->number, s->slots[3]->number, most};
    }
  return true;
}

static bool read_tier(Diags *d, const TargetParts *p, const TopoValue *with, Target *t, TargetTier tier) {
  if (t->ntiers == MAX_TIERS)
    return diag_error(d, DIAG_target_syntax, p->machine->loc, "machine '%s' has more than %d tiers of links",
                      p->machine->name, MAX_TIERS);
  if (with && !read_protocols(d, part_named(p, TOPO_protocols, with->text), &tier)) return false;
  t->tiers[t->ntiers++] = tier;
  return true;
}

static void read_device(const TopoBlock *b, double share, double slower, Target *t) {
  t->device = target_device_traits_find(topo_kind_name(b->kind));
  t->part = b->name;
  t->arch = word_of(b, "arch", 0);
  for (int i = 0; i < CT_COUNT; i++) t->flops[i] = NAN;
  for (const TopoStatement *s = NULL; (s = topo_find(b, "peak", s));)
    t->flops[type_of_slot(s->slots[0])] = s->slots[1]->number / share;
  t->memory_bytes = figure(b, "memory", 0, NAN) / share;
  t->memory_bandwidth = figure(b, "memory", 1, NAN) / share;
  t->reserve_bytes = figure(b, "reserve", 0, 0);
  t->launch = figure(b, "launch", 0, NAN) * slower;
  t->host = figure(b, "host", 0, 0);
  t->sms = figure(b, "sms", 0, 0);
  t->clock = figure(b, "clock", 0, NAN);
  t->l2 = figure(b, "l2", 0, NAN);
  t->shared_memory = figure(b, "shared", 0, NAN);
  t->power = figure(b, "power", 0, NAN);
}

/* The length of a name that ends in xRANKS without that; 0 for other names. */
static int named_length(const Diags *d, const char *name, int ranks) {
  const char *end = arena_printf(d->arena, "x%d", ranks);
  size_t n = strlen(name), k = strlen(end);
  return n > k && strcmp(name + n - k, end) == 0 ? (int)(n - k) : 0;
}

static bool ranks_fit(Diags *d, const TargetParts *p, const char *name, int ranks, int per_machine) {
  bool shared = ranks_share(p), network = topo_find(p->machine, "network", NULL) != NULL;
  if (shared)
    return ranks <= MAX_CPU_RANKS ||
           diag_error(d, DIAG_target_ranks, (Loc){0}, "%s: a cpu serves at most %d ranks", name, MAX_CPU_RANKS);
  if (ranks <= per_machine) return true;
  if (!network)
    return diag_error(d, DIAG_target_ranks, (Loc){0},
                      "%s: one %s has %d, and what joins several is not known (it has no network statement)", name,
                      p->machine->name, per_machine);
  if (ranks % per_machine == 0) return true;
  diag_error(d, DIAG_target_ranks, (Loc){0},
             "%s: %d are more than one machine of %d, and not a whole number of machines", name, ranks, per_machine);
  int below = ranks / per_machine * per_machine, n = named_length(d, name, ranks);
  if (n > 0) diag_help(d, "%.*sx%d and %.*sx%d are", n, name, below, n, name, below + per_machine);
  return false;
}

static bool read_links(Diags *d, const TargetParts *p, double share, double slower, Target *t) {
  bool shared = ranks_share(p);
  int joined = 1;
  for (const TopoStatement *s = NULL; (s = topo_find(p->machine, "link", s));) {
    const TopoValue *const *v = s->slots;
    int joins = v[LINK_JOINS] && !shared ? (int)v[LINK_JOINS]->number : t->per_machine;
    if (joins > t->per_machine || (joins <= joined && t->per_machine > 1))
      return diag_error(d, DIAG_target_syntax, s->loc, "links must join more and more of the %d devices",
                        t->per_machine);
    if (joined < t->ranks || t->ranks == 1) {
      TargetTier tier = {.name = v[LINK_NAME]->text,
                         .group = joins < t->ranks ? joins : t->ranks,
                         .bandwidth = v[LINK_RATE]->number / share,
                         .latency = v[LINK_LATENCY] ? v[LINK_LATENCY]->number * slower : 0,
                         .pair = v[LINK_PAIR] ? v[LINK_PAIR]->number / share : 0};
      if (!read_tier(d, p, v[LINK_WITH], t, tier)) return false;
    }
    joined = joins;
  }
  if (joined < t->per_machine)
    return diag_error(d, DIAG_target_syntax, p->machine->loc, "machine '%s' has no link that joins all its %d devices",
                      p->machine->name, t->per_machine);
  return true;
}

static bool read_network(Diags *d, const TargetParts *p, Target *t) {
  const TopoStatement *s = topo_find(p->machine, "network", NULL);
  if (t->ranks <= t->per_machine) return true;
  TargetTier tier = {.name = s->slots[NET_NAME]->text,
                     .group = t->ranks,
                     .bandwidth = s->slots[NET_COUNT]->number * s->slots[NET_RATE]->number / t->per_machine,
                     .latency = s->slots[NET_LATENCY] ? s->slots[NET_LATENCY]->number : 0};
  return read_tier(d, p, s->slots[NET_WITH], t, tier);
}

static void read_price(const TopoBlock *machine, Target *t) {
  const TopoStatement *s = topo_find(machine, "price", NULL);
  t->usd_per_hour = s ? s->slots[0]->number * t->ranks / t->per_machine : NAN;
  t->price_terms = s ? s->slots[1]->text : NULL;
  t->price_date = s ? s->slots[2]->text : NULL;
}

const Target *topo_target_build(Diags *d, Arena *a, const TargetParts *p, const char *name, int ranks) {
  const TopoStatement *devices = topo_find(p->machine, "devices", NULL);
  bool shared = ranks_share(p);
  int count = (int)devices->slots[0]->number, hosts = (int)figure(p->machine, "hosts", 0, 1);
  if (!topo_find(p->device, "peak", NULL))
    return diag_error(d, DIAG_target_syntax, p->device->loc, "'%s' has no peak of any type", p->device->name), NULL;
  if (shared && count != 1)
    return diag_error(d, DIAG_target_syntax, devices->loc, "describe %d cpus as one with all cores", count), NULL;
  if (hosts > count)
    return diag_error(d, DIAG_target_syntax, topo_find(p->machine, "hosts", NULL)->loc, "more hosts than devices"),
           NULL;
  if (ranks <= 0) ranks = count;
  if (!ranks_fit(d, p, name, ranks, count)) return NULL;
  Target *t = ARENA_NEW(a, Target);
  double cores = figure(p->device, "cores", 0, 1), share = shared ? ranks : 1,
         slower = shared && ranks > cores ? ranks / cores : 1;
  t->name = name;
  t->machine = p->machine->name;
  t->title = word_of(p->machine, "title", 0);
  t->ranks = ranks;
  t->per_machine = shared ? ranks : count;
  t->nodes = ranks > t->per_machine ? ranks / t->per_machine * hosts
                                    : (int)(((int64_t)ranks * hosts + t->per_machine - 1) / t->per_machine);
  read_device(p->device, share, slower, t);
  if (!(target_usable(t) > 0)) {
    const TopoStatement *reserve = topo_find(p->device, "reserve", NULL);
    return diag_error(d, DIAG_target_syntax, reserve->loc, "%s: nothing is left of the memory of a rank", name), NULL;
  }
  t->host_memory = figure(p->machine, "host-memory", 0, NAN);
  t->pcie = figure(p->machine, "pcie", 1, NAN);
  read_price(p->machine, t);
  const char *kernels = word_of(p->device, "kernels", 0);
  t->has_kernels = kernels != NULL;
  if (kernels && !read_kernels(d, part_named(p, TOPO_kernels, kernels), &t->kernels)) return NULL;
  return read_links(d, p, share, slower, t) && read_network(d, p, t) ? t : NULL;
}
