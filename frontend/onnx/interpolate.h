/* frontend/onnx/interpolate.h - interpolation along one axis, for Resize, GridSample and RoiAlign: the elements
 * around a coordinate and their weights. */
#ifndef APC_FRONTEND_ONNX_INTERPOLATE_H
#define APC_FRONTEND_ONNX_INTERPOLATE_H

#include "frontend/onnx/import_private.h"

enum { MAX_TAPS = 4 };

/* Elements around every coordinate of a tensor, and their weights, both with the tensor's type; elements may be
 * outside. */
typedef struct Taps {
  int n;
  Val at[MAX_TAPS], weight[MAX_TAPS]; /* weight 0: all weights are 1 */
} Taps;

/* Adds y to, or multiplies by y, every element of x. */
Val add_number(ImportNode *n, Val x, double y);
Val times_number(ImportNode *n, Val x, double y);
Val import_size_as(ImportNode *n, Val x, const Expr *e);     /* the size, in the type of x */
Val clamp_place(ImportNode *n, Val x, const Expr *extent);   /* clamps to [0, extent - 1] */
Val inside_extent(ImportNode *n, Val x, const Expr *extent); /* true where 0 <= x <= extent - 1 */

/* The two or four elements around coordinates x and their weights. */
Taps linear_taps(ImportNode *n, Val x);
Taps cubic_taps(ImportNode *n, double a, Val x); /* Keys' kernel with parameter a */

/* The values at distance t >= 0 of the kernels that give the taps' weights. */
Val linear_kernel(ImportNode *n, Val t);
Val cubic_kernel(ImportNode *n, double a, Val t);

#endif
