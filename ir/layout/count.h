/* ir/layout/count.h - arithmetic and memory traffic of an operation on one rank, in numbers.
 *
 * Input: the sizes of the rank's part (by factor of the rule, and of operands and result).  Output: the matrix products
 * of a contraction, its floating-point operations, the bytes it reads and writes.  These are facts of the operation;
 * passes/cost prices them on a target, and code generation adds the work of its kernels.  The multiply-adds of the
 * whole operation are also an expression, for sizes that are not known yet.
 */
#ifndef APC_IR_LAYOUT_COUNT_H
#define APC_IR_LAYOUT_COUNT_H

#include "ir/record.h"
#include "ir/layout/rule.h"

enum { MAX_PRODUCTS = 3 };

typedef struct OpPart {
  const Op *op;
  const Rule *rule;
  double size[MAX_FACTORS];      /* by factor; unset if the factor has no size */
  double share;                  /* grouped operations: the fraction of groups whose matrices are on this rank */
  double elements, bytes;        /* of the first result; of all results; 0 if there is none */
  double first;                  /* elements of operand 0; 0 if there is none */
  double in_bytes[MAX_OPERANDS]; /* of the operands */
} OpPart;

/* `batch` products of an m x k with a k x n matrix. */
typedef struct Product {
  double batch, m, n, k;
} Product;

/* The same as sets of the rule's factors, bit i for factor i: an extent is the product of their sizes. */
typedef struct ProductFactors {
  uint32_t batch, m, n, k;
  uint32_t groups; /* the factor that counts matrices, among which m rows are divided evenly; 0: one matrix */
  int64_t every;   /* k counts only one of so many; 0: each */
} ProductFactors;

int op_products(const OpPart *p, Product out[MAX_PRODUCTS]); /* number of products; 0 if it is no contraction */
double op_flops(const OpPart *p);                            /* a multiply-add is two */
double op_bytes(const OpPart *p);                            /* read and written */
/* Returns the multiply-adds of the products of a contraction with this rule, as a whole; 0 if it is none. */
const Expr *op_multiply_adds(Module *m, const Op *op, const Rule *r);

/* ---- for records */

double part_size(const OpPart *p, const char *factor); /* dies if the rule has no such factor */
bool part_has(const TensorFactors *t, int factor);     /* true if a dimension of the tensor has the factor */
/* Returns the set of factors with these names, of one letter each; dies if the rule lacks one. */
uint32_t part_factors(const Rule *r, const char *letters);

#endif
