/* passes/rewrite/bind.h - a symbolic dimension of a module gets its size. */
#ifndef APC_PASSES_REWRITE_BIND_H
#define APC_PASSES_REWRITE_BIND_H

#include "ir/ir.h"

/* Whether the dimension may have that size; false after a diagnostic. */
bool check_dimension(const Module *m, int symbol, int64_t value, Diags *diags);

/* Replaces the dimension symbol by the number in all types and attributes; the symbol stays in the module's list, with
 * the number as its only value.  False after a diagnostic: the number is not one the dimension may have, or the shapes
 * do not fit with it. */
bool bind_dimension(Module *m, int symbol, int64_t value, Diags *diags);

#endif
