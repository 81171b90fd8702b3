/* frontend/onnx/import_bits.h - weights of few bits, several of which share a byte (import_bits.c). */
#ifndef APC_FRONTEND_ONNX_IMPORT_BITS_H
#define APC_FRONTEND_ONNX_IMPORT_BITS_H

#include "frontend/onnx/import_private.h"

/* An attribute that is 2, 4 or 8. */
bool import_bits(ImportNode *n, const char *name, int64_t otherwise, int *bits);
/* u8 [.., bytes] as the first `count` numbers of each row, u8 [.., count]. */
Val import_unpacked(ImportNode *n, Val bytes, int bits, const Expr *count);
/* Numbers [.., blocks, block] with the scales, and zero points or 0, [.., blocks] of their blocks. */
Val import_dequantized(ImportNode *n, Val numbers, Val scales, Val zeros, int bits);

#endif
