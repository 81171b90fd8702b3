/* runtime/train/train.h - trains a model whose entry is a step (passes/train/train.h): the loop, its data, evaluation,
 * checkpoints.
 *
 * In: a model, and what to do.  Out: steps that are made, files, and calls of who looks on.  Like the public functions
 * (apc_runtime.h) all return a status, and what went wrong is in apc_error.  Nothing here prints or handles signals:
 * that is for a program's command line (runtime/stub) or for who embeds the runtime.
 */
#ifndef APC_RUNTIME_TRAIN_TRAIN_H
#define APC_RUNTIME_TRAIN_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/apc_runtime.h"

/* Data that steps take rows of. */
typedef struct DataFiles {
  const char *option;      /* by which they are given, for messages */
  const char *const *data; /* n of them: "NAME=@FILE.npy" or "NAME=@TOKENS.bin" */
  int n;
  int token_bits; /* 16, 32; 0: as the vocabulary needs */
  bool shuffled;  /* else rows come as they are */
  uint64_t seed;  /* of the order */
} DataFiles;

/* A step that was made. */
typedef struct StepMade {
  int64_t step; /* from 1 */
  double loss, grad_norm, lr;
  double us;      /* the time it took */
  int64_t tokens; /* or rows, that it took */
} StepMade;

/* An evaluation. */
typedef struct EvalMade {
  int64_t step, rows; /* after so many steps, of so many rows */
  double loss, us;
} EvalMade;

/* Who looks on; members may be NULL. */
typedef struct TrainWatch {
  void *context;
  void (*begun)(void *context); /* all is ready, the first step comes next */
  void (*step)(void *context, const StepMade *s);
  void (*eval)(void *context, const EvalMade *e);
  void (*say)(void *context, bool warning, const char *text); /* a line that is no error */
  bool (*asked)(void *context);                               /* to end after the step that is being made */
} TrainWatch;

typedef struct Training {
  long steps;                      /* when so many were made, those before a checkpoint counted */
  DataFiles data, eval;            /* eval: n 0 for none */
  long evals;                      /* steps between evaluations; 0: at the end */
  const char *save;                /* a file for the trained weights; NULL: none */
  const char *checkpoint, *resume; /* folders; NULL: none */
  long every;                      /* steps between checkpoints; 0: at the end */
  long skip;                       /* so many steps in a row may be taken back because they are not finite */
  TrainWatch watch;
} Training;

/* Makes the steps.  Inputs that do not come from data are bound. */
ApcStatus trainer_run(ApcModel *m, const Training *t);

/* ---- between the files of this folder */

void trainer_say(const TrainWatch *w, bool warning, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
