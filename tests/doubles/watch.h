/* tests/doubles/watch.h - who uses memory with nothing between them that says who comes first: a race, found whether or
 * not it changes a number, under whatever order the queues are served in.
 *
 * With DOUBLES_WATCH=1 every stream has a clock that counts its own work, and knows what of the others' is over for
 * sure (vector clocks: Mattern 1989; races by them: Flanagan and Freund 2009).  What is asked for comes behind all that
 * the stream was asked for before, all that an event it waits for came behind, and all that the host has waited for.
 * Work that overlaps other work's memory, one of them writing, while neither clock knows the other, is a violation.
 *
 * What copies, products and communication touch is in their descriptions, of matrices the span.  Kernels tell it
 * themselves, by byte: their texts are compiled with calls at every load and store (watch_text.h).
 *
 * Not watched: the host's own loads and stores; nodes of one graph against each other, which are captured from one
 * stream here; streams behind the first WATCHED of a process; other ranks, whose memory is their own. */
#ifndef APC_TESTS_DOUBLES_WATCH_H
#define APC_TESTS_DOUBLES_WATCH_H

#include "tests/doubles/double.h"

enum { WATCHED = 32 };

/* at[s]: so much of what stream s was asked for is over. */
typedef struct WatchClock {
  uint32_t at[WATCHED];
} WatchClock;

bool watch_on(void);

/* The place of a new stream among clocks, which begins behind everything; -1: it is not watched. */
int watch_stream(WatchClock *clock);

/* The host asks for work, for a record of an event, for a wait for one.  DOUBLES_TRACE gets a line of each, and the
 * number of work, records and waits; work's and records' are given back. */
uint32_t watch_work(int stream, WatchClock *clock, const char *what);
uint32_t watch_record(int stream, const WatchClock *clock);
void watch_wait(int stream, WatchClock *clock, const WatchClock *mark, uint32_t record);
/* A stream waits for all of another one. */
void watch_order(int stream, WatchClock *clock, int before, const WatchClock *other);

/* The host has waited for a record (record 0: for all of the stream). */
void watch_host(int stream, const WatchClock *clock, uint32_t record);

/* Work of that stream is served, and done: what it touched is held against what others have. */
void watch_begin(int stream, const WatchClock *clock, uint32_t number);
void watch_done(const DoubleWork *w);

/* A kernel's load or store, at an address of the host. */
void watch_touch(const void *at, size_t bytes, int writes);

/* What everything that is still to come is behind needs no watching any more.  min: for every stream, the clock of the
 * first of its work that is not done, or its own. */
void watch_forget(const WatchClock *const *min, const int *streams, int n);

#endif
