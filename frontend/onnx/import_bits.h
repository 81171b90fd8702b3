/* frontend/onnx/import_bits.h - packed weights of few bits, several per byte (import_bits.c). */
#ifndef APC_FRONTEND_ONNX_IMPORT_BITS_H
#define APC_FRONTEND_ONNX_IMPORT_BITS_H

#include "frontend/onnx/import_private.h"

/* Reads an attribute that must be 2, 4 or 8. */
bool import_bits(ImportNode *n, const char *name, int64_t otherwise, int *bits);
/* Unpacks u8 [.., bytes] to the first `count` numbers of each row, u8 [.., count]. */
Val import_unpacked(ImportNode *n, Val bytes, int bits, const Expr *count);
/* Applies scales and zero points (0: none), [.., blocks], to the numbers [.., blocks, block]. */
Val import_dequantized(ImportNode *n, Val numbers, Val scales, Val zeros, int bits);

#endif
