/* runtime/device/cuda/product.c - matrix products, by cuBLASLt.
 *
 * Row-major C = A B is column-major C' = B' A', so our B is the library's first operand.  The library gets one loop of
 * a batch, the longest; this file loops over the others.  Descriptors and the algorithm are made at the first use of a
 * product and kept: they depend on its sizes, strides, types and on the alignment of addresses, not on the addresses.
 *
 * The library's workspace is a buffer of the Program, so that the memory plan counts it.  All products share it: they
 * run on one queue, one after the other.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/cuda/cuda.h"
#include "runtime/device/cuda/library.h"
#include "runtime/device/cuda/tune.h"

enum { ALGORITHMS = 16 /* most that are asked for */ };

/* One operand in the library's terms: columns of `rows` elements, `ld` from column to column. */
typedef struct Side {
  int64_t rows, columns, ld;
  int64_t step, align; /* elements from matrix to matrix of the batch; alignment of all addresses in bytes */
  int64_t transposed;
} Side;

/* Everything that descriptors and the choice of an algorithm depend on; without padding, as it is compared as bytes. */
typedef struct Key {
  int64_t operands, result, sums, tf32, batch, epilogue, bias_align;
  Side b, a, c, d;
} Key;

typedef struct GpuProduct {
  Key key;
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t b, a, c, d;
  cublasLtMatmulAlgo_t algorithm;
} GpuProduct;

/* A loop over matrices; bytes from one to the next. */
typedef struct Outer {
  int64_t extent, a, b, c;
} Outer;

/* Everything of one call. */
typedef struct Call {
  const GemmCall *g;
  Key key;
  Outer outer[PROGRAM_MAX_BATCH_LOOPS];
  int n_outer;
  bool no_terms; /* k = 0: computed with a single term, times 0 */
} Call;

/* ---- opening */

RtStatus gpu_products_open(CudaDevice *d, RtError *error) {
  int version;
  if (!gpu_known_open(&d->products)) return rt_error(error, RT_FAILED, "out of memory");
  RtStatus status = gpu_open_blas(d->driver_version, &d->blas, &version, error);
  return status ? status : GPU_BLAS(d, create, "products of matrices", error, &d->products_of);
}

void gpu_workspace(Device *device, char *at, uint64_t bytes) {
  CudaDevice *d = (CudaDevice *)device;
  d->space = at, d->space_bytes = bytes;
}

static void free_product(const CudaDevice *d, GpuProduct *p) {
  const cublasLtMatrixLayout_t layouts[] = {p->a, p->b, p->c, p->d};
  for (int i = 0; i < 4; i++)
    if (layouts[i]) d->blas.layout_destroy(layouts[i]);
  if (p->product) d->blas.product_destroy(p->product);
  free(p);
}

static void forget_products(CudaDevice *d) {
  for (uint32_t i = 0; i < GPU_KNOWN; i++) {
    if (d->products.items[i]) free_product(d, d->products.items[i]);
    d->products.items[i] = NULL;
  }
  d->products.n = 0;
}

void gpu_products_close(CudaDevice *d) {
  if (!d->products.items) return;
  forget_products(d);
  if (d->products_of) d->blas.destroy(d->products_of);
  free(d->products.items);
}

/* ---- the arguments of the library */

static cudaDataType type_of(DType t) {
  return t == DT_f64 ? CUDA_R_64F : t == DT_f16 ? CUDA_R_16F : t == DT_bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

static cublasComputeType_t compute_of(const Key *k) {
  if (k->tf32) return CUBLAS_COMPUTE_32F_FAST_TF32;
  return k->sums == DT_f64 ? CUBLAS_COMPUTE_64F : k->sums == DT_f16 ? CUBLAS_COMPUTE_16F : CUBLAS_COMPUTE_32F;
}

static unsigned epilogue_of(Epilogue e) {
  if (e.activation == ACT_relu) return e.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  return e.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/* Describes a matrix of `rows` x `columns` elements, `row` and `column` apart, as the library's transposed one: its
 * columns are our rows if the elements of a row are contiguous, else its rows are.  False if neither is contiguous. */
static bool side_of(int64_t rows, int64_t columns, int64_t row, int64_t column, Side *out) {
  bool plain = columns == 1 || column == 1, turned = rows == 1 || row == 1;
  if (plain && (rows == 1 || row >= columns)) {
    *out = (Side){.rows = columns, .columns = rows, .ld = rows == 1 ? columns : row};
    return true;
  }
  if (!turned || (columns > 1 && column < rows)) return false;
  *out = (Side){.rows = rows, .columns = columns, .ld = columns == 1 ? rows : column, .transposed = 1};
  return true;
}

/* Returns the largest power of two up to 256 that divides all of them. */
static int64_t alignment(const void *at, int64_t x, const Outer *outer, int n, int which) {
  uint64_t bits = (uint64_t)(uintptr_t)at | (uint64_t)x | 256;
  for (int i = 0; i < n; i++) bits |= (uint64_t)(which == 0 ? outer[i].a : which == 1 ? outer[i].b : outer[i].c);
  return (int64_t)(bits & -bits);
}

/* Makes the longest loop in which the result's matrices differ the library's batch. */
static void share_loops(Call *k, int64_t operand_bytes, int64_t result_bytes) {
  const GemmCall *g = k->g;
  int batch = -1;
  k->key.batch = 1;
  for (int i = 0; i < g->loops; i++)
    if (g->extent[i] > 1 && g->c_step[i] > 0 && (batch < 0 || g->extent[i] > g->extent[batch])) batch = i;
  for (int i = 0; i < g->loops; i++) {
    if (i == batch) {
      k->key.batch = g->extent[i];
      k->key.a.step = g->a_step[i], k->key.b.step = g->b_step[i], k->key.c.step = g->c_step[i];
    } else if (g->extent[i] > 1) {
      k->outer[k->n_outer++] = (Outer){g->extent[i], g->a_step[i] * operand_bytes, g->b_step[i] * operand_bytes,
                                       g->c_step[i] * result_bytes};
    }
  }
}

static RtStatus describe(Call *k, RtError *error) {
  const GemmCall *g = k->g;
  int64_t operand_bytes = (int64_t)dtype_bytes(g->operands), result_bytes = (int64_t)dtype_bytes(g->result);
  int64_t terms = k->no_terms ? 1 : g->k;
  Key *key = &k->key;
  *key = (Key){.operands = g->operands, .result = g->result, .sums = g->sums, .tf32 = g->tf32};
  key->epilogue = epilogue_of(g->epilogue);
  bool fits = side_of(g->m, terms, k->no_terms ? 1 : g->a_m, k->no_terms ? 1 : g->a_k, &key->a) &&
              side_of(terms, g->n, k->no_terms ? g->n : g->b_k, k->no_terms ? 1 : g->b_n, &key->b) &&
              side_of(g->m, g->n, g->c_m, g->c_n, &key->c) && !key->c.transposed;
  if (!fits || g->b_panel)
    return rt_error(error, RT_UNSUPPORTED,
                    "cuBLASLt cannot multiply matrices with strides %lld %lld, %lld "
                    "%lld into %lld %lld",
                    (long long)g->a_m, (long long)g->a_k, (long long)g->b_k, (long long)g->b_n, (long long)g->c_m,
                    (long long)g->c_n);
  share_loops(k, operand_bytes, result_bytes);
  key->a.align = alignment(g->a, key->a.step * operand_bytes, k->outer, k->n_outer, 0);
  key->b.align = alignment(g->b, key->b.step * operand_bytes, k->outer, k->n_outer, 1);
  key->c.align = alignment(g->c, key->c.step * result_bytes, k->outer, k->n_outer, 2);
  key->d = key->c;
  if (g->epilogue.residual) key->c.align = alignment(g->residual, key->c.step * result_bytes, k->outer, k->n_outer, 2);
  if (g->epilogue.bias) key->bias_align = alignment(g->bias, 0, NULL, 0, 0);
  return RT_OK;
}

/* ---- descriptors */

static RtStatus make_layout(CudaDevice *d, const Key *k, const Side *s, cudaDataType type, cublasLtMatrixLayout_t *out,
                            RtError *error) {
  static const char *const purpose = "describing a matrix";
  int32_t batch = (int32_t)k->batch;
  RtStatus status =
      GPU_BLAS(d, layout_create, purpose, error, out, type, (uint64_t)s->rows, (uint64_t)s->columns, s->ld);
  if (status || k->batch == 1) return status;
  status = GPU_BLAS(d, layout_set, purpose, error, *out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
  return status ? status
                : GPU_BLAS(d, layout_set, purpose, error, *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &s->step,
                           sizeof s->step);
}

static RtStatus set_product(CudaDevice *d, const GpuProduct *p, cublasLtMatmulDescAttributes_t what, const void *value,
                            size_t bytes, RtError *error) {
  return GPU_BLAS(d, product_set, "describing a product", error, p->product, what, value, bytes);
}

static RtStatus make_descriptors(CudaDevice *d, const void *bias, GpuProduct *p, RtError *error) {
  const Key *k = &p->key;
  cudaDataType operands = type_of((DType)k->operands), result = type_of((DType)k->result);
  int32_t first = k->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, second = k->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  uint32_t epilogue = (uint32_t)k->epilogue;
  RtStatus status =
      GPU_BLAS(d, product_create, "describing a product", error, &p->product, compute_of(k), type_of((DType)k->sums));
  if (!status) status = set_product(d, p, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first, error);
  if (!status) status = set_product(d, p, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second, error);
  if (!status) status = set_product(d, p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, error);
  if (!status && bias) status = set_product(d, p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias, error);
  if (!status) status = make_layout(d, k, &k->b, operands, &p->b, error);
  if (!status) status = make_layout(d, k, &k->a, operands, &p->a, error);
  if (!status) status = make_layout(d, k, &k->c, result, &p->c, error);
  return status ? status : make_layout(d, k, &k->d, result, &p->d, error);
}

/* ---- the algorithm */

static RtStatus set_preferences(CudaDevice *d, const Key *k, cublasLtMatmulPreference_t preference, RtError *error) {
  static const char *const purpose = "limits of a product";
  const struct {
    cublasLtMatmulPreferenceAttributes_t what;
    int64_t align;
  } sides[] = {{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, k->b.align},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, k->a.align},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, k->c.align},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, k->d.align}};
  uint64_t space = d->space_bytes;
  RtStatus status = GPU_BLAS(d, preference_set, purpose, error, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                             &space, sizeof space);
  for (size_t i = 0; i < sizeof sides / sizeof *sides && !status; i++) {
    uint32_t align = (uint32_t)sides[i].align;
    status = GPU_BLAS(d, preference_set, purpose, error, preference, sides[i].what, &align, sizeof align);
  }
  return status;
}

/* Lists at most `most` algorithms, the recommended one first. */
static RtStatus list_algorithms(CudaDevice *d, const GpuProduct *p, int most, cublasLtMatmulHeuristicResult_t *list,
                                int *n, RtError *error) {
  static const char *const purpose = "choosing a product algorithm";
  cublasLtMatmulPreference_t preference = NULL;
  int found = 0;
  *n = 0;
  RtStatus status = GPU_BLAS(d, preference_create, purpose, error, &preference);
  if (!status) status = set_preferences(d, &p->key, preference, error);
  if (!status)
    status = GPU_BLAS(d, algorithms, purpose, error, d->products_of, p->product, p->b, p->a, p->c, p->d, preference,
                      most, list, &found);
  if (preference) d->blas.preference_destroy(preference);
  for (int i = 0; i < found && !status; i++)
    if (list[i].state == CUBLAS_STATUS_SUCCESS) list[(*n)++] = list[i];
  return status || *n ? status
                      : rt_error(error, RT_UNSUPPORTED,
                                 "cuBLASLt has no algorithm for this product that needs at most %llu bytes",
                                 (unsigned long long)d->space_bytes);
}

/* Names the key in the table of choices: what people read, and a hash of all of it. */
static void name_key(const CudaDevice *d, const Key *k, char text[TUNING_KEY]) {
  snprintf(text, TUNING_KEY,
           "product %s to %s%s, %" PRId64 " x %" PRId64 " x %" PRId64 ", batch %" PRId64 ", epilogue %" PRId64
           ", %016" PRIx64,
           dtype_name((DType)k->operands), dtype_name((DType)k->result), k->tf32 ? " tf32" : "",
           k->a.transposed ? k->a.rows : k->a.columns, k->c.rows, k->a.transposed ? k->a.columns : k->a.rows, k->batch,
           k->epilogue, hash64(k, sizeof *k, d->space_bytes));
}

/* Names an algorithm: its place in the list, and the workspace that it is said to need. */
static void name_algorithm(const cublasLtMatmulHeuristicResult_t *list, int way, char *text, size_t size) {
  snprintf(text, size, "algorithm %d, workspace %zu", way, list[way].workspaceSize);
}

/* The table's choice if it has one, else the recommended algorithm. */
static RtStatus choose_algorithm(CudaDevice *d, GpuProduct *p, RtError *error) {
  cublasLtMatmulHeuristicResult_t list[ALGORITHMS];
  char key[TUNING_KEY], name[TUNING_CHOICE];
  name_key(d, &p->key, key);
  const char *choice = tuning_find(d->options.tuning, key);
  int n, way = 0;
  if (choice && (sscanf(choice, "algorithm %d,", &way) != 1 || way < 0 || way >= ALGORITHMS))
    return gpu_tune_bad(d, key, "expected an algorithm", error);
  RtStatus status = list_algorithms(d, p, choice ? ALGORITHMS : 1, list, &n, error);
  if (status) return status;
  if (choice && way < n) name_algorithm(list, way, name, sizeof name);
  if (choice && (way >= n || strncmp(choice, name, strlen(name)) != 0 || choice[strlen(name)] != ','))
    return gpu_tune_bad(d, key, "cuBLASLt does not offer that algorithm", error);
  p->algorithm = list[way].algo;
  return RT_OK;
}

static RtStatus make_product(CudaDevice *d, const Call *k, GpuProduct **out, RtError *error) {
  GpuProduct *p = calloc(1, sizeof *p);
  if (!p) return rt_error(error, RT_FAILED, "out of memory");
  p->key = k->key;
  RtStatus status = make_descriptors(d, k->g->epilogue.bias ? k->g->bias : NULL, p, error);
  if (!status) status = choose_algorithm(d, p, error);
  if (status) free_product(d, p);
  else *out = p;
  return status;
}

static RtStatus find_product(CudaDevice *d, const Call *k, GpuProduct **out, RtError *error) {
  if (gpu_known_full(&d->products)) forget_products(d);
  void **place = gpu_known_place(&d->products, &k->key, sizeof k->key);
  *out = *place;
  RtStatus status = *out ? RT_OK : make_product(d, k, out, error);
  if (status) return status;
  d->products.n += !*place;
  *place = *out;
  const void *bias = k->g->bias;
  return k->g->epilogue.bias ? set_product(d, *out, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias, error)
                             : RT_OK;
}

/* ---- multiplying */

static RtStatus multiply(CudaDevice *d, const Call *k, const GpuProduct *p, int loop, const char *a, const char *b,
                         const char *c, char *out, RtError *error) {
  if (loop == k->n_outer) {
    bool added = k->g->accumulate || k->g->epilogue.residual, f64 = k->g->sums == DT_f64, f16 = k->g->sums == DT_f16;
    double alpha8 = !k->no_terms, beta8 = added;
    float alpha4 = (float)alpha8, beta4 = (float)beta8;
    uint16_t alpha2 = k->no_terms ? 0 : 0x3c00, beta2 = added ? 0x3c00 : 0;
    const void *alpha = f64 ? (void *)&alpha8 : f16 ? (void *)&alpha2 : (void *)&alpha4;
    const void *beta = f64 ? (void *)&beta8 : f16 ? (void *)&beta2 : (void *)&beta4;
    return GPU_BLAS(d, product, "a product of matrices", error, d->products_of, p->product, alpha, b, p->b, a, p->a,
                    beta, c, p->c, out, p->d, &p->algorithm, d->space, d->space_bytes, d->compute);
  }
  const Outer *o = &k->outer[loop];
  RtStatus status = RT_OK;
  for (int64_t i = 0; i < o->extent && !status; i++)
    status = multiply(d, k, p, loop + 1, a + i * o->a, b + i * o->b, c + i * o->c, out + i * o->c, error);
  return status;
}

/* Computes a sum of no terms without an epilogue: zeros, unless the result accumulates. */
static RtStatus clear(CudaDevice *d, const Call *k, int loop, char *c, RtError *error) {
  static const unsigned char zero[8] = {0};
  const GemmCall *g = k->g;
  size_t size = dtype_bytes(g->result);
  RtStatus status = RT_OK;
  if (loop == g->loops) return gpu_fill_rows(d, c, zero, size, g->m, g->n, g->c_m * (int64_t)size, error);
  for (int64_t i = 0; i < g->extent[loop] && !status; i++)
    status = clear(d, k, loop + 1, c + i * g->c_step[loop] * (int64_t)size, error);
  return status;
}

static bool is_empty(const GemmCall *g) {
  bool empty = g->m == 0 || g->n == 0;
  for (int i = 0; i < g->loops; i++) empty |= g->extent[i] == 0;
  return empty;
}

RtStatus gpu_gemm(Device *device, const DeviceCall *c, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  const GemmCall *g = c->gemm;
  Call k = {.g = g, .no_terms = g->k == 0};
  GpuProduct *p;
  if (is_empty(g)) return RT_OK;
  if (k.no_terms && !epilogue_any(g->epilogue)) return g->accumulate ? RT_OK : clear(d, &k, 0, g->c, error);
  RtStatus status = describe(&k, error);
  if (!status) status = find_product(d, &k, &p, error);
  return status ? status : multiply(d, &k, p, 0, g->a, g->b, g->epilogue.residual ? g->residual : g->c, g->c, error);
}

/* ---- timing algorithms */

/* A product whose algorithms are timed, with operands of their own. */
typedef struct Timed {
  const Call *k;
  GpuProduct *p;
  cublasLtMatmulHeuristicResult_t list[ALGORITHMS];
  const char *a, *b, *added; /* added: the residual, or the result itself */
  char *c;
} Timed;

static RtStatus call_algorithm(CudaDevice *d, void *context, int way, bool *usable, RtError *error) {
  Timed *t = context;
  RtError unread = {0};
  (void)error;
  t->p->algorithm = t->list[way].algo;
  *usable = multiply(d, t->k, t->p, 0, t->a, t->b, t->added, t->c, &unread) == RT_OK;
  return RT_OK;
}

/* Returns the elements from the first to the last of a matrix and its batches; all strides are positive. */
static uint64_t span(int64_t rows, int64_t columns, int64_t row, int64_t column, const GemmCall *g,
                     const int64_t *steps) {
  int64_t last = (rows - 1) * row + (columns - 1) * column;
  for (int i = 0; i < g->loops; i++) last += (g->extent[i] - 1) * steps[i];
  return (uint64_t)last + 1;
}

static RtStatus place_timed(CudaDevice *d, Timed *t, bool *fits, RtError *error) {
  const GemmCall *g = t->k->g;
  uint64_t c = span(g->m, g->n, g->c_m, g->c_n, g, g->c_step) * dtype_bytes(g->result);
  TuneOperand o[TUNE_OPERANDS] = {
      {span(g->m, g->k, g->a_m, g->a_k, g, g->a_step) * dtype_bytes(g->operands), g->operands, NULL},
      {span(g->k, g->n, g->b_k, g->b_n, g, g->b_step) * dtype_bytes(g->operands), g->operands, NULL},
      {c, g->result, NULL},
      {g->epilogue.bias ? (uint64_t)g->n * dtype_bytes(g->result) : 0, g->result, NULL},
      {g->epilogue.residual && g->residual != g->c ? c : 0, g->result, NULL}};
  RtStatus status = gpu_tune_begin(d, o, TUNE_OPERANDS, fits, error);
  t->a = o[0].at, t->b = o[1].at, t->c = o[2].at, t->added = o[4].bytes ? o[4].at : o[2].at;
  if (status || !*fits || !g->epilogue.bias) return status;
  return set_product(d, t->p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &o[3].at, sizeof o[3].at, error);
}

RtStatus gpu_gemm_tune(Device *device, const DeviceCall *c, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  Call k = {.g = c->gemm};
  Timed t = {.k = &k};
  TuneResult r = {0};
  char key[TUNING_KEY], name[TUNING_CHOICE];
  bool fits = false;
  int n = 0;
  if (is_empty(k.g) || k.g->k == 0) return RT_OK;
  RtStatus status = describe(&k, error);
  if (!status) name_key(d, &k.key, key);
  if (status || tuning_find(d->options.tuning, key)) return status;
  status = find_product(d, &k, &t.p, error);
  if (!status) status = list_algorithms(d, t.p, ALGORITHMS, t.list, &n, error);
  if (!status) status = place_timed(d, &t, &fits, error);
  d->options.tuning->left += !status && !fits;
  if (status || !fits) return status;
  status = gpu_tune_time(d, n, call_algorithm, &t, &r, error);
  if (!status && r.best < 0)
    status = rt_error(error, RT_FAILED, "no algorithm of cuBLASLt for '%s' could be timed", key);
  if (status) return status;
  name_algorithm(t.list, r.best, name, sizeof name);
  return gpu_tune_keep(d, key, name, &r, error);
}

RtStatus gpu_products_choose(CudaDevice *d, RtError *error) {
  RtStatus status = RT_OK;
  for (uint32_t i = 0; d->products.items && i < GPU_KNOWN && !status; i++) {
    GpuProduct *p = d->products.items[i];
    char key[TUNING_KEY];
    if (!p) continue;
    name_key(d, &p->key, key);
    if (tuning_find(d->options.tuning, key)) status = choose_algorithm(d, p, error);
  }
  return status;
}
