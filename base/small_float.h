/* base/small_float.h - floats of 8 and 4 bits, as a byte, and numbers packed several to a byte.
 *
 * f8e4m3fn, f8e5m2 (Micikevicius et al., "FP8 formats for deep learning", 2022), f8e4m3fnuz, f8e5m2fnuz (Noune et al.,
 * "8-bit numerical formats for deep neural networks", 2022), f8e8m0 and f4e2m1 (OCP microscaling formats 1.0, 2023).
 * Conversions to them round to nearest, ties to even; f8e8m0, powers of two, ties up.  Numbers that round to more than
 * the largest become an infinity (f8e5m2), NaN, or in f4e2m1, which has neither, the largest; there NaN becomes
 * -0.  f8e8m0 has no zero: 0 and numbers below 2^-127 become 2^-127, negative ones NaN.
 */
#ifndef APC_BASE_SMALL_FLOAT_H
#define APC_BASE_SMALL_FLOAT_H

#include "base/dtype.h"

/* True for these types. */
bool dtype_is_small_float(DType t);

/* The number that a byte stands for; of f4e2m1 its low 4 bits count. */
double small_float_load(DType t, uint8_t bits);

/* The byte of a number, rounded once. */
uint8_t small_float_store(DType t, double v);

/* The bytes of n numbers of `bits` bits, the first in the low bits of a byte. */
size_t packed_bytes(int bits, size_t n);

/* Writes a byte for each of n packed numbers. */
void unpack_bits(int bits, size_t n, const uint8_t *from, uint8_t *to);

/* Packs the low bits of n bytes. */
void pack_bits(int bits, size_t n, const uint8_t *from, uint8_t *to);

#endif
