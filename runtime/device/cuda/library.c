/* runtime/device/cuda/library.c - see library.h. */
#define _GNU_SOURCE /* dlinfo */
#include "runtime/device/cuda/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Checks that the declared structs have the layout of the rows. */
#define CUDA_FIELD(in, at, type, name) _Static_assert(offsetof(in, name) == (at), #in "." #name);
#define CUDA_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type);
#include "runtime/device/cuda/api.def"
#undef CUDA_FIELD
#undef CUDA_SIZE

typedef enum LibraryId {
#define CUDA_LIBRARY(id, ...) LIBRARY_##id,
#include "runtime/device/cuda/api.def"
#undef CUDA_LIBRARY
} LibraryId;

typedef struct Library {
  const char *title;
  int least;
  const char *needs, *doc;
} Library;

static const Library libraries[] = {
#define CUDA_LIBRARY(id, type, title, least, needs, doc) {title, least, needs, doc},
#include "runtime/device/cuda/api.def"
#undef CUDA_LIBRARY
};

static const struct {
  LibraryId library;
  const char *soname;
  int driver;
} names[] = {
#define CUDA_NAME(library, soname, driver) {LIBRARY_##library, soname, driver},
#include "runtime/device/cuda/api.def"
#undef CUDA_NAME
};

enum { PATH_BYTES = 4096 };

/* ---- looking for a file */

/* State of the search for a library. */
typedef struct Search {
  const char *soname;
  void *handle;
  char said[300]; /* the loader's message about a file that exists but cannot be opened */
} Search;

static void try_file(Search *s, const char *path) {
  if (s->handle) return;
  s->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (s->handle) return;
  const char *said = dlerror();
  if (said && !*s->said && !strstr(said, strerror(ENOENT))) snprintf(s->said, sizeof s->said, "%s", said);
}

__attribute__((format(printf, 2, 3))) static void try_pattern(Search *s, const char *format, ...) {
  char pattern[PATH_BYTES];
  va_list args;
  glob_t found;
  va_start(args, format);
  int n = vsnprintf(pattern, sizeof pattern, format, args);
  va_end(args);
  if (s->handle || n < 0 || (size_t)n >= sizeof pattern || glob(pattern, 0, NULL, &found) != 0) return;
  for (size_t i = 0; i < found.gl_pathc; i++) try_file(s, found.gl_pathv[i]);
  globfree(&found);
}

/* Tries the folders of a python that is installed under `prefix`. */
static void try_python(Search *s, const char *prefix) {
  if (!prefix || !*prefix) return;
  try_pattern(s, "%s/lib/python3*/site-packages/nvidia/*/lib/%s", prefix, s->soname);
  try_pattern(s, "%s/lib/python3*/dist-packages/nvidia/*/lib/%s", prefix, s->soname);
}

/* Tries the python3 that a shell would start: in PREFIX/bin. */
static void try_python_of_path(Search *s) {
  const char *path = getenv("PATH");
  while (path && *path) {
    char file[PATH_BYTES], prefix[PATH_BYTES];
    int n = (int)strcspn(path, ":");
    if (n > 4 && strncmp(path + n - 4, "/bin", 4) == 0 && n < PATH_BYTES - 16) {
      snprintf(file, sizeof file, "%.*s/python3", n, path);
      snprintf(prefix, sizeof prefix, "%.*s", n - 4, path);
      if (access(file, X_OK) == 0) try_python(s, *prefix ? prefix : "/");
    }
    path += n + (path[n] == ':');
  }
}

static void search_everywhere(Search *s, bool driver) {
  const char *toolkit = getenv("CUDA_HOME"), *home = getenv("HOME");
  try_file(s, s->soname);
  if (driver) return;
  if (toolkit && *toolkit) try_pattern(s, "%s/lib64/%s", toolkit, s->soname);
  try_python(s, getenv("VIRTUAL_ENV"));
  try_python(s, getenv("CONDA_PREFIX"));
  try_python_of_path(s);
  if (home && *home) try_pattern(s, "%s/.local/lib/python3*/site-packages/nvidia/*/lib/%s", home, s->soname);
}

/* ---- opening */

/* "libcublasLt.so.13 or libcublasLt.so.12" */
static void names_of(LibraryId id, char text[128]) {
  size_t n = 0;
  *text = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].library == id) n += (size_t)snprintf(text + n, 128 - n, "%s%s", n ? " or " : "", names[i].soname);
}

static RtStatus not_found(LibraryId id, int driver, const char *said, const char *newer, int *version, RtError *error) {
  const Library *l = &libraries[id];
  char all[128];
  names_of(id, all);
  *version = *said || newer ? 0 : GPU_NOT_THERE;
  if (*said) return rt_error(error, RT_UNSUPPORTED, "%s cannot be loaded: %s", l->title, said);
  if (newer)
    return rt_error(error, RT_UNSUPPORTED, "%s was found as %s, which needs a newer driver than one for CUDA %d.%d",
                    l->title, newer, driver / 1000, driver % 1000 / 10);
  if (id == LIBRARY_driver)
    return rt_error(error, RT_UNSUPPORTED, "no NVIDIA driver was found: no %s (required: %s %s or later)", all,
                    l->title, l->needs);
  return rt_error(error, RT_UNSUPPORTED, "%s is missing: %s needs %s (%s or later)", l->title, l->doc, all, l->needs);
}

static RtStatus open_library(LibraryId id, int driver, void **handle, int *version, RtError *error) {
  char said[300] = "";
  const char *newer = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    Search s = {.soname = names[i].soname};
    if (names[i].library != id) continue;
    search_everywhere(&s, id == LIBRARY_driver);
    if (s.handle && names[i].driver <= driver) {
      *handle = s.handle;
      return RT_OK;
    }
    if (s.handle) newer = names[i].soname;
    if (s.handle) dlclose(s.handle);
    if (*s.said && !*said) memcpy(said, s.said, sizeof said);
  }
  return not_found(id, driver, said, newer, version, error);
}

/* Finds the address of a function as any function pointer type (POSIX guarantees that this works). */
static void find(void *handle, const char *symbol, void *to, const char **missing) {
  void *address = dlsym(handle, symbol);
  memcpy(to, &address, sizeof address);
  if (!address && !*missing) *missing = symbol;
}

static RtStatus lacks(LibraryId id, void *handle, const char *symbol, RtError *error) {
  const Library *l = &libraries[id];
  char path[PATH_BYTES];
  gpu_library_file(handle, path, sizeof path);
  return rt_error(error, RT_UNSUPPORTED, "%s is too old or damaged: %.200s has no %s (required: %s or later)", l->title,
                  path, symbol, l->needs);
}

static RtStatus check_version(LibraryId id, void *handle, int version, const char *text, RtError *error) {
  const Library *l = &libraries[id];
  char path[PATH_BYTES];
  if (version >= l->least) return RT_OK;
  gpu_library_file(handle, path, sizeof path);
  return rt_error(error, RT_UNSUPPORTED, "%s is too old: %s %.200s is %s; required: %s or later", l->title, l->title,
                  path, text, l->needs);
}

void gpu_close_library(void *handle) {
  if (handle) dlclose(handle);
}

void gpu_library_file(void *handle, char *path, size_t bytes) {
  struct link_map *map = NULL;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map) map = NULL;
  snprintf(path, bytes, "%s", map && map->l_name ? map->l_name : "");
}

void gpu_driver_text(int version, char text[32]) { snprintf(text, 32, "%d.%d", version / 1000, version % 1000 / 10); }

/* Major, minor and patch: 13 02 01 of cuBLASLt, 9 19 00 of cuDNN, 2 28 09 of NCCL.  Versions too old for apc had a
 * digit less. */
void gpu_library_text(int version, char text[32]) {
  snprintf(text, 32, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

/* Fails because a library did not report its version. */
static RtStatus no_version(const char *call, int result, RtError *error) {
  return rt_error(error, RT_FAILED, "%s (reading the version): error %d", call, result);
}

RtStatus gpu_open_driver(CudaDriver *out, int *version, RtError *error) {
  const char *missing = NULL;
  char text[32];
  *out = (CudaDriver){0};
  *version = 0;
  RtStatus status = open_library(LIBRARY_driver, 0, &out->handle, version, error);
  if (status) return status;
#define CUDA_DRIVER(result, symbol, member, parameters) find(out->handle, #symbol, &out->member, &missing);
#include "runtime/device/cuda/api.def"
#undef CUDA_DRIVER
  if (missing) return lacks(LIBRARY_driver, out->handle, missing, error);
  CUresult result = out->version(version);
  if (result != CUDA_SUCCESS) return no_version("cuDriverGetVersion", (int)result, error);
  gpu_driver_text(*version, text);
  return check_version(LIBRARY_driver, out->handle, *version, text, error);
}

RtStatus gpu_open_blas(int driver, CudaBlas *out, int *version, RtError *error) {
  const char *missing = NULL;
  char text[32];
  *out = (CudaBlas){0};
  *version = 0;
  RtStatus status = open_library(LIBRARY_blas, driver, &out->handle, version, error);
  if (status) return status;
#define CUDA_BLAS(result, symbol, member, parameters) find(out->handle, #symbol, &out->member, &missing);
#include "runtime/device/cuda/api.def"
#undef CUDA_BLAS
  if (missing) return lacks(LIBRARY_blas, out->handle, missing, error);
  *version = (int)out->version();
  gpu_library_text(*version, text);
  return check_version(LIBRARY_blas, out->handle, *version, text, error);
}

/* The name of cuDNN's file does not tell for which CUDA it was built, so this asks the library. */
RtStatus gpu_open_dnn(int driver, CudaDnn *out, int *version, RtError *error) {
  const char *missing = NULL;
  char text[32], path[PATH_BYTES];
  *out = (CudaDnn){0};
  *version = 0;
  RtStatus status = open_library(LIBRARY_dnn, driver, &out->handle, version, error);
  if (status) return status;
#define CUDA_DNN(result, symbol, member, parameters) find(out->handle, #symbol, &out->member, &missing);
#include "runtime/device/cuda/api.def"
#undef CUDA_DNN
  if (missing) return lacks(LIBRARY_dnn, out->handle, missing, error);
  *version = (int)out->version();
  int cuda = (int)out->cuda_version();
  gpu_library_file(out->handle, path, sizeof path);
  if (cuda / 1000 > driver / 1000)
    return rt_error(error, RT_UNSUPPORTED, "cuDNN, %.200s, is built for CUDA %d, the driver is for CUDA %d.%d", path,
                    cuda / 1000, driver / 1000, driver % 1000 / 10);
  gpu_library_text(*version, text);
  return check_version(LIBRARY_dnn, out->handle, *version, text, error);
}

RtStatus gpu_open_nccl(int driver, CudaNccl *out, int *version, RtError *error) {
  const char *missing = NULL;
  char text[32];
  *out = (CudaNccl){0};
  *version = 0;
  RtStatus status = open_library(LIBRARY_nccl, driver, &out->handle, version, error);
  if (status) return status;
#define CUDA_NCCL(result, symbol, member, parameters) find(out->handle, #symbol, &out->member, &missing);
#include "runtime/device/cuda/api.def"
#undef CUDA_NCCL
  if (missing) return lacks(LIBRARY_nccl, out->handle, missing, error);
  ncclResult_t result = out->version(version);
  if (result != ncclSuccess) return no_version("ncclGetVersion", (int)result, error);
  gpu_library_text(*version, text);
  return check_version(LIBRARY_nccl, out->handle, *version, text, error);
}
