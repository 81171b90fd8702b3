/* runtime/device/cuda/cuda.h - an NVIDIA GPU as a device: shared by its files.
 *
 *   open.c     choosing the GPU, its context, kernels and libraries; errors
 *   memory.c   memory, and copies between it and the host's: through pinned memory, in pieces
 *   tensors.c  memory of the caller, which another process has allocated
 *   calls.c    launches, copies and fills
 *   product.c  products, by cuBLASLt
 *   conv.c     convolutions, by cuDNN
 *   graph.c    several calls, and whole requests, as CUDA graphs
 *   marks.c    progress of queues, and times
 *   looks.c    indices outside their tables, which kernels note
 *   tune.c     times of several ways to compute the same
 *   comm.c     choosing the engine of communication; nccl.c, nccl_ask.c: NCCL
 *
 * All calls of a device go to the queue `compute`, in their order.
 *
 * One thread uses all of it.  Every call of a library is checked; an error names the call, its purpose, and the
 * library's name for the error.
 */
#ifndef APC_RUNTIME_DEVICE_CUDA_CUDA_H
#define APC_RUNTIME_DEVICE_CUDA_CUDA_H

#include "program/index_fault.h"
#include "runtime/device/cuda/api.h"
#include "runtime/device/cuda/known.h"
#include "runtime/device/device.h"

/* Pinned memory on its way to the device: two halves that alternate.  One is filled while the other, full, is
 * copied. */
typedef struct GpuLane {
  char *half[2];
  CUevent copied[2]; /* the whole half is on the device */
  size_t used;       /* bytes used of the half that is being filled */
  int filling;
} GpuLane;

/* A number in pinned memory.  A queue writes it when it gets there; the host reads it at any time. */
typedef _Atomic uint32_t GpuWord;

/* Progress of the queue `compute`. */
typedef struct GpuMarks {
  GpuWord *word;        /* the step that the queue has reached; 0: no step of this request.  NULL if the options have no
                         * `reached` */
  uint32_t first, told; /* the first step of this request, 0 if there is none yet; the last step that was reported */
} GpuMarks;

/* A part of an input or output, and its box in the whole port. */
typedef struct GpuPort {
  uint32_t rank;
  DType dtype;
  int64_t whole[PROGRAM_MAX_RANK], part[PROGRAM_MAX_RANK], start[PROGRAM_MAX_RANK];
} GpuPort;

/* A captured request has pinned memory of its own for inputs and outputs, which is scarce. */
enum { GPU_MOST_PORTS = 256 << 20 };

/* A captured request, or one that is being captured: a graph, and memory for its inputs and outputs: pinned, or the
 * device's for those that lie on a device. */
typedef struct GpuCapture {
  CUgraphExec graph;
  char *area;
  uint64_t bytes, used;  /* of the area */
  CUdeviceptr on_device; /* 0: no port is on a device */
  uint64_t device_bytes, device_used;
  const char *io; /* base of the ports' addresses during the capture */
  struct GpuKept {
    GpuPort port;
    size_t at;       /* offset of the whole port in io */
    uint32_t number; /* of a port on a device */
    bool is_on_device, feed;
    char *part; /* in the area, or on the device */
  } * ports;
  uint32_t n_ports, room;
  uint32_t first; /* step */
  bool running;   /* it was launched, and has not been seen to finish */
} GpuCapture;

/* Events that record when the queue reached them. */
typedef struct GpuStamps {
  CUevent *events;
  uint32_t n, capacity;
} GpuStamps;

typedef struct GpuTuner GpuTuner;

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
  IndexNote *note; /* pinned: kernels that check indices write there; NULL if the Program has none */
  GpuLane lane;
  char *landing;     /* pinned: target of reads from the device, in two halves */
  CUevent landed[2]; /* a half, or with the first event all of it, is there */
  GpuMarks marks;
  GpuStamps stamps;
  GpuCapture *capture; /* the one in progress; NULL if there is none */
  RtError later;       /* the first error of a call without an RtError; the next wait reports it */
  cublasLtHandle_t products_of;
  cudnnHandle_t convs_of; /* NULL: the Program's kernels do convolutions */
  cudnnActivationDescriptor_t relu, identity;
  GpuKnown products, convs; /* descriptors and choices, by sizes */
  char *space;              /* workspace, shared by products and convolutions, which the queue runs one at a time */
  uint64_t space_bytes;
  GpuTuner *tuner; /* NULL: nothing is timed */
} CudaDevice;

extern const DeviceOps device_cuda;

/* ---- errors */

/* Names of the functions in the libraries. */
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

/* Return RT_OK for success, else RT_FAILED with "cuMemAlloc_v2 (PURPOSE): CUDA_ERROR_OUT_OF_MEMORY: out of memory". */
RtStatus gpu_judge(const CudaDriver *driver, CUresult result, const char *call, const char *purpose, RtError *error);
RtStatus gpu_judge_blas(const CudaBlas *blas, cublasStatus_t status, const char *call, const char *purpose,
                        RtError *error);
RtStatus gpu_judge_dnn(const CudaDnn *dnn, cudnnStatus_t status, const char *call, const char *purpose, RtError *error);

/* One call of the driver, of cuBLASLt or of cuDNN: its member, its purpose, the place of an error, its arguments. */
#define GPU_CALL(d, member, purpose, error, ...) \
  gpu_judge(&(d)->driver, (d)->driver.member(__VA_ARGS__), gpu_driver_names.member, purpose, error)
#define GPU_BLAS(d, member, purpose, error, ...) \
  gpu_judge_blas(&(d)->blas, (d)->blas.member(__VA_ARGS__), gpu_blas_names.member, purpose, error)
#define GPU_DNN(d, member, purpose, error, ...) \
  gpu_judge_dnn(&(d)->dnn, (d)->dnn.member(__VA_ARGS__), gpu_dnn_names.member, purpose, error)

/* A call that cannot return its error now: the next wait for the queue reports it. */
#define GPU_LATER(d, member, purpose, ...) \
  gpu_later(d, (d)->driver.member(__VA_ARGS__), gpu_driver_names.member, purpose)
void gpu_later(struct CudaDevice *d, CUresult result, const char *call, const char *purpose);

/* Converts a device pointer to the driver's type. */
static inline CUdeviceptr gpu_address(const void *at) { return (CUdeviceptr)(uintptr_t)at; }

/* ---- waiting */

RtStatus gpu_finish(Device *device, RtError *error); /* waits for all calls; first reports errors of GPU_LATER */

/* Called after query number `turn` found that something is not ready.  Sleeps a little after many turns, reports the
 * step that the queue has reached, and fails if another rank has failed. */
RtStatus gpu_pause(CudaDevice *d, unsigned turn, RtError *error);
/* Wait until the queue or event is done; fail if another rank has failed meanwhile. */
RtStatus gpu_wait_queue(CudaDevice *d, CUstream queue, const char *purpose, RtError *error);
RtStatus gpu_wait_event(CudaDevice *d, CUevent event, const char *purpose, RtError *error);
/* Sets *happened without waiting. */
RtStatus gpu_has_happened(const CudaDevice *d, CUevent event, const char *purpose, bool *happened, RtError *error);

/* ---- marks.c */
/* Open and close the word of marks, and the events of stamps. */
RtStatus gpu_marks_open(CudaDevice *d, RtError *error);
void gpu_marks_close(CudaDevice *d);
/* Reports the step that the queue has reached, if it changed or in any case. */
void gpu_tell_step(CudaDevice *d, bool in_any_case);
/* Starts the marks of a request. */
void gpu_marks_reset(CudaDevice *d,
                     uint32_t first); /* the queue is empty; the next calls begin with that step, 0: unknown */
/* Allocates n words in pinned memory; gpu_set_word makes a queue write one when it gets there. */
RtStatus gpu_words_alloc(CudaDevice *d, uint32_t n, GpuWord **out, RtError *error); /* all 0 */
RtStatus gpu_set_word(CudaDevice *d, GpuWord *word, uint32_t value, CUstream queue, RtError *error);
/* Functions of DeviceOps: mark, stamp and times. */
RtStatus gpu_mark(Device *device, uint32_t step, RtError *error);
RtStatus gpu_stamp(Device *device, RtError *error);
RtStatus gpu_times(Device *device, uint64_t *ns, uint32_t n, RtError *error);

/* ---- looks.c */
/* Open and close the note of invalid indices; gpu_looked is DeviceOps.looked. */
RtStatus gpu_looks_open(CudaDevice *d, RtError *error);
void gpu_looks_close(CudaDevice *d);
RtStatus gpu_looked(Device *device, uint32_t *instr, RtError *error);

/* ---- memory.c */
/* Open and close the pinned memory for copies; gpu_pinned allocates `bytes` of pinned memory. */
RtStatus gpu_memory_open(CudaDevice *d, RtError *error);
RtStatus gpu_pinned(CudaDevice *d, size_t bytes, char **out, RtError *error);
void gpu_memory_close(CudaDevice *d);
/* Functions of DeviceOps. */
RtStatus gpu_room(Device *device, uint64_t *bytes, RtError *error);
RtStatus gpu_alloc(Device *device, uint64_t bytes, char **out, RtError *error);
void gpu_release(Device *device, char *at, uint64_t bytes);
RtStatus gpu_upload(Device *device, void *to, const void *from, size_t bytes, RtError *error);
RtStatus gpu_read(Device *device, void *to, const void *from, size_t bytes, RtError *error);
RtStatus gpu_feed(Device *device, const DeviceCall *c, const DevicePort *port, RtError *error);
RtStatus gpu_fetch(Device *device, const DeviceCall *c, const DevicePort *port, RtError *error);
/* Copies between the whole port and `part`, which holds the tensor as it lies on the device: the first on the host, the
 * second on the device, in its queue. */
void gpu_move_port(const GpuPort *p, char *whole, char *part, bool feed);
RtStatus gpu_copy_port(CudaDevice *d, const GpuPort *p, char *whole, char *part, bool feed, RtError *error);

/* ---- tensors.c */
/* Functions of DeviceOps, and its `tensors`. */
extern const DeviceTensorOps gpu_tensor_ops;
RtStatus gpu_map(Device *device, const DevicePlace *place, char **out, RtError *error);
RtStatus gpu_unmap(Device *device, char *at, RtError *error);

/* ---- calls.c */
/* Functions of DeviceOps; gpu_conv_kernel runs a convolution by the Program's kernel. */
DeviceRun gpu_launch, gpu_conv_kernel, gpu_copy, gpu_fill;
/* Fills rows of n elements of `size` bytes, `stride` bytes apart, with `element`. */
RtStatus gpu_fill_rows(CudaDevice *d, void *at, const void *element, size_t size, int64_t rows, int64_t n,
                       int64_t stride, RtError *error);

/* ---- product.c */
/* Open cuBLASLt, and close it with all descriptors; the others are functions of DeviceOps. */
RtStatus gpu_products_open(CudaDevice *d, RtError *error);
void gpu_products_close(CudaDevice *d);
void gpu_workspace(Device *device, char *at, uint64_t bytes);
DeviceRun gpu_gemm;
/* gpu_gemm_tune times the algorithms of a product that the table of choices lacks.  gpu_products_choose makes the
 * products that are known follow the table. */
DeviceRun gpu_gemm_tune;
RtStatus gpu_products_choose(CudaDevice *d, RtError *error);

/* ---- conv.c */

/* Open and close cuDNN for convolutions. */
RtStatus gpu_convs_open(CudaDevice *d, RtError *error); /* succeeds without cuDNN */
void gpu_convs_close(CudaDevice *d);
/* Chooses an algorithm as the call would, but does no work. */
RtStatus gpu_conv_choose(CudaDevice *d, const DeviceCall *c, RtError *error);
DeviceRun gpu_conv;
/* As for products. */
DeviceRun gpu_conv_tune;
RtStatus gpu_convs_choose(CudaDevice *d, RtError *error);

/* ---- tune.c: functions of DeviceOps */
void gpu_tuned_for(const Device *device, char text[TUNING_OF]);
DeviceRun gpu_tune;
RtStatus gpu_tuned(Device *device, RtError *error);

/* ---- comm.c */
/* DeviceOps.comm. */
RtStatus gpu_comm(Device *device, Comm *host, const CommOptions *options, bool staged, Comm **out, RtError *error);

/* ---- graph.c */
/* Functions of DeviceOps. */
RtStatus gpu_record(Device *device, const DeviceCall *calls, uint32_t n, void **recording, RtError *error);
RtStatus gpu_replay(Device *device, void *recording, RtError *error);
void gpu_forget(Device *device, void *recording);
RtStatus gpu_capture(Device *device, uint64_t bytes, uint64_t device_bytes, const void *io, RtError *error);
RtStatus gpu_captured(Device *device, void **out, RtError *error);
RtStatus gpu_again(Device *device, void *capture, void *io, char *const *places, RtError *error);
void gpu_release_capture(Device *device, void *capture);
/* Reserves memory of the captured request for `bytes`, a part of the port, which lies at `whole` now. */
RtStatus gpu_capture_port(CudaDevice *d, const GpuPort *port, const DevicePort *whole, size_t bytes, bool feed,
                          char **part, RtError *error);

#endif
