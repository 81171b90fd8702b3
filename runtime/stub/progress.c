/* runtime/stub/progress.c - the line about a training run at the foot of a terminal.
 *
 * The line shows the loss as an exponential mean over about 20 steps, and the time left: the mean time from one step to
 * the next in this run, evaluations and checkpoints among them, times the steps left.  The first step is not counted,
 * because ranks start and weights load in it.  A terminal that cannot rewrite a line (TERM=dumb) gets none.  The line
 * has no colours, so NO_COLOR changes nothing.
 */
#include "runtime/stub/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "runtime/host/host.h"

void stub_progress_begin(Progress *p, const Training *t) {
  const char *term = getenv("TERM");
  *p = (Progress){.on = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0,
                  .steps = t->steps,
                  .every = t->checkpoint ? t->every : 0};
}

static int columns(void) {
  struct winsize w;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col : 80;
}

static void write_time(char *text, size_t size, double seconds) {
  long s = seconds < 1e9 ? (long)(seconds + 0.5) : 1000000000;
  if (s >= 86400) snprintf(text, size, "%ldd %ldh", s / 86400, s / 3600 % 24);
  else if (s >= 3600) snprintf(text, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  else snprintf(text, size, "%ld:%02ld", s / 60, s % 60);
}

static void show(Progress *p, const StepMade *s, double time) {
  char line[400], left[40] = "?";
  const int64_t counted = s->step - p->first;
  if (counted > 0) write_time(left, sizeof left, (time - p->begin_s) / (double)counted * (double)(p->steps - s->step));
  int n = snprintf(line, sizeof line, "step %" PRId64 "/%ld  loss %.4g  %.1f ms  %.4g samples/s", s->step, p->steps,
                   p->loss, s->us * 1e-3, (double)s->samples / s->us * 1e6);
  if (s->tokens) n += snprintf(line + n, sizeof line - (size_t)n, "  %.4g tokens/s", (double)s->tokens / s->us * 1e6);
  if (!isnan(s->mfu)) n += snprintf(line + n, sizeof line - (size_t)n, "  mfu %.3g %%", 100 * s->mfu);
  n += snprintf(line + n, sizeof line - (size_t)n, "  %s left", left);
  if (p->every) snprintf(line + n, sizeof line - (size_t)n, "  checkpoint in %" PRId64, p->every - s->step % p->every);
  fprintf(stderr, "\r\033[K%.*s", columns() - 1, line);
  p->shown = true;
  p->shown_s = time;
}

void stub_progress_step(Progress *p, const StepMade *s) {
  double time = host_now();
  bool first = !p->first;
  if (!p->on) return;
  p->loss = first ? s->loss : p->loss + (s->loss - p->loss) * 0.1;
  if (first) p->first = s->step, p->begin_s = time;
  if (first || time - p->shown_s > 0.1 || s->step == p->steps) show(p, s, time);
}

void stub_progress_clear(Progress *p) {
  if (p->shown) fputs("\r\033[K", stderr);
  p->shown = false;
}
