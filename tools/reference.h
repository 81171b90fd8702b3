/* tools/reference.h - computes a model's outputs with the reference interpreter (ir/run/interp.h), in double. */
#ifndef APC_TOOLS_REFERENCE_H
#define APC_TOOLS_REFERENCE_H

#include "ir/run/interp.h"
#include "tools/execute.h"

/* Reads weights from files for the interpreter.  tool_weights_read has the type of InterpOptions.blob, with a
 * WeightFiles as its context; false after a diagnostic. */
typedef struct WeightFiles WeightFiles;
WeightFiles *tool_weights_open(Arena *a, const Module *m);
bool tool_weights_read(void *files, const Module *m, const Param *p, InterpTensor *out, Diags *diags);
void tool_weights_close(WeightFiles *f);

/* Runs the functions `names` of a model in order, each with the states that the previous one leaves; reads weights from
 * their files.  `inputs` and `outputs` are by function; outputs are rounded to their own type.  `states`, if not NULL,
 * receives the final states, by name.  False after diagnostics. */
bool reference_run(Tool *t, const Model *model, int n, const char *const *names, Tensors *const *inputs,
                   Tensors *const *outputs, Tensors *states);

/* Returns the sizes of all dimensions: as the inputs of the functions give them, the first one first, else the planned
 * ones. */
int64_t *reference_symbols(Arena *a, const Module *m, int n, const Func *const *f, Tensors *const *inputs);

/* True if the runs need few enough operations for the interpreter to end within seconds.  `params`: elements of the
 * weights. */
bool reference_is_small(const Model *model, int64_t params, int n, const char *const *names, Tensors *const *inputs);

#endif
