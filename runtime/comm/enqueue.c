/* runtime/comm/enqueue.c - turns an operation into items, which say what each rank sends to and receives from each
 * peer, and checks the arguments that this rank can see; see cpu.c.
 */
#include "runtime/comm/internal.h"
#include "runtime/comm/reduce.h"

/* ---- items of an operation ---- */

/* A rank without any byte of a buffer may have no address for it, and even NULL + 0 is undefined. */
static char *at_offset(const void *base, size_t offset) { return base ? (char *)(uintptr_t)base + offset : NULL; }

static Strided at_send(const CommOp *op, int j) {
  CommBlock b = op->send[j];
  return (Strided){at_offset(op->src, b.offset), b.rows, b.row_bytes, b.stride};
}

static Strided at_recv(const CommOp *op, int j) {
  CommBlock b = op->recv[j];
  return (Strided){at_offset(op->dst, b.offset), b.rows, b.row_bytes, b.stride};
}

/* Element range [start of j, start of j + 1) of member j, in bytes. */
static size_t range_start(const Operation *op, size_t bytes, int j) {
  return program_comm_range_of(bytes, dtype_bytes(op->dtype), j, op->group->n);
}

static void append_move(CpuComm *c, Operation *op, int phase, bool send, int member, Strided block, size_t begin,
                        size_t total, bool ready) {
  if (total == 0) return;
  Item *item = comm_append(c, op, phase, send, member, total);
  item->block = block;
  item->begin = begin;
  if (ready) comm_make_ready(c, item);
}

static void append_all_moves(CpuComm *c, Operation *op, const CommOp *spec) {
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
static void append_contribution(CpuComm *c, Operation *op, int member, Strided from, size_t begin, size_t total) {
  if (total) {
    Item *item = comm_append(c, op, 0, true, member, total);
    item->block = from;
    item->begin = begin;
    item->piece = op->piece;
    comm_make_ready(c, item);
  }
  if (op->length) {
    Item *item = comm_append(c, op, 0, false, member, op->length);
    item->block = (Strided){c->staging + (size_t)member * op->piece, 1, op->piece, op->piece};
    item->piece = op->piece;
    item->staged = true;
  }
}

static void append_reduce_scatter(CpuComm *c, Operation *op, const CommOp *spec) {
  int self = op->group->rank;
  op->own = at_send(spec, self);
  op->result = at_recv(spec, 0);
  op->length = comm_block_bytes(spec->recv[0]);
  for (int i = 0; i < op->group->n; i++)
    if (i != self) append_contribution(c, op, i, at_send(spec, i), 0, comm_block_bytes(spec->send[i]));
}

static void append_all_reduce(CpuComm *c, Operation *op, const CommOp *spec) {
  int self = op->group->rank, n = op->group->n;
  size_t bytes = comm_block_bytes(spec->send[0]);
  op->own = at_send(spec, 0);
  op->result = at_recv(spec, 0);
  op->direct = program_comm_is_direct(bytes, n);
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
static void append_results(CpuComm *c, Operation *op, size_t bytes) {
  for (int i = 0; i < op->group->n; i++) {
    if (i == op->group->rank) continue;
    size_t begin = range_start(op, bytes, i);
    append_move(c, op, 1, true, i, op->result, op->result_begin, op->length, false);
    append_move(c, op, 1, false, i, op->result, begin, range_start(op, bytes, i + 1) - begin, true);
  }
}

static void append_first_phase(CpuComm *c, Operation *op, const CommOp *spec) {
  if (!comm_is_reduction(spec->kind)) {
    append_all_moves(c, op, spec);
    return;
  }
  op->piece = program_comm_piece_bytes(op->group->n);
  if (spec->kind == COMM_all_reduce) append_all_reduce(c, op, spec);
  else append_reduce_scatter(c, op, spec);
  if (op->length) comm_append_reducing(c, op);
}

/* ---- checks ---- */

static RtStatus check_block(const CommOp *op, const char *side, int j, CommBlock b, const void *base, RtError *error) {
  size_t bytes = comm_block_bytes(b);
  if (bytes == 0) return RT_OK;
  if (!base)
    return rt_error(error, RT_INTERNAL, "%s: %s block %d has %zu bytes but no address",
                    program_comm_kind_name(op->kind), side, j, bytes);
  if (comm_is_reduction(op->kind) && bytes % dtype_bytes(op->dtype))
    return rt_error(error, RT_INTERNAL, "%s: %s block %d has %zu bytes, not a multiple of %s",
                    program_comm_kind_name(op->kind), side, j, bytes, dtype_name(op->dtype));
  return RT_OK;
}

/* Checks this rank's blocks; the messages of peers are checked as they arrive. */
static RtStatus check_blocks(const CommOp *op, const Group *g, RtError *error) {
  int sends = comm_send_blocks(op->kind, g->n), receives = comm_recv_blocks(op->kind, g->n);
  for (int i = 0; i < sends; i++) {
    RtStatus status = check_block(op, "send", i, op->send[i], op->src, error);
    if (status != RT_OK) return status;
  }
  for (int i = 0; i < receives; i++) {
    RtStatus status = check_block(op, "receive", i, op->recv[i], op->dst, error);
    if (status != RT_OK) return status;
  }
  size_t sent = comm_block_bytes(op->send[sends == 1 ? 0 : g->rank]);
  size_t received = comm_block_bytes(op->recv[receives == 1 ? 0 : g->rank]);
  if (sent != received)
    return rt_error(error, RT_INTERNAL, "%s: group rank %d sends %zu bytes to itself and receives %zu",
                    program_comm_kind_name(op->kind), g->rank, sent, received);
  return RT_OK;
}

static RtStatus check_operation(const CpuComm *c, uint64_t key, const CommOp *op, RtError *error) {
  if (key >> KEY_BITS) return rt_error(error, RT_INTERNAL, "order key %#llx is too large", (unsigned long long)key);
  if (c->next - c->first >= (CommTicket)c->options.max_operations)
    return rt_error(error, RT_INTERNAL, "more than %d operations of communication are under way",
                    c->options.max_operations);
  if ((unsigned)op->kind >= COMM_KIND_COUNT) return rt_error(error, RT_INTERNAL, "operation kind %d", (int)op->kind);
  if (op->group < 0 || op->group >= c->n_groups)
    return rt_error(error, RT_INTERNAL, "%s: no group %d", program_comm_kind_name(op->kind), op->group);
  if (c->groups[op->group]->rank < 0)
    return rt_error(error, RT_INTERNAL, "%s: rank %d is not a member of group %d", program_comm_kind_name(op->kind),
                    c->rank, op->group);
  if (comm_is_reduction(op->kind) && !comm_reduction_defined(op->reduction, op->dtype))
    return rt_error(error, RT_INTERNAL, "%s: %s is not defined on %s", program_comm_kind_name(op->kind),
                    program_comm_reduction_name(op->reduction),
                    (unsigned)op->dtype < DT_COUNT ? dtype_name(op->dtype) : "an unknown dtype");
  return check_blocks(op, c->groups[op->group], error);
}

/* ---- enqueueing ---- */

RtStatus comm_cpu_enqueue(Comm *comm, uint64_t key, const CommOp *spec, CommTicket *ticket, RtError *error) {
  CpuComm *c = (CpuComm *)comm;
  if (c->failure.status != RT_OK) return rt_error(error, c->failure.status, "%s", c->failure.text);
  RtStatus status = check_operation(c, key, spec, error);
  if (status != RT_OK) return status;
  Operation *op = operation_at(c, *ticket = c->next++);
  *op = (Operation){.kind = spec->kind,
                    .group = c->groups[spec->group],
                    .tag = key << TAG_SHIFT | (uint64_t)spec->group << 1,
                    .items = op->items,
                    .dtype = spec->dtype,
                    .reduction = spec->reduction,
                    .left = 1}; /* until all its parts are appended */
  c->counts[spec->kind].operations++;
  append_first_phase(c, op, spec);
  if (op->two_phases) append_results(c, op, comm_block_bytes(spec->send[0]));
  comm_complete_part(c, op);
  bool moved;
  if (comm_step(c, &moved) != RT_OK) return rt_error(error, c->failure.status, "%s", c->failure.text);
  return RT_OK;
}
