/* tests/doubles/cuda.c - the driver API of the double: devices, contexts, modules, names of functions and errors. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/doubles/cuda_enter.h"
#include "tests/doubles/memory.h"
#include "tests/doubles/module.h"
#include "tests/doubles/queue.h"

struct CUctx_st {
  int device, refs;
};

static struct CUctx_st primary[DOUBLE_DEVICES];
static __thread CUcontext current;
bool cuda_initialised;

CUresult cuda_fault_of(const char *name) {
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
    if (end == list || i < 0 || i >= all) return; /* the first invalid number ends the list */
    visible[nvisible++] = (int)i;
  }
}

int double_physical(int device) { return visible[device]; }
int double_current(void) { return current ? current->device : -1; }

int cuda_arch(void) { return (int)double_setting("DOUBLES_ARCH", 80); }
uint64_t cuda_capacity(void) { return (uint64_t)double_setting("DOUBLES_MEMORY", INT64_C(80) << 30); }
static bool is_device(int device) { return cuda_initialised && device >= 0 && device < nvisible; }

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
  for (int d = 0; d < DOUBLE_DEVICES && !cuda_initialised; d++) primary[d].device = d;
  report_begin();
  if (!cuda_initialised) double_at_end(find_leaks);
  cuda_initialised = true;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDriverGetVersion(int *version) {
  ENTER(cuDriverGetVersion);
  *version = (int)double_setting("DOUBLES_DRIVER", 13000);
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceGetCount(int *count) {
  ENTER(cuDeviceGetCount);
  if (!cuda_initialised) return CUDA_ERROR_NOT_INITIALIZED;
  *count = nvisible;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER(cuDeviceGet);
  if (!is_device(ordinal)) return cuda_initialised ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_NOT_INITIALIZED;
  *device = ordinal;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceGetName(char *name, int n, CUdevice device) {
  ENTER(cuDeviceGetName);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(name, (size_t)n, "Double sm_%d", cuda_arch());
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  ENTER(cuDeviceTotalMem_v2);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = cuda_capacity();
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
                {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, cuda_arch() >= 90 ? 227 << 10 : 163 << 10},
                {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, cuda_arch() >= 90 ? 228 << 10 : 164 << 10},
                {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
                {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1410000},
                {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, cuda_arch() >= 90 ? 132 : 108},
                {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1 << 16},
                {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
                {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 16 + (is_device(device) ? double_physical(device) : 0)},
                {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
                {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
                {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, cuda_arch() / 10},
                {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, cuda_arch() % 10}};
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

/* ---- modules */

DOUBLE_API CUresult cuModuleLoadData(CUmodule *out, const void *image) {
  ENTER_UNCAPTURED(cuModuleLoadData);
  return module_load(device, cuda_arch(), image, out);
}

DOUBLE_API CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, CUjit_option *options,
                                       void **values) {
  ENTER_UNCAPTURED(cuModuleLoadDataEx);
  (void)n, (void)options, (void)values;
  return module_load(device, cuda_arch(), image, out);
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
  if (value < 0 || value + f->kernel->shared > (cuda_arch() >= 90 ? 227 << 10 : 163 << 10))
    return CUDA_ERROR_INVALID_VALUE;
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

/* NVIDIA's libraries use this table among themselves; it is not doubled.  NVRTC asks for it wherever there is a
   driver. */
DOUBLE_API CUresult cuGetExportTable(const void **table, const CUuuid *id) {
  ENTER(cuGetExportTable);
  (void)id;
  *table = NULL;
  return CUDA_ERROR_NOT_FOUND;
}

/* The newest form of a function in a version of the interface: all forms but one are the same here. */
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
