/* passes/train/loss.c - losses.
 *
 *   cross_entropy  the first output is logits [..., classes], `labels` i64 [...]; mean over all labels except ignored
 *                  ones (-100); others must be classes (ir/index_bound.h)
 *   mse, bce       the first output and `labels` of its type: squared difference, and binary cross-entropy of logits
 *                  with labels in [0, 1]; mean over all elements
 *   NAME           an output of the model, a float scalar
 *
 * With label smoothing s the target is 1 - s of the label plus s / classes of every class (the label included), so the
 * loss is (1 - s) cross-entropy + s (log-sum-exp - mean of the logits).  z_loss=z adds z log-sum-exp^2, which keeps it
 * near 0 (Chowdhery et al., 2022).  The cross-entropy of a label that is no class
 * is the log-sum-exp.
 *
 * The computation is in f32 or wider.  If all labels are ignored, the loss is 0 / 0 = NaN.
 */
#include <string.h>

#include "passes/train/train.h"

static Val all_sum(Builder *b, Val x) {
  int axes[MAX_RANK], rank = x ? type_of(b->f, x)->rank : 0;
  for (int d = 0; d < rank; d++) axes[d] = d;
  return x && rank ? build_reduce(b, RED_SUM, x, rank, axes) : x;
}

static Val number(Builder *b, Val like, double value) { return like ? build_splat(b, type_of(b->f, like), value) : 0; }

static Val select(Builder *b, Val condition, Val x, Val y) {
  return build_op(b, &(OpSpec){.kind = OP_select, .nin = 3, .in = (Val[]){condition, x, y}});
}

/* Casts 16-bit values to f32. */
static Val wide(Builder *b, Val x) { return build_cast(b, x, type_of(b->f, x)->dtype == DT_f64 ? DT_f64 : DT_f32); }

/* Divides the sum of all elements of all micro-batches by a number that all micro-batches know. */
static Loss total_over(Builder *b, Val x, Val count) {
  Val sum = all_sum(b, x);
  sum = sum ? build_op(b, &(OpSpec){.kind = OP_accumulate, .nin = 1, .in = &sum}) : 0;
  return sum ? (Loss){.value = build_binary(b, OP_div, sum, count), .count = count} : (Loss){0};
}

static Loss mean(Builder *b, Val x) {
  if (!x) return (Loss){0};
  const Type *t = type_of(b->f, x);
  return total_over(b, x, build_size(b, type_get(b->m, t->dtype, 0, NULL), type_elements(b->m, t)));
}

/* Counts the labels that are not ignored, before all micro-batches. */
static Val count_kept(Builder *b, Val labels, double ignored, DType t) {
  b->phase = PH_pre;
  Val kept = build_binary(b, OP_ne, labels, number(b, labels, ignored));
  Val count = all_sum(b, build_cast(b, kept, t));
  b->phase = PH_fwd;
  return count;
}

static Val entropy_of(Builder *b, Val x, Val label) {
  return build_op(b, &(OpSpec){.kind = OP_cross_entropy, .nin = 2, .in = (Val[]){x, label}});
}

/* The loss for a target of equal classes: log-sum-exp - mean. */
static Val evenly(Builder *b, Val x, Val labels) {
  const Type *t = type_of(b->f, x);
  Val all = entropy_of(b, x, number(b, labels, -1)), sum = build_reduce(b, RED_SUM, x, 1, (int[]){t->rank - 1});
  Val classes = sum ? build_size(b, type_of(b->f, sum), t->dims[t->rank - 1]) : 0;
  return build_binary(b, OP_sub, all, build_binary(b, OP_div, sum, classes));
}

/* 1 for each label that counts and whose class has the largest logit, else 0.  A label that does not count has class 0.
 */
static Val correct(Builder *b, Val x, Val kept, Val label) {
  const Type *t = type_of(b->f, x);
  const Expr *dims[MAX_RANK];
  const int last = t->rank - 1;
  for (int d = 0; d < t->rank; d++) dims[d] = d == last ? ex_const(b->m, 1) : t->dims[d];
  const Attr at[] = {attr_i(AT_axis, last), attr_e(AT_start, ex_const(b->m, 0))};
  const Val in[] = {x, build_reshape(b, label, t->rank, dims)};
  Val most = build_reduce(b, RED_MAX, x, 1, &last);
  Val own = build_op(b, &(OpSpec){.kind = OP_take, .nin = 2, .in = in, .nattrs = 2, .attrs = at});
  own = own ? build_reshape(b, own, last, t->dims) : 0;
  return build_cast(b, build_binary(b, OP_and, kept, build_binary(b, OP_ge, own, most)), t->dtype);
}

static Val weighted(Builder *b, Val x, double by) { return build_binary(b, OP_mul, x, number(b, x, by)); }

static Loss cross_entropy(Builder *b, Val logits, const LossOptions *o, bool evaluates) {
  const Type *t = type_of(b->f, logits);
  const Type *rows = type_get(b->m, DT_i64, t->rank - 1, t->dims);
  Val x = wide(b, logits), labels = build_input(b, "labels", rows);
  Val kept = build_binary(b, OP_ne, labels, number(b, labels, o->ignore));
  Val label = select(b, kept, labels, number(b, labels, 0));
  Val each = entropy_of(b, x, label), count, entropy = 0;
  Loss loss;
  if (evaluates && (o->label_smoothing > 0 || o->z_loss > 0)) entropy = select(b, kept, each, number(b, each, 0));
  if (o->label_smoothing > 0)
    each = build_binary(b, OP_add, weighted(b, each, 1 - o->label_smoothing),
                        weighted(b, evenly(b, x, labels), o->label_smoothing));
  if (o->z_loss > 0) {
    Val all = entropy_of(b, x, number(b, labels, -1));
    each = build_binary(b, OP_add, each, weighted(b, build_binary(b, OP_mul, all, all), o->z_loss));
  }
  Val counted = select(b, kept, each, number(b, each, 0));
  count = count_kept(b, labels, o->ignore, type_of(b->f, x)->dtype);
  loss = total_over(b, counted, count);
  if (entropy) loss.entropy = total_over(b, entropy, count).value;
  if (evaluates) loss.accuracy = total_over(b, correct(b, x, kept, label), count).value;
  return loss;
}

static Loss squares(Builder *b, Val y, const LossOptions *o, bool evaluates) {
  (void)o, (void)evaluates;
  Val x = wide(b, y), labels = build_input(b, "labels", type_of(b->f, x));
  Val difference = build_binary(b, OP_sub, x, labels);
  return mean(b, build_binary(b, OP_mul, difference, difference));
}

/* max(x, 0) - x z + log(1 + exp(-|x|)): no overflow. */
static Loss binary(Builder *b, Val y, const LossOptions *o, bool evaluates) {
  (void)o, (void)evaluates;
  Val x = wide(b, y), labels = build_input(b, "labels", type_of(b->f, x));
  Val rest = build_unary(b, OP_log1p, build_unary(b, OP_exp, build_unary(b, OP_neg, build_unary(b, OP_abs, x))));
  Val positive = build_unary(b, OP_relu, x), product = build_binary(b, OP_mul, x, labels);
  Val linear = build_binary(b, OP_sub, positive, product);
  return mean(b, build_binary(b, OP_add, linear, rest));
}

static Loss own(Builder *b, const char *loss, size_t n, const Output *outputs) {
  for (size_t i = 0; i < n; i++) {
    if (strcmp(outputs[i].name, loss) != 0) continue;
    const Type *t = type_of(b->f, outputs[i].value);
    if (t->rank == 0 && dtype_is_float(t->dtype)) {
      Val x = wide(b, outputs[i].value);
      return (Loss){.value = build_op(b, &(OpSpec){.kind = OP_accumulate, .nin = 1, .in = &x}),
                    .count = number(b, x, 1)};
    }
    Text text = {.arena = b->m->arena};
    type_print(b->m, &text, t);
    diag_error(b->diags, DIAG_usage_value, (Loc){0}, "output '%s' is %s; a loss must be a float scalar", loss,
               text_str(&text));
    return (Loss){0};
  }
  diag_error(b->diags, DIAG_usage_value, (Loc){0},
             "--train %s is not a loss (cross_entropy, mse, bce) and not an output of the model", loss);
  return (Loss){0};
}

static bool has_input(const Func *f, const char *name) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_input && strcmp(op_str(&f->ops.items[i], AT_name), name) == 0) return true;
  return false;
}

bool train_loss(Builder *b, const char *loss, size_t n, const Output *outputs, bool evaluates, Loss *out) {
  static Loss (*const build[LOSS_own])(Builder * b, Val y, const LossOptions *o, bool evaluates) = {
      [LOSS_cross_entropy] = cross_entropy, [LOSS_mse] = squares, [LOSS_bce] = binary};
  LossOptions o;
  if (!train_loss_parse(b->m->arena, loss, &o, b->diags)) return false;
  if (o.kind == LOSS_own) return *out = own(b, loss, n, outputs), out->value != 0;
  const Type *t = type_of(b->f, outputs[0].value);
  if (!dtype_is_float(t->dtype) || t->rank < o.least_rank)
    return diag_error(b->diags, DIAG_usage_value, (Loc){0},
                      "--train %s needs floats; the first output, '%s', is of type %s", o.name, outputs[0].name,
                      dtype_name(t->dtype));
  if (has_input(b->f, "labels"))
    return diag_error(b->diags, DIAG_usage_value, (Loc){0}, "the model has an input 'labels', which --train %s adds",
                      o.name);
  return *out = build[o.kind](b, outputs[0].value, &o, evaluates), out->value != 0;
}
