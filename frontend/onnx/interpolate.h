/* frontend/onnx/interpolate.h - interpolation along one axis, for Resize, GridSample and RoiAlign: which elements
 * around a coordinate count, and how much. */
#ifndef APC_FRONTEND_ONNX_INTERPOLATE_H
#define APC_FRONTEND_ONNX_INTERPOLATE_H

#include "frontend/onnx/import_private.h"

enum { MAX_TAPS = 4 };

/* Elements around every coordinate of a tensor, and their weights, both of the tensor's type; elements may lie
 * outside. */
typedef struct Taps {
  int n;
  Val at[MAX_TAPS], weight[MAX_TAPS]; /* weight 0: 1 */
} Taps;

Val add_number(ImportNode *n, Val x, double y);
Val times_number(ImportNode *n, Val x, double y);
Val import_size_as(ImportNode *n, Val x, const Expr *e);     /* the size, of the type of x */
Val clamp_place(ImportNode *n, Val x, const Expr *extent);   /* to [0, extent - 1] */
Val inside_extent(ImportNode *n, Val x, const Expr *extent); /* 0 <= x <= extent - 1 */

Taps linear_taps(ImportNode *n, Val x);
Taps cubic_taps(ImportNode *n, double a, Val x); /* Keys' kernel */

/* The kernels at distance t >= 0, on which the taps' weights lie. */
Val linear_kernel(ImportNode *n, Val t);
Val cubic_kernel(ImportNode *n, double a, Val t);

#endif
