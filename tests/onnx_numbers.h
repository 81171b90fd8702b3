/* tests/onnx_numbers.h - runs numbers through a graph of tests/onnx_graph.h: fill inputs, import and interpret,
   compare. */
#ifndef APC_TESTS_ONNX_NUMBERS_H
#define APC_TESTS_ONNX_NUMBERS_H

#include <math.h>

#include "ir/run/interp.h"
#include "tests/onnx_graph.h"

/* Numbers that do not repeat, in [low, high). */
static inline double number(int64_t i, double low, double high) {
  return low + (high - low) * fmod(0.5 + (double)i * 0.6180339887498949, 1);
}

/* An input of those numbers, or of the list. */
static inline InterpNamed filled(const char *name, int rank, const int64_t *dims, double low, double high,
                                 const double *list) {
  InterpNamed x = {name, interp_tensor(arena, DT_f32, rank, dims)};
  for (int64_t i = 0; i < interp_elements(&x.tensor); i++)
    x.tensor.cells[i].f = (double)(float)(list ? list[i] : number(i, low, high));
  return x;
}

/* Output `name`; NULL if the model is refused or does not run. */
static inline const InterpTensor *run(int n, const InterpNamed *list, const char *name) {
  InterpResult *result = ARENA_NEW(arena, InterpResult);
  bool ok =
      import() && interp_run(module, module_func(module, "main"),
                             &(InterpOptions){.symbols = interp_symbols(module, arena)}, n, list, arena, result, diags);
  CHECK(ok);
  if (!ok) diags_print(diags, stderr, false);
  return ok ? interp_find(result->outputs, result->noutputs, name) : NULL;
}

static inline void near(const char *what, const InterpTensor *got, int64_t n, const double *want) {
  if (!got) return;
  CHECKF(interp_elements(got) == n, "%s: %lld elements, not %lld", what, (long long)interp_elements(got), (long long)n);
  for (int64_t i = 0; i < n && i < interp_elements(got); i++) {
    double x = dtype_is_float(got->dtype) ? got->cells[i].f : (double)got->cells[i].i;
    if (fabs(x - want[i]) <= 2e-5 * (1 + fabs(want[i]))) continue;
    CHECKF(false, "%s: element %lld is %g, not %g", what, (long long)i, x, want[i]);
    return;
  }
}

#endif
