/* runtime/net/watch.h - the watchdog of ranks on several machines: a thread per process, a star of connections
 * around rank 0.
 *
 * Every rank tells rank 0 its signs of progress ten times a second; rank 0 judges them as the host of one machine does
 * (lateness.h).  A rank whose connection ends before it took leave was lost; a rank that fails says why.  Either way
 * rank 0 tells all what happened, so that every process ends with the same message and code.  When rank 0 itself is
 * lost or stopped, each notices alone.
 *
 * A stopped process is late, not lost: its machine still answers for it.  A machine that does not answer is noticed
 * within 2 s.
 */
#ifndef APC_RUNTIME_NET_WATCH_H
#define APC_RUNTIME_NET_WATCH_H

#include <stdbool.h>

#include "runtime/net/signs.h"

typedef struct Watch Watch;

/* Called from the watchdog's thread when the process did not end by itself a second after the failure. */
typedef void (*WatchStuck)(int code, const char *error);

typedef struct WatchOptions {
  int rank, world;
  const int *
      controls; /* rank 0: per rank a connection (its own: -1); the others: one, to rank 0.  They become the watch's. */
  int timeout_ms;
  int loss_ms; /* how long a launcher that ends the others itself has for it, before a lost rank is a failure here */
  SessionStepText step_text;
  void *step_context;
  WatchStuck stuck;
} WatchOptions;

RtStatus watch_start(const WatchOptions *options, Watch **out, RtError *error);

/* This rank's signs, written by its main thread: place, progress, and `command`, the number of commands it finished. */
SessionSlot *watch_slot(Watch *w);

/* Rank 0: as many commands were given. */
void watch_command(Watch *w, uint32_t commands);

/* Readable once there is a failure. */
int watch_fd(const Watch *w);
bool watch_failed(Watch *w, RtError *error);

/* Waits shortly for a failure that this rank has seen the consequences of. */
void watch_verdict(Watch *w);

/* Whether the failure is that rank 0 was lost or is late, which each of the others notices alone. */
bool watch_lost_first(Watch *w);

/* Tells everyone of this rank's failure, and waits shortly for what rank 0 makes of it. */
void watch_fail(Watch *w, const RtError *error);

/* From here on ranks may go.  Rank 0 calls it before it tells the others to leave. */
void watch_leave(Watch *w);

/* Ends the thread; after watch_leave rank 0 waits until the others are gone, a second at most.  NULL is allowed. */
void watch_stop(Watch *w);

#endif
