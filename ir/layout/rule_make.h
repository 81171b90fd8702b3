/* ir/layout/rule_make.h - between rule_of and the operations' own functions (ir/ops/); private to ir/.
 *
 * Regular operations have a rule as text in their record.  The others have a function, which gives every dimension of
 * operands and result its factors, in the order in which factors are to be listed, and says what is linear.
 */
#ifndef APC_IR_LAYOUT_RULE_MAKE_H
#define APC_IR_LAYOUT_RULE_MAKE_H

#include "ir/record.h"
#include "ir/layout/rule.h"

/* A rule is made from the kind of the operation, its attributes, types, and which of its operands are zeros; from
 * nothing else, so that equal operations have one (rules_of). */
typedef struct RuleMaking {
  Module *m;
  const Func *f;
  const Op *op;
  Rule *r;
} RuleMaking;

const Type *rule_in(const RuleMaking *k, int i); /* of operand i */
const Type *rule_out(const RuleMaking *k);       /* of the result; of several the first */

/* A new factor, by its number; `rule_numbered` names it by a letter and a number. */
uint8_t rule_factor(const RuleMaking *k, const char *name, const Expr *size, FactorKind kind, Reduction reduction);
uint8_t rule_numbered(const RuleMaking *k, const char *letter, int i, const Expr *size, FactorKind kind);
int rule_letter(const RuleMaking *k, const char *name); /* the factor of that name, -1 */

void rule_set_dim(TensorFactors *t, int dim, uint8_t f);  /* the dimension is this factor */
void rule_push_dim(TensorFactors *t, int dim, uint8_t f); /* and this one, inside those it has */
/* The dimension is the factor of that name, which is made when there is none. */
void rule_assign(const RuleMaking *k, TensorFactors *t, int dim, const Type *type, const char *name);

/* A pseudo-factor: the operands in the mask may arrive partial together. */
void rule_linear(const RuleMaking *k, uint32_t operands, Reduction reduction);
/* The same for sums, where the result's type has them: what only moves elements moves partial sums as well. */
void rule_moves_sums(const RuleMaking *k, uint32_t operands);

void rule_same_dims(const RuleMaking *k);                                  /* all dimensions of operands and result */
void rule_parse(const RuleMaking *k, const char *text, const char *kinds); /* as a record has it */

RuleFn rule_none; /* everything frozen: replicated operands, replicated result */

#endif
