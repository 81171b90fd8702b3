/* ir/calls.h - the calls between the functions of a module, and a function's size with its calls expanded. */
#ifndef APC_IR_CALLS_H
#define APC_IR_CALLS_H

#include "ir/ir.h"

enum { MAX_CALL_DEPTH = 64, MAX_WRITTEN_OUT = 1 << 20 };

typedef struct Called {
  const Func *f;
  bool cyclic; /* it calls itself, directly or not */
  bool acts;   /* it, or a function it calls, writes a state or draws random numbers */
  bool *binds; /* by symbol: it, or a function it calls, sets this computed size */
  int depth;   /* nesting depth of calls; MAX_CALL_DEPTH + 1 if deeper */
  int64_t ops; /* operations, with all calls expanded; MAX_WRITTEN_OUT + 1 if more */
} Called;

typedef struct Calls {
  size_t n;
  Called *items; /* in the order of Module.funcs */
} Calls;

/* The facts of all functions of the module; the module may be invalid. */
Calls calls_of(Arena *a, const Module *m);
/* NULL if the module has no such function. */
const Called *calls_find(const Calls *c, const char *name);

#endif
