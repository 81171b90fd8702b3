/* tools/plan_run.h - money and energy of a step, and what a run of many steps takes: --tokens N or --hours H. */
#ifndef APC_TOOLS_PLAN_RUN_H
#define APC_TOOLS_PLAN_RUN_H

#include "tools/build.h"

/* Of a step, by all devices.  Watts of a device are those of the target: at work while it computes or communicates,
 * idle while it waits; where idle is not known, at work all the time, which is the most it can be. */
typedef struct EnergyFigures {
  bool known, at_most; /* the target says what its devices take; but not while they wait */
  double joules;
  double computing, communicating, waiting; /* parts of the step, on average over all devices */
} EnergyFigures;

/* A run of steps that all take what the plan is predicted to, or --step-time.  NaN: not known. */
typedef struct RunFigures {
  bool asked;         /* the line has --tokens or --hours */
  const char *unit;   /* what a step sees many of: "tokens" or "samples" */
  double each;        /* of them in a step */
  double seen, steps; /* in the whole run */
  double hours;
  int machines;
  double flops, peak;      /* per second, of all devices: what the plan achieves, and could */
  double products;         /* the same of products alone, with those that are made again */
  double usd, usd_million; /* of the run; of a million tokens or samples */
  EnergyFigures energy;
  double joules, joules_million; /* of the run; of a million */
  double joules_most;            /* of the run, all devices at full power */
} RunFigures;

/* False after a diagnostic: the line asks for a run that is none, or for two. */
bool tool_run_check(Tool *t);
/* How many tokens or samples a step sees. */
double tool_seen_in_step(const Build *b, const char **unit);
/* Of the build's plan. */
EnergyFigures tool_energy(const Build *b);
RunFigures tool_run_figures(const Tool *t, const Build *b);
void tool_run_show(const Tool *t, const Target *g, const RunFigures *r);
json_t *tool_run_json(const RunFigures *r);
/* "4.2 kJ" */
const char *tool_joules_text(Arena *a, double joules);
/* Null where the target does not say what its devices take. */
json_t *tool_energy_json(const Build *b);

#endif
