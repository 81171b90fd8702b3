/* ir/device.h - facts about a kind of device for passes, prices and code generation: one record per row of
 * ir/device.def.
 *
 * Code never compares names or kinds: each decision reads the trait that it depends on.
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

/* Our kernels that multiply matrices where no library does. */
typedef enum MatrixKernel {
  KERNEL_DOT = 1 << 0,
  KERNEL_WINDOW = 1 << 1,
  KERNEL_GROUPED = 1 << 2,
  KERNEL_ATTENTION = 1 << 3,
  KERNEL_ATTENTION_GRAD = 1 << 4
} MatrixKernel;

/* Operations that a library applies to the result of a product or convolution before storing it (ir/legal_join.h). */
typedef enum DeviceJoin {
  JOINS_BIAS = 1 << 0,
  JOINS_RESIDUAL = 1 << 1,
  JOINS_RELU = 1 << 2,    /* also max(x, 0) */
  JOINS_RELU6 = 1 << 3,   /* min(max(x, 0), 6) */
  JOINS_SIGMOIDS = 1 << 4 /* sigmoid, tanh, x sigmoid(x) */
} DeviceJoin;

/* The table describes each trait. */
typedef struct DeviceTraits {
  DeviceKind kind;
  const char *name;
#define TRAIT(type, name) type name;
#include "ir/device.def"
} DeviceTraits;

/* The record of a kind of device. */
const DeviceTraits *target_device_traits(DeviceKind kind);
const DeviceTraits *target_device_traits_find(const char *name); /* NULL if there is none of that name */

/* True if the device's library multiplies matrices of this type. */
static inline bool device_multiplies(const DeviceTraits *d, DType t) { return d->products >> t & 1u; }

#endif
