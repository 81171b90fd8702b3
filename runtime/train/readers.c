/* runtime/train/readers.c - see readers.h. */
#include "runtime/train/readers.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

typedef struct Reader {
  Readers *all;
  int number;
  pthread_t thread;
} Reader;

struct Readers {
  ReadersWork *work;
  void *context;
  int n;
  Reader list[READERS_MOST];
  pthread_mutex_t lock;
  pthread_cond_t begun, done;
  unsigned long round; /* increases with each piece of work */
  int busy;            /* threads that have not done their share */
  bool over;
};

static void *serve(void *context) {
  const Reader *me = context;
  Readers *r = me->all;
  pthread_mutex_lock(&r->lock);
  for (unsigned long seen = 0;;) {
    while (r->round == seen && !r->over) pthread_cond_wait(&r->begun, &r->lock);
    if (r->over) break;
    seen = r->round;
    pthread_mutex_unlock(&r->lock);
    r->work(r->context, me->number, r->n);
    pthread_mutex_lock(&r->lock);
    if (--r->busy == 0) pthread_cond_signal(&r->done);
  }
  pthread_mutex_unlock(&r->lock);
  return NULL;
}

Readers *readers_open(int n, ReadersWork *work, void *context) {
  Readers *r = calloc(1, sizeof *r);
  sigset_t all, before;
  int why = 0;
  if (!r) return NULL;
  r->work = work, r->context = context;
  pthread_mutex_init(&r->lock, NULL);
  pthread_cond_init(&r->begun, NULL);
  pthread_cond_init(&r->done, NULL);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int started = 0; started < n && !why; started++) {
    Reader *x = &r->list[started];
    *x = (Reader){.all = r, .number = started};
    why = pthread_create(&x->thread, NULL, serve, x);
    if (!why) r->n++; /* no thread reads it before the first round */
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!why) return r;
  readers_close(r);
  errno = why;
  return NULL;
}

void readers_begin(Readers *r) {
  if (!r->n) {
    r->work(r->context, 0, 1);
    return;
  }
  pthread_mutex_lock(&r->lock);
  r->round++, r->busy = r->n;
  pthread_cond_broadcast(&r->begun);
  pthread_mutex_unlock(&r->lock);
}

void readers_wait(Readers *r) {
  pthread_mutex_lock(&r->lock);
  while (r->busy) pthread_cond_wait(&r->done, &r->lock);
  pthread_mutex_unlock(&r->lock);
}

void readers_close(Readers *r) {
  if (!r) return;
  readers_wait(r);
  pthread_mutex_lock(&r->lock);
  r->over = true;
  pthread_cond_broadcast(&r->begun);
  pthread_mutex_unlock(&r->lock);
  for (int i = 0; i < r->n; i++) pthread_join(r->list[i].thread, NULL);
  pthread_cond_destroy(&r->done);
  pthread_cond_destroy(&r->begun);
  pthread_mutex_destroy(&r->lock);
  free(r);
}
