/* runtime/session/host.h - the host's view of a session; private to host.c and keeper.c. */
#ifndef APC_RUNTIME_SESSION_HOST_H
#define APC_RUNTIME_SESSION_HOST_H

#include <pthread.h>
#include <signal.h>

#include "runtime/net/lateness.h"
#include "runtime/session/shared.h"

enum { CPU_MOST = 8192, CPU_WORD = 8 * sizeof(unsigned long) };

typedef struct CpuMask {
  unsigned long words[CPU_MOST / CPU_WORD];
} CpuMask;

/* The keeper's state of one rank. */
typedef struct RankProcess {
  int pid;
  bool alive;
  int exit_status; /* from waitid, if not alive: */
  int exit_code;   /* CLD_EXITED, CLD_KILLED, CLD_DUMPED; 0 if another part of the host reaped it */
  CpuMask cpus;
} RankProcess;

struct Session {
  SessionOptions options; /* path and args are not kept */
  SessionControl *control;
  int fd;
  void *io;
  size_t io_bytes;
  uint64_t commands; /* number so far; only used by the caller's thread */

  char *path, **argv, **envp;
  int *kept, n_kept;     /* descriptors for the ranks: ours, and those of the options */
  char program_text[32]; /* path of the program that is started */
  char rank_text[16], world_text[16], fd_text[48], threads_text[48];
  bool pinned;

  pthread_t keeper;
  sigset_t signals;          /* the caller's mask, for the ranks */
  _Atomic uint32_t started;  /* futex: 1 when all ranks run, at least STARTING_FAILED if `failure` has the reason */
  _Atomic uint32_t stopping; /* a SessionStop */
  RankProcess ranks[SESSION_MAX_RANKS]; /* owned by the keeper; pids are constant once started */
  Lateness lateness;                    /* owned by the keeper */
  RankSigns signs[SESSION_MAX_RANKS];   /* owned by the keeper */

  pthread_mutex_t lock;
  RtError failure; /* guarded by the lock; complete before control->ended is set */
};

/* Starts the keeper's thread, which starts the ranks.  RT_FAILED if one of them cannot be started. */
RtStatus session_keeper_start(Session *s, RtError *error);

/* How the keeper ends the ranks: STOP_ORDERLY gives them time to leave by themselves.  After `stopping` is set, the
 * thread ends soon, and no rank remains. */
typedef enum SessionStop { STOP_NOT, STOP_ORDERLY, STOP_AT_ONCE } SessionStop;

#endif
