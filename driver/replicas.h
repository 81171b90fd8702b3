/* driver/replicas.h - steady-state throughput of a cluster, and the cost of a step: replicas of a plan, each on the
 * best number of devices.
 *
 * The target is divided into parts of n devices: numbers that divide a machine, then whole machines.  Each part is a
 * replica, which works on its own batches one after the other, with its pipeline kept full.
 */
#ifndef APC_DRIVER_REPLICAS_H
#define APC_DRIVER_REPLICAS_H

#include "driver/driver.h"

struct Replicas {
  const Target *whole; /* the target of the command line */
  int n;               /* replicas of the plan that fit */
  int idle;            /* devices left over */
  /* lower bound over all part sizes: seconds per batch of all replicas together, or USD per step */
  double bound;
};

/* Returns the objective of a build's plan with replicas: USD per step, or seconds per batch. */
double driver_replicas_value(const Build *b);

/* Returns the plan with the highest throughput or the least cost over all parts; sets Build.replicas, and the limits of
 * further searches in Build.options.plan.  NULL if no part has a plan; the latency limit then gives a diagnostic. */
Plan *driver_plan_replicas(Build *b);

#endif
