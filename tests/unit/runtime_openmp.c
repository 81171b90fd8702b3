/* Libraries that need more of OpenMP than compiled programs provide are refused (runtime/device/openmp.h).  Linked like
 * the stub: this program exports the names in runtime/stub/threads.list. */
#include <dlfcn.h>

#include "runtime/device/openmp.h"
#include "runtime/stub/threads.c"
#include "tests/temp.h"
#include "tests/test.h"

static void *library(const char *name, const char *body) {
  char *source = strdup(temp_path(name)), command[9200];
  FILE *f = fopen(source, "w");
  fprintf(f,
          "int omp_get_thread_num(void);\nvoid work(int *x, int n) {\n%s\n  for (int i = 0; i < n; i++) x[i] = "
          "omp_get_thread_num();\n}\n",
          body);
  fclose(f);
  snprintf(command, sizeof command, "cc -x c -shared -fPIC -fopenmp -O1 '%s' -o '%s.so'", source, source);
  CHECK(system(command) == 0);
  snprintf(command, sizeof command, "%s.so", source);
  void *handle = dlopen(command, RTLD_NOW | RTLD_LOCAL);
  CHECKF(handle != NULL, "%s", dlerror());
  free(source);
  return handle;
}

static void test_ours_is_enough(void) {
  RtError error = {0};
  void *l = library("static.c", "#pragma omp parallel for schedule(static)");
  CHECK(openmp_check(l, "static.c", &error) == RT_OK);
  CHECK(openmp_symbol("GOMP_parallel") == (void *)GOMP_parallel);
}

static void test_more_is_refused(void) {
  RtError error = {0};
  void *l = library("dynamic.c", "#pragma omp parallel for schedule(dynamic)");
  CHECK(openmp_check(l, "dynamic.c", &error) == RT_UNSUPPORTED);
  CHECKF(strstr(error.text, "dynamic.c needs GOMP_") != NULL, "%s", error.text);
}

int main(void) {
  RUN(test_ours_is_enough);
  RUN(test_more_is_refused);
  return test_summary();
}
