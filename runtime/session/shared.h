/* runtime/session/shared.h - the memory that host and ranks share; private to runtime/session/.
 *
 * The memory file holds the control block with one slot per rank, the rings of the transport from transport_offset on,
 * and the I/O area from io_offset on.  Words that a process sleeps on are futexes.
 */
#ifndef APC_RUNTIME_SESSION_SHARED_H
#define APC_RUNTIME_SESSION_SHARED_H

#include <signal.h>

#include "runtime/session/session.h"

#define SESSION_MAGIC UINT64_C(0x31535345534350a1)

typedef struct SessionControl {
  uint64_t magic, transport_offset, io_offset;
  int32_t world, host_pid;
  uint32_t crowded, hands_on, may_leave;
  _Atomic uint32_t leaving; /* ranks that asked to leave */

  _Alignas(64) _Atomic uint32_t command; /* futex: number of the current command, from 1 */
  uint32_t kind, payload_bytes;          /* of that command */
  uint64_t io_bytes;
  _Atomic uint32_t leave; /* 1: ranks wait for no further command */

  _Alignas(64) _Atomic uint32_t finished; /* ranks that finished the current command */
  _Atomic uint32_t ended;                 /* 1: the session is over and the host's error is complete */
  _Atomic uint32_t host_bell;             /* futex: increases when all have finished, or the session has ended */
  _Atomic uint32_t watch_bell;            /* futex: increases when the watchdog should look at once */

  _Alignas(64) unsigned char payload[SESSION_PAYLOAD_BYTES];
  SessionSlot slots[SESSION_MAX_RANKS];
} SessionControl;

/* Sleeps while *word is `value`, at most `milliseconds`; may return early. */
void session_sleep(_Atomic uint32_t *word, uint32_t value, int milliseconds);
/* Adds one and wakes all sleepers. */
void session_ring(_Atomic uint32_t *word);

/* ---- spawn.c ---- */

typedef struct SpawnPlan {
  const char *path;
  char **argv, **envp;
  const int *kept; /* stay open in the child, unlike all others above 2 */
  int n_kept;
  int host_pid;
  bool hands_on;
  sigset_t signals; /* mask of the child */
  const void *cpus; /* affinity mask of cpu_bytes; NULL: unchanged */
  size_t cpu_bytes;
} SpawnPlan;

/* Starts a process that dies with the calling thread's process.  Returns its id, or -1 with errno. */
int session_spawn(const SpawnPlan *plan);

#endif
