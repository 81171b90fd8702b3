/* tests/unit/program_gemm.c - matrix products of every stride pattern against a plain loop. */
#include <math.h>
#include <stdlib.h>

#include "base/compare.h"
#include "runtime/gemm_dnnl.h"
#include "tests/test.h"

static uint32_t seed = 1;
static int64_t below(int64_t n) {
  seed = seed * 1664525u + 1013904223u;
  return (int64_t)(((uint64_t)seed * (uint64_t)n) >> 32);
}

static void plain(const GemmCall *g, float *c) {
  int64_t total = 1;
  for (int i = 0; i < g->loops; i++) total *= g->extent[i];
  for (int64_t index = 0; index < total; index++) {
    int64_t a = 0, b = 0, out = 0, rest = index;
    for (int i = g->loops; i-- > 0; rest /= g->extent[i]) {
      int64_t at = rest % g->extent[i];
      a += at * g->a_step[i], b += at * g->b_step[i], out += at * g->c_step[i];
    }
    for (int64_t i = 0; i < g->m; i++)
      for (int64_t j = 0; j < g->n; j++) {
        float *to = &c[out + i * g->c_m + j * g->c_n];
        double sum = g->accumulate ? (double)*to : 0;
        for (int64_t l = 0; l < g->k; l++)
          sum += (double)g->a[a + i * g->a_m + l * g->a_k] * (double)g->b[b + l * g->b_k + j * g->b_n];
        *to = (float)sum;
      }
  }
}

/* Row-major or column-major with room to spare; the room of one matrix is returned. */
static int64_t strides(int64_t rows, int64_t columns, int64_t *row, int64_t *column) {
  int64_t pad = below(3);
  bool by_rows = below(2);
  *row = by_rows ? columns + pad : 1;
  *column = by_rows ? 1 : rows + pad;
  return by_rows ? rows * (columns + pad) : columns * (rows + pad);
}

static void products(void) {
  static float a[50000], b[50000], c[50000], want[50000];
  for (int i = 0; i < 50000; i++) a[i] = (float)(below(2001) - 1000) / 500, b[i] = (float)(below(2001) - 1000) / 500;
  for (int trial = 0; trial < 600; trial++) {
    GemmCall g = {.m = below(4) ? below(20) : 1, .n = below(4) ? below(20) : 1, .k = below(9) ? below(30) : 0,
                  .accumulate = below(2), .loops = (int)below(4), .a = a, .b = b, .c = c};
    int64_t a_room = strides(g.m, g.k, &g.a_m, &g.a_k), b_room = strides(g.k, g.n, &g.b_k, &g.b_n);
    int64_t c_room = strides(g.m, g.n, &g.c_m, &g.c_n);
    for (int i = g.loops; i-- > 0;) {
      g.extent[i] = below(5);
      g.a_step[i] = below(3) ? a_room : 0; /* one A for all */
      g.b_step[i] = b_room;
      g.c_step[i] = c_room;
      a_room *= g.extent[i], b_room *= g.extent[i], c_room *= g.extent[i];
    }
    for (int i = 0; i < 50000; i++) c[i] = want[i] = (float)(i % 7);
    plain(&g, want);
    RtError error = {0};
    CHECKF(gemm_run(&g, &error) == RT_OK, "%s", error.text);
    double worst = 0;
    for (int i = 0; i < 50000; i++) worst = fmax(worst, number_gap((double)c[i], (double)want[i]));
    CHECKF(worst < 1e-4, "trial %d: m %d n %d k %d: %g", trial, (int)g.m, (int)g.n, (int)g.k, worst);
  }
}

static void without_unit_stride(void) {
  float a[64] = {0};
  GemmCall g = {.m = 2, .n = 2, .k = 2, .a_m = 4, .a_k = 2, .b_k = 2, .b_n = 1, .c_m = 2, .c_n = 1, .a = a, .b = a, .c = a};
  RtError error = {0};
  CHECK(gemm_run(&g, &error) == RT_INTERNAL);
}

int main(void) {
  RtError error = {0};
  if (gemm_open(&error) != RT_OK) {
    printf("%s\n", error.text);
    return 1;
  }
  RUN(products);
  RUN(without_unit_stride);
  return test_summary();
}
