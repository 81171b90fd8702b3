/* tests/unit/program_inputs.c - inputs from files that only the host holds, in the I/O area: they keep their values in
 * requests of equal sizes, when others make them move, after another entry, and after the ranks have failed; and they
 * are in memory once. */
#include <malloc.h>
#include <stdlib.h>

#include "base/npy.h"
#include "tests/programs.h"

enum { SHORT = 400000, MIDDLE = 500000, LONG = 600000, KIB = 1024 };

static const char kernel_text[] =
    "#include <signal.h>\n#include <stdint.h>\n#include <unistd.h>\n"
    "void twice(void *const *t, const int64_t *n) {\n" /* 666 kills the rank */
    "  const float *told = t[0], *x = t[1];\n  float *y = t[2];\n"
    "  if (told[0] == 666) kill(getpid(), SIGKILL);\n"
    "  for (int64_t i = 0; i < n[0]; i++) y[i] = 2 * x[i];\n}\n";

/* Entry `both`: y = 2 a, z = 2 b; entry `one`: z = 2 b. */
static void add_entry(Make *m, const char *name, bool both, uint32_t n, uint32_t k) {
  uint32_t zero = make_number(m, 0), one = make_number(m, 1);
  make_port(m, "told", DT_f32, MAKE_LIST(m, one));
  if (both) make_port(m, "a", DT_f32, MAKE_LIST(m, n));
  make_port(m, "b", DT_f32, MAKE_LIST(m, k));
  if (both) make_port(m, "y", DT_f32, MAKE_LIST(m, n));
  make_port(m, "z", DT_f32, MAKE_LIST(m, k));
  make_entry(m, name, both ? 3 : 2, both ? 2 : 1);
  make_begin(m, 0);
  uint32_t told = make_tensor(m, PC_input, DT_f32, 1, MAKE_LIST(m, one));
  make_io(m, PI_feed, 0, told, 0, MAKE_LIST(m, zero));
  for (uint32_t i = 0; i < (both ? 2 : 1); i++) {
    uint32_t size = both && i == 0 ? n : k;
    uint32_t x = make_tensor(m, PC_input, DT_f32, 1, MAKE_LIST(m, size)),
             y = make_tensor(m, PC_output, DT_f32, 1, MAKE_LIST(m, size));
    make_io(m, PI_feed, 1 + i, x, 0, MAKE_LIST(m, zero));
    make_launch(m, "twice", MAKE_LIST(m, told, x, y), MAKE_LIST(m, size));
    program_at_instrs(m->b, program_count_instrs(m->b) - 1)->dim = 1; /* only y is written */
    make_io(m, PI_fetch, i, y, 0, MAKE_LIST(m, zero));
  }
  make_call(m, 0, make_end(m, name), 0);
  make_schedules(m);
}

static ApcModel *load(void) {
  Make m = make_new(1);
  uint32_t n = make_symbol(&m, "n", LONG, SHORT), k = make_symbol(&m, "k", LONG, SHORT);
  add_entry(&m, "both", true, n, k);
  add_entry(&m, "one", false, n, k);
  m.kernels = kernel_text;
  return make_load(make_artifact(&m, "inputs"));
}

static float value(int which, int64_t i) { return (float)((i * 7 + which) % 1009 - 504); }

static void bind(ApcModel *m, const char *name, int which, int64_t n) {
  Diags *d = diags_new(arena_new());
  Tensor t;
  char text[5000];
  CHECK(tensor_alloc(&t, DT_f32, 1, &n));
  for (int64_t i = 0; i < n; i++) ((float *)t.data)[i] = value(which, i);
  const char *path = temp_path("input.npy");
  CHECK(npy_write(d, path, &t));
  tensor_free(&t);
  arena_free(d->arena);
  snprintf(text, sizeof text, "@%s", path);
  OK(apc_bind_input_text(m, name, text));
}

static void tell(ApcModel *m, float what) {
  static float told;
  told = what;
  OK(apc_bind_input(m, "told", APC_F32, 1, (int64_t[]){1}, &told));
}

static void check_output(ApcModel *m, const char *name, int which, int64_t n) {
  const void *data;
  size_t bytes;
  int rank;
  int64_t dims[APC_MAX_RANK], wrong = 0;
  OK(apc_output_shape(m, name, &rank, dims, &bytes));
  OK(apc_output_data(m, name, &data));
  CHECK(rank == 1 && dims[0] == n);
  for (int64_t i = 0; i < n && dims[0] == n; i++) wrong += ((const float *)data)[i] != 2 * value(which, i);
  CHECKF(wrong == 0, "%s: %lld of %lld", name, (long long)wrong, (long long)n);
}

static void check_run(ApcModel *m, const char *entry, int a, int64_t n, int b, int64_t k) {
  OK(apc_run(m, entry));
  if (n) check_output(m, "y", a, n);
  check_output(m, "z", b, k);
}

static void test_values(void) {
  ApcModel *m = load();
  tell(m, 0);
  bind(m, "a", 1, SHORT);
  bind(m, "b", 2, MIDDLE);
  for (int i = 0; i < 2; i++) check_run(m, "both", 1, SHORT, 2, MIDDLE);
  bind(m, "a", 3, LONG); /* b moves, to the old z's place */
  check_run(m, "both", 3, LONG, 2, MIDDLE);
  bind(m, "b", 4, LONG);
  check_run(m, "both", 3, LONG, 4, LONG);
  check_run(m, "one", 0, 0, 4, LONG); /* b is where a was */
  check_run(m, "both", 3, LONG, 4, LONG);
  tell(m, 666);
  CHECK(apc_run(m, "both") == APC_FAILED);
  tell(m, 0);
  for (int i = 0; i < 2; i++) check_run(m, "both", 3, LONG, 4, LONG);
  bind(m, "b", 5, SHORT); /* and back to a smaller layout */
  check_run(m, "both", 3, LONG, 5, SHORT);
  apc_close(m);
}

/* Of the host, without files and shared memory. */
static long private_kib(void) {
  char line[256];
  long kib = -1;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "RssAnon: %ld kB", &kib) == 1) break;
  if (f) fclose(f);
  return kib;
}

static void test_memory(void) {
  ApcModel *m = load();
  tell(m, 0);
  bind(m, "a", 1, LONG);
  bind(m, "b", 2, LONG);
  long bound = private_kib(), both = 2 * LONG * (long)sizeof(float) / KIB;
  check_run(m, "both", 1, LONG, 2, LONG);
  long after = private_kib();
  if (!SANITIZED && !THREAD_SANITIZER && bound > 0)
    CHECKF(bound - after > both / 2, "%ld KiB when bound, %ld after the run", bound, after);
  apc_close(m);
}

int main(void) {
  mallopt(M_MMAP_THRESHOLD, 128 * KIB); /* fixed: the allocator keeps no freed memory */
  RUN(test_memory);
  RUN(test_values);
  return test_summary();
}
