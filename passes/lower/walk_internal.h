/* passes/lower/walk_internal.h - shared by the files of the walk. */
#ifndef APC_PASSES_LOWER_WALK_INTERNAL_H
#define APC_PASSES_LOWER_WALK_INTERNAL_H

#include "passes/lower/walk.h"

/* Counts a step and returns the sink, of which one function is then called. */
static inline const WalkSink *walk_step(Walk *w) { return w->step++, w->sink; }

/* Returns the layout of an operand in the operation's strategy. */
const Layout *walk_operand(const Walk *w, const WalkScope *s, size_t index, int operand);

/* Returns the value in that layout and stage, making it if needed; 0 after a diagnostic. */
Val walk_want(Walk *w, const WalkScope *s, Val value, const Layout *layout, int stage);
/* Makes the operation with all its results in that stage: its own stage, again for gradients that see only recomputed
 * results, or for a derived operation any stage that wants it.  Returns the number of that result. */
Val walk_make(Walk *w, const WalkScope *s, size_t index, int result, int stage);
/* Makes the whole operation on operands in its layouts. */
Val walk_whole(Walk *w, const WalkScope *s, size_t index, Val *in, int stage);
/* Records the version of a result.  A derived value that another stage computes for itself is visible in the loop of
 * its reader. */
void walk_add_result(Walk *w, const WalkScope *s, size_t index, int result, int stage, Val v);
/* Places a source: inputs and reads are made now, others when they are wanted. */
bool walk_place(Walk *w, const WalkScope *s, size_t index);

/* walk_sums.c: sums over stages of values that micro-batches accumulate.  Finds them; if there are any, the scope gets
 * its own copy of the strategies. */
void walk_find_late(const Walk *w, WalkScope *s);
static inline bool walk_is_late(const WalkScope *s, size_t index) { return s->late && s->late[index] != SIZE_MAX; }
/* Makes a late sum, or its accumulation; 0 after a diagnostic. */
Val walk_late(Walk *w, const WalkScope *s, size_t index, int stage);

/* walk_loop.c: a loop with all values that enter its body; a repeat with the next values of its carries.  False after a
 * diagnostic. */
bool walk_loop(Walk *w, WalkScope *s, size_t index);
bool walk_repeat(Walk *w, WalkScope *s, size_t index);
bool walk_bind(Walk *w, WalkScope *s, size_t index);

#endif
