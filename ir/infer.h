/* ir/infer.h - between infer_type and the operations' own functions (ir/ops/); private to ir/.
 *
 * An operation's function gets the operands' types and the attributes and returns the result's type, or NULL after
 * infer_fail.  Types of further results it hands over by infer_further, in their order.  How many operands there are
 * and which attributes is checked before.  Where the type is written (op_type_is_given) the function checks it, as far
 * as that can be done, and returns it.
 */
#ifndef APC_IR_INFER_H
#define APC_IR_INFER_H

#include "ir/record.h"

typedef struct Infer {
  Module *m;
  const Func *f;
  const OpSpec *spec;
  Diags *diags;
  ResultTypes *out; /* the further ones; infer_types sets the first */
  const Type *in[MAX_OPERANDS];
} Infer;

/* Reports what is wrong, and the operands; always NULL. */
const Type *infer_fail(const Infer *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void infer_further(const Infer *c, const Type *t);
const Attr *infer_attr(const Infer *c, AttrKey key); /* NULL when absent */
const char *infer_text(const Infer *c, const Type *t);
/* An axis attribute inside a tensor of that rank, or -1 after an error. */
int infer_axis(const Infer *c, AttrKey key, int rank);
/* Splits "bm,mn->bn"; false when malformed. */
bool infer_spec(const char *spec, const char *part[3], int length[3]);
/* The reduction in attribute `op` is defined for the type, and is one that computes. */
bool infer_reduction(const Infer *c, DType t);

InferFn infer_same;   /* the type of operand 0 */
InferFn infer_given;  /* written, and nothing to check */
InferFn infer_weight; /* written; `experts`, when it is there, is one of its dimensions */

#endif
