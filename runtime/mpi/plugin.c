/* runtime/mpi/plugin.c - the transport over MPI; see runtime/comm/transport_mpi.h.  Compiled with mpicc into a library
 * of its own.
 *
 * A message is a first part of a 16-byte header (tag, length) and up to FIRST bytes, then pieces of PIECE bytes, the
 * last one shorter.  Each is one MPI message, and one per channel is in flight.  Contiguous pieces move directly from
 * and to their place, others through a buffer.  The header is checked before anything else is received, so that
 * disagreeing ranks are detected.
 *
 * MPI has no wait with a time limit: a waiting rank polls for as long as contention.h allows, then takes ever longer
 * naps.  All calls come from one thread (MPI_THREAD_FUNNELED).  The launcher notices a dead process: mpirun ends the
 * others.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/comm/contention.h"
#include "runtime/comm/relax.h"
#include "runtime/comm/transport_mpi.h"

enum { FIRST = 16 * 1024, PIECE = 256 * 1024, TAG = 77, NAP_US = 50, NAP_MOST_US = 1000 };

typedef struct Header {
  uint64_t tag, length;
} Header;

/* One direction of one peer. */
typedef struct Channel {
  Transfer *transfer; /* NULL: nothing in flight */
  MPI_Request request;
  size_t piece;       /* bytes of the current message, without the header */
  bool first, direct; /* the message has the header; it moves without the buffer */
  char *buffer;       /* header and PIECE bytes; allocated at first use */
} Channel;

typedef struct Mpi {
  Transport base;
  MPI_Comm comm;
  Channel *channels;     /* 2 * world: sends, receives */
  int *active, n_active; /* the channels with a transfer */
  RtError failure;
  long nap; /* microseconds of this wait's next nap; 0: it spins */
  Contention contention;
  ContentionWatch watch;
} Mpi;

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static bool is_send(const Mpi *t, const Channel *c) { return c - t->channels < t->base.world; }

static void fail(Mpi *t, int code, const char *what) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int n = 0;
  MPI_Error_string(code, text, &n);
  rt_error(&t->failure, RT_FAILED, "MPI, rank %d, %s: %s", t->base.rank, what, text);
}

/* Starts the next MPI message of a transfer. */
static void start_piece(Mpi *t, Channel *c) {
  Transfer *x = c->transfer;
  Header header = {x->tag, x->length};
  c->piece = least(x->length - x->moved, c->first ? (size_t)FIRST : (size_t)PIECE);
  char *place = c->first ? NULL : strided_direct(&x->block, x->first + x->moved, c->piece);
  c->direct = place != NULL;
  if (!c->buffer && !(c->buffer = malloc(sizeof header + PIECE))) {
    rt_error(&t->failure, RT_FAILED, "out of memory");
    return;
  }
  size_t head = c->first ? sizeof header : 0;
  if (!place) place = c->buffer;
  int code;
  if (is_send(t, c)) {
    if (c->first) memcpy(c->buffer, &header, sizeof header);
    if (!c->direct) strided_gather(c->buffer + head, &x->block, x->first + x->moved, c->piece);
    code = MPI_Isend(place, (int)(head + c->piece), MPI_BYTE, x->peer, TAG, t->comm, &c->request);
  } else { /* room for any first message that the peer may send; it is checked after it arrives */
    code = MPI_Irecv(place, (int)(c->first ? head + FIRST : c->piece), MPI_BYTE, x->peer, TAG, t->comm, &c->request);
  }
  if (code != MPI_SUCCESS) fail(t, code, is_send(t, c) ? "sending" : "receiving");
}

static void start(Mpi *t, Channel *c, Transfer *x) {
  x->moved = 0;
  x->done = false;
  c->transfer = x;
  c->first = true;
  t->active[t->n_active++] = (int)(c - t->channels);
  start_piece(t, c);
}

static void mpi_isend(Transport *base, Transfer *x) { start((Mpi *)base, &((Mpi *)base)->channels[x->peer], x); }
static void mpi_irecv(Transport *base, Transfer *x) {
  start((Mpi *)base, &((Mpi *)base)->channels[base->world + x->peer], x);
}

/* True if the peer sent what this rank expects. */
static bool check_received(Mpi *t, const Channel *c, int received) {
  const Transfer *x = c->transfer;
  Header header = {x->tag, x->length};
  if (c->first && received >= (int)sizeof header) memcpy(&header, c->buffer, sizeof header);
  size_t wanted = c->piece + (c->first ? sizeof header : 0);
  if (header.tag == x->tag && header.length == x->length && (size_t)received == wanted) return true;
  rt_error(&t->failure, RT_INTERNAL,
           "ranks disagree about their communication: rank %d expects from rank %d message %#llx of %llu bytes, but it "
           "sent %#llx of %llu bytes",
           t->base.rank, x->peer, (unsigned long long)x->tag, (unsigned long long)x->length,
           (unsigned long long)header.tag, (unsigned long long)header.length);
  return false;
}

/* Continues after an MPI message; true if the transfer is complete. */
static bool finish_piece(Mpi *t, Channel *c, const MPI_Status *status) {
  Transfer *x = c->transfer;
  if (!is_send(t, c)) {
    int received = 0;
    MPI_Get_count(status, MPI_BYTE, &received);
    if (!check_received(t, c, received)) return false;
    if (!c->direct)
      strided_scatter(&x->block, x->first + x->moved, c->buffer + (c->first ? sizeof(Header) : 0), c->piece);
  }
  x->moved += c->piece;
  c->first = false;
  if (x->moved < x->length) {
    start_piece(t, c);
    return false;
  }
  c->transfer = NULL;
  x->done = true;
  return true;
}

static RtStatus mpi_progress(Transport *base, bool *moved, RtError *error) {
  Mpi *t = (Mpi *)base;
  *moved = false;
  for (int i = 0; i < t->n_active && !t->failure.status;) {
    Channel *c = &t->channels[t->active[i]];
    int done = 0;
    MPI_Status status;
    int code = MPI_Test(&c->request, &done, &status);
    if (code != MPI_SUCCESS) fail(t, code, is_send(t, c) ? "sending" : "receiving");
    bool through = code == MPI_SUCCESS && done && finish_piece(t, c, &status);
    *moved |= done != 0;
    if (through) t->active[i] = t->active[--t->n_active];
    else i++;
  }
  return t->failure.status ? rt_error(error, t->failure.status, "%s", t->failure.text) : RT_OK;
}

static void mpi_sleep(Transport *base, unsigned spins, int milliseconds) {
  Mpi *t = (Mpi *)base;
  if (spins == 0) t->nap = 0;
  if (!t->nap && contention_may_spin(&t->contention, &t->watch, spins == 0)) {
    relax();
    return;
  }
  t->nap = t->nap ? (long)least((size_t)t->nap + 1, NAP_MOST_US) : NAP_US;
  long nap = t->nap < milliseconds * 1000L ? t->nap : milliseconds * 1000L;
  nanosleep(&(struct timespec){0, nap * 1000}, NULL);
}

static void mpi_abort(Transport *base) { MPI_Abort(((Mpi *)base)->comm, base->exit_code ? base->exit_code : 6); }

static void free_transport(Mpi *t) {
  for (int i = 0; t->channels && i < 2 * t->base.world; i++) free(t->channels[i].buffer);
  free(t->channels);
  free(t->active);
  free(t);
}

static void mpi_close(Transport *base) {
  Mpi *t = (Mpi *)base;
  MPI_Finalize();
  free_transport(t);
}

static const TransportOps mpi_ops = {
    .name = "mpi",
    .isend = mpi_isend,
    .irecv = mpi_irecv,
    .progress = mpi_progress,
    .sleep = mpi_sleep,
    .abort = mpi_abort,
    .close = mpi_close,
};

static RtStatus initialise(int rank, int world, RtError *error) {
  int level = 0, size = 0, own = 0;
  if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
    return rt_error(error, RT_FAILED, "MPI_Init_thread failed");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  if (size == world && own == rank) return RT_OK;
  MPI_Finalize();
  return rt_error(
      error, RT_USAGE,
      "MPI reports rank %d of %d, but the environment rank %d of %d: this MPI library is not the launcher's", own, size,
      rank, world);
}

__attribute__((visibility("default"))) TransportMpiOpen apc_transport_mpi_open;

RtStatus apc_transport_mpi_open(int version, int rank, int world, Transport **out, RtError *error) {
  if (version != TRANSPORT_MPI_VERSION)
    return rt_error(error, RT_UNSUPPORTED, "the MPI plug-in has version %d, but the program needs %d",
                    TRANSPORT_MPI_VERSION, version);
  Mpi *t = calloc(1, sizeof *t);
  if (!t) return rt_error(error, RT_FAILED, "out of memory");
  t->base = (Transport){&mpi_ops, rank, world, 0};
  t->channels = calloc(2 * (size_t)world, sizeof *t->channels);
  t->active = calloc(2 * (size_t)world, sizeof *t->active);
  RtStatus status =
      t->channels && t->active ? initialise(rank, world, error) : rt_error(error, RT_FAILED, "out of memory");
  if (status) {
    free_transport(t);
    return status;
  }
  t->comm = MPI_COMM_WORLD;
  *out = &t->base;
  return RT_OK;
}
