/* passes/search/why.h - why an operation is cut as a plan cuts it: what the operation and the conversions around it
 * take, and what the plan would take if it were cut in another way and all else stayed.
 *
 * Operations that follow another one's choice (mirror.h), as gradients do, are asked of together with it.  Each
 * strategy is first weighed by the operation and the conversions at its border alone; the best of these are priced as
 * whole plans.  So the next best is the next best of those, in most cases of all.
 */
#ifndef APC_PASSES_SEARCH_WHY_H
#define APC_PASSES_SEARCH_WHY_H

#include "passes/plan/plan.h"

/* A conversion at the border: of a value that the operation reads, or that `other` reads of it. */
typedef struct WhyMove {
  Val value;
  size_t other; /* operation: what makes the value, or what reads it */
  bool reads;
  const Layout *from, *to;
  double seconds; /* in a step */
} WhyMove;

typedef struct WhyChoice {
  Strategy strategy;
  double own, moved; /* seconds in a step, as they are weighed: the operation with what follows it; conversions */
  int nmoves;
  const WhyMove *moves; /* that take time */
  PlanPrice price;      /* of the whole plan; not possible: it was not priced, or cannot be */
} WhyChoice;

typedef struct Why {
  size_t op, head; /* the operation; the one whose choice it follows: itself, if it has its own */
  int nfollowers;  /* of the head */
  int possible;    /* strategies of the head on the plan's mesh */
  int n;
  const WhyChoice *choices; /* the plan's, then others, the fastest plan first; few */
} Why;

/* Of the operation of that name, or that makes the value of that name; the plan's mesh is the module's.  False after a
 * diagnostic: there is none, or it has no choice. */
bool search_why(Module *m, const Func *f, const Target *t, const Plan *p, const char *name, Why *out, Diags *d);

#endif
