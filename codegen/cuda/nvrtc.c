/* codegen/cuda/nvrtc.c - see nvrtc.h.
 *
 * Registers, spills and shared memory are read from the log that --ptxas-options=-v adds: per kernel a line "Compiling
 * entry function 'name'", one with "bytes stack frame", one with "Used N registers".
 */
#include "codegen/cuda/nvrtc.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

const char *const nvrtc_options[] = {"--fmad=false", "--std=c++17", "--ptxas-options=-v", "--diag-suppress=177", NULL};

/* The parts of nvrtc.h that are used. */
typedef struct NvrtcProgram *Program;
static struct {
  bool tried, found;
  int (*version)(int *, int *);
  int (*create)(Program *, const char *, const char *, int, const char *const *, const char *const *);
  int (*compile)(Program, int, const char *const *);
  int (*log_size)(Program, size_t *);
  int (*log)(Program, char *);
  int (*ptx_size)(Program, size_t *);
  int (*ptx)(Program, char *);
  int (*cubin_size)(Program, size_t *);
  int (*cubin)(Program, char *);
  int (*destroy)(Program *);
  const char *(*error)(int);
} nvrtc; /* one per process: the library is loaded once */

/* Why the library could not be loaded; "" if it was not found. */
static char why_not[256];

static void note_failure(void) {
  const char *said = dlerror();
  if (said && !*why_not && !strstr(said, strerror(ENOENT))) snprintf(why_not, sizeof why_not, "%s", said);
}

static void *open_library(void) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  const char *home = getenv("CUDA_HOME");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    char path[4096];
    if (!handle) note_failure();
    if (!handle && home && (size_t)snprintf(path, sizeof path, "%s/lib64/%s", home, names[i]) < sizeof path) {
      handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
      if (!handle) note_failure();
    }
    if (handle) return handle;
  }
  return NULL;
}

static bool load(void) {
  if (nvrtc.tried) return nvrtc.found;
  nvrtc.tried = true;
  void *handle = open_library();
  const struct {
    const char *name;
    void *to;
  } symbols[] = {{"nvrtcVersion", &nvrtc.version},
                 {"nvrtcCreateProgram", &nvrtc.create},
                 {"nvrtcCompileProgram", &nvrtc.compile},
                 {"nvrtcGetProgramLogSize", &nvrtc.log_size},
                 {"nvrtcGetProgramLog", &nvrtc.log},
                 {"nvrtcGetPTXSize", &nvrtc.ptx_size},
                 {"nvrtcGetPTX", &nvrtc.ptx},
                 {"nvrtcGetCUBINSize", &nvrtc.cubin_size},
                 {"nvrtcGetCUBIN", &nvrtc.cubin},
                 {"nvrtcDestroyProgram", &nvrtc.destroy},
                 {"nvrtcGetErrorString", &nvrtc.error}};
  nvrtc.found = handle != NULL;
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols && handle; i++) {
    void *f = dlsym(handle, symbols[i].name);
    memcpy(symbols[i].to, &f, sizeof f);
    nvrtc.found = nvrtc.found && f;
  }
  return nvrtc.found;
}

bool nvrtc_found(int *major, int *minor) { return load() && nvrtc.version(major, minor) == 0; }

/* ---- the log */

/* Returns the number before `words` on the line, 0 if none. */
static int number_before(const char *line, const char *words) {
  const char *at = strstr(line, words);
  if (!at) return 0;
  while (at > line && at[-1] >= '0' && at[-1] <= '9') at--;
  return atoi(at);
}

static void read_line(Arena *a, CudaImage *out, const char *line) {
  static const char start[] = "Compiling entry function '";
  const char *entry = strstr(line, start);
  if (entry) {
    const char *name = entry + strlen(start);
    ARENA_PUSH(a, &out->usage, ((CudaUsage){.symbol = arena_strndup(a, name, strcspn(name, "'")), .registers = -1}));
    return;
  }
  if (!out->usage.n) return;
  CudaUsage *u = &out->usage.items[out->usage.n - 1];
  if (strstr(line, " bytes stack frame")) {
    u->stack = number_before(line, " bytes stack frame");
    u->spill_stores = number_before(line, " bytes spill stores");
    u->spill_loads = number_before(line, " bytes spill loads");
  }
  if (strstr(line, " registers")) {
    u->registers = number_before(line, " registers");
    u->shared = number_before(line, " bytes smem");
  }
}

static void read_usage(Arena *a, CudaImage *out, const char *log) {
  for (size_t n; *log; log += n + (log[n] == '\n')) {
    n = strcspn(log, "\n");
    read_line(a, out, arena_strndup(a, log, n));
  }
}

/* ---- compiling */

static char *get(Arena *a, Program p, int (*size)(Program, size_t *), int (*read)(Program, char *), size_t *bytes) {
  *bytes = 0;
  if (size(p, bytes) != 0) return NULL;
  char *text = ARENA_ARRAY(a, char, *bytes + 1);
  return read(p, text) == 0 ? text : NULL;
}

static bool compile(Arena *a, Diags *d, Program p, const char *arch, CudaImage *out) {
  const char *options[16];
  int n = 0;
  size_t bytes;
  for (; nvrtc_options[n]; n++) options[n] = nvrtc_options[n];
  options[n++] = arena_printf(a, "--gpu-architecture=%s", arch);
  int status = nvrtc.compile(p, n, options);
  const char *log = get(a, p, nvrtc.log_size, nvrtc.log, &bytes);
  if (status != 0) {
    int major = 0, minor = 0;
    nvrtc.version(&major, &minor);
    return diag_error(d, DIAG_tool_failed, (Loc){0}, "NVRTC %d.%d does not compile for %s: %s\n%.2000s", major, minor,
                      arch, nvrtc.error(status), log ? log : "");
  }
  out->ptx = get(a, p, nvrtc.ptx_size, nvrtc.ptx, &bytes);
  out->cubin = get(a, p, nvrtc.cubin_size, nvrtc.cubin, &out->cubin_bytes);
  if (log) read_usage(a, out, log);
  return (out->ptx && out->cubin) || diag_error(d, DIAG_tool_failed, (Loc){0}, "NVRTC returned no code for %s", arch);
}

bool nvrtc_ready(Diags *d) {
  if (load()) return true;
  if (*why_not) return diag_error(d, DIAG_tool_missing, (Loc){0}, "NVRTC cannot be loaded: %s", why_not);
  diag_error(d, DIAG_tool_missing, (Loc){0}, "PTX and GPU machine code need NVRTC, but libnvrtc.so was not found");
  diag_help(d, "install the CUDA toolkit 12 or newer, or point CUDA_HOME to it; --emit=cuda needs no toolkit");
  return false;
}

bool nvrtc_compile(Arena *a, Diags *d, const char *text, const char *arch, CudaImage *out) {
  Program p = NULL;
  *out = (CudaImage){0};
  if (!nvrtc_ready(d)) return false;
  int status = nvrtc.create(&p, text, "kernels.cu", 0, NULL, NULL);
  if (status != 0) return diag_error(d, DIAG_tool_failed, (Loc){0}, "NVRTC: %s", nvrtc.error(status));
  bool ok = compile(a, d, p, arch, out);
  nvrtc.destroy(&p);
  return ok;
}
