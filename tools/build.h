/* tools/build.h - turns the command line into options of the driver (driver/driver.h); shared by compile, plan, size,
 * run, verify and bench. */
#ifndef APC_TOOLS_BUILD_H
#define APC_TOOLS_BUILD_H

#include "driver/driver.h"
#include "tools/target_report.h"
#include "tools/tool.h"

/* Loads a model with the options of the line (--dim, --shape, --dim-hint, -D, --weights, --seed); false after
 * diagnostics.  Free with model_free in either case. */
bool tool_model(Tool *t, const char *path, Model *out);
/* As tool_model; also gives the parameters of an .apc model, in the arena of `parameters`. */
bool tool_model_parameters(Tool *t, const char *path, DslParameters *parameters, Model *out);
/* As tool_model, for a model that was read before: reports errors only.  Also gives the places of an .onnx model's
 * parts. */
bool tool_model_again(Tool *t, const char *path, struct OnnxPlaces *places, Model *out);
/* As tool_model, but ignores a file of --weights. */
bool tool_model_with_own_weights(Tool *t, const char *path, Model *out);
/* As tool_model, without passes: with --train, the training step of the model as imported. */
bool tool_model_imported(Tool *t, const char *path, Model *out);
/* As tool_model_imported, for a training step at small sizes whose derivative is checked: `rate` > 0 selects plain
 * gradient descent with that learning rate, 0 the optimizer of the line.  *options: those of the line; they report on
 * the step. */
bool tool_model_step(Tool *t, const char *path, int rate, Model *out, const struct TrainOptions **options);
/* lora.c: reads --lora. */
bool tool_lora(Tool *t, ModelOptions *o);
/* layers.c: collects --map; *out is NULL without it.  Reads one --layer-drop.  False after a diagnostic. */
bool tool_weight_maps(Tool *t, WeightMaps **out);
bool tool_layer_drop(Tool *t, TrainingRules *r, const char *value);
/* Returns all NAME=N of an option (--dim, --dim-hint), each once; NULL after a diagnostic. */
const DimSize *tool_dim_sizes(Tool *t, OptionId id, size_t *count);
/* Warns about operators that apc does not know; for commands that compute they are errors, and the result is false. */
bool tool_model_known(Tool *t, const Model *model);

/* Loads the model, sets the sizes to plan for and runs the level-1 passes, which give `l1`.  False after diagnostics.
 * Free with driver_free in either case. */
bool tool_load(Tool *t, const char *path, const Target *target, Build *out);

/* Finds the plan or reads --plan; obeys --save-plan and --save-temps. */
bool tool_plan(Tool *t, Build *b);
/* The same for commands that show the plan: also lists alternatives, and with --plan gives the bound. */
bool tool_plan_shown(Tool *t, Build *b);

/* Plans the model for one rank of this machine, without plan options: the reference for comparisons. */
bool tool_plan_one_rank(Tool *t, const char *path, Build *out);

/* Returns the cache of earlier compiles (base/cache.h); NULL if none. */
const Cache *tool_cache(Tool *t);
/* True if programs for the device can be made: the compiler works and the runtime exists.  Called before planning,
 * which takes time; false after a diagnostic. */
bool tool_can_compile(Tool *t, const DeviceTraits *device);

/* Returns the folder of --save-temps for a model of that name; NULL if not given. */
const char *tool_temps(Tool *t, const char *name);

/* True if the plan goes to standard output (--save-plan -), as with --emit=plan=-. */
bool tool_prints_plan(const Tool *t);

/* Returns the path of the prebuilt runtime at the start of programs (apcrt-stub). */
const char *tool_stub(Arena *a);

/* Returns "tp 2 x pp 2, 4 micro-batches", or "one rank". */
const char *tool_degrees_text(Arena *a, const int degree[DEGREE_COUNT], int micro_batches);

#endif
