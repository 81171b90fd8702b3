/* tests/faults/leaks.c - one allocation or mapping of the library fails, in a program that embeds it.
 *
 * usage: leaks PROGRAM.  Loads a compiled program, runs it and reads its output, repeatedly; each time the next call of
 * malloc, calloc, realloc, aligned_alloc, strdup or mmap by the library fails (linked with --wrap).  Every call must
 * report it and leave a model that can be closed; no descriptor, process or memory may leak.  The leak checker counts
 * memory, in a build that has it.
 *
 * Deliberately not here: files of tensors and descriptions, whose arenas end the process (apc_runtime.h). */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "runtime/apc_runtime.h"

/* ---- calls that fail */

static long calls, failing; /* the number of the failing call; 0 for none */

static bool fails(void) {
  calls++;
  if (calls != failing) return false;
  errno = ENOMEM;
  return true;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
char *__real_strdup(const char *s);
void *__real_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset);

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
char *__wrap_strdup(const char *s);
void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset);

void *__wrap_malloc(size_t n) { return fails() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t n) { return fails() ? NULL : __real_realloc(p, n); }
void *__wrap_aligned_alloc(size_t alignment, size_t n) { return fails() ? NULL : __real_aligned_alloc(alignment, n); }
char *__wrap_strdup(const char *s) { return fails() ? NULL : __real_strdup(s); }
void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
  return fails() ? MAP_FAILED : __real_mmap(at, n, protection, flags, fd, offset);
}

/* ---- the run */

enum { ROWS = 4, WIDTH = 16 };

static ApcStatus use(ApcModel *m, const float *x, float *y) {
  ApcReport report;
  ApcStatus status = apc_bind_input(m, "x", APC_F32, 2, (int64_t[]){ROWS, WIDTH}, x);
  if (!status) status = apc_run(m, NULL);
  if (!status) status = apc_read_output(m, "y", y, sizeof *y * ROWS * WIDTH);
  if (!status) status = apc_predict(m, 0, &report);
  return status;
}

/* Descriptors of this process. */
static int open_files(void) {
  DIR *dir = opendir("/proc/self/fd");
  int n = 0;
  while (dir && readdir(dir)) n++;
  if (dir) closedir(dir);
  return n;
}

static int failures;

static void check(bool holds, const char *what) {
  if (holds) return;
  failures++;
  fprintf(stderr, "FAILED when call %ld failed: %s\n", failing, what);
}

int main(int argc, char **argv) {
  float x[ROWS * WIDTH], y[ROWS * WIDTH], want[ROWS * WIDTH];
  long failed = 0;
  if (argc != 2) return 2;
  for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)(i % 7) - 3;
  int before = 0;
  for (long n = 0; n == 0 || failed == n - 1; n++) { /* 0: nothing fails */
    ApcModel *m = NULL;
    calls = 0, failing = n;
    memset(y, 0, sizeof y);
    ApcStatus status = apc_load(argv[1], NULL, &m);
    if (!status) status = use(m, x, y);
    bool hit = n && calls >= n;
    failing = 0;
    failed += hit;
    if (!hit) check(status == APC_OK, apc_error(m));
    else if (status != APC_OK) check(status == APC_FAILED && strstr(apc_error(m), "emory"), apc_error(m));
    if (status == APC_OK && n == 0) memcpy(want, y, sizeof y);
    if (status == APC_OK) check(memcmp(want, y, sizeof y) == 0, "the output differs");
    if (hit && m) {
      status = use(m, x, y); /* it returns the model or an error */
      check(status == APC_OK ? memcmp(want, y, sizeof y) == 0 : *apc_error(m) != 0, "the next use fails");
    }
    apc_close(m);
    if (n == 0) before = open_files();
    check(open_files() == before, "a descriptor stays open");
    check(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a process is left");
  }
  printf("%ld calls failed, one at a time\n", failed);
  return failures || failed < 20 ? 1 : 0;
}
