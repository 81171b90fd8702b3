/* driver/packed.h - --weights-dtype: the weights of products in 4 or 8 bits. */
#ifndef APC_DRIVER_PACKED_H
#define APC_DRIVER_PACKED_H

#include "driver/model.h"

/* Rewrites the products of a loaded model (passes/rewrite/packed.h) and computes their weights.  They are in a file of
 * a temporary folder, which model_free removes.  False after diagnostics. */
bool driver_pack_weights(const ModelOptions *o, Model *model);

#endif
