/* tools/tool.h - what every command of apc shares: the options, where messages go, exit codes.
 *
 * Results go to standard output, everything else to standard error.
 */
#ifndef APC_TOOLS_TOOL_H
#define APC_TOOLS_TOOL_H

#include <jansson.h>
#include <stdio.h>

#include "base/amount.h"
#include "base/arena.h"
#include "base/diag.h"
#include "base/text.h"
#include "tools/options.h"

typedef enum ExitCode {
#define EXIT(name, code, meaning) EXIT_##name = code,
#include "tools/exits.def"
#undef EXIT
} ExitCode;

typedef struct Tool {
  Arena *arena;
  Diags *diags;
  Options options;
  const char *program; /* argv[0] */
  FILE *results; /* where run, verify and bench report: standard output, but standard error while a form of --emit has
                    that */
  const struct FileUse *outputs; /* what outputs_check has accepted (tools/outputs.h) */
  size_t noutputs;
  struct PassChecks
      *checks; /* verify: the passes over the next model are checked (passes/check.h); NULL: they are not */
  bool quiet, verbose, times;
  bool color;     /* of messages on standard error */
  bool terminal;  /* standard error is one that can rewrite a line */
  bool unicode;   /* bars on standard output */
  bool json;      /* --json is on the line (tool_json_wanted) */
  bool document;  /* a JSON document was printed */
  bool line_open; /* a progress line stands on the terminal */
  double start_ms, stage_ms;
  double progress_ms;        /* when progress was shown last, or the stage began */
  const char *said;          /* of the search, last; NULL */
  bool stopped;              /* a signal ended the search */
  const struct Cache *cache; /* tool_cache; NULL: none, or it was not asked for */
  bool cache_asked;
} Tool;

/* The commands; each returns an ExitCode, or EXIT_OK with errors in the diagnostics (main then picks the code). */
int cmd_compile(Tool *t);
int cmd_plan(Tool *t);
int cmd_size(Tool *t);
int cmd_run(Tool *t);
int cmd_verify(Tool *t);
int cmd_bench(Tool *t);
int cmd_inspect(Tool *t);
int cmd_targets(Tool *t);
int cmd_doctor(Tool *t);
int cmd_convert(Tool *t);
int cmd_calibrate(Tool *t);
int cmd_cache(Tool *t);
int cmd_explain(Tool *t);
int cmd_help(Tool *t);
int cmd_version(Tool *t);

/* ---- messages (tools/report.c) */

void tool_start(Tool *t, char **argv);

/* The exit code of what failed: of the first error, and there has to be one. */
int tool_failed(const Diags *d);

/* One stage of long work: "   Importing model.onnx".  Rewritten on a terminal, one line each otherwise; ends the
 * stage before (for --time-report). */
void tool_stage(Tool *t, const char *verb, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* How far a long stage has come: its line rewritten a few times a second on a terminal, a line now and then
 * otherwise. */
bool tool_progress_due(Tool *t);
void tool_progress(Tool *t, const char *verb, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A line that stays, like "    Finished ./model". */
void tool_say(Tool *t, const char *verb, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Ends the progress line and the last stage. */
void tool_stages_end(Tool *t);

double tool_now_ms(void);

/* ---- --json (tools/report_json.c) */

/* Prints the document, with the diagnostics so far, on standard output and frees it. */
void tool_json(Tool *t, json_t *document);

/* The document of a command that failed, unless it has printed one. */
void tool_json_failure(Tool *t, int code);
void tool_json_died(const char *message, int code, void *tool); /* the same for what ends the process (base/die.h) */

/* Is --json on the line?  Asked of the line itself, which may be one that cannot be read. */
bool tool_json_wanted(int argc, char **argv);

/* A finite number, else null. */
json_t *tool_json_real(double v);

/* Usage errors: false after a diagnostic unless lo <= number of arguments <= hi. */
bool tool_args(Tool *t, size_t lo, size_t hi);

#endif
