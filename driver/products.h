/* driver/products.h - the arithmetic that utilisation is based on: that of the model, as MFU counts it, and that of a
 * plan, with recomputation. */
#ifndef APC_DRIVER_PRODUCTS_H
#define APC_DRIVER_PRODUCTS_H

#include "driver/driver.h"

/* Returns the FLOP of a step of the build's plan, summed over all ranks: products, convolutions and attention, with
 * recompute.  Counted as in published figures: a recomputed layer counts as a whole, and the gradients of attention as
 * two of its forward passes. */
double driver_products(const Build *b);

/* Returns the model FLOPs of a step (ir/layout/flops.h) at the planned sizes; NaN if a size has no value. */
double driver_model_flops(const Build *b);

#endif
