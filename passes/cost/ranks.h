/* passes/cost/ranks.h - classes of equal ranks of a mesh, for targets of several kinds and axes with shares.
 *
 * A place is the ranks that run one stage of a pipeline.  Ranks of a place are in one class if they are of one kind and
 * have equal shares on all axes; an operation takes as long as on the slowest class.  Places are alike if they have the
 * same classes.
 */
#ifndef APC_PASSES_COST_RANKS_H
#define APC_PASSES_COST_RANKS_H

#include "ir/ir.h"
#include "ir/target.h"

/* A class of ranks: their kind, and the coordinates of one of them. */
typedef struct RankClass {
  const Target *kind;
  int at[MAX_AXES];
} RankClass;

/* Places with the same classes. */
typedef struct PlaceKind {
  RankClass *classes;
  int n;
} PlaceKind;

typedef struct RankKinds {
  PlaceKind *kinds;
  int n;               /* 0: all ranks are alike */
  const int *of_place; /* by place */
} RankKinds;

/* Returns the classes of a mesh with at most as many ranks as the target. */
RankKinds kinds_on_mesh(Arena *a, const Target *t, const Mesh *mesh);

/* True if each member of all these axes is a class of its own, so that a class has one part of the dimension. */
bool kinds_told_apart(const Mesh *mesh, const DimLayout *l);

/* Returns the factor for bytes on this place before they are compared with Target.memory_bytes: the largest memory of
 * all ranks over the smallest of the place; 1 if all ranks are alike. */
double kinds_memory_scale(const Target *t, const Mesh *mesh, int place);
/* The same for `n` ranks from number `first`. */
double kinds_memory_scale_of(const Target *t, int first, int n);

/* Returns a lower bound of the time on the fastest ranks, relative to ranks of the target's mean rates; 1 if all are
 * alike. */
double kinds_fastest(const Target *t);

/* How members of axes share work: by the speed of products or of memory, or as given.  ANYHOW stands for all of
 * them. */
typedef enum ShareBy {
  SHARE_EQUALLY,
  SHARE_BY_PRODUCTS,
  SHARE_BY_BANDWIDTH,
  SHARE_WAYS,
  SHARE_ANYHOW = SHARE_WAYS,
  SHARE_AS_GIVEN
} ShareBy;

/* Returns the shares of the members of an axis, by each member's slowest rank; NULL: equal shares. */
const int *kinds_shares(Arena *a, const Target *t, const Mesh *mesh, int axis, ShareBy by);

/* Returns the bytes per second that kernels reach on such ranks. */
double kinds_bandwidth(const Target *t);

/* Fills group[] by member of the axis: the first member of the same speed. */
void kinds_groups(const Target *t, const Mesh *mesh, int axis, int *group);

#endif
