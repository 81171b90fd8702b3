/* base/dtype.h - element types and conversions between their bits and C numbers. */
#ifndef APC_BASE_DTYPE_H
#define APC_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum DType {
#define DTYPE(name, ...) DT_##name,
#include "base/dtype.def"
#undef DTYPE
  DT_COUNT
} DType;

typedef enum DTypeClass { DTC_F, DTC_I, DTC_U, DTC_B } DTypeClass;

/* The name as IR writes it ("f32"), the bytes of an element, and the class of a type. */
const char *dtype_name(DType t);
size_t dtype_bytes(DType t);
DTypeClass dtype_class(DType t);
static inline bool dtype_is_float(DType t) { return dtype_class(t) == DTC_F; }

/* The bits that count in an element: 4 and 2 for the types that files pack, else 8 per byte. */
int dtype_bits(DType t);

/* True if there is arithmetic on the type; the others are only converted and moved. */
bool dtype_computes(DType t);

/* The type in which generated code holds a value: f32 for floats below 32 bits, i8 or u8 for narrower integers, else
 * the type itself. */
DType dtype_held(DType t);

/* Finds the type of that name; false if there is none. */
bool dtype_find(const char *name, DType *out);

/* IEEE half and bfloat16, round to nearest even; NaN stays NaN (quieted), overflow becomes infinity. */
uint16_t f16_from_float(float v);
float f16_to_float(uint16_t bits);
uint16_t bf16_from_float(float v);
float bf16_to_float(uint16_t bits);

/* One element as a double (floats) or as an int64 (integers, bool; u64 keeps its bits).
 * Stores round floats to the type, once, and wrap integers to its width; bool stores whether it is not 0.
 * A float becomes an integer by truncation, saturated to 64 bits (NaN is 0) and then wrapped. */
double dtype_load_f(DType t, const void *p);
void dtype_store_f(DType t, void *p, double v);
int64_t dtype_load_i(DType t, const void *p);
void dtype_store_i(DType t, void *p, int64_t v);

/* The integer or bool element that a constant, written as a number, stands for: converted as above, but infinities
 * become the smallest and largest value of the type, so that they stay below and above everything. */
int64_t dtype_constant_i(DType t, double v);

#endif
