/* tools/execute.h - running a program that was just built: its inputs, its outputs, comparing them. */
#ifndef APC_TOOLS_EXECUTE_H
#define APC_TOOLS_EXECUTE_H

#include "base/tensor.h"
#include "runtime/apc_runtime.h"
#include "tools/build.h"

/* A folder for programs that nobody keeps; removed by scratch_close, and when a signal ends apc. */
typedef struct Scratch {
  const char *dir;
} Scratch;

bool scratch_open(Tool *t, Scratch *s);
const char *scratch_file(Tool *t, Scratch *s, const char *name);
void scratch_close(Scratch *s);

/* One tensor per input of the entry: from --inputs and --input, else random by seed 0 (floats normal, integers
 * inside the table they index, else 0 or 1).  False after diagnostics.  Free with tensors_free. */
typedef struct Tensors {
  NamedTensor *items;
  size_t n;
} Tensors;

bool inputs_make(Tool *t, const Build *b, Tensors *out);
void tensors_free(Tensors *x);
const Tensor *tensors_find(const Tensors *x, const char *name);

/* Starts the program's ranks and binds the inputs; NULL after diagnostics, and then *code is the exit code. */
ApcModel *program_start(Tool *t, const char *path, const Tensors *inputs, int *code);
/* A status as an exit code, after a diagnostic when it is not APC_OK. */
int program_status(Tool *t, const ApcModel *model, ApcStatus status);
/* Copies all outputs of the last run. */
bool outputs_read(Tool *t, ApcModel *model, Tensors *out, int *code);

/* How far two tensors are apart. */
typedef struct Difference {
  double rel_l2;  /* ||x - y|| / ||y||; for integers and bool the fraction of elements that differ */
  double max_abs;
  bool ok;
} Difference;

/* Against --rtol (relative L2, default 1e-4) or, when --atol is given, every element within it.  Tensors of different
 * type or shape are never ok. */
Difference compare(const Tool *t, const Tensor *x, const Tensor *y);

#endif
