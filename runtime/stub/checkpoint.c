/* runtime/stub/checkpoint.c - see checkpoint.h.  Training programs have entries for it (passes/train/train.c): `states`
 * and `weights` give what there is, `restore` takes all states.  Their tensors are in files, of which every rank writes
 * and reads its parts (apc_write_entry, apc_read_entry). */
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
  FileWriter *w = file_writer_open_shared(diags, file, 0666, 0);
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

int checkpoint_write(ApcModel *m, const char *dir, int64_t steps) {
  Arena *a = arena_new();
  const char *const made[] = {"steps", arena_printf(a, "%" PRId64, steps)};
  ApcStatus status = apc_write_entry(m, "states", path_in(a, dir), made, 1);
  arena_free(a);
  return status ? stub_fail_model(m, status) : 0;
}

int checkpoint_save(ApcModel *m, const char *file) {
  ApcStatus status = apc_write_entry(m, "weights", file, NULL, 0);
  return status ? stub_fail_model(m, status) : 0;
}

/* ---- reading */

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
  const char *file = path_in(a, dir);
  Safetensors *s = safetensors_open_header(diags, file, 0, NULL);
  int code = s ? read_steps(s, steps) : stub_fail(APC_BAD_INPUT, "%s: %s", file, first_of(diags));
  ApcStatus status = code ? APC_OK : apc_read_entry(m, "restore", file);
  if (status) code = stub_fail_model(m, status);
  if (s) safetensors_close(s);
  arena_free(a);
  return code;
}
