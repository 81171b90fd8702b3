/* base/diag.h - diagnostics about the user's input: collected, never aborting.
 *
 * Code that finds a fault in a model, plan, target or tensor file calls diag_error and returns failure; the caller
 * prints all diagnostics at the end.  Each code is one row of diag.def with its long text for `apc explain`.  A
 * repeated message about the same place is kept once.
 */
#ifndef APC_BASE_DIAG_H
#define APC_BASE_DIAG_H

#include <stdbool.h>
#include <stdio.h>

#include "base/arena.h"

/* A source location.  Any field may be empty.  `file` with `line` > 0 prints as file:line:col, with the source line
 * and a caret if diag_source registered the text.  `node` is an ONNX node path or the name of an IR value. */
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
  const char *operator_name; /* the unknown operator, and the number of nodes that use it; NULL for other diagnostics */
  size_t nodes;
} Diag;

typedef struct Diags {
  Arena *arena;
  Diag *items;
  size_t n, cap;
  size_t errors, warnings;
  struct DiagSource *sources;
  bool repeats; /* the last error or warning was a repetition, so its notes are dropped too */
} Diags;

/* Makes an empty list in the arena. */
Diags *diags_new(Arena *arena);

/* Each adds one diagnostic; notes and helps belong to the error or warning before them.  diag_error always returns
 * false, so that `return diag_error(...)` reads well. */
bool diag_error(Diags *d, DiagCode code, Loc loc, const char *format, ...) __attribute__((format(printf, 4, 5)));
void diag_warning(Diags *d, DiagCode code, Loc loc, const char *format, ...) __attribute__((format(printf, 4, 5)));
void diag_note(Diags *d, Loc loc, const char *format, ...) __attribute__((format(printf, 3, 4)));
void diag_help(Diags *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first error; NULL if none. */
const Diag *diags_first_error(const Diags *d);

/* Appends the messages of `more`. */
void diags_append(Diags *d, const Diags *more);

/* Marks the last error or warning as one about an unknown operator that `nodes` nodes use. */
void diag_operator(Diags *d, const char *name, size_t nodes);

/* Registers the text of a file (kept by reference) for source lines with carets. */
void diag_source(Diags *d, const char *file, const char *text);

/* Prints all diagnostics in order:  error[APC0217]: message / --> file:line:col / source / caret. */
void diags_print(const Diags *d, FILE *out, bool color);

/* Return "APC0217", the brief and the long text of a code.  diag_code_find returns the code of a text like "APC0217",
 * DIAG_NONE if there is none. */
const char *diag_code_name(DiagCode code);
const char *diag_brief(DiagCode code);
const char *diag_text(DiagCode code);
DiagCode diag_code_find(const char *name);

#endif
