/* frontend/contract.h - einsum of any number of operands as a chain of `dot`s.
 *
 * In: operands whose dimensions have letters, and the letters of the result.  Out: a tree of dots with two operands
 * each, with the fewest multiplications (exact, by dynamic programming over sets of operands).  Symbolic sizes count
 * as their hint, else as their largest value up to a guess.  On ties, operands are taken from left to right.
 */
#ifndef APC_FRONTEND_CONTRACT_H
#define APC_FRONTEND_CONTRACT_H

#include "ir/ir.h"

enum { CONTRACT_MAX = 12 }; /* operands: 3^12 splits are compared */

typedef struct ContractTerm {
  Val value;
  char letters[MAX_RANK + 1]; /* one per dimension, none twice */
} ContractTerm;

/* Builds the result, with dimensions in the order of `out`; every letter of `out` is in some term.  A letter has the
 * same extent everywhere, or 1 in some terms, where it is broadcast.  Returns 0 after the builder's diagnostic, or
 * with *why set if in every order an intermediate result would have more than MAX_RANK dimensions. */
Val contract_terms(Builder *b, int n, const ContractTerm *terms, const char *out, const char **why);

#endif
