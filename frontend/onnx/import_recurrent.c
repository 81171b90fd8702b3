/* frontend/onnx/import_recurrent.c - LSTM, GRU and RNN.
 *
 * One dot before the recurrence computes the contribution of the input to all gates at all steps.  Gates are a
 * separate dimension (weights [4 * hidden, in] become [4, hidden, in]), so the hidden dimension can be sharded and a
 * gate is a slice of the small dimension.  The recurrence is a loop over time, one per direction; up to MAX_UNROLLED
 * steps are unrolled instead.  A sequence shorter than the longest keeps its state in steps beyond its end, where
 * its outputs are 0; backwards it starts at its own end.
 *
 * Not done: activations that the table lacks.
 */
#include <inttypes.h>
#include <string.h>

#include "frontend/loop_build.h"
#include "frontend/onnx/import_private.h"

enum { MAX_UNROLLED = 8, MAX_GATES = 4, MAX_ACTIVATIONS = 6 };

/* ---- activations */

typedef struct Activation {
  const char *name;
  double alpha, beta; /* defaults */
} Activation;

static const Activation activations[] = {
    {"Sigmoid", 0, 0},          {"Tanh", 0, 0},       {"Relu", 0, 0},     {"Affine", 1, 0}, {"LeakyRelu", 0.01f, 0},
    {"HardSigmoid", 0.2f, 0.5}, {"ScaledTanh", 1, 1}, {"Softsign", 0, 0}, {"Elu", 1, 0},    {"ThresholdedRelu", 1, 0},
    {"Softplus", 0, 0},
};

static Val scaled(ImportNode *n, Val x, double alpha, double beta) {
  return binary_number(n, OP_add, binary_number(n, OP_mul, x, alpha), beta);
}

static Val activate(ImportNode *n, const Activation *a, Val x) {
  if (!x) return 0;
  if (strcmp(a->name, "Sigmoid") == 0) return build_unary(n->b, OP_sigmoid, x);
  if (strcmp(a->name, "Tanh") == 0) return build_unary(n->b, OP_tanh, x);
  if (strcmp(a->name, "Relu") == 0) return build_unary(n->b, OP_relu, x);
  if (strcmp(a->name, "Affine") == 0) return scaled(n, x, a->alpha, a->beta);
  if (strcmp(a->name, "HardSigmoid") == 0) return clamp_numbers(n, scaled(n, x, a->alpha, a->beta), 0, 1);
  if (strcmp(a->name, "ScaledTanh") == 0)
    return binary_number(n, OP_mul, build_unary(n->b, OP_tanh, binary_number(n, OP_mul, x, a->beta)), a->alpha);
  if (strcmp(a->name, "Softsign") == 0)
    return binary(n, OP_div, x, binary_number(n, OP_add, build_unary(n->b, OP_abs, x), 1));
  if (strcmp(a->name, "Softplus") == 0) {
    Val rest =
        build_unary(n->b, OP_log1p, build_unary(n->b, OP_exp, build_unary(n->b, OP_neg, build_unary(n->b, OP_abs, x))));
    return binary(n, OP_add, build_unary(n->b, OP_relu, x), rest);
  }
  Val zero = splat_like(n, x, 0);
  if (strcmp(a->name, "ThresholdedRelu") == 0) return select3(n, binary_number(n, OP_gt, x, a->alpha), x, zero);
  Val below = strcmp(a->name, "Elu") == 0 ? build_unary(n->b, OP_expm1, x) : x; /* LeakyRelu */
  return select3(n, binary_number(n, OP_lt, x, 0), binary_number(n, OP_mul, below, a->alpha), x);
}

/* Reads `count` activations per direction; alphas and betas are given only for the functions that have them, in
 * order. */
static bool read_activations(ImportNode *n, int count, const char *const *defaults, Activation *out) {
  size_t given, nalpha, nbeta, alpha_at = 0, beta_at = 0;
  const char *const *names = node_strings(n, "activations", &given);
  const float *alphas = node_floats(n, "activation_alpha", &nalpha), *betas = node_floats(n, "activation_beta", &nbeta);
  if (names && given != (size_t)count) return node_error(n, "%zu activations, not %d", given, count);
  for (int i = 0; i < count; i++) {
    const char *name = names ? names[i] : defaults[i];
    out[i].name = NULL;
    for (size_t k = 0; k < sizeof activations / sizeof *activations; k++)
      if (strcmp(activations[k].name, name) == 0) out[i] = activations[k];
    if (!out[i].name) return node_error(n, "activation \"%s\" is not supported", name);
    if (out[i].alpha != 0 && alpha_at < nalpha) out[i].alpha = (double)alphas[alpha_at++];
    bool has_beta = out[i].beta != 0 || strcmp(name, "Affine") == 0;
    if (has_beta && beta_at < nbeta) out[i].beta = (double)betas[beta_at++];
  }
  return true;
}

/* ---- the layer */

typedef struct Recurrent {
  int gates, directions;
  const Expr *steps;
  const Expr *batch, *hidden, *in;
  bool first_backward, batch_first;
  double clip;    /* 0 if none */
  Val x, lengths; /* [t, b, i]; [b] or 0 */
} Recurrent;

/* One direction of the layer. */
typedef struct Direction {
  bool backward;
  const Activation *f; /* of this direction */
  Val from_input;      /* [t, g, b, h], with both biases if they can be added in advance */
  Val weights;         /* [g, h, h]; without the last gate for a GRU whose reset gate acts on the state */
  Val last_weights;    /* [h, h], of that gate; 0 if none */
  Val bias[MAX_GATES]; /* of the recurrence, [h] (GRU); 0 if none */
  Val peepholes[3];    /* [h] (LSTM); 0 if none */
  Val h, c;            /* state, [b, h] */
} Direction;

/* Part `at` of the first dimension, without that dimension. */
static Val part(ImportNode *n, Val x, int64_t at) {
  return x ? drop_dims(n, build_slice(n->b, x, 0, ex_const(n->m, at), ex_const(n->m, 1), 1), 1) : 0;
}

static Val clipped(ImportNode *n, const Recurrent *r, Val x) {
  return r->clip > 0 ? clamp_numbers(n, x, -r->clip, r->clip) : x;
}

static Val gate(ImportNode *n, const Recurrent *r, const Activation *f, Val x) {
  return activate(n, f, clipped(n, r, x));
}

static Val product(ImportNode *n, Val x, Val y) { return binary(n, OP_mul, x, y); }
static Val plus(ImportNode *n, Val x, Val y) { return binary(n, OP_add, x, y); }
static Val one_minus(ImportNode *n, Val x) { return x ? build_binary(n->b, OP_sub, splat_like(n, x, 1), x) : 0; }
static Val peep(ImportNode *n, const Direction *d, int which, Val c, Val x) {
  return d->peepholes[which] ? plus(n, x, product(n, d->peepholes[which], c)) : x;
}

/* Computes one step from the gates' input [g, b, h]; stores the new states in *h and *c. */
static bool step_rnn(ImportNode *n, const Recurrent *r, const Direction *d, Val gates, Val *h, Val *c) {
  (void)c;
  *h = gate(n, r, &d->f[0], part(n, plus(n, gates, build_dot(n->b, d->h, d->weights, "bk,ghk->gbh")), 0));
  return *h != 0;
}

/* Gates i o f c. */
static bool step_lstm(ImportNode *n, const Recurrent *r, const Direction *d, Val gates, Val *h, Val *c) {
  gates = plus(n, gates, build_dot(n->b, d->h, d->weights, "bk,ghk->gbh"));
  Val i = gate(n, r, &d->f[0], peep(n, d, 0, d->c, part(n, gates, 0)));
  bool coupled = node_int(n, "input_forget", 0) != 0;
  Val f = coupled ? one_minus(n, i) : gate(n, r, &d->f[0], peep(n, d, 2, d->c, part(n, gates, 2)));
  *c = plus(n, product(n, f, d->c), product(n, i, gate(n, r, &d->f[1], part(n, gates, 3))));
  Val o = gate(n, r, &d->f[0], peep(n, d, 1, *c, part(n, gates, 1)));
  *h = product(n, o, gate(n, r, &d->f[2], *c));
  return *h != 0;
}

static Val with_bias(ImportNode *n, const Direction *d, int g, Val x) {
  return d->bias[g] ? plus(n, x, d->bias[g]) : x;
}

/* Gates z r h. */
static bool step_gru(ImportNode *n, const Recurrent *r, const Direction *d, Val gates, Val *h, Val *c) {
  (void)c;
  Val from_state = build_dot(n->b, d->h, d->weights, "bk,ghk->gbh");
  Val z = gate(n, r, &d->f[0], plus(n, part(n, gates, 0), with_bias(n, d, 0, part(n, from_state, 0))));
  Val reset = gate(n, r, &d->f[0], plus(n, part(n, gates, 1), with_bias(n, d, 1, part(n, from_state, 1)))), hidden;
  if (d->last_weights)
    hidden = with_bias(n, d, 2, build_dot(n->b, product(n, reset, d->h), d->last_weights, "bk,hk->bh"));
  else hidden = product(n, reset, with_bias(n, d, 2, part(n, from_state, 2))); /* acts on the state's part */
  hidden = gate(n, r, &d->f[1], plus(n, part(n, gates, 2), hidden));
  *h = plus(n, product(n, one_minus(n, z), hidden), product(n, z, d->h));
  return *h != 0;
}

static const struct Kind {
  const char *type;
  int gates, activations;
  const char *defaults[3];
  bool (*step)(ImportNode *n, const Recurrent *r, const Direction *d, Val gates, Val *h, Val *c);
} cells[] = {
    {"LSTM", 4, 3, {"Sigmoid", "Tanh", "Tanh"}, step_lstm},
    {"GRU", 3, 2, {"Sigmoid", "Tanh"}, step_gru},
    {"RNN", 1, 1, {"Tanh"}, step_rnn},
};

/* ---- reading the node */

static bool read_layer(ImportNode *n, Recurrent *r) {
  const Type *t = input_type(n, 0), *tr = input_type(n, 2);
  const char *direction = node_string(n, "direction", "forward");
  bool both = strcmp(direction, "bidirectional") == 0;
  r->batch_first = node_int(n, "layout", 0) != 0;
  r->first_backward = strcmp(direction, "reverse") == 0;
  r->directions = both ? 2 : 1;
  r->clip = node_float(n, "clip", 0);
  if (!both && !r->first_backward && strcmp(direction, "forward") != 0)
    return node_error(n, "direction \"%s\"", direction);
  if (t->rank != 3 || tr->rank != 3)
    return node_error(n, "operands must have three dimensions, not %s and %s", import_type_string(n->m, t),
                      import_type_string(n->m, tr));
  r->steps = t->dims[r->batch_first ? 1 : 0];
  r->batch = t->dims[r->batch_first ? 0 : 1], r->in = t->dims[2], r->hidden = tr->dims[2];
  const Expr *rows = ex_muli(n->m, r->hidden, r->gates), *directions = ex_const(n->m, r->directions);
  const Expr *weights[] = {directions, rows, r->in}, *recurrent[] = {directions, rows, r->hidden};
  if (input_type(n, 1) != type_get(n->m, t->dtype, 3, weights) || tr != type_get(n->m, t->dtype, 3, recurrent))
    return node_error(n, "weights %s and %s do not fit %s in %d direction%s",
                      import_type_string(n->m, input_type(n, 1)), import_type_string(n->m, tr),
                      import_type_string(n->m, t), r->directions, both ? "s" : "");
  if (has_input(n, 4) && input_type(n, 4)->rank != 1)
    return node_error(n, "sequence_lens must have one dimension, not %s", import_type_string(n->m, input_type(n, 4)));
  static const int batch_second[] = {1, 0, 2};
  r->x = r->batch_first ? build_transpose(n->b, input(n, 0), batch_second) : input(n, 0);
  r->lengths = has_input(n, 4) ? build_cast(n->b, input(n, 4), DT_i64) : 0;
  return r->x != 0;
}

/* Direction `d` of an input whose first dimension is the direction, reshaped to [first, hidden, more]. */
static Val weights_of(ImportNode *n, const Recurrent *r, size_t i, int d, int64_t first, const Expr *more) {
  const Expr *dims[] = {ex_const(n->m, first), r->hidden, more};
  return build_reshape(n->b, part(n, input(n, i), d), more ? 3 : 2, dims);
}

/* Reads an initial state, [b, h]; zero if the input is absent. */
static Val initial(ImportNode *n, const Recurrent *r, size_t i, int d) {
  const Expr *dims[] = {r->batch, r->hidden};
  if (!has_input(n, i)) return build_splat(n->b, type_get(n->m, input_type(n, 0)->dtype, 2, dims), 0);
  if (input_type(n, i)->rank != 3)
    return node_error(n, "the initial state must have three dimensions, not %s",
                      import_type_string(n->m, input_type(n, i)));
  if (!r->batch_first) return part(n, input(n, i), d);
  return drop_dims(n, build_slice(n->b, input(n, i), 1, ex_const(n->m, d), ex_const(n->m, 1), 1), 2);
}

/* Reads biases [2 * gates, h]: those of the input, which are added to its contribution, and those of the recurrence. */
static bool read_biases(ImportNode *n, const Recurrent *r, int d, Direction *out) {
  Val bias = weights_of(n, r, 3, d, 2 * r->gates, NULL);
  if (!bias) return false;
  const Expr *g = ex_const(n->m, r->gates);
  Val of_input = build_slice(n->b, bias, 0, ex_const(n->m, 0), g, 1), of_state = build_slice(n->b, bias, 0, g, g, 1);
  if (r->gates != 3) of_input = binary(n, OP_add, of_input, of_state);
  for (int i = 0; r->gates == 3 && i < r->gates; i++)
    if (!(out->bias[i] = part(n, of_state, i))) return false;
  return (out->from_input = plus(n, out->from_input, of_input ? insert_dims(n, of_input, 1u << 1, 3) : 0)) != 0;
}

/* Builds all values that are the same in every step, before the first one. */
static bool read_direction(ImportNode *n, const Recurrent *r, int d, Direction *out) {
  bool lstm = r->gates == 4, reset_before = r->gates == 3 && node_int(n, "linear_before_reset", 0) == 0;
  out->backward = d == 1 || r->first_backward;
  out->from_input = build_dot(n->b, r->x, weights_of(n, r, 1, d, r->gates, r->in), "tbi,ghi->tgbh");
  out->weights = weights_of(n, r, 2, d, r->gates, r->hidden);
  if (reset_before) {
    out->last_weights = part(n, out->weights, 2);
    out->weights = build_slice(n->b, out->weights, 0, ex_const(n->m, 0), ex_const(n->m, 2), 1);
  }
  if (has_input(n, 3) && !read_biases(n, r, d, out)) return false;
  if (lstm && has_input(n, 7)) {
    Val all = weights_of(n, r, 7, d, 3, NULL);
    for (int i = 0; i < 3; i++)
      if (!(out->peepholes[i] = part(n, all, i))) return false;
  }
  out->h = initial(n, r, 5, d);
  out->c = lstm ? initial(n, r, 6, d) : 0;
  return out->from_input && out->weights && out->h && (!lstm || out->c);
}

/* ---- all steps */

/* [b, 1]: true if the step is inside the sequence; 0 if that is so for all.  `step` is a scalar. */
static Val active_at(ImportNode *n, const Recurrent *r, Val step) {
  return r->lengths ? insert_dims(n, binary(n, OP_gt, r->lengths, step), 1u << 1, 2) : 0;
}

static Val inside(ImportNode *n, Val active, Val x, Val otherwise) {
  return active && x ? select3(n, active, x, otherwise) : x;
}

static Val join(ImportNode *n, Val *list, int64_t count, int axis) {
  while (count > 1) {
    int64_t joined = 0;
    for (int64_t i = 0; i < count; i += 16)
      list[joined++] = build_concat(n->b, (int)(count - i < 16 ? count - i : 16), list + i, axis);
    count = joined;
  }
  return list[0];
}

/* Runs one step of the direction and updates its states; returns its output, [b, h], or 0 after an error. */
static Val step_at(ImportNode *n, const Recurrent *r, const struct Kind *cell, Direction *d, Val gates, Val step) {
  Val h, c = 0, active = active_at(n, r, step);
  if (!gates || !step || (r->lengths && !active) || !cell->step(n, r, d, gates, &h, &c)) return 0;
  Val given = inside(n, active, h, splat_like(n, h, 0));
  d->h = inside(n, active, h, d->h);
  d->c = c ? inside(n, active, c, d->c) : 0;
  return d->h ? given : 0;
}

static Val run_unrolled(ImportNode *n, const Recurrent *r, const struct Kind *cell, Direction *d, int64_t steps) {
  Val list[MAX_UNROLLED];
  const Expr *dims[] = {r->steps, ex_const(n->m, 1), r->batch, r->hidden};
  if (steps == 0 && wants(n, 0))
    return d->h ? build_splat(n->b, type_get(n->m, type_of(n->b->f, d->h)->dtype, 4, dims), 0) : 0;
  for (int64_t s = 0; s < steps; s++) {
    int64_t t = d->backward ? steps - 1 - s : s;
    list[t] = step_at(n, r, cell, d, part(n, d->from_input, t), import_scalar_i64(n, ex_const(n->m, t)));
    if (wants(n, 0)) list[t] = insert_dims(n, list[t], 3, 4);
    if (!list[t]) return 0;
  }
  return wants(n, 0) ? join(n, list, steps, 0) : d->h;
}

static Val run_loop(ImportNode *n, const Recurrent *r, const struct Kind *cell, Direction *d) {
  const Expr *dims[] = {r->steps, ex_const(n->m, 1), r->batch, r->hidden};
  LoopBuild l = frontend_loop_open(n->b, import_scalar_i64(n, r->steps), r->steps);
  bool lstm = d->c != 0;
  d->h = l.round ? frontend_loop_carry(&l, d->h) : 0;
  d->c = lstm ? frontend_loop_carry(&l, d->c) : 0;
  if (!d->h || (lstm && !d->c)) return 0;
  Val step = d->backward ? binary(n, OP_sub, import_scalar_i64(n, ex_addi(n->m, r->steps, -1)), l.round) : l.round;
  Val given = step_at(n, r, cell, d, step ? build_gather(n->b, d->from_input, step, 0) : 0, step);
  if (!given) return 0;
  l.carries.items[0].next = d->h;
  if (lstm) l.carries.items[1].next = d->c;
  if (wants(n, 0)) {
    Val all = frontend_loop_collect(&l, type_get(n->m, type_of(n->b->f, given)->dtype, 4, dims));
    if (!all) return 0;
    l.carries.items[l.carries.n - 1].next = frontend_loop_write_row(n->b, all, insert_dims(n, given, 1, 3), step, 0);
  }
  if (!frontend_loop_close(&l, 0)) return 0;
  d->h = l.carries.items[0].last;
  d->c = lstm ? l.carries.items[1].last : 0;
  return l.carries.items[wants(n, 0) ? l.carries.n - 1 : 0].last;
}

/* Runs the direction; afterwards d->h and d->c are the last states.  Returns the outputs, [t, 1, b, h], or 0 after
 * an error. */
static Val run(ImportNode *n, const Recurrent *r, const struct Kind *cell, Direction *d) {
  int64_t steps;
  bool few = ex_get_const(r->steps, &steps) && steps <= MAX_UNROLLED;
  return few ? run_unrolled(n, r, cell, d, steps) : run_loop(n, r, cell, d);
}

/* The last states of all directions, [d, b, h] or [b, d, h]. */
static bool set_states(ImportNode *n, const Recurrent *r, size_t i, const Val *states) {
  Val list[2];
  int at = r->batch_first ? 1 : 0;
  for (int d = 0; d < r->directions; d++)
    if (!(list[d] = insert_dims(n, states[d], 1u << at, 3))) return false;
  return !wants(n, i) || import_set_output(n, i, join(n, list, r->directions, at));
}

bool import_recurrent(ImportNode *n) {
  static const int batch_first[] = {2, 0, 1, 3};
  const struct Kind *cell = &cells[n->op->arg];
  Recurrent r = {.gates = cell->gates};
  Activation f[MAX_ACTIVATIONS];
  const char *defaults[MAX_ACTIVATIONS];
  Val y[2], h[2], c[2];
  if (!read_layer(n, &r)) return false;
  int per = cell->activations;
  for (int i = 0; i < per * r.directions; i++) defaults[i] = cell->defaults[i % per];
  if (!read_activations(n, per * r.directions, defaults, f)) return false;
  for (int d = 0; d < r.directions; d++) {
    Direction one = {.f = f + d * per};
    if (!read_direction(n, &r, d, &one) || !(y[d] = run(n, &r, cell, &one))) return false;
    h[d] = one.h, c[d] = one.c;
  }
  if (wants(n, 0)) {
    Val all = join(n, y, r.directions, 1);
    if (!import_set_output(n, 0, r.batch_first && all ? build_transpose(n->b, all, batch_first) : all)) return false;
  }
  return set_states(n, &r, 1, h) && (r.gates != 4 || set_states(n, &r, 2, c));
}
