/* bench/meet.c - how long ranks on one machine take to meet and to connect to each other: rendezvous_meet and
 * rendezvous_connect of N processes on the loopback, from the moment when all have started until the last one is done.
 *
 * usage: bench_meet [RANKS [ROUNDS]]      (4, 200) */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/launch/rendezvous.h"

typedef struct Shared {
  _Atomic int ready, go, through;
  _Atomic int64_t begin, meeting, end; /* nanoseconds; the latest of all ranks */
} Shared;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void note_last(_Atomic int64_t *last) {
  int64_t now = now_ns(), before = atomic_load(last);
  while (before < now && !atomic_compare_exchange_weak(last, &before, now)) continue;
}

static void fail(const RtError *error) {
  fprintf(stderr, "error: %s\n", error->text);
  _exit(1);
}

/* Rank 0 listens before the others try to connect, so that none of them sleeps. */
static void be_rank(Shared *s, int rank, int world, const char *address) {
  Rendezvous r = {.rank = rank, .world = world, .address = address, .timeout_ms = 10000, .key = {.key = "a key"}};
  Meeting *m = calloc(1, sizeof *m);
  RtError error = {0};
  if (!m) _exit(1);
  atomic_fetch_add(&s->ready, 1);
  while (atomic_load(&s->go) <= (rank > 0)) usleep(50);
  if (rank == 0) atomic_store(&s->begin, now_ns());
  if (rank == 0) atomic_fetch_add(&s->go, 1);
  if (rank > 0) usleep(100);
  if (rendezvous_meet(&r, m, &error)) fail(&error);
  note_last(&s->meeting);
  if (rendezvous_connect(&r, m, -1, &error)) fail(&error);
  note_last(&s->end);
  rendezvous_close(m);
  _exit(0);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
  int world = argc > 1 ? atoi(argv[1]) : 4, rounds = argc > 2 ? atoi(argv[2]) : 200, status;
  Shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  double *meet = calloc((size_t)rounds, sizeof *meet), *all = calloc((size_t)rounds, sizeof *all);
  if (s == MAP_FAILED || !meet || !all || world < 2 || world > 1024 || rounds < 1) return 2;
  for (int i = 0; i < rounds; i++) {
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%d", 20000 + ((int)getpid() + i) % 12000);
    memset(s, 0, sizeof *s);
    for (int rank = 0; rank < world; rank++)
      if (fork() == 0) be_rank(s, rank, world, address);
    while (atomic_load(&s->ready) < world) usleep(50);
    atomic_store(&s->go, 1);
    for (int rank = 0; rank < world; rank++)
      if (wait(&status) < 0 || status) return 1;
    meet[i] = (double)(s->meeting - s->begin) * 1e-6;
    all[i] = (double)(s->end - s->begin) * 1e-6;
  }
  qsort(meet, (size_t)rounds, sizeof *meet, ascending);
  qsort(all, (size_t)rounds, sizeof *all, ascending);
  printf(
      "%d ranks, %d rounds: met after least %.3f ms, median %.3f ms; all connected after least %.3f ms, median %.3f "
      "ms\n",
      world, rounds, meet[0], meet[rounds / 2], all[0], all[rounds / 2]);
  return 0;
}
