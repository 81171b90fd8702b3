/* ir/device.h - what passes, prices and code generation have to know of a kind of device: one record per row of
 * ir/device.def.
 *
 * Nobody compares names or kinds: who has to decide something asks for the fact that decides it.
 */
#ifndef APC_IR_DEVICE_H
#define APC_IR_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

typedef enum DeviceKind {
#define DEVICE(id, ...) DEVICE_##id,
#include "ir/device.def"
#undef DEVICE
  DEVICE_KINDS
} DeviceKind;

/* Kernels of ours that multiply matrices, where no library does. */
typedef enum MatrixKernel {
  KERNEL_DOT = 1 << 0,
  KERNEL_WINDOW = 1 << 1,
  KERNEL_GROUPED = 1 << 2,
  KERNEL_ATTENTION = 1 << 3,
  KERNEL_ATTENTION_GRAD = 1 << 4
} MatrixKernel;

/* What a library does with the result of a product or convolution before it is stored (ir/legal_join.h). */
typedef enum DeviceJoin {
  JOINS_BIAS = 1 << 0,
  JOINS_RESIDUAL = 1 << 1,
  JOINS_RELU = 1 << 2,    /* max(x, 0) too */
  JOINS_RELU6 = 1 << 3,   /* min(max(x, 0), 6) */
  JOINS_SIGMOIDS = 1 << 4 /* sigmoid, tanh, x sigmoid(x) */
} DeviceJoin;

typedef struct DeviceTraits {
  DeviceKind kind;
  const char *name;
  uint32_t products;  /* a bit per DType: matrices of which types its library multiplies */
  bool convolutions;  /* it convolves, with what follows, images that hold their channels last with weights of the model
                         (op_conv_known): by a library, or by a kernel of ours */
  bool blocks;        /* its library does that at the rate of products, and puts the weights into blocks, for which they
                         have room, f32 weights that change and gradients included; else our kernel's rate counts,
                         and weights lie as they are */
  bool filters;       /* it wants those weights as one filter behind the other, [o, H, W, c]; else as [H, W, c, o] */
  bool shared_memory; /* ranks of one machine share its memory: more of them do not help where a model does not fit */
  bool contiguous_collectives; /* its engine of communication moves contiguous memory only and reduces as NCCL does
                                  (ir/legal_comm.h); else it reads and writes parts of tensors where they are */
  bool asynchronous;           /* communication is on a queue of its own, beside computation: it is asked for behind its
                                  producer and waited for before its first reader; where progress is made between calls
                                  only, that gains nothing and costs memory */
  bool sends_beside;  /* what stages that take turns send each other is beside computation, whatever else is: who
                         sends does not wait for a stage that has not come to it */
  bool panels;        /* products of weights want these in panels (program/epilogue.h: PROGRAM_PANEL) */
  bool grows;         /* its attention joins caches itself while it reads them (codegen/rows/work_grow.c) */
  bool splits;        /* its attention of few rows cuts the keys into pieces (codegen/rows/work_split.c) */
  uint32_t row_bytes; /* rows of large matrices of 16 bits are made as long as a multiple of that, at which its
                         library reads and writes several elements at once (codegen/rows/work_dot.c); 0: as
                         they are */
  uint32_t kernels; /* bits of MatrixKernel: which of our kernels multiply types of 16 bits with the units that products
                       of the library use; the others, and those of other types, do it in f32 (f64 for f64) */
  uint32_t after_products, after_convolutions; /* bits of DeviceJoin: what is done along with them */
} DeviceTraits;

const DeviceTraits *target_device_traits(DeviceKind kind);
const DeviceTraits *target_device_traits_find(const char *name); /* NULL: there is none of that name */

static inline bool device_multiplies(const DeviceTraits *d, DType t) { return d->products >> t & 1u; }

#endif
