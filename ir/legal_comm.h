/* ir/legal_comm.h - what a collective becomes on a device whose engine is a library like NCCL, which moves contiguous
 * memory only and knows few reductions (DeviceTraits.contiguous_collectives): one answer for prices and for code
 * generation.
 *
 * A part of a dimension is contiguous where all dimensions before it have extent 1.  Elsewhere the dimension is moved
 * to the front by a transpose before the collective, and back behind it; these are kernels like others, which may join
 * what is computed around them.
 *
 * An all-to-all cuts one dimension and joins another.  Where one of the two has equal parts, their number becomes a
 * dimension of its own:
 *   split evenly   [.., n * s, .., e, ..] is [n, e, .., s, ..] before, and [1, E, .., s, ..] behind
 *   join evenly    [.., S, .., e, ..] is [1, S, e, ..] before, and [n, s, e, ..] behind
 * If neither has, the joined dimension is gathered and the other one sliced: n times the bytes.
 *
 * A reduction that the library has not is made here: the operands of all n members are gathered, as [n, elements], and
 * a kernel reduces them; of a reduce-scatter each member then slices its part.  n times the bytes, but all that models
 * reduce so is small: the largest score of a row, a flag.
 */
#ifndef APC_IR_LEGAL_COMM_H
#define APC_IR_LEGAL_COMM_H

#include <stdbool.h>

#include "ir/ir.h"

typedef enum LegalAllToAll {
  ALL_TO_ALL_AS_IT_IS,
  ALL_TO_ALL_SPLIT_EVENLY,
  ALL_TO_ALL_JOIN_EVENLY,
  ALL_TO_ALL_GATHERED
} LegalAllToAll;

/* What is known of an all-to-all of a tensor of `rank` dimensions. */
typedef struct AllToAllForm {
  int rank;
  bool split_first, join_first; /* all dimensions before it have extent 1 */
  bool split_evenly, join_evenly;
} AllToAllForm;

LegalAllToAll legal_all_to_all(const AllToAllForm *f);

/* Has the library this reduction of elements of this type, as ir/ops/comm.c defines it?  NCCL has no integers of 16
 * bits, and its largest and smallest float may not be the NaN that is among them.  `one`
 * moves bits: it is the sum of integers of which all but one are 0. */
bool legal_reduces(Reduction op, DType type);

#endif
