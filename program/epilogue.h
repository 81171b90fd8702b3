/* program/epilogue.h - the operations that a product or convolution performs in the same instruction after its sum;
 * also used by the compiler's units.  program.h includes it. */
#ifndef APC_PROGRAM_EPILOGUE_H
#define APC_PROGRAM_EPILOGUE_H

#include <stdbool.h>

#include "base/dtype.h"
#include "base/text.h"

enum {
  PROGRAM_PANEL = 16,        /* columns of a panel of B, whose rows follow each other */
  PROGRAM_GEMM_NUMBERS = 11, /* exprs of a product before those of its batch loops */
  PROGRAM_TF32 = 4,          /* bit of the mask of a product or convolution */
  PROGRAM_NARROW = 8,        /* the same of a product with panels of bf16 */
  PROGRAM_CONV_NUMBERS = 28  /* exprs of a convolution before those of its kernel */
};

typedef enum Activation {
#define ACTIVATION(name, ...) ACT_##name,
#include "program/program.def"
#undef ACTIVATION
  ACT_COUNT
} Activation;

/* Which of the three tensors of a convolution is the result: the output, or a gradient. */
typedef enum ProgramConvResult { CONV_OF_OUTPUT, CONV_OF_IMAGE, CONV_OF_WEIGHTS, CONV_RESULTS } ProgramConvResult;

/* Applied to the sums before they are stored: + bias, a vector along the innermost dimension of the result; + residual,
 * a tensor laid out as the result; then the activation. */
typedef struct Epilogue {
  bool bias, residual;
  Activation activation;
} Epilogue;

/* True if the epilogue does anything. */
static inline bool epilogue_any(Epilogue e) { return e.bias || e.residual || e.activation != ACT_none; }

/* Returns "relu"; activation < ACT_COUNT. */
const char *program_activation_name(unsigned activation);

/* Appends " bias residual relu"; nothing if the epilogue is empty. */
void program_epilogue_text(Text *t, Epilogue e);

/* Returns the rows of a panel for k rows of B: of bf16 whole pairs. */
static inline int64_t program_panel_rows(DType t, int64_t k) { return t == DT_bf16 ? (k + 1) / 2 * 2 : k; }

/* True if panels may have elements of this type. */
static inline bool program_panel_type(DType t) { return t == DT_f32 || t == DT_f16 || t == DT_bf16; }

/* True if there are products of two matrices of type `operands` into `result`, summed in `sums`: the rows of
 * GEMM_TYPES, program.def. */
bool program_gemm_types(DType operands, DType result, DType sums);

/* Returns the usual type of the sums of a product with operands and result of type t: f32 for 16-bit floats, else t. */
static inline DType program_gemm_sums(DType t) { return t == DT_f16 || t == DT_bf16 ? DT_f32 : t; }

#endif
