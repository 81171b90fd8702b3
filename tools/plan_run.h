/* tools/plan_run.h - what a run of many steps takes: --tokens N or --hours H. */
#ifndef APC_TOOLS_PLAN_RUN_H
#define APC_TOOLS_PLAN_RUN_H

#include "tools/build.h"

/* A run of steps that all take what the plan is predicted to.  NaN: not known. */
typedef struct RunFigures {
  bool asked;         /* the line has --tokens or --hours */
  const char *unit;   /* what a step sees many of: "tokens" or "samples" */
  double each;        /* of them in a step */
  double seen, steps; /* in the whole run */
  double hours;
  int machines;
  double flops, peak;      /* per second, of all devices: what the plan achieves, and could */
  double usd, usd_million; /* of the run; of a million tokens or samples */
  double joules;           /* all devices at full power: the most that the run can take */
} RunFigures;

/* False after a diagnostic: the line asks for a run that is none, or for two. */
bool tool_run_check(Tool *t);
/* Of the build's plan. */
RunFigures tool_run_figures(const Tool *t, const Build *b);
void tool_run_show(const Tool *t, const Target *g, const RunFigures *r);
json_t *tool_run_json(const RunFigures *r);

#endif
