/* runtime/load.h - weights: from files, embedded ranges or the random generator into a rank's memory. */
#ifndef APC_RUNTIME_LOAD_H
#define APC_RUNTIME_LOAD_H

#include "runtime/artifact.h"

/* Where the bytes of weights are. */
typedef struct Weights Weights;

/* `override`: NULL; a .safetensors file whose tensors replace the weights of the same name (all must be there); or another
 * place of the one file the program refers to.  Checks sizes; with `verify` also hashes (the host, once). */
RtStatus weights_open(const Artifact *a, const char *override, bool verify, Weights **out, RtError *error);
void weights_close(Weights *w); /* NULL is allowed */

/* The part of a weight [lo[d], lo[d] + extent[d]): its address where the file is mapped when it lies there in one run of
 * the weight's own type, aligned to its elements; else NULL. */
const void *weights_in_place(const Weights *w, uint32_t param, const int64_t *lo, const int64_t *extent);

/* Copies, converts or computes that part, row-major, into `to`. */
void weights_load(const Weights *w, uint32_t param, const int64_t *lo, const int64_t *extent, void *to);

#endif
