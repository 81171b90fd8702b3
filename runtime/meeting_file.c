/* runtime/meeting_file.c - see meeting_file.h.
 *
 * The file is never renamed into place: a name is made exclusively, or a file that is ours is written anew.  A reader that comes between
 * sees no text, or the beginning of one, which names no run, and looks again.
 */
#define _GNU_SOURCE
#include "runtime/meeting_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 100 };

/* A file of this user's that nobody else can write to. */
static bool is_own(const struct stat *st) { return S_ISREG(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH)); }

static bool still_there(const char *path, int fd) {
  struct stat a, b;
  return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static RtStatus foreign(const char *path, RtError *error) {
  return rt_error(error, RT_BAD_INPUT, "%s is there already and is no file that ranks of yours meet at: it is left as it is, give another name", path);
}

/* The file that is there; *fd is -1 when it has gone meanwhile. */
static RtStatus take_over(const char *path, int *fd, RtError *error) {
  struct stat st;
  char begin[sizeof MEETING_FILE_BEGIN] = "";
  *fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (*fd < 0 && errno == ENOENT) return RT_OK;
  if (*fd < 0 && errno != ELOOP && errno != EISDIR && errno != ENXIO) return rt_error_errno(error, RT_BAD_INPUT, "%s cannot be written", path);
  if (*fd < 0 || fstat(*fd, &st) != 0 || !is_own(&st)) return foreign(path, error);
  if (flock(*fd, LOCK_EX | LOCK_NB) != 0)
    return errno == EWOULDBLOCK ? rt_error(error, RT_BAD_INPUT, "ranks of another run meet at %s: give every run a name of its own", path)
                                : rt_error_errno(error, RT_BAD_INPUT, "%s cannot be locked", path);
  if (pread(*fd, begin, sizeof begin - 1, 0) != (ssize_t)sizeof begin - 1 || strcmp(begin, MEETING_FILE_BEGIN) != 0) return foreign(path, error);
  if (still_there(path, *fd)) return RT_OK;
  close(*fd); /* its run has just taken it away */
  *fd = -1;
  return RT_OK;
}

static RtStatus make_or_take(const char *path, int *fd, RtError *error) {
  for (int i = 0; i < TRIES; i++) {
    *fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (*fd >= 0 && flock(*fd, LOCK_EX | LOCK_NB) == 0) return RT_OK;
    if (*fd < 0 && errno != EEXIST) return rt_error_errno(error, RT_BAD_INPUT, "%s cannot be written", path);
    if (*fd >= 0) {
      rt_error_errno(error, RT_BAD_INPUT, "%s cannot be locked", path);
      meeting_file_withdraw(path, *fd);
      *fd = -1;
      return RT_BAD_INPUT;
    }
    RtStatus status = take_over(path, fd, error);
    if (status || *fd >= 0) return status;
  }
  return rt_error(error, RT_FAILED, "%s is made and taken away all the time", path);
}

RtStatus meeting_file_publish(const char *path, const char *text, int *held, RtError *error) {
  size_t n = strlen(text);
  int fd;
  *held = -1;
  RtStatus status = make_or_take(path, &fd, error);
  if (!status && (ftruncate(fd, 0) != 0 || pwrite(fd, text, n, 0) != (ssize_t)n)) {
    status = rt_error_errno(error, RT_BAD_INPUT, "%s cannot be written", path);
    meeting_file_withdraw(path, fd);
    return status;
  }
  if (!status) *held = fd;
  else if (fd >= 0) close(fd);
  return status;
}

bool meeting_file_read(const char *path, char *text, size_t size) {
  struct stat st;
  *text = 0;
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); /* a FIFO would wait for a writer */
  if (fd < 0) return false;
  int number = fstat(fd, &st) != 0 ? errno : S_ISDIR(st.st_mode) ? EISDIR : !S_ISREG(st.st_mode) ? ENOTSUP : !is_own(&st) ? EPERM : (size_t)st.st_size >= size ? EFBIG : 0;
  ssize_t n = number ? 0 : pread(fd, text, size - 1, 0);
  if (n < 0) number = errno;
  close(fd);
  text[n > 0 ? n : 0] = 0;
  errno = number ? number : EINVAL;
  return n > 0;
}

void meeting_file_withdraw(const char *path, int held) {
  if (held < 0) return;
  if (still_there(path, held)) unlink(path);
  close(held);
}
