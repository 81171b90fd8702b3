/* driver/driver.h - from a model file to a program, as one table of stages (driver.c); apc, tests and benches call it.
 *
 *   Build b;
 *   driver_begin(&b, &options);
 *   if (driver_run(&b, DRIVER_lower)) ... b.l2 ...      runs the stages up to that one that have not run
 *   driver_free(&b);
 *
 * Between stages the caller may read and extend their results.
 */
#ifndef APC_DRIVER_DRIVER_H
#define APC_DRIVER_DRIVER_H

#include "codegen/artifact.h"
#include "driver/model.h"
#include "ir/states.h"
#include "ir/target.h"
#include "passes/plan/plan.h"

typedef enum DriverStage {
#define STAGE(name, ...) DRIVER_##name,
#include "driver/stages.def"
#undef STAGE
  DRIVER_STAGES
} DriverStage;

typedef enum DriverEmbed { EMBED_SMALL, EMBED_ALL, EMBED_NONE } DriverEmbed; /* SMALL: if below 1 GiB */

typedef struct DriverNamed DriverNamed;

/* The search minimises the time of a batch; the time per batch of all replicas that fit the target; the memory of a
 * rank; or the cost of a step. */
typedef enum DriverObjective {
  OBJECTIVE_latency,
  OBJECTIVE_throughput,
  OBJECTIVE_memory,
  OBJECTIVE_cost
} DriverObjective;

typedef struct Replicas Replicas;

/* An entry and how often it is called. */
typedef struct DriverCalls {
  const char *entry;
  double times;
} DriverCalls;

typedef struct DriverOptions {
  ModelOptions model;
  int nentries; /* the functions to compile, of which the first is planned; 0: all of the model */
  const char *const *entries;
  int ncalls; /* entries to plan together, with their call frequencies (--optimize); 0: none */
  const DriverCalls *calls;
  const Target *target;
  const char *target_text; /* the target as written, for messages */
  PlanOptions plan;        /* forced options, limits, progress callbacks */
  bool sizes;              /* the caller tries other device counts itself: give no help about them */
  int64_t micro_batch;     /* --micro-batch; 0 if not given */
  bool offload_given;      /* --offload */
  Offload offload;
  DriverObjective objective;
  double slower;            /* with least memory: the largest slowdown against the fastest plan, as a fraction */
  const DriverNamed *named; /* plans to compare with (driver/compare.h) */
  int nnamed;
  const char *plan_file;     /* --plan; NULL to search */
  const char *configuration; /* --configuration: of the model's sharding annotations; NULL if not given */
  const char *save_plan;     /* --save-plan; NULL if none */
  const char *save_temps;    /* the folder of --save-temps; NULL if none */
  DriverEmbed embed;
  const Cache *cache;                /* keeps plans and machine code; NULL if none */
  const char *stub, *producer, *out; /* of the program: paths of the prebuilt runtime and, for DRIVER_artifact, of the
                                        result (driver_write sets it) */
} DriverOptions;

typedef struct Build {
  DriverOptions options;
  DriverStage next; /* the first stage that has not run */
  Model model;
  int64_t params; /* elements of the trainable weights */
  int nentries;
  Func **l1s;               /* the entries after the level-1 passes */
  Func **l2s;               /* the entries at level 2; NULL before lowering */
  struct LowerSteps *steps; /* how lowering made each of them (passes/lower/lower.h) */
  Func *l1; /* the planned function: the first entry, whose choices the others take (passes/plan/entries.h), or the
               joint function of all (ir/joint.h) */
  Func *l2; /* of the first entry */
  Func *prepare_l1, *prepare_l2; /* the work on weights at loading; NULL if none */
  Plan *plan;
  int least_devices;          /* replicas on fewer devices have no Program that fits; 0 if unknown */
  const Replicas *replicas;   /* for throughput or cost: options.target is then one part of the target */
  bool kept;                  /* the plan comes from the cache (driver/kept.h) */
  bool searches_anew;         /* do not take the plan from the cache */
  CacheKey *plan_key;         /* the cache key of the plan; NULL if it is not cached */
  int searches;               /* number of searches */
  double search_seconds;      /* total of all searches */
  double resident, nearest;   /* PlanLack of the search that found no plan within the limit */
  const Diags *unfit;         /* why no plan is within the limit as the search counts, if `plan` is only the nearest;
                                 else NULL */
  const DeviceTraits *device; /* the device that code is made for: the CPU until driver_make_for */
  Legal *legal;
  ProgramResult program; /* closed when it is written */
  ArtifactReport report;
} Build;

/* Starts a build for CPUs; no stage has run.  Copies the options, not what they point to. */
void driver_begin(Build *b, const DriverOptions *options);

/* Runs the stages up to `last` that have not run.  False after diagnostics. */
bool driver_run(Build *b, DriverStage last);

/* Makes stages from legalise on produce code for that kind of device. */
void driver_make_for(Build *b, const DeviceTraits *device);

/* True if code for that kind of device can be written; reports operators that have kernels for CPUs only. */
bool driver_can_compile(const Build *b, const DeviceTraits *device);

/* Runs all stages and writes a program for such devices to `out`; may be called again for another path.  False after
 * diagnostics. */
bool driver_write(Build *b, const DeviceTraits *device, const char *out);

/* As driver_write, for builds of one model for different numbers of ranks: one artifact with all their Programs, whose
 * common weights are in it once. */
bool driver_write_all(Build *builds, int n, const char *out);

/* Lowers one more entry of a lowered build: a level-1 function that reads no prepared weights.  False after
 * diagnostics. */
bool driver_lower_also(Build *b, Func *l1);

/* Measures the memory of the largest rank under the plan (Plan.allocated) and its alternatives, at the planned sizes,
 * and saves the plan (--save-plan).  If the plan exceeds the limit, chooses another plan or reports an error; if memory
 * was short and the search counted too much, may choose a faster one.  The memory stays unknown for unknown operations
 * and for sizes above 2^63.  False after diagnostics. */
bool driver_measure(Build *b);

/* Returns the arguments of codegen_write and codegen_program_open for a build that has kernels. */
ArtifactSpec driver_artifact_spec(const Build *b);

/* Frees the Program and the model. */
void driver_free(Build *b);

#endif
