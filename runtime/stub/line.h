/* runtime/stub/line.h - the parsed command line of a compiled program. */
#ifndef APC_RUNTIME_STUB_LINE_H
#define APC_RUNTIME_STUB_LINE_H

#include <stdbool.h>

#include "runtime/train/train.h"

typedef enum LineOption {
#define OPTION(name, argument, mode, help) OPT_##name,
#include "runtime/stub/options.def"
#undef OPTION
  OPT_COUNT
} LineOption;

/* One option of the command line; repeated ones stay in order. */
typedef struct Given {
  LineOption id;
  const char *value; /* NULL if it has none */
} Given;

typedef struct Line {
  Given *given;
  int n;
} Line;

/* Returns the last occurrence of an option, line_text its value; NULL if it was not given. */
const Given *line_last(const Line *line, LineOption id);
const char *line_text(const Line *line, LineOption id);
/* Returns the option's name without "--". */
const char *line_name(LineOption id);
/* True if the line asks for training. */
bool line_trains(const Line *line);
/* Reads a whole number from min to max. */
bool line_whole(const char *text, long min, long max, long *out);

/* training.c.  Reads all options of training except the data; refuses options that need --steps; refuses a log that
 * would replace a file of the run.  They return 0, or the exit code after printing the error. */
int stub_training(const Line *line, Training *t);
int stub_needs_steps(const Line *line);
int stub_check_log(ApcModel *m, const Training *t, const char *log);

#endif
