/* passes/rewrite/order.h - an order of operations that survives outlining and inlining of blocks. */
#ifndef APC_PASSES_REWRITE_ORDER_H
#define APC_PASSES_REWRITE_ORDER_H

#include "ir/ir.h"

/* Rebuilds the function in place: weights, reads of states, constants, and casts of these come directly before their
 * first use, writes directly after the value they write and the last use of the value read from the state; all others
 * keep their order.  A second call changes nothing.  NULL after diagnostics. */
Func *rewrite_order_sources(Module *m, const Func *f, Diags *diags);

#endif
