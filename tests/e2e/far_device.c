/* tests/e2e/far_device.c - see far_device.h. */
#include "tests/e2e/far_device.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"

static const uintptr_t FAR = (uintptr_t)1 << 62;

static void *far_of(void *near) { return (void *)((uintptr_t)near + FAR); }

/* A range without bytes may have any address. */
static void *near_of(const void *far) { return (void *)((uintptr_t)far & FAR ? (uintptr_t)far - FAR : (uintptr_t)far); }

typedef struct FarDevice {
  Device base;
  Device *cpu;
  uint32_t n_buffers;
} FarDevice;

static Device *cpu_of(const Device *d) { return ((const FarDevice *)d)->cpu; }
static const DeviceOps *ops_of(const Device *d) { return cpu_of(d)->ops; }

/* ---- the log */

FarLog far_log;

static void mix(uint64_t *hash, const void *bytes, size_t n) { *hash = hash64(bytes, n, *hash); }

FarCall far_call_of(const DeviceCall *c) {
  uint64_t h = 0;
  for (uint32_t i = 0; i < c->n_tensors; i++) {
    const CallTensor *t = &c->tensors[i];
    const int64_t numbers[] = {t->index, t->buffer, t->slot, t->dtype, t->rank, t->offset, t->elements};
    mix(&h, numbers, sizeof numbers);
    if (t->rank) mix(&h, t->extents, t->rank * sizeof *t->extents);
  }
  if (c->n_scalars) mix(&h, c->scalars, c->n_scalars * sizeof *c->scalars);
  if (c->kind == PI_conv) mix(&h, c->conv, sizeof *c->conv);
  if (c->kind == PI_gemm) {
    GemmCall g;
    memset(&g, 0, sizeof g);
    g = *c->gemm;
    const int64_t numbers[] = {g.m,
                               g.n,
                               g.k,
                               g.a_m,
                               g.a_k,
                               g.b_k,
                               g.b_n,
                               g.c_m,
                               g.c_n,
                               g.accumulate,
                               g.loops,
                               g.sums,
                               g.epilogue.bias,
                               g.epilogue.residual,
                               g.epilogue.activation};
    mix(&h, numbers, sizeof numbers);
    mix(&h, g.extent, sizeof g.extent);
    mix(&h, g.a_step, sizeof g.a_step);
    mix(&h, g.b_step, sizeof g.b_step);
    mix(&h, g.c_step, sizeof g.c_step);
  }
  mix(&h, &c->value, sizeof c->value);
  mix(&h, &c->blocks, sizeof c->blocks);
  return (FarCall){c->kind, c->instr, h};
}

static void note(const DeviceCall *c) {
  FarCall *items = realloc(far_log.items, (far_log.n + 1) * sizeof *items);
  if (!items) die("out of memory");
  far_log.items = items;
  items[far_log.n++] = far_call_of(c);
}

/* ---- calls: those of the CPU, with its addresses */

typedef struct Near {
  DeviceCall call;
  GemmCall gemm;
  void *data[256];
} Near;

static const DeviceCall *near_call(const DeviceCall *c, Near *n) {
  n->call = *c;
  n->call.data = n->data;
  for (uint32_t i = 0; i < c->n_tensors; i++) n->data[i] = near_of(c->data[i]);
  if (c->kind != PI_gemm) return &n->call;
  n->gemm = *c->gemm;
  device_call_place_gemm(&n->gemm, n->data);
  n->call.gemm = &n->gemm;
  return &n->call;
}

static RtStatus run(Device *d, const DeviceCall *c, RtError *error) {
  Near n;
  const DeviceOps *cpu = ops_of(d);
  DeviceRun *how = c->kind == PI_launch ? cpu->launch
                   : c->kind == PI_gemm ? cpu->gemm
                   : c->kind == PI_conv ? cpu->conv
                   : c->kind == PI_copy ? cpu->copy
                   : c->kind == PI_pack ? cpu->pack
                                        : cpu->fill;
  note(c);
  return how(cpu_of(d), near_call(c, &n), error);
}

static RtStatus feed(Device *d, const DeviceCall *c, const DevicePort *port, RtError *error) {
  Near n;
  note(c);
  return ops_of(d)->feed(cpu_of(d), near_call(c, &n), port, error);
}

static RtStatus fetch(Device *d, const DeviceCall *c, const DevicePort *port, RtError *error) {
  Near n;
  note(c);
  return ops_of(d)->fetch(cpu_of(d), near_call(c, &n), port, error);
}

typedef struct FarRecording {
  const DeviceCall *calls;
  uint32_t n;
} FarRecording;

static RtStatus record(Device *d, const DeviceCall *calls, uint32_t n, void **out, RtError *error) {
  (void)d, (void)error;
  FarRecording *r = malloc(sizeof *r);
  if (!r) die("out of memory");
  *r = (FarRecording){calls, n};
  *out = r;
  return RT_OK;
}

static RtStatus replay(Device *d, void *recording, RtError *error) {
  const FarRecording *r = recording;
  RtStatus status = RT_OK;
  for (uint32_t i = 0; i < r->n && !status; i++) status = run(d, &r->calls[i], error);
  far_log.replayed += r->n;
  return status;
}

static void forget(Device *d, void *recording) {
  (void)d;
  free(recording);
}

/* ---- memory */

static RtStatus alloc(Device *d, uint64_t bytes, char **out, RtError *error) {
  RtStatus status = ops_of(d)->alloc(cpu_of(d), bytes, out, error);
  if (status) return status;
  memset(*out, 0x5a, bytes); /* callers must not rely on zeros */
  *out = far_of(*out);
  return RT_OK;
}

static void release(Device *d, char *at, uint64_t bytes) { ops_of(d)->release(cpu_of(d), near_of(at), bytes); }

static RtStatus upload(Device *d, void *to, const void *from, size_t bytes, RtError *error) {
  return ops_of(d)->upload(cpu_of(d), near_of(to), from, bytes, error);
}

static RtStatus read_back(Device *d, void *to, const void *from, size_t bytes, RtError *error) {
  return ops_of(d)->read(cpu_of(d), to, near_of(from), bytes, error);
}

static RtStatus weights(Device *d, const DeviceWeights *w, RtError *error) {
  uint32_t n = ((FarDevice *)d)->n_buffers;
  const char **near = calloc(n + 1u, sizeof *near);
  if (!near) die("out of memory");
  for (uint32_t i = 0; i < n; i++) near[i] = near_of(w->address[i]);
  RtStatus status = ops_of(d)->weights(cpu_of(d), &(DeviceWeights){near, w->bytes, w->writable}, error);
  free(near);
  return status;
}

static DeviceFacts facts(const Device *d) {
  (void)d;
  return (DeviceFacts){.host_memory = false};
}

/* ---- opening */

static void far_close(Device *d) {
  ops_of(d)->close(cpu_of(d));
  free(d);
}

static RtStatus far_open(const DeviceOptions *options, Device **out, RtError *error) {
  FarDevice *d = calloc(1, sizeof *d);
  if (!d) die("out of memory");
  *d = (FarDevice){.base.ops = &far_device, .n_buffers = options->artifact->program.n_buffers};
  RtStatus status = devices_find("cpu")->open(options, &d->cpu, error);
  if (status) free(d);
  else *out = &d->base;
  return status;
}

static RtStatus finish(Device *d, RtError *error) { return ops_of(d)->finish(cpu_of(d), error); }

const DeviceOps far_device = {.name = "far",
                              .open = far_open,
                              .close = far_close,
                              .facts = facts,
                              .alloc = alloc,
                              .release = release,
                              .upload = upload,
                              .read = read_back,
                              .weights = weights,
                              .launch = run,
                              .gemm = run,
                              .conv = run,
                              .copy = run,
                              .fill = run,
                              .pack = run,
                              .feed = feed,
                              .fetch = fetch,
                              .record = record,
                              .replay = replay,
                              .forget = forget,
                              .finish = finish};

/* ---- communication */

enum { FAR_GROUPS = 64 };

typedef struct FarComm {
  Comm base;
  Comm *inner;
  bool contiguous;
  int members[FAR_GROUPS]; /* by group */
} FarComm;

static Comm *inner_of(const Comm *c) { return ((const FarComm *)c)->inner; }

static RtStatus group(Comm *c, const int *members, int n, int *out, RtError *error) {
  RtStatus status = comm_group(inner_of(c), members, n, out, error);
  if (!status && *out >= FAR_GROUPS) die("more than %d groups", FAR_GROUPS);
  if (!status) ((FarComm *)c)->members[*out] = n;
  return status;
}

/* True if all parts are contiguous. */
static bool contiguous(const FarComm *c, const CommOp *op) {
  int members = c->members[op->group];
  for (int i = 0; op->src && i < comm_send_blocks(op->kind, members); i++)
    if (op->send[i].rows > 1) return false;
  for (int i = 0; op->dst && i < comm_recv_blocks(op->kind, members); i++)
    if (op->recv[i].rows > 1) return false;
  return true;
}

/* Imitates NCCL: it has no reductions of 16-bit integers and no bitwise ones, and may lose a NaN among larger and
 * smaller numbers. */
static bool library_reduces(const CommOp *op) {
  bool narrow = op->dtype == DT_i16 || op->dtype == DT_u16;
  if (!comm_is_reduction(op->kind)) return true;
  if (op->reduction == COMM_RED_one) return true;
  if (op->reduction == COMM_RED_or || op->reduction == COMM_RED_and) return op->dtype == DT_bool;
  if (op->reduction == COMM_RED_max || op->reduction == COMM_RED_min) return !narrow && !dtype_is_float(op->dtype);
  return !narrow;
}

static RtStatus enqueue(Comm *c, uint64_t key, const CommOp *op, CommTicket *ticket, RtError *error) {
  CommOp near = *op;
  near.src = near_of(op->src);
  near.dst = near_of(op->dst);
  if (((FarComm *)c)->contiguous && !contiguous((FarComm *)c, op))
    return rt_error(error, RT_INTERNAL, "%s of parts that are not contiguous", program_comm_kind_name(op->kind));
  if (((FarComm *)c)->contiguous && !library_reduces(op))
    return rt_error(error, RT_INTERNAL, "%s by %s of %s", program_comm_kind_name(op->kind),
                    program_comm_reduction_name(op->reduction), dtype_name(op->dtype));
  return comm_enqueue(inner_of(c), key, &near, ticket, error);
}

static RtStatus poll_ticket(Comm *c, CommTicket ticket, bool *done, RtError *error) {
  return comm_poll(inner_of(c), ticket, done, error);
}
static RtStatus wait_ticket(Comm *c, CommTicket ticket, RtError *error) {
  return comm_wait(inner_of(c), ticket, error);
}
static RtStatus check_all(Comm *c, RtError *error) { return comm_check(inner_of(c), error); }
static void supervise(Comm *c, CommProgress *progress, CommInterrupted *interrupted, void *context) {
  comm_supervise(inner_of(c), progress, interrupted, context);
}
static void abort_all(Comm *c) { comm_abort(inner_of(c)); }
static CommCount count(const Comm *c, CommKind kind) { return comm_count(inner_of(c), kind); }
static uint64_t waited(const Comm *c) { return comm_waited(inner_of(c)); }
static void close_comm(Comm *c) {
  comm_close(inner_of(c));
  free(c);
}

static const CommOps far_comm_ops = {.name = "far",
                                     .group = group,
                                     .enqueue = enqueue,
                                     .poll = poll_ticket,
                                     .wait = wait_ticket,
                                     .check = check_all,
                                     .supervise = supervise,
                                     .abort = abort_all,
                                     .count = count,
                                     .waited = waited,
                                     .close = close_comm};

Comm *far_comm(Comm *inner, bool contiguous_only) {
  FarComm *c = malloc(sizeof *c);
  if (!c) die("out of memory");
  *c = (FarComm){.base.ops = &far_comm_ops, .inner = inner, .contiguous = contiguous_only};
  return &c->base;
}
