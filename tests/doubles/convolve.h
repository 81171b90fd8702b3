/* tests/doubles/convolve.h - the computations of cuDNN's double: y = f(alpha conv(x, w) + beta z + bias), channels
 * last; and the gradients by x and by w, given that of y. */
#ifndef APC_TESTS_DOUBLES_CONVOLVE_H
#define APC_TESTS_DOUBLES_CONVOLVE_H

#include <stdbool.h>

#include "tests/doubles/dnn_types.h"

typedef struct Image {
  int type; /* cudnnDataType_t */
  int n, c, h, w;
} Image;

/* Filters [k][h][w][c]; c: channels of a group. */
typedef struct Filter {
  int type, k, c, h, w;
} Filter;

typedef struct Convolution {
  int pad[2], stride[2], dilation[2], groups, math, sums, mode;
} Convolution;

typedef struct Convolving {
  Image x, y;
  Filter w;
  Convolution conv;
  float alpha, beta;
  bool relu;
  bool inexact; /* a nondeterministic algorithm: its results are off by a part in 500 */
} Convolving;

size_t convolve_bytes(int type); /* of an element; 0 if unknown */
static inline int64_t image_elements(const Image *i) { return (int64_t)i->n * i->c * i->h * i->w; }
static inline int64_t filter_elements(const Filter *f) { return (int64_t)f->k * f->c * f->h * f->w; }

float convolve_load(int type, const char *at, int64_t i);
void convolve_store(int type, char *at, int64_t i, float v);

/* z, bias: NULL if none. */
void convolve(const Convolving *p, const char *x, const char *w, const char *z, const char *bias, char *y);

/* alpha times the gradient, plus beta times the previous contents. */
void convolve_image_gradient(const Convolving *p, char *dx, const char *w, const char *dy);
void convolve_weight_gradient(const Convolving *p, const char *x, char *dw, const char *dy);

/* relu that makes NaN 0 */
static inline float convolve_relu(float v) { return v > 0 ? v : 0; }

#endif
