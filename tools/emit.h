/* tools/emit.h - --emit=KIND[=FILE],...: writes the forms of a model. */
#ifndef APC_TOOLS_EMIT_H
#define APC_TOOLS_EMIT_H

#include "tools/build.h"

typedef enum EmitKind {
  EMIT_EXE,
  EMIT_PLAN,
  EMIT_IR,
  EMIT_IR_PASS,
  EMIT_SPMD,
  EMIT_LEGAL,
  EMIT_SCHEDULE,
  EMIT_C,
  EMIT_CUDA,
  EMIT_PTX,
  EMIT_CUBIN,
  EMIT_ONNX,
  EMIT_DOT,
  EMIT_HTML,
  EMIT_TRACE,
  EMIT_KINDS
} EmitKind;

typedef struct Emit {
  EmitKind kind;
  const char *pass; /* for IR_PASS */
  const char *file; /* "-" is standard output */
} Emit;

typedef struct EmitList {
  Emit *items;
  size_t n, cap;
} EmitList;

/* Reads --emit and -S (`otherwise` if neither is given), with missing file names taken from -o and the model's name.
 * False after a diagnostic: an unknown pass, -o with several files, a file that is also read or written twice
 * (tools/outputs.h). */
bool tool_emit_list(Tool *t, const char *model_name, const EmitKind *otherwise, EmitList *out);
/* True if the list has that form. */
bool tool_emit_wants(const EmitList *l, EmitKind kind);

/* True if the forms need a plan, or level 2, before tool_emit_write. */
bool tool_emit_needs_plan(const EmitList *l);
bool tool_emit_needs_lowering(const EmitList *l);

/* Checks that the target's device has the forms; false after a diagnostic. */
bool tool_emit_check_target(Tool *t, const Target *target, const EmitList *l);

/* Writes the forms of a build whose stages have run.  False after diagnostics. */
bool tool_emit_write(Tool *t, Build *b, const EmitList *l);

#endif
