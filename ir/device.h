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

/* What each trait says stands in the table. */
typedef struct DeviceTraits {
  DeviceKind kind;
  const char *name;
#define TRAIT(type, name) type name;
#include "ir/device.def"
} DeviceTraits;

const DeviceTraits *target_device_traits(DeviceKind kind);
const DeviceTraits *target_device_traits_find(const char *name); /* NULL: there is none of that name */

static inline bool device_multiplies(const DeviceTraits *d, DType t) { return d->products >> t & 1u; }

#endif
