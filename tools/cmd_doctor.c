/* tools/cmd_doctor.c - apc doctor: reports what it finds on this machine.
 *
 * Changes nothing: loads libraries to ask for their version, starts `cc --version`, opens an anonymous shared memory
 * file, lists /sys/class/net.  Needs nothing of CUDA: a missing item is named with its use and the package that has it.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/json_text.h"
#include "base/machine.h"
#include "program/cpu.h"
#include "runtime/device/cuda/library.h"
#include "tools/build.h"
#include "tools/tool.h"

typedef struct Check {
  const char *name, *needed_for;
  bool required; /* to compile and run on CPU ranks */
  bool found;
  const char *detail;
  const char *package; /* Debian package with the item; NULL if none */
} Check;

/* ---- programs */

/* Returns the first line that a command prints; NULL if it cannot be run. */
static const char *first_line(Arena *a, const char *command) {
  FILE *pipe = popen(command, "r");
  if (!pipe) return NULL;
  char line[256];
  bool read = fgets(line, sizeof line, pipe) != NULL;
  int status = pclose(pipe);
  if (!read || status != 0) return NULL;
  line[strcspn(line, "\n")] = 0;
  return arena_strdup(a, line);
}

static Check compiler(Arena *a) {
  const char *line = first_line(a, "${CC:-cc} --version 2>/dev/null");
  return (Check){"C compiler", "compiling models", true, line != NULL, line ? line : "not found: install one or set CC",
                 "gcc"};
}

/* Checks the runtime at the start of compiled programs. */
static Check runtime(Arena *a) {
  const char *path = tool_stub(a);
  Diags *d = diags_new(a);
  bool whole = codegen_stub_check(path, d);
  return (Check){
      "runtime", "compiling models", true, whole, whole ? path : arena_printf(a, "%s: %s", path, d->items[0].message),
      NULL};
}

static Check mpi(Arena *a) {
  const char *line = first_line(a, "mpirun --version 2>/dev/null");
  return (Check){"MPI",        "ranks of several machines under mpirun", false,
                 line != NULL, line ? line : "mpirun not found",         "openmpi-bin"};
}

/* ---- libraries */

/* How a library reports its version. */
typedef enum VersionKind {
  V_DNNL,  /* const struct of int major, minor, patch */
  V_HWLOC, /* unsigned f(void): major, minor and patch in bits 16, 8 and 0 */
  V_NVML,  /* f(char *text, unsigned size), once it is started */
  V_PAIR   /* f(int *major, int *minor) */
} VersionKind;

typedef struct Library {
  const char *name, *needed_for, *package;
  const char *version; /* name of the function */
  VersionKind kind;
  const char *files[6];
} Library;

#define NVIDIA " (NVIDIA's repository)"
static const Library libraries[] = {
    {"oneDNN",
     "fast products and convolutions on CPU ranks",
     "libdnnl2",
     "dnnl_version",
     V_DNNL,
     {"libdnnl.so.3", "libdnnl.so.2", NULL}},
    {"NVRTC",
     "compiling for GPUs",
     "cuda-nvrtc-13-0" NVIDIA,
     "nvrtcVersion",
     V_PAIR,
     {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL}},
    {"hwloc", "the target local", "libhwloc15", "hwloc_get_api_version", V_HWLOC, {"libhwloc.so.15", NULL}},
    {"NVML",
     "the target local, and names of GPUs",
     "libnvidia-ml1 (non-free)",
     "nvmlSystemGetNVMLVersion",
     V_NVML,
     {"libnvidia-ml.so.1", NULL}},
};
enum { LIBRARIES = sizeof libraries / sizeof *libraries };

/* Returns a function of a library; NULL if the library has none of that name. */
static void *symbol(void *library, const char *name) { return dlsym(library, name); }

static const char *version_of(Arena *a, void *handle, const Library *l) {
  void *f = symbol(handle, l->version);
  int v = 0, minor = 0;
  if (!f) return "version unknown";
  if (l->kind == V_DNNL) {
    struct Dnnl {
      int major, minor, patch;
    };
    const struct Dnnl *d;
    memcpy(&d, &(const void *){((const void *(*)(void))(uintptr_t)f)()}, sizeof d);
    return arena_printf(a, "%d.%d.%d", d->major, d->minor, d->patch);
  }
  if (l->kind == V_HWLOC) {
    unsigned u = ((unsigned (*)(void))(uintptr_t)f)();
    return arena_printf(a, "%u.%u.%u", u >> 16, u >> 8 & 255, u & 255);
  }
  if (l->kind == V_NVML) {
    char text[80] = "";
    int (*init)(void) = (int (*)(void))(uintptr_t)symbol(handle, "nvmlInit_v2");
    bool ok = init && init() == 0 && ((int (*)(char *, unsigned))(uintptr_t)f)(text, sizeof text) == 0;
    return ok ? arena_strdup(a, text) : "does not start";
  }
  return ((int (*)(int *, int *))(uintptr_t)f)(&v, &minor) == 0 ? arena_printf(a, "%d.%d", v, minor)
                                                                : "version unknown";
}

static Check library(Arena *a, const Library *l) {
  const char *why = "not found";
  for (int i = 0; l->files[i]; i++) {
    void *handle = dlopen(l->files[i], RTLD_LAZY | RTLD_LOCAL); /* stays loaded: some libraries crash in dlclose */
    if (handle)
      return (Check){
          l->name,   l->needed_for, false, true, arena_printf(a, "%s (%s)", version_of(a, handle, l), l->files[i]),
          l->package};
    const char *said = dlerror();
    if (said && !strstr(said, strerror(ENOENT))) why = arena_strdup(a, said); /* exists but does not load */
  }
  return (Check){l->name, l->needed_for, false, false, why, l->package};
}

/* ---- libraries of GPU programs, found as programs find them (runtime/device/cuda/library.h); they stay loaded */

/* `version`: NULL if the library did not load. */
static Check opened(Arena *a, const RtError *error, void *handle, const char *version) {
  char path[4096] = "";
  if (!version) return (Check){.found = false, .detail = arena_strdup(a, error->text)};
  gpu_library_file(handle, path, sizeof path);
  return (Check){.found = true, .detail = arena_printf(a, "%s (%s)", version, path)};
}

static Check driver(Arena *a, int *version) {
  CudaDriver d;
  RtError error = {0};
  char text[32] = "";
  *version = INT_MAX; /* if no file works, report the newest */
  RtStatus status = gpu_open_driver(&d, version, &error);
  if (!status) gpu_driver_text(*version, text);
  else *version = INT_MAX;
  Check c = opened(a, &error, d.handle, status ? NULL : arena_printf(a, "for CUDA %s", text));
  c.name = "CUDA driver", c.needed_for = "GPU ranks", c.package = "libcuda1 (non-free)";
  return c;
}

static const char *library_text(Arena *a, RtStatus status, int version) {
  char text[32];
  if (status) return NULL;
  gpu_library_text(version, text);
  return arena_strdup(a, text);
}

static Check blas(Arena *a, int driver_version) {
  CudaBlas b;
  RtError error = {0};
  int version = 0;
  RtStatus status = gpu_open_blas(driver_version, &b, &version, &error);
  Check c = opened(a, &error, b.handle, library_text(a, status, version));
  c.name = "cuBLASLt", c.needed_for = "products on GPU ranks", c.package = "libcublas-13-0" NVIDIA;
  return c;
}

static Check dnn(Arena *a, int driver_version) {
  CudaDnn n;
  RtError error = {0};
  int version = 0;
  RtStatus status = gpu_open_dnn(driver_version, &n, &version, &error);
  Check c = opened(a, &error, n.handle, library_text(a, status, version));
  c.name = "cuDNN", c.package = "libcudnn9-cuda-13" NVIDIA;
  c.needed_for = "convolutions on GPU ranks; without it by our kernels";
  return c;
}

static Check nccl(Arena *a, int driver_version) {
  CudaNccl n;
  RtError error = {0};
  int version = 0;
  RtStatus status = gpu_open_nccl(driver_version, &n, &version, &error);
  Check c = opened(a, &error, n.handle, library_text(a, status, version));
  c.name = "NCCL", c.package = "libnccl2" NVIDIA;
  c.needed_for = "communication between GPU ranks; without it through the host's memory";
  return c;
}

/* Lists the GPUs by name, as NVML reports them. */
static Check gpus(Arena *a) {
  Check c = {"GPUs", "GPU ranks", false, false, "none", "nvidia-driver (non-free)"};
  void *nvml = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  int (*init)(void) = NULL, (*count)(unsigned *) = NULL, (*get)(unsigned, void **) = NULL,
      (*name)(void *, char *, unsigned) = NULL;
  if (!nvml) return c;
  *(void **)&init = symbol(nvml, "nvmlInit_v2");
  *(void **)&count = symbol(nvml, "nvmlDeviceGetCount_v2");
  *(void **)&get = symbol(nvml, "nvmlDeviceGetHandleByIndex_v2");
  *(void **)&name = symbol(nvml, "nvmlDeviceGetName");
  unsigned n = 0;
  if (!init || !count || !get || !name || init() != 0 || count(&n) != 0) {
    c.detail = "libnvidia-ml.so.1 does not start";
    return c;
  }
  Text list = {.arena = a};
  for (unsigned i = 0; i < n; i++) {
    void *device;
    char text[96];
    if (get(i, &device) == 0 && name(device, text, sizeof text) == 0)
      text_printf(&list, "%s%s", list.n ? ", " : "", text);
  }
  c.found = n > 0;
  if (n) c.detail = text_str(&list);
  return c;
}

/* ---- the machine */

static Check cores(Arena *a) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  const char *features = program_cpu_features();
  return (Check){"CPU",
                 "ranks",
                 true,
                 n > 0,
                 arena_printf(a, "%ld cores, %s of memory, %s", n, show_bytes(a, (double)machine_memory()),
                              *features ? features : "no known vector sets"),
                 NULL};
}

static Check shared_memory(Arena *a) {
  int fd = memfd_create("apc-doctor", MFD_CLOEXEC);
  if (fd < 0)
    return (Check){"shared memory",
                   "ranks on one machine",
                   true,
                   false,
                   arena_printf(a, "memfd_create: %s", strerror(errno)),
                   NULL};
  close(fd);
  return (Check){"shared memory", "ranks on one machine", true, true, "memfd", NULL};
}

/* Ranks exchange data through memfd; MPI and other programs use /dev/shm. */
static Check shm_size(Arena *a) {
  struct statvfs fs;
  if (statvfs("/dev/shm", &fs) != 0)
    return (Check){"/dev/shm", "ranks under mpirun", false, false, strerror(errno), NULL};
  double total = (double)fs.f_blocks * (double)fs.f_frsize, left = (double)fs.f_bavail * (double)fs.f_frsize;
  bool writable = access("/dev/shm", W_OK) == 0;
  return (Check){
      "/dev/shm",
      "ranks under mpirun",
      false,
      writable,
      arena_printf(a, "%s, %s free%s", show_bytes(a, total), show_bytes(a, left), writable ? "" : ", not writable"),
      NULL};
}

/* Returns the number in a file of /proc/sys; `otherwise` if the kernel has no such file. */
static int kernel_setting(const char *path, int otherwise) {
  FILE *f = fopen(path, "re");
  int v;
  if (!f) return otherwise;
  if (fscanf(f, "%d", &v) != 1) v = otherwise;
  fclose(f);
  return v;
}

static Check perf(Arena *a) {
  const char *path = "/proc/sys/kernel/perf_event_paranoid";
  int v = kernel_setting(path, 99);
  bool ok = v <= 2 || geteuid() == 0;
  return (Check){"perf",
                 "measuring ranks with perf",
                 false,
                 ok,
                 v == 99 ? "the kernel has no perf events"
                         : arena_printf(a, "perf_event_paranoid %d%s", v, ok ? "" : ": must be 2 or less"),
                 NULL};
}

static Check ptrace_scope(Arena *a) {
  int v = kernel_setting("/proc/sys/kernel/yama/ptrace_scope", 0);
  bool ok = v == 0 || (v < 3 && geteuid() == 0);
  return (Check){"ptrace",
                 "attaching a debugger to a rank",
                 false,
                 ok,
                 arena_printf(a, "ptrace_scope %d%s", v, ok ? "" : ": only children, or nothing"),
                 NULL};
}

/* ---- links to other machines, and permissions */

/* Adds "NAME" or "NAME SPEED Mb/s" for every entry of a folder of /sys. */
static void list_links(Arena *a, Text *out, const char *folder) {
  DIR *dir = opendir(folder);
  for (const struct dirent *e; dir && (e = readdir(dir));) {
    if (e->d_name[0] == '.' || strcmp(e->d_name, "lo") == 0) continue;
    FILE *f = fopen(arena_printf(a, "%s/%s/speed", folder, e->d_name), "re");
    int speed = -1;
    if (f && fscanf(f, "%d", &speed) != 1) speed = -1; /* the kernel gives no speed of links that are down */
    if (f) fclose(f);
    text_printf(out, "%s%s", out->n ? ", " : "", e->d_name);
    if (speed > 0) text_printf(out, " %d Mb/s", speed);
  }
  if (dir) closedir(dir);
}

static Check links(Arena *a) {
  Text list = {.arena = a};
  list_links(a, &list, "/sys/class/infiniband");
  list_links(a, &list, "/sys/class/net");
  return (Check){"links", "several machines", false, list.n > 0, list.n ? text_str(&list) : "no network interface",
                 NULL};
}

/* Checks that programs can be built and started in the folder for temporary files. */
static Check temporary_folder(Arena *a) {
  const char *folder = getenv("TMPDIR");
  if (!folder || !*folder) folder = "/tmp";
  struct statvfs fs;
  if (access(folder, W_OK | X_OK) != 0)
    return (Check){"permissions", "run, verify, bench", true, false, arena_printf(a, "%s: %s", folder, strerror(errno)),
                   NULL};
  bool noexec = statvfs(folder, &fs) == 0 && (fs.f_flag & ST_NOEXEC);
  return (Check){"permissions",
                 "run, verify, bench",
                 true,
                 !noexec,
                 noexec ? arena_printf(a, "%s is mounted noexec: set TMPDIR", folder)
                        : arena_printf(a, "programs run in %s", folder),
                 NULL};
}

static Check gpu_devices(Arena *a) {
  const char *device = "/dev/nvidiactl";
  if (access(device, F_OK) != 0)
    return (Check){"GPU devices", "GPU ranks", false, false, arena_printf(a, "no %s", device), NULL};
  bool ok = access(device, R_OK | W_OK) == 0;
  return (Check){
      "GPU devices", "GPU ranks", false, ok, ok ? device : arena_printf(a, "%s: %s", device, strerror(errno)), NULL};
}

static void print_check(const Tool *t, const Check *c) {
  const char *mark = c->found ? "ok" : c->required ? "MISSING" : "-";
  printf("%-8s %-14s %s", mark, c->name, c->detail);
  if (!c->found || t->verbose)
    printf("  (for %s%s%s)", c->needed_for, c->package ? "; package " : "", c->package ? c->package : "");
  putchar('\n');
}

enum { HERE = 16 }; /* checks besides libraries */

int cmd_doctor(Tool *t) {
  if (!tool_args(t, 0, 0)) return EXIT_USAGE;
  Arena *a = t->arena;
  int version;
  Check found = driver(a, &version);
  Check checks[HERE + LIBRARIES] = {
      cores(a),       shared_memory(a), compiler(a),     runtime(a),      temporary_folder(a), links(a),
      gpu_devices(a), mpi(a),           shm_size(a),     perf(a),         ptrace_scope(a),     gpus(a),
      found,          blas(a, version), dnn(a, version), nccl(a, version)};
  for (int i = 0; i < LIBRARIES; i++) checks[HERE + i] = library(a, &libraries[i]);
  json_t *array = json_array();
  bool ok = true;
  for (int i = 0; i < HERE + LIBRARIES; i++) {
    const Check *c = &checks[i];
    ok = ok && (c->found || !c->required);
    if (!option_given(&t->options, OPT_json)) print_check(t, c);
    else
      json_array_append_new(array, json_pack("{s:s, s:b, s:o, s:s, s:b, s:s?}", "name", c->name, "found", c->found,
                                             "detail", json_text(c->detail), "needed_for", c->needed_for, "required",
                                             c->required, "package", c->package));
  }
  if (option_given(&t->options, OPT_json))
    tool_json(t, json_pack("{s:s, s:b, s:O}", "schema", "apc.doctor/1", "ok", ok, "checks", array));
  json_decref(array);
  return ok ? EXIT_OK : EXIT_MISSING;
}
