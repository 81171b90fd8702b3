/* tests/unit/program_gemm.c - matrix products of every stride pattern compared with a plain loop; by the kernels for
 * this processor, and by those for AVX2 if it has these (in a separate process: oneDNN asks once). */
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compare.h"
#include "runtime/device/gemm_dnnl.h"
#include "runtime/device/gemm_tiles.h"
#include "runtime/device/onednn.h"
#include "tests/activated.h"
#include "tests/test.h"

static uint32_t seed = 1;
static int64_t below(int64_t n) {
  seed = seed * 1664525u + 1013904223u;
  return (int64_t)(((uint64_t)seed * (uint64_t)n) >> 32);
}

/* The residual may be the contents of C. */
static double followed(const GemmCall *g, double sum, int64_t at, int64_t column, double old) {
  if (g->epilogue.bias) sum += (double)((const float *)g->bias)[column];
  if (g->epilogue.residual) sum += g->residual == g->c ? old : (double)((const float *)g->residual)[at];
  return activated(g->epilogue.activation, sum);
}

static void plain(const GemmCall *g, float *c) {
  const float *left = g->a, *right = g->b;
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
        int64_t at = out + i * g->c_m + j * g->c_n;
        double old = (double)c[at], sum = g->accumulate ? old : 0;
        for (int64_t l = 0; l < g->k; l++)
          sum += (double)left[a + i * g->a_m + l * g->a_k] * (double)right[b + l * g->b_k + j * g->b_n];
        c[at] = (float)followed(g, sum, at, j, old);
      }
  }
}

/* Row-major or column-major with room to spare; returns the room of one matrix. */
static int64_t strides(int64_t rows, int64_t columns, bool by_rows, int64_t *row, int64_t *column) {
  int64_t pad = below(3);
  *row = by_rows ? columns + pad : 1;
  *column = by_rows ? 1 : rows + pad;
  return by_rows ? rows * (columns + pad) : columns * (rows + pad);
}

enum { ROOM = 50000 };

/* The largest error of the result, including memory between its elements, against the plain loop; `want` has room for
   that one. */
static double worst_gap(const GemmCall *g, float *want) {
  float *c = g->c;
  for (int i = 0; i < ROOM; i++) c[i] = want[i] = (float)(i % 7);
  plain(g, want);
  RtError error = {0};
  CHECKF(gemm_run(g, &error) == RT_OK, "%s", error.text);
  double worst = 0;
  for (int i = 0; i < ROOM; i++) worst = fmax(worst, number_gap((double)c[i], (double)want[i]));
  return worst;
}

/* One product of random sizes, strides and batches, whose result is by rows if an epilogue follows. */
static void product(int trial, Epilogue epilogue, bool accumulate, bool in_place) {
  static float a[ROOM], b[ROOM], c[ROOM], want[ROOM], bias[20], residual[ROOM];
  for (int i = 0; i < ROOM; i++) {
    a[i] = (float)(below(2001) - 1000) / 500, b[i] = (float)(below(2001) - 1000) / 500;
    residual[i] = (float)(below(2001) - 1000) / 100;
  }
  for (int i = 0; i < 20; i++) bias[i] = (float)(below(2001) - 1000) / 100;
  GemmCall g = {.m = below(4) ? below(20) : 1,
                .n = below(4) ? below(20) : 1,
                .k = below(9) ? below(30) : 0,
                .accumulate = accumulate,
                .epilogue = epilogue,
                .loops = (int)below(4),
                .a = a,
                .b = b,
                .bias = bias,
                .residual = in_place ? c : residual,
                .c = c};
  int64_t a_room = strides(g.m, g.k, below(2), &g.a_m, &g.a_k), b_room = strides(g.k, g.n, below(2), &g.b_k, &g.b_n);
  int64_t c_room = strides(g.m, g.n, epilogue_any(epilogue) || below(2), &g.c_m, &g.c_n);
  for (int i = g.loops; i-- > 0;) {
    g.extent[i] = below(5);
    g.a_step[i] = below(3) ? a_room : 0; /* one A for all */
    g.b_step[i] = b_room;
    g.c_step[i] = c_room;
    a_room *= g.extent[i], b_room *= g.extent[i], c_room *= g.extent[i];
  }
  double worst = worst_gap(&g, want);
  CHECKF(worst < 1e-4, "trial %d: m %d n %d k %d, %s: %g", trial, (int)g.m, (int)g.n, (int)g.k,
         program_activation_name(epilogue.activation), worst);
}

static void products(void) {
  for (int trial = 0; trial < 300; trial++) product(trial, (Epilogue){0}, below(2), false);
}

/* One B for all products of a batch whose rows are in any order, those of A and of C: a loop may be longer than m, or
 * be one dimension with it. */
static void rows_in_loops(void) {
  static float a[ROOM], b[ROOM], c[ROOM], want[ROOM], residual[ROOM];
  for (int i = 0; i < ROOM; i++) a[i] = b[i] = (float)(below(2001) - 1000) / 500, residual[i] = a[i] + b[ROOM - 1 - i];
  for (int trial = 0; trial < 300; trial++) {
    int64_t extent[4] = {1 + below(4), 1 + below(5), 1 + below(6), below(9) ? 1 + below(9) : 0}, step[2][4];
    int64_t k = 1 + below(9), n = 1 + below(40);
    for (int t = 0; t < 2; t++) { /* rows of A, rows of C: the same dimensions, in different orders or not */
      int order[4] = {0, 1, 2, 3}, at[2] = {(int)below(4), (int)below(4)};
      int64_t so_far = t ? n + below(2) : k + below(2);
      if (trial % 3) order[at[0]] = at[1], order[at[1]] = at[0];
      for (int i = 4; i-- > 0; so_far *= extent[order[i]] ? extent[order[i]] : 1) step[t][order[i]] = so_far;
    }
    GemmCall g = {.m = extent[0],
                  .n = n,
                  .k = k,
                  .a_m = step[0][0],
                  .a_k = 1,
                  .b_k = n,
                  .b_n = 1,
                  .c_m = step[1][0],
                  .c_n = 1,
                  .accumulate = below(2),
                  .loops = 3,
                  .a = a,
                  .b = b,
                  .residual = residual,
                  .c = c};
    g.epilogue.residual = !g.accumulate && below(2);
    for (int i = 0; i < 3; i++) g.extent[i] = extent[i + 1], g.a_step[i] = step[0][i + 1], g.c_step[i] = step[1][i + 1];
    double worst = worst_gap(&g, want);
    CHECKF(worst < 1e-4, "trial %d: %g", trial, worst);
  }
}

/* All epilogues, with and without accumulation; also sizes of 0, of 1 and odd ones. */
static void products_and_what_follows(void) {
  for (int a = 0; a < ACT_COUNT; a++)
    for (int i = 0; i < 8; i++)
      for (int trial = 0; trial < 6; trial++) {
        Epilogue e = {.bias = i & 1, .residual = i >> 1 & 1, .activation = (Activation)a};
        product(trial, e, !e.residual && (i & 4), e.residual && (i & 4));
      }
}

/* Makes all rows of A, and all columns of B, equal. */
static void fill_equal(float *x, int64_t lines, int64_t k, int64_t line_step, int64_t k_step, const float *values) {
  for (int64_t i = 0; i < lines; i++)
    for (int64_t l = 0; l < k; l++) x[i * line_step + l * k_step] = values[l];
}

/* The place of an element in a tile, the tile in a block and the block among threads do not affect its bits. */
static void equal_lines_give_equal_bits(void) {
  static const struct {
    int64_t m, n, k;
  } sizes[] = {{1, 1000, 512}, {169, 1000, 512}, {7, 33, 700},  {1000, 1, 300},
               {64, 255, 90},  {13, 17, 1030},   {5, 600, 2500}};
  enum { LARGE = 1 << 22 };
  float *a = malloc(LARGE * sizeof *a), *b = malloc(LARGE * sizeof *b), *c = malloc(LARGE * sizeof *c), values[2][3000];
  for (int trial = 0; trial < 200; trial++) {
    bool listed = trial < 28;
    int64_t m = listed ? sizes[trial / 4].m : 1 + below(70),
            n = listed ? sizes[trial / 4].n : 1 + below(trial % 3 ? 70 : 400);
    int64_t k = listed ? sizes[trial / 4].k : 1 + below(600);
    bool a_rows = trial & 1, b_rows = trial >> 1 & 1;
    for (int l = 0; l < k; l++)
      values[0][l] = (float)(below(2001) - 1000) / 997, values[1][l] = (float)(below(2001) - 1000) / 991;
    GemmCall g = {.m = m,
                  .n = n,
                  .k = k,
                  .a_m = a_rows ? k : 1,
                  .a_k = a_rows ? 1 : m,
                  .b_k = b_rows ? n : 1,
                  .b_n = b_rows ? 1 : k,
                  .c_m = n,
                  .c_n = 1,
                  .a = a,
                  .b = b,
                  .c = c};
    fill_equal(a, m, k, g.a_m, g.a_k, values[0]);
    fill_equal(b, n, k, g.b_n, g.b_k, values[1]);
    RtError error = {0};
    CHECKF(gemm_run(&g, &error) == RT_OK, "%s", error.text);
    int64_t differ = 0;
    for (int64_t i = 0; i < m * n; i++) differ += c[i] != c[0];
    CHECKF(differ == 0, "%d x %d x %d, by %s and %s: %d elements differ", (int)m, (int)n, (int)k,
           a_rows ? "rows" : "columns", b_rows ? "rows" : "columns", (int)differ);
  }
  free(a), free(b), free(c);
}

/* ---- B in panels */

static float random_value(void) { return (float)(below(2001) - 1000) / 997; }

/* B as a matrix, by rows or by columns, and as panels. */
typedef struct Both {
  int64_t m, n, k;
  float *a, *b, *panels, *residual, bias[400];
} Both;

static Both both_new(int64_t m, int64_t n, int64_t k, bool by_rows) {
  int64_t width = (n + PROGRAM_PANEL - 1) / PROGRAM_PANEL * PROGRAM_PANEL;
  Both x = {.m = m, .n = n, .k = k};
  x.a = malloc((size_t)(m * k + 1) * sizeof *x.a), x.b = malloc((size_t)(k * n + 1) * sizeof *x.b);
  x.panels = malloc((size_t)(k * width + 1) * sizeof *x.panels);
  x.residual = malloc((size_t)(m * n + 1) * sizeof *x.residual);
  for (int64_t i = 0; i < m * k; i++) x.a[i] = random_value();
  for (int64_t i = 0; i < k * n; i++) x.b[i] = random_value();
  for (int64_t i = 0; i < m * n; i++) x.residual[i] = random_value();
  for (int64_t i = 0; i < n; i++) x.bias[i] = random_value();
  for (int64_t i = 0; i < k * width; i++) x.panels[i] = NAN; /* all of it is written */
  gemm_pack(DT_f32, x.b, (int64_t[]){k, n, by_rows ? n : 1, by_rows ? 1 : k}, x.panels, k * PROGRAM_PANEL);
  for (int64_t i = 0; i < k * width; i++) CHECK(!isnan(x.panels[i]));
  return x;
}

static void both_free(const Both *x) { free(x->a), free(x->b), free(x->panels), free(x->residual); }

static void sizes_in_panels(int64_t m, int64_t n, int64_t k, bool a_rows, Epilogue epilogue, bool accumulate,
                            bool in_place) {
  bool by_rows = below(2);
  Both x = both_new(m, n, k, by_rows);
  int64_t c_m = n + below(3), room = m * c_m;
  float *c = malloc((size_t)room * sizeof *c), *want = malloc((size_t)room * sizeof *want);
  for (int64_t i = 0; i < room; i++) c[i] = want[i] = (float)(i % 7);
  float *residual = malloc((size_t)room * sizeof *residual);
  for (int64_t i = 0; i < room; i++) residual[i] = x.residual[i % (m * n)];
  GemmCall g = {.m = m,
                .n = n,
                .k = k,
                .a_m = a_rows ? k : 1,
                .a_k = a_rows ? 1 : m,
                .b_k = by_rows ? n : 1,
                .b_n = by_rows ? 1 : k,
                .c_m = c_m,
                .c_n = 1,
                .accumulate = accumulate,
                .epilogue = epilogue,
                .a = x.a,
                .b = x.b,
                .bias = x.bias,
                .residual = in_place ? want : residual,
                .c = want};
  plain(&g, want);
  g.b = x.panels, g.panels = DT_f32, g.b_k = PROGRAM_PANEL, g.b_n = 1, g.b_panel = k * PROGRAM_PANEL, g.c = c;
  if (in_place) g.residual = c;
  RtError error = {0};
  CHECKF(gemm_run(&g, &error) == RT_OK, "%s", error.text);
  double worst = 0;
  for (int64_t i = 0; i < room; i++) worst = fmax(worst, number_gap((double)c[i], (double)want[i]));
  CHECKF(worst < 2e-4, "m %d n %d k %d, %s: %g", (int)m, (int)n, (int)k, program_activation_name(epilogue.activation),
         worst);
  both_free(&x);
  free(c), free(want), free(residual);
}

static void in_panels(int trial, Epilogue epilogue, bool accumulate, bool in_place) {
  int64_t m = 1 + below(trial % 4 ? 60 : 260), n = PROGRAM_PANEL + below(trial % 3 ? 120 : 380),
          k = 1 + below(trial % 5 ? 80 : 2300);
  sizes_in_panels(m, n, k, below(4) > 0, epilogue, accumulate, in_place);
}

static void products_in_panels(void) {
  for (int trial = 0; trial < 120; trial++) {
    Epilogue e = {.bias = below(2), .residual = below(2), .activation = (Activation)below(ACT_COUNT)};
    in_panels(trial, trial % 2 ? e : (Epilogue){0}, below(2) && !(trial % 2 && e.residual), below(2));
  }
}

/* A block of most rows and the deepest part of the summed index, which is copied, fits the copy. */
static void largest_blocks_in_panels(void) {
  const int64_t deep[] = {255, 256, 257, 511, 767, 1023, 1025, 2047};
  for (size_t i = 0; i < sizeof deep / sizeof *deep; i++)
    for (int64_t m = 12; m <= 216; m += m == 12 ? 96 : 108) {
      sizes_in_panels(m, 384, deep[i], false, (Epilogue){0}, false, false);
      sizes_in_panels(m, 384, deep[i], true, (Epilogue){0}, false, false);
    }
}

/* Rows and columns of a product equal, bit for bit, those of the product of a part of A and a part of B: so ranks that
 * divide either give the results of one. */
static void parts_give_equal_bits(void) {
  for (int trial = 0; trial < 40; trial++) {
    int64_t m = 1 + below(150), n = 2 * PROGRAM_PANEL + below(300), k = trial % 8 ? 1 + below(1500) : 2048;
    Both x = both_new(m, n, k, true);
    int64_t from = below(n - PROGRAM_PANEL), columns = PROGRAM_PANEL + below(n - from - PROGRAM_PANEL + 1),
            row = below(m), rows = 1 + below(m - row);
    float *c = malloc((size_t)(m * n) * sizeof *c), *part = malloc((size_t)(rows * columns) * sizeof *part),
          *panels = malloc((size_t)(k * (columns + PROGRAM_PANEL)) * sizeof *panels);
    GemmCall g = {.m = m,
                  .n = n,
                  .k = k,
                  .a_m = k,
                  .a_k = 1,
                  .b_k = PROGRAM_PANEL,
                  .b_n = 1,
                  .c_m = n,
                  .c_n = 1,
                  .b_panel = k * PROGRAM_PANEL,
                  .panels = DT_f32,
                  .a = x.a,
                  .b = x.panels,
                  .c = c};
    RtError error = {0};
    CHECKF(gemm_run(&g, &error) == RT_OK, "%s", error.text);
    gemm_pack(DT_f32, x.b + from, (int64_t[]){k, columns, n, 1}, panels, k * PROGRAM_PANEL);
    g.m = rows, g.n = columns, g.c_m = columns, g.a = x.a + row * k, g.b = panels, g.c = part;
    CHECKF(gemm_run(&g, &error) == RT_OK, "%s", error.text);
    int64_t differ = 0;
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < columns; j++) differ += c[(row + i) * n + from + j] != part[i * columns + j];
    CHECKF(differ == 0, "%d x %d x %d: %d elements differ", (int)m, (int)n, (int)k, (int)differ);
    both_free(&x);
    free(c), free(part), free(panels);
  }
}

/* If the processor has both. */
static void both_instruction_sets_give_equal_bits(void) {
  enum { DEPTH = 300, WIDTH = 2 * PROGRAM_PANEL };
  static const DType types[] = {DT_f32, DT_bf16, DT_f16};
  static float a[12 * DEPTH], b[WIDTH * DEPTH], c[2][12 * WIDTH];
  static uint16_t half[WIDTH * DEPTH];
  const GemmTiles *wide = gemm_tiles(), *narrow = gemm_tiles_avx2();
  for (int trial = 0; narrow && trial < 200; trial++) {
    int64_t k = 1 + below(DEPTH), columns = 1 + below(wide->panels * PROGRAM_PANEL);
    for (int i = 0; i < 12 * DEPTH; i++) a[i] = random_value();
    const DType type = types[trial % 3];
    for (int i = 0; i < WIDTH * DEPTH; i++) b[i] = random_value();
    for (int i = 0; i < WIDTH * DEPTH && type != DT_f32; i++) dtype_store_f(type, &half[i], (double)b[i]);
    for (int i = 0; i < 12 * WIDTH; i++) c[0][i] = c[1][i] = random_value();
    GemmTile t = {.type = type,
                  .rows = 1 + below(wide->rows),
                  .columns = columns,
                  .k = k,
                  .a = a,
                  .b = type == DT_f32 ? (void *)b : (void *)half,
                  .a_m = DEPTH,
                  .b_panel = program_panel_rows(type, k) * PROGRAM_PANEL,
                  .c = c[0],
                  .c_m = WIDTH,
                  .add = below(2)};
    wide->run(&t);
    for (int64_t r = 0; r < t.rows; r++)
      for (int64_t j = 0; j < columns; j += PROGRAM_PANEL) {
        GemmTile part = t;
        part.rows = 1, part.columns = columns - j < PROGRAM_PANEL ? columns - j : PROGRAM_PANEL;
        part.a = a + r * DEPTH, part.c = c[1] + r * WIDTH + j;
        part.b = (const char *)t.b + (size_t)(j / PROGRAM_PANEL * t.b_panel) * dtype_bytes(type);
        narrow->run(&part);
      }
    CHECKF(memcmp(c[0], c[1], sizeof c[0]) == 0, "trial %d: %d rows, %d columns, depth %d", trial, (int)t.rows,
           (int)columns, (int)k);
  }
}

/* ---- B in panels of 16 bits */

/* A matrix of 16-bit numbers, at an odd address, and the same numbers as f32. */
typedef struct Half {
  DType type;
  int64_t k, n;
  char *stored;
  float *wide;
} Half;

static Half half_new(DType type, int64_t k, int64_t n) {
  Half x = {type, k, n, malloc((size_t)(k * n) * 2 + 1), malloc((size_t)(k * n) * sizeof(float))};
  for (int64_t i = 0; i < k * n; i++) {
    uint16_t bits;
    dtype_store_f(type, &bits, (double)random_value());
    memcpy(x.stored + 1 + 2 * i, &bits, sizeof bits);
    x.wide[i] = (float)dtype_load_f(type, &bits);
  }
  return x;
}

/* Panels of the matrix, by rows or by columns; all of their room is written, also the row that makes k even. */
static void *packed(const Half *x, DType type, bool by_rows) {
  const int64_t panel = program_panel_rows(type, x->k) * PROGRAM_PANEL, n = (x->n + PROGRAM_PANEL - 1) / PROGRAM_PANEL;
  const size_t bytes = (size_t)(n * panel) * dtype_bytes(type);
  const void *from = type == DT_f32 ? (void *)x->wide : (void *)(x->stored + 1);
  const int64_t numbers[] = {x->k, x->n, by_rows ? x->n : 1, by_rows ? 1 : x->k};
  void *to[2] = {malloc(bytes), malloc(bytes)};
  for (int i = 0; i < 2; i++) {
    memset(to[i], i ? 0xa5 : 0x5a, bytes);
    gemm_pack(type, from, numbers, to[i], panel);
  }
  CHECK(memcmp(to[0], to[1], bytes) == 0);
  free(to[1]);
  return to[0];
}

/* Widening is exact: results have the bits of products with the same numbers in f32. */
static void panels_of_16_bits(void) {
  static const DType types[] = {DT_bf16, DT_f16};
  for (int trial = 0; trial < 80; trial++) {
    const DType type = types[trial % 2];
    const int64_t m = 1 + below(trial % 5 ? 30 : 240), n = PROGRAM_PANEL + below(90),
                  k = 1 + below(trial % 7 ? 90 : 1500);
    const bool by_rows = trial / 2 % 2;
    Half x = half_new(type, k, n);
    void *panels[2] = {packed(&x, DT_f32, by_rows), packed(&x, type, by_rows)};
    float *a = malloc((size_t)(m * k) * sizeof *a), *c[2];
    for (int64_t i = 0; i < m * k; i++) a[i] = random_value();
    for (int i = 0; i < 2; i++) {
      const DType of = i ? type : DT_f32;
      c[i] = malloc((size_t)(m * n) * sizeof *c[i]);
      GemmCall g = {.m = m, .n = n, .k = k, .a_m = k, .a_k = 1, .b_k = PROGRAM_PANEL, .b_n = 1, .c_m = n, .c_n = 1};
      g.panels = of, g.b_panel = program_panel_rows(of, k) * PROGRAM_PANEL, g.a = a, g.b = panels[i], g.c = c[i];
      RtError error = {0};
      CHECKF(gemm_run(&g, &error) == RT_OK, "%s", error.text);
    }
    CHECKF(memcmp(c[0], c[1], (size_t)(m * n) * sizeof *a) == 0, "trial %d: %d x %d x %d of %s", trial, (int)m, (int)n,
           (int)k, dtype_name(type));
    free(a), free(c[0]), free(c[1]), free(panels[0]), free(panels[1]), free(x.stored), free(x.wide);
  }
}

/* Products of bf16 by bf16, where A is rounded: right, and the same bits for any rows and columns of a call. */
static void panels_of_pairs(void) {
  for (int trial = 0; trial < 40; trial++) {
    const int64_t m = 1 + below(trial % 4 ? 20 : 240), n = PROGRAM_PANEL + below(90),
                  k = 1 + below(trial % 5 ? 90 : 1500);
    const int64_t row = below(m), step = 1 + trial % 2;
    Half x = half_new(DT_bf16, k, n);
    void *panels = packed(&x, DT_bf16, true);
    float *a = malloc((size_t)(m * k * step) * sizeof *a), *c = malloc((size_t)(m * n) * sizeof *c), one[400];
    for (int64_t i = 0; i < m * k * step; i++) a[i] = random_value();
    GemmCall g = {
        .m = m, .n = n, .k = k, .a_m = k * step, .a_k = step, .b_k = PROGRAM_PANEL, .b_n = 1, .c_m = n, .c_n = 1};
    g.panels = DT_bf16, g.narrow = true, g.b_panel = program_panel_rows(DT_bf16, k) * PROGRAM_PANEL;
    g.a = a, g.b = panels, g.c = c;
    RtError error = {0};
    CHECKF(gemm_run(&g, &error) == RT_OK, "%s", error.text);
    g.m = 1, g.a = a + row * k * step, g.c = one;
    CHECKF(gemm_run(&g, &error) == RT_OK, "%s", error.text);
    CHECK(memcmp(one, c + row * n, (size_t)n * sizeof *one) == 0);
    double worst = 0;
    for (int64_t j = 0; j < n; j++) {
      double sum = 0, most = 1;
      for (int64_t l = 0; l < k; l++) {
        uint16_t narrow;
        dtype_store_f(DT_bf16, &narrow, (double)a[(row * k + l) * step]);
        const double exact = gemm_tiles()->pairs ? dtype_load_f(DT_bf16, &narrow) : (double)a[(row * k + l) * step];
        sum += exact * (double)x.wide[l * n + j], most += fabs(exact * (double)x.wide[l * n + j]);
      }
      worst = fmax(worst, fabs(sum - (double)one[j]) / most);
    }
    CHECKF(worst < 1e-5, "trial %d: %d x %d x %d: %g", trial, (int)m, (int)n, (int)k, worst);
    free(a), free(c), free(panels), free(x.stored), free(x.wide);
  }
}

static void without_unit_stride(void) {
  float a[64] = {0};
  GemmCall g = {
      .m = 2, .n = 2, .k = 2, .a_m = 4, .a_k = 2, .b_k = 2, .b_n = 1, .c_m = 2, .c_n = 1, .a = a, .b = a, .c = a};
  RtError error = {0};
  CHECK(gemm_run(&g, &error) == RT_INTERNAL);
}

int main(void) {
  RtError error = {0};
  pid_t child = fork();
  if (child == 0) setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1), setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
  if (gemm_open(&error) != RT_OK) {
    printf("%s\n", error.text);
    return 1;
  }
  if (SANITIZED)
    onednn_set_threads(1); /* LeakSanitizer crashes when it stops threads that libgomp has in the library */
  RUN(products);
  RUN(products_and_what_follows);
  RUN(rows_in_loops);
  RUN(equal_lines_give_equal_bits);
  RUN(products_in_panels);
  RUN(largest_blocks_in_panels);
  RUN(parts_give_equal_bits);
  RUN(both_instruction_sets_give_equal_bits);
  RUN(panels_of_16_bits);
  RUN(panels_of_pairs);
  RUN(without_unit_stride);
  int failed = test_summary(), status = 0;
  if (child > 0 && (waitpid(child, &status, 0) != child || status != 0)) failed = 1;
  return failed;
}
