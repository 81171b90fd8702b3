/* tools/verify_steps.h - how far the first steps of a training in another type are from those in f32. */
#ifndef APC_TOOLS_VERIFY_STEPS_H
#define APC_TOOLS_VERIFY_STEPS_H

#include "tools/build.h"
#include "tools/execute.h"

typedef struct FirstSteps {
  int steps;      /* 0: not compared */
  double loss;    /* the largest relative difference of a loss; infinite if one is not finite */
  double weights; /* of a trained weight after the steps, relative L2 */
  const char *of; /* that weight; NULL if all are equal */
} FirstSteps;

typedef struct StepRun {
  const char *model, *path; /* the model; its program on one rank, in the type of --dtype */
  const char *entry;        /* that makes a step */
  const char *folder;       /* for the program in f32 */
  const char *weights;      /* as for tool_program_open */
  const Tensors *inputs;
} StepRun;

/* Makes the first steps of both programs from the model's weights.  Returns an exit code. */
int first_steps(Tool *t, const StepRun *r, FirstSteps *out);

#endif
