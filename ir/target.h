/* ir/target.h - the machine a program is planned for: ranks, the compute rate and memory of each, and the links between
 * them.
 *
 * Rates are per rank; an unknown figure is NaN (0 for counts).  The ranks of one machine have consecutive numbers: tier
 * i joins aligned blocks of `group` consecutive ranks. frontend/topo/target.h reads targets; docs/guide/targets.md has
 * the meaning of every figure, passes/cost/cost.c the formulas.
 */
#ifndef APC_IR_TARGET_H
#define APC_IR_TARGET_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/limits.h"
#include "ir/device.h"
#include "ir/ops.h"

enum { MAX_TIERS = 6, MAX_CPU_RANKS = LIMIT_CPU_RANKS, MAX_TILES = 8, MAX_PROTOCOLS = 8, MAX_CACHES = 8 };

typedef enum ComputeType {
#define COMPUTE(name, storage) CT_##name,
#include "ir/compute.def"
#undef COMPUTE
  CT_COUNT
} ComputeType;

/* Name of a compute type; false if there is none of that name; the type in which it stores values that are f32 in the
 * model (passes/rewrite/narrow.c). */
const char *compute_name(ComputeType c);
bool compute_find(const char *name, ComputeType *out);
DType compute_storage(ComputeType c);

typedef enum PriceKind {
#define PRICE(name, word) PRICE_##name,
#include "ir/price.def"
#undef PRICE
  PRICE_KINDS
} PriceKind;

/* Name of a kind of price; false if there is none of that name. */
const char *price_name(PriceKind k);
bool price_find(const char *name, PriceKind *out);

/* Price of a target's ranks; NaN and NULL if unknown. */
typedef struct TargetPrice {
  double usd_per_hour;
  const char *terms, *date;
} TargetPrice;

/* Efficiency of kernels relative to the peaks. */
typedef struct KernelTile {
  double rows, columns, share; /* share of the sustained rate */
} KernelTile;

typedef struct KernelCosts {
  double sustained[CT_COUNT]; /* share of the peak; NaN means 1 */
  int ntiles;                 /* 0 if products run at the sustained rate whatever their shape */
  KernelTile tiles[MAX_TILES];
  double prologue, smoothing;       /* depth that a tile's start and end cost; share of the last wave that is
                                       smoothed */
  double attention, attention_half; /* share of the sustained rate, in general and in 16 bits */
  double assumed;                   /* `attention_half` of kernels that are not built; NaN if none are known */
  double steady;                    /* share of all sustained rates in training for hours; counts with assumed
                                       kernels */
  double overlap;         /* share of communication that overlaps with computation; counts with assumed kernels */
  double bandwidth, ramp; /* share of the memory bandwidth; bytes */
} KernelCosts;

/* Figures of a CPU measured by `apc calibrate`, for prices of small operations (passes/cost/cpu.c).  Times are for all
 * cores of a rank, except `begin`, which is for one. */
typedef struct CpuCache {
  double bytes, bandwidth; /* ascending; bandwidth for data that fits */
} CpuCache;

typedef enum ConvWay { CONV_forward, CONV_transpose, CONV_filter, CONV_WAYS } ConvWay;
/* Name of a convolution kind; false if there is none of that name. */
const char *compute_conv_way_name(ConvWay w);
bool compute_conv_way_find(const char *name, ConvWay *out);

typedef struct CpuConv {
  double begin, shared, element, share; /* seconds to start, and the additional ones if a rank has several threads; per
                                           element of the result; share of the sustained rate */
} CpuConv;

typedef struct CpuCosts {
  double threads; /* per rank */
  double fork;    /* seconds to share a kernel among threads */
  int ncaches;
  CpuCache caches[MAX_CACHES];
  int nweights; /* the same for weights that products read, by the size of all weights */
  CpuCache weights[MAX_CACHES];
  double product, pack, turned; /* library products: seconds to start, and per element of the second operand: packed,
                                   and if it is transposed */
  CpuConv conv[CONV_WAYS];
  double group, row, pair;  /* attention: seconds per head of a sample, per query of it, per pair of query and key */
  double element[OP_COUNT]; /* seconds per result element of an operation in a kernel of rows, in addition to memory
                               traffic */
} CpuCosts;

/* A way to run a collective over the links of a tier: base + steps * step + bytes over a share of the bandwidth. */
typedef enum Algorithm { ALG_RING, ALG_TREE, ALG_SWITCHED, ALG_DIRECT } Algorithm;

typedef struct Protocol {
  Algorithm algorithm;
  const char *name;
  double base, step, share, most; /* seconds, seconds, fraction, bytes per second (INFINITY if unlimited) */
} Protocol;

typedef struct TargetTier {
  const char *name;
  int group;        /* ranks in one block; ascending over the tiers; the last holds all ranks */
  double bandwidth; /* bytes per second, per rank and direction */
  double latency;   /* seconds until a message starts to arrive; used if there are no protocols */
  double pair;      /* bytes per second between two ranks; 0 means `bandwidth` */
  int nprotocols;
  Protocol protocols[MAX_PROTOCOLS];
} TargetTier;

/* A target.  If ranks differ, each has a kind, which is a target as if all ranks were of it; the target itself then has
 * the mean of their rates, the smallest of their delays, and the largest memory. */
typedef struct Target {
  const char *name;    /* as the user wrote it */
  const char *machine; /* name of its block, and the block's title or NULL */
  const char *title;
  const DeviceTraits *device; /* kind of device of its ranks */
  const char *part;           /* the device block's name */
  const char *arch;           /* NULL if not given */
  int ranks, nodes;           /* nodes: number of hosts */
  int per_machine;            /* ranks of a whole machine */
  bool assumes;               /* includes kernels that are not built (--assume-kernels) */
  double hidden;              /* share of communication that is hidden; 0 if none */
  double beside;              /* share of the sums of gradients that moves beside computation; 0 if none */
  double beside_work;         /* seconds of a rank per byte of such a sum that it sends and receives: never hidden */
  ComputeType compute;        /* type in which products of its storage type are computed (--dtype) */
  double flops[CT_COUNT];     /* peak of products; a multiply-add is two */
  double memory_bytes, memory_bandwidth;
  double reserve_bytes; /* memory that programs may not use; 0 if not given */
  double launch;        /* seconds to start one operation */
  double host;          /* seconds for the host to issue an operation, ahead of the device; 0 if never a limit */
  double sms, clock, l2, shared_memory, host_memory, pcie, disk; /* disk: shared by the ranks of a machine */
  double power, idle_power; /* watts of a rank: busy, and while a program on it waits */
  TargetPrice prices[PRICE_KINDS];
  PriceKind price; /* the price in use (target_price) */
  bool has_kernels;
  KernelCosts kernels;
  const char *const *notes; /* of a machine that was found: its assumptions; NULL-terminated, NULL if none */
  const char *measured;     /* file of `apc calibrate` with its figures; NULL if none */
  const CpuCosts *small;    /* NULL if not measured */
  double request;           /* seconds to send ranks a request and to learn of its end; 0 if not counted */
  int ntiers;
  TargetTier tiers[MAX_TIERS];
  int nkinds; /* 0 if all ranks are alike */
  const struct Target *const *kinds;
  const unsigned char *kind_of; /* by rank */
} Target;

/* The target that describes a rank: its kind, or the target. */
const Target *target_of_rank(const Target *t, int rank);

/* The smallest tier that holds a block of `span` consecutive aligned ranks. */
const TargetTier *target_tier(const Target *t, int span);

/* A part of the target with so many ranks, in whole machines or within one, under that name.  Ranks keep their figures:
 * a rank's share of a machine does not grow. */
const Target *target_part(Arena *a, const Target *t, const char *name, int ranks);

/* The type in which products of a type are computed, and its peak; a type without a figure uses that of f32, or of the
 * slowest type that has one. */
ComputeType target_compute(const Target *t, DType type);
double target_flops(const Target *t, DType type);

/* The peak of all ranks together, in the type in use; 0 if it is not known. */
double target_peak(const Target *t);

/* The price in use. */
static inline const TargetPrice *target_price(const Target *t) { return &t->prices[t->price]; }

/* Bytes per second between a rank and the home of what it keeps away from its device (--offload): host memory over
 * PCIe, or the disk of a machine of CPUs.  NaN if unknown. */
static inline double target_away(const Target *t) { return t->device->shared_memory ? t->disk : t->pcie; }

/* Bytes that a program may use on a rank. */
static inline double target_usable(const Target *t) { return t->memory_bytes - t->reserve_bytes; }

#endif
