/* runtime/comm/contention.c - see contention.h. */
#define _GNU_SOURCE
#include "runtime/comm/contention.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)

enum { HOLE = 100000, PART = 8 }; /* HOLE: nanoseconds; PART: 1/PART of the time */
#define STRETCH (4 * MS)          /* least time between two looks, and least time wanted on a core */
#define PAUSE_LEAST (20 * MS)
#define PAUSE_MOST (1000 * MS)

static int64_t read_clock(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t contention_clock(void) { return read_clock(CLOCK_MONOTONIC); }

/* Interrupts cause shorter ones. */
void contention_hole(ContentionWatch *w, int64_t ns) {
  if (ns >= HOLE) w->holes += ns;
}

/* Returns the nanoseconds that the thread waited for a core, the second number of schedstat ("run time, wait time,
 * slices"); 0 if the system does not count them. */
static int64_t read_delay(ContentionWatch *w) {
  char text[96];
  if (w->file == 0) {
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    w->file = fd < 0 ? -1 : fd + 1;
  }
  ssize_t n = w->file > 0 ? pread(w->file - 1, text, sizeof text - 1, 0) : -1;
  if (n <= 0) return 0;
  text[n] = 0;
  char *rest;
  strtoll(text, &rest, 10);
  return strtoll(rest, NULL, 10);
}

/* If cores are contended again before they were free for as long as the last pause, the pause doubles. */
void contention_judge(Contention *c, int64_t now, int64_t ran, int64_t delayed) {
  if (delayed * PART < ran + delayed) return;
  int64_t until = atomic_load(&c->until), pause = atomic_load(&c->pause);
  if (now >= until) {
    pause = until == 0 || now - until >= pause ? PAUSE_LEAST : 2 * pause < PAUSE_MOST ? 2 * pause : PAUSE_MOST;
    atomic_store(&c->pause, pause);
  }
  atomic_store(&c->until, now + pause);
}

static void look(Contention *c, ContentionWatch *w, int64_t now) {
  int64_t cpu = read_clock(CLOCK_THREAD_CPUTIME_ID), delay = read_delay(w), ran = cpu - w->cpu,
          delayed = delay - w->delay;
  if (w->holes > delayed) delayed = w->holes;
  bool first = w->looked == 0;
  w->looked = now;
  if (!first && ran + delayed < STRETCH) return;
  w->cpu = cpu, w->delay = delay, w->holes = 0;
  if (!first) contention_judge(c, now, ran, delayed);
}

int64_t contention_spin(Contention *c, ContentionWatch *w, int64_t now) {
  if (now - w->looked >= STRETCH) look(c, w, now);
  return now < atomic_load_explicit(&c->until, memory_order_relaxed) ? CONTENTION_SPIN_CONTENDED : CONTENTION_SPIN;
}

bool contention_may_spin(Contention *c, ContentionWatch *w, bool first) {
  int64_t now = contention_clock();
  if (first) w->waiting = now;
  else contention_hole(w, now - w->seen);
  w->seen = now;
  return now - w->waiting < contention_spin(c, w, now);
}

void contention_slept(ContentionWatch *w) { w->seen = contention_clock(); }
