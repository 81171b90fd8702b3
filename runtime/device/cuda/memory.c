/* runtime/device/cuda/memory.c - the GPU's memory, and copies between it and the host's.
 *
 * The driver copies asynchronously only from and to pinned memory, which is expensive.  So there is little of it, and
 * copies go through it in pieces.  To the device: two halves, one filled while the other is copied (GpuLane).  From the
 * device: two halves as well, one emptied while the other is filled, since the caller waits for all of it.
 */
#include <stdlib.h>
#include <string.h>

#include "program/box.h"
#include "runtime/device/cuda/cuda.h"

enum { HALF = 8 << 20, LANDING = 8 << 20, PIECE = LANDING / 2, LANE_ALIGN = 64 };

/* ---- opening */

RtStatus gpu_pinned(CudaDevice *d, size_t bytes, char **out, RtError *error) {
  void *at = NULL;
  RtStatus status = GPU_CALL(d, pinned_alloc, "pinned memory of the host", error, &at, bytes, 0);
  *out = at;
  return status;
}

RtStatus gpu_memory_open(CudaDevice *d, RtError *error) {
  RtStatus status = gpu_pinned(d, LANDING, &d->landing, error);
  for (int i = 0; i < 2 && !status; i++) {
    status = gpu_pinned(d, HALF, &d->lane.half[i], error);
    if (!status) status = GPU_CALL(d, event_create, "reads of memory", error, &d->landed[i], CU_EVENT_DISABLE_TIMING);
    if (!status)
      status = GPU_CALL(d, event_create, "copies to the GPU", error, &d->lane.copied[i], CU_EVENT_DISABLE_TIMING);
  }
  return status;
}

void gpu_memory_close(CudaDevice *d) {
  for (int i = 0; i < 2; i++) {
    if (d->lane.copied[i]) d->driver.event_destroy(d->lane.copied[i]);
    if (d->lane.half[i]) d->driver.pinned_free(d->lane.half[i]);
    if (d->landed[i]) d->driver.event_destroy(d->landed[i]);
  }
  if (d->landing) d->driver.pinned_free(d->landing);
}

/* ---- memory */

RtStatus gpu_room(Device *device, uint64_t *bytes, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  size_t room = 0, all = 0;
  RtStatus status = GPU_CALL(d, memory_info, "reading the free memory", error, &room, &all);
  *bytes = room;
  return status;
}

RtStatus gpu_alloc(Device *device, uint64_t bytes, char **out, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  CUdeviceptr at = 0;
  RtStatus status = GPU_CALL(d, memory_alloc, d->name, error, &at, bytes);
  *out = (char *)(uintptr_t)at;
  return status;
}

/* Waits for all earlier calls, which may use the memory. */
void gpu_release(Device *device, char *at, uint64_t bytes) {
  CudaDevice *d = (CudaDevice *)device;
  (void)bytes;
  GPU_LATER(d, queue_finish, "freeing memory", d->compute);
  GPU_LATER(d, memory_free, "freeing memory", gpu_address(at));
}

/* ---- to the device */

/* Switches to the other half, once its copy to the device is done. */
static RtStatus turn_lane(CudaDevice *d, RtError *error) {
  GpuLane *l = &d->lane;
  RtStatus status = GPU_CALL(d, event_record, "copies to the GPU", error, l->copied[l->filling], d->compute);
  l->filling = 1 - l->filling;
  l->used = 0;
  return status ? status : gpu_wait_event(d, l->copied[l->filling], "copies to the GPU", error);
}

/* Reserves `bytes` (at most HALF) of the lane for a copy. */
static RtStatus take_lane(CudaDevice *d, size_t bytes, char **out, RtError *error) {
  GpuLane *l = &d->lane;
  RtStatus status = bytes > HALF - l->used ? turn_lane(d, error) : RT_OK;
  *out = l->half[l->filling] + l->used;
  l->used += (bytes + LANE_ALIGN - 1) / LANE_ALIGN * LANE_ALIGN;
  return status;
}

RtStatus gpu_upload(Device *device, void *to, const void *from, size_t bytes, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  for (size_t done = 0, n; done < bytes; done += n) {
    char *at;
    size_t room = HALF - d->lane.used;
    n = bytes - done;
    if (n > room) n = room >= HALF / 2 ? room : n < HALF ? n : HALF;
    RtStatus status = take_lane(d, n, &at, error);
    if (status) return status;
    memcpy(at, (const char *)from + done, n);
    status = GPU_CALL(d, copy_to, "a copy to the GPU", error, gpu_address(to) + done, at, n, d->compute);
    if (status) return status;
  }
  return RT_OK;
}

/* ---- from the device */

/* Begins to copy at most PIECE bytes into half `half` of d->landing, or LANDING bytes into both. */
static RtStatus begin_landing(CudaDevice *d, int half, const char *from, size_t bytes, RtError *error) {
  RtStatus status = GPU_CALL(d, copy_from, "a copy from the GPU", error, d->landing + half * PIECE, gpu_address(from),
                             bytes, d->compute);
  return status ? status : GPU_CALL(d, event_record, "a copy from the GPU", error, d->landed[half], d->compute);
}

/* Copies at most LANDING bytes into d->landing. */
static RtStatus land(CudaDevice *d, const char *from, size_t bytes, RtError *error) {
  RtStatus status = begin_landing(d, 0, from, bytes, error);
  return status ? status : gpu_wait_event(d, d->landed[0], "a copy from the GPU", error);
}

/* While the host copies one piece, the next one comes. */
RtStatus gpu_read(Device *device, void *to, const void *from, size_t bytes, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  RtStatus status = bytes ? begin_landing(d, 0, from, bytes < PIECE ? bytes : PIECE, error) : RT_OK;
  int half = 0;
  for (size_t done = 0, n; done < bytes && !status; done += n, half = 1 - half) {
    n = bytes - done < PIECE ? bytes - done : PIECE;
    size_t left = bytes - done - n;
    if (left) status = begin_landing(d, 1 - half, (const char *)from + done + n, left < PIECE ? left : PIECE, error);
    if (!status) status = gpu_wait_event(d, d->landed[half], "a copy from the GPU", error);
    if (!status) memcpy((char *)to + done, d->landing + half * PIECE, n);
  }
  return status;
}

/* ---- ports: a tensor and its part of an input or output, on the host or on a device */

static size_t tensor_bytes(const CallTensor *t) { return (size_t)t->elements * dtype_bytes((DType)t->dtype); }

static GpuPort port_of(const DeviceCall *c, const int64_t *extents) {
  const CallTensor *t = &c->tensors[0];
  GpuPort p = {.rank = t->rank, .dtype = (DType)t->dtype};
  if (t->rank == 0) return p;
  memcpy(p.whole, extents, t->rank * sizeof *extents);
  memcpy(p.part, t->extents, t->rank * sizeof *extents);
  memcpy(p.start, c->scalars, t->rank * sizeof *extents);
  return p;
}

static const int64_t zero[PROGRAM_MAX_RANK];

void gpu_move_port(const GpuPort *p, char *whole, char *part, bool feed) {
  Box all = {whole, p->whole, p->start}, mine = {part, p->part, zero};
  box_move(p->rank, dtype_bytes(p->dtype), p->part, feed ? all : mine, feed ? mine : all);
}

RtStatus gpu_copy_port(CudaDevice *d, const GpuPort *p, char *whole, char *part, bool feed, RtError *error) {
  int64_t scalars[3 * PROGRAM_MAX_RANK];
  CallTensor tensors[2] = {{.dtype = p->dtype, .rank = p->rank}, {.dtype = p->dtype, .rank = p->rank}};
  void *data[] = {feed ? whole : part, feed ? part : whole};
  size_t bytes = p->rank * sizeof *scalars;
  tensors[!feed].extents = p->whole;
  tensors[feed].extents = p->part;
  memcpy(scalars, p->part, bytes);
  memcpy(scalars + p->rank, feed ? p->start : zero, bytes);
  memcpy(scalars + 2 * p->rank, feed ? zero : p->start, bytes);
  const DeviceCall copy = {.kind = PI_copy, .n_tensors = 2, .tensors = tensors, .data = data, .scalars = scalars};
  return gpu_copy(&d->base, &copy, error);
}

/* True if the part is contiguous in the whole; *from is its first byte. */
static bool in_a_row(const GpuPort *p, size_t *from) {
  size_t inner = dtype_bytes(p->dtype);
  bool row = true;
  *from = 0;
  for (uint32_t d = p->rank; d-- > 0;) { /* after a dimension that is not whole all others are 1 */
    if (p->part[d] != 1 && !row) return false;
    row = row && p->part[d] == p->whole[d];
    *from += (size_t)p->start[d] * inner;
    inner *= (size_t)p->whole[d];
  }
  return true;
}

/* Moves a port of a captured request. */
static RtStatus keep_port(CudaDevice *d, const DeviceCall *c, const DevicePort *whole, const GpuPort *p, bool feed,
                          RtError *error) {
  size_t bytes = tensor_bytes(&c->tensors[0]);
  CUdeviceptr at = gpu_address(c->data[0]);
  char *part;
  RtStatus status = gpu_capture_port(d, p, whole, bytes, feed, &part, error);
  if (status) return status;
  if (whole->on_device)
    return GPU_CALL(d, copy_on, feed ? "an input" : "an output", error, feed ? at : gpu_address(part),
                    feed ? gpu_address(part) : at, bytes, d->compute);
  if (feed) return GPU_CALL(d, copy_to, "an input", error, at, part, bytes, d->compute);
  return GPU_CALL(d, copy_from, "an output", error, part, at, bytes, d->compute);
}

RtStatus gpu_feed(Device *device, const DeviceCall *c, const DevicePort *whole, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  size_t bytes = tensor_bytes(&c->tensors[0]);
  GpuPort port = port_of(c, whole->extents);
  char *part;
  if (bytes == 0) return RT_OK;
  if (d->capture) return keep_port(d, c, whole, &port, true, error);
  if (whole->on_device) return gpu_copy_port(d, &port, whole->at, c->data[0], true, error);
  if (bytes <= HALF) {
    RtStatus status = take_lane(d, bytes, &part, error);
    if (status) return status;
    gpu_move_port(&port, whole->at, part, true);
    return GPU_CALL(d, copy_to, "an input", error, gpu_address(c->data[0]), part, bytes, d->compute);
  }
  size_t from;
  if (in_a_row(&port, &from)) return gpu_upload(device, c->data[0], whole->at + from, bytes, error);
  part = malloc(bytes);
  if (!part) return rt_error(error, RT_FAILED, "out of memory");
  gpu_move_port(&port, whole->at, part, true);
  RtStatus status = gpu_upload(device, c->data[0], part, bytes, error);
  free(part);
  return status;
}

RtStatus gpu_fetch(Device *device, const DeviceCall *c, const DevicePort *whole, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  size_t bytes = tensor_bytes(&c->tensors[0]);
  GpuPort port = port_of(c, whole->extents);
  if (bytes == 0) return RT_OK;
  if (d->capture) return keep_port(d, c, whole, &port, false, error);
  if (whole->on_device) return gpu_copy_port(d, &port, whole->at, c->data[0], false, error);
  if (bytes <= LANDING) {
    RtStatus status = land(d, c->data[0], bytes, error);
    if (!status) gpu_move_port(&port, whole->at, d->landing, false);
    return status;
  }
  size_t from;
  if (in_a_row(&port, &from)) return gpu_read(device, whole->at + from, c->data[0], bytes, error);
  char *part = malloc(bytes);
  if (!part) return rt_error(error, RT_FAILED, "out of memory");
  RtStatus status = gpu_read(device, part, c->data[0], bytes, error);
  if (!status) gpu_move_port(&port, whole->at, part, false);
  free(part);
  return status;
}
