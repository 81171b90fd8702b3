/* runtime/device/cuda/tune.h - times several ways to compute the same on the GPU (tune.c). */
#ifndef APC_RUNTIME_DEVICE_CUDA_TUNE_H
#define APC_RUNTIME_DEVICE_CUDA_TUNE_H

#include "runtime/device/cuda/cuda.h"

enum { TUNE_MOST = 20, TUNE_OPERANDS = 5 };

/* A memory operand of a call that is timed: so many bytes of random numbers of a type. */
typedef struct TuneOperand {
  uint64_t bytes;
  DType dtype;
  void *at; /* set by gpu_tune_begin */
} TuneOperand;

/* Calls way number `way`; *usable is false if the library cannot do that after all. */
typedef RtStatus TuneCall(CudaDevice *d, void *context, int way, bool *usable, RtError *error);

typedef struct TuneResult {
  int best; /* 0 unless another way takes less than FASTER of its time; -1: none is usable */
  float us, first_us;
} TuneResult;

/* Places the operands and fills them; *fits is false if the GPU has no memory for them. */
RtStatus gpu_tune_begin(CudaDevice *d, TuneOperand *operands, int n, bool *fits, RtError *error);
/* Times ways 0 to n - 1, of which 0 is the library's recommendation. */
RtStatus gpu_tune_time(CudaDevice *d, int n, TuneCall *call, void *context, TuneResult *out, RtError *error);
/* Frees what timing needed; called when all ways of a request are timed. */
RtStatus gpu_tune_end(CudaDevice *d, RtError *error);

/* Adds a choice with its times to the table: "NAME, 41.2 us, recommended 45.0 us". */
RtStatus gpu_tune_keep(CudaDevice *d, const char *key, const char *name, const TuneResult *r, RtError *error);
/* Records an error about a choice in the file. */
RtStatus gpu_tune_bad(const CudaDevice *d, const char *key, const char *why, RtError *error);

#endif
