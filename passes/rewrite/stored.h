/* passes/rewrite/stored.h - weights that are stored in another element type than they are computed in. */
#ifndef APC_PASSES_REWRITE_STORED_H
#define APC_PASSES_REWRITE_STORED_H

#include "ir/ir.h"

/* Gives the weights of a module the element types of `stored`, by number of the weight, and casts them to their old
 * ones where they are read.  False after diagnostics. */
bool rewrite_stored(Module *m, const DType *stored, Diags *diags);

#endif
