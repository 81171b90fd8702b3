/* proof/prove_same.h - a proof that two forms of a level-1 function mean the same: translation validation for passes
 * that keep terms.
 *
 * A meaning is taken of each form while the module is in the state the form belongs to (calls and prepared weights are
 * looked up in the module), and both are compared later.  Not equal says nothing: the forms may still compute the same.
 */
#ifndef APC_PROOF_PROVE_SAME_H
#define APC_PROOF_PROVE_SAME_H

#include "ir/ir.h"

typedef struct Same Same;
typedef struct Meaning Meaning;

Same *same_new(Module *m);
/* Of a function of the module as it is now. */
const Meaning *same_meaning(Same *s, const Func *f);
/* True: every input, output and write is there with the same type and term.  Else `why` names one that is not. */
bool same_as(const Same *s, const Meaning *x, const Meaning *y, const char **why);

#endif
