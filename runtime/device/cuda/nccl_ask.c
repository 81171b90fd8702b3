/* runtime/device/cuda/nccl_ask.c - turns an operation of communication into calls of NCCL.
 *
 * In: an operation with contiguous blocks.  Out: calls on the queue of communication, in one NCCL group: the collective
 * of that name if the blocks lie as it requires, else one call per block.  A call is polled until it is complete, since
 * communicators do not block.
 */
#include "runtime/device/cuda/nccl_internal.h"

/* ---- calls */

const NcclNames gpu_nccl_names = {
#define CUDA_NCCL(result, symbol, member, parameters) .member = #symbol,
#include "runtime/device/cuda/api.def"
#undef CUDA_NCCL
};

RtStatus gpu_nccl_judge(NcclComm *c, ncclResult_t result, const char *call, const char *purpose, RtError *error) {
  if (result == ncclSuccess || result == ncclInProgress) return RT_OK;
  const char *last = c->api.last_error(NULL);
  c->broken = true;
  return rt_error(error, RT_FAILED, "%s (%s): %s%s%s; APC_COMM=staged does without NCCL, and lets ranks share a GPU",
                  call, purpose, c->api.error_text(result), last && *last ? ": " : "", last ? last : "");
}

RtStatus gpu_nccl_async_error(NcclComm *c, ncclComm_t comm, ncclResult_t *state, const char *purpose, RtError *error) {
  *state = ncclSuccess;
  RtStatus status = NCCL_CALL(c, async_error, purpose, error, comm, state);
  return status ? status : gpu_nccl_judge(c, *state, purpose, "asynchronous error", error);
}

RtStatus gpu_nccl_settle(NcclComm *c, ncclComm_t comm, const char *purpose, RtError *error) {
  for (unsigned turn = 0;; turn++) {
    ncclResult_t state;
    RtStatus status = gpu_nccl_async_error(c, comm, &state, purpose, error);
    if (status || state == ncclSuccess) return status;
    status = gpu_pause(c->d, turn, error);
    if (status) {
      c->broken = true;
      return status;
    }
  }
}

/* ---- operations */

/* The operation that is being issued. */
typedef struct Asked {
  NcclComm *c;
  const CommOp *op;
  const NcclGroup *g;
} Asked;

static const char *from_of(const CommOp *op, CommBlock b) { return (const char *)op->src + b.offset; }
static char *to_of(const CommOp *op, CommBlock b) { return (char *)op->dst + b.offset; }

/* NCCL's type and reduction for the elements, and the bytes of one. */
typedef struct Elements {
  ncclDataType_t type;
  ncclRedOp_t op;
  size_t bytes;
} Elements;

static const ncclDataType_t types[DT_COUNT] = {
#define NCCL_TYPE(type, name) [DT_##type] = name,
#include "program/nccl.def"
#undef NCCL_TYPE
};

static const ncclRedOp_t operations[COMM_REDUCTION_COUNT] = {
#define NCCL_REDUCTION(reduction, name) [COMM_RED_##reduction] = name,
#include "program/nccl.def"
#undef NCCL_REDUCTION
};

static bool reduces(CommReduction r, DType t, Elements *out) {
  bool narrow = t == DT_i16 || t == DT_u16, is_float = dtype_is_float(t);
  *out = (Elements){types[t], operations[r], dtype_bytes(t)};
  switch (r) {
    case COMM_RED_sum:
    case COMM_RED_product: return !narrow;
    case COMM_RED_max:
    case COMM_RED_min: return !narrow && !is_float;
    case COMM_RED_or:
    case COMM_RED_and: return t == DT_bool;
    default: break;
  }
  out->bytes = out->bytes == 2 ? 1 : out->bytes; /* only one operand is not zero, so smaller elements do as well */
  out->type = out->bytes == 8 ? ncclUint64 : out->bytes == 4 ? ncclUint32 : ncclUint8;
  return true;
}

static RtStatus elements_of(const Asked *a, Elements *out, RtError *error) {
  if (reduces(a->op->reduction, a->op->dtype, out)) return RT_OK;
  return rt_error(error, RT_UNSUPPORTED, "NCCL has no %s of %s", program_comm_reduction_name(a->op->reduction),
                  dtype_name(a->op->dtype));
}

/* True if the blocks are equally large and contiguous. */
static bool in_a_row(const CommBlock *b, int n) {
  for (int i = 1; i < n; i++)
    if (comm_block_bytes(b[i]) != comm_block_bytes(b[0]) || b[i].offset != b[i - 1].offset + comm_block_bytes(b[0]))
      return false;
  return true;
}

static RtStatus ask_all_reduce(const Asked *a, RtError *error) {
  Elements e;
  const CommOp *op = a->op;
  size_t bytes = comm_block_bytes(op->send[0]);
  RtStatus status = elements_of(a, &e, error);
  if (status || bytes == 0) return status;
  return NCCL_CALL(a->c, all_reduce, "an all_reduce", error, from_of(op, op->send[0]), to_of(op, op->recv[0]),
                   bytes / e.bytes, e.type, e.op, a->g->comm, a->c->queue);
}

static RtStatus ask_reduce_scatter(const Asked *a, RtError *error) {
  Elements e;
  const CommOp *op = a->op;
  NcclComm *c = a->c;
  RtStatus status = elements_of(a, &e, error);
  if (!status && in_a_row(op->send, a->g->n) && comm_block_bytes(op->send[0]))
    return NCCL_CALL(c, reduce_scatter, "a reduce_scatter", error, from_of(op, op->send[0]), to_of(op, op->recv[0]),
                     comm_block_bytes(op->recv[0]) / e.bytes, e.type, e.op, a->g->comm, c->queue);
  for (int i = 0; i < a->g->n && !status; i++) {
    size_t bytes = comm_block_bytes(op->send[i]);
    char *to = i == a->g->place ? to_of(op, op->recv[0]) : NULL;
    if (bytes)
      status = NCCL_CALL(c, reduce, "a reduce_scatter", error, from_of(op, op->send[i]), to, bytes / e.bytes, e.type,
                         e.op, i, a->g->comm, c->queue);
  }
  return status;
}

static RtStatus ask_all_gather(const Asked *a, RtError *error) {
  const CommOp *op = a->op;
  NcclComm *c = a->c;
  RtStatus status = RT_OK;
  if (in_a_row(op->recv, a->g->n) && comm_block_bytes(op->recv[0]))
    return NCCL_CALL(c, all_gather, "an all_gather", error, from_of(op, op->send[0]), to_of(op, op->recv[0]),
                     comm_block_bytes(op->recv[0]), ncclUint8, a->g->comm, c->queue);
  for (int i = 0; i < a->g->n && !status; i++) {
    size_t bytes = comm_block_bytes(op->recv[i]);
    const char *from = i == a->g->place ? from_of(op, op->send[i]) : NULL;
    if (bytes)
      status = NCCL_CALL(c, broadcast, "an all_gather", error, from, to_of(op, op->recv[i]), bytes, ncclUint8, i,
                         a->g->comm, c->queue);
  }
  return status;
}

/* Copies this rank's own block, without NCCL. */
static RtStatus move_own(const Asked *a, RtError *error) {
  const CommOp *op = a->op;
  CommBlock from = op->send[a->g->place], to = op->recv[a->g->place];
  size_t bytes = comm_block_bytes(from);
  if (bytes == 0 || from_of(op, from) == to_of(op, to)) return RT_OK;
  return GPU_CALL(a->c->d, copy_on, "a rank's own part", error, gpu_address(to_of(op, to)),
                  gpu_address(from_of(op, from)), bytes, a->c->queue);
}

static RtStatus ask_blocks(const Asked *a, RtError *error) {
  const CommOp *op = a->op;
  NcclComm *c = a->c;
  RtStatus status = move_own(a, error);
  for (int i = 0; i < a->g->n && !status; i++) {
    size_t out = comm_block_bytes(op->send[i]), in = comm_block_bytes(op->recv[i]);
    if (i == a->g->place) continue;
    if (out)
      status = NCCL_CALL(c, send, "sending a block", error, from_of(op, op->send[i]), out, ncclUint8, i, a->g->comm,
                         c->queue);
    if (in && !status)
      status = NCCL_CALL(c, receive, "receiving a block", error, to_of(op, op->recv[i]), in, ncclUint8, i, a->g->comm,
                         c->queue);
  }
  return status;
}

static RtStatus ask(const Asked *a, RtError *error) {
  if (a->g->n == 1) return move_own(a, error); /* a reduction of one operand is a copy */
  switch (a->op->kind) {
    case COMM_all_reduce: return ask_all_reduce(a, error);
    case COMM_reduce_scatter: return ask_reduce_scatter(a, error);
    case COMM_all_gather: return ask_all_gather(a, error);
    default: return ask_blocks(a, error);
  }
}

/* ---- one operation */

static bool contiguous(const CommBlock *b, int n) {
  for (int i = 0; i < n; i++)
    if (b[i].rows > 1 && b[i].stride != b[i].row_bytes && comm_block_bytes(b[i])) return false;
  return true;
}

RtStatus gpu_nccl_check(const NcclComm *c, const CommOp *op, RtError *error) {
  const char *kind = program_comm_kind_name(op->kind);
  if (op->group < 0 || op->group >= c->n_groups || c->groups[op->group].place < 0)
    return rt_error(error, RT_INTERNAL, "%s: rank %d is not a member of group %d", kind, c->rank, op->group);
  int n = c->groups[op->group].n;
  if (!contiguous(op->send, comm_send_blocks(op->kind, n)) || !contiguous(op->recv, comm_recv_blocks(op->kind, n)))
    return rt_error(error, RT_INTERNAL, "%s: NCCL moves only contiguous blocks", kind);
  return RT_OK;
}

void gpu_nccl_count(const NcclComm *c, const CommOp *op, CommCount counts[COMM_KIND_COUNT]) {
  const NcclGroup *g = &c->groups[op->group];
  CommCount *count = &counts[op->kind];
  count->operations++;
  if (op->kind == COMM_all_reduce)
    count->bytes_sent +=
        program_comm_all_reduce_sent(comm_block_bytes(op->send[0]), dtype_bytes(op->dtype), g->n, g->place);
  for (int i = 0; i < g->n && op->kind != COMM_all_reduce; i++)
    if (i != g->place) count->bytes_sent += comm_block_bytes(op->send[i]);
}

/* Calls of an NCCL group take effect when the group ends. */
RtStatus gpu_nccl_ask(NcclComm *c, const CommOp *op, RtError *error) {
  Asked a = {c, op, &c->groups[op->group]};
  RtStatus status = NCCL_CALL(c, group_start, "an operation of communication", error);
  if (status) return status;
  status = ask(&a, error);
  ncclResult_t ended = c->api.group_end(); /* after an error too */
  if (!status) status = gpu_nccl_judge(c, ended, gpu_nccl_names.group_end, "an operation of communication", error);
  return status || !a.g->comm ? status : gpu_nccl_settle(c, a.g->comm, program_comm_kind_name(op->kind), error);
}
