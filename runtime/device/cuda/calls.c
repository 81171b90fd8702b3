/* runtime/device/cuda/calls.c - launches of our kernels, copies of boxes, fills; see cuda.h. */
#include <string.h>

#include "runtime/device/cuda/cuda.h"

/* ---- launches: the kernel's only argument is a struct of eight-byte words: the tensors' addresses, then the scalars,
 * then the words of program/index_fault.h */

enum {
  WORDS_USUAL = 511, /* 4 KiB, which every driver accepts */
  DRIVER_FOR_MORE = 12010
};

static RtStatus launch(CudaDevice *d, const DeviceCall *c, void *const *data, RtError *error) {
  const ProgramKernel *k = &d->p->kernels[c->object];
  const char *name = program_text(d->p, k->name);
  uint64_t words[PROGRAM_MAX_WORDS];
  size_t n = c->n_tensors + c->n_scalars + (k->looks ? 2 : 0), bytes = n * sizeof *words;
  if (c->blocks <= 0) return RT_OK;
  if (n > PROGRAM_MAX_WORDS)
    return rt_error(error, RT_UNSUPPORTED, "kernel %s takes %zu words, more than a GPU allows", name, n);
  if (n > WORDS_USUAL && d->driver_version < DRIVER_FOR_MORE)
    return rt_error(error, RT_UNSUPPORTED, "kernel %s takes %zu words, which needs a driver for CUDA 12.1 or later",
                    name, n);
  for (uint32_t i = 0; i < c->n_tensors; i++) words[i] = gpu_address(data[i]);
  for (uint32_t i = 0; i < c->n_scalars; i++) words[c->n_tensors + i] = (uint64_t)c->scalars[i];
  if (k->looks) words[n - 2] = gpu_address(d->note), words[n - 1] = c->instr;
  void *extra[] = {(void *)CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT, words, (void *)CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT,
                   &bytes, NULL};
  return GPU_CALL(d, launch, name, error, d->kernels[c->object], (unsigned)c->blocks, 1, 1, k->threads, 1, 1, 0,
                  d->compute, NULL, n ? extra : NULL);
}

RtStatus gpu_launch(Device *device, const DeviceCall *c, RtError *error) {
  return launch((CudaDevice *)device, c, c->data, error);
}

/* The kernel takes the result after the tensors that join it, the instruction before them. */
RtStatus gpu_conv_kernel(Device *device, const DeviceCall *c, RtError *error) {
  enum { RESULT = 2, MOST = 5 };
  void *data[MOST];
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->n_tensors; i++)
    if (i != RESULT) data[n++] = c->data[i];
  data[n] = c->data[RESULT];
  return launch((CudaDevice *)device, c, data, error);
}

/* ---- copies */

/* A loop over a dimension: its extent, and the bytes from one element to the next on both sides. */
typedef struct Walk {
  int64_t extent, from, to;
} Walk;

/* A box as runs of `width` bytes; walks[0] is the outermost. */
typedef struct Runs {
  Walk walks[PROGRAM_MAX_RANK];
  int n;
  int64_t width;
  bool empty;
} Runs;

/* Goes from the last dimension to the first.  Drops dimensions of one element, and merges a dimension that is
 * contiguous around the inner one on both sides. */
static Runs runs_of(const DeviceCall *c) {
  const CallTensor *from = &c->tensors[0], *to = &c->tensors[1];
  int64_t size = (int64_t)dtype_bytes((DType)from->dtype), step_from = size, step_to = size;
  Walk inner[PROGRAM_MAX_RANK]; /* the innermost first */
  Runs r = {.width = size};
  for (uint32_t d = from->rank; d-- > 0;) {
    int64_t extent = c->scalars[d];
    r.empty |= extent == 0;
    Walk *last = r.n ? &inner[r.n - 1] : NULL;
    if (extent == 1) {
    } else if (!last && step_from == r.width && step_to == r.width) r.width *= extent;
    else if (last && step_from == last->extent * last->from && step_to == last->extent * last->to)
      last->extent *= extent;
    else inner[r.n++] = (Walk){extent, step_from, step_to};
    step_from *= from->extents[d], step_to *= to->extents[d];
  }
  for (int i = 0; i < r.n; i++) r.walks[i] = inner[r.n - 1 - i];
  return r;
}

/* Returns the byte where a box begins. */
static int64_t begin_of(const CallTensor *t, const int64_t *start) {
  int64_t at = 0;
  for (uint32_t d = 0; d < t->rank; d++) at = at * t->extents[d] + start[d];
  return at * (int64_t)dtype_bytes((DType)t->dtype);
}

/* The driver limits the bytes from row to row. */
static bool pitch_fits(const Walk *w) { return w->from <= INT32_MAX && w->to <= INT32_MAX; }

/* Copies the last one or two walks with one call. */
static RtStatus copy_rows(CudaDevice *d, const Walk *planes, const Walk *rows, int64_t width, CUdeviceptr from,
                          CUdeviceptr to, RtError *error) {
  CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                        .srcDevice = from,
                        .srcPitch = (size_t)rows->from,
                        .srcHeight = planes ? (size_t)(planes->from / rows->from) : (size_t)rows->extent,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = to,
                        .dstPitch = (size_t)rows->to,
                        .dstHeight = planes ? (size_t)(planes->to / rows->to) : (size_t)rows->extent,
                        .WidthInBytes = (size_t)width,
                        .Height = (size_t)rows->extent,
                        .Depth = planes ? (size_t)planes->extent : 1};
  return GPU_CALL(d, copy_box, "a copy on the GPU", error, &copy, d->compute);
}

/* The driver copies boxes of three dimensions, the innermost of which are bytes; this loops over the outer ones. */
static RtStatus copy_walks(CudaDevice *d, const Runs *r, int first, CUdeviceptr from, CUdeviceptr to, RtError *error) {
  const Walk *w = &r->walks[first];
  int left = r->n - first;
  RtStatus status = RT_OK;
  if (left == 0) return GPU_CALL(d, copy_on, "a copy on the GPU", error, to, from, (size_t)r->width, d->compute);
  if (left == 1 && pitch_fits(w)) return copy_rows(d, NULL, w, r->width, from, to, error);
  if (left == 2 && pitch_fits(&w[1]) && w->from % w[1].from == 0 && w->to % w[1].to == 0)
    return copy_rows(d, w, &w[1], r->width, from, to, error);
  for (int64_t i = 0; i < w->extent && !status; i++)
    status = copy_walks(d, r, first + 1, from + (CUdeviceptr)(i * w->from), to + (CUdeviceptr)(i * w->to), error);
  return status;
}

RtStatus gpu_copy(Device *device, const DeviceCall *c, RtError *error) {
  const CallTensor *from = &c->tensors[0], *to = &c->tensors[1];
  const int64_t *first = c->scalars + from->rank, *second = first + from->rank;
  Runs r = runs_of(c);
  if (r.empty) return RT_OK;
  return copy_walks((CudaDevice *)device, &r, 0, gpu_address(c->data[0]) + (CUdeviceptr)begin_of(from, first),
                    gpu_address(c->data[1]) + (CUdeviceptr)begin_of(to, second), error);
}

/* ---- fills of 1, 2 or 4 bytes; 8 bytes are two halves, each of which is 4 bytes in every 8 */

/* Fills `rows` runs of n values of `size` bytes, at most 4. */
static RtStatus set_rows(CudaDevice *d, CUdeviceptr at, uint32_t value, size_t size, int64_t rows, int64_t n,
                         int64_t stride, RtError *error) {
  static const char *const purpose = "filling memory of the GPU";
  size_t width = (size_t)n, height = (size_t)rows, pitch = (size_t)stride;
  if (rows == 1)
    return size == 1   ? GPU_CALL(d, set_8, purpose, error, at, (unsigned char)value, width, d->compute)
           : size == 2 ? GPU_CALL(d, set_16, purpose, error, at, (unsigned short)value, width, d->compute)
                       : GPU_CALL(d, set_32, purpose, error, at, value, width, d->compute);
  return size == 1 ? GPU_CALL(d, set_rows_8, purpose, error, at, pitch, (unsigned char)value, width, height, d->compute)
         : size == 2
             ? GPU_CALL(d, set_rows_16, purpose, error, at, pitch, (unsigned short)value, width, height, d->compute)
             : GPU_CALL(d, set_rows_32, purpose, error, at, pitch, value, width, height, d->compute);
}

static RtStatus set_pairs(CudaDevice *d, CUdeviceptr at, const uint32_t halves[2], int64_t rows, int64_t n,
                          int64_t stride, RtError *error) {
  RtStatus status = RT_OK;
  for (int64_t row = 0; row < rows; row++)
    for (CUdeviceptr half = 0; half < 2 && !status; half++)
      status = set_rows(d, at + (CUdeviceptr)(row * stride) + 4 * half, halves[half], 4, n, 1, 8, error);
  return status;
}

RtStatus gpu_fill_rows(CudaDevice *d, void *to, const void *element, size_t size, int64_t rows, int64_t n,
                       int64_t stride, RtError *error) {
  const unsigned char *bytes = element;
  CUdeviceptr at = gpu_address(to);
  uint32_t halves[2] = {0};
  bool equal = true;
  if (rows == 0 || n == 0) return RT_OK;
  memcpy(halves, element, size);
  for (size_t i = 1; i < size; i++) equal &= bytes[i] == bytes[0];
  if (equal) return set_rows(d, at, bytes[0], 1, rows, n * (int64_t)size, stride, error);
  if (size == 2) return set_rows(d, at, (uint32_t)(bytes[0] | bytes[1] << 8), 2, rows, n, stride, error);
  return size == 4 ? set_rows(d, at, halves[0], 4, rows, n, stride, error)
                   : set_pairs(d, at, halves, rows, n, stride, error);
}

RtStatus gpu_fill(Device *device, const DeviceCall *c, RtError *error) {
  DType dtype = (DType)c->tensors[0].dtype;
  unsigned char element[8] = {0};
  dtype_store_f(dtype, element, c->value);
  return gpu_fill_rows((CudaDevice *)device, c->data[0], element, dtype_bytes(dtype), c->scalars[0], c->scalars[1],
                       c->scalars[2], error);
}
