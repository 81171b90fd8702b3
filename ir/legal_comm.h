/* ir/legal_comm.h - the legal form of a collective on a device whose library, like NCCL, moves contiguous memory only
 * and knows few reductions (DeviceTraits.contiguous_collectives).  Prices and code generation both use it.
 *
 * A part of a dimension is contiguous if all dimensions before it have extent 1.  Otherwise a transpose moves the
 * dimension to the front before the collective, and another moves it back; these are ordinary kernels, and may be fused
 * with the computation around them.
 *
 * An all-to-all cuts one dimension and joins another.  If one of the two has equal parts, their number becomes a
 * dimension of its own:
 *   split evenly   [.., n * s, .., e, ..] is [n, e, .., s, ..] before, and [1, E, .., s, ..] after
 *   join evenly    [.., S, .., e, ..] is [1, S, e, ..] before, and [n, s, e, ..] after
 * If neither has, the joined dimension is gathered and the other one sliced: n times the bytes.
 *
 * A reduction that the library lacks is computed by a kernel: the operands of all n members are gathered, as [n,
 * elements], and reduced; of a reduce-scatter each member then slices its part.  That takes n times the bytes, but
 * models reduce only small values in this way: the largest score of a row, a flag.
 */
#ifndef APC_IR_LEGAL_COMM_H
#define APC_IR_LEGAL_COMM_H

#include <stdbool.h>

#include "ir/device.h"
#include "ir/ir.h"

typedef enum LegalAllToAll {
  ALL_TO_ALL_AS_IT_IS,
  ALL_TO_ALL_SPLIT_EVENLY,
  ALL_TO_ALL_JOIN_EVENLY,
  ALL_TO_ALL_GATHERED
} LegalAllToAll;

/* Facts about an all-to-all of a tensor of `rank` dimensions. */
typedef struct AllToAllForm {
  int rank;
  bool split_first, join_first; /* all dimensions before it have extent 1 */
  bool split_evenly, join_evenly;
} AllToAllForm;

/* The legal form of an all-to-all. */
LegalAllToAll legal_all_to_all(const AllToAllForm *f);

/* True if the library has this reduction for this type, as ir/ops/comm.c defines it.  NCCL has no 16-bit integers, and
 * its float max and min may ignore a NaN. `one` moves bits: it is a sum of integers of which all but one are 0. */
bool legal_reduces(Reduction op, DType type);

/* True if a communication of level 2 is issued directly after its operand is made, and awaited before its first reader.
 * On devices without a queue that applies to the sums of gradients, which have no reader before the update; others
 * would be awaited at once. */
bool legal_begins_early(const DeviceTraits *d, const Func *f, const Op *comm);

#endif
