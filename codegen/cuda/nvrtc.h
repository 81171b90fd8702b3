/* codegen/cuda/nvrtc.h - CUDA text to PTX and machine code, by NVIDIA's run-time compiler.
 *
 * The library is loaded on first use and stays loaded; nothing links it and none of its headers is needed.  It compiles
 * without a GPU and without a driver.
 */
#ifndef APC_CODEGEN_CUDA_NVRTC_H
#define APC_CODEGEN_CUDA_NVRTC_H

#include "base/arena.h"
#include "base/diag.h"

/* The resources of one kernel, as ptxas reports them. */
typedef struct CudaUsage {
  const char *symbol;
  int registers, stack, spill_stores, spill_loads, shared; /* in bytes, except registers */
} CudaUsage;

typedef struct CudaImage {
  const char *ptx;
  const void *cubin;
  size_t cubin_bytes;
  struct {
    CudaUsage *items;
    size_t n, cap;
  } usage;
} CudaImage;

/* True if the library was found; its version in *major, *minor. */
bool nvrtc_found(int *major, int *minor);

/* False after a diagnostic if the library is missing (DIAG_tool_missing). */
bool nvrtc_ready(Diags *d);

/* The options it is given, except the architecture. */
extern const char *const nvrtc_options[];

/* Compiles a whole text for an architecture ("sm_80").  False after a diagnostic: the library is missing
 * (DIAG_tool_missing), too old or too new for the architecture, or refuses the text.  The results live in the arena. */
bool nvrtc_compile(Arena *a, Diags *d, const char *text, const char *arch, CudaImage *out);

#endif
