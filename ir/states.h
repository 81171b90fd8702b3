/* ir/states.h - the reads and writes of each state of a function, in order: a training step has thousands of states. */
#ifndef APC_IR_STATES_H
#define APC_IR_STATES_H

#include "ir/ir.h"

/* By operation; an operation that is neither read nor write is alone in its list. */
typedef struct StateOps {
  size_t *first; /* index of the first operation on its state */
  size_t *next;  /* index of the next one; SIZE_MAX if there is none */
} StateOps;

/* Builds the lists in the arena; the function may not change while they are used. */
StateOps state_ops(Arena *a, const Func *f);
/* The first read of the state that operation `op` reads or writes; SIZE_MAX if it is never read. */
size_t state_first_read(const StateOps *s, const Func *f, size_t op);

/* The values kept outside the memory of the device (--offload).  auto: the moments, if no plan fits without that. */
typedef enum Offload {
#define OFFLOAD(name, text) OFFLOAD_##name,
#include "ir/offload.def"
#undef OFFLOAD
  OFFLOAD_COUNT
} Offload;

/* Name of a kind; false if there is none of that name. */
const char *offload_name(Offload o);
bool offload_find(const char *name, size_t n, Offload *out);

/* Sets the home of all states of a module, and returns what is away. */
void offload_apply(Module *m, Offload o);
Offload offload_of(const Module *m);

/* True if the operation reads or writes a state whose home is outside the memory of the device. */
bool state_is_away(Module *m, const Op *op);

#endif
