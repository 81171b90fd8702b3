/* passes/cost/plan_price.h - what a complete choice of strategies and stages costs, as it will be lowered.
 *
 * The walk (passes/lower/walk.h) says what is made where; here its price is added up.  The time of a pipeline is the
 * sum of its stages plus (micro-batches - 1) times the slowest, after what stages do once before, all at the same time.
 * Where the next batch is let in while the last one is in the later stages, batches follow each other at the time of
 * the slowest stage (PlanTime.period).  What leaves a state, or new weights, is over before the next batch begins.
 * Of a training step it is that of the schedule, with the stages' own times of forward and backward (ir/schedule.h);
 * what the forward keeps for the backward counts for as many micro-batches as are between the two.
 *
 * The price of a joint function (ir/joint.h) is the sum of its entries' times by weight, and the memory of the entry
 * that needs the most, with the weights and states of all.
 */
#ifndef APC_PASSES_COST_PLAN_PRICE_H
#define APC_PASSES_COST_PLAN_PRICE_H

#include "ir/schedule.h"
#include "passes/cost/cost.h"

typedef struct PlanTime {
  double total;  /* seconds; the rest is the busiest stage's share of it */
  double period; /* seconds from one batch to the next where they follow each other as soon as they can */
  double compute, memory_bound, collectives, transfers, idle;
  double optimizer; /* the part of `memory_bound` that writes states anew, once a step */
  /* On average over all ranks: computing or moving memory, and in collectives and transfers. */
  double busy, communicating;
} PlanTime;

/* Bytes of the rank of the stage that needs the most.  Activations are a bound: what is alive at once, without reuse in
 * place but for what loops carry; communication counts what conversions and transfers have made.  What libraries of a
 * device multiply in is counted of the Program alone, with its activations (driver/memory.c). */
typedef struct PlanMemory {
  double total;
  double needs; /* the total, were it of a rank with the most memory: more where this one has less (ranks.h) */
  double params, state, activations, communication; /* params: weights, those that are trained as well */
  /* Of a training step apart: weights that are put together from their parts, gradients, and what a forward pass keeps
   * for them. */
  bool trains;
  double gathered, gradients, saved;
} PlanMemory;

/* The same for people: classes of bytes that add up to the total.  Of a training step these are weights, gradients,
 * optimizer (moments), saved, transient and communication. */
enum { MEMORY_SHARES = 6 };
typedef struct MemoryShare {
  const char *name;
  double bytes;
} MemoryShare;
int cost_memory_shares(const PlanMemory *m, MemoryShare out[MEMORY_SHARES]);

/* What is no weight and no state. */
static inline double cost_memory_made(const PlanMemory *m) {
  return m->activations + m->communication + m->gathered + m->gradients + m->saved;
}

/* A conversion that does not exist. */
typedef struct PlanGap {
  Val value;
  size_t user; /* the operation that needs it; Func.ops.n: an output does */
  const Layout *from, *to;
} PlanGap;

enum { MOST_GAPS = 4 };

typedef struct PlanPrice {
  bool possible; /* false: some conversion does not exist */
  int ngaps;
  PlanGap gaps[MOST_GAPS]; /* the first of these */
  PlanTime time;
  PlanMemory memory;
  double flops;       /* of the busiest rank, the whole step */
  double param_bytes; /* of the rank that keeps the most */
} PlanPrice;

/* What one stage adds up to. */
typedef struct StageCost {
  double each, once;                                    /* seconds per micro-batch, and before and behind all of them */
  ScheduleWork phases;                                  /* of `each` */
  double compute, memory_bound, collectives, transfers; /* seconds per step */
  double rows_each, rows_once; /* what of `each` and `once` kernels of rows take, which are memory-bound */
  double optimizer;            /* of `memory_bound` */
  double waits;                /* of `memory_bound`: for the host */
  double issued[PH_END];       /* kernels and messages of a micro-batch, by phase */
  double flops, params, state;
} StageCost;

/* What is sent in a step by one kind of communication (COMM_send: between stages): how often, and bytes as comm.h
 * counts them. */
typedef struct PlanTraffic {
  double messages, bytes;
} PlanTraffic;

/* Does a step need what the one before has left: a state, new weights?  Then no pipeline has two of them at once. */
bool cost_needs_last_step(const Func *f);

/* It is part of a kernel of ours, with others like it before and behind it (codegen/rows/row_fuse.c): such a kernel
 * reads what is spread where it computes, and what its parts hand to each other takes no memory. */
bool cost_in_kernel(OpKind k);

PlanPrice cost_plan(CostModel *c, Module *m, const Func *f, const Rule *const *rules, const Strategy *strategies,
                    const int *stages);
/* The same of each entry of a joint function. */
void cost_plan_entries(CostModel *c, Module *m, const Func *joint, const Rule *const *rules, const Strategy *strategies,
                       const int *stages, PlanPrice *each);
/* With the sums of every stage, and the traffic by CommKind, which a joint function has none of; both may be NULL. */
PlanPrice cost_plan_stages(CostModel *c, Module *m, const Func *f, const Rule *const *rules, const Strategy *strategies,
                           const int *stages, StageCost *sums, PlanTraffic *traffic);

/* What the phases of each stage take, of the mesh's schedule; above 0 (ir/schedule.h).  In the arena. */
const ScheduleWork *cost_plan_phases(Arena *a, CostModel *c, Module *m, const Func *f, const Rule *const *rules,
                                     const Strategy *strategies, const int *stages);

/* Arithmetic of the whole step on one rank, a multiply-add is two; elements of all trainable weights. */
double cost_plan_flops(CostModel *c, Module *m, const Func *f, const Rule *const *rules);
double cost_plan_params(const Module *m, const Func *f);

#endif
