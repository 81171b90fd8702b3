/* tools/calibrate.h - apc calibrate: measures a machine with programs that apc compiles for it, and writes a target.
 *
 *   calibrate_run.c   compiles a probe (a model of many independent operations) and takes the least time of each
 *   calibrate_fit.c   straight lines through what was measured
 *   calibrate_cpu.c   the probes of a cpu, and its blocks
 *   calibrate_comm.c  collectives between ranks, of any device
 *   calibrate_gpu.c   the same of a GPU
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
  const Target *target; /* as it is known now */
  TemporaryFolder scratch;
  double seconds;   /* to run all probes for */
  json_t *measured; /* an object per operation */
  Text blocks;      /* of the target file */
  int code;         /* EXIT_OK until something fails */
} Calibrate;

/* With little time (--effort below 5) there are fewer probes, of a GPU small ones, and one round: to try it out.  What
 * a GPU's double gives is no figure anyway. */
static inline bool calibrate_is_rehearsal(const Calibrate *c) { return c->seconds < 5; }

/* The least time of an instruction of a probe. */
typedef struct ProbeTime {
  const char *name, *kind;
  double seconds;
} ProbeTime;

typedef struct ProbeTimes {
  ProbeTime *items;
  size_t n, cap;
  double request; /* the least time of a run, for who asks */
} ProbeTimes;

/* A model whose operations are p0, p1, ..., and what it is compiled with. */
typedef struct Probe {
  const char *name, *text;
  const Target *target;
  const PlanPin *pins;
  int npins;
  DType floats;
  bool eager;  /* calls are issued one by one, without a graph */
  int threads; /* of a rank; 0: as usual */
  ProbeTimes times;
} Probe;

/* Compiles all of them, and runs them in turn, again and again: so that what others do on the machine for some seconds
 * is no time of one probe.  False after a diagnostic, and then `code` is set. */
bool calibrate_run(Calibrate *c, Probe *probes, int n);
/* Of probe p<i>: the longest instruction of the kind; NAN: there is none. */
double calibrate_time(const ProbeTimes *x, int i, const char *kind);
/* For --json. */
void calibrate_note(Calibrate *c, const char *what, const char *size, double seconds, double flops, double bytes);

enum { FIT_FEATURES = 4 };
/* A row of what was measured: seconds = sum of factors times features.  It may be what is left of a time of which
 * another part is known: errors are then those of the whole (0: of the seconds). */
typedef struct FitRow {
  double feature[FIT_FEATURES], seconds, whole;
} FitRow;
/* Factors from 0 with the least sum of squares of relative errors; rows without a time do not count. */
void calibrate_fit(int n, const FitRow *rows, int features, double factor[FIT_FEATURES]);
double calibrate_median(double *v, int n);

bool calibrate_cpu(Calibrate *c);
bool calibrate_gpu(Calibrate *c);
/* The probe of collectives between the ranks of the target; then from its times the block `protocols NAME`, and the
 * rate of a rank's link. */
Probe calibrate_comm_probe(Calibrate *c);
bool calibrate_comm(Calibrate *c, const ProbeTimes *x, const char *name, double *rate);

#endif
