/* runtime/device/gemm_dnnl.c - see gemm_dnnl.h. */
#include "runtime/device/gemm_dnnl.h"

#include <stdlib.h>
#include <string.h>

#include "program/shares.h"
#include "runtime/device/gemm_avx2.h"
#include "runtime/device/gemm_panels.h"
#include "runtime/device/onednn.h"
#include "runtime/device/openmp.h"

/* From oneDNN's dnnl.h; dnnl_dim_t is int64_t, dnnl_status_t an enum with success 0.  Matrices are row-major. */
typedef int (*SgemmFn)(char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                       int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
/* From libgomp's stable ABI. */
typedef void (*ParallelFn)(void (*body)(void *), void *data, unsigned threads, unsigned flags);
typedef int (*ThreadFn)(void);

static struct {
  SgemmFn sgemm;
  bool own;    /* products use gemm_avx2 */
  float *room; /* its scratch memory, for this many threads */
  int rooms;
  ParallelFn parallel;
  ThreadFn thread_num, num_threads;
} lib;

/* Finds the address of a function as any function pointer type (POSIX guarantees that this works). */
static void find(const char *name, void *to) {
  void *address = openmp_symbol(name);
  memcpy(to, &address, sizeof address);
}

static void open_gomp(void) {
  find("omp_get_thread_num", &lib.thread_num);
  find("omp_get_num_threads", &lib.num_threads);
  if (lib.thread_num && lib.num_threads)
    find("GOMP_parallel", &lib.parallel); /* else products of a batch run one after the other */
}

/* True if oneDNN would use its AVX2 kernel.  Of the bits of dnnl_cpu_isa_t, 0x7 are AVX2 and its subsets, 0x20 is
 * AVX-512. */
static bool is_avx2(void) {
  int (*isa)(void);
  void *function = onednn_symbol("dnnl_get_effective_cpu_isa");
  if (!function || !gemm_avx2_supported()) return false;
  memcpy(&isa, &function, sizeof isa);
  return (isa() & 0x27) == 0x7;
}

RtStatus gemm_open(RtError *error) {
  RtStatus status = onednn_open(error);
  if (status) return status;
  void *sgemm = onednn_symbol("dnnl_sgemm");
  if (!sgemm) return rt_error(error, RT_UNSUPPORTED, "this libdnnl has no dnnl_sgemm, which matrix products need");
  memcpy(&lib.sgemm, &sgemm, sizeof sgemm);
  lib.own = is_avx2();
  if (!lib.parallel) open_gomp();
  return RT_OK;
}

/* A matrix of `rows` x `columns` in oneDNN's terms: transposed or not, with a leading dimension. */
typedef struct Operand {
  char transposed; /* 'N' or 'T' */
  int64_t leading;
} Operand;

static int64_t largest(int64_t a, int64_t b) { return a > b ? a : b; }

static bool operand_of(int64_t rows, int64_t columns, int64_t row_step, int64_t column_step, Operand *out) {
  if ((column_step == 1 || columns == 1) && (row_step >= columns || rows == 1)) {
    *out = (Operand){'N', rows == 1 ? largest(columns, 1) : row_step};
    return true;
  }
  if ((row_step == 1 || rows == 1) && (column_step >= rows || columns == 1)) {
    *out = (Operand){'T', columns == 1 ? largest(rows, 1) : column_step};
    return true;
  }
  return false;
}

typedef struct Batch {
  const GemmCall *call;
  Operand a, b, c;
  int64_t total;
  int failed;
} Batch;

/* Computes part `part` of `parts` of a product by our kernel: whole tiles of rows or columns. */
static void own_part(const GemmCall *g, const float *a, const float *b, float *c, int64_t part, int64_t parts,
                     float *room) {
  int64_t rows = (g->m + GEMM_AVX2_ROWS - 1) / GEMM_AVX2_ROWS,
          columns = (g->n + GEMM_AVX2_COLUMNS - 1) / GEMM_AVX2_COLUMNS;
  bool by_columns = g->m == 1 || (g->n > 1 && (columns >= parts || columns >= rows));
  int64_t tiles = by_columns ? columns : rows, tile = by_columns ? GEMM_AVX2_COLUMNS : GEMM_AVX2_ROWS,
          all = by_columns ? g->n : g->m;
  int64_t from = part * tiles / parts * tile, to = (part + 1) * tiles / parts * tile;
  if (to > all) to = all;
  if (from >= to) return;
  GemmAvx2 p = {g->m, g->n, g->k, g->a_m, g->a_k, g->b_k, g->b_n, g->c_m, g->accumulate, g->m == 1 || g->n == 1,
                a,    b,    c};
  if (by_columns) p.n = to - from, p.b += from * g->b_n, p.c += from;
  else p.m = to - from, p.a += from * g->a_m, p.c += from * g->c_m;
  gemm_avx2(&p, room);
}

/* Returns the element where a matrix of product `index` of the batch begins; `step`: the matrix's. */
static int64_t matrix_at(const GemmCall *g, const int64_t *step, int64_t index) {
  int64_t at = 0;
  for (int i = g->loops; i-- > 0; index /= g->extent[i]) at += index % g->extent[i] * step[i];
  return at;
}

static int product_part(const Batch *batch, int64_t index, int64_t part, int64_t parts, int thread) {
  const GemmCall *g = batch->call;
  const float *a = (const float *)g->a + matrix_at(g, g->a_step, index),
              *b = (const float *)g->b + matrix_at(g, g->b_step, index);
  float *c = (float *)g->c + matrix_at(g, g->c_step, index);
  if (lib.own) {
    own_part(g, a, b, c, part, parts, lib.room + (int64_t)thread * GEMM_AVX2_ROOM);
    return 0;
  }
  return lib.sgemm(batch->a.transposed, batch->b.transposed, g->m, g->n, g->k, 1.0f, a, batch->a.leading, b,
                   batch->b.leading, g->accumulate ? 1.0f : 0.0f, c, batch->c.leading);
}

static void my_share(void *data) {
  Batch *batch = data;
  int64_t t = lib.thread_num(), n = lib.num_threads();
  for (int64_t i = t * batch->total / n; i < (t + 1) * batch->total / n; i++)
    if (product_part(batch, i, 0, 1, (int)t)) __atomic_store_n(&batch->failed, 1, __ATOMIC_RELAXED);
}

/* Computes this thread's part of every product. */
static void my_parts(void *data) {
  const Batch *batch = data;
  int t = lib.thread_num(), n = lib.num_threads();
  for (int64_t i = 0; i < batch->total; i++) product_part(batch, i, t, n, t);
}

static bool have_rooms(int threads) {
  if (!lib.own || lib.rooms >= threads) return true;
  float *room = aligned_alloc(64, (size_t)threads * GEMM_AVX2_ROOM * sizeof *room);
  if (!room) return false;
  free(lib.room);
  lib.room = room, lib.rooms = threads;
  return true;
}

/* Multiply-adds from which on threads inside one product pay off. */
#define LARGE_PRODUCT 2e6
#define LARGE_PACK 1e5 /* elements */
#define LARGE_EPILOGUE 3e4

typedef enum Sharing { ONE_THREAD, BY_PRODUCT, INSIDE } Sharing;

static Sharing sharing_of(const GemmCall *g, int64_t total, int64_t threads) {
  double work = (double)g->m * (double)g->n * (double)g->k;
  if (threads <= 1 || work * (double)total < SHARES_PRODUCT) return ONE_THREAD;
  return total > 1 && (work < LARGE_PRODUCT || total >= 4 * threads) ? BY_PRODUCT : INSIDE;
}

static RtStatus multiply(Batch *batch, RtError *error) {
  int threads = lib.parallel ? onednn_threads() : 1;
  Sharing sharing = sharing_of(batch->call, batch->total, threads);
  if (!have_rooms(threads)) return rt_error(error, RT_FAILED, "no memory for a matrix product");
  if (lib.own && sharing == INSIDE) {
    lib.parallel(my_parts, batch, (unsigned)threads, 0);
  } else if (sharing == BY_PRODUCT) {
    lib.parallel(my_share, batch, (unsigned)(batch->total < threads ? batch->total : threads), 0);
  } else {
    bool alone = !lib.own && sharing == ONE_THREAD && threads > 1; /* else oneDNN may wake the other threads */
    if (alone) onednn_set_threads(1);
    for (int64_t i = 0; i < batch->total; i++) batch->failed |= product_part(batch, i, 0, 1, 0) != 0;
    if (alone) onednn_set_threads(threads);
  }
  return batch->failed ? rt_error(error, RT_FAILED, "oneDNN could not multiply the matrices") : RT_OK;
}

/* Writes zeros: the product for k = 0. */
static void clear(const GemmCall *g, int64_t total) {
  for (int64_t index = 0; index < total; index++) {
    float *c = (float *)g->c + matrix_at(g, g->c_step, index);
    for (int64_t i = 0; i < g->m; i++)
      for (int64_t j = 0; j < g->n; j++) c[i * g->c_m + j * g->c_n] = 0;
  }
}

/* Returns the same product with all three matrices transposed, for a C with contiguous columns. */
static GemmCall transposed(const GemmCall *g) {
  GemmCall t = *g;
  t.m = g->n, t.n = g->m;
  t.a = g->b, t.a_m = g->b_n, t.a_k = g->b_k;
  t.b = g->a, t.b_k = g->a_k, t.b_n = g->a_m;
  t.c_m = g->c_n, t.c_n = g->c_m;
  memcpy(t.a_step, g->b_step, sizeof t.a_step);
  memcpy(t.b_step, g->a_step, sizeof t.b_step);
  return t;
}

/* Computes C = A B or C += A B; `total` of them, none empty except by k. */
static RtStatus product(const GemmCall *call, int64_t total, RtError *error) {
  GemmCall g = *call;
  Batch batch = {.call = &g, .total = total};
  if (g.k == 0) {
    if (!g.accumulate) clear(&g, total);
    return RT_OK;
  }
  if (!operand_of(g.m, g.n, g.c_m, g.c_n, &batch.c) || batch.c.transposed == 'T') {
    g = transposed(call);
    if (!operand_of(g.m, g.n, g.c_m, g.c_n, &batch.c) || batch.c.transposed == 'T')
      return rt_error(error, RT_INTERNAL, "matrix product: no unit stride in the result");
  }
  if (!operand_of(g.m, g.k, g.a_m, g.a_k, &batch.a) || !operand_of(g.k, g.n, g.b_k, g.b_n, &batch.b))
    return rt_error(error, RT_INTERNAL, "matrix product: no unit stride in an operand");
  return multiply(&batch, error);
}

/* Computes products with B in panels; the tiles apply the epilogue. */
static void multiply_by_panels(const GemmCall *g, int64_t total) {
  PanelThreads threads = {lib.parallel, lib.thread_num, lib.parallel ? onednn_threads() : 1};
  bool alone = threads.n == 1 || (double)g->m * (double)g->n * (double)g->k < SHARES_PRODUCT;
  for (int64_t index = 0; index < total; index++) {
    int64_t at = matrix_at(g, g->c_step, index);
    const float *residual = g->epilogue.residual ? (const float *)g->residual + at : NULL;
    PanelProduct p = {g, (const float *)g->a + matrix_at(g, g->a_step, index), g->b, residual, (float *)g->c + at};
    gemm_panels(&p, alone ? NULL : &threads);
  }
}

void gemm_parallel(void (*body)(void *), void *data) {
  int threads = lib.parallel ? onednn_threads() : 1;
  if (threads > 1) lib.parallel(body, data, (unsigned)threads, 0);
  else body(data);
}

typedef struct Packing {
  DType type;
  const void *from;
  const int64_t *numbers;
  void *to;
  int64_t panel;
} Packing;

static void pack_part(void *data) {
  const Packing *p = data;
  int64_t t = lib.parallel ? lib.thread_num() : 0, n = lib.parallel ? lib.num_threads() : 1;
  gemm_panels_pack(p->type, p->from, p->numbers, p->to, p->panel, t, n);
}

void gemm_pack(DType type, const void *from, const int64_t *numbers, void *to, int64_t panel) {
  Packing p = {type, from, numbers, to, panel};
  if ((double)numbers[0] * (double)numbers[1] > LARGE_PACK) gemm_parallel(pack_part, &p);
  else /* all of it, even if the caller is one of several threads */
    gemm_panels_pack(type, from, numbers, to, panel, 0, 1);
}

typedef struct Following {
  const GemmCall *g;
  int64_t rows; /* rows of all products */
  bool before;  /* copy the residual to the place of the result */
} Following;

static void copy_rows(float *to, const float *from, int64_t rows, int64_t columns, int64_t step) {
  for (int64_t i = 0; i < rows; i++) memcpy(to + i * step, from + i * step, sizeof *to * (size_t)columns);
}

/* Processes this thread's rows, which may span several products. */
static void follow_part(void *data) {
  const Following *f = data;
  const GemmCall *g = f->g;
  int64_t t = lib.parallel ? lib.thread_num() : 0, n = lib.parallel ? lib.num_threads() : 1;
  for (int64_t row = t * f->rows / n, end = (t + 1) * f->rows / n, rows; row < end; row += rows) {
    int64_t at = matrix_at(g, g->c_step, row / g->m) + row % g->m * g->c_m;
    rows = g->m - row % g->m < end - row ? g->m - row % g->m : end - row;
    if (f->before) copy_rows((float *)g->c + at, (const float *)g->residual + at, rows, g->n, g->c_m);
    else epilogue_apply(g->epilogue, (float *)g->c + at, rows, g->n, g->c_m, g->bias, NULL);
  }
}

/* Applies the epilogue to finished products, or copies the residual that they are added to. */
static void follow(const GemmCall *g, int64_t total, bool before) {
  Following f = {g, total * g->m, before};
  if ((double)f.rows * (double)g->n > LARGE_EPILOGUE) gemm_parallel(follow_part, &f);
  else follow_part(&f);
}

static int64_t products_of(const GemmCall *g) {
  int64_t total = 1;
  for (int i = 0; i < g->loops; i++) total *= g->extent[i];
  return total;
}

static void drop_loop(GemmCall *g, int i) {
  for (g->loops--; i < g->loops; i++) {
    g->extent[i] = g->extent[i + 1];
    g->a_step[i] = g->a_step[i + 1], g->b_step[i] = g->b_step[i + 1], g->c_step[i] = g->c_step[i + 1];
  }
}

/* Tries to merge loop i, over rows of A and C with the same B, into the rows.  If that is impossible, swaps the loop
 * with the rows if it is longer. */
static bool loop_becomes_rows(GemmCall *g, int i) {
  int64_t extent = g->extent[i], a = g->a_step[i], c = g->c_step[i], m = g->m;
  if (g->b_step[i] != 0 || g->a_k != 1 || g->c_n != 1 || a < g->k || c < g->n) return false;
  if (m == 1 || (g->a_m == extent * a && g->c_m == extent * c)) g->a_m = a, g->c_m = c;
  else if (a != m * g->a_m || c != m * g->c_m) {
    if (extent <= m || g->a_m < g->k || g->c_m < g->n) return false;
    g->m = extent, g->extent[i] = m;
    g->a_step[i] = g->a_m, g->c_step[i] = g->c_m;
    g->a_m = a, g->c_m = c;
    return true;
  }
  g->m = m * extent;
  drop_loop(g, i);
  return true;
}

/* The lowering chose the rows of a product before it knew the extents: one product of many rows takes a fraction of the
 * time of many products of few rows. */
static void gather_rows(GemmCall *g) {
  for (int i = g->loops; i-- > 0;)
    if (g->extent[i] == 1) drop_loop(g, i);
  for (int i = g->loops; i-- > 0;)
    if (loop_becomes_rows(g, i)) i = g->loops; /* terminates: each time there are fewer loops or more rows */
}

RtStatus gemm_run(const GemmCall *call, RtError *error) {
  GemmCall g = *call;
  int64_t total = products_of(&g);
  if (g.m == 0 || g.n == 0 || total == 0) return RT_OK;
  gather_rows(&g);
  total = products_of(&g);
  bool in_place = g.epilogue.residual && g.residual == g.c;
  if (g.b_panel && g.k > 0 && !in_place) return multiply_by_panels(&g, total), RT_OK;
  /* Otherwise the residual is copied, so that its place, which depends on its other readers, does not change a bit. */
  if (g.epilogue.residual && !in_place) follow(&g, total, true);
  if (g.epilogue.residual) g.accumulate = true, g.epilogue.residual = false;
  if (g.b_panel && g.k > 0) return multiply_by_panels(&g, total), RT_OK;
  RtStatus status = product(&g, total, error);
  if (!status && epilogue_any(g.epilogue)) follow(&g, total, false);
  return status;
}
