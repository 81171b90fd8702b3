/* runtime/host/state_data.c - states as arrays in memory of the caller: boxes of one state, and copies of all.
 *
 * The box and its values lie in the I/O area after its data, and every rank moves its part (runtime/exec/state_file.c).
 * So one copy more than with files exists for a moment.  A copy of all states has whole tensors, as a file has, and
 * fits any program with the same states.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/host/host.h"

struct ApcStates {
  uint32_t n;
  StateTensor *tensors;
  char **names, **values;
};

static uint64_t bytes_of(const StateTensor *t, const int64_t *extent) {
  uint64_t bytes = dtype_bytes(t->type);
  for (int d = 0; d < t->rank; d++) bytes *= (uint64_t)extent[d];
  return bytes;
}

/* Starts the ranks, and makes room for a box of so many bytes. */
static RtStatus make_room(ApcModel *m, uint64_t bytes) {
  const uint64_t align = 64;
  RtStatus status = host_start(m);
  if (status) return status;
  m->box = (host_inputs_end(m) + align - 1) / align * align;
  return host_io(m, m->box + sizeof(RequestState) + bytes);
}

/* Moves a box: to `to`, or from `from`. */
static RtStatus move_state(ApcModel *m, const HostStates *sizes, const RequestState *box, void *to, const void *from,
                           uint64_t bytes) {
  RtStatus status = make_room(m, bytes);
  if (status) return status;
  memcpy(m->io + m->box, box, sizeof *box);
  if (from && bytes) memcpy(m->io + m->box + sizeof *box, from, bytes);
  status = host_request(m, to ? REQUEST_GET_STATE : REQUEST_SET_STATE, sizes->entry, sizes->symbols,
                        m->artifact.program.n_symbols);
  if (!status && to && bytes) memcpy(to, m->io + m->box + sizeof *box, bytes);
  return status;
}

/* Begins a call that needs values of states. */
static RtStatus begin(ApcModel *m) {
  if (!host_begin(m)) return m->error.status;
  if (m->launched)
    return rt_error(&m->error, RT_UNSUPPORTED, "values of states are not available with the ranks of a launcher");
  return host_has_states(m);
}

/* ---- boxes */

static RtStatus find_state(ApcModel *m, const char *name, uint32_t *out, StateTensor *shape) {
  const Program *p = &m->artifact.program;
  RtStatus status = begin(m);
  if (status) return status;
  for (*out = 0; *out < p->n_states; ++*out)
    if (strcmp(program_text(p, p->states[*out].name), name) == 0) return host_state_shape(m, *out, shape);
  return rt_error(&m->error, RT_USAGE, "there is no state '%s'", name);
}

ApcStatus apc_state_shape(ApcModel *m, const char *name, int *rank, int64_t dims[APC_MAX_RANK], size_t *bytes) {
  uint32_t i;
  StateTensor t = {0};
  RtStatus status = find_state(m, name, &i, &t);
  if (status) return host_status(m, status);
  *rank = t.rank;
  memcpy(dims, t.dims, sizeof *dims * APC_MAX_RANK);
  *bytes = bytes_of(&t, t.dims);
  return APC_OK;
}

/* Makes the box of a call, and checks it: start NULL is 0, extents NULL is all. */
static RtStatus make_box(ApcModel *m, const char *name, const StateTensor *t, const int64_t *start,
                         const int64_t *extents, size_t bytes, RequestState *out) {
  for (int d = 0; d < t->rank; d++) {
    int64_t at = out->start[d] = start ? start[d] : 0;
    int64_t n = out->extent[d] = extents ? extents[d] : at < 0 ? 0 : t->dims[d] - at;
    if (at < 0 || n < 0 || at > t->dims[d] || n > t->dims[d] - at)
      return rt_error(&m->error, RT_BAD_INPUT, "state '%s': %lld elements from %lld on in dimension %d, which has %lld",
                      name, (long long)n, (long long)at, d, (long long)t->dims[d]);
  }
  if (bytes == bytes_of(t, out->extent)) return RT_OK;
  return rt_error(&m->error, RT_USAGE, "state '%s': these elements have %llu bytes, not %zu", name,
                  (unsigned long long)bytes_of(t, out->extent), bytes);
}

static ApcStatus move_named(ApcModel *m, const char *name, const int64_t *start, const int64_t *extents, void *to,
                            const void *from, size_t bytes) {
  StateTensor t = {0};
  RequestState box = {0};
  RtStatus status = find_state(m, name, &box.state, &t);
  if (!status && bytes && !to && !from) status = rt_error(&m->error, RT_USAGE, "state '%s': there is no data", name);
  if (!status) status = make_box(m, name, &t, start, extents, bytes, &box);
  if (status || bytes == 0) return host_status(m, status);
  const HostStates sizes = m->states;
  return host_status(m, move_state(m, &sizes, &box, to, from, bytes));
}

ApcStatus apc_read_state(ApcModel *m, const char *name, const int64_t *start, const int64_t *extents, void *data,
                         size_t bytes) {
  return move_named(m, name, start, extents, data, NULL, bytes);
}

ApcStatus apc_write_state(ApcModel *m, const char *name, const int64_t *start, const int64_t *extents, const void *data,
                          size_t bytes) {
  return move_named(m, name, start, extents, NULL, data, bytes);
}

/* ---- all states */

void apc_free_states(ApcStates *c) {
  if (!c) return;
  for (uint32_t i = 0; i < c->n; i++) free(c->names[i]), free(c->values[i]);
  free(c->names);
  free(c->values);
  free(c->tensors);
  free(c);
}

static RtStatus copy_state(ApcModel *m, uint32_t i, ApcStates *c) {
  const Program *p = &m->artifact.program;
  const HostStates sizes = m->states;
  RequestState box = {.state = i};
  RtStatus status = host_state_shape(m, i, &c->tensors[i]);
  if (status) return status;
  uint64_t bytes = bytes_of(&c->tensors[i], c->tensors[i].dims);
  c->names[i] = strdup(program_text(p, p->states[i].name));
  c->values[i] = malloc(bytes + 1);
  if (!c->names[i] || !c->values[i]) return rt_error(&m->error, RT_FAILED, "out of memory for a copy of the states");
  memcpy(box.extent, c->tensors[i].dims, sizeof *box.extent * (size_t)c->tensors[i].rank);
  return move_state(m, &sizes, &box, c->values[i], NULL, bytes);
}

ApcStatus apc_copy_states(ApcModel *m, ApcStates **out) {
  *out = NULL;
  RtStatus status = begin(m);
  if (status) return host_status(m, status);
  uint32_t n = m->artifact.program.n_states;
  ApcStates *c = calloc(1, sizeof *c);
  if (c) *c = (ApcStates){n, calloc(n, sizeof *c->tensors), calloc(n, sizeof *c->names), calloc(n, sizeof *c->values)};
  bool made = c && c->tensors && c->names && c->values;
  if (c && !made) c->n = 0;
  if (!made) status = rt_error(&m->error, RT_FAILED, "out of memory for a copy of the states");
  for (uint32_t i = 0; i < n && !status; i++) status = copy_state(m, i, c);
  if (status) apc_free_states(c);
  else *out = c;
  return host_status(m, status);
}

/* Returns the place of the state of that name in a copy; c->n if it has none. */
static uint32_t place_in(const ApcStates *c, const char *name) {
  uint32_t i = 0;
  while (i < c->n && strcmp(c->names[i], name) != 0) i++;
  return i;
}

/* Makes the states initial after a failure, as some may be those of the copy and others not. */
static RtStatus give_up(ApcModel *m) {
  const RtError why = m->error;
  if (m->session) host_request(m, REQUEST_RESET, 0, NULL, 0);
  return rt_error(&m->error, why.status, "%s; the states are initial again", why.text);
}

/* The first request makes all states anew, with the sizes of the copy.  Before it the host does all that may fail. */
static RtStatus restore(ApcModel *m, const ApcStates *c, StateTensor *tensors) {
  const Program *p = &m->artifact.program;
  HostStates sizes = {.made = true, .entry = m->entry};
  for (uint32_t i = 0; i < p->n_states; i++) {
    uint32_t from = place_in(c, program_text(p, p->states[i].name));
    tensors[i] = from < c->n ? c->tensors[from] : (StateTensor){.rank = -1};
  }
  RtStatus status = host_states_symbols(m, "the copy", tensors, sizes.symbols);
  if (!status && c->n != p->n_states)
    status = rt_error(&m->error, RT_BAD_INPUT, "the copy has %u states, but the program has %u", c->n, p->n_states);
  uint64_t most = 0;
  for (uint32_t i = 0; i < p->n_states && !status; i++) {
    uint64_t bytes = bytes_of(&tensors[i], tensors[i].dims);
    most = bytes > most ? bytes : most;
  }
  if (!status) status = make_room(m, most);
  if (status) return status;
  for (uint32_t i = 0; i < p->n_states && !status; i++) {
    RequestState box = {.state = i, .anew = i == 0};
    memcpy(box.extent, tensors[i].dims, sizeof *box.extent * (size_t)tensors[i].rank);
    status = move_state(m, &sizes, &box, NULL, c->values[place_in(c, program_text(p, p->states[i].name))],
                        bytes_of(&tensors[i], tensors[i].dims));
  }
  return status ? give_up(m) : RT_OK;
}

ApcStatus apc_restore_states(ApcModel *m, const ApcStates *c) {
  RtStatus status = begin(m);
  StateTensor *tensors = status ? NULL : calloc(m->artifact.program.n_states, sizeof *tensors);
  if (!status && !tensors) status = rt_error(&m->error, RT_FAILED, "out of memory");
  if (!status) status = restore(m, c, tensors);
  free(tensors);
  return host_status(m, status);
}
