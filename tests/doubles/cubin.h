/* tests/doubles/cubin.h - reads the kernels that a cubin describes. */
#ifndef APC_TESTS_DOUBLES_CUBIN_H
#define APC_TESTS_DOUBLES_CUBIN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct CubinKernel {
  char name[128];
  int parameter_bytes, threads, shared, registers;
} CubinKernel;

typedef struct Cubin {
  int arch; /* 80 */
  size_t bytes;
  CubinKernel *kernels;
  int n;
} Cubin;

/* Returns NULL, or a description of the fault.  The image's length follows from its tables, as for the driver.  Free
 * `kernels`. */
const char *cubin_read(const void *image, Cubin *out);

#endif
