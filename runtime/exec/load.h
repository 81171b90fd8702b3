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

/* That part as a matrix, where it lies. */
typedef struct WeightsMatrix {
  const void *data;    /* of the weight's own type, perhaps not aligned to it */
  int64_t row, column; /* elements from one to the next */
} WeightsMatrix;

/* dense: rows, columns, and how many elements they are apart in the part when it is row-major.  False when it lies
 * nowhere as such a matrix: in several runs, of another type, not in a file. */
bool weights_matrix(const Weights *w, uint32_t param, const int64_t *lo, const int64_t *extent, const int64_t dense[4],
                    WeightsMatrix *out);

/* The pages of a mapped file in [from, to) will be needed soon, or are no longer: those in use no longer count as this
 * process's memory; who reads them again gets them again.  Nothing happens where no file is mapped. */
void weights_soon(const Weights *w, const void *from, const void *to);
void weights_give_back(const Weights *w, const void *from, const void *to);
void weights_give_back_part(const Weights *w, uint32_t param, const int64_t *lo, const int64_t *extent);
void weights_give_back_all(const Weights *w);

#endif
