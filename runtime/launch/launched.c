/* runtime/launch/launched.c - see launched.h.
 *
 * All data that ranks exchange outside of a request are blocks of broadcasts in the group of all ranks: from rank 0 to
 * all, or from all to rank 0.  The program itself has no broadcasts, so its counts of communication are not affected.
 */
#include "runtime/launch/launched.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "program/box.h"
#include "runtime/comm/cpu.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/record.h"
#include "runtime/launch/limit.h"
#include "runtime/launch/regroup.h"
#include "runtime/launch/rendezvous.h"
#include "runtime/launch/same_run.h"
#include "runtime/comm/transport_mpi.h"
#include "runtime/comm/transport_tcp.h"

enum {
  DEFAULT_TIMEOUT_MS = 60000,
  IDLE_MS = 100,
  MPI_ENDS_MS = 1000,
  TELL_MS = 500,
  MISCOUNT_MS = 5000,
  STOPPED_MS = 1500,
  AGAIN_MS = 5000,
  FILE_LOOK_MS = 5
};

typedef enum CommandKind { COMMAND_RUN, COMMAND_LEAVE, COMMAND_START } CommandKind;

typedef struct Command {
  uint32_t kind;
  int32_t code; /* LEAVE: the exit code of the ranks */
  RequestHead head;
  uint32_t send_inputs;
  int64_t symbols[PROGRAM_MAX_SYMBOLS];
} Command;

/* A rank's answer; `parts` WrittenParts and the elements of each part follow. */
typedef struct Answer {
  RankReport report;
  uint64_t parts, bytes;
  uint64_t asked; /* 1: this rank was asked to end the run, 2: to leave it */
} Answer;

struct Launched {
  Launch place;
  LaunchedOptions options;
  const Artifact *artifact;
  Transport *transport; /* of the communicator */
  Comm *comm;
  int everyone; /* the group of all ranks */
  Watch *watch;
  SessionSlot *slot; /* of the watch */
  int threads;       /* threads that this rank would use */
  bool threads_chosen;
  int common_threads;     /* threads of every rank, agreed when they met */
  uint32_t commands;      /* sent or received */
  uint32_t requests;      /* completed */
  uint64_t key;           /* order key of the next exchange */
  CommBlock *send, *recv; /* per rank */
  Answer *answers;        /* rank 0: per rank */
  WrittenParts written;
  ParamFiles *files;
  Executor *executor;
  char *io;
  size_t io_bytes;
  RequestFile file;   /* file of the request, if it has one */
  bool filed;         /* a file of REQUEST_COPY may not be whole yet */
  bool joined;        /* the last command was REQUEST_JOIN: at the next one rank 0 has ended the file */
  void *blocks;       /* rank 0: target of the blocks that all ranks give */
  size_t block_bytes; /* bytes of each block */
  Tuning *tuning;     /* choices of --tune; NULL without */
  uint64_t tune_hash;
  bool broken;     /* after an error the ranks no longer communicate */
  bool over;       /* all ranks know that they end */
  RtError failure; /* the error that broke it */
  bool failed_alone;
  bool exposed; /* rank 0: anyone who can reach its port can take part */
};

/* ---- moving bytes */

/* Waits without a limit: rank 0 may be idle for hours. */
static RtStatus wait_idle(Launched *l, CommTicket ticket, RtError *error) {
  bool done = false;
  for (unsigned spins = 0;; spins++) {
    RtStatus status = comm_poll(l->comm, ticket, &done, error);
    if (status || done) return status;
    l->transport->ops->sleep(l->transport, spins, IDLE_MS);
  }
}

/* Moves the blocks in l->send and l->recv, and clears both. */
static RtStatus move(Launched *l, const void *src, void *dst, bool idle, RtError *error) {
  CommTicket ticket;
  CommOp op = {.kind = COMM_broadcast, .group = l->everyone, .src = src, .dst = dst, .send = l->send, .recv = l->recv};
  RtStatus status = comm_enqueue(l->comm, l->key, &op, &ticket, error);
  if (!status) status = idle ? wait_idle(l, ticket, error) : comm_wait(l->comm, ticket, error);
  memset(l->send, 0, sizeof *l->send * (size_t)l->place.world);
  memset(l->recv, 0, sizeof *l->recv * (size_t)l->place.world);
  return status;
}

/* Sends from rank 0 to all. */
static RtStatus spread(Launched *l, void *data, size_t bytes, bool idle, RtError *error) {
  for (int i = 1; i < l->place.world && l->place.rank == 0; i++) l->send[i] = comm_contiguous(0, bytes);
  if (l->place.rank != 0) l->recv[0] = comm_contiguous(0, bytes);
  return move(l, data, data, idle, error);
}

/* Sends `bytes` from each rank to rank 0, which gets them in the order of ranks; its own are already in place. */
static RtStatus gather(Launched *l, const void *mine, void *all, size_t bytes, RtError *error) {
  for (int i = 1; i < l->place.world && l->place.rank == 0; i++) l->recv[i] = comm_contiguous((size_t)i * bytes, bytes);
  if (l->place.rank != 0) l->send[0] = comm_contiguous(0, bytes);
  return move(l, mine, all, false, error);
}

/* ---- meeting */

/* Distributes the identities of all ranks, so that all come to the same verdict. */
static RtStatus compare(Launched *l, const RankIdentity *mine, RtError *error) {
  int world = l->place.world;
  RankIdentity *all = calloc((size_t)world, sizeof *all);
  if (!all) return rt_error(error, RT_FAILED, "out of memory");
  all[l->place.rank] = *mine;
  RtStatus status = gather(l, mine, all, sizeof *mine, error);
  if (!status) status = spread(l, all, sizeof *all * (size_t)world, false, error);
  if (!status) {
    status = launch_same_run_check(all, world, error);
    l->over = status != RT_OK;
    if (!status) l->common_threads = launch_same_run_threads(all, world);
  }
  free(all);
  return status;
}

/* Checks that all ranks do the same; a rank with unusable files reports them to all. */
static RtStatus same_run(Launched *l, RtError *error) {
  const Artifact *a = l->artifact;
  RtError own = l->options.unable;
  RankIdentity mine = rank_identity(l->place.rank, l->place.world);
  if (a->image) {
    mine.program = a->program.header->table_hash;
    mine.program_bytes = a->bytes;
    mine.ranks = a->program.ranks;
  }
  mine.threads = l->threads;
  mine.threads_chosen = l->threads_chosen;
  if (!own.status) param_files_open(a, l->options.weights, &l->slot->place.beats, &l->files, &own);
  if (!own.status) tuning_hash(l->options.tune, &mine.tuning, &own);
  l->tune_hash = mine.tuning;
  if (own.status != RT_USAGE || a->program.ranks == (uint32_t)l->place.world)
    mine.status = (uint32_t)own.status; /* else `ranks` shows the error */
  if (mine.status) memcpy(mine.text, own.text, sizeof mine.text);
  else if (l->files) mine.weights = param_files_digest(l->files);
  return compare(l, &mine, error);
}

static void step_text(void *context, int rank, uint32_t step, char *text, size_t size) {
  (void)rank;
  exec_step_text(context, step, text, size);
}

static RtStatus watch_ranks(Launched *l, Meeting *m, RtError *error) {
  WatchOptions o = {.rank = l->place.rank,
                    .world = l->place.world,
                    .controls = m->controls,
                    .timeout_ms = l->options.timeout_ms,
                    .stopped_ms = l->options.elastic ? STOPPED_MS : 0,
                    .loss_ms = l->place.transport == LAUNCH_MPI ? MPI_ENDS_MS : 0,
                    .step_text = step_text,
                    .step_context = (void *)(uintptr_t)&l->artifact->program,
                    .stuck = l->options.stuck};
  RtStatus status = watch_start(&o, &l->watch, error);
  if (status) return status;
  rendezvous_give(m, m->controls);
  l->slot = watch_slot(l->watch);
  rank_place_step(&l->slot->place, 0);
  watch_command(l->watch, ++l->commands); /* the first command is still to come */
  return RT_OK;
}

/* Returns the options for both ways to meet.  Over MPI rank 0 makes the secret and MPI distributes it. */
static Rendezvous rendezvous(const Launched *l) {
  bool mpi = l->place.transport == LAUNCH_MPI;
  return (Rendezvous){.rank = l->place.rank,
                      .world = l->place.world,
                      .address = mpi ? "rank 0's watchdog" : l->place.address,
                      .timeout_ms = l->options.elastic && regroup_round() && l->options.timeout_ms > AGAIN_MS
                                        ? AGAIN_MS
                                        : l->options.timeout_ms,
                      .network = mpi,
                      .here = l->place.local_world >= l->place.world};
}

/* Finds the key of this run's ranks, and decides whether they may meet over a network. */
static RtStatus find_key(Launched *l, Rendezvous *r, RtError *error) {
  static const unsigned char zero[SECRET_BYTES] = {0};
  bool found;
  RtStatus status = secret_find(r->key.key, &found, error);
  if (status) return status;
  secret_mac(zero, l->place.run, strlen(l->place.run), r->key.label);
  r->secret = found;
  r->network = found || l->options.insecure;
  l->exposed = r->network && !found && l->place.rank == 0;
  return RT_OK;
}

static RtStatus open_tcp(Launched *l, RtError *error) {
  Meeting m;
  Rendezvous r = rendezvous(l);
  RtStatus status = find_key(l, &r, error);
  l->over = status != RT_OK;
  if (status) return status;
  r.here = false; /* ranks of other machines may read the file, whatever their launcher reports */
  status = rendezvous_meet(&r, &m, error);
  l->over = status != RT_OK; /* all ranks were informed, or none was found */
  if (!status) status = watch_ranks(l, &m, error);
  if (!status) {
    status = rendezvous_connect(&r, &m, watch_fd(l->watch), error);
    if (status) watch_verdict(l->watch); /* a peer that left already had a reason */
  }
  if (!status) status = transport_tcp_open(m.data, r.rank, r.world, l->watch, &l->transport, error);
  if (!status) rendezvous_give(&m, m.data);
  rendezvous_close(&m);
  return status;
}

/* Opens MPI; MPI_Init returns when all ranks have called it. */
static RtStatus open_mpi(Launched *l, RtError *error) {
  int later = l->place.local_rank ? TELL_MS : 0; /* one process per machine is enough to report it */
  Limit *limit = limit_begin(l->options.timeout_ms + later, l->options.stuck,
                             "rank %d waited %.1f s in MPI_Init: another rank is late", l->place.rank,
                             l->options.timeout_ms / 1000.0);
  RtStatus status = transport_mpi_open(l->place.rank, l->place.world, &l->transport, error);
  limit_end(limit);
  return status;
}

static RtStatus spread_text(void *context, void *data, size_t bytes, RtError *error) {
  return spread(context, data, bytes, false, error);
}

/* MPI moves bytes, but does not report a rank that is stopped, and its launcher may let the others wait for one that
 * died.  So the watchdog gets connections of its own, made after the ranks can communicate. */
static RtStatus watch_mpi(Launched *l, RtError *error) {
  Meeting m;
  Rendezvous r = rendezvous(l);
  r.spread = spread_text;
  r.context = l;
  RtStatus status = rendezvous_meet(&r, &m, error);
  l->over = status == RT_BAD_INPUT; /* all ranks were informed, and can leave MPI properly */
  if (!status) status = watch_ranks(l, &m, error);
  rendezvous_close(&m);
  return status;
}

static bool interrupted(void *context, RtError *error) { return watch_failed(context, error); }

static RtStatus everyone(Launched *l, RtError *error) {
  int *members = calloc((size_t)l->place.world, sizeof *members);
  if (!members) return rt_error(error, RT_FAILED, "out of memory");
  for (int i = 0; i < l->place.world; i++) members[i] = i;
  RtStatus status = comm_group(l->comm, members, l->place.world, &l->everyone, error);
  free(members);
  return status;
}

static RtStatus open_comm(Launched *l, RtError *error) {
  bool mpi = l->place.transport == LAUNCH_MPI;
  RtStatus status = mpi ? open_mpi(l, error) : open_tcp(l, error);
  if (status) return status;
  CommOptions options = exec_comm_options();
  options.timeout_ms = l->options.timeout_ms;
  status = comm_cpu_open(l->transport, &options, &l->comm, error);
  if (status) l->transport = NULL; /* comm_cpu_open has closed it */
  if (!status) status = everyone(l, error);
  if (!status && mpi) status = watch_mpi(l, error);
  if (!status) comm_supervise(l->comm, &l->slot->progress, interrupted, l->watch);
  return status;
}

/* Records an error.  For the failure of another rank it takes the watch's text. */
static RtStatus note(Launched *l, RtStatus status, RtError *error) {
  if (!status || l->over) return status;
  l->broken = true;
  if (l->watch && watch_failed(l->watch, &l->failure)) *error = l->failure;
  else l->failure = *error;
  l->failed_alone = !(l->watch && watch_failed(l->watch, NULL)) && status != RT_ABORTED && l->transport;
  return error->status;
}

static RtStatus open_all(Launched *l, RtError *error) {
  size_t world = (size_t)l->place.world;
  if (!sockets_allow(2 * world)) /* one to each for data, and rank 0's to each for the watchdog */
    return rt_error_errno(error, RT_FAILED,
                          "rank %d cannot open the connections of a run of %zu ranks (see ulimit -Hn)", l->place.rank,
                          world);
  l->send = calloc(world, sizeof *l->send);
  l->recv = calloc(world, sizeof *l->recv);
  l->answers = calloc(world, sizeof *l->answers);
  if (!l->send || !l->recv || !l->answers) return rt_error(error, RT_FAILED, "out of memory");
  l->threads = launch_share_cores(&l->place, &l->threads_chosen);
  RtStatus status = open_comm(l, error);
  if (!status) status = same_run(l, error);
  if (!status) atomic_store(&l->slot->command, l->commands);
  return status;
}

/* True if this program is for another number of ranks.  Usually that holds for all ranks, which then end together.  A
 * single one informs the ranks that wait for it, but does not wait long itself; over MPI all ranks are present. */
static bool miscounted(const Launched *l) {
  return l->options.unable.status == RT_USAGE && l->place.transport == LAUNCH_TCP;
}

RtStatus launched_open(const Launch *place, const Artifact *artifact, const LaunchedOptions *options, Launched **out,
                       RtError *error) {
  Launched *l = *out = calloc(1, sizeof *l);
  if (!l) return rt_error(error, RT_FAILED, "out of memory");
  l->place = *place;
  l->options = *options;
  if (l->options.timeout_ms <= 0) l->options.timeout_ms = DEFAULT_TIMEOUT_MS;
  if (miscounted(l) && l->options.timeout_ms > MISCOUNT_MS) l->options.timeout_ms = MISCOUNT_MS;
  l->artifact = artifact;
  RtStatus status = open_all(l, error);
  if (status && status != RT_BAD_INPUT && options->unable.status)
    *error = options->unable; /* the errors of other ranks follow from it */
  return note(l, status ? error->status : status, error);
}

/* Opens the executor.  This may involve communication, so all ranks do it when rank 0 tells them. */
static RtStatus open_executor(Launched *l, RtError *error) {
  ExecOptions options = {.rank = (uint32_t)l->place.rank,
                         .local_rank = (uint32_t)l->place.local_rank,
                         .threads = l->common_threads,
                         .comm = l->comm,
                         .place = &l->slot->place,
                         .progress = &l->slot->progress,
                         .written = l->place.rank ? &l->written : NULL,
                         .check = exec_is_set("APC_CHECK"),
                         .eager = exec_is_set("APC_EAGER"),
                         .staged = exec_comm_staged(),
                         .kernels = exec_conv_kernels()};
  options.files = l->files;
  RtStatus status = tuning_open(l->options.tune, l->tune_hash, &l->tuning, error);
  options.tuning = l->tuning;
  return status ? status : exec_open(l->artifact, &options, &l->executor, error);
}

RtStatus launched_start(Launched *l, RtError *error) {
  if (l->executor) return RT_OK;
  Command c = {.kind = COMMAND_START};
  watch_command(l->watch, ++l->commands);
  RtStatus status = spread(l, &c, sizeof c, false, error);
  if (!status) status = open_executor(l, error);
  atomic_store(&l->slot->command, l->commands);
  return note(l, status, error);
}

RtStatus launched_io(Launched *l, size_t bytes, void **area, RtError *error) {
  if (bytes > l->io_bytes) {
    free(l->io);
    l->io_bytes = 0;
    l->io = aligned_alloc(PROGRAM_ALIGN, (bytes + PROGRAM_ALIGN - 1) / PROGRAM_ALIGN * PROGRAM_ALIGN);
    if (!l->io) return rt_error(error, RT_FAILED, "out of memory: %zu bytes for inputs and outputs", bytes);
    memset(l->io, 0, bytes);
    l->io_bytes = bytes;
  }
  *area = l->io;
  return RT_OK;
}

/* ---- a request */

/* The inputs are contiguous, from the first one's place to the first output's. */
static RtStatus spread_inputs(Launched *l, uint32_t entry, const RequestLayout *layout, RtError *error) {
  uint32_t n = l->artifact->program.entries[entry].n_inputs;
  if (n == 0) return RT_OK;
  size_t end = layout->offsets[n - 1] + layout->sizes[n - 1];
  return spread(l, l->io + layout->offsets[0], end - layout->offsets[0], false, error);
}

static size_t part_bytes(const Program *p, const ProgramEntry *e, const WrittenPart *part) {
  size_t n = dtype_bytes((DType)p->ports[e->inputs + part->port].dtype);
  for (uint32_t d = 0; d < part->rank; d++) n *= (size_t)part->extents[d];
  return n;
}

/* Copies a part between contiguous elements and its place in the I/O area. */
static void copy_part(const Launched *l, const ProgramEntry *e, const RequestLayout *layout, const WrittenPart *part,
                      char *row, bool pack) {
  static const int64_t zero[PROGRAM_MAX_RANK] = {0};
  Box place = {l->io + layout->offsets[part->port], layout->shapes[part->port].dims, part->start},
      flat = {row, part->extents, zero};
  box_move(part->rank, dtype_bytes((DType)l->artifact->program.ports[e->inputs + part->port].dtype), part->extents,
           pack ? place : flat, pack ? flat : place);
}

static RtStatus unpack(const Launched *l, const ProgramEntry *e, const RequestLayout *layout, int rank, char *bytes,
                       RtError *error) {
  const Answer *a = &l->answers[rank];
  uint32_t ports = (uint32_t)(e->n_inputs + e->n_outputs);
  size_t at = a->parts * sizeof(WrittenPart);
  for (uint64_t i = 0; i < a->parts; i++) {
    WrittenPart part;
    memcpy(&part, bytes + i * sizeof part, sizeof part);
    if (part.port < e->n_inputs || part.port >= ports || part.rank != (uint32_t)layout->shapes[part.port].rank ||
        !box_fits(part.rank, part.start, part.extents, layout->shapes[part.port].dims) ||
        part_bytes(&l->artifact->program, e, &part) > a->bytes - at)
      return rt_error(error, RT_INTERNAL, "rank %d sent an invalid part of an output", rank);
    copy_part(l, e, layout, &part, bytes + at, false);
    at += part_bytes(&l->artifact->program, e, &part);
  }
  return RT_OK;
}

/* True if the answer has no more bytes than the outputs, in no more parts than instructions could have written. */
static bool answer_fits(const Launched *l, const RequestLayout *layout, const Answer *a) {
  const Program *p = &l->artifact->program;
  uint64_t most = (uint64_t)p->n_instrs * p->micro_batches;
  return a->parts <= most && a->bytes / sizeof(WrittenPart) >= a->parts &&
         a->bytes - a->parts * sizeof(WrittenPart) <= layout->bytes;
}

/* Rank 0: collects the parts of all other ranks. */
static RtStatus collect(Launched *l, const ProgramEntry *e, const RequestLayout *layout, RtError *error) {
  size_t total = 0;
  for (int i = 1; i < l->place.world; i++) {
    const Answer *a = &l->answers[i];
    size_t before = total;
    if (!answer_fits(l, layout, a) || __builtin_add_overflow(total, a->bytes, &total) || total == SIZE_MAX)
      return rt_error(error, RT_INTERNAL, "rank %d sent an invalid answer", i);
    l->recv[i] = comm_contiguous(before, a->bytes);
  }
  char *bytes = malloc(total + 1);
  if (!bytes) return rt_error(error, RT_FAILED, "out of memory: %zu bytes for outputs", total);
  RtStatus status = move(l, NULL, bytes, false, error);
  size_t at = 0;
  for (int i = 1; i < l->place.world && !status; i++) {
    status = unpack(l, e, layout, i, bytes + at, error);
    at += l->answers[i].bytes;
  }
  free(bytes);
  return status;
}

/* Other ranks: send the parts that this rank wrote. */
static RtStatus deliver(Launched *l, const ProgramEntry *e, const RequestLayout *layout, size_t total, RtError *error) {
  size_t at = l->written.n * sizeof *l->written.items;
  char *bytes = malloc(total + 1);
  if (!bytes) return rt_error(error, RT_FAILED, "out of memory: %zu bytes for outputs", total);
  if (at) memcpy(bytes, l->written.items, at);
  for (size_t i = 0; i < l->written.n; i++) {
    copy_part(l, e, layout, &l->written.items[i], bytes + at, true);
    at += part_bytes(&l->artifact->program, e, &l->written.items[i]);
  }
  l->send[0] = comm_contiguous(0, total);
  RtStatus status = move(l, bytes, NULL, false, error);
  free(bytes);
  return status;
}

static void request_through(Launched *l) { l->key = exec_key_before(++l->requests); }

/* Sends the ranks' blocks, which have the same size, to rank 0. */
static RtStatus give(Launched *l, uint32_t kind, RtError *error) {
  size_t bytes;
  const void *block = exec_given(l->executor, kind, &bytes);
  if (l->place.rank == 0 && bytes != l->block_bytes)
    return rt_error(error, RT_INTERNAL, "the ranks sent blocks of another size");
  if (l->place.rank == 0 && bytes) memcpy(l->blocks, block, bytes);
  return gather(l, block, l->blocks, bytes, error);
}

/* The layout with the sizes that the request has computed. */
static RtStatus layout_of_outputs(const Launched *l, uint32_t entry, const int64_t *symbols, const RankReport *report,
                                  RequestLayout *out, RtError *error) {
  const Program *p = &l->artifact->program;
  int64_t now[PROGRAM_MAX_SYMBOLS];
  memcpy(now, symbols, sizeof *now * p->n_symbols);
  request_computed(p, report, now);
  return request_layout(p, entry, now, true, out, error);
}

/* Runs this rank's share, then sends its answer and its outputs.  layout: NULL for requests that run no entry. */
static RtStatus run(Launched *l, const RequestHead *head, const int64_t *symbols, const RequestLayout *layout,
                    RtError *error) {
  const ProgramEntry *e = layout ? &l->artifact->program.entries[head->entry] : NULL;
  l->written.n = 0;
  l->filed = (l->filed && !l->joined) || head->kind == REQUEST_COPY;
  l->joined = head->kind == REQUEST_JOIN;
  RtStatus status = request_has_file(head->kind) ? exec_run_file(l->executor, head, symbols, &l->file, error)
                                                 : exec_run(l->executor, head, symbols, l->io, l->io_bytes, error);
  if (status) return status;
  l->key = exec_key_after(l->requests);
  Answer *mine = &l->answers[l->place.rank];
  const volatile sig_atomic_t *asked = l->options.asked;
  *mine = (Answer){
      .parts = l->written.n, .bytes = l->written.n * sizeof *l->written.items, .asked = asked ? (uint64_t)*asked : 0};
  exec_report(l->executor, &mine->report);
  mine->report.sent[COMM_broadcast] = mine->report.operations[COMM_broadcast] = 0;
  for (size_t i = 0; i < l->written.n; i++) mine->bytes += part_bytes(&l->artifact->program, e, &l->written.items[i]);
  status = gather(l, mine, l->answers, sizeof *mine, error);
  if (!status && request_gives(head->kind)) status = give(l, head->kind, error);
  if (status || !layout) return status;
  RequestLayout now = {0};
  status = layout_of_outputs(l, head->entry, symbols, &mine->report, &now, error);
  if (!status) status = l->place.rank ? deliver(l, e, &now, mine->bytes, error) : collect(l, e, &now, error);
  request_layout_free(&now);
  return status;
}

static RtStatus run_everywhere(Launched *l, const RequestHead *head, const int64_t *symbols,
                               const RequestLayout *layout, bool send_inputs, RtError *error) {
  Command c = {.kind = COMMAND_RUN, .head = *head, .send_inputs = send_inputs};
  if (head->n_symbols) memcpy(c.symbols, symbols, sizeof *symbols * head->n_symbols);
  RtStatus status = spread(l, &c, sizeof c, false, error);
  if (!status && request_has_file(head->kind)) status = spread(l, &l->file, sizeof l->file, false, error);
  if (!status && send_inputs) status = spread_inputs(l, head->entry, layout, error);
  if (!status) status = run(l, head, c.symbols, layout, error);
  bool told = layout || (head->kind == REQUEST_LOOK && l->io_bytes >= sizeof(RankReport) * (size_t)l->place.world);
  for (int i = 0; i < l->place.world && told && !status; i++)
    *request_report(l->io, (uint32_t)i) = l->answers[i].report;
  request_through(l);
  return status;
}

RtStatus launched_run(Launched *l, const RequestHead *head, const int64_t *symbols, const RequestLayout *layout,
                      bool send_inputs, RtError *error) {
  watch_command(l->watch, ++l->commands);
  RtStatus status = run_everywhere(l, head, symbols, layout, send_inputs, error);
  atomic_store(&l->slot->command, l->commands);
  return note(l, status, error);
}

bool launched_asked(const Launched *l) {
  bool asked = false;
  for (int i = 0; i < l->place.world; i++) asked = asked || l->answers[i].asked == 1;
  return asked;
}

int launched_leaving(const Launched *l) {
  int n = 0;
  for (int i = 0; i < l->place.world; i++) n += l->answers[i].asked == 2;
  return n;
}

bool launched_elastic(const Launched *l) { return l->options.elastic; }

/* True for a fault of the program or its data, which every round would have. */
static bool would_come_again(const RtError *e) {
  return e->status != RT_FAILED && e->status != RT_ABORTED && e->status != RT_LATE;
}

bool launched_lost(const Launched *l) {
  bool met = l->transport != NULL;
  return met ? l->broken && !l->failed_alone && !would_come_again(&l->failure) : regroup_round() > 0;
}

RtStatus launched_run_file(Launched *l, const RequestHead *head, const int64_t *symbols, const RequestFile *file,
                           RtError *error) {
  l->file = *file;
  return launched_run(l, head, symbols, NULL, false, error);
}

RtStatus launched_given(Launched *l, const RequestHead *head, void *all, size_t bytes, RtError *error) {
  l->blocks = all;
  l->block_bytes = bytes;
  return launched_run(l, head, NULL, NULL, false, error);
}

/* ---- the other ranks */

/* True for commands that rank 0 of this program can send: an entry of it, with sizes that it was compiled for. */
static bool command_fits(const Program *p, const Command *c, bool started) {
  if (c->kind == COMMAND_LEAVE) return c->code >= 0 && c->code <= 255;
  if (c->kind == COMMAND_START) return !started;
  if (c->kind != COMMAND_RUN || c->send_inputs > 1 || !started) return false;
  if (c->head.kind == REQUEST_RESET || request_gives(c->head.kind) || request_is_of_states(c->head.kind))
    return c->head.entry == 0 && c->head.n_symbols == 0;
  if (c->head.kind == REQUEST_RECORD) return c->head.entry <= RECORD_EVENTS_MOST && c->head.n_symbols == 0;
  if ((c->head.kind != REQUEST_RUN && !request_has_file(c->head.kind)) || c->head.entry >= p->n_entries ||
      p->entries[c->head.entry].prepare || c->head.n_symbols != p->n_symbols)
    return false;
  for (uint32_t i = 0; i < p->n_symbols; i++)
    if (c->symbols[i] < 0 || (p->symbols[i].max && c->symbols[i] > p->symbols[i].max)) return false;
  return true;
}

static RtStatus serve_one(Launched *l, const Command *c, RtError *error) {
  const Program *p = &l->artifact->program;
  RequestLayout layout = {0};
  void *area;
  RtStatus status = request_has_file(c->head.kind) ? spread(l, &l->file, sizeof l->file, false, error) : RT_OK;
  if (c->head.kind != REQUEST_RUN) return status ? status : run(l, &c->head, c->symbols, NULL, error);
  status = request_layout(p, c->head.entry, c->symbols, false, &layout, error);
  if (!status) status = launched_io(l, layout.bytes, &area, error);
  if (!status && c->send_inputs) status = spread_inputs(l, c->head.entry, &layout, error);
  if (!status) status = run(l, &c->head, c->symbols, &layout, error);
  request_layout_free(&layout);
  return status;
}

RtStatus launched_serve(Launched *l, int *code, RtError *error) {
  Command c;
  RtStatus status = RT_OK;
  for (;;) {
    if (!status) status = spread(l, &c, sizeof c, true, error);
    if (!status && !command_fits(&l->artifact->program, &c, l->executor != NULL))
      status = rt_error(error, RT_INTERNAL, "rank 0 sent an unknown command");
    if (!status && c.kind == COMMAND_LEAVE) break;
    bool start = c.kind == COMMAND_START;
    if (!status) status = start ? open_executor(l, error) : serve_one(l, &c, error);
    if (status) return note(l, status, error);
    if (!start) request_through(l);
    atomic_store(&l->slot->command, ++l->commands);
  }
  *code = c.code;
  l->over = true;
  return RT_OK;
}

const char *launched_warning(const Launched *l) {
  return l->exposed ? "--insecure: without a secret (" SECRET_VARIABLE
                      ") anyone who can reach the ports of the ranks can take part in the run, and read and change it"
                    : "";
}

int launched_here(const Launched *l) {
  return l->place.local_world < l->place.world ? l->place.local_world : l->place.world;
}

bool launched_tells(const Launched *l) {
  if (l->failed_alone || l->place.local_rank == 0) return true;
  return l->place.local_rank == 1 && l->watch && watch_lost_first(l->watch);
}

/* MPI_Abort ends the other processes, so it waits for those that report the error. */
static void let_tell(const Launched *l) {
  if (l->place.transport == LAUNCH_MPI && !launched_tells(l))
    nanosleep(&(struct timespec){0, TELL_MS * 1000000L}, NULL);
}

/* Waits for this rank's part of a file, but not for a disk that has stopped: after the time-outs `stuck` ends the rank.
 */
void launched_end_file(Launched *l) {
  if (!l->watch || !l->filed) return;
  watch_fail(l->watch, &l->failure);
  watch_be_patient(l->watch, 2 * l->options.timeout_ms); /* rank 0 waits for the others after its own part */
  exec_end_file(l->executor);
}

double launched_file_s(const Launched *l) {
  const bool goes_on = l && l->options.elastic && launched_lost(l);
  return l && !goes_on ? l->options.timeout_ms * 1e-3 : 0;
}

uint64_t launched_written(const Launched *l) { return l->watch ? watch_written(l->watch) : 0; }

bool launched_gone(const Launched *l, int rank) { return rank == 0 || !l->watch || watch_gone(l->watch, rank); }

/* Says that this rank ends, and ends its part of a file.  Over MPI the first rank that aborts ends all, so the others
 * wait for rank 0, which makes the file whole and then aborts. */
static void end_files(Launched *l) {
  if (l->watch && l->broken) watch_fail(l->watch, &l->failure);
  else if (l->watch) watch_leave(l->watch);
  if (!l->watch || !l->broken || !l->filed || (l->options.elastic && launched_lost(l))) return;
  launched_end_file(l);
  while (l->place.transport == LAUNCH_MPI && l->place.rank && !watch_gone(l->watch, 0) && watch_is_patient(l->watch))
    nanosleep(&(struct timespec){0, FILE_LOOK_MS * 1000000L}, NULL);
}

/* Informs the other ranks of the end. */
static void take_leave(Launched *l, int code) {
  RtError error = {0};
  Command c = {.kind = COMMAND_LEAVE, .code = code};
  if (l->comm && l->broken) let_tell(l);
  if (l->comm && l->broken) comm_abort(l->comm);
  else if (l->comm && !l->over && l->place.rank == 0) spread(l, &c, sizeof c, false, &error);
}

void launched_close(Launched *l, int code) {
  if (!l) return;
  if (l->transport) l->transport->exit_code = code;
  end_files(l);
  Limit *limit = l->place.transport != LAUNCH_MPI
                     ? NULL
                     : limit_begin(l->options.timeout_ms + MPI_ENDS_MS, l->options.stuck,
                                   "rank %d waited %.1f s in MPI_Finalize: another rank is late", l->place.rank,
                                   l->options.timeout_ms / 1000.0);
  take_leave(l, code);
  exec_close(l->executor);
  tuning_close(l->tuning);
  param_files_close(l->files);
  watch_stop(l->watch);
  comm_close(l->comm);
  limit_end(limit);
  free(l->send);
  free(l->recv);
  free(l->answers);
  free(l->written.items);
  free(l->io);
  free(l);
}
