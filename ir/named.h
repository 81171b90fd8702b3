/* ir/named.h - the operations of a function by name. */
#ifndef APC_IR_NAMED_H
#define APC_IR_NAMED_H

#include "ir/ir.h"

typedef struct NamedOps {
  const Func *f;
  size_t *slots; /* operation + 1 */
  size_t cap;
} NamedOps;

/* Builds the index in the arena; the function may not change while it is used. */
NamedOps named_ops(Arena *a, const Func *f);
/* SIZE_MAX if no operation has that name. */
size_t named_op(const NamedOps *n, const char *name);

#endif
