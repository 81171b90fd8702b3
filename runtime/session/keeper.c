/* runtime/session/keeper.c - the thread that starts, watches and ends the ranks; see session.h.
 *
 * Every WATCH_MS, or when a rank rings the watch bell, it asks the kernel which ranks ended or were stopped, and checks
 * their signs of progress (lateness.h).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "runtime/session/host.h"

enum { WATCH_MS = 50, GRACE_MS = 100, LEAVE_MS = 1000, REAP_MS = 2, STARTING_FAILED = 2 };

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void nap(int milliseconds) {
  struct timespec t = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  nanosleep(&t, NULL);
}

/* ---- processes ---- */

static RtStatus start_ranks(Session *s, RtError *error) {
  for (int i = 0; i < s->options.world; i++) {
    RankProcess *p = &s->ranks[i];
    snprintf(s->rank_text, sizeof s->rank_text, "%d", i);
    SpawnPlan plan = {.path = *s->program_text ? s->program_text : s->path,
                      .argv = s->argv,
                      .envp = s->envp,
                      .kept = s->kept,
                      .n_kept = s->n_kept,
                      .host_pid = s->control->host_pid,
                      .hands_on = s->options.hands_on,
                      .signals = s->signals,
                      .cpus = s->pinned ? &p->cpus : NULL,
                      .cpu_bytes = sizeof p->cpus};
    p->pid = session_spawn(&plan);
    if (p->pid < 0) return rt_error_errno(error, RT_FAILED, "starting rank %d (%s)", i, s->path);
    p->alive = true;
  }
  return RT_OK;
}

/* Finds out whether a rank ended, stopped or continued since the last look. */
static void look(RankProcess *p, RankSigns *signs) {
  while (p->alive) {
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) != 0) {
      if (errno == EINTR) continue;
      p->alive = false; /* ECHILD: another part of the host reaped it, or SIGCHLD is ignored */
      return;
    }
    if (info.si_pid == 0) return;
    if (info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED) {
      signs->stopped = true;
    } else if (info.si_code == CLD_CONTINUED) {
      signs->stopped = false;
    } else {
      p->alive = false;
      p->exit_code = info.si_code;
      p->exit_status = info.si_status;
    }
  }
}

static int look_at_all(Session *s) {
  int alive = 0;
  for (int i = 0; i < s->options.world; i++) {
    look(&s->ranks[i], &s->lateness.ranks[i]);
    alive += s->ranks[i].alive;
  }
  return alive;
}

/* Gives the ranks some time to leave, then kills and reaps the rest. */
static void end_ranks(Session *s, int grace_ms) {
  int64_t limit = now_ms() + grace_ms;
  while (look_at_all(s) > 0 && now_ms() < limit) nap(REAP_MS);
  for (int i = 0; i < s->options.world; i++)
    if (s->ranks[i].alive) kill(s->ranks[i].pid, SIGKILL);
  while (look_at_all(s) > 0) nap(REAP_MS);
}

/* ---- failures ---- */

/* Returns the reason of a rank that could not even map the session, and so could not report it (session_rank_open). */
static const char *reason(const Session *s, int rank) {
  bool unready = atomic_load(&s->lateness.slots[rank].place.beats) == 0;
  return unready && s->ranks[rank].exit_status == rt_exit_code(RT_FAILED) ? ": there was no memory for it" : "";
}

static RtStatus report_death(const Session *s, int rank, RtError *error) {
  const RankProcess *p = &s->ranks[rank];
  char place[RT_ERROR_TEXT] = "";
  lateness_place(&s->lateness, rank, place, sizeof place);
  if (p->exit_code == CLD_KILLED || p->exit_code == CLD_DUMPED)
    return rt_error(error, RT_FAILED, "rank %d was killed by signal %d (%s)%s", rank, p->exit_status,
                    strsignal(p->exit_status), place);
  if (p->exit_code == CLD_EXITED)
    return rt_error(error, RT_FAILED, "rank %d exited with code %d%s%s", rank, p->exit_status, place, reason(s, rank));
  return rt_error(error, RT_FAILED, "rank %d ended%s", rank, place);
}

/* Ranks end only on command, so any other end is a failure; a signal explains more than an exit. */
static RtStatus find_death(const Session *s, RtError *error) {
  int dead = -1;
  for (int i = 0; i < s->options.world; i++) {
    const RankProcess *p = &s->ranks[i];
    if (p->alive) continue;
    if (dead < 0 || (s->ranks[dead].exit_code == CLD_EXITED && p->exit_code != CLD_EXITED)) dead = i;
  }
  return dead < 0 ? RT_OK : report_death(s, dead, error);
}

/* Finds a failure that a rank reported; if there are several, the lowest rank's. */
static RtStatus find_report(const Session *s, RtError *error) {
  for (int i = 0; i < s->options.world; i++) {
    const SessionSlot *slot = &s->control->slots[i];
    if (!atomic_load(&slot->failed)) continue;
    RtStatus status = slot->failure.status;
    if ((unsigned)status >= RT_STATUS_COUNT || status == RT_OK) status = RT_FAILED;
    char place[RT_ERROR_TEXT] = "";
    lateness_place(&s->lateness, i, place, sizeof place);
    return rt_error(error, status, "rank %d%s: %.*s", i, place, RT_ERROR_TEXT - 1, slot->failure.text);
  }
  return RT_OK;
}

/* ---- the thread ---- */

/* True if ranks still write the file of an earlier request, and all of it can be there in the end. */
static bool write_file(const Session *s, uint64_t *pieces) {
  bool some = false;
  for (int i = 0; i < s->options.world; i++) {
    const uint64_t writing = atomic_load(&s->control->slots[i].place.writing);
    if (writing && (!s->ranks[i].alive || s->lateness.ranks[i].stopped)) return false;
    some = some || writing;
    *pieces += writing;
  }
  return some;
}

/* Waits until the ranks have written a file that they write beside requests, unless one makes no progress for the
 * time-out. */
static void let_write(Session *s) {
  int64_t changed = now_ms();
  for (uint64_t before = 0, pieces = 0; write_file(s, &pieces); before = pieces, pieces = 0) {
    if (pieces != before) changed = now_ms();
    if (now_ms() - changed > s->lateness.timeout_ms || atomic_load(&s->stopping)) return;
    nap(REAP_MS);
    look_at_all(s);
  }
}

/* Records the failure and ends all ranks.  Reports of ranks, which may arrive meanwhile, explain more than a death
 * does. */
static void end_with(Session *s, const RtError *found) {
  SessionControl *c = s->control;
  transport_local_abort_all((char *)c + c->transport_offset, s->options.world);
  atomic_store(&c->leave, 1);
  session_ring(&c->command);
  const bool goes_on = s->options.may_leave && (found->status == RT_FAILED || found->status == RT_LATE);
  if (!goes_on) let_write(s); /* a run that goes on with other ranks has newer states */
  end_ranks(s, GRACE_MS);
  RtError error = {0};
  if (find_report(s, &error) == RT_OK) error = *found;
  pthread_mutex_lock(&s->lock);
  s->failure = error;
  pthread_mutex_unlock(&s->lock);
  atomic_store(&c->ended, 1);
  session_ring(&c->host_bell);
}

static bool watch_once(Session *s, RtError *error) {
  look_at_all(s);
  return find_report(s, error) != RT_OK || find_death(s, error) != RT_OK || lateness_find(&s->lateness, error) != RT_OK;
}

static void watch(Session *s) {
  SessionControl *c = s->control;
  bool ended = false;
  lateness_begin(&s->lateness);
  while (!atomic_load(&s->stopping)) {
    uint32_t bell = atomic_load(&c->watch_bell);
    RtError error = {0};
    if (!ended && watch_once(s, &error)) {
      end_with(s, &error);
      ended = true;
    }
    if (!atomic_load(&s->stopping)) session_sleep(&c->watch_bell, bell, WATCH_MS);
  }
}

static void *keeper(void *argument) {
  Session *s = argument;
  RtError error = {0};
  if (start_ranks(s, &error) != RT_OK) {
    end_ranks(s, 0);
    pthread_mutex_lock(&s->lock);
    s->failure = error;
    pthread_mutex_unlock(&s->lock);
    atomic_store(&s->started, STARTING_FAILED);
    session_ring(&s->started);
    return NULL;
  }
  session_ring(&s->started);
  watch(s);
  end_ranks(s, atomic_load(&s->stopping) == STOP_ORDERLY ? LEAVE_MS : 0);
  return NULL;
}

RtStatus session_keeper_start(Session *s, RtError *error) {
  sigset_t all; /* the caller's signal handlers do not run in our thread */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &s->signals);
  int number = pthread_create(&s->keeper, NULL, keeper, s);
  pthread_sigmask(SIG_SETMASK, &s->signals, NULL);
  if (number != 0) return rt_error(error, RT_FAILED, "starting the watchdog's thread: %s", strerror(number));
  while (atomic_load(&s->started) == 0) session_sleep(&s->started, 0, 1000);
  /* session_wait reports failures of ranks that did start, even one that has already happened. */
  if (atomic_load(&s->started) < STARTING_FAILED) return RT_OK;
  pthread_join(s->keeper, NULL);
  return rt_error(error, s->failure.status, "%s", s->failure.text);
}
