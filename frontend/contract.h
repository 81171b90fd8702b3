/* frontend/contract.h - einsum of any number of operands as a chain of `dot`s.
 *
 * In: operands whose dimensions have letters, and the letters of the result.  Out: a tree of dots of two operands each,
 * the one with the fewest multiplications of all (exact, by dynamic programming over sets of operands); symbolic sizes
 * count as their hint, else their largest value up to a guess.  Among equals the operands are taken from left to right.
 */
#ifndef APC_FRONTEND_CONTRACT_H
#define APC_FRONTEND_CONTRACT_H

#include "ir/ir.h"

enum { CONTRACT_MAX = 12 }; /* operands: 3^12 splits are looked at */

typedef struct ContractTerm {
  Val value;
  char letters[MAX_RANK + 1]; /* one per dimension, none twice */
} ContractTerm;

/* The result with dimensions in the order of `out`; every letter of `out` is in some term.  A letter has one extent, or
 * 1 in some terms, where it is broadcast.  0 after the builder's diagnostic, or with *why set when an intermediate
 * result would have more than MAX_RANK dimensions in every order. */
Val contract_terms(Builder *b, int n, const ContractTerm *terms, const char *out, const char **why);

#endif
