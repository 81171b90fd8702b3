/* driver/model.h - reads a model file and gives a checked level-1 module.
 *
 * The extension selects the front end: .onnx, .apc (the model language), .ir (IR text).  Then dimensions are bound, the
 * others get a size to plan for, and random weights get the seed's random stream.
 */
#ifndef APC_DRIVER_MODEL_H
#define APC_DRIVER_MODEL_H

#include "base/diag.h"
#include "base/temporary.h"
#include "driver/weight_map.h"
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

/* Callbacks that follow reading and compiling; each may be NULL. */
typedef struct DriverWatch {
  void *context;
  void (*stage)(void *context, const char *verb, const char *text); /* a stage begins: "Reading", "model.onnx" */
  void (*say)(void *context, const char *verb, const char *text);   /* information for the user */
  bool (*loaded)(void *context, const Module *m);                   /* returns false after a diagnostic to reject the
                                                                       model */
} DriverWatch;

/* Call those callbacks, with a format as printf. */
void driver_watch_stage(const DriverWatch *w, Arena *a, const char *verb, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void driver_watch_say(const DriverWatch *w, Arena *a, const char *verb, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

typedef struct ModelOptions {
  Arena *arena;
  Diags *diags;
  const char *path;
  bool computes;               /* operators that apc does not know are errors */
  const DimSize *dims, *hints; /* --dim, --dim-hint */
  size_t ndims, nhints;
  struct OnnxValue *values; /* of inputs, which an .onnx model may need (frontend/onnx/import.h) */
  size_t nvalues;
  struct OnnxPlaces *places; /* receives where the parts of an .onnx model are in the function; NULL if not needed */
  const char *const *operators, *const *libraries; /* --op, --op-library (driver/operators.h) */
  size_t noperators, nlibraries;
  const InputShape *shapes; /* --shape */
  size_t nshapes;
  const DslDefine *defines; /* -D; .apc only */
  int ndefines;
  DslParameters *parameters;       /* receives those of an .apc model; may be NULL */
  const struct PackedForm *packed; /* --weights-dtype; NULL if not given */
  int64_t kv_cache;                /* --kv-cache: positions of caches that become states; 0: none do */
  bool weights_unread;             /* with it: only the types of weights matter */
  const char *weights;             /* FILE.safetensors that replaces the model's weights; NULL if none */
  WeightMaps *maps;                /* --map: names of weights in that file; NULL: their own */
  bool weights_named;              /* only the names of weights matter, not their values */
  bool graph;  /* an ONNX file is its graph, even if apc kept the model in it that the graph is written from */
  bool seeded; /* --seed */
  int64_t seed;
  const struct TrainOptions *train; /* --train: build the training step; NULL if not given */
  LoraRules *lora;                  /* --lora: adapters of weights; NULL if not given */
  int64_t batch;                    /* --batch; 0 if not given */
  int64_t batch_most;               /* if the batch is a dimension that may have this size: larger sizes become this; 0
                                       if none */
  DType floats;                     /* compute type of f32 values, f16 or bf16 (passes/rewrite/narrow.c); 0: f32 */
  const char *print_after;          /* a pass or "all": prints IR to standard error */
  bool times;                       /* print times of passes, on standard error */
  struct PassChecks *checks;        /* compares each pass's result with its input (passes/check.h); NULL if not */
  DriverWatch watch;
} ModelOptions;

typedef struct Model {
  const char *path; /* as given */
  const char *name; /* the base name without extension, used to name outputs */
  ModelKind kind;
  Module *m;
  TrainingFacts facts;                 /* of the weights, as the model file gives them */
  const struct OnnxSharding *sharding; /* of an .onnx model, in the module's arena; NULL if none */
  TemporaryFolder packed;              /* has the weights of --weights-dtype */
  int nentries;
  const char **entries; /* functions that can be requested, in order */
} Model;

/* Returns the kind of model by the path's extension; MODEL_NONE if unknown. */
ModelKind model_kind(const char *path);

/* Returns the base name without extension. */
const char *model_name(Arena *a, const char *path);

/* Loads, binds and verifies the model; false after diagnostics.  Free with model_free in either case. */
bool model_load(const ModelOptions *o, Model *out);
/* Warns about operators that apc does not know; reports errors and returns false if the model is to be computed. */
bool model_check_known(const ModelOptions *o, const Model *model);
/* Frees the module; may be called after a failed load, and twice. */
void model_free(Model *model);

/* Runs the level-1 passes (passes/pipeline.h); false after diagnostics. */
bool model_passes(const ModelOptions *o, Model *model, const DeviceTraits *device);
/* The same up to the pass `last`, silently: for its text. */
bool model_passes_until(const ModelOptions *o, Model *model, const DeviceTraits *device, const char *last);

/* With --train: runs only the training pass, so that the trained model can be compared with the result of all passes.
 * False after diagnostics. */
bool model_train(const ModelOptions *o, Model *model);

/* Finds the dimension symbols that inputs of the model still have, in the module's order: returns their count and sets
 * *symbols to their numbers. */
int model_dimensions(Arena *a, const Model *model, const int **symbols);
/* Returns the symbol that --batch binds: `batch`, else the leading dimension of the first input that has a symbol
 * there; -1 if none. */
int model_batch_dimension(const Module *m);
/* Returns the size to plan a symbol for: its hint, else 8 for `batch`, else 128, clamped to the range that the model
 * allows. */
int64_t symbol_hint(const Symbol *s);
/* Returns the sizes to plan for as "batch 8, seq 128"; "" without dimensions. */
const char *model_hints_text(Arena *a, const Model *model);

/* Returns the number of elements of the trainable weights; tied weights count once. */
int64_t model_parameters(const Module *m);

#endif
