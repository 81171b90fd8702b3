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
#include "runtime/train/checkpoint.h"
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

/* The noise of the gradients (McCandlish et al., 2018, the simple noise scale): |G|^2 of the true gradient and the
 * variance of one row's.  With a mean of earlier gradients the step measures g . mean, of which |G|^2 is the expected
 * value; that of |g|^2 is |G|^2 + variance / rows.  Both are noisy, so their means over some steps are divided. */
typedef struct Noise {
  double square, agree; /* means over about 50 steps; NaN: none so far */
} Noise;

static double noise_of(Noise *n, double norm, double agree, int64_t rows) {
  const double kept = 0.98;
  if (!isfinite(agree)) return NAN;
  n->square = isnan(n->square) ? norm * norm : kept * n->square + (1 - kept) * norm * norm;
  n->agree = isnan(n->agree) ? agree : kept * n->agree + (1 - kept) * agree;
  return n->agree > 0 && n->square > n->agree ? (double)rows * (n->square - n->agree) / n->agree : NAN;
}

/* State of the loop. */
typedef struct Steps {
  int64_t made;
  long skipped;          /* in a row, up to the last one */
  bool kept;             /* the ranks have saved the present values */
  bool scaled, measured; /* the step scales its loss; it measures the noise of its gradients */
  Noise noise;
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

/* A step whose gradients overflowed with the scale of its loss has changed nothing but that scale. */
static ApcStatus overflowed(ApcModel *m, const Training *t, Steps *s, bool *is) {
  const double least = 1e-12;
  double skipped, scale;
  ApcStatus status = read_result(m, "skipped", &skipped);
  if (!status) status = read_result(m, "loss_scale", &scale);
  *is = !status && skipped > 0;
  if (!*is) return status;
  if (scale < least)
    return host_error(m, RT_FAILED, "step %" PRId64 ": the gradients are not finite with a loss scale of %g",
                      s->made + 1, scale);
  trainer_say(&t->watch, false, "step %" PRId64 " is skipped: its gradients overflow with a loss scale of %g; now %g",
              s->made + 1, scale, scale / 2);
  s->made++;
  return APC_OK;
}

static ApcStatus measure(ApcModel *m, Steps *s, double norm, int64_t rows, double *noise) {
  double agree;
  *noise = NAN;
  ApcStatus status = s->measured ? read_result(m, "grad_agree", &agree) : APC_OK;
  if (!status && s->measured) *noise = noise_of(&s->noise, norm, agree, rows);
  return status;
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
  bool skipped = false;
  if (s->scaled && isfinite(values[LOSS])) status = overflowed(m, t, s, &skipped);
  if (status || skipped) return s->kept = false, status;
  s->kept = !isfinite(values[LOSS]) || !isfinite(values[GRAD_NORM]);
  if (s->kept) return not_finite(m, t, d, s, values);
  s->skipped = 0;
  double noise;
  if ((status = measure(m, s, values[GRAD_NORM], dataset_batch(d), &noise))) return status;
  if (s->flops == 0) s->flops = program_flops(&m->artifact.program, m->ran_entry, m->symbols);
  const double mfu = s->flops / (us * 1e-6) / m->artifact.program.header->peak;
  const StepMade step = {++s->made,        values[LOSS], values[GRAD_NORM],        values[LR], us, dataset_tokens(d),
                         dataset_batch(d), noise,        isfinite(mfu) ? mfu : NAN};
  metrics_step(m->metrics, &(MetricsStep){step.step, step.loss, step.grad_norm, step.lr, us * 1e-6, step.samples,
                                          step.tokens, step.mfu});
  if (t->watch.step) t->watch.step(t->watch.context, &step);
  return APC_OK;
}

static bool has_output(ApcModel *m, const char *name) {
  ApcTensorInfo info;
  bool has = false;
  for (int i = 0; i < apc_outputs(m); i++)
    has |= apc_output_info(m, i, &info) == APC_OK && strcmp(info.name, name) == 0;
  return has;
}

/* Checks that the selected entry is a training step. */
static ApcStatus check_entry(ApcModel *m) {
  ApcTensorInfo info;
  bool has_step = false;
  for (int i = 0; i < apc_inputs(m); i++)
    has_step |= apc_input_info(m, i, &info) == APC_OK && strcmp(info.name, "step") == 0;
  if (has_step && has_output(m, "loss")) return APC_OK;
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

static ApcStatus evaluate(ApcModel *m, const Training *t, Dataset *d, int64_t step) {
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

/* Checks that the program has the entry that an option saves, and that its file can be written. */
static ApcStatus can_save_of(ApcModel *m, const char *entry, const char *file, const char *missing) {
  uint32_t found;
  if (!file) return APC_OK;
  if (host_find_entry(m, entry, &found) == RT_OK) return checkpoint_can_save(m, file);
  m->error = (RtError){0};
  return host_error(m, RT_USAGE, "%s", missing);
}

/* Checks the output files now, rather than after the steps. */
static ApcStatus can_write(ApcModel *m, const Training *t) {
  ApcStatus code = t->save ? checkpoint_can_save(m, t->save) : 0;
  if (!code)
    code = can_save_of(
        m, "averages", t->save_ema,
        "--save-ema: the program keeps no averages; compile it with ema= in --optimizer, as adamw(ema=0.999)");
  if (!code)
    code = can_save_of(m, "adapter", t->save_lora, "--save-lora: the program has no adapters; compile it with --lora");
  if (!code && t->save) code = apart_from(m, t->save, &t->data);
  if (!code && t->save) code = apart_from(m, t->save, &t->eval);
  return !code && t->checkpoint ? checkpoint_can_write(m, t->checkpoint) : code;
}

/* Makes the steps after `before`.  `eval`: NULL without --eval. */
static ApcStatus make_steps(ApcModel *m, const Training *t, Dataset *d, Dataset *eval, int64_t before) {
  Steps s = {.made = before, .noise = {NAN, NAN}};
  s.scaled = has_output(m, "skipped"), s.measured = has_output(m, "grad_agree");
  const int64_t *made = &s.made;
  ApcStatus code = 0;
  int64_t written = t->resume ? *made : -1, evaluated = -1;
  while (*made < t->steps && !code && !is_asked(m, &t->watch)) {
    code = one_step(m, t, d, &s);
    if (code) break;
    if (eval && t->evals && *made % t->evals == 0) code = evaluate(m, t, eval, evaluated = *made);
    if (code || !t->checkpoint || !t->every || *made % t->every) continue;
    code = checkpoint_write(m, t->checkpoint, *made, d);
    written = *made;
  }
  bool asked = *made < t->steps && is_asked(m, &t->watch), nothing = asked && *made == before;
  if (!code && t->checkpoint && written != *made && !nothing) code = checkpoint_write(m, t->checkpoint, *made, d);
  if (!code && asked) trainer_say(&t->watch, false, "asked to stop after step %" PRId64 " of %ld", *made, t->steps);
  return code || !eval || evaluated == *made || asked ? code : evaluate(m, t, eval, *made);
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
  if (!code && t->save) code = checkpoint_save(m, "weights", t->save);
  if (!code && t->save_ema) code = checkpoint_save(m, "averages", t->save_ema);
  if (!code && t->save_lora) code = checkpoint_save(m, "adapter", t->save_lora);
  host_unbind(m, "step");
  dataset_close(m, d);
  dataset_close(m, eval);
  return code;
}
