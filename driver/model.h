/* driver/model.h - a model: from a file to a checked level-1 module.
 *
 * The ending tells the front end: .onnx, .apc (the model language), .ir (IR text).  Then dimensions are bound, others
 * get a size to plan for, and random weights another stream of numbers.
 */
#ifndef APC_DRIVER_MODEL_H
#define APC_DRIVER_MODEL_H

#include "base/diag.h"
#include "frontend/dsl/dsl.h"
#include "ir/ir.h"
#include "passes/pipeline.h"

typedef enum ModelKind { MODEL_NONE, MODEL_ONNX, MODEL_APC, MODEL_IR } ModelKind;

typedef struct DimSize {
  const char *name;
  int64_t size;
} DimSize;

/* INPUT=1,3,224,224 */
typedef struct InputShape {
  const char *name;
  int rank;
  const int64_t *dims;
} InputShape;

/* Who looks on while a model is read and compiled; every function may be NULL. */
typedef struct DriverWatch {
  void *context;
  void (*stage)(void *context, const char *verb, const char *text); /* what begins: "Reading", "model.onnx" */
  void (*say)(void *context, const char *verb, const char *text);   /* what the user should know */
  bool (*loaded)(void *context, const Module *m);                   /* false after a diagnostic: it may not be used */
} DriverWatch;

/* Calls of those, as printf. */
void driver_watch_stage(const DriverWatch *w, Arena *a, const char *verb, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void driver_watch_say(const DriverWatch *w, Arena *a, const char *verb, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

typedef struct ModelOptions {
  Arena *arena;
  Diags *diags;
  const char *path;
  bool computes;               /* operators apc does not know are errors */
  const DimSize *dims, *hints; /* --dim, --dim-hint */
  size_t ndims, nhints;
  const InputShape *shapes; /* --shape */
  size_t nshapes;
  const DslDefine *defines; /* -D; .apc only */
  int ndefines;
  DslParameters *parameters; /* gets those of an .apc model; may be NULL */
  const char *weights;       /* FILE.safetensors that replaces the model's; NULL */
  bool weights_named;        /* only its names count: which weights the model has, not their numbers */
  bool seeded;               /* --seed */
  int64_t seed;
  const struct TrainOptions *train; /* --train: a step of training in place of the model; NULL */
  int64_t batch;                    /* --batch; 0: not given */
  int64_t batch_most;               /* where the batch is a dimension that may have it, a larger one becomes this; 0 */
  DType floats;                     /* f16, bf16: what f32 is computed in (passes/rewrite/narrow.c); 0: f32 */
  const char *print_after;          /* a pass, or "all"; to standard error */
  bool times;                       /* of passes, on standard error */
  struct PassChecks *checks;        /* passes are compared with their input (passes/check.h); NULL: they are not */
  DriverWatch watch;
} ModelOptions;

typedef struct Model {
  const char *path; /* as given */
  const char *name; /* the base name without its ending: what outputs are called after */
  ModelKind kind;
  Module *m;
  TrainingFacts facts; /* of its weights, as its file has them */
  int nentries;
  const char **entries; /* functions that can be asked for, in order */
} Model;

/* By the ending of the path; MODEL_NONE for any other. */
ModelKind model_kind(const char *path);

/* The base name without its ending. */
const char *model_name(Arena *a, const char *path);

/* Loads, binds and verifies the model; false after diagnostics.  Free with model_free in either case. */
bool model_load(const ModelOptions *o, Model *out);
/* Warns of operators apc does not know; false, with errors, when the model is to be computed. */
bool model_check_known(const ModelOptions *o, const Model *model);
void model_free(Model *model);

/* Runs the level-1 passes (passes/pipeline.h); false after diagnostics. */
bool model_passes(const ModelOptions *o, Model *model, const DeviceTraits *device);

/* With --train: only that of the passes, so that what the model means by then can be compared with what all make of it.
 * False after diagnostics. */
bool model_train(const ModelOptions *o, Model *model);

/* The dimension symbols that some input of the model still has, in the module's order: their count, and their
 * numbers. */
int model_dimensions(Arena *a, const Model *model, const int **symbols);
/* What --batch is the size of: dimension `batch`, else the leading dimension of the first input that has a symbol
 * there. -1: none. */
int model_batch_dimension(const Module *m);
/* What a symbol is planned for: its hint, else 8 for `batch`, else 128, kept inside what the model allows. */
int64_t symbol_hint(const Symbol *s);
/* "batch 8, seq 128"; "" without dimensions. */
const char *model_hints_text(Arena *a, const Model *model);

/* Elements of the trainable weights; a weight counts once. */
int64_t model_parameters(const Module *m);

#endif
