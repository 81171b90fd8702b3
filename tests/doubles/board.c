/* tests/doubles/board.c - see board.h.
 *
 * Every rank has room for 2^34 bytes, every channel for 2^32, in a sparse file: only written pages take memory.  A
 * board is as large as its ranks need, since address space is limited too: a process has 2^47 bytes, and many
 * communicators. */
#define _GNU_SOURCE
#include "tests/doubles/board.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint64_t GIVEN = UINT64_C(1) << 34, MESSAGE = UINT64_C(1) << 32, HEAD = UINT64_C(1) << 20;

static uint64_t board_bytes(int ranks) {
  return HEAD + (uint64_t)ranks * GIVEN + (uint64_t)ranks * (uint64_t)ranks * MESSAGE;
}

static void name_of(char *to, size_t n, uint64_t id) {
  const char *dir = getenv("DOUBLES_SHARED");
  snprintf(to, n, "%s/double-%016llx", dir && *dir ? dir : "/dev/shm", (unsigned long long)id);
}

Board *board_open(uint64_t id, int ranks) {
  char name[4200];
  _Static_assert(sizeof(Board) <= 1 << 20, "the head of the file");
  name_of(name, sizeof name, id);
  int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return NULL;
  uint64_t bytes = board_bytes(ranks);
  Board *b = ftruncate(fd, (off_t)bytes) ? MAP_FAILED
                                         : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  close(fd);
  if (b == MAP_FAILED) return NULL;
  atomic_store(&b->ranks, ranks);
  return b;
}

void board_unname(uint64_t id) {
  char name[4200];
  name_of(name, sizeof name, id);
  unlink(name);
}

void board_close(Board *b) {
  if (b) munmap(b, board_bytes(b->ranks));
}

char *board_given(Board *b, int rank) { return (char *)b + HEAD + (uint64_t)rank * GIVEN; }
char *board_message(Board *b, int from, int to) {
  return (char *)b + HEAD + (uint64_t)b->ranks * GIVEN + (uint64_t)(from * b->ranks + to) * MESSAGE;
}

void board_forget(Board *b, char *at, uint64_t bytes) {
  enum { WORTH = 1 << 20 };
  (void)b;
  if (bytes >= WORTH) madvise(at, bytes, MADV_REMOVE);
}
