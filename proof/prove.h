/* proof/prove.h - does a level-2 program compute its level-1 function? (D35)
 *
 * Reads only the two functions and the mesh: no plan, no names of passes, no lowering code.  Nothing is executed.
 */
#ifndef APC_PROOF_PROVE_H
#define APC_PROOF_PROVE_H

#include "ir/ir.h"

typedef enum Verdict { PROVED, REFUTED, UNKNOWN } Verdict;
const char *verdict_name(Verdict v);

typedef struct Proof {
  Verdict verdict;
  const char *op;         /* the level-2 operation or output at fault; NULL when proved */
  const char *reason;     /* one line, in the module's arena; NULL when proved */
  const char *over_reals; /* when proved: NULL, or what may differ in floats, and where */
} Proof;

/* The verdict as one word (proved, proved-reals, refuted, unknown), and as one line with its reason. */
const char *proof_word(const Proof *p);
const char *proof_line(Arena *a, const Proof *p);

/* `l1` and `l2` are functions of m.  Inputs, params, state and outputs correspond by name.  A prepared weight is a
 * weight here; that it is what @prepare defines is the other proof. */
Proof prove(Module *m, const Func *l1, const Func *l2);

/* Does level 2 of @prepare make the parts of the prepared weights that the users (level-2 functions) read, without
 * communication?  Both functions may be NULL when no user reads a prepared weight. */
Proof prove_prepare(Module *m, const Func *l1, const Func *l2, int nusers, Func *const *users);

/* Both proofs as one: what is refuted before what is unknown before what is proved, over the smaller set of numbers. */
Proof proof_join(Module *m, Proof a, Proof b);

/* Entries that are proved each for itself (level-2 functions) share states: do they agree on where each lies?  Weights
 * may lie differently, since nobody changes them. */
Proof prove_states(Module *m, int n, const Func *const *entries);

#endif
