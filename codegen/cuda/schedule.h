/* codegen/cuda/schedule.h - what every rank of a CUDA Program does, with the names of the libraries that do it. */
#ifndef APC_CODEGEN_CUDA_SCHEDULE_H
#define APC_CODEGEN_CUDA_SCHEDULE_H

#include "codegen/artifact.h"

/* For a Program made with source.cuda.  Sizes are those of the symbols' hints; ranks whose lists are equal are printed
 * together. */
void cuda_schedule_print(Arena *a, const ArtifactProgram *program, Text *t);

#endif
