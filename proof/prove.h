/* proof/prove.h - does a level-2 program compute its level-1 function? (D35)
 *
 * Reads only the two functions and the mesh: no plan, no names of passes, no lowering code.  Nothing is executed.
 */
#ifndef APC_PROOF_PROVE_H
#define APC_PROOF_PROVE_H

#include "ir/ir.h"

typedef enum Verdict { PROVED, REFUTED, UNKNOWN } Verdict;
const char *verdict_name(Verdict v); /* "proved", "refuted" or "unknown" */

typedef struct Proof {
  Verdict verdict;
  const char *op;         /* name of the level-2 operation or output at fault; NULL if proved */
  const char *reason;     /* one line, in the module's arena; NULL if proved */
  const char *over_reals; /* if proved: NULL, or the effects that may differ in floats, and where */
} Proof;

/* The verdict as one word (proved, proved-reals, refuted, unknown), and as one line with its reason. */
const char *proof_word(const Proof *p);
const char *proof_line(Arena *a, const Proof *p);

/* Decides whether l2 computes l1; both are functions of m.  Inputs, params, state and outputs correspond by name.  A
 * prepared weight counts as a weight here; prove_prepare proves that @prepare defines it. */
Proof prove(Module *m, const Func *l1, const Func *l2);

/* Decides whether level 2 of @prepare makes the parts of prepared weights that the users (level-2 functions) read,
 * without communication.  Both functions may be NULL if no user reads a prepared weight. */
Proof prove_prepare(Module *m, const Func *l1, const Func *l2, int nusers, Func *const *users);

/* Joins two proofs: refuted outranks unknown, which outranks proved; real numbers outrank floats. */
Proof proof_join(Module *m, Proof a, Proof b);

/* Decides whether entries (level-2 functions), each proved by itself, agree on the layout and stage of every state they
 * share.  Weights may have different layouts, since no entry changes them. */
Proof prove_states(Module *m, int n, const Func *const *entries);

#endif
