/* tests/doubles/blas.c - the double of cuBLASLt: matmul with its descriptors.
 *
 * An algorithm is valid for the case it was chosen for: sizes, types, transposes, alignment of the pointers, workspace.
 * Any other matmul with it is a violation, and so is a workspace that two streams share.  The workspace that it wants
 * is drawn at random, up to the limit, and is 0xff afterwards.  The result is 0xff before any operand is read, unless C
 * is in its place: a result that overlaps an operand comes out wrong. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "tests/doubles/half.h"
#include "tests/doubles/product.h"

typedef struct Desc {
  int32_t compute, scale, turns_a, turns_b;
  uint32_t epilogue;
  CUdeviceptr bias;
} Desc;

typedef struct Preference {
  uint64_t workspace;
  uint32_t align[4];
} Preference;

/* The contents of an algorithm's 64 bytes. */
typedef struct Chosen {
  uint64_t key, workspace;
  uint32_t align[4];
  int32_t number; /* among those that were offered */
} Chosen;
_Static_assert(sizeof(Chosen) <= sizeof(cublasLtMatmulAlgo_t), "fits");

typedef struct ProductWork {
  DoubleWork work;
  Product p;
  CUdeviceptr a, b, c, r, bias, workspace;
  uint64_t workspace_bytes;
} ProductWork;

static int alive; /* handles and descriptors */

static cublasStatus_t fails(const char *name) {
  if (double_drops()) return CUBLAS_STATUS_SUCCESS;
  return strcmp(name, "cublasLtMatmul") == 0   ? CUBLAS_STATUS_EXECUTION_FAILED
         : strcmp(name, "cublasLtCreate") == 0 ? CUBLAS_STATUS_NOT_INITIALIZED
         : strstr(name, "Heuristic")           ? CUBLAS_STATUS_NOT_SUPPORTED
                                               : CUBLAS_STATUS_ALLOC_FAILED;
}
#define ENTER_BLAS(name) ENTER_OR(name, fails(#name))

static void find_leaks(void) {
  if (alive) double_violation("%d handles and descriptors of cuBLASLt are not destroyed", alive);
}

static void *create(size_t bytes) {
  static bool watched;
  if (!watched) double_at_end(find_leaks);
  watched = true;
  alive++;
  return calloc(1, bytes);
}

static cublasStatus_t destroy(void *x) {
  if (!x) return CUBLAS_STATUS_INVALID_VALUE;
  alive--;
  free(x);
  return CUBLAS_STATUS_SUCCESS;
}

/* ---- handles and descriptors */

DOUBLE_API size_t cublasLtGetVersion(void) { return (size_t)double_setting("DOUBLES_BLAS", 130100); }

DOUBLE_API const char *cublasLtGetStatusName(cublasStatus_t status) {
  static const char *const names[] = {[CUBLAS_STATUS_SUCCESS] = "CUBLAS_STATUS_SUCCESS",
                                      [CUBLAS_STATUS_NOT_INITIALIZED] = "CUBLAS_STATUS_NOT_INITIALIZED",
                                      [CUBLAS_STATUS_ALLOC_FAILED] = "CUBLAS_STATUS_ALLOC_FAILED",
                                      [CUBLAS_STATUS_INVALID_VALUE] = "CUBLAS_STATUS_INVALID_VALUE",
                                      [CUBLAS_STATUS_EXECUTION_FAILED] = "CUBLAS_STATUS_EXECUTION_FAILED",
                                      [CUBLAS_STATUS_INTERNAL_ERROR] = "CUBLAS_STATUS_INTERNAL_ERROR",
                                      [CUBLAS_STATUS_NOT_SUPPORTED] = "CUBLAS_STATUS_NOT_SUPPORTED"};
  const char *name = (unsigned)status < sizeof names / sizeof *names ? names[status] : NULL;
  return name ? name : "<unknown>";
}

DOUBLE_API cublasStatus_t cublasLtCreate(cublasLtHandle_t *out) {
  ENTER_BLAS(cublasLtCreate);
  if (double_current() < 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  *out = create(8);
  return CUBLAS_STATUS_SUCCESS;
}

DOUBLE_API cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  ENTER_BLAS(cublasLtDestroy);
  return destroy(handle);
}

DOUBLE_API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                                   cudaDataType scale) {
  ENTER_BLAS(cublasLtMatmulDescCreate);
  Desc *d = create(sizeof *d);
  *d = (Desc){.compute = (int32_t)compute, .scale = (int32_t)scale, .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
  *out = (cublasLtMatmulDesc_t)(void *)d;
  return CUBLAS_STATUS_SUCCESS;
}

DOUBLE_API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  ENTER_BLAS(cublasLtMatmulDescDestroy);
  return destroy(d);
}

static cublasStatus_t set(void *to, size_t size, const void *value, size_t bytes) {
  if (bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
#define SET(field) set(&(field), sizeof(field), value, bytes)

DOUBLE_API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t x, cublasLtMatmulDescAttributes_t what,
                                                         const void *value, size_t bytes) {
  ENTER_BLAS(cublasLtMatmulDescSetAttribute);
  Desc *d = (Desc *)(void *)x;
  switch ((int)what) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return SET(d->turns_a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return SET(d->turns_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return SET(d->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return SET(d->bias);
    default: double_violation("cuBLASLt: attribute %d of a product is not doubled", (int)what);
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

DOUBLE_API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
                                                     uint64_t columns, int64_t ld) {
  ENTER_BLAS(cublasLtMatrixLayoutCreate);
  if (!product_bytes((int)type) || !rows || !columns || ld < (int64_t)rows) return CUBLAS_STATUS_INVALID_VALUE;
  Matrix *m = create(sizeof *m);
  *m = (Matrix){(int)type, (int64_t)rows, (int64_t)columns, ld, 0, 1};
  *out = (cublasLtMatrixLayout_t)(void *)m;
  return CUBLAS_STATUS_SUCCESS;
}

DOUBLE_API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  ENTER_BLAS(cublasLtMatrixLayoutDestroy);
  return destroy(l);
}

DOUBLE_API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                           cublasLtMatrixLayoutAttribute_t what, const void *value,
                                                           size_t bytes) {
  ENTER_BLAS(cublasLtMatrixLayoutSetAttribute);
  Matrix *m = (Matrix *)(void *)l;
  int32_t batch;
  if (what == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return SET(m->step);
  if (what != CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT || SET(batch) || batch < 1) return CUBLAS_STATUS_INVALID_VALUE;
  m->batch = batch;
  return CUBLAS_STATUS_SUCCESS;
}

DOUBLE_API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
  ENTER_BLAS(cublasLtMatmulPreferenceCreate);
  Preference *p = create(sizeof *p);
  for (int i = 0; i < 4; i++) p->align[i] = 256;
  *out = (cublasLtMatmulPreference_t)(void *)p;
  return CUBLAS_STATUS_SUCCESS;
}

DOUBLE_API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  ENTER_BLAS(cublasLtMatmulPreferenceDestroy);
  return destroy(p);
}

DOUBLE_API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t x,
                                                               cublasLtMatmulPreferenceAttributes_t what,
                                                               const void *value, size_t bytes) {
  ENTER_BLAS(cublasLtMatmulPreferenceSetAttribute);
  Preference *p = (Preference *)(void *)x;
  int side = (int)what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return SET(p->workspace);
  return side < 0 || side > 3 ? CUBLAS_STATUS_NOT_SUPPORTED : SET(p->align[side]);
}

/* ---- products */

static bool types_fit(const Desc *d, const Product *p) {
  int a = p->a.type, r = p->r.type;
  if (p->b.type != a || p->c.type != r) return false;
  switch (d->compute) {
    case CUBLAS_COMPUTE_64F: return d->scale == CUDA_R_64F && a == CUDA_R_64F && r == a;
    case CUBLAS_COMPUTE_16F: return d->scale == CUDA_R_16F && a == CUDA_R_16F && r == a;
    case CUBLAS_COMPUTE_32F_FAST_TF32: return d->scale == CUDA_R_32F && a == CUDA_R_32F && r == a;
    case CUBLAS_COMPUTE_32F: return d->scale == CUDA_R_32F && a != CUDA_R_64F && (r == a || r == CUDA_R_32F);
    default: return false;
  }
}

static bool epilogue_fits(const Desc *d) {
  const uint32_t known = CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_GELU;
  bool both = d->epilogue & CUBLASLT_EPILOGUE_RELU && d->epilogue & CUBLASLT_EPILOGUE_GELU;
  if (d->epilogue == CUBLASLT_EPILOGUE_DEFAULT) return true;
  return d->epilogue && !(d->epilogue & ~known) && !both && d->compute != CUBLAS_COMPUTE_64F;
}

static bool same_shape(const Matrix *x, const Matrix *y) {
  return x->rows == y->rows && x->columns == y->columns && x->batch == y->batch;
}

/* False if the descriptors do not match. */
static bool make(const Desc *d, const Matrix *a, const Matrix *b, const Matrix *c, const Matrix *r, Product *p) {
  *p = (Product){.a = *a, .b = *b, .c = *c, .r = *r, .compute = d->compute, .epilogue = (int)d->epilogue};
  p->turns_a = d->turns_a == CUBLAS_OP_T, p->turns_b = d->turns_b == CUBLAS_OP_T;
  p->m = p->turns_a ? a->columns : a->rows, p->k = p->turns_a ? a->rows : a->columns;
  p->n = p->turns_b ? b->rows : b->columns;
  return types_fit(d, p) && epilogue_fits(d) && p->k == (p->turns_b ? b->columns : b->rows) && same_shape(c, r) &&
         r->rows == p->m && r->columns == p->n && a->batch == r->batch && b->batch == r->batch;
}

static uint64_t key_of(const Product *p) {
  const int64_t words[] = {p->m,       p->n,       p->k,      p->compute, p->epilogue, p->turns_a,
                           p->turns_b, p->a.type,  p->r.type, p->a.ld,    p->b.ld,     p->c.ld,
                           p->r.ld,    p->r.batch, p->a.step, p->b.step,  p->c.step,   p->r.step};
  return hash64(words, sizeof words, 4);
}

/* The same algorithm for every query, as with the library. */
static void offer(const Product *p, const Preference *want, int number, cublasLtMatmulHeuristicResult_t *out) {
  const int64_t drawn[] = {(int64_t)key_of(p), number, double_setting("DOUBLES_SEED", 0)};
  Chosen chosen = {
      .key = key_of(p), .workspace = hash64(drawn, sizeof drawn, 5) % (want->workspace + 1), .number = number};
  memcpy(chosen.align, want->align, sizeof chosen.align);
  memset(out, 0, sizeof *out);
  memcpy(&out->algo, &chosen, sizeof chosen);
  out->workspaceSize = chosen.workspace, out->state = CUBLAS_STATUS_SUCCESS;
  out->wavesCount = 1 + (float)number;
}

DOUBLE_API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t d,
                                                         cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                         cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t r,
                                                         cublasLtMatmulPreference_t preference, int most,
                                                         cublasLtMatmulHeuristicResult_t *out, int *n) {
  ENTER_BLAS(cublasLtMatmulAlgoGetHeuristic);
  const Preference *want = (const Preference *)(const void *)preference;
  Product p;
  *n = 0;
  if (!handle || most < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (!make((Desc *)(void *)d, (Matrix *)(void *)a, (Matrix *)(void *)b, (Matrix *)(void *)c, (Matrix *)(void *)r, &p))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  for (*n = 0; *n < most && *n < double_setting("DOUBLES_ALGORITHMS", 1); ++*n) offer(&p, want, *n, &out[*n]);
  return CUBLAS_STATUS_SUCCESS;
}

/* ---- work */

static const char what[] = "cublasLtMatmul";

/* Overwrites its ends and one piece between them: all of it is 32 MiB, and products are many. */
static void spoil_workspace(char *at, uint64_t bytes) {
  enum { PIECE = 64 << 10 };
  if (bytes <= 3 * PIECE) {
    memset(at, 0xff, bytes);
    return;
  }
  memset(at, 0xff, PIECE);
  memset(at + double_random() % (bytes - PIECE), 0xff, PIECE);
  memset(at + bytes - PIECE, 0xff, PIECE);
}

static bool find(const ProductWork *w, const Matrix *m, CUdeviceptr at, char **out) {
  *out = double_at(w->work.device, at, (uint64_t)product_span(m), what);
  return *out != NULL;
}

static void spoil(const Matrix *m, char *at) {
  for (int64_t b = 0; b < m->batch; b++)
    for (int64_t j = 0; j < m->columns; j++)
      memset(at + (b * m->step + j * m->ld) * (int64_t)product_bytes(m->type), 0xff,
             (size_t)m->rows * product_bytes(m->type));
}

static const char *of_batch(const Matrix *m, const char *at, int64_t i) {
  return at ? at + i * m->step * (int64_t)product_bytes(m->type) : NULL;
}

static bool product_run(const DoubleWork *work, void *state) {
  const ProductWork *w = (const ProductWork *)work;
  const Product *p = &w->p;
  char *a, *b, *c = NULL, *r, *bias = NULL, *space = NULL;
  (void)state;
  bool ok = find(w, &p->a, w->a, &a) && find(w, &p->b, w->b, &b) && find(w, &p->r, w->r, &r) &&
            (p->beta == 0 || find(w, &p->c, w->c, &c));
  if (ok && w->bias)
    ok = (bias = double_at(work->device, w->bias, (uint64_t)p->m * product_bytes(p->r.type), what)) != NULL;
  if (ok && w->workspace_bytes) ok = (space = double_at(work->device, w->workspace, w->workspace_bytes, what)) != NULL;
  if (!ok) {
    double_device_error(work->device, CUDA_ERROR_ILLEGAL_ADDRESS, "%s", what);
    return true;
  }
  if (space) spoil_workspace(space, w->workspace_bytes);
  if (c != r) spoil(&p->r, r);
  for (int64_t i = 0; i < p->r.batch; i++)
    product_compute(p, of_batch(&p->a, a, i), of_batch(&p->b, b, i), of_batch(&p->c, c, i), bias,
                    r + i * p->r.step * (int64_t)product_bytes(p->r.type));
  if (space) spoil_workspace(space, w->workspace_bytes);
  return true;
}

static void product_ranges(const DoubleWork *work, DoubleVisit *visit, void *context) {
  const ProductWork *w = (const ProductWork *)work;
  const Product *p = &w->p;
  visit(context, w->a, (uint64_t)product_span(&p->a), false);
  visit(context, w->b, (uint64_t)product_span(&p->b), false);
  if (p->beta != 0) visit(context, w->c, (uint64_t)product_span(&p->c), false);
  if (w->bias) visit(context, w->bias, (uint64_t)p->m * product_bytes(p->r.type), false);
  visit(context, w->r, (uint64_t)product_span(&p->r), true);
  if (w->workspace_bytes) visit(context, w->workspace, w->workspace_bytes, true);
}

static void product_drop(DoubleWork *work) { free(work); }

static const DoubleWorkKind product_kind = {NULL, product_run, product_drop, NULL, product_ranges, false};

/* ---- matmul */

static void check_algorithm(const ProductWork *w, const Chosen *chosen, uint64_t workspace) {
  const CUdeviceptr at[] = {w->a, w->b, w->p.beta != 0 ? w->c : 0, w->r};
  if (chosen->key != key_of(&w->p)) double_violation("cublasLtMatmul: the algorithm was chosen for another product");
  for (int i = 0; i < 4; i++)
    if (at[i] % chosen->align[i])
      double_violation("cublasLtMatmul: %c is not at a multiple of %u bytes, as its algorithm wants", "ABCD"[i],
                       chosen -> align[i]);
  if (workspace < chosen->workspace)
    double_violation("cublasLtMatmul: a workspace of %llu bytes, the algorithm wants %llu",
                     (unsigned long long)workspace, (unsigned long long)chosen->workspace);
  if (w->workspace % 256) double_violation("cublasLtMatmul: the workspace is not at a multiple of 256 bytes");
}

/* Products of two streams may run at the same time, so each needs its own workspace. */
static void check_workspace(CUdeviceptr workspace, CUstream stream) {
  enum { MOST = 8 };
  static struct {
    CUdeviceptr at;
    CUstream stream;
  } known[MOST];
  for (int i = 0; workspace && i < MOST; i++) {
    if (!known[i].at) known[i].at = workspace, known[i].stream = stream;
    if (known[i].at != workspace) continue;
    if (known[i].stream != stream) double_violation("cublasLtMatmul: two streams share one workspace");
    return;
  }
}

/* alpha or beta, on the host. */
static double scale(const Desc *d, const void *at) {
  uint16_t h;
  memcpy(&h, at, 2);
  return d->scale == CUDA_R_64F   ? *(const double *)at
         : d->scale == CUDA_R_16F ? (double)half_from_f16(h)
                                  : (double)*(const float *)at;
}

#define ADDRESS(x) ((CUdeviceptr)(uintptr_t)(x))

DOUBLE_API cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t x, const void *alpha,
                                         const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                                         cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                                         cublasLtMatrixLayout_t c_layout, void *r, cublasLtMatrixLayout_t r_layout,
                                         const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t bytes,
                                         cudaStream_t stream) {
  ENTER_BLAS(cublasLtMatmul);
  const Desc *d = (const Desc *)(const void *)x;
  Chosen chosen;
  ProductWork *w = calloc(1, sizeof *w);
  w->work = (DoubleWork){&product_kind, what, double_stream_device(stream), 1, 0};
  if (!handle || !algorithm || w->work.device < 0 ||
      !make(d, (Matrix *)(void *)a_layout, (Matrix *)(void *)b_layout, (Matrix *)(void *)c_layout,
            (Matrix *)(void *)r_layout, &w->p)) {
    free(w);
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  memcpy(&chosen, algorithm, sizeof chosen);
  w->work.pretended = double_pretended(chosen.number);
  w->p.alpha = scale(d, alpha), w->p.beta = scale(d, beta);
  w->a = ADDRESS(a), w->b = ADDRESS(b), w->c = ADDRESS(c), w->r = ADDRESS(r);
  w->bias = d->epilogue & CUBLASLT_EPILOGUE_BIAS ? d->bias : 0;
  w->workspace = ADDRESS(workspace), w->workspace_bytes = chosen.workspace;
  check_algorithm(w, &chosen, bytes);
  check_workspace(chosen.workspace ? w->workspace : 0, stream);
  if (d->epilogue & CUBLASLT_EPILOGUE_BIAS && !d->bias) double_violation("cublasLtMatmul: there is no bias");
  if (w->p.beta != 0 && w->c == w->r && memcmp(&w->p.c, &w->p.r, sizeof w->p.c) != 0)
    double_violation("cublasLtMatmul: C and D share memory, but their layouts differ");
  return double_submit(stream, &w->work) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
