/* runtime/stub/log.h - the log of a training run: --log FILE.csv, FILE.jsonl or DIR/ (log.c). */
#ifndef APC_RUNTIME_STUB_LOG_H
#define APC_RUNTIME_STUB_LOG_H

#include "runtime/train/train.h"

typedef struct StepLog StepLog;

/* Opens the log before the run; nothing is written or cut yet.  Returns 0, or the exit code after printing the error:
 * APC_USAGE for another ending, APC_BAD_INPUT if the file cannot be written or, when `resumes`, is no such log. */
int stub_log_open(const char *path, bool resumes, StepLog **out);
/* Begins rows after step `made`, with a column for the noise of the gradients if `noise`: rows of later steps, from
 * before a resumed checkpoint, are removed; without --resume all are. */
void stub_log_begin(StepLog *l, int64_t made, bool noise);
/* Add a row.  If it cannot be written, a warning is printed once, and the run continues. */
void stub_log_step(StepLog *l, const StepMade *s);
void stub_log_eval(StepLog *l, const EvalMade *e);
/* Reports how many rows are missing, and frees the log; NULL is allowed. */
void stub_log_close(StepLog *l);

#endif
