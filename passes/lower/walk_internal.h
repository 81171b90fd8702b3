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
/* A source from here on: inputs and reads are made, others when somebody wants them. */
bool walk_place(Walk *w, const WalkScope *s, size_t index);

/* walk_loop.c: a loop operation with all that enters its body; a repeat with what its body hands on.  False after a
 * diagnostic. */
bool walk_loop(Walk *w, WalkScope *s, size_t index);
bool walk_repeat(Walk *w, WalkScope *s, size_t index);

#endif
