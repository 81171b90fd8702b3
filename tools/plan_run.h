/* tools/plan_run.h - cost and energy of a step, and of a run of many steps: --tokens N or --hours H. */
#ifndef APC_TOOLS_PLAN_RUN_H
#define APC_TOOLS_PLAN_RUN_H

#include "tools/build.h"

/* Energy of a step, over all devices, with the target's watts: full power while a device computes or communicates, idle
 * power while it waits.  If idle power is unknown, full power throughout, which is an upper bound. */
typedef struct EnergyFigures {
  bool known, at_most; /* power of devices is known; power while waiting is not */
  double joules;
  double computing, communicating, waiting; /* fractions of the step, averaged over all devices */
} EnergyFigures;

/* A run of steps that each take the predicted time, or --step-time.  NaN if unknown. */
typedef struct RunFigures {
  bool asked;         /* --tokens or --hours is given */
  const char *unit;   /* "tokens" or "samples" */
  double each;        /* of them per step */
  double seen, steps; /* of the whole run */
  double hours;
  int machines;
  double flops, peak;      /* FLOP/s of all devices: achieved by the plan, and possible */
  double products;         /* achieved by products alone, with recompute */
  double mfu;              /* model FLOPs per second, as a share of `peak` (ir/layout/flops.h) */
  double usd, usd_million; /* of the run; per million tokens or samples */
  EnergyFigures energy;
  double joules, joules_million; /* of the run; per million */
  double joules_most;            /* of the run, with all devices at full power */
} RunFigures;

/* Checks --tokens, --hours and --step-time; false after a diagnostic. */
bool tool_run_check(Tool *t);
/* Returns the number of tokens or samples per step. */
double tool_seen_in_step(const Build *b, const char **unit);
/* Returns the energy of a step of the build's plan. */
EnergyFigures tool_energy(const Build *b);
/* Returns the figures of the run that --tokens or --hours ask for. */
RunFigures tool_run_figures(const Tool *t, const Build *b);
/* Print the run, or return it as JSON. */
void tool_run_show(const Tool *t, const Target *g, const RunFigures *r);
json_t *tool_run_json(const RunFigures *r);
/* Returns "4.2 kJ". */
const char *tool_joules_text(Arena *a, double joules);
/* Returns the energy of a step as JSON; null if the target does not give the power of its devices. */
json_t *tool_energy_json(const Build *b);

#endif
