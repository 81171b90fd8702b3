/* solver/partition.h - cuts a row of positions into runs; used to cut a model into pipeline stages (stage.h).
 *
 * Minimises the sum of the runs' times plus (repeat - 1) times the slowest.  The states of the dynamic program are
 * (runs so far, position) with the frontier of (sum, slowest), so the result is exact.  First, partitions with the
 * least sum are found under a few limits of the slowest run.  The best of them limits the slowest run of any better
 * partition and, together with the least sum of the remaining runs, the states that can lead to one.  So the work grows
 * with the number of runs that are about as long as the mean, not with all pairs of positions.
 */
#ifndef APC_SOLVER_PARTITION_H
#define APC_SOLVER_PARTITION_H

#include <stdbool.h>

typedef struct Partition {
  int n;                      /* positions, including the first and the last */
  int nkinds;                 /* of parts */
  const int *kind;            /* by part, below nkinds; NULL if all parts are alike */
  const double *time, *bytes; /* of the run between two positions: [(kind * n + from) * n + to]; INFINITY if there is no
                                 such run */
  double most;                /* longer runs are unknown: their time is INFINITY too */
  double least;               /* lower bound of the sum of runs of any partition */
  double repeat;              /* at least 1 */
  double memory_limit;        /* per run */
} Partition;

/* Fills cuts[0 .. parts-1], the positions at which runs begin; false if no partition of known runs exists. *needed:
 * runs of a better partition take at most this long; if it is above `most`, such a partition may exist. */
bool partition_find(const Partition *p, int parts, int *cuts, double *needed);

#endif
