/* runtime/net/watch.c - see watch.h.
 *
 * All frames have one size; a peer's bytes are read into its own buffer until a frame is complete.  Rank 0 sends frames
 * even if nothing happens: the loss of a machine is only noticed when something is sent to it.
 */
#define _GNU_SOURCE
#include "runtime/net/watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/net/lateness.h"
#include "runtime/net/sockets.h"

enum {
  BEAT_MS = 200,
  STUCK_MS = 1000,
  LEAVE_MS = 1000,
  ANSWER_MS = 500,
  VERDICT_MS = 2500,
  SILENT_MS = 5 * BEAT_MS,
  CLOCK_STEP_MS = 2 * BEAT_MS,
  FRAMES_AT_ONCE = 256,
  FRAME_MAGIC = 0x61706357
};

typedef enum FrameKind { FRAME_BEAT, FRAME_FAILURE, FRAME_BYE, FRAME_KINDS } FrameKind;

typedef struct Frame {
  uint32_t magic, kind;
  uint64_t beats, round, moves, key, writing; /* BEAT: copies of the SessionSlot */
  uint32_t step, last, command, comm_kind, waiting;
  uint32_t status; /* FAILURE */
  char text[RT_ERROR_TEXT];
} Frame;

typedef struct Peer {
  int fd;                /* -1: none, or no longer */
  _Atomic uint32_t gone; /* it has ended */
  size_t got;
  Frame frame;      /* bytes so far */
  int64_t quiet_ms; /* time without a message, as lateness.c measures */
  int64_t told_ms;  /* time of the last beat sent to it */
  uint64_t writing; /* of its last beat */
} Peer;

struct Watch {
  WatchOptions options;
  Peer *peers; /* rank 0: per rank; other ranks: one */
  int n_peers;
  struct pollfd *polls; /* for all peers and `wake` */
  RankSigns *signs;     /* rank 0: for `lateness` */
  SessionSlot *slots;   /* rank 0: per rank, its own included; other ranks: their own */
  _Atomic uint32_t commands;
  Lateness lateness; /* rank 0 only */
  int wake, failed_fd;
  _Atomic uint32_t leaving, stopping, failed, own_failed;
  _Atomic int64_t patient_until; /* in milliseconds of the clock; 0: not patient */
  _Atomic int patience_ms;
  _Atomic uint64_t written; /* pieces of files, as the signs of all ranks that this one hears say */
  bool told, said_bye;      /* rank 0: sent to the others: the failure; the goodbye */
  bool first_leaves;        /* rank 0 has said goodbye: its connection may end */
  bool first_lost; /* the failure is the loss or silence of rank 0, seen by this rank; complete before `failed` is
                    * set */
  int64_t failed_ms, beat_ms;
  int64_t looked_ms; /* time of the last update of quiet_ms */
  RtError loss;      /* not yet a failure, see loss_ms: */
  int64_t loss_at_ms;
  RtError failure; /* complete before `failed` is set */
  RtError own;     /* from the main thread, complete before `own_failed` is set */
  pthread_t thread;
};

/* ---- failures */

static void wake(int fd) {
  uint64_t one = 1;
  if (write(fd, &one, sizeof one) < 0) return; /* full: it is awake */
}

/* Sets the first failure; only the thread calls it. */
static void set_failure(Watch *w, const RtError *error) {
  if (atomic_load(&w->failed)) return;
  w->failure = *error;
  w->failed_ms = sockets_now();
  atomic_store(&w->failed, 1);
  wake(w->failed_fd);
}

/* Sets a failure that this rank saw itself; the only peer that all ranks see is rank 0. */
static void set_own_failure(Watch *w, const RtError *error) {
  if (w->options.rank != 0 && !atomic_load(&w->failed)) w->first_lost = true;
  set_failure(w, error);
}

bool watch_lost_first(Watch *w) { return atomic_load(&w->failed) && w->first_lost; }

bool watch_failed(Watch *w, RtError *error) {
  if (!atomic_load(&w->failed)) return false;
  rt_error(error, w->failure.status, "%s", w->failure.text);
  return true;
}

static void send_frame(Peer *p, Frame *f) {
  f->magic = FRAME_MAGIC;
  if (p->fd >= 0) socket_send(p->fd, f, sizeof *f, sockets_now() + ANSWER_MS); /* a loss is noticed when reading */
}

static void send_failure(Watch *w, const RtError *error) {
  Frame f = {.kind = FRAME_FAILURE, .status = (uint32_t)error->status};
  snprintf(f.text, sizeof f.text, "%s", error->text);
  for (int i = 0; i < w->n_peers; i++) send_frame(&w->peers[i], &f);
}

/* ---- frames of peers */

static void take_beat(Watch *w, int rank, const Frame *f) {
  SessionSlot *s = &w->slots[rank];
  atomic_store(&s->place.beats, f->beats);
  atomic_store(&s->place.step, f->step);
  atomic_store(&s->place.last, f->last);
  atomic_store(&s->place.round, f->round);
  atomic_store(&s->place.writing, f->writing);
  atomic_store(&s->progress.moves, f->moves);
  atomic_store(&s->progress.key, f->key);
  atomic_store(&s->progress.kind, f->comm_kind);
  atomic_store(&s->progress.waiting, f->waiting);
  atomic_store(&s->command, f->command);
}

static void take_failure(Watch *w, int rank, const Frame *f) {
  RtError error = {0};
  char place[RT_ERROR_TEXT / 2] = "";
  RtStatus status = f->status < RT_STATUS_COUNT && f->status != RT_OK ? (RtStatus)f->status : RT_FAILED;
  const char *why = *f->text ? f->text : rt_brief(status);
  if (w->options.rank == 0) {
    lateness_place(&w->lateness, rank, place, sizeof place);
    rt_error(&error, status, "rank %d%s: %.*s", rank, place, RT_ERROR_TEXT - 1, why);
  } else {
    rt_error(&error, status, "%.*s", RT_ERROR_TEXT - 1, why);
  }
  set_failure(w, &error);
}

static void take_loss(Watch *w, int rank, const char *why) {
  RtError error = {0};
  char place[RT_ERROR_TEXT / 2] = "";
  Peer *p = &w->peers[rank];
  close(p->fd);
  p->fd = -1;
  atomic_store(&p->gone, 1);
  if (atomic_load(&w->leaving) || w->first_leaves) return;
  if (w->options.rank == 0) lateness_place(&w->lateness, rank, place, sizeof place);
  rt_error(&error, RT_FAILED, "rank %d was lost: %s%s", w->options.rank == 0 ? rank : 0, why, place);
  if (w->loss.status) return;
  w->loss = error;
  w->loss_at_ms = sockets_now();
}

/* Only rank 0 says goodbye, and the others then still wait for its command to leave, so its silence still counts. */
static void take_bye(Watch *w, int rank) {
  if (w->options.rank == 0) take_loss(w, rank, "it left in the middle of the run");
  else w->first_leaves = true;
}

static void take_frame(Watch *w, int rank, const Frame *f) {
  if (f->magic != FRAME_MAGIC || f->kind >= FRAME_KINDS)
    take_loss(w, rank, "it does not run this version of the runtime");
  else if (f->kind == FRAME_FAILURE) take_failure(w, rank, f);
  else if (f->kind == FRAME_BYE) take_bye(w, rank);
  else w->peers[rank].writing = f->writing;
  if (f->magic == FRAME_MAGIC && f->kind == FRAME_BEAT && w->options.rank == 0) take_beat(w, rank, f);
}

/* Reads no more at once than a healthy peer sends in minutes, so that the other peers get their turn. */
static void read_peer(Watch *w, int rank) {
  Peer *p = &w->peers[rank];
  for (int frames = 0; p->fd >= 0 && frames < FRAMES_AT_ONCE;) {
    ssize_t n = recv(p->fd, (char *)&p->frame + p->got, sizeof p->frame - p->got, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      take_loss(w, rank, n == 0 || errno == ECONNRESET ? "its process ended" : strerror(errno));
      return;
    }
    p->got += (size_t)n;
    p->quiet_ms = 0;
    if (p->got < sizeof p->frame) continue;
    p->got = 0;
    frames++;
    p->frame.text[RT_ERROR_TEXT - 1] = 0;
    take_frame(w, rank, &p->frame);
  }
}

/* ---- the thread */

/* A stopped process does not read, so its connection fills up, and a full one looks like a lost machine: it gets ever
 * fewer beats. */
static bool wants_beat(Peer *p) {
  int64_t now = sockets_now();
  if (p->quiet_ms > SILENT_MS && now - p->told_ms < p->quiet_ms / 2) return false;
  p->told_ms = now;
  return true;
}

static void beat(Watch *w) {
  const SessionSlot *s = &w->slots[0];
  Frame f = {.kind = FRAME_BEAT,
             .beats = atomic_load(&s->place.beats),
             .round = atomic_load(&s->place.round),
             .moves = atomic_load(&s->progress.moves),
             .key = atomic_load(&s->progress.key),
             .writing = atomic_load(&s->place.writing),
             .step = atomic_load(&s->place.step),
             .last = atomic_load(&s->place.last),
             .command = atomic_load(&s->command),
             .comm_kind = atomic_load(&s->progress.kind),
             .waiting = atomic_load(&s->progress.waiting)};
  for (int i = 0; i < w->n_peers; i++)
    if (wants_beat(&w->peers[i])) send_frame(&w->peers[i], &f);
}

/* A running process sends frames whatever its main thread does: one that sends none is stopped. */
static void note_silence(Watch *w) {
  int64_t now = sockets_now(), passed = now - w->looked_ms;
  w->looked_ms = now;
  for (int i = 0; i < w->n_peers; i++) {
    Peer *p = &w->peers[i];
    p->quiet_ms += passed < CLOCK_STEP_MS ? passed : CLOCK_STEP_MS;
    if (w->options.rank == 0) w->lateness.ranks[i].stopped = p->fd >= 0 && p->quiet_ms > SILENT_MS;
  }
}

/* Rank 0 judges the others; if rank 0 itself is stopped, each rank must notice that alone. */
static void look_at_first(Watch *w) {
  int64_t quiet_ms = w->peers[0].quiet_ms;
  RtError error = {0};
  const int limit_ms = w->options.stopped_ms ? w->options.stopped_ms : w->options.timeout_ms;
  if (quiet_ms <= limit_ms || atomic_load(&w->leaving)) return;
  rt_error(&error, RT_LATE, "rank 0 is late: no sign of life for %.1f s", (double)quiet_ms / 1000.0);
  set_own_failure(w, &error);
}

/* Handles the main thread's own failure: rank 0 learns of it first, so that all ranks report the same. */
static void tell_own(Watch *w) {
  Frame f = {.kind = FRAME_FAILURE, .status = (uint32_t)w->own.status};
  snprintf(f.text, sizeof f.text, "%s", w->own.text);
  if (w->options.rank == 0) take_failure(w, 0, &f);
  else send_failure(w, &w->own);
  atomic_store(&w->own_failed, 0);
}

/* A file that grows is waited for: patience begins anew with every piece that a rank has written. */
static void note_writing(Watch *w) {
  uint64_t written = atomic_load(&w->slots[0].place.writing);
  for (int i = 0; i < w->n_peers; i++) written += w->peers[i].writing;
  if (written == atomic_load(&w->written)) return;
  atomic_store(&w->written, written);
  if (atomic_load(&w->patient_until)) atomic_store(&w->patient_until, sockets_now() + atomic_load(&w->patience_ms));
}

static void say_bye(Watch *w) {
  Frame bye = {.kind = FRAME_BYE};
  for (int i = 0; i < w->n_peers; i++) send_frame(&w->peers[i], &bye);
  w->said_bye = true;
}

static void look(Watch *w) {
  RtError error = {0};
  bool first = w->options.rank == 0, leaving = atomic_load(&w->leaving);
  note_silence(w);
  note_writing(w);
  if (atomic_load(&w->own_failed)) tell_own(w);
  if (w->loss.status && !leaving && !w->first_leaves && sockets_now() - w->loss_at_ms >= w->options.loss_ms)
    set_own_failure(w, &w->loss);
  if (first && !atomic_load(&w->failed) && !leaving && lateness_find(&w->lateness, &error)) set_failure(w, &error);
  if (!first) look_at_first(w);
  if (first && atomic_load(&w->failed) && !w->told) {
    send_failure(w, &w->failure);
    w->told = true;
  }
  if (first && leaving && !w->said_bye) say_bye(w);
  if (atomic_load(&w->failed) && !atomic_load(&w->stopping) && sockets_now() - w->failed_ms > STUCK_MS &&
      sockets_now() > atomic_load(&w->patient_until) && w->options.stuck)
    w->options.stuck(rt_exit_code(w->failure.status), w->failure.text);
}

static void wait_for_peers(Watch *w) {
  struct pollfd *p = w->polls;
  int left = (int)(w->beat_ms + BEAT_MS - sockets_now());
  for (int i = 0; i < w->n_peers; i++) p[i] = (struct pollfd){w->peers[i].fd, POLLIN, 0};
  p[w->n_peers] = (struct pollfd){w->wake, POLLIN, 0};
  if (poll(p, (nfds_t)w->n_peers + 1, left > 0 ? left : 0) < 0) return;
  uint64_t count;
  if (p[w->n_peers].revents && read(w->wake, &count, sizeof count) < 0) return;
}

static bool all_gone(const Watch *w) {
  for (int i = 0; i < w->n_peers; i++)
    if (w->peers[i].fd >= 0) return false;
  return true;
}

static void *run(void *argument) {
  Watch *w = argument;
  if (w->options.rank == 0) lateness_begin(&w->lateness);
  w->looked_ms = sockets_now();
  while (!atomic_load(&w->stopping)) {
    if (sockets_now() - w->beat_ms >= BEAT_MS) {
      w->beat_ms = sockets_now();
      beat(w);
    }
    wait_for_peers(w);
    for (int i = 0; i < w->n_peers; i++) read_peer(w, i);
    look(w);
  }
  look(w);
  int64_t limit = sockets_now() + LEAVE_MS; /* closing a socket with unread frames would discard sent ones */
  while (w->options.rank == 0 && atomic_load(&w->leaving) && !all_gone(w) && sockets_now() < limit) {
    w->beat_ms = sockets_now();
    wait_for_peers(w);
    for (int i = 0; i < w->n_peers; i++) read_peer(w, i);
  }
  return NULL;
}

/* ---- starting, stopping */

static void free_watch(Watch *w) {
  if (w->wake >= 0) close(w->wake);
  if (w->failed_fd >= 0) close(w->failed_fd);
  free(w->peers);
  free(w->polls);
  free(w->signs);
  free(w->slots);
  free(w);
}

RtStatus watch_start(const WatchOptions *o, Watch **out, RtError *error) {
  Watch *w = calloc(1, sizeof *w);
  if (!w) return rt_error(error, RT_FAILED, "out of memory");
  w->options = *o;
  w->n_peers = o->rank == 0 ? o->world : 1;
  w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  w->failed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  w->peers = calloc((size_t)w->n_peers, sizeof *w->peers);
  w->polls = calloc((size_t)w->n_peers + 1, sizeof *w->polls);
  w->signs = calloc((size_t)o->world, sizeof *w->signs);
  w->slots = aligned_alloc(64, sizeof *w->slots * (size_t)w->n_peers);
  if (w->wake < 0 || w->failed_fd < 0 || !w->peers || !w->polls || !w->signs || !w->slots) {
    free_watch(w);
    return rt_error(error, RT_FAILED, "out of memory or descriptors");
  }
  memset(w->slots, 0, sizeof *w->slots * (size_t)w->n_peers);
  for (int i = 0; i < w->n_peers; i++) w->peers[i].fd = o->controls[i];
  w->lateness = (Lateness){.world = o->world,
                           .ranks = w->signs,
                           .timeout_ms = o->timeout_ms,
                           .stopped_ms = o->stopped_ms,
                           .slots = w->slots,
                           .command = &w->commands,
                           .step_text = o->step_text,
                           .step_context = o->step_context};
  int number = pthread_create(&w->thread, NULL, run, w);
  if (number) { /* the caller keeps the connections */
    free_watch(w);
    return rt_error(error, RT_FAILED, "starting the watchdog's thread: %s", strerror(number));
  }
  *out = w;
  return RT_OK;
}

SessionSlot *watch_slot(Watch *w) { return &w->slots[0]; }
void watch_command(Watch *w, uint32_t commands) { atomic_store(&w->commands, commands); }
int watch_fd(const Watch *w) { return w->failed_fd; }

void watch_be_patient(Watch *w, int milliseconds) {
  int64_t none = 0;
  atomic_store(&w->patience_ms, milliseconds);
  atomic_compare_exchange_strong(&w->patient_until, &none, sockets_now() + milliseconds);
}

bool watch_is_patient(const Watch *w) { return sockets_now() < atomic_load(&w->patient_until) - BEAT_MS; }
uint64_t watch_written(const Watch *w) { return atomic_load(&w->written); }

bool watch_gone(const Watch *w, int rank) { return atomic_load(&w->peers[rank].gone); }

void watch_leave(Watch *w) {
  atomic_store(&w->leaving, 1);
  wake(w->wake);
}

static void wait_for_failure(Watch *w, int milliseconds) {
  struct pollfd p = {w->failed_fd, POLLIN, 0};
  for (int64_t limit = sockets_now() + milliseconds, left; (left = limit - sockets_now()) > 0;)
    if (poll(&p, 1, (int)left) > 0) return;
}

void watch_fail(Watch *w, const RtError *error) {
  if (atomic_load(&w->failed) || atomic_load(&w->leaving)) return;
  w->own = *error;
  if (w->own.status == RT_OK) rt_error(&w->own, RT_FAILED, "%s", rt_brief(RT_FAILED));
  atomic_store(&w->own_failed, 1);
  wake(w->wake);
  wait_for_failure(w, ANSWER_MS);
}

void watch_verdict(Watch *w) { wait_for_failure(w, VERDICT_MS); }

void watch_stop(Watch *w) {
  if (!w) return;
  atomic_store(&w->stopping, 1);
  wake(w->wake);
  pthread_join(w->thread, NULL);
  for (int i = 0; i < w->n_peers; i++)
    if (w->peers[i].fd >= 0) close(w->peers[i].fd);
  free_watch(w);
}
