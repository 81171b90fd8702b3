/* tests/faults/faults.c - a preloaded library that makes one call of a program fail.
 *
 * In: APC_FAULT=KIND:N:PROGRAM:FILE.  The Nth call of that kind by PROGRAM (its own code, or a linked library that
 * allocates for it) fails, as on a machine that is out of memory or disk.  All processes of that name count together,
 * so that a rank's calls count as well as its parent's.  With APC_FAULT_RANK=R only those of rank R count, by its
 * command line.  Out: FILE, of FILE_BYTES, gets the number of calls and the place of the failed one (struct Report).
 *
 * Calls of the C library itself, of the OpenMP run time and of oneDNN do not count: their reactions to a lack of memory
 * are not ours to decide. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef enum Kind { MEMORY, MAP, WRITE, KINDS } Kind;

typedef struct Report {
  _Atomic uint64_t calls;
  uint64_t failed; /* the address of the failed call in its file, minus one byte; 0 if none failed yet */
  char function[24];
  char file[208];
} Report;

enum { FILE_BYTES = 4096, RANGES = 16 };

static struct {
  Report *report; /* NULL if calls are not counted */
  Kind kind;
  uint64_t n;
  struct {
    uintptr_t begin, end, base;
    char file[200];
  } ranges[RANGES]; /* of code whose calls count */
  int n_ranges;
} state;

/* The C library's functions that are replaced here. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

static bool counts(const char *file) {
  static const char *const libraries[] = {"libjansson.", "libprotobuf-c.", "libz."};
  if (!*file) return true; /* the program */
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
    if (strstr(file, libraries[i])) return true;
  return false;
}

static int add_range(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size, (void)unused;
  for (int i = 0; i < info->dlpi_phnum && counts(info->dlpi_name) && state.n_ranges < RANGES; i++) {
    const ElfW(Phdr) *h = &info->dlpi_phdr[i];
    if (h->p_type != PT_LOAD || !(h->p_flags & PF_X)) continue;
    uintptr_t begin = info->dlpi_addr + h->p_vaddr;
    int k = state.n_ranges++;
    state.ranges[k].begin = begin, state.ranges[k].end = begin + h->p_memsz, state.ranges[k].base = info->dlpi_addr;
    snprintf(state.ranges[k].file, sizeof state.ranges[k].file, "%s", *info->dlpi_name ? info->dlpi_name : "program");
  }
  return 0;
}

/* True if this process runs that program.  Ranks have another name than their file. */
static bool runs(const char *program) {
  char path[1024];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  if (n < 0) return false;
  path[n] = 0;
  const char *slash = strrchr(path, '/');
  return strcmp(slash ? slash + 1 : path, program) == 0;
}

/* True for the requested rank, or if none is requested. */
static bool is_rank(const char *rank) {
  char text[4096] = {0};
  int fd = (int)syscall(SYS_open, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : syscall(SYS_read, fd, text, sizeof text - 1);
  if (fd >= 0) syscall(SYS_close, fd);
  for (const char *at = text; n > 0 && at < text + n; at += strlen(at) + 1)
    if (strcmp(at, "--rank") == 0) return strcmp(at + sizeof "--rank", rank) == 0;
  return false;
}

__attribute__((constructor)) static void begin(void) {
  static const char *const kinds[KINDS] = {"memory", "map", "write"};
  const char *text = getenv("APC_FAULT");
  char kind[16], program[64], file[1024];
  unsigned long long n;
  if (!text || sscanf(text, "%15[^:]:%llu:%63[^:]:%1023s", kind, &n, program, file) != 4) return;
  const char *rank = getenv("APC_FAULT_RANK");
  if (!runs(program) || (rank && !is_rank(rank))) return;
  for (int k = 0; k < KINDS; k++)
    if (strcmp(kind, kinds[k]) == 0) state.kind = (Kind)k;
  dl_iterate_phdr(add_range, NULL);
  state.n = n;
  int fd = (int)syscall(SYS_open, file, O_RDWR | O_CLOEXEC);
  void *map =
      fd < 0 ? MAP_FAILED : (void *)syscall(SYS_mmap, NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) syscall(SYS_close, fd);
  if (map != MAP_FAILED) state.report = map;
}

/* True if this call fails.  Sets errno. */
static bool fails(Kind kind, const char *function, const void *caller, int why) {
  uintptr_t at = (uintptr_t)caller;
  if (!state.report || kind != state.kind) return false;
  for (int i = 0; i < state.n_ranges; i++) {
    if (at < state.ranges[i].begin || at >= state.ranges[i].end) continue;
    if (atomic_fetch_add(&state.report->calls, 1) + 1 != state.n) return false;
    state.report->failed = at - state.ranges[i].base - 1;
    strncpy(state.report->function, function, sizeof state.report->function - 1);
    strncpy(state.report->file, state.ranges[i].file, sizeof state.report->file - 1);
    errno = why;
    return true;
  }
  return false;
}

#define FAILS(kind, why) fails(kind, __func__, __builtin_return_address(0), why)

/* ---- memory */

void *malloc(size_t n) { return FAILS(MEMORY, ENOMEM) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return FAILS(MEMORY, ENOMEM) ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return n && FAILS(MEMORY, ENOMEM) ? NULL : __libc_realloc(p, n); }
void *aligned_alloc(size_t alignment, size_t n) { return FAILS(MEMORY, ENOMEM) ? NULL : __libc_memalign(alignment, n); }
int posix_memalign(void **p, size_t alignment, size_t n) {
  void *data = FAILS(MEMORY, ENOMEM) ? NULL : __libc_memalign(alignment, n);
  if (data) *p = data;
  return data ? 0 : ENOMEM;
}

static char *copied(const char *s, size_t n) {
  char *copy = __libc_malloc(n + 1);
  if (!copy) return NULL;
  memcpy(copy, s, n);
  copy[n] = 0;
  return copy;
}
char *strdup(const char *s) { return FAILS(MEMORY, ENOMEM) ? NULL : copied(s, strlen(s)); }
char *strndup(const char *s, size_t n) { return FAILS(MEMORY, ENOMEM) ? NULL : copied(s, strnlen(s, n)); }

/* Functions that allocate inside the C library. */
#define NEXT(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

FILE *fopen(const char *path, const char *mode) {
  return FAILS(MEMORY, ENOMEM) ? NULL : NEXT(FILE *, "fopen", const char *, const char *)(path, mode);
}
FILE *fopencookie(void *cookie, const char *mode, cookie_io_functions_t io) {
  return FAILS(MEMORY, ENOMEM)
             ? NULL
             : NEXT(FILE *, "fopencookie", void *, const char *, cookie_io_functions_t)(cookie, mode, io);
}
char *realpath(const char *path, char *room) {
  return FAILS(MEMORY, ENOMEM) ? NULL : NEXT(char *, "realpath", const char *, char *)(path, room);
}
int setenv(const char *name, const char *value, int replace) {
  return FAILS(MEMORY, ENOMEM) ? -1 : NEXT(int, "setenv", const char *, const char *, int)(name, value, replace);
}
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
  if (FAILS(MEMORY, EAGAIN)) return EAGAIN;
  return NEXT(int, "pthread_create", pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)(thread, attributes,
                                                                                                     run, argument);
}

/* ---- mappings, and memory shared by processes */

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
  if (FAILS(MAP, ENOMEM)) return MAP_FAILED;
  return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}
int memfd_create(const char *name, unsigned flags) {
  return FAILS(MAP, ENFILE) ? -1 : (int)syscall(SYS_memfd_create, name, flags);
}

/* ---- files */

static bool is_file(int fd) { return fd > STDERR_FILENO; }

ssize_t write(int fd, const void *bytes, size_t n) {
  if (is_file(fd) && FAILS(WRITE, ENOSPC)) return -1;
  return syscall(SYS_write, fd, bytes, n);
}
ssize_t pwrite(int fd, const void *bytes, size_t n, off_t offset) {
  if (FAILS(WRITE, ENOSPC)) return -1;
  return syscall(SYS_pwrite64, fd, bytes, n, offset);
}
int ftruncate(int fd, off_t n) { return FAILS(WRITE, ENOSPC) ? -1 : (int)syscall(SYS_ftruncate, fd, n); }
int posix_fallocate(int fd, off_t at, off_t n) {
  return FAILS(WRITE, ENOSPC) ? ENOSPC : syscall(SYS_fallocate, fd, 0, at, n) == 0 ? 0 : errno;
}
int fsync(int fd) { return FAILS(WRITE, EIO) ? -1 : (int)syscall(SYS_fsync, fd); }
int rename(const char *from, const char *to) { return FAILS(WRITE, ENOSPC) ? -1 : (int)syscall(SYS_rename, from, to); }
