/* runtime/host/outputs.c - outputs of the last request: where they lie, memory of the caller, inputs that they feed.
 *
 * The ranks are other processes and write results to the shared I/O area, so memory of the caller takes one copy.  An
 * output that feeds an input stays in the area: the input becomes a view of it (runtime/host/inputs.c).
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/host/host.h"

/* Returns the number of an output in the layout of an entry; -1 if the entry has none of that name. */
static int number_of(const ApcModel *m, uint32_t entry, const char *name) {
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
  int i = number_of(m, m->ran_entry, name);
  if (i >= 0) return i;
  host_suggest(p, e->outputs, e->n_outputs, name, hint, sizeof hint);
  rt_error(&m->error, RT_USAGE, "there is no output '%s'%s", name, hint);
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

ApcStatus apc_output_data(ApcModel *m, const char *name, const void **data) {
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  int i = host_output(m, name);
  if (i < 0) return host_status(m, m->error.status);
  *data = m->io + m->layout.offsets[i];
  return APC_OK;
}

ApcStatus apc_read_output(ApcModel *m, const char *name, void *data, size_t bytes) {
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  int i = host_output(m, name);
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

static BoundOutput *bound_output(const ApcModel *m, const char *name) {
  for (size_t i = 0; i < m->n_outputs; i++)
    if (strcmp(m->outputs[i].name, name) == 0) return &m->outputs[i];
  return NULL;
}

ApcStatus apc_bind_output(ApcModel *m, const char *name, ApcType type, void *data, size_t bytes) {
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  DType wanted;
  ApcStatus status = host_find_type(m, name, true, &wanted);
  if (status) return status;
  if (data && (DType)type != wanted)
    return host_error(m, RT_BAD_INPUT, "output '%s' is %s, but its memory is for %s", name, dtype_name(wanted),
                      (unsigned)type < DT_COUNT ? dtype_name((DType)type) : "an unknown type");
  BoundOutput *b = bound_output(m, name);
  if (!data) {
    if (b) free(b->name), *b = m->outputs[--m->n_outputs];
    return APC_OK;
  }
  if (b) return b->type = wanted, b->data = data, b->bytes = bytes, APC_OK;
  BoundOutput *list = realloc(m->outputs, (m->n_outputs + 1) * sizeof *list);
  if (list) m->outputs = list;
  char *own = list ? strdup(name) : NULL;
  if (!own) return host_error(m, RT_FAILED, "out of memory");
  list[m->n_outputs++] = (BoundOutput){own, wanted, data, bytes};
  return APC_OK;
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
    int i = number_of(m, entry, b->name);
    if (i >= 0 && type_of_output(m, entry, i) != b->type)
      return rt_error(&m->error, RT_BAD_INPUT, "output '%s' is %s, but its memory is for %s", b->name,
                      dtype_name(type_of_output(m, entry, i)), dtype_name(b->type));
    if (i >= 0 && m->layout.sizes[i] > b->bytes)
      return rt_error(&m->error, RT_BAD_INPUT, "output '%s' has %llu bytes, but its memory has room for %zu", b->name,
                      (unsigned long long)m->layout.sizes[i], b->bytes);
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
  int i = number_of(m, m->ran_entry, f->output);
  if (i < 0) return RT_OK;
  const ProgramShape *s = &m->layout.shapes[i];
  size_t place = m->layout.offsets[i];
  DType type = type_of_output(m, m->ran_entry, i);
  Bound view = {.tensor = tensor_view(type, s->rank, s->dims, m->io + place), .kept = true, .place = place};
  return host_bind(m, f->input, view) ? m->error.status : RT_OK;
}

/* Memory of the caller changes only if all has succeeded. */
RtStatus host_outputs_deliver(ApcModel *m) {
  RtStatus status = RT_OK;
  for (size_t k = 0; k < m->n_feeds && !status; k++) status = feed(m, &m->feeds[k]);
  for (size_t k = 0; k < m->n_outputs && !status; k++) {
    int i = number_of(m, m->ran_entry, m->outputs[k].name);
    if (i >= 0) memcpy(m->outputs[k].data, m->io + m->layout.offsets[i], m->layout.sizes[i]);
  }
  return status;
}

void host_outputs_free(ApcModel *m) {
  for (size_t i = 0; i < m->n_outputs; i++) free(m->outputs[i].name);
  for (size_t i = 0; i < m->n_feeds; i++) free(m->feeds[i].input), free(m->feeds[i].output);
  free(m->outputs);
  free(m->feeds);
}
