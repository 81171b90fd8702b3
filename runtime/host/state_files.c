/* runtime/host/state_files.c - all states of a program as tensors of a safetensors file.
 *
 * The host makes or checks the header; the ranks move their parts (runtime/exec/state_file.c).  The file has whole
 * tensors, so the number of ranks that wrote it does not matter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/safetensors.h"
#include "runtime/host/host.h"

void host_states_note(ApcModel *m, RequestKind kind, uint32_t entry, const int64_t *symbols) {
  const bool uses = kind == REQUEST_RUN || kind == REQUEST_WRITE || kind == REQUEST_COPY || kind == REQUEST_READ;
  if (kind == REQUEST_RESET) m->states.made = false;
  if (kind == REQUEST_KEEP) m->kept_states = m->states;
  if (kind == REQUEST_BACK) m->states = m->kept_states;
  if (kind != REQUEST_READ_STATES && kind != REQUEST_SET_STATE && (!uses || m->states.made)) return;
  m->states.made = true;
  m->states.entry = entry;
  memcpy(m->states.symbols, symbols, sizeof *symbols * m->artifact.program.n_symbols);
}

/* Computes the values of all expressions, which the caller frees; those of places are of no use. */
static RtStatus sizes_for(ApcModel *m, const int64_t *symbols, int64_t **out) {
  const Program *p = &m->artifact.program;
  int64_t c[PROGRAM_MAX_AXES] = {0};
  *out = malloc(sizeof **out * (p->n_exprs + 1u));
  if (!*out) return rt_error(&m->error, RT_FAILED, "out of memory");
  return program_eval(p, symbols, c, *out, &m->error);
}

RtStatus host_has_states(ApcModel *m) {
  return m->artifact.program.n_states ? RT_OK : rt_error(&m->error, RT_USAGE, "the program has no states");
}

static RtStatus have_values(ApcModel *m) {
  if (m->states.made) return RT_OK;
  return rt_error(&m->error, RT_USAGE, "the states are initial: no request has run since they were made or reset");
}

RtStatus host_state_shape(ApcModel *m, uint32_t state, StateTensor *out) {
  const Program *p = &m->artifact.program;
  const ProgramState *s = &p->states[state];
  int64_t *values = NULL;
  RtStatus status = have_values(m);
  if (!status) status = sizes_for(m, m->states.symbols, &values);
  *out = (StateTensor){.type = (DType)s->dtype, .rank = (int)s->dims.n};
  for (uint32_t d = 0; d < s->dims.n && !status; d++) out->dims[d] = values[program_list(p, s->dims)[d]];
  free(values);
  return status;
}

/* ---- saving */

static bool header_of(const ApcModel *m, const int64_t *values, const char *path, const HostFiles *f,
                      SafetensorsHeader *out) {
  const Program *p = &m->artifact.program;
  NamedTensor *list = ARENA_ARRAY(f->arena, NamedTensor, p->n_states);
  for (uint32_t i = 0; i < p->n_states; i++) {
    const ProgramState *s = &p->states[i];
    int64_t dims[TENSOR_MAX_RANK];
    for (uint32_t d = 0; d < s->dims.n; d++) dims[d] = values[program_list(p, s->dims)[d]];
    list[i] = (NamedTensor){program_text(p, s->name), tensor_view((DType)s->dtype, (int)s->dims.n, dims, NULL)};
  }
  return safetensors_header(f->diags, path, list, p->n_states, NULL, 0, out);
}

ApcStatus apc_save_states(ApcModel *m, const char *path) {
  ApcStatus may = apc_may_write(m, path);
  if (may) return may;
  RtStatus status = host_has_states(m);
  if (!status) status = have_values(m);
  if (status) return host_status(m, status);
  SafetensorsHeader h = {0};
  int64_t *values;
  HostFiles f = host_files_begin();
  status = sizes_for(m, m->states.symbols, &values);
  if (!status && header_of(m, values, path, &f, &h))
    status = host_write_tensors(m, REQUEST_WRITE_STATES, m->states.entry, m->states.symbols, &h, path, &f);
  free(h.bytes);
  free(values);
  return host_files_end(m, f, path, host_status(m, status));
}

/* ---- loading */

/* Sets the symbols: as bound, else by dimensions of states that are just a symbol, else as planned. */
static void symbols_of(const ApcModel *m, const StateTensor *tensors, int64_t *symbols) {
  const Program *p = &m->artifact.program;
  memcpy(symbols, m->fixed, sizeof *symbols * p->n_symbols);
  for (uint32_t i = 0; i < p->n_states; i++) {
    const ProgramState *s = &p->states[i];
    for (uint32_t d = 0; tensors[i].rank == (int)s->dims.n && d < s->dims.n; d++) {
      const ProgramExpr *x = &p->exprs[program_list(p, s->dims)[d]];
      if (x->kind == PX_sym && symbols[x->a] < 0) symbols[x->a] = tensors[i].dims[d];
    }
  }
  for (uint32_t i = 0; i < p->n_symbols; i++)
    if (symbols[i] < 0) symbols[i] = program_default_size(&p->symbols[i]);
}

static RtStatus symbols_fit(ApcModel *m, const char *path, const int64_t *symbols) {
  const Program *p = &m->artifact.program;
  RtStatus status = RT_OK;
  for (uint32_t i = 0; i < p->n_symbols && !status; i++) {
    const char *name = program_text(p, p->symbols[i].name);
    char who[300];
    snprintf(who, sizeof who, "%s: %s", path, name);
    status = program_check_size(&p->symbols[i], name, symbols[i], who, &m->error);
  }
  return status;
}

static RtStatus state_fits(ApcModel *m, const char *who, const StateTensor *t, const ProgramState *s,
                           const int64_t *values) {
  const Program *p = &m->artifact.program;
  const char *name = program_text(p, s->name);
  if (t->rank < 0) return rt_error(&m->error, RT_BAD_INPUT, "%s: there is no state '%s'", who, name);
  if (t->type != (DType)s->dtype)
    return rt_error(&m->error, RT_BAD_INPUT, "%s: state '%s' is %s, but the program has %s", who, name,
                    dtype_name(t->type), dtype_name((DType)s->dtype));
  if (t->rank != (int)s->dims.n)
    return rt_error(&m->error, RT_BAD_INPUT, "%s: state '%s' has %d dimensions, but the program has %u", who, name,
                    t->rank, s->dims.n);
  for (int d = 0; d < t->rank; d++) {
    int64_t size = values[program_list(p, s->dims)[d]];
    if (t->dims[d] != size)
      return rt_error(&m->error, RT_BAD_INPUT, "%s: dimension %d of state '%s' is %lld, but the program has %lld", who,
                      d, name, (long long)t->dims[d], (long long)size);
  }
  return RT_OK;
}

RtStatus host_states_symbols(ApcModel *m, const char *who, const StateTensor *tensors, int64_t *symbols) {
  const Program *p = &m->artifact.program;
  int64_t *values = NULL;
  symbols_of(m, tensors, symbols);
  RtStatus status = symbols_fit(m, who, symbols);
  if (!status) status = sizes_for(m, symbols, &values);
  for (uint32_t i = 0; i < p->n_states && !status; i++) status = state_fits(m, who, &tensors[i], &p->states[i], values);
  free(values);
  return status;
}

/* Refuses files with other tensors than the states of the program. */
static RtStatus file_fits(ApcModel *m, const char *path, const Safetensors *file, int64_t *symbols) {
  const Program *p = &m->artifact.program;
  StateTensor *tensors = calloc(p->n_states + 1u, sizeof *tensors);
  if (!tensors) return rt_error(&m->error, RT_FAILED, "out of memory");
  for (uint32_t i = 0; i < p->n_states; i++) {
    const SafetensorsEntry *t = safetensors_find(file, program_text(p, p->states[i].name));
    tensors[i].rank = t ? t->rank : -1;
    if (!t) continue;
    tensors[i].type = t->dtype;
    memcpy(tensors[i].dims, t->dims, sizeof *t->dims * (size_t)t->rank);
  }
  RtStatus status = host_states_symbols(m, path, tensors, symbols);
  free(tensors);
  if (!status && file->n != p->n_states)
    status = rt_error(&m->error, RT_BAD_INPUT, "%s has %zu tensors, but the program has %u states", path, file->n,
                      p->n_states);
  return status;
}

ApcStatus apc_load_states(ApcModel *m, const char *path) {
  int64_t symbols[PROGRAM_MAX_SYMBOLS];
  uint64_t mark;
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  RtStatus status = host_has_states(m);
  if (status) return host_status(m, status);
  HostFiles f = host_files_begin();
  Safetensors *file = safetensors_open_header(f.diags, path, 0, &mark);
  if (file) status = file_fits(m, path, file, symbols);
  ApcStatus result = host_status(m, status);
  if (file && !result) result = host_read_tensors(m, REQUEST_READ_STATES, m->entry, symbols, mark, path);
  if (file) safetensors_close(file);
  return host_files_end(m, f, path, result);
}
