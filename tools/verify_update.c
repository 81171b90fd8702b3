/* tools/verify_update.c - the formulas of optimizers for one element, in doubles.  See verify_gradient.h.
 *
 * Written from docs/train.md and the papers that passes/train/optimizers.def names, not from the code that builds the
 * update.
 */
#include <math.h>
#include <string.h>

#include "tools/verify_gradient.h"

static double between(double x) { return fmin(1, fmax(0, x)); }

/* Rises from lr / div in warmup steps and falls to lr / div / final_div, both along half a cosine. */
static double one_cycle(const Optimizer *o, double t) {
  double first = o->lr / o->div, last = first / o->final_div, top = o->warmup - 1, s = t - 1;
  if (s <= top) return o->lr + (first - o->lr) / 2 * (1 + cos(M_PI * s / top));
  return last + (o->lr - last) / 2 * (1 + cos(M_PI * between((s - top) / (o->steps - 1 - top))));
}

double formula_rate(const Optimizer *o, double t) {
  double rate = o->lr;
  if (strcmp(o->schedule, "one_cycle") == 0) return one_cycle(o, t);
  if (strcmp(o->schedule, "constant") != 0) {
    double begin = strcmp(o->schedule, "wsd") == 0 ? o->steps - o->cooldown : o->warmup;
    double progress = between((t - 1 - begin) / (o->steps - begin));
    double left = strcmp(o->schedule, "cosine") == 0 ? (1 + cos(M_PI * progress)) / 2 : 1 - progress;
    rate = o->min_lr + (o->lr - o->min_lr) * left;
  }
  return o->warmup > 0 ? rate * fmin(1, t / o->warmup) : rate;
}

bool formula_decays(const Optimizer *o, const char *weight) {
  if (o->no_decay && training_glob(o->no_decay, weight)) return false;
  return !o->decay || training_glob(o->decay, weight);
}

double formula_scale(const Optimizer *o, double norm) { return o->clip > 0 ? fmin(1, o->clip / (norm + 1e-6)) : 1; }

UpdateAt formula_weight(const Optimizer *o, const char *weight, double t, double scale, UpdateAt x) {
  double decay = formula_decays(o, weight) ? o->weight_decay : 0, rate = formula_rate(o, t), g = scale * x.g,
         change = 0;
  switch (o->kind) {
    case OPTIMIZER_sgd:
      x.m = o->momentum * x.m + g + decay * x.w;
      change = x.m;
      break;
    case OPTIMIZER_muon: /* of a weight that is no matrix */
    case OPTIMIZER_adamw:
      if (o->kind == OPTIMIZER_muon) rate *= o->adamw_lr / o->lr;
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
    case OPTIMIZER_adafactor: /* formula_whole */
    case OPTIMIZERS: break;
  }
  x.w -= rate * change;
  return x;
}
