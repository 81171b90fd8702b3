/* runtime/stub/stub.h - shared by the files of a compiled program's command line. */
#ifndef APC_RUNTIME_STUB_STUB_H
#define APC_RUNTIME_STUB_STUB_H

#include <signal.h>
#include <stdbool.h>

#include "runtime/stub/line.h"
#include "runtime/stub/log.h"
#include "runtime/train/train.h"

/* Print an error, stub_fail_model that of the model, and return the exit code. */
int stub_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
int stub_fail_model(const ApcModel *m, ApcStatus status);

/* steps.c.  From here on SIGINT, SIGTERM and SIGUSR1 end a training run after the current step, and so does a standard
 * output without a reader.  Before, while ranks meet and weights are loaded, they end the process. */
void stub_listen(void);
/* Returns the flag that these signals set, for the ranks of a launcher: 1, or 2 for SIGTERM if that means to leave. */
const volatile sig_atomic_t *stub_asked(void);
/* From here on SIGTERM asks this rank to leave the run, which the others go on with. */
void stub_term_leaves(void);

/* Trains, prints the steps as JSON objects or as text, and adds them to the log, which may be NULL; returns the exit
 * code. */
int stub_train(ApcModel *m, Training *t, StepLog *log, bool json);

/* training.c.  For a process that waited for a place in an elastic run until that ended.  It was perhaps a run of
 * another command: an error unless the steps of this command are made.  Returns the exit code. */
int stub_ended_meanwhile(const Line *line, const char *folder);

/* help.c.  Print the options and what this program takes; its name and version; a completion script for a shell.  They
 * return the exit code. */
int stub_help(const char *program);
int stub_version(const char *program);
int stub_completion(const char *program, const char *shell);

#endif
