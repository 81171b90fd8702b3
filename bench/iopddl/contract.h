/* bench/iopddl/contract.h - merges nodes whose strategy follows from a neighbour's into one group.
 *
 * If an edge allows only one strategy of a node for each of its neighbour's, both are one variable.  This is exact, and
 * leaves a few hundred of tens of thousands of nodes.
 */
#ifndef APC_BENCH_IOPDDL_CONTRACT_H
#define APC_BENCH_IOPDDL_CONTRACT_H

#include <stdbool.h>

#include "bench/iopddl/instance.h"

typedef struct GroupPart {
  int node;
  const int *map; /* by value of the group: the strategy of the node */
} GroupPart;

typedef struct Group {
  int domain;
  double *cost; /* by value */
  struct {
    GroupPart *items;
    size_t n, cap;
  } parts;
  struct {
    int *items;
    size_t n, cap;
  } pairs;
  bool gone; /* merged into another group */
} Group;

typedef struct GroupPair {
  int of[2];
  double *table; /* [value of 0][value of 1]; INFINITY if not allowed */
  bool gone;
} GroupPair;

typedef struct Groups {
  Arena *arena;
  int n, npairs;
  Group *items;
  GroupPair *pairs;
} Groups;

/* Returns the groups; NULL if no choice is allowed. */
const Groups *groups_of(const Instance *in, Arena *a);

#endif
