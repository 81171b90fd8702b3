/* frontend/topo/target_kinds.h - a target whose ranks are of several kinds (ir/target.h). */
#ifndef APC_FRONTEND_TOPO_TARGET_KINDS_H
#define APC_FRONTEND_TOPO_TARGET_KINDS_H

#include "base/arena.h"
#include "ir/target.h"

/* Of `n` kinds, each a target of all ranks; `kind_of` by rank.  The arrays are kept. */
Target *topo_target_of_kinds(Arena *a, const Target *const *kinds, int n, const unsigned char *kind_of);

/* The same without kinds that no rank is of; of one kind it is that one. */
Target *topo_target_of_used(Arena *a, const Target *const *kinds, int n, unsigned char *kind_of);

/* The same with other kinds, in the order they had. */
const Target *topo_target_with_kinds(Arena *a, const Target *t, const Target *const *kinds);

#endif
