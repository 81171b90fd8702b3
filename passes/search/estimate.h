/* passes/search/estimate.h - what a plan on a mesh would take, without cutting it into stages and pricing it.
 *
 * The graph in which equal layers make one choice (shape_alike) says what operations take, and which bytes they make.
 * From that follow: stages as even as can be between the positions at which a cut may be; the time of a pipeline with
 * its messages, by the table of its schedule; what each place keeps for gradients and what is live there beside, and so
 * how much has to be made again where memory is short, or what is left for weights.  Estimates leave out what is
 * gathered, and what uneven stages cost where something is made again, so they are no bounds; bench/results/planner.md
 * says how near they are.
 */
#ifndef APC_PASSES_SEARCH_ESTIMATE_H
#define APC_PASSES_SEARCH_ESTIMATE_H

#include "passes/search/outer.h"

/* The schedules of pipelines that train, one of which is chosen. */
enum { USUAL_SCHEDULES = 6 };
extern const ScheduleKind search_usual_schedules[USUAL_SCHEDULES];

typedef struct Estimate {
  double seconds; /* INFINITY: there is no plan */
  int again;      /* how much is made again (search_made_again), */
  double freed;   /* and bytes that each more of it frees, on the place with the most */
} Estimate;

typedef struct Estimates {
  Estimate by[USUAL_SCHEDULES]; /* where there is nothing to choose the first one only */
  double least;                 /* seconds */
  bool limited;                 /* weights only fit by choices that cost time: layers may choose differently */
} Estimates;

/* What estimates of one search have in common; in the arena. */
typedef struct Estimating Estimating;
Estimating *search_estimating(Search *s, Arena *a);
/* Of a candidate with one number of micro-batches. */
Estimates search_estimate(Estimating *e, const Candidate *c);

#endif
