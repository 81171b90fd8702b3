/* tools/reference.h - a model's outputs by the reference interpreter (ir/run/interp.h), in double. */
#ifndef APC_TOOLS_REFERENCE_H
#define APC_TOOLS_REFERENCE_H

#include "ir/run/interp.h"
#include "tools/execute.h"

/* The weights in files, for the interpreter (InterpOptions.blob). */
typedef struct WeightFiles WeightFiles;
WeightFiles *tool_weights_open(Arena *a, const Module *m);
bool tool_weights_read(void *files, const Module *m, const Param *p, InterpTensor *out, Diags *diags);
void tool_weights_close(WeightFiles *f);

/* Runs the functions `names` of a model in order, from one to the next with the states that it leaves; weights are read
 * from their files.  `inputs` and `outputs` are by function; outputs are rounded to their own type.  Where `states` is
 * not NULL, it gets what is left in all states, by name.  False after diagnostics. */
bool reference_run(Tool *t, const Model *model, int n, const char *const *names, Tensors *const *inputs,
                   Tensors *const *outputs, Tensors *states);

/* The sizes of all dimensions: those that the inputs of the functions give, of several the first, else what is planned
 * for. */
int64_t *reference_symbols(Arena *a, const Module *m, int n, const Func *const *f, Tensors *const *inputs);

/* Are the runs few enough operations for the interpreter to end within seconds?  `params` is the number of its weights'
 * elements. */
bool reference_is_small(const Model *model, int64_t params, int n, const char *const *names, Tensors *const *inputs);

#endif
