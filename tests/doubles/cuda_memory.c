/* tests/doubles/cuda_memory.c - the driver API of the double: memory, copies and fills. */
#include <string.h>

#include "tests/doubles/copy.h"
#include "tests/doubles/cuda_enter.h"

/* ---- memory */

DOUBLE_API CUresult cuMemGetInfo_v2(size_t *unused, size_t *total) {
  ENTER_DEVICE(cuMemGetInfo_v2);
  *total = cuda_capacity(), *unused = cuda_capacity() - memory_used(device);
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
  ENTER_UNCAPTURED(cuMemAlloc_v2);
  return memory_alloc(device, bytes, cuda_capacity(), out);
}

DOUBLE_API CUresult cuMemFree_v2(CUdeviceptr at) {
  ENTER(cuMemFree_v2);
  const MemoryPlace *p = memory_place(at);
  if (graph_forbidden("cuMemFree_v2")) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (p && queue_uses(p->at, p->bytes, false)) double_violation("cuMemFree: unfinished work uses the memory");
  return memory_free(at);
}

DOUBLE_API CUresult cuMemGetAddressRange_v2(CUdeviceptr *out, size_t *bytes, CUdeviceptr at) {
  ENTER_DEVICE(cuMemGetAddressRange_v2);
  const MemoryPlace *p = memory_place(at);
  if (!p || p->device < 0 || at == p->at + p->bytes) return CUDA_ERROR_NOT_FOUND;
  if (p->device != device) return CUDA_ERROR_INVALID_VALUE;
  *out = p->at, *bytes = p->bytes;
  return CUDA_SUCCESS;
}

/* ---- memory of other processes */

DOUBLE_API CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr at) {
  ENTER_UNCAPTURED(cuIpcGetMemHandle);
  MemoryHandle handle;
  (void)device;
  CUresult error = memory_give(at, &handle);
  memset(out, 0, sizeof *out);
  if (!error) memcpy(out->reserved, &handle, sizeof handle);
  return error;
}

DOUBLE_API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle h, unsigned flags) {
  ENTER_UNCAPTURED(cuIpcOpenMemHandle_v2);
  MemoryHandle handle;
  memcpy(&handle, h.reserved, sizeof handle);
  if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  return memory_take(device, &handle, out);
}

DOUBLE_API CUresult cuIpcCloseMemHandle(CUdeviceptr at) {
  ENTER_UNCAPTURED(cuIpcCloseMemHandle);
  const MemoryPlace *p = memory_place(at);
  (void)device;
  if (p && queue_uses(p->at, p->bytes, false)) double_violation("cuIpcCloseMemHandle: unfinished work uses the memory");
  return memory_leave(at);
}

DOUBLE_API CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  ENTER_UNCAPTURED(cuMemHostAlloc);
  (void)flags;
  return memory_pin(bytes, out);
}

DOUBLE_API CUresult cuMemAllocHost_v2(void **out, size_t bytes) {
  ENTER_UNCAPTURED(cuMemAllocHost_v2);
  return memory_pin(bytes, out);
}

static CUresult unpin(void *at, bool registered) {
  const MemoryPlace *p = memory_place((uint64_t)(uintptr_t)at);
  if (p && queue_uses(p->at, p->bytes, false)) double_violation("pinned memory is freed while work uses it");
  return memory_unpin(at, registered);
}

DOUBLE_API CUresult cuMemFreeHost(void *at) {
  ENTER(cuMemFreeHost);
  return unpin(at, false);
}

DOUBLE_API CUresult cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
  ENTER_UNCAPTURED(cuMemHostRegister_v2);
  (void)flags;
  return memory_register(at, bytes);
}

DOUBLE_API CUresult cuMemHostUnregister(void *at) {
  ENTER(cuMemHostUnregister);
  return unpin(at, true);
}

DOUBLE_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *at, unsigned flags) {
  ENTER_DEVICE(cuMemHostGetDevicePointer_v2);
  if (flags || !memory_place((uint64_t)(uintptr_t)at)) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUdeviceptr)(uintptr_t)at;
  return CUDA_SUCCESS;
}

/* ---- copies and fills */

static Copy copy_of(const char *what, int device, CopySide to, CopySide from, size_t bytes) {
  return (Copy){.what = what, .device = device, .to = to, .from = from, .bytes = bytes, .rows = 1, .planes = 1};
}

static CopySide on_host(const void *at) { return (CopySide){.host = true, .at = (uint64_t)(uintptr_t)at}; }
static CopySide on_device(CUdeviceptr at) { return (CopySide){.at = at}; }

DOUBLE_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream s) {
  ENTER_DEVICE(cuMemcpyHtoDAsync_v2);
  STREAM(s);
  Copy c = copy_of("cuMemcpyHtoDAsync", device, on_device(to), on_host(from), bytes);
  return copy_submit(s, &c);
}

DOUBLE_API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream s) {
  ENTER_DEVICE(cuMemcpyDtoHAsync_v2);
  STREAM(s);
  Copy c = copy_of("cuMemcpyDtoHAsync", device, on_host(to), on_device(from), bytes);
  return copy_submit(s, &c);
}

DOUBLE_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
  ENTER_DEVICE(cuMemcpyDtoDAsync_v2);
  STREAM(s);
  Copy c = copy_of("cuMemcpyDtoDAsync", device, on_device(to), on_device(from), bytes);
  return copy_submit(s, &c);
}

/* Unified addresses identify their owner. */
static CopySide anywhere(CUdeviceptr at) { return (CopySide){.host = memory_device_of(at) < 0, .at = at}; }

DOUBLE_API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
  ENTER_DEVICE(cuMemcpyAsync);
  STREAM(s);
  Copy c = copy_of("cuMemcpyAsync", device, anywhere(to), anywhere(from), bytes);
  return copy_submit(s, &c);
}

static CopySide side_of(CUmemorytype type, const void *host, CUdeviceptr at, size_t x, size_t y, size_t z, size_t pitch,
                        size_t height) {
  CopySide s = type == CU_MEMORYTYPE_HOST ? on_host(host) : on_device(at);
  s.row = pitch, s.plane = pitch * height;
  s.at += z * s.plane + y * s.row + x;
  return s;
}

DOUBLE_API CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *m, CUstream s) {
  ENTER_DEVICE(cuMemcpy3DAsync_v2);
  STREAM(s);
  Copy c = {
      .what = "cuMemcpy3DAsync", .device = device, .bytes = m->WidthInBytes, .rows = m->Height, .planes = m->Depth};
  if (m->srcMemoryType > CU_MEMORYTYPE_DEVICE || m->dstMemoryType > CU_MEMORYTYPE_DEVICE || m->srcLOD || m->dstLOD)
    return CUDA_ERROR_INVALID_VALUE;
  if (m->Depth > 1 && (m->srcHeight < m->Height || m->dstHeight < m->Height)) return CUDA_ERROR_INVALID_VALUE;
  if (m->srcXInBytes + m->WidthInBytes > m->srcPitch || m->dstXInBytes + m->WidthInBytes > m->dstPitch)
    return CUDA_ERROR_INVALID_VALUE;
  c.from =
      side_of(m->srcMemoryType, m->srcHost, m->srcDevice, m->srcXInBytes, m->srcY, m->srcZ, m->srcPitch, m->srcHeight);
  c.to =
      side_of(m->dstMemoryType, m->dstHost, m->dstDevice, m->dstXInBytes, m->dstY, m->dstZ, m->dstPitch, m->dstHeight);
  return copy_submit(s, &c);
}

/* Copies on the default stream and waits; other streams are waited for only if they are blocking. */
static CUresult copy_now(const Copy *c) {
  CUresult error = copy_submit(NULL, c);
  return error ? error : queue_until_empty(queue_default(c->device));
}

DOUBLE_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  ENTER_UNCAPTURED(cuMemcpyHtoD_v2);
  Copy c = copy_of("cuMemcpyHtoD", device, on_device(to), on_host(from), bytes);
  return copy_now(&c);
}

DOUBLE_API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  ENTER_UNCAPTURED(cuMemcpyDtoH_v2);
  Copy c = copy_of("cuMemcpyDtoH", device, on_host(to), on_device(from), bytes);
  return copy_now(&c);
}

DOUBLE_API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  ENTER_UNCAPTURED(cuMemcpyDtoD_v2); /* asynchronous */
  Copy c = copy_of("cuMemcpyDtoD", device, on_device(to), on_device(from), bytes);
  return copy_submit(NULL, &c);
}

static CUresult fill(const char *what, CUdeviceptr to, size_t pitch, uint32_t value, int unit, size_t n, size_t rows,
                     CUstream s) {
  Copy c = {.what = what,
            .device = double_current(),
            .to = {.host = memory_device_of(to) < 0, .at = to, .row = pitch},
            .bytes = n * (size_t)unit,
            .rows = rows,
            .planes = 1,
            .fills = true,
            .value = value,
            .unit = unit};
  return copy_submit(s, &c);
}

DOUBLE_API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream s) {
  ENTER_DEVICE(cuMemsetD8Async);
  STREAM(s);
  return fill("cuMemsetD8Async", to, 0, value, 1, n, 1, s);
}
DOUBLE_API CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t n, CUstream s) {
  ENTER_DEVICE(cuMemsetD16Async);
  STREAM(s);
  return fill("cuMemsetD16Async", to, 0, value, 2, n, 1, s);
}
DOUBLE_API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream s) {
  ENTER_FILL(cuMemsetD32Async, to);
  IN_CONTEXT;
  (void)device;
  STREAM(s);
  return fill("cuMemsetD32Async", to, 0, value, 4, n, 1, s);
}
DOUBLE_API CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t n) {
  ENTER_UNCAPTURED(cuMemsetD8_v2);
  return fill("cuMemsetD8", to, 0, value, 1, n, 1, NULL);
}
DOUBLE_API CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t n) {
  ENTER_UNCAPTURED(cuMemsetD32_v2);
  return fill("cuMemsetD32", to, 0, value, 4, n, 1, NULL);
}
DOUBLE_API CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t n, size_t rows,
                                      CUstream s) {
  ENTER_DEVICE(cuMemsetD2D8Async);
  STREAM(s);
  return fill("cuMemsetD2D8Async", to, pitch, value, 1, n, rows, s);
}
DOUBLE_API CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t n, size_t rows,
                                       CUstream s) {
  ENTER_DEVICE(cuMemsetD2D16Async);
  STREAM(s);
  return fill("cuMemsetD2D16Async", to, pitch, value, 2, n, rows, s);
}
DOUBLE_API CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t n, size_t rows,
                                       CUstream s) {
  ENTER_DEVICE(cuMemsetD2D32Async);
  STREAM(s);
  return fill("cuMemsetD2D32Async", to, pitch, value, 4, n, rows, s);
}
