/* base/standard.c - see standard.h. */
#define _GNU_SOURCE /* fopencookie */
#include "base/standard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

void standard_hold(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* takes the lowest free number: fd */
}

static bool lost; /* by standard_write */

static bool write_all(const char *bytes, size_t n) {
  while (n) {
    ssize_t done = write(STDOUT_FILENO, bytes, n);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    bytes += done;
    n -= (size_t)done;
  }
  return true;
}

/* Beside bytes below 32 and 127, U+0080 to U+009F are control characters: 0xc2 and one more byte in UTF-8. */
static bool is_control(unsigned char before, unsigned char c) {
  return (c < 32 && c != '\n' && c != '\t') || c == 127 || (before == 0xc2 && c >= 0x80 && c <= 0x9f);
}

static ssize_t write_shown(void *cookie, const char *bytes, size_t n) {
  unsigned char *before = cookie;
  size_t from = 0;
  bool ok = true;
  for (size_t i = 0; i < n && ok; i++) {
    unsigned char c = (unsigned char)bytes[i];
    char escape[8];
    if (is_control(*before, c)) {
      snprintf(escape, sizeof escape, "\\x%02x", c);
      ok = write_all(bytes + from, i - from) && write_all(escape, 4);
      from = i + 1;
    }
    *before = c;
  }
  ok = ok && write_all(bytes + from, n - from);
  return ok ? (ssize_t)n : 0;
}

void standard_show(void) {
  static unsigned char before;
  FILE *f = fopencookie(&before, "w", (cookie_io_functions_t){.write = write_shown});
  if (!f) return; /* no memory: whatever is next will say so */
  setvbuf(f, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
  fflush(stdout);
  stdout = f;
}

void standard_write(const void *bytes, size_t n) {
  if (fflush(stdout) != 0 || !write_all(bytes, n)) lost = true;
}

bool standard_output_written(void) { return fflush(stdout) == 0 && !ferror(stdout) && !lost; }
