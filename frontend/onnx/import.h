/* frontend/onnx/import.h - from an opened ONNX model to a level-1 IR function.
 *
 * In: an OnnxFile (file.h) and sizes for some of its symbolic dimensions.  Out: function "main" in
 * the given module.  Initializers become params that refer to the file's bytes; nodes become primitives
 * and composites (ops.def is the list); the shape arithmetic that exporters write around reshapes is
 * evaluated on the way over symbolic sizes (evaluate.h), so that every extent is an expression of the
 * input dimensions.
 *
 * Not done: sequences, optionals, strings, training information; control flow whose sizes depend on data
 * (import_control.c).  Dropout and batch normalisation have their inference meaning.
 *
 * Where shapes fit only for some sizes, those are assumed (assume.h), with a warning where a dimension is no
 * longer free.
 *
 * Limits: dimensions of 2^40 (known.h), a million nodes and calls of functions; with those, the work is linear in
 * the file.
 */
#ifndef APC_FRONTEND_ONNX_IMPORT_H
#define APC_FRONTEND_ONNX_IMPORT_H

#include "frontend/onnx/file.h"
#include "ir/training.h"

/* Replaces a symbolic dimension (a dim_param, or INPUT_dimK for an unnamed one) by a number. */
typedef struct OnnxDim {
  const char *name;
  int64_t size;
} OnnxDim;

/* The name an ONNX dimension gets, which the IR can print: other characters than letters, digits, '_' and '.' become
 * '_'. */
const char *onnx_dim_name(Arena *a, const char *name);

typedef struct OnnxImportOptions {
  const OnnxDim *dims;
  size_t ndims;
  bool unknown_as_opaque;     /* operators that are missing become opaque operations instead of errors */
  bool training;              /* initializers of one element that are parameters of layers are weights, not constants */
  const char *trained;        /* a glob: those of these names instead; NULL */
  const TrainingRules *rules; /* what somebody says of weights; NULL */
  TrainingFacts *facts;       /* what is found out of them, in the module's arena; NULL: nobody asks */
  const struct Safetensors *weights; /* the numbers of initializers come from there: what it has is a weight; NULL */
} OnnxImportOptions;

/* Imports into a new module.  `options` may be NULL.  False after diagnostics; they refer to strings of the module,
 * which the caller frees, after printing them, in either case.  The file may be closed afterwards. */
bool onnx_import(Module **m, OnnxFile *file, const OnnxImportOptions *options, Diags *diags);

/* Whether a node of that domain and type is in the table for that operator set version. */
bool onnx_op_supported(const char *domain, const char *type, int64_t opset);

#endif
