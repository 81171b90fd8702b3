/* runtime/session_keeper.c - the thread that starts, watches and ends the ranks; see session.h.
 *
 * Every WATCH_MS, or when a rank rings the watch bell, it asks the kernel which ranks ended or were stopped and
 * looks at their signs of progress.  Lateness is measured on a clock of its own that advances at most
 * CLOCK_STEP_MS per look, so that suspending the whole program (Ctrl-Z, a debugger) makes nobody late.
 *
 * Who is named when ranks wait for each other: a stopped rank first, then the one that is not waiting in a
 * collective and moved least recently, then the one at the smallest order key.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "runtime/session_host.h"

enum { WATCH_MS = 50, CLOCK_STEP_MS = 200, GRACE_MS = 100, LEAVE_MS = 1000, REAP_MS = 2, STARTING_FAILED = 2 };

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
    SpawnPlan plan = {.path = s->path, .argv = s->argv, .envp = s->envp, .fd = s->fd,
                      .host_pid = s->control->host_pid, .signals = s->signals,
                      .cpus = s->pinned ? &p->cpus : NULL, .cpu_bytes = sizeof p->cpus};
    p->pid = session_spawn(&plan);
    if (p->pid < 0) return rt_error_errno(error, RT_FAILED, "starting rank %d (%s)", i, s->path);
    p->alive = true;
  }
  return RT_OK;
}

/* Learns what happened to one rank since the last look. */
static void look(RankProcess *p) {
  while (p->alive) {
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) != 0) {
      if (errno == EINTR) continue;
      p->alive = false; /* ECHILD: reaped by somebody else, or SIGCHLD is ignored */
      return;
    }
    if (info.si_pid == 0) return;
    if (info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED) {
      p->stopped = true;
    } else if (info.si_code == CLD_CONTINUED) {
      p->stopped = false;
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
    look(&s->ranks[i]);
    alive += s->ranks[i].alive;
  }
  return alive;
}

/* Gives the ranks some time to leave, then kills and reaps what is left. */
static void end_ranks(Session *s, int grace_ms) {
  int64_t limit = now_ms() + grace_ms;
  while (look_at_all(s) > 0 && now_ms() < limit) nap(REAP_MS);
  for (int i = 0; i < s->options.world; i++)
    if (s->ranks[i].alive) kill(s->ranks[i].pid, SIGKILL);
  while (look_at_all(s) > 0) nap(REAP_MS);
}

/* ---- what is wrong ---- */

static void add_text(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void add_text(char *text, size_t size, const char *format, ...) {
  size_t n = strlen(text);
  va_list args;
  va_start(args, format);
  vsnprintf(text + n, size - n, format, args);
  va_end(args);
}

/* " at step 17 (all_reduce of h3 over tp), waiting in all_reduce at order key 40" */
static void describe_place(const Session *s, int rank, char *text, size_t size) {
  const SessionSlot *slot = &s->control->slots[rank];
  uint32_t step = atomic_load(&slot->place.step);
  char what[512] = "";
  if (atomic_load(&slot->place.beats) == 0) {
    add_text(text, size, " before it was ready");
    return;
  }
  if (s->options.step_text) s->options.step_text(s->options.step_context, rank, step, what, sizeof what);
  add_text(text, size, " at step %u", step);
  if (what[0]) add_text(text, size, " (%s)", what);
  if (atomic_load(&slot->progress.waiting))
    add_text(text, size, ", waiting in %s at order key %llu",
             comm_kind_name((CommKind)atomic_load(&slot->progress.kind)),
             (unsigned long long)atomic_load(&slot->progress.key));
}

static RtStatus report_death(const Session *s, int rank, RtError *error) {
  const RankProcess *p = &s->ranks[rank];
  char place[RT_ERROR_TEXT] = "";
  describe_place(s, rank, place, sizeof place);
  if (p->exit_code == CLD_KILLED || p->exit_code == CLD_DUMPED)
    return rt_error(error, RT_FAILED, "rank %d was killed by signal %d (%s)%s", rank, p->exit_status,
                    strsignal(p->exit_status), place);
  if (p->exit_code == CLD_EXITED)
    return rt_error(error, RT_FAILED, "rank %d exited with code %d%s", rank, p->exit_status, place);
  return rt_error(error, RT_FAILED, "rank %d ended%s", rank, place);
}

/* Ranks end only when told to, so each one that ended otherwise is a failure; a signal tells more than an
 * exit. */
static RtStatus find_death(const Session *s, RtError *error) {
  int dead = -1;
  for (int i = 0; i < s->options.world; i++) {
    const RankProcess *p = &s->ranks[i];
    if (p->alive) continue;
    if (dead < 0 || (s->ranks[dead].exit_code == CLD_EXITED && p->exit_code != CLD_EXITED)) dead = i;
  }
  return dead < 0 ? RT_OK : report_death(s, dead, error);
}

/* A failure that a rank reported itself; of several that of the lowest rank. */
static RtStatus find_report(const Session *s, RtError *error) {
  for (int i = 0; i < s->options.world; i++) {
    const SessionSlot *slot = &s->control->slots[i];
    if (!atomic_load(&slot->failed)) continue;
    RtStatus status = slot->failure.status;
    if ((unsigned)status >= RT_STATUS_COUNT || status == RT_OK) status = RT_FAILED;
    char place[RT_ERROR_TEXT] = "";
    describe_place(s, i, place, sizeof place);
    return rt_error(error, status, "rank %d%s: %.*s", i, place, RT_ERROR_TEXT - 1, slot->failure.text);
  }
  return RT_OK;
}

static bool is_busy(const Session *s, int rank) {
  uint32_t command = atomic_load(&s->control->command);
  return command > 0 && atomic_load(&s->control->slots[rank].command) != command;
}

static void note_progress(Session *s, int rank) {
  RankProcess *p = &s->ranks[rank];
  const SessionSlot *slot = &s->control->slots[rank];
  uint64_t beats = atomic_load(&slot->place.beats), moves = atomic_load(&slot->progress.moves);
  if (is_busy(s, rank) && p->busy && beats == p->beats && moves == p->moves) return;
  p->busy = is_busy(s, rank);
  p->beats = beats;
  p->moves = moves;
  p->changed_ms = s->clock_ms;
}

/* Whether rank a rather than b is the cause of a wait; see the top of the file. */
static bool more_guilty(const Session *s, int a, int b) {
  const RankProcess *p = &s->ranks[a], *q = &s->ranks[b];
  const CommProgress *x = &s->control->slots[a].progress, *y = &s->control->slots[b].progress;
  if (p->stopped != q->stopped) return p->stopped;
  uint32_t waits = atomic_load(&x->waiting), other_waits = atomic_load(&y->waiting);
  if (waits != other_waits) return !waits;
  if (waits) return atomic_load(&x->key) < atomic_load(&y->key);
  return p->changed_ms < q->changed_ms;
}

static double quiet_seconds(const Session *s, int rank) {
  return (double)(s->clock_ms - s->ranks[rank].changed_ms) / 1000.0;
}

static RtStatus report_late(const Session *s, int late, int guilty, RtError *error) {
  char text[RT_ERROR_TEXT] = "", place[RT_ERROR_TEXT / 2] = "";
  describe_place(s, guilty, place, sizeof place);
  if (quiet_seconds(s, guilty) * 1000 > s->options.timeout_ms) {
    add_text(text, sizeof text, "rank %d is late: no progress for %.1f s%s", guilty, quiet_seconds(s, guilty), place);
  } else { /* it moves, but not to where another one waits for it */
    add_text(text, sizeof text, "rank %d is late%s", guilty, place);
    place[0] = 0;
    describe_place(s, late, place, sizeof place);
    add_text(text, sizeof text, "; rank %d made no progress for %.1f s%s", late, quiet_seconds(s, late), place);
  }
  if (s->ranks[guilty].stopped) add_text(text, sizeof text, "; rank %d is stopped by a signal", guilty);
  return rt_error(error, RT_LATE, "%s", text);
}

static RtStatus find_late(Session *s, RtError *error) {
  int guilty = -1, late = -1;
  for (int i = 0; i < s->options.world; i++) {
    note_progress(s, i);
    if (!s->ranks[i].busy) continue;
    if (late < 0 && quiet_seconds(s, i) * 1000 > s->options.timeout_ms) late = i;
    if (guilty < 0 || more_guilty(s, i, guilty)) guilty = i;
  }
  return late < 0 ? RT_OK : report_late(s, late, guilty, error);
}

/* ---- the thread ---- */

/* Makes the failure known and ends everyone.  Reports of ranks, which may come while the others leave,
 * explain more than a death does. */
static void end_with(Session *s, const RtError *found) {
  SessionControl *c = s->control;
  transport_local_abort_all((char *)c + c->transport_offset, s->options.world);
  atomic_store(&c->leave, 1);
  session_ring(&c->command);
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
  return find_report(s, error) != RT_OK || find_death(s, error) != RT_OK || find_late(s, error) != RT_OK;
}

static void watch(Session *s) {
  SessionControl *c = s->control;
  bool ended = false;
  int64_t before = now_ms();
  while (!atomic_load(&s->stopping)) {
    uint32_t bell = atomic_load(&c->watch_bell);
    int64_t now = now_ms(), passed = now - before;
    before = now;
    s->clock_ms += passed < CLOCK_STEP_MS ? passed : CLOCK_STEP_MS;
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
  /* A failure of ranks that did start is told by session_wait, even when it is already there. */
  if (atomic_load(&s->started) < STARTING_FAILED) return RT_OK;
  pthread_join(s->keeper, NULL);
  return rt_error(error, s->failure.status, "%s", s->failure.text);
}
