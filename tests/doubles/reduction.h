/* tests/doubles/reduction.h - reductions of NCCL's types. */
#ifndef APC_TESTS_DOUBLES_REDUCTION_H
#define APC_TESTS_DOUBLES_REDUCTION_H

#include <stddef.h>

#include "tests/doubles/nccl_types.h"

size_t reduction_bytes(ncclDataType_t type); /* of an element; 0 if unsupported */

/* to = to op from, element by element.  16-bit types are rounded after every step; maxima and minima of floats may drop
 * a NaN, as NCCL's do. */
void reduction_step(void *to, const void *from, size_t n, ncclDataType_t type, ncclRedOp_t op);

#endif
