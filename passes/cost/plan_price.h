/* passes/cost/plan_price.h - the price of a complete choice of strategies and stages, as it will be lowered.
 *
 * The walk (passes/lower/walk.h) decides what is made where; this file adds up the prices.  The time of a pipeline is
 * the sum of its stages plus (micro-batches - 1) times the slowest, after the stages' initial work, which runs in
 * parallel.  If the next batch starts while the last one is in later stages, batches follow each other at the time of
 * the slowest stage (PlanTime.period).  A step that writes a state or new weights ends before the next batch begins.
 * The time of a training step is that of its schedule, with the stages' own forward and backward times (ir/schedule.h);
 * values that the forward pass keeps for the backward pass count for as many micro-batches as lie between the two.
 *
 * The price of a joint function (ir/joint.h) is the weighted sum of its entries' times, and the memory of the entry
 * that needs the most, with the weights and states of all.
 */
#ifndef APC_PASSES_COST_PLAN_PRICE_H
#define APC_PASSES_COST_PLAN_PRICE_H

#include "ir/schedule.h"
#include "passes/cost/cost.h"

typedef struct PlanTime {
  double total;  /* seconds; the fields below are the busiest stage's share of it */
  double period; /* seconds from one batch to the next if batches follow each other without a pause */
  double compute, memory_bound, collectives, transfers, idle;
  double optimizer; /* the part of `memory_bound` that writes new states, once a step */
  /* Averages over all ranks: computing or moving memory, and in collectives and transfers. */
  double busy, communicating;
} PlanTime;

/* Bytes on a rank of the stage that needs the most.  Activations are an upper bound: all values alive at once, without
 * reuse in place except in loops; communication counts the results of conversions and transfers.  The workspace of
 * device libraries is counted in the Program only, with its activations (driver/memory.c). */
typedef struct PlanMemory {
  double total;
  double needs; /* the total scaled to the rank with the most memory: larger if this rank has less (ranks.h) */
  double params, state, activations, communication; /* params: weights, trained weights included */
  /* For training steps: weights gathered from their parts, gradients, and values that a forward pass keeps for them. */
  bool trains;
  double gathered, gradients, saved;
  double away; /* of states outside the memory of the device (--offload); not in the total */
} PlanMemory;

/* The same as named classes of bytes that add up to the total.  For a training step these are weights, gradients,
 * optimizer (moments), saved, transient and communication.  Returns their number. */
enum { MEMORY_SHARES = 6 };
typedef struct MemoryShare {
  const char *name;
  double bytes;
} MemoryShare;
int cost_memory_shares(const PlanMemory *m, MemoryShare out[MEMORY_SHARES]);

/* Bytes other than weights and state. */
static inline double cost_memory_made(const PlanMemory *m) {
  return m->activations + m->communication + m->gathered + m->gradients + m->saved;
}

/* A conversion that does not exist. */
typedef struct PlanGap {
  Val value;
  size_t user; /* the operation that needs it; Func.ops.n: an output */
  const Layout *from, *to;
} PlanGap;

enum { MOST_GAPS = 4 };

typedef struct PlanPrice {
  bool possible; /* false if a conversion does not exist */
  int ngaps;
  PlanGap gaps[MOST_GAPS]; /* the first of these */
  PlanTime time;
  PlanMemory memory;
  double flops;       /* of the busiest rank, the whole step */
  double param_bytes; /* of the rank that stores the most */
} PlanPrice;

/* The sums of one stage. */
typedef struct StageCost {
  double each, once;                                    /* seconds per micro-batch, and before and after all of them */
  ScheduleWork phases;                                  /* of `each` */
  double compute, memory_bound, collectives, transfers; /* seconds per step */
  double rows_each, rows_once; /* the part of `each` and `once` in kernels of rows, which are memory-bound */
  double optimizer;            /* of `memory_bound` */
  double waits;                /* of `memory_bound`: for the host */
  double issued[PH_END];       /* kernels and messages of a micro-batch, by phase */
  double flops, params, state;
  double away; /* of state that is away */
} StageCost;

/* Traffic of one kind of communication in a step (COMM_send: between stages); bytes as in comm.h. */
typedef struct PlanTraffic {
  double messages, bytes;
} PlanTraffic;

/* True if a step needs a state or new weights of the step before; then a pipeline runs one step at a time. */
bool cost_needs_last_step(const Func *f);

/* True if one of our kernels computes the operation together with its neighbours (codegen/rows/row_fuse.c): the kernel
 * reads repeated operands directly, and values between its operations take no memory. */
bool cost_in_kernel(OpKind k);

/* Returns the price of a choice: rules, strategies and stages by operation; `stages` NULL: all in stage 0. */
PlanPrice cost_plan(CostModel *c, Module *m, const Func *f, const Rule *const *rules, const Strategy *strategies,
                    const int *stages);
/* Fills each[] with the prices of the entries of a joint function. */
void cost_plan_entries(CostModel *c, Module *m, const Func *joint, const Rule *const *rules, const Strategy *strategies,
                       const int *stages, PlanPrice *each);
/* With the sums of every stage, and the traffic by CommKind (not for joint functions); both may be NULL. */
PlanPrice cost_plan_stages(CostModel *c, Module *m, const Func *f, const Rule *const *rules, const Strategy *strategies,
                           const int *stages, StageCost *sums, PlanTraffic *traffic);

/* Returns the phases' seconds of each stage in the mesh's schedule, all above 0 (ir/schedule.h).  In the arena. */
const ScheduleWork *cost_plan_phases(Arena *a, CostModel *c, Module *m, const Func *f, const Rule *const *rules,
                                     const Strategy *strategies, const int *stages);

/* Arithmetic of the whole step on one rank, a multiply-add counts 2; elements of all trainable weights. */
double cost_plan_flops(CostModel *c, Module *m, const Func *f, const Rule *const *rules);
double cost_plan_params(const Module *m, const Func *f);

#endif
