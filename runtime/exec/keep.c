/* runtime/exec/keep.c - saves and restores the values that a request changes: trained weights and states.
 *
 * The copy lies in host memory and takes as many bytes as this rank's weights and states; that of states in a file lies
 * in the file (away.h).  It allows undoing a request that must leave no trace (a training step whose loss is not
 * finite).  Without REQUEST_KEEP nothing is copied.
 */
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "runtime/exec/internal.h"

typedef struct Copy {
  char *at;
  bool back;
} Copy;

static RtStatus count(Executor *e, const TrainedPart *part, void *context, RtError *error) {
  (void)e, (void)error;
  *(uint64_t *)context += part->bytes;
  return RT_OK;
}

static RtStatus move(Executor *e, Copy *c, char *here, uint64_t bytes, RtError *error) {
  RtStatus status = RT_OK;
  if (e->host_memory) memcpy(c->back ? here : c->at, c->back ? c->at : here, bytes);
  else
    status = c->back ? e->ops->upload(e->device, here, c->at, bytes, error)
                     : e->ops->read(e->device, c->at, here, bytes, error);
  c->at += bytes;
  if (exec_beats(e)) atomic_fetch_add(exec_beats(e), 1);
  return status;
}

static RtStatus move_weight(Executor *e, const TrainedPart *part, void *context, RtError *error) {
  return move(e, context, part->at, part->bytes, error);
}

static RtStatus move_all(Executor *e, bool back, RtError *error) {
  Copy c = {e->kept.data, back};
  RtStatus status = exec_each_trained(e, move_weight, &c, error);
  if (!status && e->kept.has_states) status = move(e, &c, e->spaces[SPACE_STATE].data, e->kept.state_bytes, error);
  if (!status && e->kept.has_states) status = back ? exec_away_back(e, error) : exec_away_keep(e, error);
  return status;
}

/* Copies the sizes of the states, which may be others when they are restored. */
static void copy_sizes(const Executor *e, int64_t *to, const int64_t *from) {
  memcpy(to, from, sizeof *to * EXEC_STATE_VALUES * (e->p->n_states + 1u));
}

RtStatus exec_keep(Executor *e, RtError *error) {
  uint64_t bytes = e->has_states ? e->spaces[SPACE_STATE].bytes : 0;
  RtStatus status = exec_each_trained(e, count, &bytes, error);
  if (status) return status;
  if (bytes != e->kept.bytes || !e->kept.data) {
    free(e->kept.data);
    e->kept.bytes = bytes;
    e->kept.data = malloc(bytes + 1);
  }
  if (!e->kept.state_values)
    e->kept.state_values = malloc(sizeof *e->state_values * EXEC_STATE_VALUES * (e->p->n_states + 1u));
  if (!e->kept.data || !e->kept.state_values)
    return rt_error(error, RT_FAILED, "out of memory: %llu bytes for a copy of weights and states",
                    (unsigned long long)bytes);
  e->kept.has_states = e->has_states;
  e->kept.state_bytes = e->has_states ? e->spaces[SPACE_STATE].bytes : 0;
  copy_sizes(e, e->kept.state_values, e->state_values);
  return move_all(e, false, error);
}

/* States that did not exist at exec_keep become initial again.  The others get the sizes that they had; their memory
 * never shrinks. */
RtStatus exec_back(Executor *e, RtError *error) {
  if (!e->kept.data || !e->kept.state_values) return rt_error(error, RT_INTERNAL, "nothing was kept");
  e->has_states = e->kept.has_states;
  copy_sizes(e, e->state_values, e->kept.state_values);
  return move_all(e, true, error);
}

static bool all_finite(DType type, const char *data, uint64_t bytes) {
  const size_t step = dtype_bytes(type);
  double x = 0;
  for (uint64_t i = 0; i < bytes && x - x == 0; i += step) x = dtype_load_f(type, data + i);
  return x - x == 0;
}

static RtStatus look(Executor *e, const TrainedPart *part, void *context, RtError *error) {
  (void)context;
  if (e->not_finite && e->not_finite <= part->param) return RT_OK;
  char *host = e->host_memory ? part->at : malloc(part->bytes + 1);
  if (!host) return rt_error(error, RT_FAILED, "out of memory");
  RtStatus status = e->host_memory ? RT_OK : e->ops->read(e->device, host, part->at, part->bytes, error);
  DType type = (DType)e->p->params[part->param].dtype;
  if (!status && dtype_is_float(type) && !all_finite(type, host, part->bytes)) e->not_finite = part->param + 1;
  if (!e->host_memory) free(host);
  if (exec_beats(e)) atomic_fetch_add(exec_beats(e), 1);
  return status;
}

RtStatus exec_look(Executor *e, RtError *error) {
  e->not_finite = 0;
  return exec_each_trained(e, look, NULL, error);
}
