/* bench/joined.c - the gain of two ways to compute products jointly: with each other, or with the kernel that follows.
 *
 * usage: bench_joined THREADS [ROUNDS]     (for two threads set OMP_WAIT_POLICY=active: libgomp's sleep otherwise)
 *
 * Both with weights in panels, from memory: copies of 200 MB in all are used in turn.
 *
 *   - Products with the same A: three of m x k x n, one after the other, against one of m x k x 3n.
 *   - A product followed by gelu (by erf) of all results, or two products followed by silu(gate) up: each thread
 *     multiplies all its rows and then passes over them, against a pass over each block of 54 rows right after its
 *     product, while it is in the second-level cache.  Also the kernel alone, on data that is in no cache of the core.
 *
 * Rounds alternate between the ways.  Prints medians and ratios as Markdown; stops if results differ in any bit.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "codegen/cpu/c_compiler.h"
#include "codegen/target.h"
#include "runtime/device/gemm_panels.h"
#include "runtime/device/onednn.h"
#include "runtime/device/openmp.h"

typedef struct Shape {
  int64_t m, k, n;
} Shape;
typedef void (*RowKernel)(void *const *, const int64_t *);
enum { ROUNDS_MOST = 4000, WEIGHT_BYTES = 200000000, BLOCK = 54 };

static PanelThreads threads;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *what) {
  fprintf(stderr, "bench_joined: %s\n", what);
  exit(1);
}

static float *numbers(int64_t n) {
  float *x = aligned_alloc(64, ((size_t)n * sizeof(float) + 63) / 64 * 64);
  if (!x) fail("out of memory");
  for (int64_t i = 0; i < n; i++) x[i] = (float)(i * 7919 % 251) / 2500 - 0.05f;
  return x;
}

static int by_time(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *t, int n) {
  qsort(t, (size_t)n, sizeof *t, by_time);
  return t[n / 2] * 1e6;
}

/* ---- kernels in the form of compiled programs: after their prelude, compiled alike */

static const char texts[] =
    "#define KERNEL(name, compute) \\\n"
    "  void name(void *const *ptr, const int64_t *x) { \\\n"
    "    const float *const p0 = ptr[0], *const p1 = ptr[1]; \\\n"
    "    float *const p2 = ptr[2]; \\\n"
    "    const int64_t n = x[0], pieces = (n + 16383) / 16384; \\\n"
    "    _Pragma(\"omp parallel for schedule(static)\") \\\n"
    "    for (int64_t piece = 0; piece < pieces; piece++) { \\\n"
    "      const int64_t from = piece * 16384, to = n - from < 16384 ? n : from + 16384; \\\n"
    "      _Pragma(\"GCC ivdep\") \\\n"
    "      for (int64_t i = from; i < to; i++) { \\\n"
    "        const float a = load_f32(p0 + i); \\\n"
    "        store_f32(p2 + i, compute); \\\n"
    "      } \\\n"
    "    } \\\n"
    "  }\n"
    "KERNEL(gelu, mul_f32(mul_f32(a, 0.5f), add_f32(erf_f32(mul_f32(a, 0x1.6a09e6p-1f)), 1.0f)))\n"
    "KERNEL(silu_up, mul_f32(mul_f32(a, sigmoid_f32(a)), load_f32(p1 + i)))\n";

static void *compile(void) {
  char folder[] = "/tmp/bench-joined-XXXXXX", command[1000], path[100];
  if (!mkdtemp(folder)) fail("no folder");
  snprintf(path, sizeof path, "%s/k.c", folder);
  FILE *f = fopen(path, "w");
  for (const char *const *p = kernel_target(target_device_traits(DEVICE_cpu))->prelude; f && *p; p++) fputs(*p, f);
  if (!f || fputs(texts, f) < 0 || fclose(f)) fail("the kernels cannot be written");
  snprintf(command, sizeof command, "cc %s %s -o %s/k.so -lm", UNITS_CFLAGS, path, folder);
  if (system(command) != 0) fail("the kernels cannot be compiled");
  snprintf(path, sizeof path, "%s/k.so", folder);
  void *library = dlopen(path, RTLD_NOW);
  snprintf(command, sizeof command, "rm -r %s", folder);
  if (system(command) != 0 || !library) fail("the kernels cannot be loaded");
  return library;
}

static void find(void *library, const char *name, void *to) {
  void *address = library ? dlsym(library, name) : openmp_symbol(name);
  if (!address) fail(name);
  memcpy(to, &address, sizeof address);
}

/* ---- products */

/* Columns [0, n) of C, whose rows are c_m apart; B is `n` columns of the panels at b. */
static void product(const Shape *s, int64_t rows, int64_t n, const float *a, const float *b, float *c,
                    const PanelThreads *by) {
  GemmCall g = {.m = rows, .n = n, .k = s->k, .a_m = s->k, .a_k = 1, .b_n = 1, .b_panel = s->k * PROGRAM_PANEL};
  g.c_m = n, g.c_n = 1;
  gemm_panels(&(PanelProduct){&g, a, b, NULL, c}, by);
}

/* Three products, or one with three times the columns. */
static void bench_same_a(const Shape *s, int rounds) {
  static double took[2][ROUNDS_MOST];
  int64_t one = s->k * s->n, copies = WEIGHT_BYTES / 12 / one + 1, next = 0;
  float *a = numbers(s->m * s->k), *b = numbers(3 * one * copies), *c = numbers(3 * s->m * s->n),
        *d = numbers(3 * s->m * s->n);
  for (int r = 0; r < rounds; r++)
    for (int side = 0; side < 2; side++) {
      const float *from = b + next++ % copies * 3 * one;
      double begin = now();
      if (side) product(s, s->m, 3 * s->n, a, from, d, &threads);
      else
        for (int64_t i = 0; i < 3; i++) product(s, s->m, s->n, a, from + i * one, c + i * s->m * s->n, &threads);
      took[side][r] = now() - begin;
    }
  for (int i = 0; i < 3; i++) product(s, s->m, s->n, a, b + i * one, c + i * s->m * s->n, &threads);
  product(s, s->m, 3 * s->n, a, b, d, &threads);
  for (int64_t r = 0; r < s->m; r++)
    for (int i = 0; i < 3; i++)
      if (memcmp(c + (i * s->m + r) * s->n, d + (3 * r + i) * s->n, (size_t)s->n * sizeof *c) != 0)
        fail("the results differ");
  double apart = median(took[0], rounds), joined = median(took[1], rounds);
  printf("| 3 of %lld x %lld x %lld | %.0f | %.0f | %.3f |\n", (long long)s->m, (long long)s->k, (long long)s->n, apart,
         joined, apart / joined);
  free(a), free(b), free(c), free(d);
}

/* ---- a kernel after one product, or two */

typedef struct Behind {
  const Shape *s;
  int products;
  RowKernel kernel;
  bool by_blocks;
  const float *a, *b;
  float *c[2], *y;
} Behind;

static void kernel_on(const Behind *p, int64_t row, int64_t rows) {
  int64_t at = row * p->s->n, n = rows * p->s->n;
  p->kernel((void *const[]){p->c[0] + at, p->c[p->products - 1] + at, p->y + at}, &n);
}

/* A nested parallel region has one thread. */
static void my_rows(void *data) {
  const Behind *p = data;
  const Shape *s = p->s;
  int64_t t = threads.number(), row = t * s->m / threads.n, end = (t + 1) * s->m / threads.n;
  int64_t n = (end - row + BLOCK - 1) / BLOCK;
  for (int64_t i = 0; i < n; i++) {
    int64_t from = row + i * (end - row) / n, rows = row + (i + 1) * (end - row) / n - from;
    for (int k = 0; k < p->products; k++)
      product(s, rows, s->n, p->a + from * s->k, p->b + k * s->k * s->n, p->c[k] + from * s->n, NULL);
    if (p->by_blocks) kernel_on(p, from, rows);
  }
  if (!p->by_blocks) kernel_on(p, row, end - row);
}

static void bench_behind(const Shape *s, int products, const char *what, RowKernel kernel, int rounds) {
  static double took[3][ROUNDS_MOST];
  int64_t each = products * s->k * s->n, copies = WEIGHT_BYTES / 4 / each + 1, next = 0, size = s->m * s->n;
  float *a = numbers(s->m * s->k), *b = numbers(each * copies), *y[2] = {numbers(size), numbers(size)};
  Behind p = {.s = s, .products = products, .kernel = kernel, .a = a, .c = {numbers(size), numbers(size)}};
  for (int r = 0; r < rounds; r++) {
    for (int side = 0; side < 2; side++) {
      p.b = b + next++ % copies * each, p.by_blocks = side, p.y = y[side];
      double begin = now();
      threads.parallel(my_rows, &p, (unsigned)threads.n, 0);
      took[side][r] = now() - begin;
    }
    double begin = now();
    kernel_on(&p, 0, s->m);
    took[2][r] = now() - begin;
  }
  for (int side = 0; side < 2; side++) {
    p.b = b, p.by_blocks = side, p.y = y[side];
    threads.parallel(my_rows, &p, (unsigned)threads.n, 0);
  }
  if (memcmp(y[0], y[1], (size_t)size * sizeof *a) != 0) fail("the results differ");
  double whole = median(took[0], rounds), blocks = median(took[1], rounds);
  printf("| %d of %lld x %lld x %lld, %s | %.0f | %.0f | %.3f | %.0f |\n", products, (long long)s->m, (long long)s->k,
         (long long)s->n, what, whole, blocks, whole / blocks, median(took[2], rounds));
  free(a), free(b), free(y[0]), free(y[1]), free(p.c[0]), free(p.c[1]);
}

int main(int argc, char **argv) {
  static const int64_t sizes[][2] = {{768, 768}, {1024, 1024}, {1024, 2816}}, rows[] = {1, 16, 128, 512};
  int n = argc > 1 ? atoi(argv[1]) : 0, rounds = argc > 2 ? atoi(argv[2]) : 50;
  RtError error = {0};
  RowKernel gelu, silu_up;
  if (n < 1 || rounds < 2 || 4 * rounds > ROUNDS_MOST) fail("usage: bench_joined THREADS [ROUNDS]");
  if (onednn_open(&error) != RT_OK) fail(error.text);
  onednn_set_threads(n);
  find(NULL, "GOMP_parallel", &threads.parallel);
  find(NULL, "omp_get_thread_num", &threads.number);
  threads.n = n;
  void *library = compile();
  find(library, "gelu", &gelu);
  find(library, "silu_up", &silu_up);
  printf("%d threads, us\n\n| same A | one by one | together | ratio |\n| --- | --- | --- | --- |\n", n);
  for (int i = 0; i < 12; i++)
    bench_same_a(&(Shape){rows[i % 4], sizes[i / 4][0], sizes[i / 4][1]}, i % 4 < 2 ? 4 * rounds : rounds);
  printf("\n| kernel after | of all rows | of blocks | ratio | kernel alone |\n| --- | --- | --- | --- | --- |\n");
  for (int i = 2; i < 4; i++) bench_behind(&(Shape){rows[i], 768, 3072}, 1, "gelu", gelu, rounds);
  for (int i = 2; i < 4; i++) bench_behind(&(Shape){rows[i], 1024, 2816}, 2, "silu up", silu_up, rounds);
  return 0;
}
