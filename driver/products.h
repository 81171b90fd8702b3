/* driver/products.h - the arithmetic that utilisation is said of. */
#ifndef APC_DRIVER_PRODUCTS_H
#define APC_DRIVER_PRODUCTS_H

#include "driver/driver.h"

/* FLOP of a step of the build's plan, of all ranks together: products, convolutions and attention, with what is made
 * again for gradients.  Counted as in published figures: a layer that is made again counts whole, and the gradients of
 * attention as two of it. */
double driver_products(const Build *b);

#endif
