/* driver/weights.h - --weights FILE.safetensors: the model's weights come from another file. */
#ifndef APC_DRIVER_WEIGHTS_H
#define APC_DRIVER_WEIGHTS_H

#include "base/safetensors.h"
#include "base/tensor.h"
#include "ir/ir.h"

/* Points every weight of the module at the tensor of its name, which must have its type and shape.  False after
 * diagnostics, all missing ones at once (of a checkpoint but for statistics, which keep the model's numbers); a warning
 * names floats of the file that no weight takes. */
bool driver_weights_from_file(Module *m, const char *path, Diags *diags);

/* Has the tensor the weight's type and shape? */
bool driver_weight_fits(const Param *p, const SafetensorsEntry *e);

/* Writes the weights of a model, whatever they are made from, by their names: to .safetensors (as --weights takes them)
 * or .npz.  False after diagnostics. */
bool driver_weights_to_file(const Module *m, const char *path, Diags *diags);

/* The values of weights, whatever they are made from; close keeps nothing of them. */
typedef struct WeightReader WeightReader;
WeightReader *driver_reader_open(const Module *m, Diags *diags);
/* False after a diagnostic.  The tensor belongs to the reader.  (The context is a WeightReader: frontend/onnx/export.h
 * calls this.) */
bool driver_reader_read(void *reader, const Param *p, Tensor *out);
void driver_reader_close(WeightReader *r);

#endif
