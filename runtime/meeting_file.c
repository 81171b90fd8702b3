/* runtime/meeting_file.c - see meeting_file.h.
 *
 * The file is written under another name and renamed.  One left behind by a run that was killed leads nowhere and is read again
 * until rank 0 has replaced it.
 */
#define _GNU_SOURCE
#include "runtime/meeting_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

RtStatus meeting_file_publish(const char *path, const char *text, RtError *error) {
  size_t n = strlen(text);
  char *other;
  if (asprintf(&other, "%s.%d", path, (int)getpid()) < 0) return rt_error(error, RT_FAILED, "out of memory");
  FILE *f = fopen(other, "w");
  bool ok = f && fwrite(text, 1, n, f) == n;
  if (f) ok = fclose(f) == 0 && ok;
  if (ok) ok = rename(other, path) == 0;
  RtStatus status = ok ? RT_OK : rt_error_errno(error, RT_BAD_INPUT, "%s cannot be written", path);
  if (!ok) unlink(other);
  free(other);
  return status;
}

/* A FIFO would wait for a writer. */
bool meeting_file_read(const char *path, char *text, size_t size) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return false;
  bool fits = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && (size_t)st.st_size < size;
  ssize_t n = fits ? pread(fd, text, (size_t)st.st_size, 0) : 0;
  close(fd);
  text[n > 0 ? n : 0] = 0;
  if (n <= 0) errno = EINVAL;
  return n > 0;
}

void meeting_file_withdraw(const char *path, const char *text) {
  (void)text;
  unlink(path);
}
