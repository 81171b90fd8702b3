/* ir/window.h - common definitions of the windowed operations: conv, conv_transpose, conv_filter, pool, pool_grad.
 *
 * In a spec like "ncHW,ocHW->noHW" capital letters are the windowed dimensions: the extents of the image in the image's
 * part, of the window in the weights' part, of the output in the output's part.  Per windowed dimension, output index u
 * and window index k meet image index
 *
 *   start + u * stride + k * dilation
 *
 * and an index outside the image has no element (0 for the convolutions, skipped by the pool).  Padding is a negative
 * start, and ceil mode follows from the output's extent, so neither needs an attribute.  All three convolutions are the
 * same sum; they differ in which of image, window and output is the result.  At level 2 `starts` is the start of the
 * local output's first window in the local image.
 */
#ifndef APC_IR_WINDOW_H
#define APC_IR_WINDOW_H

#include "ir/ir.h"

enum { MAX_WINDOWED = 3, WINDOW_IMAGE = 0, WINDOW_WEIGHTS = 1, WINDOW_OUTPUT = 2 };

/* The tensors by role; role[r] is an operand number, or -1 for the result (-2: pools have no weights). */
typedef struct Window {
  int n; /* windowed dimensions */
  int role[3];
  int dim[3][MAX_WINDOWED]; /* by role: the dimension; not set for a pool's weights */
  int64_t stride[MAX_WINDOWED], dilation[MAX_WINDOWED];
  const Expr *start[MAX_WINDOWED];
  const Expr *extent[3][MAX_WINDOWED]; /* by role */
} Window;

/* The part of the spec for a role: operand 0, operand 1, 2 for the result. */
int window_spec_part(OpKind k, int role);

/* Letters of a role in a convolution's spec; *n gets their number. */
const char *window_letters(OpKind k, const char *spec, int role, int *n);

/* The windows of an operation, with its own types, so it serves both levels. */
Window window_of(const Func *f, const Op *op);

/* Extent that a window covers: dilation * (extent of the window - 1) + 1. */
const Expr *window_reach(Module *m, const Window *w, int i);

/* The part of the image that outputs [lo, hi) read, and the part of the output that reads images [lo, hi): intervals
 * clipped to the extents. */
void window_image_of(Module *m, const Window *w, int i, const Expr *lo, const Expr *hi, const Expr **image_lo,
                     const Expr **image_hi);
void window_output_of(Module *m, const Window *w, int i, const Expr *lo, const Expr *hi, const Expr **output_lo,
                      const Expr **output_hi);

#endif
