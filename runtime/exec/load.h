/* runtime/exec/load.h - weights: from files, embedded ranges or the random generator into a rank's memory. */
#ifndef APC_RUNTIME_EXEC_LOAD_H
#define APC_RUNTIME_EXEC_LOAD_H

#include "runtime/exec/param_files.h"

/* Where the bytes of weights are. */
typedef struct Weights Weights;

/* Maps the files, which must stay open; whether they are the right ones, param_files_open has checked. */
RtStatus weights_open(const ParamFiles *files, Weights **out, RtError *error);
void weights_close(Weights *w); /* NULL is allowed */

/* Does the file that replaces the weights hold all of them, with their shapes?  It is read, not mapped. */
RtStatus weights_check(const ParamFiles *files, RtError *error);

/* The part of a weight [lo[d], lo[d] + extent[d]): its address where the file is mapped when it lies there in one run
 * of the weight's own type, aligned to its elements; else NULL. */
const void *weights_in_place(const Weights *w, uint32_t param, const int64_t *lo, const int64_t *extent);

/* Copies, converts or computes that part, row-major, into `to`.  `beats` grows while large ones are; may be NULL. */
void weights_load(const Weights *w, uint32_t param, const int64_t *lo, const int64_t *extent, void *to,
                  _Atomic uint64_t *beats);

#endif
