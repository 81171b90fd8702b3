/* runtime/stub/progress.h - the line about a training run at the foot of a terminal. */
#ifndef APC_RUNTIME_STUB_PROGRESS_H
#define APC_RUNTIME_STUB_PROGRESS_H

#include "runtime/train/train.h"

typedef struct Progress {
  bool on, shown;    /* on: standard error is a terminal; shown: the line is there now */
  long steps, every; /* of the run; between checkpoints, 0: only at the end */
  int64_t first;     /* the first step of this run; 0: none yet */
  double begin_s, shown_s, loss;
} Progress;

/* Begins the line of a run. */
void stub_progress_begin(Progress *p, const Training *t);
/* Rewrites the line after a step, at most ten times a second. */
void stub_progress_step(Progress *p, const StepMade *s);
/* Removes the line before other output. */
void stub_progress_clear(Progress *p);

#endif
