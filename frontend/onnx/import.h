/* frontend/onnx/import.h - from an opened ONNX model to a level-1 IR function.
 *
 * In: an OnnxFile (file.h) and sizes for some of its symbolic dimensions.  Out: function "main" in the given module.
 * Initializers become params that refer to the file's bytes; nodes become primitives and composites (ops.def lists
 * them).  The shape arithmetic that exporters write around reshapes is evaluated over symbolic sizes during the
 * import (evaluate.h), so that every extent is an expression of the input dimensions.
 *
 * Not done: sequences of unknown length (import_sequence.c), optionals, strings, training information; control flow
 * whose sizes depend on data (import_control.c).
 *
 * If training is asked for, nodes in training mode compute as in training in "main", and function "eval" is added, in
 * which they do not (import_mode.c).
 *
 * An input whose value is given (OnnxValue) may become part of the function: operators that need a constant then see
 * one.  It stays an input, whose operation lists the only elements that a caller may give (ir/ops.def).
 *
 * If shapes fit only for some sizes, these are assumed (assume.h), with a warning if a dimension is no longer free.
 *
 * Limits: dimensions of 2^40 (known.h), a million nodes and calls of functions.  Within them, the work is linear in
 * the file.
 */
#ifndef APC_FRONTEND_ONNX_IMPORT_H
#define APC_FRONTEND_ONNX_IMPORT_H

#include "base/tensor.h"
#include "frontend/onnx/file.h"
#include "frontend/onnx/names.h"
#include "frontend/onnx/sharding.h"
#include "ir/training.h"

/* Binds a symbolic dimension (a dim_param, or INPUT_dimK for an unnamed one) to a number. */
typedef struct OnnxDim {
  const char *name;
  int64_t size;
} OnnxDim;

/* The name of an ONNX dimension as the IR can print it: characters other than letters, digits, '_' and '.' become
 * '_'. */
const char *onnx_dim_name(Arena *a, const char *name);

/* A value of an input, known at import.  Sizes that are computed from the input need it. */
typedef struct OnnxValue {
  const char *name; /* of the input; "" for the only input of the graph */
  Tensor tensor;    /* at most ONNX_VALUE_MOST elements */
  bool asked;       /* make it part of the function; otherwise only if an operator cannot do without */
  bool bound;       /* result: it is part of the function, which takes no other value */
} OnnxValue;

enum { ONNX_VALUE_MOST = 1 << 16 }; /* elements of such a value */

/* Where the parts of the model's graph are in the function; in the module's arena. */
typedef struct OnnxPlaces {
  const char **nodes; /* by node: Loc.node of its operations; NULL if functions took its place */
  NameMap values;     /* tensor -> its value (Val) as a pointer */
} OnnxPlaces;

typedef struct OnnxImportOptions {
  const OnnxDim *dims;
  size_t ndims;
  OnnxValue *values; /* of inputs; the import sets `bound` */
  size_t nvalues;
  bool planned;                /* the sharding annotations are those of a plan in the file, so they are not looked at */
  bool unknown_as_opaque;      /* unsupported operators become opaque operations instead of errors */
  struct OnnxRules *operators; /* rules of operators that apc does not know (rules.h); sets `used`; NULL if none */
  bool training;               /* one-element initializers that are parameters of layers are weights, not constants */
  const char *trained;         /* a glob of the names that are weights instead; NULL if none */
  const TrainingRules *rules;  /* what the user says about weights; NULL if none */
  TrainingFacts *facts;        /* receives facts about them, in the module's arena; NULL if not needed */
  const OnnxSharding **sharding; /* receives the multi-device annotations, in the module's arena; NULL if not needed */
  OnnxPlaces *places;            /* receives them; NULL if not needed */
  const struct Safetensors *weights;                        /* has the values of weights; NULL: the file's own */
  const char *(*weight_name)(void *maps, const char *name); /* the name of a weight in it; NULL if it is its own */
  void *weight_maps;
} OnnxImportOptions;

/* Imports into a new module.  `options` may be NULL.  False after diagnostics.  These refer to strings of the
 * module, which the caller frees in either case, after printing them.  The file may be closed afterwards. */
bool onnx_import(Module **m, OnnxFile *file, const OnnxImportOptions *options, Diags *diags);

/* True if the table has a node of that domain and type for that operator set version. */
bool onnx_op_supported(const char *domain, const char *type, int64_t opset);

#endif
