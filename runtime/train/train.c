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

#include "base/file.h"
#include "runtime/train/checkpoint_series.h"
#include "runtime/train/dataset.h"
#include "runtime/train/elastic.h"
#include "runtime/train/evaluation.h"
#include "runtime/launch/regroup.h"
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

/* True if this or another rank was asked to stop, or all were asked to leave. */
static bool is_asked(const ApcModel *m, const TrainWatch *w) {
  return (w->asked && w->asked(w->context)) || apc_asked(m) || (m->launched && host_leaving(m) == apc_ranks(m));
}

enum { LOSS, GRAD_NORM, LR, RESULTS };
static const char *const results[RESULTS] = {"loss", "grad_norm", "lr"};

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
  bool untold;           /* `last` was made, and the observer does not know yet */
  StepMade last;
  Noise noise, before; /* `before`: the last step */
  double flops;        /* model FLOPs of a step; all steps have the same sizes.  0: not computed yet */
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

/* Tells the observer of the step that was made. */
static void tell_step(ApcModel *m, const Training *t, Steps *s) {
  const StepMade *x = &s->last;
  if (!s->untold) return;
  s->untold = false;
  metrics_step(m->metrics,
               &(MetricsStep){x->step, x->loss, x->grad_norm, x->lr, x->us * 1e-6, x->samples, x->tokens, x->mfu});
  if (t->watch.step) t->watch.step(t->watch.context, x);
}

/* A step whose gradients overflowed with the scale of its loss has changed nothing but that scale. */
static ApcStatus overflowed(ApcModel *m, const Training *t, Steps *s, bool *is) {
  const double least = 1e-12;
  double skipped, scale;
  ApcStatus status = trainer_result(m, "skipped", &skipped);
  if (!status) status = trainer_result(m, "loss_scale", &scale);
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
  *noise = NAN, s->before = s->noise;
  ApcStatus status = s->measured ? trainer_result(m, "grad_agree", &agree) : APC_OK;
  if (!status && s->measured) *noise = noise_of(&s->noise, norm, agree, rows);
  return status;
}

static ApcStatus one_step(ApcModel *m, const Training *t, Dataset *d, Steps *s) {
  double values[RESULTS], begin = host_now();
  ApcStatus code = dataset_bind(m, d, s->made);
  if (code) return code;
  ApcStatus status = t->skip && !s->kept ? apc_keep(m) : APC_OK;
  if (!status) status = apc_bind_input(m, "step", APC_I64, 0, NULL, &s->made);
  if (!status) status = apc_run(m, NULL);
  double us = 1e6 * (host_now() - begin);
  for (int i = 0; i < RESULTS && !status; i++) status = trainer_result(m, results[i], &values[i]);
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
  s->last = (StepMade){++s->made,        values[LOSS], values[GRAD_NORM],        values[LR], us, dataset_tokens(d),
                       dataset_batch(d), noise,        isfinite(mfu) ? mfu : NAN};
  s->untold = true;
  return APC_OK;
}
/* Checks that the selected entry is a training step. */
static ApcStatus check_entry(ApcModel *m) {
  ApcTensorInfo info;
  bool has_step = false;
  for (int i = 0; i < apc_inputs(m); i++)
    has_step |= apc_input_info(m, i, &info) == APC_OK && strcmp(info.name, "step") == 0;
  if (has_step && trainer_has_output(m, "loss")) return APC_OK;
  return host_error(m, RT_USAGE, "--steps: this is not a training program; compile the model with --train LOSS");
}

/* ---- the loop */

/* An option that writes a file after the steps. */
typedef struct Saved {
  const char *option, *file;
} Saved;

static ApcStatus apart_from(ApcModel *m, const Saved *s, const DataFiles *files) {
  for (int i = 0; i < files->n; i++) {
    const char *file = dataset_file(files->data[i], NULL, NULL);
    if (file && file_same(file, s->file))
      return host_error(m, RT_USAGE, "%s would write %s, which is read by %s", s->option, s->file, files->option);
  }
  return APC_OK;
}

/* Checks that no file that is saved is read, or saved twice. */
static ApcStatus check_apart(ApcModel *m, const Training *t) {
  const Saved saved[] = {{"--save", t->save}, {"--save-ema", t->save_ema}, {"--save-lora", t->save_lora}};
  ApcStatus code = APC_OK;
  for (size_t i = 0; i < sizeof saved / sizeof *saved && !code; i++) {
    if (!saved[i].file) continue;
    code = apart_from(m, &saved[i], &t->data);
    if (!code) code = apart_from(m, &saved[i], &t->eval);
    for (size_t k = 0; k < i && !code; k++)
      if (saved[k].file && file_same(saved[k].file, saved[i].file))
        code =
            host_error(m, RT_USAGE, "%s and %s would both write %s", saved[k].option, saved[i].option, saved[i].file);
  }
  return code;
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
  if (!code) code = check_apart(m, t);
  return !code && t->checkpoint ? series_can_write(m, t) : code;
}

/* The run. */
typedef struct Run {
  ApcModel *m;
  const Training *t;
  Dataset *d, *eval; /* eval: NULL without --eval */
  Elastic *elastic;  /* NULL without --elastic */
  Series series;     /* the checkpoints */
  Steps s;
  int64_t evaluated; /* steps made at the last evaluation; -1: none */
} Run;

/* Goes on with other ranks after a loss, if the run is elastic; else returns the status. */
static ApcStatus recover(Run *r, ApcStatus code) {
  if (!code || !r->elastic) return code;
  code = elastic_recover(r->elastic, code, r->d, &r->s.made);
  if (!code) dataset_back(r->d, r->s.made);
  if (r->s.untold) r->s.noise = r->s.before;
  r->s.kept = r->s.untold = false;
  return code;
}

/* These do their work again until no rank is lost meanwhile.  First the evaluation: */
static ApcStatus evaluate(Run *r) {
  double loss;
  ApcStatus code;
  if (r->evaluated == r->s.made) return APC_OK;
  while ((code = evaluation_make(r->m, r->t, r->eval, r->s.made, &loss)))
    if ((code = recover(r, code))) return code;
  r->evaluated = r->s.made;
  series_evaluated(&r->series, loss);
  return APC_OK;
}

/* A checkpoint, if one is due. */
static ApcStatus write_due(Run *r) {
  ApcStatus code;
  while ((code = series_step(&r->series, r->s.made)))
    if ((code = recover(r, code))) break;
  return code;
}

/* The last checkpoint, which is whole when this returns; see series_end. */
static ApcStatus write_last(Run *r, bool last, ApcStatus code) {
  if (code) return series_end(&r->series, r->s.made, last, code);
  while ((code = series_end(&r->series, r->s.made, last, APC_OK)))
    if ((code = recover(r, code))) break;
  return code;
}

/* True if processes wait, and there is a plan for more ranks. */
static bool has_place(const Run *r, int now) {
  const Artifact *a = &r->m->artifact;
  const int waiting = regroup_waiting(r->t->checkpoint);
  return waiting && regroup_world(a->worlds, a->n_worlds, now + waiting) > now;
}

/* For the ranks of a launcher: ends the round if ranks leave, or if others wait at a checkpoint and there is a plan for
 * so many; then the run goes on in another round from the checkpoint. */
static ApcStatus change_number(Run *r, bool checkpoint) {
  const int now = apc_ranks(r->m), leaving = host_leaving(r->m);
  const bool fewer = leaving && leaving < now, more = checkpoint && has_place(r, now);
  if (!fewer && !more) return APC_OK;
  ApcStatus code = write_last(r, true, APC_OK);
  r->m->regroup = !code;
  return code;
}

/* Makes a step, and what is due after it. */
static ApcStatus step_and_boundary(Run *r) {
  const Training *t = r->t;
  int64_t made = r->s.made;
  ApcStatus code = recover(r, one_step(r->m, t, r->d, &r->s));
  if (!code && r->s.made > made && r->elastic) code = recover(r, elastic_keep(r->elastic, r->s.made));
  if (code || r->s.made <= made) return code; /* the step was dropped */
  tell_step(r->m, t, &r->s);
  if (r->eval && t->evals && r->s.made % t->evals == 0) code = evaluate(r);
  if (!code) code = write_due(r);
  const bool checkpoint = r->series.begun == r->s.made;
  if (!code && t->elastic && r->m->launched && launched_elastic(r->m->launched)) code = change_number(r, checkpoint);
  return code || !r->elastic ? code : recover(r, elastic_take_back(r->elastic, r->s.made, checkpoint));
}

/* Makes the steps after `before`.  The last evaluation comes before the last checkpoint, which may be the best one by
 * it. */
static ApcStatus make_steps(Run *r, int64_t before) {
  const Training *t = r->t;
  const int64_t *made = &r->s.made;
  r->s = (Steps){.made = before, .noise = {NAN, NAN}};
  r->s.scaled = trainer_has_output(r->m, "skipped"), r->s.measured = trainer_has_output(r->m, "grad_agree");
  r->evaluated = -1;
  ApcStatus last = APC_OK, code = series_begin(&r->series, r->m, t, r->d, before);
  while (*made < t->steps && !code && !r->m->regroup && !is_asked(r->m, &t->watch)) code = step_and_boundary(r);
  if (r->m->regroup) return code; /* with a whole checkpoint */
  const bool asked = *made < t->steps && is_asked(r->m, &t->watch), nothing = asked && *made == before;
  if (!code && r->eval && !asked) last = evaluate(r);
  const RtError error = r->m->error; /* the trained states are written even if they could not be evaluated */
  code = write_last(r, !nothing, code);
  if (last) r->m->error = error;
  if (!code && asked) trainer_say(&t->watch, false, "asked to stop after step %" PRId64 " of %ld", *made, t->steps);
  return last ? last : code;
}

/* The ranks of a launcher meet again by themselves (runtime/launch/regroup.h). */
static ApcStatus begin_elastic(Run *r) {
  if (!r->t->elastic) return APC_OK;
  if (!r->m->launched) return elastic_open(r->m, r->t, &r->series, &r->elastic);
  if (!r->t->checkpoint)
    return host_error(r->m, RT_USAGE, "--elastic under a launcher needs --checkpoint DIR, from which the ranks go on");
  if (!launched_elastic(r->m->launched)) {
    trainer_say(&r->t->watch, true, "elastic: ranks over MPI end together when one is lost; start them again to go on");
    return APC_OK;
  }
  trainer_say(&r->t->watch, false, "elastic: round %d, %d ranks; they meet again when their number changes",
              regroup_round(), apc_ranks(r->m));
  return APC_OK;
}

/* Writes what the entry returns, again if ranks are lost meanwhile; file NULL: nothing. */
static ApcStatus save(Run *r, const char *entry, const char *file) {
  ApcStatus code = APC_OK;
  while (file && (code = checkpoint_save(r->m, entry, file)))
    if ((code = recover(r, code))) break;
  return code;
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
  Run run = {.m = m, .t = t};
  int64_t made = 0;
  int n_sources;
  ApcStatus code = check_entry(m);
  if (!code) code = dataset_open(m, &t->data, &d);
  if (!code && t->data.n == 0) code = host_error(m, RT_USAGE, "--steps needs data: --data NAME=@FILE.npy");
  if (!code && t->epochs) code = count_epochs(m, t, d);
  if (!code && t->eval.n) code = evaluation_open(m, t, &eval);
  if (!code) code = can_write(m, t);
  if (!code && t->checkpoint) code = dataset_sources(m, d, &sources, &n_sources); /* their identities at the start */
  run.d = d, run.eval = eval;
  if (!code) code = begin_elastic(&run);
  if (!code && t->resume) code = recover(&run, checkpoint_read(m, t->resume, &made, d, &t->watch));
  if (!code && t->watch.begun) t->watch.begun(t->watch.context, made);
  if (!code) code = make_steps(&run, made);
  if (!code && !m->regroup) code = save(&run, "weights", t->save);
  if (!code && !m->regroup) code = save(&run, "averages", t->save_ema);
  if (!code && !m->regroup) code = save(&run, "adapter", t->save_lora);
  elastic_close(run.elastic);
  host_unbind(m, "step");
  dataset_close(m, d);
  dataset_close(m, eval);
  return code;
}
