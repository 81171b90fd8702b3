/* runtime/device/cuda/marks.c - progress of queues, and times.
 *
 * Marks are for the watchdog (runtime/exec/marks.c says where).  The host enqueues far ahead of the device, so the
 * host's position is useless when the device stops.  A queue writes a number into a word of pinned memory when it gets
 * there, and the host reads it without the driver.  The write is a call like others, so graphs contain it and every
 * replay repeats it; an event inside a graph cannot be queried.  (The fill writes 4 bytes at once, so the host never
 * sees half a number.)  Stamps are events for --profile and --trace.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/device/cuda/cuda.h"

/* ---- words */

RtStatus gpu_words_alloc(CudaDevice *d, uint32_t n, GpuWord **out, RtError *error) {
  char *at = NULL;
  RtStatus status = gpu_pinned(d, n * sizeof **out, &at, error);
  *out = (GpuWord *)(void *)at;
  for (uint32_t i = 0; i < n && !status; i++) atomic_init(&(*out)[i], 0);
  return status;
}

RtStatus gpu_set_word(CudaDevice *d, GpuWord *word, uint32_t value, CUstream queue, RtError *error) {
  return GPU_CALL(d, set_32, "marking the progress of a queue", error, gpu_address(word), value, 1, queue);
}

/* ---- marks */

RtStatus gpu_marks_open(CudaDevice *d, RtError *error) {
  return d->options.reached ? gpu_words_alloc(d, 1, &d->marks.word, error) : RT_OK;
}

void gpu_marks_close(CudaDevice *d) {
  if (d->marks.word) d->driver.pinned_free((void *)d->marks.word);
  for (uint32_t i = 0; i < d->stamps.capacity; i++) d->driver.event_destroy(d->stamps.events[i]);
  free(d->stamps.events);
}

void gpu_marks_reset(CudaDevice *d, uint32_t first) {
  d->marks.first = first;
  if (d->marks.word) atomic_store_explicit(d->marks.word, 0, memory_order_relaxed);
}

void gpu_tell_step(CudaDevice *d, bool in_any_case) {
  GpuMarks *m = &d->marks;
  uint32_t step = m->word ? atomic_load_explicit(m->word, memory_order_relaxed) : 0;
  if (!step) step = m->first; /* nothing reached yet: the device waits for the first step */
  if (!m->word || !step || (step == m->told && !in_any_case)) return;
  m->told = step;
  d->options.reached(d->options.context, step);
}

RtStatus gpu_mark(Device *device, uint32_t step, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  uint32_t *first = d->capture ? &d->capture->first : &d->marks.first;
  if (!d->marks.word) return RT_OK;
  if (!*first) *first = step;
  return gpu_set_word(d, d->marks.word, step, d->compute, error);
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
