/* tools/tool.h - shared by all commands of apc: options, messages, exit codes.
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
  char *const *line;   /* argv */
  FILE *results; /* reports of run, verify and bench: standard output, or standard error if a form of --emit goes to
                    standard output */
  const struct FileUse *outputs; /* files that outputs_check has accepted (tools/outputs.h) */
  size_t noutputs;
  struct PassChecks *checks; /* verify: checks the passes over the next model (passes/check.h); NULL if not */
  struct ToolValues *values; /* of inputs (tools/values.h); NULL until they are read */
  bool computes_f32;         /* verify: the next model computes in f32, without --dtype */
  bool weights_as_given;     /* verify: the next model has its own weights, without --weights-dtype */
  bool quiet, verbose, times;
  bool color;        /* of messages on standard error */
  bool terminal;     /* standard error can rewrite a line */
  bool unicode;      /* draw bars with Unicode */
  bool json;         /* --json is given (tool_json_wanted) */
  bool document;     /* a JSON document was printed */
  json_t *collected; /* documents are added to this array instead of being printed; NULL: no */
  bool line_open;    /* a progress line is open on the terminal */
  double start_ms, stage_ms;
  double progress_ms;        /* time of the last progress line, or the start of the stage */
  const char *said;          /* the last progress text of the search; NULL if none */
  bool stopped;              /* a signal ended the search */
  const struct Cache *cache; /* tool_cache; NULL if none or not yet requested */
  bool cache_asked;
} Tool;

/* The commands; each returns an ExitCode, or EXIT_OK with errors in the diagnostics (main then chooses the code). */
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
int cmd_import_hf(Tool *t);
int cmd_version(Tool *t);

/* ---- messages (tools/report.c) */

/* Fills the fields that follow from options and terminal, and starts the clock. */
void tool_start(Tool *t, char **argv);

/* Returns the exit code of the first error; there must be one. */
int tool_failed(const Diags *d);

/* Begins a stage of long work and prints "   Importing model.onnx": rewritten on a terminal, one line each otherwise.
 * Ends the previous stage (for --time-report). */
void tool_stage(Tool *t, const char *verb, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* True if it is time for the next progress line: a few times a second on a terminal, now and then otherwise. */
bool tool_progress_due(Tool *t);
/* Reports the progress of a long stage; rewrites the last line on a terminal. */
void tool_progress(Tool *t, const char *verb, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Prints a line that stays, like "    Finished ./model". */
void tool_say(Tool *t, const char *verb, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Ends the progress line and the last stage. */
void tool_stages_end(Tool *t);

/* Returns a monotonic time in milliseconds. */
double tool_now_ms(void);

/* ---- --json (tools/report_json.c) */

/* Prints the document, with the diagnostics so far, on standard output and frees it. */
void tool_json(Tool *t, json_t *document);

/* Prints the document of a failed command, unless the command has printed one. */
void tool_json_failure(Tool *t, int code);
void tool_json_died(const char *message, int code, void *tool); /* the same if the process ends (base/die.h) */

/* True if --json is given; looks at the raw line, which may be malformed. */
bool tool_json_wanted(int argc, char **argv);

/* Returns a finite number as JSON, else null. */
json_t *tool_json_real(double v);

/* False after a usage diagnostic unless lo <= number of arguments <= hi. */
bool tool_args(Tool *t, size_t lo, size_t hi);

#endif
