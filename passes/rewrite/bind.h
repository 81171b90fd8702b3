/* passes/rewrite/bind.h - binds a symbolic dimension of a module to a size. */
#ifndef APC_PASSES_REWRITE_BIND_H
#define APC_PASSES_REWRITE_BIND_H

#include "ir/ir.h"

/* True if the dimension may have that size; else false after a diagnostic. */
bool check_dimension(const Module *m, int symbol, int64_t value, Diags *diags);

/* Replaces the dimension's symbol by the number in all types and attributes; the symbol stays in the module's list,
 * with the number as its only value.  False after a diagnostic: the dimension may not have that size, or the shapes do
 * not fit. */
bool bind_dimension(Module *m, int symbol, int64_t value, Diags *diags);

#endif
