/* tests/unit/cuda_headers.c - our declarations of NVIDIA's libraries (runtime/device/cuda/api.def) equal those of their
 * headers: functions, fields of structs, sizes, constants.  The compiler compares; if a header is missing, its part is
 * skipped, and the program says so. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if __has_include(<cuda.h>) && __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <cuda.h>
#define HAVE_CUDA 1
#else
#define HAVE_CUDA 0
#endif
#if HAVE_CUDA && __has_include(<cudnn.h>)
#include <cudnn.h>
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* of cuDNN, except its graphs */
#define HAVE_DNN 1
#else
#define HAVE_DNN 0
#endif
#if HAVE_CUDA && __has_include(<nccl.h>)
#include <nccl.h>
#define HAVE_NCCL 1
#else
#define HAVE_NCCL 0
#endif

#define EQUAL(what, type) \
  _Static_assert(__builtin_types_compatible_p(__typeof__(what), type), #what " is declared otherwise");
#define CUDA_FUNCTION(result, symbol, member, parameters) EQUAL(&symbol, result(*) parameters)

#if HAVE_CUDA
#define CUDA_DRIVER CUDA_FUNCTION
#define CUDA_BLAS CUDA_FUNCTION
#define CUDA_INTEGER(type, as) EQUAL((type)0, as)
#endif
#if HAVE_DNN
#define CUDA_DNN CUDA_FUNCTION
#endif
#if HAVE_NCCL
#define CUDA_NCCL CUDA_FUNCTION
#endif
#if HAVE_NCCL && HAVE_DNN
#define CUDA_HANDLE(type) _Static_assert(sizeof(type) == sizeof(void *), #type);
#define CUDA_ENUM(type) _Static_assert(sizeof(type) == sizeof(unsigned), #type);
#define CUDA_FIELD(in, offset, type, name) \
  _Static_assert(offsetof(in, name) == offset, #in "." #name); \
  EQUAL(((in *)0)->name, type)
#define CUDA_SIZE(type, bytes) _Static_assert(sizeof(type) == bytes, #type);
#define CUDA_CONSTANT(name, value) _Static_assert((long long)(name) == (value), #name);
#endif
#include "runtime/device/cuda/api.def"

#define COUNT(...) +1
#undef CUDA_DRIVER
#undef CUDA_BLAS
#undef CUDA_NCCL
#undef CUDA_DNN
#define CUDA_DRIVER COUNT
#define CUDA_BLAS COUNT
#define CUDA_NCCL COUNT
#define CUDA_DNN COUNT
#undef CUDA_INTEGER
#undef CUDA_HANDLE
#undef CUDA_ENUM
#undef CUDA_FIELD
#undef CUDA_SIZE
#undef CUDA_CONSTANT
static const int functions = 0
#include "runtime/device/cuda/api.def"
    ;

int main(void) {
  printf("%d functions%s%s%s\n", functions, HAVE_CUDA ? "" : "; no cuda.h and cublasLt.h here",
         HAVE_DNN ? "" : "; no cudnn.h here", HAVE_NCCL ? "" : "; no nccl.h here");
  return HAVE_NCCL && HAVE_DNN ? 0 : 77;
}
