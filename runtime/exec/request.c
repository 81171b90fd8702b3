/* runtime/exec/request.c - see request.h. */
#include "runtime/exec/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/fill.h"
#include "base/hash.h"
#include "base/tensor.h"

static uint64_t align_up(uint64_t n) { return (n + PROGRAM_ALIGN - 1) / PROGRAM_ALIGN * PROGRAM_ALIGN; }

RtStatus request_bytes(const Program *p, uint32_t port, const ProgramShape *shape, size_t *bytes, RtError *error) {
  if (!tensor_size((DType)p->ports[port].dtype, shape->rank, shape->dims, bytes))
    return rt_error(error, RT_BAD_INPUT, "'%s' would need more than 2^63 bytes", program_text(p, p->ports[port].name));
  if (*bytes > (UINT64_C(1) << 48))
    return rt_error(error, RT_BAD_INPUT, "'%s' would need %zu bytes", program_text(p, p->ports[port].name), *bytes);
  return RT_OK;
}

void request_computed(const Program *p, const RankReport *report, int64_t *symbols) {
  for (uint32_t i = 0, k = 0; i < p->n_symbols; i++)
    if (p->symbols[i].most) symbols[i] = report->computed[k++];
}

/* At the bounds of computed sizes a shape may have a negative extent, or none that fits: it has the most instead. */
static RtStatus shape_of(const Program *p, uint32_t port, const int64_t *symbols, bool computed,
                         const ProgramShape *most, ProgramShape *out, RtError *error) {
  RtError unread = {0};
  if (computed || !(p->uses & PROGRAM_USES_COMPUTED)) return program_port_shape(p, port, symbols, out, error);
  if (program_port_shape(p, port, symbols, out, &unread)) *out = *most;
  return RT_OK;
}

static RtStatus place_ports(const Program *p, const ProgramEntry *e, const int64_t *symbols, bool computed,
                            RequestLayout *l, RtError *error) {
  l->bytes = align_up(sizeof(RankReport) * p->ranks);
  for (uint32_t i = 0; i < l->n; i++) {
    size_t bytes, room;
    ProgramShape most;
    uint32_t port = e->inputs + i; /* outputs follow the inputs */
    RtStatus status = program_port_most(p, port, symbols, &most, error);
    if (!status) status = shape_of(p, port, symbols, computed, &most, &l->shapes[i], error);
    if (!status) status = request_bytes(p, port, &l->shapes[i], &bytes, error);
    if (!status) status = request_bytes(p, port, &most, &room, error);
    if (status) return status;
    if (l->bytes > (UINT64_C(1) << 48))
      return rt_error(error, RT_BAD_INPUT, "'%s' would need %zu bytes", program_text(p, p->ports[port].name), bytes);
    l->offsets[i] = l->bytes;
    l->sizes[i] = bytes;
    l->rooms[i] = room;
    l->bytes += align_up(room);
  }
  return RT_OK;
}

RtStatus request_layout(const Program *p, uint32_t entry, const int64_t *symbols, bool computed, RequestLayout *out,
                        RtError *error) {
  const ProgramEntry *e = &p->entries[entry];
  memset(out, 0, sizeof *out);
  out->n = e->n_inputs + e->n_outputs;
  out->offsets = calloc(out->n + 1u, sizeof *out->offsets);
  out->sizes = calloc(out->n + 1u, sizeof *out->sizes);
  out->rooms = calloc(out->n + 1u, sizeof *out->rooms);
  out->shapes = calloc(out->n + 1u, sizeof *out->shapes);
  bool all = out->offsets && out->sizes && out->rooms && out->shapes;
  RtStatus status =
      all ? place_ports(p, e, symbols, computed, out, error) : rt_error(error, RT_FAILED, "out of memory");
  if (status) request_layout_free(out);
  return status;
}

void request_layout_free(RequestLayout *l) {
  free(l->offsets);
  free(l->sizes);
  free(l->rooms);
  free(l->shapes);
  memset(l, 0, sizeof *l);
}

void request_random(DType dtype, void *out, size_t n, uint64_t seed, const char *name, uint64_t below) {
  uint64_t stream = hash64(name, strlen(name), 0);
  if (dtype_is_float(dtype)) fill_normal(dtype, out, 0, n, seed, stream, 0, 1);
  else fill_below(dtype, out, 0, n, seed, stream, below ? below : 2);
}
