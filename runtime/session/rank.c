/* runtime/session/rank.c - the rank's side of a session; see session.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/session/shared.h"

enum { COMMAND_SLEEP_MS = 500 };

struct SessionRank {
  int rank, world, fd;
  SessionControl *control; /* the rings follow it */
  SessionSlot *slot;
  void *io;
  size_t io_bytes;
  uint32_t command; /* the last one received */
};

void session_sleep(_Atomic uint32_t *word, uint32_t value, int milliseconds) {
  struct timespec limit = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
}

void session_ring(_Atomic uint32_t *word) {
  atomic_fetch_add(word, 1);
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Returns the descriptor named in the environment, or -1. */
static int inherited_fd(void) {
  const char *text = getenv(SESSION_FD_VARIABLE);
  if (!text || !*text) return -1;
  char *end;
  long fd = strtol(text, &end, 10);
  return *end == 0 && fd >= 0 && fd <= INT_MAX ? (int)fd : -1;
}

static RtStatus check_control(const SessionControl *c, uint64_t size, int rank, int world, RtError *error) {
  if (c->magic != SESSION_MAGIC || c->io_offset > size)
    return rt_error(error, RT_USAGE, SESSION_FD_VARIABLE " does not name a session of this version of the runtime");
  if (c->world != world || rank < 0 || rank >= world)
    return rt_error(error, RT_USAGE, "rank %d of %d does not fit a session of %d ranks", rank, world, (int)c->world);
  if (c->host_pid != getppid()) return rt_error(error, RT_FAILED, "the process that started rank %d has ended", rank);
  return RT_OK;
}

static RtStatus attach(SessionRank *r, RtError *error) {
  struct stat info;
  if (fstat(r->fd, &info) != 0) return rt_error_errno(error, RT_USAGE, SESSION_FD_VARIABLE "=%d", r->fd);
  uint64_t size = (uint64_t)info.st_size;
  if (size < sizeof(SessionControl)) return rt_error(error, RT_USAGE, SESSION_FD_VARIABLE " does not name a session");
  fcntl(r->fd, F_SETFD, FD_CLOEXEC);
  SessionControl *c = mmap(NULL, sizeof *c, PROT_READ, MAP_SHARED, r->fd, 0);
  if (c == MAP_FAILED) return rt_error_errno(error, RT_FAILED, "mapping the session");
  RtStatus status = check_control(c, size, r->rank, r->world, error);
  size_t bytes = c->io_offset;
  munmap(c, sizeof *c);
  if (status != RT_OK) return status;
  c = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
  if (c == MAP_FAILED) return rt_error_errno(error, RT_FAILED, "mapping %zu bytes of the session", bytes);
  r->control = c;
  r->slot = &c->slots[r->rank];
  return RT_OK;
}

/* ---- signals */

static pid_t host;                /* for hand_on */
static _Atomic uint32_t *leaving; /* for ask_to_leave */

static void hand_on(int signal) {
  int before = errno;
  kill(host, signal);
  errno = before;
}

/* Asks once, however often the signal comes. */
static void ask_to_leave(int signal) {
  static volatile sig_atomic_t asked;
  (void)signal;
  if (!asked) atomic_fetch_add(leaving, 1);
  asked = 1;
}

/* Passes requests to end a run to the host, which the sender may have left out: a signal that this rank was started to
 * ignore goes to the host, if it wants that.  The end of the host ends the ranks. */
static void hand_on_signals(SessionControl *c) {
  if (!c->hands_on) return;
  static const int signals[] = {SIGINT, SIGTERM, SIGUSR1};
  host = c->host_pid;
  leaving = &c->leaving;
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    struct sigaction action;
    if (sigaction(signals[i], NULL, &action) != 0 || action.sa_handler != SIG_IGN) continue;
    bool alone = c->may_leave && signals[i] == SIGTERM;
    action = (struct sigaction){.sa_handler = alone ? ask_to_leave : hand_on, .sa_flags = SA_RESTART};
    sigaction(signals[i], &action, NULL);
  }
}

RtStatus session_rank_open(int rank, int world, SessionRank **out, RtError *error) {
  int fd = inherited_fd();
  if (fd < 0) return rt_error(error, RT_USAGE, SESSION_FD_VARIABLE " is not set to a descriptor");
  SessionRank *r = calloc(1, sizeof *r);
  if (!r) return rt_error(error, RT_FAILED, "out of memory");
  *r = (SessionRank){.rank = rank, .world = world, .fd = fd};
  RtStatus status = attach(r, error);
  if (status != RT_OK) {
    free(r);
    return status;
  }
  hand_on_signals(r->control);
  atomic_fetch_add(&r->slot->place.beats, 1);
  *out = r;
  return RT_OK;
}

RtStatus session_rank_transport(SessionRank *r, Transport **out, RtError *error) {
  SessionControl *c = r->control;
  return transport_local_open((char *)c + c->transport_offset, r->rank, r->world, c->crowded, out, error);
}

CommProgress *session_rank_progress(SessionRank *r) { return &r->slot->progress; }

/* Makes the I/O area as large as the host's. */
static RtStatus remap_io(SessionRank *r, RtError *error) {
  SessionControl *c = r->control;
  size_t bytes = c->io_bytes;
  if (bytes == r->io_bytes) return RT_OK;
  void *io = r->io ? mremap(r->io, r->io_bytes, bytes, MREMAP_MAYMOVE)
                   : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, (off_t)c->io_offset);
  if (io == MAP_FAILED) return rt_error_errno(error, RT_FAILED, "mapping %zu bytes of inputs and outputs", bytes);
  r->io = io;
  r->io_bytes = bytes;
  return RT_OK;
}

RtStatus session_rank_next(SessionRank *r, SessionCommand *out, RtError *error) {
  SessionControl *c = r->control;
  uint32_t command;
  for (;;) {
    command = atomic_load(&c->command);
    if (atomic_load(&c->leave))
      return rt_error(error, RT_ABORTED, "rank %d was stopped because the session ended", r->rank);
    if (command != r->command) break;
    session_sleep(&c->command, command, COMMAND_SLEEP_MS);
  }
  r->command = command;
  atomic_fetch_add(&r->slot->place.beats, 1);
  RtStatus status = remap_io(r, error);
  if (status != RT_OK) return status;
  *out = (SessionCommand){(SessionCommandKind)c->kind, c->payload, c->payload_bytes, r->io, r->io_bytes};
  return RT_OK;
}

RankPlace *session_rank_place(SessionRank *r) { return &r->slot->place; }

void session_rank_finish(SessionRank *r) {
  SessionControl *c = r->control;
  atomic_store(&r->slot->command, r->command);
  if (atomic_fetch_add(&c->finished, 1) + 1 == (uint32_t)r->world) session_ring(&c->host_bell);
}

void session_rank_fail(SessionRank *r, const RtError *error) {
  SessionControl *c = r->control;
  if (error->status != RT_OK && error->status != RT_ABORTED && !atomic_load(&r->slot->failed)) {
    r->slot->failure = *error;
    atomic_store(&r->slot->failed, 1);
  }
  transport_local_abort_all((char *)c + c->transport_offset, r->world);
  session_ring(&c->watch_bell);
}

void session_rank_close(SessionRank *r) {
  if (!r) return;
  if (r->io) munmap(r->io, r->io_bytes);
  munmap(r->control, r->control->io_offset);
  close(r->fd);
  free(r);
}
