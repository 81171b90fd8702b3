/* passes/cost/ledger.h - the entries of a plan's price, for reports: each operation, conversion and message with its
 * seconds, and the memory of the largest rank over the operations of its stage.
 *
 * plan_price.c adds an entry where it adds to a sum, so entries of a stage and phase add up to StageCost, without the
 * seconds that a stage waits for its host or for communication.  held.c records the memory.
 */
#ifndef APC_PASSES_COST_LEDGER_H
#define APC_PASSES_COST_LEDGER_H

#include "passes/cost/plan_price.h"

/* An entry is an operation limited by arithmetic or by memory traffic, a move of a conversion, or a message. */
typedef enum LedgerKind { LEDGER_compute, LEDGER_memory_bound, LEDGER_collective, LEDGER_send } LedgerKind;

/* COMM_KIND_COUNT as LedgerEntry.comm: the move is local, a slice or a mask. */
typedef struct LedgerEntry {
  LedgerKind kind;
  size_t op;                    /* it runs, or its result is converted or sent */
  size_t now;                   /* the operation at whose place it runs; Func.ops.n: an output */
  int stage;                    /* of a message: the receiver */
  Phase phase;                  /* PH_pre and PH_step run once, the others once per micro-batch */
  size_t step;                  /* of the walk (Walk.step) */
  size_t part;                  /* a move: its number in its conversion */
  double seconds, flops, bytes; /* of one run of the phase; bytes: memory traffic, or as comm.h counts them */
  double runs;                  /* executions in one run of the phase: more than 1 in loops */
  CommKind comm;                /* of collectives and messages */
  uint32_t axes;
} LedgerEntry;

/* Classes of memory other than weights and state; names as in cost_memory_shares. */
typedef enum LedgerClass {
  HELD_MADE,
  HELD_CONVERTED,
  HELD_GATHERED,
  HELD_GRADIENT,
  HELD_SAVED,
  HELD_CLASSES
} LedgerClass;

/* A value in memory from operation `born` to operation `dies`, or throughout. */
typedef struct LedgerHeld {
  size_t op; /* it makes the value */
  LedgerClass class;
  bool kept;  /* throughout: another body of the pipeline reads it */
  int copies; /* micro-batches for which it is held; counted in `bytes` */
  double bytes;
  size_t born, dies;
} LedgerHeld;

/* Memory from one operation to the next point, without weights, state and what is kept throughout. */
typedef struct LedgerPoint {
  size_t op;
  double bytes[HELD_CLASSES];
} LedgerPoint;

typedef struct PlanLedger {
  Arena *arena;
  struct {
    LedgerEntry *items;
    size_t n, cap;
  } entries;                /* in the order of the walk */
  StageCost *sums;          /* by stage */
  const ScheduleWork *work; /* by stage */
  bool tabled;              /* the time is that of a schedule_table of `work` */
  PlanTime time;
  PlanMemory memory; /* of the largest place; the rest describes its stage with the largest peak */
  int stage;
  double kept[HELD_CLASSES]; /* of all stages of the place */
  struct {
    LedgerHeld *items;
    size_t n, cap;
  } held;
  struct {
    LedgerPoint *items;
    size_t n, cap;
  } points;
} PlanLedger;

/* Prices a choice as cost_plan does, and records the entries.  Not for joint functions. */
PlanLedger cost_plan_ledger(Arena *a, CostModel *c, Module *m, const Func *f, const Rule *const *rules,
                            const Strategy *strategies, const int *stages);

#endif
