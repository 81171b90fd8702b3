/* runtime/comm/internal.h - the parts of the CPU collectives; private to runtime/comm.  See cpu.c for the
 * idea. */
#ifndef APC_RUNTIME_COMM_INTERNAL_H
#define APC_RUNTIME_COMM_INTERNAL_H

#include "runtime/comm/cpu.h"

enum {
  KEY_BITS = 48, /* tag of a message: key, group, phase */
  GROUPS_MOST = 1 << 15,
  TAG_SHIFT = 16,
  SLEEP_MS = 100
};

typedef struct Operation Operation;

typedef struct Item {
  Transfer transfer; /* the message with the transport */
  Operation *operation;
  struct Item *next;
  Strided block;
  size_t begin, total; /* bytes [begin, begin + total) of the block's stream, */
  size_t piece, at;    /* in messages of `piece` bytes; `at` of them are done */
  int peer;
  bool send, ready;
  bool staged; /* a receive: every message goes to the start of `block`, after the last one was reduced */
} Item;

typedef struct Queue {
  Item *head, *tail;
  bool posted; /* the head is with the transport */
} Queue;

typedef struct Group {
  int n, rank; /* rank -1: not a member */
  int members[];
} Group;

struct Operation {
  CommKind kind;
  const Group *group;
  uint64_t tag;
  int left;       /* items and reduction still to be done; 0: complete */
  int sends_left; /* sends of the first phase */
  Item *items;    /* 4 * world of them: (phase, direction, group rank) */

  /* Reductions only. */
  DType dtype;
  CommReduction reduction;
  bool direct, two_phases;                /* all_reduce, small and large */
  Strided own, result;                    /* own contribution, and where the result goes: */
  size_t own_begin, result_begin, length; /* ... bytes [begin, begin + length) of the streams */
  size_t piece, reduced;                  /* bytes per reduction, and bytes reduced so far */
  int arrived;                            /* peers whose current piece has arrived in the staging area */
  Operation *next_reducing;
};

typedef struct CpuComm {
  Comm base;
  Transport *transport;
  int rank, world;
  CommOptions options;
  Group **groups;
  int n_groups;

  Queue *queues; /* 2 * world: sends, receives */
  Queue **posted;
  int n_posted;

  Operation *operations;  /* a ring by ticket */
  CommTicket first, next; /* all before `first` are complete */
  Item *items;

  Operation *reducing, *last_reducing; /* a list; the first one owns the staging area */
  char *staging;                       /* a piece of each member, and one for a result that is not contiguous */
  const void **sources;                /* by group rank, for one comm_reduce */

  uint64_t moves;
  uint64_t waited_ns;           /* while nothing moved */
  CommInterrupted *interrupted; /* NULL: no watch */
  void *supervisor;
  CommCount counts[COMM_KIND_COUNT];
  RtError failure; /* sticky */
} CpuComm;

/* Returns the smaller one. */
static inline size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Returns the place of an operation in the ring. */
static inline Operation *operation_at(const CpuComm *c, CommTicket ticket) {
  return &c->operations[ticket % (CommTicket)c->options.max_operations];
}

/* enqueue.c */
RtStatus comm_cpu_enqueue(Comm *comm, uint64_t key, const CommOp *op, CommTicket *ticket, RtError *error);

/* items.c: the queues. */

/* Appends an item of `total` > 0 bytes; the caller fills block, begin and piece before it makes it ready. */
Item *comm_append(CpuComm *c, Operation *op, int phase, bool send, int member, size_t total);
/* Lets the transport have the item as soon as it is the head of its queue. */
void comm_make_ready(CpuComm *c, Item *item);
/* Appends a reduction after its items; it gets the staging area when all earlier reductions are complete. */
void comm_append_reducing(CpuComm *c, Operation *op);
/* Counts one part of the operation (an item, its reduction, its set-up) as done. */
void comm_complete_part(CpuComm *c, Operation *op);
/* Lets the transport move what it can, and advances the operations.  Errors stay in c->failure. */
RtStatus comm_step(CpuComm *c, bool *moved);

#endif
