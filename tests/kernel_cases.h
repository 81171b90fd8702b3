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

/* Compiles texts [from, to) as one file with one prelude, since the prelude takes most of the time. */
static bool compile(const char **texts, size_t from, size_t to, const char *object, const char *words) {
  const char *source = temp_path("kernels.c");
  char command[12000];
  snprintf(command, sizeof command, "cc -DPARALLEL_WORK=256 %s %s %s -c %s -o %s", UNITS_CFLAGS, SANITIZED ? "-O1" : "",
           words, source, object);
  FILE *f = fopen(source, "w");
  if (!f) return false;
  for (size_t i = from; i < to; i++) fputs(i == from ? texts[i] : texts[i] + strlen(kernel_prelude), f);
  fclose(f);
  return system(command) == 0;
}

/* The CPU kernels of all cases, compiled with some more words for the machine of this number; threads share even small
 * loops. */
static __attribute__((unused)) void *compile_c(int machine, const char *words) {
  enum { TOGETHER = 16 };
  char object[4500], library[4500], command[12000];
  size_t n;
  const char **texts = kernel_target(target_device_traits(DEVICE_cpu))->texts(&kernels, &n);
  for (size_t i = 0; i < n; i += TOGETHER) {
    snprintf(object, sizeof object, "%s/k%d-%zu.o", temp_root(), machine, i);
    if (!compile(texts, i, i + TOGETHER < n ? i + TOGETHER : n, object, words)) return NULL;
  }
  snprintf(library, sizeof library, "%s/k%d.so", temp_root(), machine);
  snprintf(command, sizeof command, "cc -shared -fopenmp %s/k%d-*.o -o %s -lm", temp_root(), machine, library);
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
  RUN(positions_of_rows);
  RUN(dots);
  RUN(windows);
  RUN(equal_lines);
  RUN(indexing);
  RUN(pointwise);
  RUN(stored_types);
  RUN(random_graphs);
}

#endif
