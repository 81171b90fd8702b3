/* runtime/session/process.c - the life of a rank process: attach, load, and serve requests until it is told to leave.
 *
 *   PATH [--weights FILE] [--tune FILE --tune-hash HASH] --files TEXT --shared FD --rank R --world N
 *                                                              with APC_SESSION_FD in the environment
 *   (runtime/session/session.h)
 *
 * TEXT: the files of the weights as the host opened and checked them (runtime/exec/param_files.h).  FD: memory for
 * weights that ranks share (runtime/exec/share.h), or -1.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/lost_pages.h"

#include "runtime/apc_runtime.h"
#include "runtime/comm/cpu.h"
#include "runtime/exec/exec.h"
#include "runtime/session/session.h"

typedef struct Arguments {
  const char *weights, *files, *tune;
  uint64_t tune_hash;
  int rank, world, shared;
} Arguments;

static Arguments parse(int argc, char **argv) {
  Arguments a = {.weights = NULL, .files = "", .rank = -1, .shared = -1};
  for (int i = 1; i + 1 < argc; i++) {
    if (strcmp(argv[i], "--rank") == 0) a.rank = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--world") == 0) a.world = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--shared") == 0) a.shared = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--weights") == 0) a.weights = argv[i + 1];
    if (strcmp(argv[i], "--tune") == 0) a.tune = argv[i + 1];
    if (strcmp(argv[i], "--tune-hash") == 0) a.tune_hash = strtoull(argv[i + 1], NULL, 16);
    if (strcmp(argv[i], "--files") == 0) a.files = argv[i + 1];
  }
  return a;
}

int apc_is_rank(int argc, char **argv) { return getenv(SESSION_FD_VARIABLE) != NULL && parse(argc, argv).rank >= 0; }

static RtStatus open_comm(SessionRank *session, const Program *p, Comm **comm, RtError *error) {
  if (p->ranks == 1) return RT_OK;
  Transport *transport;
  RtStatus status = session_rank_transport(session, &transport, error);
  if (status) return status;
  CommOptions options = exec_comm_options();
  options.progress = session_rank_progress(session);
  return comm_cpu_open(transport, &options, comm, error);
}

/* Copies this rank's block to its place in the I/O area, after the data of the last request. */
static RtStatus give(const Executor *e, const SessionCommand *c, uint32_t kind, uint64_t offset, uint32_t rank,
                     RtError *error) {
  size_t bytes;
  const void *block = exec_given(e, kind, &bytes);
  if (bytes && (offset > c->io_bytes || (c->io_bytes - offset) / bytes <= rank))
    return rt_error(error, RT_INTERNAL, "the I/O area is too small for the ranks' blocks");
  if (bytes) memcpy((char *)c->io + offset + bytes * rank, block, bytes);
  return RT_OK;
}

static RtStatus serve_one(Executor *e, SessionRank *session, const SessionCommand *c, uint32_t rank, RtError *error) {
  RequestHead head;
  RequestFile file;
  int64_t symbols[PROGRAM_MAX_SYMBOLS];
  if (c->payload_bytes < sizeof head) return rt_error(error, RT_INTERNAL, "a request is too short");
  memcpy(&head, c->payload, sizeof head);
  bool has_file = request_has_file(head.kind);
  size_t values = head.n_symbols * sizeof *symbols;
  if (head.n_symbols > PROGRAM_MAX_SYMBOLS || c->payload_bytes != sizeof head + values + (has_file ? sizeof file : 0))
    return rt_error(error, RT_INTERNAL, "a request has the wrong length");
  memcpy(symbols, (const char *)c->payload + sizeof head, values);
  if (has_file) memcpy(&file, (const char *)c->payload + sizeof head + values, sizeof file);
  RtStatus status = has_file ? exec_run_file(e, &head, symbols, &file, error)
                             : exec_run(e, &head, symbols, c->io, c->io_bytes, error);
  if (!status && request_gives(head.kind))
    status = head.n_symbols ? give(e, c, head.kind, (uint64_t)symbols[0], rank, error)
                            : rt_error(error, RT_INTERNAL, "a request has the wrong length");
  if (status) return status;
  if (c->io_bytes >= (rank + 1) * sizeof(RankReport)) exec_report(e, request_report(c->io, rank));
  session_rank_finish(session);
  return RT_OK;
}

static RtStatus serve(const Arguments *a, SessionRank *session, const Artifact *artifact, Comm *comm, RtError *error) {
  ExecOptions options = {.rank = (uint32_t)a->rank,
                         .local_rank = (uint32_t)a->rank,
                         .comm = comm,
                         .place = session_rank_place(session),
                         .progress = session_rank_progress(session),
                         .shared = a->shared,
                         .check = exec_is_set("APC_CHECK"),
                         .eager = exec_is_set("APC_EAGER"),
                         .staged = exec_comm_staged(),
                         .kernels = exec_conv_kernels()};
  Executor *e = NULL;
  ParamFiles *files = NULL;
  RtStatus status = param_files_inherit(artifact, a->weights, a->files, &files, error);
  options.files = files;
  if (!status) status = tuning_open(a->tune, a->tune_hash, &options.tuning, error);
  if (!status) status = exec_open(artifact, &options, &e, error);
  if (a->shared >= 0) close(a->shared);
  while (!status) {
    SessionCommand command;
    status = session_rank_next(session, &command, error);
    if (status || command.kind == SESSION_EXIT) break;
    status = serve_one(e, session, &command, (uint32_t)a->rank, error);
  }
  if (status) session_rank_fail(session, error); /* the others end meanwhile */
  if (status) exec_end_file(e);
  exec_close(e);
  tuning_close(options.tuning);
  param_files_close(files);
  return status;
}

/* Called after a file that this rank has mapped was truncated. */
static void end_lost(const char *path, void *context) {
  RtError error = {0};
  rt_error(&error, RT_FAILED, "%s was truncated while in use", path);
  session_rank_fail(context, &error);
  _exit(rt_exit_code(RT_FAILED));
}

static void take_name(const char *path) {
  const char *slash = strrchr(path, '/');
  prctl(PR_SET_NAME, slash ? slash + 1 : path); /* without it the process would be named after its descriptor's
                                                 * number */
}

int apc_rank_main(int argc, char **argv) {
  Arguments a = parse(argc, argv);
  SessionRank *session;
  RtError error = {0};
  if (session_rank_open(a.rank, a.world, &session, &error)) return rt_exit_code(error.status);
  take_name(argv[0]);
  lost_pages_handle(end_lost, session);
  Artifact artifact;
  Comm *comm = NULL;
  RtStatus status = artifact_open_for("/proc/self/exe", "the program", a.world, false, &artifact, &error);
  if (!status) status = open_comm(session, &artifact.program, &comm, &error);
  if (!status) status = serve(&a, session, &artifact, comm, &error);
  if (status) session_rank_fail(session, &error);
  comm_close(comm);
  artifact_close(&artifact);
  session_rank_close(session);
  return status ? rt_exit_code(error.status) : 0;
}
