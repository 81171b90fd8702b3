/* ir/legal_comm.c - see legal_comm.h. */
#include "ir/legal_comm.h"

#include "ir/ir.h"

LegalAllToAll legal_all_to_all(const AllToAllForm *f) {
  if (f->split_first && f->join_first) return ALL_TO_ALL_AS_IT_IS;
  if (f->rank == MAX_RANK) return ALL_TO_ALL_GATHERED; /* no room for one dimension more */
  if (f->split_evenly) return ALL_TO_ALL_SPLIT_EVENLY;
  return f->join_evenly ? ALL_TO_ALL_JOIN_EVENLY : ALL_TO_ALL_GATHERED;
}
