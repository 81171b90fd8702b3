/* runtime/exec/places.c - inputs and outputs that lie in the caller's memory of a device.
 *
 * In: the DevicePlaces of a request, in the I/O area.  Out: per port its address on this rank's device.  Memory is
 * mapped for one request only, since its owner may free it after that.  Several tensors may lie in one allocation,
 * which has one handle and is mapped once.  A value is whole, on one device: every rank reads and writes its part of
 * it, over the connection of the devices if it is another rank's device.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "runtime/exec/internal.h"

DevicePort exec_port(const Executor *e, uint32_t number) {
  const RequestLayout *io = &e->binding->io;
  char *place = number < e->places.n ? e->places.at[number] : NULL;
  return (DevicePort){.number = number,
                      .on_device = place,
                      .at = place ? place : e->io + io->offsets[number],
                      .extents = io->shapes[number].dims};
}

static RtStatus make_room(Executor *e, uint32_t n, RtError *error) {
  if (n > e->places.room) {
    char **at = realloc(e->places.at, n * sizeof *at);
    if (at) e->places.at = at;
    char **mapped = realloc(e->places.mapped, n * sizeof *mapped);
    if (mapped) e->places.mapped = mapped;
    if (!at || !mapped) return rt_error(error, RT_FAILED, "out of memory");
    e->places.room = n;
  }
  memset(e->places.at, 0, n * sizeof *e->places.at);
  memset(e->places.mapped, 0, n * sizeof *e->places.mapped);
  e->places.n = n;
  return RT_OK;
}

/* Sets the address of a place, which the earlier ones may share an allocation with. */
static RtStatus open_place(Executor *e, const DevicePlace *list, uint32_t i, RtError *error) {
  const DevicePlace *x = &list[i];
  const RequestLayout *io = &e->binding->io;
  RtError inner = {0};
  char *base = NULL;
  if (x->number >= io->n || x->bytes < io->rooms[x->number] || e->places.at[x->number])
    return rt_error(error, RT_INTERNAL, "the host sent a place that does not fit its tensor");
  for (uint32_t k = 0; k < i && !base; k++)
    if (memcmp(list[k].handle, x->handle, sizeof x->handle) == 0) base = e->places.at[list[k].number] - list[k].offset;
  if (!base) {
    RtStatus status = e->ops->map(e->device, x, &base, &inner);
    if (status)
      return rt_error(error, status, "rank %u cannot use memory of device %u: %s", e->options.rank, x->device,
                      inner.text);
    e->places.mapped[x->number] = base;
  }
  e->places.at[x->number] = base + x->offset;
  return RT_OK;
}

RtStatus exec_places_open(Executor *e, const RequestHead *head, const void *io, size_t io_bytes, RtError *error) {
  const DevicePlace *list = (const DevicePlace *)((const char *)io + head->at);
  if (!head->n_places) return RT_OK;
  if (!e->ops->map) return rt_error(error, RT_INTERNAL, "the host sent places of a device to a rank without one");
  if (head->at > io_bytes || (io_bytes - head->at) / sizeof *list < head->n_places || head->at % _Alignof(DevicePlace))
    return rt_error(error, RT_INTERNAL, "the I/O area is too small for the places of tensors");
  RtStatus status = make_room(e, e->binding->io.n, error);
  for (uint32_t i = 0; i < head->n_places && !status; i++) status = open_place(e, list, i, error);
  uint64_t which = 1;
  for (uint32_t i = 0; i < e->places.n; i++) which = hash64_mix(which, e->places.at[i] != NULL);
  e->places.which = which;
  return status;
}

/* After an error the device may still use the memory, and the process ends soon. */
RtStatus exec_places_close(Executor *e, RtStatus status, RtError *error) {
  for (uint32_t i = 0; i < e->places.n && !status; i++)
    if (e->places.mapped[i]) status = e->ops->unmap(e->device, e->places.mapped[i], error);
  e->places.n = 0;
  e->places.which = 0;
  return status;
}
