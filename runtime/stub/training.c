/* runtime/stub/training.c - the options of a training program; see line.h. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "runtime/launch/regroup.h"
#include "runtime/stub/line.h"
#include "runtime/stub/stub.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/dataset.h"

/* Returns the last occurrence of an option; NULL if it was not given. */
const Given *line_last(const Line *line, LineOption id) {
  for (int i = line->n; i-- > 0;)
    if (line->given[i].id == id) return &line->given[i];
  return NULL;
}

const char *line_text(const Line *line, LineOption id) {
  const Given *g = line_last(line, id);
  return g ? g->value : NULL;
}

bool line_whole(const char *text, long min, long max, long *out) {
  char *end;
  errno = 0;
  *out = strtol(text, &end, 10);
  return *text && !*end && !errno && *out >= min && *out <= max;
}

/* Reads "90s", "10m" or "2h". */
static bool seconds(const char *text, double *out) {
  char *end;
  *out = strtod(text, &end);
  const double unit = strcmp(end, "ms") == 0  ? 1e-3
                      : strcmp(end, "s") == 0 ? 1
                      : strcmp(end, "m") == 0 ? 60
                      : strcmp(end, "h") == 0 ? 3600
                                              : 0;
  *out *= unit;
  return end != text && *out > 0 && *out <= 1e9;
}

/* Reads "3", "best" or "3,best". */
static bool read_keep(const char *text, Training *t) {
  char number[24];
  const char *comma = strchr(text, ',');
  const size_t n = comma ? (size_t)(comma - text) : strlen(text);
  t->keep_best = strcmp(comma ? comma + 1 : text, "best") == 0;
  if (!comma && t->keep_best) return true;
  if (n >= sizeof number || (comma && !t->keep_best)) return false;
  snprintf(number, sizeof number, "%.*s", (int)n, text);
  return line_whole(number, 1, 1000000, &t->keep);
}

/* Reads the options of checkpoints. */
static int read_checkpoints(const Line *line, Training *t) {
  static const LineOption needs[] = {OPT_every, OPT_keep, OPT_writes};
  const char *every = line_text(line, OPT_every), *keep = line_text(line, OPT_keep), *how = line_text(line, OPT_writes);
  if (every && !seconds(every, &t->every_s) && !line_whole(every, 1, LONG_MAX, &t->every))
    return stub_fail(APC_USAGE, "--every %s: expected a positive number of steps, or a time such as 90s, 10m or 2h",
                     every);
  if (t->every) t->every_s = 0;
  if (keep && !read_keep(keep, t))
    return stub_fail(APC_USAGE, "--keep %s: expected a positive number, best, or both as 3,best", keep);
  t->waits = how && strcmp(how, "step") == 0;
  if (how && !t->waits && strcmp(how, "background") != 0)
    return stub_fail(APC_USAGE, "--writes %s: expected background or step", how);
  for (size_t i = 0; i < sizeof needs / sizeof *needs && !t->checkpoint; i++)
    if (line_last(line, needs[i])) return stub_fail(APC_USAGE, "--%s needs --checkpoint DIR", line_name(needs[i]));
  if (t->keep_best && !line_last(line, OPT_eval))
    return stub_fail(APC_USAGE, "--keep %s: the best checkpoint needs --eval NAME=@FILE", keep);
  return 0;
}

/* Reads --elastic, which goes on from the checkpoint there is. */
static int read_elastic(const Line *line, Training *t) {
  const LineOption records = line_last(line, OPT_profile) ? OPT_profile : OPT_trace;
  t->elastic = line_last(line, OPT_elastic) != NULL;
  if (t->elastic && line_last(line, records))
    return stub_fail(APC_USAGE, "--%s cannot be combined with --elastic: its records end with the ranks",
                     line_name(records));
  const bool goes_on = t->elastic && t->checkpoint && (!t->resume || regroup_round() > 0);
  if (goes_on && checkpoint_exists(t->checkpoint)) t->resume = t->checkpoint;
  return 0;
}

/* Reads how data are read; --documents itself is read with the data. */
static int read_data(const Line *line, Training *t) {
  static const char *const names[] = LAST_BATCH_NAMES;
  const char *last = line_text(line, OPT_last_batch), *end = line_text(line, OPT_document_end),
             *readers = line_text(line, OPT_readers);
  long token = -1, n = 1;
  int k = 0;
  while (last && k < 3 && strcmp(last, names[k]) != 0) k++;
  if (k == 3) return stub_fail(APC_USAGE, "--last-batch %s: expected wrap, drop or pad", last);
  if (end && !line_whole(end, 0, LONG_MAX, &token))
    return stub_fail(APC_USAGE, "--document-end %s: expected the number of a token", end);
  if (end && !line_last(line, OPT_documents))
    return stub_fail(APC_USAGE,
                     "--document-end needs --documents NAME=KIND: an input of the model that takes positions, segments "
                     "or a mask, or its labels (--help lists the inputs)");
  if (readers && !line_whole(readers, 0, 64, &n))
    return stub_fail(APC_USAGE, "--readers %s: expected 0 to 64 threads", readers);
  t->data.last = (LastBatch)k;
  t->data.readers = t->eval.readers = (int)n;
  t->data.document_end = t->eval.document_end = token;
  return 0;
}

/* Reads all options of training except the data. */
int stub_training(const Line *line, Training *t) {
  const char *bits = line_text(line, OPT_bits), *evals = line_text(line, OPT_evals);
  const char *steps = line_text(line, OPT_steps), *epochs = line_text(line, OPT_epochs),
             *shuffle = line_text(line, OPT_shuffle), *skip = line_text(line, OPT_skip_nonfinite);
  long seed = 0;
  *t = (Training){.data = {.option = "--data", .shuffled = !shuffle || strcmp(shuffle, "none") != 0},
                  .eval = {.option = "--eval", .last = LAST_DROP, .pads_if = true},
                  .save = line_text(line, OPT_save),
                  .save_ema = line_text(line, OPT_save_ema),
                  .save_lora = line_text(line, OPT_save_lora),
                  .checkpoint = line_text(line, OPT_checkpoint),
                  .resume = line_text(line, OPT_resume)};
  if (steps && epochs) return stub_fail(APC_USAGE, "--steps and --epochs are given; one of them ends the run");
  if (steps && !line_whole(steps, 1, LONG_MAX, &t->steps))
    return stub_fail(APC_USAGE, "--steps %s: expected a positive number", steps);
  if (epochs && !line_whole(epochs, 1, LONG_MAX, &t->epochs))
    return stub_fail(APC_USAGE, "--epochs %s: expected a positive number", epochs);
  if (shuffle && t->data.shuffled && !line_whole(shuffle, 0, LONG_MAX, &seed))
    return stub_fail(APC_USAGE, "--shuffle %s: expected a number or none", shuffle);
  int code = read_checkpoints(line, t);
  if (!code) code = read_elastic(line, t);
  if (!code) code = read_data(line, t);
  if (code) return code;
  if (skip && !line_whole(skip, 0, LONG_MAX, &t->skip))
    return stub_fail(APC_USAGE, "--skip-nonfinite %s: expected a number", skip);
  if (bits && strcmp(bits, "16") != 0 && strcmp(bits, "32") != 0)
    return stub_fail(APC_USAGE, "--bits %s: expected 16 or 32", bits);
  if (evals && !line_whole(evals, 1, LONG_MAX, &t->evals))
    return stub_fail(APC_USAGE, "--evals %s: expected a positive number", evals);
  if (evals && !line_last(line, OPT_eval)) return stub_fail(APC_USAGE, "--evals needs --eval NAME=@FILE");
  t->data.token_bits = t->eval.token_bits = bits ? atoi(bits) : 0;
  t->data.seed = (uint64_t)seed;
  return 0;
}

/* Refuses a log that would replace a file of the run. */
int stub_check_log(ApcModel *m, const Training *t, const char *log) {
  ApcStatus status = apc_may_write(m, log);
  if (status) return stub_fail_model(m, status);
  for (int i = 0; i < t->data.n + t->eval.n; i++) {
    const char *text = i < t->data.n ? t->data.data[i] : t->eval.data[i - t->data.n];
    const char *file = dataset_file(text, NULL, NULL);
    if (file && file_same(file, log)) return stub_fail(APC_USAGE, "--log would write %s, which is read as data", log);
  }
  return 0;
}

/* Refuses options that need --steps. */
int stub_needs_steps(const Line *line) {
  static const LineOption of_training[] = {
      OPT_data,   OPT_last_batch, OPT_documents,      OPT_document_end, OPT_readers,    OPT_eval,     OPT_evals,
      OPT_bits,   OPT_shuffle,    OPT_save,           OPT_json,         OPT_checkpoint, OPT_every,    OPT_keep,
      OPT_writes, OPT_resume,     OPT_skip_nonfinite, OPT_log,          OPT_elastic,    OPT_save_ema, OPT_save_lora};
  for (size_t i = 0; i < sizeof of_training / sizeof *of_training; i++)
    if (line_last(line, of_training[i])) return stub_fail(APC_USAGE, "--%s needs --steps", line_name(of_training[i]));
  return 0;
}

bool line_trains(const Line *line) { return line_last(line, OPT_steps) || line_last(line, OPT_epochs); }

int stub_ended_meanwhile(const Line *line, const char *folder) {
  long steps = 0;
  const int64_t made = checkpoint_steps(folder);
  const char *wanted = line_text(line, OPT_steps);
  if (wanted && line_whole(wanted, 1, LONG_MAX, &steps) && made < steps)
    return stub_fail(APC_FAILED,
                     "elastic: another run trained in %s and has ended after step %" PRId64
                     " of %ld; start this one again to go on, or give it a folder of its own",
                     folder, made, steps);
  fprintf(stderr, "note: elastic: the run has ended\n");
  return 0;
}
