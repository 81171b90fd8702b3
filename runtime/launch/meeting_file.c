/* runtime/launch/meeting_file.c - see meeting_file.h.
 *
 * The file is never renamed into place: it is created exclusively, or an old file of ours is rewritten.  A reader in
 * between sees no text, or the beginning of one, and looks again.
 */
#define _GNU_SOURCE
#include "runtime/launch/meeting_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 100 };

/* Some network file systems have no locks. */
static bool no_locks(int number) { return number == ENOLCK || number == EOPNOTSUPP || number == ENOSYS; }

/* True for a regular file of this user, without these permissions for others. */
static bool is_own(const struct stat *st, mode_t others) {
  return S_ISREG(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & others);
}

static bool still_there(const char *path, int fd) {
  struct stat a, b;
  return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* True if the file begins as rank 0 writes it: with the number of a run. */
static bool has_run(int fd) {
  enum { BEGIN = sizeof MEETING_FILE_BEGIN - 1, DIGITS = 32 };
  char text[BEGIN + DIGITS + 2] = "";
  return pread(fd, text, sizeof text - 1, 0) == (ssize_t)sizeof text - 1 &&
         memcmp(text, MEETING_FILE_BEGIN, BEGIN) == 0 && strspn(text + BEGIN, "0123456789abcdef") == DIGITS &&
         text[BEGIN + DIGITS] == '\n';
}

static RtStatus foreign(const char *path, RtError *error) {
  return rt_error(
      error, RT_BAD_INPUT,
      "%s already exists and is not a meeting file of your ranks: it is left unchanged; choose another name", path);
}

static RtStatus not_locked(const char *path, RtError *error) {
  if (errno == EWOULDBLOCK)
    return rt_error(error, RT_BAD_INPUT, "ranks of another run meet at %s; choose another name for this run", path);
  if (!no_locks(errno)) return rt_error_errno(error, RT_BAD_INPUT, "%s cannot be locked", path);
  return rt_error(error, RT_BAD_INPUT,
                  "%s already exists, and its file system has no locks that show whether ranks use it; "
                  "remove it, or choose another name",
                  path);
}

/* Opens the existing file; *fd is -1 if it was removed meanwhile. */
static RtStatus take_over(const char *path, int *fd, RtError *error) {
  struct stat st;
  *fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (*fd < 0 && errno == ENOENT) return RT_OK;
  if (*fd < 0 && errno != ELOOP && errno != EISDIR && errno != ENXIO)
    return rt_error_errno(error, RT_BAD_INPUT, "%s cannot be written", path);
  if (*fd < 0 || fstat(*fd, &st) != 0 || !is_own(&st, S_IRWXG | S_IRWXO)) return foreign(path, error);
  if (flock(*fd, LOCK_EX | LOCK_NB) != 0) return not_locked(path, error);
  if (!has_run(*fd)) return foreign(path, error);
  if (still_there(path, *fd)) return RT_OK;
  close(*fd); /* its run has just removed it */
  *fd = -1;
  return RT_OK;
}

static RtStatus make_or_take(const char *path, int *fd, RtError *error) {
  for (int i = 0; i < TRIES; i++) {
    *fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (*fd >= 0 && (flock(*fd, LOCK_EX | LOCK_NB) == 0 || no_locks(errno))) return RT_OK; /* made by this rank */
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
  return rt_error(error, RT_FAILED, "%s is created and removed again and again", path);
}

static RtStatus write_text(const char *path, int fd, const char *text, bool secret, RtError *error) {
  size_t n = strlen(text);
  struct stat st;
  if (fstat(fd, &st) != 0 || ftruncate(fd, 0) != 0)
    return rt_error_errno(error, RT_BAD_INPUT, "%s cannot be written", path);
  if (secret && st.st_mode & (S_IRWXG | S_IRWXO))
    return rt_error(error, RT_BAD_INPUT, "%s can be read by other users: ranks without a secret cannot meet at it",
                    path);
  return pwrite(fd, text, n, 0) == (ssize_t)n ? RT_OK
                                              : rt_error_errno(error, RT_BAD_INPUT, "%s cannot be written", path);
}

RtStatus meeting_file_publish(const char *path, const char *text, bool secret, int *held, RtError *error) {
  int fd;
  *held = -1;
  RtStatus status = make_or_take(path, &fd, error);
  if (!status && write_text(path, fd, text, secret, error)) {
    meeting_file_withdraw(path, fd);
    return error->status;
  }
  if (!status) *held = fd;
  else if (fd >= 0) close(fd);
  return status;
}

/* True even if only part of the text has been written yet. */
static bool may_be_ours(const char *text) {
  size_t n = strlen(text), most = strlen(MEETING_FILE_BEGIN);
  return strncmp(text, MEETING_FILE_BEGIN, n < most ? n : most) == 0;
}

RtStatus meeting_file_read(const char *path, char *text, size_t size, RtError *error) {
  struct stat st;
  *text = 0;
  if (lstat(path, &st) != 0) return RT_OK;
  if (!is_own(&st, S_IWGRP | S_IWOTH) || (size_t)st.st_size >= size)
    return foreign(path, error); /* opening a device may have effects */
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return RT_OK;
  bool own = fstat(fd, &st) == 0 && is_own(&st, S_IWGRP | S_IWOTH);
  ssize_t n = own ? pread(fd, text, size - 1, 0) : 0;
  int number = n < 0 ? errno : EINVAL;
  close(fd);
  text[n > 0 ? n : 0] = 0;
  errno = number;
  return own && may_be_ours(text) ? RT_OK : foreign(path, error);
}

void meeting_file_withdraw(const char *path, int held) {
  if (held < 0) return;
  if (still_there(path, held)) unlink(path);
  close(held);
}
