/* program/operator_symbol.h - the functions of an operator library (program/apc_operator.h). */
#ifndef APC_PROGRAM_OPERATOR_SYMBOL_H
#define APC_PROGRAM_OPERATOR_SYMBOL_H

/* The library's own function of that name; NULL if it has none.  Its variables do not count, nor do functions of the
 * libraries on which it depends, as libc. */
void *operator_symbol(void *library, const char *name);

#endif
