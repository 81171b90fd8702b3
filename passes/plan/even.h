/* passes/plan/even.h - moves the cuts of a pipeline so that its places are about equally busy under its schedule. */
#ifndef APC_PASSES_PLAN_EVEN_H
#define APC_PASSES_PLAN_EVEN_H

#include "ir/ir.h"
#include "solver/balance.h"

/* Moves the cuts of a partition with balance_runs (solver/balance.h), for places that wait more or less for each other:
 * chooses `in_step`. */
void stages_even(Balance b, const Mesh *mesh, int *cuts);

#endif
