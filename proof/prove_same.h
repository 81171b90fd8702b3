/* proof/prove_same.h - proves that two forms of a level-1 function mean the same: translation validation for passes
 * that keep terms.
 *
 * A meaning is taken of each form while the module is in the state that the form belongs to (calls and prepared weights
 * are looked up in the module); meanings are compared later.  "Not equal" proves nothing: the forms may still compute
 * the same.
 */
#ifndef APC_PROOF_PROVE_SAME_H
#define APC_PROOF_PROVE_SAME_H

#include "ir/ir.h"

typedef struct Same Same;
typedef struct Meaning Meaning;

/* A store of terms, in the module's arena. */
Same *same_new(Module *m);
/* Returns the meaning of a function of the module as it is now. */
const Meaning *same_meaning(Same *s, const Func *f);
/* True if both have the same inputs, outputs and writes with equal types and terms; else *why names a difference. */
bool same_as(const Same *s, const Meaning *x, const Meaning *y, const char **why);

#endif
