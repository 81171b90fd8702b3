/* codegen/program.h - legalised level 2 to Program: what every rank executes, as the image the runtime maps.
 *
 * In: the units of all entries and their kernels (codegen/legal.h).  Out: a ProgramBuilder with everything but the
 * kernels' machine code and the weights' bytes, and the kernels' texts.
 *
 * Per (entry, stage) bodies by phase (program_bodies.c); @prepare is one of phase `pre`.  Inside a body the units of
 * codegen/rows/units.h become instructions in their order, so all communication of a body has the one order of the
 * level-2 function, and its key is the position there.
 */
#ifndef APC_CODEGEN_PROGRAM_H
#define APC_CODEGEN_PROGRAM_H

#include "codegen/embedded.h"
#include "codegen/legal.h"
#include "program/build.h"

/* A kernel, by its number in the Program. */
typedef struct ProgramKernelText {
  const char *symbol, *text; /* complete behind the target's prelude */
  const char *how;           /* its schedule, for people; NULL: nothing to say */
  int threads, shared;       /* of a block, and bytes of its shared memory; 0 on devices without grids */
  bool looks;                /* as ProgramKernel has it */
} ProgramKernelText;

typedef struct ProgramResult {
  ProgramBuilder *b; /* free with program_builder_free */
  struct {
    ProgramKernelText *items;
    size_t n, cap;
  } kernels;       /* different ones */
  uint32_t events; /* of asynchronous communication */
  struct {
    Embedded *items;
    size_t n, cap;
  } embedded; /* files of weights */
} ProgramResult;

/* Of legalised entries with their kernels.  False after diagnostics: a weights file that cannot be read, more symbolic
 * dimensions than a Program can hold, sizes that cannot be computed. */
bool codegen_program_of(const Legal *legal, ProgramResult *out, Diags *diags);

#endif
