/* ir/opaque.h - telling the user about operators that apc does not know. */
#ifndef APC_IR_OPAQUE_H
#define APC_IR_OPAQUE_H

#include "ir/ir.h"

/* Does a level-1 function have an opaque operation? */
bool opaque_any(const Module *m);

/* One diagnostic per unknown operator, with its count and first places: warnings that say how it is planned, or errors
 * (`refuse`) because it cannot be computed. */
void opaque_report(const Module *m, bool refuse, Diags *diags);

#endif
