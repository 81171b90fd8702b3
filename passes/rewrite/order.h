/* passes/rewrite/order.h - the order of operations that calls of blocks keep. */
#ifndef APC_PASSES_REWRITE_ORDER_H
#define APC_PASSES_REWRITE_ORDER_H

#include "ir/ir.h"

/* Rebuilds the function and puts it in the old one's place: weights, states read, constants, and casts of these,
 * directly before their first use, writes directly behind the value they write and the last use of what was read of the
 * state; all else keeps its order.  Doing it twice changes nothing.  NULL after diagnostics. */
Func *rewrite_order_sources(Module *m, const Func *f, Diags *diags);

#endif
