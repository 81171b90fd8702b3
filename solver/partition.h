/* solver/partition.h - cuts a row of positions into runs: the program of pipeline stages (stage.h).
 *
 * What is made least is the sum of the runs' times plus (repeat - 1) times the slowest.  The states of the dynamic
 * program are (runs so far, position) with the frontier of (sum, slowest), so the result is exact.  First partitions
 * under a few limits of the slowest run are found, each with the least sum; the best of them says how slow a run of a
 * better one can be, and with the least sum of what is still to come which states can lead to one.  With that the work
 * grows with the runs that are about as long as the mean one, not with all pairs of positions.
 */
#ifndef APC_SOLVER_PARTITION_H
#define APC_SOLVER_PARTITION_H

#include <stdbool.h>

typedef struct Partition {
  int n;                      /* positions, with the first and the last */
  int nkinds;                 /* of parts */
  const int *kind;            /* by part, below nkinds; NULL: all are alike */
  const double *time, *bytes; /* of the run from one position to another: [(kind * n + from) * n + to]; INFINITY: there
                                 is no such */
  double most;                /* runs that take longer are not known: their time is INFINITY too */
  double least;               /* what the runs of any partition take together, at least */
  double repeat;              /* at least 1 */
  double memory_limit;        /* of each run */
} Partition;

/* Fills cuts[0 .. parts-1], the positions that runs begin at; false when there is no partition of known runs.
 * *needed: runs of a better partition take at most so long; when that is above `most` there may be one. */
bool partition_find(const Partition *p, int parts, int *cuts, double *needed);

#endif
