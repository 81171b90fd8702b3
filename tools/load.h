/* tools/load.h - MODEL on the command line: from a file to a checked level-1 module.
 *
 * The ending tells the front end: .onnx, .apc (the model language, -D sets its parameters), .ir (IR text).  Then
 * --dim and --shape bind dimensions, --dim-hint gives the others a size to plan for, --seed keys random weights.
 */
#ifndef APC_TOOLS_LOAD_H
#define APC_TOOLS_LOAD_H

#include "ir/ir.h"
#include "tools/tool.h"

typedef enum ModelKind { MODEL_NONE, MODEL_ONNX, MODEL_APC, MODEL_IR } ModelKind;

typedef struct Model {
  const char *path; /* as given */
  const char *name; /* the base name without its ending: what outputs are called after */
  ModelKind kind;
  Module *m;
  int nentries;
  const char **entries; /* functions that can be asked for, in order */
} Model;

/* By the ending of the path; MODEL_NONE for any other. */
ModelKind model_kind(const char *path);

/* The base name without its ending. */
const char *model_name(Arena *a, const char *path);

/* Loads, binds and verifies the model; false after diagnostics.  Free with model_free in either case. */
bool model_load(Tool *t, const char *path, Model *out);
/* Warns of operators apc does not know; false, with errors, for commands that compute. */
bool model_check_known(Tool *t, const Model *model);
void model_free(Model *model);

/* Runs the level-1 passes (passes/pipeline.h) with --print-after; false after diagnostics. */
bool model_passes(Tool *t, Model *model, const char *device);

/* The dimension symbols that some input of the model still has, in the module's order: their count, and their
 * numbers. */
int model_dimensions(Tool *t, const Model *model, const int **symbols);
/* What a symbol is planned for: its hint, else 8 for `batch`, else 128, kept inside what the model allows. */
int64_t symbol_hint(const Symbol *s);

/* Elements of the trainable weights; a weight counts once. */
int64_t model_parameters(const Module *m);

#endif
