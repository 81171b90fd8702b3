/* passes/search/why.h - why a plan splits an operation as it does: the costs of the operation and of the conversions
 * around it, and the cost of the plan with another strategy for the operation and everything else unchanged.
 *
 * Operations that follow another one's choice (mirror.h), as gradients do, are examined together with it.  Each
 * strategy is first weighed by the operation and the conversions at its border alone; the best of these are priced as
 * whole plans.  So the second best is the second best of these, and in most cases of all.
 */
#ifndef APC_PASSES_SEARCH_WHY_H
#define APC_PASSES_SEARCH_WHY_H

#include "passes/plan/plan.h"

/* A conversion at the border: of a value that the operation reads, or that `other` reads from it. */
typedef struct WhyMove {
  Val value;
  size_t other; /* the operation that makes the value, or reads it */
  bool reads;
  const Layout *from, *to;
  double seconds; /* per step */
} WhyMove;

typedef struct WhyChoice {
  Strategy strategy;
  double own, moved; /* seconds per step, as weighed: the operation with its followers; conversions */
  int nmoves;
  const WhyMove *moves; /* those that take time */
  PlanPrice price;      /* of the whole plan; not possible: it was not priced, or cannot be */
} WhyChoice;

typedef struct Why {
  size_t op, head; /* the operation; the one whose choice it follows, itself if it has its own */
  int nfollowers;  /* of the head */
  int possible;    /* strategies of the head on the plan's mesh */
  int n;
  const WhyChoice *choices; /* the plan's, then a few others, the fastest plan first */
} Why;

/* Examines the operation of that name, or the maker of the value of that name; the module's mesh must be the plan's.
 * False after a diagnostic: there is none, or it has no choice. */
bool search_why(Module *m, const Func *f, const Target *t, const Plan *p, const char *name, Why *out, Diags *d);

#endif
