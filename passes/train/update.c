/* passes/train/update.c - the update of weights and moments from the gradients.
 *
 *   sgd    g += decay w; m = momentum m + g; w -= lr m     (Sutskever et al., 2013, as in PyTorch)
 *   adamw  m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g g;
 *          w -= lr (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + decay w)     (Loshchilov and Hutter, 2019)
 *   lion   w -= lr (sign(b1 m + (1 - b1) g) + decay w); m = b2 m + (1 - b2) g    (Chen et al., 2023)
 *
 * t = step + 1.  1 - b^t is computed as -expm1(t ln b), without cancellation.  Before the update all gradients are
 * scaled by one factor to the norm `clip`.  The learning rate is lr min(1, t / warmup) times the value of the schedule.
 */
#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "passes/train/train.h"

typedef struct Update {
  Builder *b;
  const Optimizer *o;
  const Type *scalar; /* f32 */
  Val t;              /* number of steps, including this one */
  Val lr;
  Val correction[2]; /* adamw: 1 - beta^t for both moments */
  Val scale;         /* of gradients; 0: no scaling */
} Update;

/* ---- scalars */

static Val number(const Update *u, double value) { return build_splat(u->b, u->scalar, value); }
static Val binary(const Update *u, OpKind k, Val x, Val y) { return build_binary(u->b, k, x, y); }
static Val times(const Update *u, Val x, double c) { return binary(u, OP_mul, x, number(u, c)); }
static Val at_most_1(const Update *u, Val x) { return binary(u, OP_min, x, number(u, 1)); }

/* Returns the remaining part of the way from lr to min_lr. */
static Val left_of(const Update *u) {
  const Optimizer *o = u->o;
  Val done = binary(u, OP_sub, u->t, number(u, o->warmup + 1));
  Val part = build_unary(u->b, OP_relu, times(u, done, 1 / (o->steps - o->warmup)));
  Val progress = at_most_1(u, part);
  if (strcmp(o->schedule, "linear") == 0) return binary(u, OP_sub, number(u, 1), progress);
  Val wave = build_unary(u->b, OP_cos, times(u, progress, M_PI));
  return times(u, binary(u, OP_add, wave, number(u, 1)), 0.5);
}

static Val learning_rate(const Update *u) {
  const Optimizer *o = u->o;
  Val lr = number(u, o->lr);
  if (strcmp(o->schedule, "constant") != 0) {
    Val above = times(u, left_of(u), o->lr - o->min_lr);
    lr = binary(u, OP_add, above, number(u, o->min_lr));
  }
  if (o->warmup > 0) lr = binary(u, OP_mul, lr, at_most_1(u, times(u, u->t, 1 / o->warmup)));
  return lr;
}

/* 1 - b^t */
static Val correction(const Update *u, double b) {
  if (b == 0) return number(u, 1);
  return build_unary(u->b, OP_neg, build_unary(u->b, OP_expm1, times(u, u->t, log(b))));
}

/* Operations from `first` on follow the weight: it is updated where it is stored (D46). */
static void follow_weight(const Update *u, const Trained *w, size_t first) {
  Func *f = u->b->f;
  for (size_t i = first; i < f->ops.n; i++) f->ops.items[i].mirror = (Mirror){name_of(f, w->read), MIRROR_INSIDE};
}

static Val norm_of(const Update *u, const TrainedList *list) {
  Val sum = 0;
  for (size_t i = 0; i < list->n; i++) {
    Val g = list->items[i].gradient;
    size_t first = u->b->f->ops.n;
    int axes[MAX_RANK], rank = type_of(u->b->f, g)->rank;
    for (int d = 0; d < rank; d++) axes[d] = d;
    Val square = build_binary(u->b, OP_mul, g, g);
    Val part = build_cast(u->b, rank ? build_reduce(u->b, RED_SUM, square, rank, axes) : square, DT_f32);
    follow_weight(u, &list->items[i], first);
    sum = sum ? binary(u, OP_add, sum, part) : part;
  }
  return build_unary(u->b, OP_sqrt, sum);
}

/* min(1, clip / (norm + 1e-6)) */
static Val clip(const Update *u, Val norm) {
  if (!(u->o->clip > 0)) return 0;
  Val most = number(u, u->o->clip), above = binary(u, OP_add, norm, number(u, 1e-6));
  return at_most_1(u, binary(u, OP_div, most, above));
}

/* ---- tensors */

static Val spread(const Update *u, Val scalar, const Type *t) {
  const Op *made = op_of(u->b->f, scalar);
  if (made->kind == OP_const) return build_splat(u->b, t, op_float(made, AT_value, 0));
  Attr a = attr_ints(u->b->m, AT_dims, 0, NULL);
  Val x = build_cast(u->b, scalar, t->dtype);
  if (!t->rank) return x;
  return build_op(u->b, &(OpSpec){.kind = OP_broadcast, .nin = 1, .in = &x, .type = t, .nattrs = 1, .attrs = &a});
}

static Val scaled(const Update *u, Val x, double by) {
  return build_binary(u->b, OP_mul, x, build_splat(u->b, type_of(u->b->f, x), by));
}

/* part x + (1 - part) y */
static Val mixed(const Update *u, double part, Val x, Val y) {
  Val kept = scaled(u, x, part), new = scaled(u, y, 1 - part);
  return build_binary(u->b, OP_add, kept, new);
}

static const char *state_name(const Update *u, const Trained *w, const char *what) {
  return arena_printf(u->b->m->arena, "%s:%s", w->name, what);
}

static Val read_moment(const Update *u, const Trained *w, const char *what) {
  Module *m = u->b->m;
  const Type *t = type_of(u->b->f, w->read);
  const char *name = state_name(u, w, what);
  if (module_state(m, name)) {
    diag_error(u->b->diags, DIAG_train, (Loc){0}, "weight '%s' has the name of a moment of '%s'", name, w->name);
    return 0;
  }
  module_state_add(m, name, t, 0);
  return build_read(u->b, name);
}

/* Subtracts lr times `change` from the weight. */
static void step(const Update *u, const Trained *w, Val change) {
  const Type *t = type_of(u->b->f, w->read);
  Val move = build_binary(u->b, OP_mul, spread(u, u->lr, t), change);
  build_write(u->b, w->name, build_binary(u->b, OP_sub, w->read, move));
}

static double decay_of(const Update *u, const Trained *w) {
  return u->o->decay && fnmatch(u->o->decay, w->name, 0) != 0 ? 0 : u->o->weight_decay;
}

static Val with_decay(const Update *u, const Trained *w, Val x) {
  double decay = decay_of(u, w);
  return decay > 0 ? build_binary(u->b, OP_add, x, scaled(u, w->read, decay)) : x;
}

static void sgd(const Update *u, const Trained *w, Val g) {
  g = with_decay(u, w, g);
  if (u->o->momentum > 0) {
    g = build_binary(u->b, OP_add, scaled(u, read_moment(u, w, "momentum"), u->o->momentum), g);
    build_write(u->b, state_name(u, w, "momentum"), g);
  }
  step(u, w, g);
}

static void adamw(const Update *u, const Trained *w, Val g) {
  Builder *b = u->b;
  const Type *t = type_of(b->f, w->read);
  Val m = mixed(u, u->o->beta1, read_moment(u, w, "m"), g);
  Val v = read_moment(u, w, "v"), square_now = build_binary(b, OP_mul, g, g);
  v = mixed(u, u->o->beta2, v, square_now);
  Val mean = build_binary(b, OP_div, m, spread(u, u->correction[0], t));
  Val square = build_binary(b, OP_div, v, spread(u, u->correction[1], t));
  Val root = build_unary(b, OP_sqrt, square);
  root = build_binary(b, OP_add, root, build_splat(b, t, u->o->eps));
  build_write(u->b, state_name(u, w, "m"), m);
  build_write(u->b, state_name(u, w, "v"), v);
  step(u, w, with_decay(u, w, build_binary(b, OP_div, mean, root)));
}

static void lion(const Update *u, const Trained *w, Val g) {
  Val m = read_moment(u, w, "m");
  Val sign = build_unary(u->b, OP_sign, mixed(u, u->o->beta1, m, g));
  build_write(u->b, state_name(u, w, "m"), mixed(u, u->o->beta2, m, g));
  step(u, w, with_decay(u, w, sign));
}

bool train_update(Builder *b, const Optimizer *o, Val steps, const TrainedList *list) {
  static void (*const updates[])(const Update *u, const Trained *w, Val g) = {
#define OPTIMIZER(name, ...) [OPTIMIZER_##name] = name,
#include "passes/train/optimizers.def"
  };
  size_t errors = b->diags->errors;
  Update u = {.b = b, .o = o, .scalar = type_get(b->m, DT_f32, 0, NULL)};
  b->prefix = "update.", b->phase = PH_step;
  Val made = build_cast(b, steps, DT_f32);
  u.t = binary(&u, OP_add, made, number(&u, 1));
  u.lr = learning_rate(&u);
  for (int i = 0; i < 2 && o->kind == OPTIMIZER_adamw; i++) u.correction[i] = correction(&u, i ? o->beta2 : o->beta1);
  Val norm = norm_of(&u, list);
  u.scale = clip(&u, norm);
  for (size_t i = 0; i < list->n; i++) {
    const Trained *w = &list->items[i];
    b->prefix = arena_printf(b->m->arena, "%s.update.", w->name);
    size_t first = b->f->ops.n;
    Val g = w->gradient;
    if (u.scale) g = build_binary(b, OP_mul, g, spread(&u, u.scale, type_of(b->f, g)));
    updates[o->kind](&u, w, g);
    follow_weight(&u, w, first);
    if (i == 0) builder_reserve(b, (b->f->ops.n - first) * (list->n - 1) + 8);
  }
  b->prefix = NULL, b->phase = PH_fwd;
  build_output(b, "grad_norm", norm, NULL);
  build_output(b, "lr", u.lr, NULL);
  return b->diags->errors == errors;
}
