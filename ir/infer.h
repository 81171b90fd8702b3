/* ir/infer.h - between infer_types and the operations' own functions (ir/ops/); private to ir/.
 *
 * An operation's function gets the operands' types and the attributes and returns the result's type, or NULL after
 * infer_fail.  It adds the types of further results by infer_further, in order.  The number of operands and the
 * attributes are checked before.  Where the type is written (op_type_is_given) the function checks it, as far as
 * possible, and returns it.
 */
#ifndef APC_IR_INFER_H
#define APC_IR_INFER_H

#include "ir/record.h"

typedef struct Infer {
  Module *m;
  const Func *f;
  const OpSpec *spec;
  Diags *diags;
  ResultTypes *out; /* further results; infer_types sets the first */
  const Type *in[MAX_OPERANDS];
} Infer;

/* Reports the error, and the operands; always NULL. */
const Type *infer_fail(const Infer *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void infer_further(const Infer *c, const Type *t);     /* adds the type of the next result */
const Attr *infer_attr(const Infer *c, AttrKey key);   /* NULL when absent */
const char *infer_text(const Infer *c, const Type *t); /* text of a type */
/* Returns an axis attribute that is inside a tensor of that rank, or -1 after an error. */
int infer_axis(const Infer *c, AttrKey key, int rank);
/* Splits "bm,mn->bn" into its parts and their lengths; false if malformed. */
bool infer_spec(const char *spec, const char *part[3], int length[3]);
/* True if the reduction in attribute `op` computes a result and is defined for the type; else reports the error. */
bool infer_reduction(const Infer *c, DType t);

InferFn infer_same;   /* the type of operand 0 */
InferFn infer_given;  /* the written type, unchecked */
InferFn infer_weight; /* the written type; checks that `experts`, if given, is one of its dimensions */

#endif
