/* runtime/train/dataset.h - rows of training data for the steps.
 *
 * Every file is an array whose first dimension counts rows, or windows of tokens (tokens.h), which give `labels` as
 * well: what comes next; all have as many rows.  Step s takes rows s B ... s B + B - 1 of
 * an endless list: all rows, again and again, in the order of the files or, shuffled, each time in another one.  Which
 * rows a step takes is a function of (seed, step) alone, so that a run that goes on later takes what it would have
 * taken.
 */
#ifndef APC_RUNTIME_TRAIN_DATASET_H
#define APC_RUNTIME_TRAIN_DATASET_H

#include "runtime/train/train.h"

typedef struct Dataset Dataset;

/* Opens the files and looks whether they fit the inputs of the selected entry. */
ApcStatus dataset_open(ApcModel *m, const DataFiles *files, Dataset **out);
/* Nothing of it is bound any more. */
void dataset_close(ApcModel *m, Dataset *d);

/* Binds the rows of a step, counted from 0. */
ApcStatus dataset_bind(ApcModel *m, Dataset *d, int64_t step);

/* The first number of floats that a step takes and that is not finite: "input 'x' (x.npy: row 5, element [2])"; false:
 * there is none. */
bool dataset_not_finite(const Dataset *d, int64_t step, char *text, size_t size);

/* Which files these are: a text for each input that has one, "x.npy, 1968 bytes, hash 0011223344556677".  The
 * texts stay until dataset_close. */
typedef struct DataSource {
  const char *input, *text;
} DataSource;
ApcStatus dataset_sources(ApcModel *m, Dataset *d, const DataSource **list, int *n);

/* What one step works on: elements of `labels` that are integers (tokens), else rows. */
int64_t dataset_tokens(const Dataset *d);

/* How many rows there are, and how many a step takes. */
int64_t dataset_rows(const Dataset *d);
int64_t dataset_batch(const Dataset *d);

#endif
