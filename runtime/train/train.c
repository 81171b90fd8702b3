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
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "runtime/train/checkpoint_series.h"
#include "runtime/train/dataset.h"
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

static ApcStatus read_result(ApcModel *m, const char *name, double *out) {
  int rank;
  int64_t dims[APC_MAX_RANK];
  size_t bytes;
  const void *data;
  ApcStatus status = apc_output_shape(m, name, &rank, dims, &bytes);
  if (!status) status = apc_output_data(m, name, &data);
  if (!status) *out = bytes == sizeof(double) ? *(const double *)data : (double)*(const float *)data;
  return status;
}

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
static ApcStatus name_first(ApcModel *m, const Dataset *d, int64_t step, const double *values, char *text,
                            size_t size) {
  const char *weight = NULL;
  if (dataset_not_finite(d, step, text, size)) return APC_OK;
  ApcStatus status = isfinite(values[LOSS]) ? apc_not_finite(m, &weight) : APC_OK;
  if (weight) snprintf(text, size, "the gradient of '%s'", weight);
  else snprintf(text, size, "'%s'", results[isfinite(values[LOSS]) ? GRAD_NORM : LOSS]);
  return status;
}

/* Undoes the step if that is allowed, else ends the run. */
static ApcStatus not_finite(ApcModel *m, const Training *t, const Dataset *d, Steps *s, const double *values) {
  char first[500], weight_before[300] = "";
  const char *weight = NULL;
  ApcStatus status = name_first(m, d, s->made, values, first, sizeof first);
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
  for (int i = 0; i < RESULTS && !status; i++) status = read_result(m, results[i], &values[i]);
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

/* ---- evaluation */

/* Selects the step again, even after an error, which remains the model's. */
static ApcStatus back_to(ApcModel *m, const char *entry, ApcStatus status) {
  const RtError error = m->error;
  ApcStatus selected = apc_select(m, entry);
  if (status) m->error = error;
  return status ? status : selected;
}

/* Computes the mean over all whole batches, each weighted by the count that its loss is a mean of. */
static ApcStatus mean_loss(ApcModel *m, Dataset *d, int64_t batches, double *mean) {
  double sum = 0, count = 0;
  for (int64_t i = 0; i < batches; i++) {
    double loss, weight;
    ApcStatus status = dataset_bind(m, d, i);
    if (!status) status = apc_run(m, NULL);
    if (!status) status = read_result(m, "loss", &loss);
    if (!status) status = read_result(m, "count", &weight);
    if (status) return status;
    if (weight > 0) sum += loss * weight, count += weight;
  }
  *mean = sum / count;
  return count == 0 ? host_error(m, RT_BAD_INPUT, "--eval: all labels are ignored") : APC_OK;
}

static ApcStatus evaluate(ApcModel *m, const Training *t, Dataset *d, int64_t step, double *loss) {
  double mean = NAN, begin = now_us();
  const int64_t batches = dataset_rows(d) / dataset_batch(d);
  const char *before = apc_entry_name(m, 0);
  ApcStatus status = apc_select(m, "eval");
  status = back_to(m, before, status ? status : mean_loss(m, d, batches, &mean));
  if (status) return status;
  if (!isfinite(mean))
    return host_error(m, RT_FAILED, "eval after step %" PRId64 ": the loss is %g", step, plain(mean));
  const EvalMade e = {step, batches * dataset_batch(d), mean, now_us() - begin};
  metrics_eval(m->metrics, mean);
  if (t->watch.eval) t->watch.eval(t->watch.context, &e);
  *loss = mean;
  return APC_OK;
}

static ApcStatus open_evaluation(ApcModel *m, const Training *t, Dataset **out) {
  const char *before = apc_entry_name(m, 0);
  ApcStatus status = apc_select(m, "eval");
  status = back_to(m, before, status ? status : dataset_open(m, &t->eval, out));
  if (status) return status;
  int64_t rest = dataset_rows(*out) % dataset_batch(*out);
  if (rest)
    trainer_say(&t->watch, false,
                "%" PRId64 " of %" PRId64 " rows are not evaluated: they do not fill a batch of %" PRId64, rest,
                dataset_rows(*out), dataset_batch(*out));
  return APC_OK;
}

/* ---- the loop */

static ApcStatus apart_from(ApcModel *m, const char *save, const DataFiles *files) {
  for (int i = 0; i < files->n; i++) {
    const char *at = strstr(files->data[i], "=@");
    if (at && file_same(at + 2, save))
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
      code = evaluate(m, t, eval, evaluated = *made, &loss);
      if (!code) series_evaluated(&series, loss);
    }
    if (!code) code = series_step(&series, *made);
  }
  const bool asked = *made < t->steps && is_asked(m, &t->watch), nothing = asked && *made == before;
  if (!code && eval && evaluated != *made && !asked) {
    last = evaluate(m, t, eval, *made, &loss);
    if (!last) series_evaluated(&series, loss);
  }
  const RtError error = m->error; /* the trained states are written even if they could not be evaluated */
  code = series_end(&series, *made, !nothing, code);
  if (last) m->error = error;
  if (!code && asked) trainer_say(&t->watch, false, "asked to stop after step %" PRId64 " of %ld", *made, t->steps);
  return last ? last : code;
}

ApcStatus trainer_run(ApcModel *m, const Training *t) {
  Dataset *d = NULL, *eval = NULL;
  const DataSource *sources;
  int64_t made = 0;
  int n_sources;
  ApcStatus code = check_entry(m);
  if (!code) code = dataset_open(m, &t->data, &d);
  if (!code && t->data.n == 0) code = host_error(m, RT_USAGE, "--steps needs data: --data NAME=@FILE.npy");
  if (!code && t->eval.n) code = open_evaluation(m, t, &eval);
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
