/* ir/ops/attention.h - shared by attention and its gradients; private to ir/ops/. */
#ifndef APC_IR_OPS_ATTENTION_H
#define APC_IR_OPS_ATTENTION_H

#include "ir/ops/record.h"

/* True if the first operands are queries, keys, values, positions, length and, with the attribute, the bias of the
 * scores, followed by `more` others.  Reports errors. */
bool infer_attention_operands(const Infer *c, int more);

/* The type of the largest scores and of the sums of an attention with these queries. */
const Type *attention_sums_type(Module *m, const Type *q);

/* Appends the spaces of these operands, without the arrow. */
void rule_attention_operands(const RuleMaking *k, Text *space);

/* True if their extents fit together. */
bool eval_attention_fits(const Eval *e);
/* The bias of a query's scores: row `at` of [b, g, r, s].  NULL if there is none. */
const Cell *eval_attention_bias(const Eval *e, int64_t at);

/* Positions and length: for all rows of the batch, or for each. */
#define ATTENTION_POSITIONS \
  "?@3=1 %queryposition = input {name=\"3\"} : i64[s]\n" \
  "?@3=2 %queryposition = input {name=\"3\"} : i64[b, s]\n" \
  "?@4=1 %keyposition = input {name=\"4\"} : i64[t]\n" \
  "?@4=2 %keyposition = input {name=\"4\"} : i64[b, t]\n" \
  "?@5=0 %length = input {name=\"5\"} : i64[]\n" \
  "?@5=1 %length = input {name=\"5\"} : i64[b]\n"

/* Shared by both bodies, from %uq and %uk: the scores, and which of them are visible. */
#define ATTENTION_SCORES \
  "%dot = dot %uq, %uk {spec=\"bgrsk,bgtk->bgrst\"} : $C[b, g, r, s, t]\n" \
  "%scale = const {value=${scale}} : $C[b, g, r, s, t]\n" \
  "?-bias %score = mul %dot, %scale : $C[b, g, r, s, t]\n" \
  "?+bias %product = mul %dot, %scale : $C[b, g, r, s, t]\n" \
  "?+bias %ubias = cast %bias {to=$C} : $C[${bias:}]\n" \
  "?+bias %biases = broadcast %ubias {dims=[${bias:bgrst}]} : $C[b, g, r, s, t]\n" \
  "?+bias %score = add %product, %biases : $C[b, g, r, s, t]\n" \
  "?@345=2 %keypositions = broadcast %keyposition {dims=[1]} : i64[s, t]\n" \
  "?@345=2 %lengths = broadcast %length {dims=[]} : i64[s, t]\n" \
  "?@345=2 ?causal=1 %querypositions = broadcast %queryposition {dims=[0]} : i64[s, t]\n" \
  "?@345>2 ?@4=1 %keypositions = broadcast %keyposition {dims=[2]} : i64[b, s, t]\n" \
  "?@345>2 ?@4=2 %keypositions = broadcast %keyposition {dims=[0, 2]} : i64[b, s, t]\n" \
  "?@345>2 ?@5=0 %lengths = broadcast %length {dims=[]} : i64[b, s, t]\n" \
  "?@345>2 ?@5=1 %lengths = broadcast %length {dims=[0]} : i64[b, s, t]\n" \
  "?@345>2 ?causal=1 ?@3=1 %querypositions = broadcast %queryposition {dims=[1]} : i64[b, s, t]\n" \
  "?@345>2 ?causal=1 ?@3=2 %querypositions = broadcast %queryposition {dims=[0, 1]} : i64[b, s, t]\n" ATTENTION_SEEN( \
      "?@345=2 ", "s, t", "3, 4") ATTENTION_SEEN("?@345>2 ", "b, s, t", "0, 3, 4")

/* Which scores are visible, from positions and lengths of the same shape, whose dimensions are `at` of the scores. */
#define ATTENTION_SEEN(when, shape, at) \
  when "%valid = lt %keypositions, %lengths : bool[" shape "]\n" when \
       "?causal=1 %before = le %keypositions, %querypositions : bool[" shape "]\n" when \
       "?causal=1 %both = and %valid, %before : bool[" shape "]\n" when "?causal=1 %seen = broadcast %both {dims=[" at \
       "]} : bool[b, g, r, s, t]\n" when "?causal=0 %seen = broadcast %valid {dims=[" at "]} : bool[b, g, r, s, t]\n"

#endif
