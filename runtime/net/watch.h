/* runtime/net/watch.h - the watchdog of ranks on several machines: a thread per process, a star of connections around
 * rank 0.
 *
 * Every rank sends rank 0 its signs of progress five times a second; rank 0 judges them as the host of one machine does
 * (lateness.h).  A rank whose connection ends before it left properly was lost; a rank that fails reports why.  Either
 * way rank 0 informs all ranks, so that every process ends with the same message and code.  If rank 0 itself is lost or
 * stopped, each rank notices alone.
 *
 * A stopped process is late, not lost: its machine still answers for it.  A machine that does not answer is noticed
 * within 2 s.
 */
#ifndef APC_RUNTIME_NET_WATCH_H
#define APC_RUNTIME_NET_WATCH_H

#include <stdbool.h>

#include "runtime/net/signs.h"

typedef struct Watch Watch;

/* Called from the watchdog's thread if the process did not end by itself a second after the failure. */
typedef void (*WatchStuck)(int code, const char *error);

typedef struct WatchOptions {
  int rank, world;
  const int *controls; /* rank 0: a connection per rank (its own: -1); other ranks: one, to rank 0.  The watch takes
                        * ownership of them. */
  int timeout_ms;
  int stopped_ms; /* limit for a rank whose process is stopped, and for a silent rank 0; 0: timeout_ms */
  int loss_ms;    /* time that a launcher gets to end the others itself before a lost rank is a failure here */
  SessionStepText step_text;
  void *step_context;
  WatchStuck stuck;
} WatchOptions;

/* Starts the watchdog's thread.  After an error the caller keeps the connections. */
RtStatus watch_start(const WatchOptions *options, Watch **out, RtError *error);

/* Returns this rank's signs, which its main thread writes: place, progress, and `command`, the number of commands it
 * finished. */
SessionSlot *watch_slot(Watch *w);

/* Rank 0: reports the number of commands given so far. */
void watch_command(Watch *w, uint32_t commands);

/* watch_fd is readable once there is a failure; watch_failed is true then, and records it in *error. */
int watch_fd(const Watch *w);
bool watch_failed(Watch *w, RtError *error);

/* Waits briefly for the failure whose consequences this rank has seen. */
void watch_verdict(Watch *w);

/* True if the failure is the loss or lateness of rank 0, which each other rank notices alone. */
bool watch_lost_first(Watch *w);

/* Reports this rank's failure to all, and waits briefly for rank 0's verdict. */
void watch_fail(Watch *w, const RtError *error);

/* From here on ranks may leave.  Rank 0 calls it before it tells the others to leave. */
void watch_leave(Watch *w);

/* Does not call `stuck` after a failure so long, from the first call on, and from each later piece of a file that a
 * rank writes: this rank has to end a file first.  watch_is_patient: true until shortly before. */
void watch_be_patient(Watch *w, int milliseconds);
bool watch_is_patient(const Watch *w);
/* Changes with every piece of a file that ranks write: rank 0 hears all of them, the others rank 0 and themselves. */
uint64_t watch_written(const Watch *w);
/* Rank 0: true if the connection to that rank has ended. */
bool watch_gone(const Watch *w, int rank);

/* Ends the thread; after watch_leave rank 0 waits until the others have left, at most a second.  NULL is allowed. */
void watch_stop(Watch *w);

#endif
