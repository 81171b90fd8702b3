/* tests/doubles/cuda_calls.h - the functions of the double of libcuda.so.1, for the double and its tests. */
#ifndef APC_TESTS_DOUBLES_CUDA_CALLS_H
#define APC_TESTS_DOUBLES_CUDA_CALLS_H

#include "tests/doubles/double.h"

DOUBLE_API CUresult cuInit(unsigned flags);
DOUBLE_API CUresult cuDriverGetVersion(int *version);
DOUBLE_API CUresult cuDeviceGetCount(int *count);
DOUBLE_API CUresult cuDeviceGet(CUdevice *device, int ordinal);
DOUBLE_API CUresult cuDeviceGetName(char *name, int n, CUdevice device);
DOUBLE_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
DOUBLE_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
DOUBLE_API CUresult cuDeviceGetPCIBusId(char *id, int n, CUdevice device);
DOUBLE_API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer);
DOUBLE_API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device);
DOUBLE_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
DOUBLE_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
DOUBLE_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags);
DOUBLE_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active);
DOUBLE_API CUresult cuCtxSetCurrent(CUcontext context);
DOUBLE_API CUresult cuCtxGetCurrent(CUcontext *context);
DOUBLE_API CUresult cuCtxGetDevice(CUdevice *out);
DOUBLE_API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest);
DOUBLE_API CUresult cuCtxSynchronize(void);
DOUBLE_API CUresult cuMemGetInfo_v2(size_t *unused, size_t *total);
DOUBLE_API CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes);
DOUBLE_API CUresult cuMemFree_v2(CUdeviceptr at);
DOUBLE_API CUresult cuMemGetAddressRange_v2(CUdeviceptr *out, size_t *bytes, CUdeviceptr at);
DOUBLE_API CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr at);
DOUBLE_API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags);
DOUBLE_API CUresult cuIpcCloseMemHandle(CUdeviceptr at);
DOUBLE_API CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags);
DOUBLE_API CUresult cuMemAllocHost_v2(void **out, size_t bytes);
DOUBLE_API CUresult cuMemFreeHost(void *at);
DOUBLE_API CUresult cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags);
DOUBLE_API CUresult cuMemHostUnregister(void *at);
DOUBLE_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *at, unsigned flags);
DOUBLE_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream s);
DOUBLE_API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream s);
DOUBLE_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s);
DOUBLE_API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s);
DOUBLE_API CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *m, CUstream s);
DOUBLE_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
DOUBLE_API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
DOUBLE_API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
DOUBLE_API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream s);
DOUBLE_API CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t n, CUstream s);
DOUBLE_API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream s);
DOUBLE_API CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t n);
DOUBLE_API CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t n);
DOUBLE_API CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t n, size_t rows,
                                      CUstream s);
DOUBLE_API CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t n, size_t rows,
                                       CUstream s);
DOUBLE_API CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t n, size_t rows, CUstream s);
DOUBLE_API CUresult cuModuleLoadData(CUmodule *out, const void *image);
DOUBLE_API CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, CUjit_option *options,
                                       void **values);
DOUBLE_API CUresult cuModuleUnload(CUmodule m);
DOUBLE_API CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name);
DOUBLE_API CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f);
DOUBLE_API CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value);
DOUBLE_API CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, CUstream s, void **parameters, void **extra);
DOUBLE_API CUresult cuStreamCreate(CUstream *out, unsigned flags);
DOUBLE_API CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority);
DOUBLE_API CUresult cuStreamDestroy_v2(CUstream s);
DOUBLE_API CUresult cuStreamQuery(CUstream s);
DOUBLE_API CUresult cuStreamSynchronize(CUstream s);
DOUBLE_API CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags);
DOUBLE_API CUresult cuEventCreate(CUevent *out, unsigned flags);
DOUBLE_API CUresult cuEventDestroy_v2(CUevent e);
DOUBLE_API CUresult cuEventRecord(CUevent e, CUstream s);
DOUBLE_API CUresult cuEventRecordWithFlags(CUevent e, CUstream s, unsigned flags);
DOUBLE_API CUresult cuEventQuery(CUevent e);
DOUBLE_API CUresult cuEventSynchronize(CUevent e);
DOUBLE_API CUresult cuEventElapsedTime_v2(float *out, CUevent a, CUevent b);
DOUBLE_API CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode);
DOUBLE_API CUresult cuStreamEndCapture(CUstream s, CUgraph *out);
DOUBLE_API CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status);
DOUBLE_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags);
DOUBLE_API CUresult cuGraphExecUpdate_v2(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo *why);
DOUBLE_API CUresult cuGraphUpload(CUgraphExec e, CUstream s);
DOUBLE_API CUresult cuGraphLaunch(CUgraphExec e, CUstream s);
DOUBLE_API CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *n);
DOUBLE_API CUresult cuGraphExecDestroy(CUgraphExec e);
DOUBLE_API CUresult cuGraphDestroy(CUgraph g);
DOUBLE_API CUresult cuGetErrorName(CUresult code, const char **out);
DOUBLE_API CUresult cuGetErrorString(CUresult code, const char **out);
DOUBLE_API CUresult cuGetProcAddress_v2(const char *symbol, void **out, int version, cuuint64_t flags,
                                        CUdriverProcAddressQueryResult *status);
DOUBLE_API CUresult cuGetExportTable(const void **table, const CUuuid *id);
#undef cuEventElapsedTime
DOUBLE_API CUresult cuEventElapsedTime(float *out, CUevent a, CUevent b);

#endif
