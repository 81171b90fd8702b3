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
 * A node of a graph has a clock of its own, which begins as that of the stream where the graph is launched and comes
 * behind the nodes that it depends on.  It counts as work of that stream if it was captured there, else of a lane for
 * nodes that are launched in the one and were captured from the other: that one's own work is in no order with it.
 *
 * Not watched: the host's own loads and stores; streams behind the first WATCHED of a process; other ranks, whose
 * memory is their own. */
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
/* The same for streams that capture, up to the end of it: for DOUBLES_TRACE alone. */
void watch_capture(unsigned long long graph, int stream);
void watch_captured_work(int stream);
void watch_captured_wait(int stream, uint32_t record);
void watch_captured(unsigned long long graph, int stream);

/* A graph of n nodes is launched, and each of them, in their order: `clock` is first the stream's, then that of the
 * node.  Its lane goes to *lane. */
void watch_launch(unsigned long long graph, int stream, WatchClock *clock, int n);
uint32_t watch_node(int stream, int captured, WatchClock *clock, const char *what, int *lane);
void watch_join(WatchClock *to, const WatchClock *from);

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
