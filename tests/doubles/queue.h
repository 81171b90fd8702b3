/* tests/doubles/queue.h - streams, events, and the order of service.
 *
 * A stream is a queue of items: work, the record of an event, a wait for a record, the launch of a graph.  An item may
 * be served if it is the first of its stream and its dependencies are done; a node of a graph, if its dependencies are.
 * A weighted draw picks one of the items that may be served; the weights of streams are redrawn now and then, so that
 * one runs far ahead of another.  Items are served only
 *   - when a call has to wait (queue_until),
 *   - now and then at any other call (double_serve); how often depends on the seed, for some seeds never,
 *   - after a time without calls (by a thread), as a GPU would go on. */
#ifndef APC_TESTS_DOUBLES_QUEUE_H
#define APC_TESTS_DOUBLES_QUEUE_H

#include "tests/doubles/graph.h"
#include "tests/doubles/report.h"
#include "tests/doubles/watch.h"

/* A record of an event, referenced by the items that wait for it. */
typedef struct Mark {
  int refs;
  bool done;
  int64_t when;
  int stream; /* among clocks */
  WatchClock clock;
  uint32_t number;
} Mark;

typedef enum ItemKind { ITEM_WORK, ITEM_RECORD, ITEM_WAIT, ITEM_GRAPH } ItemKind;

typedef struct Item {
  ItemKind kind;
  DoubleWork *work;
  void *state;
  Mark *mark;
  GraphRun *run;
  WatchClock clock; /* of work, with its number; for a graph, of the work before it */
  uint32_t number;
  struct Item *next;
} Item;

struct CUstream_st {
  int device;
  bool blocking; /* ordered with the default stream */
  bool is_default;
  bool destroyed; /* its items still run */
  Item *first, *last;
  int weight;
  int64_t pretended; /* nanoseconds of its work so far */
  int watched;       /* its index among clocks */
  WatchClock clock;
  bool moves_host;        /* the last item is a copy from or to the host */
  bool gives_host, asked; /* a graph with a copy to the host; the host has queried whether the stream is empty */
  Capture *capture;       /* NULL if none */
  NodeSet tail;           /* dependencies of the next captured node */
  struct CUstream_st *next;
};

struct CUevent_st {
  int device;
  bool timing;
  bool moves_host, asked; /* the last record is after such a copy; the host has queried it */
  Mark *mark;             /* of the last record; NULL if none */
  Capture *capture;       /* recorded into; NULL if none */
  unsigned long long capture_id;
  uint32_t number; /* of that record */
  NodeSet tail;
  struct CUevent_st *next;
};

CUstream queue_stream_new(int device, bool blocking);
/* The default stream of a device. */
CUstream queue_default(int device);
bool queue_stream_exists(CUstream s);
CUresult queue_stream_destroy(CUstream s);

CUevent queue_event_new(int device, bool timing);
bool queue_event_exists(CUevent e);
CUresult queue_event_destroy(CUevent e);

Mark *queue_mark_new(void);
Mark *queue_mark_hold(Mark *m);
void queue_mark_drop(Mark *m);

/* Adds to a stream that captures nothing; takes the references. */
void queue_add(CUstream s, Item item);

/* Later items of the stream run after the record. */
void queue_wait(CUstream s, Mark *m);

/* The host knows that the record is done, or that the stream is empty. */
void queue_seen(const Mark *m);
void queue_seen_empty(CUstream s);

/* Serves until the stream is empty, the record is done, or all work of a device is done.  An error if that never
 * happens, or if the device has failed. */
CUresult queue_until_empty(CUstream s);
CUresult queue_until_mark(const Mark *m, int device);
CUresult queue_until_idle(int device);
bool queue_idle(int device);

/* For calls that poll: serves an item now and then. */
void queue_poll(void);

/* True if unfinished work reads or writes memory there. */
bool queue_uses(uint64_t at, uint64_t bytes, bool reads_only);

/* The error that the device failed with; CUDA_SUCCESS if none. */
CUresult queue_error(int device);

/* Reports streams and events that were not destroyed. */
void queue_leaks(int device);

#endif
