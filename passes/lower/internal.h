/* passes/lower/internal.h - what the parts of the lowering share: lower.c (operations and conversions), loop.c
 * (loops), prepare.c. */
#ifndef APC_PASSES_LOWER_INTERNAL_H
#define APC_PASSES_LOWER_INTERNAL_H

#include "ir/loops.h"
#include "passes/lower/lower.h"

typedef struct Version {
  const Layout *layout;
  int stage;
  int loop; /* whose body it is made in, and visible in; -1: none */
  Val v;
} Version;

typedef struct Versions {
  Version *items;
  size_t n, cap;
  const Layout *produced; /* layout and stage of the original; items[0] once it exists */
  int stage;
} Versions;

/* One function being lowered: the whole one, or the body of a composite inside it. */
typedef struct Scope {
  const Func *l1;
  const Strategy *strategies;
  const int *stages; /* NULL: `stage` for all */
  int stage;
  Versions *versions;  /* by level-1 value */
  const char *prefix;  /* of names, NULL at the top */
  const bool *derived; /* by operation, NULL in bodies: every stage computes it for itself */
  const Loops *loops;  /* NULL in bodies, which have none */
  const bool *agreed;  /* with loops, by value (agreed.h) */
  int loop;            /* in whose body operations are emitted now; -1: none */
} Scope;

/* Where a state is kept: as its first read says, or its write when it is never read. */
typedef struct StatePlace {
  const char *name;
  const Layout *layout;
  int stage;
} StatePlace;

typedef struct Lowering {
  Module *m;
  Builder b;
  MoveCost cost;
  void *context;
  struct {
    StatePlace *items;
    size_t n, cap;
  } states;
} Lowering;

/* A version that is visible where operations are emitted now; 0: none. */
Val lower_find_version(const Scope *s, Val l1, const Layout *layout, int stage);
void lower_add_version(Lowering *w, const Scope *s, Val l1, const Layout *layout, int stage, int loop, Val v);
/* The value in that layout and stage, made when there is none; 0 after diagnostics. */
Val lower_want(Lowering *w, const Scope *s, Val l1, const Layout *layout, int stage);
/* A source from here on: inputs and reads are emitted, others when somebody asks for them. */
bool lower_place_source(Lowering *w, const Scope *s, size_t index);
int lower_stage_of(const Scope *s, size_t op);
Val lower_source(Lowering *w, const Scope *s, const Op *op, const Layout *layout, int stage);
/* The operation itself, on local operands. */
Val lower_emit(Lowering *w, const Scope *s, const Op *op, const Val *in, const Layout *const *layouts,
               const Layout *result, int stage);

/* loop.c: a loop operation with all that enters its body; a repeat with what its body hands on.  False after
 * diagnostics. */
bool lower_loop(Lowering *w, Scope *s, size_t index);
bool lower_repeat(Lowering *w, Scope *s, size_t index);

#endif
