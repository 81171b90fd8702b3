/* runtime/host/devices.c - inputs and outputs in the caller's memory of a device.
 *
 * The ranks are other processes.  Binding names the memory (DevicePlace); each request passes the names of its tensors
 * to the ranks, after the inputs in the I/O area, and the ranks map the memory and copy their parts from and to it.  No
 * value goes through the host, with one exception: it checks indices and values that the program was compiled for, so
 * it reads those inputs, which are small.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/host/host.h"

/* The devices as this process uses them; shared by a model and its allocations, which may outlive it. */
struct HostTensors {
  const DeviceTensorOps *ops;
  DeviceTensors *of;
  int owner; /* the process */
  _Atomic int users;
};

struct ApcDeviceMemory {
  HostTensors *tensors;
  int device;
  void *at;
  size_t bytes;
  _Atomic int users; /* the caller, and tensors of DLPack */
};

static void drop(HostTensors *t) {
  if (!t || atomic_fetch_sub(&t->users, 1) > 1) return;
  if (t->owner == getpid()) t->ops->close(t->of); /* a forked child has no devices */
  free(t);
}

static RtStatus open_tensors(ApcModel *m) {
  const char *name = program_text(&m->artifact.program, m->artifact.program.header->device);
  const DeviceOps *ops = devices_find(name);
  if (m->tensors) return RT_OK;
  if (m->launched)
    return rt_error(&m->error, RT_UNSUPPORTED, "tensors on a device are not available with the ranks of a launcher");
  if (!ops || !ops->tensors)
    return rt_error(&m->error, RT_BAD_INPUT,
                    "the program runs on CPUs and takes tensors in the host's memory: copy the tensor to the host, or "
                    "compile the model for a target with GPUs");
  HostTensors *t = calloc(1, sizeof *t);
  if (!t) return rt_error(&m->error, RT_FAILED, "out of memory");
  *t = (HostTensors){.ops = ops->tensors, .owner = getpid(), .users = 1};
  RtStatus status = t->ops->open(&t->of, &m->error);
  if (status) free(t);
  else m->tensors = t;
  return status;
}

void host_devices_free(ApcModel *m) { drop(m->tensors); }

const Tensor *host_values(const Bound *b) {
  if (b->kind == BOUND_DATA) return &b->tensor;
  return b->kind == BOUND_DEVICE && b->copy.data ? &b->copy : NULL;
}

/* ---- binding */

/* Names memory of the caller; the error says which tensor it is for. */
static RtStatus name_place(ApcModel *m, const char *what, const char *name, int device, const void *at, size_t bytes,
                           DevicePlace *out) {
  RtError inner = {0};
  RtStatus status = open_tensors(m);
  if (!status) status = m->tensors->ops->place(m->tensors->of, device, at, bytes, out, &inner);
  else inner = m->error;
  if (!status) return RT_OK;
  m->error = (RtError){0};
  return rt_error(&m->error, status, "%s '%s': %s", what, name, inner.text);
}

ApcStatus apc_bind_device_input(ApcModel *m, const char *name, ApcType type, int rank, const int64_t *dims, int device,
                                const void *data) {
  size_t bytes;
  if (!host_begin(m)) return host_status(m, m->error.status);
  if ((unsigned)type >= DT_COUNT || !tensor_size((DType)type, rank, dims, &bytes))
    return host_error(m, RT_BAD_INPUT, "input '%s' has an invalid type or shape", name);
  if (!data && bytes) return host_error(m, RT_USAGE, "input '%s' has no data", name);
  Bound b = {.tensor = tensor_view((DType)type, rank, dims, bytes ? data : "")};
  if (bytes == 0) return host_bind(m, name, b);
  b.kind = BOUND_DEVICE;
  RtStatus status = name_place(m, "input", name, device, data, bytes, &b.on);
  return status ? host_status(m, status) : host_bind(m, name, b);
}

ApcStatus apc_bind_device_output(ApcModel *m, const char *name, ApcType type, int device, void *data, size_t bytes) {
  if (!host_begin(m)) return host_status(m, m->error.status);
  BoundOutput b = {.type = (DType)type, .data = data, .bytes = bytes, .on_device = true};
  RtStatus status = data ? name_place(m, "output", name, device, data, bytes, &b.on) : RT_OK;
  return status ? host_status(m, status) : host_bind_output(m, name, b);
}

/* ---- requests */

/* The input of that number in an entry if it lies on a device; else NULL. */
static Bound *input_on_device(const ApcModel *m, const ProgramEntry *e, uint32_t i) {
  const Program *p = &m->artifact.program;
  Bound *b = host_bound(m, program_text(p, p->ports[e->inputs + i].name));
  return b && b->kind == BOUND_DEVICE ? b : NULL;
}

static BoundOutput *output_on_device(const ApcModel *m, const ProgramEntry *e, uint32_t i) {
  const Program *p = &m->artifact.program;
  BoundOutput *b = host_bound_output(m, program_text(p, p->ports[e->outputs + i].name));
  return b && b->on_device ? b : NULL;
}

static RtStatus settle(ApcModel *m, const DevicePlace *on, uint64_t *done) {
  if (*done >> on->device & 1) return RT_OK;
  *done |= UINT64_C(1) << on->device;
  return m->tensors->ops->settle(m->tensors->of, (int)on->device, &m->error);
}

/* Reads an input whose values the host checks. */
static RtStatus read_values(ApcModel *m, const ProgramPort *port, Bound *b) {
  tensor_free(&b->copy);
  b->copy = (Tensor){0};
  if (port->index_below == PROGRAM_NONE && !port->fixed.n) return RT_OK;
  if (!tensor_alloc(&b->copy, b->tensor.dtype, b->tensor.rank, b->tensor.dims))
    return rt_error(&m->error, RT_FAILED, "out of memory for input '%s'", b->name);
  return m->tensors->ops->read(m->tensors->of, (int)b->on.device, b->copy.data, b->tensor.data, b->copy.bytes,
                               &m->error);
}

RtStatus host_devices_begin(ApcModel *m, uint32_t entry) {
  if (!m->tensors) return RT_OK;
  const Program *p = &m->artifact.program;
  const ProgramEntry *e = &p->entries[entry];
  RtStatus status = RT_OK;
  uint64_t done = 0;
  for (uint32_t i = 0; i < e->n_inputs && !status; i++) {
    Bound *b = input_on_device(m, e, i);
    if (b) status = settle(m, &b->on, &done);
    if (b && !status) status = read_values(m, &p->ports[e->inputs + i], b);
  }
  for (uint32_t i = 0; i < e->n_outputs && !status; i++) {
    const BoundOutput *b = output_on_device(m, e, i);
    if (b) status = settle(m, &b->on, &done);
  }
  return status;
}

/* Writes the places to `list`, if it is not NULL, and returns their number. */
static uint32_t list_places(const ApcModel *m, uint32_t entry, DevicePlace *list) {
  const ProgramEntry *e = &m->artifact.program.entries[entry];
  uint32_t n = 0;
  for (uint32_t i = 0; i < e->n_inputs + e->n_outputs; i++) {
    const Bound *b = i < e->n_inputs ? input_on_device(m, e, i) : NULL;
    const BoundOutput *o = i < e->n_inputs ? NULL : output_on_device(m, e, i - e->n_inputs);
    if (o && m->layout.rooms[i] == 0) o = NULL;
    if ((!b || b->copy.data) && !o) continue;
    if (list) list[n] = b ? b->on : o->on, list[n].number = i;
    n++;
  }
  return n;
}

RtStatus host_devices_place(ApcModel *m, uint32_t entry) {
  const uint64_t align = _Alignof(DevicePlace);
  m->places.n = 0;
  uint32_t n = m->tensors ? list_places(m, entry, NULL) : 0;
  if (n == 0) return RT_OK;
  m->places.at = (host_inputs_end(m) + align - 1) / align * align;
  RtStatus status = host_io(m, m->places.at + n * sizeof(DevicePlace));
  if (!status) m->places.n = list_places(m, entry, (DevicePlace *)(m->io + m->places.at));
  return status;
}

bool host_devices_have(const ApcModel *m, uint32_t number) {
  const DevicePlace *list = m->places.n ? (const DevicePlace *)(m->io + m->places.at) : NULL;
  for (uint32_t i = 0; i < m->places.n; i++)
    if (list[i].number == number) return true;
  return false;
}

/* ---- the caller's memory */

ApcStatus apc_device_alloc(ApcModel *m, int device, size_t bytes, ApcDeviceMemory **out) {
  *out = NULL;
  if (!host_begin(m)) return host_status(m, m->error.status);
  RtStatus status = open_tensors(m);
  ApcDeviceMemory *a = status ? NULL : calloc(1, sizeof *a);
  if (!status && !a) status = rt_error(&m->error, RT_FAILED, "out of memory");
  if (!status) status = m->tensors->ops->alloc(m->tensors->of, device, bytes ? bytes : 1, &a->at, &m->error);
  if (status) {
    free(a);
    return host_status(m, status);
  }
  a->tensors = m->tensors;
  a->device = device;
  a->bytes = bytes;
  a->users = 1;
  atomic_fetch_add(&a->tensors->users, 1);
  *out = a;
  return APC_OK;
}

void *apc_device_data(const ApcDeviceMemory *memory) { return memory->at; }
int host_device_number(const ApcDeviceMemory *memory) { return memory->device; }
size_t host_device_bytes(const ApcDeviceMemory *memory) { return memory->bytes; }

ApcDeviceMemory *host_device_hold(ApcDeviceMemory *memory) {
  atomic_fetch_add(&memory->users, 1);
  return memory;
}

void apc_device_free(ApcDeviceMemory *a) {
  if (!a || atomic_fetch_sub(&a->users, 1) > 1) return;
  if (a->tensors->owner == getpid()) a->tensors->ops->release(a->tensors->of, a->device, a->at);
  drop(a->tensors);
  free(a);
}

ApcStatus apc_device_read(const ApcDeviceMemory *a, size_t offset, void *to, size_t bytes) {
  RtError unread = {0};
  if (a->tensors->owner != getpid() || offset > a->bytes || bytes > a->bytes - offset) return APC_USAGE;
  RtStatus status = a->tensors->ops->read(a->tensors->of, a->device, to, (char *)a->at + offset, bytes, &unread);
  return (ApcStatus)rt_exit_code(status);
}

ApcStatus apc_device_write(ApcDeviceMemory *a, size_t offset, const void *from, size_t bytes) {
  RtError unread = {0};
  if (a->tensors->owner != getpid() || offset > a->bytes || bytes > a->bytes - offset) return APC_USAGE;
  RtStatus status = a->tensors->ops->write(a->tensors->of, a->device, (char *)a->at + offset, from, bytes, &unread);
  return (ApcStatus)rt_exit_code(status);
}
