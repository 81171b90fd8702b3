/* tests/doubles/cuda.c - the driver API of the double: devices, contexts, and the functions of the other files. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/doubles/copy.h"
#include "tests/doubles/cuda_calls.h"
#include "tests/doubles/memory.h"
#include "tests/doubles/module.h"
#include "tests/doubles/queue.h"

struct CUctx_st {
  int device, refs;
};

static struct CUctx_st primary[DOUBLE_DEVICES];
static __thread CUcontext current;
static bool initialised;

/* Codes that the functions really return. */
static CUresult fault_of(const char *name) {
  static const struct {
    const char *begin;
    CUresult code;
  } codes[] = {{"cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY},
               {"cuMemHost", CUDA_ERROR_OUT_OF_MEMORY},
               {"cuLaunch", CUDA_ERROR_LAUNCH_FAILED},
               {"cuModuleLoad", CUDA_ERROR_INVALID_IMAGE},
               {"cuStreamSync", CUDA_ERROR_ILLEGAL_ADDRESS},
               {"cuEventSync", CUDA_ERROR_ILLEGAL_ADDRESS},
               {"cuInit", CUDA_ERROR_NO_DEVICE},
               {"cuDeviceGet", CUDA_ERROR_INVALID_DEVICE},
               {"cuGraph", CUDA_ERROR_OUT_OF_MEMORY},
               {"cuMem", CUDA_ERROR_ECC_UNCORRECTABLE}};
  for (size_t i = 0; i < sizeof codes / sizeof *codes && !double_drops(); i++)
    if (strncmp(name, codes[i].begin, strlen(codes[i].begin)) == 0) return codes[i].code;
  return double_drops() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

#define ENTER(name) ENTER_OR(name, fault_of(#name))

/* The same for a call that has another name where it fills memory of the host. */
#define ENTER_FILL(name, at) \
  __attribute__((cleanup(double_leave))) const bool entered = \
      double_enter(memory_device_of(at) < 0 ? #name "_host" : #name); \
  if (!entered) return fault_of(#name)

/* And a context is current. */
#define ENTER_DEVICE(name) \
  ENTER(name); \
  IN_CONTEXT
#define IN_CONTEXT \
  int device = double_current(); \
  if (!initialised) return CUDA_ERROR_NOT_INITIALIZED; \
  if (device < 0) return CUDA_ERROR_INVALID_CONTEXT; \
  if (queue_error(device)) return queue_error(device)

/* And nobody captures. */
#define ENTER_UNCAPTURED(name) \
  ENTER_DEVICE(name); \
  if (graph_forbidden(#name)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED

#define STREAM(s) \
  if ((s) && !queue_stream_exists(s)) return CUDA_ERROR_INVALID_HANDLE
#define EVENT(e) \
  if (!queue_event_exists(e)) return CUDA_ERROR_INVALID_HANDLE

/* ---- devices */

static int visible[DOUBLE_DEVICES], nvisible = -1;

static void find_devices(void) {
  int all = (int)double_setting("DOUBLES_GPUS", 8);
  const char *list = getenv("CUDA_VISIBLE_DEVICES");
  if (nvisible >= 0) return;
  nvisible = 0;
  for (int i = 0; !list && i < all; i++) visible[nvisible++] = i;
  for (char *end; list && *list && nvisible < DOUBLE_DEVICES; list = end + (*end == ',')) {
    long i = strtol(list, &end, 10);
    if (end == list || i < 0 || i >= all) return; /* the first that is none ends the list */
    visible[nvisible++] = (int)i;
  }
}

int double_physical(int device) { return visible[device]; }
int double_current(void) { return current ? current->device : -1; }

static int arch(void) { return (int)double_setting("DOUBLES_ARCH", 80); }
static uint64_t capacity(void) { return (uint64_t)double_setting("DOUBLES_MEMORY", INT64_C(80) << 30); }
static bool is_device(int device) { return initialised && device >= 0 && device < nvisible; }

static void find_leaks(void) {
  graph_leaks();
  for (int d = 0; d < nvisible; d++) {
    if (primary[d].refs) double_violation("the context of device %d is not released", d);
    memory_leaks(d);
    queue_leaks(d);
    module_leaks(d);
  }
  memory_leaks(-1);
}

DOUBLE_API CUresult cuInit(unsigned flags) {
  ENTER(cuInit);
  find_devices();
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  if (!nvisible) return CUDA_ERROR_NO_DEVICE;
  for (int d = 0; d < DOUBLE_DEVICES && !initialised; d++) primary[d].device = d;
  report_begin();
  if (!initialised) double_at_end(find_leaks);
  initialised = true;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDriverGetVersion(int *version) {
  ENTER(cuDriverGetVersion);
  *version = (int)double_setting("DOUBLES_DRIVER", 13000);
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceGetCount(int *count) {
  ENTER(cuDeviceGetCount);
  if (!initialised) return CUDA_ERROR_NOT_INITIALIZED;
  *count = nvisible;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER(cuDeviceGet);
  if (!is_device(ordinal)) return initialised ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_NOT_INITIALIZED;
  *device = ordinal;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceGetName(char *name, int n, CUdevice device) {
  ENTER(cuDeviceGetName);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(name, (size_t)n, "Double sm_%d", arch());
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  ENTER(cuDeviceTotalMem_v2);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = capacity();
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  ENTER(cuDeviceGetUuid_v2);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  memset(uuid, 0, sizeof *uuid);
  snprintf(uuid->bytes, sizeof uuid->bytes, "double %d", double_physical(device));
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceGetPCIBusId(char *id, int n, CUdevice device) {
  ENTER(cuDeviceGetPCIBusId);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(id, (size_t)n, "0000:%02x:00.0", 16 + double_physical(device));
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  ENTER(cuDeviceCanAccessPeer);
  if (!is_device(device) || !is_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = device != peer;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  ENTER(cuDeviceGetAttribute);
  const struct {
    int attribute, value;
  } values[] = {{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
                {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
                {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10},
                {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, arch() >= 90 ? 227 << 10 : 163 << 10},
                {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, arch() >= 90 ? 228 << 10 : 164 << 10},
                {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
                {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1410000},
                {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, arch() >= 90 ? 132 : 108},
                {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
                {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 16 + (is_device(device) ? double_physical(device) : 0)},
                {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
                {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
                {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, arch() / 10},
                {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, arch() % 10}};
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    if (values[i].attribute == (int)attribute) {
      *value = values[i].value;
      return CUDA_SUCCESS;
    }
  double_violation("cuDeviceGetAttribute: the double does not know attribute %d", (int)attribute);
  return CUDA_ERROR_INVALID_VALUE;
}

/* ---- contexts */

DOUBLE_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  ENTER(cuDevicePrimaryCtxRetain);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  report_uses(double_physical(device));
  primary[device].refs++;
  *context = &primary[device];
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  ENTER(cuDevicePrimaryCtxRelease_v2);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!primary[device].refs) return CUDA_ERROR_INVALID_CONTEXT;
  primary[device].refs--;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  ENTER(cuDevicePrimaryCtxSetFlags_v2);
  (void)flags;
  return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

DOUBLE_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  ENTER(cuDevicePrimaryCtxGetState);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0, *active = primary[device].refs > 0;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuCtxSetCurrent(CUcontext context) {
  ENTER(cuCtxSetCurrent);
  if (context && !context->refs) return CUDA_ERROR_INVALID_CONTEXT;
  current = context;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuCtxGetCurrent(CUcontext *context) {
  ENTER(cuCtxGetCurrent);
  *context = current;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuCtxGetDevice(CUdevice *out) {
  ENTER_DEVICE(cuCtxGetDevice);
  *out = device;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  ENTER_DEVICE(cuCtxGetStreamPriorityRange);
  *least = 0, *greatest = -5;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuCtxSynchronize(void) {
  ENTER_UNCAPTURED(cuCtxSynchronize);
  return queue_until_idle(device);
}

/* ---- memory */

DOUBLE_API CUresult cuMemGetInfo_v2(size_t *unused, size_t *total) {
  ENTER_DEVICE(cuMemGetInfo_v2);
  *total = capacity(), *unused = capacity() - memory_used(device);
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
  ENTER_UNCAPTURED(cuMemAlloc_v2);
  return memory_alloc(device, bytes, capacity(), out);
}

DOUBLE_API CUresult cuMemFree_v2(CUdeviceptr at) {
  ENTER(cuMemFree_v2);
  const MemoryPlace *p = memory_place(at);
  if (graph_forbidden("cuMemFree_v2")) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (p && queue_uses(p->at, p->bytes, false)) double_violation("cuMemFree: work that is not done uses the memory");
  return memory_free(at);
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
  if (p && queue_uses(p->at, p->bytes, false)) double_violation("pinned memory is given back while work uses it");
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

/* Unified addresses say themselves whose they are. */
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

/* On the default stream, and waited for: no other stream that is not blocking is. */
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
  ENTER_UNCAPTURED(cuMemcpyDtoD_v2); /* not waited for */
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

/* ---- modules */

DOUBLE_API CUresult cuModuleLoadData(CUmodule *out, const void *image) {
  ENTER_UNCAPTURED(cuModuleLoadData);
  return module_load(device, arch(), image, out);
}

DOUBLE_API CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, CUjit_option *options,
                                       void **values) {
  ENTER_UNCAPTURED(cuModuleLoadDataEx);
  (void)n, (void)options, (void)values;
  return module_load(device, arch(), image, out);
}

DOUBLE_API CUresult cuModuleUnload(CUmodule m) {
  ENTER(cuModuleUnload);
  return module_unload(m);
}

DOUBLE_API CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
  ENTER_DEVICE(cuModuleGetFunction);
  return module_function(m, name, out);
}

DOUBLE_API CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f) {
  ENTER(cuFuncGetAttribute);
  switch ((int)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = f->kernel->threads; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = f->kernel->shared; break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = f->kernel->registers; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = f->module->cubin.arch; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = f->dynamic; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value) {
  ENTER(cuFuncSetAttribute);
  if ((int)attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_INVALID_VALUE;
  if (value < 0 || value + f->kernel->shared > (arch() >= 90 ? 227 << 10 : 163 << 10)) return CUDA_ERROR_INVALID_VALUE;
  f->dynamic = value;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, CUstream s, void **parameters, void **extra) {
  ENTER_DEVICE(cuLaunchKernel);
  STREAM(s);
  (void)device;
  const Launch l = {{gx, gy, gz}, {bx, by, bz}, shared, parameters, extra};
  return module_launch(f, s, &l);
}

/* ---- streams */

static CUresult new_stream(CUstream *out, unsigned flags, int device) {
  if (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *out = queue_stream_new(device, !(flags & CU_STREAM_NON_BLOCKING));
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuStreamCreate(CUstream *out, unsigned flags) {
  ENTER_DEVICE(cuStreamCreate);
  return new_stream(out, flags, device);
}

DOUBLE_API CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
  ENTER_DEVICE(cuStreamCreateWithPriority);
  (void)priority;
  return new_stream(out, flags, device);
}

DOUBLE_API CUresult cuStreamDestroy_v2(CUstream s) {
  ENTER(cuStreamDestroy_v2);
  if (!queue_stream_exists(s)) return CUDA_ERROR_INVALID_HANDLE;
  if (s->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return queue_stream_destroy(s);
}

/* On demand, memory of the host is used before what moves it is over. */
static bool is_early(bool moves_host, bool *asked) {
  static int64_t seen;
  bool first = moves_host && !*asked;
  *asked = true;
  return first && double_turn("DOUBLES_EARLY", &seen, "a copy");
}

DOUBLE_API CUresult cuStreamQuery(CUstream s) {
  ENTER_UNCAPTURED(cuStreamQuery);
  STREAM(s);
  (void)device;
  queue_poll();
  if (!s) s = queue_default(device);
  if (s->first) return is_early(s->gives_host, &s->asked) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  queue_seen_empty(s);
  return queue_error(device);
}

DOUBLE_API CUresult cuStreamSynchronize(CUstream s) {
  ENTER_UNCAPTURED(cuStreamSynchronize);
  STREAM(s);
  return queue_until_empty(s ? s : queue_default(device));
}

DOUBLE_API CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
  ENTER_DEVICE(cuStreamWaitEvent);
  STREAM(s);
  EVENT(e);
  if (flags) return CUDA_ERROR_NOT_SUPPORTED;
  (void)device;
  if (!s) s = queue_default(device);
  if (s->capture || e->capture) return graph_wait(s, e);
  queue_wait(s, e->mark);
  return CUDA_SUCCESS;
}

/* ---- events */

DOUBLE_API CUresult cuEventCreate(CUevent *out, unsigned flags) {
  ENTER_DEVICE(cuEventCreate);
  *out = queue_event_new(device, !(flags & CU_EVENT_DISABLE_TIMING));
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuEventDestroy_v2(CUevent e) {
  ENTER(cuEventDestroy_v2);
  EVENT(e);
  return queue_event_destroy(e);
}

static CUresult record(CUevent e, CUstream s, bool external) {
  if (!s) s = queue_default(double_current());
  if (e->device != s->device) return CUDA_ERROR_INVALID_HANDLE;
  if (s->capture) return graph_record(s, e, external);
  queue_mark_drop(e->mark);
  e->capture = NULL, e->mark = queue_mark_new();
  e->moves_host = s->moves_host, e->asked = false;
  queue_add(s, (Item){.kind = ITEM_RECORD, .mark = queue_mark_hold(e->mark)});
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuEventRecord(CUevent e, CUstream s) {
  ENTER_DEVICE(cuEventRecord);
  STREAM(s);
  EVENT(e);
  (void)device;
  return record(e, s, false);
}

DOUBLE_API CUresult cuEventRecordWithFlags(CUevent e, CUstream s, unsigned flags) {
  ENTER_DEVICE(cuEventRecordWithFlags);
  STREAM(s);
  EVENT(e);
  (void)device;
  return record(e, s, flags & CU_EVENT_RECORD_EXTERNAL);
}

DOUBLE_API CUresult cuEventQuery(CUevent e) {
  ENTER_UNCAPTURED(cuEventQuery);
  EVENT(e);
  if (e->capture) return CUDA_ERROR_CAPTURED_EVENT;
  queue_poll();
  if (!e->mark || e->mark->done) {
    queue_seen(e->mark);
    return queue_error(device);
  }
  return is_early(e->moves_host, &e->asked) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

DOUBLE_API CUresult cuEventSynchronize(CUevent e) {
  ENTER_UNCAPTURED(cuEventSynchronize);
  EVENT(e);
  if (e->capture) return CUDA_ERROR_CAPTURED_EVENT;
  return queue_until_mark(e->mark, device);
}

static CUresult elapsed(float *out, CUevent a, CUevent b) {
  if (!queue_event_exists(a) || !queue_event_exists(b) || !a->timing || !b->timing || !a->mark || !b->mark)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!a->mark->done || !b->mark->done) return CUDA_ERROR_NOT_READY;
  *out = (float)((double)(b->mark->when - a->mark->when) / 1e6);
  return CUDA_SUCCESS;
}

/* The second is what 12.8 gave the same meaning. */
DOUBLE_API CUresult cuEventElapsedTime(float *out, CUevent a, CUevent b) {
  ENTER_DEVICE(cuEventElapsedTime);
  (void)device;
  return elapsed(out, a, b);
}
DOUBLE_API CUresult cuEventElapsedTime_v2(float *out, CUevent a, CUevent b) {
  ENTER_DEVICE(cuEventElapsedTime_v2);
  (void)device;
  return elapsed(out, a, b);
}

/* ---- graphs */

DOUBLE_API CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode) {
  ENTER_DEVICE(cuStreamBeginCapture_v2);
  STREAM(s);
  (void)device;
  return graph_begin(s, mode);
}

DOUBLE_API CUresult cuStreamEndCapture(CUstream s, CUgraph *out) {
  ENTER_DEVICE(cuStreamEndCapture);
  STREAM(s);
  (void)device;
  return graph_end(s, out);
}

DOUBLE_API CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status) {
  ENTER_DEVICE(cuStreamIsCapturing);
  STREAM(s);
  (void)device;
  *status = !s || !s->capture    ? CU_STREAM_CAPTURE_STATUS_NONE
            : s->capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                 : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags) {
  ENTER_DEVICE(cuGraphInstantiateWithFlags);
  (void)flags, (void)device;
  return graph_instantiate(g, out);
}

DOUBLE_API CUresult cuGraphExecUpdate_v2(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo *why) {
  ENTER_DEVICE(cuGraphExecUpdate_v2);
  (void)device;
  return graph_exec_update(e, g, why);
}

DOUBLE_API CUresult cuGraphUpload(CUgraphExec e, CUstream s) {
  ENTER_DEVICE(cuGraphUpload);
  STREAM(s);
  (void)device;
  return e ? graph_forbidden_on(s) : CUDA_ERROR_INVALID_HANDLE;
}

DOUBLE_API CUresult cuGraphLaunch(CUgraphExec e, CUstream s) {
  ENTER_DEVICE(cuGraphLaunch);
  STREAM(s);
  return graph_launch(e, s ? s : queue_default(device));
}

DOUBLE_API CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *n) {
  ENTER_DEVICE(cuGraphGetNodes);
  (void)device;
  if (nodes) return CUDA_ERROR_NOT_SUPPORTED;
  *n = (size_t)g->n;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuGraphExecDestroy(CUgraphExec e) {
  ENTER(cuGraphExecDestroy);
  return graph_exec_destroy(e);
}

DOUBLE_API CUresult cuGraphDestroy(CUgraph g) {
  ENTER(cuGraphDestroy);
  return graph_destroy(g);
}

/* ---- names */

static const struct {
  int code;
  const char *name, *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the stream in which it began"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
     "the graph update was not performed because it included changes which violated constraints"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"}};

static CUresult error_text(CUresult code, const char **out, bool name) {
  *out = NULL;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].code == (int)code) *out = name ? errors[i].name : errors[i].text;
  return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DOUBLE_API CUresult cuGetErrorName(CUresult code, const char **out) { return error_text(code, out, true); }
DOUBLE_API CUresult cuGetErrorString(CUresult code, const char **out) { return error_text(code, out, false); }

/* What NVIDIA's libraries say to each other is not doubled; NVRTC asks for it wherever there is a driver. */
DOUBLE_API CUresult cuGetExportTable(const void **table, const CUuuid *id) {
  ENTER(cuGetExportTable);
  (void)id;
  *table = NULL;
  return CUDA_ERROR_NOT_FOUND;
}

/* The newest form of a function that a version of the interface has: all the same here but one. */
DOUBLE_API CUresult cuGetProcAddress_v2(const char *symbol, void **out, int version, cuuint64_t flags,
                                        CUdriverProcAddressQueryResult *status) {
  ENTER(cuGetProcAddress_v2);
  static const char *const suffixes[] = {"_v2", "", "WithFlags"};
  char name[200];
  (void)flags;
  *out = NULL;
  for (int i = 0; !*out && i < 3; i++) {
    bool newer = strcmp(symbol, "cuEventElapsedTime") == 0 && version < 12080;
    snprintf(name, sizeof name, "%s%s", symbol, newer ? "" : suffixes[i]);
    *out = dlsym(RTLD_DEFAULT, name);
    if (!*out) *out = dlsym(dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW), name);
  }
  if (status) *status = *out ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
