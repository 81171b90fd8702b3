/* runtime/stub/checkpoint.c - see checkpoint.h.  Training programs have entries for it (passes/train/train.c): `states`
 * and `weights` give what there is, `restore` takes all states. */
#include "runtime/stub/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/safetensors.h"

static const char *first_of(const Diags *d) { return d->n ? d->items[0].message : "it cannot be used"; }

static const char *path_in(Arena *a, const char *dir) { return arena_printf(a, "%s/checkpoint.safetensors", dir); }

/* ---- writing */

int checkpoint_can_save(ApcModel *m, const char *file) {
  ApcStatus status = apc_may_write(m, file);
  if (status) return stub_fail_model(m, status);
  Arena *a = arena_new();
  Diags *diags = diags_new(a);
  FileWriter *w = file_writer_open(diags, file, 0666);
  int code = w ? 0 : stub_fail(APC_BAD_INPUT, "%s: %s", file, first_of(diags));
  if (w) file_writer_abandon(w);
  arena_free(a);
  return code;
}

int checkpoint_can_write(ApcModel *m, const char *dir) {
  if (mkdir(dir, 0777) != 0 && errno != EEXIST)
    return stub_fail(APC_BAD_INPUT, "--checkpoint %s: %s", dir, strerror(errno));
  Arena *a = arena_new();
  int code = checkpoint_can_save(m, path_in(a, dir));
  arena_free(a);
  return code;
}

/* The outputs of the selected entry, of its last run. */
static ApcStatus outputs_of(ApcModel *m, NamedTensor *list) {
  ApcStatus status = APC_OK;
  for (int i = 0; i < apc_outputs(m) && !status; i++) {
    ApcTensorInfo info;
    int rank;
    int64_t dims[APC_MAX_RANK];
    size_t bytes;
    const void *data;
    status = apc_output_info(m, i, &info);
    if (!status) status = apc_output_shape(m, info.name, &rank, dims, &bytes);
    if (!status) status = apc_output_data(m, info.name, &data);
    if (!status) list[i] = (NamedTensor){info.name, tensor_view((DType)info.type, rank, dims, data)};
  }
  return status;
}

/* What an entry gives, as a file. */
static int write_entry(ApcModel *m, Arena *a, const char *entry, const char *file, const SafetensorsMeta *meta) {
  Diags *diags = diags_new(a);
  const char *before = apc_entry_name(m, 0);
  ApcStatus status = apc_select(m, entry);
  if (!status) status = apc_run(m, NULL);
  NamedTensor *list = ARENA_ARRAY(a, NamedTensor, apc_outputs(m));
  if (!status) status = outputs_of(m, list);
  int code = status ? stub_fail_model(m, status) : 0;
  if (!code && !safetensors_write(diags, file, list, (size_t)apc_outputs(m), meta, meta ? 1 : 0))
    code = stub_fail(APC_BAD_INPUT, "%s: %s", file, first_of(diags));
  status = code ? APC_OK : apc_select(m, before);
  return status ? stub_fail_model(m, status) : code;
}

int checkpoint_write(ApcModel *m, const char *dir, int64_t steps) {
  Arena *a = arena_new();
  SafetensorsMeta made = {"steps", arena_printf(a, "%" PRId64, steps)};
  int code = write_entry(m, a, "states", path_in(a, dir), &made);
  arena_free(a);
  return code;
}

int checkpoint_save(ApcModel *m, const char *file) {
  Arena *a = arena_new();
  int code = write_entry(m, a, "weights", file, NULL);
  arena_free(a);
  return code;
}

/* ---- reading */

static int bind_states(ApcModel *m, Safetensors *s, Tensor *tensors) {
  for (int i = 0; i < apc_inputs(m); i++) {
    ApcTensorInfo info;
    ApcStatus status = apc_input_info(m, i, &info);
    const SafetensorsEntry *e = status ? NULL : safetensors_find(s, info.name);
    if (!status && !e) return stub_fail(APC_BAD_INPUT, "%s: there is no state '%s' in it", s->path, info.name);
    if (e && !safetensors_read(s, e, &tensors[i]))
      return stub_fail(APC_BAD_INPUT, "%s: %s", s->path, first_of(s->diags));
    if (!status) status = apc_bind_input(m, info.name, (ApcType)e->dtype, e->rank, e->dims, tensors[i].data);
    if (status) return stub_fail_model(m, status);
  }
  if (s->n == (size_t)apc_inputs(m)) return 0;
  return stub_fail(APC_BAD_INPUT, "%s has %zu states, this program has %d: it trains another model, or otherwise",
                   s->path, s->n, apc_inputs(m));
}

static int read_steps(const Safetensors *s, int64_t *steps) {
  const char *made = safetensors_meta(s, "steps");
  char *end = NULL;
  errno = 0;
  *steps = made ? strtoll(made, &end, 10) : -1;
  if (*steps >= 0 && !*end && !errno) return 0;
  return stub_fail(APC_BAD_INPUT, "%s is no checkpoint: it does not say how many steps were made", s->path);
}

int checkpoint_read(ApcModel *m, const char *dir, int64_t *steps) {
  Arena *a = arena_new();
  Diags *diags = diags_new(a);
  const char *file = path_in(a, dir), *before = apc_entry_name(m, 0);
  Safetensors *s = safetensors_open(diags, file);
  int code = s ? read_steps(s, steps) : stub_fail(APC_BAD_INPUT, "%s: %s", file, first_of(diags));
  ApcStatus status = code ? APC_OK : apc_select(m, "restore");
  int n = code || status ? 0 : apc_inputs(m);
  Tensor *tensors = ARENA_ARRAY(a, Tensor, n);
  if (!code && !status) code = bind_states(m, s, tensors);
  if (!code && !status) status = apc_run(m, NULL);
  if (!code && !status) status = apc_select(m, before);
  if (status) code = stub_fail_model(m, status);
  for (int i = 0; i < n; i++) tensor_free(&tensors[i]);
  if (s) safetensors_close(s);
  arena_free(a);
  return code;
}
