/* runtime/train/train.h - trains a model whose entry is a step (passes/train/train.h): the loop, its data, evaluation,
 * checkpoints.
 *
 * In: a model and options.  Out: trained states, files, and calls of the observer.  As in the public API
 * (apc_runtime.h) all functions return a status, and apc_error has the error.  Nothing here prints or handles signals:
 * that is for a program's command line (runtime/stub) or for a program that embeds the runtime.
 */
#ifndef APC_RUNTIME_TRAIN_TRAIN_H
#define APC_RUNTIME_TRAIN_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/apc_runtime.h"
#include "runtime/train/order.h"

/* Data files whose rows the steps take. */
typedef struct DataFiles {
  const char *option;      /* the option that gave them, for messages */
  const char *const *data; /* n of them: "NAME=@FILE.npy", "NAME=@TOKENS.bin", in a mixture "NAME=WEIGHT@FILE" */
  int n;
  int token_bits; /* 16, 32; 0: according to the vocabulary */
  bool shuffled;  /* else rows come in the order of the file */
  uint64_t seed;  /* of the order */
  LastBatch last; /* an epoch's rest that is no whole batch */
  bool pads_if;   /* it is padded if labels can be ignored, else `last` holds */
  int readers;    /* threads; 0: steps wait for their rows */
  /* inputs that follow from documents: "NAME=KIND", for each set of files */
  const char *const *documents;
  int n_documents;
  int64_t document_end; /* documents end with this token; -1: as an index says */
} DataFiles;

/* A completed step. */
typedef struct StepMade {
  int64_t step; /* from 1 */
  double loss, grad_norm, lr;
  double us;       /* its time in microseconds */
  int64_t tokens;  /* tokens that it took; 0 if the data are no sequences */
  int64_t samples; /* rows that it took */
  double noise;    /* the noise scale of the gradients, in rows; NaN if it is not measured, or not known yet */
  double mfu;      /* share of the peak of all devices that its model FLOPs are; NaN if these are unknown */
} StepMade;

/* An evaluation. */
typedef struct EvalMade {
  int64_t step, rows; /* the step before it, and the number of rows */
  double loss, us;
  double perplexity; /* of a token; NaN: the data are no sequences, or the loss no cross-entropy */
  double accuracy;   /* share of the labels that count whose class has the largest logit; NaN: they are no classes */
} EvalMade;

/* The observer; members may be NULL. */
typedef struct TrainWatch {
  void *context;
  void (*begun)(void *context, int64_t made); /* called when all is ready, after `made` earlier steps */
  void (*step)(void *context, const StepMade *s);
  void (*eval)(void *context, const EvalMade *e);
  void (*say)(void *context, bool warning, const char *text); /* called with a line that is no error */
  bool (*asked)(void *context);                               /* true to stop after the current step */
} TrainWatch;

typedef struct Training {
  long steps;                       /* ends after this number of steps, including those before a checkpoint */
  long epochs;                      /* ends after this number of epochs instead; 0: after `steps` */
  DataFiles data, eval;             /* eval: n 0 for none */
  long evals;                       /* steps between evaluations; 0: at the end */
  const char *save;                 /* file for the trained weights; NULL: none */
  const char *save_ema, *save_lora; /* files for their averages, and for adapters alone; NULL: none */
  const char *checkpoint, *resume;  /* folders, or a file to resume; NULL: none */
  long every;                       /* steps between checkpoints; 0: not by steps */
  double every_s;                   /* seconds between them; 0: not by time.  Neither: at the end */
  long keep;                        /* this many of the last checkpoints stay; 0: only the newest */
  bool keep_best;                   /* so does the one of the lowest evaluation loss */
  bool waits;                       /* steps wait while a checkpoint is written, else it is written beside them */
  bool elastic;                     /* go on with other numbers of ranks when ranks are lost, leave or come back */
  long skip;                        /* limit of consecutive steps that may be undone because they are not finite */
  TrainWatch watch;
} Training;

/* Trains; sets `steps` from `epochs`.  The caller has bound inputs that do not come from data.  Errors are in
 * apc_error. */
ApcStatus trainer_run(ApcModel *m, Training *t);

/* ---- between the files of this folder */

/* Reads an output that is one number. */
ApcStatus trainer_result(ApcModel *m, const char *name, double *out);
/* True if the selected entry has an output of that name. */
bool trainer_has_output(ApcModel *m, const char *name);
/* Gives the observer a line. */
void trainer_say(const TrainWatch *w, bool warning, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
