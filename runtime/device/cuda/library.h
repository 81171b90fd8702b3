/* runtime/device/cuda/library.h - NVIDIA's libraries, opened by name when they are needed; nothing links them.
 *
 * A library is searched for in this order; the first one that can be opened is taken:
 *   1. by the system's loader: LD_LIBRARY_PATH, ldconfig
 *   2. $CUDA_HOME/lib64
 *   3. where pip installs it: nvidia/NAME/lib in the site-packages of $VIRTUAL_ENV, $CONDA_PREFIX, the python3 of PATH
 *      and of ~/.local
 * The driver's own library comes with the driver and is searched for in 1 alone.  Of two versions the newest one that
 * the driver supports is taken, wherever it lies.
 */
#ifndef APC_RUNTIME_DEVICE_CUDA_LIBRARY_H
#define APC_RUNTIME_DEVICE_CUDA_LIBRARY_H

#include <stdbool.h>

#include "program/status.h"
#include "runtime/device/cuda/api.h"

/* Open a library that is complete and new enough.  RT_UNSUPPORTED names the library, the required version and the one
 * found; *version is then GPU_NOT_THERE if there is no library at all.  `driver`: the version of the driver's CUDA,
 * 12040 for 12.4. */
enum { GPU_NOT_THERE = -1 };
RtStatus gpu_open_driver(CudaDriver *out, int *version, RtError *error);
RtStatus gpu_open_blas(int driver, CudaBlas *out, int *version, RtError *error);
RtStatus gpu_open_dnn(int driver, CudaDnn *out, int *version, RtError *error);
RtStatus gpu_open_nccl(int driver, CudaNccl *out, int *version, RtError *error);

/* Closes an opened library; NULL is allowed. */
void gpu_close_library(void *handle);

/* Gives the path of an opened library; "" if unknown. */
void gpu_library_file(void *handle, char *path, size_t bytes);

/* Format versions: "12.4" for 12040; "13.1.0" for 130100, "9.19.0" for 91900, "2.28.9" for 22809 */
void gpu_driver_text(int version, char text[32]);
void gpu_library_text(int version, char text[32]);

#endif
