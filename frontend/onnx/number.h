/* frontend/onnx/number.h - arithmetic on single elements that are expressions of dimensions; see evaluate.h. */
#ifndef APC_FRONTEND_ONNX_NUMBER_H
#define APC_FRONTEND_ONNX_NUMBER_H

#include "frontend/onnx/evaluate.h"

/* The number as a fraction of few bits; unknown if it is none. */
Number import_number_of_double(Module *m, double v);

/* Computes one element of an elementwise operation, including cast and select (whose condition is x[0]).  `from` is
 * the type of operand 0.  Unknown if undecided or not exact.  import_number_reduce combines two elements of a
 * reduction. */
Number import_number_pointwise(Module *m, OpKind kind, DType from, DType to, const Number *x);
Number import_number_reduce(Module *m, Reduction r, DType t, Number x, Number y);

#endif
