/* runtime/device/cuda/cuda.h - a GPU of NVIDIA's as a device: what its files share.
 *
 *   open.c     choosing the GPU, its context, kernels and libraries; errors
 *   memory.c   memory, and what moves between it and the host's: through pinned memory, in pieces
 *   calls.c    launches, copies and fills
 *   product.c  products, by cuBLASLt
 *   conv.c     convolutions, by cuDNN
 *   graph.c    several calls as one: CUDA graphs
 *   marks.c    how far the queue has come, and when it came there
 *   comm.c     which engine of communication; nccl.c: NCCL
 *
 * Everything that a device is asked for goes to the queue `compute`, in the order it is asked for.
 *
 * One thread uses all of it.  Every call of a library is checked; an error names it, what it was for, and what the
 * library calls the error.
 */
#ifndef APC_RUNTIME_DEVICE_CUDA_CUDA_H
#define APC_RUNTIME_DEVICE_CUDA_CUDA_H

#include "runtime/device/cuda/api.h"
#include "runtime/device/cuda/known.h"
#include "runtime/device/device.h"

/* Pinned memory on its way to the device: two halves, filled in turn.  What is in the one that is full is being copied
 * while the other is filled. */
typedef struct GpuLane {
  char *half[2];
  CUevent copied[2]; /* all of the half is on the device */
  size_t used;       /* of the half that is being filled */
  int filling;
} GpuLane;

enum { GPU_MARKS = 256 };

/* Where in the queue steps begin; those between `first` and `next` it has not come to yet, as far as known. */
typedef struct GpuMarks {
  CUevent events[GPU_MARKS];
  uint32_t steps[GPU_MARKS];
  uint64_t first, next;
  uint32_t now; /* the step that it has come to */
} GpuMarks;

/* Events that say when the queue came to them. */
typedef struct GpuStamps {
  CUevent *events;
  uint32_t n, capacity;
} GpuStamps;

typedef struct CudaDevice {
  Device base;
  DeviceOptions options;
  const Program *p;
  CudaDriver driver;
  CudaBlas blas;
  CudaDnn dnn;
  int driver_version;
  CUdevice device;
  CUcontext context;
  char name[64], arch[16]; /* "NVIDIA H100", "sm_90" */
  CUstream compute;
  CUmodule module;
  CUfunction *kernels;
  GpuLane lane;
  char *landing; /* pinned: where what comes from the device arrives */
  CUevent reached;
  GpuMarks marks;
  GpuStamps stamps;
  RtError later; /* what failed where nobody heard it */
  cublasLtHandle_t products_of;
  cudnnHandle_t convs_of; /* NULL: convolutions are kernels of the Program */
  cudnnActivationDescriptor_t relu, identity;
  GpuKnown products, convs; /* as the libraries want them told */
  char *space;              /* of the product or convolution that the queue is at */
  uint64_t space_bytes;
} CudaDevice;

extern const DeviceOps device_cuda;

/* ---- errors */

/* What functions are called in the libraries. */
typedef struct GpuDriverNames {
#define CUDA_DRIVER(result, symbol, member, parameters) const char *member;
#include "runtime/device/cuda/api.def"
#undef CUDA_DRIVER
} GpuDriverNames;

typedef struct GpuBlasNames {
#define CUDA_BLAS(result, symbol, member, parameters) const char *member;
#include "runtime/device/cuda/api.def"
#undef CUDA_BLAS
} GpuBlasNames;

typedef struct GpuDnnNames {
#define CUDA_DNN(result, symbol, member, parameters) const char *member;
#include "runtime/device/cuda/api.def"
#undef CUDA_DNN
} GpuDnnNames;

extern const GpuDriverNames gpu_driver_names;
extern const GpuBlasNames gpu_blas_names;
extern const GpuDnnNames gpu_dnn_names;

/* RT_OK for success, else RT_FAILED with "cuMemAlloc_v2 (PURPOSE): CUDA_ERROR_OUT_OF_MEMORY: out of memory". */
RtStatus gpu_judge(const CudaDriver *driver, CUresult result, const char *call, const char *purpose, RtError *error);
RtStatus gpu_judge_blas(const CudaBlas *blas, cublasStatus_t status, const char *call, const char *purpose,
                        RtError *error);
RtStatus gpu_judge_dnn(const CudaDnn *dnn, cudnnStatus_t status, const char *call, const char *purpose, RtError *error);

/* One call of the driver, of cuBLASLt or of cuDNN: its member, what for, where the error goes, its arguments. */
#define GPU_CALL(d, member, purpose, error, ...) \
  gpu_judge(&(d)->driver, (d)->driver.member(__VA_ARGS__), gpu_driver_names.member, purpose, error)
#define GPU_BLAS(d, member, purpose, error, ...) \
  gpu_judge_blas(&(d)->blas, (d)->blas.member(__VA_ARGS__), gpu_blas_names.member, purpose, error)
#define GPU_DNN(d, member, purpose, error, ...) \
  gpu_judge_dnn(&(d)->dnn, (d)->dnn.member(__VA_ARGS__), gpu_dnn_names.member, purpose, error)

/* One whose failure nobody hears now: it is that of the next wait for the queue. */
#define GPU_LATER(d, member, purpose, ...) \
  gpu_later(d, (d)->driver.member(__VA_ARGS__), gpu_driver_names.member, purpose)
void gpu_later(struct CudaDevice *d, CUresult result, const char *call, const char *purpose);

static inline CUdeviceptr gpu_address(const void *at) { return (CUdeviceptr)(uintptr_t)at; }

/* ---- waiting */

/* After query number `turn` has found something not ready: sleeps a little from the time on when that is worth it,
 * tells how far the queue has come, and asks whether somebody else has failed. */
RtStatus gpu_pause(CudaDevice *d, unsigned turn, RtError *error);
/* Until the queue has done what was asked of it so far, looking now and then whether somebody else has failed. */
RtStatus gpu_wait_queue(CudaDevice *d, CUstream queue, const char *purpose, RtError *error);
RtStatus gpu_wait_event(CudaDevice *d, CUevent event, const char *purpose, RtError *error);
/* Without waiting. */
RtStatus gpu_has_happened(const CudaDevice *d, CUevent event, const char *purpose, bool *happened, RtError *error);

/* ---- marks.c */
RtStatus gpu_marks_open(CudaDevice *d, RtError *error);
void gpu_marks_close(CudaDevice *d);
RtStatus gpu_look_at_marks(CudaDevice *d, bool *moved, RtError *error); /* has it come to another one? */
RtStatus gpu_mark(Device *device, uint32_t step, RtError *error);
RtStatus gpu_stamp(Device *device, RtError *error);
RtStatus gpu_times(Device *device, uint64_t *ns, uint32_t n, RtError *error);

/* ---- memory.c */
RtStatus gpu_memory_open(CudaDevice *d, RtError *error);
void gpu_memory_close(CudaDevice *d);
RtStatus gpu_room(Device *device, uint64_t *bytes, RtError *error);
RtStatus gpu_alloc(Device *device, uint64_t bytes, char **out, RtError *error);
void gpu_release(Device *device, char *at, uint64_t bytes);
RtStatus gpu_upload(Device *device, void *to, const void *from, size_t bytes, RtError *error);
RtStatus gpu_read(Device *device, void *to, const void *from, size_t bytes, RtError *error);
RtStatus gpu_feed(Device *device, const DeviceCall *c, const void *host, const int64_t *extents, RtError *error);
RtStatus gpu_fetch(Device *device, const DeviceCall *c, void *host, const int64_t *extents, RtError *error);

/* ---- calls.c */
DeviceRun gpu_launch, gpu_conv_kernel, gpu_copy, gpu_fill;
/* Rows of n elements of `size` bytes, `stride` bytes apart, become `element`. */
RtStatus gpu_fill_rows(CudaDevice *d, void *at, const void *element, size_t size, int64_t rows, int64_t n,
                       int64_t stride, RtError *error);

/* ---- product.c */
RtStatus gpu_products_open(CudaDevice *d, RtError *error);
void gpu_products_close(CudaDevice *d);
void gpu_workspace(Device *device, char *at, uint64_t bytes);
DeviceRun gpu_gemm;

/* ---- conv.c */
RtStatus gpu_convs_open(CudaDevice *d, RtError *error); /* without cuDNN too */
void gpu_convs_close(CudaDevice *d);
/* Chooses how, as the call would: what is recorded only asks for work. */
RtStatus gpu_conv_choose(CudaDevice *d, const DeviceCall *c, RtError *error);
DeviceRun gpu_conv;

/* ---- comm.c */
RtStatus gpu_comm(Device *device, Comm *host, const CommOptions *options, bool staged, Comm **out, RtError *error);

/* ---- graph.c */
RtStatus gpu_record(Device *device, const DeviceCall *calls, uint32_t n, void **recording, RtError *error);
RtStatus gpu_replay(Device *device, void *recording, RtError *error);
void gpu_forget(Device *device, void *recording);

#endif
