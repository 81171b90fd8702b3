/* driver/replicas.h - what a cluster gives in steady state, and what a step costs there: replicas of a plan on as many
 * devices each as are best.
 *
 * The target is divided into parts of n devices: numbers that divide a machine, then whole machines.  Each part is a
 * replica, which works on batches of its own, one after the other, in pipelines that are kept full.
 */
#ifndef APC_DRIVER_REPLICAS_H
#define APC_DRIVER_REPLICAS_H

#include "driver/driver.h"

struct Replicas {
  const Target *whole; /* that was asked for */
  int n;               /* there is room for so many of the plan's */
  int idle;            /* devices that are left over */
  /* By any number of devices: seconds from batch to batch of all replicas together, or dollars a step, at least. */
  double bound;
};

/* The value that the search minimised, for the plan of a build with replicas: dollars a step, or seconds from batch
 * to batch. */
double driver_replicas_value(const Build *b);

/* The plan with the most throughput, or the least cost, of all parts; sets Build.replicas, and has the limits of
 * further searches set in Build.options.plan.  NULL: no part has a plan, after a diagnostic if that is for the limit of
 * latency. */
Plan *driver_plan_replicas(Build *b);

#endif
