/* runtime/train/dataset.h - rows of training data for the steps.
 *
 * Every file is an array whose first dimension counts rows, or windows of tokens (tokens.h), which also provide
 * `labels`, the next tokens.  All files have the same number of rows.  Step s takes rows s B ... s B + B - 1 of an
 * endless list: all rows, again and again, in the order of the files or, shuffled, in a different order each time.  The
 * rows of a step are a function of (seed, step) alone, so that a resumed run takes the rows that it would have taken.
 */
#ifndef APC_RUNTIME_TRAIN_DATASET_H
#define APC_RUNTIME_TRAIN_DATASET_H

#include "runtime/train/train.h"

typedef struct Dataset Dataset;

/* Opens the files and checks that they fit the inputs of the selected entry.  *out is set even after an error; free it
 * with dataset_close. */
ApcStatus dataset_open(ApcModel *m, const DataFiles *files, Dataset **out);
/* Unbinds the inputs and frees the data set; NULL is allowed. */
void dataset_close(ApcModel *m, Dataset *d);

/* Binds the rows of a step, counted from 0. */
ApcStatus dataset_bind(ApcModel *m, Dataset *d, int64_t step);

/* Describes the first float of a step's rows that is not finite: "input 'x' (x.npy: row 5, element [2])"; false if
 * there is none. */
bool dataset_not_finite(const Dataset *d, int64_t step, char *text, size_t size);

/* Identifies the files: a text per input with data, "x.npy, 1968 bytes, hash 0011223344556677".  The texts stay valid
 * until dataset_close. */
typedef struct DataSource {
  const char *input, *text;
} DataSource;
ApcStatus dataset_sources(ApcModel *m, Dataset *d, const DataSource **list, int *n);

/* Returns the tokens of one step: elements of `labels` if these are rows of integers, else those of windows of tokens;
 * 0 if the data are no sequences. */
int64_t dataset_tokens(const Dataset *d);

/* Return the number of rows, and the rows of a step. */
int64_t dataset_rows(const Dataset *d);
int64_t dataset_batch(const Dataset *d);

#endif
