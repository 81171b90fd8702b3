/* runtime/train/readers.h - threads that do one piece of work together, beside their caller. */
#ifndef APC_RUNTIME_TRAIN_READERS_H
#define APC_RUNTIME_TRAIN_READERS_H

#include <stdbool.h>

typedef struct Readers Readers;

/* Does the share of thread `worker` of `workers`. */
typedef void ReadersWork(void *context, int worker, int workers);

enum { READERS_MOST = 64 };

/* Starts n threads, 0 to READERS_MOST, which get no signals; NULL with errno.  With 0, readers_begin does the work
 * itself, as worker 0 of 1. */
Readers *readers_open(int n, ReadersWork *work, void *context);
/* Begins the work; the last one must have been waited for. */
void readers_begin(Readers *r);
/* Waits until no thread works. */
void readers_wait(Readers *r);
/* Waits, and ends the threads; NULL is allowed. */
void readers_close(Readers *r);

#endif
