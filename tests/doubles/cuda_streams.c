/* tests/doubles/cuda_streams.c - the driver API of the double: streams, events and graphs. */
#include "tests/doubles/cuda_enter.h"

/* ---- streams */

static CUresult new_stream(CUstream *out, unsigned flags, int device) {
  if (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *out = queue_stream_new(device, !(flags & CU_STREAM_NON_BLOCKING));
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuStreamCreate(CUstream *out, unsigned flags) {
  ENTER_DEVICE(cuStreamCreate);
  return new_stream(out, flags, device);
}

DOUBLE_API CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
  ENTER_DEVICE(cuStreamCreateWithPriority);
  (void)priority;
  return new_stream(out, flags, device);
}

DOUBLE_API CUresult cuStreamDestroy_v2(CUstream s) {
  ENTER(cuStreamDestroy_v2);
  if (!queue_stream_exists(s)) return CUDA_ERROR_INVALID_HANDLE;
  if (s->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return queue_stream_destroy(s);
}

/* On demand, reports a copy from or to the host as over before it is. */
static bool is_early(bool moves_host, bool *asked) {
  static int64_t seen;
  bool first = moves_host && !*asked;
  *asked = true;
  return first && double_turn("DOUBLES_EARLY", &seen, "a copy");
}

DOUBLE_API CUresult cuStreamQuery(CUstream s) {
  ENTER_UNCAPTURED(cuStreamQuery);
  STREAM(s);
  (void)device;
  queue_poll();
  if (!s) s = queue_default(device);
  if (s->first) return is_early(s->gives_host, &s->asked) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  queue_seen_empty(s);
  return queue_error(device);
}

DOUBLE_API CUresult cuStreamSynchronize(CUstream s) {
  ENTER_UNCAPTURED(cuStreamSynchronize);
  STREAM(s);
  return queue_until_empty(s ? s : queue_default(device));
}

DOUBLE_API CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
  ENTER_DEVICE(cuStreamWaitEvent);
  STREAM(s);
  EVENT(e);
  if (flags) return CUDA_ERROR_NOT_SUPPORTED;
  (void)device;
  if (!s) s = queue_default(device);
  if (s->capture || e->capture) return graph_wait(s, e);
  queue_wait(s, e->mark);
  return CUDA_SUCCESS;
}

/* ---- events */

DOUBLE_API CUresult cuEventCreate(CUevent *out, unsigned flags) {
  ENTER_DEVICE(cuEventCreate);
  *out = queue_event_new(device, !(flags & CU_EVENT_DISABLE_TIMING));
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuEventDestroy_v2(CUevent e) {
  ENTER(cuEventDestroy_v2);
  EVENT(e);
  return queue_event_destroy(e);
}

static CUresult record(CUevent e, CUstream s, bool external) {
  if (!s) s = queue_default(double_current());
  if (e->device != s->device) return CUDA_ERROR_INVALID_HANDLE;
  if (s->capture) return graph_record(s, e, external);
  queue_mark_drop(e->mark);
  e->capture = NULL, e->mark = queue_mark_new();
  e->moves_host = s->moves_host, e->asked = false;
  queue_add(s, (Item){.kind = ITEM_RECORD, .mark = queue_mark_hold(e->mark)});
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuEventRecord(CUevent e, CUstream s) {
  ENTER_DEVICE(cuEventRecord);
  STREAM(s);
  EVENT(e);
  (void)device;
  return record(e, s, false);
}

DOUBLE_API CUresult cuEventRecordWithFlags(CUevent e, CUstream s, unsigned flags) {
  ENTER_DEVICE(cuEventRecordWithFlags);
  STREAM(s);
  EVENT(e);
  (void)device;
  return record(e, s, flags & CU_EVENT_RECORD_EXTERNAL);
}

DOUBLE_API CUresult cuEventQuery(CUevent e) {
  ENTER_UNCAPTURED(cuEventQuery);
  EVENT(e);
  if (e->capture) return CUDA_ERROR_CAPTURED_EVENT;
  queue_poll();
  if (!e->mark || e->mark->done) {
    queue_seen(e->mark);
    return queue_error(device);
  }
  return is_early(e->moves_host, &e->asked) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

DOUBLE_API CUresult cuEventSynchronize(CUevent e) {
  ENTER_UNCAPTURED(cuEventSynchronize);
  EVENT(e);
  if (e->capture) return CUDA_ERROR_CAPTURED_EVENT;
  return queue_until_mark(e->mark, device);
}

static CUresult elapsed(float *out, CUevent a, CUevent b) {
  if (!queue_event_exists(a) || !queue_event_exists(b) || !a->timing || !b->timing || !a->mark || !b->mark)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!a->mark->done || !b->mark->done) return CUDA_ERROR_NOT_READY;
  *out = (float)((double)(b->mark->when - a->mark->when) / 1e6);
  return CUDA_SUCCESS;
}

/* The second has the same meaning since 12.8. */
DOUBLE_API CUresult cuEventElapsedTime(float *out, CUevent a, CUevent b) {
  ENTER_DEVICE(cuEventElapsedTime);
  (void)device;
  return elapsed(out, a, b);
}
DOUBLE_API CUresult cuEventElapsedTime_v2(float *out, CUevent a, CUevent b) {
  ENTER_DEVICE(cuEventElapsedTime_v2);
  (void)device;
  return elapsed(out, a, b);
}

/* ---- graphs */

DOUBLE_API CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode) {
  ENTER_DEVICE(cuStreamBeginCapture_v2);
  STREAM(s);
  (void)device;
  return graph_begin(s, mode);
}

DOUBLE_API CUresult cuStreamEndCapture(CUstream s, CUgraph *out) {
  ENTER_DEVICE(cuStreamEndCapture);
  STREAM(s);
  (void)device;
  return graph_end(s, out);
}

DOUBLE_API CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status) {
  ENTER_DEVICE(cuStreamIsCapturing);
  STREAM(s);
  (void)device;
  *status = !s || !s->capture    ? CU_STREAM_CAPTURE_STATUS_NONE
            : s->capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                 : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags) {
  ENTER_DEVICE(cuGraphInstantiateWithFlags);
  (void)flags, (void)device;
  return graph_instantiate(g, out);
}

DOUBLE_API CUresult cuGraphExecUpdate_v2(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo *why) {
  ENTER_DEVICE(cuGraphExecUpdate_v2);
  (void)device;
  return graph_exec_update(e, g, why);
}

DOUBLE_API CUresult cuGraphUpload(CUgraphExec e, CUstream s) {
  ENTER_DEVICE(cuGraphUpload);
  STREAM(s);
  (void)device;
  return e ? graph_forbidden_on(s) : CUDA_ERROR_INVALID_HANDLE;
}

DOUBLE_API CUresult cuGraphLaunch(CUgraphExec e, CUstream s) {
  ENTER_DEVICE(cuGraphLaunch);
  STREAM(s);
  return graph_launch(e, s ? s : queue_default(device));
}

DOUBLE_API CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *n) {
  ENTER_DEVICE(cuGraphGetNodes);
  (void)device;
  if (nodes) return CUDA_ERROR_NOT_SUPPORTED;
  *n = (size_t)g->n;
  return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuGraphExecDestroy(CUgraphExec e) {
  ENTER(cuGraphExecDestroy);
  return graph_exec_destroy(e);
}

DOUBLE_API CUresult cuGraphDestroy(CUgraph g) {
  ENTER(cuGraphDestroy);
  return graph_destroy(g);
}
