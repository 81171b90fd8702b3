/* runtime/device/conv_dnnl.h - convolutions on the CPU by oneDNN, on images with their channels last.
 *
 * The library wants weights in blocks whose size follows from all sizes of the convolution.  Weights are put into that
 * layout where they lie, when the first request knows its sizes, and again when sizes come that want another one;
 * layouts that are larger than the weights are kept apart when they are small (CONV_APART), so that memory stays what
 * the Program says.  Primitives are kept per sizes.
 *
 * Gradients of the image and of the weights are convolutions too, and weights may change between calls.  Such weights
 * are copied into the library's layout for the call, a gradient of weights out of it; the copy, and what the library
 * sums in, lie in memory the Program has for that (PC_library), so that it is counted.
 *
 * conv_run says false when the library does not do it: not there, negative padding, an output that meets no element of
 * the image, no fast implementation, weights that may not be changed, no room for the copy.  Then the caller's own
 * kernel runs, on weights as they were.
 */
#ifndef APC_RUNTIME_DEVICE_CONV_DNNL_H
#define APC_RUNTIME_DEVICE_CONV_DNNL_H

#include "program/device_calls.h"
#include "runtime/device/onednn.h"

enum { CONV_APART = 64 << 10 };

/* Weights, shared by the convolutions that read them. */
typedef struct ConvWeights {
  void *data;
  size_t bytes;
  bool mine;            /* only convolutions read them, and they may be changed */
  OnednnLayout *layout; /* what `data` is in; NULL: as loaded */
  void *apart;          /* a copy in `apart_layout` */
  OnednnLayout *apart_layout;
} ConvWeights;

typedef struct ConvCall {
  ConvShape shape;
  OnednnEpilogue epilogue;
  void *x, *y, *bias, *residual; /* x, y: image and output, or their gradients */
  ConvWeights *weights;          /* NULL: they are `w` and may have changed, or are the result */
  void *w;
  ProgramConvResult result;
  void *room; /* for the call, at a border of 64 bytes */
  size_t room_bytes;
} ConvCall;

typedef struct ConvCache ConvCache;
ConvCache *conv_cache_new(void);
void conv_cache_free(ConvCache *c);

/* True when the library has done it.  *error is set when it began and failed. */
bool conv_run(ConvCache *cache, const ConvCall *call, RtStatus *status, RtError *error);

/* Puts weights back as they were loaded. */
RtStatus conv_weights_restore(ConvWeights *w, const ConvShape *shape, RtError *error);
void conv_weights_free(ConvWeights *w);

#endif
