/* runtime/device/cuda/open.c - choosing a GPU, its context, kernels and libraries; see cuda.h.
 *
 * The ranks of a machine use its GPUs round robin.  Of the Program's machine code the image nearest to the GPU is taken
 * (program/image.h).  Limits of the driver, the libraries or the GPU are reported before anything runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "program/image.h"
#include "runtime/device/cuda/cuda.h"
#include "runtime/device/cuda/library.h"
#include "runtime/device/cuda/tune.h"

/* ---- errors */

const GpuDriverNames gpu_driver_names = {
#define CUDA_DRIVER(result, symbol, member, parameters) .member = #symbol,
#include "runtime/device/cuda/api.def"
#undef CUDA_DRIVER
};

const GpuBlasNames gpu_blas_names = {
#define CUDA_BLAS(result, symbol, member, parameters) .member = #symbol,
#include "runtime/device/cuda/api.def"
#undef CUDA_BLAS
};

const GpuDnnNames gpu_dnn_names = {
#define CUDA_DNN(result, symbol, member, parameters) .member = #symbol,
#include "runtime/device/cuda/api.def"
#undef CUDA_DNN
};

RtStatus gpu_judge(const CudaDriver *driver, CUresult result, const char *call, const char *purpose, RtError *error) {
  const char *name = NULL, *text = NULL;
  if (result == CUDA_SUCCESS) return RT_OK;
  driver->error_name(result, &name);
  driver->error_text(result, &text);
  return rt_error(error, RT_FAILED, "%s (%s): %s: %s", call, purpose, name ? name : "unknown error",
                  text ? text : "no text");
}

RtStatus gpu_judge_blas(const CudaBlas *blas, cublasStatus_t status, const char *call, const char *purpose,
                        RtError *error) {
  if (status == CUBLAS_STATUS_SUCCESS) return RT_OK;
  return rt_error(error, RT_FAILED, "%s (%s): %s", call, purpose, blas->status_name(status));
}

RtStatus gpu_judge_dnn(const CudaDnn *dnn, cudnnStatus_t status, const char *call, const char *purpose,
                       RtError *error) {
  if (status == CUDNN_STATUS_SUCCESS) return RT_OK;
  return rt_error(error, RT_FAILED, "%s (%s): %s; APC_CONV=kernel does without cuDNN", call, purpose,
                  dnn->status_name(status));
}

void gpu_later(CudaDevice *d, CUresult result, const char *call, const char *purpose) {
  if (!d->later.status) gpu_judge(&d->driver, result, call, purpose, &d->later);
}

/* ---- waiting */

enum {
  SPINS = 2000, /* queries in a row, before a wait sleeps between them */
  SLEEP_NS = 20000,
  CHECK_EVERY = 50 /* sleeps, about a millisecond */
};

RtStatus gpu_pause(CudaDevice *d, unsigned turn, RtError *error) {
  if (turn < SPINS) return RT_OK;
  gpu_tell_step(d, turn == SPINS);
  nanosleep(&(struct timespec){0, SLEEP_NS}, NULL);
  return turn % CHECK_EVERY == 0 && d->options.check ? d->options.check(d->options.context, error) : RT_OK;
}

RtStatus gpu_wait_queue(CudaDevice *d, CUstream queue, const char *purpose, RtError *error) {
  for (unsigned turn = 0;; turn++) {
    CUresult result = d->driver.queue_query(queue);
    if (result != CUDA_ERROR_NOT_READY)
      return gpu_judge(&d->driver, result, gpu_driver_names.queue_query, purpose, error);
    RtStatus status = gpu_pause(d, turn, error);
    if (status) return status;
  }
}

RtStatus gpu_has_happened(const CudaDevice *d, CUevent event, const char *purpose, bool *happened, RtError *error) {
  CUresult result = d->driver.event_query(event);
  *happened = result == CUDA_SUCCESS;
  if (result == CUDA_ERROR_NOT_READY) return RT_OK;
  return gpu_judge(&d->driver, result, gpu_driver_names.event_query, purpose, error);
}

RtStatus gpu_wait_event(CudaDevice *d, CUevent event, const char *purpose, RtError *error) {
  for (unsigned turn = 0;; turn++) {
    bool happened;
    RtStatus status = gpu_has_happened(d, event, purpose, &happened, error);
    if (!status && !happened) status = gpu_pause(d, turn, error);
    if (status || happened) return status;
  }
}

/* ---- the GPU */

/* Marks an error as one of this machine, not of this run. */
static RtStatus unsupported(RtStatus status, RtError *error) {
  if (status) error->status = RT_UNSUPPORTED;
  return status ? RT_UNSUPPORTED : RT_OK;
}

static RtStatus choose_gpu(CudaDevice *d, RtError *error) {
  int n = 0, major = 0, minor = 0;
  RtStatus status = GPU_CALL(d, init, "the GPUs of this machine", error, 0);
  if (!status) status = GPU_CALL(d, device_count, "the GPUs of this machine", error, &n);
  if (status) return unsupported(status, error);
  if (n == 0) return rt_error(error, RT_UNSUPPORTED, "there is a driver but no GPU on this machine");
  int number = (int)d->options.local_rank % n;
  status = GPU_CALL(d, device, "choosing a GPU", error, &d->device, number);
  if (!status) status = GPU_CALL(d, device_name, "the GPU's name", error, d->name, sizeof d->name - 1, d->device);
  if (!status)
    status = GPU_CALL(d, device_attribute, "the GPU's architecture", error, &major,
                      CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d->device);
  if (!status)
    status = GPU_CALL(d, device_attribute, "the GPU's architecture", error, &minor,
                      CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d->device);
  snprintf(d->arch, sizeof d->arch, "sm_%d%d", major, minor);
  return status;
}

static RtStatus open_context(CudaDevice *d, RtError *error) {
  CUcontext context = NULL;
  RtStatus status = GPU_CALL(d, context_retain, "the GPU's context", error, &context, d->device);
  if (status) return status;
  d->context = context;
  status = GPU_CALL(d, context_set, "the GPU's context", error, context);
  if (!status)
    status = GPU_CALL(d, queue_create, "the queue of computation", error, &d->compute, CU_STREAM_NON_BLOCKING);
  return status;
}

/* ---- kernels */

static RtStatus refused_image(const CudaDevice *d, uint32_t image, RtError *error) {
  char text[512], version[32];
  const ProgramImage *m = &d->p->images[image];
  snprintf(text, sizeof text, "%.400s", error->text);
  gpu_driver_text(d->driver_version, version);
  return rt_error(
      error, RT_UNSUPPORTED,
      "the kernels, %s for %s, cannot be loaded on %s (%s) by a driver for CUDA %s: %s; install a newer driver, or "
      "compile with an older NVRTC",
      program_image_kind(m->kind), program_text(d->p, m->arch), d->name, d->arch, version, text);
}

static RtStatus load_module(CudaDevice *d, uint32_t image, RtError *error) {
  const Program *p = d->p;
  const ProgramBlob *b = &p->blobs[p->images[image].blob];
  unsigned char *bytes = malloc(b->bytes + 1);
  if (!bytes) return rt_error(error, RT_FAILED, "out of memory");
  bytes[b->bytes] = 0; /* PTX is a text */
  RtStatus status = artifact_read_blob(d->options.artifact, b, bytes)
                        ? RT_OK
                        : rt_error_errno(error, RT_BAD_INPUT, "the kernels cannot be read");
  if (!status && b->hash && program_blob_hash(bytes, b->bytes) != b->hash)
    status = rt_error(error, RT_BAD_INPUT, "the compiled model is damaged: its kernels do not match their checksum");
  if (!status) {
    CUresult result = d->driver.module_load(&d->module, bytes);
    status = gpu_judge(&d->driver, result, gpu_driver_names.module_load, "the kernels", error);
    bool code = result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
                result == CUDA_ERROR_INVALID_PTX || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
                result == CUDA_ERROR_INVALID_SOURCE;
    if (code) status = refused_image(d, image, error);
  }
  free(bytes);
  return status;
}

static RtStatus load_kernels(CudaDevice *d, RtError *error) {
  const Program *p = d->p;
  uint32_t image;
  if (p->n_kernels == 0) return RT_OK;
  d->kernels = calloc(p->n_kernels, sizeof *d->kernels);
  if (!d->kernels) return rt_error(error, RT_FAILED, "out of memory");
  RtStatus status = program_image_choose(p, "GPU", d->arch, &image, error);
  if (!status) status = load_module(d, image, error);
  for (uint32_t i = 0; i < p->n_kernels && !status; i++)
    status = GPU_CALL(d, module_function, program_text(p, p->kernels[i].name), error, &d->kernels[i], d->module,
                      program_text(p, p->kernels[i].name));
  return status;
}

/* ---- instructions that this device does not support */

static RtStatus check_instr(const Program *p, const ProgramInstr *x, RtError *error) {
  const char *where = program_text(p, x->where);
  if (x->kind == PI_pack)
    return rt_error(error, RT_UNSUPPORTED, "products on GPUs take no panels, but '%s' makes some", where);
  return RT_OK;
}

/* The libraries that its instructions need. */
typedef struct Wanted {
  bool products, convolutions;
} Wanted;

static RtStatus check_instrs(const CudaDevice *d, Wanted *wanted, RtError *error) {
  const Program *p = d->p;
  RtStatus status = RT_OK;
  *wanted = (Wanted){0};
  for (uint32_t b = 0; b < p->n_bodies; b++)
    for (uint32_t i = p->bodies[b].instrs; i < p->bodies[b].instrs + p->bodies[b].n && !status; i++) {
      /* Ranks that share a table of choices open the same libraries. */
      if (p->bodies[b].stage != d->options.stage && !d->options.tuning) continue;
      wanted->products |= p->instrs[i].kind == PI_gemm;
      wanted->convolutions |= p->instrs[i].kind == PI_conv;
      status = check_instr(p, &p->instrs[i], error);
    }
  return status;
}

/* ---- opening */

static void cuda_close(Device *device) {
  CudaDevice *d = (CudaDevice *)device;
  if (d->context) {
    if (d->compute) d->driver.queue_finish(d->compute); /* errors cannot be reported any more */
    RtError unread = {0};
    gpu_tune_end(d, &unread);
    gpu_products_close(d);
    gpu_convs_close(d);
    gpu_memory_close(d);
    gpu_marks_close(d);
    gpu_looks_close(d);
    if (d->module) d->driver.module_unload(d->module);
    if (d->compute) d->driver.queue_destroy(d->compute);
    d->driver.context_set(NULL);
    d->driver.context_release(d->device);
  }
  gpu_close_library(d->blas.handle);
  gpu_close_library(d->dnn.handle);
  gpu_close_library(d->driver.handle);
  free(d->kernels);
  free(d);
}

static RtStatus open_all(CudaDevice *d, RtError *error) {
  Wanted wanted;
  RtStatus status = check_instrs(d, &wanted, error);
  if (!status) status = gpu_open_driver(&d->driver, &d->driver_version, error);
  if (!status) status = choose_gpu(d, error);
  if (!status) status = open_context(d, error);
  if (!status) status = gpu_memory_open(d, error);
  if (!status) status = gpu_marks_open(d, error);
  if (!status) status = gpu_looks_open(d, error);
  if (!status) status = load_kernels(d, error);
  if (!status && wanted.products) status = gpu_products_open(d, error);
  if (!status && wanted.convolutions && !d->options.kernels) status = gpu_convs_open(d, error);
  return status;
}

static RtStatus cuda_open(const DeviceOptions *options, Device **out, RtError *error) {
  CudaDevice *d = calloc(1, sizeof *d);
  if (!d) return rt_error(error, RT_FAILED, "out of memory");
  d->base.ops = &device_cuda;
  d->options = *options;
  d->p = &options->artifact->program;
  RtStatus status = open_all(d, error);
  if (status) cuda_close(&d->base);
  else *out = &d->base;
  return status;
}

static DeviceFacts cuda_facts(const Device *d) {
  const CudaDevice *gpu = (const CudaDevice *)d;
  return (DeviceFacts){.host_memory = false, .most_ports = GPU_MOST_PORTS, .arch = gpu->arch};
}

RtStatus gpu_finish(Device *device, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  if (d->later.status) return rt_error(error, d->later.status, "%s", d->later.text);
  RtStatus status = gpu_wait_queue(d, d->compute, "the end of the request", error);
  if (!status) gpu_marks_reset(d, 0);
  return status;
}

const DeviceOps device_cuda = {.name = "gpu",
                               .open = cuda_open,
                               .close = cuda_close,
                               .facts = cuda_facts,
                               .room = gpu_room,
                               .alloc = gpu_alloc,
                               .release = gpu_release,
                               .upload = gpu_upload,
                               .read = gpu_read,
                               .workspace = gpu_workspace,
                               .comm = gpu_comm,
                               .launch = gpu_launch,
                               .gemm = gpu_gemm,
                               .conv = gpu_conv,
                               .copy = gpu_copy,
                               .fill = gpu_fill,
                               .feed = gpu_feed,
                               .fetch = gpu_fetch,
                               .tensors = &gpu_tensor_ops,
                               .map = gpu_map,
                               .unmap = gpu_unmap,
                               .record = gpu_record,
                               .replay = gpu_replay,
                               .forget = gpu_forget,
                               .capture = gpu_capture,
                               .captured = gpu_captured,
                               .again = gpu_again,
                               .release_capture = gpu_release_capture,
                               .mark = gpu_mark,
                               .stamp = gpu_stamp,
                               .times = gpu_times,
                               .looked = gpu_looked,
                               .tuned_for = gpu_tuned_for,
                               .tune = gpu_tune,
                               .tuned = gpu_tuned,
                               .finish = gpu_finish};
