/* frontend/topo/target_kinds.c - see target_kinds.h.
 *
 * The figures of a target with different kinds of ranks must be valid for lower bounds.  Work that all ranks share
 * takes at least the time at the sum of their rates, so the target has the mean of the rates that its kinds sustain
 * at best, with kernels that reach them at any size.  Delays are the smallest of all kinds, memory the largest.
 * Links are the slowest, for callers that read the target's own; prices use those of the kinds.  A type that one
 * kind does not compute in is missing.
 */
#include "frontend/topo/target_kinds.h"

#include <math.h>
#include <string.h>

/* How many ranks each kind has. */
static int *count_ranks(Arena *a, int n, const unsigned char *kind_of, int ranks) {
  int *count = ARENA_ARRAY(a, int, n);
  for (int i = 0; i < ranks; i++) count[kind_of[i]]++;
  return count;
}

static double share_or_one(double share) { return isnan(share) ? 1 : share; }

/* The share of the peak that the best tiles sustain. */
static double sustained(const Target *t, int type) {
  double best = 1;
  for (int i = 0; t->has_kernels && i < t->kernels.ntiles; i++) best = fmax(best, t->kernels.tiles[i].share);
  return t->has_kernels ? best * share_or_one(t->kernels.sustained[type]) : 1;
}

static double bandwidth_share(const Target *t) { return t->has_kernels ? t->kernels.bandwidth : 1; }

/* The kind that is fastest in any type; the target takes figures that are not rates from it. */
static int first_of(const Target *const *kinds, int n) {
  double most = 0;
  int first = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < CT_COUNT; k++)
      if (kinds[i]->flops[k] > most) most = kinds[i]->flops[k], first = i;
  return first;
}

/* Kernels that reach their rates at any size; the share of attention is the best of any kind. */
static KernelCosts ideal_kernels(const Target *t) {
  KernelCosts k = t->kernels;
  for (int i = 0; i < CT_COUNT; i++) k.sustained[i] = NAN;
  k.ntiles = 0, k.prologue = k.smoothing = k.ramp = 0;
  k.attention = k.attention_half = k.bandwidth = 0;
  for (int i = 0; i < t->nkinds; i++) {
    const Target *x = t->kinds[i];
    k.attention = fmax(k.attention, x->has_kernels ? x->kernels.attention : 1);
    k.attention_half = fmax(k.attention_half, x->has_kernels ? x->kernels.attention_half : 1);
  }
  k.bandwidth = 1;
  return k;
}

static void mean_rates(Target *t, const int *count) {
  double bandwidth = 0, power = 0, idle = 0;
  for (int k = 0; k < CT_COUNT; k++) {
    double sum = 0;
    for (int i = 0; i < t->nkinds; i++) sum += count[i] * t->kinds[i]->flops[k] * sustained(t->kinds[i], k);
    t->flops[k] = sum / t->ranks;
  }
  for (int i = 0; i < t->nkinds; i++) {
    bandwidth += count[i] * t->kinds[i]->memory_bandwidth * bandwidth_share(t->kinds[i]);
    power += count[i] * t->kinds[i]->power, idle += count[i] * t->kinds[i]->idle_power;
  }
  t->memory_bandwidth = bandwidth / t->ranks;
  t->power = power / t->ranks, t->idle_power = idle / t->ranks;
  t->kernels = ideal_kernels(t), t->has_kernels = true;
  t->sms = 0, t->small = NULL;
}

static void slowest_links(TargetTier *t, const TargetTier *other) {
  t->bandwidth = fmin(t->bandwidth, other->bandwidth);
  t->latency = fmax(t->latency, other->latency);
  if (other->pair > 0) t->pair = t->pair > 0 ? fmin(t->pair, other->pair) : other->pair;
}

/* The lowest architecture, whose code the others also run ("sm_70" before "sm_80"); NULL if one is unknown. */
static const char *lowest_arch(const Target *t) {
  const char *lowest = t->kinds[0]->arch;
  for (int i = 1; i < t->nkinds && lowest; i++) {
    const char *arch = t->kinds[i]->arch;
    if (!arch) return NULL;
    if (strlen(arch) < strlen(lowest) || (strlen(arch) == strlen(lowest) && strcmp(arch, lowest) < 0)) lowest = arch;
  }
  return lowest;
}

/* Removes kinds without ranks; returns how many are left. */
static int drop_unused(Arena *a, const Target *const **kinds, int n, unsigned char *kind_of, int ranks) {
  const int *count = count_ranks(a, n, kind_of, ranks);
  const Target **used = ARENA_ARRAY(a, const Target *, n);
  int *now = ARENA_ARRAY(a, int, n), left = 0;
  for (int i = 0; i < n; i++) {
    now[i] = left;
    if (count[i]) used[left++] = (*kinds)[i];
  }
  for (int r = 0; r < ranks; r++) kind_of[r] = (unsigned char)now[kind_of[r]];
  *kinds = used;
  return left;
}

Target *topo_target_of_used(Arena *a, const Target *const *kinds, int n, unsigned char *kind_of) {
  n = drop_unused(a, &kinds, n, kind_of, kinds[0]->ranks);
  if (n > 1) return topo_target_of_kinds(a, kinds, n, kind_of);
  Target *t = ARENA_NEW(a, Target);
  *t = *kinds[0];
  return t;
}

Target *topo_target_of_kinds(Arena *a, const Target *const *kinds, int n, const unsigned char *kind_of) {
  Target *t = ARENA_NEW(a, Target);
  *t = *kinds[first_of(kinds, n)];
  t->nkinds = n, t->kinds = kinds, t->kind_of = kind_of;
  const int *count = count_ranks(a, n, kind_of, t->ranks);
  const char *parts = NULL;
  mean_rates(t, count);
  t->arch = lowest_arch(t);
  for (int i = 0; i < n; i++) {
    const Target *k = kinds[i];
    if (target_usable(k) > target_usable(t)) t->memory_bytes = k->memory_bytes, t->reserve_bytes = k->reserve_bytes;
    t->launch = fmin(t->launch, k->launch), t->host = fmin(t->host, k->host);
    t->hidden = fmin(t->hidden, k->hidden);
    t->beside = fmin(t->beside, k->beside), t->beside_work = fmax(t->beside_work, k->beside_work);
    for (int j = 0; j < t->ntiers; j++) slowest_links(&t->tiers[j], &k->tiers[j < k->ntiers ? j : k->ntiers - 1]);
    if (count[i])
      parts =
          parts ? arena_printf(a, "%s + %d %s", parts, count[i], k->part) : arena_printf(a, "%d %s", count[i], k->part);
  }
  t->part = parts;
  return t;
}

const Target *topo_target_with_kinds(Arena *a, const Target *t, const Target *const *kinds) {
  Target *out = topo_target_of_kinds(a, kinds, t->nkinds, t->kind_of);
  out->machine = t->machine, out->title = t->title, out->price = t->price;
  memcpy(out->prices, t->prices, sizeof out->prices);
  return out;
}
