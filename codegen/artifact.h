/* codegen/artifact.h - the executable: stub, Program, machine code of the kernels, weights. */
#ifndef APC_CODEGEN_ARTIFACT_H
#define APC_CODEGEN_ARTIFACT_H

#include "codegen/program.h"

typedef struct ArtifactSpec {
  const Legal *legal;                   /* with its kernels */
  const char *name, *target, *producer; /* texts of the header: model, "cpux4", "apc 0.1.0" */
  double peak;                          /* FLOP/s of all ranks, for the header; 0: unknown */
  const char *peak_of;                  /* its type and source */
  const char *stub;                     /* path of the prebuilt runtime (apcrt-stub) */
  const char *out;                      /* path of the artifact; NULL: compiles everything, writes nothing */
  const char *cc;                       /* C compiler; NULL: $CC, else cc */
  const char *planned;                  /* the target's devices (ProgramHeader.planned); NULL: those of `legal` */
  const char *arch;                     /* architecture of the devices, if there are several; else NULL */
  const char *save_temps;               /* directory that keeps the C texts; NULL: a temporary one, which is removed */
  const Cache *cache;                   /* where machine code is kept, except with save_temps; NULL: nowhere */
} ArtifactSpec;

typedef struct ArtifactReport {
  uint64_t kernels, texts, bytes;
  double compile_ms;
  bool kept; /* the kernels come from the cache */
} ArtifactReport;

/* Compiles the kernels of a Program just made (codegen_program_of), closes the Program, and writes the artifact under a
 * temporary name and renames it.  False after diagnostics: the compiler or the runtime is missing (DIAG_tool_missing;
 * the caller chooses exit code 5), the compiler failed, or a file cannot be read or written. */
bool codegen_write(const ArtifactSpec *spec, const ProgramResult *program, ArtifactReport *report, Diags *diags);

/* A Program of an artifact for several numbers of ranks, with its report. */
typedef struct ArtifactPart {
  ArtifactSpec spec; /* `out` and `stub` are those of the first part */
  const ProgramResult *program;
  ArtifactReport report;
} ArtifactPart;

/* The same for n Programs, which become one artifact: what they share is in it once. */
bool codegen_write_all(ArtifactPart *parts, int n, Diags *diags);

/* True if the prebuilt runtime exists and is complete; false after DIAG_tool_missing. */
bool codegen_stub_check(const char *path, Diags *diags);

/* A Program without compiled kernels, built again from the legalised entries. */
typedef struct ArtifactProgram {
  ProgramResult result;
  Program p;
  void *tables;
} ArtifactProgram;

/* Builds a Program from the legalised entries; `check` verifies its communication and memory, which takes longer than
 * building it.  False after diagnostics.  codegen_program_close frees it. */
bool codegen_program_open(const ArtifactSpec *spec, bool check, ArtifactProgram *out, Diags *diags);
void codegen_program_close(ArtifactProgram *a);

#endif
