/* runtime/device/cuda/tensors.c - memory of a GPU that one process owns and others use, by CUDA's handles for that.
 *
 * In the process of the caller: names memory that a rank shall use, waits for the work that fills it, allocates
 * results. In a rank: maps the allocation of a name.  The driver only gives handles of whole allocations by cuMemAlloc
 * (cudaMalloc), so a tensor in the middle of one is a handle and an offset.  Memory of pools (cuMemAllocAsync) and of
 * virtual addresses (cuMemCreate) has no such handles.
 *
 * The caller's threads keep their own current context: each function sets the context of its device, the primary one,
 * and restores the caller's.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/cuda/cuda.h"
#include "runtime/device/cuda/library.h"

_Static_assert(DEVICE_HANDLE == sizeof(CUipcMemHandle), "the driver's handles fit");

enum { MOST_DEVICES = 64 };

struct DeviceTensors {
  CudaDriver driver;
  int version, n;
  pthread_mutex_t lock; /* for the contexts */
  CUcontext contexts[MOST_DEVICES];
};

/* ---- the caller's process */

static void tensors_close(DeviceTensors *t) {
  for (int i = 0; i < t->n; i++) {
    CUdevice device;
    if (t->contexts[i] && t->driver.device(&device, i) == CUDA_SUCCESS) t->driver.context_release(device);
  }
  gpu_close_library(t->driver.handle);
  pthread_mutex_destroy(&t->lock);
  free(t);
}

static RtStatus tensors_open(DeviceTensors **out, RtError *error) {
  DeviceTensors *t = calloc(1, sizeof *t);
  if (!t) return rt_error(error, RT_FAILED, "out of memory");
  pthread_mutex_init(&t->lock, NULL);
  RtStatus status = gpu_open_driver(&t->driver, &t->version, error);
  if (!status) status = GPU_CALL(t, init, "the GPUs of this machine", error, 0);
  if (!status) status = GPU_CALL(t, device_count, "the GPUs of this machine", error, &t->n);
  if (t->n > MOST_DEVICES) t->n = MOST_DEVICES;
  if (status) tensors_close(t);
  else *out = t;
  return status;
}

/* Sets *context to the primary context of a device, which stays until the end. */
static RtStatus context_of(DeviceTensors *t, int device, CUcontext *context, RtError *error) {
  CUdevice number;
  if (device < 0 || device >= t->n)
    return rt_error(error, RT_BAD_INPUT, "there is no CUDA device %d; this process sees %d", device, t->n);
  pthread_mutex_lock(&t->lock);
  RtStatus status = RT_OK;
  if (!t->contexts[device]) {
    CUcontext made = NULL;
    status = GPU_CALL(t, device, "choosing a GPU", error, &number, device);
    if (!status) status = GPU_CALL(t, context_retain, "the GPU's context", error, &made, number);
    if (!status) t->contexts[device] = made;
  }
  *context = t->contexts[device];
  pthread_mutex_unlock(&t->lock);
  return status;
}

/* Makes the context of the device current; `leave` follows if it succeeded. */
static RtStatus enter(DeviceTensors *t, int device, CUcontext *before, RtError *error) {
  CUcontext own = NULL;
  RtStatus status = context_of(t, device, &own, error);
  if (!status) status = GPU_CALL(t, context_get, "the caller's context", error, before);
  return status ? status : GPU_CALL(t, context_set, "the GPU's context", error, own);
}

static RtStatus leave(DeviceTensors *t, CUcontext before, RtStatus status, RtError *error) {
  CUresult result = t->driver.context_set(before);
  return status ? status : gpu_judge(&t->driver, result, gpu_driver_names.context_set, "the caller's context", error);
}

static RtStatus name_memory(DeviceTensors *t, int device, const void *at, uint64_t bytes, DevicePlace *out,
                            RtError *error) {
  CUdeviceptr base = 0;
  size_t all = 0;
  CUipcMemHandle handle;
  CUresult found = t->driver.memory_range(&base, &all, gpu_address(at));
  if (found == CUDA_ERROR_NOT_FOUND || found == CUDA_ERROR_INVALID_VALUE)
    return rt_error(error, RT_BAD_INPUT, "the address %p is not in memory of CUDA device %d", at, device);
  RtStatus status = gpu_judge(&t->driver, found, gpu_driver_names.memory_range, "memory of the caller", error);
  if (status) return status;
  uint64_t offset = gpu_address(at) - base;
  if (bytes > all - offset)
    return rt_error(error, RT_BAD_INPUT,
                    "%llu bytes are needed, and the memory on CUDA device %d has %llu from there on",
                    (unsigned long long)bytes, device, (unsigned long long)(all - offset));
  CUresult given = t->driver.memory_give(&handle, base);
  if (given == CUDA_ERROR_INVALID_VALUE || given == CUDA_ERROR_NOT_SUPPORTED)
    return rt_error(
        error, RT_UNSUPPORTED,
        "other processes cannot use this memory of CUDA device %d: only memory of cudaMalloc can be shared, "
        "not that of cudaMallocAsync or of PyTorch's expandable_segments",
        device);
  status = gpu_judge(&t->driver, given, gpu_driver_names.memory_give, "memory of the caller", error);
  *out = (DevicePlace){.device = (uint32_t)device, .offset = offset, .bytes = bytes};
  memcpy(out->handle, handle.opaque, sizeof out->handle);
  return status;
}

static RtStatus tensors_place(DeviceTensors *t, int device, const void *at, uint64_t bytes, DevicePlace *out,
                              RtError *error) {
  CUcontext before;
  RtStatus status = enter(t, device, &before, error);
  return status ? status : leave(t, before, name_memory(t, device, at, bytes, out, error), error);
}

/* The event is after all earlier work of the default queue and of queues that are ordered with it. */
static RtStatus settle(DeviceTensors *t, RtError *error) {
  static const char *const purpose = "work of the caller";
  CUevent event = NULL;
  RtStatus status = GPU_CALL(t, event_create, purpose, error, &event, CU_EVENT_DISABLE_TIMING);
  if (status) return status;
  status = GPU_CALL(t, event_record, purpose, error, event, NULL);
  if (!status) status = GPU_CALL(t, event_finish, purpose, error, event);
  CUresult ended = t->driver.event_destroy(event);
  return status ? status : gpu_judge(&t->driver, ended, gpu_driver_names.event_destroy, purpose, error);
}

static RtStatus tensors_settle(DeviceTensors *t, int device, RtError *error) {
  CUcontext before;
  RtStatus status = enter(t, device, &before, error);
  return status ? status : leave(t, before, settle(t, error), error);
}

static RtStatus tensors_alloc(DeviceTensors *t, int device, uint64_t bytes, void **out, RtError *error) {
  CUcontext before;
  CUdeviceptr at = 0;
  RtStatus status = enter(t, device, &before, error);
  if (status) return status;
  status = GPU_CALL(t, memory_alloc, "memory for a result", error, &at, bytes);
  *out = (void *)(uintptr_t)at;
  return leave(t, before, status, error);
}

/* The driver waits for work that uses the memory.  An error can only be that of earlier work. */
static void tensors_release(DeviceTensors *t, int device, void *at) {
  CUcontext before;
  RtError unread = {0};
  if (enter(t, device, &before, &unread)) return;
  t->driver.memory_free(gpu_address(at));
  leave(t, before, RT_OK, &unread);
}

static RtStatus tensors_read(DeviceTensors *t, int device, void *to, const void *from, uint64_t bytes, RtError *error) {
  CUcontext before;
  RtStatus status = bytes ? enter(t, device, &before, error) : RT_OK;
  if (status || !bytes) return status;
  status = GPU_CALL(t, copy_from, "a copy from the GPU", error, to, gpu_address(from), bytes, NULL);
  if (!status) status = GPU_CALL(t, queue_finish, "a copy from the GPU", error, NULL);
  return leave(t, before, status, error);
}

static RtStatus tensors_write(DeviceTensors *t, int device, void *to, const void *from, uint64_t bytes,
                              RtError *error) {
  CUcontext before;
  RtStatus status = bytes ? enter(t, device, &before, error) : RT_OK;
  if (status || !bytes) return status;
  status = GPU_CALL(t, copy_to, "a copy to the GPU", error, gpu_address(to), from, bytes, NULL);
  if (!status) status = GPU_CALL(t, queue_finish, "a copy to the GPU", error, NULL);
  return leave(t, before, status, error);
}

const DeviceTensorOps gpu_tensor_ops = {.open = tensors_open,
                                        .close = tensors_close,
                                        .place = tensors_place,
                                        .settle = tensors_settle,
                                        .alloc = tensors_alloc,
                                        .release = tensors_release,
                                        .read = tensors_read,
                                        .write = tensors_write};

/* ---- a rank */

RtStatus gpu_map(Device *device, const DevicePlace *place, char **out, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  CUipcMemHandle handle;
  CUdeviceptr at = 0;
  memcpy(handle.opaque, place->handle, sizeof handle.opaque);
  CUresult taken = d->driver.memory_take(&at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  *out = (char *)(uintptr_t)at;
  if (taken == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)
    return rt_error(error, RT_UNSUPPORTED, "its GPU cannot access that device; give tensors in the host's memory");
  return gpu_judge(&d->driver, taken, gpu_driver_names.memory_take, "memory of the caller", error);
}

RtStatus gpu_unmap(Device *device, char *at, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  return GPU_CALL(d, memory_leave, "memory of the caller", error, gpu_address(at));
}
