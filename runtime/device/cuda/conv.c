/* runtime/device/cuda/conv.c - convolutions by cuDNN if it is found and can do them; else by the Program's kernel.
 *
 * cuDNN gets layouts that both it and the kernel read: images with their channels last (NHWC) and weights as filters
 * [o, H, W, c] (KRSC; passes/rewrite/channels_last.c), with groups one after the other in both.  The kernel does the
 * rest: three windowed dimensions, padding that is negative or differs between the two sides, weights in another order
 * (as those of depthwise convolutions are), memory that is not aligned to 16 bytes.
 *
 * This uses the older of cuDNN's interfaces (cudnnConvolutionForward and its relatives): few functions, whose
 * documentation lists the types and layouts they take, and algorithms that report whether they are deterministic.
 * cuDNN's operation graphs would fuse more, but their requirements can only be found out on a GPU.  An algorithm is
 * chosen for the sizes of a request by cuDNN's own heuristics, so that all runs choose alike: the first one that is
 * deterministic and fits the memory that the plan reserves for libraries.  With --tune all of these and the Program's
 * kernel are timed once, and all runs with that file choose alike. f32 means f32: its
 * algorithms may only use fused multiply-adds, unless the Program allows tf32.  16-bit types are summed in f32.
 *
 * Gradients of images and weights are convolutions too (program.h: CONV_OF_IMAGE, CONV_OF_WEIGHTS). cuDNN has separate
 * functions for them; they have no epilogue.
 *
 * An epilogue with a bias is joined to the convolution: with relu by any algorithm, without relu only by
 * IMPLICIT_PRECOMP_GEMM (according to the documentation).  Otherwise it runs in place, step by step: the residual is
 * copied first and the convolution is added to it; then the bias, then relu.  This relu turns NaN into 0. cuDNN may
 * report only in the call itself that it does not support it, before it does anything; from then on the epilogue runs
 * apart, or the kernel does all of it.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/cuda/cuda.h"
#include "runtime/device/cuda/library.h"
#include "runtime/device/cuda/tune.h"

enum { ALIGN = 16 };

/* Everything that descriptors and the choice of an algorithm depend on; without padding, as it is compared as bytes. */
typedef struct Key {
  ConvShape shape;
  int64_t of, tf32, bias, residual, relu; /* of: ProgramConvResult */
} Key;

typedef enum Way { BY_KERNEL, ALONE, JOINED, APART } Way;

typedef struct GpuConv {
  Key key;
  Way way;
  cudnnTensorDescriptor_t x, y, bias;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t conv;
  int algorithm;                    /* of the functions for this result */
  cudnnConvolutionFwdAlgo_t joined; /* with the epilogue */
} GpuConv;

/* ---- opening */

static RtStatus make_activation(CudaDevice *d, cudnnActivationMode_t mode, cudnnActivationDescriptor_t *out,
                                RtError *error) {
  static const char *const purpose = "epilogues of convolutions";
  RtStatus status = GPU_DNN(d, activation_create, purpose, error, out);
  return status ? status : GPU_DNN(d, activation_set, purpose, error, *out, mode, CUDNN_NOT_PROPAGATE_NAN, 0);
}

RtStatus gpu_convs_open(CudaDevice *d, RtError *error) {
  static const char *const purpose = "convolutions";
  int version;
  RtStatus status = gpu_open_dnn(d->driver_version, &d->dnn, &version, error);
  if (status && version == GPU_NOT_THERE) return RT_OK; /* an installed cuDNN that does not work is an error */
  if (status) return status;
  if (!gpu_known_open(&d->convs)) return rt_error(error, RT_FAILED, "out of memory");
  status = GPU_DNN(d, create, purpose, error, &d->convs_of);
  if (!status) status = GPU_DNN(d, queue_set, purpose, error, d->convs_of, d->compute);
  if (!status) status = make_activation(d, CUDNN_ACTIVATION_RELU, &d->relu, error);
  return status ? status : make_activation(d, CUDNN_ACTIVATION_IDENTITY, &d->identity, error);
}

static void free_conv(const CudaDevice *d, GpuConv *c) {
  const cudnnTensorDescriptor_t tensors[] = {c->x, c->y, c->bias};
  for (int i = 0; i < 3; i++)
    if (tensors[i]) d->dnn.tensor_destroy(tensors[i]);
  if (c->w) d->dnn.filter_destroy(c->w);
  if (c->conv) d->dnn.conv_destroy(c->conv);
  free(c);
}

static void forget_convs(CudaDevice *d) {
  for (uint32_t i = 0; i < GPU_KNOWN; i++) {
    if (d->convs.items[i]) free_conv(d, d->convs.items[i]);
    d->convs.items[i] = NULL;
  }
  d->convs.n = 0;
}

void gpu_convs_close(CudaDevice *d) {
  if (!d->convs.items) return;
  forget_convs(d);
  if (d->relu) d->dnn.activation_destroy(d->relu);
  if (d->identity) d->dnn.activation_destroy(d->identity);
  if (d->convs_of) d->dnn.destroy(d->convs_of);
  free(d->convs.items);
}

/* ---- limits of cuDNN.  Of the three windowed dimensions the last two are its height and width. */

enum { DEEP, HEIGHT, WIDTH };

static bool is_two_dimensional(const ConvShape *s) {
  return s->image[DEEP] == 1 && s->window[DEEP] == 1 && s->output[DEEP] == 1 && s->start[DEEP] == 0;
}

/* cuDNN pads both sides like the front.  True if that gives the wanted output. */
static bool has_equal_padding(const ConvShape *s, int dim) {
  int64_t reach = (s->window[dim] - 1) * s->dilation[dim] + 1, room = s->image[dim] - 2 * s->start[dim] - reach;
  return s->start[dim] <= 0 && room >= 0 && s->output[dim] == room / s->stride[dim] + 1;
}

/* True if the stride is that of a dense array; a single element has none. */
static bool is_dense(int64_t extent, int64_t stride, int64_t dense) { return extent == 1 || stride == dense; }

static bool has_filters(const ConvShape *s) {
  int64_t row = s->in * s->window[WIDTH], filter = row * s->window[HEIGHT];
  return is_dense(s->in, s->w_in, 1) && is_dense(s->window[WIDTH], s->w_window[WIDTH], s->in) &&
         is_dense(s->window[HEIGHT], s->w_window[HEIGHT], row) && is_dense(s->out, s->w_out, filter) &&
         is_dense(s->groups, s->w_group, filter * s->out);
}

/* cuDNN counts in int; tensors have at most that many elements too. */
static bool is_small(const DeviceCall *c) {
  const int64_t *number = (const int64_t *)c->conv;
  for (size_t i = 0; i < sizeof *c->conv / sizeof *number; i++)
    if (number[i] > INT32_MAX || number[i] < INT32_MIN) return false;
  for (uint32_t i = 0; i < c->n_tensors; i++)
    if (c->tensors[i].elements > INT32_MAX) return false;
  return true;
}

static bool is_aligned(const DeviceCall *c) {
  for (uint32_t i = 0; i < c->n_tensors; i++)
    if ((uintptr_t)c->data[i] % ALIGN) return false;
  return true;
}

static bool is_told(const DeviceCall *c) {
  const ConvShape *s = c->conv;
  for (uint32_t i = 0; i < c->n_tensors; i++)
    if (c->tensors[i].elements == 0) return false;
  return is_small(c) && is_two_dimensional(s) && has_equal_padding(s, HEIGHT) && has_equal_padding(s, WIDTH) &&
         has_filters(s) && is_aligned(c);
}

/* ---- descriptors */

static cudnnDataType_t type_of(int64_t t) {
  return t == DT_f16 ? CUDNN_DATA_HALF : t == DT_bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

static cudnnMathType_t math_of(const Key *k) {
  if (k->shape.dtype != DT_f32) return CUDNN_TENSOR_OP_MATH;
  return k->tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH; /* the default is tf32 if the GPU has it */
}

static RtStatus make_tensor(CudaDevice *d, cudnnDataType_t type, int64_t images, int64_t channels, int64_t height,
                            int64_t width, cudnnTensorDescriptor_t *out, RtError *error) {
  static const char *const purpose = "describing an image";
  RtStatus status = GPU_DNN(d, tensor_create, purpose, error, out);
  return status ? status
                : GPU_DNN(d, tensor_set, purpose, error, *out, CUDNN_TENSOR_NHWC, type, (int)images, (int)channels,
                          (int)height, (int)width);
}

static RtStatus make_filter(CudaDevice *d, const ConvShape *s, cudnnFilterDescriptor_t *out, RtError *error) {
  static const char *const purpose = "describing weights";
  RtStatus status = GPU_DNN(d, filter_create, purpose, error, out);
  return status ? status
                : GPU_DNN(d, filter_set, purpose, error, *out, type_of(s->dtype), CUDNN_TENSOR_NHWC,
                          (int)(s->groups * s->out), (int)s->in, (int)s->window[HEIGHT], (int)s->window[WIDTH]);
}

static RtStatus make_conv(CudaDevice *d, const Key *k, cudnnConvolutionDescriptor_t *out, RtError *error) {
  static const char *const purpose = "describing a convolution";
  const ConvShape *s = &k->shape;
  RtStatus status = GPU_DNN(d, conv_create, purpose, error, out);
  if (!status)
    status = GPU_DNN(d, conv_set, purpose, error, *out, (int)-s->start[HEIGHT], (int)-s->start[WIDTH],
                     (int)s->stride[HEIGHT], (int)s->stride[WIDTH], (int)s->dilation[HEIGHT], (int)s->dilation[WIDTH],
                     CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  if (!status) status = GPU_DNN(d, conv_set_groups, purpose, error, *out, (int)s->groups);
  return status ? status : GPU_DNN(d, conv_set_math, purpose, error, *out, math_of(k));
}

static RtStatus make_descriptors(CudaDevice *d, GpuConv *c, RtError *error) {
  const ConvShape *s = &c->key.shape;
  int64_t out = s->groups * s->out;
  cudnnDataType_t type = type_of(s->dtype);
  RtStatus status = make_tensor(d, type, s->images, s->groups * s->in, s->image[HEIGHT], s->image[WIDTH], &c->x, error);
  if (!status) status = make_tensor(d, type, s->images, out, s->output[HEIGHT], s->output[WIDTH], &c->y, error);
  if (!status && c->key.bias) status = make_tensor(d, type, 1, out, 1, 1, &c->bias, error);
  if (!status) status = make_filter(d, s, &c->w, error);
  return status ? status : make_conv(d, &c->key, &c->conv, error);
}

/* ---- the algorithm */

/* The names of the functions for this result. */
typedef struct Names {
  const char *algorithms, *workspace, *call;
} Names;

static Names names_of(const GpuConv *c) {
  const GpuDnnNames *n = &gpu_dnn_names;
  return c->key.of == CONV_OF_IMAGE     ? (Names){n->image_algorithms, n->image_workspace, n->image_gradient}
         : c->key.of == CONV_OF_WEIGHTS ? (Names){n->weight_algorithms, n->weight_workspace, n->weight_gradient}
                                        : (Names){n->algorithms, n->workspace, n->conv};
}

/* True for all statuses of unsupported calls. */
static bool is_unsupported(cudnnStatus_t status) {
  return status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_INTERNAL_ERROR;
}

enum { MOST_ALGORITHMS = 8 };

/* cuDNN has one function per result; this calls the right one. */
static cudnnStatus_t ask_workspace(const CudaDevice *d, const GpuConv *c, int algorithm, size_t *bytes) {
  const CudaDnn *dnn = &d->dnn;
  switch (c->key.of) {
    case CONV_OF_IMAGE:
      return dnn->image_workspace(d->convs_of, c->w, c->y, c->conv, c->x, (cudnnConvolutionBwdDataAlgo_t)algorithm,
                                  bytes);
    case CONV_OF_WEIGHTS:
      return dnn->weight_workspace(d->convs_of, c->x, c->y, c->conv, c->w, (cudnnConvolutionBwdFilterAlgo_t)algorithm,
                                   bytes);
    default: return dnn->workspace(d->convs_of, c->x, c->w, c->conv, c->y, (cudnnConvolutionFwdAlgo_t)algorithm, bytes);
  }
}

/* An algorithm that cuDNN offers. */
typedef struct Found {
  int algorithm;
  cudnnStatus_t status;
  cudnnDeterminism_t determinism;
} Found;

/* The functions fill structs of their own types, which have the same members. */
#define TAKE(found, n, out) \
  for (int i = 0; i < *(n); i++) \
  (out)[i].algorithm = (int)(found)[i].algo, (out)[i].status = (found)[i].status, \
  (out)[i].determinism = (found)[i].determinism

static cudnnStatus_t ask_algorithms(const CudaDevice *d, const GpuConv *c, int *n, Found *out) {
  const CudaDnn *dnn = &d->dnn;
  cudnnConvolutionFwdAlgoPerf_t outputs[MOST_ALGORITHMS];
  cudnnConvolutionBwdDataAlgoPerf_t images[MOST_ALGORITHMS];
  cudnnConvolutionBwdFilterAlgoPerf_t weights[MOST_ALGORITHMS];
  cudnnStatus_t status;
  *n = 0;
  switch (c->key.of) {
    case CONV_OF_IMAGE:
      status = dnn->image_algorithms(d->convs_of, c->w, c->y, c->conv, c->x, MOST_ALGORITHMS, n, images);
      TAKE(images, n, out);
      return status;
    case CONV_OF_WEIGHTS:
      status = dnn->weight_algorithms(d->convs_of, c->x, c->y, c->conv, c->w, MOST_ALGORITHMS, n, weights);
      TAKE(weights, n, out);
      return status;
    default:
      status = dnn->algorithms(d->convs_of, c->x, c->w, c->conv, c->y, MOST_ALGORITHMS, n, outputs);
      TAKE(outputs, n, out);
      return status;
  }
}

/* *out is true if the algorithm fits the workspace. */
static RtStatus fits(CudaDevice *d, const GpuConv *c, int algorithm, bool *out, RtError *error) {
  size_t bytes = 0;
  cudnnStatus_t status = ask_workspace(d, c, algorithm, &bytes);
  *out = !status && bytes <= d->space_bytes;
  if (is_unsupported(status)) return RT_OK;
  return gpu_judge_dnn(&d->dnn, status, names_of(c).workspace, "the workspace of a convolution", error);
}

/* Lists *n algorithms, in the order of cuDNN's estimated speed. */
static RtStatus list_algorithms(CudaDevice *d, const GpuConv *c, int *list, int *n, RtError *error) {
  Found found[MOST_ALGORITHMS];
  int all = 0;
  *n = 0;
  cudnnStatus_t got = ask_algorithms(d, c, &all, found);
  if (is_unsupported(got)) return RT_OK;
  RtStatus status = gpu_judge_dnn(&d->dnn, got, names_of(c).algorithms, "choosing a convolution algorithm", error);
  for (int i = 0; i < all && !status; i++) {
    bool may = !found[i].status && found[i].determinism == CUDNN_DETERMINISTIC, same = false;
    for (int k = 0; k < *n; k++) same |= list[k] == found[i].algorithm; /* listed once per kind of arithmetic */
    if (may && !same) status = fits(d, c, found[i].algorithm, &may, error);
    if (may && !same && !status) list[(*n)++] = found[i].algorithm;
  }
  return status;
}

/* A way to compute a convolution. */
typedef struct Choice {
  Way way;
  int algorithm;
} Choice;

static void add_choice(Choice *list, int *n, Way way, int algorithm) {
  if (*n < TUNE_MOST - 1) list[(*n)++] = (Choice){way, algorithm}; /* the last place is the kernel's */
}

/* Lists all ways, the recommended one first and the kernel last; *algorithm: for an epilogue that is joined, the one
 * for calls that cuDNN refuses to join. */
static RtStatus list_ways(CudaDevice *d, const GpuConv *c, Choice *ways, int *n_ways, int *algorithm, RtError *error) {
  int list[MOST_ALGORITHMS], n;
  const Key *k = &c->key;
  *n_ways = 0;
  RtStatus status = list_algorithms(d, c, list, &n, error);
  if (status) return status;
  bool plain = !k->bias && !k->residual && !k->relu;
  for (int i = 0; i < n && k->bias; i++)
    if (k->relu || list[i] == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM)
      add_choice(ways, n_ways, JOINED, list[i]);
  for (int i = 0; i < n; i++) add_choice(ways, n_ways, plain ? ALONE : APART, list[i]);
  ways[(*n_ways)++] = (Choice){BY_KERNEL, 0};
  *algorithm = n ? list[0] : 0;
  return RT_OK;
}

static void take_way(GpuConv *c, const Choice *choice) {
  c->way = choice->way;
  if (choice->way == JOINED) c->joined = (cudnnConvolutionFwdAlgo_t)choice->algorithm;
  else c->algorithm = choice->algorithm;
}

static const char *const way_names[] = {
    [BY_KERNEL] = "kernel", [ALONE] = "alone", [JOINED] = "joined", [APART] = "apart"};

/* Names the key in the table of choices: what people read, and a hash of all of it. */
static void name_key(const CudaDevice *d, const Key *k, char text[TUNING_KEY]) {
  const ConvShape *s = &k->shape;
  snprintf(text, TUNING_KEY,
           "convolution %s, result %" PRId64 ", %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64 ", window %" PRId64
           " x %" PRId64 " x %" PRId64 ", %016" PRIx64,
           dtype_name((DType)s->dtype), k->of, s->images, s->image[HEIGHT], s->image[WIDTH], s->groups * s->in,
           s->window[HEIGHT], s->window[WIDTH], s->groups * s->out, hash64(k, sizeof *k, d->space_bytes));
}

static void name_way(const Choice *c, char *text, size_t size) {
  snprintf(text, size, "%s %d", way_names[c->way], c->algorithm);
}

/* The table's choice if it has one, else the recommended way. */
static RtStatus choose_way(CudaDevice *d, GpuConv *c, RtError *error) {
  Choice ways[TUNE_MOST];
  char key[TUNING_KEY], name[32];
  int n, way = 0;
  RtStatus status = list_ways(d, c, ways, &n, &c->algorithm, error);
  if (status) return status;
  name_key(d, &c->key, key);
  const char *choice = tuning_find(d->options.tuning, key);
  for (; choice && way < n; way++) {
    name_way(&ways[way], name, sizeof name);
    if (strncmp(choice, name, strlen(name)) == 0 && choice[strlen(name)] == ',') break;
  }
  if (way == n) return gpu_tune_bad(d, key, "cuDNN does not offer that way", error);
  take_way(c, &ways[way]);
  return RT_OK;
}

static RtStatus make(CudaDevice *d, const Key *key, GpuConv **out, RtError *error) {
  GpuConv *c = calloc(1, sizeof *c);
  if (!c) return rt_error(error, RT_FAILED, "out of memory");
  c->key = *key;
  RtStatus status = make_descriptors(d, c, error);
  if (!status) status = choose_way(d, c, error);
  if (status) free_conv(d, c);
  else *out = c;
  return status;
}

/* Finds or makes the convolution; *out is NULL if cuDNN cannot be asked about it. */
static RtStatus know(CudaDevice *d, const DeviceCall *call, GpuConv **out, RtError *error) {
  const ProgramInstr *x = &d->p->instrs[call->instr];
  Epilogue e = program_instr_epilogue(x);
  *out = NULL;
  if (!d->convs_of || !is_told(call) || (e.activation != ACT_none && e.activation != ACT_relu)) return RT_OK;
  if (x->dim2 != CONV_OF_OUTPUT && epilogue_any(e)) return RT_OK;
  Key key = {.shape = *call->conv,
             .of = x->dim2,
             .tf32 = (x->mask & PROGRAM_TF32) != 0,
             .bias = e.bias,
             .residual = e.residual,
             .relu = e.activation == ACT_relu};
  if (gpu_known_full(&d->convs)) forget_convs(d);
  void **place = gpu_known_place(&d->convs, &key, sizeof key);
  GpuConv *c = *place;
  RtStatus status = c ? RT_OK : make(d, &key, &c, error);
  if (status) return status;
  d->convs.n += !*place;
  *out = *place = c;
  return RT_OK;
}

/* The same; *out is NULL if the kernel does it. */
static RtStatus find(CudaDevice *d, const DeviceCall *call, GpuConv **out, RtError *error) {
  RtStatus status = know(d, call, out, error);
  if (!status && *out && (*out)->way == BY_KERNEL) *out = NULL;
  return status;
}

RtStatus gpu_conv_choose(CudaDevice *d, const DeviceCall *call, RtError *error) {
  GpuConv *c;
  return find(d, call, &c, error);
}

/* ---- convolving */

static const float zero = 0, one = 1;

/* Operands of the epilogue, in order: a bias, a residual. */
static const void *bias_of(const GpuConv *c, const DeviceCall *call) { return c->key.bias ? call->data[3] : NULL; }
static const void *residual_of(const GpuConv *c, const DeviceCall *call) {
  return c->key.residual ? call->data[3 + c->key.bias] : NULL;
}

static cudnnStatus_t call_alone(const CudaDevice *d, const GpuConv *c, void *const *data) {
  const CudaDnn *dnn = &d->dnn;
  const float *beta = c->key.residual ? &one : &zero;
  switch (c->key.of) {
    case CONV_OF_IMAGE:
      return dnn->image_gradient(d->convs_of, &one, c->w, data[1], c->y, data[0], c->conv,
                                 (cudnnConvolutionBwdDataAlgo_t)c->algorithm, d->space, d->space_bytes, beta, c->x,
                                 data[2]);
    case CONV_OF_WEIGHTS:
      return dnn->weight_gradient(d->convs_of, &one, c->x, data[0], c->y, data[1], c->conv,
                                  (cudnnConvolutionBwdFilterAlgo_t)c->algorithm, d->space, d->space_bytes, beta, c->w,
                                  data[2]);
    default:
      return dnn->conv(d->convs_of, &one, c->x, data[0], c->w, data[1], c->conv,
                       (cudnnConvolutionFwdAlgo_t)c->algorithm, d->space, d->space_bytes, beta, c->y, data[2]);
  }
}

/* *done is false if cuDNN reports, before it does anything, that it does not support the call. */
static RtStatus alone(CudaDevice *d, const GpuConv *c, const DeviceCall *call, bool *done, RtError *error) {
  cudnnStatus_t status = call_alone(d, c, call->data);
  *done = !is_unsupported(status);
  return *done ? gpu_judge_dnn(&d->dnn, status, names_of(c).call, "a convolution", error) : RT_OK;
}

static RtStatus apart(CudaDevice *d, const GpuConv *c, const DeviceCall *call, bool *done, RtError *error) {
  static const char *const purpose = "the epilogue of a convolution";
  const void *residual = residual_of(c, call);
  void *y = call->data[2];
  size_t bytes = (size_t)call->tensors[2].elements * dtype_bytes((DType)c->key.shape.dtype);
  RtStatus status = RT_OK;
  if (residual && residual != y)
    status = GPU_CALL(d, copy_on, purpose, error, gpu_address(y), gpu_address(residual), bytes, d->compute);
  if (!status) status = alone(d, c, call, done, error);
  if (!status && *done && c->key.bias)
    status = GPU_DNN(d, add, purpose, error, d->convs_of, &one, c->bias, bias_of(c, call), &one, c->y, y);
  if (!status && *done && c->key.relu)
    status = GPU_DNN(d, activate, purpose, error, d->convs_of, d->relu, &one, c->y, y, &zero, c->y, y);
  return status;
}

static RtStatus joined(CudaDevice *d, GpuConv *c, const DeviceCall *call, bool *done, RtError *error) {
  const void *residual = residual_of(c, call);
  void *y = call->data[2];
  cudnnStatus_t status =
      d->dnn.conv_joined(d->convs_of, &one, c->x, call->data[0], c->w, call->data[1], c->conv, c->joined, d->space,
                         d->space_bytes, residual ? &one : &zero, c->y, residual ? residual : y, c->bias,
                         bias_of(c, call), c->key.relu ? d->relu : d->identity, c->y, y);
  *done = true;
  if (!is_unsupported(status))
    return gpu_judge_dnn(&d->dnn, status, gpu_dnn_names.conv_joined, "a convolution with its epilogue", error);
  c->way = APART;
  return apart(d, c, call, done, error);
}

static RtStatus by_library(CudaDevice *d, GpuConv *c, const DeviceCall *call, bool *done, RtError *error) {
  return c->way == ALONE    ? alone(d, c, call, done, error)
         : c->way == JOINED ? joined(d, c, call, done, error)
                            : apart(d, c, call, done, error);
}

RtStatus gpu_conv(Device *device, const DeviceCall *call, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  GpuConv *c;
  bool done = false;
  RtStatus status = find(d, call, &c, error);
  if (!status && c) status = by_library(d, c, call, &done, error);
  if (status || done) return status;
  if (c) c->way = BY_KERNEL;
  return gpu_conv_kernel(device, call, error);
}

/* ---- timing ways */

/* A convolution whose ways are timed, with operands of its own. */
typedef struct Timed {
  GpuConv *c;
  DeviceCall call;
  Choice ways[TUNE_MOST];
} Timed;

static RtStatus call_way(CudaDevice *d, void *context, int way, bool *usable, RtError *error) {
  Timed *t = context;
  bool done = false;
  take_way(t->c, &t->ways[way]);
  if (t->c->way == BY_KERNEL) return gpu_conv_kernel(&d->base, &t->call, error);
  RtStatus status = by_library(d, t->c, &t->call, &done, error);
  *usable = done && t->c->way == t->ways[way].way; /* else it was refused */
  return status;
}

RtStatus gpu_conv_tune(Device *device, const DeviceCall *call, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  Timed t = {.call = *call};
  TuneOperand o[TUNE_OPERANDS];
  TuneResult r = {0};
  void *data[TUNE_OPERANDS];
  char key[TUNING_KEY], name[32];
  bool fits = false;
  int n = 0;
  RtStatus status = know(d, call, &t.c, error);
  if (status || !t.c) return status;
  name_key(d, &t.c->key, key);
  if (tuning_find(d->options.tuning, key)) return RT_OK;
  status = list_ways(d, t.c, t.ways, &n, &t.c->algorithm, error);
  for (uint32_t i = 0; i < call->n_tensors; i++)
    o[i] = (TuneOperand){(uint64_t)call->tensors[i].elements * dtype_bytes((DType)call->tensors[i].dtype),
                         (DType)call->tensors[i].dtype, NULL};
  if (!status) status = gpu_tune_begin(d, o, (int)call->n_tensors, &fits, error);
  d->options.tuning->left += !status && !fits;
  if (status || !fits) return status;
  for (uint32_t i = 0; i < call->n_tensors; i++) data[i] = o[i].at;
  t.call.data = data;
  status = gpu_tune_time(d, n, call_way, &t, &r, error);
  if (!status && r.best < 0) status = rt_error(error, RT_FAILED, "no way for '%s' could be timed", key);
  if (status) return status;
  name_way(&t.ways[r.best], name, sizeof name);
  return gpu_tune_keep(d, key, name, &r, error);
}

RtStatus gpu_convs_choose(CudaDevice *d, RtError *error) {
  RtStatus status = RT_OK;
  for (uint32_t i = 0; d->convs.items && i < GPU_KNOWN && !status; i++) {
    GpuConv *c = d->convs.items[i];
    char key[TUNING_KEY];
    if (!c) continue;
    name_key(d, &c->key, key);
    if (tuning_find(d->options.tuning, key)) status = choose_way(d, c, error);
  }
  return status;
}
