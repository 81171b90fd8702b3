/* passes/cost/ranks.h - which ranks of a mesh are alike, where the target has several kinds or axes have shares.
 *
 * A place is what one stage of a pipeline runs on.  Ranks of a place are alike when they are of one kind and have equal
 * shares on all axes; an operation takes as long as on the class of them that takes longest.  Places are alike when
 * they have the same classes.
 */
#ifndef APC_PASSES_COST_RANKS_H
#define APC_PASSES_COST_RANKS_H

#include "ir/ir.h"
#include "ir/target.h"

/* Ranks that are alike: what they are, and the coordinates of one of them. */
typedef struct RankClass {
  const Target *kind;
  int at[MAX_AXES];
} RankClass;

/* Places that are alike. */
typedef struct PlaceKind {
  RankClass *classes;
  int n;
} PlaceKind;

typedef struct RankKinds {
  PlaceKind *kinds;
  int n;               /* 0: all ranks are alike */
  const int *of_place; /* by place */
} RankKinds;

/* Of a mesh whose ranks are at most those of the target. */
RankKinds kinds_on_mesh(Arena *a, const Target *t, const Mesh *mesh);

/* Are the members of all these axes classes of their own, so that a class has one part of what they cut? */
bool kinds_told_apart(const Mesh *mesh, const DimLayout *l);

/* A rank of the place with the least memory has so much less than the rank of the target that has the most: bytes times
 * this are held against Target.memory_bytes.  1 where all ranks are alike. */
double kinds_memory_scale(const Target *t, const Mesh *mesh, int place);
/* The same of `n` ranks from number `first` on. */
double kinds_memory_scale_of(const Target *t, int first, int n);

/* What work takes on the fastest ranks at least, as a part of what it takes on ranks of the mean rates that the target
 * says; 1 where all are alike. */
double kinds_fastest(const Target *t);

/* How members of axes share: as fast as products or memory make them, or as somebody says.  ANYHOW stands for all ways
 * at once. */
typedef enum ShareBy {
  SHARE_EQUALLY,
  SHARE_BY_PRODUCTS,
  SHARE_BY_BANDWIDTH,
  SHARE_WAYS,
  SHARE_ANYHOW = SHARE_WAYS,
  SHARE_AS_GIVEN
} ShareBy;

/* Shares of the members of an axis; the slowest rank of a member counts.  NULL: equal ones. */
const int *kinds_shares(Arena *a, const Target *t, const Mesh *mesh, int axis, ShareBy by);

/* Bytes per second that kernels of such ranks reach. */
double kinds_bandwidth(const Target *t);

/* Fills group[] by member of the axis: the first that is as fast. */
void kinds_groups(const Target *t, const Mesh *mesh, int axis, int *group);

#endif
