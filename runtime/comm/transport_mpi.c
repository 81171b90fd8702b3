/* runtime/comm/transport_mpi.c - loading the MPI plug-in; see transport_mpi.h. */
#define _GNU_SOURCE /* memfd_create */
#include "runtime/comm/transport_mpi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/secure.h"

/* The bytes of the plug-in; equal addresses if it was not built. */
extern const char apc_mpi_image[], apc_mpi_image_end[];

static RtStatus image_path(int *fd, char *path, size_t size, RtError *error) {
  size_t n = (size_t)(apc_mpi_image_end - apc_mpi_image);
  if (n == 0)
    return rt_error(error, RT_UNSUPPORTED,
                    "MPI started the ranks, but apc was built without MPI (mpicc was not found); "
                    "use --rendezvous HOST:PORT instead");
  *fd = memfd_create("apc-mpi", MFD_CLOEXEC);
  for (size_t done = 0; *fd >= 0 && done < n;) {
    ssize_t k = write(*fd, apc_mpi_image + done, n - done);
    if (k <= 0) return rt_error_errno(error, RT_FAILED, "the MPI plug-in cannot be put into memory");
    done += (size_t)k;
  }
  if (*fd < 0) return rt_error_errno(error, RT_FAILED, "the MPI plug-in cannot be put into memory");
  snprintf(path, size, "/proc/self/fd/%d", *fd);
  return RT_OK;
}

/* MPI's own plug-ins look up its symbols globally. */
static RtStatus load(TransportMpiOpen **open, RtError *error) {
  char path[64];
  int fd = -1;
  const char *given = getenv(TRANSPORT_MPI_VARIABLE);
  if (given && secure_execution())
    return rt_error(error, RT_UNSUPPORTED, TRANSPORT_MPI_VARIABLE " is not allowed in a set-uid program");
  RtStatus status = given ? RT_OK : image_path(&fd, path, sizeof path, error);
  if (!status) {
    void *library = dlopen(given ? given : path, RTLD_NOW | RTLD_GLOBAL);
    void *address = library ? dlsym(library, TRANSPORT_MPI_SYMBOL) : NULL;
    memcpy(open, &address, sizeof address);
    if (!address)
      status =
          rt_error(error, RT_UNSUPPORTED,
                   "the MPI plug-in cannot be loaded: %s; use --rendezvous HOST:PORT to run without it", dlerror());
  }
  if (fd >= 0) close(fd);
  return status;
}

RtStatus transport_mpi_open(int rank, int world, Transport **out, RtError *error) {
  TransportMpiOpen *open = NULL;
  RtStatus status = load(&open, error);
  return status ? status : open(TRANSPORT_MPI_VERSION, rank, world, out, error);
}
