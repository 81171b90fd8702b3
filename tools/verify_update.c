/* tools/verify_update.c - the formulas of optimizers for one element, in doubles.  See verify_gradient.h.
 *
 * Written from docs/train.md and the papers that passes/train/optimizers.def names, not from the code that builds the
 * update.
 */
#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "tools/verify_gradient.h"

double update_rate(const Optimizer *o, double t) {
  double rate = o->lr;
  if (strcmp(o->schedule, "constant") != 0) {
    double progress = fmin(1, fmax(0, (t - 1 - o->warmup) / (o->steps - o->warmup)));
    double left = strcmp(o->schedule, "linear") == 0 ? 1 - progress : (1 + cos(M_PI * progress)) / 2;
    rate = o->min_lr + (o->lr - o->min_lr) * left;
  }
  return o->warmup > 0 ? rate * fmin(1, t / o->warmup) : rate;
}

double update_scale(const Optimizer *o, double norm) { return o->clip > 0 ? fmin(1, o->clip / (norm + 1e-6)) : 1; }

UpdateAt update_weight(const Optimizer *o, const char *weight, double t, double scale, UpdateAt x) {
  bool decays = !o->decay || fnmatch(o->decay, weight, 0) == 0;
  double decay = decays ? o->weight_decay : 0, rate = update_rate(o, t), g = scale * x.g, change = 0;
  switch (o->kind) {
    case OPTIMIZER_sgd:
      x.m = o->momentum * x.m + g + decay * x.w;
      change = x.m;
      break;
    case OPTIMIZER_adamw:
      x.m = o->beta1 * x.m + (1 - o->beta1) * g;
      x.v = o->beta2 * x.v + (1 - o->beta2) * g * g;
      change = x.m / (1 - pow(o->beta1, t)) / (sqrt(x.v / (1 - pow(o->beta2, t))) + o->eps) + decay * x.w;
      break;
    case OPTIMIZER_lion: {
      double mixed = o->beta1 * x.m + (1 - o->beta1) * g;
      change = (mixed > 0) - (mixed < 0) + decay * x.w;
      x.m = o->beta2 * x.m + (1 - o->beta2) * g;
      break;
    }
    case OPTIMIZERS: break;
  }
  x.w -= rate * change;
  return x;
}
