/* ir/target.c - see target.h. */
#include "ir/target.h"

#include <math.h>
#include <string.h>

#include "base/die.h"

static const struct {
  const char *name;
  DType storage;
} computes[] = {
#define COMPUTE(name, storage) {#name, DT_##storage},
#include "ir/compute.def"
#undef COMPUTE
};

const char *compute_name(ComputeType c) { return computes[c].name; }
DType compute_storage(ComputeType c) { return computes[c].storage; }

bool compute_find(const char *name, ComputeType *out) {
  for (int i = 0; i < CT_COUNT; i++)
    if (strcmp(computes[i].name, name) == 0) return *out = (ComputeType)i, true;
  return false;
}

static const char *const prices[] = {
#define PRICE(name, word) word,
#include "ir/price.def"
#undef PRICE
};

const char *price_name(PriceKind k) { return prices[k]; }

bool price_find(const char *name, PriceKind *out) {
  for (int i = 0; i < PRICE_KINDS; i++)
    if (strcmp(prices[i], name) == 0) return *out = (PriceKind)i, true;
  return false;
}

static const char *const conv_ways[] = {
    [CONV_forward] = "forward", [CONV_transpose] = "transpose", [CONV_filter] = "filter"};

const char *compute_conv_way_name(ConvWay w) { return conv_ways[w]; }

bool compute_conv_way_find(const char *name, ConvWay *out) {
  for (int i = 0; i < CONV_WAYS; i++)
    if (strcmp(conv_ways[i], name) == 0) return *out = (ConvWay)i, true;
  return false;
}

const TargetTier *target_tier(const Target *t, int span) {
  if (t->ntiers < 1) die("target %s has no links", t->name);
  for (int i = 0; i < t->ntiers; i++)
    if (span <= t->tiers[i].group) return &t->tiers[i];
  return &t->tiers[t->ntiers - 1];
}

const Target *target_part(Arena *a, const Target *t, const char *name, int ranks) {
  Target *part = ARENA_NEW(a, Target);
  *part = *t;
  part->name = name;
  part->ranks = ranks;
  part->nodes = (int)(((int64_t)t->nodes * ranks + t->ranks - 1) / t->ranks);
  for (int i = 0; i < PRICE_KINDS; i++) part->prices[i].usd_per_hour = t->prices[i].usd_per_hour * ranks / t->ranks;
  for (part->ntiers = 0; part->ntiers < t->ntiers;) {
    TargetTier *tier = &part->tiers[part->ntiers++];
    if (tier->group < ranks) continue;
    tier->group = ranks;
    break;
  }
  return part;
}

static bool known(const Target *t, ComputeType c) { return t->flops[c] > 0; }

/* Passes have chosen the types of values; `compute` is the type in which its storage type is multiplied. */
static ComputeType own_type(const Target *t, DType type) {
  if (type == compute_storage(t->compute)) return t->compute;
  switch (type) {
    case DT_f64: return CT_f64;
    case DT_f16: return CT_f16;
    case DT_bf16: return CT_bf16;
    case DT_i8: return CT_i8;
    default: return CT_f32;
  }
}

ComputeType target_compute(const Target *t, DType type) {
  ComputeType c = own_type(t, type), slowest = c;
  if (known(t, c)) return c;
  if (known(t, CT_f32)) return CT_f32;
  for (int i = 0; i < CT_COUNT; i++)
    if (known(t, (ComputeType)i) && (!known(t, slowest) || t->flops[i] < t->flops[slowest])) slowest = (ComputeType)i;
  if (!known(t, slowest)) die("target %s has no peak", t->name);
  return slowest;
}

const Target *target_of_rank(const Target *t, int rank) { return t->nkinds ? t->kinds[t->kind_of[rank]] : t; }

double target_flops(const Target *t, DType type) { return t->flops[target_compute(t, type)]; }

double target_peak(const Target *t) {
  double sum = 0;
  for (int r = 0; r < t->ranks; r++) sum += target_flops(target_of_rank(t, r), compute_storage(t->compute));
  return sum > 0 ? sum : 0;
}
