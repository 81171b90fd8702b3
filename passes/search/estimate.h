/* passes/search/estimate.h - estimates a plan on a mesh, without cutting it into stages and pricing it.
 *
 * A graph in which equal layers make one choice (shape_alike) gives the time of operations and the bytes of their
 * results.  From these follow: stages as equal as the possible cuts allow; the time of a pipeline with its messages, by
 * the table of its schedule; the bytes that each place keeps for gradients, and its peak of other values; and so the
 * recomputation needed if memory is short, or the memory left for weights.  Estimates leave out gathered values, and
 * the cost of uneven stages with recomputation, so they are no bounds; bench/results/planner.md reports their accuracy.
 */
#ifndef APC_PASSES_SEARCH_ESTIMATE_H
#define APC_PASSES_SEARCH_ESTIMATE_H

#include "passes/search/outer.h"

/* The schedules of training pipelines, one of which is chosen. */
enum { USUAL_SCHEDULES = 6 };
extern const ScheduleKind search_usual_schedules[USUAL_SCHEDULES];

typedef struct Estimate {
  double seconds; /* INFINITY if there is no plan */
  int again;      /* the amount of recomputation (search_made_again) */
  double freed;   /* and bytes that each further unit of it frees, on the place with the most */
} Estimate;

typedef struct Estimates {
  Estimate by[USUAL_SCHEDULES]; /* only the first if there is no choice */
  double least;                 /* seconds */
  bool limited;                 /* weights fit only with choices that cost time: layers may choose differently */
} Estimates;

/* Data shared by the estimates of one search; in the arena. */
typedef struct Estimating Estimating;
Estimating *search_estimating(Search *s, Arena *a);
/* Estimates a candidate with one number of micro-batches. */
Estimates search_estimate(Estimating *e, const Candidate *c);

#endif
