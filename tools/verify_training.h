/* tools/verify_training.h - what rounding may do to a step of training.
 *
 * Some gradients are 0 but for rounding: that of the bias of keys, which no softmax sees.  Optimizers that divide by
 * the gradient's size turn such noise into steps of full length, in either direction.  So two runs of one step are
 * compared without the elements whose gradient is nothing beside the norm of all gradients, as long as they have not
 * moved apart by more than steps can.
 */
#ifndef APC_TOOLS_VERIFY_TRAINING_H
#define APC_TOOLS_VERIFY_TRAINING_H

#include "tools/execute.h"

/* Of one step: what came of it. */
typedef struct TrainedStep {
  const Module *m;
  const Tensors *results, *states; /* outputs of the step, with grad_norm and lr; all states behind it */
} TrainedStep;

/* Compares x with y, which are called `name`: a trained weight or a moment without such elements, anything else as
 * `compare` does. */
Difference compare_trained(const Tool *t, const TrainedStep *step, const char *name, const Tensor *x, const Tensor *y);

#endif
