/* tests/doubles/module.h - modules, their kernels, launches. */
#ifndef APC_TESTS_DOUBLES_MODULE_H
#define APC_TESTS_DOUBLES_MODULE_H

#include "tests/doubles/cubin.h"
#include "tests/doubles/double.h"

struct CUfunc_st {
  CUmodule module;
  const CubinKernel *kernel;
  void (*run)(const void *words, int64_t blocks, int descending);
  int bytes, threads;     /* from the text */
  int dynamic;            /* the most dynamic shared memory of a launch, in bytes */
  uint64_t *last, *other; /* parameters of the last launch, and of the last one with other numbers; NULL if none */
};

struct CUmod_st {
  int device;
  Cubin cubin;
  struct CUfunc_st *functions;
  CUmodule next;
};

CUresult module_load(int device, int arch, const void *image, CUmodule *out);
CUresult module_unload(CUmodule m);
CUresult module_function(CUmodule m, const char *name, CUfunction *out);

typedef struct Launch {
  uint32_t grid[3], block[3], shared;
  void **parameters, **extra;
} Launch;

CUresult module_launch(CUfunction f, CUstream s, const Launch *l);

void module_leaks(int device);

#endif
