/* runtime/launch/limit.c - see limit.h. */
#include "runtime/launch/limit.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LOOK_MS = 100 };

struct Limit {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t ended;
  bool over; /* guarded by the lock */
  int left_ms;
  WatchStuck stuck;
  char text[RT_ERROR_TEXT];
};

/* Each look counts LOOK_MS, however long it took. */
static void *count(void *argument) {
  Limit *l = argument;
  pthread_mutex_lock(&l->lock);
  while (!l->over && l->left_ms > 0) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += LOOK_MS * 1000000L;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&l->ended, &l->lock, &t);
    l->left_ms -= LOOK_MS;
  }
  bool late = !l->over;
  pthread_mutex_unlock(&l->lock);
  if (late) l->stuck(rt_exit_code(RT_LATE), l->text);
  return NULL;
}

Limit *limit_begin(int milliseconds, WatchStuck stuck, const char *format, ...) {
  Limit *l = stuck ? calloc(1, sizeof *l) : NULL;
  if (!l) return NULL;
  va_list args;
  va_start(args, format);
  vsnprintf(l->text, sizeof l->text, format, args);
  va_end(args);
  l->left_ms = milliseconds;
  l->stuck = stuck;
  pthread_mutex_init(&l->lock, NULL);
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC); /* the time of day may be set meanwhile */
  pthread_cond_init(&l->ended, &clock);
  pthread_condattr_destroy(&clock);
  if (pthread_create(&l->thread, NULL, count, l) == 0) return l;
  free(l);
  return NULL;
}

void limit_end(Limit *l) {
  if (!l) return;
  pthread_mutex_lock(&l->lock);
  l->over = true;
  pthread_cond_signal(&l->ended);
  pthread_mutex_unlock(&l->lock);
  pthread_join(l->thread, NULL);
  pthread_cond_destroy(&l->ended);
  pthread_mutex_destroy(&l->lock);
  free(l);
}
