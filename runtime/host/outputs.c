/* runtime/host/outputs.c - outputs of the last request: where they lie, memory of the caller, inputs that they feed.
 *
 * The ranks are other processes and write results to the shared I/O area, so memory of the caller takes one copy.  An
 * output that feeds an input stays in the area: the input becomes a view of it (runtime/host/inputs.c).  Ranks write to
 * memory on a device directly.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/host/host.h"

int host_output_of(const ApcModel *m, uint32_t entry, const char *name) {
  const Program *p = &m->artifact.program;
  const ProgramEntry *e = &p->entries[entry];
  for (uint32_t i = 0; i < e->n_outputs; i++)
    if (strcmp(program_text(p, p->ports[e->outputs + i].name), name) == 0) return (int)(e->n_inputs + i);
  return -1;
}

int host_output(ApcModel *m, const char *name) {
  const Program *p = &m->artifact.program;
  const ProgramEntry *e = &p->entries[m->ran_entry];
  char hint[300];
  if (host_has_run(m)) return -1;
  int i = host_output_of(m, m->ran_entry, name);
  if (i >= 0) return i;
  host_suggest(p, e->outputs, e->n_outputs, name, hint, sizeof hint);
  rt_error(&m->error, RT_USAGE, "there is no output '%s'%s", name, hint);
  return -1;
}

int host_output_here(ApcModel *m, const char *name) {
  int i = host_output(m, name);
  if (i < 0 || !host_devices_have(m, (uint32_t)i)) return i;
  rt_error(&m->error, RT_USAGE, "output '%s' is in the device's memory that was bound to it", name);
  return -1;
}

ApcStatus apc_output_shape(ApcModel *m, const char *name, int *rank, int64_t dims[APC_MAX_RANK], size_t *bytes) {
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  int i = host_output(m, name);
  if (i < 0) return host_status(m, m->error.status);
  *rank = m->layout.shapes[i].rank;
  memcpy(dims, m->layout.shapes[i].dims, sizeof *dims * APC_MAX_RANK);
  *bytes = m->layout.sizes[i];
  return APC_OK;
}

ApcStatus apc_expected_shape(ApcModel *m, const char *entry, const char *name, int *rank, int64_t dims[APC_MAX_RANK],
                             size_t *bytes) {
  int64_t symbols[PROGRAM_MAX_SYMBOLS];
  uint32_t which = m ? m->entry : 0;
  ProgramShape shape;
  size_t most;
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  RtStatus status = entry ? host_find_entry(m, entry, &which) : RT_OK;
  int i = status ? -1 : host_output_of(m, which, name);
  if (!status && i < 0) status = rt_error(&m->error, RT_USAGE, "there is no output '%s'", name);
  if (!status) status = host_symbols(m, which, symbols);
  const Program *p = &m->artifact.program;
  uint32_t port = p->entries[which].inputs + (uint32_t)i;
  if (!status) status = program_port_most(p, port, symbols, &shape, &m->error);
  if (!status) status = request_bytes(p, port, &shape, &most, &m->error);
  if (status) return host_status(m, status);
  *rank = shape.rank;
  memcpy(dims, shape.dims, sizeof *dims * APC_MAX_RANK);
  *bytes = most;
  return APC_OK;
}

ApcStatus apc_output_data(ApcModel *m, const char *name, const void **data) {
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  int i = host_output_here(m, name);
  if (i < 0) return host_status(m, m->error.status);
  *data = m->io + m->layout.offsets[i];
  return APC_OK;
}

ApcStatus apc_read_output(ApcModel *m, const char *name, void *data, size_t bytes) {
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  int i = host_output_here(m, name);
  if (i < 0) return host_status(m, m->error.status);
  if (bytes != m->layout.sizes[i])
    return host_error(m, RT_USAGE, "output '%s' has %llu bytes, not %zu", name, (unsigned long long)m->layout.sizes[i],
                      bytes);
  memcpy(data, m->io + m->layout.offsets[i], bytes);
  return APC_OK;
}

int64_t apc_batch(const ApcModel *m) {
  if (!m || !m->layout.bytes) return 1;
  const ProgramEntry *e = &m->artifact.program.entries[m->ran_entry];
  const ProgramShape *shapes = m->layout.shapes;
  uint32_t input = 0;
  while (input < e->n_inputs && shapes[input].rank == 0) input++;
  if (input == e->n_inputs || e->n_outputs == 0 || shapes[e->n_inputs].rank == 0) return 1;
  return shapes[input].dims[0] == shapes[e->n_inputs].dims[0] && shapes[input].dims[0] > 0 ? shapes[input].dims[0] : 1;
}

/* ---- memory of the caller */

BoundOutput *host_bound_output(const ApcModel *m, const char *name) {
  for (size_t i = 0; i < m->n_outputs; i++)
    if (strcmp(m->outputs[i].name, name) == 0) return &m->outputs[i];
  return NULL;
}

ApcStatus host_bind_output(ApcModel *m, const char *name, BoundOutput new) {
  DType wanted;
  BoundOutput *old = host_bound_output(m, name);
  ApcStatus status = host_find_type(m, name, true, &wanted);
  if (status) return status;
  if (new.data &&new.type != wanted)
    return host_error(m, RT_BAD_INPUT, "output '%s' is %s, but its memory is for %s", name, dtype_name(wanted),
                      (unsigned)new.type < DT_COUNT ? dtype_name(new.type) : "an unknown type");
  m->devices_new |= new.on_device || (old && old->on_device);
  if (!new.data) {
    if (old) free(old->name), *old = m->outputs[--m->n_outputs];
    return APC_OK;
  }
  if (old) return new.name = old->name, *old = new, APC_OK;
  BoundOutput *list = realloc(m->outputs, (m->n_outputs + 1) * sizeof *list);
  if (list) m->outputs = list;
  new.name = list ? strdup(name) : NULL;
  if (!new.name) return host_error(m, RT_FAILED, "out of memory");
  list[m->n_outputs++] = new;
  return APC_OK;
}

ApcStatus apc_bind_output(ApcModel *m, const char *name, ApcType type, void *data, size_t bytes) {
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  return host_bind_output(m, name, (BoundOutput){.type = (DType)type, .data = data, .bytes = bytes});
}

/* Entries may have outputs of one name and different types. */
static DType type_of_output(const ApcModel *m, uint32_t entry, int i) {
  const Program *p = &m->artifact.program;
  const ProgramEntry *e = &p->entries[entry];
  return (DType)p->ports[e->outputs + (uint32_t)i - e->n_inputs].dtype;
}

RtStatus host_outputs_check(ApcModel *m, uint32_t entry) {
  for (size_t k = 0; k < m->n_outputs; k++) {
    const BoundOutput *b = &m->outputs[k];
    int i = host_output_of(m, entry, b->name);
    if (i >= 0 && type_of_output(m, entry, i) != b->type)
      return rt_error(&m->error, RT_BAD_INPUT, "output '%s' is %s, but its memory is for %s", b->name,
                      dtype_name(type_of_output(m, entry, i)), dtype_name(b->type));
    if (i >= 0 && m->layout.rooms[i] > b->bytes)
      return rt_error(&m->error, RT_BAD_INPUT, "output '%s' has %s%llu bytes, but its memory has room for %zu", b->name,
                      m->artifact.program.uses & PROGRAM_USES_COMPUTED ? "up to " : "",
                      (unsigned long long)m->layout.rooms[i], b->bytes);
    for (size_t f = 0; b->on_device && i >= 0 && f < m->n_feeds; f++)
      if (strcmp(m->feeds[f].output, b->name) == 0)
        return rt_error(&m->error, RT_USAGE,
                        "output '%s' feeds input '%s' and cannot be bound to memory on a device as well: bind that "
                        "memory to the input instead",
                        b->name, m->feeds[f].input);
  }
  return RT_OK;
}

/* ---- inputs fed by outputs */

ApcStatus apc_feed_input(ApcModel *m, const char *input, const char *output) {
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  DType taken, given;
  if (m->launched) return host_error(m, RT_UNSUPPORTED, "apc_feed_input is not available with the ranks of a launcher");
  ApcStatus status = host_find_type(m, input, false, &taken);
  if (!status && output) status = host_find_type(m, output, true, &given);
  if (status) return status;
  if (output && given != taken)
    return host_error(m, RT_BAD_INPUT, "output '%s' is %s, but input '%s' is %s", output, dtype_name(given), input,
                      dtype_name(taken));
  for (size_t i = 0; i < m->n_feeds; i++)
    if (strcmp(m->feeds[i].input, input) == 0) {
      free(m->feeds[i].input), free(m->feeds[i].output);
      m->feeds[i--] = m->feeds[--m->n_feeds];
    }
  if (!output) return APC_OK;
  Feed *list = realloc(m->feeds, (m->n_feeds + 1) * sizeof *list), f = {strdup(input), strdup(output)};
  if (list) m->feeds = list;
  if (!list || !f.input || !f.output) {
    free(f.input), free(f.output);
    return host_error(m, RT_FAILED, "out of memory");
  }
  list[m->n_feeds++] = f;
  return APC_OK;
}

static RtStatus feed(ApcModel *m, const Feed *f) {
  int i = host_output_of(m, m->ran_entry, f->output);
  if (i < 0) return RT_OK;
  const ProgramShape *s = &m->layout.shapes[i];
  size_t place = m->layout.offsets[i];
  DType type = type_of_output(m, m->ran_entry, i);
  Bound view = {.tensor = tensor_view(type, s->rank, s->dims, m->io + place), .kept = true, .place = place};
  return host_bind(m, f->input, view) ? m->error.status : RT_OK;
}

/* The room was checked for the most bytes, before the request: no result can have more. */
static RtStatus results_fit(ApcModel *m) {
  for (size_t k = 0; k < m->n_outputs; k++) {
    int i = host_output_of(m, m->ran_entry, m->outputs[k].name);
    if (i >= 0 && m->layout.sizes[i] > m->outputs[k].bytes)
      return rt_error(&m->error, RT_INTERNAL, "output '%s' has %llu bytes, more than its largest shape",
                      m->outputs[k].name, (unsigned long long)m->layout.sizes[i]);
  }
  return RT_OK;
}

/* Memory of the caller changes only if all has succeeded. */
RtStatus host_outputs_deliver(ApcModel *m) {
  RtStatus status = results_fit(m);
  for (size_t k = 0; k < m->n_feeds && !status; k++) status = feed(m, &m->feeds[k]);
  for (size_t k = 0; k < m->n_outputs && !status; k++) {
    int i = host_output_of(m, m->ran_entry, m->outputs[k].name);
    if (i >= 0 && !m->outputs[k].on_device)
      memcpy(m->outputs[k].data, m->io + m->layout.offsets[i], m->layout.sizes[i]);
  }
  return status;
}

void host_outputs_free(ApcModel *m) {
  for (size_t i = 0; i < m->n_outputs; i++) free(m->outputs[i].name);
  for (size_t i = 0; i < m->n_feeds; i++) free(m->feeds[i].input), free(m->feeds[i].output);
  free(m->outputs);
  free(m->feeds);
}
