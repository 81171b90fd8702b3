/* runtime/device/cuda/graph.c - several calls as one: they are captured from the queue, made a CUDA graph, and launched
 * as one as long as nothing about them changes. */
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

/* The first time that cuDNN is asked for something it may load what it does it with, which a capture may not see. */
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
  CUresult ended = d->driver.capture_end(d->compute, graph); /* also after an error: the queue is used again */
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
  if (!recording) return;
  GPU_LATER(d, queue_finish, "a graph that is forgotten", d->compute);
  GPU_LATER(d, graph_exec_destroy, "a graph that is forgotten", recording);
}
