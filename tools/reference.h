/* tools/reference.h - a model's outputs by the reference interpreter (ir/interp.h), in double. */
#ifndef APC_TOOLS_REFERENCE_H
#define APC_TOOLS_REFERENCE_H

#include "ir/interp.h"
#include "tools/execute.h"

/* The weights in files, for the interpreter (InterpOptions.blob). */
typedef struct WeightFiles WeightFiles;
WeightFiles *weight_files_open(Arena *a, const Module *m);
bool weight_files_read(void *files, const Module *m, const Param *p, InterpTensor *out, Diags *diags);
void weight_files_close(WeightFiles *f);

/* Runs the functions `names` of a model in order, from one to the next with the states that it leaves; weights are read from their files.
 * `inputs` and `outputs` are by function; outputs are rounded to their own type.  False after diagnostics. */
bool reference_run(Tool *t, const Model *model, int n, const char *const *names, Tensors *const *inputs, Tensors *const *outputs);

/* Are the runs few enough operations for the interpreter to end within seconds?  `params` is the number of its weights' elements. */
bool reference_is_small(const Model *model, int64_t params, int n, const char *const *names, Tensors *const *inputs);

#endif
