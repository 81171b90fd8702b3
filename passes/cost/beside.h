/* passes/cost/beside.h - the price of sums of gradients that move beside computation (ir/legal_comm.h:
 * legal_begins_early).
 *
 * A sum over ranks begins when its gradient is made.  A share of its time is work of the rank: it copies bytes, and its
 * system sends and receives them (Target.beside_work).  That is shown wherever it happens; so it is local to the value.
 * Tables of the planner count it alone, as a share of the time on the slowest link (1 - Target.beside), which is a
 * bound: on faster links the work is a larger share, up to all of it.  The rest, the wire, is hidden as long as there
 * is computation: sums move one after the other in the order of their gradients, and what is left when the last phase
 * of the micro-batch ends is waited for.  That only makes a plan slower than its bound.
 *
 * Not hidden: sums of several micro-batches, which begin after the last one; reduce-scatters before a sum (ZeRO-2 and
 * 3), although programs begin these early too.
 */
#ifndef APC_PASSES_COST_BESIDE_H
#define APC_PASSES_COST_BESIDE_H

#include "passes/cost/cost.h"

/* A sum: when its operand is ready (without work for sums), its seconds on the link, and the rank's work in these. */
typedef struct BesideSum {
  int stage;
  double ready, seconds, work;
} BesideSum;

typedef struct BesideSums {
  BesideSum *items;
  size_t n, cap;
} BesideSums;

/* Returns the share of the time of conversions of the operation's results that is shown; 1: all. */
double cost_shown(const CostModel *c, const Op *maker);
/* Returns the share of one conversion, whose table's share is `least`, on the links that it crosses. */
double beside_shown(CostModel *c, const Type *type, const Layout *from, const Layout *to, double least);
/* Returns the seconds that a stage waits for its sums after its last gradient: an update may need any sum, so nothing
 * is hidden beside updates.  Sorts the list. */
double beside_wait(BesideSums *l, int stage);

#endif
