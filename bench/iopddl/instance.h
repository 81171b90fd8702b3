/* bench/iopddl/instance.h - a problem of the IOPDDL contest (ASPLOS and EuroSys 2025) as its files have it.
 *
 * Every node takes one of its strategies; nodes cost, pairs of nodes cost, and at no time may the strategies of the
 * nodes that are alive use more than a limit.
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
  int *domain, *begin, *end; /* by node: strategies; moments, numbered, from which and to which it is alive */
  const int64_t **cost, **usage;
  int ntimes;
  int64_t limit; /* INT64_MAX: none */
  InstanceEdge *edges;
  size_t nedges;
} Instance;

/* Ends the process, with a message, when the file is no such problem. */
const Instance *instance_read(const char *file, Arena *a);

/* From here on costs mean that something is not allowed. */
int64_t instance_forbidden(void);

/* Cost and largest usage of a choice, in whole numbers; -1 when something in it is not allowed. */
int64_t instance_cost(const Instance *in, const int *strategy);
int64_t instance_usage(const Instance *in, const int *strategy, Arena *a);

#endif
