/* runtime/session/session.h - a host process and its rank processes on one machine.
 *
 * The host is the generated program as its user started it, or a user's program with the runtime linked in; it is not a
 * rank.  session_start creates one anonymous shared memory file (memfd) and starts the artifact once per rank as `PATH
 * ARGS... --rank R --world N` with the descriptor's number in the environment variable APC_SESSION_FD.  Ranks stay
 * alive and wait for commands.  The memory holds, in this order: the control block, the rings of transport_local, and
 * the I/O area, which the host may enlarge between commands.
 *
 * Host: Rank:
 *   session_start                             session_rank_open
 *   session_io            (place inputs)      comm_cpu_open(session_rank_transport(...), ...)
 *   session_run, session_wait                 while session_rank_next gives SESSION_RUN:
 *   read outputs from session_io                 rank_place_step, comm_..., session_rank_finish
 *   session_stop                              comm_close, session_rank_close, exit
 *
 * Watchdog.  A thread of the host checks the ranks every 50 ms.  A rank ends the session if it died, reported a
 * failure, or made no progress for the time-out during a command (progress: a step, bytes moved, a command finished).
 * Then all ranks are aborted, killed (even if stopped) and reaped, and session_wait returns RT_FAILED, RT_LATE or the
 * reported status, with a message that names the rank and its schedule step.  The same thread starts the ranks, because
 * Linux ties "die with the parent" to the starting thread: when the host dies for whatever reason, the kernel kills its
 * ranks and frees the memory.
 */
#ifndef APC_RUNTIME_SESSION_SESSION_H
#define APC_RUNTIME_SESSION_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/comm/comm.h"
#include "program/status.h"
#include "runtime/comm/transport_local.h"

#define SESSION_FD_VARIABLE "APC_SESSION_FD"

enum { SESSION_MAX_RANKS = TRANSPORT_LOCAL_MAX_WORLD, SESSION_PAYLOAD_BYTES = 16384 };

/* ---- host ---- */

typedef struct Session Session;

typedef struct SessionOptions {
  const char *path; /* the artifact; "/proc/self/exe" for the running program */
  int program;      /* its descriptor, above 2: ranks run that file, even if `path` names another one by now; 0: none */
  const char *const *args; /* arguments before --rank, NULL-terminated; may be NULL */
  const int *kept;         /* descriptors above 2 that the ranks inherit under the same numbers */
  int n_kept;
  int world;                 /* 1..SESSION_MAX_RANKS */
  int timeout_ms;            /* limit without progress; 0: 60000 */
  bool hands_on;             /* ranks pass signals that ask for an end to the host */
  bool may_leave;            /* with hands_on: a rank that gets SIGTERM asks to leave alone (session_leaving) */
  int stopped_ms;            /* limit for a rank whose process is stopped; 0: timeout_ms */
  bool no_pinning;           /* leave the ranks' CPU sets unchanged */
  int threads;               /* per rank; 0: by the rule below */
  SessionStepText step_text; /* called from the watchdog's thread; may be NULL */
  void *step_context;
} SessionOptions;

/* Starts the ranks and returns without waiting until they are ready.  Each rank gets OMP_NUM_THREADS = max(1, cores /
 * world); OMP_WAIT_POLICY=passive, unless the caller's environment sets how to wait and there are no more ranks than
 * cores; and, if there are at least as many cores as ranks, its own share of the host's CPUs. */
RtStatus session_start(const SessionOptions *options, Session **out, RtError *error);

/* Returns the threads per rank on this machine, by the rule above. */
int session_threads_per_rank(int world);

/* Makes the I/O area at least `bytes` large and returns its address, which stays valid until a call with a larger size.
 * New parts are zero; contents are kept.  RT_INTERNAL while a command runs. */
RtStatus session_io(Session *s, size_t bytes, void **area, RtError *error);

/* Gives all ranks a RUN command; copies the payload (symbol values, sizes) of at most SESSION_PAYLOAD_BYTES.  Fails at
 * once if the session has ended. */
RtStatus session_run(Session *s, const void *payload, size_t bytes, RtError *error);

/* Waits until all ranks have finished the command or the session has ended. */
RtStatus session_wait(Session *s, RtError *error);
/* The same for at most `ms` milliseconds; *done is false if the command still runs then. */
RtStatus session_wait_for(Session *s, int ms, bool *done, RtError *error);

/* Returns how many ranks have asked to leave. */
int session_leaving(const Session *s);

/* Returns the process id of a rank. */
int session_rank_pid(const Session *s, int rank);

/* Ends all ranks (they get a second to leave by themselves, then are killed), reaps them and frees everything.  NULL is
 * allowed. */
void session_stop(Session *s);

/* In a child that the host has forked: frees the memory and leaves the ranks alone.  NULL is allowed. */
void session_forget(Session *s);

/* ---- rank ---- */

typedef struct SessionRank SessionRank;

typedef enum SessionCommandKind { SESSION_RUN, SESSION_EXIT } SessionCommandKind;

typedef struct SessionCommand {
  SessionCommandKind kind;
  const void *payload; /* valid until session_rank_finish */
  size_t payload_bytes;
  void *io; /* the I/O area; valid until the next session_rank_next */
  size_t io_bytes;
} SessionCommand;

/* Attaches to the session of the environment; rank and world come from the command line.  From here on the process dies
 * with its host. */
RtStatus session_rank_open(int rank, int world, SessionRank **out, RtError *error);

/* session_rank_transport opens a transport to the other ranks, for comm_cpu_open (once); session_rank_progress returns
 * the place for its progress. */
RtStatus session_rank_transport(SessionRank *r, Transport **out, RtError *error);
CommProgress *session_rank_progress(SessionRank *r);

/* Waits for the next command.  RT_ABORTED if the session ended. */
RtStatus session_rank_next(SessionRank *r, SessionCommand *out, RtError *error);

/* Returns the place where this rank reports its steps to the watchdog. */
RankPlace *session_rank_place(SessionRank *r);

/* Reports that the command is done and its outputs are in the I/O area. */
void session_rank_finish(SessionRank *r);

/* Reports a failure and aborts all ranks; RT_ABORTED is not recorded, as it is never the cause.  The caller then exits
 * with rt_exit_code(error->status). */
void session_rank_fail(SessionRank *r, const RtError *error);

/* Detaches from the session and frees the rank; NULL is allowed. */
void session_rank_close(SessionRank *r);

#endif
