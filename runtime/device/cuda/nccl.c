/* runtime/device/cuda/nccl.c - see nccl.h: communicators and their groups, the order of positions, captured requests,
 * progress. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/device/cuda/nccl_internal.h"

/* ---- opening */

static ncclConfig_t config(void) {
  return (ncclConfig_t){.size = sizeof(ncclConfig_t),
                        .magic = NCCL_CONFIG_MAGIC,
                        .version = NCCL_CONFIG_VERSION,
                        .blocking = 0,
                        .cgaClusterSize = NCCL_CONFIG_UNDEFINED,
                        .minCTAs = NCCL_CONFIG_UNDEFINED,
                        .maxCTAs = NCCL_CONFIG_UNDEFINED,
                        .splitShare = NCCL_CONFIG_UNDEFINED};
}

/* Sends the id of rank 0 to all ranks. */
static RtStatus share_id(NcclComm *c, int everyone, ncclUniqueId *id, RtError *error) {
  CommBlock *blocks = calloc(2 * (size_t)c->ranks, sizeof *blocks);
  CommTicket ticket;
  ncclUniqueId mine = {{0}};
  if (!blocks) return rt_error(error, RT_FAILED, "out of memory");
  RtStatus status = c->rank == 0 ? NCCL_CALL(c, unique_id, "the ranks' meeting place", error, &mine) : RT_OK;
  for (int i = 0; i < c->ranks && c->rank == 0; i++) blocks[i] = comm_contiguous(0, sizeof *id);
  blocks[c->ranks] = comm_contiguous(0, sizeof *id);
  CommOp op = {
      .kind = COMM_broadcast, .group = everyone, .src = &mine, .dst = id, .send = blocks, .recv = blocks + c->ranks};
  if (!status) status = comm_enqueue(c->host, 0, &op, &ticket, error);
  if (!status) status = comm_wait(c->host, ticket, error);
  free(blocks);
  return status;
}

static RtStatus open_queue(NcclComm *c, RtError *error) {
  static const char *const purpose = "the queue of communication";
  c->at = calloc((size_t)c->room, sizeof *c->at);
  if (!c->at) return rt_error(error, RT_FAILED, "out of memory");
  RtStatus status = GPU_CALL(c->d, queue_create, purpose, error, &c->queue, CU_STREAM_NON_BLOCKING);
  if (!status) status = gpu_words_alloc(c->d, N_WORDS, &c->words, error);
  if (!status && c->captures) status = GPU_CALL(c->d, event_create, purpose, error, &c->end, CU_EVENT_DISABLE_TIMING);
  for (int i = 0; i < c->room && !status; i++) {
    status = GPU_CALL(c->d, event_create, purpose, error, &c->at[i].ready, CU_EVENT_DISABLE_TIMING);
    if (!status) status = GPU_CALL(c->d, event_create, purpose, error, &c->at[i].done, CU_EVENT_DISABLE_TIMING);
  }
  return status;
}

static RtStatus open_world(NcclComm *c, int everyone, RtError *error) {
  static const char *const purpose = "connecting the ranks";
  ncclUniqueId id = {{0}};
  ncclConfig_t how = config();
  RtStatus status = share_id(c, everyone, &id, error);
  if (!status) status = NCCL_CALL(c, init, purpose, error, &c->world, c->ranks, id, c->rank, &how);
  return status ? status : gpu_nccl_settle(c, c->world, purpose, error);
}

/* ---- groups */

static RtStatus add_group(Comm *comm, const int *members, int n, int *group, RtError *error) {
  NcclComm *c = (NcclComm *)comm;
  NcclGroup *groups = realloc(c->groups, (size_t)(c->n_groups + 1) * sizeof *groups);
  if (!groups) return rt_error(error, RT_FAILED, "out of memory");
  c->groups = groups;
  NcclGroup *g = &groups[c->n_groups];
  *g = (NcclGroup){.n = n, .place = -1, .members = malloc((size_t)n * sizeof *members)};
  if (!g->members) return rt_error(error, RT_FAILED, "out of memory");
  memcpy(g->members, members, (size_t)n * sizeof *members);
  for (int i = 0; i < n; i++)
    if (members[i] == c->rank) g->place = i;
  *group = c->n_groups++;
  return RT_OK;
}

/* Returns how many groups from `first` on share no rank. */
static int disjoint(const NcclComm *c, int first, bool *taken) {
  int end = first;
  memset(taken, 0, (size_t)c->ranks * sizeof *taken);
  for (; end < c->n_groups; end++) {
    const NcclGroup *g = &c->groups[end];
    for (int i = 0; i < g->n; i++)
      if (taken[g->members[i]]) return end - first;
    for (int i = 0; i < g->n; i++) taken[g->members[i]] = true;
  }
  return end - first;
}

static bool is_world(const NcclComm *c, const NcclGroup *g) {
  for (int i = 0; i < g->n; i++)
    if (g->members[i] != i) return false;
  return g->n == c->ranks;
}

static RtStatus split(NcclComm *c, int first, int n, RtError *error) {
  static const char *const purpose = "dividing the ranks into groups";
  NcclGroup *mine = NULL;
  bool any = false;
  ncclConfig_t how = config();
  ncclComm_t made = NULL;
  for (int i = first; i < first + n; i++) {
    NcclGroup *g = &c->groups[i];
    if (g->n > 1 && is_world(c, g)) g->comm = c->world;
    else any |= g->n > 1;
    if (g->place >= 0 && g->n > 1 && !g->comm) mine = g;
  }
  if (!any) return RT_OK;
  int color = mine ? (int)(mine - c->groups) : NCCL_SPLIT_NOCOLOR, key = mine ? mine->place : 0;
  RtStatus status = NCCL_CALL(c, split, purpose, error, c->world, color, key, &made, &how);
  if (!status) status = gpu_nccl_settle(c, c->world, purpose, error);
  if (!status && made) status = gpu_nccl_settle(c, made, purpose, error);
  if (!made) return status;
  c->splits[c->n_splits++] = made;
  if (mine) mine->comm = made;
  return status;
}

/* Makes the communicators when all groups are known. */
static RtStatus make_groups(Comm *comm, RtError *error) {
  NcclComm *c = (NcclComm *)comm;
  bool *taken = calloc((size_t)c->ranks, sizeof *taken);
  c->splits = calloc((size_t)c->n_groups + 1, sizeof *c->splits);
  RtStatus status = taken && c->splits ? RT_OK : rt_error(error, RT_FAILED, "out of memory");
  for (int first = 0, n; first < c->n_groups && !status; first += n) {
    n = disjoint(c, first, taken);
    status = split(c, first, n, error);
  }
  free(taken);
  return status;
}

static NcclPosition *place_of(const NcclComm *c, CommTicket ticket) { return &c->at[ticket % (CommTicket)c->room]; }

static uint32_t word(const NcclComm *c, int which) {
  return atomic_load_explicit(&c->words[which], memory_order_relaxed);
}

/* Call it only if both queues are empty. */
static void set_words(NcclComm *c, uint32_t value) {
  for (int i = 0; i < N_WORDS; i++) atomic_store_explicit(&c->words[i], value, memory_order_relaxed);
}

/* Makes the words count tickets again, all of which are done. */
static void end_again(NcclComm *c) {
  if (c->again) set_words(c, (uint32_t)c->next);
  c->again = NULL;
}

/* Names the next position; *number is its number in the words. */
static RtStatus name_position(NcclComm *c, NcclName name, uint32_t *number, RtError *error) {
  NcclCapture *k = c->capture;
  place_of(c, c->next)->name = name;
  *number = k ? k->n + 1 : (uint32_t)c->next + 1;
  if (!k) return RT_OK;
  if (k->n == k->room) {
    uint32_t room = k->room ? 2 * k->room : 64;
    NcclName *names_now = realloc(k->names, room * sizeof *names_now);
    if (!names_now) return rt_error(error, RT_FAILED, "out of memory");
    k->names = names_now;
    k->room = room;
  }
  k->names[k->n++] = name;
  return RT_OK;
}

/* A place in the ring is reused after the device was told to wait for its last operation.  The words follow the events
 * `ready` and `done`, so they delay no queue that waits for those. */
static RtStatus enqueue(Comm *comm, uint64_t key, const CommOp *op, CommTicket *ticket, RtError *error) {
  static const char *const purpose = "the order of the queues";
  NcclComm *c = (NcclComm *)comm;
  NcclPosition *at = place_of(c, *ticket = c->next);
  uint32_t number;
  end_again(c);
  RtStatus status = name_position(c, (NcclName){key, op->kind}, &number, error);
  if (c->progress) atomic_store_explicit(&c->progress->waiting, 0, memory_order_relaxed);
  if (!status) status = gpu_nccl_check(c, op, error);
  if (!status) status = GPU_CALL(c->d, event_record, purpose, error, at->ready, c->d->compute);
  if (!status) status = gpu_set_word(c->d, &c->words[BEGUN], number, c->d->compute, error);
  if (!status) status = GPU_CALL(c->d, queue_wait, purpose, error, c->queue, at->ready, 0);
  if (!status) status = gpu_nccl_ask(c, op, error);
  if (!status) status = GPU_CALL(c->d, event_record, purpose, error, at->done, c->queue);
  if (!status) status = gpu_set_word(c->d, &c->words[DONE], number, c->queue, error);
  c->next++;
  if (!status) gpu_nccl_count(c, op, c->capture ? c->capture->counts : c->counts);
  return status;
}

/* NULL: the place in the ring is in use again, and the device was told to wait for the old operation then. */
static CUevent done_of(const NcclComm *c, CommTicket ticket) {
  return c->next - ticket <= (CommTicket)c->room ? place_of(c, ticket)->done : NULL;
}

static RtStatus wait_ticket(Comm *comm, CommTicket ticket, RtError *error) {
  NcclComm *c = (NcclComm *)comm;
  CUevent done = done_of(c, ticket);
  if (!done || ticket < c->awaited) return RT_OK; /* operations complete in the order of tickets */
  c->awaited = ticket + 1;
  return GPU_CALL(c->d, queue_wait, "waiting for communication", error, c->d->compute, done, 0);
}

static RtStatus poll_ticket(Comm *comm, CommTicket ticket, bool *done, RtError *error) {
  const NcclComm *c = (const NcclComm *)comm;
  (void)error;
  *done = c->again || (int32_t)(word(c, DONE) - (uint32_t)(ticket + 1)) >= 0;
  return RT_OK;
}

/* ---- captured requests */

static bool captures(const Comm *comm) { return ((const NcclComm *)comm)->captures; }

static RtStatus capture(Comm *comm, RtError *error) {
  NcclComm *c = (NcclComm *)comm;
  NcclCapture *k = calloc(1, sizeof *k);
  if (!k) return rt_error(error, RT_FAILED, "out of memory");
  end_again(c);
  c->capture = k;
  return RT_OK;
}

/* The capture may be that of the last request, whose words are then no longer needed. */
static void release_capture(Comm *comm, void *made) {
  NcclComm *c = (NcclComm *)comm;
  NcclCapture *k = made;
  if (!k) return;
  if (c->again == k) end_again(c);
  free(k->names);
  free(k);
}

/* Joins the queue of communication into the captured queue for good. */
static RtStatus captured(Comm *comm, void **out, RtError *error) {
  static const char *const purpose = "the end of a captured request";
  NcclComm *c = (NcclComm *)comm;
  NcclCapture *k = c->capture;
  RtStatus status = RT_OK;
  c->capture = NULL;
  if (out && k->n) status = GPU_CALL(c->d, event_record, purpose, error, c->end, c->queue);
  if (out && k->n && !status) status = GPU_CALL(c->d, queue_wait, purpose, error, c->d->compute, c->end, 0);
  if (!out || status) release_capture(comm, k);
  else *out = k;
  return status;
}

/* The last word of a request without a capture may be written after its end. */
static RtStatus again(Comm *comm, const void *made, uint64_t shift, RtError *error) {
  NcclComm *c = (NcclComm *)comm;
  const NcclCapture *k = made;
  RtStatus status = c->again ? RT_OK : gpu_wait_queue(c->d, c->queue, "the end of communication", error);
  if (status) return status;
  set_words(c, 0);
  c->again = k;
  c->shift = shift;
  c->seen = 0;
  for (int i = 0; i < COMM_KIND_COUNT; i++) {
    c->counts[i].operations += k->counts[i].operations;
    c->counts[i].bytes_sent += k->counts[i].bytes_sent;
  }
  return RT_OK;
}

/* ---- progress and failures */

/* Finds the oldest position that is not done; false if there is none. */
static bool oldest(const NcclComm *c, uint32_t done, NcclName *name) {
  uint32_t left = c->again ? c->again->n - done : (uint32_t)c->next - done;
  if (c->capture || left == 0) return false;
  if (c->again) {
    *name = c->again->names[done];
    name->key += c->shift;
    return true;
  }
  if (left > (uint32_t)c->room) left = (uint32_t)c->room;
  *name = place_of(c, c->next - left)->name;
  return true;
}

/* Shows the watchdog the position that the device has begun and in which it waits for other ranks. */
static void publish(NcclComm *c) {
  uint32_t done = word(c, DONE), begun = word(c, BEGUN);
  NcclName name = {0};
  bool waiting = oldest(c, done, &name) && begun != done;
  if (done != c->seen) atomic_fetch_add_explicit(&c->progress->moves, 1, memory_order_relaxed);
  c->seen = done;
  if (waiting) {
    atomic_store_explicit(&c->progress->key, name.key, memory_order_relaxed);
    atomic_store_explicit(&c->progress->kind, (uint32_t)name.kind, memory_order_relaxed);
  }
  atomic_store_explicit(&c->progress->waiting, waiting, memory_order_relaxed);
}

static RtStatus check_all(Comm *comm, RtError *error) {
  NcclComm *c = (NcclComm *)comm;
  ncclResult_t state;
  RtStatus status = comm_check(c->host, error);
  if (!status && c->world) status = gpu_nccl_async_error(c, c->world, &state, "communication", error);
  for (int i = 0; i < c->n_splits && !status; i++)
    status = gpu_nccl_async_error(c, c->splits[i], &state, "communication", error);
  if (!status && c->progress) publish(c);
  if (status) c->broken = true;
  return status;
}

static void supervise(Comm *comm, CommProgress *progress, CommInterrupted *interrupted, void *context) {
  ((NcclComm *)comm)->progress = progress;
  comm_supervise(((NcclComm *)comm)->host, progress, interrupted, context);
}

static void give_up(Comm *comm) { ((NcclComm *)comm)->broken = true; }

static void abort_all(Comm *comm) {
  give_up(comm);
  comm_abort(((NcclComm *)comm)->host);
}

static CommCount count(const Comm *comm, CommKind kind) { return ((const NcclComm *)comm)->counts[kind]; }

/* ---- closing */

enum { END_TURNS = 100000, END_NS = 100000 }; /* ten seconds */

/* Finalises a communicator; true on success.  Other ranks may have left, which is no failure, so this does not check
 * the state of other communicators. */
static bool ends(NcclComm *c, ncclComm_t comm) {
  RtError unread = {0};
  ncclResult_t state = ncclInProgress;
  RtStatus status = NCCL_CALL(c, finalize, "the end", &unread, comm);
  for (int i = 0; i < END_TURNS && !status && state == ncclInProgress; i++) {
    status = gpu_nccl_async_error(c, comm, &state, "the end", &unread);
    if (!status && state == ncclInProgress) nanosleep(&(struct timespec){0, END_NS}, NULL);
  }
  return !status && state == ncclSuccess;
}

static void close_one(NcclComm *c, ncclComm_t comm) {
  if (!comm) return;
  if (!c->broken && ends(c, comm)) c->api.destroy(comm);
  else c->api.abort(comm);
}

static void close_comm(Comm *comm) {
  NcclComm *c = (NcclComm *)comm;
  RtError unread = {0};
  if (!c->broken && c->queue && gpu_wait_queue(c->d, c->queue, "the end", &unread)) c->broken = true;
  bool idle = !c->broken; /* else the words stay until the process ends, which is soon */
  for (int i = c->n_splits; i-- > 0;) close_one(c, c->splits[i]);
  close_one(c, c->world);
  for (int i = 0; i < c->room && c->at; i++) {
    if (c->at[i].ready) c->d->driver.event_destroy(c->at[i].ready);
    if (c->at[i].done) c->d->driver.event_destroy(c->at[i].done);
  }
  if (c->end) c->d->driver.event_destroy(c->end);
  if (c->words && idle) c->d->driver.pinned_free((void *)c->words);
  if (c->queue) c->d->driver.queue_destroy(c->queue);
  for (int i = 0; i < c->n_groups; i++) free(c->groups[i].members);
  free(c->groups);
  free(c->splits);
  free(c->at);
  gpu_close_library(c->api.handle);
  free(c);
}

static const CommOps nccl_ops = {.name = "nccl",
                                 .group = add_group,
                                 .ready = make_groups,
                                 .enqueue = enqueue,
                                 .poll = poll_ticket,
                                 .wait = wait_ticket,
                                 .check = check_all,
                                 .supervise = supervise,
                                 .give_up = give_up,
                                 .abort = abort_all,
                                 .captures = captures,
                                 .capture = capture,
                                 .captured = captured,
                                 .again = again,
                                 .release_capture = release_capture,
                                 .count = count,
                                 .close = close_comm};

RtStatus gpu_nccl_open(CudaDevice *d, const CudaNccl *api, Comm *host, int everyone, const CommOptions *options,
                       bool captured_too, Comm **out, RtError *error) {
  NcclComm *c = calloc(1, sizeof *c);
  if (!c) {
    gpu_close_library(api->handle);
    return rt_error(error, RT_FAILED, "out of memory");
  }
  *c = (NcclComm){.base.ops = &nccl_ops,
                  .d = d,
                  .api = *api,
                  .host = host,
                  .rank = (int)d->options.rank,
                  .ranks = (int)d->p->ranks,
                  .room = options->max_operations,
                  .captures = captured_too,
                  .progress = options->progress};
  RtStatus status = open_queue(c, error);
  if (!status) status = open_world(c, everyone, error);
  if (status) {
    c->broken = true;
    close_comm(&c->base);
    return status;
  }
  *out = &c->base;
  return RT_OK;
}
