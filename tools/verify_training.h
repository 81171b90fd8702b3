/* tools/verify_training.h - how rounding may change a training step.
 *
 * Some gradients are 0 but for rounding: that of the bias of keys, which softmax does not see.  Optimizers that divide
 * by the gradient's size turn such noise into steps of full length, in either direction.  Two runs of one step are
 * therefore compared without the elements whose gradient is negligible against the norm of all gradients, as long as
 * they differ by no more than the steps can explain.
 */
#ifndef APC_TOOLS_VERIFY_TRAINING_H
#define APC_TOOLS_VERIFY_TRAINING_H

#include "tools/execute.h"

/* The results of one step. */
typedef struct TrainedStep {
  const Module *m;
  const Tensors *results, *states; /* outputs of the step, with grad_norm and lr; all states after it */
} TrainedStep;

/* Compares x with y, the tensors `name`: trained weights and moments without such elements, other tensors as `compare`
 * does. */
Difference compare_trained(const Tool *t, const TrainedStep *step, const char *name, const Tensor *x, const Tensor *y);

#endif
