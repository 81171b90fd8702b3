/* base/dtype.c - see dtype.h. */
#include "base/dtype.h"

#include <math.h>
#include <string.h>

#include "base/small_float.h"

static const struct {
  const char *name;
  size_t bytes;
  DTypeClass class;
  int bits;
  enum { COMPUTED, STORED } use;
} rows[DT_COUNT] = {
#define DTYPE(name, bytes, class, bits, use) [DT_##name] = {#name, bytes, DTC_##class, bits, use},
#include "base/dtype.def"
#undef DTYPE
};

const char *dtype_name(DType t) { return rows[t].name; }
size_t dtype_bytes(DType t) { return rows[t].bytes; }
DTypeClass dtype_class(DType t) { return rows[t].class; }
int dtype_bits(DType t) { return rows[t].bits; }
bool dtype_computes(DType t) { return rows[t].use == COMPUTED; }

DType dtype_held(DType t) {
  if (rows[t].class == DTC_F) return t == DT_f64 ? DT_f64 : DT_f32;
  if (rows[t].bits >= 8) return t;
  return rows[t].class == DTC_I ? DT_i8 : DT_u8;
}

bool dtype_find(const char *name, DType *out) {
  for (int i = 0; i < DT_COUNT; i++)
    if (strcmp(rows[i].name, name) == 0) {
      *out = (DType)i;
      return true;
    }
  return false;
}

uint16_t bf16_from_float(float v) {
  uint32_t u;
  memcpy(&u, &v, 4);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
  return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

float bf16_to_float(uint16_t bits) {
  uint32_t u = (uint32_t)bits << 16;
  float v;
  memcpy(&v, &u, 4);
  return v;
}

uint16_t f16_from_float(float v) {
  uint32_t u;
  memcpy(&u, &v, 4);
  uint32_t sign = (u >> 16) & 0x8000u, mag = u & 0x7fffffffu;
  if (mag > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((mag >> 13) & 0x3ffu));
  if (mag >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* rounds past 65504 */
  if (mag < 0x38800000u) {                                   /* subnormal half, or zero */
    uint32_t shift = 126u - (mag >> 23);
    if (shift > 24u) return (uint16_t)sign;
    uint32_t m = (mag & 0x7fffffu) | 0x800000u;
    uint32_t half = m >> shift, rest = m & ((1u << shift) - 1u), mid = 1u << (shift - 1u);
    if (rest > mid || (rest == mid && (half & 1u))) half++;
    return (uint16_t)(sign | half);
  }
  uint32_t h = mag - 0x38000000u;
  return (uint16_t)(sign | ((h + 0xfffu + ((h >> 13) & 1u)) >> 13));
}

float f16_to_float(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exp = (bits >> 10) & 31u, man = bits & 0x3ffu, u;
  if (exp == 31) u = sign | 0x7f800000u | (man << 13);
  else if (exp) u = sign | ((exp + 112u) << 23) | (man << 13);
  else {
    float v = (float)man * 0x1p-24f;
    return sign ? -v : v;
  }
  float v;
  memcpy(&v, &u, 4);
  return v;
}

double dtype_load_f(DType t, const void *p) {
  float f;
  double d;
  uint16_t h;
  if (dtype_is_small_float(t)) return small_float_load(t, *(const uint8_t *)p);
  switch (t) {
    case DT_f32: memcpy(&f, p, 4); return (double)f;
    case DT_f64: memcpy(&d, p, 8); return d;
    case DT_f16: memcpy(&h, p, 2); return (double)f16_to_float(h);
    case DT_bf16: memcpy(&h, p, 2); return (double)bf16_to_float(h);
    case DT_u64: return (double)(uint64_t)dtype_load_i(t, p);
    default: return (double)dtype_load_i(t, p);
  }
}

/* Rounds `v` to a float, to odd: the last bit is sticky, so that rounding on to 16 bits rounds only once (Boldo and
 * Melquiond, "When double rounding is odd", 2005). */
static float float_to_odd(double v) {
  float f = (float)v;
  uint32_t u;
  if ((double)f == v || isnan(v) || isinf(f)) return f;
  memcpy(&u, &f, 4);
  if (fabs((double)f) > fabs(v)) u--; /* toward zero first */
  u |= 1u;
  memcpy(&f, &u, 4);
  return f;
}

static int64_t saturated_i64(double v) {
  if (isnan(v)) return 0;
  return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

static int64_t saturated_u64(double v) {
  if (!(v >= 0x1p63)) return saturated_i64(v);
  return (int64_t)(v >= 0x1p64 ? UINT64_MAX : (uint64_t)v);
}

void dtype_store_f(DType t, void *p, double v) {
  float f;
  uint16_t h;
  switch (t) {
    case DT_f32:
      f = (float)v;
      memcpy(p, &f, 4);
      return;
    case DT_f64: memcpy(p, &v, 8); return;
    case DT_f16:
      h = f16_from_float(float_to_odd(v));
      memcpy(p, &h, 2);
      return;
    case DT_bf16:
      h = bf16_from_float(float_to_odd(v));
      memcpy(p, &h, 2);
      return;
    case DT_bool: dtype_store_i(t, p, v != 0); return;
    case DT_u64: dtype_store_i(t, p, saturated_u64(v)); return;
    case DT_f8e4m3fn:
    case DT_f8e4m3fnuz:
    case DT_f8e5m2:
    case DT_f8e5m2fnuz:
    case DT_f8e8m0:
    case DT_f4e2m1: *(uint8_t *)p = small_float_store(t, v); return;
    default: dtype_store_i(t, p, saturated_i64(v)); return;
  }
}

int64_t dtype_load_i(DType t, const void *p) {
  union {
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
  } v;
  v.i64 = 0;
  if (dtype_is_float(t)) return saturated_i64(dtype_load_f(t, p));
  memcpy(&v, p, rows[t].bytes);
  switch (t) {
    case DT_i8: return v.i8;
    case DT_i16: return v.i16;
    case DT_i32: return v.i32;
    case DT_u8: return v.u8;
    case DT_u16: return v.u16;
    case DT_u32: return v.u32;
    case DT_bool: return v.u8 != 0;
    case DT_i4: return (v.u8 & 15) - (v.u8 << 1 & 16);
    case DT_i2: return (v.u8 & 3) - (v.u8 << 1 & 4);
    case DT_u4: return v.u8 & 15;
    case DT_u2: return v.u8 & 3;
    default: return v.i64;
  }
}

void dtype_store_i(DType t, void *p, int64_t v) {
  if (dtype_is_float(t)) {
    dtype_store_f(t, p, (double)v);
    return;
  }
  if (t == DT_bool) v = v != 0;
  if (rows[t].bits < 8) v &= (1 << rows[t].bits) - 1;
  memcpy(p, &v, rows[t].bytes); /* little-endian hosts only: the low bytes are the wrapped value */
}

int64_t dtype_constant_i(DType t, double v) {
  unsigned char element[8] = {0};
  bool is_signed = rows[t].class == DTC_I;
  int bits = rows[t].bits;
  if (t == DT_bool || !isinf(v)) dtype_store_f(t, element, v);
  else if (is_signed) dtype_store_i(t, element, v < 0 ? INT64_MIN >> (64 - bits) : INT64_MAX >> (64 - bits));
  else dtype_store_i(t, element, v < 0 ? 0 : -1);
  return dtype_load_i(t, element);
}
