/* solver/balance.h - moves the borders of runs so that the places which have them are equally busy.
 *
 * partition.h makes the slowest run as fast as can be.  Where one run is long whatever is done, as that of the last
 * layer of a language model, it leaves the others as they come; and where a place has several runs, it does not see
 * their sum.  From its partition, and from one in which runs are as near to their share as they can be (least squares,
 * by dynamic programming), borders are moved as long as that makes a step shorter: one alone, or several neighbours
 * together.  So the result is no worse than what was given, and not always the best.
 */
#ifndef APC_SOLVER_BALANCE_H
#define APC_SOLVER_BALANCE_H

typedef struct Balance {
  int n;              /* positions, with the first and the last */
  const int *kind;    /* by part; NULL: all are alike */
  const double *time; /* of the run from one position to another: [(kind * n + from) * n + to], in every repetition;
                       * INFINITY: there is no such */
  const double *once, *bytes; /* beside the repetitions: seconds; of the run's memory */
  int parts, places;
  const int *place;    /* by part */
  double repeat;       /* how often all places do all their runs */
  double ramp;         /* part of the sum of all other places that a repetition takes besides, once */
  double in_step;      /* how much places wait for each other after each run, not once at the end: 0 to 1 */
  double memory_limit; /* of each run */
} Balance;

/* Where the run of a part is in `time`, `once` and `bytes`. */
int balance_run(const Balance *b, const int *cuts, int part);

/* What a step takes with these cuts; INFINITY where a run is too large. */
double balance_seconds(const Balance *b, const int *cuts);

/* Improves cuts[0 .. parts-1], the positions that runs begin at. */
void balance_runs(const Balance *b, int *cuts);

#endif
