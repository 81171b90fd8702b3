/* tools/verify_loss.c - the formulas of losses, in doubles.  See verify_gradient.h.
 *
 * Written from docs/train.md and the definitions of the losses, not from the code that builds them: probabilities of
 * classes and expected values over the targets, where the builder uses sums that do not overflow.
 */
#include <math.h>

#include "tools/verify_gradient.h"

/* Returns log(1 + exp(x)). */
static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

/* Returns the cost of a row of logits with a class as target, smoothed: -sum over classes of target
 * log(probability). */
static double row_cost(const Cell *logits, int64_t classes, int64_t label, double smoothing) {
  double largest = -INFINITY, sum = 0, cost = 0;
  for (int64_t c = 0; c < classes; c++) largest = fmax(largest, logits[c].f);
  for (int64_t c = 0; c < classes; c++) sum += exp(logits[c].f - largest);
  for (int64_t c = 0; c < classes; c++) {
    double target = smoothing / (double)classes + (c == label ? 1 - smoothing : 0);
    if (target != 0) cost -= target * (logits[c].f - largest - log(sum));
  }
  return cost;
}

static double log_sum(const Cell *logits, int64_t classes) {
  double largest = -INFINITY, sum = 0;
  for (int64_t c = 0; c < classes; c++) largest = fmax(largest, logits[c].f);
  for (int64_t c = 0; c < classes; c++) sum += exp(logits[c].f - largest);
  return largest + log(sum);
}

static double entropy(const LossOptions *o, const InterpTensor *y, const InterpTensor *labels) {
  int64_t classes = y->dims[y->rank - 1], counted = 0;
  double sum = 0;
  for (int64_t r = 0; r < interp_elements(labels); r++) {
    int64_t label = labels->cells[r].i;
    if (label == (int64_t)o->ignore) continue;
    sum += row_cost(y->cells + r * classes, classes, label, o->label_smoothing) +
           o->z_loss * pow(log_sum(y->cells + r * classes, classes), 2);
    counted++;
  }
  return sum / (double)counted;
}

double loss_value(const LossOptions *o, const InterpTensor *y, const InterpTensor *labels) {
  int64_t n = interp_elements(y);
  double sum = 0;
  switch (o->kind) {
    case LOSS_cross_entropy: return entropy(o, y, labels);
    case LOSS_mse:
      for (int64_t i = 0; i < n; i++) sum += pow(y->cells[i].f - labels->cells[i].f, 2);
      return sum / (double)n;
    case LOSS_bce:
      for (int64_t i = 0; i < n; i++) {
        double z = labels->cells[i].f;
        sum += z * softplus(-y->cells[i].f) + (1 - z) * softplus(y->cells[i].f);
      }
      return sum / (double)n;
    default: return NAN;
  }
}
