/* codegen/cuda/schedule.h - the calls that every rank of a CUDA Program makes, by the names of the libraries. */
#ifndef APC_CODEGEN_CUDA_SCHEDULE_H
#define APC_CODEGEN_CUDA_SCHEDULE_H

#include "codegen/artifact.h"

/* Prints the schedule of a Program made with source.cuda.  Sizes are those of the symbols' hints; ranks with equal
 * lists are printed together. */
void cuda_schedule_print(Arena *a, const ArtifactProgram *program, Text *t);

#endif
