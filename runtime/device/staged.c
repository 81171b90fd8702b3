/* runtime/device/staged.c - see staged.h.
 *
 * An operation has two pieces of host memory, for sent and for received blocks, at the same offsets as on the device.
 * So the host's engine gets the same blocks.  Buffers that coincide on the device never do here.
 */
#include "runtime/device/staged.h"

#include <stdlib.h>

/* Host memory that grows. */
typedef struct Mirror {
  char *data;
  size_t bytes;
} Mirror;

typedef struct StagedOp {
  CommTicket host;
  bool delivered;
  Mirror sent, arrived;
  char *to;          /* on the device */
  CommBlock *blocks; /* received blocks; room for all members */
  int n_blocks;
} StagedOp;

typedef struct StagedComm {
  Comm base;
  Device *device;
  Comm *host;
  CommOptions options;
  int *sizes; /* per group: the number of its members */
  int n_groups;
  StagedOp *ops; /* a ring by ticket */
  CommTicket next;
} StagedComm;

/* ---- blocks */

static size_t end_of(CommBlock b) { return comm_block_bytes(b) ? b.offset + (b.rows - 1) * b.stride + b.row_bytes : 0; }

static bool same_block(CommBlock a, CommBlock b) {
  return a.offset == b.offset && a.rows == b.rows && a.row_bytes == b.row_bytes && a.stride == b.stride;
}

static RtStatus make_room(Mirror *m, const CommBlock *blocks, int n, RtError *error) {
  size_t bytes = 0;
  for (int i = 0; i < n; i++)
    if (end_of(blocks[i]) > bytes) bytes = end_of(blocks[i]);
  if (bytes <= m->bytes) return RT_OK;
  free(m->data);
  m->bytes = 0;
  m->data = malloc(bytes);
  if (!m->data) return rt_error(error, RT_FAILED, "out of memory: %zu bytes of host memory for communication", bytes);
  m->bytes = bytes;
  return RT_OK;
}

/* Copies a block between the device and the mirror; contiguous rows are one. */
static RtStatus move_block(const StagedComm *c, char *device, char *mirror, CommBlock b, bool read, RtError *error) {
  const DeviceOps *ops = c->device->ops;
  RtStatus status = RT_OK;
  if (b.rows > 1 && b.stride == b.row_bytes) b = comm_contiguous(b.offset, comm_block_bytes(b));
  for (size_t r = 0; r < b.rows && b.row_bytes && !status; r++) {
    size_t at = b.offset + r * b.stride;
    status = read ? ops->read(c->device, mirror + at, device + at, b.row_bytes, error)
                  : ops->upload(c->device, device + at, mirror + at, b.row_bytes, error);
  }
  return status;
}

/* ---- one operation */

/* Reads the sent blocks into the mirror; a block for several members is read once. */
static RtStatus read_sent(const StagedComm *c, const CommOp *op, int members, StagedOp *s, RtError *error) {
  int n = comm_send_blocks(op->kind, members);
  RtStatus status = make_room(&s->sent, op->send, n, error);
  for (int i = 0; i < n && !status; i++) {
    if (i > 0 && same_block(op->send[i], op->send[i - 1])) continue;
    status = move_block(c, (char *)(uintptr_t)op->src, s->sent.data, op->send[i], true, error);
  }
  return status;
}

/* Makes *out the operation on the mirrors. */
static RtStatus stage(const StagedComm *c, const CommOp *op, StagedOp *s, CommOp *out, RtError *error) {
  if (op->group < 0 || op->group >= c->n_groups)
    return rt_error(error, RT_INTERNAL, "%s: no group %d", program_comm_kind_name(op->kind), op->group);
  int members = c->sizes[op->group];
  RtStatus status = read_sent(c, op, members, s, error);
  s->n_blocks = comm_recv_blocks(op->kind, members);
  s->to = op->dst;
  for (int i = 0; i < s->n_blocks; i++) s->blocks[i] = op->recv[i];
  if (!status) status = make_room(&s->arrived, s->blocks, s->n_blocks, error);
  *out = *op;
  out->src = s->sent.data;
  out->dst = s->arrived.data;
  return status;
}

static RtStatus deliver(const StagedComm *c, StagedOp *s, RtError *error) {
  RtStatus status = RT_OK;
  if (s->delivered) return RT_OK;
  s->delivered = true;
  for (int i = 0; i < s->n_blocks && !status; i++)
    status = move_block(c, s->to, s->arrived.data, s->blocks[i], false, error);
  return status;
}

/* ---- the engine */

static RtStatus add_group(Comm *comm, const int *members, int n, int *group, RtError *error) {
  StagedComm *c = (StagedComm *)comm;
  RtStatus status = comm_group(c->host, members, n, group, error);
  if (status) return status;
  int *sizes = realloc(c->sizes, (size_t)(*group + 1) * sizeof *sizes);
  if (!sizes) return rt_error(error, RT_FAILED, "out of memory");
  while (c->n_groups <= *group) sizes[c->n_groups++] = 0;
  sizes[*group] = n;
  c->sizes = sizes;
  return RT_OK;
}

/* Takes the place of a new ticket in the ring, with room for the operation's blocks. */
static RtStatus take_place(StagedComm *c, const CommOp *op, StagedOp **out, RtError *error) {
  StagedOp *s = *out = &c->ops[c->next % (CommTicket)c->options.max_operations];
  if (c->next >= (CommTicket)c->options.max_operations && !s->delivered)
    return rt_error(error, RT_INTERNAL, "more than %d operations of communication are under way",
                    c->options.max_operations);
  size_t members = op->group >= 0 && op->group < c->n_groups ? (size_t)c->sizes[op->group] : 0;
  CommBlock *blocks = realloc(s->blocks, (members + 1) * sizeof *blocks);
  if (!blocks) return rt_error(error, RT_FAILED, "out of memory");
  s->blocks = blocks;
  s->delivered = false;
  return RT_OK;
}

static RtStatus enqueue(Comm *comm, uint64_t key, const CommOp *op, CommTicket *ticket, RtError *error) {
  StagedComm *c = (StagedComm *)comm;
  StagedOp *s;
  CommOp on_host;
  RtStatus status = take_place(c, op, &s, error);
  if (!status) status = stage(c, op, s, &on_host, error);
  if (!status) status = comm_enqueue(c->host, key, &on_host, &s->host, error);
  *ticket = c->next++;
  return status;
}

/* NULL: the operation is done, and its place in the ring is in use again. */
static StagedOp *op_of(const StagedComm *c, CommTicket ticket) {
  bool kept = c->next - ticket <= (CommTicket)c->options.max_operations;
  return kept ? &c->ops[ticket % (CommTicket)c->options.max_operations] : NULL;
}

static RtStatus wait_ticket(Comm *comm, CommTicket ticket, RtError *error) {
  StagedComm *c = (StagedComm *)comm;
  StagedOp *s = op_of(c, ticket);
  if (!s || s->delivered) return RT_OK;
  RtStatus status = comm_wait(c->host, s->host, error);
  return status ? status : deliver(c, s, error);
}

static RtStatus poll_ticket(Comm *comm, CommTicket ticket, bool *done, RtError *error) {
  StagedComm *c = (StagedComm *)comm;
  StagedOp *s = op_of(c, ticket);
  *done = !s || s->delivered;
  if (*done) return RT_OK;
  RtStatus status = comm_poll(c->host, s->host, done, error);
  return status || !*done ? status : deliver(c, s, error);
}

static RtStatus check_all(Comm *comm, RtError *error) { return comm_check(((StagedComm *)comm)->host, error); }

static void supervise(Comm *comm, CommProgress *progress, CommInterrupted *interrupted, void *context) {
  comm_supervise(((StagedComm *)comm)->host, progress, interrupted, context);
}

static void abort_all(Comm *comm) { comm_abort(((StagedComm *)comm)->host); }

static CommCount count(const Comm *comm, CommKind kind) { return comm_count(((const StagedComm *)comm)->host, kind); }

static uint64_t waited(const Comm *comm) { return comm_waited(((const StagedComm *)comm)->host); }

static void close_comm(Comm *comm) {
  StagedComm *c = (StagedComm *)comm;
  for (int i = 0; c->ops && i < c->options.max_operations; i++) {
    free(c->ops[i].sent.data);
    free(c->ops[i].arrived.data);
    free(c->ops[i].blocks);
  }
  free(c->ops);
  free(c->sizes);
  free(c);
}

static const CommOps staged_ops = {.name = "staged",
                                   .group = add_group,
                                   .enqueue = enqueue,
                                   .poll = poll_ticket,
                                   .wait = wait_ticket,
                                   .check = check_all,
                                   .supervise = supervise,
                                   .abort = abort_all,
                                   .count = count,
                                   .waited = waited,
                                   .close = close_comm};

RtStatus staged_open(Device *device, Comm *host, const CommOptions *options, Comm **out, RtError *error) {
  StagedComm *c = calloc(1, sizeof *c);
  if (!c) return rt_error(error, RT_FAILED, "out of memory");
  *c = (StagedComm){.base.ops = &staged_ops, .device = device, .host = host, .options = *options};
  c->ops = calloc((size_t)options->max_operations, sizeof *c->ops);
  if (!c->ops) {
    close_comm(&c->base);
    return rt_error(error, RT_FAILED, "out of memory");
  }
  *out = &c->base;
  return RT_OK;
}
