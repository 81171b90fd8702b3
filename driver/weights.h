/* driver/weights.h - --weights FILE|DIR: the model's weights come from other files. */
#ifndef APC_DRIVER_WEIGHTS_H
#define APC_DRIVER_WEIGHTS_H

#include "base/safetensors.h"
#include "base/tensor.h"
#include "driver/weight_map.h"
#include "ir/ir.h"

/* Points every weight of the module at the tensor of its name (driver/weight_files.h has the forms of `path`), which
 * must have its shape and its type, or a narrower type of floats: such a weight is stored as in the file and cast,
 * once, at loading.  Training takes no narrower types.  `maps` says the names that weights have in the file (NULL:
 * their own); *renamed becomes the number of weights with another one.  False after diagnostics, which list all missing
 * tensors at once (a checkpoint may lack statistics, which then keep the model's values); warns of floats in the file
 * that no weight takes. */
bool driver_weights_from_file(Module *m, const char *path, WeightMaps *maps, bool training, size_t *renamed,
                              Diags *diags);

/* True if the tensor has the weight's type and shape. */
bool driver_weight_fits(const Param *p, const SafetensorsEntry *e);

/* Writes the weights of a model, mapped or computed, under their names to .safetensors (as --weights takes them) or
 * .npz.  False after diagnostics. */
bool driver_weights_to_file(const Module *m, const char *path, Diags *diags);

/* Reads values of weights, mapped or computed; close releases them. */
typedef struct WeightReader WeightReader;
WeightReader *driver_reader_open(const Module *m, Diags *diags);
/* Reads one weight; false after a diagnostic.  The tensor belongs to the reader.  (`reader` is a WeightReader:
 * frontend/onnx/export.h calls this.) */
bool driver_reader_read(void *reader, const Param *p, Tensor *out);
void driver_reader_close(WeightReader *r);

#endif
