/* runtime/train/checkpoint.c - see checkpoint.h.  Training programs have entries for it (passes/train/train.c):
 * `states` and `weights` return all states and all weights, `restore` takes all states.  Every rank writes and reads
 * its parts of the tensors in files (apc_write_entry, apc_read_entry). */
#include "runtime/train/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/safetensors_sums.h"
#include "base/text.h"
#include "runtime/host/host.h"
#include "runtime/launch/regroup.h"

static const char format[] = "2"; /* from 2 on a checkpoint has checksums */

static const char *first_of(const Diags *d) { return d->n ? d->items[0].message : "it cannot be used"; }

static const char *path_in(Arena *a, const char *dir) {
  return text_ends_with(dir, ".safetensors") ? dir : arena_printf(a, "%s/checkpoint.safetensors", dir);
}

bool checkpoint_exists(const char *dir) {
  Arena *a = arena_new();
  struct stat st;
  bool found = stat(path_in(a, dir), &st) == 0;
  arena_free(a);
  return found;
}

/* ---- writing */

ApcStatus checkpoint_can_save(ApcModel *m, const char *file) {
  ApcStatus status = apc_may_write(m, file);
  if (status) return status;
  Arena *a = arena_new();
  Diags *diags = diags_new(a);
  FileWriter *w = file_writer_open_shared(diags, file, 0666, 0);
  ApcStatus code = w ? 0 : host_error(m, RT_BAD_INPUT, "%s: %s", file, first_of(diags));
  if (w) file_writer_abandon(w);
  arena_free(a);
  return code;
}

ApcStatus checkpoint_can_write(ApcModel *m, const char *dir) {
  if (text_ends_with(dir, ".safetensors"))
    return host_error(
        m, RT_USAGE,
        "%s: checkpoints are written to a folder (--checkpoint DIR); only --resume takes a file .safetensors", dir);
  if (mkdir(dir, 0777) != 0 && errno != EEXIST)
    return host_error(m, RT_BAD_INPUT, "the folder %s of the checkpoint cannot be made: %s", dir, strerror(errno));
  Arena *a = arena_new();
  ApcStatus code = checkpoint_can_save(m, path_in(a, dir));
  arena_free(a);
  return code;
}

/* Returns the file that is written first.  After ranks of a launcher have met again, an earlier rank 0 that is only
 * stopped may still hold the file that it was writing.  So each round writes a file of its own first. */
static const char *first_path(const ApcModel *m, Arena *a, const char *dir) {
  if (!regroup_round() || !m->launched) return path_in(a, dir);
  return arena_printf(a, "%s/elastic/checkpoint.%d", dir, regroup_round());
}

/* Gives the whole file its name. */
static ApcStatus name_whole(ApcModel *m, Arena *a, const char *dir) {
  const char *own = first_path(m, a, dir), *path = path_in(a, dir);
  if (strcmp(own, path) == 0 || rename(own, path) == 0) return APC_OK;
  return host_error(m, RT_BAD_INPUT, "%s: %s", path, strerror(errno));
}

/* "data x": the metadata key of the source of input x. */
static const char *key_of(Arena *a, const DataSource *s) { return arena_printf(a, "data %s", s->input); }

ApcStatus checkpoint_write(ApcModel *m, const char *dir, const CheckpointFacts *facts, HostWrite **w) {
  Arena *a = arena_new();
  const DataSource *sources;
  int n = 0, of = 0;
  ApcStatus code = facts->data ? dataset_sources(m, facts->data, &sources, &n) : APC_OK;
  const char **meta = ARENA_ARRAY(a, const char *, 2 * (n + 5));
  meta[of++] = "steps", meta[of++] = arena_printf(a, "%" PRId64, facts->steps);
  meta[of++] = "checkpoint", meta[of++] = format;
  meta[of++] = SAFETENSORS_SUMS, meta[of++] = "";
  if (!isnan(facts->eval_loss)) meta[of++] = "eval_loss", meta[of++] = arena_printf(a, "%.17g", facts->eval_loss);
  if (facts->data) {
    char *place = arena_alloc(a, ORDER_TEXT);
    dataset_place(facts->data, place, ORDER_TEXT);
    meta[of++] = "place", meta[of++] = place;
  }
  for (int i = 0; i < n; i++) meta[of++] = key_of(a, &sources[i]), meta[of++] = sources[i].text;
  const char *path = first_path(m, a, dir);
  if (!code && w) code = host_write_begin(m, "states", path, meta, of / 2, w);
  else if (!code) code = apc_write_entry(m, "states", path, meta, of / 2);
  if (!code && !w) code = name_whole(m, a, dir);
  arena_free(a);
  return code;
}

ApcStatus checkpoint_write_end(ApcModel *m, const char *dir, HostWrite *w, bool *whole) {
  ApcStatus code = host_write_end(m, w, whole);
  const RtError error = m->error;
  Arena *a = arena_new();
  const ApcStatus named = *whole ? name_whole(m, a, dir) : APC_OK;
  if (named) *whole = false;
  if (code) m->error = error;
  arena_free(a);
  return code ? code : named;
}

ApcStatus checkpoint_save(ApcModel *m, const char *entry, const char *file) {
  return apc_write_entry(m, entry, file, NULL, 0);
}

/* ---- reading */

/* Checks the file against its checksums; older files have none. */
static ApcStatus check_sums(ApcModel *m, const Safetensors *s, const TrainWatch *w) {
  const char *wrong = NULL;
  SafetensorsChecked found = safetensors_sums_check(s, &wrong);
  if (found == SUMS_NONE && !safetensors_meta(s, "checkpoint")) {
    trainer_say(w, true, "%s has no checksums; its contents were not checked", s->path);
    return APC_OK;
  }
  if (found == SUMS_NONE) found = SUMS_WRONG, wrong = "the header";
  if (found == SUMS_UNREADABLE) return host_error(m, RT_BAD_INPUT, "%s: %s", s->path, wrong);
  if (found == SUMS_WRONG)
    return host_error(m, RT_BAD_INPUT, "%s is damaged: %s%s%s does not match its checksum; nothing was read from it",
                      s->path, strcmp(wrong, "the header") == 0 ? "" : "'", wrong,
                      strcmp(wrong, "the header") == 0 ? "" : "'");
  uint64_t bytes = 0;
  for (size_t i = 0; i < s->n; i++) bytes += s->items[i].bytes;
  trainer_say(w, false, "%s: the header and all %zu tensors, %" PRIu64 " bytes, match their checksums", s->path, s->n,
              bytes);
  return APC_OK;
}

/* True if both sources have the same bytes; a file may have a new name. */
static bool same_content(const char *x, const char *y) {
  const char *a = strrchr(x, ','), *b = strrchr(y, ',');
  while (a && a > x && *--a != ',') continue;
  while (b && b > y && *--b != ',') continue;
  return a && b && strcmp(a, b) == 0;
}

/* Continues the data where the checkpoint was; files of earlier versions say only the steps. */
static void continue_data(Arena *a, const Safetensors *s, int64_t steps, Dataset *data, const TrainWatch *w) {
  char *other = arena_alloc(a, ORDER_TEXT);
  const char *place = safetensors_meta(s, "place");
  if (!data) return;
  if (place && dataset_go_to(data, steps, place, other, ORDER_TEXT)) {
    if (*other)
      trainer_say(w, true, "the data go on from their places in the checkpoint, but its run had %s", other + 2);
    return;
  }
  const bool found = dataset_skip(data, steps);
  if (!found)
    trainer_say(w, true,
                "%s: it has no valid place in the data, and a mixture is not followed through %" PRId64
                " steps; every source begins anew",
                s->path, steps);
  else if (place)
    trainer_say(w, true,
                "%s: the place in the data, '%.100s', is unknown; step %" PRId64
                " takes the rows that it has in a new run",
                s->path, place, steps + 1);
}

/* Warns about other data: the run continues, but not as an uninterrupted one would have. */
static ApcStatus check_data(ApcModel *m, Arena *a, const Safetensors *s, Dataset *data, const TrainWatch *w) {
  const DataSource *sources;
  int n = 0;
  ApcStatus code = data ? dataset_sources(m, data, &sources, &n) : APC_OK;
  for (int i = 0; i < n && !code; i++) {
    const char *before = safetensors_meta(s, key_of(a, &sources[i]));
    if (before && !same_content(before, sources[i].text))
      trainer_say(w, true, "--data %s: this is %s; the checkpoint was made with %s", sources[i].input, sources[i].text,
                  before);
  }
  return code;
}

static ApcStatus read_steps(ApcModel *m, const Safetensors *s, const Dataset *data, int64_t *steps) {
  const int64_t batch = data && dataset_batch(data) > 0 ? dataset_batch(data) : 1;
  const char *made = safetensors_meta(s, "steps");
  char *end = NULL;
  errno = 0;
  *steps = made ? strtoll(made, &end, 10) : -1;
  if (*steps < 0 || *end || errno)
    return host_error(m, RT_BAD_INPUT, "%s is not a checkpoint: it has no number of steps", s->path);
  if (*steps <= ORDER_MOST / batch) return APC_OK;
  return host_error(m, RT_BAD_INPUT, "%s: its number of steps, %s, is too large for steps of %" PRId64 " rows", s->path,
                    made, batch);
}

ApcStatus checkpoint_read(ApcModel *m, const char *dir, int64_t *steps, Dataset *data, const TrainWatch *watch) {
  Arena *a = arena_new();
  Diags *diags = diags_new(a);
  const char *file = path_in(a, dir);
  Safetensors *s = safetensors_open_header(diags, file, 0, NULL);
  ApcStatus code = s ? read_steps(m, s, data, steps) : host_error(m, RT_BAD_INPUT, "%s: %s", file, first_of(diags));
  if (!code) code = check_sums(m, s, watch);
  if (!code) code = check_data(m, a, s, data, watch);
  if (!code) continue_data(a, s, *steps, data, watch);
  ApcStatus status = code ? APC_OK : apc_read_entry(m, "restore", file);
  if (status) code = status;
  if (s) safetensors_close(s);
  arena_free(a);
  return code;
}

int64_t checkpoint_steps(const char *dir) {
  Arena *a = arena_new();
  Safetensors *s = safetensors_open_header(diags_new(a), path_in(a, dir), 0, NULL);
  const char *made = s ? safetensors_meta(s, "steps") : NULL;
  const int64_t steps = made ? strtoll(made, NULL, 10) : 0;
  if (s) safetensors_close(s);
  arena_free(a);
  return steps;
}

/* ---- for programs with a loop of their own */

/* The entries of a training program. */
static ApcStatus begin(ApcModel *m) {
  uint32_t entry;
  if (!host_begin(m)) return host_status(m, m->error.status);
  if (host_find_entry(m, "states", &entry) == RT_OK && host_find_entry(m, "restore", &entry) == RT_OK) return APC_OK;
  m->error = (RtError){0};
  return host_error(m, RT_USAGE, "this is not a training program; compile the model with --train LOSS");
}

ApcStatus apc_write_checkpoint(ApcModel *m, const char *dir, int64_t steps) {
  ApcStatus code = begin(m);
  if (!code && steps < 0) code = host_error(m, RT_USAGE, "the number of steps is negative");
  if (!code) code = checkpoint_can_write(m, dir);
  return code ? code : checkpoint_write(m, dir, &(CheckpointFacts){.steps = steps, .eval_loss = NAN}, NULL);
}

ApcStatus apc_read_checkpoint(ApcModel *m, const char *dir, int64_t *steps) {
  const TrainWatch none = {0};
  ApcStatus code = begin(m);
  return code ? code : checkpoint_read(m, dir, steps, NULL, &none);
}
