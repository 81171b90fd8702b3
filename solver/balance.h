/* solver/balance.h - moves the borders of runs so that the places that execute them are equally busy.
 *
 * partition.h minimises the slowest run.  If one run is long in any case, such as that of a language model's last
 * layer, partition.h does not balance the others; and if a place has several runs, it does not see their sum. balance.c
 * starts from that partition, and from one whose runs are as close to their shares as possible (least squares, by
 * dynamic programming).  It moves single borders, or several neighbours together, while that shortens a step.  The
 * result is no worse than the input, but not always optimal.
 */
#ifndef APC_SOLVER_BALANCE_H
#define APC_SOLVER_BALANCE_H

typedef struct Balance {
  int n;              /* positions, including the first and the last */
  const int *kind;    /* by part; NULL if all parts are alike */
  const double *time; /* per repetition, of the run between two positions: [(kind * n + from) * n + to]; INFINITY if
                         there is no such run */
  const double *once, *bytes; /* per run: seconds spent once, beside the repetitions; memory */
  int parts, places;
  const int *place;    /* by part */
  double repeat;       /* how often each place executes all its runs */
  double ramp;         /* share of the other places' sum that a step adds once, to fill the pipeline */
  double in_step;      /* how much places wait for each other after each run rather than at the end: 0 to 1 */
  double memory_limit; /* per run */
} Balance;

/* Index of a part's run in `time`, `once` and `bytes`. */
int balance_run(const Balance *b, const int *cuts, int part);

/* Seconds of a step with these cuts; INFINITY if a run is impossible or exceeds the memory limit. */
double balance_seconds(const Balance *b, const int *cuts);

/* Improves cuts[0 .. parts-1], the positions at which runs begin. */
void balance_runs(const Balance *b, int *cuts);

#endif
