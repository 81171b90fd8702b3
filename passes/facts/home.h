/* passes/facts/home.h - the stages of the operations of a training step.
 *
 * Stages cut the forward pass (D49).  An operation that makes gradients is in the stage of the operation it is the
 * derivative of; an update is in the stage that reads the weight first; the operations record this (Mirror, ir/ir.h).
 * A sum of gradients from several users of a value is in the first of their stages: each stage sends one sum to the
 * stage before.  An operation without such a record, as the norm of all gradients, is in the last of the stages of its
 * operands.  Another form of a value that a gradient reads, as the output of a norm in f32, is in the stage of the
 * operation whose derivative that gradient is.
 */
#ifndef APC_PASSES_FACTS_HOME_H
#define APC_PASSES_FACTS_HOME_H

#include "ir/ir.h"

/* By operation: the operation of the forward pass that it is placed with; itself for operations where stages may be
 * cut.  NULL if the function is not a training step.  `derived`: derived_ops. */
const size_t *homes_of(Arena *a, const Func *f, const bool *derived);

#endif
