/* runtime/launch/limit.h - a time limit for a call that has none of its own, such as MPI_Init if a rank never comes.
 *
 * A thread counts as lateness.c does: suspending the whole program makes no rank late.
 */
#ifndef APC_RUNTIME_LAUNCH_LIMIT_H
#define APC_RUNTIME_LAUNCH_LIMIT_H

#include "program/status.h"
#include "runtime/net/watch.h"

typedef struct Limit Limit;

/* Starts the limit: if `milliseconds` pass before limit_end, the thread calls stuck(exit code of RT_LATE, text).
 * Returns NULL without `stuck` or without a thread. */
Limit *limit_begin(int milliseconds, WatchStuck stuck, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Ends the limit; NULL is allowed. */
void limit_end(Limit *l);

#endif
