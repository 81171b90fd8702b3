/* runtime/device/cuda/library.h - NVIDIA's libraries, opened by name when they are needed; nothing links them.
 *
 * Where a library is looked for, in this order; the first that can be opened is taken:
 *   1. where the system's loader looks: LD_LIBRARY_PATH, what ldconfig knows
 *   2. $CUDA_HOME/lib64
 *   3. where pip puts it: nvidia/NAME/lib in the site-packages of $VIRTUAL_ENV, $CONDA_PREFIX, the python3 of PATH and
 *      of ~/.local
 * The driver's own library comes with the driver and is looked for in 1 alone.  Of two versions the newer one that the
 * driver serves is taken, wherever it lies.
 */
#ifndef APC_RUNTIME_DEVICE_CUDA_LIBRARY_H
#define APC_RUNTIME_DEVICE_CUDA_LIBRARY_H

#include <stdbool.h>

#include "program/status.h"
#include "runtime/device/cuda/api.h"

/* Open, complete and new enough.  RT_UNSUPPORTED names the library, the version that is wanted and what was found;
 * *version is then GPU_NOT_THERE where there is none at all.  `driver`: the version of the driver's CUDA, 12040 for
 * 12.4. */
enum { GPU_NOT_THERE = -1 };
RtStatus gpu_open_driver(CudaDriver *out, int *version, RtError *error);
RtStatus gpu_open_blas(int driver, CudaBlas *out, int *version, RtError *error);
RtStatus gpu_open_dnn(int driver, CudaDnn *out, int *version, RtError *error);
RtStatus gpu_open_nccl(int driver, CudaNccl *out, int *version, RtError *error);

/* Gives an opened library back; one that was not opened is all zeros. */
void gpu_close_library(void *handle);

/* The file that an opened library is; "" when that is not known. */
void gpu_library_file(void *handle, char *path, size_t bytes);

/* "12.4" of 12040, "13.1.0" of 130100, "9.19.0" of 91900, "2.28.9" of 22809 */
void gpu_driver_text(int version, char text[32]);
void gpu_library_text(int version, char text[32]);

#endif
