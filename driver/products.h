/* driver/products.h - the arithmetic that utilisation is based on. */
#ifndef APC_DRIVER_PRODUCTS_H
#define APC_DRIVER_PRODUCTS_H

#include "driver/driver.h"

/* Returns the FLOP of a step of the build's plan, summed over all ranks: products, convolutions and attention, with
 * recompute.  Counted as in published figures: a recomputed layer counts as a whole, and the gradients of attention as
 * two of its forward passes. */
double driver_products(const Build *b);

#endif
