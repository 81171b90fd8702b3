/* tools/calibrate.h - apc calibrate: measures a machine with programs that apc compiles for it, and writes a target.
 *
 *   calibrate_run.c   compiles a probe (a model of many independent operations) and takes the least time of each
 *   calibrate_fit.c   fits straight lines to measured times
 *   calibrate_cpu.c   the probes of a CPU, and its blocks of the target file
 *   calibrate_comm.c  collectives between ranks, on any device
 *   calibrate_gpu.c   the probes of a GPU, and its blocks
 *   cmd_calibrate.c   the command
 */
#ifndef APC_TOOLS_CALIBRATE_H
#define APC_TOOLS_CALIBRATE_H

#include <jansson.h>

#include "base/temporary.h"
#include "tools/build.h"

typedef struct Calibrate {
  Tool *t;
  Arena *arena;
  const Target *target; /* before calibration */
  TemporaryFolder scratch;
  double seconds;   /* time to run all probes */
  json_t *measured; /* an object per operation, for --json */
  Text blocks;      /* of the target file */
  int code;         /* EXIT_OK until something fails */
} Calibrate;

/* True if --effort is below 5 s, to try the command: one round of fewer probes, small ones on GPUs.  A stand-in for a
 * GPU gives no usable figures anyway. */
static inline bool calibrate_is_rehearsal(const Calibrate *c) { return c->seconds < 5; }

/* The least time of an instruction of a probe. */
typedef struct ProbeTime {
  const char *name, *kind;
  double seconds;
} ProbeTime;

typedef struct ProbeTimes {
  ProbeTime *items;
  size_t n, cap;
  double request; /* the least time of a run, host included */
} ProbeTimes;

/* A model with operations p0, p1, ..., and the options to compile it with. */
typedef struct Probe {
  const char *name, *text;
  const Target *target;
  const PlanPin *pins;
  int npins;
  DType floats;
  bool eager;  /* issue calls one by one, without a graph */
  int threads; /* of a rank; 0: the default */
  ProbeTimes times;
} Probe;

/* Compiles all probes, then runs them round-robin, so that a few seconds of other load do not affect one probe alone.
 * False after a diagnostic, with `code` set. */
bool calibrate_run(Calibrate *c, Probe *probes, int n);
/* Returns the time of the longest instruction of that kind of probe p<i>; NAN if none. */
double calibrate_time(const ProbeTimes *x, int i, const char *kind);
/* Records a measurement for --json. */
void calibrate_note(Calibrate *c, const char *what, const char *size, double seconds, double flops, double bytes);

enum { FIT_FEATURES = 4 };
/* A measured row: seconds = sum of factors times features.  `seconds` may be the rest of a time whose other part is
 * known: errors are then relative to the whole time (0: to `seconds`). */
typedef struct FitRow {
  double feature[FIT_FEATURES], seconds, whole;
} FitRow;
/* Fits factors >= 0 with the least sum of squared relative errors; skips rows without a time. */
void calibrate_fit(int n, const FitRow *rows, int features, double factor[FIT_FEATURES]);
/* Returns the median of n values; reorders them. */
double calibrate_median(double *v, int n);

/* Measure the CPU ranks, or the GPUs, of the target and write their blocks.  False after a diagnostic. */
bool calibrate_cpu(Calibrate *c);
bool calibrate_gpu(Calibrate *c);
/* The probe of collectives between the ranks of the target, and the evaluation of its times: writes the block
 * `protocols NAME` and gives the rate of a rank's link. */
Probe calibrate_comm_probe(Calibrate *c);
bool calibrate_comm(Calibrate *c, const ProbeTimes *x, const char *name, double *rate);

#endif
