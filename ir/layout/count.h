/* ir/layout/count.h - how much arithmetic and memory traffic an operation is on one rank, in numbers.
 *
 * In: the sizes of the rank's part (by factor of the rule, and of operands and result).  Out: the matrix products that
 * a contraction is, its floating-point operations, the bytes it reads and writes.  These are facts of the operation;
 * what they cost on a target is passes/cost, and what a generated kernel does beside them codegen's business.
 */
#ifndef APC_IR_LAYOUT_COUNT_H
#define APC_IR_LAYOUT_COUNT_H

#include "ir/record.h"
#include "ir/layout/rule.h"

enum { MAX_PRODUCTS = 3 };

typedef struct OpPart {
  const Op *op;
  const Rule *rule;
  double size[MAX_FACTORS];      /* by factor; unset where the factor has no size */
  double share;                  /* grouped operations: the part of all groups whose matrices are here */
  double elements, bytes;        /* of the first result; of all results.  0 when there is none */
  double first;                  /* elements of operand 0; 0 when there is none */
  double in_bytes[MAX_OPERANDS]; /* of the operands */
} OpPart;

/* So many products of an m x k with a k x n matrix. */
typedef struct Product {
  double batch, m, n, k;
} Product;

int op_products(const OpPart *p, Product out[MAX_PRODUCTS]); /* how many; 0 for what is no contraction */
double op_flops(const OpPart *p);                            /* a multiply-add is two */
double op_bytes(const OpPart *p);                            /* read and written */

/* ---- for records */

double part_size(const OpPart *p, const char *factor); /* dies when the rule has no such factor */
bool part_has(const TensorFactors *t, int factor);     /* a dimension of the tensor is cut with the factor */

#endif
