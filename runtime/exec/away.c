/* runtime/exec/away.c - see away.h.
 *
 * Parts are read and written with pread and pwrite, not mapped: a mapped page would count as memory of the rank.  The
 * system writes them to the disk later, and reads ahead what exec_away_expect names, so both happen beside computation.
 */
#define _GNU_SOURCE
#include "runtime/exec/away.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/read_at.h"
#include "runtime/exec/internal.h"

#define FOLDER_VARIABLE "APC_OFFLOAD_DIR"
#define USUAL_FOLDER "/var/tmp"

enum { PIECE = 1 << 20 };

static RtStatus failed(const Executor *e, const char *what, RtError *error) {
  return rt_error(error, RT_FAILED, "rank %u cannot %s the file of %llu bytes for its states in %s: %s",
                  e->options.rank, what, (unsigned long long)(e->away.bytes + e->away.kept), e->away.folder,
                  strerror(errno));
}

/* True if files of the folder are in memory.  The user may name such a folder; the usual one must be on a disk. */
static bool is_in_memory(const char *folder) {
  const long tmpfs = 0x01021994, ramfs = 0x858458f6;
  struct statfs s;
  return statfs(folder, &s) == 0 && ((long)s.f_type == tmpfs || (long)s.f_type == ramfs);
}

static RtStatus find_folder(Executor *e, RtError *error) {
  const char *given = getenv(FOLDER_VARIABLE);
  e->away.folder = given && *given ? given : USUAL_FOLDER;
  if ((given && *given) || !is_in_memory(USUAL_FOLDER)) return RT_OK;
  return rt_error(error, RT_FAILED,
                  "the states of this program live in a file, but " USUAL_FOLDER " is in memory; " FOLDER_VARIABLE
                  " names another folder");
}

/* Makes a file without a name. */
static int make_file(const char *folder) {
  int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  size_t n = strlen(folder) + sizeof "/apc-states-XXXXXX";
  char *path = malloc(n); /* file systems without O_TMPFILE */
  if (!path) return -1;
  strcpy(path, folder), strcat(path, "/apc-states-XXXXXX");
  fd = mkostemp(path, O_CLOEXEC);
  if (fd >= 0) unlink(path);
  free(path);
  return fd;
}

/* Reserves room; file systems that cannot do it fail when the room is used. */
static bool reserve(int fd, uint64_t bytes) {
  if (fallocate(fd, 0, 0, (off_t)bytes) == 0) return true;
  return (errno == EOPNOTSUPP || errno == ENOSYS) && ftruncate(fd, (off_t)bytes) == 0;
}

static RtStatus reserve_addresses(Executor *e, RtError *error) {
  void *at = mmap(NULL, e->away.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return failed(e, "address", error);
  e->away.at = at;
  e->generation++;
  return RT_OK;
}

RtStatus exec_away_open(Executor *e, uint64_t bytes, RtError *error) {
  if (!bytes) return RT_OK;
  if (!e->host_memory)
    return rt_error(error, RT_UNSUPPORTED, "this runtime keeps no states outside the memory of a %s", e->ops->name);
  if (e->away.file && bytes <= e->away.bytes) {
    if (ftruncate(e->away.file - 1, 0) || !reserve(e->away.file - 1, e->away.bytes + e->away.kept))
      return failed(e, "clear", error);
    return RT_OK;
  }
  exec_away_close(e);
  RtStatus status = find_folder(e, error);
  if (status) return status;
  e->away.bytes = bytes;
  int fd = make_file(e->away.folder);
  if (fd < 0) return failed(e, "make", error);
  e->away.file = fd + 1;
  status = reserve(fd, bytes) ? reserve_addresses(e, error) : failed(e, "reserve", error);
  if (status) exec_away_close(e);
  return status;
}

void exec_away_close(Executor *e) {
  if (e->away.file) close(e->away.file - 1);
  if (e->away.at) munmap(e->away.at, e->away.bytes);
  e->away = (Away){0};
}

/* ---- parts */

RtStatus exec_away_read(const Executor *e, void *to, const char *from, uint64_t bytes, RtError *error) {
  return read_at(e->away.file - 1, (uint64_t)(from - e->away.at), to, bytes) ? RT_OK : failed(e, "read", error);
}

RtStatus exec_away_write(const Executor *e, char *to, const void *from, uint64_t bytes, RtError *error) {
  return write_at(e->away.file - 1, (uint64_t)(to - e->away.at), from, bytes) ? RT_OK : failed(e, "write", error);
}

void exec_away_expect(const Executor *e, const char *from, uint64_t bytes) {
  posix_fadvise(e->away.file - 1, from - e->away.at, (off_t)bytes, POSIX_FADV_WILLNEED);
}

/* ---- the copy */

static RtStatus move(Executor *e, uint64_t from, uint64_t to, RtError *error) {
  const int fd = e->away.file - 1;
  char *piece = malloc(PIECE);
  if (!piece) return rt_error(error, RT_FAILED, "out of memory");
  RtStatus status = RT_OK;
  for (uint64_t at = 0; at < e->away.bytes && !status; at += PIECE) {
    uint64_t n = e->away.bytes - at < PIECE ? e->away.bytes - at : PIECE;
    if (!read_at(fd, from + at, piece, n) || !write_at(fd, to + at, piece, n)) status = failed(e, "copy", error);
    if (exec_beats(e)) atomic_fetch_add(exec_beats(e), 1);
  }
  free(piece);
  return status;
}

RtStatus exec_away_keep(Executor *e, RtError *error) {
  if (!e->away.file) return RT_OK;
  if (!e->away.kept) {
    if (!reserve(e->away.file - 1, 2 * e->away.bytes)) return failed(e, "extend", error);
    e->away.kept = e->away.bytes;
  }
  return move(e, 0, e->away.bytes, error);
}

RtStatus exec_away_back(Executor *e, RtError *error) { return e->away.kept ? move(e, e->away.bytes, 0, error) : RT_OK; }
