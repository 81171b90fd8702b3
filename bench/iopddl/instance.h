/* bench/iopddl/instance.h - a problem of the IOPDDL contest (ASPLOS and EuroSys 2025), as its files have it.
 *
 * Each node takes one of its strategies; nodes and pairs of nodes have costs; at no time may the strategies of the live
 * nodes use more than a limit.
 */
#ifndef APC_BENCH_IOPDDL_INSTANCE_H
#define APC_BENCH_IOPDDL_INSTANCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct InstanceEdge {
  int of[2];
  const int64_t *cost; /* [strategy of 0][strategy of 1] */
} InstanceEdge;

typedef struct Instance {
  int n;
  int *domain, *begin, *end; /* by node: number of strategies; first and last moment, numbered, at which it is live */
  const int64_t **cost, **usage;
  int ntimes;
  int64_t limit; /* INT64_MAX if none */
  InstanceEdge *edges;
  size_t nedges;
} Instance;

/* Reads the file; ends the process with a message if it is no such problem. */
const Instance *instance_read(const char *file, Arena *a);

/* Returns the cost from which on a choice is forbidden. */
int64_t instance_forbidden(void);

/* Returns cost and largest usage of a choice, as integers; -1 if it is forbidden. */
int64_t instance_cost(const Instance *in, const int *strategy);
int64_t instance_usage(const Instance *in, const int *strategy, Arena *a);

#endif
