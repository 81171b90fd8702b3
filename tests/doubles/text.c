/* tests/doubles/text.c - see text.h.
 *
 * The text is HASH.cu in one of the folders of DOUBLES_TEXTS.  With tests/dialect/prelude_host.h before it, it is C,
 * compiled once by `cc` into DOUBLES_CACHE under a hash of all inputs; processes that want the same text wait for the
 * first (a lock on a file next to it). */
#define _GNU_SOURCE
#include "tests/doubles/text.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "tests/doubles/watch.h"

enum { PATH = 4200 };
#define WATCH_TEXT "tests/doubles/watch_text.h"

#ifdef __x86_64__
#define FAST "-march=native", /* fmaf() is an instruction */
#else
#define FAST
#endif
#define USUAL FAST "-std=gnu11", "-O2", "-g0", "-w", "-fno-strict-aliasing", "-ffp-contract=off", "-shared", "-fPIC"
static const char *const usual[] = {USUAL, NULL};
static const char *const telling[] = {USUAL,
                                      "-fsanitize=thread",
                                      "--param",
                                      "tsan-instrument-func-entry-exit=0",
                                      "-include",
                                      WATCH_TEXT,
                                      "-nodefaultlibs",
                                      "-lc",
                                      "-lgcc",
                                      NULL};
static const char *const *flags(void) { return watch_on() ? telling : usual; }

static const char *headers(void) {
  const char *dir = getenv("DOUBLES_HEADERS");
  return dir && *dir ? dir : DOUBLES_SOURCE_DIR;
}

static char *read_all(const char *path, size_t *bytes) {
  FILE *f = fopen(path, "rb");
  struct stat st;
  if (!f || fstat(fileno(f), &st) || !S_ISREG(st.st_mode)) {
    if (f) fclose(f);
    return NULL;
  }
  char *text = malloc((size_t)st.st_size + 1);
  *bytes = fread(text, 1, (size_t)st.st_size, f);
  text[*bytes] = 0;
  fclose(f);
  return text;
}

static char *find_text(uint64_t hash, size_t *bytes) {
  const char *dirs = getenv("DOUBLES_TEXTS");
  char path[PATH];
  while (dirs && *dirs) {
    size_t n = strcspn(dirs, ":");
    snprintf(path, sizeof path, "%.*s/%016llx.cu", (int)n, dirs, (unsigned long long)hash);
    char *text = read_all(path, bytes);
    if (text) return text;
    dirs += n + (dirs[n] == ':');
  }
  return NULL;
}

extern char **environ;

static bool compile(const char *source, const char *out) {
  const char *argv[32];
  char include[PATH];
  int n = 0, status = -1;
  pid_t pid;
  snprintf(include, sizeof include, "-I%s", headers());
  argv[n++] = "cc";
  for (int i = 0; flags()[i]; i++) argv[n++] = flags()[i];
  argv[n++] = include, argv[n++] = source, argv[n++] = "-o", argv[n++] = out, argv[n++] = "-lm", argv[n] = NULL;
  if (posix_spawnp(&pid, "cc", NULL, NULL, (char **)(uintptr_t)argv, environ)) return false;
  return waitpid(pid, &status, 0) == pid && status == 0;
}

static bool write_source(const char *path, const char *text, size_t bytes) {
  FILE *f = fopen(path, "w");
  if (!f) return false;
  fputs("#include \"tests/dialect/prelude_host.h\"\n", f);
  fwrite(text, 1, bytes, f);
  return fclose(f) == 0;
}

/* Written under a name of this process first, so that the final name always means a whole file. */
static bool compile_into(const char *library, const char *text, size_t bytes) {
  char source[PATH + 40], made[PATH + 40];
  snprintf(source, sizeof source, "%s.%d.c", library, (int)getpid());
  snprintf(made, sizeof made, "%s.%d", library, (int)getpid());
  bool ok = write_source(source, text, bytes) && compile(source, made) && rename(made, library) == 0;
  if (ok) unlink(source);
  else double_violation("%s does not compile", source);
  return ok;
}

static uint64_t key_of(const char *text, size_t bytes) {
  char path[PATH];
  size_t n = 0;
  snprintf(path, sizeof path, "%s/tests/dialect/prelude_host.h", headers());
  char *prelude = read_all(path, &n);
  uint64_t key = hash64(text, bytes, prelude ? hash64(prelude, n, 1) : 0);
  free(prelude);
  for (int i = 0; flags()[i]; i++) key = hash64(flags()[i], strlen(flags()[i]), key);
  return key;
}

static void library_path(char *to, uint64_t key) {
  const char *dir = getenv("DOUBLES_CACHE");
  if (!dir || !*dir) dir = getenv("APC_COMPILED");
  if (!dir || !*dir) dir = "/tmp";
  mkdir(dir, 0777);
  snprintf(to, PATH, "%s/double-%016llx.so", dir, (unsigned long long)key);
}

void *text_load(const void *cubin, size_t bytes) {
  size_t n = 0;
  uint64_t hash = hash64(cubin, bytes, bytes); /* program_blob_hash */
  char *text = find_text(hash, &n), library[PATH], lock[PATH + 8];
  void *handle = NULL;
  if (!text) {
    double_violation("there is no text %016llx.cu in DOUBLES_TEXTS", (unsigned long long)hash);
    return NULL;
  }
  library_path(library, key_of(text, n));
  snprintf(lock, sizeof lock, "%s.lock", library);
  int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd >= 0) flock(fd, LOCK_EX);
  bool there = access(library, R_OK) == 0 || compile_into(library, text, n);
  if (fd >= 0) close(fd);
  free(text);
  if (there && !(handle = dlopen(library, RTLD_NOW | RTLD_LOCAL))) double_violation("%s", dlerror());
  return handle;
}
