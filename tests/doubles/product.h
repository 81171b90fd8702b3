/* tests/doubles/product.h - R = f(alpha op(A) op(B) + beta C + bias), column-major, as cuBLASLt defines it. */
#ifndef APC_TESTS_DOUBLES_PRODUCT_H
#define APC_TESTS_DOUBLES_PRODUCT_H

#include <stdbool.h>

#include "tests/doubles/blas_types.h"

typedef struct Matrix {
  int type; /* cudaDataType */
  int64_t rows, columns, ld, step, batch;
} Matrix;

typedef struct Product {
  int64_t m, n, k;
  int compute, epilogue;
  bool turns_a, turns_b;
  double alpha, beta;
  Matrix a, b, c, r;
} Product;

size_t product_bytes(int type);        /* of an element; 0 if unknown */
int64_t product_span(const Matrix *x); /* bytes from the first to the last element */

/* One matrix of the batch; bias: NULL if none. */
void product_compute(const Product *p, const char *a, const char *b, const char *c, const char *bias, char *r);

#endif
