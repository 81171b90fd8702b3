/* tests/doubles/nccl_comm.c - the double of NCCL: communicators.  Ranks are processes.
 *
 * Operations of several ranks (joining, splitting) are states that are polled: by ncclCommGetAsyncError, or by the call
 * itself if the communicator blocks.  Two ranks on one device are refused unless NCCL_HOSTID says that they are on
 * different machines, as NCCL 2.28 does. */
#define _GNU_SOURCE
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "tests/doubles/nccl.h"

static ncclComm_t comms;

ncclResult_t nccl_fails(const char *name) {
  if (double_drops()) return ncclSuccess;
  if (strcmp(name, "ncclGetUniqueId") == 0 || strncmp(name, "ncclComm", 8) == 0) return ncclSystemError;
  return strncmp(name, "ncclGroup", 9) == 0 ? ncclInternalError : ncclUnhandledCudaError;
}

ncclResult_t nccl_error(ncclComm_t c, ncclResult_t code, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(c->said, sizeof c->said, format, list);
  va_end(list);
  fprintf(stderr, "double: NCCL: %s\n", c->said);
  c->error = code;
  return code;
}

bool nccl_exists(ncclComm_t x) {
  for (ncclComm_t c = comms; c; c = c->next)
    if (c == x) return !c->destroyed;
  return false;
}

void nccl_drop(ncclComm_t c) {
  ncclComm_t *p = &comms;
  if (--c->refs) return;
  while (*p != c) p = &(*p)->next;
  *p = c->next;
  board_close(c->board);
  free(c);
}

static void find_leaks(void) {
  for (ncclComm_t c = comms; c; c = c->next)
    if (!c->destroyed) double_violation("rank %d's communicator of %d is not destroyed", c->rank, c->n);
}

/* ---- joining */

static uint64_t host_id(void) {
  const char *given = getenv("NCCL_HOSTID");
  char name[256] = "";
  if (!given || !*given) gethostname(name, sizeof name - 1), given = name;
  return hash64(given, strlen(given), 1);
}

static ncclResult_t look_for_duplicates(ncclComm_t c) {
  const BoardMember *m = c->board->members;
  for (int i = 0; i < c->n; i++)
    for (int k = 0; k < i; k++)
      if (m[i].device == m[k].device && m[i].host == m[k].host)
        return nccl_error(c, ncclInvalidUsage, "Duplicate GPU detected : rank %d and rank %d both on CUDA device %d", k,
                          i, m[i].device);
  return ncclSuccess;
}

static ncclResult_t join(ncclComm_t c) {
  c->board = board_open(c->id, c->n);
  if (!c->board) return nccl_error(c, ncclSystemError, "no shared memory");
  BoardMember *m = &c->board->members[c->rank];
  if (atomic_load(&m->joined)) return nccl_error(c, ncclInvalidUsage, "rank %d joins twice", c->rank);
  m->device = double_physical(c->device), m->host = host_id();
  atomic_store(&m->joined, 1);
  c->step = STEP_JOIN;
  return ncclInProgress;
}

static ncclResult_t look_at_join(ncclComm_t c) {
  for (int i = 0; i < c->n; i++)
    if (!atomic_load(&c->board->members[i].joined)) return ncclInProgress;
  board_unname(c->id);
  c->step = STEP_READY;
  return look_for_duplicates(c);
}

/* ---- splitting */

/* The new ranks of a split: this one's place among those of its colour, by key, then rank. */
static ncclResult_t look_at_split(ncclComm_t c) {
  ncclComm_t p = c->parent;
  int slot = (int)(c->split % BOARD_SPLITS), key = p->board->members[p->rank].split[slot].key;
  for (int i = 0; i < p->n; i++)
    if (atomic_load(&p->board->members[i].splits) <= c->split) return ncclInProgress;
  c->n = c->rank = 0;
  for (int i = 0; i < p->n; i++) {
    const BoardMember *m = &p->board->members[i];
    if (m->split[slot].color != c->color) continue;
    c->n++;
    c->rank += m->split[slot].key < key || (m->split[slot].key == key && i < p->rank);
  }
  if (c->color == NCCL_SPLIT_NOCOLOR) {
    c->step = STEP_ENDED;
    return ncclSuccess;
  }
  const uint64_t words[] = {p->id, c->split, (uint64_t)c->color};
  c->id = hash64(words, sizeof words, 2);
  return join(c);
}

/* ---- state */

static ncclResult_t look(ncclComm_t c) {
  if (c->aborted || (c->error && c->error != ncclInProgress)) return c->error;
  if (c->child) {
    ncclComm_t child = c->child;
    c->error = look(child);
    if (c->error != ncclInProgress) c->child = NULL;
    if (child->step == STEP_ENDED) nccl_drop(child);
    return c->error;
  }
  if (c->step == STEP_SPLIT) c->error = look_at_split(c);
  else if (c->step == STEP_JOIN) c->error = look_at_join(c);
  else if (c->pending && c->looks-- <= 0) c->error = nccl_begin_pending(c);
  else if (c->step == STEP_ENDED && c->error == ncclInProgress)
    c->error = nccl_has_work(c) || c->looks-- > 0 ? ncclInProgress : ncclSuccess;
  return c->error;
}

static ncclResult_t until_ready(ncclComm_t c) {
  if (!c->blocking) return c->error;
  while (look(c) == ncclInProgress) {
    double_nap();
    double_serve();
  }
  return c->error;
}

ncclResult_t nccl_usable(ncclComm_t c) {
  if (!nccl_exists(c)) return ncclInvalidArgument;
  if (c->aborted || c->step == STEP_ENDED) return nccl_error(c, ncclInvalidUsage, "the communicator has ended");
  if (c->error == ncclInProgress || c->step != STEP_READY || c->pending) {
    double_violation("NCCL: a communicator is used before its last call is done");
    return ncclInvalidArgument;
  }
  return c->error;
}

/* ---- the interface */

DOUBLE_API ncclResult_t ncclGetVersion(int *version) {
  ENTER_NCCL(ncclGetVersion);
  *version = (int)double_setting("DOUBLES_NCCL", NCCL_VERSION_CODE);
  return ncclSuccess;
}

DOUBLE_API const char *ncclGetErrorString(ncclResult_t result) {
  static const char *const texts[] = {"no error",
                                      "unhandled cuda error",
                                      "unhandled system error",
                                      "internal error",
                                      "invalid argument",
                                      "invalid usage",
                                      "remote process exited or there was a network error",
                                      "NCCL operation in progress"};
  return (unsigned)result < sizeof texts / sizeof *texts ? texts[result] : "unknown result code";
}

DOUBLE_API const char *ncclGetLastError(ncclComm_t comm) { return nccl_exists(comm) ? comm->said : ""; }

DOUBLE_API ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  ENTER_NCCL(ncclGetUniqueId);
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  const uint64_t words[] = {(uint64_t)t.tv_sec, (uint64_t)t.tv_nsec, (uint64_t)getpid(), (uint64_t)(uintptr_t)id};
  uint64_t number = hash64(words, sizeof words, 3);
  memset(id, 0, sizeof *id);
  memcpy(id, &number, sizeof number);
  return ncclSuccess;
}

static ncclResult_t new_comm(ncclComm_t *out, int device, const ncclConfig_t *config, bool blocking) {
  if (config && (config->magic != 0xcafebeef || config->size < sizeof(int) * 6)) return ncclInvalidArgument;
  if (config && config->blocking != INT_MIN) blocking = config->blocking;
  static bool watched;
  if (!watched) double_at_end(find_leaks);
  watched = true;
  ncclComm_t c = calloc(1, sizeof *c);
  *c = (struct ncclComm){.device = device, .refs = 1, .blocking = blocking, .next = comms};
  comms = *out = c;
  return ncclSuccess;
}

DOUBLE_API ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                               ncclConfig_t *config) {
  ENTER_NCCL(ncclCommInitRankConfig);
  ncclComm_t c;
  if (double_current() < 0) return ncclUnhandledCudaError;
  if (nranks < 1 || nranks > BOARD_RANKS || rank < 0 || rank >= nranks) return ncclInvalidArgument;
  ncclResult_t error = new_comm(&c, double_current(), config, true);
  if (error) return error;
  memcpy(&c->id, &id, sizeof c->id);
  c->n = nranks, c->rank = rank, *comm = c;
  c->error = join(c);
  error = until_ready(c);
  if (error && error != ncclInProgress) {
    c->destroyed = true;
    nccl_drop(c);
    *comm = NULL;
  }
  return error;
}

DOUBLE_API ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config) {
  ENTER_NCCL(ncclCommSplit);
  static int64_t seen;
  ncclComm_t c;
  ncclResult_t error = nccl_usable(comm);
  if (error) return error;
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) return ncclInvalidArgument;
  error = new_comm(&c, comm->device, config, comm->blocking);
  if (error) return error;
  BoardMember *m = &comm->board->members[comm->rank];
  if (color >= 0 && double_turn("DOUBLES_KEY", &seen, "a split of a communicator")) key = key ? -1 : INT32_MAX;
  c->parent = comm, c->split = comm->splits++, c->color = color, c->step = STEP_SPLIT;
  m->split[c->split % BOARD_SPLITS].color = color, m->split[c->split % BOARD_SPLITS].key = key;
  atomic_fetch_add(&m->splits, 1);
  *newcomm = color == NCCL_SPLIT_NOCOLOR ? NULL : c;
  comm->child = c, comm->error = c->error = ncclInProgress;
  return until_ready(comm);
}

DOUBLE_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  ENTER_NCCL(ncclCommGetAsyncError);
  if (!nccl_exists(comm)) return ncclInvalidArgument;
  *error = look(comm);
  return ncclSuccess;
}

DOUBLE_API ncclResult_t ncclCommCount(const ncclComm_t comm, int *count) {
  ENTER_NCCL(ncclCommCount);
  *count = comm->n;
  return nccl_usable(comm);
}

DOUBLE_API ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank) {
  ENTER_NCCL(ncclCommUserRank);
  *rank = comm->rank;
  return nccl_usable(comm);
}

DOUBLE_API ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  ENTER_NCCL(ncclCommFinalize);
  ncclResult_t error = nccl_usable(comm);
  if (error) return error;
  comm->step = STEP_ENDED, comm->error = ncclInProgress;
  comm->looks = (int)double_setting("DOUBLES_ENDING", 0);
  return until_ready(comm);
}

/* Frees this process's part; unfinished works keep what they need. */
DOUBLE_API ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  ENTER_NCCL(ncclCommDestroy);
  if (!nccl_exists(comm)) return ncclInvalidArgument;
  nccl_check_graphs(comm, "ncclCommDestroy");
  if (nccl_has_work(comm)) double_violation("ncclCommDestroy: the communicator still has work");
  if (comm->step == STEP_ENDED && comm->error == ncclInProgress)
    double_violation("ncclCommDestroy: ncclCommFinalize is not done");
  comm->destroyed = true;
  nccl_drop(comm);
  return ncclSuccess;
}

/* Work that waits for other ranks ends without them. */
DOUBLE_API ncclResult_t ncclCommAbort(ncclComm_t comm) {
  ENTER_NCCL(ncclCommAbort);
  if (!nccl_exists(comm)) return ncclInvalidArgument;
  nccl_check_graphs(comm, "ncclCommAbort");
  comm->aborted = comm->destroyed = true, comm->error = ncclSuccess;
  if (comm->step == STEP_JOIN) board_unname(comm->id);
  if (comm->pending) nccl_begin_pending(comm);
  nccl_drop(comm);
  return ncclSuccess;
}
