/* frontend/onnx/number.h - arithmetic of single elements that are expressions of dimensions; see evaluate.h. */
#ifndef APC_FRONTEND_ONNX_NUMBER_H
#define APC_FRONTEND_ONNX_NUMBER_H

#include "frontend/onnx/evaluate.h"

/* Unknown for what is no fraction of few bits. */
Number import_number_of_double(Module *m, double v);

/* One element of an elementwise operation (cast and select included: the condition is x[0]).  `from` is the type of
 * operand 0.  Unknown when it is not decided, or not exact. */
Number import_number_pointwise(Module *m, OpKind kind, DType from, DType to, const Number *x);
Number import_number_reduce(Module *m, Reduction r, DType t, Number x, Number y);

#endif
