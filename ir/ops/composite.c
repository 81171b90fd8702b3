/* ir/ops/composite.c - operations along one dimension with a decomposition: softmax, norm, cross_entropy.
 *
 * Bodies are IR text with placeholders (ir/layout/body.c).  Lowering, prices and the prover use them as the definition
 * of the operation.  Evaluation follows the mathematical definition, in double, so that each checks the other
 * (tests/unit/interp_bodies.c).  Modulo p a composite is its decomposition: there the only question is whether a
 * sharded body equals the whole one.
 */
#include <math.h>
#include <string.h>

#include "ir/ops/record.h"

/* ---- result types */

static const Type *infer_float(const Infer *c) {
  return dtype_is_float(c->in[0]->dtype) ? c->in[0] : infer_fail(c, "not defined for %s", dtype_name(c->in[0]->dtype));
}

static const Type *infer_softmax(const Infer *c) {
  return infer_float(c) && infer_axis(c, AT_axis, c->in[0]->rank) >= 0 ? c->in[0] : NULL;
}

static const Type *infer_norm(const Infer *c) {
  const char *kind = infer_attr(c, AT_kind)->u.s;
  if (!infer_float(c)) return NULL;
  if (strcmp(kind, "layer") != 0 && strcmp(kind, "rms") != 0)
    return infer_fail(c, "kind is \"%s\", not layer or rms", kind);
  return c->in[0]->rank < 1 ? infer_fail(c, "needs at least one dimension") : c->in[0];
}

static const Type *infer_cross_entropy(const Infer *c) {
  const Type *x = c->in[0], *label = c->in[1];
  if (!dtype_is_float(x->dtype) || x->rank < 1)
    return infer_fail(c, "logits must be floats with at least one dimension");
  if (label->dtype != DT_i64 || label->rank != x->rank - 1) return infer_fail(c, "labels must be i64, one per row");
  for (int d = 0; d < label->rank; d++)
    if (label->dims[d] != x->dims[d]) return infer_fail(c, "labels and logits differ in dimension %d", d);
  return type_get(c->m, x->dtype, label->rank, label->dims);
}

static const Expr *places_classes(Module *m, const Func *f, const Op *op) {
  const Type *t = type_of(f, op->in[0]);
  (void)m;
  return t->dims[t->rank - 1];
}

/* ---- factor rules */

static void rule_softmax(const RuleMaking *k) {
  rule_same_dims(k);
  k->r->factors[k->r->results[0].dims[op_int(k->op, AT_axis, 0)].f[0]].kind = FK_BODY;
}

/* ---- decompositions */

static const char softmax_body[] =
    "%x = input {name=\"0\"} : $T[$D]\n"
    "%u = cast %x {to=$C} : $C[$D]\n"
    "%max = reduce %u {op=max, axes=[$a]} : $C[$E]\n"
    "%maxs = broadcast %max {dims=[$e]} : $C[$D]\n"
    "%shifted = sub %u, %maxs : $C[$D]\n"
    "%exp = exp %shifted : $C[$D]\n"
    "%sum = reduce %exp {op=sum, axes=[$a]} : $C[$E]\n"
    "%sums = broadcast %sum {dims=[$e]} : $C[$D]\n"
    "%y = div %exp, %sums : $C[$D]\n"
    "%out = cast %y {to=$T} : $T[$D]\n"
    "output \"out\" %out\n";

static const char norm_body[] =
    "%x = input {name=\"0\"} : $T[$D, d]\n"
    "%u = cast %x {to=$C} : $C[$D, d]\n"
    "%n = size {expr=d} : $C[$D]\n"
    "?kind=layer %sum = reduce %u {op=sum, axes=[$0]} : $C[$D]\n"
    "?kind=layer %mean = div %sum, %n : $C[$D]\n"
    "?kind=layer %means = broadcast %mean {dims=[$d]} : $C[$D, d]\n"
    "?kind=layer %v = sub %u, %means : $C[$D, d]\n"
    "?kind=rms %v = copy %u : $C[$D, d]\n"
    "%squares = mul %v, %v : $C[$D, d]\n"
    "%square = reduce %squares {op=sum, axes=[$0]} : $C[$D]\n"
    "%meansquare = div %square, %n : $C[$D]\n"
    "%eps = const {value=${eps}} : $C[$D]\n"
    "%biased = add %meansquare, %eps : $C[$D]\n"
    "%scale = rsqrt %biased : $C[$D]\n"
    "%scales = broadcast %scale {dims=[$d]} : $C[$D, d]\n"
    "%y = mul %v, %scales : $C[$D, d]\n"
    "%out = cast %y {to=$T} : $T[$D, d]\n"
    "output \"out\" %out\n";

/* The label's logit is the one element of v that equals the label; 0 if there is none.  It is taken from the maximum
 * before the logarithm is added, which is lost in a maximum that is huge. */
static const char cross_entropy_body[] =
    "%x = input {name=\"0\"} : $T[$D, v]\n"
    "%label = input {name=\"1\"} : i64[$D]\n"
    "%u = cast %x {to=$C} : $C[$D, v]\n"
    "%max = reduce %u {op=max, axes=[$0]} : $C[$D]\n"
    "%maxs = broadcast %max {dims=[$d]} : $C[$D, v]\n"
    "%shifted = sub %u, %maxs : $C[$D, v]\n"
    "%exp = exp %shifted : $C[$D, v]\n"
    "%sum = reduce %exp {op=sum, axes=[$0]} : $C[$D]\n"
    "%log = log %sum : $C[$D]\n"
    "%class = iota {axis=$0, start=0} : i64[$D, v]\n"
    "%labels = broadcast %label {dims=[$d]} : i64[$D, v]\n"
    "%hit = eq %class, %labels : bool[$D, v]\n"
    "%zero = const {value=0} : $C[$D, v]\n"
    "%chosen = select %hit, %u, %zero : $C[$D, v]\n"
    "%logit = reduce %chosen {op=sum, axes=[$0]} : $C[$D]\n"
    "%above = sub %max, %logit : $C[$D]\n"
    "%y = add %log, %above : $C[$D]\n"
    "%out = cast %y {to=$T} : $T[$D]\n"
    "output \"out\" %out\n";

/* ---- meaning */

/* exp(x - max) / sum over rows of `n` elements `step` apart. */
static void softmax_row(int64_t n, int64_t step, const Cell *x, Cell *y) {
  double max = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++) max = isnan(x[i * step].f) || x[i * step].f > max ? x[i * step].f : max;
  for (int64_t i = 0; i < n; i++) sum += y[i * step].f = exp(x[i * step].f - max);
  for (int64_t i = 0; i < n; i++) y[i * step].f /= sum;
}

static bool eval_softmax(Eval *e) {
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

static bool eval_norm(Eval *e) {
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

/* A label outside [0, v) picks 0.  The order of the sum is that of the body. */
static bool eval_cross_entropy(Eval *e) {
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
    e->out->cells[r].f = log(sum) + (max - (label >= 0 && label < n ? row[label].f : 0));
  }
  return true;
}

/* ---- records */

const OpRecord record_softmax = {.infer = infer_softmax,
                                 .rule = rule_softmax,
                                 .eval = eval_softmax,
                                 .symbols = "x..",
                                 .body = softmax_body,
                                 .gradient = gradient_softmax};
const OpRecord record_norm = {.infer = infer_norm,
                              .space = "r.. d -> r.. d",
                              .kinds = "body:d",
                              .eval = eval_norm,
                              .symbols = "r.. d",
                              .body = norm_body,
                              .gradient = gradient_norm};
const OpRecord record_cross_entropy = {.infer = infer_cross_entropy,
                                       .space = "r.. v, r.. -> r..",
                                       .kinds = "body:v",
                                       .eval = eval_cross_entropy,
                                       .index = 1,
                                       .places = places_classes,
                                       .symbols = "r.. v",
                                       .body = cross_entropy_body,
                                       .gradient = gradient_cross_entropy};
