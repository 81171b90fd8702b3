/* runtime/stub/steps.c - --steps of a compiled program: a line per step, and the signals that end a run.
 *
 * Lines go to standard output; notes and warnings to standard error.  SIGINT, SIGTERM and SIGUSR1 end the run after the
 * current step, and so does the loss of the reader of standard output.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/standard.h"
#include "runtime/host/host.h"
#include "runtime/stub/progress.h"
#include "runtime/stub/stub.h"

static volatile sig_atomic_t asked_to_stop;

static volatile sig_atomic_t term_leaves;

static void stop(int signal) {
  if (signal != SIGTERM || !term_leaves) asked_to_stop = 1;
  else if (!asked_to_stop) asked_to_stop = 2;
}

void stub_term_leaves(void) { term_leaves = 1; }

const volatile sig_atomic_t *stub_asked(void) { return &asked_to_stop; }

void stub_listen(void) {
  struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART}, none = {.sa_handler = SIG_IGN};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGPIPE, &none, NULL);
}

static bool is_asked(void *context) {
  (void)context;
  return asked_to_stop == 1;
}

/* ---- printing */

typedef struct Printing {
  ApcModel *m;
  const Training *t;
  StepLog *log;
  bool json, lines; /* lines: a line per step; else the line at the foot of the terminal replaces them */
  Progress progress;
} Printing;

/* Flushes the printed lines; if they have no reader any more, the run ends. */
static void print_out(void) {
  if (standard_output_written()) return;
  if (standard_unread()) fprintf(stderr, "note: standard output has no reader any more\n");
  asked_to_stop = 1;
}

/* Prints the peak that mfu is relative to, where mfu is shown. */
static void print_peak(const Printing *p) {
  const Program *program = &p->m->artifact.program;
  const ProgramHeader *h = program->header;
  const bool shown = p->log || p->progress.on || p->m->metrics;
  if (shown && h->peak > 0 && program->entries[p->m->entry].flops.n)
    fprintf(stderr, "note: mfu is relative to %.4g GFLOP/s of %u rank%s: %s\n", h->peak / 1e9, program->ranks,
            program->ranks == 1 ? "" : "s", program_text(program, h->peak_of));
}

static bool measures_noise(ApcModel *m) {
  ApcTensorInfo info;
  for (int i = 0; i < apc_outputs(m); i++)
    if (apc_output_info(m, i, &info) == APC_OK && strcmp(info.name, "grad_agree") == 0) return true;
  return false;
}

static void print_begun(void *context, int64_t made) {
  Printing *p = context;
  stub_log_begin(p->log, made, measures_noise(p->m));
  stub_progress_begin(&p->progress, p->t);
  p->lines = p->json || !p->progress.on || !isatty(STDOUT_FILENO);
  fprintf(stderr, "%s\n", apc_trained(p->m));
  print_peak(p);
  standard_json(p->json);
}

static void print_step(void *context, const StepMade *s) {
  Printing *p = context;
  bool last = s->step == p->t->steps; /* its line stays on the terminal */
  stub_log_step(p->log, s);
  if (!p->lines && !last) {
    stub_progress_step(&p->progress, s);
    return;
  }
  stub_progress_clear(&p->progress);
  char noise[40] = "";
  if (isfinite(s->noise)) snprintf(noise, sizeof noise, ",\"noise_scale\":%.6g", s->noise);
  if (p->json)
    printf("{\"step\":%" PRId64
           ",\"loss\":%.9g,\"grad_norm\":%.9g,\"lr\":%.9g%s,\"tokens_per_s\":%.1f,\"time_us\":%.1f}\n",
           s->step, s->loss, s->grad_norm, s->lr, noise, (double)(s->tokens ? s->tokens : s->samples) / s->us * 1e6,
           s->us);
  else
    printf("step %" PRId64 "  loss %.6g  grad_norm %.6g  lr %.6g  %.1f ms\n", s->step, s->loss, s->grad_norm, s->lr,
           s->us * 1e-3);
  print_out();
  if (!last) stub_progress_step(&p->progress, s);
}

static void print_eval(void *context, const EvalMade *e) {
  Printing *p = context;
  char more[120] = "";
  int n = 0;
  if (isfinite(e->perplexity))
    n = snprintf(more, sizeof more, p->json ? ",\"eval_perplexity\":%.9g" : "  perplexity %.6g", e->perplexity);
  if (isfinite(e->accuracy))
    snprintf(more + n, sizeof more - (size_t)n, p->json ? ",\"eval_accuracy\":%.9g" : "  accuracy %.6g", e->accuracy);
  stub_log_eval(p->log, e);
  stub_progress_clear(&p->progress);
  if (p->json)
    printf("{\"step\":%" PRId64 ",\"eval_loss\":%.9g%s,\"eval_rows\":%" PRId64 ",\"time_us\":%.1f}\n", e->step, e->loss,
           more, e->rows, e->us);
  else
    printf("eval after step %" PRId64 "  loss %.6g%s  %" PRId64 " rows  %.1f ms\n", e->step, e->loss, more, e->rows,
           e->us * 1e-3);
  print_out();
}

static void print_text(void *context, bool warning, const char *text) {
  Printing *p = context;
  stub_progress_clear(&p->progress);
  fprintf(stderr, "%s: %s\n", warning ? "warning" : "note", text);
}

int stub_train(ApcModel *m, Training *t, StepLog *log, bool json) {
  Printing p = {.m = m, .t = t, .log = log, .json = json};
  t->watch = (TrainWatch){.context = &p,
                          .begun = print_begun,
                          .step = print_step,
                          .eval = print_eval,
                          .say = print_text,
                          .asked = is_asked};
  stub_listen();
  ApcStatus status = trainer_run(m, t);
  stub_progress_clear(&p.progress);
  standard_json(false);
  return status ? stub_fail_model(m, status) : 0;
}
