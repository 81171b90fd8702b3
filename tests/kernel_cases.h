/* tests/kernel_cases.h - shared by the tests of generated kernels: units of every operation and of random fused graphs
 * (kernel_texts.h, kernel_graphs.h), how they are run and compared (kernel_case.h), and the CPU kernels of all
 * cases. */
#ifndef APC_TESTS_KERNEL_CASES_H
#define APC_TESTS_KERNEL_CASES_H

#include "tests/kernel_graphs.h"
#include "tests/kernel_texts.h"

/* ---- running */

/* A CPU kernel of the library. */
static __attribute__((unused)) void call_c(const Runner *r, const Case *c, const Unit *u, void *const *ptr,
                                           bool share) {
  (void)share;
  int64_t x[256];
  void (*kernel)(void *const *, const int64_t *) = NULL;
  *(void **)&kernel = dlsym(r->library, symbol_of(u));
  CHECKF(kernel != NULL, "%s", symbol_of(u));
  if (!kernel) return;
  for (int i = 0; i < u->nscalars; i++) x[i] = value_of(c, u->scalars[i]);
  kernel(ptr, x);
}

static void *load_library(const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) fprintf(stderr, "%s\n", dlerror());
  return handle;
}

/* Compiles texts [from, to) as one file with one prelude, since the prelude takes most of the time.  The words of
 * KERNEL_CFLAGS come last, to test what machines with other vectors run: -mno-avx512f. */
static bool compile(const char **texts, size_t from, size_t to, size_t number) {
  const char *source = temp_path("kernels.c");
  const char *more = getenv("KERNEL_CFLAGS");
  char command[12000];
  snprintf(command, sizeof command, "cc -DPARALLEL_WORK=256 %s %s %s -c %s -o %s/k%zu.o", UNITS_CFLAGS,
           SANITIZED ? "-O1" : "", more ? more : "", source, temp_root(), number);
  FILE *f = fopen(source, "w");
  if (!f) return false;
  for (size_t i = from; i < to; i++) fputs(i == from ? texts[i] : texts[i] + strlen(kernel_prelude), f);
  fclose(f);
  return system(command) == 0;
}

/* The CPU kernels of all cases; threads share even small loops. */
static __attribute__((unused)) void *compile_c(void) {
  enum { TOGETHER = 16 };
  char library[4500], command[12000];
  size_t n;
  const char **texts = kernel_target(target_device_traits(DEVICE_cpu))->texts(&kernels, &n);
  for (size_t i = 0; i < n; i += TOGETHER)
    if (!compile(texts, i, i + TOGETHER < n ? i + TOGETHER : n, i)) return NULL;
  snprintf(library, sizeof library, "%s/k.so", temp_root());
  snprintf(command, sizeof command, "cc -shared -fopenmp %s/k*.o -o %s -lm", temp_root(), library);
  setenv("OMP_WAIT_POLICY", "passive", 1); /* as ranks set it; read when the OpenMP library is loaded */
  return system(command) == 0 ? load_library(library) : NULL;
}

static void make_cases(void) {
  kernels.arena = others.arena = arena_new();
  RUN(reductions);
  RUN(parts);
  RUN(rows);
  RUN(moves);
  RUN(attentions);
  RUN(long_attentions);
  RUN(tiled_attentions);
  RUN(attention_gradients);
  RUN(masked_attentions);
  RUN(dots);
  RUN(windows);
  RUN(equal_lines);
  RUN(indexing);
  RUN(pointwise);
  RUN(random_graphs);
}

#endif
