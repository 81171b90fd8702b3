/* runtime/exec/load.h - loads weights from files, embedded ranges or the random generator into a rank's memory. */
#ifndef APC_RUNTIME_EXEC_LOAD_H
#define APC_RUNTIME_EXEC_LOAD_H

#include "runtime/exec/param_files.h"

/* The sources of all weights. */
typedef struct Weights Weights;

/* Maps the files, which must stay open; param_files_open has checked their contents. */
RtStatus weights_open(const ParamFiles *files, Weights **out, RtError *error);
void weights_close(Weights *w); /* NULL is allowed */

/* Checks that the file that replaces the weights has all of them, with their shapes.  Reads it without mapping it. */
RtStatus weights_check(const ParamFiles *files, RtError *error);

/* Returns the address of the part [lo[d], lo[d] + extent[d]) of a weight in its mapped file, if it is contiguous there,
 * of the weight's own type and aligned to its elements; else NULL. */
const void *weights_in_place(const Weights *w, uint32_t param, const int64_t *lo, const int64_t *extent);

/* Copies, converts or computes that part into `to`, row-major.  `beats` counts signs of life; may be NULL. */
void weights_load(const Weights *w, uint32_t param, const int64_t *lo, const int64_t *extent, void *to,
                  _Atomic uint64_t *beats);

/* That part as a matrix in its mapped file. */
typedef struct WeightsMatrix {
  const void *data;    /* of the weight's own type, perhaps unaligned */
  int64_t row, column; /* elements from one to the next */
} WeightsMatrix;

/* Finds the matrix.  dense: rows, columns, and their steps in elements if the part were row-major.  False if the file
 * has no such matrix: more than two strides, another type, no file. */
bool weights_matrix(const Weights *w, uint32_t param, const int64_t *lo, const int64_t *extent, const int64_t dense[4],
                    WeightsMatrix *out);

/* weights_soon reads the pages of a mapped file in [from, to) ahead; the others release pages, which then no longer
 * count as this process's memory and are read again on the next access.  Nothing happens without a mapped file. */
void weights_soon(const Weights *w, const void *from, const void *to);
void weights_give_back(const Weights *w, const void *from, const void *to);
void weights_give_back_part(const Weights *w, uint32_t param, const int64_t *lo, const int64_t *extent);
void weights_give_back_all(const Weights *w);

#endif
