/* passes/train/schedule.c - the learning rate of a step.
 *
 *   linear, cosine   from lr after warmup to min_lr at step `steps`
 *   wsd              lr from warmup until `cooldown` steps before `steps`, then linear to min_lr (Hu et al., 2024:
 *                    warmup, stable, decay)
 *   one_cycle        by half cosines from lr / div to lr in `warmup` steps, and to lr / div / final_div at step `steps`
 *                    (Smith and Topin, 2018), as PyTorch's OneCycleLR; momenta stay
 *
 * Except for one_cycle the rate of step t is multiplied by min(1, t / warmup).
 */
#include <math.h>
#include <string.h>

#include "passes/train/update.h"

static bool is(const Update *u, const char *schedule) { return strcmp(u->o->schedule, schedule) == 0; }

static Val at_most_1(const Update *u, Val x) { return update_binary(u, OP_min, x, update_number(u, 1)); }

/* The part of `length` steps after step `begin` that is done before this step, from 0 to 1. */
static Val part_done(const Update *u, double begin, double length) {
  Val done = update_binary(u, OP_sub, u->now, update_number(u, begin + 1));
  return at_most_1(u, build_unary(u->b, OP_relu, update_times(u, done, 1 / length)));
}

/* (1 + cos(pi x)) / 2, from 1 to 0 */
static Val half_wave(const Update *u, Val x) {
  Val wave = build_unary(u->b, OP_cos, update_times(u, x, M_PI));
  return update_times(u, update_binary(u, OP_add, wave, update_number(u, 1)), 0.5);
}

/* The remaining part of the way from lr to min_lr. */
static Val left_of(const Update *u) {
  const Optimizer *o = u->o;
  double begin = is(u, "wsd") ? o->steps - o->cooldown : o->warmup;
  Val progress = part_done(u, begin, o->steps - begin);
  return is(u, "cosine") ? half_wave(u, progress) : update_binary(u, OP_sub, update_number(u, 1), progress);
}

static Val one_cycle(const Update *u) {
  const Optimizer *o = u->o;
  double first = o->lr / o->div, last = first / o->final_div, top = o->warmup - 1;
  Val up = half_wave(u, part_done(u, 0, top)), down = half_wave(u, part_done(u, top, o->steps - 1 - top));
  Val rising = update_times(u, up, first - o->lr), falling = update_times(u, down, o->lr - last);
  return update_binary(u, OP_add, update_binary(u, OP_add, rising, falling), update_number(u, last));
}

Val update_learning_rate(const Update *u) {
  const Optimizer *o = u->o;
  Val lr = update_number(u, o->lr);
  if (is(u, "one_cycle")) return one_cycle(u);
  if (!is(u, "constant")) {
    Val above = update_times(u, left_of(u), o->lr - o->min_lr);
    lr = update_binary(u, OP_add, above, update_number(u, o->min_lr));
  }
  if (o->warmup > 0) lr = update_binary(u, OP_mul, lr, at_most_1(u, update_times(u, u->now, 1 / o->warmup)));
  return lr;
}
