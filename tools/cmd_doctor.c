/* tools/cmd_doctor.c - apc doctor: what was found on this machine.
 *
 * Looks only: loads libraries to ask for their version, starts `cc --version`, opens an anonymous shared memory file, lists /sys/class/net.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/machine.h"
#include "runtime/cpu.h"
#include "tools/tool.h"

typedef struct Check {
  const char *name, *needed_for;
  bool required; /* to compile and run on CPU ranks */
  bool found;
  const char *detail;
} Check;

/* ---- programs */

/* The first line a command prints; NULL when it cannot be run. */
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
  return (Check){"C compiler", "compiling models", true, line != NULL, line ? line : "not found: install gcc or set CC"};
}

static Check mpi(Arena *a) {
  const char *line = first_line(a, "mpicc --version 2>/dev/null");
  return (Check){"MPI", "ranks of several machines under mpirun", false, line != NULL, line ? line : "mpicc not found"};
}

/* ---- libraries */

typedef struct Library {
  const char *name, *needed_for;
  const char *files[6];
} Library;

static const Library libraries[] = {
    {"oneDNN", "fast matrix products on CPU ranks", {"libdnnl.so.3", "libdnnl.so.2", NULL}},
    {"CUDA driver", "GPU ranks (not yet)", {"libcuda.so.1", NULL}},
    {"NVRTC", "compiling for GPUs (not yet)", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL}},
    {"cuBLASLt", "GPU ranks (not yet)", {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL}},
    {"cuDNN", "GPU ranks (not yet)", {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so", NULL}},
    {"NCCL", "GPU ranks (not yet)", {"libnccl.so.2", NULL}},
};
enum { LIBRARIES = sizeof libraries / sizeof *libraries };

static Check library(const Library *l) {
  for (int i = 0; l->files[i]; i++) {
    if (!dlopen(l->files[i], RTLD_LAZY | RTLD_LOCAL)) continue; /* stays loaded: some of them do not survive dlclose */
    return (Check){l->name, l->needed_for, false, true, l->files[i]};
  }
  return (Check){l->name, l->needed_for, false, false, "not found"};
}

/* ---- the machine */

static Check cores(Arena *a) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  const char *features = cpu_features();
  return (Check){"CPU", "ranks", true, n > 0,
                 arena_printf(a, "%ld cores, %s of memory, %s", n, show_bytes(a, (double)machine_memory()), *features ? features : "no known vector sets")};
}

static Check shared_memory(Arena *a) {
  int fd = memfd_create("apc-doctor", MFD_CLOEXEC);
  if (fd < 0) return (Check){"shared memory", "ranks on one machine", true, false, arena_printf(a, "memfd_create: %s", strerror(errno))};
  close(fd);
  return (Check){"shared memory", "ranks on one machine", true, true, "memfd"};
}

/* ---- links to other machines, and what this user may do */

/* Adds "NAME" or "NAME SPEED Mb/s" for every entry of a folder of /sys. */
static void list_links(Arena *a, Text *out, const char *folder) {
  DIR *dir = opendir(folder);
  for (const struct dirent *e; dir && (e = readdir(dir));) {
    if (e->d_name[0] == '.' || strcmp(e->d_name, "lo") == 0) continue;
    FILE *f = fopen(arena_printf(a, "%s/%s/speed", folder, e->d_name), "re");
    int speed = -1;
    if (f && fscanf(f, "%d", &speed) != 1) speed = -1; /* the kernel does not tell for links that are down */
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
  return (Check){"links", "several machines (not yet)", false, list.n > 0, list.n ? text_str(&list) : "no network interface"};
}

/* Programs are built in the folder for temporary files and started there. */
static Check temporary_folder(Arena *a) {
  const char *folder = getenv("TMPDIR");
  if (!folder || !*folder) folder = "/tmp";
  struct statvfs fs;
  if (access(folder, W_OK | X_OK) != 0) return (Check){"permissions", "run, verify, bench", true, false, arena_printf(a, "%s: %s", folder, strerror(errno))};
  bool noexec = statvfs(folder, &fs) == 0 && (fs.f_flag & ST_NOEXEC);
  return (Check){"permissions", "run, verify, bench", true, !noexec,
                 noexec ? arena_printf(a, "%s is mounted noexec: set TMPDIR", folder) : arena_printf(a, "%s takes programs", folder)};
}

static Check gpu_devices(Arena *a) {
  const char *device = "/dev/nvidiactl";
  if (access(device, F_OK) != 0) return (Check){"GPU devices", "GPU ranks (not yet)", false, false, arena_printf(a, "no %s", device)};
  bool ok = access(device, R_OK | W_OK) == 0;
  return (Check){"GPU devices", "GPU ranks (not yet)", false, ok, ok ? device : arena_printf(a, "%s: %s", device, strerror(errno))};
}

static void print_check(const Tool *t, const Check *c) {
  const char *mark = c->found ? "ok" : c->required ? "MISSING" : "-";
  printf("%-8s %-14s %s", mark, c->name, c->detail);
  if (!c->found || t->verbose) printf("  (for %s)", c->needed_for);
  putchar('\n');
}

enum { HERE = 7 }; /* checks besides the libraries */

int cmd_doctor(Tool *t) {
  if (!tool_args(t, 0, 0)) return EXIT_USAGE;
  Arena *a = t->arena;
  Check checks[HERE + LIBRARIES] = {cores(a), shared_memory(a), compiler(a), temporary_folder(a), links(a), gpu_devices(a), mpi(a)};
  for (int i = 0; i < LIBRARIES; i++) checks[HERE + i] = library(&libraries[i]);
  json_t *array = json_array();
  bool ok = true;
  for (int i = 0; i < HERE + LIBRARIES; i++) {
    const Check *c = &checks[i];
    ok = ok && (c->found || !c->required);
    if (!option_given(&t->options, OPT_json)) print_check(t, c);
    else
      json_array_append_new(array, json_pack("{s:s, s:b, s:s, s:s, s:b}", "name", c->name, "found", c->found, "detail", c->detail, "needed_for",
                                             c->needed_for, "required", c->required));
  }
  if (option_given(&t->options, OPT_json)) tool_json(json_pack("{s:s, s:b, s:O}", "schema", "apc.doctor/1", "ok", ok, "checks", array));
  json_decref(array);
  return ok ? EXIT_OK : EXIT_MISSING;
}
