/* tools/report.c - messages and progress lines; see tool.h. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/die.h"
#include "base/text.h"
#include "tools/tool.h"

double tool_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* ---- start */

static bool variable_set(const char *name) {
  const char *v = getenv(name);
  return v && *v;
}

static bool dumb(void) {
  const char *term = getenv("TERM");
  return !term || !*term || strcmp(term, "dumb") == 0;
}

static bool locale_is_utf8(void) {
  const char *names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
  for (int i = 0; i < 3; i++)
    if (variable_set(names[i])) {
      const char *v = getenv(names[i]);
      return strstr(v, "UTF-8") || strstr(v, "utf8") || strstr(v, "UTF8");
    }
  return false;
}

static bool wants_color(const Options *o) {
  const char *word = option_text(o, OPT_color);
  if (word && strcmp(word, "auto") != 0) return strcmp(word, "always") == 0;
  if (!word && option_given(o, OPT_color)) return true; /* --color without a value, as in clang */
  return isatty(STDERR_FILENO) && !dumb() && !variable_set("NO_COLOR");
}

void tool_start(Tool *t, char **argv) {
  t->program = argv[0], t->line = argv;
  t->results = stdout;
  t->quiet = option_given(&t->options, OPT_quiet);
  t->verbose = option_given(&t->options, OPT_verbose);
  t->times = option_given(&t->options, OPT_time_report);
  t->color = wants_color(&t->options);
  t->terminal = isatty(STDERR_FILENO) && !dumb();
  t->unicode = locale_is_utf8() && !dumb();
  t->start_ms = tool_now_ms();
}

static ExitCode exit_of(DiagCode code) {
  if (code == DIAG_no_memory) return EXIT_RUN;
  if (code == DIAG_plan_infeasible) return EXIT_UNDECIDED;
  if (code == DIAG_plan_options) return EXIT_USAGE;
  if (code == DIAG_plan_stopped) return EXIT_LATE;
  if (code == DIAG_tool_missing || code == DIAG_tool_failed) return EXIT_MISSING;
  const char *name = diag_code_name(code); /* "APC06nn": 10 to 19 are usage errors, 20 and above are not built yet */
  if (strncmp(name, "APC061", 6) == 0) return EXIT_USAGE;
  if (strncmp(name, "APC06", 5) == 0 && name[5] >= '2') return EXIT_MISSING;
  return EXIT_BAD_INPUT;
}

int tool_failed(const Diags *d) {
  const Diag *first = diags_first_error(d);
  if (!first) die("a failure without a reason");
  return (int)exit_of(first->code);
}

/* ---- progress */

static void print_line(Tool *t, const char *verb, const char *paint, const char *format, va_list args) {
  if (t->line_open) fputs("\r\033[K", stderr);
  fprintf(stderr, "%s%12s%s ", t->color ? paint : "", verb, t->color ? "\033[0m" : "");
  fputs(text_shown(t->arena, arena_vprintf(t->arena, format, args)), stderr);
  t->line_open = false;
}

static void end_stage(Tool *t) {
  if (t->times && t->stage_ms > 0)
    fprintf(stderr, "%s%12.3f ms\n", t->line_open ? "\n" : "", tool_now_ms() - t->stage_ms);
  if (t->times) t->line_open = false;
  t->stage_ms = t->progress_ms = tool_now_ms();
}

bool tool_progress_due(Tool *t) {
  const double often = t->terminal ? 250 : 10000;
  if (t->quiet || tool_now_ms() - t->progress_ms < often) return false;
  t->progress_ms = tool_now_ms();
  return true;
}

/* On a terminal the line stays open, and the next one replaces it. */
static void print_rewritten(Tool *t, const char *verb, const char *format, va_list args) {
  print_line(t, verb, "\033[1;36m", format, args);
  t->line_open = t->terminal;
  if (!t->terminal) fputc('\n', stderr);
  fflush(stderr);
}

void tool_progress(Tool *t, const char *verb, const char *format, ...) {
  va_list args;
  va_start(args, format);
  print_rewritten(t, verb, format, args);
  va_end(args);
}

void tool_stage(Tool *t, const char *verb, const char *format, ...) {
  end_stage(t);
  if (t->quiet && !t->times) return;
  va_list args;
  va_start(args, format);
  print_rewritten(t, verb, format, args);
  va_end(args);
}

void tool_stages_end(Tool *t) {
  end_stage(t);
  t->stage_ms = 0;
  if (t->line_open) fputs("\r\033[K", stderr);
  t->line_open = false;
}

void tool_say(Tool *t, const char *verb, const char *format, ...) {
  if (t->quiet) return;
  va_list args;
  va_start(args, format);
  print_line(t, verb, "\033[1;32m", format, args);
  va_end(args);
  fputc('\n', stderr);
}

/* ---- arguments */

bool tool_args(Tool *t, size_t lo, size_t hi) {
  const CommandRow *c = &command_rows[t->options.command];
  size_t n = t->options.args.n;
  if (n >= lo && n <= hi) return true;
  if (n > hi)
    diag_error(t->diags, DIAG_usage_argument, (Loc){0}, "`apc %s`: unexpected argument '%s'", c->name,
               t->options.args.items[hi]);
  else if (n)
    diag_error(t->diags, DIAG_usage_argument, (Loc){0}, "`apc %s %s` needs another argument", c->name,
               t->options.args.items[0]);
  else diag_error(t->diags, DIAG_usage_argument, (Loc){0}, "`apc %s` needs %s", c->name, c->arguments);
  diag_help(t->diags, "usage: apc %s %s%s[options]", c->name, c->arguments, *c->arguments ? " " : "");
  return false;
}
