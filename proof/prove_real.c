/* proof/prove_real.c - does a proof hold in floats, or only over the real numbers?
 *
 * A sum that is cut over ranks is the same sum in another order, for infinities and NaN as well.  If its parts are
 * multiplied or divided before they are added, this holds only over the real numbers: a part may be 0 where the sum is
 * not, and 0 times an infinity, or 0 by 0, is NaN. A factor that is never infinite, or a divisor that is never 0, rules
 * that out: constants, sizes, indices, bounded functions, the weights of a softmax or an attention.  And a part that is
 * not itself a sum may be -0, which a sum with the zeros of the other ranks turns into +0.  The proof names the
 * operations at which either may happen.
 *
 * Not covered: the order of float sums (their rounding, and intermediate overflow).
 */
#include <math.h>
#include <string.h>

#include "proof/prove_relation.h"

/* ---- properties of a term's numbers, on any box */

enum {
  FINITE = 1,
  SMALL = 2,
  NONZERO = 4,
  ZERO = 8
}; /* finite: never an infinity; small: at most 10000, in any float type */

static const double LARGE[DT_COUNT] = {[DT_f32] = 3e38, [DT_f64] = 1e308, [DT_f16] = 6e4, [DT_bf16] = 3e38};
static const double TINY[DT_COUNT] = {[DT_f32] = 1e-37, [DT_f64] = 1e-300, [DT_f16] = 1e-4, [DT_bf16] = 1e-37};

static uint8_t of_number(DType t, double v) {
  if (!dtype_computes(t)) return 0; /* rounding it to the type may change anything */
  bool small = fabs(v) <= 1e4;
  return (uint8_t)((fabs(v) < LARGE[t] ? FINITE : 0) | (small ? SMALL : 0) | (fabs(v) > TINY[t] ? NONZERO : 0) |
                   (v == 0 ? ZERO : 0));
}

static uint8_t of_constant(const Op *op, DType t) {
  const Attr *value = op_attr(op, AT_value), *floats = op_attr(op, AT_floats);
  if (value) return of_number(t, value->u.f);
  uint8_t all = FINITE | SMALL | NONZERO | ZERO;
  for (int i = 0; floats && i < floats->n; i++) all &= of_number(t, floats->u.floats[i]);
  return floats ? all : 0;
}

static uint8_t of_integers(DType from, DType to) {
  bool narrow = dtype_bytes(from) == 1;
  return (uint8_t)(to == DT_f16 && !narrow ? 0 : FINITE | (narrow ? SMALL : 0));
}

static uint8_t of_cast(DType from, DType to, uint8_t x) {
  if (!dtype_is_float(to) || !dtype_computes(to)) return 0;
  if (dtype_is_float(from) && !dtype_computes(from)) return 0;
  if (!dtype_is_float(from)) return of_integers(from, to);
  bool wider = from == to || to == DT_f64 || (to == DT_f32 && dtype_bytes(from) == 2);
  return wider ? x : x & SMALL ? (uint8_t)(x & (FINITE | SMALL | ZERO)) : (uint8_t)(x & ZERO);
}

/* True if the reduced dimensions are the ones that are broadcast again. */
static bool lies_back(const Op *reduce, const Op *broadcast) {
  const Attr *axes = op_attr(reduce, AT_axes), *dims = op_attr(broadcast, AT_dims);
  for (int i = 0; i < axes->n; i++)
    for (int k = 0; k < dims->n; k++)
      if (axes->u.ints[i] == dims->u.ints[k]) return false;
  return true;
}

/* True for x - max(x), whose exponential is at most 1. */
static bool is_below_maximum(const Terms *t, Term exponent) {
  const TermFacts *sub = term_facts(t, exponent);
  if (sub->kind != OP_sub) return false;
  const TermFacts *spread = term_facts(t, sub->args[1]);
  if (spread->kind != OP_broadcast) return false;
  const TermFacts *most = term_facts(t, spread->args[0]);
  return most->kind == OP_reduce && op_attr(most->op, AT_op)->u.reduction == RED_MAX && most->args[0] == sub->args[0] &&
         lies_back(most->op, spread->op);
}

/* True for select(x == 0, y, x) with a nonzero y, which is never 0. */
static bool replaces_zero(const Terms *t, const Term *args) {
  const TermFacts *condition = term_facts(t, args[0]);
  return condition->kind == OP_eq && condition->args[0] == args[2] &&
         (term_facts(t, condition->args[1])->numbers & ZERO) && (term_facts(t, args[1])->numbers & NONZERO);
}

static uint8_t of_all(const Terms *t, int n, const Term *args) {
  uint8_t all = FINITE | SMALL | NONZERO | ZERO;
  for (int i = 0; i < n; i++) all &= term_facts(t, args[i])->numbers;
  return all;
}

static uint8_t numbers_of(const Terms *t, const Func *f, const Op *op, int result, const Term *args) {
  DType type = type_of(f, op->out + (Val)result)->dtype, from = op->nin ? type_of(f, op->in[0])->dtype : type;
  uint8_t x = op->nin ? term_facts(t, args[0])->numbers : 0;
  switch (op->kind) {
    case OP_const: return of_constant(op, type);
    case OP_size:
      return (uint8_t)((type == DT_f16 ? 0 : FINITE) |
                       (prove_size_is_positive(t->m, op_expr(op, AT_expr)) ? NONZERO : 0));
    case OP_iota: return type == DT_f16 ? 0 : FINITE;
    case OP_cast: return of_cast(from, type, x);
    case OP_sigmoid:
    case OP_tanh:
    case OP_erf:
    case OP_sin:
    case OP_cos:
    case OP_asin:
    case OP_acos:
    case OP_atan:
    case OP_sign: return FINITE | SMALL;
    case OP_exp: return is_below_maximum(t, args[0]) ? FINITE | SMALL : 0;
    case OP_neg:
    case OP_abs:
    case OP_reshape:
    case OP_transpose:
    case OP_slice:
    case OP_broadcast:
    case OP_topk: return x;
    case OP_relu:
    case OP_floor:
    case OP_ceil:
    case OP_round:
    case OP_gather:
    case OP_take: return x & (FINITE | SMALL);
    case OP_max:
    case OP_min: return of_all(t, 2, args) & (FINITE | SMALL);
    case OP_concat: return of_all(t, op->nin, args);
    case OP_pad: return (uint8_t)(x & of_number(type, op_float(op, AT_value, 0)));
    case OP_select: return (uint8_t)(of_all(t, 2, args + 1) | (replaces_zero(t, args) ? NONZERO : 0));
    default: return 0;
  }
}

const TermFacts *term_facts(const Terms *t, Term term) {
  static const TermFacts none = {.kind = OP_none};
  return term < t->facts.n ? &t->facts.items[term] : &none;
}

static TermFacts *facts_of(Terms *t, Term term) {
  while (t->facts.n <= term) ARENA_PUSH(t->m->arena, &t->facts, (TermFacts){.kind = OP_none});
  return &t->facts.items[term];
}

void note_term(Terms *t, const Func *f, const Op *op, int result, const Term *args, Term term) {
  if (!op->out || term_facts(t, term)->kind != OP_none) return;
  bool is_float = dtype_is_float(type_of(f, op->out + (Val)result)->dtype);
  uint8_t numbers = is_float ? numbers_of(t, f, op, result, args) : 0;
  TermFacts *facts = facts_of(t, term);
  *facts = (TermFacts){.kind = op->kind, .op = op, .numbers = numbers};
  for (int i = 0; i < op->nin && i < 3; i++) facts->args[i] = args[i];
}

void note_softmax(Terms *t, Term result) { facts_of(t, result)->numbers |= FINITE | SMALL; }

/* ---- parts of sums that do not behave like the sum */

/* Effects that may differ in floats. */
static const char by_zero[] = "a division by 0", infinite[] = "infinities and NaN", zero_sign[] = "the sign of a zero";

static void note_real_at(Prover *p, const char *what) {
  for (size_t i = 0; i < p->real.n; i++)
    if (p->real.items[i].what == what && strcmp(p->real.items[i].op, p->op) == 0) return;
  ARENA_PUSH(p->m->arena, &p->real, ((RealAt){what, p->op}));
}

static bool is_summed(const Relation *r) { return r->axes && (r->partial == RED_SUM || r->partial == RED_ONE); }

/* True if the product or quotient of the parts adds up to that of the sum. */
static bool treats_parts_alike(const Prover *p, const Op *op, const Fact2 *in) {
  switch (op->kind) {
    case OP_mul:
    case OP_dot:
    case OP_conv:
    case OP_conv_transpose:
    case OP_conv_filter:
      for (int i = 0; i < 2; i++)
        if (is_summed(&in[i].relation) && !(term_facts(p->terms, in[1 - i].term)->numbers & FINITE)) return false;
      return true;
    case OP_div: return term_facts(p->terms, in[1].term)->numbers & NONZERO;
    case OP_grouped_dot:
      for (int i = 0; i < 3; i += 2)
        if (is_summed(&in[i].relation) && !(term_facts(p->terms, in[2 - i].term)->numbers & FINITE)) return false;
      return true;
    case OP_grouped_mlp: return false;
    default: return true;
  }
}

/* True if a part may be -0 where the others are +0. */
static bool loses_sign(const Op *op, const Fact2 *in, const Relation *out) {
  bool loses[MAX_OPERANDS], any = false;
  for (int i = 0; i < op->nin; i++)
    any |= loses[i] = is_summed(&in[i].relation) && (in[i].relation.partial == RED_ONE || in[i].relation.loses_sign);
  switch (op->kind) {
    case OP_reduce:
    case OP_dot:
    case OP_conv:
    case OP_conv_transpose:
    case OP_conv_filter:
    case OP_pool:
    case OP_pool_grad:
    case OP_scan:
    case OP_scatter:
    case OP_put: return false; /* a sum at level 1 as well */
    case OP_add: return loses[0] && loses[1];
    case OP_sub: return loses[0];
    case OP_gather:
    case OP_take:
    case OP_grouped_dot:
    case OP_grouped_mlp: return any || out->axes != in[0].relation.axes;
    default: return any;
  }
}

void note_real(Prover *p, const Func *f, const Op *op, int result, const Fact2 *in, Relation *out) {
  bool summed = false;
  for (int i = 0; i < op->nin; i++) summed |= is_summed(&in[i].relation);
  if (!dtype_is_float(type_of(f, op->out + (Val)result)->dtype) || !is_summed(out)) return;
  out->loses_sign = out->partial == RED_SUM && loses_sign(op, in, out);
  if (summed && !treats_parts_alike(p, op, in)) note_real_at(p, op->kind == OP_div ? by_zero : infinite);
}

void note_real_comm(Prover *p, const Func *f, const Op *op, const Relation *in, Relation *out) {
  if (!dtype_is_float(type_of(f, op->out)->dtype)) return;
  const Attr *r = op_attr(op, AT_op);
  bool sums = op->kind == OP_accumulate ? in->axes != out->axes : r && r->u.reduction == RED_SUM;
  if (op->kind == OP_mask_partial)
    out->loses_sign = r->u.reduction == RED_SUM && (!in->axes || in->loses_sign || in->partial == RED_ONE);
  else if (sums && (in->loses_sign || in->partial == RED_ONE)) note_real_at(p, zero_sign);
  if (!out->axes) out->loses_sign = false;
}

/* Lists each effect with the first operations in which it may occur. */
const char *real_reason(const Prover *p) {
  enum { SHOWN = 3 };
  static const char *const all[] = {by_zero, infinite, zero_sign};
  Text t = {.arena = p->m->arena};
  for (size_t w = 0; w < sizeof all / sizeof *all; w++) {
    int n = 0;
    for (size_t i = 0; i < p->real.n; i++) {
      if (p->real.items[i].what != all[w] || n++ >= SHOWN) continue;
      if (n > 1) text_add(&t, ", ");
      else text_printf(&t, "%s%s at ", t.n ? "; " : "", all[w]);
      text_quoted(&t, p->real.items[i].op);
    }
    if (n > SHOWN) text_printf(&t, " and %d more", n - SHOWN);
  }
  return p->real.n ? text_str(&t) : NULL;
}
