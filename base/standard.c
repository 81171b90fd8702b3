/* base/standard.c - see standard.h. */
#define _GNU_SOURCE /* fopencookie */
#include "base/standard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/text.h"

void standard_hold(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0)
      open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* takes the lowest free descriptor: fd */
}

static bool lost; /* output was lost, reported by standard_write */
static int why;   /* errno of the last write that failed */

static bool write_all(const char *bytes, size_t n) {
  while (n) {
    ssize_t done = write(STDOUT_FILENO, bytes, n);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      why = errno;
      return false;
    }
    bytes += done;
    n -= (size_t)done;
  }
  return true;
}

/* Pieces of output may end in the middle of a character. */
static struct {
  unsigned char begun[4];
  size_t n;
  bool json;
} shown;

static bool write_escaped(const unsigned char *p, size_t n) {
  char text[4 * sizeof shown.begun + 1];
  int used = 0;
  if (shown.json)
    used = snprintf(text, sizeof text, "\\u%04x", text_sequence(p, n) ? (unsigned)text_code_point(p, n) : 0xfffdu);
  for (size_t i = 0; i < n && !shown.json; i++)
    used += snprintf(text + used, sizeof text - (size_t)used, "\\x%02x", p[i]);
  return write_all(text, (size_t)used);
}

/* Writes all but an incomplete last character; returns how many bytes it took, or -1. */
static ssize_t write_parts(const unsigned char *p, size_t n) {
  size_t from = 0, at = 0;
  for (size_t part; at < n; at += part) {
    bool plain;
    part = text_character(p + at, n - at, &plain);
    if (!part) break;
    if (plain || p[at] == '\n' || p[at] == '\t') continue;
    if (!write_all((const char *)p + from, at - from) || !write_escaped(p + at, part)) return -1;
    from = at + part;
  }
  return write_all((const char *)p + from, at - from) ? (ssize_t)at : -1;
}

static ssize_t write_shown(void *cookie, const char *bytes, size_t n) {
  (void)cookie;
  size_t done = 0;
  while (shown.n && done < n) {
    shown.begun[shown.n++] = (unsigned char)bytes[done++];
    ssize_t taken = write_parts(shown.begun, shown.n);
    if (taken < 0) return 0;
    shown.n -= (size_t)taken;
    memmove(shown.begun, shown.begun + taken, shown.n);
  }
  ssize_t taken = write_parts((const unsigned char *)bytes + done, n - done);
  if (taken < 0) return 0;
  done += (size_t)taken;
  if (done < n) memcpy(shown.begun, bytes + done, shown.n = n - done);
  return (ssize_t)n;
}

void standard_show(void) {
  FILE *f = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_shown});
  if (!f) return; /* no memory: whatever comes next reports it */
  setvbuf(f, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
  fflush(stdout);
  stdout = f;
}

/* Writes out an incomplete character too. */
static bool flush_all(void) {
  bool ok = fflush(stdout) == 0;
  ok = ok && (!shown.n || write_escaped(shown.begun, shown.n));
  shown.n = 0;
  return ok;
}

void standard_json(bool on) {
  if (!flush_all()) lost = true;
  shown.json = on;
}

void standard_write(const void *bytes, size_t n) {
  if (!flush_all() || !write_all(bytes, n)) lost = true;
}

bool standard_output_written(void) { return flush_all() && !ferror(stdout) && !lost; }

bool standard_unread(void) {
  if (standard_output_written() || why != EPIPE) return false;
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0) return false;
  close(nowhere);
  shown.n = 0, lost = false;
  clearerr(stdout);
  return standard_output_written();
}
