/* tools/emit.h - --emit=KIND[=FILE],...: the forms of a model that can be written out. */
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
  EMIT_DOT,
  EMIT_HTML,
  EMIT_KINDS
} EmitKind;

typedef struct Emit {
  EmitKind kind;
  const char *pass; /* IR_PASS */
  const char *file; /* "-" is standard output */
} Emit;

typedef struct EmitList {
  Emit *items;
  size_t n, cap;
} EmitList;

/* What --emit and -S ask for (nothing given: `otherwise`), with the files' names filled in from -o and the model's
 * name.  False after a diagnostic: a pass there is not, -o together with several files, a file that is read or written
 * twice (tools/outputs.h). */
bool tool_emit_list(Tool *t, const char *model_name, const EmitKind *otherwise, EmitList *out);
bool tool_emit_wants(const EmitList *l, EmitKind kind);

/* How far a build has to come before tool_emit_write. */
bool tool_emit_needs_plan(const EmitList *l);
bool tool_emit_needs_lowering(const EmitList *l);

/* False after a diagnostic: a form that the target's device does not have. */
bool tool_emit_check_target(Tool *t, const Target *target, const EmitList *l);

/* Writes the forms of a build that has come far enough. */
bool tool_emit_write(Tool *t, Build *b, const EmitList *l);

#endif
