/* passes/facts/counterpart.h - values of a model, as read, in the function that the level-1 passes made of it.
 *
 * Passes keep the name of a value (D25).  Two of them leave a value with its dimensions in another order, which the
 * module notes (module_order).  Operations with a spec name their dimensions by letters, and passes keep these.  Both
 * functions are in modules of their own, so extents are compared as text.
 */
#ifndef APC_PASSES_FACTS_COUNTERPART_H
#define APC_PASSES_FACTS_COUNTERPART_H

#include "ir/ir.h"

/* The two functions. */
typedef struct Counterparts {
  Arena *arena;
  const Module *of_model, *of_plan;
  const Func *model, *planned;
} Counterparts;

/* Returns the name of a value in both functions: a weight has its own, as passes rename its readers' copies. */
const char *counterpart_name(Arena *a, const Func *f, Val v);

/* True if value v of the model and value w of the other function, which have one name, have one type up to the order of
 * dimensions: then dimension d of the first is dimension order[d] of the second. */
bool counterpart_order(const Counterparts *s, Val v, Val w, int *order);

/* The same for part i (operands, then the result) of the spec of two operations of one kind, for values of these types;
 * the values may differ, as folded weights do. */
bool counterpart_letters(const Counterparts *s, const Op *of_model, const Op *planned, int i, const Type *t,
                         const Type *u, int *order);

/* The same for a weight of the model and a planned one that has all its elements in another order. */
bool counterpart_view(const char *weight, const Param *planned, int *order);

#endif
