/* runtime/train/checkpoint_series.c - see checkpoint_series.h.
 *
 * Of the numbered files, only those with at most the steps of the checkpoint just written are counted and removed:
 * higher numbers belong to a run that went further.
 */
#include "runtime/train/checkpoint_series.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/safetensors.h"

static const char newest[] = "checkpoint.safetensors", best[] = "best.safetensors", fresh[] = "linked.part";

enum { PATH = 4096 };

static void path_of(char *out, const Series *s, const char *name) {
  snprintf(out, PATH, "%s/%s", s->t->checkpoint, name);
}

/* ---- names */

/* Gives a file of the folder another name, in one instant; *why: the call that failed. */
static bool name_also(const char *dir, const char *from, const char *to) {
  char old[PATH], temporary[PATH], path[PATH];
  snprintf(old, PATH, "%s/%s", dir, from);
  snprintf(temporary, PATH, "%s/%s", dir, fresh);
  snprintf(path, PATH, "%s/%s", dir, to);
  unlink(temporary); /* of a killed run */
  if (link(old, temporary) != 0) return false;
  bool ok = rename(temporary, path) == 0;
  int why = errno;
  unlink(temporary); /* rename leaves it if both names were one file */
  errno = why;
  return ok;
}

/* Returns the steps in "checkpoint-STEPS.safetensors"; -1 for other names. */
static int64_t steps_in(const char *name) {
  char again[64];
  long long steps = -1;
  if (sscanf(name, "checkpoint-%lld.safetensors", &steps) != 1 || steps < 0) return -1;
  snprintf(again, sizeof again, "checkpoint-%lld.safetensors", steps);
  return strcmp(name, again) == 0 ? steps : -1;
}

/* Finds the numbered checkpoint with the fewest steps, and how many have at most `made`. */
static bool first_of(const char *dir, int64_t made, int64_t *first, long *n) {
  DIR *d = opendir(dir);
  *first = INT64_MAX, *n = 0;
  if (!d) return false;
  for (const struct dirent *e; (e = readdir(d));) {
    const int64_t steps = steps_in(e->d_name);
    if (steps < 0 || steps > made) continue;
    ++*n;
    if (steps < *first) *first = steps;
  }
  return closedir(d) == 0;
}

static bool remove_old(const Series *s, int64_t made) {
  int64_t first;
  long n;
  char path[PATH], name[64];
  for (;;) {
    if (!first_of(s->t->checkpoint, made, &first, &n)) return false;
    if (n <= s->t->keep) return true;
    snprintf(name, sizeof name, "checkpoint-%" PRId64 ".safetensors", first);
    path_of(path, s, name);
    if (unlink(path) != 0 && errno != ENOENT) return false;
  }
}

static void sync_folder(const char *dir) {
  int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)fsync(fd); /* some file systems cannot: then only a power failure can lose the names */
  close(fd);
}

static void note_whole(Series *s) {
  s->whole.begun = s->begun, s->whole.begun_s = s->begun_s;
  if (s->pending_best) s->whole.best = s->best_begun;
}

/* Gives the newest checkpoint its other names, and removes old ones. */
static ApcStatus name_newest(Series *s) {
  char name[64];
  bool ok = true;
  if (s->t->keep) {
    snprintf(name, sizeof name, "checkpoint-%" PRId64 ".safetensors", s->begun);
    ok = name_also(s->t->checkpoint, newest, name) && remove_old(s, s->begun);
  }
  if (ok && s->pending_best) ok = name_also(s->t->checkpoint, newest, best);
  if (!ok)
    return host_error(s->m, RT_BAD_INPUT, "%s: checkpoints cannot be kept there: %s", s->t->checkpoint,
                      strerror(errno));
  if (s->t->keep || s->pending_best) sync_folder(s->t->checkpoint);
  note_whole(s);
  return APC_OK;
}

ApcStatus series_can_write(ApcModel *m, const Training *t) {
  char path[PATH];
  ApcStatus code = checkpoint_can_write(m, t->checkpoint);
  if (code || (!t->keep && !t->keep_best)) return code;
  snprintf(path, PATH, "%s/linked.try", t->checkpoint);
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  bool ok = fd >= 0 && name_also(t->checkpoint, "linked.try", "linked.tried");
  int why = errno;
  if (fd >= 0) close(fd), unlink(path);
  snprintf(path, PATH, "%s/linked.tried", t->checkpoint);
  unlink(path);
  if (ok) return APC_OK;
  return host_error(m, RT_BAD_INPUT, "--keep: the folder %s does not take a second name for a file (a hard link): %s",
                    t->checkpoint, strerror(why));
}

/* ---- the best */

/* Reads the loss of the best checkpoint of the run that is resumed; NaN if there is none, or after a warning. */
static double loss_before(const Series *s) {
  char path[PATH];
  double loss = NAN;
  Arena *a = arena_new();
  path_of(path, s, best);
  const bool found = access(path, F_OK) == 0;
  Diags *diags = diags_new(a);
  Safetensors *file = found ? safetensors_open_header(diags, path, 0, NULL) : NULL;
  const char *text = file ? safetensors_meta(file, "eval_loss") : NULL, *why = "it has no evaluation loss";
  char *end = NULL;
  if (text) loss = strtod(text, &end);
  if (text && (end == text || *end)) loss = NAN;
  if (found && !file) why = diags->n ? diags->items[0].message : "it cannot be read";
  if (found && isnan(loss))
    trainer_say(&s->t->watch, true, "%s does not count as the best checkpoint: %s; the next evaluation replaces it",
                path, why);
  if (file) safetensors_close(file);
  arena_free(a);
  return loss;
}

ApcStatus series_begin(Series *s, ApcModel *m, const Training *t, Dataset *data, int64_t made) {
  *s = (Series){.m = m, .t = t, .data = data, .begun_s = host_now(), .best = NAN, .eval_loss = NAN};
  s->begun = t->resume ? made : -1;
  if (t->checkpoint && t->keep_best && t->resume) s->best = loss_before(s);
  s->whole.begun = s->begun, s->whole.begun_s = s->begun_s, s->whole.best = s->best;
  return APC_OK;
}

void series_evaluated(Series *s, double loss) {
  s->eval_loss = loss;
  if (!s->t->checkpoint || !s->t->keep_best || s->best <= loss) return;
  s->best = loss, s->due = true;
}

/* ---- writing */

static void say_given_up(const Series *s, const char *why) {
  trainer_say(&s->t->watch, true, "the checkpoint of step %" PRId64 " was given up: %s", s->begun, why);
}

static ApcStatus end_pending(Series *s) {
  HostWrite *w = s->pending;
  bool whole = false;
  s->pending = NULL;
  const ApcStatus code = w ? checkpoint_write_end(s->m, s->t->checkpoint, w, &whole) : APC_OK;
  const RtError error = s->m->error;
  const ApcStatus named = whole ? name_newest(s) : APC_OK;
  if (code && !whole) say_given_up(s, error.text);
  if (code) s->m->error = error;
  return code ? code : named;
}

static ApcStatus write_one(Series *s, int64_t made, bool waits) {
  ApcStatus code = end_pending(s);
  if (code) return code;
  const CheckpointFacts facts = {made, s->data, s->eval_loss};
  s->begun = made, s->begun_s = host_now();
  s->pending_best = s->due, s->due = false, s->best_begun = s->best;
  code = checkpoint_write(s->m, s->t->checkpoint, &facts, waits ? NULL : &s->pending);
  return code || !waits ? code : name_newest(s);
}

static bool is_due(const Series *s, int64_t made) {
  const Training *t = s->t;
  return s->due || (t->every && made % t->every == 0) || (t->every_s > 0 && host_now() - s->begun_s >= t->every_s);
}

ApcStatus series_step(Series *s, int64_t made) {
  ApcStatus code = s->pending && !host_write_runs(s->m) ? end_pending(s) : APC_OK;
  if (!code && s->t->checkpoint && is_due(s, made)) code = write_one(s, made, s->t->waits);
  if (!code) s->eval_loss = NAN;
  return code;
}

ApcStatus series_wait(Series *s) { return end_pending(s); }

void series_lost(Series *s, int64_t made) {
  const bool again = s->begun == made && !isnan(s->eval_loss), broken = s->begun != s->whole.begun;
  if (s->pending) say_given_up(s, "ranks were lost while they wrote it");
  host_write_drop(s->pending);
  s->pending = NULL;
  if (broken && s->pending_best && !s->due) {
    s->due = again;
    if (!again) s->best = s->whole.best;
  }
  s->pending_best = false;
  s->begun = s->whole.begun, s->begun_s = s->whole.begun_s;
}

ApcStatus series_end(Series *s, int64_t made, bool last, ApcStatus code) {
  if (!code) code = end_pending(s);
  if (!code && s->t->checkpoint && last && (s->begun != made || s->due)) code = write_one(s, made, true);
  const RtError error = s->m->error;
  if (s->pending) { /* an error after it: it is right, and stays if the ranks have written it */
    s->m->error = (RtError){0};
    (void)end_pending(s);
    s->m->error = error;
  }
  return code;
}
