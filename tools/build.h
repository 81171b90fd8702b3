/* tools/build.h - what a command line asks of the driver (driver/driver.h); what compile, plan, size, run, verify
 * and bench share. */
#ifndef APC_TOOLS_BUILD_H
#define APC_TOOLS_BUILD_H

#include "driver/driver.h"
#include "tools/target_report.h"
#include "tools/tool.h"

/* Loads a model with the options of the line (--dim, --shape, --dim-hint, -D, --weights, --seed); false after
 * diagnostics.  Free with model_free in either case. */
bool tool_model(Tool *t, const char *path, Model *out);
/* The same, and the parameters of an .apc model, in the arena of `parameters`. */
bool tool_model_parameters(Tool *t, const char *path, DslParameters *parameters, Model *out);
/* Without those of --weights. */
bool tool_model_with_own_weights(Tool *t, const char *path, Model *out);
/* The same with nothing done to it: with --train, the step of the model as it was imported. */
bool tool_model_imported(Tool *t, const char *path, Model *out);
/* The same of a step at small sizes, for who looks at its derivative: with `rate`, one of plain gradient descent with
 * that learning rate (0: of the line's optimizer); `options` are the line's, and report on the step. */
bool tool_model_step(Tool *t, const char *path, int rate, Model *out, const struct TrainOptions **options);
/* All NAME=N of an option (--dim, --dim-hint). */
const DimSize *tool_dim_sizes(Tool *t, OptionId id, size_t *count);
/* Warns of operators apc does not know; false, with errors, for commands that compute. */
bool tool_model_known(Tool *t, const Model *model);

/* Loads the model, settles the sizes to plan for and runs the level-1 passes; then `l1` is there.  False after
 * diagnostics.  Free with driver_free in either case. */
bool tool_load(Tool *t, const char *path, const Target *target, Build *out);

/* Finds the plan (or reads --plan), with --save-plan and --save-temps. */
bool tool_plan(Tool *t, Build *b);
/* The same for who is shown the plan: with what else there is, and with --plan also the bound. */
bool tool_plan_shown(Tool *t, Build *b);

/* The same on one rank of the machine apc runs on, without plan options: what results are compared with. */
bool tool_plan_one_rank(Tool *t, const char *path, Build *out);

/* Is there what programs are made with: a compiler that works, and the runtime?  Asked before the time that a plan
 * takes; false after a diagnostic. */
/* What is kept of earlier compiles (base/cache.h); NULL: nothing is. */
const Cache *tool_cache(Tool *t);
bool tool_can_compile(Tool *t, const DeviceTraits *device);

/* The folder of --save-temps for a model of that name; NULL when it is not given. */
const char *tool_temps(Tool *t, const char *name);

/* --save-plan -: the plan goes to standard output, as with --emit=plan=-. */
bool tool_prints_plan(const Tool *t);

/* The path of the prebuilt runtime that programs begin with (apcrt-stub). */
const char *tool_stub(Arena *a);

/* "tp 2 x pp 2, 4 micro-batches"; "one rank" */
const char *tool_degrees_text(Arena *a, const int degree[DEGREE_COUNT], int micro_batches);

#endif
