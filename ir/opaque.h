/* ir/opaque.h - reports operators that apc does not know. */
#ifndef APC_IR_OPAQUE_H
#define APC_IR_OPAQUE_H

#include "ir/ir.h"

/* True if a level-1 function has an opaque operation. */
bool opaque_any(const Module *m);

/* Reports each unknown operator once, with its count and first places: as warnings that say how it is planned, or as
 * errors (`refuse`), because it cannot be computed. */
void opaque_report(const Module *m, bool refuse, Diags *diags);

#endif
