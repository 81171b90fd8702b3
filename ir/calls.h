/* ir/calls.h - who calls whom in a module, and what a function is when its calls are written out. */
#ifndef APC_IR_CALLS_H
#define APC_IR_CALLS_H

#include "ir/ir.h"

enum { MAX_CALL_DEPTH = 64, MAX_WRITTEN_OUT = 1 << 20 };

typedef struct Called {
  const Func *f;
  bool cyclic; /* it calls itself, or what does */
  bool acts;   /* it, or what it calls, writes a state or draws random numbers */
  int depth;   /* calls inside each other, beyond MAX_CALL_DEPTH one more than that */
  int64_t ops; /* operations with those of all calls, beyond MAX_WRITTEN_OUT one more than that */
} Called;

typedef struct Calls {
  size_t n;
  Called *items; /* as Module.funcs */
} Calls;

Calls calls_of(Arena *a, const Module *m);
/* NULL: the module has no such function. */
const Called *calls_find(const Calls *c, const char *name);

#endif
