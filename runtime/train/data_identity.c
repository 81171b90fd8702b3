/* runtime/train/data_identity.c - see data_identity.h. */
#include "runtime/train/data_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/read_at.h"

enum { PIECE = 1 << 20, PIECES = 1024 };

void data_identity_begin(DataIdentity *d) {
  d->bytes = 0;
  hash64_begin(&d->hash, 0);
}

static bool add_pieces(DataIdentity *d, int fd, uint64_t bytes, char *piece) {
  const uint64_t all = (bytes + PIECE - 1) / PIECE, n = all < PIECES ? all : PIECES;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t at = n == all ? i * PIECE : (bytes - PIECE) / (PIECES - 1) * i;
    if (n < all && i + 1 == n) at = bytes - PIECE;
    const uint64_t here = bytes - at < PIECE ? bytes - at : PIECE;
    if (!read_at(fd, at, piece, here)) return false;
    hash64_add(&d->hash, piece, (size_t)here);
  }
  d->bytes += bytes;
  return true;
}

bool data_identity_add(DataIdentity *d, const char *path) {
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char *piece = malloc(PIECE);
  bool ok = piece && fstat(fd, &info) == 0 && add_pieces(d, fd, (uint64_t)info.st_size, piece);
  int why = errno;
  free(piece);
  close(fd);
  errno = why;
  return ok;
}

void data_identity_text(const DataIdentity *d, char *text, int size) {
  snprintf(text, (size_t)size, "%" PRIu64 " bytes, hash %016" PRIx64, d->bytes, hash64_end(&d->hash));
}
