/* runtime/comm/reduce.h - elementwise reduction of the members' contributions, in order.
 */
#ifndef APC_RUNTIME_COMM_REDUCE_H
#define APC_RUNTIME_COMM_REDUCE_H

#include <stddef.h>

#include "base/dtype.h"
#include "runtime/comm/comm.h"

/* to[i] = from[0][i] op from[1][i] op ... from[n-1][i] for i < count, n >= 1; f16 and bf16 are accumulated in
 * f32 and rounded once.  The reduction is defined on the dtype.  `to` may be one of the sources. */
void comm_reduce(DType dtype, CommReduction reduction, void *to, const void *const *from, int n, size_t count);

#endif
