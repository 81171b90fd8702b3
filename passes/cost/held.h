/* passes/cost/held.h - versions in the memory of ranks while a plan is walked (plan_price.c), and the peak memory.
 *
 * Weights and state stay.  Everything else is a version: a value in a layout, on a stage.  It lives from its birth to
 * its last use, counted in operations; if one body of a pipeline passes it to another, it lives for as many
 * micro-batches as lie between the two.  Values inside a kernel take no memory (parts.h), nor do reshapes, repeated
 * values, constants, values added to a sum by the kernel that makes them, and values that overwrite an old state.
 *
 * Not modelled: other reuse in place, except in loops and sums.  program/memory.h decides the buffers of a Program.
 */
#ifndef APC_PASSES_COST_HELD_H
#define APC_PASSES_COST_HELD_H

#include "passes/cost/ledger.h"
#include "passes/cost/loops.h"
#include "passes/cost/plan_price.h"
#include "passes/lower/walk.h"

/* Where a version is stored. */
typedef enum Shown {
  SHOWN_STORED,  /* in memory of its own */
  SHOWN_VIEW,    /* in the memory of another version */
  SHOWN_PICTURE, /* nowhere: readers compute it */
} Shown;

/* A version in memory. */
typedef struct Held {
  Val value;
  const Layout *layout;
  int stage;
  size_t born, dies; /* operations */
  bool converted;
  bool in_place; /* it reuses the memory of another value */
  bool gradient; /* it is an accumulated gradient */
  Phase phase;   /* when it is made */
  Phase until;   /* the last body of a micro-batch that reads it */
  bool kept;     /* it passes from one body to another: both keep it from beginning to end */
  bool alone;    /* other operations cannot join it: a convolution outside the library, or after a conversion */
  bool wanted;   /* an operation outside our own kernels reads it */
  int readers;   /* operations that read it, each operand once */
  bool summed;   /* the kernel that makes it adds it to a sum over micro-batches */
  bool again;    /* it is recomputed for gradients */
  bool stored;   /* another kernel than its own reads it (parts.h), or no kernel of rows makes it */
  Shown shown;
  Val of; /* the version that it is a view or a picture of; 0 if none */
} Held;

/* The number of all versions inside decompositions; their further results have the numbers above it.  Their memory is
 * not counted. */
enum { NOT_HELD = INT32_MAX };

/* Without micro-batches an accumulated value is its part. */
typedef struct Accumulated {
  Val part, sum;
} Accumulated;

/* A carry and its next value. */
typedef struct Carried {
  Val carry, next;
  size_t leave;
} Carried;

typedef struct HeldList {
  const Walk *walk;
  Arena *arena;
  CostModel *c;
  const Func *f;
  const LoopCosts *loops;
  Held *items; /* version v is items[v - 1] */
  size_t n, cap;
  struct {
    Carried *items;
    size_t n, cap;
  } carried;
  struct {
    Accumulated *items;
    size_t n, cap;
  } accumulated;
  bool trains;
  const bool *of_weights; /* by operation: trained weights, and their moves and casts */
  size_t first_gradient;  /* the first operation that makes gradients; Func.ops.n if none */
  double repeat;          /* micro-batches */
  bool in_turns;          /* a pipeline trains with several micro-batches (codegen/program_bodies.c) */
} HeldList;

/* Begins; call before the walk. */
void held_begin(HeldList *h);

/* Records a version that is made now, in the outermost function; returns its number. */
Val held_make(HeldList *h, const WalkScope *s, Val value, const Layout *layout, int stage, bool converted);
/* Finds where the result of an operation with the operands `in` is stored. */
void held_find_picture(HeldList *h, const Op *op, const Val *in, Val made);
/* The version is read now, and must be in memory. */
void held_want(HeldList *h, Val v);
/* The operation reads its operands now, in the kernel at operation `kernel` (held_kernel_of). */
void held_use_operands(HeldList *h, size_t index, size_t kernel, const Val *in);
/* Returns the operation at which the kernel of `op` runs. */
size_t held_kernel_of(const HeldList *h, const Op *op, const Val *in);
/* The destination of asynchronous communication is live from the operation that starts it. */
void held_born_early(HeldList *h, const WalkScope *s, Val value, Val from, Val made);
/* The version becomes the new value of the written state. */
void held_write(const HeldList *h, const Op *write, Val v);
/* Call after the walk: gives an initial value and its next value one carry, and without micro-batches gives an
 * accumulated value the memory of its part. */
void held_settle(HeldList *h);

typedef struct HeldStages HeldStages;
/* Sorts the versions by stage, after held_settle.  In the arena of `h`. */
HeldStages *held_by_stage(const HeldList *h);
/* From now on, held_memory records what a place holds in the ledger. */
void held_record(HeldStages *by, PlanLedger *ledger);
/* Returns the peak memory over all stages of a place; `table`: of the schedule; NULL if it has none. */
PlanMemory held_memory(const HeldList *h, HeldStages *by, const StageCost *sums, int place, const ScheduleTable *table);

#endif
