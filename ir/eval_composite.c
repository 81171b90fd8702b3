/* ir/eval_composite.c - composite operations straight from their definitions, in double.
 *
 * Independent of ir/bodies.def, so that one checks the other.  Modulo p a composite is its decomposition: there the
 * question is only whether a sharded body equals the whole one.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "ir/eval.h"

/* exp(x - max) / sum over rows of `n` elements `step` apart. */
static void softmax_row(int64_t n, int64_t step, const Cell *x, Cell *y) {
  double max = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++) max = isnan(x[i * step].f) || x[i * step].f > max ? x[i * step].f : max;
  for (int64_t i = 0; i < n; i++) sum += y[i * step].f = exp(x[i * step].f - max);
  for (int64_t i = 0; i < n; i++) y[i * step].f /= sum;
}

bool eval_softmax(Eval *e) {
  if (e->run->modp) return eval_body(e);
  if (!eval_same_shape(e, 0)) return false;
  int axis = (int)op_int(e->op, AT_axis, 0);
  const int64_t *dims = e->out->dims;
  int64_t outer = count_cells(axis, dims), inner = count_cells(e->out->rank - axis - 1, dims + axis + 1),
          n = dims[axis];
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) {
      int64_t at = o * n * inner + i;
      softmax_row(n, inner, e->in[0]->cells + at, e->out->cells + at);
    }
  return true;
}

bool eval_norm(Eval *e) {
  if (e->run->modp) return eval_body(e);
  if (!eval_same_shape(e, 0)) return false;
  bool layer = strcmp(op_str(e->op, AT_kind), "layer") == 0;
  double eps = op_float(e->op, AT_eps, 0);
  int rank = e->out->rank;
  int64_t n = e->out->dims[rank - 1], rows = count_cells(rank - 1, e->out->dims);
  for (int64_t r = 0; r < rows; r++) {
    const Cell *x = e->in[0]->cells + r * n;
    Cell *y = e->out->cells + r * n;
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n && layer; i++) mean += x[i].f;
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) {
      double d = layer ? x[i].f - mean : x[i].f;
      square += d * d;
    }
    double scale = 1.0 / sqrt(square / (double)n + eps);
    for (int64_t i = 0; i < n; i++) y[i].f = (layer ? x[i].f - mean : x[i].f) * scale;
  }
  return true;
}

static void rotate(const Cell *x, Cell *y, int64_t k, bool interleaved, double base, double position) {
  for (int64_t i = 0; i < k / 2; i++) {
    double angle = position * pow(base, -2.0 * (double)i / (double)k), c = cos(angle), s = sin(angle);
    int64_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + k / 2;
    double p = x[a].f, q = x[b].f;
    y[a].f = p * c - q * s;
    y[b].f = p * s + q * c;
  }
}

bool eval_rope(Eval *e) {
  if (e->run->modp) return eval_body(e);
  if (!eval_same_shape(e, 0)) return false;
  const InterpTensor *x = e->in[0], *position = e->in[1];
  int64_t k = x->dims[x->rank - 1], h = x->dims[x->rank - 2], s = x->dims[x->rank - 3],
          rows = count_cells(x->rank - 1, x->dims);
  if (position->dims[0] != s)
    return eval_fail(e, "%lld positions for %lld", (long long)position->dims[0], (long long)s);
  bool interleaved = op_int(e->op, AT_interleaved, 0) != 0;
  for (int64_t r = 0; r < rows; r++)
    rotate(x->cells + r * k, e->out->cells + r * k, k, interleaved, op_float(e->op, AT_base, 0),
           (double)position->cells[r / h % s].i);
  return true;
}

/* ---- attention */

typedef struct Attention {
  int64_t t, k, e;
  double scale;
  bool causal;
  const Cell *key, *value, *key_positions;
  int64_t length;
  double *weight; /* t of them */
} Attention;

/* One query: keys at positions from `length` on are hidden, with `causal` also those after the query: their score is
 * -inf.  A query whose scores are all -inf gets 0. */
static void attend(const Attention *a, const Cell *query, int64_t position, Cell *out) {
  double max = -INFINITY, sum = 0;
  for (int64_t t = 0; t < a->t; t++) {
    bool seen = a->key_positions[t].i < a->length && (!a->causal || a->key_positions[t].i <= position);
    double score = 0;
    for (int64_t i = 0; i < a->k; i++) score += query[i].f * a->key[t * a->k + i].f;
    a->weight[t] = seen ? score * a->scale : -INFINITY;
    if (a->weight[t] > max) max = a->weight[t];
  }
  for (int64_t t = 0; t < a->t; t++) sum += a->weight[t] = a->weight[t] == -INFINITY ? 0 : exp(a->weight[t] - max);
  for (int64_t i = 0; i < a->e; i++) {
    double v = 0;
    for (int64_t t = 0; t < a->t; t++) v += a->weight[t] * a->value[t * a->e + i].f;
    out[i].f = sum == 0 ? 0 : v / sum;
  }
}

bool eval_attention(Eval *e) {
  if (e->run->modp) return eval_body(e);
  const InterpTensor *q = e->in[0], *k = e->in[1], *v = e->in[2];
  int64_t groups = q->dims[0] * q->dims[1], r = q->dims[2], s = q->dims[3];
  Attention a = {.t = k->dims[2],
                 .k = q->dims[4],
                 .e = v->dims[3],
                 .scale = op_float(e->op, AT_scale, 1),
                 .causal = op_int(e->op, AT_causal, 0) != 0,
                 .key_positions = e->in[4]->cells,
                 .length = e->in[5]->cells[0].i};
  bool fits = k->dims[0] * k->dims[1] == groups && v->dims[0] * v->dims[1] == groups && v->dims[2] == a.t &&
              k->dims[3] == a.k && e->in[3]->dims[0] == s && e->in[4]->dims[0] == a.t &&
              interp_elements(e->out) == groups * r * s * a.e;
  if (!fits) return eval_fail(e, "the extents of the operands do not fit");
  a.weight = malloc(sizeof(double) * (size_t)(a.t + 1));
  if (!a.weight) die("out of memory");
  for (int64_t g = 0; g < groups; g++) {
    a.key = k->cells + g * a.t * a.k;
    a.value = v->cells + g * a.t * a.e;
    for (int64_t i = 0; i < r * s; i++)
      attend(&a, q->cells + (g * r * s + i) * a.k, e->in[3]->cells[i % s].i, e->out->cells + (g * r * s + i) * a.e);
  }
  free(a.weight);
  return true;
}

/* A label outside [0, v) picks 0. */
bool eval_cross_entropy(Eval *e) {
  if (e->run->modp) return eval_body(e);
  if (!eval_same_shape(e, 1)) return false;
  const InterpTensor *x = e->in[0];
  int64_t n = x->dims[x->rank - 1], rows = interp_elements(e->out);
  if (rows * n != interp_elements(x)) return eval_fail(e, "logits and labels do not fit");
  for (int64_t r = 0; r < rows; r++) {
    const Cell *row = x->cells + r * n;
    int64_t label = e->in[1]->cells[r].i;
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) max = isnan(row[i].f) || row[i].f > max ? row[i].f : max;
    for (int64_t i = 0; i < n; i++) sum += exp(row[i].f - max);
    e->out->cells[r].f = log(sum) + max - (label >= 0 && label < n ? row[label].f : 0);
  }
  return true;
}
