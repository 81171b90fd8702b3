/* runtime/launch/limit.h - a time limit for a call that has none of its own, such as MPI_Init when a rank never comes.
 *
 * A thread counts as lateness.c does: suspending the whole program makes nobody late.
 */
#ifndef APC_RUNTIME_LAUNCH_LIMIT_H
#define APC_RUNTIME_LAUNCH_LIMIT_H

#include "program/status.h"
#include "runtime/net/watch.h"

typedef struct Limit Limit;

/* From now on; when `milliseconds` pass before limit_end, stuck(exit code of RT_LATE, text) is called in the thread.
 * NULL, which limit_end takes, without `stuck` or without a thread. */
Limit *limit_begin(int milliseconds, WatchStuck stuck, const char *format, ...) __attribute__((format(printf, 3, 4)));
void limit_end(Limit *l);

#endif
