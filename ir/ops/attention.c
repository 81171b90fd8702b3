/* ir/ops/attention.c - attention and the rotation of its queries and keys: attention, rope.
 *
 * Bodies and evaluation as in ir/ops/composite.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "ir/ops/attention.h"

/* ---- rope */

static const Type *infer_rope(const Infer *c) {
  const Type *x = c->in[0], *position = c->in[1];
  int64_t width;
  if (!dtype_is_float(x->dtype)) return infer_fail(c, "not defined for %s", dtype_name(x->dtype));
  if (x->rank < 3) return infer_fail(c, "needs dimensions ... s h k");
  bool rows = position->rank == 2 && x->rank > 3 && position->dims[0] == x->dims[0];
  if ((position->rank != 1 && !rows) || position->dtype != DT_i64 ||
      position->dims[position->rank - 1] != x->dims[x->rank - 3])
    return infer_fail(c, "positions must be i64 with one element per sequence position, or as many per row");
  if (!ex_get_const(x->dims[x->rank - 1], &width) || width % 2 != 0)
    return infer_fail(c, "the last dimension must be a constant even extent");
  return x;
}

/* The angles of all positions: [s, j], or [r0, s, j] if each row of the first dimension has positions of its own. */
#define ROPE_ANGLES(when, row, of_time, of_pair) \
  when "%frequencies = broadcast %frequency {dims=[" of_pair "]} : $C[" row "s, j]\n" when \
       "%time = cast %position {to=$C} : $C[" row "s]\n" when "%times = broadcast %time {dims=[" of_time \
       "]} : $C[" row "s, j]\n" when "%angle = mul %times, %frequencies : $C[" row "s, j]\n" when \
       "%cos = cos %angle : $C[" row "s, j]\n" when "%sin = sin %angle : $C[" row "s, j]\n"

/* k = 2 j: the rule freezes k, so j needs no factor. */
static const char rope_body[] =
    "%x = input {name=\"0\"} : $T[$D, s, h, 2*j]\n"
    "?@1=1 %position = input {name=\"1\"} : i64[s]\n"
    "?@1=2 %position = input {name=\"1\"} : i64[r0, s]\n"
    "%u = cast %x {to=$C} : $C[$D, s, h, 2*j]\n"
    "%i = iota {axis=0, start=0} : $C[j]\n"
    "%minustwo = const {value=-2} : $C[j]\n"
    "%minustwoi = mul %minustwo, %i : $C[j]\n"
    "%k = size {expr=2*j} : $C[j]\n"
    "%power = div %minustwoi, %k : $C[j]\n"
    "%base = const {value=${base}} : $C[j]\n"
    "%frequency = pow %base, %power : $C[j]\n"
    ROPE_ANGLES("?@1=1 ", "", "0", "1") ROPE_ANGLES("?@1=2 ", "r0, ", "0, 1", "2")
    "?@1=1 %coss = broadcast %cos {dims=[$0, $2]} : $C[$D, s, h, j]\n"
    "?@1=1 %sins = broadcast %sin {dims=[$0, $2]} : $C[$D, s, h, j]\n"
    "?@1=2 %coss = broadcast %cos {dims=[0, $0, $2]} : $C[$D, s, h, j]\n"
    "?@1=2 %sins = broadcast %sin {dims=[0, $0, $2]} : $C[$D, s, h, j]\n"
    "?interleaved=0 %a = slice %u {starts=[$z, 0, 0, 0], strides=[$o, 1, 1, 1]} : $C[$D, s, h, j]\n"
    "?interleaved=0 %b = slice %u {starts=[$z, 0, 0, j], strides=[$o, 1, 1, 1]} : $C[$D, s, h, j]\n"
    "?interleaved=1 %a = slice %u {starts=[$z, 0, 0, 0], strides=[$o, 1, 1, 2]} : $C[$D, s, h, j]\n"
    "?interleaved=1 %b = slice %u {starts=[$z, 0, 0, 1], strides=[$o, 1, 1, 2]} : $C[$D, s, h, j]\n"
    "%ac = mul %a, %coss : $C[$D, s, h, j]\n"
    "%bs = mul %b, %sins : $C[$D, s, h, j]\n"
    "%p = sub %ac, %bs : $C[$D, s, h, j]\n"
    "%as = mul %a, %sins : $C[$D, s, h, j]\n"
    "%bc = mul %b, %coss : $C[$D, s, h, j]\n"
    "%q = add %as, %bc : $C[$D, s, h, j]\n"
    "%halves = concat %p, %q {axis=$2} : $C[$D, s, h, 2*j]\n"
    "?interleaved=1 %element = iota {axis=0, start=0} : i64[2*j]\n"
    "?interleaved=1 %two = const {value=2} : i64[2*j]\n"
    "?interleaved=1 %odd = mod %element, %two : i64[2*j]\n"
    "?interleaved=1 %pair = div %element, %two : i64[2*j]\n"
    "?interleaved=1 %half = size {expr=j} : i64[2*j]\n"
    "?interleaved=1 %skip = mul %odd, %half : i64[2*j]\n"
    "?interleaved=1 %from = add %skip, %pair : i64[2*j]\n"
    "?interleaved=1 %y = gather %halves, %from {axis=$2, start=0} : $C[$D, s, h, 2*j]\n"
    "?interleaved=0 %y = copy %halves : $C[$D, s, h, 2*j]\n"
    "%out = cast %y {to=$T} : $T[$D, s, h, 2*j]\n"
    "output \"out\" %out\n";

static void rotate(const Cell *x, Cell *y, int64_t k, bool interleaved, double base, double position) {
  for (int64_t i = 0; i < k / 2; i++) {
    double angle = position * pow(base, -2.0 * (double)i / (double)k), c = cos(angle), s = sin(angle);
    int64_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + k / 2;
    double p = x[a].f, q = x[b].f;
    y[a].f = p * c - q * s;
    y[b].f = p * s + q * c;
  }
}

static bool eval_rope(Eval *e) {
  if (e->run->modp) return eval_body(e);
  if (!eval_same_shape(e, 0)) return false;
  const InterpTensor *x = e->in[0], *position = e->in[1];
  int64_t k = x->dims[x->rank - 1], h = x->dims[x->rank - 2], s = x->dims[x->rank - 3],
          rows = count_cells(x->rank - 1, x->dims);
  int64_t batch = position->rank == 2 ? position->dims[0] : 1, each = batch ? rows / batch : 0;
  if (position->dims[position->rank - 1] != s || (batch != 1 && batch != x->dims[0]))
    return eval_fail(e, "%lld positions for %lld sequence elements", (long long)interp_elements(position),
                     (long long)s);
  bool interleaved = op_int(e->op, AT_interleaved, 0) != 0;
  for (int64_t r = 0; r < rows; r++)
    rotate(x->cells + r * k, e->out->cells + r * k, k, interleaved, op_float(e->op, AT_base, 0),
           (double)position->cells[r / each * s + r / h % s].i);
  return true;
}

/* r.. s h k, s -> r.. s h k, with positions per row: r.. s h k, r0 s -> r.. s h k. */
static void rule_rope(const RuleMaking *k) {
  static const char *const last[] = {"s", "h", "k"};
  const Type *x = rule_out(k), *position = rule_in(k, 1);
  for (int d = 0; d < x->rank; d++) {
    int outer = x->rank - 3;
    const char *name = d < outer ? arena_printf(k->m->arena, "r%d", d) : last[d - outer];
    rule_assign(k, &k->r->operands[0], d, x, name);
    rule_assign(k, &k->r->results[0], d, x, name);
  }
  if (position->rank == 2) rule_assign(k, &k->r->operands[1], 0, position, "r0");
  rule_assign(k, &k->r->operands[1], position->rank - 1, position, "s");
  k->r->factors[rule_letter(k, "k")].kind = FK_FROZEN;
  rule_linear(k, 1, RED_SUM);
}

const OpRecord record_rope = {.infer = infer_rope,
                              .rule = rule_rope,
                              .eval = eval_rope,
                              .symbols = "r.. s h j",
                              .body = rope_body,
                              .gradient = gradient_rope};

/* ---- attention */

static const char score_dims[] = "bgrst";

/* Returns the dimension of operand 6 that is dimension d of the scores; -1 if it is constant along d. */
static int bias_dim(const char *bias, int d) {
  const char *at = strchr(bias, score_dims[d]);
  return at ? (int)(at - bias) : -1;
}

/* True if operand 6 has the scores' dimensions that the attribute names, keys among them. */
static bool fits_bias(const Infer *c, bool given) {
  const Attr *bias = infer_attr(c, AT_bias);
  const Type *q = c->in[0];
  const Expr *scores[] = {q->dims[0], q->dims[1], q->dims[2], q->dims[3], c->in[1]->dims[2]};
  int n = 0;
  if ((bias != NULL) != given) {
    infer_fail(c, "attribute `bias` and an operand after the length need each other");
    return false;
  }
  if (!bias) return true;
  for (int d = 0; d < 5; d++) n += bias_dim(bias->u.s, d) == n;
  if (bias->u.s[n] || !n || bias->u.s[n - 1] != 't') {
    infer_fail(c, "bias must be some of b g r s, in this order, and t");
    return false;
  }
  bool same = c->in[6]->rank == n && c->in[6]->dtype == q->dtype;
  for (int d = 0; d < 5 && same; d++)
    same = bias_dim(bias->u.s, d) < 0 || c->in[6]->dims[bias_dim(bias->u.s, d)] == scores[d];
  if (!same) infer_fail(c, "the bias must have the type of the scores, and their extents at %s", bias->u.s);
  return same;
}

/* True for [along], without it a scalar; with `rows` also for one of these per row of the batch. */
static bool fits_rows(const Type *t, const Expr *batch, const Expr *along, bool rows) {
  int rank = along != NULL, own = t->rank - rank;
  return (own == 0 || (own == 1 && rows && t->dims[0] == batch)) && (!along || t->dims[own] == along);
}

static const Type *fits_attention(const Infer *c, int more) {
  const Type *q = c->in[0], *k = c->in[1], *v = c->in[2];
  if (q->rank != 5 || k->rank != 4 || v->rank != 4)
    return infer_fail(c, "q, k, v must be [b,g,r,s,k], [b,g,t,k], [b,g,t,e]");
  if (!dtype_is_float(q->dtype) || q->dtype != k->dtype || q->dtype != v->dtype)
    return infer_fail(c, "q, k, v must be of one float type");
  bool fits = q->dims[0] == k->dims[0] && q->dims[1] == k->dims[1] && q->dims[4] == k->dims[3] &&
              k->dims[0] == v->dims[0] && k->dims[1] == v->dims[1] && k->dims[2] == v->dims[2];
  if (!fits) return infer_fail(c, "extents of q, k and v do not fit");
  for (int i = 3; i < 6; i++)
    if (c->in[i]->dtype != DT_i64) return infer_fail(c, "positions and length must be i64");
  const Expr *along[] = {q->dims[3], k->dims[2], NULL};
  for (int i = 0; i < 3; i++)
    if (!fits_rows(c->in[3 + i], q->dims[0], along[i], !more))
      return infer_fail(c, more ? "positions must be [s] and [t], the length a scalar"
                                : "positions must be [s] and [t] or [b,s] and [b,t], the length a scalar or [b]");
  return fits_bias(c, c->spec->nin == 7 + more) ? q : NULL;
}

const Type *attention_sums_type(Module *m, const Type *q) {
  return type_get(m, dtype_bytes(q->dtype) < 4 ? DT_f32 : q->dtype, 4, q->dims);
}

bool infer_attention_operands(const Infer *c, int more) { return fits_attention(c, more) != NULL; }

static const Type *infer_attention(const Infer *c) {
  const Type *q = c->in[0], *v = c->in[2];
  if (!infer_attention_operands(c, 0)) return NULL;
  const Expr *dims[5] = {q->dims[0], q->dims[1], q->dims[2], q->dims[3], v->dims[3]};
  const Attr *sums = infer_attr(c, AT_sums);
  for (int i = 0; i < 2 && sums && sums->u.i; i++) infer_further(c, attention_sums_type(c->m, q));
  return type_get(c->m, q->dtype, 5, dims);
}

void rule_attention_operands(const RuleMaking *k, Text *space) {
  const Attr *bias = op_attr(k->op, AT_bias);
  text_printf(space, "b g r s k, b g t k, b g t e, %ss, %st, %s", rule_in(k, 3)->rank > 1 ? "b " : "",
              rule_in(k, 4)->rank > 1 ? "b " : "", rule_in(k, 5)->rank > 0 ? "b" : "");
  for (const char *s = bias ? bias->u.s : ""; *s; s++) text_printf(space, "%s%c", s == bias->u.s ? ", " : " ", *s);
}

/* The other results do not depend on the values, so they stay whole if these are partial sums. */
static void rule_attention(const RuleMaking *k) {
  Text space = {.arena = k->m->arena};
  rule_attention_operands(k, &space);
  text_add(&space, " -> b g r s e, b g r s, b g r s");
  rule_parse(k, text_str(&space), "body:t frozen:k e linear:2");
  for (int i = 0; i < k->r->nfactors; i++)
    if (k->r->factors[i].kind == FK_LINEAR) k->r->factors[i].results = 1;
}

/* The scores, and the weighted sum of the values. */
static int products_attention(const Op *op, const Rule *r, ProductFactors out[MAX_PRODUCTS]) {
  const uint32_t batch = part_factors(r, "bg"), rows = part_factors(r, "rs"), keys = part_factors(r, "t");
  (void)op;
  out[0] = (ProductFactors){.batch = batch, .m = rows, .n = keys, .k = part_factors(r, "k")};
  out[1] = (ProductFactors){.batch = batch, .m = rows, .n = part_factors(r, "e"), .k = keys};
  return 2;
}

/* With `bias`, operand 6 is added to the scores.  Keys at positions from `length` on are hidden, with causal=1 also
 * those after the query: their score is -inf.  A query without scores above -inf gets 0.  The division comes after the
 * sum over t, so that a cut t costs three small reductions and none over s x t. */
static const char attention_body[] =
    "%q = input {name=\"0\"} : $T[b, g, r, s, k]\n"
    "%k = input {name=\"1\"} : $T[b, g, t, k]\n"
    "%v = input {name=\"2\"} : $T[b, g, t, e]\n" ATTENTION_POSITIONS
    "?+bias %bias = input {name=\"6\"} : $T[${bias:}]\n"
    "%uq = cast %q {to=$C} : $C[b, g, r, s, k]\n"
    "%uk = cast %k {to=$C} : $C[b, g, t, k]\n"
    "%uv = cast %v {to=$C} : $C[b, g, t, e]\n" ATTENTION_SCORES
    "%low = const {value=-inf} : $C[b, g, r, s, t]\n"
    "%masked = select %seen, %score, %low : $C[b, g, r, s, t]\n"
    "%max = reduce %masked {op=max, axes=[4]} : $C[b, g, r, s]\n"
    "%lowest = const {value=-inf} : $C[b, g, r, s]\n"
    "%zero = const {value=0} : $C[b, g, r, s]\n"
    "%none = eq %max, %lowest : bool[b, g, r, s]\n"
    "%finite = select %none, %zero, %max : $C[b, g, r, s]\n"
    "%maxs = broadcast %finite {dims=[0, 1, 2, 3]} : $C[b, g, r, s, t]\n"
    "%shifted = sub %masked, %maxs : $C[b, g, r, s, t]\n"
    "%exp = exp %shifted : $C[b, g, r, s, t]\n"
    "%nothing = const {value=0} : $C[b, g, r, s, t]\n"
    "%weight = select %seen, %exp, %nothing : $C[b, g, r, s, t]\n"
    "%sum = reduce %weight {op=sum, axes=[4]} : $C[b, g, r, s]\n"
    "%one = const {value=1} : $C[b, g, r, s]\n"
    "%blind = eq %sum, %zero : bool[b, g, r, s]\n"
    "%divisor = select %blind, %one, %sum : $C[b, g, r, s]\n"
    "%divisors = broadcast %divisor {dims=[0, 1, 2, 3]} : $C[b, g, r, s, e]\n"
    "%mixed = dot %weight, %uv {spec=\"bgrst,bgte->bgrse\"} : $C[b, g, r, s, e]\n"
    "%y = div %mixed, %divisors : $C[b, g, r, s, e]\n"
    "%out = cast %y {to=$T} : $T[b, g, r, s, e]\n"
    "output \"out\" %out\n"
    "?sums=1 output \"max\" %finite\n"
    "?sums=1 output \"sum\" %sum\n";

typedef struct Attention {
  int64_t t, k, e;
  double scale;
  bool causal;
  const Cell *key, *value, *key_positions;
  const Cell *bias; /* of the query; NULL if there is none */
  int64_t length;
  double *weight; /* t of them */
} Attention;

/* The largest score of a query, and the sum of exp(score - largest). */
typedef struct Sums {
  double max, sum;
} Sums;

/* One query: keys at positions from `length` on are hidden, with `causal` also those after the query: their score is
 * -inf.  A query whose scores are all -inf gets 0, and 0 for both sums. */
static Sums attend(const Attention *a, const Cell *query, int64_t position, Cell *out) {
  double max = -INFINITY, sum = 0;
  for (int64_t t = 0; t < a->t; t++) {
    bool seen = a->key_positions[t].i < a->length && (!a->causal || a->key_positions[t].i <= position);
    double score = 0;
    for (int64_t i = 0; i < a->k; i++) score += query[i].f * a->key[t * a->k + i].f;
    score = score * a->scale + (a->bias ? a->bias[t].f : 0);
    a->weight[t] = seen ? score : -INFINITY;
    if (a->weight[t] > max) max = a->weight[t];
  }
  for (int64_t t = 0; t < a->t; t++) sum += a->weight[t] = a->weight[t] == -INFINITY ? 0 : exp(a->weight[t] - max);
  for (int64_t i = 0; i < a->e; i++) {
    double v = 0;
    for (int64_t t = 0; t < a->t; t++) v += a->weight[t] * a->value[t * a->e + i].f;
    out[i].f = sum == 0 ? 0 : v / sum;
  }
  return (Sums){max == -INFINITY ? 0 : max, sum};
}

const Cell *eval_attention_bias(const Eval *e, int64_t at) {
  const Attr *bias = op_attr(e->op, AT_bias);
  const InterpTensor *q = e->in[0], *x = bias ? e->in[6] : NULL;
  int64_t index[4], row = 0;
  if (!bias) return NULL;
  for (int d = 3; d >= 0; d--) index[d] = at % q->dims[d], at /= q->dims[d];
  for (int d = 0; d < 4; d++)
    if (strchr(bias->u.s, score_dims[d])) row = row * q->dims[d] + index[d];
  return x->cells + row * e->in[1]->dims[2];
}

static bool bias_is_there(const Eval *e) {
  const Attr *bias = op_attr(e->op, AT_bias);
  int64_t elements = e->in[1]->dims[2];
  for (int d = 0; d < 4; d++)
    if (bias && strchr(bias->u.s, score_dims[d])) elements *= e->in[0]->dims[d];
  return !bias || interp_elements(e->in[6]) == elements;
}

/* True if x has n elements, or n for each row of the batch; `rank` is the rank of the first form. */
static bool has_rows(const InterpTensor *x, int rank, int64_t n, int64_t batch) {
  return interp_elements(x) == (x->rank == rank ? n : n * batch);
}

/* The n elements of row b. */
static const Cell *of_row(const InterpTensor *x, int rank, int64_t n, int64_t b) {
  return x->cells + (x->rank == rank ? 0 : b * n);
}

bool eval_attention_fits(const Eval *e) {
  const InterpTensor *q = e->in[0], *k = e->in[1], *v = e->in[2];
  int64_t groups = q->dims[0] * q->dims[1], t = k->dims[2];
  bool fits = k->dims[0] * k->dims[1] == groups && v->dims[0] * v->dims[1] == groups && v->dims[2] == t &&
              k->dims[3] == q->dims[4] && has_rows(e->in[3], 1, q->dims[3], q->dims[0]) &&
              has_rows(e->in[4], 1, t, q->dims[0]) && has_rows(e->in[5], 0, 1, q->dims[0]) && bias_is_there(e);
  return fits || eval_fail(e, "the extents of the operands do not fit");
}

static bool eval_attention(Eval *e) {
  if (e->run->modp) return eval_body(e);
  const InterpTensor *q = e->in[0], *k = e->in[1], *v = e->in[2];
  int64_t groups = q->dims[0] * q->dims[1], r = q->dims[2], s = q->dims[3];
  Attention a = {.t = k->dims[2],
                 .k = q->dims[4],
                 .e = v->dims[3],
                 .scale = op_float(e->op, AT_scale, 1),
                 .causal = op_int(e->op, AT_causal, 0) != 0};
  bool fits = interp_elements(e->out) == groups * r * s * a.e;
  for (int i = 1; i < e->op->nout; i++) fits &= interp_elements(e->outs[i]) == groups * r * s;
  if (!eval_attention_fits(e)) return false;
  if (!fits) return eval_fail(e, "the extents of the results do not fit");
  a.weight = malloc(sizeof(double) * (size_t)(a.t + 1));
  if (!a.weight) die_out_of_memory("for the weights of attention");
  for (int64_t g = 0; g < groups; g++) {
    a.key = k->cells + g * a.t * a.k;
    a.value = v->cells + g * a.t * a.e;
    const int64_t b = g / q->dims[1];
    const Cell *positions = of_row(e->in[3], 1, s, b);
    a.key_positions = of_row(e->in[4], 1, a.t, b), a.length = of_row(e->in[5], 0, 1, b)->i;
    for (int64_t i = 0; i < r * s; i++) {
      int64_t row = g * r * s + i;
      a.bias = eval_attention_bias(e, row);
      Sums sums = attend(&a, q->cells + row * a.k, positions[i % s].i, e->out->cells + row * a.e);
      if (e->op->nout > 1) e->outs[1]->cells[row].f = sums.max, e->outs[2]->cells[row].f = sums.sum;
    }
  }
  free(a.weight);
  return true;
}

const OpRecord record_attention = {.infer = infer_attention,
                                   .rule = rule_attention,
                                   .eval = eval_attention,
                                   .products = products_attention,
                                   .symbols = "b g r s k t e",
                                   .body = attention_body,
                                   .gradient = gradient_attention};
