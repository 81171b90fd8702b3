/* ir/legal_comm.c - see legal_comm.h. */
#include "ir/legal_comm.h"

LegalAllToAll legal_all_to_all(const AllToAllForm *f) {
  if (f->split_first && f->join_first) return ALL_TO_ALL_AS_IT_IS;
  if (f->rank == MAX_RANK) return ALL_TO_ALL_GATHERED; /* no room for another dimension */
  if (f->split_evenly) return ALL_TO_ALL_SPLIT_EVENLY;
  return f->join_evenly ? ALL_TO_ALL_JOIN_EVENLY : ALL_TO_ALL_GATHERED;
}

bool legal_reduces(Reduction op, DType type) {
  bool is_float = dtype_is_float(type), narrow = type == DT_i16 || type == DT_u16;
  switch (op) {
    case RED_ONE: return true;
    case RED_SUM:
    case RED_PRODUCT: return !narrow;
    case RED_MAX:
    case RED_MIN: return !is_float && !narrow;
    default: return type == DT_bool; /* or, and: max and min of 0 and 1 */
  }
}

/* Returns the first reader of the operation's result; NULL if there is none. */
static const Op *first_reader(const Func *f, const Op *op) {
  for (size_t i = func_op_index(f, op) + 1; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin; k++)
      if (f->ops.items[i].in[k] == op->out) return &f->ops.items[i];
  return NULL;
}

bool legal_begins_early(const DeviceTraits *d, const Func *f, const Op *comm) {
  if (!op_is_comm(comm->kind)) return false;
  if (d->asynchronous) return true;
  if (!d->reduces_beside || comm->nin == 0) return false;
  if (op_of(f, comm->in[0])->kind == OP_accumulate) return true;
  const Op *reader = comm->kind == OP_reduce_scatter ? first_reader(f, comm) : NULL;
  return reader && reader->kind == OP_accumulate;
}
