/* driver/driver.h - from a model's file to a program, as one table of stages (driver.c): what apc, its tests and its
 * benches call.
 *
 *   Build b;
 *   driver_begin(&b, &options);
 *   if (driver_run(&b, DRIVER_lower)) ... b.l2 ...      the stages up to that one; what is done is not done again
 *   driver_free(&b);
 *
 * Whoever calls may look at, and add to, what a stage has made before the next one runs.
 */
#ifndef APC_DRIVER_DRIVER_H
#define APC_DRIVER_DRIVER_H

#include "codegen/artifact.h"
#include "driver/model.h"
#include "ir/target.h"
#include "passes/plan/plan.h"

typedef enum DriverStage {
#define STAGE(name, ...) DRIVER_##name,
#include "driver/stages.def"
#undef STAGE
  DRIVER_STAGES
} DriverStage;

typedef enum DriverEmbed { EMBED_SMALL, EMBED_ALL, EMBED_NONE } DriverEmbed; /* SMALL: weights of less than 1 GiB */

typedef struct DriverNamed DriverNamed;

/* The search minimises the time of a batch; the time from batch to batch, by all replicas that the target has room for;
 * the memory of a rank; or the money of a step. */
typedef enum DriverObjective {
  OBJECTIVE_latency,
  OBJECTIVE_throughput,
  OBJECTIVE_memory,
  OBJECTIVE_cost
} DriverObjective;

typedef struct Replicas Replicas;

/* How often an entry is called. */
typedef struct DriverCalls {
  const char *entry;
  double times;
} DriverCalls;

typedef struct DriverOptions {
  ModelOptions model;
  int nentries; /* the functions that are compiled, the first is planned; 0: all that the model has */
  const char *const *entries;
  int ncalls; /* entries that are planned together, by how often they are called (--optimize); 0: none are */
  const DriverCalls *calls;
  const Target *target;
  const char *target_text; /* of the target, for who looks on */
  PlanOptions plan;        /* what is forced, limits, who looks on */
  bool sizes;              /* other numbers of devices are tried anyway: no help about them */
  int64_t micro_batch;     /* --micro-batch; 0: not given */
  DriverObjective objective;
  double slower;            /* of the least memory: plans may be slower than the fastest by no more than this part */
  const DriverNamed *named; /* plans to compare with (driver/compare.h) */
  int nnamed;
  const char *plan_file;  /* a plan that is read instead of searched for; NULL */
  const char *save_plan;  /* where the plan goes; NULL */
  const char *save_temps; /* a folder for the texts of every stage; NULL */
  DriverEmbed embed;
  const Cache *cache;                /* where plans and machine code are kept; NULL: nowhere */
  const char *stub, *producer, *out; /* of the program: paths of the prebuilt runtime and, for DRIVER_artifact, of the
                                        result (driver_write sets it) */
} DriverOptions;

typedef struct Build {
  DriverOptions options;
  DriverStage next; /* the first that has not run */
  Model model;
  int64_t params; /* elements of the trainable weights */
  int nentries;
  Func **l1s; /* the entries after the level-1 passes */
  Func **l2s; /* the same at level 2; NULL before lowering */
  Func *l1;   /* the one that is planned: the first, whose choices the others get (passes/plan/entries.h), or all that
               * are planned together as one (ir/joint.h) */
  Func *l2;   /* of the first */
  Func *prepare_l1, *prepare_l2; /* what is done to weights at loading; NULL when the model has no such work */
  Plan *plan;
  int least_devices;          /* replicas on fewer do not hold a Program; 0: nothing is known of that */
  const Replicas *replicas;   /* with throughput or cost: options.target is the part of it that the plan is for */
  bool kept;                  /* it is one that was found before (driver/kept.h), */
  bool searches_anew;         /* and may not be */
  CacheKey *plan_key;         /* what a plan is kept under; NULL: none is */
  int searches;               /* for it */
  double search_seconds;      /* of all of them */
  double resident, nearest;   /* PlanLack, of the search that found no plan within the limit */
  const Diags *unfit;         /* why the search found no plan within the limit: `plan` is the nearest; NULL: it did */
  const DeviceTraits *device; /* what code is made for: the device that programs run on, until driver_make_for */
  Legal *legal;
  ProgramResult program; /* until it is written */
  ArtifactReport report;
} Build;

void driver_begin(Build *b, const DriverOptions *options);

/* Runs the stages up to `last` that have not run.  False after diagnostics. */
bool driver_run(Build *b, DriverStage last);

/* From stage legalise on, makes code for that kind of device. */
void driver_make_for(Build *b, const DeviceTraits *device);

/* Runs all stages, the last one for a program of such devices at that path; again for another path. */
bool driver_write(Build *b, const DeviceTraits *device, const char *out);

/* One more entry of a build that is lowered: a function of level 1 that reads no prepared weights. */
bool driver_lower_also(Build *b, Func *l1);

/* Finds out what the largest rank of a plan will take, at the sizes that it was planned for (Plan.allocated), so of its
 * alternatives, and saves the plan (--save-plan).  Where that is above the limit another plan takes its place, or it is
 * an error; so where memory is short and the search counted too much.  Not known are unknown operations and sizes
 * beyond 2^63.  False after diagnostics. */
bool driver_measure(Build *b);

/* What codegen_write and codegen_program_open need, of a build that has kernels. */
ArtifactSpec driver_artifact_spec(const Build *b);

void driver_free(Build *b);

#endif
