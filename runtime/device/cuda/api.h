/* runtime/device/cuda/api.h - NVIDIA's types, constants and functions, as declared by the rows of api.def. */
#ifndef APC_RUNTIME_DEVICE_CUDA_API_H
#define APC_RUNTIME_DEVICE_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#define CUDA_HANDLE(type) typedef struct Apc_##type *type;
#define CUDA_ENUM(type) typedef unsigned type;
#define CUDA_INTEGER(type, as) typedef as type;
#include "runtime/device/cuda/api.def"
#undef CUDA_HANDLE
#undef CUDA_ENUM
#undef CUDA_INTEGER

enum {
#define CUDA_CONSTANT(name, value) name = value,
#include "runtime/device/cuda/api.def"
#undef CUDA_CONSTANT
};

/* Fields that apc does not use have our own names. */
typedef struct CUDA_MEMCPY3D {
  size_t srcXInBytes, src_unused[3];
  CUmemorytype srcMemoryType;
  const void *src_host;
  CUdeviceptr srcDevice;
  CUarray src_array;
  void *src_reserved;
  size_t srcPitch, srcHeight;
  size_t dstXInBytes, dst_unused[3];
  CUmemorytype dstMemoryType;
  void *dst_host;
  CUdeviceptr dstDevice;
  CUarray dst_array;
  void *dst_reserved;
  size_t dstPitch, dstHeight;
  size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

typedef struct cublasLtMatmulAlgo_t {
  uint64_t opaque[8];
} cublasLtMatmulAlgo_t;

typedef struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float waves;
  int reserved[4];
} cublasLtMatmulHeuristicResult_t;

typedef struct cudnnConvolutionFwdAlgoPerf_t {
  cudnnConvolutionFwdAlgo_t algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t math;
  int reserved[3];
} cudnnConvolutionFwdAlgoPerf_t;
typedef struct cudnnConvolutionBwdDataAlgoPerf_t {
  cudnnConvolutionBwdDataAlgo_t algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t math;
  int reserved[3];
} cudnnConvolutionBwdDataAlgoPerf_t;
typedef struct cudnnConvolutionBwdFilterAlgoPerf_t {
  cudnnConvolutionBwdFilterAlgo_t algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t math;
  int reserved[3];
} cudnnConvolutionBwdFilterAlgoPerf_t;

typedef struct ncclUniqueId {
  char opaque[128];
} ncclUniqueId;

/* Names memory of a device to other processes. */
typedef struct CUipcMemHandle {
  char opaque[64];
} CUipcMemHandle;

/* As in NCCL 2.18; later versions derive the known fields from `size` and `version`. */
typedef struct ncclConfig_t {
  size_t size;
  unsigned magic, version;
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char *netName;
  int splitShare;
} ncclConfig_t;

#define NCCL_CONFIG_MAGIC 0xcafebeefu
enum { NCCL_CONFIG_VERSION = 21800, NCCL_CONFIG_UNDEFINED = INT32_MIN };

#define CUDA_FUNCTION(result, symbol, member, parameters) result(*member) parameters;
typedef struct CudaDriver {
  void *handle;
#define CUDA_DRIVER CUDA_FUNCTION
#include "runtime/device/cuda/api.def"
#undef CUDA_DRIVER
} CudaDriver;

typedef struct CudaBlas {
  void *handle;
#define CUDA_BLAS CUDA_FUNCTION
#include "runtime/device/cuda/api.def"
#undef CUDA_BLAS
} CudaBlas;

typedef struct CudaDnn {
  void *handle;
#define CUDA_DNN CUDA_FUNCTION
#include "runtime/device/cuda/api.def"
#undef CUDA_DNN
} CudaDnn;

typedef struct CudaNccl {
  void *handle;
#define CUDA_NCCL CUDA_FUNCTION
#include "runtime/device/cuda/api.def"
#undef CUDA_NCCL
} CudaNccl;
#undef CUDA_FUNCTION

#endif
