/* base/diag.h - diagnostics about the user's input: collected, never aborting.
 *
 * Code that finds something wrong with a model, plan, target or tensor file calls diag_error and
 * returns failure; the caller prints all of them at the end.  Each code is one row of diag.def with
 * its long text for `apc explain`.  What is said again, word by word of the same place, is kept once.
 */
#ifndef APC_BASE_DIAG_H
#define APC_BASE_DIAG_H

#include <stdbool.h>
#include <stdio.h>

#include "base/arena.h"

/* Where something came from.  Any field may be empty.  `file` with `line` > 0 prints as
 * file:line:col (with the source line and a caret when the text was registered by diag_source);
 * `node` is an ONNX node path or an IR value name. */
typedef struct Loc {
  const char *file;
  const char *node;
  int line, col;
} Loc;

typedef enum DiagCode {
  DIAG_NONE,
#define DIAG(name, code, brief, text) DIAG_##name,
#include "base/diag.def"
#undef DIAG
  DIAG_COUNT
} DiagCode;

typedef enum Severity { SEV_ERROR, SEV_WARNING, SEV_NOTE, SEV_HELP } Severity;

typedef struct Diag {
  Severity severity; /* notes and helps belong to the error or warning before them */
  DiagCode code;
  Loc loc;
  const char *message;
  const char *operator_name; /* whose operator is unknown, and at how many nodes; NULL: it is about something else */
  size_t nodes;
} Diag;

typedef struct Diags {
  Arena *arena;
  Diag *items;
  size_t n, cap;
  size_t errors, warnings;
  struct DiagSource *sources;
  bool repeats; /* the last error or warning was there before: so its notes are not kept */
} Diags;

Diags *diags_new(Arena *arena);

/* Always returns false, so that `return diag_error(...)` reads well. */
bool diag_error(Diags *d, DiagCode code, Loc loc, const char *format, ...) __attribute__((format(printf, 4, 5)));
void diag_warning(Diags *d, DiagCode code, Loc loc, const char *format, ...) __attribute__((format(printf, 4, 5)));
void diag_note(Diags *d, Loc loc, const char *format, ...) __attribute__((format(printf, 3, 4)));
void diag_help(Diags *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* NULL: there is none. */
const Diag *diags_first_error(const Diags *d);

/* Adds the messages of `more` after those that are there. */
void diags_append(Diags *d, const Diags *more);

/* The error or warning before is about an operator that is unknown. */
void diag_operator(Diags *d, const char *name, size_t nodes);

/* Remembers the text of a file (kept by reference) for caret lines. */
void diag_source(Diags *d, const char *file, const char *text);

/* Prints all diagnostics in order:  error[APC0217]: message / --> file:line:col / source / caret. */
void diags_print(const Diags *d, FILE *out, bool color);

/* "APC0217"; the brief and the long text of a code; the code of a text like "APC0217" (or DIAG_NONE). */
const char *diag_code_name(DiagCode code);
const char *diag_brief(DiagCode code);
const char *diag_text(DiagCode code);
DiagCode diag_code_find(const char *name);

#endif
