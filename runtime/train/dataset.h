/* runtime/train/dataset.h - rows of training data for the steps.
 *
 * Every file is an array whose first dimension counts rows, or windows of tokens (tokens.h), which also provide
 * `labels`, the next tokens, and what follows from documents (documents.h).  Files given for several inputs belong
 * together and have the same number of rows; several such sets, with weights, are a mixture.  Which rows a step takes
 * says order.h.  Threads read the rows of the next step beside the present one (readers.h).
 */
#ifndef APC_RUNTIME_TRAIN_DATASET_H
#define APC_RUNTIME_TRAIN_DATASET_H

#include "runtime/train/train.h"

typedef struct Dataset Dataset;

/* Finds the file in NAME=@FILE or NAME=WEIGHT@FILE; NULL if the text is neither.  *name: bytes of the name; *weight:
 * the weight, -1 if there is none. */
const char *dataset_file(const char *text, size_t *name, double *weight);

/* Opens the files and checks that they fit the inputs of the selected entry.  *out is set even after an error; free it
 * with dataset_close. */
ApcStatus dataset_open(ApcModel *m, const DataFiles *files, Dataset **out);
/* Unbinds the inputs and frees the data set; NULL is allowed. */
void dataset_close(ApcModel *m, Dataset *d);

/* Binds the rows of a step, counted from 0.  A step other than the next one is that of a run from the beginning. */
ApcStatus dataset_bind(ApcModel *m, Dataset *d, int64_t step);

/* Describes the first float of the bound rows that is not finite: "input 'x' (x.npy: row 5, element [2])"; false if
 * there is none. */
bool dataset_not_finite(const Dataset *d, char *text, size_t size);

/* Identifies the files: a text per input with data, "x.npy, 1968 bytes, hash 0011223344556677".  The texts stay valid
 * until dataset_close. */
typedef struct DataSource {
  const char *input, *text;
} DataSource;
ApcStatus dataset_sources(ApcModel *m, Dataset *d, const DataSource **list, int *n);

/* Returns the tokens of one step: elements of `labels` if these are rows of integers, else those of windows of tokens;
 * 0 if the data are no sequences. */
int64_t dataset_tokens(const Dataset *d);

/* Return the number of rows of all sources, the rows of a step, and the steps of an epoch; 0 for a mixture, which has
 * none. */
int64_t dataset_rows(const Dataset *d);
int64_t dataset_batch(const Dataset *d);
int64_t dataset_steps(const Dataset *d);

/* True if steps can have rows that count nothing: their labels are ignored. */
bool dataset_pads(const Dataset *d);

/* Writes the place after the step that was bound last (draw_write; ORDER_TEXT bytes).  Continues at such a place with
 * step `made`; see draw_read. */
void dataset_place(const Dataset *d, char *text, size_t size);
bool dataset_go_to(Dataset *d, int64_t made, const char *text, char *other, size_t size);
/* Continues with step `made` as a run from the beginning would.  False: the rows of a mixture before it are too many to
 * walk through (draw_skip), and all sources begin anew. */
bool dataset_skip(Dataset *d, int64_t made);
/* Goes back to the place after `made` steps: that before or after the step that was bound last, or the one that
 * dataset_go_to has set, or in a new run any. */
void dataset_back(Dataset *d, int64_t made);

#endif
