/* runtime/comm_cpu.c - the collectives for CPU ranks, written once over a byte transport; see comm.h.
 *
 * Every operation becomes items, at most one send and one receive per peer and phase.  Items wait in one
 * queue per peer and direction, in the order (position, phase, operation), which is the same on both sides;
 * only the head of a queue is with the transport, and only when it is ready.  The first incomplete item in
 * that order can always move, on every rank, so nothing deadlocks.
 *
 *   move            one phase; own block copied at once.
 *   reduce_scatter  one phase; each peer's block comes in pieces of a fixed size into a staging area, and
 *                   when a piece of every member is there, they are reduced in order and stored.
 *   all_reduce      small ones ("direct"): everyone sends everything to everyone, one phase, reduced as
 *                   above; large ones: reduce_scatter over contiguous element ranges, then a second
 *                   phase that moves the results.  Both add in the same order, so the bits do not differ.
 *
 * There is one staging area; reducing operations take it in order.  A large in-place all_reduce needs no
 * further care: the result of range j can only arrive after member j has all contributions to it.
 *
 * Not done: receiving reductions without the staging copy, and tree or ring algorithms; between processes
 * of one machine every byte is copied twice anyway, and order-true sums need all members' values at one place.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/comm.h"
#include "runtime/comm_reduce.h"

enum {
  STAGING_BYTES = 512 * 1024,
  PIECE_MOST = 64 * 1024,
  PIECE_LEAST = 8 * 1024,
  DIRECT_BYTES = 8 * 1024,  /* all_reduce: most bytes sent directly, summed over peers... */
  DIRECT_BYTES_TWO = 16 * 1024, /* ...and between two ranks, where it saves a phase at no cost */
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
  bool staged; /* a receive whose messages all go to the start of `block`, each when the last was reduced */
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
  struct Position *position;
  uint64_t tag;
  int left;       /* items, and the reduction, still to be done */
  int sends_left; /* sends of the first phase */
  Item *items; /* 4 * world of them: (phase, direction, group rank) */

  /* Reductions only. */
  DType dtype;
  CommReduction reduction;
  bool direct, two_phases; /* all_reduce, small and large */
  Strided own, result;     /* own contribution, and where the result goes: */
  size_t own_begin, result_begin, length; /* bytes [begin, begin + length) of the streams */
  size_t piece, reduced;   /* bytes reduced at once, and so far */
  int arrived;             /* peers whose current piece is in the staging area */
  Operation *next_reducing;
};

typedef struct Position {
  uint64_t key;
  uint64_t first; /* its operations, as running numbers */
  int n, left;
} Position;

struct Comm {
  Transport *transport;
  int rank, world;
  CommOptions options;
  Group **groups;
  int n_groups;

  Queue *queues; /* 2 * world: sends, receives */
  Queue **posted;
  int n_posted;

  Position *positions; /* rings: running number modulo capacity */
  uint64_t first_position, next_position;
  Operation *operations;
  uint64_t first_operation, next_operation;
  Item *items;

  Operation *reducing, *last_reducing; /* a list; the first one owns the staging area */
  char *staging; /* a piece of each member, and one for a result that is not contiguous */
  const void **sources; /* by group rank, for one comm_reduce */

  uint64_t moves;
  CommCount counts[COMM_KIND_COUNT];
  RtError failure; /* sticky */
};

const char *comm_kind_name(CommKind kind) {
  static const char *const names[] = {
#define COMM_KIND(name) #name,
#include "runtime/comm.def"
#undef COMM_KIND
  };
  return (unsigned)kind < COMM_KIND_COUNT ? names[kind] : "unknown operation";
}

const char *comm_reduction_name(CommReduction reduction) {
  static const char *const names[] = {
#define COMM_REDUCTION(name, classes) #name,
#include "runtime/comm.def"
#undef COMM_REDUCTION
  };
  return (unsigned)reduction < COMM_REDUCTION_COUNT ? names[reduction] : "unknown reduction";
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static size_t piece_bytes(int members) {
  size_t piece = (size_t)STAGING_BYTES / (size_t)members;
  piece = piece < PIECE_LEAST ? (size_t)PIECE_LEAST : least(piece, PIECE_MOST);
  return piece / 64 * 64;
}

/* Enough for any group: a piece of each member and one more. */
static size_t staging_bytes(int world) {
  size_t n = (size_t)world, pieces = n * PIECE_LEAST;
  if (pieces < STAGING_BYTES) pieces = STAGING_BYTES;
  return least(pieces, n * PIECE_MOST) + PIECE_MOST;
}

/* ---- opening, groups ---- */

static bool allocate(Comm *c) {
  size_t world = (size_t)c->world;
  c->queues = calloc(2 * world, sizeof *c->queues);
  c->posted = calloc(2 * world, sizeof *c->posted);
  c->positions = calloc((size_t)c->options.max_positions, sizeof *c->positions);
  c->operations = calloc((size_t)c->options.max_operations, sizeof *c->operations);
  c->items = calloc((size_t)c->options.max_operations * 4 * world, sizeof *c->items);
  c->staging = aligned_alloc(64, staging_bytes(c->world));
  c->sources = calloc(world, sizeof *c->sources);
  return c->queues && c->posted && c->positions && c->operations && c->items && c->staging && c->sources;
}

RtStatus comm_open(Transport *transport, const CommOptions *options, Comm **out, RtError *error) {
  Comm *c = calloc(1, sizeof *c);
  if (!c) {
    transport->ops->close(transport);
    return rt_error(error, RT_FAILED, "out of memory");
  }
  c->transport = transport;
  c->rank = transport->rank;
  c->world = transport->world;
  if (options) c->options = *options;
  if (c->options.max_positions <= 0) c->options.max_positions = 64;
  if (c->options.max_operations <= 0) c->options.max_operations = 256;
  if (!allocate(c)) {
    comm_close(c);
    return rt_error(error, RT_FAILED, "out of memory");
  }
  for (int i = 0; i < c->options.max_operations; i++)
    c->operations[i].items = c->items + (size_t)i * 4 * (size_t)c->world;
  *out = c;
  return RT_OK;
}

void comm_close(Comm *c) {
  if (!c) return;
  c->transport->ops->close(c->transport);
  for (int i = 0; i < c->n_groups; i++) free(c->groups[i]);
  free(c->groups);
  free(c->queues);
  free(c->posted);
  free(c->positions);
  free(c->operations);
  free(c->items);
  free(c->staging);
  free(c->sources);
  free(c);
}

static RtStatus check_members(const Comm *c, const int *members, int n, RtError *error) {
  if (c->n_groups == GROUPS_MOST) return rt_error(error, RT_INTERNAL, "more than %d groups", GROUPS_MOST);
  if (n < 1 || n > c->world)
    return rt_error(error, RT_INTERNAL, "group %d has %d members in a world of %d ranks", c->n_groups, n, c->world);
  for (int i = 0; i < n; i++) {
    if (members[i] < 0 || members[i] >= c->world)
      return rt_error(error, RT_INTERNAL, "group %d names rank %d in a world of %d ranks", c->n_groups, members[i],
                      c->world);
    for (int j = 0; j < i; j++)
      if (members[i] == members[j])
        return rt_error(error, RT_INTERNAL, "group %d names rank %d twice", c->n_groups, members[i]);
  }
  return RT_OK;
}

RtStatus comm_group(Comm *c, const int *members, int n, int *group, RtError *error) {
  RtStatus status = check_members(c, members, n, error);
  if (status != RT_OK) return status;
  Group *g = malloc(sizeof *g + (size_t)n * sizeof g->members[0]);
  Group **groups = realloc(c->groups, (size_t)(c->n_groups + 1) * sizeof *groups);
  if (groups) c->groups = groups;
  if (!g || !groups) {
    free(g);
    return rt_error(error, RT_FAILED, "out of memory");
  }
  g->n = n;
  g->rank = -1;
  for (int i = 0; i < n; i++) {
    g->members[i] = members[i];
    if (members[i] == c->rank) g->rank = i;
  }
  *group = c->n_groups;
  c->groups[c->n_groups++] = g;
  return RT_OK;
}

int comm_group_size(const Comm *c, int group) { return c->groups[group]->n; }
int comm_group_rank(const Comm *c, int group) { return c->groups[group]->rank; }

/* ---- queues ---- */

static Queue *queue_of(Comm *c, const Item *item) {
  return &c->queues[item->send ? item->peer : c->world + item->peer];
}

/* Gives the head of a queue to the transport when it is ready. */
static void post(Comm *c, Queue *q) {
  Item *item = q->head;
  if (!item || !item->ready || q->posted) return;
  item->transfer.peer = item->peer;
  item->transfer.block = item->block;
  item->transfer.first = item->begin + (item->staged ? 0 : item->at);
  item->transfer.length = least(item->piece, item->total - item->at);
  q->posted = true;
  c->posted[c->n_posted++] = q;
  if (item->send) {
    c->transport->ops->isend(c->transport, &item->transfer);
    c->counts[item->operation->kind].bytes_sent += item->transfer.length;
  } else {
    c->transport->ops->irecv(c->transport, &item->transfer);
  }
}

static void make_ready(Comm *c, Item *item) {
  item->ready = true;
  if (queue_of(c, item)->head == item) post(c, queue_of(c, item));
}

/* Appends an item of `total` > 0 bytes; the caller fills block, begin and piece before it is posted. */
static Item *append(Comm *c, Operation *op, int phase, bool send, int member, size_t total) {
  Item *item = &op->items[((size_t)phase * 2 + (send ? 0 : 1)) * (size_t)c->world + (size_t)member];
  *item = (Item){.operation = op, .peer = op->group->members[member], .send = send, .total = total,
                 .piece = total};
  item->transfer.tag = op->tag | (uint64_t)phase;
  Queue *q = queue_of(c, item);
  if (q->head)
    q->tail->next = item;
  else
    q->head = item;
  q->tail = item;
  op->left++;
  if (send && phase == 0) op->sends_left++;
  return item;
}

static void append_move(Comm *c, Operation *op, int phase, bool send, int member, Strided block, size_t begin,
                        size_t total, bool ready) {
  if (total == 0) return;
  Item *item = append(c, op, phase, send, member, total);
  item->block = block;
  item->begin = begin;
  if (ready) make_ready(c, item);
}

/* ---- completion ---- */

static void complete_part(Comm *c, Operation *op) {
  if (--op->left > 0) return;
  op->position->left--;
  while (c->first_position < c->next_position) {
    Position *p = &c->positions[c->first_position % (uint64_t)c->options.max_positions];
    if (p->left) break;
    c->first_position++;
    c->first_operation += (uint64_t)p->n;
  }
}

static void complete_message(Comm *c, Queue *q) {
  Item *item = q->head;
  Operation *op = item->operation;
  q->posted = false;
  item->at += item->transfer.length;
  if (item->staged) {
    op->arrived++;
    item->ready = false;
  }
  if (item->at == item->total) {
    q->head = item->next;
    if (item->send && item->transfer.tag == op->tag) op->sends_left--;
    complete_part(c, op);
  }
  post(c, q);
}

static void complete_messages(Comm *c) {
  for (int i = 0; i < c->n_posted;) {
    Queue *q = c->posted[i];
    if (!q->head->transfer.done) {
      i++;
      continue;
    }
    c->posted[i] = c->posted[--c->n_posted];
    complete_message(c, q); /* may append to `posted` */
  }
}

/* ---- reductions ---- */

static Item *staged_item(const Comm *c, const Operation *op, int member) {
  return &op->items[(size_t)c->world + (size_t)member];
}

/* Lets the next piece of every other member come. */
static void await_piece(Comm *c, Operation *op) {
  op->arrived = 0;
  for (int i = 0; i < op->group->n; i++)
    if (i != op->group->rank) make_ready(c, staged_item(c, op, i));
}

/* Reduces the piece that lies in the staging area. */
static void reduce_piece(Comm *c, Operation *op) {
  size_t n = least(op->piece, op->length - op->reduced);
  int self = op->group->rank;
  for (int i = 0; i < op->group->n; i++) c->sources[i] = c->staging + (size_t)i * op->piece;
  char *own = strided_direct(&op->own, op->own_begin + op->reduced, n);
  if (!own) {
    own = c->staging + (size_t)self * op->piece;
    strided_gather(own, &op->own, op->own_begin + op->reduced, n);
  }
  c->sources[self] = own;
  char *result = strided_direct(&op->result, op->result_begin + op->reduced, n);
  char *to = result ? result : c->staging + (size_t)op->group->n * op->piece;
  comm_reduce(op->dtype, op->reduction, to, c->sources, op->group->n, n / dtype_bytes(op->dtype));
  if (!result) strided_scatter(&op->result, op->result_begin + op->reduced, to, n);
  op->reduced += n;
}

/* The result of a large all_reduce may go to the others. */
static void send_result(Comm *c, Operation *op) {
  for (int i = 0; i < op->group->n; i++) {
    Item *item = &op->items[2 * (size_t)c->world + (size_t)i];
    if (i != op->group->rank) make_ready(c, item);
  }
}

/* Does what can be done for the operation that owns the staging area; true when it is through. */
static bool advance_reduction(Comm *c, Operation *op) {
  while (op->reduced < op->length) {
    if (op->arrived < op->group->n - 1) return false;
    if (op->direct && op->sends_left) return false; /* the result may be stored over what is sent */
    reduce_piece(c, op);
    if (op->reduced < op->length) await_piece(c, op);
  }
  return true;
}

static void advance_reductions(Comm *c) {
  while (c->reducing && advance_reduction(c, c->reducing)) {
    Operation *op = c->reducing;
    c->reducing = op->next_reducing;
    if (op->two_phases) send_result(c, op);
    complete_part(c, op);
    if (c->reducing) await_piece(c, c->reducing);
  }
}

static void append_reducing(Comm *c, Operation *op) {
  op->left++;
  op->next_reducing = NULL;
  if (c->reducing) {
    c->last_reducing->next_reducing = op;
    c->last_reducing = op;
  } else {
    c->reducing = c->last_reducing = op;
    await_piece(c, op);
  }
}

/* ---- adding operations ---- */

static Strided at_send(const CommOp *op, int j) {
  CommBlock b = op->send[j];
  return (Strided){(char *)(uintptr_t)op->src + b.offset, b.rows, b.row_bytes, b.stride};
}

static Strided at_recv(const CommOp *op, int j) {
  CommBlock b = op->recv[j];
  return (Strided){(char *)op->dst + b.offset, b.rows, b.row_bytes, b.stride};
}

static bool is_reduction(CommKind kind) { return kind == COMM_all_reduce || kind == COMM_reduce_scatter; }

/* Where member j's range of an all_reduce of `bytes` begins. */
static size_t range_of(size_t bytes, size_t unit, int j, int members) {
  return bytes / unit * (size_t)j / (size_t)members * unit;
}

static bool is_direct(size_t bytes, int members) {
  return members == 1 || (bytes <= piece_bytes(members) &&
                          bytes * (size_t)(members - 1) <= (size_t)(members == 2 ? DIRECT_BYTES_TWO : DIRECT_BYTES));
}

size_t comm_all_reduce_sent(size_t bytes, size_t unit, int members, int place) {
  size_t others = (size_t)(members - 1);
  if (is_direct(bytes, members)) return bytes * others;
  size_t own = range_of(bytes, unit, place + 1, members) - range_of(bytes, unit, place, members);
  return bytes - own + own * others; /* the parts of the others, then the own result */
}

/* Element range [start of j, start of j + 1) of member j, in bytes. */
static size_t range_start(const Operation *op, size_t bytes, int j) {
  return range_of(bytes, dtype_bytes(op->dtype), j, op->group->n);
}

static void append_all_moves(Comm *c, Operation *op, const CommOp *spec) {
  for (int i = 0; i < op->group->n; i++) {
    if (i == op->group->rank) {
      Strided to = at_recv(spec, i), from = at_send(spec, i);
      strided_copy(&to, &from);
      continue;
    }
    append_move(c, op, 0, true, i, at_send(spec, i), 0, comm_block_bytes(spec->send[i]), true);
    append_move(c, op, 0, false, i, at_recv(spec, i), 0, comm_block_bytes(spec->recv[i]), true);
  }
}

/* Sends bytes [begin, begin + total) of `from` to a member in pieces, and receives its contribution to the
 * op->length bytes that this rank reduces. */
static void append_contribution(Comm *c, Operation *op, int member, Strided from, size_t begin, size_t total) {
  if (total) {
    Item *item = append(c, op, 0, true, member, total);
    item->block = from;
    item->begin = begin;
    item->piece = op->piece;
    make_ready(c, item);
  }
  if (op->length) {
    Item *item = append(c, op, 0, false, member, op->length);
    item->block = (Strided){c->staging + (size_t)member * op->piece, 1, op->piece, op->piece};
    item->piece = op->piece;
    item->staged = true;
  }
}

static void append_reduce_scatter(Comm *c, Operation *op, const CommOp *spec) {
  int self = op->group->rank;
  op->own = at_send(spec, self);
  op->result = at_recv(spec, 0);
  op->length = comm_block_bytes(spec->recv[0]);
  for (int i = 0; i < op->group->n; i++)
    if (i != self) append_contribution(c, op, i, at_send(spec, i), 0, comm_block_bytes(spec->send[i]));
}

static void append_all_reduce(Comm *c, Operation *op, const CommOp *spec) {
  int self = op->group->rank, n = op->group->n;
  size_t bytes = comm_block_bytes(spec->send[0]);
  op->own = at_send(spec, 0);
  op->result = at_recv(spec, 0);
  op->direct = is_direct(bytes, n);
  op->two_phases = !op->direct;
  op->own_begin = op->result_begin = op->direct ? 0 : range_start(op, bytes, self);
  op->length = op->direct ? bytes : range_start(op, bytes, self + 1) - op->own_begin;
  for (int i = 0; i < n; i++) {
    if (i == self) continue;
    size_t begin = op->direct ? 0 : range_start(op, bytes, i);
    size_t total = op->direct ? bytes : range_start(op, bytes, i + 1) - begin;
    append_contribution(c, op, i, op->own, begin, total);
  }
}

/* The second phase of a large all_reduce: the ranges of the result. */
static void append_results(Comm *c, Operation *op, size_t bytes) {
  for (int i = 0; i < op->group->n; i++) {
    if (i == op->group->rank) continue;
    size_t begin = range_start(op, bytes, i);
    append_move(c, op, 1, true, i, op->result, op->result_begin, op->length, false);
    append_move(c, op, 1, false, i, op->result, begin, range_start(op, bytes, i + 1) - begin, true);
  }
}

static void append_first_phase(Comm *c, Operation *op, const CommOp *spec) {
  if (!is_reduction(spec->kind)) {
    append_all_moves(c, op, spec);
    return;
  }
  op->piece = piece_bytes(op->group->n);
  if (spec->kind == COMM_all_reduce)
    append_all_reduce(c, op, spec);
  else
    append_reduce_scatter(c, op, spec);
  if (op->length) append_reducing(c, op);
}

static RtStatus check_block(const CommOp *op, const char *side, int j, CommBlock b, const void *base, RtError *error) {
  size_t bytes = comm_block_bytes(b);
  if (bytes == 0) return RT_OK;
  if (!base)
    return rt_error(error, RT_INTERNAL, "%s: %s block %d has %zu bytes but no address", comm_kind_name(op->kind), side,
                    j, bytes);
  if (is_reduction(op->kind) && bytes % dtype_bytes(op->dtype))
    return rt_error(error, RT_INTERNAL, "%s: %s block %d has %zu bytes, not a multiple of %s", comm_kind_name(op->kind),
                    side, j, bytes, dtype_name(op->dtype));
  return RT_OK;
}

/* The blocks this rank can see; what peers sent is checked message by message. */
static RtStatus check_blocks(const CommOp *op, const Group *g, RtError *error) {
  bool all_reduce = op->kind == COMM_all_reduce, reduction = is_reduction(op->kind);
  for (int i = 0; i < (all_reduce ? 1 : g->n); i++) {
    RtStatus status = check_block(op, "send", i, op->send[i], op->src, error);
    if (status != RT_OK) return status;
  }
  for (int i = 0; i < (reduction ? 1 : g->n); i++) {
    RtStatus status = check_block(op, "receive", i, op->recv[i], op->dst, error);
    if (status != RT_OK) return status;
  }
  size_t sent = comm_block_bytes(op->send[all_reduce ? 0 : g->rank]);
  size_t received = comm_block_bytes(op->recv[reduction ? 0 : g->rank]);
  if (sent != received)
    return rt_error(error, RT_INTERNAL, "%s: group rank %d sends %zu bytes to itself and receives %zu",
                    comm_kind_name(op->kind), g->rank, sent, received);
  return RT_OK;
}

static RtStatus check_operation(const Comm *c, const CommOp *op, RtError *error) {
  if ((unsigned)op->kind >= COMM_KIND_COUNT) return rt_error(error, RT_INTERNAL, "operation kind %d", (int)op->kind);
  if (op->group < 0 || op->group >= c->n_groups)
    return rt_error(error, RT_INTERNAL, "%s: no group %d", comm_kind_name(op->kind), op->group);
  if (c->groups[op->group]->rank < 0)
    return rt_error(error, RT_INTERNAL, "%s: rank %d is not a member of group %d", comm_kind_name(op->kind), c->rank,
                    op->group);
  if (is_reduction(op->kind) && !comm_reduction_defined(op->reduction, op->dtype))
    return rt_error(error, RT_INTERNAL, "%s: %s is not defined on %s", comm_kind_name(op->kind),
                    comm_reduction_name(op->reduction),
                    (unsigned)op->dtype < DT_COUNT ? dtype_name(op->dtype) : "an unknown dtype");
  return check_blocks(op, c->groups[op->group], error);
}

static RtStatus check_position(const Comm *c, uint64_t key, const CommOp *ops, int n, RtError *error) {
  if (key >> KEY_BITS) return rt_error(error, RT_INTERNAL, "order key %#llx is too large", (unsigned long long)key);
  if (n < 1) return rt_error(error, RT_INTERNAL, "%d operations at one position", n);
  if (c->next_position - c->first_position >= (uint64_t)c->options.max_positions ||
      c->next_operation - c->first_operation + (uint64_t)n > (uint64_t)c->options.max_operations)
    return rt_error(error, RT_INTERNAL, "more than %d positions or %d operations of communication are under way",
                    c->options.max_positions, c->options.max_operations);
  for (int i = 0; i < n; i++) {
    RtStatus status = check_operation(c, &ops[i], error);
    if (status != RT_OK) return status;
  }
  return RT_OK;
}

static Operation *operation_at(Comm *c, uint64_t number) {
  return &c->operations[number % (uint64_t)c->options.max_operations];
}

static void add_operation(Comm *c, Position *p, int index, const CommOp *spec) {
  Operation *op = operation_at(c, p->first + (uint64_t)index);
  *op = (Operation){.kind = spec->kind, .group = c->groups[spec->group], .position = p,
                    .tag = p->key << TAG_SHIFT | (uint64_t)spec->group << 1, .items = op->items,
                    .dtype = spec->dtype, .reduction = spec->reduction,
                    .left = 1}; /* until all its parts are appended */
  c->counts[spec->kind].operations++;
  append_first_phase(c, op, spec);
}

static RtStatus step(Comm *c, bool *moved);

RtStatus comm_enqueue(Comm *c, uint64_t key, const CommOp *ops, int n, CommTicket *ticket, RtError *error) {
  if (c->failure.status != RT_OK) return rt_error(error, c->failure.status, "%s", c->failure.text);
  RtStatus status = check_position(c, key, ops, n, error);
  if (status != RT_OK) return status;
  *ticket = c->next_position++;
  Position *p = &c->positions[*ticket % (uint64_t)c->options.max_positions];
  *p = (Position){key, c->next_operation, n, n};
  c->next_operation += (uint64_t)n;
  for (int i = 0; i < n; i++) add_operation(c, p, i, &ops[i]);
  for (int i = 0; i < n; i++) {
    Operation *op = operation_at(c, p->first + (uint64_t)i);
    if (op->two_phases) append_results(c, op, comm_block_bytes(ops[i].send[0]));
  }
  uint64_t first = p->first;
  for (int i = 0; i < n; i++) complete_part(c, operation_at(c, first + (uint64_t)i));
  bool moved;
  if (step(c, &moved) != RT_OK) return rt_error(error, c->failure.status, "%s", c->failure.text);
  return RT_OK;
}

/* ---- progress ---- */

static RtStatus step(Comm *c, bool *moved) {
  RtStatus status = c->transport->ops->progress(c->transport, moved, &c->failure);
  if (status != RT_OK) return status;
  if (*moved) {
    complete_messages(c);
    if (c->options.progress)
      atomic_store_explicit(&c->options.progress->moves, ++c->moves, memory_order_relaxed);
  }
  advance_reductions(c);
  return RT_OK;
}

static bool is_done(const Comm *c, CommTicket ticket) {
  return ticket < c->first_position || c->positions[ticket % (uint64_t)c->options.max_positions].left == 0;
}

RtStatus comm_poll(Comm *c, CommTicket ticket, bool *done, RtError *error) {
  bool moved;
  if (c->failure.status == RT_OK) step(c, &moved);
  *done = is_done(c, ticket);
  return c->failure.status == RT_OK ? RT_OK : rt_error(error, c->failure.status, "%s", c->failure.text);
}

/* The oldest incomplete operation, which is what this rank waits for; NULL when there is none. */
static const Operation *oldest(const Comm *c) {
  if (c->first_position == c->next_position) return NULL;
  const Position *p = &c->positions[c->first_position % (uint64_t)c->options.max_positions];
  for (int i = 0; i < p->n; i++) {
    const Operation *op = &c->operations[(p->first + (uint64_t)i) % (uint64_t)c->options.max_operations];
    if (op->left) return op;
  }
  return NULL;
}

static void publish(Comm *c, bool waiting) {
  CommProgress *progress = c->options.progress;
  if (!progress) return;
  const Operation *op = oldest(c);
  if (waiting && op) {
    atomic_store_explicit(&progress->key, op->tag >> TAG_SHIFT, memory_order_relaxed);
    atomic_store_explicit(&progress->kind, (uint32_t)op->kind, memory_order_relaxed);
  }
  atomic_store_explicit(&progress->waiting, waiting, memory_order_relaxed);
}

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Which members the oldest operation still misses something from, for the message of a time-out. */
static RtStatus late(Comm *c) {
  const Operation *op = oldest(c);
  char ranks[128] = "";
  for (int i = 0, used = 0; op && i < c->world && used < (int)sizeof ranks - 16; i++) {
    const Item *head = c->queues[c->world + i].head;
    if (head && head->operation == op) used += snprintf(ranks + used, sizeof ranks - (size_t)used, " %d", i);
  }
  return rt_error(&c->failure, RT_LATE, "rank %d waited %.1f s at order key %llu in %s for rank%s", c->rank,
                  c->options.timeout_ms / 1000.0, op ? (unsigned long long)(op->tag >> TAG_SHIFT) : 0ull,
                  op ? comm_kind_name(op->kind) : "nothing", ranks);
}

/* Waits until the ticket is complete.  The time-out adds up the sleeps, each counted at most twice its
 * length, so that a process that was stopped and continued is not late. */
static RtStatus wait_for(Comm *c, CommTicket ticket) {
  unsigned spins = 0;
  int64_t waited = 0;
  while (!is_done(c, ticket)) {
    bool moved;
    RtStatus status = step(c, &moved);
    if (status != RT_OK) return status;
    if (moved) {
      if (waited) publish(c, true);
      spins = 0;
      waited = 0;
      continue;
    }
    int64_t before = now_ms();
    c->transport->ops->sleep(c->transport, spins++, SLEEP_MS);
    int64_t slept = now_ms() - before;
    waited += slept < 2 * SLEEP_MS ? slept : 2 * SLEEP_MS;
    if (c->options.timeout_ms && waited > c->options.timeout_ms) return late(c);
  }
  return RT_OK;
}

RtStatus comm_wait(Comm *c, CommTicket ticket, RtError *error) {
  if (c->failure.status == RT_OK && !is_done(c, ticket)) {
    publish(c, true);
    wait_for(c, ticket);
    publish(c, false);
  }
  return c->failure.status == RT_OK ? RT_OK : rt_error(error, c->failure.status, "%s", c->failure.text);
}

void comm_abort(Comm *c) { c->transport->ops->abort(c->transport); }

CommCount comm_count(const Comm *c, CommKind kind) { return c->counts[kind]; }
