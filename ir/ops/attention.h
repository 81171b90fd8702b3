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

/* Shared by both bodies, from %uq and %uk: the scores, and which of them are visible. */
#define ATTENTION_SCORES \
  "%dot = dot %uq, %uk {spec=\"bgrsk,bgtk->bgrst\"} : $C[b, g, r, s, t]\n" \
  "%scale = const {value=${scale}} : $C[b, g, r, s, t]\n" \
  "?-bias %score = mul %dot, %scale : $C[b, g, r, s, t]\n" \
  "?+bias %product = mul %dot, %scale : $C[b, g, r, s, t]\n" \
  "?+bias %ubias = cast %bias {to=$C} : $C[${bias:}]\n" \
  "?+bias %biases = broadcast %ubias {dims=[${bias:bgrst}]} : $C[b, g, r, s, t]\n" \
  "?+bias %score = add %product, %biases : $C[b, g, r, s, t]\n" \
  "%keypositions = broadcast %keyposition {dims=[1]} : i64[s, t]\n" \
  "%lengths = broadcast %length {dims=[]} : i64[s, t]\n" \
  "%valid = lt %keypositions, %lengths : bool[s, t]\n" \
  "?causal=1 %querypositions = broadcast %queryposition {dims=[0]} : i64[s, t]\n" \
  "?causal=1 %before = le %keypositions, %querypositions : bool[s, t]\n" \
  "?causal=1 %both = and %valid, %before : bool[s, t]\n" \
  "?causal=1 %seen = broadcast %both {dims=[3, 4]} : bool[b, g, r, s, t]\n" \
  "?causal=0 %seen = broadcast %valid {dims=[3, 4]} : bool[b, g, r, s, t]\n"

#endif
