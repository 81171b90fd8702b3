/* tools/verify_gradient.h - is a step of training what it says: are the gradients derivatives of the loss, and is the
 * update the optimizer's?
 *
 * Both are asked of the step of the model as it was imported, at small sizes, in the interpreter's doubles.  The
 * gradients are what two steps of plain gradient descent, with learning rates 1 and 2, differ by; they are compared
 * with differences of the loss along random directions.  The update is compared with the optimizer's formula, written
 * here once more, at that gradient and at random moments.  A loss that apc builds is compared with its formula, at the
 * model's output, so that it is not only the gradient of what it says.  Nothing of passes/train is asked but what the
 * options are, and which value is that output.
 */
#ifndef APC_TOOLS_VERIFY_GRADIENT_H
#define APC_TOOLS_VERIFY_GRADIENT_H

#include "ir/run/interp.h"
#include "passes/train/train.h"
#include "tools/build.h"

typedef struct StepCheck {
  const char *why; /* nothing was checked: why; NULL: it was */
  int directions;  /* so many, each of other weights */
  double gradient; /* the largest relative error of a derivative, and of which weight */
  const char *gradient_of;
  double update; /* the largest relative error of what is written, and of which state */
  const char *update_of;
  bool has_loss; /* one of apc's own, which has a formula */
  double loss;   /* the relative error of that loss */
  bool gradient_ok, update_ok, loss_ok;
} StepCheck;

/* False after diagnostics. */
bool tool_check_step(Tool *t, const char *path, StepCheck *out);

/* verify_loss.c: the loss of the model's output y, in doubles; NAN: it is one of the model's own. */
double loss_value(const LossOptions *o, const InterpTensor *y, const InterpTensor *labels);

/* verify_update.c: what the optimizer makes of a weight at its step number t (from 1 on), in doubles. */
typedef struct UpdateAt {
  double w, g, m, v; /* m: the moment of sgd and lion, too */
} UpdateAt;
double update_rate(const Optimizer *o, double t);
/* `scale`: of all gradients, to the norm that is allowed. */
double update_scale(const Optimizer *o, double norm);
UpdateAt update_weight(const Optimizer *o, const char *weight, double t, double scale, UpdateAt before);

#endif
