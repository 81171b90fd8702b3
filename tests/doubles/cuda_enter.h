/* tests/doubles/cuda_enter.h - the first lines of the driver double's functions, and the declarations that its files
 * share: cuda.c (devices, contexts, modules, names), cuda_memory.c (memory, copies, fills), cuda_streams.c (streams,
 * events, graphs). */
#ifndef APC_TESTS_DOUBLES_CUDA_ENTER_H
#define APC_TESTS_DOUBLES_CUDA_ENTER_H

#include "tests/doubles/cuda_calls.h"
#include "tests/doubles/memory.h"
#include "tests/doubles/queue.h"

extern bool cuda_initialised;
int cuda_arch(void);
uint64_t cuda_capacity(void);

/* The error that the real function returns on failure. */
CUresult cuda_fault_of(const char *name);

#define ENTER(name) ENTER_OR(name, cuda_fault_of(#name))

/* ENTER for a call that has another name if it fills host memory. */
#define ENTER_FILL(name, at) \
  __attribute__((cleanup(double_leave))) const bool entered = \
      double_enter(memory_device_of(at) < 0 ? #name "_host" : #name); \
  if (!entered) return cuda_fault_of(#name)

/* Also requires a current context. */
#define ENTER_DEVICE(name) \
  ENTER(name); \
  IN_CONTEXT
#define IN_CONTEXT \
  int device = double_current(); \
  if (!cuda_initialised) return CUDA_ERROR_NOT_INITIALIZED; \
  if (device < 0) return CUDA_ERROR_INVALID_CONTEXT; \
  if (queue_error(device)) return queue_error(device)

/* Also requires that no thread captures. */
#define ENTER_UNCAPTURED(name) \
  ENTER_DEVICE(name); \
  if (graph_forbidden(#name)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED

#define STREAM(s) \
  if ((s) && !queue_stream_exists(s)) return CUDA_ERROR_INVALID_HANDLE
#define EVENT(e) \
  if (!queue_event_exists(e)) return CUDA_ERROR_INVALID_HANDLE

#endif
