/* ir/layout/local.h - the attributes of an operation on one rank's part of its tensors.
 *
 * Level 2 has the operations of level 1 on local shapes.  A few attributes count elements of the whole tensor, or give
 * a position in it; each operation's record (ir/ops/) says which and how.
 */
#ifndef APC_IR_LAYOUT_LOCAL_H
#define APC_IR_LAYOUT_LOCAL_H

#include "ir/record.h"

/* An operation of level 1 and the layouts of its operands and result; NULL if there is none. */
typedef struct LocalPart {
  Module *m;
  const Func *f;
  const Op *op;
  const Layout *const *in;
  const Layout *result;
} LocalPart;

/* Fills `out` (room for AT_COUNT) with the attributes of the local operation; returns their number. */
int op_local_attrs(const LocalPart *p, Attr *out);

/* ---- for records */

typedef struct LocalAttrs {
  int n;
  Attr *items;
} LocalAttrs;

/* Replaces the attribute with that key, or adds it. */
void local_set(LocalAttrs *out, Attr a);
/* Start of the local part of a dimension with that extent. */
const Expr *local_begin(const LocalPart *p, const Layout *l, int dim, const Expr *extent);
LocalFn local_start_of_operand; /* attribute `start` along `axis` of operand 0 */
LocalFn local_start_of_result;  /* ... of the result */
LocalFn local_starts_of_result; /* attribute `starts`, of all its dimensions */

#endif
