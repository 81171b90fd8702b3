/* tools/options.h - reads the command line of apc.
 *
 * In: argv.  Out: the command, its arguments, and every use of an option in order, each checked for form.  Errors are
 * reported through Diags, all at once; usage_exit gives the exit code.  The tables are options.def.
 *
 * Forms: --option=V, --option V, -o V, -oV, -D V, -DV; `--` ends the options; "-" is an argument (standard input).
 */
#ifndef APC_TOOLS_OPTIONS_H
#define APC_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"

typedef enum Command {
  CMD_none,
#define COMMAND(name, ...) CMD_##name,
#include "tools/options.def"
#undef COMMAND
  CMD_COUNT
} Command;

typedef enum OptionId {
#define OPTION(name, ...) OPT_##name,
#include "tools/options.def"
#undef OPTION
  OPT_COUNT
} OptionId;

/* The form of an option's value. */
typedef enum OptionKind {
  OK_FLAG,         /* no value */
  OK_TEXT,         /* any text that is not empty */
  OK_FILE,         /* the name of a file; not -, standard output */
  OK_TEXT_MAYBE,   /* only with "="; may be left out */
  OK_WHOLE,        /* a whole number from 0 */
  OK_COUNT,        /* a whole number from 1 */
  OK_COUNT_AUTO,   /* a whole number from 1, or "auto" */
  OK_REAL,         /* a number from 0 */
  OK_SIZE,         /* bytes: 72GiB, 16GB, 1048576 */
  OK_TIME,         /* 60s, 500ms, 2m */
  OK_BUDGET,       /* 80GiB, 90%, 500ms, 2usd */
  OK_BINDING,      /* NAME=N, N from 1; several joined by commas */
  OK_SHAPE,        /* NAME=1,3,224,224 (x may replace the comma) */
  OK_DEFINE,       /* NAME=VALUE */
  OK_CHOICE,       /* one of the words of the table */
  OK_CHOICE_MAYBE, /* only with "="; may be left out */
  OK_EMIT          /* KIND[=FILE], joined by commas */
} OptionKind;

typedef enum OptionGroup { OG_COMMON, OG_MODEL, OG_TRAIN, OG_PLAN, OG_DATA, OG_OUTPUT, OG_TALK, OG_COUNT } OptionGroup;

typedef struct OptionRow {
  const char *name, *flag;
  char letter;
  OptionKind kind;
  const char *argument;
  uint32_t commands; /* bit c: command c takes it */
  OptionGroup group;
  DiagCode later;
  const char *help;
} OptionRow;

typedef struct CommandRow {
  const char *name, *arguments;
  DiagCode later;
  const char *brief;
} CommandRow;

typedef struct ChoiceRow {
  OptionId option;
  const char *word;
  DiagCode later;
} ChoiceRow;

Command command_find(const char *word);           /* CMD_none if there is no such command */
void command_suggest(Diags *d, const char *word); /* adds help with the nearest command */

extern const char *const option_group_names[OG_COUNT];
extern const CommandRow command_rows[CMD_COUNT];
extern const OptionRow option_rows[OPT_COUNT];
extern const ChoiceRow choice_rows[];
extern const int choice_count;

/* True if the option, or all its words but one, are not built yet.  Help lists these last. */
bool option_is_later(OptionId id);

typedef struct OptionUse {
  OptionId option;
  const char *value; /* NULL if not given */
} OptionUse;

typedef struct Options {
  Command command; /* CMD_none only if reading failed or --help is given alone */
  bool named;      /* the line names the command; without one it is compile */
  struct {
    const char **items;
    size_t n, cap;
  } args;
  struct {
    OptionUse *items;
    size_t n, cap;
  } uses;
} Options;

/* Reads the line.  False after diagnostics; *o then has what could be read.  Allocates in the arena of d. */
bool options_read(Options *o, int argc, char **argv, Diags *d);

/* The values of an option, by kind; its last use counts. */
bool option_given(const Options *o, OptionId id);
const char *option_text(const Options *o, OptionId id);               /* NULL if not given */
int64_t option_int(const Options *o, OptionId id, int64_t otherwise); /* WHOLE, COUNT; "auto" gives `otherwise` */
double option_real(const Options *o, OptionId id, double otherwise);  /* REAL; SIZE in bytes, negative for a fraction */
/* Returns the next use at or after *at and moves *at beyond it; NULL at the end. */
const OptionUse *option_next(const Options *o, OptionId id, size_t *at);

/* Returns the options with this value of `id` in place of any other. */
Options options_with(Arena *a, const Options *given, OptionId id, const char *value);

/* Splits one NAME=VALUE at the first '='. */
bool split_binding(Arena *a, const char *text, size_t n, const char **name, const char **value);
/* Splits at the last '=': a size has none, but a name may. */
bool split_size(Arena *a, const char *text, size_t n, const char **name, const char **value);
bool tool_parse_whole(const char *text, int64_t *out); /* from 0 */
bool tool_parse_size(const char *text, double *bytes); /* "72GiB"; "90%" gives -0.9 */
bool tool_parse_time(const char *text, int *ms);       /* from one millisecond to twelve days */

/* One --budget; 0 for quantities that it does not limit. */
typedef struct Budget {
  double bytes; /* of a device; negative for a fraction of its memory */
  double seconds, usd;
} Budget;

/* Reads "80GiB", "90%", "500ms" or "2usd"; false if it is none. */
bool tool_parse_budget(const char *text, Budget *out);

/* tools/help.c: print `apc --help` and `apc COMMAND --help`. */
void tool_help_print(void);
void tool_help_command(Command c);

#endif
