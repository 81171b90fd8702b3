/* tests/doubles/watch.h - finds races: unordered uses of memory, whether or not they change a number, in any order of
 * service.
 *
 * With DOUBLES_WATCH=1 every stream has a clock that counts its own work, and knows which work of other streams is
 * surely over (vector clocks: Mattern 1989; races by them: Flanagan and Freund 2009).  A request is ordered after all
 * earlier requests of its stream, all that precedes an event it waits for, and all that the host has waited for.  If
 * work overlaps other work's memory, one of them writing, while neither clock knows the other, that is a violation.
 *
 * Copies, products and communication describe the memory that they touch, matrices by their span.  Kernels report it at
 * run time, by byte: their texts are compiled with calls at every load and store (watch_text.h).
 *
 * A node of a graph has its own clock, which starts as that of the stream where the graph is launched and follows the
 * nodes that it depends on.  It counts as work of that stream if it was captured there, else of a lane for nodes that
 * are launched in the one and were captured from the other: it is unordered with that stream's own work.
 *
 * Not watched: the host's own loads and stores; streams beyond the first WATCHED of a process; other ranks, which have
 * their own memory. */
#ifndef APC_TESTS_DOUBLES_WATCH_H
#define APC_TESTS_DOUBLES_WATCH_H

#include "tests/doubles/double.h"

enum { WATCHED = 32 };

/* at[s]: so many requests of stream s are over. */
typedef struct WatchClock {
  uint32_t at[WATCHED];
} WatchClock;

bool watch_on(void);

/* The index of a new stream among clocks, which starts after all earlier work; -1 if it is not watched. */
int watch_stream(WatchClock *clock);

/* The host requests work, a record of an event, or a wait for one.  DOUBLES_TRACE gets a line for each, with the number
 * of the work, record or wait; the numbers of work and records are returned. */
uint32_t watch_work(int stream, WatchClock *clock, const char *what);
uint32_t watch_record(int stream, const WatchClock *clock);
void watch_wait(int stream, WatchClock *clock, const WatchClock *mark, uint32_t record);
/* The same for streams that capture, up to its end: for DOUBLES_TRACE only. */
void watch_capture(unsigned long long graph, int stream);
void watch_captured_work(int stream);
void watch_captured_wait(int stream, uint32_t record);
void watch_captured(unsigned long long graph, int stream);

/* A graph of n nodes is launched, and each of them, in order: `clock` is first the stream's, then that of the node.
 * *lane becomes its lane. */
void watch_launch(unsigned long long graph, int stream, WatchClock *clock, int n);
uint32_t watch_node(int stream, int captured, WatchClock *clock, const char *what, int *lane);
void watch_join(WatchClock *to, const WatchClock *from);

/* A stream waits for all work of another one. */
void watch_order(int stream, WatchClock *clock, int before, const WatchClock *other);

/* The host has waited for a record (record 0: for all of the stream). */
void watch_host(int stream, const WatchClock *clock, uint32_t record);

/* Work of that stream is served, and done: its accesses are compared with those of other work. */
void watch_begin(int stream, const WatchClock *clock, uint32_t number);
void watch_done(const DoubleWork *w);

/* A kernel's load or store, at an address of the host. */
void watch_touch(const void *at, size_t bytes, int writes);

/* Drops accesses that all future work is ordered after.  min: for every stream, the clock of the first of its
 * unfinished work, or its own. */
void watch_forget(const WatchClock *const *min, const int *streams, int n);

#endif
