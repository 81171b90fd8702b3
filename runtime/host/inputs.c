/* runtime/host/inputs.c - copies the values of inputs to the memory from which the ranks read them.
 *
 * An input read from a file may be large, such as a cache, and would exist twice: as it was read, and in the I/O area.
 * So a large tensor of our own is freed once its values lie in the area; later requests of the same layout find them
 * there, and they are copied out again before other data uses their place.  Ranks do not write to inputs.  An output
 * that feeds an input is such a view too, at the place where the ranks wrote it.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/host/host.h"

enum { KEPT_LEAST = 1 << 20 }; /* bytes; smaller tensors are not worth it */

RtStatus host_io(ApcModel *m, size_t bytes) {
  void *area;
  RtStatus status =
      m->launched ? launched_io(m->launched, bytes, &area, &m->error) : session_io(m->session, bytes, &area, &m->error);
  if (status) return status;
  m->io = area;
  for (size_t i = 0; i < m->n_bound; i++)
    if (m->bound[i].kept) m->bound[i].tensor.data = m->io + m->bound[i].place;
  return RT_OK;
}

static RtStatus take_back(ApcModel *m, Bound *b) {
  Tensor own;
  if (!tensor_alloc(&own, b->tensor.dtype, b->tensor.rank, b->tensor.dims))
    return rt_error(&m->error, RT_FAILED, "out of memory for input '%s'", b->name);
  memcpy(own.data, b->tensor.data, own.bytes);
  b->tensor = own;
  b->kept = false;
  return RT_OK;
}

void host_inputs_take_back(ApcModel *m) {
  for (size_t i = 0; i < m->n_bound;) {
    Bound *b = &m->bound[i];
    RtError before = m->error;
    if (!b->kept || take_back(m, b) == RT_OK) {
      i++;
      continue;
    }
    m->error = before;
    free(b->name);
    *b = m->bound[--m->n_bound];
  }
}

/* The number of an input of an entry; n_inputs if it has none of that name. */
static uint32_t input_of(const Program *p, const ProgramEntry *e, const char *name) {
  uint32_t i = 0;
  while (i < e->n_inputs && strcmp(program_text(p, p->ports[e->inputs + i].name), name) != 0) i++;
  return i;
}

RtStatus host_inputs_again(ApcModel *m) {
  const Program *p = &m->artifact.program;
  const ProgramEntry *e = &p->entries[m->ran_entry];
  for (size_t k = 0; k < m->n_bound; k++) {
    Bound *b = &m->bound[k];
    uint32_t i = b->kept ? input_of(p, e, b->name) : 0;
    if (!b->kept) continue;
    if (i == e->n_inputs) { /* of another entry: the request may overwrite its place */
      RtStatus status = take_back(m, b);
      if (status) return status;
      continue;
    }
    const ProgramShape *s = &m->layout.shapes[i];
    b->place = m->layout.offsets[i];
    b->tensor = tensor_view(b->tensor.dtype, s->rank, s->dims, m->io + b->place);
  }
  return RT_OK;
}

size_t host_inputs_end(const ApcModel *m) {
  size_t end = m->artifact.program.ranks * sizeof(RankReport);
  if (m->layout.bytes > end) end = m->layout.bytes;
  for (size_t i = 0; i < m->n_bound; i++)
    if (m->bound[i].kept && m->bound[i].place + m->bound[i].tensor.bytes > end)
      end = m->bound[i].place + m->bound[i].tensor.bytes;
  size_t places = m->places.n ? m->places.at + m->places.n * sizeof(DevicePlace) : 0;
  return places > end ? places : end;
}

/* True if the values can be copied within the area, or lie in place: no input of the present layout will overwrite
 * them before. */
static bool stays(const ApcModel *m, uint32_t entry, const Bound *b) {
  const Program *p = &m->artifact.program;
  const ProgramEntry *e = &p->entries[entry];
  bool used = false;
  for (uint32_t i = 0; i < e->n_inputs; i++) {
    uint64_t from = m->layout.offsets[i], to = from + m->layout.sizes[i];
    bool own = strcmp(program_text(p, p->ports[e->inputs + i].name), b->name) == 0;
    used |= own && m->layout.sizes[i] == b->tensor.bytes;
    if (own && from == b->place) continue;
    if (from < b->place + b->tensor.bytes && b->place < to) return false;
  }
  return used;
}

static RtStatus make_room(ApcModel *m, uint32_t entry) {
  RtStatus status = RT_OK;
  for (size_t i = 0; i < m->n_bound && !status; i++)
    if (m->bound[i].kept && !stays(m, entry, &m->bound[i])) status = take_back(m, &m->bound[i]);
  return status;
}

/* Limits random integers to the table that they index. */
static RtStatus random_limit(ApcModel *m, uint32_t port, const Bound *b, uint64_t *below) {
  const Program *p = &m->artifact.program;
  int64_t v = 2;
  if (b->kind != BOUND_RANDOM || p->ports[port].random_below == PROGRAM_NONE) return RT_OK;
  RtStatus status = program_value(p, p->ports[port].random_below, m->symbols, &v, &m->error);
  *below = v < 1 ? 1 : (uint64_t)v;
  return status;
}

static void place_input(const ApcModel *m, uint32_t port, Bound *b, uint64_t below, size_t place, uint64_t bytes) {
  const ProgramPort *t = &m->artifact.program.ports[port];
  size_t n = bytes / dtype_bytes((DType)t->dtype);
  char *to = m->io + place;
  if (b->kept) {
    if (b->place != place) memcpy(to, m->io + b->place, bytes);
    b->tensor.data = to;
    b->place = place;
    return;
  }
  const Tensor *values = host_values(b);
  if (values) memcpy(to, values->data, bytes);
  else if (b->kind == BOUND_DEVICE) return; /* the ranks read it where it lies */
  else if (t->fixed.n) memcpy(to, program_list(&m->artifact.program, t->fixed), bytes);
  else if (b->kind == BOUND_ZEROS) memset(to, 0, bytes);
  else request_random((DType)t->dtype, to, n, b->seed, b->name, below);
  if (!m->session || b->kind != BOUND_DATA || !b->tensor.release || bytes < KEPT_LEAST) return;
  Tensor view = tensor_view(b->tensor.dtype, b->tensor.rank, b->tensor.dims, to);
  tensor_free(&b->tensor);
  b->tensor = view;
  b->kept = true;
  b->place = place;
}

RtStatus host_inputs_place(ApcModel *m, uint32_t entry) {
  const Program *p = &m->artifact.program;
  const ProgramEntry *e = &p->entries[entry];
  RtStatus status = make_room(m, entry);
  if (!status) status = host_io(m, m->layout.bytes);
  if (status) return status;
  m->inputs_new = true;
  for (uint32_t i = 0; !status && i < e->n_inputs; i++) {
    uint32_t port = e->inputs + i;
    Bound *b = host_bound(m, program_text(p, p->ports[port].name));
    uint64_t below = 0;
    status = random_limit(m, port, b, &below);
    if (!status) place_input(m, port, b, below, m->layout.offsets[i], m->layout.sizes[i]);
  }
  return status;
}
