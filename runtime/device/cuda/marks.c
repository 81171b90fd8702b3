/* runtime/device/cuda/marks.c - how far the queue has come, and when it came there, by events that are put into it.
 *
 * Marks are for the watchdog: the host asks for far more than the device has done, so where the host is says nothing
 * when the device stops.  There is room for GPU_MARKS; what is asked for while none is free has no mark of its own.
 * Stamps are for --profile and --trace.
 */
#include <stdlib.h>

#include "runtime/device/cuda/cuda.h"

/* ---- marks */

RtStatus gpu_marks_open(CudaDevice *d, RtError *error) {
  RtStatus status = RT_OK;
  if (!d->options.reached) return RT_OK;
  for (int i = 0; i < GPU_MARKS && !status; i++)
    status = GPU_CALL(d, event_create, "marks of steps", error, &d->marks.events[i], CU_EVENT_DISABLE_TIMING);
  return status;
}

void gpu_marks_close(CudaDevice *d) {
  for (int i = 0; i < GPU_MARKS; i++)
    if (d->marks.events[i]) d->driver.event_destroy(d->marks.events[i]);
  for (uint32_t i = 0; i < d->stamps.capacity; i++) d->driver.event_destroy(d->stamps.events[i]);
  free(d->stamps.events);
}

RtStatus gpu_look_at_marks(CudaDevice *d, bool *moved, RtError *error) {
  GpuMarks *m = &d->marks;
  *moved = false;
  while (m->first < m->next) {
    bool happened;
    RtStatus status = gpu_has_happened(d, m->events[m->first % GPU_MARKS], "marks of steps", &happened, error);
    if (status || !happened) return status;
    m->now = m->steps[m->first++ % GPU_MARKS];
    *moved = true;
  }
  return RT_OK;
}

RtStatus gpu_mark(Device *device, uint32_t step, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  GpuMarks *m = &d->marks;
  bool moved;
  if (!d->options.reached) return RT_OK;
  RtStatus status = m->next - m->first == GPU_MARKS ? gpu_look_at_marks(d, &moved, error) : RT_OK;
  if (status || m->next - m->first == GPU_MARKS) return status;
  m->steps[m->next % GPU_MARKS] = step;
  return GPU_CALL(d, event_record, "marks of steps", error, m->events[m->next++ % GPU_MARKS], d->compute);
}

/* ---- stamps */

RtStatus gpu_stamp(Device *device, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  GpuStamps *s = &d->stamps;
  if (s->n == s->capacity) {
    CUevent *events = realloc(s->events, (s->capacity + 1u) * sizeof *events);
    if (!events) return rt_error(error, RT_FAILED, "out of memory");
    s->events = events;
    RtStatus status = GPU_CALL(d, event_create, "the time of a call", error, &events[s->capacity], CU_EVENT_DEFAULT);
    if (status) return status;
    s->capacity++;
  }
  return GPU_CALL(d, event_record, "the time of a call", error, s->events[s->n++], d->compute);
}

RtStatus gpu_times(Device *device, uint64_t *ns, uint32_t n, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  GpuStamps *s = &d->stamps;
  RtStatus status = s->n == n ? RT_OK : rt_error(error, RT_INTERNAL, "%u times of %u stamps", n, s->n);
  for (uint32_t i = 0; i < n && !status; i++) {
    float ms = 0;
    status = GPU_CALL(d, event_elapsed, "the time of a call", error, &ms, s->events[0], s->events[i]);
    ns[i] = ms > 0 ? (uint64_t)((double)ms * 1e6) : 0;
  }
  s->n = 0;
  return status;
}
