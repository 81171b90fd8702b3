/* tests/doubles/memory.c - see memory.h.  The allocations are a list sorted by address. */
#define _GNU_SOURCE
#include "tests/doubles/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/doubles/report.h"

enum { PAGE = 4096, SLACK = 0xe7, SPOILT = 256 << 10 };

typedef struct Allocation {
  MemoryPlace place;
  bool registered;
  bool given;          /* other processes may take it */
  MemoryHandle handle; /* of such memory */
  int lock;            /* of taken memory: a descriptor with a shared lock of its file */
  int taken;           /* how often this process has taken it; 0: it is its own */
  struct Allocation *next;
} Allocation;

static Allocation *allocations; /* ascending */
static struct {
  bool reserved;
  uint64_t end, used;
} ranges[DOUBLE_DEVICES];
static const char *volatile doing;
static struct sigaction before;

static uint64_t pages(uint64_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }
static char *bytes_of(const MemoryPlace *p) { return (char *)(uintptr_t)(p->at + (p->device < 0 ? 0 : MEMORY_SHIFT)); }

int memory_device_of(uint64_t at) {
  return at >= MEMORY_BASE && at < MEMORY_BASE + DOUBLE_DEVICES * MEMORY_DEVICE
             ? (int)((at - MEMORY_BASE) / MEMORY_DEVICE)
             : -1;
}

static Allocation *find(uint64_t at) {
  for (Allocation *a = allocations; a; a = a->next)
    if (at >= a->place.at && at <= a->place.at + a->place.bytes) return a;
  return NULL;
}

const MemoryPlace *memory_place(uint64_t at) {
  Allocation *a = find(at);
  return a ? &a->place : NULL;
}

/* ---- accesses to unmapped addresses */

static void describe(char *to, size_t n, uint64_t at) {
  const Allocation *best = NULL;
  uint64_t device_at = memory_device_of(at - MEMORY_SHIFT) >= 0 ? at - MEMORY_SHIFT : at;
  for (const Allocation *a = allocations; a; a = a->next)
    if (a->place.at <= device_at) best = a;
  if (best)
    snprintf(to, n, "address 0x%llx: %lld bytes after the begin of %llu bytes of device %d",
             (unsigned long long)device_at, (long long)(device_at - best->place.at),
             (unsigned long long)best->place.bytes, best->place.device);
  else snprintf(to, n, "address 0x%llx", (unsigned long long)device_at);
}

static void on_fault(int signal, siginfo_t *info, void *context) {
  char where[200];
  uint64_t at = (uint64_t)(uintptr_t)info->si_addr;
  (void)context;
  describe(where, sizeof where, at);
  if (doing) double_violation("%s reaches outside of its memory: %s", doing, where);
  else if (memory_device_of(at) >= 0) double_violation("the host reads or writes memory of a device: %s", where);
  sigaction(signal, &before, NULL); /* the instruction runs again with the previous handler */
}

void memory_doing(const char *what) { doing = what; }

static void reserve(int device) {
  struct sigaction on = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  uint64_t base = MEMORY_BASE + (uint64_t)device * MEMORY_DEVICE;
  static bool watched;
  if (!watched) sigaction(SIGSEGV, &on, &before);
  watched = true;
  if (ranges[device].reserved) return;
  void *at = mmap((void *)(uintptr_t)base, MEMORY_DEVICE, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at != (void *)(uintptr_t)base) double_violation("device %d: its addresses are taken", device);
  ranges[device].reserved = true, ranges[device].end = base + PAGE;
}

/* ---- allocations */

static void note(int device, int64_t bytes) {
  char line[64];
  snprintf(line, sizeof line, "%d %lld\n", double_physical(device), (long long)bytes);
  report_add("DOUBLES_ALLOCATED", line);
}

static void insert(Allocation *a) {
  Allocation **p = &allocations;
  while (*p && (*p)->place.at < a->place.at) p = &(*p)->next;
  a->next = *p, *p = a;
}

/* A file in memory, all 0xff, for this process; -1 if it cannot be made. */
static int spoilt_file(void) {
  static int fd = -2;
  static char spoilt[SPOILT];
  if (fd != -2) return fd;
  memset(spoilt, 0xff, sizeof spoilt);
  fd = memfd_create("spoilt", MFD_CLOEXEC);
  if (fd >= 0 && write(fd, spoilt, sizeof spoilt) != SPOILT) close(fd), fd = -1;
  return fd;
}

/* Maps whole pages to that file, repeatedly, until a write copies them: most allocated memory, such as workspaces of
 * libraries, is never touched. */
static void fill(const MemoryPlace *p) {
  char *at = bytes_of(p);
  uint64_t done = 0, whole = p->bytes / PAGE * PAGE;
  while (whole >= SPOILT && done < whole && spoilt_file() >= 0) {
    uint64_t n = whole - done < SPOILT ? whole - done : SPOILT;
    if (mmap(at + done, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, spoilt_file(), 0) !=
        at + done) {
      double_violation("out of memory for an allocation");
      return;
    }
    done += n;
  }
  memset(at + done, 0xff, p->bytes - done);
  memset(at + p->bytes, SLACK, pages(p->bytes) - p->bytes);
}

CUresult memory_alloc(int device, uint64_t bytes, uint64_t capacity, CUdeviceptr *out) {
  reserve(device);
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > capacity || ranges[device].used > capacity - bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation *a = calloc(1, sizeof *a);
  a->place = (MemoryPlace){device, ranges[device].end, bytes};
  char *want = bytes_of(&a->place);
  char *at = mmap(want, pages(bytes), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at != want) {
    free(a);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ranges[device].end += pages(bytes) + (1 + double_random() % 16) * PAGE;
  ranges[device].used += bytes;
  note(device, (int64_t)bytes);
  fill(&a->place);
  insert(a);
  *out = a->place.at;
  return CUDA_SUCCESS;
}

uint64_t memory_used(int device) { return ranges[device].used; }

static void check_slack(const Allocation *a) {
  const unsigned char *p = (const unsigned char *)bytes_of(&a->place);
  for (uint64_t i = a->place.bytes; i < pages(a->place.bytes) && !a->registered; i++)
    if (p[i] != SLACK) {
      double_violation("%llu bytes of device %d were written %llu bytes past their end",
                       (unsigned long long)a->place.bytes, a->place.device, (unsigned long long)(i - a->place.bytes));
      return;
    }
}

static CUresult give_back(uint64_t at, bool on_device, bool registered) {
  Allocation **p = &allocations, *a;
  while (*p && (*p)->place.at != at) p = &(*p)->next;
  a = *p;
  if (!a || (a->place.device >= 0) != on_device || a->registered != registered || a->taken)
    return CUDA_ERROR_INVALID_VALUE;
  check_slack(a);
  if (a->given && flock(a->handle.fd, LOCK_EX | LOCK_NB)) /* a process that has taken it holds a lock while it lives */
    double_violation("memory of device %d is freed while another process uses it", a->place.device);
  if (a->given) close(a->handle.fd);
  int around = on_device ? 0 : PAGE; /* pages that are never read */
  if (!registered) munmap(bytes_of(&a->place) - around, pages(a->place.bytes) + 2 * (uint64_t)around);
  if (on_device) ranges[a->place.device].used -= a->place.bytes, note(a->place.device, -(int64_t)a->place.bytes);
  *p = a->next;
  free(a);
  return CUDA_SUCCESS;
}

/* ---- memory of several processes */

#define HANDLE_CHECK UINT64_C(0x646f75626c657321)

/* Replaces the pages of an allocation by those of a file with the same contents. */
static CUresult make_shared(Allocation *a) {
  uint64_t bytes = pages(a->place.bytes);
  int fd = memfd_create("device", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  for (uint64_t done = 0; done < bytes;) {
    ssize_t n = pwrite(fd, bytes_of(&a->place) + done, bytes - done, (off_t)done);
    if (n <= 0) return CUDA_ERROR_OUT_OF_MEMORY;
    done += (uint64_t)n;
  }
  void *at = mmap(bytes_of(&a->place), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  a->given = true;
  a->handle = (MemoryHandle){getpid(), fd, a->place.bytes, HANDLE_CHECK};
  return CUDA_SUCCESS;
}

CUresult memory_give(CUdeviceptr at, MemoryHandle *out) {
  Allocation *a = find(at);
  if (!a || a->place.device < 0 || a->taken) return CUDA_ERROR_INVALID_VALUE;
  CUresult error = a->given ? CUDA_SUCCESS : make_shared(a);
  *out = a->handle;
  return error;
}

CUresult memory_take(int device, const MemoryHandle *h, CUdeviceptr *out) {
  char path[64];
  if (h->check != HANDLE_CHECK || h->pid == getpid()) return CUDA_ERROR_INVALID_VALUE;
  for (Allocation *a = allocations; a; a = a->next)
    if (a->taken && a->place.device == device && a->handle.pid == h->pid && a->handle.fd == h->fd)
      return a->taken++, *out = a->place.at, CUDA_SUCCESS;
  snprintf(path, sizeof path, "/proc/%d/fd/%d", h->pid, h->fd);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB)) return CUDA_ERROR_INVALID_VALUE;
  reserve(device);
  Allocation *a = calloc(1, sizeof *a);
  *a = (Allocation){.place = {device, ranges[device].end, h->bytes}, .handle = *h, .lock = fd, .taken = 1};
  char *at =
      mmap(bytes_of(&a->place), pages(h->bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
  if (at != bytes_of(&a->place)) return CUDA_ERROR_OUT_OF_MEMORY;
  ranges[device].end += pages(h->bytes) + PAGE;
  insert(a);
  *out = a->place.at;
  return CUDA_SUCCESS;
}

CUresult memory_leave(CUdeviceptr at) {
  Allocation **p = &allocations, *a;
  while (*p && (*p)->place.at != at) p = &(*p)->next;
  a = *p;
  if (!a || !a->taken) return CUDA_ERROR_INVALID_VALUE;
  if (--a->taken) return CUDA_SUCCESS;
  close(a->lock);
  munmap(bytes_of(&a->place), pages(a->place.bytes));
  *p = a->next;
  free(a);
  return CUDA_SUCCESS;
}

CUresult memory_free(CUdeviceptr at) { return at ? give_back(at, true, false) : CUDA_SUCCESS; }
CUresult memory_unpin(void *at, bool registered) { return give_back((uint64_t)(uintptr_t)at, false, registered); }

CUresult memory_pin(uint64_t bytes, void **out) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  char *at = mmap(NULL, pages(bytes) + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED || mprotect(at + PAGE, pages(bytes), PROT_READ | PROT_WRITE)) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation *a = calloc(1, sizeof *a);
  a->place = (MemoryPlace){-1, (uint64_t)(uintptr_t)(at + PAGE), bytes};
  fill(&a->place);
  insert(a);
  *out = at + PAGE;
  return CUDA_SUCCESS;
}

CUresult memory_register(void *at, uint64_t bytes) {
  if (!at || !bytes || memory_place((uint64_t)(uintptr_t)at)) return CUDA_ERROR_INVALID_VALUE;
  Allocation *a = calloc(1, sizeof *a);
  *a = (Allocation){.place = {-1, (uint64_t)(uintptr_t)at, bytes}, .registered = true};
  insert(a);
  return CUDA_SUCCESS;
}

/* ---- queries of other files */

char *double_at(int device, CUdeviceptr at, uint64_t bytes, const char *what) {
  const MemoryPlace *p = memory_place(at);
  int of = memory_device_of(at);
  if (of < 0) double_violation("%s: 0x%llx is no address of a device", what, (unsigned long long)at);
  else if (of != device) double_violation("%s on device %d is given an address of device %d", what, device, of);
  else if (!p) double_violation("%s: no memory is allocated at 0x%llx", what, (unsigned long long)at);
  else if (bytes > p->at + p->bytes - at)
    double_violation("%s: %llu bytes at byte %llu of an allocation of %llu", what, (unsigned long long)bytes,
                     (unsigned long long)(at - p->at), (unsigned long long)p->bytes);
  else return (char *)(uintptr_t)(at + MEMORY_SHIFT);
  return NULL;
}

/* The most bytes per call: the kernel copies 2 GiB - 4 KiB.  If the call is forbidden (some containers), unmapped
 * memory ends the process. */
enum { AT_ONCE = 1 << 30 };

static bool between(bool reads, void *ours, void *theirs, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    uint64_t n = bytes - done < AT_ONCE ? bytes - done : AT_ONCE;
    struct iovec a = {(char *)ours + done, n}, b = {(char *)theirs + done, n};
    ssize_t moved = reads ? process_vm_readv(getpid(), &a, 1, &b, 1, 0) : process_vm_writev(getpid(), &a, 1, &b, 1, 0);
    if (moved < 0 && errno != EFAULT)
      moved = (ssize_t)n, memcpy(reads ? a.iov_base : b.iov_base, reads ? b.iov_base : a.iov_base, n);
    if (moved <= 0) return false;
    done += (uint64_t)moved;
  }
  return true;
}

bool memory_read_host(void *to, const void *from, uint64_t bytes) {
  return between(true, to, (void *)(uintptr_t)from, bytes);
}
bool memory_write_host(void *to, const void *from, uint64_t bytes) {
  return between(false, (void *)(uintptr_t)from, to, bytes);
}

void memory_leaks(int device) {
  for (const Allocation *a = allocations; a; a = a->next) {
    if (a->place.device != device) continue;
    check_slack(a);
    double_violation(device < 0 ? "%llu bytes of pinned memory are not freed" : "%llu bytes of device %d are not freed",
                     (unsigned long long)a->place.bytes, device);
  }
}
