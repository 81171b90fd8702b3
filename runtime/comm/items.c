/* runtime/comm/items.c - progress of the CPU collectives: queues of items, completion, and reductions by pieces; see
 * cpu.c. */
#include "runtime/comm/internal.h"
#include "runtime/comm/reduce.h"

/* ---- queues ---- */

static Queue *queue_of(CpuComm *c, const Item *item) {
  return &c->queues[item->send ? item->peer : c->world + item->peer];
}

/* Gives the head of a queue to the transport if it is ready. */
static void post(CpuComm *c, Queue *q) {
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

void comm_make_ready(CpuComm *c, Item *item) {
  item->ready = true;
  if (queue_of(c, item)->head == item) post(c, queue_of(c, item));
}

Item *comm_append(CpuComm *c, Operation *op, int phase, bool send, int member, size_t total) {
  Item *item = &op->items[((size_t)phase * 2 + (send ? 0 : 1)) * (size_t)c->world + (size_t)member];
  *item = (Item){.operation = op, .peer = op->group->members[member], .send = send, .total = total, .piece = total};
  item->transfer.tag = op->tag | (uint64_t)phase;
  Queue *q = queue_of(c, item);
  if (q->head) q->tail->next = item;
  else q->head = item;
  q->tail = item;
  op->left++;
  if (send && phase == 0) op->sends_left++;
  return item;
}

/* ---- completion ---- */

void comm_complete_part(CpuComm *c, Operation *op) {
  if (--op->left > 0) return;
  while (c->first < c->next && operation_at(c, c->first)->left == 0) c->first++;
}

static void complete_message(CpuComm *c, Queue *q) {
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
    comm_complete_part(c, op);
  }
  post(c, q);
}

static void complete_messages(CpuComm *c) {
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

static Item *staged_item(const CpuComm *c, const Operation *op, int member) {
  return &op->items[(size_t)c->world + (size_t)member];
}

/* Makes the receives of the next piece of every other member ready. */
static void await_piece(CpuComm *c, Operation *op) {
  op->arrived = 0;
  for (int i = 0; i < op->group->n; i++)
    if (i != op->group->rank) comm_make_ready(c, staged_item(c, op, i));
}

/* Reduces the piece in the staging area. */
static void reduce_piece(CpuComm *c, Operation *op) {
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

/* Sends the result of a large all_reduce to the other members. */
static void send_result(CpuComm *c, Operation *op) {
  for (int i = 0; i < op->group->n; i++) {
    Item *item = &op->items[2 * (size_t)c->world + (size_t)i];
    if (i != op->group->rank) comm_make_ready(c, item);
  }
}

/* Advances the operation that owns the staging area; true if it is complete. */
static bool advance_reduction(CpuComm *c, Operation *op) {
  while (op->reduced < op->length) {
    if (op->arrived < op->group->n - 1) return false;
    if (op->direct && op->sends_left) return false; /* the result may overwrite bytes that are still being sent */
    reduce_piece(c, op);
    if (op->reduced < op->length) await_piece(c, op);
  }
  return true;
}

static void advance_reductions(CpuComm *c) {
  while (c->reducing && advance_reduction(c, c->reducing)) {
    Operation *op = c->reducing;
    c->reducing = op->next_reducing;
    if (op->two_phases) send_result(c, op);
    comm_complete_part(c, op);
    if (c->reducing) await_piece(c, c->reducing);
  }
}

void comm_append_reducing(CpuComm *c, Operation *op) {
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

/* ---- progress ---- */

RtStatus comm_step(CpuComm *c, bool *moved) {
  *moved = false;
  if (c->interrupted && c->interrupted(c->supervisor, &c->failure)) return c->failure.status;
  RtStatus status = c->transport->ops->progress(c->transport, moved, &c->failure);
  if (status != RT_OK) return status;
  if (*moved) {
    complete_messages(c);
    if (c->options.progress) atomic_store_explicit(&c->options.progress->moves, ++c->moves, memory_order_relaxed);
  }
  advance_reductions(c);
  return RT_OK;
}
