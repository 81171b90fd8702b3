/* tests/doubles/queue.h - streams, events, and who is served next.
 *
 * A stream is a queue of items: work, the record of an event, a wait for a record, the launch of a graph.  An item may
 * be served when it is the first of its stream and what it waits for is done; a node of a graph when those it depends
 * on are.  Among all that may be served a weighted draw decides; the weights of streams are drawn anew now and then, so
 * that one runs far ahead of another.  Nothing is served but
 *   - when a call has to wait (queue_until),
 *   - now and then at any other call (double_serve); how often depends on the seed, for some seeds never,
 *   - when nobody has called for a while (a thread), as a GPU would go on. */
#ifndef APC_TESTS_DOUBLES_QUEUE_H
#define APC_TESTS_DOUBLES_QUEUE_H

#include "tests/doubles/graph.h"
#include "tests/doubles/report.h"
#include "tests/doubles/watch.h"

/* A record of an event: what waits for it holds it. */
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
  WatchClock clock; /* of work, with its number; of a graph what is before it */
  uint32_t number;
  struct Item *next;
} Item;

struct CUstream_st {
  int device;
  bool blocking; /* ordered with the default stream */
  bool is_default;
  bool destroyed; /* what is in it is done all the same */
  Item *first, *last;
  int weight;
  int watched; /* its place among clocks */
  WatchClock clock;
  bool moves_host;        /* what was added last is a copy from or to the host */
  bool gives_host, asked; /* a graph with one to the host; somebody has asked whether the stream is empty */
  Capture *capture;       /* NULL: none */
  NodeSet tail;           /* what the next captured node depends on */
  struct CUstream_st *next;
};

struct CUevent_st {
  int device;
  bool timing;
  bool moves_host, asked; /* of the last record: it is behind such a copy; somebody has asked whether it has happened */
  Mark *mark;             /* of the last record; NULL: never */
  Capture *capture;       /* recorded into; NULL: none */
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

/* What the stream is asked for next comes behind the record. */
void queue_wait(CUstream s, Mark *m);

/* The host knows that the record is made, or that the stream is empty. */
void queue_seen(const Mark *m);
void queue_seen_empty(CUstream s);

/* Serves until the stream is empty, the record is made, or everything of a device is done.  An error when that never
 * comes, or the device has failed. */
CUresult queue_until_empty(CUstream s);
CUresult queue_until_mark(const Mark *m, int device);
CUresult queue_until_idle(int device);
bool queue_idle(int device);

/* For calls that poll: something is done now and then. */
void queue_poll(void);

/* Does anything that is not yet done read or write memory there? */
bool queue_uses(uint64_t at, uint64_t bytes, bool reads_only);

/* What the device failed with; CUDA_SUCCESS. */
CUresult queue_error(int device);

/* Streams and events that were not given back. */
void queue_leaks(int device);

#endif
