/* tests/doubles/dnn_test.c - compares the double of cuDNN with convolutions by plain loops, and checks that it finds
   violations. */
#include <math.h>

#include "tests/doubles/child.h"
#include "tests/doubles/convolve.h"
#include "tests/doubles/cuda_calls.h"
#include "tests/doubles/half.h"

enum { MOST = 20000, ARRAYS = 5 };

/* Arrays: image, filter, residual, bias, result. */
static cudnnHandle_t handle;
static CUstream stream;
static CUdeviceptr at[ARRAYS], space;
static float host[ARRAYS][MOST];

typedef struct Case {
  cudnnDataType_t type;
  cudnnMathType_t math;
  int images, in, out, height, width, window, groups, pad, stride, dilation;
  bool bias, residual, relu; /* joined, if any */
  int slip;                  /* the violation that a test commits */
} Case;

typedef struct Described {
  cudnnTensorDescriptor_t x, y, bias;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t conv;
  cudnnActivationDescriptor_t activation;
  int height, width; /* of the result */
} Described;

static void begin(void) {
  CUcontext context;
  MUST(cuInit(0));
  MUST(cuDevicePrimaryCtxRetain(&context, 0));
  MUST(cuCtxSetCurrent(context));
  MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  MUST(cudnnCreate(&handle));
  MUST(cudnnSetStream(handle, stream));
  for (int i = 0; i < ARRAYS; i++) MUST(cuMemAlloc_v2(&at[i], sizeof host[i]));
  MUST(cuMemAlloc_v2(&space, 48 << 20));
}

static int end(void) {
  MUST(cuStreamSynchronize(stream));
  MUST(cudnnDestroy(handle));
  for (int i = 0; i < ARRAYS; i++) MUST(cuMemFree_v2(at[i]));
  MUST(cuMemFree_v2(space));
  MUST(cuStreamDestroy_v2(stream));
  MUST(cuDevicePrimaryCtxRelease_v2(0));
  return test_failed_here ? WRONG : RIGHT;
}

/* Numbers that all types represent. */
static void put(const Case *c, int which) {
  static char bytes[sizeof host[0]];
  size_t size = convolve_bytes((int)c->type);
  for (int i = 0; i < MOST; i++) {
    host[which][i] = (float)((i * 7 + which * 5) % 17 - 8) / 8;
    convolve_store((int)c->type, bytes, i, host[which][i]);
  }
  MUST(cuMemcpyHtoDAsync_v2(at[which], bytes, MOST * size, stream));
  MUST(cuStreamSynchronize(stream));
}

static Described describe(const Case *c) {
  Described d;
  int reach = (c->window - 1) * c->dilation + 1;
  d.height = (c->height + 2 * c->pad - reach) / c->stride + 1;
  d.width = (c->width + 2 * c->pad - reach) / c->stride + 1;
  MUST(cudnnCreateTensorDescriptor(&d.x));
  MUST(cudnnCreateTensorDescriptor(&d.y));
  MUST(cudnnCreateTensorDescriptor(&d.bias));
  MUST(cudnnCreateFilterDescriptor(&d.w));
  MUST(cudnnCreateConvolutionDescriptor(&d.conv));
  MUST(cudnnCreateActivationDescriptor(&d.activation));
  MUST(cudnnSetTensor4dDescriptor(d.x, CUDNN_TENSOR_NHWC, c->type, c->images, c->in, c->height, c->width));
  MUST(cudnnSetTensor4dDescriptor(d.y, CUDNN_TENSOR_NHWC, c->type, c->images, c->out, d.height, d.width));
  MUST(cudnnSetTensor4dDescriptor(d.bias, CUDNN_TENSOR_NHWC, c->type, 1, c->out, 1, 1));
  MUST(cudnnSetFilter4dDescriptor(d.w, c->type, CUDNN_TENSOR_NHWC, c->out, c->in / c->groups, c->window, c->window));
  MUST(cudnnSetConvolution2dDescriptor(d.conv, c->pad, c->pad, c->stride, c->stride, c->dilation, c->dilation,
                                       CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  MUST(cudnnSetConvolutionGroupCount(d.conv, c->groups));
  MUST(cudnnSetConvolutionMathType(d.conv, c->math));
  MUST(cudnnSetActivationDescriptor(d.activation, c->relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY,
                                    CUDNN_NOT_PROPAGATE_NAN, 0));
  return d;
}

static void undescribe(const Described *d) {
  MUST(cudnnDestroyTensorDescriptor(d->x));
  MUST(cudnnDestroyTensorDescriptor(d->y));
  MUST(cudnnDestroyTensorDescriptor(d->bias));
  MUST(cudnnDestroyFilterDescriptor(d->w));
  MUST(cudnnDestroyConvolutionDescriptor(d->conv));
  MUST(cudnnDestroyActivationDescriptor(d->activation));
}

static double wanted(const Case *c, const Described *d, int n, int h, int v, int k) {
  int channels = c->in / c->groups, first = k / (c->out / c->groups) * channels;
  double all = 0;
  for (int r = 0; r < c->window; r++)
    for (int s = 0; s < c->window; s++)
      for (int i = 0; i < channels; i++) {
        int y = h * c->stride - c->pad + r * c->dilation, x = v * c->stride - c->pad + s * c->dilation;
        if (y < 0 || y >= c->height || x < 0 || x >= c->width) continue;
        all += (double)host[0][((n * c->height + y) * c->width + x) * c->in + first + i] *
               (double)host[1][((k * c->window + r) * c->window + s) * channels + i];
      }
  if (c->residual) all += (double)host[2][((n * d->height + h) * d->width + v) * c->out + k];
  if (c->bias) all += (double)host[3][k];
  return c->relu && all < 0 ? 0 : all;
}

static void compare(const Case *c, const Described *d) {
  static char got[sizeof host[0]];
  int place = 0;
  MUST(cuMemcpyDtoHAsync_v2(got, at[4], sizeof got, stream));
  MUST(cuStreamSynchronize(stream));
  for (int n = 0; n < c->images; n++)
    for (int h = 0; h < d->height; h++)
      for (int v = 0; v < d->width; v++)
        for (int k = 0; k < c->out; k++) {
          double want = wanted(c, d, n, h, v, k), is = (double)convolve_load((int)c->type, got, place++);
          double most = c->type == CUDNN_DATA_FLOAT ? 1e-4 : 1e-2;
          CHECKF(fabs(is - want) <= most * fmax(1, fabs(want)), "%d %d %d %d: %g, not %g", n, h, v, k, is, want);
          if (test_failed_here > 3) exit(WRONG);
        }
}

#define POINTER(x) ((void *)(uintptr_t)(x))

/* ---- gradients: y is given in array 2, and the sum over all products lands in array 4 */

/* The place in the image that element (r, s) of the window meets from (h, v), of channel i; -1 if outside. */
static int met(const Case *c, int n, int h, int v, int r, int s, int i) {
  int y = h * c->stride - c->pad + r * c->dilation, x = v * c->stride - c->pad + s * c->dilation;
  if (y < 0 || y >= c->height || x < 0 || x >= c->width) return -1;
  return ((n * c->height + y) * c->width + x) * c->in + i;
}

static void add_products(const Case *c, const Described *d, bool to_image, double *sums) {
  int channels = c->in / c->groups;
  for (int n = 0; n < c->images; n++)
    for (int h = 0; h < d->height; h++)
      for (int v = 0; v < d->width; v++)
        for (int k = 0; k < c->out; k++)
          for (int place = 0; place < c->window * c->window * channels; place++) {
            int r = place / channels / c->window, s = place / channels % c->window, i = place % channels;
            int x = met(c, n, h, v, r, s, k / (c->out / c->groups) * channels + i);
            int w = k * c->window * c->window * channels + place;
            double dy = (double)host[2][((n * d->height + h) * d->width + v) * c->out + k];
            if (x >= 0) sums[to_image ? x : w] += dy * (double)host[to_image ? 1 : 0][to_image ? w : x];
          }
}

static void compare_gradient(const Case *c, const Described *d, bool to_image) {
  static char got[sizeof host[0]];
  static double sums[MOST];
  int channels = c->in / c->groups,
      n = to_image ? c->images * c->height * c->width * c->in : c->out * c->window * c->window * channels;
  double most = c->type == CUDNN_DATA_FLOAT ? 1e-4 : 1e-2;
  MUST(cuMemcpyDtoHAsync_v2(got, at[4], sizeof got, stream));
  MUST(cuStreamSynchronize(stream));
  memset(sums, 0, sizeof sums);
  add_products(c, d, to_image, sums);
  for (int i = 0; i < n; i++) {
    double is = (double)convolve_load((int)c->type, got, i);
    CHECKF(fabs(is - sums[i]) <= most * fmax(1, fabs(sums[i])), "%d: %g, not %g", i, is, sums[i]);
    if (test_failed_here > 3) exit(WRONG);
  }
}

/* Lists the algorithms of one gradient and calls those that qualify: deterministic, in the memory that they want. */
#define GRADIENT_CASE(name, Perf, Algorithm, Algorithms, Workspace, Call, first, second, third, to, to_image) \
  static int name##_of(const Case *c) { \
    static const float one = 1, none = 0; \
    Perf found[8]; \
    Described d = describe(c); \
    int n, called = 0; \
    for (int i = 0; i < 3; i++) put(c, i); \
    MUST(Algorithms(handle, first, second, d.conv, third, 8, &n, found)); \
    for (int i = 0; i < n; i++) { \
      size_t bytes = 0; \
      if (found[i].status || found[i].determinism != CUDNN_DETERMINISTIC) continue; \
      CHECK(found[i].algo != 0); \
      MUST(Workspace(handle, first, second, d.conv, third, found[i].algo, &bytes)); \
      CHECK(bytes == found[i].memory); \
      if (c->slip == 2 && bytes == 0) continue; \
      MUST(Call(handle, &one, first, \
                POINTER(to_image       ? at[1] \
                        : c->slip == 1 ? at[0] + 4 \
                                       : at[0]), \
                d.y, POINTER(at[2]), d.conv, c->slip == 3 ? (Algorithm)99 : found[i].algo, POINTER(space), \
                c->slip == 2 ? bytes - 1 : bytes, &none, to, POINTER(at[4]))); \
      if (!c->slip) compare_gradient(c, &d, to_image); \
      called++; \
    } \
    undescribe(&d); \
    return called; \
  }
GRADIENT_CASE(image, cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t,
              cudnnGetConvolutionBackwardDataAlgorithm_v7, cudnnGetConvolutionBackwardDataWorkspaceSize,
              cudnnConvolutionBackwardData, d.w, d.y, d.x, d.x, true)
GRADIENT_CASE(weight, cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t,
              cudnnGetConvolutionBackwardFilterAlgorithm_v7, cudnnGetConvolutionBackwardFilterWorkspaceSize,
              cudnnConvolutionBackwardFilter, d.x, d.y, d.w, d.w, false)

/* ---- convolutions */

static void call(const Case *c, const Described *d, cudnnConvolutionFwdAlgo_t algorithm, size_t bytes) {
  static const float one = 1, none = 0;
  CUdeviceptr x = c->slip == 1 ? at[0] + 4 : at[0];
  if (c->slip == 2) bytes--;
  if (c->slip == 3) algorithm = (cudnnConvolutionFwdAlgo_t)99;
  if (c->bias)
    MUST(cudnnConvolutionBiasActivationForward(handle, &one, d->x, POINTER(x), d->w, POINTER(at[1]), d->conv, algorithm,
                                               POINTER(space), bytes, c->residual ? &one : &none, d->y, POINTER(at[2]),
                                               d->bias, POINTER(at[3]), d->activation, d->y, POINTER(at[4])));
  else
    MUST(cudnnConvolutionForward(handle, &one, d->x, POINTER(x), d->w, POINTER(at[1]), d->conv, algorithm,
                                 POINTER(space), bytes, &none, d->y, POINTER(at[4])));
}

static void convolve_case(const Case *c) {
  cudnnConvolutionFwdAlgoPerf_t found[8];
  Described d = describe(c);
  int n;
  for (int i = 0; i < 4; i++) put(c, i);
  MUST(cudnnGetConvolutionForwardAlgorithm_v7(handle, d.x, d.w, d.conv, d.y, 8, &n, found));
  for (int i = 0; i < n; i++) {
    size_t bytes = 0;
    cudnnConvolutionFwdAlgo_t a = found[i].algo;
    bool joins = !c->bias || c->relu || a == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
    if (found[i].status || found[i].determinism != CUDNN_DETERMINISTIC || !joins) continue;
    MUST(cudnnGetConvolutionForwardWorkspaceSize(handle, d.x, d.w, d.conv, d.y, a, &bytes));
    CHECK(bytes == found[i].memory);
    if (c->slip == 2 && bytes == 0) continue;
    call(c, &d, a, bytes);
    if (!c->slip) compare(c, &d);
  }
  undescribe(&d);
}

static const Case cases[] = {
    {CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, 2, 3, 5, 9, 8, 3, 1, 1, 1, 1, false, false, false, 0},
    {CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, 1, 40, 6, 7, 7, 3, 2, 2, 2, 2, true, true, true, 0},
    {CUDNN_DATA_HALF, CUDNN_TENSOR_OP_MATH, 2, 8, 8, 5, 6, 1, 4, 0, 1, 1, false, false, false, 0},
    {CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_OP_MATH, 1, 6, 9, 8, 8, 3, 3, 0, 2, 1, true, false, false, 0},
    {CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, 2, 4, 4, 6, 6, 3, 1, 1, 1, 1, true, false, true, 0}};

static int convolutions(void) {
  begin();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) convolve_case(&cases[i]);
  return end();
}

static int gradients(void) {
  begin();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK(image_of(&cases[i]) > 0);
    CHECK(weight_of(&cases[i]) > 0);
  }
  return end();
}

/* A bias, then relu, in place. */
static int followed(void) {
  static const float one = 1, none = 0;
  static char got[sizeof host[0]];
  begin();
  Described d = describe(&cases[1]);
  for (int i = 0; i < ARRAYS; i++) put(&cases[1], i);
  MUST(cudnnAddTensor(handle, &one, d.bias, POINTER(at[3]), &one, d.y, POINTER(at[4])));
  MUST(cudnnActivationForward(handle, d.activation, &one, d.y, POINTER(at[4]), &none, d.y, POINTER(at[4])));
  MUST(cuMemcpyDtoHAsync_v2(got, at[4], sizeof got, stream));
  MUST(cuStreamSynchronize(stream));
  for (int i = 0; i < d.height * d.width * cases[1].out; i++) {
    float want = host[4][i] + host[3][i % cases[1].out];
    CHECK(convolve_load(CUDNN_DATA_FLOAT, got, i) == (want > 0 ? want : 0));
  }
  undescribe(&d);
  return end();
}

/* Algorithms that are not deterministic give other numbers. */
static int other(void) {
  cudnnConvolutionFwdAlgoPerf_t found[8];
  int n, differ = 0;
  begin();
  for (int width = 6; width < 12; width++) {
    Case c = cases[0];
    c.width = width;
    Described d = describe(&c);
    MUST(cudnnGetConvolutionForwardAlgorithm_v7(handle, d.x, d.w, d.conv, d.y, 8, &n, found));
    for (int i = 0; i < n; i++) differ += !found[i].status && found[i].determinism != CUDNN_DETERMINISTIC;
    undescribe(&d);
  }
  CHECK(differ > 0);
  return end();
}

/* Invalid convolutions are refused. */
static int refusals(void) {
  cudnnConvolutionFwdAlgoPerf_t found[8];
  int n;
  begin();
  Described d = describe(&cases[0]);
  CHECK(cudnnGetConvolutionForwardAlgorithm_v7(handle, d.y, d.w, d.conv, d.x, 8, &n, found) == CUDNN_STATUS_BAD_PARAM);
  CHECK(cudnnSetFilter4dDescriptor(d.w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, 5, 0, 3, 3) == CUDNN_STATUS_BAD_PARAM);
  CHECK(cudnnSetStream(handle, (CUstream)POINTER(8)) == CUDNN_STATUS_BAD_PARAM);
  undescribe(&d);
  return end();
}

static int gap(void) {
  cudnnConvolutionFwdAlgoPerf_t found[8];
  int n;
  begin();
  Described d = describe(&cases[0]);
  CHECK(cudnnGetConvolutionForwardAlgorithm_v7(handle, d.x, d.w, d.conv, d.y, 8, &n, found) ==
        CUDNN_STATUS_NOT_SUPPORTED);
  undescribe(&d);
  return end();
}

static int slips(void) {
  Case c = cases[0];
  c.slip = atoi(getenv("SLIP"));
  begin();
  convolve_case(&c);
  return end();
}

static int weight_slips(void) {
  Case c = cases[0];
  c.slip = atoi(getenv("SLIP"));
  begin();
  weight_of(&c);
  return end();
}

static int leak(void) {
  begin();
  describe(&cases[0]);
  return end();
}

#define ALL "DOUBLES_DNN_GAPS=0"

static void right(void) {
  child_ends("convolutions", RIGHT, NULL, ALL);
  child_ends("gradients", RIGHT, NULL, ALL);
  child_ends("followed", RIGHT, NULL, NULL);
  child_ends("other", RIGHT, NULL, ALL);
  child_ends("refusals", RIGHT, NULL, ALL);
  child_ends("gap", RIGHT, NULL, "DOUBLES_DNN_GAPS=1");
}

static void wrong(void) {
  setenv("DOUBLES_DNN_GAPS", "0", 1);
  child_ends("slips", DOUBLE_EXIT, "the image is not at a multiple of 16 bytes", "SLIP=1");
  child_ends("slips", DOUBLE_EXIT, "the algorithm wants", "SLIP=2");
  child_ends("slips", DOUBLE_EXIT, "algorithm 99 does not do that", "SLIP=3");
  child_ends("weight_slips", DOUBLE_EXIT, "the image is not at a multiple of 16 bytes", "SLIP=1");
  child_ends("weight_slips", DOUBLE_EXIT, "the algorithm wants", "SLIP=2");
  child_ends("weight_slips", DOUBLE_EXIT, "algorithm 99 does not do that", "SLIP=3");
  child_ends("leak", DOUBLE_EXIT, "6 handles and descriptors", NULL);
  child_ends("convolutions", REFUSED, "cudnnConvolutionForward, fails as asked for",
             "DOUBLES_FAIL=cudnnConvolutionForward:2");
  child_ends("gradients", REFUSED, "cudnnConvolutionBackwardFilter, fails as asked for",
             "DOUBLES_FAIL=cudnnConvolutionBackwardFilter:1");
}

#define CASE(name) \
  { #name, name }
static const ChildCase children[] = {
    CASE(convolutions), CASE(gradients), CASE(followed),     CASE(other), CASE(refusals),
    CASE(gap),          CASE(slips),     CASE(weight_slips), CASE(leak),  {0}};

int main(int argc, char **argv) {
  int result;
  if (child_is(argc, argv, children, &result)) return result;
  RUN(right);
  RUN(wrong);
  return test_summary();
}
