/* passes/lower/walk_internal.h - what walk.c and walk_loop.c share. */
#ifndef APC_PASSES_LOWER_WALK_INTERNAL_H
#define APC_PASSES_LOWER_WALK_INTERNAL_H

#include "passes/lower/walk.h"

/* The layout that the operation's strategy asks for. */
const Layout *walk_operand(const Walk *w, const WalkScope *s, size_t index, int operand);

/* The value in that layout and stage, made when there is none; 0 after a diagnostic. */
Val walk_want(Walk *w, const WalkScope *s, Val value, const Layout *layout, int stage);
/* The operation with all its results in that stage: its own, once more for gradients if they do not see the first, or,
 * for a derived one, any that wants it.  Returns what
 * stands for that result. */
Val walk_make(Walk *w, const WalkScope *s, size_t index, int result, int stage);
/* The operation, whole, on operands in its layouts. */
Val walk_whole(Walk *w, const WalkScope *s, size_t index, Val *in, int stage);
/* What was made of a result.  A derived one that another stage computes for itself stands where it is asked for. */
void walk_add_result(Walk *w, const WalkScope *s, size_t index, int result, int stage, Val v);
/* A source from here on: inputs and reads are made, others when somebody wants them. */
bool walk_place(Walk *w, const WalkScope *s, size_t index);

/* walk_sums.c: sums over stages of what micro-batches accumulate.  Finds them, and gives the scope strategies of its
 * own where there are any. */
void walk_find_late(const Walk *w, WalkScope *s);
static inline bool walk_is_late(const WalkScope *s, size_t index) { return s->late && s->late[index] != SIZE_MAX; }
/* One of them, or what accumulates them; 0 after a diagnostic. */
Val walk_late(Walk *w, const WalkScope *s, size_t index, int stage);

/* walk_loop.c: a loop operation with all that enters its body; a repeat with what its body hands on.  False after a
 * diagnostic. */
bool walk_loop(Walk *w, WalkScope *s, size_t index);
bool walk_repeat(Walk *w, WalkScope *s, size_t index);

#endif
