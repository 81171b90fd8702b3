/* runtime/train/elastic.c - see elastic.h. */
#define _GNU_SOURCE
#include "runtime/train/elastic.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/host/host.h"
#include "runtime/launch/regroup.h"

enum { COPIES = 2, BACK_STEPS = 10 };

struct Elastic {
  ApcModel *m;
  const Training *t;
  Series *series;
  int full; /* ranks at the beginning */
  int fds[COPIES];
  int64_t steps[COPIES]; /* of a complete copy; -1: there is none */
  int newest;            /* the last complete copy; -1: there is none */
  uint64_t bytes;        /* of a copy */
  int64_t copies;        /* made so far */
  double copy_s;         /* all of them together */
  int64_t lost_at;       /* steps made when the last ranks were lost */
  int64_t stuck_at;      /* steps made at the last loss without a smaller number of ranks; -1: none */
  int losses, gains;
};

static const char *plural(int n) { return n == 1 ? "" : "s"; }

/* ---- copies */

static ApcStatus make_copies(Elastic *e) {
  for (int i = 0; i < COPIES; i++) {
    int fd = memfd_create("apc-states", MFD_CLOEXEC);
    e->fds[i] = fd < 0 || fd > 2 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (fd >= 0 && fd != e->fds[i]) close(fd);
    if (e->fds[i] < 0) return host_error(e->m, RT_FAILED, "memory for copies of the states: %s", strerror(errno));
  }
  return APC_OK;
}

ApcStatus elastic_open(ApcModel *m, const Training *t, Series *series, Elastic **out) {
  Elastic *e = *out = calloc(1, sizeof *e);
  if (!e) return host_error(m, RT_FAILED, "out of memory");
  *e = (Elastic){
      .m = m, .t = t, .series = series, .full = apc_ranks(m), .fds = {-1, -1}, .steps = {-1, -1}, .newest = -1};
  e->stuck_at = -1;
  m->elastic = true;
  return make_copies(e);
}

void elastic_close(Elastic *e) {
  if (!e) return;
  if (e->copies)
    trainer_say(&e->t->watch, false,
                "elastic: %d rank%s lost, %d started again; two copies of all states in memory, %.1f MB each, made in "
                "%.2f ms a step",
                e->losses, plural(e->losses), e->gains, (double)e->bytes * 1e-6, e->copy_s / (double)e->copies * 1e3);
  for (int i = 0; i < COPIES; i++)
    if (e->fds[i] >= 0) close(e->fds[i]);
  e->m->elastic = false;
  free(e);
}

static ApcStatus copy_states(Elastic *e, int64_t made) {
  int to = e->newest == 0 ? 1 : 0;
  double begin = host_now();
  e->steps[to] = -1;
  ApcStatus status = host_write_memory(e->m, "states", e->fds[to], &e->bytes);
  if (status) return status;
  e->steps[to] = made;
  e->newest = to;
  e->copies++;
  e->copy_s += host_now() - begin;
  return APC_OK;
}

/* ---- other numbers of ranks */

/* Gives the ranks the newest states: of the copy, of the checkpoint that the run began with, or the initial ones. */
static ApcStatus load_states(Elastic *e, Dataset *data, int64_t *made, const char **from) {
  static const TrainWatch quiet = {0};
  *made = 0;
  *from = "the beginning";
  if (e->newest >= 0) {
    *from = "memory";
    *made = e->steps[e->newest];
    return host_read_memory(e->m, "restore", e->fds[e->newest]);
  }
  if (!e->t->resume) return APC_OK;
  *from = "the checkpoint";
  return checkpoint_read(e->m, e->t->resume, made, data, &quiet);
}

static ApcStatus go_on(Elastic *e, int ranks, Dataset *data, int64_t *made, const char *why) {
  const char *from = "";
  double begin = host_now();
  ApcStatus status = host_switch(e->m, ranks);
  if (!status) status = load_states(e, data, made, &from);
  if (!status)
    trainer_say(&e->t->watch, false, "elastic: %s; %d rank%s go%s on after step %" PRId64 ", states from %s, in %.3f s",
                why, ranks, plural(ranks), ranks == 1 ? "es" : "", *made, from, host_now() - begin);
  return status;
}

/* Chooses the number of ranks after `gone` of them are no more: the next smaller one, or the smallest again if the run
 * made a step since that was last chosen.  0: the run ends. */
static int fewer(Elastic *e, int gone, int64_t made) {
  const Artifact *a = &e->m->artifact;
  int now = apc_ranks(e->m), ranks = regroup_world(a->worlds, a->n_worlds, now - gone);
  for (int most = now - 1; !ranks && most > 0 && gone > 1; most--) ranks = regroup_world(a->worlds, a->n_worlds, most);
  if (ranks) return ranks;
  if (e->stuck_at == made) return 0;
  e->stuck_at = made;
  return now;
}

/* Counts ranks that are no more, and those that were started at once in their place. */
static void count_lost(Elastic *e, int gone, int ranks) {
  const int left = apc_ranks(e->m) - gone;
  e->losses += gone;
  if (ranks > left) e->gains += ranks - left;
}

ApcStatus elastic_recover(Elastic *e, ApcStatus status, Dataset *data, int64_t *made) {
  while (status && e && e->m->lost) {
    const RtError why = e->m->error;
    int ranks = fewer(e, 1, *made);
    e->m->lost = false;
    if (!ranks) {
      trainer_say(&e->t->watch, true, "elastic: no step was made since the last rank was lost; the run ends");
      e->m->error = why;
      return status;
    }
    count_lost(e, 1, ranks);
    status = go_on(e, ranks, data, made, why.text);
    series_lost(e->series, *made);
    e->lost_at = *made;
  }
  return status;
}

ApcStatus elastic_keep(Elastic *e, int64_t made) {
  ApcStatus status = copy_states(e, made);
  int leaving = status ? 0 : host_leaving(e->m);
  if (leaving) status = series_wait(e->series);
  if (status || !leaving) return status;
  char why[100];
  snprintf(why, sizeof why, "%d rank%s asked to leave", leaving, plural(leaving));
  int ranks = fewer(e, leaving, made);
  if (!ranks) ranks = apc_ranks(e->m);
  count_lost(e, leaving, ranks);
  e->lost_at = made;
  return go_on(e, ranks, NULL, &made, why);
}

ApcStatus elastic_take_back(Elastic *e, int64_t made, bool checkpoint) {
  const bool periodic = e->t->checkpoint && (e->t->every || e->t->every_s > 0);
  const int missing = e->full - apc_ranks(e->m);
  if (missing <= 0 || (periodic ? !checkpoint : made - e->lost_at < BACK_STEPS)) return APC_OK;
  char why[100];
  snprintf(why, sizeof why, "%d rank%s started again", missing, plural(missing));
  ApcStatus status = series_wait(e->series);
  if (!status) status = go_on(e, e->full, NULL, &made, why);
  if (!status) e->gains += missing;
  return status;
}
