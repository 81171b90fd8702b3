/* tests/doubles/ptx.h - what a PTX text says of its kernels, as the driver finds it out when it compiles it. */
#ifndef APC_TESTS_DOUBLES_PTX_H
#define APC_TESTS_DOUBLES_PTX_H

#include "tests/doubles/cubin.h"

/* NULL, or what is wrong with it; as cubin_read.  The text ends with a zero. */
const char *ptx_read(const char *text, Cubin *out);

#endif
