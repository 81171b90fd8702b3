/* runtime/device/onednn.h - oneDNN, loaded at run time (libdnnl.so.3 or .so.2; nothing links it), behind what both
 * versions have in common.
 *
 * What products and convolutions share: opening the library, descriptions of memory, what follows a product (bias,
 * residual, activation), primitives with the memory objects of their arguments.  Version 2 keeps memory descriptors by
 * value, version 3 behind pointers; here both are OnednnLayout.  One thread uses all of it.
 */
#ifndef APC_RUNTIME_DEVICE_ONEDNN_H
#define APC_RUNTIME_DEVICE_ONEDNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "program/program.h"

/* What the library did not do, on rows of y that are `step` elements apart, as those of the residual are. */
void epilogue_apply(Epilogue e, float *y, int64_t rows, int64_t columns, int64_t step, const float *bias,
                    const float *residual);

/* RT_UNSUPPORTED, naming the package, when there is no oneDNN on this machine. */
RtStatus onednn_open(RtError *error);
void *onednn_symbol(const char *name); /* after onednn_open; NULL when the library lacks it */
int onednn_version(void);              /* 2 or 3; 0 before onednn_open */

/* ---- layouts: how a tensor lies in memory; NULL on failure */
typedef struct OnednnLayout OnednnLayout;
OnednnLayout *onednn_strided(int n, const int64_t *dims, DType dtype, const int64_t *strides);
OnednnLayout *onednn_any(int n, const int64_t *dims, DType dtype); /* the library chooses */
OnednnLayout *onednn_layout_copy(const OnednnLayout *l);
void onednn_layout_free(OnednnLayout *l); /* NULL is allowed */
size_t onednn_layout_bytes(const OnednnLayout *l);
bool onednn_layout_equal(const OnednnLayout *a, const OnednnLayout *b);

/* Copies a tensor into another layout.  False when the library refuses. */
bool onednn_reorder(const OnednnLayout *from, void *source, const OnednnLayout *to, void *target);

/* ---- primitives: a convolution or product of fixed sizes */
enum { ONEDNN_X, ONEDNN_W, ONEDNN_Y, ONEDNN_BIAS, ONEDNN_RESIDUAL, ONEDNN_ROOM, ONEDNN_ARGS };

typedef struct OnednnConv {
  int n; /* windowed dimensions */
  int64_t stride[3], dilation[3], before[3], behind[3];
  ProgramConvResult result; /* gradients: X, W and Y are then those of the image, the weights and the output */
  size_t room; /* most bytes of scratch memory, which the caller gives as ONEDNN_ROOM; 0: it lies with the library */
} OnednnConv;

typedef struct OnednnPrimitive OnednnPrimitive;

/* What follows a primitive; in_place: the residual lies where the result goes. */
typedef struct OnednnEpilogue {
  Epilogue what;
  bool in_place;
} OnednnEpilogue;

/* conv: NULL for a matrix product.  Bias and residual have the result's type; layout[ONEDNN_RESIDUAL] is ignored.  NULL
 * when the library has no fast implementation (the reference ones and those that copy the image are refused) or needs
 * more than ONEDNN_SCRATCH bytes per thread beside: of an image whose places are not all read it keeps, for every
 * thread, those that are. */
enum { ONEDNN_SCRATCH = 1 << 20 };
OnednnPrimitive *onednn_primitive(const OnednnConv *conv, OnednnLayout *const layout[ONEDNN_ARGS], OnednnEpilogue e);
void onednn_primitive_free(OnednnPrimitive *p);
OnednnLayout *onednn_weights_layout(const OnednnPrimitive *p); /* a copy */
size_t onednn_room(const OnednnPrimitive *p);                  /* bytes of ONEDNN_ROOM that it needs */
const char *onednn_implementation(const OnednnPrimitive *p);
bool onednn_execute(OnednnPrimitive *p, void *const data[ONEDNN_ARGS]);

/* ---- threads of the OpenMP run time the library uses: the compiled program's own, or libgomp */
int onednn_threads(void); /* 1 without libgomp */
void onednn_set_threads(int n);
void onednn_choose_threads(int n); /* from when it is opened on; it may not be open yet */

#endif
