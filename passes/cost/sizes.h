/* passes/cost/sizes.h - checks that the sizes of a function can be priced. */
#ifndef APC_PASSES_COST_SIZES_H
#define APC_PASSES_COST_SIZES_H

#include "passes/cost/cost.h"

/* True if every value's extents exist at the planned sizes and its bytes fit 62 bits; else false after a diagnostic
 * that names the tensor and the largest dimension.  Prices are then finite, and no rounding up to a multiple
 * overflows. */
bool cost_sizes_can_be_priced(const CostModel *c, const Module *m, const Func *f, Diags *d);

#endif
