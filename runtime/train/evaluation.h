/* runtime/train/evaluation.h - evaluates the present weights on data of their own.
 *
 * Every row counts once.  If labels can be ignored, the rest that fills no batch is padded; otherwise it is left out,
 * with a note.  Besides the loss: the perplexity, e to the mean cross-entropy of a token, and the accuracy, the share
 * of labels whose class has the largest logit.
 */
#ifndef APC_RUNTIME_TRAIN_EVALUATION_H
#define APC_RUNTIME_TRAIN_EVALUATION_H

#include "runtime/train/dataset.h"

/* Opens the evaluation data. */
ApcStatus evaluation_open(ApcModel *m, const Training *t, Dataset **out);
/* Evaluates after a step, and tells the observer. */
ApcStatus evaluation_make(ApcModel *m, const Training *t, Dataset *d, int64_t step, double *loss);

#endif
