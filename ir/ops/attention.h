/* ir/ops/attention.h - what attention and its gradients have in common; private to ir/ops/. */
#ifndef APC_IR_OPS_ATTENTION_H
#define APC_IR_OPS_ATTENTION_H

#include "ir/ops/record.h"

/* Are the first operands queries, keys, values, positions, length and, with the attribute, what is added to the scores,
 * `more` others behind them?  Reports what is wrong. */
bool infer_attention_operands(const Infer *c, int more);

/* The spaces of these operands, without the arrow. */
void rule_attention_operands(const RuleMaking *k, Text *space);

/* Do they have the extents of one attention? */
bool eval_attention_fits(const Eval *e);
/* What is added to the scores of a query: row `at` of [b, g, r, s].  NULL: there is nothing. */
const Cell *eval_attention_bias(const Eval *e, int64_t at);

#endif
