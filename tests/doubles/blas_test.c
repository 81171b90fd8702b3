/* tests/doubles/blas_test.c - compares the double of cuBLASLt with products by plain loops, and checks that it finds
   violations. */
#include <math.h>

#include "tests/doubles/blas_types.h"
#include "tests/doubles/child.h"
#include "tests/doubles/cuda_calls.h"
#include "tests/doubles/half.h"

enum { M = 37, N = 29, K = 300, BATCH = 3, LD = 40, BYTES = 4 * BATCH * 320 * 320 };

static cublasLtHandle_t handle;
static CUstream stream;
static CUdeviceptr at[5]; /* A, B, C, D, bias */
static float host[5][BYTES / 4];

typedef struct Shape {
  cudaDataType type;
  cublasComputeType_t compute;
  bool turns_a, turns_b, inplace;
  unsigned epilogue;
  float beta;
  uint64_t workspace;
  int slip; /* the violation that a test commits */
} Shape;

static void begin(void) {
  CUcontext context;
  MUST(cuInit(0));
  MUST(cuDevicePrimaryCtxRetain(&context, 0));
  MUST(cuCtxSetCurrent(context));
  MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  MUST(cublasLtCreate(&handle));
  for (int i = 0; i < 5; i++) MUST(cuMemAlloc_v2(&at[i], BYTES));
}

static int end(void) {
  MUST(cuStreamSynchronize(stream));
  MUST(cublasLtDestroy(handle));
  for (int i = 0; i < 5; i++) MUST(cuMemFree_v2(at[i]));
  MUST(cuStreamDestroy_v2(stream));
  MUST(cuDevicePrimaryCtxRelease_v2(0));
  return test_failed_here ? WRONG : RIGHT;
}

/* Numbers that all types represent. */
static void put(const Shape *s, int which) {
  uint16_t *half = malloc(BYTES / 2);
  for (int i = 0; i < BYTES / 4; i++) {
    host[which][i] = (float)((i * 7 + which * 5) % 17 - 8) / 8;
    half[i] = s->type == CUDA_R_16F ? half_to_f16(host[which][i]) : half_to_bf16(host[which][i]);
  }
  bool is_half = s->type != CUDA_R_32F && which < 2;
  MUST(cuMemcpyHtoDAsync_v2(at[which], is_half ? (void *)half : (void *)host[which], is_half ? BYTES / 2 : BYTES,
                            stream));
  MUST(cuStreamSynchronize(stream));
  free(half);
}

static cublasLtMatrixLayout_t layout(cudaDataType type, int rows, int columns, int64_t step) {
  cublasLtMatrixLayout_t l;
  int32_t batch = BATCH;
  MUST(cublasLtMatrixLayoutCreate(&l, type, (uint64_t)rows, (uint64_t)columns, rows + LD));
  MUST(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
  MUST(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step));
  return l;
}

static double element(int which, int batch, int64_t step, int i, int j, bool turned, int rows) {
  return (double)host[which][batch * step + (turned ? (int64_t)i * (rows + LD) + j : (int64_t)j * (rows + LD) + i)];
}

enum { STEP_A = 100 * 340, STEP_C = 30 * 80 };

static void compare(const Shape *s) {
  float *got = malloc(BYTES);
  int rows_a = s->turns_a ? K : M, rows_b = s->turns_b ? N : K;
  MUST(cuMemcpyDtoHAsync_v2(got, at[s->inplace ? 2 : 3], BYTES, stream));
  MUST(cuStreamSynchronize(stream));
  for (int b = 0; b < BATCH; b++)
    for (int j = 0; j < N; j++)
      for (int i = 0; i < M; i++) {
        double want = 0;
        for (int k = 0; k < K; k++)
          want += element(0, b, STEP_A, i, k, s->turns_a, rows_a) * element(1, b, STEP_A, k, j, s->turns_b, rows_b);
        want += (double)s->beta * element(2, b, STEP_C, i, j, false, M);
        if (s->epilogue & CUBLASLT_EPILOGUE_BIAS) want += (double)host[4][i];
        if (s->epilogue & CUBLASLT_EPILOGUE_RELU) want = want > 0 ? want : 0;
        double is = (double)got[b * STEP_C + j * (M + LD) + i];
        CHECKF(fabs(is - want) <= 1e-3 * fmax(1, fabs(want)), "%d %d %d: %g, not %g", b, i, j, is, want);
        if (test_failed_here > 3) exit(WRONG);
      }
  free(got);
}

static void multiply(const Shape *s) {
  cublasLtMatmulDesc_t d;
  cublasLtMatmulPreference_t p;
  cublasLtMatmulHeuristicResult_t best;
  int n;
  int32_t turns_a = s->turns_a ? CUBLAS_OP_T : CUBLAS_OP_N, turns_b = s->turns_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  uint32_t epilogue = s->epilogue ? s->epilogue : CUBLASLT_EPILOGUE_DEFAULT;
  float alpha = 1;
  CUdeviceptr workspace = 0;
  for (int i = 0; i < 5; i++) put(s, i);
  MUST(cublasLtMatmulDescCreate(&d, s->compute, CUDA_R_32F));
  MUST(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSA, &turns_a, sizeof turns_a));
  MUST(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSB, &turns_b, sizeof turns_b));
  MUST(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
  MUST(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at[4], sizeof at[4]));
  cublasLtMatrixLayout_t a = layout(s->type, s->turns_a ? K : M, s->turns_a ? M : K, STEP_A),
                         b = layout(s->type, s->turns_b ? N : K, s->turns_b ? K : N, STEP_A),
                         c = layout(CUDA_R_32F, M, N, STEP_C), other = layout(CUDA_R_32F, M, N, STEP_C + 1);
  MUST(cublasLtMatmulPreferenceCreate(&p));
  MUST(cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &s->workspace, 8));
  MUST(cublasLtMatmulAlgoGetHeuristic(handle, d, a, b, c, c, p, 1, &best, &n));
  if (best.workspaceSize) MUST(cuMemAlloc_v2(&workspace, best.workspaceSize));
  CUdeviceptr from = s->slip == 1 ? at[0] + 4 : at[0], to = at[s->inplace ? 2 : 3];
  for (int i = 0; i < (s->slip == 4 ? 2 : 1); i++)
    MUST(cublasLtMatmul(handle, d, &alpha, (void *)(uintptr_t)from, a, (void *)(uintptr_t)at[1], b, &s->beta,
                        (void *)(uintptr_t)at[2], s->slip == 2 ? other : c, (void *)(uintptr_t)to, c, &best.algo,
                        (void *)(uintptr_t)workspace, best.workspaceSize - (s->slip == 3), i ? NULL : stream));
  if (!s->slip) compare(s);
  MUST(cuStreamSynchronize(stream));
  if (workspace) MUST(cuMemFree_v2(workspace));
  const cublasLtMatrixLayout_t layouts[] = {a, b, c, other};
  for (int i = 0; i < 4; i++) MUST(cublasLtMatrixLayoutDestroy(layouts[i]));
  MUST(cublasLtMatmulPreferenceDestroy(p));
  MUST(cublasLtMatmulDescDestroy(d));
}

static int products(void) {
  static const cudaDataType types[] = {CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF, CUDA_R_32F};
  begin();
  for (int i = 0; i < 16; i++) {
    Shape s = {.type = types[i % 4],
               .compute = i % 4 == 3 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
               .turns_a = i & 4,
               .turns_b = i & 8,
               .beta = i % 3 == 0 ? 1 : 0,
               .inplace = i % 2,
               .workspace = i % 5 ? 10000 : 0,
               .epilogue = i % 3 == 1 ? CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_RELU
                           : i % 3    ? CUBLASLT_EPILOGUE_BIAS
                                      : 0};
    multiply(&s);
  }
  return end();
}

static int slips(void) {
  Shape s = {.type = CUDA_R_32F, .compute = CUBLAS_COMPUTE_32F, .slip = atoi(getenv("SLIP")), .workspace = 1 << 20};
  begin();
  multiply(&s);
  return end();
}

static int leak(void) {
  begin();
  layout(CUDA_R_32F, M, N, 1);
  return end();
}

/* Invalid products are refused. */
static int refusals(void) {
  cublasLtMatrixLayout_t l;
  cublasLtMatmulDesc_t d;
  cublasLtMatmulHeuristicResult_t best;
  cublasLtMatmulPreference_t p;
  int n;
  begin();
  CHECK(cublasLtMatrixLayoutCreate(&l, CUDA_R_32F, 10, 10, 9) == CUBLAS_STATUS_INVALID_VALUE);
  MUST(cublasLtMatmulDescCreate(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  MUST(cublasLtMatmulPreferenceCreate(&p));
  l = layout(CUDA_R_32F, M, N, 1);
  CHECK(cublasLtMatmulAlgoGetHeuristic(handle, d, l, l, l, l, p, 1, &best, &n) == CUBLAS_STATUS_NOT_SUPPORTED);
  MUST(cublasLtMatmulDescDestroy(d));
  MUST(cublasLtMatmulPreferenceDestroy(p));
  MUST(cublasLtMatrixLayoutDestroy(l));
  return end();
}

static void right(void) { child_ends("products", RIGHT, NULL, NULL), child_ends("refusals", RIGHT, NULL, NULL); }

static void wrong(void) {
  child_ends("slips", DOUBLE_EXIT, "A is not at a multiple of 256 bytes", "SLIP=1");
  child_ends("slips", DOUBLE_EXIT, "chosen for another product", "SLIP=2");
  child_ends("slips", DOUBLE_EXIT, "the algorithm wants", "SLIP=3");
  child_ends("slips", DOUBLE_EXIT, "two streams share one workspace", "SLIP=4");
  child_ends("leak", DOUBLE_EXIT, "1 handles and descriptors", NULL);
  child_ends("products", REFUSED, "cublasLtMatmul, fails as asked for", "DOUBLES_FAIL=cublasLtMatmul:3");
}

#define CASE(name) \
  { #name, name }
static const ChildCase cases[] = {CASE(products), CASE(slips), CASE(leak), CASE(refusals), {0}};

int main(int argc, char **argv) {
  int result;
  if (child_is(argc, argv, cases, &result)) return result;
  RUN(right);
  RUN(wrong);
  return test_summary();
}
