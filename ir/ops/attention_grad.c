/* ir/ops/attention_grad.c - the gradients of attention by its queries, keys and values.
 *
 * With p = exp(score - max) / sum, the weights of the values, and d the gradient of the result o:
 *
 *   of v: sum over queries of p d      of q: scale sum over keys of c k      of k: scale sum over queries of c q
 *   where c = p (d v - delta), and delta = d o per query
 *
 * (Dao, "FlashAttention-2", 2023, section 3.1.)  Since the largest score and the sum of a query are known, nothing is
 * normalised: the sum over keys (for k and v over queries) is plain and may be cut, and so may the queries r that share
 * keys.  Both are kept, not max + log(sum) alone: where a mask has added a huge finite number to all scores of a query,
 * the logarithm of the sum is less than the last bit of max.
 *
 * Not supported: the gradient of the bias, which is as large as the scores; a bias with fewer dimensions would need a
 * sum of c.  Bodies and evaluation as in ir/ops/composite.c.
 */
#include <math.h>
#include <string.h>

#include "ir/ops/attention.h"

enum { BEHIND = 4 }; /* operands after those of the attention: o, max, sum, d */

static int operand_o(const Op *op) { return op->nin - BEHIND; }

/* ---- result types */

static const Type *infer_attention_grad(const Infer *c) {
  const char *of = infer_attr(c, AT_of)->u.s;
  int first = c->spec->nin - BEHIND;
  if (strcmp(of, "q") != 0 && strcmp(of, "k") != 0 && strcmp(of, "v") != 0)
    return infer_fail(c, "attention has a gradient of q, k and v, not of \"%s\"", of);
  if (!infer_attention_operands(c, BEHIND)) return NULL;
  const Type *q = c->in[0], *v = c->in[2];
  const Expr *dims[5] = {q->dims[0], q->dims[1], q->dims[2], q->dims[3], v->dims[3]};
  const Type *result = type_get(c->m, q->dtype, 5, dims), *sums = attention_sums_type(c->m, q);
  if (c->in[first] != result || c->in[first + 3] != result)
    return infer_fail(c, "the attention's result and its gradient must be %s", infer_text(c, result));
  if (c->in[first + 1] != sums || c->in[first + 2] != sums)
    return infer_fail(c, "the largest scores and the sums must be %s", infer_text(c, sums));
  return c->in[*of == 'q' ? 0 : *of == 'k' ? 1 : 2];
}

/* ---- sharding: sums over dimensions that the result does not have */

static void rule_attention_grad(const RuleMaking *k) {
  char of = *op_str(k->op, AT_of);
  Text space = {.arena = k->m->arena};
  rule_attention_operands(k, &space);
  text_add(&space, ", b g r s e, b g r s, b g r s, b g r s e -> ");
  text_add(&space, of == 'q' ? "b g r s k" : of == 'k' ? "b g t k" : "b g t e");
  rule_parse(k, text_str(&space), of == 'v' ? "frozen:k" : "frozen:k e");
  for (const char *letter = of == 'q' ? "t" : "rs"; *letter; letter++) {
    Factor *summed = &k->r->factors[rule_letter(k, (char[]){*letter, 0})];
    summed->kind = FK_REDUCE, summed->reduction = RED_SUM;
  }
  /* linear in d; a cast to fewer bits is not */
  if (dtype_bytes(rule_out(k)->dtype) >= 4) rule_linear(k, 1u << (k->op->nin - 1), RED_SUM);
}

/* ---- work: scores, the gradient of p, and the sum */

static int products_attention_grad(const Op *op, const Rule *r, ProductFactors out[MAX_PRODUCTS]) {
  const uint32_t batch = part_factors(r, "bg"), rows = part_factors(r, "rs"), keys = part_factors(r, "t"),
                 k = part_factors(r, "k"), e = part_factors(r, "e");
  char of = *op_str(op, AT_of);
  out[0] = (ProductFactors){.batch = batch, .m = rows, .n = keys, .k = k};
  if (of == 'v') {
    out[1] = (ProductFactors){.batch = batch, .m = keys, .n = e, .k = rows};
    return 2;
  }
  out[1] = (ProductFactors){.batch = batch, .m = rows, .n = keys, .k = e};
  out[2] = of == 'q' ? (ProductFactors){.batch = batch, .m = rows, .n = k, .k = keys}
                     : (ProductFactors){.batch = batch, .m = keys, .n = k, .k = rows};
  return 3;
}

/* ---- decomposition */

#define OF_QK(line) "?of=q " line "?of=k " line
#define INPUT(name, number, type) "?-bias %" name " = input {name=\"" #number "\"} : " type "\n"
#define INPUT_BEHIND_BIAS(name, number, type) "?+bias %" name " = input {name=\"" #number "\"} : " type "\n"

/* Products use the stored type, so that sums over parts are ordinary products: values cast before them are whole. */
static const char attention_grad_body[] =
    "%q = input {name=\"0\"} : $T[b, g, r, s, k]\n"
    "%k = input {name=\"1\"} : $T[b, g, t, k]\n"
    "%v = input {name=\"2\"} : $T[b, g, t, e]\n"
    ATTENTION_POSITIONS
    "?+bias %bias = input {name=\"6\"} : $T[${bias:}]\n"
    INPUT("o", 6, "$T[b, g, r, s, e]") INPUT_BEHIND_BIAS("o", 7, "$T[b, g, r, s, e]")
    INPUT("max", 7, "$C[b, g, r, s]") INPUT_BEHIND_BIAS("max", 8, "$C[b, g, r, s]")
    INPUT("sum", 8, "$C[b, g, r, s]") INPUT_BEHIND_BIAS("sum", 9, "$C[b, g, r, s]")
    INPUT("d", 9, "$T[b, g, r, s, e]") INPUT_BEHIND_BIAS("d", 10, "$T[b, g, r, s, e]")
    "%uq = cast %q {to=$C} : $C[b, g, r, s, k]\n"
    "%uk = cast %k {to=$C} : $C[b, g, t, k]\n"
    ATTENTION_SCORES
    "%zero = const {value=0} : $C[b, g, r, s]\n"
    "%sees = ne %sum, %zero : bool[b, g, r, s]\n"
    "%any = broadcast %sees {dims=[0, 1, 2, 3]} : bool[b, g, r, s, t]\n"
    "%counts = and %seen, %any : bool[b, g, r, s, t]\n"
    "%maxs = broadcast %max {dims=[0, 1, 2, 3]} : $C[b, g, r, s, t]\n"
    "%shifted = sub %score, %maxs : $C[b, g, r, s, t]\n"
    "%exp = exp %shifted : $C[b, g, r, s, t]\n"
    "%sums = broadcast %sum {dims=[0, 1, 2, 3]} : $C[b, g, r, s, t]\n"
    "%share = div %exp, %sums : $C[b, g, r, s, t]\n"
    "%nothing = const {value=0} : $C[b, g, r, s, t]\n"
    "%weight = select %counts, %share, %nothing : $C[b, g, r, s, t]\n"
    "?of=v %stored = cast %weight {to=$T} : $T[b, g, r, s, t]\n"
    "?of=v %out = dot %stored, %d {spec=\"bgrst,bgrse->bgte\"} : $T[b, g, t, e]\n"
    OF_QK("%uv = cast %v {to=$C} : $C[b, g, t, e]\n")
    OF_QK("%uo = cast %o {to=$C} : $C[b, g, r, s, e]\n")
    OF_QK("%ud = cast %d {to=$C} : $C[b, g, r, s, e]\n")
    OF_QK("%change = dot %ud, %uv {spec=\"bgrse,bgte->bgrst\"} : $C[b, g, r, s, t]\n")
    OF_QK("%parts = mul %ud, %uo : $C[b, g, r, s, e]\n")
    OF_QK("%delta = reduce %parts {op=sum, axes=[4]} : $C[b, g, r, s]\n")
    OF_QK("%deltas = broadcast %delta {dims=[0, 1, 2, 3]} : $C[b, g, r, s, t]\n")
    OF_QK("%beyond = sub %change, %deltas : $C[b, g, r, s, t]\n")
    OF_QK("%weighted = mul %weight, %beyond : $C[b, g, r, s, t]\n")
    OF_QK("%scaled = mul %weighted, %scale : $C[b, g, r, s, t]\n")
    OF_QK("%stored = cast %scaled {to=$T} : $T[b, g, r, s, t]\n")
    "?of=q %out = dot %stored, %k {spec=\"bgrst,bgtk->bgrsk\"} : $T[b, g, r, s, k]\n"
    "?of=k %out = dot %stored, %q {spec=\"bgrst,bgrsk->bgtk\"} : $T[b, g, t, k]\n"
    "output \"out\" %out\n";

/* ---- meaning */

typedef struct Grad {
  int64_t rows, s, t, k, e; /* of a group */
  double scale;
  bool causal;
  const Cell *q, *key, *value, *query_positions, *key_positions, *o, *max, *sum, *d;
  int64_t length;
} Grad;

static double product(const Cell *x, const Cell *y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i].f * y[i].f;
  return sum;
}

/* Weight by which query `row` multiplied the value of key t; bias: the query's, or NULL. */
static double weight_of(const Grad *g, int64_t row, int64_t t, const Cell *bias) {
  int64_t position = g->key_positions[t].i, group = row / g->rows;
  bool seen = position < g->length && (!g->causal || position <= g->query_positions[row % g->rows % g->s].i);
  if (!seen || g->sum[row].f == 0) return 0;
  double score = product(g->q + row * g->k, g->key + (group * g->t + t) * g->k, g->k) * g->scale;
  return exp(score + (bias ? bias[t].f : 0) - g->max[row].f) / g->sum[row].f;
}

static void add_times(Cell *y, double factor, const Cell *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i].f += factor * x[i].f;
}

static void add_pair(const Grad *g, char of, int64_t row, int64_t t, double weight, Cell *out) {
  int64_t key = row / g->rows * g->t + t;
  const Cell *d = g->d + row * g->e;
  if (of == 'v') {
    add_times(out + key * g->e, weight, d, g->e);
    return;
  }
  double change = product(d, g->value + key * g->e, g->e) - product(d, g->o + row * g->e, g->e);
  if (of == 'q') add_times(out + row * g->k, weight * change * g->scale, g->key + key * g->k, g->k);
  else add_times(out + key * g->k, weight * change * g->scale, g->q + row * g->k, g->k);
}

static bool eval_attention_grad(Eval *e) {
  if (e->run->modp) return eval_body(e);
  const InterpTensor *q = e->in[0], *k = e->in[1], *v = e->in[2], *const *behind = &e->in[operand_o(e->op)];
  if (!eval_attention_fits(e)) return false;
  Grad g = {.rows = q->dims[2] * q->dims[3],
            .s = q->dims[3],
            .t = k->dims[2],
            .k = q->dims[4],
            .e = v->dims[3],
            .scale = op_float(e->op, AT_scale, 1),
            .causal = op_int(e->op, AT_causal, 0) != 0,
            .q = q->cells,
            .key = k->cells,
            .value = v->cells,
            .query_positions = e->in[3]->cells,
            .key_positions = e->in[4]->cells,
            .length = e->in[5]->cells[0].i,
            .o = behind[0]->cells,
            .max = behind[1]->cells,
            .sum = behind[2]->cells,
            .d = behind[3]->cells};
  char of = *op_str(e->op, AT_of);
  int64_t all = q->dims[0] * q->dims[1] * g.rows;
  bool fits = interp_elements(behind[0]) == all * g.e && interp_elements(behind[1]) == all &&
              interp_elements(behind[2]) == all && interp_elements(behind[3]) == all * g.e &&
              interp_elements(e->out) == interp_elements(of == 'q'   ? q
                                                         : of == 'k' ? k
                                                                     : v);
  if (!fits) return eval_fail(e, "the extents of the attention's results do not fit");
  cells_fill(e->out, (Cell){.f = 0});
  for (int64_t row = 0; row < all; row++) {
    const Cell *bias = eval_attention_bias(e, row);
    for (int64_t t = 0; t < g.t; t++) add_pair(&g, of, row, t, weight_of(&g, row, t, bias), e->out->cells);
  }
  return true;
}

const OpRecord record_attention_grad = {.infer = infer_attention_grad,
                                        .rule = rule_attention_grad,
                                        .eval = eval_attention_grad,
                                        .products = products_attention_grad,
                                        .symbols = "b g r s k t e",
                                        .body = attention_grad_body};
