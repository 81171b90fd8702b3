/* runtime/device/onednn.h - oneDNN, loaded at run time (libdnnl.so.3 or .so.2; nothing links it), with one interface
 * for both versions.
 *
 * Products and convolutions share: opening the library, descriptions of memory, epilogues (bias, residual, activation),
 * and primitives with the memory objects of their arguments.  Version 2 keeps memory descriptors by value, version 3 by
 * pointer; here both are OnednnLayout.  One thread uses all of it.
 */
#ifndef APC_RUNTIME_DEVICE_ONEDNN_H
#define APC_RUNTIME_DEVICE_ONEDNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "program/program.h"

/* Applies an epilogue, or its rest, to rows of y that are `step` elements apart, as those of the residual are. */
void epilogue_apply(Epilogue e, float *y, int64_t rows, int64_t columns, int64_t step, const float *bias,
                    const float *residual);

/* The environment variable that names the library to open, as a Python wheel does for its own; else the system's. */
#define ONEDNN_VARIABLE "APC_ONEDNN"

/* Opens the library.  RT_UNSUPPORTED, naming the package, if there is no oneDNN on this machine. */
RtStatus onednn_open(RtError *error);
void *onednn_symbol(const char *name); /* after onednn_open; NULL if the library lacks it */
int onednn_version(void);              /* 2 or 3; 0 before onednn_open */

/* ---- layouts of tensors in memory */
typedef struct OnednnLayout OnednnLayout;

/* Make a layout of n dimensions; NULL on failure.  onednn_strided: with strides in elements. */
OnednnLayout *onednn_strided(int n, const int64_t *dims, DType dtype, const int64_t *strides);
OnednnLayout *onednn_any(int n, const int64_t *dims, DType dtype); /* the library chooses */
OnednnLayout *onednn_layout_copy(const OnednnLayout *l);           /* NULL on failure, and for NULL */
void onednn_layout_free(OnednnLayout *l);                          /* NULL is allowed */
/* Return the bytes of a tensor with that layout, and true if two layouts are equal. */
size_t onednn_layout_bytes(const OnednnLayout *l);
bool onednn_layout_equal(const OnednnLayout *a, const OnednnLayout *b);

/* Copies a tensor into another layout.  False if the library refuses. */
bool onednn_reorder(const OnednnLayout *from, void *source, const OnednnLayout *to, void *target);

/* ---- primitives: a convolution or product of fixed sizes */
enum { ONEDNN_X, ONEDNN_W, ONEDNN_Y, ONEDNN_BIAS, ONEDNN_RESIDUAL, ONEDNN_ROOM, ONEDNN_ARGS };

typedef struct OnednnConv {
  int n; /* windowed dimensions */
  int64_t stride[3], dilation[3], before[3], behind[3];
  ProgramConvResult result; /* for gradients, X, W and Y are those of the image, the weights and the output */
  size_t room;              /* limit in bytes of the caller's scratch memory, ONEDNN_ROOM; 0: the library's own */
} OnednnConv;

typedef struct OnednnPrimitive OnednnPrimitive;

/* The epilogue of a primitive; in_place: the residual lies at the place of the result. */
typedef struct OnednnEpilogue {
  Epilogue what;
  bool in_place;
} OnednnEpilogue;

/* Makes a primitive; conv: NULL for a matrix product.  Bias and residual have the result's type;
 * layout[ONEDNN_RESIDUAL] is ignored.  NULL if the library has no fast implementation (the reference ones and those
 * that copy the image are refused) or needs more than ONEDNN_SCRATCH bytes per thread of its own: of an image that is
 * read with gaps it keeps a dense copy per thread. */
enum { ONEDNN_SCRATCH = 1 << 20 };
OnednnPrimitive *onednn_primitive(const OnednnConv *conv, OnednnLayout *const layout[ONEDNN_ARGS], OnednnEpilogue e);
/* Frees a primitive; NULL is allowed. */
void onednn_primitive_free(OnednnPrimitive *p);
OnednnLayout *onednn_weights_layout(const OnednnPrimitive *p); /* a copy */
size_t onednn_room(const OnednnPrimitive *p);                  /* bytes of ONEDNN_ROOM that it needs */
/* Returns the library's name for the implementation; "" if unknown. */
const char *onednn_implementation(const OnednnPrimitive *p);
/* Runs the primitive on the addresses of its arguments, and waits for it; false if the library fails. */
bool onednn_execute(OnednnPrimitive *p, void *const data[ONEDNN_ARGS]);

/* ---- threads of the OpenMP run time that the library uses: the compiled program's own, or libgomp */
int onednn_threads(void); /* Returns the number of threads, 1 without libgomp */
/* Sets the number of threads, if the library is open. */
void onednn_set_threads(int n);
void onednn_choose_threads(int n); /* also takes effect when the library is opened later */

#endif
