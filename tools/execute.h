/* tools/execute.h - runs a program that was just built: its inputs, its outputs, comparisons. */
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

/* Reads the tensors of --inputs and --input for the entry `f` of the build, at level 1; ignores those for other
 * entries.  Called before planning.  False after diagnostics.  Free with tensors_free. */
bool inputs_read(Tool *t, const Build *b, const Func *f, Tensors *out);
/* Fills the inputs that inputs_read left open, after checking that they fit in memory: by default random with seed 0
 * (floats normal, integers inside the table they index, else 0 or 1).  False after diagnostics. */
bool inputs_make(Tool *t, const Build *b, const Func *f, Tensors *out);
/* Splits a value of --input, NAME=HOW: a name of the list may contain '='; a bare HOW serves a list of one.  False
 * after a diagnostic. */
bool split_input(Tool *t, const Tensors *names, const char *text, const char **name, const char **value);
/* Frees the tensors of the list, which is then empty. */
void tensors_free(Tensors *x);
/* Returns the tensor of that name; NULL if none. */
const Tensor *tensors_find(const Tensors *x, const char *name);
/* Returns "f32[2,16]". */
const char *tool_tensor_type_text(Arena *a, const Tensor *x);

/* Opens the program; NULL after diagnostics, with the exit code in *code.  `weights`: a file to load them from, or
 * NULL. */
ApcModel *tool_program_open(Tool *t, const char *path, const char *weights, int *code);
/* Binds the inputs of an entry and runs it (the first run starts the ranks); returns an exit code. */
int tool_program_run(Tool *t, ApcModel *model, const char *entry, const Tensors *inputs);
/* Returns the exit code of a status; adds a diagnostic unless it is APC_OK. */
int tool_program_status(Tool *t, const ApcModel *model, ApcStatus status);
/* Copies all outputs of the last run of the selected entry.  False with an exit code in *code. */
bool outputs_read(Tool *t, ApcModel *model, Tensors *out, int *code);

/* The difference of two tensors. */
typedef struct Difference {
  double rel_l2; /* ||x - y|| / ||y||; for integers and bool the fraction of elements that differ */
  double max_abs;
  bool ok;
} Difference;

/* Returns the default of --rtol for outputs of the type. */
double default_rtol(DType t);

/* Compares by --rtol (relative L2) or, if --atol is given, by either.  Tensors of different type or shape are never
 * ok. */
Difference compare(const Tool *t, const Tensor *x, const Tensor *y);

#endif
