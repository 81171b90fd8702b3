/* frontend/topo/target_kinds.h - a target with ranks of several kinds (ir/target.h). */
#ifndef APC_FRONTEND_TOPO_TARGET_KINDS_H
#define APC_FRONTEND_TOPO_TARGET_KINDS_H

#include "base/arena.h"
#include "ir/target.h"

/* Builds a target of `n` kinds, each given as a target of all ranks; `kind_of` is by rank.  The arrays are kept. */
Target *topo_target_of_kinds(Arena *a, const Target *const *kinds, int n, const unsigned char *kind_of);

/* The same without kinds that have no rank; with one kind left, it is that kind's target. */
Target *topo_target_of_used(Arena *a, const Target *const *kinds, int n, unsigned char *kind_of);

/* The same target with other kinds, in the same order. */
const Target *topo_target_with_kinds(Arena *a, const Target *t, const Target *const *kinds);

#endif
