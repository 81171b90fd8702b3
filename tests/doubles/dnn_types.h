/* tests/doubles/dnn_types.h - the types, numbers and functions of cuDNN that are doubled, written from its
 * documentation; its own header with DOUBLES_REAL_HEADERS. */
#ifndef APC_TESTS_DOUBLES_DNN_TYPES_H
#define APC_TESTS_DOUBLES_DNN_TYPES_H

#include "tests/doubles/double.h"

#ifdef DOUBLES_REAL_HEADERS
#include <cudnn.h>
#else

typedef enum cudnnStatus_t {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_NOT_INITIALIZED = 1001,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_NOT_SUPPORTED = 3000,
  CUDNN_STATUS_INTERNAL_ERROR = 4000,
  CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 4003,
  CUDNN_STATUS_EXECUTION_FAILED = 5000
} cudnnStatus_t;
typedef enum cudnnDataType_t { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_HALF = 2, CUDNN_DATA_BFLOAT16 = 9 } cudnnDataType_t;
typedef enum cudnnTensorFormat_t { CUDNN_TENSOR_NCHW = 0, CUDNN_TENSOR_NHWC = 1 } cudnnTensorFormat_t;
typedef enum cudnnConvolutionMode_t { CUDNN_CONVOLUTION = 0, CUDNN_CROSS_CORRELATION = 1 } cudnnConvolutionMode_t;
typedef enum cudnnMathType_t { CUDNN_DEFAULT_MATH = 0, CUDNN_TENSOR_OP_MATH = 1, CUDNN_FMA_MATH = 3 } cudnnMathType_t;
typedef enum cudnnDeterminism_t { CUDNN_NON_DETERMINISTIC = 0, CUDNN_DETERMINISTIC = 1 } cudnnDeterminism_t;
typedef enum cudnnNanPropagation_t { CUDNN_NOT_PROPAGATE_NAN = 0, CUDNN_PROPAGATE_NAN = 1 } cudnnNanPropagation_t;
typedef enum cudnnActivationMode_t { CUDNN_ACTIVATION_RELU = 1, CUDNN_ACTIVATION_IDENTITY = 5 } cudnnActivationMode_t;
typedef enum cudnnConvolutionFwdAlgo_t {
  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM = 0,
  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM = 1,
  CUDNN_CONVOLUTION_FWD_ALGO_COUNT = 8
} cudnnConvolutionFwdAlgo_t;
typedef struct cudnnConvolutionFwdAlgoPerfStruct {
  cudnnConvolutionFwdAlgo_t algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
  int reserved[3];
} cudnnConvolutionFwdAlgoPerf_t;

typedef enum cudnnConvolutionBwdDataAlgo_t {
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 = 0,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 = 1,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT = 6
} cudnnConvolutionBwdDataAlgo_t;
typedef struct cudnnConvolutionBwdDataAlgoPerfStruct {
  cudnnConvolutionBwdDataAlgo_t algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
  int reserved[3];
} cudnnConvolutionBwdDataAlgoPerf_t;

typedef enum cudnnConvolutionBwdFilterAlgo_t {
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 = 0,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 = 1,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT = 7
} cudnnConvolutionBwdFilterAlgo_t;
typedef struct cudnnConvolutionBwdFilterAlgoPerfStruct {
  cudnnConvolutionBwdFilterAlgo_t algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
  int reserved[3];
} cudnnConvolutionBwdFilterAlgoPerf_t;

typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
typedef struct cudnnActivationStruct *cudnnActivationDescriptor_t;
typedef CUstream cudaStream_t;

DOUBLE_API size_t cudnnGetVersion(void);
DOUBLE_API size_t cudnnGetCudartVersion(void);
DOUBLE_API const char *cudnnGetErrorString(cudnnStatus_t status);
DOUBLE_API cudnnStatus_t cudnnCreate(cudnnHandle_t *out);
DOUBLE_API cudnnStatus_t cudnnDestroy(cudnnHandle_t handle);
DOUBLE_API cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);
DOUBLE_API cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *out);
DOUBLE_API cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t d);
DOUBLE_API cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t d, cudnnTensorFormat_t format,
                                                    cudnnDataType_t type, int n, int c, int h, int w);
DOUBLE_API cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *out);
DOUBLE_API cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t d);
DOUBLE_API cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type,
                                                    cudnnTensorFormat_t format, int k, int c, int h, int w);
DOUBLE_API cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *out);
DOUBLE_API cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t d);
DOUBLE_API cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int pad_h, int pad_w, int u,
                                                         int v, int dilation_h, int dilation_w,
                                                         cudnnConvolutionMode_t mode, cudnnDataType_t sums);
DOUBLE_API cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t math);
DOUBLE_API cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups);
DOUBLE_API cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t *out);
DOUBLE_API cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t d);
DOUBLE_API cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t d, cudnnActivationMode_t mode,
                                                      cudnnNanPropagation_t nan, double coef);
DOUBLE_API cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                                const cudnnFilterDescriptor_t w,
                                                                const cudnnConvolutionDescriptor_t conv,
                                                                const cudnnTensorDescriptor_t y, const int most, int *n,
                                                                cudnnConvolutionFwdAlgoPerf_t *out);
DOUBLE_API cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                                 const cudnnFilterDescriptor_t w,
                                                                 const cudnnConvolutionDescriptor_t conv,
                                                                 const cudnnTensorDescriptor_t y,
                                                                 cudnnConvolutionFwdAlgo_t algorithm, size_t *bytes);
DOUBLE_API cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                                 const cudnnTensorDescriptor_t x_is, const void *x,
                                                 const cudnnFilterDescriptor_t w_is, const void *w,
                                                 const cudnnConvolutionDescriptor_t conv,
                                                 cudnnConvolutionFwdAlgo_t algorithm, void *workspace, size_t bytes,
                                                 const void *beta, const cudnnTensorDescriptor_t y_is, void *y);
DOUBLE_API cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle,
                                                                     const cudnnFilterDescriptor_t w,
                                                                     const cudnnTensorDescriptor_t dy,
                                                                     const cudnnConvolutionDescriptor_t conv,
                                                                     const cudnnTensorDescriptor_t dx, const int most,
                                                                     int *n, cudnnConvolutionBwdDataAlgoPerf_t *out);
DOUBLE_API cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t dx, cudnnConvolutionBwdDataAlgo_t algorithm,
    size_t *bytes);
DOUBLE_API cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                                      const cudnnFilterDescriptor_t w_is, const void *w,
                                                      const cudnnTensorDescriptor_t dy_is, const void *dy,
                                                      const cudnnConvolutionDescriptor_t conv,
                                                      cudnnConvolutionBwdDataAlgo_t algorithm, void *workspace,
                                                      size_t bytes, const void *beta,
                                                      const cudnnTensorDescriptor_t dx_is, void *dx);
DOUBLE_API cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnFilterDescriptor_t dw, const int most, int *n,
    cudnnConvolutionBwdFilterAlgoPerf_t *out);
DOUBLE_API cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algorithm, size_t *bytes);
DOUBLE_API cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
                                                        const cudnnTensorDescriptor_t x_is, const void *x,
                                                        const cudnnTensorDescriptor_t dy_is, const void *dy,
                                                        const cudnnConvolutionDescriptor_t conv,
                                                        cudnnConvolutionBwdFilterAlgo_t algorithm, void *workspace,
                                                        size_t bytes, const void *beta,
                                                        const cudnnFilterDescriptor_t dw_is, void *dw);
DOUBLE_API cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x_is, const void *x,
    const cudnnFilterDescriptor_t w_is, const void *w, const cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionFwdAlgo_t algorithm, void *workspace, size_t bytes, const void *beta,
    const cudnnTensorDescriptor_t z_is, const void *z, const cudnnTensorDescriptor_t bias_is, const void *bias,
    const cudnnActivationDescriptor_t activation, const cudnnTensorDescriptor_t y_is, void *y);
DOUBLE_API cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t a_is,
                                        const void *a, const void *beta, const cudnnTensorDescriptor_t c_is, void *c);
DOUBLE_API cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle, cudnnActivationDescriptor_t activation,
                                                const void *alpha, const cudnnTensorDescriptor_t x_is, const void *x,
                                                const void *beta, const cudnnTensorDescriptor_t y_is, void *y);

#endif

#endif
