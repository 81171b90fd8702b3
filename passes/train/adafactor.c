/* passes/train/adafactor.c - Adafactor (Shazeer and Stern, 2018), as torch.optim.Adafactor.
 *
 *   p = t^beta2_decay;  of a matrix, over its last two dimensions:
 *     row += p (mean over columns of g g - row);  column += p (mean over rows of g g - column)
 *     v = row column / max(mean of row, eps1)
 *   of a vector:  v += p (g g - v)
 *   u = g / sqrt(max(v, eps1^2))
 *   w -= lr decay w + max(eps2, rms(w)) min(lr, 1 / sqrt(t)) u / max(1, rms(u) / d)
 *
 * Rows and columns are states of their own size, so they do not follow the weight.
 */
#include <math.h>

#include "passes/train/update.h"

/* The type without dimension d. */
static const Type *without(const Update *u, const Type *t, int d) {
  const Expr *dims[MAX_RANK];
  for (int i = 0, k = 0; i < t->rank; i++)
    if (i != d) dims[k++] = t->dims[i];
  return type_get(u->b->m, t->dtype, t->rank - 1, dims);
}

static Val mean_along(const Update *u, Val x, int d) {
  const Type *t = type_of(u->b->f, x);
  Val sum = build_reduce(u->b, RED_SUM, x, 1, &d);
  return sum ? build_binary(u->b, OP_div, sum, build_size(u->b, type_of(u->b->f, sum), t->dims[d])) : 0;
}

/* Broadcasts along dimension d. */
static Val along(const Update *u, Val x, const Type *t, int d) {
  int64_t kept[MAX_RANK];
  for (int i = 0, k = 0; i < t->rank; i++)
    if (i != d) kept[k++] = i;
  Attr a = attr_ints(u->b->m, AT_dims, t->rank - 1, kept);
  return build_op(u->b, &(OpSpec){.kind = OP_broadcast, .nin = 1, .in = &x, .type = t, .nattrs = 1, .attrs = &a});
}

typedef struct Moment {
  const char *what;
  Val old, new;
} Moment;

/* old + part (now - old); written when all its uses exist. */
static Moment moved(const Update *u, const Trained *w, const char *what, Val now, Val part) {
  const Type *t = type_of(u->b->f, now);
  Val old = update_read(u, w, what, t);
  if (!old) return (Moment){0};
  Val move = update_binary(u, OP_mul, update_spread(u, part, t), update_binary(u, OP_sub, now, old));
  return (Moment){what, old, update_binary(u, OP_add, old, move)};
}

static void write(const Update *u, const Trained *w, Moment m) { update_write(u, w, m.what, m.new, m.old); }

/* The estimate of g g of a matrix from its rows and columns. */
static Val factored(const Update *u, const Trained *w, Val square, Val part) {
  const Type *t = type_of(u->b->f, square);
  const int last = t->rank - 1;
  const size_t first = u->b->f->ops.n;
  const Moment row = moved(u, w, "row", mean_along(u, square, last), part),
               column = moved(u, w, "column", mean_along(u, square, last - 1), part);
  if (!row.new || !column.new) return 0;
  Val mean = mean_along(u, row.new, last - 1);
  Val least = build_splat(u->b, type_of(u->b->f, mean), u->o->eps1);
  Val size = along(u, update_binary(u, OP_max, mean, least), without(u, t, last), last - 1);
  Val share = along(u, update_binary(u, OP_div, row.new, size), t, last);
  Val v = update_binary(u, OP_mul, share, along(u, column.new, t, last - 1));
  write(u, w, row), write(u, w, column);
  update_apart(u, w, first);
  return v;
}

/* The same of a vector: the moments themselves. */
static Val separate(const Update *u, const Trained *w, Val square, Val part) {
  const Moment v = moved(u, w, "v", square, part);
  if (v.new) write(u, w, v);
  return v.new;
}

/* The root of the mean square, an f32. */
static Val rms(const Update *u, Val x) {
  const Type *t = type_of(u->b->f, x);
  Val sum = update_sum(u, update_binary(u, OP_mul, x, x));
  Val mean = update_binary(u, OP_div, sum, build_size(u->b, u->scalar, type_elements(u->b->m, t)));
  return build_unary(u->b, OP_sqrt, mean);
}

void update_adafactor(Update *u, const Trained *w, Val g) {
  const Optimizer *o = u->o;
  const Type *t = type_of(u->b->f, w->read);
  Val part = update_binary(u, OP_pow, u->t, update_number(u, o->beta2_decay));
  Val square = update_binary(u, OP_mul, g, g);
  Val v = t->rank > 1 ? factored(u, w, square, part) : separate(u, w, square, part);
  if (!v) return;
  Val root = build_unary(u->b, OP_rsqrt, update_binary(u, OP_max, v, build_splat(u->b, t, o->eps1 * o->eps1)));
  Val change = update_binary(u, OP_mul, root, g);
  Val rate = update_binary(u, OP_min, u->lr, build_unary(u->b, OP_rsqrt, u->t));
  Val size = update_binary(u, OP_max, rms(u, w->read), update_number(u, o->eps2));
  Val above = update_binary(u, OP_max, update_times(u, rms(u, change), 1 / o->d), update_number(u, 1));
  Val by = update_binary(u, OP_div, update_binary(u, OP_mul, size, rate), above);
  Val move = update_binary(u, OP_mul, update_spread(u, by, t), change), decay = 0;
  if (update_decay(u, w) > 0)
    decay = update_binary(u, OP_mul, update_spread(u, u->lr, t), update_scaled(u, w->read, update_decay(u, w)));
  if (decay) move = update_binary(u, OP_add, decay, move);
  update_set(u, w, update_binary(u, OP_sub, w->read, move));
}
