/* passes/cost/held.h - what is in the memory of ranks while a plan is walked (plan_price.c), and what that adds up to.
 *
 * Weights and state stay.  Everything else is a version: a value in a layout, on a stage.  It lives from its birth to
 * its last use, counted in operations, or, where one body of a pipeline hands it to another, for as many micro-batches
 * as are between the two.  What operations of one kernel hand to each other takes no memory (parts.h), nor does what is
 * looked at in other dimensions, spread, constant, added to a sum where it is made, or written over an old state.
 *
 * Not done: reuse in place but for these, loops, and sums; which buffers a Program has, says program/memory.h.
 */
#ifndef APC_PASSES_COST_HELD_H
#define APC_PASSES_COST_HELD_H

#include "passes/cost/loops.h"
#include "passes/cost/plan_price.h"
#include "passes/lower/walk.h"

/* Where a version is. */
typedef enum Shown {
  SHOWN_STORED,  /* in memory of its own */
  SHOWN_VIEW,    /* in that of another one */
  SHOWN_PICTURE, /* nowhere: who reads it computes it */
} Shown;

/* A version in memory. */
typedef struct Held {
  Val value;
  const Layout *layout;
  int stage;
  size_t born, dies; /* operations */
  bool converted;
  bool in_place; /* it lies where another value lay */
  bool gradient; /* it is what is accumulated */
  Phase phase;   /* when it is made, */
  Phase until;   /* and the last body of a micro-batch that reads it */
  bool kept;     /* it is, and some are to read it: from the beginning to the end */
  bool alone;    /* what would join it does not: a convolution that is none of the library, or behind a conversion */
  bool wanted;   /* something that is no kernel of ours reads it */
  int readers;   /* operations, each operand once */
  bool summed;   /* what makes it adds it to a sum over micro-batches */
  bool again;    /* it is made once more, for gradients */
  bool stored;   /* somebody reads it who is not of the kernel that makes it (parts.h), or no kernel of rows makes it */
  Shown shown;
  Val of; /* what it is a view or a picture of; 0: of nothing */
} Held;

/* What the walk gets for versions inside decompositions, and numbers behind it for further results: their memory is not
 * counted. */
enum { NOT_HELD = INT32_MAX };

/* Without micro-batches what is accumulated is what adds up to it. */
typedef struct Accumulated {
  Val part, sum;
} Accumulated;

/* A carry and the value that becomes it. */
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
  const bool *of_weights; /* by operation: trained weights, and what is moved or cast of them */
  size_t first_gradient;  /* the first operation that makes gradients; Func.ops.n: none does */
  double repeat;          /* micro-batches */
  bool in_turns;          /* a pipeline trains several (codegen/program_bodies.c) */
} HeldList;

/* Of a walk that has not begun. */
void held_begin(HeldList *h);

/* A version is made now, of the outermost function; its number. */
Val held_make(HeldList *h, const WalkScope *s, Val value, const Layout *layout, int stage, bool converted);
/* What the result of an operation is, whose operands are the versions `in`. */
void held_find_picture(HeldList *h, const Op *op, const Val *in, Val made);
/* It is read now by something that wants it in memory. */
void held_want(HeldList *h, Val v);
/* The operation reads its operands now, in a kernel that is computed where operation `kernel` is (held_kernel_of). */
void held_use_operands(HeldList *h, size_t index, size_t kernel, const Val *in);
/* Where an operation is done. */
size_t held_kernel_of(const HeldList *h, const Op *op, const Val *in);
/* Where communication beside computation is asked for, what it fills is live from there. */
void held_born_early(HeldList *h, const WalkScope *s, Val value, Val from, Val made);
/* The version becomes the new value of the state that is written. */
void held_write(const HeldList *h, const Op *write, Val v);
/* An initial value and the next become one carry, and what is accumulated without micro-batches is what adds up to it:
 * once all is walked. */
void held_settle(HeldList *h);

typedef struct HeldStages HeldStages;
HeldStages *held_by_stage(const HeldList *h);
/* Of all stages of a place; `table`: of the schedule; NULL: it has none. */
PlanMemory held_memory(const HeldList *h, HeldStages *by, const StageCost *sums, int place, const ScheduleTable *table);

#endif
