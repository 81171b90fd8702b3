/* base/whole.c - see whole.h. */
#include "base/whole.h"

#include <math.h>

static bool is_integer(DType t) { return dtype_class(t) == DTC_I || dtype_class(t) == DTC_U; }

static const void *element_of(const Tensor *t, int64_t element) {
  return (const char *)t->data + (size_t)element * dtype_bytes(t->dtype);
}

bool whole_may_be(DType from, DType to) { return from == to || (is_integer(to) && from != DT_bool); }

bool whole_number(const Tensor *t, int64_t element, DType to, int64_t *out) {
  const void *at = element_of(t, element);
  char stored[8];
  if (dtype_is_float(t->dtype)) {
    double x = dtype_load_f(t->dtype, at);
    if (!(fabs(x) < 0x1p63) || x != rint(x)) return false;
    *out = (int64_t)x;
  } else {
    *out = dtype_load_i(t->dtype, at);
    if (t->dtype == DT_u64 && to != DT_u64 && *out < 0) return false;
  }
  dtype_store_i(to, stored, *out);
  bool wraps = to == DT_u64 && t->dtype != DT_u64 && *out < 0;
  return !wraps && dtype_load_i(to, stored) == *out;
}

int64_t whole_first_other(const Tensor *t, DType to) {
  for (int64_t i = 0, n = tensor_elements(t), v; i < n; i++)
    if (!whole_number(t, i, to, &v)) return i;
  return -1;
}

bool whole_convert(const Tensor *t, DType to, Tensor *out) {
  if (!tensor_alloc(out, to, t->rank, t->dims)) return false;
  for (int64_t i = 0, n = tensor_elements(t), v = 0; i < n; i++) {
    whole_number(t, i, to, &v);
    dtype_store_i(to, (char *)out->data + (size_t)i * dtype_bytes(to), v);
  }
  return true;
}
