/* frontend/topo/target_build.c - see target_build.h.  The figures (and links) of a cpu are those of the whole
 * machine: its ranks share them evenly, and with more ranks than cores every latency grows by that ratio.  In a
 * machine with several cpus, each is one rank.  target_kinds.c builds targets with different kinds of devices. */
#include "frontend/topo/target_build.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/nearest.h"
#include "frontend/topo/target.h"
#include "frontend/topo/target_kinds.h"

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
enum { PRICE_MONEY, PRICE_FROM, PRICE_DATE, PRICE_TERMS };
enum { NET_NAME, NET_COUNT, NET_RATE, NET_LATENCY, NET_WITH };

/* Finds a device block (ir/device.def) by its name. */
static const TopoBlock *find_device(TopoLibrary *l, const char *name) {
  const TopoBlock *b = NULL;
  for (int k = 0; k < DEVICE_KINDS && !b; k++) {
    TopoKind kind;
    if (topo_kind_find(target_device_traits((DeviceKind)k)->name, &kind)) b = library_find(l, kind, name);
  }
  return b;
}

/* True if ranks share the one device of a machine, its cores and memory. */
static bool ranks_share(const TargetParts *p) {
  return p->ndevices == 1 && target_device_traits_find(topo_kind_name(p->devices[0]->kind))->shared_memory;
}

static bool add_device(Diags *d, TopoLibrary *l, const TopoStatement *s, TargetParts *out) {
  const TopoValue *name = s->slots[1];
  const TopoBlock *device = find_device(l, name->text);
  if (!device) device = refer(d, l, TOPO_gpu, name);
  if (!device) return false;
  if (out->ndevices && device->kind != out->devices[0]->kind)
    return diag_error(d, DIAG_target_syntax, name->loc,
                      "'%s' is a %s, '%s' a %s: all devices of a machine must be of one kind", name->text,
                      topo_kind_name(device->kind), out->devices[0]->name, topo_kind_name(out->devices[0]->kind));
  for (int i = 0; i < out->ndevices; i++)
    if (out->devices[i] == device) return true; /* further devices of this kind, in the order of ranks */
  if (out->ndevices == TARGET_DEVICES)
    return diag_error(d, DIAG_target_syntax, s->loc, "a machine has at most %d kinds of devices", TARGET_DEVICES);
  out->devices[out->ndevices++] = device;
  const TopoStatement *kernels = topo_find(device, "kernels", NULL);
  return (!kernels || add_named(d, l, out, TOPO_kernels, kernels->slots[0])) && add_part(d, out, device);
}

bool topo_target_parts(Diags *d, TopoLibrary *l, const TopoBlock *machine, TargetParts *out) {
  *out = (TargetParts){.machine = machine};
  const TopoStatement *network = topo_find(machine, "network", NULL);
  for (const TopoStatement *s = NULL; (s = topo_find(machine, "devices", s));)
    if (!add_device(d, l, s, out)) return false;
  for (const TopoStatement *s = NULL; (s = topo_find(machine, "link", s));)
    if (!add_named(d, l, out, TOPO_protocols, s->slots[LINK_WITH])) return false;
  if (network && !add_named(d, l, out, TOPO_protocols, network->slots[NET_WITH])) return false;
  return add_part(d, out, machine);
}

int topo_machine_devices(const TopoBlock *machine) {
  double n = 0;
  for (const TopoStatement *s = NULL; (s = topo_find(machine, "devices", s));) n += s->slots[0]->number;
  return (int)fmin(n, MOST_DEVICES + 1);
}

bool topo_target_machines(Diags *d, TopoLibrary *l, const TopoBlock *target, TargetMachines *out) {
  const TopoStatement *network = topo_find(target, "network", NULL), *devices = topo_find(target, "devices", NULL);
  *out = (TargetMachines){.target = target};
  for (const TopoStatement *s = NULL; (s = topo_find(target, "machine", s)); out->n++) {
    if (out->n == TARGET_MACHINES)
      return diag_error(d, DIAG_target_syntax, s->loc, "a target has at most %d kinds of machines", TARGET_MACHINES);
    const TopoBlock *machine = library_find(l, TOPO_machine, s->slots[0]->text);
    if (!machine)
      return diag_error(d, DIAG_target_syntax, s->slots[0]->loc, "there is no machine '%s'", s->slots[0]->text);
    if (!topo_target_parts(d, l, machine, &out->parts[out->n])) return false;
    out->times[out->n] = s->slots[1] ? (int)s->slots[1]->number : 1;
  }
  if (out->n == 1 && devices && out->times[0] > 1)
    return diag_error(d, DIAG_target_syntax, devices->loc,
                      "give either the number of devices or the number of machines, not both");
  if (out->n == 1)
    return !network ||
           diag_error(
               d, DIAG_target_syntax, network->loc,
               "'network' is only for several kinds of machines; machines of one kind use that of their own block");
  if (devices)
    return diag_error(d, DIAG_target_syntax, devices->loc,
                      "a target of several kinds of machines always has all of their devices");
  if (!network)
    return diag_error(d, DIAG_target_syntax, target->loc, "target '%s' needs a network that joins its machines",
                      target->name);
  const TopoValue *with = network->slots[NET_WITH];
  out->protocols = with ? refer(d, l, TOPO_protocols, with) : NULL;
  return !with || out->protocols;
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
  compute_find(v->text, &c); /* topo_check has checked the name */
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
    if (t->number < 1 || t->columns < 1)
      return diag_error(d, DIAG_target_syntax, t->loc, "a tile needs at least one row and column");
    out->tiles[out->ntiles++] = (KernelTile){t->number, t->columns, s->slots[1]->number};
  }
  return true;
}

/* ---- figures of a cpu that `apc calibrate` measures */

static bool no_such(Diags *d, const TopoValue *v, const char *what, Nearest near) {
  diag_error(d, DIAG_target_syntax, v->loc, "there is no %s '%s'", what, v->text);
  if (near.best) diag_help(d, "the nearest is '%s'", near.best);
  return false;
}

static bool read_elements(Diags *d, const TopoBlock *b, double share, CpuCosts *out) {
  for (const TopoStatement *s = NULL; (s = topo_find(b, "element", s));) {
    OpKind k;
    Nearest near = nearest_to(s->slots[0]->text);
    for (int i = 0; i < OP_COUNT; i++) nearest_try(&near, op_name((OpKind)i));
    if (!op_find(s->slots[0]->text, &k)) return no_such(d, s->slots[0], "operation", near);
    out->element[k] = s->slots[1]->number * share;
  }
  return true;
}

static bool read_convolutions(Diags *d, const TopoBlock *b, double share, double slower, CpuCosts *out) {
  for (int i = 0; i < CONV_WAYS; i++) out->conv[i] = (CpuConv){.share = 1};
  for (const TopoStatement *s = NULL; (s = topo_find(b, "convolution", s));) {
    ConvWay w;
    Nearest near = nearest_to(s->slots[0]->text);
    for (int i = 0; i < CONV_WAYS; i++) nearest_try(&near, compute_conv_way_name((ConvWay)i));
    if (!compute_conv_way_find(s->slots[0]->text, &w)) return no_such(d, s->slots[0], "convolution", near);
    out->conv[w] = (CpuConv){s->slots[1]->number * slower, s->slots[2]->number * slower, s->slots[3]->number * share,
                             s->slots[4]->number};
  }
  return true;
}

/* Reads caches in ascending order; a larger one is never faster.  Returns how many, -1 after a diagnostic. */
static int read_caches(Diags *d, const TopoBlock *b, const char *word, double share, CpuCache *out) {
  int n = 0;
  for (const TopoStatement *s = NULL; (s = topo_find(b, word, s));) {
    if (n == MAX_CACHES) return diag_error(d, DIAG_target_syntax, s->loc, "more than %d caches", MAX_CACHES), -1;
    CpuCache c = {s->slots[0]->number / share, s->slots[1]->number / share};
    if (n && (c.bytes <= out[n - 1].bytes || c.bandwidth > out[n - 1].bandwidth))
      return diag_error(d, DIAG_target_syntax, s->loc, "a cache must be larger than the one before, and no faster"), -1;
    out[n++] = c;
  }
  return n;
}

static bool read_small(Diags *d, Arena *a, const TargetParts *p, const TopoBlock *b, double share, double slower,
                       Target *t) {
  if (!topo_find(b, "fork", NULL)) return true;
  CpuCosts *x = ARENA_NEW(a, CpuCosts);
  *x = (CpuCosts){.threads = fmax(1, floor(figure(p->devices[0], "cores", 0, 1) / t->ranks)),
                  .fork = figure(b, "fork", 0, 0) * slower,
                  .product = figure(b, "product", 0, 0) * slower,
                  .pack = figure(b, "product", 1, 0) * slower,
                  .turned = figure(b, "product", 2, 0) * slower,
                  .group = figure(b, "scores", 0, 0) * share,
                  .row = figure(b, "scores", 1, 0) * share,
                  .pair = figure(b, "scores", 2, 0) * share};
  t->small = x;
  x->ncaches = read_caches(d, b, "cache", share, x->caches);
  x->nweights = read_caches(d, b, "weights", share, x->weights);
  return x->ncaches >= 0 && x->nweights >= 0 && read_elements(d, b, share, x) &&
         read_convolutions(d, b, share, slower, x);
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

static bool read_tier(Diags *d, const TargetParts *p, const TopoBlock *protocols, Target *t, TargetTier tier) {
  if (t->ntiers == MAX_TIERS)
    return diag_error(d, DIAG_target_syntax, p->machine->loc, "machine '%s' has more than %d tiers of links",
                      p->machine->name, MAX_TIERS);
  if (protocols && !read_protocols(d, protocols, &tier)) return false;
  t->tiers[t->ntiers++] = tier;
  return true;
}

static bool read_device(Diags *d, const TopoBlock *b, double share, double slower, Target *t) {
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
  t->request = (figure(b, "request", 0, 0) + figure(b, "request", 1, 0) * (t->ranks - 1)) * slower;
  t->sms = figure(b, "sms", 0, 0);
  t->clock = figure(b, "clock", 0, NAN);
  t->l2 = figure(b, "l2", 0, NAN);
  t->shared_memory = figure(b, "shared", 0, NAN);
  t->power = figure(b, "power", 0, NAN);
  t->idle_power = figure(b, "power", 1, NAN);
  const TopoStatement *power = topo_find(b, "power", NULL);
  return !(t->idle_power > t->power) ||
         diag_error(d, DIAG_target_syntax, power->loc, "'%s' draws more power when idle than at work", b->name);
}

/* A machine with its network to others. */
typedef struct MachineFigures {
  const TargetParts *parts;
  int devices;
  const TopoStatement *network; /* NULL if unknown */
  const TopoBlock *protocols;   /* of the network; NULL if none */
} MachineFigures;

/* The length of a name that ends in xRANKS, without that ending; 0 for other names. */
static int named_length(const Diags *d, const char *name, int ranks) {
  const char *end = arena_printf(d->arena, "x%d", ranks);
  size_t n = strlen(name), k = strlen(end);
  return n > k && strcmp(name + n - k, end) == 0 ? (int)(n - k) : 0;
}

static bool ranks_fit(Diags *d, const MachineFigures *x, const char *name, int ranks) {
  const TargetParts *p = x->parts;
  bool shared = ranks_share(p), network = x->network != NULL;
  int per_machine = x->devices;
  if (shared)
    return ranks <= MAX_CPU_RANKS ||
           diag_error(d, DIAG_target_ranks, (Loc){0}, "%s: a cpu target has at most %d ranks", name, MAX_CPU_RANKS);
  if (ranks <= per_machine) return true;
  if (!network)
    return diag_error(
        d, DIAG_target_ranks, (Loc){0},
        "%s: one %s has %d device%s, and its network to others is not known (it has no network statement)", name,
        p->machine->name, per_machine, per_machine == 1 ? "" : "s");
  if (ranks % per_machine == 0) return true;
  diag_error(d, DIAG_target_ranks, (Loc){0},
             "%s: %d devices are more than one machine of %d and not a whole number of machines", name, ranks,
             per_machine);
  int below = ranks / per_machine * per_machine, n = named_length(d, name, ranks);
  if (n > 0) diag_help(d, "%.*sx%d and %.*sx%d are", n, name, below, n, name, below + per_machine);
  return false;
}

static const TopoBlock *protocols_of(const TargetParts *p, const TopoValue *with) {
  return with ? part_named(p, TOPO_protocols, with->text) : NULL;
}

static bool read_links(Diags *d, const TargetParts *p, double share, double slower, Target *t) {
  bool shared = ranks_share(p);
  int joined = 1;
  for (const TopoStatement *s = NULL; (s = topo_find(p->machine, "link", s));) {
    const TopoValue *const *v = s->slots;
    int joins = v[LINK_JOINS] && !shared ? (int)v[LINK_JOINS]->number : t->per_machine;
    if (joins > t->per_machine || (joins <= joined && t->per_machine > 1))
      return diag_error(d, DIAG_target_syntax, s->loc, "each link must join more of the %d devices than the one before",
                        t->per_machine);
    if (joined < t->ranks || t->ranks == 1) {
      TargetTier tier = {.name = v[LINK_NAME]->text,
                         .group = joins < t->ranks ? joins : t->ranks,
                         .bandwidth = v[LINK_RATE]->number / share,
                         .latency = v[LINK_LATENCY] ? v[LINK_LATENCY]->number * slower : 0,
                         .pair = v[LINK_PAIR] ? v[LINK_PAIR]->number / share : 0};
      if (!read_tier(d, p, protocols_of(p, v[LINK_WITH]), t, tier)) return false;
    }
    joined = joins;
  }
  if (joined < t->per_machine)
    return diag_error(d, DIAG_target_syntax, p->machine->loc, "machine '%s' has no link that joins all its %d devices",
                      p->machine->name, t->per_machine);
  return true;
}

static bool read_network(Diags *d, const MachineFigures *x, Target *t) {
  const TopoStatement *s = x->network;
  if (t->ranks <= t->per_machine) return true;
  TargetTier tier = {.name = s->slots[NET_NAME]->text,
                     .group = t->ranks,
                     .bandwidth = s->slots[NET_COUNT]->number * s->slots[NET_RATE]->number / t->per_machine,
                     .latency = s->slots[NET_LATENCY] ? s->slots[NET_LATENCY]->number : 0};
  return read_tier(d, x->parts, x->protocols, t, tier);
}

static bool read_prices(Diags *d, const TopoBlock *machine, Target *t) {
  for (int i = 0; i < PRICE_KINDS; i++) t->prices[i] = (TargetPrice){.usd_per_hour = NAN};
  for (const TopoStatement *s = NULL; (s = topo_find(machine, "price", s));) {
    PriceKind kind = PRICE_on_demand;
    if (s->slots[PRICE_TERMS]) price_find(s->slots[PRICE_TERMS]->text, &kind); /* topo_check has checked it */
    if (t->prices[kind].terms)
      return diag_error(d, DIAG_target_syntax, s->loc, "'price as %s' is given twice", price_name(kind));
    t->prices[kind] = (TargetPrice){.usd_per_hour = s->slots[PRICE_MONEY]->number * t->ranks / t->per_machine,
                                    .terms = s->slots[PRICE_FROM]->text,
                                    .date = s->slots[PRICE_DATE]->text};
  }
  return true;
}

/* Checks that a machine has one device per cpu, or several devices that share nothing. */
static bool check_devices(Diags *d, const TargetParts *p) {
  const TopoStatement *first = topo_find(p->machine, "devices", NULL), *hosts = topo_find(p->machine, "hosts", NULL);
  for (int i = 0; i < p->ndevices; i++)
    if (!topo_find(p->devices[i], "peak", NULL))
      return diag_error(d, DIAG_target_syntax, p->devices[i]->loc, "'%s' has no peak of any type", p->devices[i]->name);
  if (ranks_share(p) && topo_machine_devices(p->machine) > 1)
    return diag_error(d, DIAG_target_syntax, first->loc, "describe %d cpus as one with all cores",
                      topo_machine_devices(p->machine));
  if (topo_machine_devices(p->machine) > MOST_DEVICES)
    return diag_error(d, DIAG_target_ranks, first->loc, "machine '%s' has more than %d devices", p->machine->name,
                      MOST_DEVICES);
  return !hosts || hosts->slots[0]->number <= topo_machine_devices(p->machine) ||
         diag_error(d, DIAG_target_syntax, hosts->loc, "more hosts than devices");
}

/* The `apc calibrate` file that a block comes from; NULL if none. */
static const char *measured_in(const TargetParts *p) {
  for (int i = 0; i < p->n; i++)
    for (const TopoStatement *s = NULL; (s = topo_find(p->all[i], "source", s));)
      if (strncmp(s->slots[0]->text, TARGET_MEASURED, strlen(TARGET_MEASURED)) == 0) return p->all[i]->loc.file;
  return NULL;
}

/* CPU ranks move bytes themselves, between the calls that compute.  A byte that a rank sends and receives makes its
 * memory busy for PASSES passes (own part, staging, result, message) and its processor for NETWORK seconds (the
 * system's TCP; from measured steps, bench/results/overlap.md), which nothing hides.  The rest of a link's time does
 * pass beside computation.  Links between processes of one machine have no rest: there an early sum gained nothing in
 * measurements, and that of a reduce-scatter costs memory. */
static void hide_sums(Arena *a, Target *t) {
  enum { PASSES = 4 };
  static const double NETWORK = 1.3e-9;
  double slowest = INFINITY;
  for (int i = 0; i < t->ntiers; i++) slowest = fmin(slowest, t->tiers[i].bandwidth);
  t->beside_work = PASSES / t->memory_bandwidth + NETWORK;
  const double share = 1 - slowest * t->beside_work;
  if (!(share > 0)) return;
  DeviceTraits *device = ARENA_NEW(a, DeviceTraits);
  *device = *t->device;
  device->reduces_beside = true;
  t->device = device, t->beside = fmin(share, 0.99);
}

/* Builds a target whose ranks are all devices of one kind. */
static Target *build_kind(Diags *d, Arena *a, const MachineFigures *x, int device, const char *name, int ranks) {
  const TargetParts *p = x->parts;
  const TopoBlock *block = p->devices[device];
  bool shared = ranks_share(p);
  int hosts = (int)figure(p->machine, "hosts", 0, 1);
  Target *t = ARENA_NEW(a, Target);
  double cores = figure(block, "cores", 0, 1), share = shared ? ranks : 1,
         slower = shared && ranks > cores ? ranks / cores : 1;
  t->name = name;
  t->machine = p->machine->name;
  t->title = word_of(p->machine, "title", 0);
  t->measured = measured_in(p);
  t->ranks = ranks;
  t->per_machine = shared ? ranks : x->devices;
  t->nodes = ranks > t->per_machine ? ranks / t->per_machine * hosts
                                    : (int)(((int64_t)ranks * hosts + t->per_machine - 1) / t->per_machine);
  if (!read_device(d, block, share, slower, t)) return NULL;
  if (!(target_usable(t) > 0)) {
    const TopoStatement *reserve = topo_find(block, "reserve", NULL);
    return diag_error(d, DIAG_target_syntax, reserve->loc, "%s: 'reserve' leaves a rank no memory", name), NULL;
  }
  t->host_memory = figure(p->machine, "host-memory", 0, NAN);
  t->pcie = figure(p->machine, "pcie", 1, NAN);
  t->disk = figure(p->machine, "disk", 1, NAN) / share;
  if (!read_prices(d, p->machine, t)) return NULL;
  const char *kernels = word_of(block, "kernels", 0);
  t->has_kernels = kernels != NULL;
  const TopoBlock *costs = kernels ? part_named(p, TOPO_kernels, kernels) : NULL;
  if (costs && !read_kernels(d, costs, &t->kernels)) return NULL;
  if (costs && shared && !read_small(d, a, p, costs, share, slower, t)) return NULL;
  if (!read_links(d, p, share, slower, t) || !read_network(d, x, t)) return NULL;
  if (shared) hide_sums(a, t);
  return t;
}

/* ---- ranks of different kinds */

/* The kinds of a target, and the kind of each rank. */
typedef struct Kinds {
  Arena *arena;
  struct {
    const Target **items;
    size_t n, cap;
  } kinds;
  unsigned char *kind_of;
  int ranks; /* so far */
} Kinds;

/* The index of the kind that a `devices` statement names. */
static int device_of(const TargetParts *p, const TopoStatement *s) {
  int i = 0;
  while (strcmp(p->devices[i]->name, s->slots[1]->text) != 0) i++;
  return i;
}

static bool add_machine(Diags *d, const MachineFigures *x, const char *name, int ranks, int times, Kinds *k) {
  const TargetParts *p = x->parts;
  int first = (int)k->kinds.n;
  for (int device = 0; device < p->ndevices; device++) {
    const Target *t = build_kind(d, k->arena, x, device, name, ranks);
    if (!t) return false;
    ARENA_PUSH(k->arena, &k->kinds, t);
  }
  for (int n = 0; n < times; n++)
    for (const TopoStatement *s = NULL; (s = topo_find(p->machine, "devices", s));)
      for (int j = 0; j < (int)s->slots[0]->number && k->ranks < ranks; j++)
        k->kind_of[k->ranks++] = (unsigned char)(first + device_of(p, s));
  return true;
}

static const Target *build_machine(Diags *d, Arena *a, const MachineFigures *x, const char *name, int ranks) {
  if (ranks <= 0) ranks = x->devices;
  if (!check_devices(d, x->parts) || !ranks_fit(d, x, name, ranks)) return NULL;
  if (x->parts->ndevices == 1) return build_kind(d, a, x, 0, name, ranks);
  Kinds k = {.arena = a, .kind_of = ARENA_ARRAY(a, unsigned char, ranks)};
  if (!add_machine(d, x, name, ranks, (ranks + x->devices - 1) / x->devices, &k)) return NULL;
  return topo_target_of_used(a, k.kinds.items, (int)k.kinds.n, k.kind_of);
}

static MachineFigures figures_of(const TargetMachines *m, int i) {
  const TargetParts *p = &m->parts[i];
  MachineFigures x = {.parts = p, .devices = topo_machine_devices(p->machine)};
  x.network = topo_find(m->n > 1 ? m->target : p->machine, "network", NULL);
  x.protocols = m->n > 1 ? m->protocols : x.network ? protocols_of(p, x.network->slots[NET_WITH]) : NULL;
  return x;
}

/* Adds the prices of a part of the ranks.  An unknown price makes the sum unknown.  The terms are those of the first
 * machine. */
static void add_prices(TargetPrice prices[PRICE_KINDS], const Target *t, double part) {
  for (int i = 0; i < PRICE_KINDS; i++) {
    const TargetPrice *p = &t->prices[i];
    const bool known = p->terms != NULL, same = known && prices[i].terms && strcmp(p->terms, prices[i].terms) == 0;
    prices[i].usd_per_hour += p->usd_per_hour * part;
    if (known && !prices[i].terms) prices[i].terms = p->terms, prices[i].date = p->date;
    else if (known && !same) prices[i].terms = "prices of several terms", prices[i].date = NULL;
  }
}

/* Builds a target of several machines, joined by the target's own network. */
static const Target *build_machines(Diags *d, Arena *a, const TargetMachines *m, const char *name, int ranks) {
  const int each = topo_machine_devices(m->parts[0].machine);
  const TopoStatement *s = topo_find(m->target, "machine", NULL);
  TargetPrice prices[PRICE_KINDS] = {0};
  double all = 0;
  int nodes = 0;
  for (int i = 0; i < m->n; i++, s = topo_find(m->target, "machine", s)) {
    int devices = topo_machine_devices(m->parts[i].machine);
    if (ranks_share(&m->parts[i]))
      return diag_error(d, DIAG_target_syntax, s->loc,
                        "the ranks of '%s' share one cpu; it cannot be joined with other machines",
                        m->parts[i].machine->name),
             NULL;
    if (devices != each)
      return diag_error(d, DIAG_target_syntax, s->loc,
                        "'%s' has %d devices and '%s' %d: machines of one target must have equally many",
                        m->parts[i].machine->name, devices, m->parts[0].machine->name, each),
             NULL;
    if (!check_devices(d, &m->parts[i])) return NULL;
    all += (double)devices * m->times[i];
    nodes += (int)figure(m->parts[i].machine, "hosts", 0, 1) * m->times[i];
  }
  if (all > MOST_DEVICES) return diag_error(d, DIAG_target_ranks, m->target->loc, "%s: %.0f devices", name, all), NULL;
  if (ranks > 0 && ranks != (int)all)
    return diag_error(d, DIAG_target_ranks, (Loc){0}, "%s: the target has %.0f devices of different machines", name,
                      all),
           NULL;
  Kinds k = {.arena = a, .kind_of = ARENA_ARRAY(a, unsigned char, (int)all)};
  for (int i = 0; i < m->n; i++) {
    const MachineFigures x = figures_of(m, i);
    size_t first = k.kinds.n;
    if (!add_machine(d, &x, name, (int)all, m->times[i], &k)) return NULL;
    add_prices(prices, k.kinds.items[first], each * m->times[i] / all);
  }
  Target *t = topo_target_of_used(a, k.kinds.items, (int)k.kinds.n, k.kind_of);
  t->machine = m->target->name, t->title = NULL;
  t->nodes = nodes;
  memcpy(t->prices, prices, sizeof prices);
  return t;
}

const Target *topo_target_build(Diags *d, Arena *a, const TargetMachines *m, const char *name, int ranks) {
  if (m->n > 1) return build_machines(d, a, m, name, ranks);
  const MachineFigures x = figures_of(m, 0);
  if (ranks <= 0 && m->times[0] > 1 && x.devices <= MOST_DEVICES / m->times[0]) ranks = m->times[0] * x.devices;
  return build_machine(d, a, &x, name, ranks);
}
