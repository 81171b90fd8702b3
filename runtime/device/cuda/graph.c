/* runtime/device/cuda/graph.c - captures several calls from the queue as a CUDA graph, and launches it as one while
 * nothing about the calls changes.
 *
 * Runs of calls are recorded between operations that a graph cannot contain: reads, and communication through the host.
 * A request without those is captured as a whole.  Its communication joins by events: NCCL's queue waits for the
 * captured queue, which waits for NCCL's at the end.  Inputs and outputs go through memory of the capture, pinned or,
 * if the caller's tensors lie on a device, the device's, so that the addresses of the caller's tensors are no part of
 * the graph.
 *
 * A graph that is destroyed while it runs is freed by the driver when it ends (cuGraphExecDestroy), so nothing waits
 * for it.  After the death of a rank it may only end when communication is aborted, and graphs have to be destroyed
 * before that (exec_close). */
#include <stdlib.h>

#include "runtime/device/cuda/cuda.h"

static RtStatus make_call(Device *d, const DeviceCall *c, RtError *error) {
  switch ((ProgramInstrKind)c->kind) {
    case PI_launch: return gpu_launch(d, c, error);
    case PI_gemm: return gpu_gemm(d, c, error);
    case PI_conv: return gpu_conv(d, c, error);
    case PI_copy: return gpu_copy(d, c, error);
    case PI_fill: return gpu_fill(d, c, error);
    default: return rt_error(error, RT_INTERNAL, "a %s cannot be recorded", program_instr_name(c->kind));
  }
}

/* cuDNN may load code when it first chooses an algorithm, which a capture must not see. */
static RtStatus choose_ahead(CudaDevice *d, const DeviceCall *calls, uint32_t n, RtError *error) {
  RtStatus status = RT_OK;
  for (uint32_t i = 0; i < n && !status; i++)
    if (calls[i].kind == PI_conv) status = gpu_conv_choose(d, &calls[i], error);
  return status;
}

static RtStatus capture(CudaDevice *d, const DeviceCall *calls, uint32_t n, CUgraph *graph, RtError *error) {
  static const char *const purpose = "recording calls";
  RtStatus status = GPU_CALL(d, capture_begin, purpose, error, d->compute, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  if (status) return status;
  for (uint32_t i = 0; i < n && !status; i++) {
    RtError inner = {0};
    const char *where = program_text(d->p, d->p->instrs[calls[i].instr].where);
    status = make_call(&d->base, &calls[i], &inner);
    if (status)
      rt_error(error, status, "%s '%s' on rank %u: %s", program_instr_name(calls[i].kind), where, d->options.rank,
               inner.text);
  }
  CUresult ended = d->driver.capture_end(d->compute, graph); /* after an error too: the queue is used again */
  return status ? status : gpu_judge(&d->driver, ended, gpu_driver_names.capture_end, purpose, error);
}

RtStatus gpu_record(Device *device, const DeviceCall *calls, uint32_t n, void **recording, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  CUgraph graph = NULL;
  CUgraphExec made = NULL;
  RtStatus status = choose_ahead(d, calls, n, error);
  if (!status) status = capture(d, calls, n, &graph, error);
  if (!status) status = GPU_CALL(d, graph_instantiate, "a graph of recorded calls", error, &made, graph, 0);
  if (graph) GPU_LATER(d, graph_destroy, "a graph of recorded calls", graph);
  *recording = made;
  return status;
}

RtStatus gpu_replay(Device *device, void *recording, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  return GPU_CALL(d, graph_launch, "recorded calls", error, recording, d->compute);
}

void gpu_forget(Device *device, void *recording) {
  CudaDevice *d = (CudaDevice *)device;
  if (recording) GPU_LATER(d, graph_exec_destroy, "destroying a graph", recording);
}

/* ---- whole requests */

RtStatus gpu_capture(Device *device, uint64_t bytes, uint64_t device_bytes, const void *io, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  GpuCapture *k = calloc(1, sizeof *k);
  if (!k) return rt_error(error, RT_FAILED, "out of memory");
  k->bytes = bytes;
  k->device_bytes = device_bytes;
  k->io = io;
  RtStatus status = bytes ? gpu_pinned(d, bytes, &k->area, error) : RT_OK;
  if (!status && device_bytes)
    status = GPU_CALL(d, memory_alloc, "inputs and outputs of a captured request", error, &k->on_device, device_bytes);
  if (!status)
    status = GPU_CALL(d, capture_begin, "capturing a request", error, d->compute, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  if (status) gpu_release_capture(device, k);
  else d->capture = k;
  return status;
}

/* Reserves `bytes` of an area; false if it has fewer. */
static bool take(uint64_t *used, uint64_t all, size_t bytes) {
  if (bytes > all - *used) return false;
  bytes = (bytes + DEVICE_PORT_ALIGN - 1) / DEVICE_PORT_ALIGN * DEVICE_PORT_ALIGN;
  *used += bytes < all - *used ? bytes : all - *used;
  return true;
}

RtStatus gpu_capture_port(CudaDevice *d, const GpuPort *port, const DevicePort *whole, size_t bytes, bool feed,
                          char **part, RtError *error) {
  GpuCapture *k = d->capture;
  if (k->n_ports == k->room) {
    uint32_t room = k->room ? 2 * k->room : 16;
    struct GpuKept *ports = realloc(k->ports, room * sizeof *ports);
    if (!ports) return rt_error(error, RT_FAILED, "out of memory");
    k->ports = ports;
    k->room = room;
  }
  *part = whole->on_device ? (char *)(uintptr_t)k->on_device + k->device_used : k->area + k->used;
  bool fits = whole->on_device ? take(&k->device_used, k->device_bytes, bytes) : take(&k->used, k->bytes, bytes);
  if (!fits)
    return rt_error(error, RT_INTERNAL, "a captured request moves more than its %llu bytes of inputs and outputs",
                    (unsigned long long)(k->bytes + k->device_bytes));
  k->ports[k->n_ports++] = (struct GpuKept){.port = *port,
                                            .at = whole->on_device ? 0 : (size_t)(whole->at - k->io),
                                            .number = whole->number,
                                            .is_on_device = whole->on_device,
                                            .feed = feed,
                                            .part = *part};
  return RT_OK;
}

RtStatus gpu_captured(Device *device, void **out, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  GpuCapture *k = d->capture;
  CUgraph graph = NULL;
  d->capture = NULL;
  CUresult ended = d->driver.capture_end(d->compute, &graph); /* after an error too: the queue is used again */
  RtStatus status =
      out ? gpu_judge(&d->driver, ended, gpu_driver_names.capture_end, "a captured request", error) : RT_OK;
  if (out && !status) status = GPU_CALL(d, graph_instantiate, "a captured request", error, &k->graph, graph, 0);
  if (graph) GPU_LATER(d, graph_destroy, "a captured request", graph);
  if (!out || status) gpu_release_capture(device, k);
  else *out = k;
  return status;
}

/* Moves the inputs or the outputs that lie on the host, or enqueues copies of those that lie on a device. */
static RtStatus move_kept(CudaDevice *d, const GpuCapture *k, bool feed, bool on_device, char *io, char *const *places,
                          RtError *error) {
  RtStatus status = RT_OK;
  for (uint32_t i = 0; i < k->n_ports && !status; i++) {
    const struct GpuKept *p = &k->ports[i];
    if (p->feed != feed || p->is_on_device != on_device) continue;
    if (on_device) status = gpu_copy_port(d, &p->port, places[p->number], p->part, feed, error);
    else gpu_move_port(&p->port, io + p->at, p->part, feed);
  }
  return status;
}

RtStatus gpu_again(Device *device, void *capture, void *io, char *const *places, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  GpuCapture *k = capture;
  move_kept(d, k, true, false, io, places, error);
  gpu_marks_reset(d, k->first);
  k->running = true;
  RtStatus status = move_kept(d, k, true, true, io, places, error);
  if (!status) status = GPU_CALL(d, graph_launch, "a captured request", error, k->graph, d->compute);
  if (!status) status = move_kept(d, k, false, true, io, places, error);
  if (!status) status = gpu_finish(device, error);
  if (status) return status;
  k->running = false;
  return move_kept(d, k, false, false, io, places, error);
}

/* Memory that a running graph may still write stays until the process ends, which is soon: the run has
 * failed. */
void gpu_release_capture(Device *device, void *capture) {
  CudaDevice *d = (CudaDevice *)device;
  GpuCapture *k = capture;
  if (k->graph) GPU_LATER(d, graph_exec_destroy, "destroying a captured request", k->graph);
  if (k->area && !k->running) GPU_LATER(d, pinned_free, "destroying a captured request", k->area);
  if (k->on_device && !k->running) GPU_LATER(d, memory_free, "destroying a captured request", k->on_device);
  free(k->ports);
  free(k);
}
