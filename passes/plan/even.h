/* passes/plan/even.h - cuts after which all places of a pipeline are about equally busy, as its schedule runs them. */
#ifndef APC_PASSES_PLAN_EVEN_H
#define APC_PASSES_PLAN_EVEN_H

#include "ir/ir.h"
#include "solver/balance.h"

/* Moves the cuts of a partition, with what balance_runs (solver/balance.h) makes of it for places that wait for each
 * other more or less: `in_step` is chosen here. */
void stages_even(Balance b, const Mesh *mesh, int *cuts);

#endif
