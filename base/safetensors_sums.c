/* base/safetensors_sums.c - see safetensors_sums.h. */
#define _GNU_SOURCE /* memmem */
#include "base/safetensors_sums.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/hash.h"
#include "base/read_at.h"

enum { DIGITS = 16, EACH = DIGITS + 1, PIECE = 4 << 20 };

size_t safetensors_sums_length(size_t n) { return (n + 1) * EACH - 1; }

const char *safetensors_sums_room(Arena *a, size_t n) {
  size_t length = safetensors_sums_length(n);
  char *text = ARENA_ARRAY(a, char, length + 1);
  for (size_t i = 0; i < length; i++) text[i] = i % EACH == DIGITS ? ' ' : '0';
  return text;
}

/* A quote inside a name or a value is escaped with a backslash, so this text occurs only as a key. */
size_t safetensors_sums_place(const char *bytes, size_t n) {
  static const char key[] = "\"" SAFETENSORS_SUMS "\":\"";
  const char *at = memmem(bytes, n, key, sizeof key - 1);
  return at ? (size_t)(at - bytes) + sizeof key - 1 : 0;
}

/* The hash of the header with zeros for its checksums. */
static uint64_t sum_of_header(const char *header, size_t n, size_t tensors) {
  const size_t at = safetensors_sums_place(header, n), end = at + safetensors_sums_length(tensors);
  Hash64 h;
  hash64_begin(&h, 0);
  hash64_add(&h, header, at);
  for (size_t i = at; i < end; i++) hash64_add(&h, (i - at) % EACH == DIGITS ? header + i : "0", 1);
  hash64_add(&h, header + end, n - end);
  return hash64_end(&h);
}

static int by_name(const void *x, const void *y) {
  return strcmp(((const SafetensorsSum *)x)->name, ((const SafetensorsSum *)y)->name);
}

void safetensors_sums_text(const char *header, size_t n, SafetensorsSum *list, size_t tensors, char *text) {
  qsort(list, tensors, sizeof *list, by_name);
  int at = sprintf(text, "%016llx", (unsigned long long)sum_of_header(header, n, tensors));
  for (size_t i = 0; i < tensors; i++) at += sprintf(text + at, " %016llx", (unsigned long long)list[i].sum);
}

/* ---- checking */

static bool sum_of_tensor(int fd, const SafetensorsEntry *t, char *piece, uint64_t *sum) {
  const size_t size = dtype_bytes(t->dtype);
  *sum = 0;
  for (uint64_t done = 0; done < t->bytes;) {
    uint64_t n = t->bytes - done < (uint64_t)PIECE ? t->bytes - done : (uint64_t)PIECE;
    if (!read_at(fd, t->offset + done, piece, n)) return false;
    *sum += checksum_part(done / size, piece, (size_t)n / size, size);
    done += n;
  }
  return true;
}

static const char *failure(void) { return errno == ENODATA ? "it is cut short" : strerror(errno); }

/* Reads the bytes before the data; allocated with malloc, NULL with errno on failure. */
static char *read_header(int fd, size_t *n) {
  uint64_t length;
  if (!read_at(fd, 0, &length, sizeof length)) return NULL;
  *n = sizeof length + (size_t)length; /* safetensors_open_header read that many already */
  char *bytes = malloc(*n + 1);
  if (bytes && read_at(fd, 0, bytes, *n)) return bytes;
  free(bytes);
  return NULL;
}

static SafetensorsChecked check_tensors(int fd, const Safetensors *s, const char *value, const char **wrong) {
  char *piece = malloc(PIECE);
  SafetensorsChecked found = piece ? SUMS_RIGHT : SUMS_UNREADABLE;
  if (!piece) *wrong = "out of memory";
  for (size_t i = 0; i < s->n && found == SUMS_RIGHT; i++) {
    uint64_t sum;
    char text[DIGITS + 1];
    if (!sum_of_tensor(fd, &s->items[i], piece, &sum)) {
      found = SUMS_UNREADABLE, *wrong = failure();
      continue;
    }
    snprintf(text, sizeof text, "%016llx", (unsigned long long)sum);
    if (strncmp(value + (i + 1) * EACH, text, DIGITS) != 0) found = SUMS_WRONG, *wrong = s->items[i].name;
  }
  free(piece);
  return found;
}

static SafetensorsChecked check_file(int fd, const Safetensors *s, const char *value, const char **wrong) {
  size_t n;
  char *header = read_header(fd, &n), text[DIGITS + 1];
  if (!header) return *wrong = failure(), SUMS_UNREADABLE;
  const size_t at = safetensors_sums_place(header, n), length = safetensors_sums_length(s->n);
  bool right = at && n - at > length && strlen(value) == length;
  if (right) snprintf(text, sizeof text, "%016llx", (unsigned long long)sum_of_header(header, n, s->n));
  right = right && strncmp(value, text, DIGITS) == 0;
  free(header);
  if (right) return check_tensors(fd, s, value, wrong);
  *wrong = "the header";
  return SUMS_WRONG;
}

SafetensorsChecked safetensors_sums_check(const Safetensors *s, const char **wrong) {
  const char *value = safetensors_meta(s, SAFETENSORS_SUMS);
  if (!value) return SUMS_NONE;
  int fd = open(s->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return *wrong = strerror(errno), SUMS_UNREADABLE;
  SafetensorsChecked found = check_file(fd, s, value, wrong);
  close(fd);
  return found;
}
