/* codegen/program.h - legalised level 2 to Program: the image that every rank maps and executes.
 *
 * In: the units of all entries and their kernels (codegen/legal.h).  Out: a ProgramBuilder with everything except the
 * kernels' machine code and the weights' bytes, and the kernels' texts.
 *
 * Each (entry, stage) has bodies by phase (program_bodies.c); @prepare is one body of phase `pre`.  Inside a body the
 * units of codegen/rows/units.h become instructions in their order, so all communication of a body has the order of the
 * level-2 function, and its key is the position in that order.
 */
#ifndef APC_CODEGEN_PROGRAM_H
#define APC_CODEGEN_PROGRAM_H

#include "codegen/embedded.h"
#include "codegen/legal.h"
#include "program/build.h"

/* A kernel, by its number in the Program. */
typedef struct ProgramKernelText {
  const char *symbol, *text; /* the text is complete after the target's prelude */
  const char *how;           /* its schedule, for people; NULL if none */
  int threads, shared;       /* threads of a block, and bytes of its shared memory; 0 on devices without grids */
  bool looks;                /* it checks indices (ProgramKernel) */
} ProgramKernelText;

typedef struct ProgramResult {
  ProgramBuilder *b; /* freed with program_builder_free */
  struct {
    ProgramKernelText *items;
    size_t n, cap;
  } kernels;       /* without duplicates */
  uint32_t events; /* of asynchronous communication */
  struct {
    Embedded *items;
    size_t n, cap;
  } embedded; /* files of weights */
} ProgramResult;

/* Builds the Program of legalised entries with their kernels.  False after diagnostics: a weights file that cannot be
 * read, more symbolic dimensions than a Program can hold, sizes that cannot be computed. */
bool codegen_program_of(const Legal *legal, ProgramResult *out, Diags *diags);

#endif
