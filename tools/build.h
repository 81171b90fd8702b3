/* tools/build.h - from MODEL on the command line to a plan, a level-2 function and a program; what compile, plan, run,
 * verify and bench share. */
#ifndef APC_TOOLS_BUILD_H
#define APC_TOOLS_BUILD_H

#include "codegen/artifact.h"
#include "passes/plan/plan.h"
#include "tools/load.h"
#include "tools/target_report.h"

typedef struct Build {
  Model model;
  const Target *target;
  int64_t params; /* elements of the trainable weights */
  int nentries;
  Func **l1s;    /* the entries after the level-1 passes */
  Func **l2s;    /* the same at level 2; NULL before build_lower */
  Func *l1, *l2; /* the first of each: the one that is planned; the others get its choices (passes/plan/entries.h) */
  Func *prepare_l1, *prepare_l2; /* what is done to weights at loading; NULL when the model has no such work */
  Plan *plan;
  ArtifactReport report;
} Build;

/* Loads the model, settles the sizes to plan for and runs the level-1 passes; then `l1` is there.  False after
 * diagnostics.  Free with build_free in either case. */
bool build_load(Tool *t, const char *path, const Target *target, Build *out);

/* Finds the plan (or reads --plan), with --save-plan and --save-temps. */
bool build_plan(Tool *t, Build *b);
/* The same for who is shown the plan: with what else there is, and with --plan also the bound. */
bool build_plan_shown(Tool *t, Build *b);

/* Is there what programs are made with: a C compiler that works, and the runtime?  Asked before the time that a plan
 * takes; false after a diagnostic. */
bool build_can_compile(Tool *t);

/* The folder of --save-temps for a model of that name; NULL when it is not given. */
const char *build_temps(Tool *t, const char *name);

/* --save-plan -: the plan goes to standard output, as with --emit=plan=-. */
bool build_prints_plan(const Tool *t);

/* The same on one rank of the machine apc runs on, without plan options: what results are compared with. */
bool build_plan_one_rank(Tool *t, const char *path, Build *out);

bool build_lower(Tool *t, Build *b);

/* One more entry of a build that is lowered: a function of level 1 that reads no prepared weights. */
bool build_lower_also(Tool *t, Build *b, Func *l1);

/* Writes the program; needs build_lower. */
bool build_program(Tool *t, Build *b, const char *out);

void build_free(Build *b);

/* The path of the prebuilt runtime that programs begin with (apcrt-stub). */
const char *build_stub(Arena *a);

/* What artifact_write and artifact_schedule need; `out` may be NULL. */
ArtifactSpec build_artifact_spec(Tool *t, const Build *b, const char *out);

/* "tp 2 x dp 2, 4 micro-batches" */
const char *degrees_text(Arena *a, int tp, int pp, int dp, int cp, int ep, int micro_batches);

/* "batch 8, seq 128": what symbolic dimensions are planned for; "" when there are none. */
const char *hints_text(Tool *t, const Model *model);

#endif
