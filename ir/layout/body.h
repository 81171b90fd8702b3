/* ir/layout/body.h - decompositions of composite operations into primitives (D9).
 *
 * The record of a composite (ir/ops/) holds its IR text over symbolic extents, with the factor letters of the
 * composite's rule as symbols.  The same text is the reference semantics, the lowering of a sharded body factor, and
 * the expansion that the prover uses.
 */
#ifndef APC_IR_LAYOUT_BODY_H
#define APC_IR_LAYOUT_BODY_H

#include "ir/layout/rule.h"

/* The decomposition of the operation as a level-1 function that is not in the module's list: inputs "0", "1" ... with
 * the operand types (of either level), outputs "0" ... for the results.  Dies for an operation that is not composite.
 */
Func *body_of(Module *m, const Func *f, const Op *op);

/* A decomposition kept open to map many strategies; it depends on no mesh. */
typedef struct Body {
  const Func *func;         /* as from body_of */
  const Rule *const *rules; /* by operation */
  const Rule *whole;        /* of the composite */
  Module *template;
} Body;
/* Opens the decomposition of an operation; close it after use. */
Body *body_open(Module *m, const Func *f, const Op *op);
void body_close(Body *b);
/* Maps a strategy of the composite to all operations of the body: axes follow the factors through the dimensions. */
void body_follow(Module *m, const Body *b, const Strategy *s, Strategy *out);

/* The same without an open body: one Strategy per operation of the body. */
void body_strategies(Module *m, const Func *f, const Op *op, const Strategy *s, const Func *body, Strategy *out);

#endif
