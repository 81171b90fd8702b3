/* passes/facts/home.h - in whose stage the operations of a training step are.
 *
 * Stages cut the forward pass (D49).  What makes gradients is where the operation is whose derivative it is, what
 * updates a weight where that is read first; the operations say so (Mirror, ir/ir.h).  What adds up the gradients that
 * several users give to a value is where the first of these is: each stage hands one sum to the stage before.  What
 * says nothing, as the norm of all gradients, is where the last of its operands is, which is in the last of their
 * stages.  Another form of a value that a gradient reads, as the output of a norm in f32, is with the operation whose
 * derivative that is.
 */
#ifndef APC_PASSES_FACTS_HOME_H
#define APC_PASSES_FACTS_HOME_H

#include "ir/ir.h"

/* By operation: the one of the forward pass that it is placed with; itself for what can be cut at.  NULL for a function
 * that is no training step.  `derived`: derived_ops. */
const size_t *homes_of(Arena *a, const Func *f, const bool *derived);

#endif
