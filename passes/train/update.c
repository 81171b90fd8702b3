/* passes/train/update.c - the update of weights and moments from the gradients.
 *
 *   sgd    g += decay w; m = momentum m + g; w -= lr m     (Sutskever et al., 2013, as in PyTorch)
 *   adamw  m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g g;
 *          w -= lr (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + decay w)     (Loshchilov and Hutter, 2019)
 *   lion   w -= lr (sign(b1 m + (1 - b1) g) + decay w); m = b2 m + (1 - b2) g    (Chen et al., 2023)
 *   muon, adafactor   muon.c, adafactor.c
 *
 * t = step + 1.  1 - b^t is computed as -expm1(t ln b), without cancellation.  Before the update all gradients are
 * scaled by one factor to the norm `clip`.  schedule.c has the learning rate.
 *
 * With a loss scale S (--dtype f16) the gradients are those of S times the loss, and are divided by S.  A step whose
 * norm of gradients is not finite writes no weight and no moment and halves S; S doubles after `scale_steps` steps that
 * count.  t then counts the steps that do.  (Micikevicius et al., 2018, as PyTorch's GradScaler)
 *
 * The average of a weight is the weight after the first step, then ema average + (1 - ema) w, as PyTorch's
 * AveragedModel.  Moments in bf16 are rounded to the nearest, or up or down at random with the nearer one more often,
 * so that the mean stays (`moments`).
 */
#include "passes/train/update.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"

/* ---- scalars */

Val update_number(const Update *u, double value) { return build_splat(u->b, u->scalar, value); }
Val update_binary(const Update *u, OpKind k, Val x, Val y) { return build_binary(u->b, k, x, y); }
Val update_times(const Update *u, Val x, double c) { return update_binary(u, OP_mul, x, update_number(u, c)); }
static Val at_most_1(const Update *u, Val x) { return update_binary(u, OP_min, x, update_number(u, 1)); }

static Val choose(const Update *u, Val condition, Val x, Val y) {
  return build_op(u->b, &(OpSpec){.kind = OP_select, .nin = 3, .in = (Val[]){condition, x, y}});
}

Val update_correction(const Update *u, Val t, double b) {
  if (b == 0) return update_number(u, 1);
  return build_unary(u->b, OP_neg, build_unary(u->b, OP_expm1, update_times(u, t, log(b))));
}

/* Operations from `first` on follow the weight: it is updated where it is stored (D46). */
static void follow_weight(const Update *u, const Trained *w, size_t first) {
  Func *f = u->b->f;
  for (size_t i = first; i < f->ops.n; i++)
    if (!f->ops.items[i].mirror.name) f->ops.items[i].mirror = (Mirror){name_of(f, w->read), MIRROR_INSIDE};
}

void update_apart(const Update *u, const Trained *w, size_t first) {
  Func *f = u->b->f;
  for (size_t i = first; i < f->ops.n; i++) f->ops.items[i].mirror = (Mirror){name_of(f, w->read), MIRROR_APART};
}

Val update_sum(const Update *u, Val x) {
  int axes[MAX_RANK], rank = type_of(u->b->f, x)->rank;
  for (int d = 0; d < rank; d++) axes[d] = d;
  return build_cast(u->b, rank ? build_reduce(u->b, RED_SUM, x, rank, axes) : x, DT_f32);
}

static Val norm_of(const Update *u, const TrainedList *list) {
  Val sum = 0;
  for (size_t i = 0; i < list->n; i++) {
    Val g = list->items[i].gradient;
    size_t first = u->b->f->ops.n;
    Val part = update_sum(u, build_binary(u->b, OP_mul, g, g));
    follow_weight(u, &list->items[i], first);
    sum = sum ? update_binary(u, OP_add, sum, part) : part;
  }
  return build_unary(u->b, OP_sqrt, sum);
}

/* min(1, clip / (norm + 1e-6)) */
static Val clip(const Update *u, Val norm) {
  if (!(u->o->clip > 0)) return 0;
  Val most = update_number(u, u->o->clip), above = update_binary(u, OP_add, norm, update_number(u, 1e-6));
  return at_most_1(u, update_binary(u, OP_div, most, above));
}

/* ---- tensors */

Val update_spread(const Update *u, Val scalar, const Type *t) {
  const Op *made = op_of(u->b->f, scalar);
  if (made->kind == OP_const && dtype_is_float(t->dtype)) return build_splat(u->b, t, op_float(made, AT_value, 0));
  Attr a = attr_ints(u->b->m, AT_dims, 0, NULL);
  Val x = build_cast(u->b, scalar, t->dtype);
  if (!t->rank) return x;
  return build_op(u->b, &(OpSpec){.kind = OP_broadcast, .nin = 1, .in = &x, .type = t, .nattrs = 1, .attrs = &a});
}

Val update_scaled(const Update *u, Val x, double by) {
  return build_binary(u->b, OP_mul, x, build_splat(u->b, type_of(u->b->f, x), by));
}

Val update_mixed(const Update *u, double part, Val x, Val y) {
  Val kept = update_scaled(u, x, part), new = update_scaled(u, y, 1 - part);
  return build_binary(u->b, OP_add, kept, new);
}

/* `value` in a step that counts, else `old`. */
static Val if_counts(const Update *u, Val value, Val old) {
  if (!u->finite) return value;
  const Type *t = type_with_dtype(u->b->m, type_of(u->b->f, value), DT_bool);
  return choose(u, update_spread(u, u->finite, t), value, old);
}

/* ---- states */

static const char *state_name(const Update *u, const Trained *w, const char *what) {
  return arena_printf(u->b->m->arena, "%s:%s", w->name, what);
}

/* The type in which a state is stored; averages of weights are no moments. */
static const Type *stored_type(const Update *u, const char *what, const Type *t) {
  bool narrow = strcmp(u->o->moments, "f32") != 0 && t->rank && strcmp(what, "ema") != 0;
  return narrow ? type_with_dtype(u->b->m, t, DT_bf16) : t;
}

Val update_read(const Update *u, const Trained *w, const char *what, const Type *t) {
  Module *m = u->b->m;
  const char *name = state_name(u, w, what);
  if (module_state(m, name)) {
    diag_error(u->b->diags, DIAG_train, (Loc){0}, "weight '%s' has the name of a moment of '%s'", name, w->name);
    return 0;
  }
  module_state_add(m, name, stored_type(u, what, t), 0);
  return build_cast(u->b, build_read(u->b, name), t->dtype);
}

/* Random bits below the last one that bf16 keeps, then that bit and those above: x is rounded up with the probability
 * that is its distance from the number below. */
static Val round_at_random(const Update *u, const char *name, Val x) {
  Module *m = u->b->m;
  const Type *f32 = type_with_dtype(m, type_of(u->b->f, x), DT_f32), *bits = type_with_dtype(m, f32, DT_i32);
  const Expr *zeros[MAX_RANK];
  for (int d = 0; d < f32->rank; d++) zeros[d] = ex_const(m, 0);
  Attr attrs[] = {attr_s(m, AT_kind, "uniform"), attr_i(AT_seed, (int64_t)(hash64(name, strlen(name), 0) >> 1)),
                  attr_i(AT_stream, 1), attr_exprs(m, AT_starts, f32->rank, zeros),
                  attr_exprs(m, AT_extents, f32->rank, f32->dims)};
  Val drawn = build_op(
      u->b,
      &(OpSpec){.kind = OP_random_keyed, .nin = 1, .in = (Val[]){u->steps}, .type = f32, .nattrs = 5, .attrs = attrs});
  Attr to_bits = attr_dtype(AT_to, DT_i32), to_f32 = attr_dtype(AT_to, DT_f32);
  Val wide = build_cast(u->b, x, DT_f32);
  Val is = build_op(u->b, &(OpSpec){.kind = OP_bitcast, .nin = 1, .in = &wide, .nattrs = 1, .attrs = &to_bits});
  Val more = build_cast(u->b, update_scaled(u, drawn, 65536), DT_i32);
  Val cut = build_binary(u->b, OP_and, build_binary(u->b, OP_add, is, more), build_splat(u->b, bits, -65536));
  Val rounded = build_op(u->b, &(OpSpec){.kind = OP_bitcast, .nin = 1, .in = &cut, .nattrs = 1, .attrs = &to_f32});
  return build_cast(u->b, rounded, DT_bf16);
}

void update_write(const Update *u, const Trained *w, const char *what, Val value, Val old) {
  const char *name = state_name(u, w, what);
  if (!value || !old) return;
  const Type *t = module_state(u->b->m, name)->type;
  Val x = if_counts(u, value, old);
  bool random = t->dtype == DT_bf16 && strcmp(u->o->moments, "bf16_random") == 0;
  build_write(u->b, name, random ? round_at_random(u, name, x) : build_cast(u->b, x, t->dtype));
}

/* The average moves by its share towards the weight. */
static void average(const Update *u, const Trained *w, Val value) {
  if (!u->ema_share) return;
  const Type *t = type_of(u->b->f, value);
  Val old = update_read(u, w, "ema", t);
  if (!old) return;
  Val way = build_binary(u->b, OP_mul, update_spread(u, u->ema_share, t), build_binary(u->b, OP_sub, value, old));
  update_write(u, w, "ema", build_binary(u->b, OP_add, old, way), old);
}

void update_set(const Update *u, const Trained *w, Val value) {
  Val x = if_counts(u, value, w->read);
  build_write(u->b, w->name, x);
  average(u, w, x);
}

void update_step(const Update *u, const Trained *w, Val change) {
  const Type *t = type_of(u->b->f, w->read);
  Val move = build_binary(u->b, OP_mul, update_spread(u, u->lr, t), change);
  update_set(u, w, build_binary(u->b, OP_sub, w->read, move));
}

double update_decay(const Update *u, const Trained *w) {
  const Optimizer *o = u->o;
  bool decays =
      (!o->decay || training_glob(o->decay, w->name)) && !(o->no_decay && training_glob(o->no_decay, w->name));
  return decays ? o->weight_decay : 0;
}

Val update_with_decay(const Update *u, const Trained *w, Val x) {
  double decay = update_decay(u, w);
  return decay > 0 ? build_binary(u->b, OP_add, x, update_scaled(u, w->read, decay)) : x;
}

/* The mean of earlier gradients is independent of this one, and has the same expected value if that moves slowly. */
void update_agrees(Update *u, const Trained *w, Val mean, Val part) {
  if (strcmp(u->o->noise, "yes") != 0) return;
  const size_t first = u->b->f->ops.n;
  Val sum = update_sum(u, build_binary(u->b, OP_mul, w->gradient, mean));
  follow_weight(u, w, first);
  sum = update_binary(u, OP_div, sum, part);
  u->agree = u->agree ? update_binary(u, OP_add, u->agree, sum) : sum;
}

/* ---- optimizers */

/* 1 - b^(t - 1): the sum of the weights of all earlier gradients. */
static Val earlier(const Update *u, double b) {
  return update_correction(u, update_binary(u, OP_sub, u->t, update_number(u, 1)), b);
}

static void update_sgd(Update *u, const Trained *w, Val g) {
  g = update_with_decay(u, w, g);
  if (u->o->momentum > 0) {
    Val old = update_read(u, w, "momentum", type_of(u->b->f, w->read));
    g = build_binary(u->b, OP_add, update_scaled(u, old, u->o->momentum), g);
    update_write(u, w, "momentum", g, old);
  }
  update_step(u, w, g);
}

void update_adamw(Update *u, const Trained *w, Val g) {
  Builder *b = u->b;
  const Type *t = type_of(b->f, w->read);
  Val old = update_read(u, w, "m", t), m = update_mixed(u, u->o->beta1, old, g);
  update_agrees(u, w, old, earlier(u, u->o->beta1));
  Val before = update_read(u, w, "v", t), square_now = build_binary(b, OP_mul, g, g);
  Val v = update_mixed(u, u->o->beta2, before, square_now);
  Val mean = build_binary(b, OP_div, m, update_spread(u, u->correction[0], t));
  Val square = build_binary(b, OP_div, v, update_spread(u, u->correction[1], t));
  Val root = build_unary(b, OP_sqrt, square);
  root = build_binary(b, OP_add, root, build_splat(b, t, u->o->eps));
  update_write(u, w, "m", m, old);
  update_write(u, w, "v", v, before);
  update_step(u, w, update_with_decay(u, w, build_binary(b, OP_div, mean, root)));
}

static void update_lion(Update *u, const Trained *w, Val g) {
  Val m = update_read(u, w, "m", type_of(u->b->f, w->read));
  Val sign = build_unary(u->b, OP_sign, update_mixed(u, u->o->beta1, m, g));
  update_agrees(u, w, m, earlier(u, u->o->beta2));
  update_write(u, w, "m", update_mixed(u, u->o->beta2, m, g), m);
  update_step(u, w, update_with_decay(u, w, sign));
}

/* ---- the scale of the loss */

static const char scale_name[] = "loss_scale", since_name[] = "loss_scale:since", skipped_name[] = "loss_scale:skipped";

bool train_scale(Builder *b, const Optimizer *o, Val *scale) {
  Module *m = b->m;
  const Type *scalar = type_get(m, DT_f32, 0, NULL);
  static const char *const names[] = {scale_name, since_name, skipped_name};
  for (int i = 0; i < 3; i++) {
    if (module_state(m, names[i]) || module_param(m, names[i]))
      return diag_error(b->diags, DIAG_train, (Loc){0}, "the model has a weight or state '%s', which training adds",
                        names[i]);
    module_state_add(m, names[i], scalar, i == 0 ? o->loss_scale : 0);
  }
  return (*scale = build_read(b, scale_name)) != 0;
}

/* Divides the gradients by the scale. */
static void unscale(const Update *u, Val scale, TrainedList *list) {
  Val by = update_binary(u, OP_div, update_number(u, 1), scale);
  for (size_t i = 0; i < list->n; i++) {
    Trained *w = &list->items[i];
    size_t first = u->b->f->ops.n;
    w->gradient = build_binary(u->b, OP_mul, w->gradient, update_spread(u, by, type_of(u->b->f, w->gradient)));
    follow_weight(u, w, first);
  }
}

/* Finds whether the step counts, and writes the scale of the next one. */
static void move_scale(Update *u, Val scale, Val norm) {
  const double largest = 3.4e38;
  u->finite = build_binary(u->b, OP_lt, norm, update_number(u, largest));
  Val one = update_number(u, 1), zero = update_number(u, 0);
  Val since = update_binary(u, OP_add, build_read(u->b, since_name), one);
  Val grows = build_binary(u->b, OP_ge, since, update_number(u, u->o->scale_steps));
  Val more = choose(u, grows, update_times(u, scale, 2), scale);
  build_write(u->b, scale_name, choose(u, u->finite, more, update_times(u, scale, 0.5)));
  build_write(u->b, since_name, choose(u, u->finite, choose(u, grows, zero, since), zero));
  Val before = build_read(u->b, skipped_name), counts = choose(u, u->finite, zero, one);
  u->t = update_binary(u, OP_sub, u->now, before);
  build_write(u->b, skipped_name, update_binary(u, OP_add, before, counts));
  build_output(u->b, "loss_scale", scale, NULL);
  build_output(u->b, "skipped", counts, NULL);
}

Val train_if_counts(Builder *b, Val finite, Val value, Val old) {
  const Update u = {.b = b, .finite = finite};
  return if_counts(&u, value, old);
}

/* ---- the update */

static void start(Update *u) {
  u->now = u->t = update_binary(u, OP_add, build_cast(u->b, u->steps, DT_f32), update_number(u, 1));
  u->lr = update_learning_rate(u);
}

static void start_counted(Update *u) {
  const Optimizer *o = u->o;
  bool adam = o->kind == OPTIMIZER_adamw || o->kind == OPTIMIZER_muon;
  for (int i = 0; i < 2 && adam; i++) u->correction[i] = update_correction(u, u->t, i ? o->beta2 : o->beta1);
  if (!(o->ema > 0)) return;
  Val first = build_binary(u->b, OP_lt, u->t, update_number(u, 1.5));
  u->ema_share = choose(u, first, update_number(u, 1), update_number(u, 1 - o->ema));
}

bool train_update(Builder *b, const Optimizer *o, Val steps, Val scale, TrainedList *list, Val *finite) {
  static void (*const updates[])(Update * u, const Trained *w, Val g) = {
#define OPTIMIZER(name, ...) [OPTIMIZER_##name] = update_##name,
#include "passes/train/optimizers.def"
  };
  size_t errors = b->diags->errors;
  Update u = {.b = b, .o = o, .scalar = type_get(b->m, DT_f32, 0, NULL), .steps = steps};
  b->prefix = "update.", b->phase = PH_step;
  start(&u);
  if (scale) unscale(&u, scale, list);
  Val norm = norm_of(&u, list);
  if (scale) move_scale(&u, scale, norm);
  start_counted(&u);
  u.scale = clip(&u, norm);
  for (size_t i = 0; i < list->n; i++) {
    const Trained *w = &list->items[i];
    b->prefix = arena_printf(b->m->arena, "%s.update.", w->name);
    size_t first = b->f->ops.n;
    Val g = w->gradient;
    if (u.scale) g = build_binary(b, OP_mul, g, update_spread(&u, u.scale, type_of(b->f, g)));
    updates[o->kind](&u, w, g);
    follow_weight(&u, w, first);
    if (i == 0) builder_reserve(b, (b->f->ops.n - first) * (list->n - 1) + 8);
  }
  b->prefix = NULL, b->phase = PH_fwd;
  build_output(b, "grad_norm", norm, NULL);
  build_output(b, "lr", u.lr, NULL);
  if (u.agree) build_output(b, "grad_agree", u.agree, NULL);
  *finite = u.finite;
  return b->diags->errors == errors;
}
