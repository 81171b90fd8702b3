/* passes/cost/sizes.h - whether the sizes of a function can be priced at all. */
#ifndef APC_PASSES_COST_SIZES_H
#define APC_PASSES_COST_SIZES_H

#include "passes/cost/cost.h"

/* Every value's extents at the sizes to plan for exist and its bytes fit 62 bits; else a diagnostic that names the
 * tensor and the largest dimension.  Prices of what passes are finite, and no rounding up to a multiple overflows. */
bool cost_sizes_can_be_priced(const CostModel *c, const Module *m, const Func *f, Diags *d);

#endif
