/* tests/doubles/dnn.c - the double of cuDNN: convolutions of two dimensions and their gradients by its old interface,
 * channels last.
 *
 * The algorithms for a convolution, their order, their workspace (up to 48 MiB) and whether they are deterministic are
 * drawn from the seed and the convolution, so that every query gets the same answer.  An algorithm that is not
 * deterministic computes something else.  One in DOUBLES_DNN_GAPS requests (8; 0: none) is not supported: a
 * convolution, possibly refused only at the call, or joining its followers.  A call is a violation if it gives less
 * memory than the algorithm wants, takes an algorithm that was not listed, or has addresses that are no multiples of
 * 16.  Workspace is 0xff afterwards; so is a result before any operand is read, unless the call adds to it. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "tests/doubles/convolve.h"

typedef struct Handle {
  CUstream stream;
  int device;
} Handle;

typedef struct Activation {
  int mode, nan;
} Activation;

typedef enum WorkOp { CONVOLVE, IMAGE_GRADIENT, WEIGHT_GRADIENT, ADD, ACTIVATE } WorkOp;

typedef struct DnnWork {
  DoubleWork work;
  WorkOp op;
  Convolving p; /* ADD: alpha a + beta y, a in `bias`; ACTIVATE: y from x */
  CUdeviceptr x, w, z, bias, y, workspace;
  uint64_t workspace_bytes;
  int algorithm;
} DnnWork;

static int alive; /* handles and descriptors */

static cudnnStatus_t fails(const char *name) {
  if (double_drops()) return CUDNN_STATUS_SUCCESS;
  return strcmp(name, "cudnnCreate") == 0                ? CUDNN_STATUS_NOT_INITIALIZED
         : strstr(name, "Get")                           ? CUDNN_STATUS_INTERNAL_ERROR
         : strstr(name, "Create") || strstr(name, "Set") ? CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
                                                         : CUDNN_STATUS_EXECUTION_FAILED;
}
#define ENTER_DNN(name) ENTER_OR(name, fails(#name))

static void find_leaks(void) {
  if (alive) double_violation("%d handles and descriptors of cuDNN are not destroyed", alive);
}

static void *create(size_t bytes) {
  static bool watched;
  if (!watched) double_at_end(find_leaks);
  watched = true;
  alive++;
  return calloc(1, bytes);
}

static cudnnStatus_t destroy(void *x) {
  if (!x) return CUDNN_STATUS_BAD_PARAM;
  alive--;
  free(x);
  return CUDNN_STATUS_SUCCESS;
}

/* ---- handles and descriptors */

DOUBLE_API size_t cudnnGetVersion(void) { return (size_t)double_setting("DOUBLES_DNN", 91900); }
DOUBLE_API size_t cudnnGetCudartVersion(void) { return (size_t)double_setting("DOUBLES_DNN_CUDA", 12000); }

DOUBLE_API const char *cudnnGetErrorString(cudnnStatus_t status) {
  static const struct {
    cudnnStatus_t status;
    const char *name;
  } names[] = {
      {CUDNN_STATUS_SUCCESS, "CUDNN_STATUS_SUCCESS"},
      {CUDNN_STATUS_NOT_INITIALIZED, "CUDNN_STATUS_NOT_INITIALIZED"},
      {CUDNN_STATUS_BAD_PARAM, "CUDNN_STATUS_BAD_PARAM"},
      {CUDNN_STATUS_NOT_SUPPORTED, "CUDNN_STATUS_NOT_SUPPORTED"},
      {CUDNN_STATUS_INTERNAL_ERROR, "CUDNN_STATUS_INTERNAL_ERROR"},
      {CUDNN_STATUS_EXECUTION_FAILED, "CUDNN_STATUS_EXECUTION_FAILED"},
      {CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].status == status) return names[i].name;
  return "<unknown>";
}

DOUBLE_API cudnnStatus_t cudnnCreate(cudnnHandle_t *out) {
  ENTER_DNN(cudnnCreate);
  if (double_current() < 0) return CUDNN_STATUS_NOT_INITIALIZED;
  Handle *h = create(sizeof *h);
  h->device = double_current();
  *out = (cudnnHandle_t)(void *)h;
  return CUDNN_STATUS_SUCCESS;
}

DOUBLE_API cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  ENTER_DNN(cudnnDestroy);
  return destroy(handle);
}

DOUBLE_API cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  ENTER_DNN(cudnnSetStream);
  Handle *h = (Handle *)(void *)handle;
  if (!h || double_stream_device(stream) != h->device) return CUDNN_STATUS_BAD_PARAM;
  h->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

#define CREATE_AND_DESTROY(Create, Destroy, Handle, Type) \
  DOUBLE_API cudnnStatus_t Create(Handle *out) { \
    ENTER_DNN(Create); \
    *out = (Handle)create(sizeof(Type)); \
    return CUDNN_STATUS_SUCCESS; \
  } \
  DOUBLE_API cudnnStatus_t Destroy(Handle d) { \
    ENTER_DNN(Destroy); \
    return destroy(d); \
  }
CREATE_AND_DESTROY(cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor, cudnnTensorDescriptor_t, Image)
CREATE_AND_DESTROY(cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor, cudnnFilterDescriptor_t, Filter)
CREATE_AND_DESTROY(cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor, cudnnConvolutionDescriptor_t,
                   Convolution)
CREATE_AND_DESTROY(cudnnCreateActivationDescriptor, cudnnDestroyActivationDescriptor, cudnnActivationDescriptor_t,
                   Activation)

/* Other layouts are not doubled. */
static bool is_shape(const char *what, int format, int type, int a, int b, int c, int d) {
  if (format != CUDNN_TENSOR_NHWC) double_violation("%s: only channels last are doubled", what);
  return convolve_bytes(type) && a > 0 && b > 0 && c > 0 && d > 0;
}

DOUBLE_API cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t d, cudnnTensorFormat_t format,
                                                    cudnnDataType_t type, int n, int c, int h, int w) {
  ENTER_DNN(cudnnSetTensor4dDescriptor);
  if (!is_shape("cudnnSetTensor4dDescriptor", (int)format, (int)type, n, c, h, w)) return CUDNN_STATUS_BAD_PARAM;
  *(Image *)(void *)d = (Image){(int)type, n, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}

DOUBLE_API cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type,
                                                    cudnnTensorFormat_t format, int k, int c, int h, int w) {
  ENTER_DNN(cudnnSetFilter4dDescriptor);
  if (!is_shape("cudnnSetFilter4dDescriptor", (int)format, (int)type, k, c, h, w)) return CUDNN_STATUS_BAD_PARAM;
  *(Filter *)(void *)d = (Filter){(int)type, k, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}

DOUBLE_API cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t x, int pad_h, int pad_w, int u,
                                                         int v, int dilation_h, int dilation_w,
                                                         cudnnConvolutionMode_t mode, cudnnDataType_t sums) {
  ENTER_DNN(cudnnSetConvolution2dDescriptor);
  if (pad_h < 0 || pad_w < 0 || u < 1 || v < 1 || dilation_h < 1 || dilation_w < 1) return CUDNN_STATUS_BAD_PARAM;
  *(Convolution *)(void *)x = (Convolution){.pad = {pad_h, pad_w},
                                            .stride = {u, v},
                                            .dilation = {dilation_h, dilation_w},
                                            .groups = 1,
                                            .math = CUDNN_DEFAULT_MATH,
                                            .sums = (int)sums,
                                            .mode = (int)mode};
  return CUDNN_STATUS_SUCCESS;
}

DOUBLE_API cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t x, cudnnMathType_t math) {
  ENTER_DNN(cudnnSetConvolutionMathType);
  ((Convolution *)(void *)x)->math = (int)math;
  return CUDNN_STATUS_SUCCESS;
}

DOUBLE_API cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t x, int groups) {
  ENTER_DNN(cudnnSetConvolutionGroupCount);
  if (groups < 1) return CUDNN_STATUS_BAD_PARAM;
  ((Convolution *)(void *)x)->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

DOUBLE_API cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t x, cudnnActivationMode_t mode,
                                                      cudnnNanPropagation_t nan, double coef) {
  ENTER_DNN(cudnnSetActivationDescriptor);
  (void)coef; /* used by clipped activations only */
  *(Activation *)(void *)x = (Activation){(int)mode, (int)nan};
  return CUDNN_STATUS_SUCCESS;
}

/* ---- convolutions */

static int output_of(int image, int window, const Convolution *c, int d) {
  int room = image + 2 * c->pad[d] - ((window - 1) * c->dilation[d] + 1);
  return room < 0 ? 0 : room / c->stride[d] + 1;
}

/* False if the descriptors do not match. */
static bool make(const void *x, const void *w, const void *conv, const void *y, Convolving *p) {
  *p = (Convolving){.alpha = 1};
  if (!x || !w || !conv || !y) return false;
  memcpy(&p->x, x, sizeof p->x), memcpy(&p->w, w, sizeof p->w);
  memcpy(&p->conv, conv, sizeof p->conv), memcpy(&p->y, y, sizeof p->y);
  const Convolution *c = &p->conv;
  return p->x.type == p->w.type && p->x.type == p->y.type && c->groups > 0 && p->w.k % c->groups == 0 &&
         p->w.c * c->groups == p->x.c && p->y.c == p->w.k && p->y.n == p->x.n &&
         p->y.h == output_of(p->x.h, p->w.h, c, 0) && p->y.w == output_of(p->x.w, p->w.w, c, 1) &&
         c->sums == CUDNN_DATA_FLOAT && c->mode == CUDNN_CROSS_CORRELATION;
}

/* Equal for equal convolutions under one seed. */
static uint64_t draw(const Convolving *p, uint64_t which) {
  const struct {
    Image x, y;
    Filter w;
    Convolution conv;
  } all = {p->x, p->y, p->w, p->conv};
  uint64_t seed = (uint64_t)double_setting("DOUBLES_SEED", 0) * 64 + which;
  return hash64(&all, sizeof all, hash64(&seed, sizeof seed, 7));
}

enum { ORDER = 32, GAP_ALL = 40, GAP_JOINED, GAP_ALONE, OF_GRADIENTS = 64 };

static int algorithms_of(WorkOp op) {
  return op == IMAGE_GRADIENT    ? CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT
         : op == WEIGHT_GRADIENT ? CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT
                                 : CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
}

/* Different numbers for each of the gradients. */
static uint64_t draw_for(const Convolving *p, WorkOp op, uint64_t which) {
  return draw(p, which + (uint64_t)op * OF_GRADIENTS);
}

static bool is_gap_for(const Convolving *p, WorkOp op, uint64_t which) {
  int64_t gaps = double_setting("DOUBLES_DNN_GAPS", 8);
  return gaps > 0 && draw_for(p, op, which) % (uint64_t)gaps == 0;
}
static bool is_gap(const Convolving *p, uint64_t which) { return is_gap_for(p, CONVOLVE, which); }

/* The first two support everything, the first without memory; for gradients it is not deterministic, like cuDNN's. */
static bool does(const Convolving *p, WorkOp op, int algorithm) {
  return algorithm < 2 || (algorithm < algorithms_of(op) && draw_for(p, op, (uint64_t)algorithm) % 2 == 0);
}
static bool is_exact(const Convolving *p, WorkOp op, int algorithm) {
  if (algorithm < 2) return algorithm == 1 || op == CONVOLVE;
  return draw_for(p, op, (uint64_t)algorithm) / 2 % 2 == 0;
}
static uint64_t memory_of(const Convolving *p, WorkOp op, int algorithm) {
  return algorithm == 0 ? 0 : draw_for(p, op, 16 + (uint64_t)algorithm) % (algorithm == 1 ? 1 << 16 : 48 << 20);
}

/* All algorithms for a result, as the structs of its function. */
#define LIST_ALGORITHMS(op, Perf, Algorithm) \
  *n = 0; \
  if (!handle || most < 1 || !make(x, w, conv, y, &p)) return CUDNN_STATUS_BAD_PARAM; \
  if (is_gap_for(&p, op, GAP_ALL)) return CUDNN_STATUS_NOT_SUPPORTED; \
  for (int i = 0, all = algorithms_of(op); i < all && i < most; i++) { \
    int a = (int)((draw_for(&p, op, ORDER) + (uint64_t)i) % (uint64_t)all); \
    out[(*n)++] = (Perf){.algo = (Algorithm)a, \
                         .status = does(&p, op, a) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED, \
                         .time = -1, \
                         .memory = memory_of(&p, op, a), \
                         .determinism = is_exact(&p, op, a) ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC, \
                         .mathType = (cudnnMathType_t)p.conv.math}; \
  } \
  return CUDNN_STATUS_SUCCESS

static cudnnStatus_t workspace_of(const void *handle, const void *x, const void *w, const void *conv, const void *y,
                                  WorkOp op, int algorithm, size_t *bytes) {
  Convolving p;
  if (!handle || !make(x, w, conv, y, &p)) return CUDNN_STATUS_BAD_PARAM;
  if (!does(&p, op, algorithm)) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = memory_of(&p, op, algorithm);
  return CUDNN_STATUS_SUCCESS;
}

DOUBLE_API cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                                const cudnnFilterDescriptor_t w,
                                                                const cudnnConvolutionDescriptor_t conv,
                                                                const cudnnTensorDescriptor_t y, const int most, int *n,
                                                                cudnnConvolutionFwdAlgoPerf_t *out) {
  ENTER_DNN(cudnnGetConvolutionForwardAlgorithm_v7);
  Convolving p;
  LIST_ALGORITHMS(CONVOLVE, cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t);
}

DOUBLE_API cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                                 const cudnnFilterDescriptor_t w,
                                                                 const cudnnConvolutionDescriptor_t conv,
                                                                 const cudnnTensorDescriptor_t y,
                                                                 cudnnConvolutionFwdAlgo_t algorithm, size_t *bytes) {
  ENTER_DNN(cudnnGetConvolutionForwardWorkspaceSize);
  return workspace_of(handle, x, w, conv, y, CONVOLVE, (int)algorithm, bytes);
}

DOUBLE_API cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle,
                                                                     const cudnnFilterDescriptor_t w,
                                                                     const cudnnTensorDescriptor_t y,
                                                                     const cudnnConvolutionDescriptor_t conv,
                                                                     const cudnnTensorDescriptor_t x, const int most,
                                                                     int *n, cudnnConvolutionBwdDataAlgoPerf_t *out) {
  ENTER_DNN(cudnnGetConvolutionBackwardDataAlgorithm_v7);
  Convolving p;
  LIST_ALGORITHMS(IMAGE_GRADIENT, cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t);
}

DOUBLE_API cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t y,
    const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t x, cudnnConvolutionBwdDataAlgo_t algorithm,
    size_t *bytes) {
  ENTER_DNN(cudnnGetConvolutionBackwardDataWorkspaceSize);
  return workspace_of(handle, x, w, conv, y, IMAGE_GRADIENT, (int)algorithm, bytes);
}

DOUBLE_API cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t y,
    const cudnnConvolutionDescriptor_t conv, const cudnnFilterDescriptor_t w, const int most, int *n,
    cudnnConvolutionBwdFilterAlgoPerf_t *out) {
  ENTER_DNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7);
  Convolving p;
  LIST_ALGORITHMS(WEIGHT_GRADIENT, cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t);
}

DOUBLE_API cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t y,
    const cudnnConvolutionDescriptor_t conv, const cudnnFilterDescriptor_t w, cudnnConvolutionBwdFilterAlgo_t algorithm,
    size_t *bytes) {
  ENTER_DNN(cudnnGetConvolutionBackwardFilterWorkspaceSize);
  return workspace_of(handle, x, w, conv, y, WEIGHT_GRADIENT, (int)algorithm, bytes);
}

/* ---- work */

static const char *what_of(const DnnWork *w) { return w->work.what; }

static bool find(const DnnWork *w, CUdeviceptr at, int64_t elements, int type, char **out) {
  *out = at ? double_at(w->work.device, at, (uint64_t)elements * convolve_bytes(type), what_of(w)) : NULL;
  return !at || *out;
}

static int64_t bias_elements(const DnnWork *w) { return w->p.y.c; }

static void add(const DnnWork *w, const char *bias, char *y) {
  const Image *i = &w->p.y;
  for (int64_t k = 0; k < image_elements(i); k++)
    convolve_store(i->type, y, k,
                   w->p.alpha * convolve_load(i->type, bias, k % i->c) + w->p.beta * convolve_load(i->type, y, k));
}

static void activate(const DnnWork *w, const char *x, char *y) {
  for (int64_t k = 0; k < image_elements(&w->p.y); k++)
    convolve_store(w->p.y.type, y, k, convolve_relu(convolve_load(w->p.y.type, x, k)));
}

static bool work_run(const DoubleWork *work, void *state) {
  const DnnWork *w = (const DnnWork *)work;
  const Convolving *p = &w->p;
  char *x, *f, *z, *bias, *y, *space = NULL;
  (void)state;
  bool ok = find(w, w->x, image_elements(&p->x), p->x.type, &x) &&
            find(w, w->w, filter_elements(&p->w), p->w.type, &f) &&
            find(w, w->z, image_elements(&p->y), p->y.type, &z) &&
            find(w, w->bias, bias_elements(w), p->y.type, &bias) && find(w, w->y, image_elements(&p->y), p->y.type, &y);
  if (ok && w->workspace_bytes)
    ok = (space = double_at(work->device, w->workspace, w->workspace_bytes, what_of(w))) != NULL;
  if (!ok) {
    double_device_error(work->device, CUDA_ERROR_ILLEGAL_ADDRESS, "%s", what_of(w));
    return true;
  }
  if (space) memset(space, 0xff, w->workspace_bytes);
  if (w->op == CONVOLVE && z != y) memset(y, 0xff, (size_t)image_elements(&p->y) * convolve_bytes(p->y.type));
  if (w->op == IMAGE_GRADIENT && p->beta == 0)
    memset(x, 0xff, (size_t)image_elements(&p->x) * convolve_bytes(p->x.type));
  if (w->op == WEIGHT_GRADIENT && p->beta == 0)
    memset(f, 0xff, (size_t)filter_elements(&p->w) * convolve_bytes(p->w.type));
  if (w->op == CONVOLVE) convolve(p, x, f, z, bias, y);
  else if (w->op == IMAGE_GRADIENT) convolve_image_gradient(p, x, f, y);
  else if (w->op == WEIGHT_GRADIENT) convolve_weight_gradient(p, x, f, y);
  else if (w->op == ADD) add(w, bias, y);
  else activate(w, x, y);
  if (space) memset(space, 0xff, w->workspace_bytes);
  return true;
}

static void visit_elements(DoubleVisit *visit, void *context, CUdeviceptr at, int64_t elements, int type, bool writes) {
  if (at) visit(context, at, (uint64_t)elements * convolve_bytes(type), writes);
}

static void work_ranges(const DoubleWork *work, DoubleVisit *visit, void *context) {
  const DnnWork *w = (const DnnWork *)work;
  const Convolving *p = &w->p;
  int64_t image = image_elements(&p->y);
  visit_elements(visit, context, w->x, image_elements(&p->x), p->x.type, w->op == IMAGE_GRADIENT);
  visit_elements(visit, context, w->w, filter_elements(&p->w), p->w.type, w->op == WEIGHT_GRADIENT);
  visit_elements(visit, context, w->z, image, p->y.type, false);
  visit_elements(visit, context, w->bias, bias_elements(w), p->y.type, false);
  visit_elements(visit, context, w->y, image, p->y.type, w->op != IMAGE_GRADIENT && w->op != WEIGHT_GRADIENT);
  if (w->workspace_bytes) visit(context, w->workspace, w->workspace_bytes, true);
}

static void work_drop(DoubleWork *work) { free(work); }

static const DoubleWorkKind work_kind = {NULL, work_run, work_drop, NULL, work_ranges, false};

/* ---- calls */

#define ADDRESS(x) ((CUdeviceptr)(uintptr_t)(x))

static void check_addresses(const DnnWork *w) {
  const CUdeviceptr at[] = {w->x, w->w, w->z, w->bias, w->y, w->workspace};
  for (int i = 0; i < 6; i++)
    if (at[i] % 16)
      double_violation("%s: the %s is not at a multiple of 16 bytes", what_of(w),
                       (const char *const[]){"image", "filter", "residual", "bias", "result", "workspace"}[i]);
  if (w->op <= WEIGHT_GRADIENT && (w->x == w->y || w->w == w->y || w->x == w->w))
    double_violation("%s: it is in place", what_of(w));
}

/* Takes ownership of the work. */
static cudnnStatus_t submit(const Handle *h, DnnWork *w, WorkOp op, const char *name) {
  w->op = op;
  w->work = (DoubleWork){&work_kind, name, h->device, 1, op <= WEIGHT_GRADIENT ? double_pretended(w->algorithm) : 0};
  check_addresses(w);
  return double_submit(h->stream, &w->work) ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS;
}

static void use_algorithm(DnnWork *w, WorkOp op, const char *name, int algorithm, void *workspace, size_t bytes) {
  uint64_t wants = memory_of(&w->p, op, algorithm);
  if (!does(&w->p, op, algorithm)) double_violation("%s: algorithm %d does not do that", name, algorithm);
  if (bytes < wants || (wants && !workspace))
    double_violation("%s: a workspace of %zu bytes, the algorithm wants %llu", name, bytes, (unsigned long long)wants);
  w->workspace = ADDRESS(workspace), w->workspace_bytes = wants;
  w->p.inexact = !is_exact(&w->p, op, algorithm);
  w->algorithm = algorithm;
}

DOUBLE_API cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                                 const cudnnTensorDescriptor_t x_is, const void *x,
                                                 const cudnnFilterDescriptor_t w_is, const void *w,
                                                 const cudnnConvolutionDescriptor_t conv,
                                                 cudnnConvolutionFwdAlgo_t algorithm, void *workspace, size_t bytes,
                                                 const void *beta, const cudnnTensorDescriptor_t y_is, void *y) {
  ENTER_DNN(cudnnConvolutionForward);
  Convolving p;
  if (!handle || !x || !w || !y || !make(x_is, w_is, conv, y_is, &p)) return CUDNN_STATUS_BAD_PARAM;
  if (is_gap(&p, GAP_ALL) || is_gap(&p, GAP_ALONE)) return CUDNN_STATUS_NOT_SUPPORTED;
  DnnWork *k = calloc(1, sizeof *k);
  *k = (DnnWork){.p = p, .x = ADDRESS(x), .w = ADDRESS(w), .y = ADDRESS(y)};
  k->p.alpha = *(const float *)alpha, k->p.beta = *(const float *)beta;
  if (k->p.beta != 0) k->z = k->y;
  use_algorithm(k, CONVOLVE, "cudnnConvolutionForward", (int)algorithm, workspace, bytes);
  return submit((Handle *)(void *)handle, k, CONVOLVE, "cudnnConvolutionForward");
}

DOUBLE_API cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                                      const cudnnFilterDescriptor_t w_is, const void *w,
                                                      const cudnnTensorDescriptor_t y_is, const void *y,
                                                      const cudnnConvolutionDescriptor_t conv,
                                                      cudnnConvolutionBwdDataAlgo_t algorithm, void *workspace,
                                                      size_t bytes, const void *beta,
                                                      const cudnnTensorDescriptor_t x_is, void *x) {
  ENTER_DNN(cudnnConvolutionBackwardData);
  Convolving p;
  if (!handle || !x || !w || !y || !make(x_is, w_is, conv, y_is, &p)) return CUDNN_STATUS_BAD_PARAM;
  if (is_gap_for(&p, IMAGE_GRADIENT, GAP_ALL) || is_gap_for(&p, IMAGE_GRADIENT, GAP_ALONE))
    return CUDNN_STATUS_NOT_SUPPORTED;
  DnnWork *k = calloc(1, sizeof *k);
  *k = (DnnWork){.p = p, .x = ADDRESS(x), .w = ADDRESS(w), .y = ADDRESS(y)};
  k->p.alpha = *(const float *)alpha, k->p.beta = *(const float *)beta;
  use_algorithm(k, IMAGE_GRADIENT, "cudnnConvolutionBackwardData", (int)algorithm, workspace, bytes);
  return submit((Handle *)(void *)handle, k, IMAGE_GRADIENT, "cudnnConvolutionBackwardData");
}

DOUBLE_API cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
                                                        const cudnnTensorDescriptor_t x_is, const void *x,
                                                        const cudnnTensorDescriptor_t y_is, const void *y,
                                                        const cudnnConvolutionDescriptor_t conv,
                                                        cudnnConvolutionBwdFilterAlgo_t algorithm, void *workspace,
                                                        size_t bytes, const void *beta,
                                                        const cudnnFilterDescriptor_t w_is, void *w) {
  ENTER_DNN(cudnnConvolutionBackwardFilter);
  Convolving p;
  if (!handle || !x || !w || !y || !make(x_is, w_is, conv, y_is, &p)) return CUDNN_STATUS_BAD_PARAM;
  if (is_gap_for(&p, WEIGHT_GRADIENT, GAP_ALL) || is_gap_for(&p, WEIGHT_GRADIENT, GAP_ALONE))
    return CUDNN_STATUS_NOT_SUPPORTED;
  DnnWork *k = calloc(1, sizeof *k);
  *k = (DnnWork){.p = p, .x = ADDRESS(x), .w = ADDRESS(w), .y = ADDRESS(y)};
  k->p.alpha = *(const float *)alpha, k->p.beta = *(const float *)beta;
  use_algorithm(k, WEIGHT_GRADIENT, "cudnnConvolutionBackwardFilter", (int)algorithm, workspace, bytes);
  return submit((Handle *)(void *)handle, k, WEIGHT_GRADIENT, "cudnnConvolutionBackwardFilter");
}

/* Relu with any algorithm, no activation with one of them. */
static bool joins(const Convolving *p, const Activation *a, int algorithm) {
  if (a->nan != CUDNN_NOT_PROPAGATE_NAN || is_gap(p, GAP_ALL) || is_gap(p, GAP_JOINED)) return false;
  return a->mode == CUDNN_ACTIVATION_RELU ||
         (a->mode == CUDNN_ACTIVATION_IDENTITY && algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
}

static bool is_bias(const Image *i, const Convolving *p) {
  return i && i->type == p->y.type && i->n == 1 && i->h == 1 && i->w == 1 && i->c == p->y.c;
}

DOUBLE_API cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x_is, const void *x,
    const cudnnFilterDescriptor_t w_is, const void *w, const cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionFwdAlgo_t algorithm, void *workspace, size_t bytes, const void *beta,
    const cudnnTensorDescriptor_t z_is, const void *z, const cudnnTensorDescriptor_t bias_is, const void *bias,
    const cudnnActivationDescriptor_t activation, const cudnnTensorDescriptor_t y_is, void *y) {
  ENTER_DNN(cudnnConvolutionBiasActivationForward);
  const Activation *a = (const Activation *)(const void *)activation;
  Convolving p;
  bool there = handle && x && w && y && z && bias && a && z_is && make(x_is, w_is, conv, y_is, &p);
  if (!there || memcmp(z_is, y_is, sizeof(Image)) != 0 || !is_bias((const Image *)(const void *)bias_is, &p))
    return CUDNN_STATUS_BAD_PARAM;
  if (!joins(&p, a, (int)algorithm)) return CUDNN_STATUS_NOT_SUPPORTED;
  DnnWork *k = calloc(1, sizeof *k);
  *k = (DnnWork){.p = p, .x = ADDRESS(x), .w = ADDRESS(w), .bias = ADDRESS(bias), .y = ADDRESS(y)};
  k->p.alpha = *(const float *)alpha, k->p.beta = *(const float *)beta, k->p.relu = a->mode == CUDNN_ACTIVATION_RELU;
  if (k->p.beta != 0) k->z = ADDRESS(z);
  use_algorithm(k, CONVOLVE, "cudnnConvolutionBiasActivationForward", (int)algorithm, workspace, bytes);
  return submit((Handle *)(void *)handle, k, CONVOLVE, "cudnnConvolutionBiasActivationForward");
}

DOUBLE_API cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t a_is,
                                        const void *a, const void *beta, const cudnnTensorDescriptor_t c_is, void *c) {
  ENTER_DNN(cudnnAddTensor);
  Convolving p = {.alpha = *(const float *)alpha, .beta = *(const float *)beta};
  if (!handle || !c_is || !a || !c) return CUDNN_STATUS_BAD_PARAM;
  memcpy(&p.y, c_is, sizeof p.y);
  if (!is_bias((const Image *)(const void *)a_is, &p)) return CUDNN_STATUS_BAD_PARAM;
  DnnWork *k = calloc(1, sizeof *k);
  *k = (DnnWork){.p = p, .bias = ADDRESS(a), .y = ADDRESS(c), .z = ADDRESS(c)};
  return submit((Handle *)(void *)handle, k, ADD, "cudnnAddTensor");
}

DOUBLE_API cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle, cudnnActivationDescriptor_t activation,
                                                const void *alpha, const cudnnTensorDescriptor_t x_is, const void *x,
                                                const void *beta, const cudnnTensorDescriptor_t y_is, void *y) {
  ENTER_DNN(cudnnActivationForward);
  const Activation *a = (const Activation *)(const void *)activation;
  Convolving p = {.alpha = *(const float *)alpha, .beta = *(const float *)beta};
  if (!handle || !a || !x_is || !y_is || !x || !y || memcmp(x_is, y_is, sizeof(Image)) != 0)
    return CUDNN_STATUS_BAD_PARAM;
  if (a->mode != CUDNN_ACTIVATION_RELU || a->nan != CUDNN_NOT_PROPAGATE_NAN || p.alpha != 1 || p.beta != 0)
    double_violation("cudnnActivationForward: only relu, without NaN, is doubled");
  memcpy(&p.x, x_is, sizeof p.x), memcpy(&p.y, y_is, sizeof p.y);
  DnnWork *k = calloc(1, sizeof *k);
  *k = (DnnWork){.p = p, .x = ADDRESS(x), .y = ADDRESS(y)};
  return submit((Handle *)(void *)handle, k, ACTIVATE, "cudnnActivationForward");
}
