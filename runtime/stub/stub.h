/* runtime/stub/stub.h - what the files of a compiled program's command line share. */
#ifndef APC_RUNTIME_STUB_STUB_H
#define APC_RUNTIME_STUB_STUB_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/apc_runtime.h"

/* Prints an error and returns the exit code. */
int stub_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
int stub_fail_model(const ApcModel *m, ApcStatus status);

/* Data that steps take rows of. */
typedef struct DataFiles {
  const char *option;      /* by which they are given */
  const char *const *data; /* n of them: "NAME=@FILE.npy" or "NAME=@TOKENS.bin" */
  int n;
  int token_bits; /* 16, 32; 0: as the vocabulary needs */
  bool shuffled;  /* else rows come as they are */
  uint64_t seed;  /* of the order */
} DataFiles;

/* train.c: --steps and what belongs to it. */
typedef struct Training {
  long steps;           /* when so many were made, those before a checkpoint counted */
  bool json;            /* an object per step */
  DataFiles data, eval; /* eval: n 0 without --eval */
  long evals;           /* steps between evaluations; 0: at the end */
  const char *save;     /* --save, and so on; NULL: not given */
  const char *checkpoint, *resume;
  long every; /* steps between checkpoints; 0: at the end */
  long skip;  /* so many steps in a row may be taken back because they are not finite */
} Training;

/* From here on SIGINT, SIGTERM and SIGUSR1 end a training run after the step that is being made, as does a standard
 * output that nobody reads.  Before, while ranks meet and weights are loaded, they end the process. */
void stub_listen(void);
/* What these signals set, for the ranks of a launcher. */
const volatile sig_atomic_t *stub_asked(void);

/* Makes the steps; the exit code.  Inputs that do not come from data are bound. */
int stub_train(ApcModel *m, const Training *t);

#endif
