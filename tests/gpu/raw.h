/* tests/gpu/raw.h - a GPU by the driver's interface alone, for checks and measurements without the runtime: its context
 * and one queue.
 *
 * Errors of the driver are printed as the runtime does (runtime/device/cuda/cuda.h), and end the process.  Include it
 * before headers of codegen/cuda, which use a name that a row has here. */
#ifndef APC_TESTS_GPU_RAW_H
#define APC_TESTS_GPU_RAW_H

#include <stdio.h>
#include <unistd.h>

#include "runtime/device/cuda/cuda.h"
#include "runtime/device/cuda/library.h"

typedef struct Gpu {
  CudaDriver driver;
  int version; /* of the driver's CUDA */
  CUcontext context;
  CUdevice device;
  CUstream queue;
} Gpu;

/* Ends at once: nothing of the device can be freed any more. */
static inline void end_for(const RtError *error) {
  fflush(NULL);
  fprintf(stderr, "%s\n", error->text);
  _exit(1);
}

/* A call of the driver: its member, its purpose, its arguments. */
#define MUST(gpu, member, purpose, ...) \
  do { \
    RtError error_ = {0}; \
    if (GPU_CALL(gpu, member, purpose, &error_, __VA_ARGS__)) end_for(&error_); \
  } while (0)

static inline void raw_open(Gpu *g) {
  RtError error = {0};
  if (gpu_open_driver(&g->driver, &g->version, &error)) end_for(&error);
  MUST(g, init, "the GPUs of this machine", 0);
  MUST(g, device, "the first GPU", &g->device, 0);
  MUST(g, context_retain, "the GPU's context", &g->context, g->device);
  MUST(g, context_set, "the GPU's context", g->context);
  MUST(g, queue_create, "the queue", &g->queue, CU_STREAM_NON_BLOCKING);
}

static inline void raw_close(Gpu *g) {
  MUST(g, queue_destroy, "the queue", g->queue);
  MUST(g, context_set, "the GPU's context", NULL);
  MUST(g, context_release, "the GPU's context", g->device);
}

#endif
