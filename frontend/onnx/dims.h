/* frontend/onnx/dims.h - the declared dimensions of ONNX inputs as expressions. */
#ifndef APC_FRONTEND_ONNX_DIMS_H
#define APC_FRONTEND_ONNX_DIMS_H

#include "frontend/onnx/assume.h"
#include "frontend/onnx/import.h"

enum { MAX_SYMBOLS = 4096 }; /* of a model: as many as IR text may name; look-up is linear */

typedef struct OnnxDims {
  Module *m;
  const OnnxImportOptions *options; /* may be NULL */
  bool *bound;                      /* by option: some dimension has that name */
  const OnnxAssumptions *assumed;
} OnnxDims;

/* The extent of dimension k of that input: a number; a dim_param, which is a name or a sum of products of names and
 * numbers as exporters write it ("past + seq"); or a new symbol named INPUT_dimK. */
const Expr *onnx_dim(OnnxDims *dims, const char *input, size_t k, const Onnx__TensorShapeProto__Dimension *d);

#endif
