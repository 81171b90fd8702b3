/* codegen/rows/unit_bundle.h - kernels that share a launch (row_order.c) as one unit. */
#ifndef APC_CODEGEN_ROWS_UNIT_BUNDLE_H
#define APC_CODEGEN_ROWS_UNIT_BUNDLE_H

#include "codegen/rows/units.h"

/* Replaces n units by bundles, in their order, and returns how many there are: one, or more if a launch cannot take all
 * operands.  A unit alone stays as it is. */
size_t units_bundle(Module *m, Unit *units, size_t n);

#endif
