/* ir/states.h - the reads and writes of each state of a function, in order: a training step has thousands of states. */
#ifndef APC_IR_STATES_H
#define APC_IR_STATES_H

#include "ir/ir.h"

/* By operation; what is neither a read nor a write is the first and last of its own. */
typedef struct StateOps {
  size_t *first; /* of the operations on its state */
  size_t *next;  /* SIZE_MAX: there is none */
} StateOps;

/* In the arena; the function may not change meanwhile. */
StateOps state_ops(Arena *a, const Func *f);
/* The first read of the state that operation `op` reads or writes; SIZE_MAX: nobody reads it. */
size_t state_first_read(const StateOps *s, const Func *f, size_t op);

#endif
