/* codegen/artifact.h - the executable: stub, Program, machine code of the kernels, weights. */
#ifndef APC_CODEGEN_ARTIFACT_H
#define APC_CODEGEN_ARTIFACT_H

#include "codegen/program.h"

typedef struct ArtifactSpec {
  const Legal *legal;                   /* with its kernels */
  const char *name, *target, *producer; /* texts of the header: model, "cpux4", "apc 0.1.0" */
  const char *stub;                     /* path of the prebuilt runtime (apcrt-stub) */
  const char *out;                      /* path of the artifact; NULL: compile everything, write nothing */
  const char *cc;                       /* C compiler; NULL: $CC, else cc */
  const char *arch;                     /* of the devices, where there are several; else NULL */
  const char *save_temps;               /* directory that keeps the C texts; NULL: a temporary one, removed */
  const Cache *cache;                   /* where machine code is kept, but with save_temps; NULL: nowhere */
} ArtifactSpec;

typedef struct ArtifactReport {
  uint64_t kernels, texts, bytes;
  double compile_ms;
  bool kept; /* the kernels come from the cache */
} ArtifactReport;

/* Compiles the kernels of a Program just made (codegen_program_of), closes the Program, and writes the artifact under a
 * temporary name and renames it.  False after diagnostics: the compiler or the runtime is missing (exit code 5 is the
 * caller's choice: DIAG_tool_missing), the compiler failed, a file cannot be read or written. */
bool codegen_write(const ArtifactSpec *spec, const ProgramResult *program, ArtifactReport *report, Diags *diags);

/* Whether the prebuilt runtime is there and whole; false after DIAG_tool_missing. */
bool codegen_stub_check(const char *path, Diags *diags);

/* The Program alone, without compiled kernels, made anew of the legalised entries. */
typedef struct ArtifactProgram {
  ProgramResult result;
  Program p;
  void *tables;
} ArtifactProgram;

/* `check` whether its communication and memory are right, which takes longer than to make it.  False after
 * diagnostics. */
bool codegen_program_open(const ArtifactSpec *spec, bool check, ArtifactProgram *out, Diags *diags);
void codegen_program_close(ArtifactProgram *a);

#endif
