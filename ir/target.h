/* ir/target.h - what a program is planned for: ranks, what each can compute and hold, and the links between them.
 *
 * Rates are per rank; a fact that is not known is NaN (0 for counts).  Ranks are numbered so that the ranks of one
 * machine are consecutive: tier i joins aligned blocks of `group` consecutive ranks.  Targets are read by
 * frontend/topo/target.h; docs/targets.md has the meaning of every figure, passes/cost/cost.c the formulas.
 */
#ifndef APC_IR_TARGET_H
#define APC_IR_TARGET_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/limits.h"
#include "ir/device.h"
#include "ir/ops.h"

enum { MAX_TIERS = 4, MAX_CPU_RANKS = LIMIT_CPU_RANKS, MAX_TILES = 8, MAX_PROTOCOLS = 8, MAX_CACHES = 8 };

typedef enum ComputeType {
#define COMPUTE(name, storage) CT_##name,
#include "ir/compute.def"
#undef COMPUTE
  CT_COUNT
} ComputeType;

const char *compute_name(ComputeType c);
bool compute_find(const char *name, ComputeType *out);
DType compute_storage(ComputeType c); /* of values that are f32 in the model (passes/rewrite/narrow.c) */

typedef enum PriceKind {
#define PRICE(name, word) PRICE_##name,
#include "ir/price.def"
#undef PRICE
  PRICE_KINDS
} PriceKind;

const char *price_name(PriceKind k);
bool price_find(const char *name, PriceKind *out);

/* Of the ranks of a target; NaN and NULL: it is not known. */
typedef struct TargetPrice {
  double usd_per_hour;
  const char *terms, *date;
} TargetPrice;

/* How far kernels stay below the peaks. */
typedef struct KernelTile {
  double rows, columns, share; /* of the sustained rate */
} KernelTile;

typedef struct KernelCosts {
  double sustained[CT_COUNT]; /* share of the peak; NaN: 1 */
  int ntiles;                 /* 0: products run at the sustained rate whatever their shape */
  KernelTile tiles[MAX_TILES];
  double prologue, smoothing;       /* depth a tile's start and end cost; share of the last wave that is evened out */
  double attention, attention_half; /* share of the sustained rate, and in 16 bits */
  double assumed;                   /* the same in 16 bits of kernels that are not built; NaN: none are known */
  double steady;                    /* of all sustained rates, in training of hours; counts where kernels are assumed */
  double overlap;                   /* of communication, hidden behind what is computed; the same */
  double bandwidth, ramp;           /* share of the memory bandwidth; bytes */
} KernelCosts;

/* What `apc calibrate` measures of a cpu: what prices of small work need (passes/cost/cpu.c).  Times are those of all
 * cores of a rank, but `begin` of anything, which one of them takes. */
typedef struct CpuCache {
  double bytes, bandwidth; /* ascending; what fits is moved so fast */
} CpuCache;

typedef enum ConvWay { CONV_forward, CONV_transpose, CONV_filter, CONV_WAYS } ConvWay;
const char *compute_conv_way_name(ConvWay w);
bool compute_conv_way_find(const char *name, ConvWay *out);

typedef struct CpuConv {
  double begin, shared, element, share; /* to begin, and more where a rank has several threads; element: of the result;
                                           share: of the sustained rate */
} CpuConv;

typedef struct CpuCosts {
  double threads; /* of a rank */
  double fork;    /* to share a kernel among them */
  int ncaches;
  CpuCache caches[MAX_CACHES];
  int nweights; /* the same of weights that products read: by all weights that there are */
  CpuCache weights[MAX_CACHES];
  double product, pack, turned; /* a product of the library: to begin, and for each element of its second operand, which
                                   may lie turned */
  CpuConv conv[CONV_WAYS];
  double group, row, pair;  /* attention: a head of a sample, a query of it, a query with a key */
  double element[OP_COUNT]; /* of the result of an operation in a kernel of rows, beside reading and writing */
} CpuCosts;

/* One way to run a collective over links of a tier: base + steps * step + bytes over a share of the bandwidth. */
typedef enum Algorithm { ALG_RING, ALG_TREE, ALG_SWITCHED, ALG_DIRECT } Algorithm;

typedef struct Protocol {
  Algorithm algorithm;
  const char *name;
  double base, step, share, most; /* seconds, seconds, fraction, bytes per second (INFINITY: no limit) */
} Protocol;

typedef struct TargetTier {
  const char *name;
  int group;        /* ranks in one block; ascending over the tiers, the last holds all ranks */
  double bandwidth; /* bytes per second, per rank and direction */
  double latency;   /* seconds until a message starts to arrive; counts where there are no protocols */
  double pair;      /* bytes per second between two ranks; 0: as `bandwidth` */
  int nprotocols;
  Protocol protocols[MAX_PROTOCOLS];
} TargetTier;

/* Where ranks are not alike, each is of a kind, a target of its own in which all ranks are; the target itself has the
 * mean of their rates, the least of what delays them, and the most memory. */
typedef struct Target {
  const char *name;    /* as the user wrote it */
  const char *machine; /* the block it is made of, and its title or NULL */
  const char *title;
  const DeviceTraits *device; /* what a rank is */
  const char *part;           /* the device block's name */
  const char *arch;           /* NULL when not given */
  int ranks, nodes;           /* nodes: hosts the ranks are spread over */
  int per_machine;            /* ranks of one whole machine */
  bool assumes;               /* kernels that are not built count (--assume-kernels) */
  double hidden;              /* the share of communication that is hidden; 0: none */
  ComputeType compute;        /* what products of values of its storage type are computed in (--dtype) */
  double flops[CT_COUNT];     /* peak of products; a multiply-add is two */
  double memory_bytes, memory_bandwidth;
  double reserve_bytes; /* of the memory, what a program may not use; 0 when not given */
  double launch;        /* seconds to start one operation */
  double host; /* seconds in which the host issues one, ahead of what the device does; 0: it is not waited for */
  double sms, clock, l2, shared_memory, host_memory, pcie;
  double power, idle_power; /* watts of a rank at work, and while a program on it waits */
  TargetPrice prices[PRICE_KINDS];
  PriceKind price; /* the one that counts (target_price) */
  bool has_kernels;
  KernelCosts kernels;
  const char *measured;  /* the file of `apc calibrate` that its figures are of; NULL: none is */
  const CpuCosts *small; /* NULL: not measured */
  double request;        /* seconds to hand the ranks a request, and to hear of its end; 0: not counted */
  int ntiers;
  TargetTier tiers[MAX_TIERS];
  int nkinds; /* 0: all ranks are alike */
  const struct Target *const *kinds;
  const unsigned char *kind_of; /* by rank */
} Target;

/* What a rank is: a kind, or the target. */
const Target *target_of_rank(const Target *t, int rank);

/* The slowest tier that the block of `span` consecutive aligned ranks needs. */
const TargetTier *target_tier(const Target *t, int span);

/* So many of the target's ranks, in whole machines or within one, under that name: each is what it is in the target, so
 * that a rank of a machine whose ranks share it has no more of it. */
const Target *target_part(Arena *a, const Target *t, const char *name, int ranks);

/* What products of values of a type are computed in, and the peak of that; a type without a figure of its own runs at
 * that of f32, or of the slowest type that has one. */
ComputeType target_compute(const Target *t, DType type);
double target_flops(const Target *t, DType type);

static inline const TargetPrice *target_price(const Target *t) { return &t->prices[t->price]; }

/* Bytes that a program may use on a rank. */
static inline double target_usable(const Target *t) { return t->memory_bytes - t->reserve_bytes; }

#endif
