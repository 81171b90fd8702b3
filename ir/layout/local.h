/* ir/layout/local.h - what the attributes of an operation say on one rank's part of its tensors.
 *
 * Level 2 is the operations of level 1 on local shapes.  A few attributes count elements of the whole tensor, or say
 * where something lies in it; each operation's record (ir/ops/) says which and how.
 */
#ifndef APC_IR_LAYOUT_LOCAL_H
#define APC_IR_LAYOUT_LOCAL_H

#include "ir/record.h"

/* An operation of level 1 and the layouts its operands and result have; NULL where there is none. */
typedef struct LocalPart {
  Module *m;
  const Func *f;
  const Op *op;
  const Layout *const *in;
  const Layout *result;
} LocalPart;

/* Attributes of the local operation, in `out` with room for AT_COUNT; returns how many. */
int op_local_attrs(const LocalPart *p, Attr *out);

/* ---- for records */

typedef struct LocalAttrs {
  int n;
  Attr *items;
} LocalAttrs;

/* In place of the attribute with that key, or beside the others. */
void local_set(LocalAttrs *out, Attr a);
/* Where the part of a dimension of that extent begins. */
const Expr *local_begin(const LocalPart *p, const Layout *l, int dim, const Expr *extent);
LocalFn local_start_of_operand; /* attribute `start` along `axis` of operand 0 */
LocalFn local_start_of_result;  /* ... of the result */
LocalFn local_starts_of_result; /* attribute `starts`, of all its dimensions */

#endif
