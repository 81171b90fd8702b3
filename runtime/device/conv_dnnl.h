/* runtime/device/conv_dnnl.h - convolutions on the CPU by oneDNN, on images with their channels last.
 *
 * The library wants weights in blocks whose size depends on all sizes of the convolution.  Weights are reordered in
 * place when the first request has fixed the sizes, and again when other sizes need another layout.  A layout larger
 * than the weights goes into a separate copy if it is small (CONV_APART), so that memory stays as the Program predicts.
 * Primitives are cached by sizes.
 *
 * Gradients of the image and of the weights are convolutions too, and weights may change between calls.  Such weights
 * are copied into the library's layout for the call; a gradient of weights is copied out of it.  The copy and the
 * library's scratch memory lie in memory that the Program reserves for them (PC_library), so that it is counted.
 *
 * conv_run returns false if the library cannot do it: no library, negative padding, an output that meets no element of
 * the image, no fast implementation, weights that must not be changed, no room for the copy.  Then the caller runs its
 * own kernel, on weights as they were.
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
  bool mine;            /* only convolutions read them, and they may be reordered */
  OnednnLayout *layout; /* layout of `data`; NULL: as loaded */
  void *apart;          /* a copy in `apart_layout` */
  OnednnLayout *apart_layout;
} ConvWeights;

typedef struct ConvCall {
  ConvShape shape;
  OnednnEpilogue epilogue;
  void *x, *y, *bias, *residual; /* x, y: image and output, or their gradients */
  ConvWeights *weights;          /* NULL: `w` has the weights, which may have changed, or gets their gradient */
  void *w;
  ProgramConvResult result;
  void *room; /* scratch memory of the call, aligned to 64 bytes */
  size_t room_bytes;
} ConvCall;

typedef struct ConvCache ConvCache;
/* Make and free a cache of primitives; conv_cache_new returns NULL without memory, conv_cache_free takes NULL. */
ConvCache *conv_cache_new(void);
void conv_cache_free(ConvCache *c);

/* True if the library did the convolution or failed at it; *status, with *error, says which.  False: the caller's
 * kernel has to run. */
bool conv_run(ConvCache *cache, const ConvCall *call, RtStatus *status, RtError *error);

/* Restores the layout that the weights were loaded in.  RT_FAILED without memory. */
RtStatus conv_weights_restore(ConvWeights *w, const ConvShape *shape, RtError *error);
/* Frees the layouts and the copy, not the weights or `w`. */
void conv_weights_free(ConvWeights *w);

#endif
