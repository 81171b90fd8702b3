/* base/read_at.h - reads or writes a range of an open file, whole or not at all. */
#ifndef APC_BASE_READ_AT_H
#define APC_BASE_READ_AT_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

/* Reads n bytes at an offset; false with errno, ENODATA at the end of the file. */
static inline bool read_at(int fd, uint64_t offset, void *to, uint64_t n) {
  for (uint64_t done = 0; done < n;) {
    ssize_t k = pread(fd, (char *)to + done, n - done < SSIZE_MAX ? n - done : SSIZE_MAX, (off_t)(offset + done));
    if (k < 0 && errno == EINTR) continue;
    if (k == 0) errno = ENODATA;
    if (k <= 0) return false;
    done += (uint64_t)k;
  }
  return true;
}

/* Writes n bytes at an offset; false with errno. */
static inline bool write_at(int fd, uint64_t offset, const void *from, uint64_t n) {
  for (uint64_t done = 0; done < n;) {
    ssize_t k =
        pwrite(fd, (const char *)from + done, n - done < SSIZE_MAX ? n - done : SSIZE_MAX, (off_t)(offset + done));
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return false;
    done += (uint64_t)k;
  }
  return true;
}

#endif
