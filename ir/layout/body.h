/* ir/layout/body.h - decompositions of composite operations into primitives (D9).
 *
 * The record of a composite (ir/ops/) holds its IR text over symbolic extents, with the factor letters of the
 * composite's rule as symbols.  The same text is the reference meaning, what a sharded body factor is lowered to, and
 * what the prover reduces composites to.
 */
#ifndef APC_IR_LAYOUT_BODY_H
#define APC_IR_LAYOUT_BODY_H

#include "ir/layout/rule.h"

/* The decomposition of the operation as a level-1 function of the module that is not in its list: inputs "0", "1" ...
 * with the operand types (of either level), an output per result, "0" ...  Dies for an operation that is not composite.
 */
Func *body_of(Module *m, const Func *f, const Op *op);

/* The decomposition kept open to look at many strategies: it depends on no mesh. */
typedef struct Body {
  const Func *func;         /* as body_of gives it */
  const Rule *const *rules; /* by operation */
  const Rule *whole;        /* of the composite */
  Module *template;
} Body;
Body *body_open(Module *m, const Func *f, const Op *op);
void body_close(Body *b);
/* The strategies of all operations of the body, given the composite's: axes follow the factors through the
 * dimensions. */
void body_follow(Module *m, const Body *b, const Strategy *s, Strategy *out);

/* The strategies of the body's operations, given the composite's: one Strategy per operation of the body. */
void body_strategies(Module *m, const Func *f, const Op *op, const Strategy *s, const Func *body, Strategy *out);

#endif
