/* runtime/device/cuda/cuda.h - a GPU of NVIDIA's as a device: what its files share.
 *
 *   open.c     choosing the GPU, its context, kernels and libraries; errors
 *   memory.c   memory, and what moves between it and the host's: through pinned memory, in pieces
 *   calls.c    launches, copies and fills
 *   product.c  products, by cuBLASLt
 *   conv.c     convolutions, by cuDNN
 *   graph.c    several calls, and whole requests, as one: CUDA graphs
 *   marks.c    how far queues have come, and when they came there
 *   looks.c    indices outside their tables, which kernels note
 *   comm.c     which engine of communication; nccl.c, nccl_ask.c: NCCL
 *
 * Everything that a device is asked for goes to the queue `compute`, in the order it is asked for.
 *
 * One thread uses all of it.  Every call of a library is checked; an error names it, what it was for, and what the
 * library calls the error.
 */
#ifndef APC_RUNTIME_DEVICE_CUDA_CUDA_H
#define APC_RUNTIME_DEVICE_CUDA_CUDA_H

#include "program/index_fault.h"
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

/* A number in pinned memory that a queue writes when it comes there, and that the host reads whenever it wants. */
typedef _Atomic uint32_t GpuWord;

/* How far the queue `compute` has come. */
typedef struct GpuMarks {
  GpuWord *word;        /* the step that it has come to; 0: none of this request.  NULL: nobody wants to know */
  uint32_t first, told; /* the first step of this request, 0: none was asked for; what was told last */
} GpuMarks;

/* A part of an input or output, and where it lies as it does on the device. */
typedef struct GpuPort {
  uint32_t rank;
  size_t element; /* bytes */
  int64_t whole[PROGRAM_MAX_RANK], part[PROGRAM_MAX_RANK], start[PROGRAM_MAX_RANK];
} GpuPort;

/* Inputs and outputs of a request that is captured have pinned memory of their own, of which there is little. */
enum { GPU_MOST_PORTS = 256 << 20 };

/* A request that is captured, or will be: a graph, and pinned memory that its inputs come from and its outputs go to.
 */
typedef struct GpuCapture {
  CUgraphExec graph;
  char *area;
  uint64_t bytes, used; /* of the area */
  const char *io;       /* what ports have been given relative to, while it is made */
  struct GpuKept {
    GpuPort port;
    size_t at;  /* of the whole port, bytes behind io */
    char *part; /* in the area */
    bool feed;
  } * ports;
  uint32_t n_ports, room;
  uint32_t first; /* step */
  bool running;   /* it was launched, and is not known to be over */
} GpuCapture;

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
  IndexNote *note; /* pinned: kernels that look at indices write there; NULL: the Program has none */
  GpuLane lane;
  char *landing; /* pinned: where what comes from the device arrives */
  CUevent reached;
  GpuMarks marks;
  GpuStamps stamps;
  GpuCapture *capture; /* that is being made; NULL */
  RtError later;       /* what failed where nobody heard it */
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

RtStatus gpu_finish(Device *device, RtError *error); /* everything is done */

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
/* Tells the step that the queue has come to, if it is another one than before, or in any case. */
void gpu_tell_step(CudaDevice *d, bool in_any_case);
void gpu_marks_reset(CudaDevice *d,
                     uint32_t first); /* the queue is empty; what comes begins with that step, 0: unknown */
RtStatus gpu_words_alloc(CudaDevice *d, uint32_t n, GpuWord **out, RtError *error); /* all 0 */
RtStatus gpu_set_word(CudaDevice *d, GpuWord *word, uint32_t value, CUstream queue, RtError *error);
RtStatus gpu_mark(Device *device, uint32_t step, RtError *error);
RtStatus gpu_stamp(Device *device, RtError *error);
RtStatus gpu_times(Device *device, uint64_t *ns, uint32_t n, RtError *error);

/* ---- looks.c */
RtStatus gpu_looks_open(CudaDevice *d, RtError *error);
void gpu_looks_close(CudaDevice *d);
RtStatus gpu_looked(Device *device, uint32_t *instr, RtError *error);

/* ---- memory.c */
RtStatus gpu_memory_open(CudaDevice *d, RtError *error);
RtStatus gpu_pinned(CudaDevice *d, size_t bytes, char **out, RtError *error);
void gpu_memory_close(CudaDevice *d);
RtStatus gpu_room(Device *device, uint64_t *bytes, RtError *error);
RtStatus gpu_alloc(Device *device, uint64_t bytes, char **out, RtError *error);
void gpu_release(Device *device, char *at, uint64_t bytes);
RtStatus gpu_upload(Device *device, void *to, const void *from, size_t bytes, RtError *error);
RtStatus gpu_read(Device *device, void *to, const void *from, size_t bytes, RtError *error);
RtStatus gpu_feed(Device *device, const DeviceCall *c, const void *host, const int64_t *extents, RtError *error);
RtStatus gpu_fetch(Device *device, const DeviceCall *c, void *host, const int64_t *extents, RtError *error);
/* Between the whole port and `part`, which holds the tensor as it lies on the device. */
void gpu_move_port(const GpuPort *p, char *whole, char *part, bool feed);

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
RtStatus gpu_capture(Device *device, uint64_t bytes, const void *io, RtError *error);
RtStatus gpu_captured(Device *device, void **out, RtError *error);
RtStatus gpu_again(Device *device, void *capture, void *io, RtError *error);
void gpu_release_capture(Device *device, void *capture);
/* Of the request that is captured: memory for a port, which lies at `whole` now. */
RtStatus gpu_capture_port(CudaDevice *d, const GpuPort *port, const void *whole, size_t bytes, bool feed, char **part,
                          RtError *error);

#endif
