/* tests/onnx_run.h - runs a graph of tests/onnx_graph.h in the interpreter.
 *
 * start(operator set); given(...) for each input; the nodes; RUNS(); GIVES(output, numbers).
 */
#ifndef APC_TESTS_ONNX_RUN_H
#define APC_TESTS_ONNX_RUN_H

#include "ir/run/interp.h"
#include "tests/onnx_graph.h"

static InterpNamed data[8];
static int ndata;
static InterpResult result;

static inline void start(int64_t set) {
  begin();
  opset = set;
  ndata = 0;
}

/* An input of the graph with its numbers, separated by commas. */
static inline void given(const char *name, int32_t type, const char *dims, const char *numbers) {
  InterpNamed *item = &data[ndata++];
  int64_t extents[MAX_RANK] = {0};
  size_t rank, n;
  char **d = list_of(dims, &rank), **v = list_of(numbers, &n);
  for (size_t i = 0; i < rank; i++) extents[i] = atoll(d[i]);
  item->name = name;
  DType dtype;
  CHECK(onnx_dtype(type, &dtype));
  item->tensor = interp_tensor(arena, dtype, (int)rank, extents);
  for (size_t i = 0; i < n; i++) {
    if (dtype_is_float(dtype)) item->tensor.cells[i].f = atof(v[i]);
    else item->tensor.cells[i].i = atoll(v[i]);
  }
  in(name, type, dims);
}

static inline bool run(void) {
  if (!import()) {
    diags_print(diags, stderr, false);
    return false;
  }
  bool ok = interp_run(module, module_func(module, "main"), &(InterpOptions){0}, ndata, data, arena, &result, diags);
  if (!ok) diags_print(diags, stderr, false);
  return ok;
}

static inline const char *numbers_of(const char *output) {
  const InterpTensor *t = interp_find(result.outputs, result.noutputs, output);
  Text text = {.arena = arena};
  for (int64_t i = 0; t && i < interp_elements(t); i++)
    text_printf(&text, "%s%g", i ? "," : "", dtype_is_float(t->dtype) ? t->cells[i].f : (double)t->cells[i].i);
  return text.n ? text_str(&text) : "nothing";
}

#define GIVES(output, numbers) \
  CHECKF(strcmp(numbers_of(output), numbers) == 0, "%s is %s, not %s", output, numbers_of(output), numbers)
#define RUNS() \
  do { \
    if (!run()) { \
      CHECKF(false, "it is refused"); \
      return; \
    } \
  } while (0)

#endif
