/* runtime/train/train.c - the loop of a training program: a request per step; see train.h.
 *
 * The program's entry is one step (passes/train/train.h): it takes rows of the data, and `step`, and returns `loss`,
 * `grad_norm` and `lr`; weights and moments stay with the ranks.  A request to stop, at any rank, ends the loop after
 * the current step; then weights and a checkpoint are written as at any other end.
 *
 * A step whose loss or gradient norm is not finite ends the run before anything is written.  If such steps may be
 * skipped, the ranks save the values that a step changes before it, so that it can be undone.
 */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "runtime/train/checkpoint_series.h"
#include "runtime/train/dataset.h"
#include "runtime/train/evaluation.h"
#include "runtime/host/host.h"

void trainer_say(const TrainWatch *w, bool warning, const char *format, ...) {
  char text[4096];
  va_list args;
  if (!w->say) return;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  w->say(w->context, warning, text);
}

/* True if this or another rank was asked to stop. */
static bool is_asked(const ApcModel *m, const TrainWatch *w) {
  return (w->asked && w->asked(w->context)) || apc_asked(m);
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

enum { LOSS, GRAD_NORM, LR, RESULTS };
static const char *const results[RESULTS] = {"loss", "grad_norm", "lr"};

/* Returns x; a NaN without its sign. */
static double plain(double x) { return isnan(x) ? (double)NAN : x; }

/* ---- steps that are not finite */

/* State of the loop. */
typedef struct Steps {
  int64_t made;
  long skipped; /* in a row, up to the last one */
  bool kept;    /* the ranks have saved the present values */
  double flops; /* model FLOPs of a step; all steps have the same sizes.  0: not computed yet */
} Steps;

/* Names the first of inputs, weights and results that is not finite.  The weights are those after the step: if only
 * gradients were not finite, these have spread to the weights. */
static ApcStatus name_first(ApcModel *m, const Dataset *d, const double *values, char *text, size_t size) {
  const char *weight = NULL;
  if (dataset_not_finite(d, text, size)) return APC_OK;
  ApcStatus status = isfinite(values[LOSS]) ? apc_not_finite(m, &weight) : APC_OK;
  if (weight) snprintf(text, size, "the gradient of '%s'", weight);
  else snprintf(text, size, "'%s'", results[isfinite(values[LOSS]) ? GRAD_NORM : LOSS]);
  return status;
}

/* Undoes the step if that is allowed, else ends the run. */
static ApcStatus not_finite(ApcModel *m, const Training *t, const Dataset *d, Steps *s, const double *values) {
  char first[500], weight_before[300] = "";
  const char *weight = NULL;
  ApcStatus status = name_first(m, d, values, first, sizeof first);
  if (!status && t->skip) status = apc_back(m);
  if (!status && t->skip) status = apc_not_finite(m, &weight);
  if (status) return status;
  if (weight) snprintf(weight_before, sizeof weight_before, "; weight '%s' was not finite before it", weight);
  bool skips = s->skipped < t->skip;
  if (!skips)
    return host_error(m, RT_FAILED,
                      "step %" PRId64
                      ": loss %g, grad_norm %g; the first tensor that is not finite is %s%s; nothing is "
                      "written after step %" PRId64,
                      s->made + 1, plain(values[LOSS]), plain(values[GRAD_NORM]), first, weight_before, s->made);
  trainer_say(&t->watch, true,
              "step %" PRId64
              " is undone: loss %g, grad_norm %g; the first tensor that is not finite is "
              "%s%s",
              s->made + 1, plain(values[LOSS]), plain(values[GRAD_NORM]), first, weight_before);
  s->skipped++;
  s->made++;
  return APC_OK;
}

static ApcStatus one_step(ApcModel *m, const Training *t, Dataset *d, Steps *s) {
  double values[RESULTS], begin = now_us();
  ApcStatus code = dataset_bind(m, d, s->made);
  if (code) return code;
  ApcStatus status = t->skip && !s->kept ? apc_keep(m) : APC_OK;
  if (!status) status = apc_bind_input(m, "step", APC_I64, 0, NULL, &s->made);
  if (!status) status = apc_run(m, NULL);
  double us = now_us() - begin;
  for (int i = 0; i < RESULTS && !status; i++) status = trainer_result(m, results[i], &values[i]);
  if (status) return status;
  s->kept = !isfinite(values[LOSS]) || !isfinite(values[GRAD_NORM]);
  if (s->kept) return not_finite(m, t, d, s, values);
  s->skipped = 0;
  if (s->flops == 0) s->flops = program_flops(&m->artifact.program, m->ran_entry, m->symbols);
  const double mfu = s->flops / (us * 1e-6) / m->artifact.program.header->peak;
  const StepMade step = {++s->made, values[LOSS],      values[GRAD_NORM], values[LR],
                         us,        dataset_tokens(d), dataset_batch(d),  isfinite(mfu) ? mfu : NAN};
  metrics_step(m->metrics, &(MetricsStep){step.step, step.loss, step.grad_norm, step.lr, us * 1e-6, step.samples,
                                          step.tokens, step.mfu});
  if (t->watch.step) t->watch.step(t->watch.context, &step);
  return APC_OK;
}

/* Checks that the selected entry is a training step. */
static ApcStatus check_entry(ApcModel *m) {
  ApcTensorInfo info;
  bool has_step = false, has_loss = false;
  for (int i = 0; i < apc_inputs(m); i++)
    has_step |= apc_input_info(m, i, &info) == APC_OK && strcmp(info.name, "step") == 0;
  for (int i = 0; i < apc_outputs(m); i++)
    has_loss |= apc_output_info(m, i, &info) == APC_OK && strcmp(info.name, "loss") == 0;
  if (has_step && has_loss) return APC_OK;
  return host_error(m, RT_USAGE, "--steps: this is not a training program; compile the model with --train LOSS");
}

/* ---- the loop */

static ApcStatus apart_from(ApcModel *m, const char *save, const DataFiles *files) {
  for (int i = 0; i < files->n; i++) {
    const char *file = dataset_file(files->data[i], NULL, NULL);
    if (file && file_same(file, save))
      return host_error(m, RT_USAGE, "--save would write %s, which is read by %s", save, files->option);
  }
  return APC_OK;
}

/* Checks the output files now, rather than after the steps. */
static ApcStatus can_write(ApcModel *m, const Training *t) {
  ApcStatus code = t->save ? checkpoint_can_save(m, t->save) : 0;
  if (!code && t->save) code = apart_from(m, t->save, &t->data);
  if (!code && t->save) code = apart_from(m, t->save, &t->eval);
  return !code && t->checkpoint ? series_can_write(m, t) : code;
}

/* Makes the steps after `before`.  `eval`: NULL without --eval.  The last evaluation comes before the last checkpoint,
 * which may be the best one by it. */
static ApcStatus make_steps(ApcModel *m, const Training *t, Dataset *d, Dataset *eval, int64_t before) {
  Steps s = {.made = before};
  Series series;
  const int64_t *made = &s.made;
  int64_t evaluated = -1;
  double loss;
  ApcStatus last = APC_OK, code = series_begin(&series, m, t, d, before);
  while (*made < t->steps && !code && !is_asked(m, &t->watch)) {
    code = one_step(m, t, d, &s);
    if (!code && eval && t->evals && *made % t->evals == 0) {
      code = evaluation_make(m, t, eval, evaluated = *made, &loss);
      if (!code) series_evaluated(&series, loss);
    }
    if (!code) code = series_step(&series, *made);
  }
  const bool asked = *made < t->steps && is_asked(m, &t->watch), nothing = asked && *made == before;
  if (!code && eval && evaluated != *made && !asked) {
    last = evaluation_make(m, t, eval, *made, &loss);
    if (!last) series_evaluated(&series, loss);
  }
  const RtError error = m->error; /* the trained states are written even if they could not be evaluated */
  code = series_end(&series, *made, !nothing, code);
  if (last) m->error = error;
  if (!code && asked) trainer_say(&t->watch, false, "asked to stop after step %" PRId64 " of %ld", *made, t->steps);
  return last ? last : code;
}

/* Turns epochs into steps. */
static ApcStatus count_epochs(ApcModel *m, Training *t, const Dataset *d) {
  const int64_t steps = dataset_steps(d);
  if (!steps) return host_error(m, RT_USAGE, "--epochs: a mixture has no epochs of its own; give --steps");
  if (t->epochs > LONG_MAX / steps) return host_error(m, RT_USAGE, "--epochs %ld: too many steps", t->epochs);
  t->steps = t->epochs * (t->data.last == LAST_WRAP ? 0 : steps);
  if (t->data.last == LAST_WRAP) {
    const __int128 rows = (__int128)t->epochs * dataset_rows(d), b = dataset_batch(d);
    t->steps = (long)((rows + b - 1) / b);
  }
  trainer_say(&t->watch, false, "%ld epoch%s of %" PRId64 " rows: %ld steps", t->epochs, t->epochs == 1 ? "" : "s",
              dataset_rows(d), t->steps);
  return APC_OK;
}

ApcStatus trainer_run(ApcModel *m, Training *t) {
  Dataset *d = NULL, *eval = NULL;
  const DataSource *sources;
  int64_t made = 0;
  int n_sources;
  ApcStatus code = check_entry(m);
  if (!code) code = dataset_open(m, &t->data, &d);
  if (!code && t->data.n == 0) code = host_error(m, RT_USAGE, "--steps needs data: --data NAME=@FILE.npy");
  if (!code && t->epochs) code = count_epochs(m, t, d);
  if (!code && t->eval.n) code = evaluation_open(m, t, &eval);
  if (!code) code = can_write(m, t);
  if (!code && t->checkpoint) code = dataset_sources(m, d, &sources, &n_sources); /* their identities at the start */
  if (!code && t->resume) code = checkpoint_read(m, t->resume, &made, d, &t->watch);
  if (!code && t->watch.begun) t->watch.begun(t->watch.context, made);
  if (!code) code = make_steps(m, t, d, eval, made);
  if (!code && t->save) code = checkpoint_save(m, t->save);
  host_unbind(m, "step");
  dataset_close(m, d);
  dataset_close(m, eval);
  return code;
}
