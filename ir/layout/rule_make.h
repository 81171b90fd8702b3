/* ir/layout/rule_make.h - between rule_of and the operations' own functions (ir/ops/); private to ir/.
 *
 * Regular operations have a rule as text in their record.  The others have a function, which assigns factors to every
 * dimension of operands and result, in the order in which factors are listed, and adds the linear ones.
 */
#ifndef APC_IR_LAYOUT_RULE_MAKE_H
#define APC_IR_LAYOUT_RULE_MAKE_H

#include "ir/record.h"
#include "ir/layout/rule.h"

/* A rule depends only on the kind of the operation, its attributes, types, and which operands are zeros, so that equal
 * operations share one (rules_of). */
typedef struct RuleMaking {
  Module *m;
  const Func *f;
  const Op *op;
  Rule *r;
} RuleMaking;

const Type *rule_in(const RuleMaking *k, int i); /* of operand i */
const Type *rule_out(const RuleMaking *k);       /* of the first result */

/* Adds a factor; returns its number.  `rule_numbered` names it by a letter and a number. */
uint8_t rule_factor(const RuleMaking *k, const char *name, const Expr *size, FactorKind kind, Reduction reduction);
uint8_t rule_numbered(const RuleMaking *k, const char *letter, int i, const Expr *size, FactorKind kind);
int rule_letter(const RuleMaking *k, const char *name); /* the factor of that name; -1 if none */

void rule_set_dim(TensorFactors *t, int dim, uint8_t f);  /* makes this factor the dimension's only one */
void rule_push_dim(TensorFactors *t, int dim, uint8_t f); /* adds this factor, inside the others */
/* Makes the factor of that name the dimension's only one; adds it if missing. */
void rule_assign(const RuleMaking *k, TensorFactors *t, int dim, const Type *type, const char *name);

/* Adds a pseudo-factor: the operands in the mask may arrive partial together. */
void rule_linear(const RuleMaking *k, uint32_t operands, Reduction reduction);
/* The same for sums, if the result's type has them: an operation that only moves elements also moves partial sums. */
void rule_moves_sums(const RuleMaking *k, uint32_t operands);

/* Gives operands and result the same dimensions. */
void rule_same_dims(const RuleMaking *k);
/* Parses the text of a record. */
void rule_parse(const RuleMaking *k, const char *text, const char *kinds);

RuleFn rule_none; /* everything frozen: replicated operands, replicated result */

#endif
