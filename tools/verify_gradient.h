/* tools/verify_gradient.h - is a training step right: are its gradients derivatives of the loss, and is its update the
 * optimizer's?
 *
 * Both are checked on the step of the model as imported, at small sizes, in the interpreter's doubles.  The gradients
 * are the difference of two steps of plain gradient descent, with learning rates 1 and 2; they are compared with
 * differences of the loss along random directions.  The update is compared with the optimizer's formula, written here a
 * second time, at that gradient and at random moments.  A loss that apc builds is compared with its formula, at the
 * model's output, so that a consistent gradient of a wrong loss is found.  The check uses nothing of passes/train but
 * the options and which value is that output.
 */
#ifndef APC_TOOLS_VERIFY_GRADIENT_H
#define APC_TOOLS_VERIFY_GRADIENT_H

#include "ir/run/interp.h"
#include "passes/train/train.h"
#include "tools/build.h"

typedef struct StepCheck {
  const char *why; /* why nothing was checked; NULL if it was */
  int directions;  /* number of directions, each in other weights */
  double gradient; /* the largest relative error of a derivative, and its weight */
  const char *gradient_of;
  double update; /* the largest relative error of a written value, and its state */
  const char *update_of;
  bool has_loss; /* the loss is apc's own, with a formula */
  double loss;   /* the relative error of that loss */
  bool gradient_ok, update_ok, loss_ok;
} StepCheck;

/* Checks the training step of the model; false after diagnostics. */
bool tool_check_step(Tool *t, const char *path, StepCheck *out);

/* verify_loss.c: returns the loss of the model's output y, in doubles; NAN if the loss is the model's own. */
double loss_value(const LossOptions *o, const InterpTensor *y, const InterpTensor *labels);

/* verify_update.c: an element of a weight with its gradient and moments, in doubles; steps t count from 1. */
typedef struct UpdateAt {
  double w, g, m, v; /* m: also the moment of sgd and lion */
} UpdateAt;
/* True if the weight decays. */
bool formula_decays(const Optimizer *o, const char *weight);
/* Returns the learning rate of step t, with its schedule and warm-up. */
double formula_rate(const Optimizer *o, double t);
/* Returns the factor for all gradients that clips their norm. */
double formula_scale(const Optimizer *o, double norm);
/* Returns the weight and its moments after step t; `scale`: from formula_scale. */
UpdateAt formula_weight(const Optimizer *o, const char *weight, double t, double scale, UpdateAt before);

/* verify_matrix.c: a weight whose elements are updated together, with its scaled gradient, in doubles. */
typedef struct UpdateWhole {
  int rank;
  const int64_t *dims;
  const double *g;
  double *w, *m, *row, *column; /* m: also Adafactor's second moments of a vector */
} UpdateWhole;
/* True if the optimizer updates this weight so. */
bool formula_is_whole(const Optimizer *o, const char *weight, int rank);
/* Makes step t. */
void formula_whole(Arena *a, const Optimizer *o, const char *weight, double t, const UpdateWhole *x);

#endif
