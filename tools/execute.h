/* tools/execute.h - running a program that was just built: its inputs, its outputs, comparing them. */
#ifndef APC_TOOLS_EXECUTE_H
#define APC_TOOLS_EXECUTE_H

#include "base/temporary.h"
#include "base/tensor.h"
#include "runtime/apc_runtime.h"
#include "tools/build.h"

typedef struct Tensors {
  NamedTensor *items;
  size_t n;
} Tensors;

/* One tensor per input of the entry: from --inputs and --input, else random by seed 0 (floats normal, integers inside
 * the table they index, else 0 or 1).  False after diagnostics.  Free with tensors_free.  `f` is an entry of the build
 * at level 1; with several entries, tensors given for inputs of another one are left out.  What is given is read before
 * the plan is made, the rest is made once it is known to fit. */
bool inputs_read(Tool *t, const Build *b, const Func *f, Tensors *out);
bool inputs_make(Tool *t, const Build *b, const Func *f, Tensors *out);
/* A value of --input, NAME=HOW: a name of the list may contain '='; a bare HOW serves a list of one.  False after a
 * diagnostic. */
bool split_input(Tool *t, const Tensors *names, const char *text, const char **name, const char **value);
void tensors_free(Tensors *x);
const Tensor *tensors_find(const Tensors *x, const char *name);
/* "f32[2,16]" */
const char *tool_tensor_type_text(Arena *a, const Tensor *x);

/* Opens the program; NULL after diagnostics, and then *code is the exit code.  `weights`: a file to take them from, or
 * NULL. */
ApcModel *tool_program_open(Tool *t, const char *path, const char *weights, int *code);
/* Binds the inputs of an entry and runs it (the first time: starts the ranks); an exit code. */
int tool_program_run(Tool *t, ApcModel *model, const char *entry, const Tensors *inputs);
/* A status as an exit code, after a diagnostic when it is not APC_OK. */
int tool_program_status(Tool *t, const ApcModel *model, ApcStatus status);
/* Copies all outputs of the last run, of the entry selected. */
bool outputs_read(Tool *t, ApcModel *model, Tensors *out, int *code);

/* How far two tensors are apart. */
typedef struct Difference {
  double rel_l2; /* ||x - y|| / ||y||; for integers and bool the fraction of elements that differ */
  double max_abs;
  bool ok;
} Difference;

/* The default of --rtol for outputs of the type. */
double default_rtol(DType t);

/* Against --rtol (relative L2) or, when --atol is given, every element within it.  Tensors of different
 * type or shape are never ok. */
Difference compare(const Tool *t, const Tensor *x, const Tensor *y);

#endif
